/* Fuzz target: TensorProto, SequenceProto and OptionalProto. What is read is written and read
 * again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tensor/file/tensor_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const pl_type types[3] = { { .kind = PL_TYPE_TENSOR },
                                      { .kind = PL_TYPE_SEQUENCE },
                                      { .kind = PL_TYPE_OPTIONAL } };
    if (size == 0) return 0;
    const pl_type *type = &types[data[0] % 3];
    pl_err err = PL_ERR_INIT;
    pl_datum *d = NULL;
    pl_tensor_proto_info info;
    pl_tensor *t = NULL;
    if (pl_datum_proto_read((pl_bytes){ data + 1, size - 1 }, NULL, type, &d, &err) == PL_OK) {
        pl_buf buf = PL_BUF_INIT;
        pl_datum *again = NULL;
        pl_datum_proto_write(&buf, "x", d);
        const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&buf), buf.n_bytes };
        if (pl_datum_proto_read(bytes, NULL, type, &again, &err) != PL_OK) abort();
        if (pl_datum_bytes(d) != pl_datum_bytes(again)) abort();
        if (d->tensor && !pl_tensor_identical(d->tensor, again->tensor)) abort();
        pl_datum_unref(again);
        pl_buf_release(&buf);
    }
    if (pl_tensor_proto_read((pl_bytes){ data + 1, size - 1 }, NULL, &info, &t, &err) == PL_OK)
        pl_tensor_unref(t);
    pl_datum_unref(d);
    return 0;
}

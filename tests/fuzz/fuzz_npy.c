/* Fuzz target: npy. What is read and can be written is read again and must be the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tensor/file/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL, *again = NULL;
    pl_buf buf = PL_BUF_INIT;
    if (pl_npy_read((pl_bytes){ data, size }, NULL, &t, &err) == PL_OK &&
        pl_npy_write(&buf, t, &err) == PL_OK) {
        const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&buf), buf.n_bytes };
        if (pl_npy_read(bytes, NULL, &again, &err) != PL_OK) abort();
        if (!pl_tensor_identical(t, again)) abort();
    }
    pl_buf_release(&buf);
    pl_tensor_unref(t);
    pl_tensor_unref(again);
    return 0;
}

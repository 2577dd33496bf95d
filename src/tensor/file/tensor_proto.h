/* ONNX TensorProto (onnx.proto) and SequenceProto, OptionalProto (onnx-data.proto): the form of
 * initializers, of attributes and of the input_N.pb files of ONNX test data.
 *
 * Data is raw_data or the typed field of the element type, packed or not; counts must agree with
 * dims. Segments, sparse tensors and maps are PL_E_UNSUPPORTED. */
#ifndef PL_TENSOR_PROTO_H
#define PL_TENSOR_PROTO_H

#include "tensor/datum.h"
#include "tensor/file/raw.h"

/* Contents of a TensorProto besides its elements. Bytes are borrowed from the message. */
typedef struct pl_tensor_proto_info {
    pl_bytes name;
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX];
    bool is_external;                /* data_location = EXTERNAL: no tensor is returned */
    pl_bytes ext_location;           /* file name relative to the model */
    uint64_t ext_offset, ext_length; /* offset 0 and length UINT64_MAX (to the end) when absent */
} pl_tensor_proto_info;

/* `map` (may be NULL) lets raw_data be used in place. `info` may be NULL. With external data *out
 * is NULL and the caller reads the bytes by `info` and pl_tensor_from_raw; without `info` that is
 * PL_E_UNSUPPORTED. */
pl_status pl_tensor_proto_read(pl_bytes bytes, pl_file_map *map, pl_tensor_proto_info *info,
                               pl_tensor **out, pl_err *err);
/* raw_data, or string_data for strings. name may be NULL. Sticky: check pl_buf_ok. */
void pl_tensor_proto_write(pl_buf *buf, const char *name, const pl_tensor *t);

/* The message does not say what it is, so `type` does (NULL: a tensor): by its kind and, for an
 * empty sequence or optional, its element type. */
pl_status pl_datum_proto_read(pl_bytes bytes, pl_file_map *map, const pl_type *type, pl_datum **out,
                              pl_err *err);
void pl_datum_proto_write(pl_buf *buf, const char *name, const pl_datum *d);

#endif

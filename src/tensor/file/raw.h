/* Elements as stored in files: little-endian and contiguous, sub-byte types packed low bits first
 * (two 4-bit or four 2-bit elements to a byte, the last byte padded with zeros). This is ONNX's
 * raw_data and external data; npy and safetensors hold the same bytes for the types they know.
 * Strings have no raw form. */
#ifndef PL_RAW_H
#define PL_RAW_H

#include "base/buf.h"
#include "base/wire.h"
#include "tensor/tensor.h"

/* Bytes of n elements in a file; false on overflow, a negative count or strings. */
bool pl_raw_size(pl_dtype dtype, int64_t n_elements, size_t *out);
/* One byte per element in memory from packed bytes, and back. Only for types below 8 bits. */
void pl_raw_unpack(pl_dtype dtype, const uint8_t *from, void *to, int64_t n_elements);
void pl_raw_pack(pl_dtype dtype, const void *from, uint8_t *to, int64_t n_elements);

/* The size of `raw` must be exactly that of the shape (else PL_E_FORMAT). With `map` the tensor
 * uses the bytes in place and keeps the map alive, if they are inside the map and need no
 * unpacking; otherwise they are copied. */
pl_status pl_tensor_from_raw(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes raw,
                             pl_file_map *map, pl_tensor **out, pl_err *err);
/* The same for bytes as in memory, sub-byte types one element per byte: those are copied, and a
 * byte that is not a value of the type is PL_E_FORMAT. The others must be inside `map`. */
pl_status pl_tensor_from_dense(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes dense,
                               pl_file_map *map, pl_tensor **out, pl_err *err);
/* Appends the raw form of a tensor, strided or not; sticky like pl_buf. Not for strings. */
void pl_tensor_put_raw(pl_buf *buf, const pl_tensor *t);

#endif

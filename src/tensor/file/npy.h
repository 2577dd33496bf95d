/* NumPy's .npy files, versions 1.0 to 3.0 (numpy/lib/format.py describes them).
 *
 * Any byte order, C or Fortran order; bool, integers, float16/32/64 and complex64/128 become
 * tensors of the same type, 'U' and 'S' arrays become strings (UTF-8). Other types are
 * PL_E_UNSUPPORTED by name; Python objects are never unpickled. */
#ifndef PL_NPY_H
#define PL_NPY_H

#include "base/buf.h"
#include "base/wire.h"
#include "tensor/tensor.h"

bool pl_npy_sniff(const void *data, size_t n_bytes);
/* With `map` little-endian C-order data is used in place. The array must fill the file exactly. */
pl_status pl_npy_read(pl_bytes bytes, pl_file_map *map, pl_tensor **out, pl_err *err);
/* The header of version 1.0, a multiple of 64 bytes; the raw elements follow. PL_E_UNSUPPORTED for
 * types that npy lacks (bfloat16, float8, 4 bits and less, strings). */
pl_status pl_npy_put_header(pl_buf *buf, const pl_tensor *t, pl_err *err);
pl_status pl_npy_write(pl_buf *buf, const pl_tensor *t, pl_err *err); /* header and elements */

#endif

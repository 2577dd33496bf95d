/* NumPy's .npz archives: a zip of .npy files, one tensor each, named without the suffix. */
#ifndef PL_NPZ_H
#define PL_NPZ_H

#include "tensor/file/npy.h"

/* `name` is borrowed for the call; the callee takes the tensor. A failure stops reading. */
typedef pl_status (*pl_npz_visit)(void *ctx, const char *name, pl_tensor *t, pl_err *err);

/* Calls `visit` for each entry in order. `map` (may be NULL) lets stored entries be used in place.
 * Names that occur twice and entries that are not .npy files are refused. */
pl_status pl_npz_read(pl_bytes bytes, pl_file_map *map, pl_npz_visit visit_take, void *ctx,
                      pl_err *err);
/* Stored entries, in the order given. */
pl_status pl_npz_write(const char *path, const char *const *names, const pl_tensor *const *tensors,
                       size_t n, pl_err *err);

#endif

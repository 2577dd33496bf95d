/* PyTorch's checkpoints and tensor dumps (.pt, .pth, .ckpt of torch.save since 1.6): a zip archive
 * with a pickle that describes tensors, and one entry for each storage.
 *
 * Nothing is executed. Supported are tensors, parameters, dicts, lists, tuples and numbers. Nested
 * ones are named "a.b.0", numbers become scalars, strings and None are skipped. Anything else is
 * PL_E_UNSUPPORTED with the name of the Python class and its path. */
#ifndef PL_PT_H
#define PL_PT_H

#include "base/wire.h"
#include "tensor/file/npz.h"

/* Is it a file of torch: a zip archive with a data.pkl, or an old format, which pl_pt_read rejects
 * by name? */
bool pl_pt_sniff(pl_bytes bytes);
/* Calls `visit` for each tensor in the order of the file; a tensor that is the whole file is named
 * "". With `map` (may be NULL) storages are used in place. Tensors are contiguous. */
pl_status pl_pt_read(pl_bytes bytes, pl_file_map *map, pl_npz_visit visit_take, void *ctx,
                     pl_err *err);

#endif

/* Any file of tensors: npy, npz, safetensors, GGUF, PyTorch's (.pt) or a TensorProto (.pb),
 * recognised by content when reading and by suffix when writing; GGUF and .pt are read-only. */
#ifndef PL_TENSOR_FILE_H
#define PL_TENSOR_FILE_H

#include "base/door.h"
#include "tensor/datum.h"

typedef struct pl_named_datum {
    char *name; /* "" when the file names nothing (npy, an unnamed TensorProto) */
    pl_datum *datum;
} pl_named_datum;

typedef struct pl_tensor_file {
    pl_named_datum *items; /* in the order of the file */
    size_t n_items;
} pl_tensor_file;

#define PL_TENSOR_FILE_INIT                                                                        \
    { NULL, 0 }

/* `type` (may be NULL: a tensor) says what a .pb file contains, because the file does not. */
pl_status pl_tensor_file_load(const char *path, const pl_type *type, pl_tensor_file *out,
                              pl_err *err);
/* The same in an open folder. */
pl_status pl_tensor_file_load_in(const pl_dir *dir, const char *name, const pl_type *type,
                                 pl_tensor_file *out, pl_err *err);
void pl_tensor_file_release(pl_tensor_file *file);

/* .npy and .pb hold one datum, .npz and .safetensors any number of tensors. Another suffix is
 * PL_E_USAGE; what a format cannot hold is PL_E_UNSUPPORTED. */
pl_status pl_tensor_file_save(const char *path, const pl_named_datum *items, size_t n_items,
                              pl_err *err);

#endif

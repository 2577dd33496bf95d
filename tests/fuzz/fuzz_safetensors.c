/* Fuzz target: safetensors; every tensor is read and every byte of it touched. */
#include <stddef.h>
#include <stdint.h>

#include "tensor/file/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_safetensors *file = NULL;
    pl_file_map map = {
        data, size, NULL, 1, false, NULL
    }; /* lives here: its count never reaches 0 */
    if (pl_safetensors_open(&map, &file, &err) != PL_OK) return 0;
    for (size_t i = 0; i < file->n_entries; i++) {
        pl_tensor *t = NULL, *copy = NULL;
        if (pl_safetensors_read(file, &file->entries[i], &t, &err) == PL_OK &&
            pl_tensor_copy(t, &copy, &err) == PL_OK)
            pl_tensor_unref(copy);
        pl_tensor_unref(t);
    }
    pl_safetensors_close(file);
    return 0;
}

/* Fuzz target: npz, that is zip with npy inside. */
#include <stddef.h>
#include <stdint.h>

#include "tensor/file/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pl_status drop_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    (void)err;
    *(size_t *)ctx += pl_tensor_bytes(t) + (name[0] != '\0');
    pl_tensor_unref(t);
    return PL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    size_t n = 0;
    (void)pl_npz_read((pl_bytes){ data, size }, NULL, drop_take, &n, &err);
    return 0;
}

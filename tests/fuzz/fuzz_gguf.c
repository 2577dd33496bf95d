/* Fuzz target: GGUF files. Every tensor is read and every value of the metadata printed; the bytes
 * are also blocks of every type. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tensor/file/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as_blocks(const uint8_t *data, size_t size) {
    float out[256];
    for (size_t i = 0; pl_gguf_type_at(i) != NULL; i++) {
        const pl_gguf_type *type = pl_gguf_type_at(i);
        if (type->expand != NULL && size >= type->n_bytes) type->expand(data, out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_gguf *file = NULL;
    pl_file_map map = {
        data, size, NULL, 1, false, NULL
    }; /* lives here: its count never reaches 0 */
    read_as_blocks(data, size);
    if (pl_gguf_open(&map, &file, &err) != PL_OK) return 0;
    pl_buf text = PL_BUF_INIT;
    for (size_t i = 0; i < file->n_metadata; i++) {
        pl_gguf_put_value(&text, &file->metadata[i], 4);
        if (pl_gguf_find(file, file->metadata[i].key) != &file->metadata[i]) __builtin_trap();
    }
    pl_buf_release(&text);
    for (size_t i = 0; i < file->n_entries; i++) {
        pl_tensor *t = NULL;
        if (pl_gguf_read(file, &file->entries[i], &t, &err) == PL_OK) pl_tensor_unref(t);
    }
    pl_gguf_close(file);
    return 0;
}

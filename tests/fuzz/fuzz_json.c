/* Fuzz target: the JSON reader. */
#include <stddef.h>
#include <stdint.h>

#include "base/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    const pl_json_value *value = NULL;
    pl_arena *arena = pl_arena_new();
    if (arena && pl_json_read((const char *)data, size, arena, &value, &err) == PL_OK)
        (void)pl_json_find(value, "a");
    pl_arena_free(arena);
    return 0;
}

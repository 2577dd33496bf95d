/* Fuzz target: which node ran where: ONNX Runtime's profile, the lines that are made of it or come
 * from a plugin, and the same in a session's JSON. */
#include <stddef.h>
#include <stdint.h>

#include "backends/ort/ort_int.h"
#include "backends/placement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_lines(const char *text, pl_arena *arena) {
    pl_err err = PL_ERR_INIT;
    pl_buf told = PL_BUF_INIT;
    pl_placement placement = { 0 }, copy = { 0 };
    if (pl_placement_parse(text, arena, &placement, &err) == PL_OK &&
        pl_placement_copy(&placement, arena, &copy) == PL_OK)
        pl_placement_put_text(&copy, &told);
    pl_buf_release(&told);
}

static void read_json(const char *text, size_t n, pl_arena *arena) {
    pl_err err = PL_ERR_INIT;
    pl_buf told = PL_BUF_INIT;
    pl_placement placement = { 0 };
    const pl_json_value *root = NULL;
    if (pl_json_read(text, n, arena, &root, &err) == PL_OK &&
        pl_placement_read_json(root, arena, &placement, &err) == PL_OK)
        pl_placement_put_text(&placement, &told);
    pl_buf_release(&told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_buf lines = PL_BUF_INIT;
    pl_arena *arena = pl_arena_new();
    char *text = pl_arena_strndup(arena, (const char *)data, size);
    read_lines(text, arena);
    read_json(text, size, arena);
    if (pl_ort_places_parse((const char *)data, size, &lines, &err) == PL_OK && pl_buf_ok(&lines))
        read_lines(pl_buf_str(&lines), arena);
    pl_buf_release(&lines);
    pl_arena_free(arena);
    return 0;
}

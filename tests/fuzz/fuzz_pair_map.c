/* Fuzz target: maps of pairs, applied to two small sides; and the recorded graph that a side is
 * built from. What is printed must read back. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "pair/layout.h"
#include "pair/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pl_pair_item item(const char *name) {
    return (pl_pair_item){ .name = name,
                           .value = "",
                           .graph = "",
                           .op = "",
                           .module = "",
                           .source = "",
                           .has_shape = true,
                           .dtype = PL_F32,
                           .rank = 1,
                           .dims = { 4 } };
}

static void pair_with(const pl_pair_map *map, const char *graph) {
    const pl_pair_item a[] = { item("x"), item("h"), item("y") };
    const pl_pair_item b[] = { item("x"), item("g"), item("y") };
    const pl_pair_side side_a = { .items = a, .n_items = 3, .graph_json = graph };
    const pl_pair_side side_b = { .items = b, .n_items = 3, .graph_json = graph };
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    pl_err err = PL_ERR_INIT;
    pl_pairing p;
    options.map = map;
    if (pl_pair_values(&side_a, &side_b, &options, &p, &err) != PL_OK) return;
    pl_buf text = PL_BUF_INIT;
    pl_pair_map again;
    if (pl_pair_map_print(&p, &side_a, &side_b, &text, &err) != PL_OK) __builtin_trap();
    if (pl_pair_map_read(pl_buf_str(&text), text.n_bytes, "printed", &again, &err) != PL_OK)
        __builtin_trap();
    if (again.n_rows != p.n_pairs) __builtin_trap();
    pl_pair_map_release(&again);
    pl_buf_release(&text);
    pl_pairing_release(&p);
}

/* The map's shards on a small recording of two ranks: on either side, and every record read. */
static void expand(pl_pair_map *map) {
    static const char header[] =
        "{\"rank0/y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"rank1/y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";
    uint8_t bytes[8 + sizeof header - 1 + 16] = { sizeof header - 1 };
    pl_file_map file = { bytes, sizeof bytes, NULL, 1, false, NULL };
    pl_err err = PL_ERR_INIT;
    memcpy(bytes + 8, header, sizeof header - 1);
    for (int side = 0; side < 2; side++) {
        pl_recording *rec = NULL;
        if (pl_recording_open_map(&file, "two.safetensors", &rec, &err) != PL_OK) __builtin_trap();
        (void)pl_pair_map_expand(map, side, rec, &err);
        for (size_t i = 0; i < rec->n_records; i++) {
            pl_tensor *t = NULL;
            if (pl_recording_read(rec, &rec->records[i], &t, &err) == PL_OK) pl_tensor_unref(t);
        }
        pl_recording_close(rec);
    }
}

static void apply_layout(const char *text) {
    const int64_t dims[] = { 1, 2, 3, 2 }, other[] = { 1, 3, 2, 2 };
    pl_tensor *a = NULL, *b = NULL, *x = NULL, *y = NULL;
    if (pl_tensor_new_zero(PL_F32, 4, dims, &a, NULL) == PL_OK &&
        pl_tensor_new_zero(PL_F32, 4, other, &b, NULL) == PL_OK &&
        pl_layout_apply(text, a, b, &x, &y, NULL) == PL_OK && !pl_tensor_same_shape(x, y))
        __builtin_trap();
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_pair_map map;
    char *text = pl_strndup((const char *)data, size);
    if (text == NULL) return 0;
    if (pl_pair_map_read((const char *)data, size, "fuzz", &map, &err) == PL_OK) {
        pair_with(&map, NULL);
        expand(&map);
        pl_pair_map_release(&map);
    }
    pair_with(NULL, text);
    apply_layout(text);
    pl_free(text);
    return 0;
}

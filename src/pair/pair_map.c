/* The user's map: reading, printing, applying. docs/formats/map.md has the format. */
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "pair/pair_int.h"

enum { MAP_VERSION = 1 };

static pl_status read_name(const pl_json_value *row, const char *key, size_t number,
                           const char **out, pl_err *err) {
    const pl_json_value *v = pl_json_find(row, key);
    *out = NULL;
    if (v == NULL || v->kind == PL_JSON_NULL) return PL_OK;
    if (v->kind != PL_JSON_STRING)
        return pl_fail(err, PL_E_FORMAT, "pair %zu: '%s' is %s, expected a name or null", number,
                       key, pl_json_kind_name(v->kind));
    if (strlen(v->string) != v->n_string)
        return pl_fail(err, PL_E_FORMAT, "pair %zu: the name in '%s' contains a NUL byte", number,
                       key);
    *out = v->string;
    return PL_OK;
}

static pl_status read_row(const pl_json_value *row, size_t number, pl_pair_map_row *out,
                          pl_err *err) {
    if (row->kind != PL_JSON_OBJECT)
        return pl_fail(err, PL_E_FORMAT, "pair %zu is %s, expected an object", number,
                       pl_json_kind_name(row->kind));
    PL_TRY(read_name(row, "a", number, &out->a, err));
    PL_TRY(read_name(row, "b", number, &out->b, err));
    PL_TRY(read_name(row, "layout", number, &out->layout, err));
    if (out->layout == NULL) out->layout = "";
    if (out->a == NULL && out->b == NULL)
        return pl_fail(err, PL_E_FORMAT, "pair %zu has neither 'a' nor 'b'", number);
    return PL_OK;
}

static pl_status read_shards(const pl_json_value *shards, pl_pair_map *out, pl_err *err) {
    if (shards == NULL) return PL_OK;
    out->shards = pl_arena_array(out->arena, shards->n_items, sizeof *out->shards);
    if (out->shards == NULL) return pl_fail_memory(err, shards->n_items);
    for (const pl_json_value *v = shards->first; v != NULL; v = v->next) {
        pl_pair_shards *s = &out->shards[out->n_shards++];
        pl_status st = PL_OK;
        if (v->kind != PL_JSON_OBJECT)
            st = pl_fail(err, PL_E_FORMAT, "it is %s, expected an object",
                         pl_json_kind_name(v->kind));
        if (st == PL_OK) st = read_name(v, "a", out->n_shards, &s->a, err);
        if (st == PL_OK) st = read_name(v, "b", out->n_shards, &s->b, err);
        if (st == PL_OK) st = read_name(v, "rule", out->n_shards, &s->rule, err);
        if (st == PL_OK && (s->a == NULL || s->b == NULL || s->rule == NULL))
            st = pl_fail(err, PL_E_FORMAT, "'a', 'b' or 'rule' is missing");
        if (st != PL_OK) return pl_err_wrap(err, st, "shards %zu", out->n_shards);
    }
    return PL_OK;
}

static pl_status read_map(const char *text, size_t n, pl_pair_map *out, pl_err *err) {
    const pl_json_value *doc = NULL;
    PL_TRY(pl_json_read(text, n, out->arena, &doc, err));
    const pl_json_value *version = pl_json_find(doc, "plumb.map");
    const pl_json_value *pairs = pl_json_find(doc, "pairs");
    const pl_json_value *shards = pl_json_find(doc, "shards");
    if (version == NULL || (pairs == NULL && shards == NULL) ||
        (pairs != NULL && pairs->kind != PL_JSON_ARRAY) ||
        (shards != NULL && shards->kind != PL_JSON_ARRAY))
        return pl_fail(err, PL_E_FORMAT,
                       "not a map: expected an object with \"plumb.map\": %d and "
                       "an array \"pairs\"",
                       MAP_VERSION);
    if (!version->is_integer || version->integer != MAP_VERSION)
        return pl_fail(err, PL_E_UNSUPPORTED, "unsupported map version, expected %d", MAP_VERSION);
    for (const pl_json_value *v = pairs == NULL ? NULL : pairs->first; v != NULL; v = v->next) {
        if (!PL_ARENA_ROOM(out->arena, out->rows, out->n_rows, &out->rows_capacity))
            return pl_fail_memory(err, out->n_rows);
        PL_TRY(read_row(v, out->n_rows + 1, &out->rows[out->n_rows], err));
        out->n_rows++;
    }
    return read_shards(shards, out, err);
}

pl_status pl_pair_map_new(pl_pair_map *out, pl_err *err) {
    *out = (pl_pair_map){ .arena = pl_arena_new() };
    return out->arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_pair_map_bar(pl_pair_map *map, int side, const char *name, pl_err *err) {
    const char *copy = pl_arena_strdup(map->arena, name);
    if (copy == NULL || !PL_ARENA_ROOM(map->arena, map->rows, map->n_rows, &map->rows_capacity))
        return pl_fail_memory(err, map->n_rows);
    map->rows[map->n_rows++] = (pl_pair_map_row){ .a = side == 0 ? copy : NULL,
                                                  .b = side == 0 ? NULL : copy,
                                                  .layout = "" };
    return PL_OK;
}

pl_status pl_pair_map_read(const char *text, size_t n, const char *name, pl_pair_map *out,
                           pl_err *err) {
    PL_TRY(pl_pair_map_new(out, err));
    const pl_status st = read_map(text, n, out, err);
    if (st == PL_OK) return PL_OK;
    pl_pair_map_release(out);
    return pl_err_wrap(err, st, "map '%s'", name);
}

pl_status pl_pair_map_open(const char *path, pl_pair_map *out, pl_err *err) {
    pl_file_map *map = NULL;
    *out = (pl_pair_map){ 0 };
    PL_TRY(pl_file_map_open(path, &map, err));
    const pl_status st = pl_pair_map_read((const char *)map->data, map->n_bytes, path, out, err);
    pl_file_map_unref(map);
    return st;
}

void pl_pair_map_release(pl_pair_map *map) {
    pl_arena_free(map->arena);
    *map = (pl_pair_map){ 0 };
}

/* ---- printing: one pair a line, so that it can be edited and compared ---- */

static void print_row(pl_buf *out, bool *first, const char *a, const char *b, const pl_pair *pair) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "a", a);
    pl_json_put_string(&j, "b", b);
    if (*pair->layout != '\0') pl_json_put_string(&j, "layout", pair->layout);
    pl_json_put_string(&j, "by", pair->method);
    pl_json_put_double(&j, "confidence", pair->confidence);
    pl_json_object_end(&j);
    pl_buf_printf(out, "%s\n    ", *first ? "" : ",");
    pl_buf_puts(out, pl_buf_str(&line));
    if (!pl_buf_ok(&line)) out->failed = true;
    pl_buf_release(&line);
    *first = false;
}

static void print_unpaired(pl_buf *out, const pl_unpaired *list, size_t n, const pl_pair_side *side,
                           const char *key, const char *end) {
    pl_buf_printf(out, "  \"unpaired_%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        pl_json j;
        pl_buf_printf(out, "%s\n    ", i == 0 ? "" : ",");
        pl_json_init(&j, out, false);
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "value", side->items[list[i].item].name);
        pl_json_put_string(&j, "reason", list[i].reason);
        pl_json_object_end(&j);
    }
    pl_buf_printf(out, "%s]%s\n", n == 0 ? "" : "\n  ", end);
}

pl_status pl_pair_map_print(const pl_pairing *pairing, const pl_pair_side *a, const pl_pair_side *b,
                            pl_buf *out, pl_err *err) {
    bool first = true;
    pl_buf_printf(out, "{\n  \"plumb.map\": %d,\n  \"pairs\": [", MAP_VERSION);
    for (size_t i = 0; i < pairing->n_pairs; i++) {
        const pl_pair *p = &pairing->pairs[i];
        print_row(out, &first, a->items[p->a].name, b->items[p->b].name, p);
    }
    pl_buf_printf(out, "%s],\n", first ? "" : "\n  ");
    print_unpaired(out, pairing->unpaired_a, pairing->n_unpaired_a, a, "a", ",");
    print_unpaired(out, pairing->unpaired_b, pairing->n_unpaired_b, b, "b", "");
    pl_buf_puts(out, "}\n");
    return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, out->n_bytes);
}

/* ---- applying ---- */

static pl_status find_item(const pl_pair_state *s, int side, const char *name, uint32_t *out,
                           pl_err *err) {
    const uintptr_t found = (uintptr_t)pl_strmap_get(&s->names[side], name);
    if (found == 0)
        return pl_fail(err, PL_E_NOT_FOUND, "the map names '%s', which %s does not have", name,
                       side == 0 ? "A" : "B");
    *out = (uint32_t)(found - 1);
    return PL_OK;
}

static pl_status apply_row(pl_pair_state *s, const pl_pair_map_row *row, pl_err *err) {
    uint32_t at[PL_PAIR_SIDES] = { 0, 0 };
    if (row->a != NULL) PL_TRY(find_item(s, 0, row->a, &at[0], err));
    if (row->b != NULL) PL_TRY(find_item(s, 1, row->b, &at[1], err));
    if (row->a == NULL || row->b == NULL) {
        const int side = row->a == NULL;
        s->barred[side][at[side]] = true;
        return pl_pair_note(s, side, at[side], err, "no counterpart, according to the map");
    }
    PL_TRY(pl_pair_add(s, at[0], at[1], PL_PAIR_MAP, 1, "the user's map", err));
    if (*row->layout == '\0' || s->n_pairs == 0) return PL_OK;
    char *layout = pl_arena_strdup(s->arena, row->layout);
    if (layout == NULL) return pl_fail_memory(err, 1);
    s->pairs[s->n_pairs - 1].layout = layout;
    return PL_OK;
}

pl_status pl_pair_by_map(pl_pair_state *s, pl_err *err) {
    const pl_pair_map *map = s->options.map;
    for (size_t i = 0; map != NULL && i < map->n_rows; i++)
        PL_TRY(apply_row(s, &map->rows[i], err));
    return PL_OK;
}

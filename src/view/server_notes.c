/* Pins, notes and accepted divergences: what a person adds to a session, in SESSION/notes.json.
 *
 *     { "pins": ["value", …], "notes": { "value": "text", … }, "accepted": ["value", …] }
 *
 * The page sends the whole; it is checked and written again by us, never as it came. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "view/server_int.h"

enum { NOTES_MAX = 10000 };

static char *notes_path(const pl_server *s) {
    if (s->viewed == NULL || !pl_path_is_dir(pl_viewed_path(s->viewed))) return NULL;
    return pl_path_join(pl_viewed_path(s->viewed), "notes.json");
}

static pl_status put_list(pl_json *j, const char *key, const pl_json_value *list, pl_err *err) {
    pl_json_key(j, key);
    pl_json_array_begin(j);
    if (list != NULL) {
        if (list->kind != PL_JSON_ARRAY || list->n_items > NOTES_MAX)
            return pl_fail(err, PL_E_FORMAT, "notes: '%s' is not a list of names", key);
        for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
            if (v->kind != PL_JSON_STRING)
                return pl_fail(err, PL_E_FORMAT, "notes: '%s' holds something else than names",
                               key);
            pl_json_string_n(j, v->string, v->n_string);
        }
    }
    pl_json_array_end(j);
    return PL_OK;
}

static pl_status put_notes(pl_json *j, const pl_json_value *notes, pl_err *err) {
    pl_json_key(j, "notes");
    pl_json_object_begin(j);
    if (notes != NULL) {
        if (notes->kind != PL_JSON_OBJECT || notes->n_items > NOTES_MAX)
            return pl_fail(err, PL_E_FORMAT, "notes: 'notes' is not an object");
        for (const pl_json_value *v = notes->first; v != NULL; v = v->next) {
            if (v->kind != PL_JSON_STRING || strlen(v->key) != v->n_key)
                return pl_fail(err, PL_E_FORMAT, "notes: a note is not text");
            pl_json_key(j, v->key);
            pl_json_string_n(j, v->string, v->n_string);
        }
    }
    pl_json_object_end(j);
    return PL_OK;
}

/* Reads what may be anything and writes what it means. */
static pl_status rewrite(const char *text, size_t n, pl_buf *out, pl_err *err) {
    pl_arena *arena = pl_arena_new();
    const pl_json_value *root = NULL;
    pl_json j;
    if (arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_json_read(text, n, arena, &root, err);
    if (st == PL_OK && root->kind != PL_JSON_OBJECT)
        st = pl_fail(err, PL_E_FORMAT, "notes: this is no object");
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    if (st == PL_OK) st = put_list(&j, "pins", pl_json_find(root, "pins"), err);
    if (st == PL_OK) st = put_list(&j, "accepted", pl_json_find(root, "accepted"), err);
    if (st == PL_OK) st = put_notes(&j, pl_json_find(root, "notes"), err);
    pl_json_object_end(&j);
    pl_arena_free(arena);
    if (st == PL_OK && !pl_buf_ok(out)) st = pl_fail_memory(err, n);
    return st;
}

pl_status pl_notes_get(const pl_server *s, pl_buf *out, pl_err *err) {
    pl_file_map *map = NULL;
    char *path = notes_path(s);
    if (path == NULL || !pl_path_exists(path)) {
        pl_free(path);
        pl_buf_puts(out, "{}");
        return PL_OK;
    }
    pl_status st = pl_file_map_open(path, &map, err);
    if (st == PL_OK) st = rewrite((const char *)map->data, map->n_bytes, out, err);
    pl_file_map_unref(map);
    pl_free(path);
    return st;
}

pl_status pl_notes_put(const pl_server *s, const char *text, size_t n, pl_err *err) {
    pl_buf out = PL_BUF_INIT;
    char *path = notes_path(s);
    if (path == NULL) return pl_fail(err, PL_E_NOT_FOUND, "no session folder is open");
    pl_status st = rewrite(text, n, &out, err);
    if (st == PL_OK) st = pl_file_write(path, out.data, out.n_bytes, err);
    pl_buf_release(&out);
    pl_free(path);
    return st;
}

/* Pins, notes, manual pairs and accepted divergences: what a user adds to a session, in
 * SESSION/notes.json.
 *
 *     { "pins": ["value", …], "accepted": ["value", …], "notes": { "value": "text", … },
 *       "pairs": [ { "a": "value of A", "b": "value of B, or null" }, … ] }
 *
 * The page sends everything; it is checked and rewritten, never stored as received. map.json and
 * baseline.json beside it hold the same for later runs. */
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "session/baseline.h"
#include "view/server_int.h"

enum { NOTES_MAX = 10000 };

/* The folder of the session; NULL when there is none. */
static const pl_dir *notes_dir(const pl_server *s) {
    return s->viewed == NULL ? NULL : pl_viewed_dir(s->viewed);
}

char *pl_notes_file(const pl_server *s, const char *name) {
    const pl_dir *dir = notes_dir(s);
    if (dir == NULL || pl_dir_look(dir, name, NULL) != PL_KIND_FILE) return NULL;
    return pl_path_join(pl_dir_path(dir), name);
}

bool pl_notes_any(const pl_server *s) {
    char *map = pl_notes_file(s, "map.json"), *baseline = pl_notes_file(s, "baseline.json");
    const bool any = map != NULL || baseline != NULL;
    pl_free(map);
    pl_free(baseline);
    return any;
}

/* ---- reading what may be anything ---- */

static bool is_text(const pl_json_value *v) {
    return v != NULL && v->kind == PL_JSON_STRING;
}

static pl_status check_list(const pl_json_value *list, const char *key, pl_json_kind kind,
                            pl_err *err) {
    if (list == NULL) return PL_OK;
    if (list->kind != PL_JSON_ARRAY || list->n_items > NOTES_MAX)
        return pl_fail(err, PL_E_FORMAT, "notes: '%s' is not a list", key);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next)
        if (v->kind != kind)
            return pl_fail(err, PL_E_FORMAT, "notes: '%s' contains an invalid entry", key);
    return PL_OK;
}

static bool is_side(const pl_json_value *v) {
    return v == NULL || v->kind == PL_JSON_NULL || v->kind == PL_JSON_STRING;
}

static pl_status check_pairs(const pl_json_value *list, pl_err *err) {
    PL_TRY(check_list(list, "pairs", PL_JSON_OBJECT, err));
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next) {
        const pl_json_value *a = pl_json_find(v, "a"), *b = pl_json_find(v, "b");
        if (!is_side(a) || !is_side(b) || (!is_text(a) && !is_text(b)))
            return pl_fail(err, PL_E_FORMAT,
                           "notes: a pair requires two names, or one name and null");
    }
    return PL_OK;
}

static pl_status check_notes(const pl_json_value *notes, pl_err *err) {
    if (notes == NULL) return PL_OK;
    if (notes->kind != PL_JSON_OBJECT || notes->n_items > NOTES_MAX)
        return pl_fail(err, PL_E_FORMAT, "notes: 'notes' is not an object");
    for (const pl_json_value *v = notes->first; v != NULL; v = v->next)
        if (v->kind != PL_JSON_STRING || strlen(v->key) != v->n_key)
            return pl_fail(err, PL_E_FORMAT, "notes: a note is not a string");
    return PL_OK;
}

static pl_status read_notes(const char *text, size_t n, pl_arena *arena, const pl_json_value **out,
                            pl_err *err) {
    const pl_json_value *root = NULL;
    PL_TRY(pl_json_read(text, n, arena, &root, err));
    if (root->kind != PL_JSON_OBJECT) return pl_fail(err, PL_E_FORMAT, "notes: not an object");
    PL_TRY(check_list(pl_json_find(root, "pins"), "pins", PL_JSON_STRING, err));
    PL_TRY(check_list(pl_json_find(root, "accepted"), "accepted", PL_JSON_STRING, err));
    PL_TRY(check_notes(pl_json_find(root, "notes"), err));
    PL_TRY(check_pairs(pl_json_find(root, "pairs"), err));
    *out = root;
    return PL_OK;
}

/* ---- writing what it means ---- */

static void put_text(pl_json *j, const pl_json_value *v) {
    if (is_text(v)) {
        pl_json_string_n(j, v->string, v->n_string);
    } else {
        pl_json_null(j);
    }
}

static void put_list(pl_json *j, const pl_json_value *root, const char *key) {
    const pl_json_value *list = pl_json_find(root, key);
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next)
        put_text(j, v);
    pl_json_array_end(j);
}

static void put_pairs(pl_json *j, const pl_json_value *root) {
    const pl_json_value *list = pl_json_find(root, "pairs");
    pl_json_key(j, "pairs");
    pl_json_array_begin(j);
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next) {
        pl_json_object_begin(j);
        pl_json_key(j, "a");
        put_text(j, pl_json_find(v, "a"));
        pl_json_key(j, "b");
        put_text(j, pl_json_find(v, "b"));
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_notes(pl_json *j, const pl_json_value *root) {
    const pl_json_value *notes = pl_json_find(root, "notes");
    pl_json_object_begin(j);
    put_list(j, root, "pins");
    put_list(j, root, "accepted");
    pl_json_key(j, "notes");
    pl_json_object_begin(j);
    for (const pl_json_value *v = notes == NULL ? NULL : notes->first; v != NULL; v = v->next) {
        pl_json_key(j, v->key);
        put_text(j, v);
    }
    pl_json_object_end(j);
    put_pairs(j, root);
    pl_json_object_end(j);
}

static void put_map(const pl_json_value *root, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb.map", 1);
    put_pairs(&j, root);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static pl_status put_baseline(const pl_server *s, const pl_json_value *root, pl_arena *arena,
                              pl_buf *out, pl_err *err) {
    const pl_json_value *list = pl_json_find(root, "accepted");
    const size_t n = list == NULL ? 0 : list->n_items;
    const char **values = pl_arena_array(arena, n + 1, sizeof *values);
    size_t k = 0;
    if (values == NULL) return pl_fail_memory(err, n);
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next)
        values[k++] = v->string;
    pl_baseline_put_values(pl_viewed_session(s->viewed), values, k, out);
    return PL_OK;
}

/* ---- the files ---- */

/* The notes of the session; an empty object when there are none. */
static pl_status load(const pl_server *s, pl_arena **arena, const pl_json_value **root,
                      pl_err *err) {
    static const char nothing[] = "{}";
    pl_file_map *map = NULL;
    pl_status st = PL_OK;
    const pl_dir *dir = notes_dir(s);
    *arena = pl_arena_new();
    if (*arena == NULL) st = pl_fail_memory(err, 1);
    if (st == PL_OK && dir != NULL && pl_dir_look(dir, "notes.json", NULL) != PL_KIND_NONE)
        st = pl_dir_map(dir, "notes.json", &map, err);
    if (st == PL_OK)
        st = read_notes(map != NULL ? (const char *)map->data : nothing,
                        map != NULL ? map->n_bytes : sizeof nothing - 1, *arena, root, err);
    pl_file_map_unref(map);
    return st;
}

pl_status pl_notes_get(const pl_server *s, pl_buf *out, pl_err *err) {
    pl_arena *arena = NULL;
    const pl_json_value *root = NULL;
    pl_json j;
    const pl_status st = load(s, &arena, &root, err);
    pl_json_init(&j, out, false);
    if (st == PL_OK) put_notes(&j, root);
    pl_arena_free(arena);
    return st;
}

pl_status pl_notes_put_map(const pl_server *s, pl_buf *out, pl_err *err) {
    pl_arena *arena = NULL;
    const pl_json_value *root = NULL;
    const pl_status st = load(s, &arena, &root, err);
    if (st == PL_OK) put_map(root, out);
    pl_arena_free(arena);
    return st;
}

pl_status pl_notes_put_baseline(const pl_server *s, pl_buf *out, pl_err *err) {
    pl_arena *arena = NULL;
    const pl_json_value *root = NULL;
    if (s->viewed == NULL) return pl_fail(err, PL_E_NOT_FOUND, "no session is open");
    pl_status st = load(s, &arena, &root, err);
    if (st == PL_OK) st = put_baseline(s, root, arena, out, err);
    pl_arena_free(arena);
    return st;
}

/* An empty file is removed. */
static pl_status write_or_remove(const pl_server *s, const char *name, bool wanted,
                                 const pl_buf *text, pl_err *err) {
    const pl_dir *dir = notes_dir(s);
    if (!wanted)
        return pl_dir_look(dir, name, NULL) == PL_KIND_FILE ? pl_dir_unlink(dir, name, err) : PL_OK;
    if (!pl_buf_ok(text)) return pl_fail_memory(err, text->n_bytes);
    return pl_dir_write(dir, name, text->data, text->n_bytes, err);
}

static bool has_any(const pl_json_value *root, const char *key) {
    const pl_json_value *list = pl_json_find(root, key);
    return list != NULL && list->n_items > 0;
}

pl_status pl_notes_put(const pl_server *s, const char *text, size_t n, pl_err *err) {
    pl_buf notes = PL_BUF_INIT, map = PL_BUF_INIT, baseline = PL_BUF_INIT;
    const pl_json_value *root = NULL;
    pl_json j;
    if (notes_dir(s) == NULL) return pl_fail(err, PL_E_NOT_FOUND, "no session folder is open");
    pl_arena *arena = pl_arena_new();
    pl_status st = arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
    PL_TRY_GOTO(done, st, st);
    PL_TRY_GOTO(done, st, read_notes(text, n, arena, &root, err));
    pl_json_init(&j, &notes, false);
    put_notes(&j, root);
    put_map(root, &map);
    PL_TRY_GOTO(done, st, put_baseline(s, root, arena, &baseline, err));
    PL_TRY_GOTO(done, st, write_or_remove(s, "notes.json", true, &notes, err));
    PL_TRY_GOTO(done, st, write_or_remove(s, "map.json", has_any(root, "pairs"), &map, err));
    st = write_or_remove(s, "baseline.json", has_any(root, "accepted"), &baseline, err);
done:
    pl_buf_release(&notes);
    pl_buf_release(&map);
    pl_buf_release(&baseline);
    pl_arena_free(arena);
    return st;
}

/* Several sessions with one table: many.json of several backends, generate.json of many steps. */
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "view/server_int.h"

enum { TABLE_MAX = 64 << 20 }; /* parsed, it takes some forty times as much */

static const struct {
    const char *file, *kind;
} tables[] = { { "many.json", "many" }, { "generate.json", "generate" } };

static size_t find_table(const pl_dir *dir) {
    size_t i = 0;
    while (i < sizeof tables / sizeof *tables &&
           pl_dir_look(dir, tables[i].file, NULL) != PL_KIND_FILE)
        i++;
    return i;
}

bool pl_table_is(const char *path) {
    pl_dir *dir = NULL;
    if (pl_dir_open(path, &dir, NULL) != PL_OK) return false;
    const bool found = find_table(dir) < sizeof tables / sizeof *tables;
    pl_dir_close(dir);
    return found;
}

/* The page gets the file as it is, so it must be JSON. */
static pl_status check(const pl_file_map *file, const char *path, pl_err *err) {
    const pl_json_value *root = NULL;
    if (file->n_bytes > TABLE_MAX)
        return pl_fail(err, PL_E_LIMIT, "%s: %zu bytes, at most %d are shown", path, file->n_bytes,
                       (int)TABLE_MAX);
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_json_read((const char *)file->data, file->n_bytes, arena, &root, err);
    if (st == PL_OK && root->kind != PL_JSON_OBJECT)
        st = pl_fail(err, PL_E_FORMAT, "expected an object");
    if (st != PL_OK) st = pl_err_wrap(err, st, "%s", path);
    pl_arena_free(arena);
    return st;
}

pl_status pl_table_open(pl_server *s, const char *path, pl_err *err) {
    pl_dir *dir = NULL;
    pl_file_map *file = NULL;
    PL_TRY(pl_dir_open(path, &dir, err));
    const size_t at = find_table(dir);
    pl_status st = at < sizeof tables / sizeof *tables
                       ? pl_dir_map(dir, tables[at].file, &file, err)
                       : pl_fail(err, PL_E_NOT_FOUND, "'%s' has no table", path);
    if (st == PL_OK) st = check(file, path, err);
    if (st == PL_OK) {
        s->table_kind = tables[at].kind;
        s->table_folder = pl_strdup(path);
        pl_buf_printf(&s->table, "{\"kind\":\"%s\",\"document\":", s->table_kind);
        pl_buf_append(&s->table, file->data, file->n_bytes);
        pl_buf_puts(&s->table, "}");
        if (s->table_folder == NULL || !pl_buf_ok(&s->table)) st = pl_fail_memory(err, 1);
    }
    pl_file_map_unref(file);
    pl_dir_close(dir);
    return st;
}

void pl_table_get(const pl_server *s, pl_buf *out) {
    if (s->table_folder == NULL) {
        pl_buf_puts(out, "null");
    } else {
        pl_buf_append(out, s->table.data, s->table.n_bytes);
    }
}

void pl_table_release(pl_server *s) {
    pl_buf_release(&s->table);
    pl_free(s->table_folder);
}

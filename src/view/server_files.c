/* The file browser of the page: only names inside the folders that the user gave. The kernel
 * resolves each name beneath its folder (base/door.h), so that neither ".." nor a link leads out of
 * it. Files are listed, never sent. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "view/server_int.h"

enum { NAMES_MAX = 5000 };

static pl_status add_root(pl_server *s, const char *path, pl_err *err) {
    char *found = realpath(path, NULL);
    if (found == NULL) return pl_fail(err, PL_E_NOT_FOUND, "not found: '%s'", path);
    char *real = pl_strdup(found); /* so that pl_free can free it */
    free(found);
    if (real == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < s->n_roots; i++)
        if (strcmp(s->roots[i], real) == 0) {
            pl_free(real);
            return PL_OK;
        }
    s->roots[s->n_roots++] = real;
    return PL_OK;
}

pl_status pl_files_init(pl_server *s, const char *folder, const char *path, pl_err *err) {
    if (folder != NULL && !pl_path_is_dir(folder))
        return pl_fail(err, PL_E_USAGE, "option 'files': '%s' is not a folder", folder);
    if (folder != NULL) PL_TRY(add_root(s, folder, err));
    if (path == NULL) return folder != NULL ? PL_OK : add_root(s, ".", err);
    char *parent = pl_path_dirname(path);
    if (parent == NULL) return pl_fail_memory(err, 1);
    const pl_status st = add_root(s, parent, err);
    pl_free(parent);
    return st;
}

void pl_files_release(pl_server *s) {
    for (size_t i = 0; i < s->n_roots; i++)
        pl_free(s->roots[i]);
    s->n_roots = 0;
}

/* The part of an absolute path after the folder; NULL when it is not inside. */
static const char *beneath(const char *root, const char *path) {
    const size_t n = strlen(root);
    if (strcmp(root, "/") == 0) return *path == '/' ? path + 1 : NULL;
    if (strncmp(path, root, n) != 0) return NULL;
    if (path[n] == '\0') return ".";
    return path[n] == '/' ? path + n + 1 : NULL;
}

static const char *const kinds[] = { "none", "file", "folder", "other" };

static void put_entry(pl_json *j, const pl_dir *dir, const char *folder, const char *name) {
    pl_buf path = PL_BUF_INIT;
    uint64_t n_bytes = 0;
    if (strcmp(folder, ".") != 0) pl_buf_printf(&path, "%s/", folder);
    pl_buf_puts(&path, name);
    const pl_kind kind =
        pl_buf_ok(&path) ? pl_dir_look(dir, pl_buf_str(&path), &n_bytes) : PL_KIND_NONE;
    pl_buf_release(&path);
    if (kind != PL_KIND_FILE && kind != PL_KIND_FOLDER) return;
    pl_json_array_begin(j);
    pl_json_string(j, name);
    pl_json_string(j, kinds[kind]);
    pl_json_int(j, (int64_t)n_bytes);
    pl_json_array_end(j);
}

/* "path", "kind" (none, file, folder, other, outside), "bytes"; of a folder its "names": name,
 * kind, bytes. */
static pl_status put_place(const char *path, const pl_dir *dir, const char *name, pl_json *j,
                           pl_err *err) {
    uint64_t n_bytes = 0;
    pl_dir_list list = { 0 };
    const pl_kind kind = dir == NULL ? PL_KIND_NONE : pl_dir_look(dir, name, &n_bytes);
    pl_json_put_string(j, "path", path);
    pl_json_put_string(j, "kind", dir == NULL ? "outside" : kinds[kind]);
    pl_json_put_int(j, "bytes", (int64_t)n_bytes);
    if (kind != PL_KIND_FOLDER) return PL_OK;
    PL_TRY(pl_dir_names(dir, name, &list, err));
    pl_json_key(j, "names");
    pl_json_array_begin(j);
    for (size_t i = 0; i < list.n_names && i < NAMES_MAX; i++)
        if (list.names[i][0] != '.') put_entry(j, dir, name, list.names[i]);
    pl_json_array_end(j);
    pl_json_put_bool(j, "more", list.n_names > NAMES_MAX);
    pl_dir_list_free(&list);
    return PL_OK;
}

pl_status pl_files_get(const pl_server *s, const char *path, pl_buf *out, pl_err *err) {
    pl_json j;
    pl_dir *dir = NULL;
    const char *name = NULL;
    pl_status st = PL_OK;
    if (path == NULL || *path == '\0') path = s->n_roots > 0 ? s->roots[0] : "/";
    for (size_t i = 0; i < s->n_roots && name == NULL; i++) {
        name = beneath(s->roots[i], path);
        if (name != NULL) PL_TRY(pl_dir_open(s->roots[i], &dir, err));
    }
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    pl_json_key(&j, "roots");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < s->n_roots; i++)
        pl_json_string(&j, s->roots[i]);
    pl_json_array_end(&j);
    st = put_place(path, dir, name, &j, err);
    pl_json_object_end(&j);
    pl_dir_close(dir);
    return st;
}

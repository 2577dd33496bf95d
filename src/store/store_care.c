/* Looking after a store: indexes, listing, verifying, collecting garbage. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_read.h"
#include "store/store_int.h"

/* ---- indexes ---- */

static pl_status index_path(const char *dir, const char *name, char **out, pl_err *err) {
    bool ok = name[0] != '\0' && name[0] != '.' && strlen(name) <= 200;
    for (const char *p = name; *p != '\0'; p++)
        ok = ok && (isalnum((unsigned char)*p) || strchr("-_.", *p) != NULL);
    if (!ok) return pl_fail(err, PL_E_INVALID, "'%s' cannot be the name of an index", name);
    pl_buf path = PL_BUF_INIT;
    pl_buf_printf(&path, "%s/index/%s.json", dir, name);
    *out = pl_buf_take(&path);
    return *out == NULL ? pl_fail_memory(err, strlen(name)) : PL_OK;
}

static void put_entry(pl_json *j, const pl_store_entry *e) {
    char name[PL_BLOB_NAME_MAX];
    pl_blob_name(&e->blob, name);
    pl_json_object_begin(j);
    pl_json_put_string(j, "value", e->value);
    pl_json_put_string(j, "blob", name);
    pl_json_put_ints(j, "shape", e->dims, (size_t)e->rank);
    pl_json_object_end(j);
}

pl_status pl_store_index_write(pl_store *s, const char *name, const pl_store_entry *entries,
                               size_t n_entries, pl_err *err) {
    char *path = NULL;
    pl_buf buf = PL_BUF_INIT;
    pl_json j;
    PL_TRY(index_path(s->dir, name, &path, err));
    pl_status st = pl_store_commit(s, err);
    if (st != PL_OK) goto done;
    pl_json_init(&j, &buf, false);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb_index", 1);
    pl_json_key(&j, "values");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < n_entries; i++)
        put_entry(&j, &entries[i]);
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(&buf, '\n');
    st = pl_buf_ok(&buf) ? pl_file_write(path, buf.data, buf.n_bytes, err)
                         : pl_fail_memory(err, buf.n_bytes);
done:
    pl_buf_release(&buf);
    pl_free(path);
    return st;
}

static pl_status read_entry(const pl_json_value *item, pl_store_entry *e, pl_err *err) {
    const pl_json_value *value = pl_json_find(item, "value");
    const pl_json_value *blob = pl_json_find(item, "blob");
    const pl_json_value *shape = pl_json_find(item, "shape");
    if (value == NULL || value->kind != PL_JSON_STRING || blob == NULL ||
        blob->kind != PL_JSON_STRING || !pl_blob_parse(blob->string, &e->blob)) {
        return pl_fail(err, PL_E_FORMAT, "an entry without 'value' or with a wrong 'blob'");
    }
    if (shape == NULL || shape->kind != PL_JSON_ARRAY || shape->n_items > PL_RANK_MAX) {
        return pl_fail(err, PL_E_FORMAT, "'%s' has no 'shape' or a wrong one", value->string);
    }
    e->value = value->string;
    for (const pl_json_value *d = shape->first; d != NULL; d = d->next) {
        if (!d->is_integer || d->integer < 0) {
            return pl_fail(err, PL_E_FORMAT, "'%s' has a wrong dim", value->string);
        }
        e->dims[e->rank++] = d->integer;
    }
    return PL_OK;
}

static pl_status index_read(const char *path, pl_store_index *out, pl_err *err) {
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    pl_store_index index = { .arena = NULL };
    PL_TRY(pl_file_map_open(path, &map, err));
    pl_status st = PL_OK;
    index.arena = pl_arena_new();
    if (index.arena == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st,
                pl_json_read((const char *)map->data, map->n_bytes, index.arena, &root, err));
    const pl_json_value *version = pl_json_find(root, "plumb_index");
    const pl_json_value *values = pl_json_find(root, "values");
    if (version == NULL || !version->is_integer || version->integer != 1 || values == NULL ||
        values->kind != PL_JSON_ARRAY) {
        st = pl_fail(err, PL_E_FORMAT, "not an index of version 1");
        goto done;
    }
    index.entries = pl_arena_array(index.arena, values->n_items, sizeof *index.entries);
    if (index.entries == NULL) {
        st = pl_fail_memory(err, values->n_items);
        goto done;
    }
    for (const pl_json_value *v = values->first; v != NULL; v = v->next)
        PL_TRY_GOTO(done, st, read_entry(v, &index.entries[index.n_entries++], err));
    *out = index;
    index.arena = NULL;
done:
    pl_arena_free(index.arena);
    pl_file_map_unref(map);
    return st == PL_OK ? st : pl_err_wrap(err, st, "%s", path);
}

pl_status pl_store_index_read(const pl_store *s, const char *name, pl_store_index *out,
                              pl_err *err) {
    char *path = NULL;
    PL_TRY(index_path(s->dir, name, &path, err));
    const pl_status st = index_read(path, out, err);
    pl_free(path);
    return st;
}

void pl_store_index_release(pl_store_index *index) {
    pl_arena_free(index->arena);
    *index = (pl_store_index){ .arena = NULL };
}

/* ---- listing and verifying ---- */

static pl_status look_at(const char *path, const char *name, int folder, bool check,
                         pl_store_visit visit, void *ctx, pl_err *err) {
    pl_err problem = PL_ERR_INIT;
    pl_file_map *map = NULL;
    struct stat info = { 0 };
    pl_blob blob;
    pl_status st = PL_OK;
    if (lstat(path, &info) != 0) {
        if (errno == ENOENT) return PL_OK; /* gc was here */
        st = pl_fail_errno(&problem, errno, "look at", path);
    } else if (!S_ISREG(info.st_mode) || !pl_blob_parse(name, &blob) ||
               pl_store_folder(&blob) != folder) {
        st = pl_fail(&problem, PL_E_FORMAT, "'%s' is not a blob of this folder", name);
    } else if ((uint64_t)info.st_size != blob.n_bytes) {
        st = pl_fail(&problem, PL_E_FORMAT, "blob %s is damaged: it has %lld bytes", name,
                     (long long)info.st_size);
    } else if (check) {
        st = pl_file_map_open(path, &map, &problem);
        if (st == PL_OK) st = pl_blob_check(&blob, name, map, &problem);
        if (map != NULL) pl_file_map_unref(map);
    }
    if (st == PL_E_MEMORY) { /* says nothing of the blob */
        if (err != NULL) *err = problem;
        return st;
    }
    return visit(ctx, name, (uint64_t)info.st_size, st == PL_OK ? NULL : problem.message, err);
}

static pl_status each_in(const char *dir, int folder, bool check, pl_store_visit visit, void *ctx,
                         pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    char name[16];
    snprintf(name, sizeof name, "blobs/%x", (unsigned)folder);
    char *path = pl_path_join(dir, name);
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_path_exists(path) ? pl_dir_list_read(path, &list, err) : PL_OK;
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        char *file = pl_path_join(path, list.names[i]);
        st = file == NULL ? pl_fail_memory(err, 0)
                          : look_at(file, list.names[i], folder, check, visit, ctx, err);
        pl_free(file);
    }
    pl_dir_list_free(&list);
    pl_free(path);
    return st;
}

typedef pl_status (*index_fn)(void *ctx, const char *path, pl_err *err);

static pl_status each_index(const pl_store *s, index_fn fn, void *ctx, pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    char *path = pl_path_join(s->dir, "index");
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_path_exists(path) ? pl_dir_list_read(path, &list, err) : PL_OK;
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (list.names[i][0] == '.') continue; /* a temporary of a killed writer */
        char *file = pl_path_join(path, list.names[i]);
        st = file == NULL ? pl_fail_memory(err, 0) : fn(ctx, file, err);
        pl_free(file);
    }
    pl_dir_list_free(&list);
    pl_free(path);
    return st;
}

typedef struct looking {
    const pl_store *store;
    pl_store_visit visit;
    void *ctx;
    pl_strmap missing; /* told already; keys live in the arena */
    pl_arena *arena;
} looking;

static pl_status look_for(looking *l, const char *index, const pl_blob *blob, pl_err *err) {
    char name[PL_BLOB_NAME_MAX];
    pl_err problem = PL_ERR_INIT;
    pl_blob_name(blob, name);
    char *path = pl_store_blob_path(l->store, name);
    if (path == NULL) return pl_fail_memory(err, 0);
    const bool there = pl_path_exists(path);
    pl_free(path);
    if (there || pl_strmap_has(&l->missing, name)) return PL_OK;
    const char *key = pl_arena_strdup(l->arena, name);
    if (key == NULL || pl_strmap_put(&l->missing, key, l) != 0) return pl_fail_memory(err, 1);
    (void)pl_fail(&problem, PL_E_FORMAT, "blob %s is missing; %s names it", name, index);
    return l->visit(l->ctx, name, 0, problem.message, err);
}

/* What an index names must be there, and an index must be one. */
static pl_status look_at_index(void *ctx, const char *path, pl_err *err) {
    looking *l = ctx;
    pl_err problem = PL_ERR_INIT;
    pl_store_index index;
    pl_status st = index_read(path, &index, &problem);
    if (st == PL_E_MEMORY) {
        if (err != NULL) *err = problem;
        return st;
    }
    if (st != PL_OK) return l->visit(l->ctx, path, 0, problem.message, err);
    for (size_t i = 0; i < index.n_entries && st == PL_OK; i++)
        st = look_for(l, path, &index.entries[i].blob, err);
    pl_store_index_release(&index);
    return st;
}

pl_status pl_store_each(const pl_store *s, bool check, pl_store_visit visit, void *ctx,
                        pl_err *err) {
    for (int i = 0; i < PL_STORE_FOLDERS; i++)
        PL_TRY(each_in(s->dir, i, check, visit, ctx, err));
    if (!check) return PL_OK;
    looking l = { s, visit, ctx, PL_STRMAP_INIT, pl_arena_new() };
    const pl_status st =
        l.arena == NULL ? pl_fail_memory(err, 1) : each_index(s, look_at_index, &l, err);
    pl_strmap_release(&l.missing);
    pl_arena_free(l.arena);
    return st;
}

/* ---- garbage ---- */

typedef struct collection {
    const pl_store *store;
    pl_strmap marked; /* keys live in the arena */
    pl_arena *arena;
    bool dry_run;
    pl_store_gc_result result;
} collection;

static pl_status mark_index(void *ctx, const char *path, pl_err *err) {
    collection *c = ctx;
    pl_store_index index;
    PL_TRY(index_read(path, &index, err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < index.n_entries && st == PL_OK; i++) {
        char name[PL_BLOB_NAME_MAX];
        pl_blob_name(&index.entries[i].blob, name);
        if (pl_strmap_has(&c->marked, name)) continue;
        const char *key = pl_arena_strdup(c->arena, name);
        if (key == NULL || pl_strmap_put(&c->marked, key, c) != 0) st = pl_fail_memory(err, 1);
    }
    pl_store_index_release(&index);
    return st;
}

/* Damaged means: of the wrong length. Hashing everything is the job of verify. */
static pl_status sweep_one(void *ctx, const char *name, uint64_t n_bytes, const char *problem,
                           pl_err *err) {
    collection *c = ctx;
    pl_blob blob;
    if (!pl_blob_parse(name, &blob)) return PL_OK; /* not ours: not deleted */
    if (problem == NULL && pl_strmap_has(&c->marked, name)) {
        c->result.n_kept++;
        c->result.bytes_kept += n_bytes;
        return PL_OK;
    }
    char *path = pl_store_blob_path(c->store, name);
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = PL_OK;
    if (!c->dry_run && unlink(path) != 0 && errno != ENOENT) {
        st = pl_fail_errno(err, errno, "remove", path);
    } else {
        c->result.n_removed++;
        c->result.bytes_removed += n_bytes;
    }
    pl_free(path);
    return st;
}

/* Files of tmp/, and hidden ones in index/: nobody writes now, so all are stale. */
static pl_status sweep_temporaries(collection *c, const char *folder, bool only_hidden,
                                   pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    char *path = pl_path_join(c->store->dir, folder);
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_path_exists(path) ? pl_dir_list_read(path, &list, err) : PL_OK;
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (only_hidden && list.names[i][0] != '.') continue;
        char *file = pl_path_join(path, list.names[i]);
        if (file == NULL) {
            st = pl_fail_memory(err, 0);
        } else if (!c->dry_run && unlink(file) != 0 && errno != ENOENT) {
            st = pl_fail_errno(err, errno, "remove", file);
        } else {
            c->result.n_temporaries++;
        }
        pl_free(file);
    }
    pl_dir_list_free(&list);
    pl_free(path);
    return st;
}

pl_status pl_store_gc(const char *dir, bool dry_run, pl_store_gc_result *out, pl_err *err) {
    pl_store *s = NULL;
    int lock = -1;
    PL_TRY(pl_store_open(dir, PL_STORE_READ, &s, err)); /* is it a store at all? */
    collection c = { .store = s, .marked = PL_STRMAP_INIT, .dry_run = dry_run };
    pl_status st = PL_OK;
    c.arena = pl_arena_new();
    if (c.arena == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_store_lock(dir, LOCK_EX | LOCK_NB, &lock, err));
    PL_TRY_GOTO(done, st, each_index(s, mark_index, &c, err));
    PL_TRY_GOTO(done, st, pl_store_each(s, false, sweep_one, &c, err));
    PL_TRY_GOTO(done, st, sweep_temporaries(&c, "tmp", false, err));
    PL_TRY_GOTO(done, st, sweep_temporaries(&c, "index", true, err));
    *out = c.result;
done:
    if (lock >= 0) close(lock);
    pl_strmap_release(&c.marked);
    pl_arena_free(c.arena);
    pl_store_close(s);
    return st;
}

/* Maintains a store: indexes, listing, verifying, garbage collection. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_read.h"
#include "store/store_int.h"

/* ---- indexes ---- */

enum { INDEX_FILE_MAX = 224 };

static pl_status index_file(const char *name, char out[INDEX_FILE_MAX], pl_err *err) {
    bool ok = name[0] != '\0' && name[0] != '.' && strlen(name) <= 200;
    for (const char *p = name; *p != '\0'; p++)
        ok = ok && (isalnum((unsigned char)*p) || strchr("-_.", *p) != NULL);
    if (!ok) return pl_fail(err, PL_E_INVALID, "invalid index name '%s'", name);
    (void)snprintf(out, INDEX_FILE_MAX, "index/%s.json", name);
    return PL_OK;
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
    char file[INDEX_FILE_MAX];
    pl_buf buf = PL_BUF_INIT;
    pl_json j;
    PL_TRY(index_file(name, file, err));
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
    st = pl_buf_ok(&buf) ? pl_dir_write(s->dir, file, buf.data, buf.n_bytes, err)
                         : pl_fail_memory(err, buf.n_bytes);
done:
    pl_buf_release(&buf);
    return st;
}

static pl_status read_entry(const pl_json_value *item, pl_store_entry *e, pl_err *err) {
    const pl_json_value *value = pl_json_find(item, "value");
    const pl_json_value *blob = pl_json_find(item, "blob");
    const pl_json_value *shape = pl_json_find(item, "shape");
    if (value == NULL || value->kind != PL_JSON_STRING || blob == NULL ||
        blob->kind != PL_JSON_STRING || !pl_blob_parse(blob->string, &e->blob)) {
        return pl_fail(err, PL_E_FORMAT, "an entry has no 'value' or an invalid 'blob'");
    }
    if (shape == NULL || shape->kind != PL_JSON_ARRAY || shape->n_items > PL_RANK_MAX) {
        return pl_fail(err, PL_E_FORMAT, "'%s' has a missing or invalid 'shape'", value->string);
    }
    e->value = value->string;
    for (const pl_json_value *d = shape->first; d != NULL; d = d->next) {
        if (!d->is_integer || d->integer < 0) {
            return pl_fail(err, PL_E_FORMAT, "'%s' has an invalid dim", value->string);
        }
        e->dims[e->rank++] = d->integer;
    }
    return PL_OK;
}

static pl_status index_read(const pl_dir *dir, const char *file, pl_store_index *out, pl_err *err) {
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    pl_store_index index = { .arena = NULL };
    PL_TRY(pl_dir_map(dir, file, &map, err));
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
    return st == PL_OK ? st : pl_err_wrap(err, st, "%s/%s", pl_dir_path(dir), file);
}

pl_status pl_store_index_read(const pl_store *s, const char *name, pl_store_index *out,
                              pl_err *err) {
    char file[INDEX_FILE_MAX];
    PL_TRY(index_file(name, file, err));
    return index_read(s->dir, file, out, err);
}

void pl_store_index_release(pl_store_index *index) {
    pl_arena_free(index->arena);
    *index = (pl_store_index){ .arena = NULL };
}

/* ---- listing and verifying ---- */

static pl_status look_at(const pl_store *s, const char *file, int folder, bool check,
                         pl_store_visit visit, void *ctx, pl_err *err) {
    const char *name = pl_path_basename(file);
    pl_err problem = PL_ERR_INIT;
    pl_file_map *map = NULL;
    uint64_t n_bytes = 0;
    pl_blob blob;
    pl_status st = PL_OK;
    const pl_kind kind = pl_dir_look(s->dir, file, &n_bytes);
    if (kind == PL_KIND_NONE) return PL_OK; /* removed by gc */
    if (kind != PL_KIND_FILE || !pl_blob_parse(name, &blob) || pl_store_folder(&blob) != folder) {
        st = pl_fail(&problem, PL_E_FORMAT, "'%s' is not a blob of this folder", name);
    } else if (n_bytes != blob.n_bytes) {
        st = pl_fail(&problem, PL_E_FORMAT, "blob %s is damaged: it has %llu bytes", name,
                     (unsigned long long)n_bytes);
    } else if (check) {
        st = pl_dir_map(s->dir, file, &map, &problem);
        if (st == PL_OK) st = pl_blob_check(&blob, name, map, &problem);
        if (map != NULL) pl_file_map_unref(map);
    }
    if (st == PL_E_MEMORY) { /* not a problem of the blob */
        if (err != NULL) *err = problem;
        return st;
    }
    return visit(ctx, name, n_bytes, st == PL_OK ? NULL : problem.message, err);
}

typedef pl_status (*file_fn)(void *ctx, const char *file, pl_err *err);

/* Every name in a folder of the store, as "FOLDER/NAME"; none when there is no such folder. */
static pl_status each_file(const pl_store *s, const char *folder, file_fn fn, void *ctx,
                           pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    pl_status st = PL_OK;
    if (pl_dir_look(s->dir, folder, NULL) == PL_KIND_NONE) return PL_OK;
    PL_TRY(pl_dir_names(s->dir, folder, &list, err));
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        char *file = pl_path_join(folder, list.names[i]);
        st = file == NULL ? pl_fail_memory(err, 0) : fn(ctx, file, err);
        pl_free(file);
    }
    pl_dir_list_free(&list);
    return st;
}

typedef struct visiting {
    const pl_store *store;
    int folder;
    bool check;
    pl_store_visit visit;
    void *ctx;
} visiting;

static pl_status visit_file(void *ctx, const char *file, pl_err *err) {
    const visiting *v = ctx;
    return look_at(v->store, file, v->folder, v->check, v->visit, v->ctx, err);
}

static bool is_hidden(const char *file) { /* a temporary of a killed writer */
    return pl_path_basename(file)[0] == '.';
}

typedef struct looking {
    const pl_store *store;
    pl_store_visit visit;
    void *ctx;
    pl_strmap missing; /* already reported; keys are in the arena */
    pl_arena *arena;
} looking;

static pl_status look_for(looking *l, const char *index, const pl_blob *blob, pl_err *err) {
    char name[PL_BLOB_NAME_MAX];
    pl_err problem = PL_ERR_INIT;
    pl_blob_name(blob, name);
    char file[PL_BLOB_FILE_MAX];
    const bool there =
        pl_store_blob_file(name, file) && pl_dir_look(l->store->dir, file, NULL) == PL_KIND_FILE;
    if (there || pl_strmap_has(&l->missing, name)) return PL_OK;
    const char *key = pl_arena_strdup(l->arena, name);
    if (key == NULL || pl_strmap_put(&l->missing, key, l) != 0) return pl_fail_memory(err, 1);
    (void)pl_fail(&problem, PL_E_FORMAT, "blob %s is missing; %s/%s refers to it", name,
                  pl_dir_path(l->store->dir), index);
    return l->visit(l->ctx, name, 0, problem.message, err);
}

/* Everything that an index names must exist, and the index must be valid. */
static pl_status look_at_index(void *ctx, const char *file, pl_err *err) {
    looking *l = ctx;
    if (is_hidden(file)) return PL_OK;
    pl_err problem = PL_ERR_INIT;
    pl_store_index index;
    pl_status st = index_read(l->store->dir, file, &index, &problem);
    if (st == PL_E_MEMORY) {
        if (err != NULL) *err = problem;
        return st;
    }
    if (st != PL_OK) return l->visit(l->ctx, file, 0, problem.message, err);
    for (size_t i = 0; i < index.n_entries && st == PL_OK; i++)
        st = look_for(l, file, &index.entries[i].blob, err);
    pl_store_index_release(&index);
    return st;
}

pl_status pl_store_each(const pl_store *s, bool check, pl_store_visit visit, void *ctx,
                        pl_err *err) {
    for (int i = 0; i < PL_STORE_FOLDERS; i++) {
        visiting v = { s, i, check, visit, ctx };
        char folder[16];
        snprintf(folder, sizeof folder, "blobs/%x", (unsigned)i);
        PL_TRY(each_file(s, folder, visit_file, &v, err));
    }
    if (!check) return PL_OK;
    looking l = { s, visit, ctx, PL_STRMAP_INIT, pl_arena_new() };
    const pl_status st =
        l.arena == NULL ? pl_fail_memory(err, 1) : each_file(s, "index", look_at_index, &l, err);
    pl_strmap_release(&l.missing);
    pl_arena_free(l.arena);
    return st;
}

/* ---- garbage ---- */

typedef struct collection {
    const pl_store *store;
    pl_strmap marked; /* keys are in the arena */
    pl_arena *arena;
    bool dry_run;
    pl_store_gc_result result;
} collection;

static pl_status mark_index(void *ctx, const char *file, pl_err *err) {
    collection *c = ctx;
    pl_store_index index;
    if (is_hidden(file)) return PL_OK;
    PL_TRY(index_read(c->store->dir, file, &index, err));
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

/* Damaged here means the wrong length. verify checks hashes. */
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
    char file[PL_BLOB_FILE_MAX];
    (void)pl_store_blob_file(name, file);
    if (!c->dry_run) PL_TRY(pl_dir_unlink(c->store->dir, file, err));
    c->result.n_removed++;
    c->result.bytes_removed += n_bytes;
    return PL_OK;
}

/* PID-TOKEN-N, as written by write_temporary; ".NAME.plumb-PID-N" in index/. */
static bool is_temporary(const char *file) {
    const char *name = pl_path_basename(file);
    const size_t pid = strspn(name, "0123456789");
    if (name[0] == '.') return strstr(name, ".plumb-") != NULL;
    if (pid == 0 || name[pid] != '-') return false;
    const char *token = name + pid + 1;
    return strspn(token, "0123456789abcdef") == 16 && token[16] == '-' && token[17] != '\0' &&
           token[17 + strspn(token + 17, "0123456789")] == '\0';
}

/* There is no writer, so all temporaries are stale; other files are not ours. */
static pl_status sweep_temporary(void *ctx, const char *file, pl_err *err) {
    collection *c = ctx;
    if (!is_temporary(file) || pl_dir_look(c->store->dir, file, NULL) != PL_KIND_FILE) return PL_OK;
    if (!c->dry_run) PL_TRY(pl_dir_unlink(c->store->dir, file, err));
    c->result.n_temporaries++;
    return PL_OK;
}

pl_status pl_store_gc(pl_dir *dir, bool dry_run, pl_store_gc_result *out, pl_err *err) {
    pl_store *s = NULL;
    int lock = -1;
    PL_TRY(pl_store_open_in(dir, PL_STORE_READ, &s, err)); /* is it a store at all? */
    collection c = { .store = s, .marked = PL_STRMAP_INIT, .dry_run = dry_run };
    pl_status st = PL_OK;
    c.arena = pl_arena_new();
    if (c.arena == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_store_lock(s->dir, LOCK_EX | LOCK_NB, &lock, err));
    PL_TRY_GOTO(done, st, each_file(s, "index", mark_index, &c, err));
    PL_TRY_GOTO(done, st, pl_store_each(s, false, sweep_one, &c, err));
    PL_TRY_GOTO(done, st, each_file(s, "tmp", sweep_temporary, &c, err));
    PL_TRY_GOTO(done, st, each_file(s, "index", sweep_temporary, &c, err));
    *out = c.result;
done:
    if (lock >= 0) close(lock);
    pl_strmap_release(&c.marked);
    pl_arena_free(c.arena);
    pl_store_close(s);
    return st;
}

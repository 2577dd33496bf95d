#include "session/session_write.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "onnx/onnx.h"
#include "store/store.h"

typedef struct side_index {
    char *name;
    pl_store_entry *entries;
    size_t n_entries, capacity;
} side_index;

struct pl_session_folder {
    char *path, *temporary;
    pl_store *store;   /* NULL until the first tensor */
    pl_arena *arena;   /* names of values */
    side_index *sides; /* three for each sample */
    size_t n_sides, sides_capacity;
    pthread_mutex_t mutex;
};

static void folder_free(pl_session_folder *f) {
    pl_store_close(f->store);
    for (size_t i = 0; i < f->n_sides; i++) {
        pl_free(f->sides[i].name);
        pl_free(f->sides[i].entries);
    }
    pl_free(f->sides);
    pl_arena_free(f->arena);
    pthread_mutex_destroy(&f->mutex);
    pl_free(f->path);
    pl_free(f->temporary);
    pl_free(f);
}

void pl_session_folder_abort_take(pl_session_folder *f) {
    if (f == NULL) return;
    pl_store_close(f->store);
    f->store = NULL;
    if (f->temporary != NULL) (void)pl_dir_remove(f->temporary, NULL);
    folder_free(f);
}

pl_status pl_session_folder_new(const char *path, pl_session_folder **out, pl_err *err) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    pl_session_folder *f = pl_calloc(1, sizeof *f);
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    pthread_mutex_init(&f->mutex, NULL);
    f->path = pl_strndup(path, n);
    f->arena = pl_arena_new();
    pl_status st = PL_OK;
    if (f->path == NULL || f->arena == NULL) {
        st = pl_fail_memory(err, n);
    } else if (n == 0) {
        st = pl_fail(err, PL_E_USAGE, "the session folder has no name");
    } else if (pl_path_exists(f->path)) {
        st =
            pl_fail(err, PL_E_EXISTS, "'%s' already exists; sessions are not overwritten", f->path);
    } else {
        st = pl_dir_stage(f->path, &f->temporary, err);
    }
    if (st != PL_OK) {
        pl_session_folder_abort_take(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

/* ---- tensors ---- */

static pl_status open_store(pl_session_folder *f, pl_err *err) {
    if (f->store != NULL) return PL_OK;
    char *dir = pl_path_join(f->temporary, "store");
    if (dir == NULL) return pl_fail_memory(err, 1);
    const pl_status st = pl_store_open(dir, PL_STORE_WRITE, &f->store, err);
    pl_free(dir);
    return st;
}

static pl_status find_side(pl_session_folder *f, const char *name, side_index **out, pl_err *err) {
    for (size_t i = 0; i < f->n_sides; i++) {
        *out = &f->sides[i];
        if (strcmp(f->sides[i].name, name) == 0) return PL_OK;
    }
    if (!PL_ARRAY_ROOM(f->sides, f->n_sides, &f->sides_capacity))
        return pl_fail_memory(err, sizeof *f->sides);
    char *copy = pl_strdup(name);
    if (copy == NULL) return pl_fail_memory(err, 1);
    f->sides[f->n_sides] = (side_index){ .name = copy };
    *out = &f->sides[f->n_sides++];
    return PL_OK;
}

static pl_status note(pl_session_folder *f, const char *side, const char *value, const pl_tensor *t,
                      const pl_blob *blob, pl_err *err) {
    side_index *index = NULL;
    PL_TRY(find_side(f, side, &index, err));
    if (!PL_ARRAY_ROOM(index->entries, index->n_entries, &index->capacity)) {
        return pl_fail_memory(err, index->n_entries);
    }
    const char *name = pl_arena_strdup(f->arena, value);
    if (name == NULL) return pl_fail_memory(err, strlen(value));
    pl_store_entry *e = &index->entries[index->n_entries++];
    *e = (pl_store_entry){ .value = name, .blob = *blob, .rank = t->rank };
    memcpy(e->dims, t->dims, sizeof e->dims);
    return PL_OK;
}

pl_status pl_session_folder_put(pl_session_folder *f, const char *side, const char *value,
                                const pl_tensor *t, pl_arena *arena, const char **blob,
                                pl_err *err) {
    char name[PL_BLOB_NAME_MAX];
    pl_blob found;
    pthread_mutex_lock(&f->mutex);
    pl_status st = open_store(f, err);
    pthread_mutex_unlock(&f->mutex);
    if (st == PL_OK) st = pl_store_put(f->store, t, &found, err);
    if (st != PL_OK) return st;
    pl_blob_name(&found, name);
    pthread_mutex_lock(&f->mutex);
    st = note(f, side, value, t, &found, err);
    const char *copy = st == PL_OK ? pl_arena_strdup(arena, name) : NULL;
    pthread_mutex_unlock(&f->mutex);
    if (st == PL_OK && copy == NULL) st = pl_fail_memory(err, sizeof name);
    if (st == PL_OK) *blob = copy;
    return st;
}

static pl_status put_model_as(pl_session_folder *f, const char *name, const pl_model *model,
                              bool whole, pl_err *err) {
    char *path = pl_path_join(f->temporary, name);
    if (path == NULL) return pl_fail_memory(err, 1);
    const pl_status st = whole ? pl_model_write(model, path, false, err)
                               : pl_model_write_referring(model, path, err);
    pl_free(path);
    return st;
}

pl_status pl_session_folder_put_model(pl_session_folder *f, const pl_model *model, bool whole,
                                      pl_err *err) {
    return put_model_as(f, "model.onnx", model, whole, err);
}

pl_status pl_session_folder_put_reference(pl_session_folder *f, const pl_model *model, bool whole,
                                          pl_err *err) {
    return put_model_as(f, "reference.onnx", model, whole, err);
}

/* ---- the end ---- */

static pl_status write_json(const pl_session_folder *f, const pl_session *s, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    char *path = pl_path_join(f->temporary, "session.json");
    pl_status st = path == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) {
        pl_session_put_json(s, &text);
        st = pl_buf_ok(&text) ? pl_file_write(path, text.data, text.n_bytes, err)
                              : pl_fail_memory(err, text.n_bytes);
    }
    pl_buf_release(&text);
    pl_free(path);
    return st;
}

static pl_status finish(pl_session_folder *f, const pl_session *s, pl_err *err) {
    for (size_t i = 0; i < f->n_sides; i++)
        PL_TRY(pl_store_index_write(f->store, f->sides[i].name, f->sides[i].entries,
                                    f->sides[i].n_entries, err));
    pl_store_close(f->store);
    f->store = NULL;
    PL_TRY(write_json(f, s, err));
    PL_TRY(pl_sync_dir(f->temporary, err));
    PL_TRY(pl_dir_publish(f->temporary, f->path, err));
    pl_free(f->temporary);
    f->temporary = NULL;
    char *parent = pl_path_dirname(f->path);
    if (parent != NULL) (void)pl_sync_dir(parent, NULL);
    pl_free(parent);
    return PL_OK;
}

pl_status pl_session_folder_commit_take(pl_session_folder *f, const pl_session *s, pl_err *err) {
    const pl_status st = finish(f, s, err);
    if (st == PL_OK) {
        folder_free(f);
    } else {
        pl_session_folder_abort_take(f);
    }
    return st;
}

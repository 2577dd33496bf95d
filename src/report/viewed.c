#include "report/viewed.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "onnx/onnx.h"
#include "pair/layout.h"
#include "store/recording.h"
#include "store/store.h"

enum { N_RECENT = 4, HASH_AGAIN_BELOW = 64 << 20 };

struct pl_viewed {
    char *path;
    pl_dir *dir; /* NULL: the session is one file */
    pl_session *session;
    pl_model *model, *reference;
    pl_store *store;
    pl_recording *recordings[2]; /* of A and B, opened on first use */
    bool tried[2];
    struct stat opened[2]; /* as they were at that time */
    /* The last tensors opened: checking the hash of a large one takes long, and the page requests
     * many slices of one. They are mapped files, so keeping them costs nothing. */
    struct {
        bool used;
        size_t point;
        pl_view_pair pair;
    } recent[N_RECENT];
    size_t next_recent;
};

/* The graph is shown all the same. */
static pl_status note_absent(pl_viewed *v, const pl_model *model, pl_err *err) {
    pl_session *s = v->session;
    if (model == NULL || model->absent == NULL) return PL_OK;
    const char **notes = pl_arena_array(s->arena, s->n_notes + 1, sizeof(char *));
    const char *note =
        pl_arena_printf(s->arena, "shown without the model's weights: %s", model->absent);
    if (notes == NULL || note == NULL) return pl_fail_memory(err, s->n_notes);
    if (s->n_notes > 0) memcpy(notes, s->notes, s->n_notes * sizeof(char *));
    notes[s->n_notes++] = note;
    s->notes = notes;
    return PL_OK;
}

static pl_status open_parts(pl_viewed *v, pl_err *err) {
    pl_dir *store = NULL;
    if (!pl_path_is_dir(v->path)) return PL_OK;
    PL_TRY(pl_dir_open(v->path, &v->dir, err));
    if (pl_dir_look(v->dir, "model.onnx", NULL) != PL_KIND_NONE)
        PL_TRY(pl_model_look_in(v->dir, "model.onnx", &v->model, err));
    if (pl_dir_look(v->dir, "reference.onnx", NULL) != PL_KIND_NONE)
        PL_TRY(pl_model_look_in(v->dir, "reference.onnx", &v->reference, err));
    PL_TRY(note_absent(v, v->model, err));
    PL_TRY(note_absent(v, v->reference, err));
    if (pl_dir_look(v->dir, "store", NULL) == PL_KIND_NONE) return PL_OK;
    PL_TRY(pl_dir_open_in(v->dir, "store", &store, err));
    const pl_status st = pl_store_open_in(store, PL_STORE_READ, &v->store, err);
    pl_dir_close(store);
    return st;
}

pl_status pl_viewed_open(const char *path, pl_viewed **out, pl_err *err) {
    pl_viewed *v = pl_calloc(1, sizeof *v);
    if (v == NULL) return pl_fail_memory(err, sizeof *v);
    v->path = pl_strdup(path);
    pl_status st = v->path == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) st = pl_session_open(path, &v->session, err);
    if (st == PL_OK) st = open_parts(v, err);
    if (st != PL_OK) {
        pl_viewed_close(v);
        return st;
    }
    *out = v;
    return PL_OK;
}

void pl_viewed_close(pl_viewed *v) {
    if (v == NULL) return;
    for (int i = 0; i < N_RECENT; i++)
        pl_view_pair_release(&v->recent[i].pair);
    for (int i = 0; i < 2; i++)
        pl_recording_close(v->recordings[i]);
    pl_store_close(v->store);
    pl_model_free(v->model);
    pl_model_free(v->reference);
    pl_session_free(v->session);
    pl_dir_close(v->dir);
    pl_free(v->path);
    pl_free(v);
}

const pl_session *pl_viewed_session(const pl_viewed *v) {
    return v->session;
}

const pl_model *pl_viewed_model(const pl_viewed *v) {
    return v->model;
}

const pl_model *pl_viewed_reference(const pl_viewed *v) {
    return v->reference;
}

const char *pl_viewed_path(const pl_viewed *v) {
    return v->path;
}

const pl_dir *pl_viewed_dir(const pl_viewed *v) {
    return v->dir;
}

/* ---- tensors ---- */

static pl_status read_blob(pl_viewed *v, const pl_side *side, pl_tensor **out, pl_err *err) {
    pl_blob blob;
    if (v->store == NULL) return pl_fail(err, PL_E_NOT_FOUND, "the session has no store");
    if (!pl_blob_parse(side->blob, &blob))
        return pl_fail(err, PL_E_FORMAT, "'%s' is not a valid blob name", side->blob);
    return pl_store_get(v->store, &blob, side->rank, side->dims, out, err);
}

static pl_status hash_of(const pl_tensor *t, bool probe, pl_hash128 *out, pl_err *err) {
    pl_dense dense;
    pl_status st = PL_OK;
    PL_TRY(pl_dense_init(&dense, t, err));
    if (probe) {
        st = pl_dense_probe(&dense, out, err);
    } else {
        *out = pl_dense_blob(&dense, t->dtype).hash;
    }
    pl_dense_release(&dense);
    return st;
}

/* Only a file that is overwritten in place: if another is renamed over it, the mapping stays
 * valid. */
static bool is_rewritten(const pl_viewed *v, int which) {
    const struct stat *was = &v->opened[which];
    struct stat now;
    if (!v->tried[which] || stat((which == 0 ? &v->session->a : &v->session->b)->path, &now) != 0)
        return false;
    if (now.st_dev != was->st_dev || now.st_ino != was->st_ino) return v->recordings[which] == NULL;
    return now.st_size != was->st_size || now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

/* Accessing mapped bytes that are gone would crash; changed bytes were never compared. */
static void forget_rewritten(pl_viewed *v) {
    for (int which = 0; which < 2; which++) {
        if (!is_rewritten(v, which)) continue;
        for (int i = 0; i < N_RECENT; i++) {
            pl_view_pair_release(&v->recent[i].pair);
            v->recent[i].used = false;
        }
        pl_recording_close(v->recordings[which]);
        v->recordings[which] = NULL;
        v->tried[which] = false;
    }
}

/* An untrusted session may name a pipe or a terminal, and opening it would block for ever. */
static bool is_file_or_folder(const char *path, struct stat *info) {
    return stat(path, info) == 0 && (S_ISREG(info->st_mode) || S_ISDIR(info->st_mode));
}

/* The path in the session is not enough: the tensor must have the hash from the comparison, so that
 * an untrusted session cannot expose other files. A large tensor recorded by plumb has its hash
 * beside it and opens at once. */
static pl_status read_record(pl_viewed *v, int which, const pl_side *side, pl_tensor **out,
                             pl_err *err) {
    const pl_side_info *info = which == 0 ? &v->session->a : &v->session->b;
    if (!side->has_hash && !side->has_probe)
        return pl_fail(err, PL_E_NOT_FOUND, "the session has no hash of this value");
    if (!v->tried[which] && !is_file_or_folder(info->path, &v->opened[which]))
        return pl_fail(err, PL_E_NOT_FOUND, "'%s' is not a recording", info->path);
    if (!v->tried[which]) {
        const pl_status st = pl_recording_open(info->path, &v->recordings[which], err);
        v->tried[which] = st != PL_E_MEMORY;
        PL_TRY(st);
    }
    if (v->recordings[which] == NULL)
        return pl_fail(err, PL_E_NOT_FOUND, "the recording '%s' cannot be read", info->path);
    const pl_record *record = pl_recording_find(v->recordings[which], side->key);
    if (record == NULL)
        return pl_fail(err, PL_E_NOT_FOUND, "'%s' is not in '%s'", side->key, info->path);
    pl_tensor *t = NULL;
    PL_TRY(pl_recording_read(v->recordings[which], record, &t, err));
    const pl_hash128 *seen = side->has_hash ? &side->hash : &side->probe;
    pl_hash128 hash = record->hash;
    pl_status st = PL_OK;
    if (!side->has_hash || !record->has_hash || pl_tensor_bytes(t) < HASH_AGAIN_BELOW)
        st = hash_of(t, !side->has_hash, &hash, err);
    if (st == PL_OK && (hash.low != seen->low || hash.high != seen->high))
        st = pl_fail(err, PL_E_NOT_FOUND, "'%s' of '%s' has changed since it was compared",
                     side->key, info->path);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    *out = t;
    return PL_OK;
}

/* NULL with a reason when the tensor was not kept or is damaged; that is not an error. */
static pl_status read_side(pl_viewed *v, int which, const pl_side *side, pl_tensor **out,
                           pl_view_pair *pair, pl_err *failure) {
    static const char names[] = "AB";
    pl_err err = PL_ERR_INIT;
    pl_tensor *dense = NULL;
    pl_status st = PL_E_NOT_FOUND;
    if (!side->present) {
        (void)snprintf(pair->why, sizeof pair->why, "%c has no such value", names[which]);
        return PL_OK;
    }
    if (side->blob != NULL) {
        st = read_blob(v, side, out, &err);
    } else if (side->key != NULL) {
        st = read_record(v, which, side, out, &err);
    } else {
        (void)pl_fail(&err, st, "the tensor was not saved");
    }
    if (st == PL_OK) {
        st = pl_tensor_contiguous(*out, &dense, &err);
        pl_tensor_unref(*out);
        *out = dense;
    }
    if (st == PL_OK) return PL_OK;
    *out = NULL;
    if (st == PL_E_MEMORY) return pl_fail_memory(failure, 1);
    pair->unreadable = side->blob != NULL || side->key != NULL;
    (void)snprintf(pair->why, sizeof pair->why, "%c: %.200s", names[which], err.message);
    return PL_OK;
}

int64_t pl_view_worst(const pl_sync_point *p) {
    if (!p->measured) return -1;
    return p->acc.nonfinite_index >= 0 ? p->acc.nonfinite_index : p->acc.max_abs_index;
}

bool pl_view_is_numeric(const pl_tensor *t) {
    if (t == NULL) return false;
    const pl_dtype_class c = pl_dtype_class_of(t->dtype);
    return c != PL_CLASS_STRING && c != PL_CLASS_COMPLEX;
}

static pl_status join(pl_view_pair *pair, const char *layout, pl_err *failure) {
    pl_err err = PL_ERR_INIT;
    pl_status st = PL_OK;
    pl_tensor *a = NULL, *b = NULL;
    if (!pl_view_is_numeric(pair->a) || !pl_view_is_numeric(pair->b)) {
        (void)snprintf(
            pair->why, sizeof pair->why, "%s has no heatmap",
            pl_dtype_name(pl_view_is_numeric(pair->a) ? pair->b->dtype : pair->a->dtype));
        return PL_OK;
    }
    if (pl_tensor_same_shape(pair->a, pair->b) && *layout == '\0') {
        pair->joint = true;
    } else if ((st = pl_layout_apply(layout, pair->a, pair->b, &a, &b, &err)) == PL_OK &&
               pl_tensor_same_shape(a, b)) {
        pl_tensor_unref(pair->a);
        pl_tensor_unref(pair->b);
        pair->a = a;
        pair->b = b;
        pair->joint = true;
        return PL_OK;
    } else {
        (void)snprintf(pair->why, sizeof pair->why,
                       "the shapes differ, so there is no difference to show");
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st == PL_E_MEMORY ? pl_fail_memory(failure, 1) : PL_OK;
}

static void copy_pair(const pl_view_pair *from, pl_view_pair *to) {
    *to = *from;
    if (from->a != NULL) (void)pl_tensor_ref(from->a);
    if (from->b != NULL) (void)pl_tensor_ref(from->b);
}

pl_status pl_viewed_pair(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err) {
    memset(out, 0, sizeof *out);
    if (point >= v->session->n_points)
        return pl_fail(err, PL_E_NOT_FOUND, "no sync point %zu", point);
    forget_rewritten(v);
    for (int i = 0; i < N_RECENT; i++) {
        if (!v->recent[i].used || v->recent[i].point != point) continue;
        copy_pair(&v->recent[i].pair, out);
        return PL_OK;
    }
    const pl_sync_point *p = &v->session->points[point];
    pl_status st = read_side(v, 0, &p->a, &out->a, out, err);
    if (st == PL_OK) st = read_side(v, 1, &p->b, &out->b, out, err);
    if (st == PL_OK && out->a != NULL && out->b != NULL) st = join(out, p->layout, err);
    if (st != PL_OK) {
        pl_view_pair_release(out);
        return st;
    }
    if (out->unreadable) return PL_OK; /* it may be available next time */
    const size_t slot = v->next_recent++ % N_RECENT;
    pl_view_pair_release(&v->recent[slot].pair);
    v->recent[slot].used = true;
    v->recent[slot].point = point;
    copy_pair(out, &v->recent[slot].pair);
    return PL_OK;
}

pl_status pl_viewed_a(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err) {
    memset(out, 0, sizeof *out);
    if (point >= v->session->n_points)
        return pl_fail(err, PL_E_NOT_FOUND, "no sync point %zu", point);
    forget_rewritten(v);
    return read_side(v, 0, &v->session->points[point].a, &out->a, out, err);
}

pl_status pl_viewed_shown(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err) {
    PL_TRY(pl_viewed_pair(v, point, out, err));
    const pl_sync_point *p = &v->session->points[point];
    if (p->b.present || out->a == NULL || out->unreadable) return PL_OK;
    if (pl_viewed_kept(v, p, "gold", &out->b, NULL) != PL_OK) return PL_OK;
    out->gold = true;
    (void)snprintf(out->why, sizeof out->why, "nothing in B corresponds to it: shown against fp64");
    const pl_status st = join(out, "", err);
    if (st != PL_OK) pl_view_pair_release(out);
    return st;
}

void pl_view_pair_release(pl_view_pair *pair) {
    pl_tensor_unref(pair->a);
    pl_tensor_unref(pair->b);
    pair->a = pair->b = NULL;
}

pl_status pl_viewed_kept(pl_viewed *v, const pl_sync_point *p, const char *what, pl_tensor **out,
                         pl_err *err) {
    char name[40];
    pl_store_index index = { .arena = NULL };
    pl_err ignored = PL_ERR_INIT;
    const pl_status none = pl_fail(&ignored, PL_E_NOT_FOUND, "the %s of '%s' was not kept",
                                   strcmp(what, "gold") == 0 ? "fp64 value" : what, p->value);
    (void)snprintf(name, sizeof name, "%s", what);
    if (p->sample != 0) (void)snprintf(name, sizeof name, "%s%lld", what, (long long)p->sample);
    if (v->store == NULL || pl_store_index_read(v->store, name, &index, NULL) != PL_OK)
        return pl_fail(err, none, "%s", ignored.message);
    pl_status st = none;
    for (size_t i = 0; i < index.n_entries && st == none; i++) {
        const pl_store_entry *e = &index.entries[i];
        if (strcmp(e->value, p->value) != 0) continue;
        st = pl_store_get(v->store, &e->blob, e->rank, e->dims, out, err);
        if (st == none) break;
    }
    if (st == none && *out == NULL) (void)pl_fail(err, none, "%s", ignored.message);
    pl_store_index_release(&index);
    return st;
}

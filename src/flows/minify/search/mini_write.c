/* Candidates as bytes: their keys, and files that share one copy of the weights.
 *
 * The cost of a query must not grow with the weights. Large ones are removed before the model is
 * serialised, and written once to a file that all candidates refer to. Names are part of the key if
 * a user's check may look at them; else candidates that differ only in names are the same. */
#include "flows/minify/search/mini_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/wire.h"
#include "flows/minify/search/mini_state.h"
#include "graph/edit.h"
#include "onnx/onnx.h"
#include "onnx/onnx_fields.h"
#include "tensor/file/tensor_proto.h"

enum {
    LARGE = 1024, /* bytes: smaller weights stay in the model */
    HASHED_MAX = 1 << 20,
    INLINE_MAX = 1 << 16, /* models with less than this in large weights have them all inside */
    LOOSE_MAX = 64 << 20, /* bytes of tensors that may no longer belong to any state */
    ALIGNMENT = 4096,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14
};

typedef struct known_tensor {
    pl_tensor *tensor; /* keeps a reference, so that the address stays unique */
    bool original;
    pl_hash128 hash;
    int64_t offset; /* in the file; -1 = not written yet */
    const char *file;
} known_tensor;

struct pl_mini_weights {
    pl_strmap known; /* address -> known_tensor */
    size_t n_loose;  /* bytes added since the last sweep */
    pl_arena *arena;
    int fd;
    int64_t end;
    char file[32];
};

pl_status pl_mini_weights_new(pl_mini_weights **out, pl_err *err) {
    pl_mini_weights *w = pl_calloc(1, sizeof(*w));
    if (w == NULL) return pl_fail_memory(err, sizeof(*w));
    w->fd = -1;
    snprintf(w->file, sizeof(w->file), "weights.bin");
    w->arena = pl_arena_new();
    if (w->arena == NULL) {
        pl_free(w);
        return pl_fail_memory(err, 1);
    }
    *out = w;
    return PL_OK;
}

void pl_mini_weights_free(pl_mini_weights *w) {
    if (w == NULL) return;
    if (w->fd >= 0) close(w->fd);
    for (size_t i = 0; i < w->known.n_entries; i++)
        pl_tensor_unref(((const known_tensor *)w->known.entries[i].value)->tensor);
    pl_strmap_release(&w->known);
    pl_arena_free(w->arena);
    pl_free(w);
}

/* Drops tensors that nobody else refers to: candidates come and go with their tensors. */
static pl_status sweep(pl_mini_weights *w, pl_err *err) {
    pl_strmap left = PL_STRMAP_INIT;
    for (size_t i = 0; i < w->known.n_entries; i++) {
        const pl_strmap_entry *e = &w->known.entries[i];
        const known_tensor *k = e->value;
        if (!k->original && pl_tensor_is_sole(k->tensor)) continue;
        if (pl_strmap_put_n(&left, e->key, e->n_key, e->value) == 0) continue;
        pl_strmap_release(&left);
        return pl_fail_memory(err, 1);
    }
    for (size_t i = 0; i < w->known.n_entries; i++) {
        const pl_strmap_entry *e = &w->known.entries[i];
        if (pl_strmap_get_n(&left, e->key, e->n_key) == NULL)
            pl_tensor_unref(((const known_tensor *)e->value)->tensor);
    }
    pl_strmap_release(&w->known);
    w->known = left;
    w->n_loose = 0;
    return PL_OK;
}

static pl_hash128 hash_content(const pl_tensor *t) {
    pl_buf buf = PL_BUF_INIT;
    pl_hash128 hash;
    if (t->dtype != PL_STRING && pl_tensor_is_contiguous(t)) {
        hash = pl_hash128_of(t->data, pl_tensor_bytes(t));
    } else {
        pl_tensor_proto_write(&buf, NULL, t);
        hash = pl_hash128_of(pl_buf_str(&buf), buf.n_bytes);
    }
    pl_buf_release(&buf);
    const uint64_t words[] = { hash.low, hash.high, (uint64_t)t->dtype, (uint64_t)t->rank };
    hash = pl_hash128_of(words, sizeof(words));
    const pl_hash128 dims = pl_hash128_of(t->dims, (size_t)t->rank * sizeof(int64_t));
    hash.low ^= dims.low;
    hash.high += dims.high;
    return hash;
}

/* Tensors of the original are known by address: reading them would cost more than a query. Others
 * by content: in a fork the same address may be another tensor. */
static pl_status know_as(pl_mini_weights *w, pl_tensor *t, bool original, known_tensor **out,
                         pl_err *err) {
    const uintptr_t address = (uintptr_t)t;
    *out = pl_strmap_get_n(&w->known, (const char *)&address, sizeof(address));
    if (*out != NULL) return PL_OK;
    if (w->n_loose > LOOSE_MAX) PL_TRY(sweep(w, err));
    known_tensor *k = pl_arena_alloc(w->arena, sizeof(*k));
    char *key = pl_arena_alloc(w->arena, sizeof(address));
    if (k == NULL || key == NULL) return pl_fail_memory(err, sizeof(*k));
    memcpy(key, &address, sizeof(address));
    *k = (known_tensor){ t, original, { address, (uint64_t)t->dtype }, -1, NULL };
    if (!original || pl_tensor_bytes(t) < HASHED_MAX) k->hash = hash_content(t);
    if (pl_strmap_put_n(&w->known, key, sizeof(address), k) != 0) return pl_fail_memory(err, 1);
    pl_tensor_ref(t);
    if (!original) w->n_loose += pl_tensor_bytes(t);
    *out = k;
    return PL_OK;
}

static pl_status know(pl_mini_weights *w, pl_tensor *t, known_tensor **out, pl_err *err) {
    return know_as(w, t, false, out, err);
}

pl_status pl_mini_weights_know_originals(pl_mini_weights *w, const pl_mini_state *s, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    known_tensor *k = NULL;
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->init != NULL)
            PL_TRY(know_as(w, graph->values[i]->init, true, &k, err));
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (s->in[i] != NULL && s->in[i]->tensor != NULL)
            PL_TRY(know_as(w, s->in[i]->tensor, true, &k, err));
    return PL_OK;
}

pl_status pl_mini_weights_note(pl_mini_weights *w, pl_tensor *t, int64_t offset, size_t n_bytes,
                               pl_err *err) {
    known_tensor *k = NULL;
    if (n_bytes != pl_tensor_bytes(t) || !pl_tensor_is_contiguous(t)) return PL_OK;
    PL_TRY(know_as(w, t, true, &k, err));
    k->offset = offset;
    k->file = PL_ORIGINAL_FILE;
    return PL_OK;
}

void pl_mini_weights_forked(pl_mini_weights *w) {
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
    w->end = 0;
    snprintf(w->file, sizeof(w->file), "weights-%ld.bin", (long)getpid());
}

static bool is_large(const pl_value *v) {
    return v->init != NULL && v->init->dtype != PL_STRING && pl_tensor_bytes(v->init) >= LARGE;
}

/* ---- bytes and key ---- */

static pl_status put_hash(pl_mini_weights *w, pl_buf *key, pl_tensor *t, pl_err *err) {
    known_tensor *k = NULL;
    PL_TRY(know(w, t, &k, err));
    pl_buf_append(key, &k->hash, sizeof(k->hash));
    return PL_OK;
}

static pl_status put_datum(pl_mini_weights *w, pl_buf *key, const pl_datum *d, pl_err *err) {
    if (d == NULL) {
        pl_buf_putc(key, '-');
        return PL_OK;
    }
    pl_buf_putc(key, (char)('0' + (int)d->kind));
    for (size_t i = 0; i < d->n_items; i++)
        PL_TRY(put_datum(w, key, d->items[i], err));
    return d->tensor == NULL ? PL_OK : put_hash(w, key, d->tensor, err);
}

/* Hash of the key followed by the state's inputs. */
static pl_status hash_with_inputs(pl_mini_weights *w, const pl_mini_state *s, pl_buf *key,
                                  pl_hash128 *out, pl_err *err) {
    for (size_t i = 0; i < s->model->graph->n_inputs; i++)
        PL_TRY(put_datum(w, key, s->in[i], err));
    if (!pl_buf_ok(key)) return pl_fail_memory(err, 1);
    *out = pl_hash128_of(key->data, key->n_bytes);
    return PL_OK;
}

static pl_status make_key(pl_mini_weights *w, const pl_mini_state *s, pl_value *const *large,
                          pl_tensor *const *tensors, size_t n, const pl_buf *bytes, pl_hash128 *out,
                          pl_err *err) {
    pl_buf key = PL_BUF_INIT;
    pl_status st = PL_OK;
    const pl_hash128 model = pl_hash128_of(pl_buf_str(bytes), bytes->n_bytes);
    pl_buf_append(&key, &model, sizeof(model));
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        pl_buf_puts(&key, large[i]->name);
        st = put_hash(w, &key, tensors[i], err);
    }
    if (st == PL_OK) st = hash_with_inputs(w, s, &key, out, err);
    pl_buf_release(&key);
    return st;
}

pl_status pl_mini_state_bytes(const pl_mini_state *s, pl_mini_weights *w, pl_buf *out,
                              pl_hash128 *key, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    size_t n = 0;
    pl_value **large = pl_calloc(graph->n_values + 1, sizeof(pl_value *));
    pl_tensor **tensors = pl_calloc(graph->n_values + 1, sizeof(pl_tensor *));
    pl_status st = PL_OK;
    if (large == NULL || tensors == NULL) {
        st = pl_fail_memory(err, graph->n_values);
        goto done;
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        if (!is_large(graph->values[i])) continue;
        large[n] = graph->values[i];
        tensors[n++] = graph->values[i]->init;
        graph->values[i]->init = NULL;
    }
    st = pl_model_serialize(s->model, out, err);
    for (size_t i = 0; i < n; i++)
        large[i]->init = tensors[i];
    if (st == PL_OK && !pl_buf_ok(out)) st = pl_fail_memory(err, out->n_bytes);
    if (st == PL_OK) st = make_key(w, s, large, tensors, n, out, key, err);
done:
    pl_free(large);
    pl_free(tensors);
    return st;
}

static pl_status known_hash(void *ctx, pl_tensor *t, pl_hash128 *out, pl_err *err) {
    known_tensor *k = NULL;
    PL_TRY(know(ctx, t, &k, err));
    *out = k->hash;
    return PL_OK;
}

pl_status pl_mini_state_key(const pl_mini_state *s, pl_mini_weights *w, const char *spec,
                            pl_hash128 *out, pl_err *err) {
    pl_buf key = PL_BUF_INIT;
    pl_hash128 model;
    PL_TRY(pl_model_hash_by(s->model, known_hash, w, &model, err));
    pl_buf_puts(&key, spec);
    pl_buf_append(&key, &model, sizeof(model));
    const pl_status st = hash_with_inputs(w, s, &key, out, err);
    pl_buf_release(&key);
    return st;
}

/* ---- the file of weights ---- */

static pl_status write_all(int fd, const void *data, size_t n, int64_t at, const char *path,
                           pl_err *err) {
    const char *from = data;
    while (n > 0) {
        const ssize_t done = pwrite(fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return pl_fail_errno(err, errno, "write", path);
        from += done;
        at += done;
        n -= (size_t)done;
    }
    return PL_OK;
}

static pl_status store(pl_mini_weights *w, const char *dir, known_tensor *k, pl_err *err) {
    if (k->offset >= 0) return PL_OK;
    pl_buf raw = PL_BUF_INIT;
    pl_status st = PL_OK;
    char *path = pl_path_join(dir, w->file);
    if (path == NULL) return pl_fail_memory(err, 1);
    if (w->fd < 0) w->fd = pl_fd_open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const int64_t at = (w->end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (w->fd < 0) {
        st = pl_fail_errno(err, errno, "create", path);
    } else if (pl_dtype_bits(k->tensor->dtype) >= 8 && pl_tensor_is_contiguous(k->tensor)) {
        st = write_all(w->fd, k->tensor->data, pl_tensor_bytes(k->tensor), at, path, err);
        if (st == PL_OK) w->end = at + (int64_t)pl_tensor_bytes(k->tensor);
    } else {
        pl_tensor_put_raw(&raw, k->tensor);
        st = !pl_buf_ok(&raw) ? pl_fail_memory(err, 1)
                              : write_all(w->fd, pl_buf_str(&raw), raw.n_bytes, at, path, err);
        if (st == PL_OK) w->end = at + (int64_t)raw.n_bytes;
        pl_buf_release(&raw);
    }
    if (st == PL_OK) k->offset = at;
    if (st == PL_OK) k->file = pl_arena_strdup(w->arena, w->file);
    if (st == PL_OK && k->file == NULL) st = pl_fail_memory(err, 1);
    pl_free(path);
    return st;
}

static pl_status link_file(const char *from_dir, const char *to_dir, const char *file,
                           pl_err *err) {
    char *from = pl_path_join(from_dir, file), *to = pl_path_join(to_dir, file);
    pl_status st = PL_OK;
    if (from == NULL || to == NULL) {
        st = pl_fail_memory(err, 1);
    } else if (pl_path_exists(from) && link(from, to) != 0) {
        st = pl_fail_errno(err, errno, "link", to);
    }
    pl_free(from);
    pl_free(to);
    return st;
}

pl_status pl_mini_weights_link(const pl_mini_weights *w, const char *from_dir, const char *to_dir,
                               pl_err *err) {
    PL_TRY(link_file(from_dir, to_dir, PL_ORIGINAL_FILE, err));
    PL_TRY(link_file(from_dir, to_dir, "weights.bin", err));
    return strcmp(w->file, "weights.bin") == 0 ? PL_OK : link_file(from_dir, to_dir, w->file, err);
}

static void put_entry(pl_buf *out, const char *key, const char *value) {
    pl_buf buf = PL_BUF_INIT;
    pl_wire_put_string(&buf, ENTRY_KEY, key);
    pl_wire_put_string(&buf, ENTRY_VALUE, value);
    if (!pl_buf_ok(&buf)) out->failed = true;
    pl_wire_put_bytes(out, TENSOR_EXTERNAL_DATA, pl_buf_str(&buf), buf.n_bytes);
    pl_buf_release(&buf);
}

static void put_external(pl_buf *out, const pl_value *v, const known_tensor *k) {
    pl_buf inner = PL_BUF_INIT;
    char text[32];
    size_t n_bytes = 0;
    for (int i = 0; i < v->init->rank; i++)
        pl_wire_put_int(&inner, TENSOR_DIMS, v->init->dims[i]);
    pl_wire_put_int(&inner, TENSOR_DATA_TYPE, (int64_t)v->init->dtype);
    pl_wire_put_string(&inner, TENSOR_NAME, v->name);
    put_entry(&inner, "location", k->file);
    snprintf(text, sizeof(text), "%" PRId64, k->offset);
    put_entry(&inner, "offset", text);
    if (pl_raw_size(v->init->dtype, v->init->n_elements, &n_bytes)) {
        snprintf(text, sizeof(text), "%zu", n_bytes);
        put_entry(&inner, "length", text);
    }
    pl_wire_put_int(&inner, TENSOR_DATA_LOCATION, 1);
    pl_wire_put_bytes(out, GRAPH_INITIALIZER, pl_buf_str(&inner), inner.n_bytes);
    if (!pl_buf_ok(&inner)) out->failed = true;
    pl_buf_release(&inner);
}

static void put_inline(pl_buf *out, const pl_value *v) {
    pl_buf inner = PL_BUF_INIT;
    pl_tensor_proto_write(&inner, v->name, v->init);
    pl_wire_put_bytes(out, GRAPH_INITIALIZER, pl_buf_str(&inner), inner.n_bytes);
    if (!pl_buf_ok(&inner)) out->failed = true;
    pl_buf_release(&inner);
}

pl_status pl_mini_weights_put_key(pl_mini_weights *w, const pl_mini_state *s, const bool *used,
                                  pl_buf *key, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        if (!is_large(v) || !used[v->id]) continue;
        pl_buf_puts(key, v->name);
        PL_TRY(put_hash(w, key, v->init, err));
    }
    return PL_OK;
}

pl_status pl_mini_weights_put_used(pl_mini_weights *w, const pl_mini_state *s, const bool *used,
                                   const char *dir, pl_buf *out, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    size_t sum = 0;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        if (is_large(v) && (used == NULL || used[v->id])) sum += pl_tensor_bytes(v->init);
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        known_tensor *k = NULL;
        if (!is_large(v) || (used != NULL && !used[v->id])) continue;
        if (sum < INLINE_MAX) {
            put_inline(out, v);
            continue;
        }
        PL_TRY(know(w, v->init, &k, err));
        PL_TRY(store(w, dir, k, err));
        put_external(out, v, k);
    }
    return PL_OK;
}

pl_status pl_mini_weights_attach(pl_mini_weights *w, const pl_mini_state *s, const char *dir,
                                 const pl_buf *bytes, pl_buf *out, pl_err *err) {
    pl_buf weights = PL_BUF_INIT;
    pl_status st = pl_mini_weights_put_used(w, s, NULL, dir, &weights, err);
    const pl_bytes all = { (const uint8_t *)pl_buf_str(bytes), bytes->n_bytes };
    pl_wire wire = pl_wire_of(all);
    pl_wire_field field;
    const uint8_t *from = wire.at;
    while (st == PL_OK && pl_wire_next(&wire, &field)) {
        if (field.number == MODEL_GRAPH && field.type == 2) {
            pl_wire_put_bytes_head(out, MODEL_GRAPH, field.bytes.n_bytes + weights.n_bytes);
            pl_buf_append(out, field.bytes.data, field.bytes.n_bytes);
            pl_buf_append(out, pl_buf_str(&weights), weights.n_bytes);
        } else {
            pl_buf_append(out, from, (size_t)(wire.at - from));
        }
        from = wire.at;
    }
    if (st == PL_OK && (!pl_buf_ok(out) || !pl_buf_ok(&weights))) st = pl_fail_memory(err, 1);
    pl_buf_release(&weights);
    return st;
}

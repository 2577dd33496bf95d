/* The recorder: tensors go directly to the file after a reserved header, which is written last. */
#include "store/recorder.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/le.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "store/outfile.h"
#include "store/recorder_int.h"

enum {
    RESERVE_BYTES = 4 << 20, /* enough for about ten thousand values */
    /* If the header is this much larger than needed, more data than this is not copied to save
     * it. */
    COMPACT_BYTES = 32 << 20,
    NEST_MAX = 8
};

struct pl_recorder {
    char *path;
    pl_recorder_options options;
    uint64_t reserve; /* a multiple of 8; the data begins here */
    pl_outfile *files[PL_PLACE_COUNT];
    pthread_mutex_t mutex; /* guards all below */
    uint64_t n_bytes[PL_PLACE_COUNT];
    pl_arena *arena;     /* records and their strings */
    pl_strmap keys;      /* -> record */
    pl_strmap next_call; /* name -> int64_t */
    pl_recorded **records;
    size_t n_records, capacity;
    char *provenance, *graph;
    pl_status failed;
};

/* ---- life cycle ---- */

static void recorder_free(pl_recorder *r) {
    for (int i = 0; i < PL_PLACE_COUNT; i++)
        pl_outfile_discard_take(r->files[i]);
    pl_strmap_release(&r->keys);
    pl_strmap_release(&r->next_call);
    pl_arena_free(r->arena);
    pl_free(r->records);
    pl_free(r->provenance);
    pl_free(r->graph);
    pl_free(r->path);
    pthread_mutex_destroy(&r->mutex);
    pl_free(r);
}

static pl_outfile_kind file_kind(const pl_recorder *r) {
    return r->options.named_temporary ? PL_OUTFILE_NAMED : PL_OUTFILE_UNNAMED;
}

pl_status pl_recorder_open(const char *path, const pl_recorder_options *options, pl_recorder **out,
                           pl_err *err) {
    pl_recorder *r = pl_calloc(1, sizeof *r);
    if (r == NULL) return pl_fail_memory(err, sizeof *r);
    pthread_mutex_init(&r->mutex, NULL);
    if (options != NULL) r->options = *options;
    r->reserve = r->options.reserve_bytes > 0 ? r->options.reserve_bytes : RESERVE_BYTES;
    r->reserve = (r->reserve + 7) / 8 * 8;
    r->path = pl_strdup(path);
    r->arena = pl_arena_new();
    const pl_status st = r->path == NULL || r->arena == NULL
                             ? pl_fail_memory(err, strlen(path))
                             : pl_outfile_open(path, file_kind(r), &r->files[PL_PLACE_MAIN], err);
    if (st != PL_OK) {
        recorder_free(r);
        return st;
    }
    *out = r;
    return PL_OK;
}

void pl_recorder_abort_take(pl_recorder *r) {
    if (r != NULL) recorder_free(r);
}

static pl_status set_text(pl_recorder *r, char **field, const char *json, pl_err *err) {
    char *copy = pl_strdup(json);
    if (copy == NULL) return pl_fail_memory(err, strlen(json));
    pthread_mutex_lock(&r->mutex);
    pl_free(*field);
    *field = copy;
    pthread_mutex_unlock(&r->mutex);
    return PL_OK;
}

pl_status pl_recorder_set_provenance(pl_recorder *r, const char *json, pl_err *err) {
    return set_text(r, &r->provenance, json, err);
}

pl_status pl_recorder_set_graph(pl_recorder *r, const char *json, pl_err *err) {
    return set_text(r, &r->graph, json, err);
}

size_t pl_recorder_count(pl_recorder *r) {
    pthread_mutex_lock(&r->mutex);
    const size_t n = r->n_records;
    pthread_mutex_unlock(&r->mutex);
    return n;
}

uint64_t pl_recorder_bytes(pl_recorder *r) {
    uint64_t n = 0;
    pthread_mutex_lock(&r->mutex);
    for (int i = 0; i < PL_PLACE_COUNT; i++)
        n += r->n_bytes[i];
    pthread_mutex_unlock(&r->mutex);
    return n;
}

/* ---- keys ---- */

/* Names in a model are bytes, names in the file are UTF-8 without NUL. */
static void put_clean(pl_buf *out, const char *name) {
    for (size_t n = strlen(name); n > 0;) {
        const size_t step = pl_utf8_step(name, n);
        if (step == 0) {
            pl_buf_puts(out, "\xEF\xBF\xBD");
        } else {
            pl_buf_append(out, name, step);
        }
        name += step == 0 ? 1 : step;
        n -= step == 0 ? 1 : step;
    }
}

/* The first free key of NAME, NAME#1, NAME#2, …, starting at *call, which is set to its number. A
 * counter per name keeps a million repetitions from costing a million searches. */
static const char *make_key(pl_recorder *r, const char *name, int64_t *call) {
    pl_buf clean = PL_BUF_INIT;
    put_clean(&clean, name);
    const char *base = pl_buf_ok(&clean) ? pl_arena_strdup(r->arena, pl_buf_str(&clean)) : NULL;
    pl_buf_release(&clean);
    if (base == NULL) return NULL;
    int64_t *next = pl_strmap_get(&r->next_call, base);
    if (next == NULL) {
        next = pl_arena_alloc(r->arena, sizeof *next);
        if (next == NULL || pl_strmap_put(&r->next_call, base, next) != 0) return NULL;
    }
    for (int64_t k = *call > *next ? *call : *next;; k++) {
        char suffix[32] = "";
        if (k > 0) snprintf(suffix, sizeof suffix, "#%" PRId64, k);
        const char *key = pl_arena_printf(r->arena, "%s%s", base, suffix);
        if (key == NULL) return NULL;
        if (pl_strmap_has(&r->keys, key) || strcmp(key, "__metadata__") == 0) continue;
        *next = k + 1;
        *call = *call > 0 ? *call : k;
        return key;
    }
}

static const char *keep(pl_recorder *r, const char *text, bool *ok) {
    if (text == NULL) return NULL;
    const char *copy = pl_arena_strdup(r->arena, text);
    *ok = *ok && copy != NULL;
    return copy;
}

static void keep_stands_for(pl_recorder *r, const pl_record_info *from, pl_record_info *to,
                            bool *ok) {
    if (from->n_stands_for == 0) return;
    const char **names = pl_arena_array(r->arena, from->n_stands_for, sizeof *names);
    *ok = *ok && names != NULL;
    for (size_t i = 0; names != NULL && i < from->n_stands_for; i++)
        names[i] = keep(r, from->stands_for[i], ok);
    to->stands_for = names;
    to->n_stands_for = names == NULL ? 0 : from->n_stands_for;
}

static void keep_left_out(pl_recorder *r, const pl_ranges *from, pl_record_info *to, bool *ok) {
    if (from == NULL || from->n == 0) return;
    pl_ranges *copy = pl_arena_alloc(r->arena, sizeof *copy);
    int64_t *at = pl_arena_array(r->arena, 2 * from->n, sizeof *at);
    *ok = *ok && copy != NULL && at != NULL;
    if (!*ok) return;
    memcpy(at, from->at, 2 * from->n * sizeof *at);
    *copy = (pl_ranges){ .at = at, .n = from->n };
    to->left_out = copy;
}

/* Adds a record with its key and strings; the mutex must be held. */
static pl_recorded *add_record(pl_recorder *r, const pl_record_info *info, const char *name) {
    if (!PL_ARRAY_ROOM(r->records, r->n_records, &r->capacity)) return NULL;
    pl_recorded *record = pl_arena_alloc(r->arena, sizeof *record);
    bool ok = record != NULL;
    if (!ok) return NULL;
    int64_t call = info->call;
    record->key = make_key(r, name, &call);
    record->info = (pl_record_info){ .value = keep(r, info->value, &ok),
                                     .node = keep(r, info->node, &ok),
                                     .op = keep(r, info->op, &ok),
                                     .module = keep(r, info->module, &ok),
                                     .graph = keep(r, info->graph, &ok),
                                     .call = call,
                                     .flags = info->flags };
    keep_stands_for(r, info, &record->info, &ok);
    keep_left_out(r, info->left_out, &record->info, &ok);
    record->place = PL_PLACE_NONE;
    if (!ok || record->key == NULL || pl_strmap_put(&r->keys, record->key, record) != 0)
        return NULL;
    r->records[r->n_records++] = record;
    return record;
}

/* ---- tensors ---- */

static int place_of(pl_dtype dtype, size_t n_bytes) {
    if (n_bytes % 8 == 0) return PL_PLACE_MAIN;
    const size_t size = *pl_dtype_safetensors(dtype) == '\0' ? 1 : pl_dtype_bytes(dtype);
    return size == 4 ? PL_PLACE_4 : size == 2 ? PL_PLACE_2 : PL_PLACE_1;
}

static unsigned stride_flags(const pl_tensor *t) {
    unsigned flags = pl_tensor_is_contiguous(t) ? 0 : PL_RECORD_STRIDED;
    for (int i = 0; i < t->rank; i++)
        if (t->strides[i] == 0 && t->dims[i] > 1) flags |= PL_RECORD_BROADCAST;
    return flags;
}

/* Reserves space in the file and adds the record; the mutex must be held. */
static pl_status place_tensor(pl_recorder *r, const pl_record_info *info, const char *name,
                              const pl_tensor *t, pl_recorded *values, const char **key,
                              pl_err *err) {
    if (r->failed != PL_OK) {
        return pl_fail(err, r->failed, "an earlier write to '%s' failed", r->path);
    }
    if (!r->options.stats_only) {
        const int place = place_of(t->dtype, (size_t)values->n_bytes);
        if (r->files[place] == NULL) {
            PL_TRY(pl_outfile_open(r->path, file_kind(r), &r->files[place], err));
        }
        if (values->n_bytes > INT64_MAX / 16 - r->n_bytes[place]) {
            return pl_fail(err, PL_E_LIMIT, "'%s' is too large", r->path);
        }
        values->place = place;
        values->offset = r->n_bytes[place];
    }
    pl_recorded *record = add_record(r, info, name);
    if (record == NULL) return pl_fail_memory(err, sizeof *record);
    record->kind = PL_TYPE_TENSOR;
    record->dtype = t->dtype;
    record->rank = t->rank;
    memcpy(record->dims, t->dims, sizeof record->dims);
    memcpy(record->strides, t->strides, sizeof record->strides);
    record->info.flags |= stride_flags(t);
    record->hash = values->hash;
    record->stats = values->stats;
    record->place = values->place;
    record->offset = values->offset;
    record->n_bytes = values->n_bytes;
    if (values->place != PL_PLACE_NONE) r->n_bytes[values->place] += values->n_bytes;
    *key = record->key;
    return PL_OK;
}

static pl_status fail_recorder(pl_recorder *r, pl_status st) {
    pthread_mutex_lock(&r->mutex);
    if (r->failed == PL_OK) r->failed = st;
    pthread_mutex_unlock(&r->mutex);
    return st;
}

/* Hashing and writing happen outside the lock: threads only wait for their position. */
static pl_status put_named(pl_recorder *r, const pl_record_info *info, const char *name,
                           const pl_tensor *t, const char **key, pl_err *err) {
    pl_dense dense;
    pl_status st = pl_dense_init(&dense, t, err);
    if (st != PL_OK) return fail_recorder(r, st);
    pl_recorded values = { .place = PL_PLACE_NONE, .n_bytes = dense.n_bytes };
    values.hash = pl_hash128_of(dense.data, dense.n_bytes);
    if (r->options.stats_only) values.stats = pl_stats_of(dense.owner);
    pthread_mutex_lock(&r->mutex);
    st = place_tensor(r, info, name, t, &values, key, err);
    pthread_mutex_unlock(&r->mutex);
    if (st == PL_OK && values.place != PL_PLACE_NONE) {
        const uint64_t base = values.place == PL_PLACE_MAIN ? r->reserve : 0;
        st = pl_outfile_write(r->files[values.place], base + values.offset, dense.data,
                              dense.n_bytes, err);
    }
    pl_dense_release(&dense);
    return st == PL_OK ? st : fail_recorder(r, st);
}

pl_status pl_recorder_put(pl_recorder *r, const pl_record_info *info, const pl_tensor *t,
                          pl_err *err) {
    const char *key = NULL;
    return put_named(r, info, info->value, t, &key, err);
}

/* ---- sequences and optionals ---- */

static pl_status put_container(pl_recorder *r, const pl_record_info *info, const char *name,
                               const pl_datum *d, int depth, const char **key, pl_err *err);

static pl_status put_any(pl_recorder *r, const pl_record_info *info, const char *name,
                         const pl_datum *d, int depth, const char **key, pl_err *err) {
    if (d->kind == PL_TYPE_TENSOR) return put_named(r, info, name, d->tensor, key, err);
    if (depth > NEST_MAX) {
        return fail_recorder(r, pl_fail(err, PL_E_UNSUPPORTED, "'%s' is nested too deeply", name));
    }
    return put_container(r, info, name, d, depth, key, err);
}

static pl_status put_container(pl_recorder *r, const pl_record_info *info, const char *name,
                               const pl_datum *d, int depth, const char **key, pl_err *err) {
    pthread_mutex_lock(&r->mutex);
    pl_recorded *record = r->failed == PL_OK ? add_record(r, info, name) : NULL;
    const pl_status failed = r->failed;
    if (record != NULL) {
        record->kind = d->kind;
        record->dtype = d->elem_dtype;
        record->items = pl_arena_array(r->arena, d->n_items, sizeof(char *));
    }
    pthread_mutex_unlock(&r->mutex);
    if (failed != PL_OK) return pl_fail(err, failed, "an earlier write to '%s' failed", r->path);
    if (record == NULL || record->items == NULL)
        return fail_recorder(r, pl_fail_memory(err, d->n_items));
    for (size_t i = 0; i < d->n_items; i++) {
        pl_buf item = PL_BUF_INIT;
        pl_buf_printf(&item, "%s[%zu]", record->key, i);
        pl_record_info child = *info;
        child.call = 0; /* already in the container's key */
        pl_status st = pl_buf_ok(&item) ? PL_OK : fail_recorder(r, pl_fail_memory(err, 1));
        if (st == PL_OK) {
            st = put_any(r, &child, pl_buf_str(&item), d->items[i], depth + 1, &record->items[i],
                         err);
        }
        pl_buf_release(&item);
        PL_TRY(st);
        record->n_items = i + 1;
    }
    *key = record->key;
    return PL_OK;
}

pl_status pl_recorder_put_datum(pl_recorder *r, const pl_record_info *info, const pl_datum *d,
                                pl_err *err) {
    const char *key = NULL;
    return put_any(r, info, info->value, d, 0, &key, err);
}

/* ---- the end ---- */

static pl_status write_head(pl_outfile *file, pl_buf *header, uint64_t n_header, pl_err *err) {
    uint8_t length[8];
    while (header->n_bytes < n_header && pl_buf_ok(header))
        pl_buf_putc(header, ' ');
    if (!pl_buf_ok(header)) return pl_fail_memory(err, (size_t)n_header);
    pl_le64_put(length, n_header);
    PL_TRY(pl_outfile_write(file, 0, length, sizeof length, err));
    return pl_outfile_write(file, 8, header->data, header->n_bytes, err);
}

/* Copies the data to a file with a header of the exact size. */
static pl_status rewrite(pl_recorder *r, uint64_t start, pl_err *err) {
    pl_outfile *fresh = NULL;
    PL_TRY(pl_outfile_open(r->path, file_kind(r), &fresh, err));
    const pl_status st = pl_outfile_copy(fresh, start, r->files[PL_PLACE_MAIN], r->reserve,
                                         r->n_bytes[PL_PLACE_MAIN], err);
    if (st != PL_OK) {
        pl_outfile_discard_take(fresh);
        return st;
    }
    pl_outfile_discard_take(r->files[PL_PLACE_MAIN]);
    r->files[PL_PLACE_MAIN] = fresh;
    return PL_OK;
}

static pl_status finish(pl_recorder *r, pl_buf *header, pl_err *err) {
    pl_recorder_layout layout = { .records = r->records,
                                  .n_records = r->n_records,
                                  .provenance = r->provenance,
                                  .graph = r->graph,
                                  .stats_only = r->options.stats_only };
    for (int i = 1; i < PL_PLACE_COUNT; i++)
        layout.starts[i] = layout.starts[i - 1] + r->n_bytes[i - 1];
    PL_TRY(pl_recorder_header(&layout, header, err));
    uint64_t start = 8 + (header->n_bytes + 7) / 8 * 8;
    const uint64_t n_main = r->n_bytes[PL_PLACE_MAIN];
    if (start > r->reserve || n_main <= COMPACT_BYTES) {
        PL_TRY(rewrite(r, start, err));
    } else {
        start = r->reserve;
    }
    for (int i = 1; i < PL_PLACE_COUNT; i++) {
        if (r->files[i] == NULL) continue;
        PL_TRY(pl_outfile_copy(r->files[PL_PLACE_MAIN], start + layout.starts[i], r->files[i], 0,
                               r->n_bytes[i], err));
    }
    return write_head(r->files[PL_PLACE_MAIN], header, start - 8, err);
}

pl_status pl_recorder_commit_take(pl_recorder *r, pl_err *err) {
    pl_buf header = PL_BUF_INIT;
    pl_status st = r->failed;
    if (st != PL_OK) {
        pl_fail(err, st, "an earlier write to '%s' failed", r->path);
    } else {
        st = finish(r, &header, err);
    }
    if (st == PL_OK) {
        pl_outfile *file = r->files[PL_PLACE_MAIN];
        r->files[PL_PLACE_MAIN] = NULL;
        st = pl_outfile_publish_take(file, err);
    }
    pl_buf_release(&header);
    recorder_free(r);
    return st;
}

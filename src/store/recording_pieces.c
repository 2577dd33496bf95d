#include "store/recording_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/recording_int.h"

enum { N_TEXTS = 6 };

/* A record as it travels between processes of the same program. */
typedef struct wire {
    int64_t call, dims[PL_RANK_MAX], strides[PL_RANK_MAX], offset;
    uint64_t flags, has_shape, dtype, rank, has_hash, has_data, has_stats, n_left_out;
    pl_hash128 hash;
    pl_stats stats;
} wire;

static void list_texts(const pl_record *r, const char *out[N_TEXTS]) {
    const char *const all[N_TEXTS] = { r->key, r->graph, r->node, r->op, r->module, r->unmapped };
    memcpy(out, all, sizeof all);
}

/* ---- describing ---- */

static void put_text(pl_buf *out, const char *text) {
    pl_buf_append(out, text, strlen(text) + 1);
}

static void put_record(const pl_record *r, pl_buf *out) {
    const char *texts[N_TEXTS];
    wire w;
    memset(&w, 0, sizeof w); /* also between the members: descriptions are compared */
    w.call = r->call;
    memcpy(w.dims, r->dims, sizeof w.dims);
    memcpy(w.strides, r->strides, sizeof w.strides);
    w.offset = r->offset;
    w.flags = r->flags;
    w.has_shape = r->has_shape;
    w.dtype = (uint64_t)r->dtype;
    w.rank = (uint64_t)r->rank;
    w.has_hash = r->has_hash;
    w.has_data = r->has_data;
    w.has_stats = r->has_stats;
    w.hash = r->hash;
    w.stats = r->stats;
    w.n_left_out = r->left_out.n;
    pl_buf_append(out, &w, sizeof w);
    if (r->left_out.n > 0)
        pl_buf_append(out, r->left_out.at, 2 * r->left_out.n * sizeof *r->left_out.at);
    list_texts(r, texts);
    for (size_t i = 0; i < N_TEXTS; i++)
        put_text(out, texts[i]);
}

/* Name, length of what follows, records. */
static pl_status put_piece(const pl_dir *dir, const char *name, pl_buf *out, pl_err *err) {
    pl_recording *nested = NULL;
    pl_buf records = PL_BUF_INIT;
    PL_TRY(pl_recording_open_in(dir, name, &nested, err));
    for (size_t i = 0; i < nested->n_records; i++)
        if (nested->records[i].kind == PL_TYPE_TENSOR) put_record(&nested->records[i], &records);
    const uint64_t n = records.n_bytes;
    put_text(out, name);
    pl_buf_append(out, &n, sizeof n);
    pl_buf_append(out, pl_buf_str(&records), records.n_bytes);
    const bool ok = pl_buf_ok(&records) && pl_buf_ok(out);
    pl_buf_release(&records);
    pl_recording_close(nested);
    return ok ? PL_OK : pl_fail_memory(err, n);
}

pl_status pl_pieces_look(const char *path, pl_pieces_kind *kind, pl_buf *out, pl_err *err) {
    pl_dir *dir = NULL;
    pl_dir_list names = { NULL, 0 };
    size_t n = 0;
    *kind = pl_path_exists(path) ? PL_PIECES_OTHER : PL_PIECES_NONE;
    if (!pl_path_is_dir(path)) return PL_OK;
    PL_TRY(pl_dir_open(path, &dir, err));
    pl_status st = pl_dir_names(dir, ".", &names, err);
    if (st == PL_OK && names.n_names == 0) *kind = PL_PIECES_NONE;
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        if (pl_import_rank_of(dir, names.names[i]) < 0) continue;
        st = put_piece(dir, names.names[i], out, err);
        n++;
    }
    if (n > 0) *kind = PL_PIECES_SOME;
    pl_dir_list_free(&names);
    pl_dir_close(dir);
    return st == PL_OK ? st : pl_err_wrap(err, st, "%s", path);
}

bool pl_pieces_next(const char *data, size_t n, size_t *at, pl_piece *out) {
    uint64_t length = 0;
    if (*at >= n) return false;
    const char *end = memchr(data + *at, '\0', n - *at);
    if (end == NULL) return false;
    const size_t head = (size_t)(end - data) + 1;
    if (n - head < sizeof length) return false;
    memcpy(&length, data + head, sizeof length);
    if (length > n - head - sizeof length) return false;
    *out =
        (pl_piece){ .name = data + *at, .records = data + head + sizeof length, .n_bytes = length };
    *at = head + sizeof length + (size_t)length;
    return true;
}

/* ---- records of a piece out of reach ---- */

static const char *take_text(pl_arena *arena, const pl_piece *p, size_t *at) {
    const char *end = *at < p->n_bytes ? memchr(p->records + *at, '\0', p->n_bytes - *at) : NULL;
    if (end == NULL) return NULL;
    const char *text = pl_arena_strdup(arena, p->records + *at);
    *at = (size_t)(end - p->records) + 1;
    return text;
}

static bool take_left_out(pl_arena *arena, const pl_piece *p, size_t n, size_t *at,
                          pl_ranges *out) {
    *out = (pl_ranges){ .n = n };
    if (n == 0) return true;
    if (n > (p->n_bytes - *at) / (2 * sizeof *out->at)) return false;
    out->at = pl_arena_array(arena, 2 * n, sizeof *out->at);
    if (out->at == NULL) return false;
    memcpy(out->at, p->records + *at, 2 * n * sizeof *out->at);
    *at += 2 * n * sizeof *out->at;
    return true;
}

static pl_status take_record(pl_recording *rec, const pl_piece *p, int number, size_t *at,
                             pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    const char *texts[N_TEXTS];
    wire w;
    pl_ranges left_out = { .n = 0 };
    bool ok = p->n_bytes - *at >= sizeof w;
    if (ok) memcpy(&w, p->records + *at, sizeof w);
    *at += sizeof w;
    ok = ok && take_left_out(arena, p, (size_t)w.n_left_out, at, &left_out);
    for (size_t i = 0; ok && i < N_TEXTS; i++)
        ok = (texts[i] = take_text(arena, p, at)) != NULL;
    if (!ok || w.rank > PL_RANK_MAX || w.dtype >= PL_DTYPE_COUNT)
        return pl_fail(err, PL_E_INTERNAL, "a damaged description of '%s'", p->name);
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_REMOTE);
    const char *key = pl_arena_printf(arena, "rank%d/%s", number, texts[0]);
    pl_record *r = source == NULL || key == NULL ? NULL : pl_recording_add(rec, key, err);
    if (r == NULL) return pl_fail_memory(err, 1);
    source->owners = p->owners;
    source->path = r->key;
    r->graph = texts[1];
    r->node = texts[2];
    r->op = texts[3];
    r->module = texts[4];
    r->unmapped = texts[5];
    memcpy(r->dims, w.dims, sizeof r->dims);
    memcpy(r->strides, w.strides, sizeof r->strides);
    r->offset = w.offset;
    r->flags = (unsigned)w.flags;
    r->left_out = left_out;
    r->has_shape = w.has_shape != 0;
    r->dtype = (pl_dtype)w.dtype;
    r->rank = (int)w.rank;
    r->has_hash = w.has_hash != 0;
    r->has_data = w.has_data != 0;
    r->has_stats = w.has_stats != 0;
    r->hash = w.hash;
    r->stats = w.stats;
    r->source = source;
    return PL_OK;
}

/* ---- all pieces ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const pl_piece *)a)->name, ((const pl_piece *)b)->name);
}

static pl_status add_piece(pl_recording *rec, const pl_piece *p, int own, pl_err *err) {
    const int number = pl_import_number_of(p->name);
    if (p->owners[own] != 0) {
        const size_t first = rec->n_records;
        PL_TRY(pl_import_rank(rec, number, p->name, err));
        for (size_t i = first; i < rec->n_records; i++)
            ((pl_record_source *)(uintptr_t)rec->records[i].source)->owners = p->owners;
        return PL_OK;
    }
    for (size_t at = 0; at < p->n_bytes;)
        PL_TRY(take_record(rec, p, number, &at, err));
    return PL_OK;
}

static pl_status add_pieces(pl_recording *rec, const pl_piece *given, size_t n, int own,
                            int n_processes, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_piece *pieces = pl_arena_array(arena, n + 1, sizeof *pieces);
    if (pieces == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++) {
        pieces[i] = given[i];
        pieces[i].owners = pl_arena_array(arena, (size_t)n_processes, 1);
        if (pieces[i].owners == NULL) return pl_fail_memory(err, (size_t)n_processes);
        memcpy(pieces[i].owners, given[i].owners, (size_t)n_processes);
    }
    if (n > 1) qsort(pieces, n, sizeof *pieces, by_name);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            if (pl_import_number_of(pieces[k].name) == pl_import_number_of(pieces[i].name))
                return pl_fail(err, PL_E_FORMAT, "two files of rank %d: %s and %s",
                               pl_import_number_of(pieces[i].name), pieces[k].name, pieces[i].name);
        PL_TRY(add_piece(rec, &pieces[i], own, err));
    }
    return PL_OK;
}

pl_status pl_recording_open_pieces(const char *path, const pl_piece *pieces, size_t n_pieces,
                                   int own, int n_processes, const pl_piece_fetch *fetch,
                                   pl_recording **out, pl_err *err) {
    pl_recording *rec = NULL;
    pl_status st = PL_OK;
    PL_TRY(pl_recording_new(path, &rec, err));
    rec->format = "ranks";
    rec->internal->fetch = *fetch;
    if (pl_path_is_dir(path)) st = pl_dir_open(path, &rec->internal->dir, err);
    if (st == PL_OK) st = add_pieces(rec, pieces, n_pieces, own, n_processes, err);
    if (st != PL_OK) {
        pl_recording_close(rec);
        return pl_err_wrap(err, st, "%s", path);
    }
    *out = rec;
    return PL_OK;
}

bool pl_recording_is_in_reach(const pl_recording *rec, const pl_record *r, int process) {
    const pl_record_source *s = r->source;
    if (s == NULL || rec->internal->fetch.read == NULL) return true;
    if (s->kind != PL_SOURCE_JOINED) return s->owners == NULL || s->owners[process] != 0;
    for (size_t i = 0; i < s->n_parts; i++) {
        const pl_record *part = pl_recording_find(rec, s->parts[i]);
        if (part != NULL && !pl_recording_is_in_reach(rec, part, process)) return false;
    }
    return true;
}

pl_status pl_remote_read(const pl_recording *rec, const pl_record_source *s, pl_tensor **out,
                         pl_err *err) {
    const pl_piece_fetch *f = &rec->internal->fetch;
    int owner = 0;
    while (s->owners[owner] == 0) /* it was described by one */
        owner++;
    return f->read(f->ctx, s->path, owner, out, err);
}

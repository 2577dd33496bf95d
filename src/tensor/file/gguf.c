/* Reading GGUF: a header of counts, key-value pairs, descriptions of tensors, then their data. */
#include "tensor/file/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/le.h"
#include "base/size.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "tensor/file/raw.h"

enum { ALIGNMENT_DEFAULT = 32, TEXT_SHOWN = 200 };

struct pl_gguf_int {
    pl_file_map *map;
    pl_arena *arena;
    pl_strmap by_name; /* of tensors */
    pl_strmap by_key;  /* of metadata -> index + 1 */
};

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static size_t left(const cursor *c) {
    return (size_t)(c->end - c->at);
}

/* ---- numbers and text ---- */

static const struct {
    const char *name;
    size_t n_bytes; /* 0: variable */
} kinds[PL_GGUF_KINDS] = {
    [PL_GGUF_U8] = { "uint8", 1 },   [PL_GGUF_I8] = { "int8", 1 },
    [PL_GGUF_U16] = { "uint16", 2 }, [PL_GGUF_I16] = { "int16", 2 },
    [PL_GGUF_U32] = { "uint32", 4 }, [PL_GGUF_I32] = { "int32", 4 },
    [PL_GGUF_F32] = { "float", 4 },  [PL_GGUF_BOOL] = { "bool", 1 },
    [PL_GGUF_TEXT] = { "text", 0 },  [PL_GGUF_ARRAY] = { "array", 0 },
    [PL_GGUF_U64] = { "uint64", 8 }, [PL_GGUF_I64] = { "int64", 8 },
    [PL_GGUF_F64] = { "double", 8 },
};

const char *pl_gguf_kind_name(pl_gguf_kind kind) {
    return (unsigned)kind < PL_GGUF_KINDS ? kinds[kind].name : "unknown";
}

static pl_status cut_off(const char *what, pl_err *err) {
    return pl_fail(err, PL_E_FORMAT, "the file ends within %s", what);
}

static pl_status take32(cursor *c, const char *what, uint32_t *out, pl_err *err) {
    if (left(c) < 4) return cut_off(what, err);
    *out = pl_le32(c->at);
    c->at += 4;
    return PL_OK;
}

static pl_status take64(cursor *c, const char *what, uint64_t *out, pl_err *err) {
    if (left(c) < 8) return cut_off(what, err);
    *out = pl_le64(c->at);
    c->at += 8;
    return PL_OK;
}

static pl_status take_text(cursor *c, const char *what, pl_bytes *out, pl_err *err) {
    uint64_t n = 0;
    PL_TRY(take64(c, what, &n, err));
    if (n > left(c)) return cut_off(what, err);
    *out = (pl_bytes){ c->at, (size_t)n };
    c->at += n;
    return PL_OK;
}

/* Names must be text: they become names of values. */
static pl_status take_name(cursor *c, const char *what, pl_arena *arena, const char **out,
                           pl_err *err) {
    pl_bytes text = { NULL, 0 };
    PL_TRY(take_text(c, what, &text, err));
    const char *s = (const char *)text.data;
    for (size_t i = 0, step; i < text.n_bytes; i += step) {
        step = pl_utf8_step(s + i, text.n_bytes - i);
        if (step == 0 || s[i] == '\0')
            return pl_fail(err, PL_E_FORMAT, "%s is not UTF-8 text without NUL", what);
    }
    *out = pl_arena_strndup(arena, s, text.n_bytes);
    return *out == NULL ? pl_fail_memory(err, text.n_bytes) : PL_OK;
}

/* ---- metadata ---- */

static pl_status skip_items(cursor *c, pl_gguf_kind kind, uint64_t n, pl_err *err) {
    const size_t size = kinds[kind].n_bytes;
    if (size > 0) {
        if (n > left(c) / size) return cut_off("the value", err);
        c->at += n * size;
        return PL_OK;
    }
    for (uint64_t i = 0; i < n; i++) {
        pl_bytes text = { NULL, 0 };
        PL_TRY(take_text(c, "the value", &text, err));
    }
    return PL_OK;
}

static pl_status take_kind(cursor *c, pl_gguf_kind *out, pl_err *err) {
    uint32_t number = 0;
    PL_TRY(take32(c, "the type of a value", &number, err));
    if (number >= PL_GGUF_KINDS)
        return pl_fail(err, PL_E_UNSUPPORTED, "unknown type %" PRIu32, number);
    *out = (pl_gguf_kind)number;
    return PL_OK;
}

static pl_status read_pair(cursor *c, pl_gguf_pair *pair, pl_err *err) {
    PL_TRY(take_kind(c, &pair->kind, err));
    pair->is_array = pair->kind == PL_GGUF_ARRAY;
    pair->n_items = 1;
    if (pair->is_array) {
        PL_TRY(take_kind(c, &pair->kind, err));
        PL_TRY(take64(c, "the length of an array", &pair->n_items, err));
        if (pair->kind == PL_GGUF_ARRAY)
            return pl_fail(err, PL_E_UNSUPPORTED, "an array of arrays");
    }
    const uint8_t *begin = c->at;
    PL_TRY(skip_items(c, pair->kind, pair->n_items, err));
    pair->bytes = (pl_bytes){ begin, (size_t)(c->at - begin) };
    return PL_OK;
}

static pl_status read_pairs(cursor *c, pl_gguf *file, pl_err *err) {
    struct pl_gguf_int *in = file->internal;
    for (size_t i = 0; i < file->n_metadata; i++) {
        pl_gguf_pair *pair = &file->metadata[i];
        pl_status st = take_name(c, "a key", in->arena, &pair->key, err);
        if (st == PL_OK) {
            st = read_pair(c, pair, err);
            if (st != PL_OK) return pl_err_wrap(err, st, "metadata '%.200s'", pair->key);
        }
        if (st != PL_OK) return pl_err_wrap(err, st, "metadata %zu", i);
        if (pl_strmap_has(&in->by_key, pair->key))
            return pl_fail(err, PL_E_FORMAT, "metadata '%.200s' is there twice", pair->key);
        if (pl_strmap_put(&in->by_key, pair->key, (void *)(uintptr_t)(i + 1)) != 0)
            return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

const pl_gguf_pair *pl_gguf_find(const pl_gguf *file, const char *key) {
    const uintptr_t at = (uintptr_t)pl_strmap_get(&file->internal->by_key, key);
    return at == 0 ? NULL : &file->metadata[at - 1];
}

static pl_status alignment_of(const pl_gguf *file, size_t *out, pl_err *err) {
    const pl_gguf_pair *pair = pl_gguf_find(file, "general.alignment");
    *out = ALIGNMENT_DEFAULT;
    if (pair == NULL) return PL_OK;
    if (pair->is_array || pair->kind != PL_GGUF_U32)
        return pl_fail(err, PL_E_FORMAT, "general.alignment is not a uint32");
    *out = pl_le32(pair->bytes.data);
    if (*out == 0 || (*out & (*out - 1)) != 0)
        return pl_fail(err, PL_E_FORMAT, "general.alignment is %zu, not a power of two", *out);
    return PL_OK;
}

/* ---- tensors ---- */

static pl_status read_shape(cursor *c, pl_gguf_entry *e, pl_err *err) {
    uint32_t rank = 0, number = 0;
    PL_TRY(take32(c, "a rank", &rank, err));
    if (rank > PL_GGUF_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "rank %" PRIu32 "; at most %d is supported", rank,
                       PL_GGUF_RANK_MAX);
    e->rank = (int)rank;
    for (int i = e->rank - 1; i >= 0; i--) {
        uint64_t dim = 0;
        PL_TRY(take64(c, "a shape", &dim, err));
        if (dim > INT64_MAX) return pl_fail(err, PL_E_FORMAT, "a dim is negative");
        e->dims[i] = (int64_t)dim;
    }
    PL_TRY(take32(c, "a type", &number, err));
    e->type = pl_gguf_type_of(number);
    return e->type != NULL ? PL_OK
                           : pl_fail(err, PL_E_UNSUPPORTED, "unknown type %" PRIu32, number);
}

/* The writer puts tensors one after another, padded to the alignment. */
static pl_status place(pl_gguf_entry *e, uint64_t offset, size_t alignment, size_t *end,
                       pl_err *err) {
    char text[200];
    int64_t n;
    if (!pl_dims_product(e->rank, e->dims, &n))
        return pl_fail(err, PL_E_LIMIT, "the shape %s is too large",
                       pl_dims_describe(e->rank, e->dims, text, sizeof text));
    if ((e->rank > 0 ? e->dims[e->rank - 1] : 1) % e->type->block != 0)
        return pl_fail(err, PL_E_FORMAT, "rows of %s are not whole blocks of %" PRId64 " (%s)",
                       pl_dims_describe(e->rank, e->dims, text, sizeof text), e->type->block,
                       e->type->name);
    if (!pl_size_mul((size_t)(n / e->type->block), e->type->n_bytes, &e->n_bytes))
        return pl_fail(err, PL_E_LIMIT, "the tensor is too large");
    if (offset != *end)
        return pl_fail(err, PL_E_FORMAT, "its data begin at %" PRIu64 ", expected %zu", offset,
                       *end);
    e->offset = *end; /* relative to the start of the data until that is known */
    size_t padded;
    if (!pl_size_add(*end, e->n_bytes, &padded) || !pl_size_add(padded, alignment - 1, &padded))
        return pl_fail(err, PL_E_LIMIT, "the tensors are too large");
    *end = padded / alignment * alignment;
    return PL_OK;
}

static pl_status read_entry(cursor *c, pl_gguf *file, pl_gguf_entry *e, size_t alignment,
                            size_t *end, pl_err *err) {
    struct pl_gguf_int *in = file->internal;
    uint64_t offset = 0;
    PL_TRY(take_name(c, "the name of a tensor", in->arena, &e->name, err));
    pl_status st = read_shape(c, e, err);
    if (st == PL_OK) st = take64(c, "an offset", &offset, err);
    if (st == PL_OK) st = place(e, offset, alignment, end, err);
    if (st == PL_OK && pl_strmap_has(&in->by_name, e->name))
        st = pl_fail(err, PL_E_FORMAT, "the name is there twice");
    if (st == PL_OK && pl_strmap_put(&in->by_name, e->name, e) != 0) st = pl_fail_memory(err, 1);
    return st == PL_OK ? PL_OK : pl_err_wrap(err, st, "tensor '%.200s'", e->name);
}

static pl_status read_entries(cursor *c, pl_gguf *file, pl_err *err) {
    const pl_file_map *map = file->internal->map;
    size_t alignment, end = 0;
    PL_TRY(alignment_of(file, &alignment, err));
    for (size_t i = 0; i < file->n_entries; i++)
        PL_TRY(read_entry(c, file, &file->entries[i], alignment, &end, err));
    size_t start = (size_t)(c->at - map->data);
    if (file->n_entries == 0) return PL_OK;
    if (!pl_size_add(start, alignment - 1, &start)) return cut_off("the data", err);
    start = start / alignment * alignment;
    for (size_t i = 0; i < file->n_entries; i++) {
        pl_gguf_entry *e = &file->entries[i];
        size_t last;
        if (!pl_size_add(start, e->offset, &e->offset) ||
            !pl_size_add(e->offset, e->n_bytes, &last) || last > map->n_bytes)
            return pl_fail(err, PL_E_FORMAT,
                           "tensor '%.200s' ends beyond the file, which has %zu bytes: cut off, or "
                           "still being written",
                           e->name, map->n_bytes);
    }
    return PL_OK;
}

/* ---- the file ---- */

bool pl_gguf_sniff(const void *data, size_t n_bytes) {
    return n_bytes >= 8 && memcmp(data, "GGUF", 4) == 0;
}

static pl_status check_version(pl_gguf *file, uint32_t version, pl_err *err) {
    file->version = version;
    if (version == 2 || version == 3) return PL_OK;
    if ((version & 0xFFFF) == 0)
        return pl_fail(err, PL_E_UNSUPPORTED, "a big-endian GGUF file; only little-endian is read");
    return pl_fail(err, PL_E_UNSUPPORTED, "GGUF version %" PRIu32 ", expected 2 or 3", version);
}

static pl_status read_file(pl_gguf *file, pl_err *err) {
    struct pl_gguf_int *in = file->internal;
    cursor c = { in->map->data, in->map->data + in->map->n_bytes };
    uint32_t version = 0;
    uint64_t n_entries = 0, n_metadata = 0;
    if (!pl_gguf_sniff(in->map->data, in->map->n_bytes))
        return pl_fail(err, PL_E_FORMAT, "not a GGUF file");
    c.at += 4;
    PL_TRY(take32(&c, "the header", &version, err));
    PL_TRY(check_version(file, version, err));
    PL_TRY(take64(&c, "the header", &n_entries, err));
    PL_TRY(take64(&c, "the header", &n_metadata, err));
    /* The shortest pair has 13 bytes and the shortest tensor 24: reject counts that the file cannot
     * hold before allocating. */
    if (n_metadata > left(&c) / 13 || n_entries > left(&c) / 24)
        return pl_fail(err, PL_E_FORMAT,
                       "%" PRIu64 " tensors and %" PRIu64 " values do not fit into %zu bytes",
                       n_entries, n_metadata, in->map->n_bytes);
    file->n_entries = (size_t)n_entries;
    file->n_metadata = (size_t)n_metadata;
    file->entries = pl_arena_array(in->arena, file->n_entries, sizeof *file->entries);
    file->metadata = pl_arena_array(in->arena, file->n_metadata, sizeof *file->metadata);
    if (file->entries == NULL || file->metadata == NULL)
        return pl_fail_memory(err, in->map->n_bytes);
    PL_TRY(read_pairs(&c, file, err));
    return read_entries(&c, file, err);
}

pl_status pl_gguf_open(pl_file_map *map, pl_gguf **out, pl_err *err) {
    pl_gguf *file = pl_calloc(1, sizeof *file);
    struct pl_gguf_int *in = pl_calloc(1, sizeof *in);
    pl_arena *arena = pl_arena_new();
    if (file == NULL || in == NULL || arena == NULL) {
        pl_free(file);
        pl_free(in);
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof *file);
    }
    in->arena = arena;
    in->map = pl_file_map_ref(map);
    file->internal = in;
    const pl_status st = read_file(file, err);
    if (st != PL_OK) {
        pl_gguf_close(file);
        return st;
    }
    *out = file;
    return PL_OK;
}

void pl_gguf_close(pl_gguf *file) {
    if (file == NULL) return;
    struct pl_gguf_int *in = file->internal;
    pl_strmap_release(&in->by_name);
    pl_strmap_release(&in->by_key);
    pl_file_map_unref(in->map);
    pl_arena_free(in->arena);
    pl_free(in);
    pl_free(file);
}

pl_status pl_gguf_read(const pl_gguf *file, const pl_gguf_entry *e, pl_tensor **out, pl_err *err) {
    pl_file_map *map = file->internal->map;
    const pl_bytes raw = { map->data + e->offset, e->n_bytes };
    if (e->type->block == 1)
        return pl_tensor_from_raw(e->type->dtype, e->rank, e->dims, raw, map, out, err);
    if (e->type->expand == NULL)
        return pl_fail(err, PL_E_UNSUPPORTED, "blocks of type %s cannot be expanded",
                       e->type->name);
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_F32, e->rank, e->dims, &t, err));
    float *to = t->data;
    for (size_t at = 0; at < e->n_bytes; at += e->type->n_bytes, to += e->type->block)
        e->type->expand(raw.data + at, to);
    *out = t;
    return PL_OK;
}

pl_status pl_gguf_read_minima(const pl_gguf *file, const pl_gguf_entry *e, pl_tensor **out,
                              pl_err *err) {
    const uint8_t *block = (const uint8_t *)file->internal->map->data + e->offset;
    pl_tensor *t = NULL;
    *out = NULL;
    if (strcmp(e->type->name, "Q4_1") != 0 && strcmp(e->type->name, "Q5_1") != 0) return PL_OK;
    int64_t dims[PL_RANK_MAX];
    memcpy(dims, e->dims, sizeof dims);
    if (e->rank > 0) dims[e->rank - 1] /= e->type->block;
    PL_TRY(pl_tensor_new(PL_F32, e->rank, dims, &t, err));
    for (int64_t i = 0; i < t->n_elements; i++, block += e->type->n_bytes)
        ((float *)t->data)[i] = pl_f16_to_f32((uint16_t)pl_le16(block + 2)); /* behind the scale */
    *out = t;
    return PL_OK;
}

/* ---- metadata as text ---- */

static void put_text(pl_buf *out, const uint8_t *data, size_t n) {
    const char *s = (const char *)data;
    const size_t at = out->n_bytes;
    const size_t shown = n > TEXT_SHOWN ? pl_utf8_cut(s, n, TEXT_SHOWN) : n;
    for (size_t i = 0; i < shown; i++)
        pl_buf_putc(out, s[i] == '\0' ? '?' : s[i]);
    pl_buf_clean_from(out, at);
    if (shown < n) pl_buf_puts(out, "…");
}

static void put_number(pl_buf *out, pl_gguf_kind kind, const uint8_t *p) {
    const size_t n = kinds[kind].n_bytes;
    uint64_t bits = 0;
    if (n == 0) return; /* not a number */
    for (size_t i = 0; i < n; i++)
        bits |= (uint64_t)p[i] << (8 * i);
    if (kind == PL_GGUF_BOOL) {
        pl_buf_puts(out, bits ? "true" : "false");
    } else if (kind == PL_GGUF_F32 || kind == PL_GGUF_F64) {
        double v;
        float f;
        memcpy(&v, &bits, sizeof v);
        memcpy(&f, p, sizeof f);
        pl_buf_printf(out, "%.9g", kind == PL_GGUF_F32 ? (double)f : v);
    } else if (kind == PL_GGUF_I8 || kind == PL_GGUF_I16 || kind == PL_GGUF_I32 ||
               kind == PL_GGUF_I64) {
        const unsigned shift = 64 - 8 * (unsigned)n;
        pl_buf_printf(out, "%" PRId64, (int64_t)(bits << shift) >> shift);
    } else {
        pl_buf_printf(out, "%" PRIu64, bits);
    }
}

void pl_gguf_put_value(pl_buf *out, const pl_gguf_pair *pair, size_t n_max) {
    const uint8_t *p = pair->bytes.data;
    const uint64_t n = pair->is_array && pair->n_items > n_max ? n_max : pair->n_items;
    if (pair->is_array) pl_buf_putc(out, '[');
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0) pl_buf_puts(out, ", ");
        if (pair->kind == PL_GGUF_TEXT) {
            const size_t n_text = (size_t)pl_le64(p); /* checked when the file was opened */
            put_text(out, p + 8, n_text);
            p += 8 + n_text;
        } else {
            put_number(out, pair->kind, p);
            p += kinds[pair->kind].n_bytes;
        }
    }
    if (n < pair->n_items) pl_buf_puts(out, n == 0 ? "…" : ", …");
    if (pair->is_array) pl_buf_putc(out, ']');
}

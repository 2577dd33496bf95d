/* Reading safetensors. The header is JSON of a fixed shape: name -> { dtype, shape, data_offsets },
 * and "__metadata__" -> strings. */
#include "tensor/file/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/json_read.h"
#include "base/le.h"
#include "base/size.h"
#include "base/strmap.h"
#include "tensor/file/raw.h"
#include "tensor/file/safetensors_int.h"

struct pl_safetensors_int {
    pl_file_map *map;
    pl_arena *arena;
    pl_strmap by_name;
};

bool pl_safetensors_sniff(const void *data, size_t n_bytes) {
    const uint8_t *bytes = data;
    if (n_bytes < 10 || bytes[8] != '{') return false;
    const uint64_t n = pl_le64(bytes);
    return n >= 2 && n <= PL_SAFETENSORS_HEADER_MAX;
}

/* ---- header fields ---- */

static pl_dtype dtype_of_text(const pl_json_value *text) {
    /* Newer versions of the official library write these. Our table has no names for them, because
     * older readers do not know them. */
    if (strcmp(text->string, "F8_E8M0") == 0) return PL_F8E8M0;
    if (strcmp(text->string, "C64") == 0) return PL_C64;
    for (int i = 1; i < PL_DTYPE_COUNT; i++) {
        const char *name = pl_dtype_safetensors((pl_dtype)i);
        if (*name && strcmp(name, text->string) == 0) return (pl_dtype)i;
    }
    return PL_UNDEFINED;
}

static pl_status read_dtype(const pl_json_value *item, pl_safetensors_entry *e, pl_err *err) {
    const pl_json_value *v = pl_json_find(item, "dtype");
    if (!v || v->kind != PL_JSON_STRING)
        return pl_fail(err, PL_E_FORMAT, "'dtype' is missing or not a string");
    e->dtype = dtype_of_text(v);
    if (e->dtype == PL_UNDEFINED)
        return pl_fail(err, PL_E_UNSUPPORTED, "element type '%.40s' is not supported", v->string);
    return PL_OK;
}

/* One dim more than a tensor may have: the byte dim of a type stored as U8 is dropped later. */
static pl_status read_shape(const pl_json_value *item, int64_t dims[PL_RANK_MAX + 1], int *rank,
                            pl_err *err) {
    const pl_json_value *v = pl_json_find(item, "shape");
    if (!v || v->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "'shape' is missing or not an array");
    if (v->n_items > PL_RANK_MAX + 1)
        return pl_fail(err, PL_E_LIMIT, "rank %zu; at most %d is supported", v->n_items,
                       PL_RANK_MAX);
    *rank = 0;
    for (const pl_json_value *d = v->first; d; d = d->next) {
        if (d->kind != PL_JSON_NUMBER || !d->is_integer || d->integer < 0)
            return pl_fail(err, PL_E_FORMAT, "a dim in 'shape' is not a non-negative integer");
        dims[(*rank)++] = d->integer;
    }
    return PL_OK;
}

static pl_status read_offsets(const pl_json_value *item, size_t data_start, size_t n_data,
                              pl_safetensors_entry *e, pl_err *err) {
    const pl_json_value *v = pl_json_find(item, "data_offsets");
    if (!v || v->kind != PL_JSON_ARRAY || v->n_items != 2)
        return pl_fail(err, PL_E_FORMAT, "'data_offsets' is missing or not two integers");
    const pl_json_value *from = v->first, *to = from->next;
    if (!from->is_integer || !to->is_integer || from->integer < 0 || to->integer < from->integer)
        return pl_fail(err, PL_E_FORMAT, "'data_offsets' are not two ascending integers");
    if ((uint64_t)to->integer > n_data)
        return pl_fail(err, PL_E_FORMAT,
                       "data_offsets end at %" PRId64 ", but the file has %zu bytes of data",
                       to->integer, n_data);
    e->offset = data_start + (size_t)from->integer;
    e->n_bytes = (size_t)(to->integer - from->integer);
    return PL_OK;
}

/* Restores the type named in the metadata from U8. */
static pl_status restore_dtype(const char *type_name, int64_t *dims, int *rank,
                               pl_safetensors_entry *e, pl_err *err) {
    const pl_dtype dtype = pl_dtype_by_name(type_name, strlen(type_name));
    if (e->dtype != PL_U8 || dtype == PL_STRING || !pl_dtype_valid((int64_t)dtype))
        return pl_fail(err, PL_E_FORMAT,
                       "metadata '" PL_SAFETENSORS_DTYPE_KEY
                       "' gives type '%.40s' to elements of type %s",
                       type_name, pl_dtype_name(e->dtype));
    const size_t size = pl_dtype_bytes(dtype);
    if (size > 1) {
        if (*rank == 0 || dims[*rank - 1] != (int64_t)size)
            return pl_fail(err, PL_E_FORMAT, "packed %s needs a last dim of %zu bytes", type_name,
                           size);
        --*rank;
    }
    e->dtype = dtype;
    return PL_OK;
}

static pl_status read_entry(const pl_json_value *item, const pl_strmap *types, size_t data_start,
                            size_t n_data, pl_safetensors_entry *e, pl_err *err) {
    int64_t dims[PL_RANK_MAX + 1], n;
    size_t n_bytes;
    e->name = item->key;
    if (strlen(item->key) != item->n_key)
        return pl_fail(err, PL_E_FORMAT, "the name contains a NUL character");
    if (item->kind != PL_JSON_OBJECT)
        return pl_fail(err, PL_E_FORMAT, "expected an object, found a %s",
                       pl_json_kind_name(item->kind));
    PL_TRY(read_dtype(item, e, err));
    PL_TRY(read_shape(item, dims, &e->rank, err));
    PL_TRY(read_offsets(item, data_start, n_data, e, err));
    const char *type_name = pl_strmap_get(types, item->key);
    if (type_name) PL_TRY(restore_dtype(type_name, dims, &e->rank, e, err));
    if (e->rank > PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "rank %d; at most %d is supported", e->rank, PL_RANK_MAX);
    memcpy(e->dims, dims, (size_t)e->rank * sizeof *dims);
    if (!pl_dims_product(e->rank, e->dims, &n) ||
        !pl_size_mul((size_t)n, pl_dtype_bytes(e->dtype), &n_bytes) || n_bytes != e->n_bytes) {
        char text[256];
        return pl_fail(err, PL_E_FORMAT, "%zu bytes do not match a tensor %s%s", e->n_bytes,
                       pl_dtype_name(e->dtype),
                       pl_dims_describe(e->rank, e->dims, text, sizeof text));
    }
    return PL_OK;
}

/* ---- the whole header ---- */

static pl_status read_metadata(const pl_json_value *meta, pl_safetensors *st, pl_strmap *types,
                               pl_err *err) {
    static const char prefix[] = PL_SAFETENSORS_DTYPE_KEY;
    if (meta->kind != PL_JSON_OBJECT)
        return pl_fail(err, PL_E_FORMAT, "__metadata__ is not an object");
    st->metadata = pl_arena_array(st->internal->arena, meta->n_items, sizeof *st->metadata);
    if (!st->metadata) return pl_fail_memory(err, meta->n_items * sizeof *st->metadata);
    for (const pl_json_value *v = meta->first; v; v = v->next) {
        if (v->kind != PL_JSON_STRING)
            return pl_fail(err, PL_E_FORMAT, "__metadata__ '%.80s' is not a string", v->key);
        if (strncmp(v->key, prefix, sizeof prefix - 1) == 0) {
            void *value = (void *)(uintptr_t)v->string;
            if (pl_strmap_put(types, v->key + sizeof prefix - 1, value) != 0)
                return pl_fail_memory(err, sizeof(pl_strmap_entry));
        } else {
            st->metadata[st->n_metadata++] = (pl_safetensors_pair){ v->key, v->string };
        }
    }
    return PL_OK;
}

static int compare_offsets(const void *a, const void *b) {
    const pl_safetensors_entry *x = *(const pl_safetensors_entry *const *)a;
    const pl_safetensors_entry *y = *(const pl_safetensors_entry *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* Every byte of data belongs to exactly one tensor. */
static pl_status check_coverage(const pl_safetensors *st, size_t data_start, size_t n_data,
                                pl_err *err) {
    const pl_safetensors_entry **order = pl_calloc(st->n_entries + 1, sizeof(void *));
    if (!order) return pl_fail_memory(err, (st->n_entries + 1) * sizeof(void *));
    for (size_t i = 0; i < st->n_entries; i++)
        order[i] = &st->entries[i];
    qsort(order, st->n_entries, sizeof(void *), compare_offsets);
    pl_status status = PL_OK;
    size_t at = data_start;
    for (size_t i = 0; i < st->n_entries && status == PL_OK; i++) {
        if (order[i]->offset != at)
            status = pl_fail(err, PL_E_FORMAT, "data of tensor '%.200s' %s", order[i]->name,
                             order[i]->offset < at ? "overlaps that of another"
                                                   : "leaves a gap before it");
        at += order[i]->n_bytes;
    }
    if (status == PL_OK && at != data_start + n_data)
        status = pl_fail(err, PL_E_FORMAT, "%zu bytes at the end belong to no tensor",
                         data_start + n_data - at);
    pl_free(order);
    return status;
}

static pl_status read_entries(const pl_json_value *header, pl_safetensors *st, size_t data_start,
                              size_t n_data, pl_err *err) {
    struct pl_safetensors_int *in = st->internal;
    pl_status status = PL_OK;
    pl_strmap types = PL_STRMAP_INIT;
    const pl_json_value *meta = pl_json_find(header, "__metadata__");
    if (meta) PL_TRY_GOTO(done, status, read_metadata(meta, st, &types, err));
    st->entries = pl_arena_array(in->arena, header->n_items, sizeof *st->entries);
    if (!st->entries) {
        status = pl_fail_memory(err, header->n_items * sizeof *st->entries);
        goto done;
    }
    for (const pl_json_value *v = header->first; v; v = v->next) {
        if (v == meta) continue;
        pl_safetensors_entry *e = &st->entries[st->n_entries];
        status = read_entry(v, &types, data_start, n_data, e, err);
        if (status != PL_OK) {
            pl_err_wrap(err, status, "tensor '%.200s'", v->key);
            goto done;
        }
        if (pl_strmap_put(&in->by_name, e->name, e) != 0) {
            status = pl_fail_memory(err, sizeof(pl_strmap_entry));
            goto done;
        }
        st->n_entries++;
    }
    status = check_coverage(st, data_start, n_data, err);
done:
    pl_strmap_release(&types);
    return status;
}

static pl_status read_header(pl_safetensors *st, pl_err *err) {
    const pl_file_map *map = st->internal->map;
    const pl_json_value *header = NULL;
    if (map->n_bytes < 8)
        return pl_fail(err, PL_E_FORMAT, "a file of %zu bytes is too short", map->n_bytes);
    const uint64_t n_header = pl_le64(map->data);
    if (n_header > PL_SAFETENSORS_HEADER_MAX)
        return pl_fail(err, PL_E_LIMIT, "header of %" PRIu64 " bytes; at most %d are allowed",
                       n_header, PL_SAFETENSORS_HEADER_MAX);
    if (n_header > map->n_bytes - 8)
        return pl_fail(err, PL_E_FORMAT, "header of %" PRIu64 " bytes in a file of %zu", n_header,
                       map->n_bytes);
    if (n_header == 0 || map->data[8] != '{')
        return pl_fail(err, PL_E_FORMAT, "the header does not begin with '{'");
    PL_TRY(pl_json_read((const char *)map->data + 8, (size_t)n_header, st->internal->arena, &header,
                        err));
    const size_t data_start = 8 + (size_t)n_header;
    return read_entries(header, st, data_start, map->n_bytes - data_start, err);
}

pl_status pl_safetensors_open(pl_file_map *map, pl_safetensors **out, pl_err *err) {
    pl_safetensors *st = pl_calloc(1, sizeof *st);
    struct pl_safetensors_int *in = pl_calloc(1, sizeof *in);
    pl_arena *arena = pl_arena_new();
    if (!st || !in || !arena) {
        pl_free(st);
        pl_free(in);
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof *st);
    }
    in->arena = arena;
    in->map = pl_file_map_ref(map);
    st->internal = in;
    const pl_status status = read_header(st, err);
    if (status != PL_OK) {
        pl_safetensors_close(st);
        return pl_err_wrap(err, status, "safetensors");
    }
    *out = st;
    return PL_OK;
}

void pl_safetensors_close(pl_safetensors *st) {
    if (!st) return;
    pl_strmap_release(&st->internal->by_name);
    pl_arena_free(st->internal->arena);
    pl_file_map_unref(st->internal->map);
    pl_free(st->internal);
    pl_free(st);
}

const pl_safetensors_entry *pl_safetensors_find(const pl_safetensors *st, const char *name) {
    return pl_strmap_get(&st->internal->by_name, name);
}

const char *pl_safetensors_metadata(const pl_safetensors *st, const char *key) {
    for (size_t i = 0; i < st->n_metadata; i++)
        if (strcmp(st->metadata[i].key, key) == 0) return st->metadata[i].value;
    return NULL;
}

pl_status pl_safetensors_read(const pl_safetensors *st, const pl_safetensors_entry *entry,
                              pl_tensor **out, pl_err *err) {
    pl_file_map *map = st->internal->map;
    const pl_bytes bytes = { map->data + entry->offset, entry->n_bytes };
    const pl_status status =
        pl_tensor_from_dense(entry->dtype, entry->rank, entry->dims, bytes, map, out, err);
    return status == PL_OK ? PL_OK : pl_err_wrap(err, status, "tensor '%.200s'", entry->name);
}

/* Recordings: plumb's own metadata checked against the file, plain safetensors, and the importers'
 * records. Elements are read on request. */
#include "store/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "store/blob.h"
#include "store/recorder_int.h"
#include "store/recording_int.h"
#include "tensor/file/npy.h"
#include "tensor/file/pt.h"
#include "tensor/file/tensor_file.h"
#include "tensor/file/zip.h"

enum { NEST_MAX = 8 };

/* ---- building ---- */

pl_record_source *pl_recording_source(pl_recording *rec, pl_source_kind kind) {
    pl_record_source *s = pl_arena_alloc(rec->internal->arena, sizeof *s);
    if (s != NULL) s->kind = kind;
    return s;
}

static pl_record *add_slot(pl_recording *rec) {
    struct pl_recording_int *in = rec->internal;
    if (!PL_ARRAY_ROOM(rec->records, rec->n_records, &in->capacity)) return NULL;
    pl_record *r = &rec->records[rec->n_records];
    memset(r, 0, sizeof *r);
    r->value = r->node = r->op = r->module = r->graph = r->unmapped = "";
    r->kind = PL_TYPE_TENSOR;
    return r;
}

/* KEY#1, KEY#2, …; counted, so that equal keys need no search. */
static const char *next_key(struct pl_recording_int *in, const char *key, int64_t *call) {
    int64_t *next = pl_strmap_get(&in->next_call, key);
    if (next == NULL) {
        next = pl_arena_alloc(in->arena, sizeof *next);
        if (next == NULL || pl_strmap_put(&in->next_call, key, next) != 0) return NULL;
    }
    for (;;) {
        const char *unique = pl_arena_printf(in->arena, "%s#%" PRId64, key, ++*next);
        *call = *next;
        if (unique == NULL || !pl_strmap_has(&in->by_key, unique)) return unique;
    }
}

pl_record *pl_recording_add(pl_recording *rec, const char *key, pl_err *err) {
    struct pl_recording_int *in = rec->internal;
    pl_record *r = add_slot(rec);
    const char *value = r == NULL ? NULL : pl_arena_strdup(in->arena, key);
    const char *unique = value;
    if (value != NULL && pl_strmap_has(&in->by_key, value)) unique = next_key(in, value, &r->call);
    /* The index, not the pointer, because the array may move. */
    if (unique == NULL ||
        pl_strmap_put(&in->by_key, unique, (void *)(uintptr_t)(rec->n_records + 1)) != 0) {
        pl_fail_memory(err, sizeof *r);
        return NULL;
    }
    r->key = unique;
    r->value = value;
    rec->n_records++;
    return r;
}

static void unref_tensor(void *t) {
    pl_tensor_unref(t);
}

pl_status pl_recording_add_tensor_take(pl_recording *rec, const char *key, pl_tensor *t,
                                       unsigned flags, pl_err *err) {
    if (pl_arena_defer(rec->internal->arena, unref_tensor, t) != 0) {
        pl_tensor_unref(t);
        return pl_fail_memory(err, 1);
    }
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_TENSOR);
    if (source == NULL) return pl_fail_memory(err, sizeof *source);
    source->tensor = t;
    pl_record *r = pl_recording_add(rec, key, err);
    if (r == NULL) return PL_E_MEMORY;
    r->has_shape = true;
    r->dtype = t->dtype;
    r->rank = t->rank;
    memcpy(r->dims, t->dims, sizeof r->dims);
    memcpy(r->strides, t->strides, sizeof r->strides);
    r->flags = flags;
    r->has_data = true;
    r->source = source;
    return PL_OK;
}

/* ---- plain safetensors ---- */

static pl_status set_entry(pl_recording *rec, pl_record *r, const pl_safetensors_entry *e,
                           pl_err *err) {
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_SAFETENSORS);
    if (source == NULL) return pl_fail_memory(err, sizeof *source);
    source->entry = e;
    r->source = source;
    r->has_data = true;
    return PL_OK;
}

static pl_status add_entry(pl_recording *rec, const pl_safetensors_entry *e, pl_err *err) {
    pl_record *r = pl_recording_add(rec, e->name, err);
    if (r == NULL) return PL_E_MEMORY;
    r->has_shape = true;
    r->dtype = e->dtype;
    r->rank = e->rank;
    memcpy(r->dims, e->dims, sizeof r->dims);
    pl_dims_strides(r->rank, r->dims, r->strides);
    return set_entry(rec, r, e, err);
}

/* ---- tuples ---- */

/* The text of a key; "" when it is absent. False when it is something else. */
static bool get_text(const pl_json_value *item, const char *key, const char **out) {
    const pl_json_value *v = pl_json_find(item, key);
    *out = "";
    if (v == NULL) return true;
    if (v->kind != PL_JSON_STRING || strlen(v->string) != v->n_string) return false;
    *out = v->string;
    return true;
}

static bool get_numbers(const pl_json_value *item, const char *key, bool negative, int *n,
                        int64_t *out) {
    const pl_json_value *v = pl_json_find(item, key);
    *n = 0;
    if (v == NULL || v->kind != PL_JSON_ARRAY || v->n_items > PL_RANK_MAX) return false;
    for (const pl_json_value *d = v->first; d != NULL; d = d->next) {
        if (d->kind != PL_JSON_NUMBER || !d->is_integer || (d->integer < 0 && !negative))
            return false;
        out[(*n)++] = d->integer;
    }
    return true;
}

/* Ignores flags of later versions. */
static bool get_flags(const pl_json_value *item, unsigned *out) {
    const pl_json_value *v = pl_json_find(item, "flags");
    *out = 0;
    if (v == NULL) return true;
    if (v->kind != PL_JSON_ARRAY) return false;
    for (const pl_json_value *f = v->first; f != NULL; f = f->next) {
        if (f->kind != PL_JSON_STRING) return false;
        for (unsigned i = 0; i < PL_RECORD_FLAGS; i++)
            if (strcmp(f->string, pl_record_flag_name(1u << i)) == 0) *out |= 1u << i;
    }
    return true;
}

/* The metadata of a tensor must match the file. */
static pl_status match_entry(const pl_record *r, const pl_safetensors_entry *e, pl_err *err) {
    char want[160], have[160];
    bool fits;
    if (r->dtype == PL_STRING) {
        fits = e->dtype == PL_U8 && e->rank == 1;
    } else {
        fits = e->dtype == r->dtype && e->rank == r->rank;
        for (int i = 0; fits && i < r->rank; i++)
            fits = e->dims[i] == r->dims[i];
    }
    if (fits) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "the metadata says %s%s, but the tensor is %s%s",
                   pl_dtype_name(r->dtype), pl_dims_describe(r->rank, r->dims, want, sizeof want),
                   pl_dtype_name(e->dtype), pl_dims_describe(e->rank, e->dims, have, sizeof have));
}

/* Ranges of elements, in order. */
static pl_status read_left_out(pl_recording *rec, const pl_json_value *item, pl_record *r,
                               int64_t n_elements, pl_err *err) {
    const pl_json_value *list = pl_json_find(item, "left_out");
    if (list == NULL) return PL_OK;
    bool ok = list->kind == PL_JSON_ARRAY && list->n_items % 2 == 0;
    int64_t *at = pl_arena_array(rec->internal->arena, list->n_items + 1, sizeof *at);
    if (at == NULL) return pl_fail_memory(err, list->n_items);
    size_t n = 0;
    for (const pl_json_value *v = ok ? list->first : NULL; v != NULL && ok; v = v->next) {
        ok = v->is_integer && v->integer >= (n == 0 ? 0 : at[n - 1] + (n % 2 == 1)) &&
             v->integer <= n_elements;
        at[n++] = v->integer;
    }
    if (!ok) return pl_fail(err, PL_E_FORMAT, "invalid 'left_out'");
    r->left_out = (pl_ranges){ .at = at, .n = n / 2 };
    return PL_OK;
}

static pl_status read_tensor_tuple(pl_recording *rec, const pl_json_value *item, pl_record *r,
                                   pl_err *err) {
    const char *dtype, *hash;
    int n_strides = 0;
    int64_t n;
    const pl_json_value *offset = pl_json_find(item, "offset");
    const pl_json_value *stats = pl_json_find(item, "stats");
    if (!get_text(item, "dtype", &dtype) || !get_text(item, "hash", &hash) ||
        !get_numbers(item, "shape", false, &r->rank, r->dims) || !get_flags(item, &r->flags)) {
        return pl_fail(err, PL_E_FORMAT, "invalid 'dtype', 'shape', 'hash' or 'flags'");
    }
    r->dtype = pl_dtype_by_name(dtype, strlen(dtype));
    if (r->dtype == PL_UNDEFINED)
        return pl_fail(err, PL_E_UNSUPPORTED, "unknown element type '%.40s'", dtype);
    if (!pl_dims_product(r->rank, r->dims, &n))
        return pl_fail(err, PL_E_LIMIT, "the shape is too large");
    pl_dims_strides(r->rank, r->dims, r->strides);
    if (pl_json_find(item, "strides") != NULL &&
        (!get_numbers(item, "strides", true, &n_strides, r->strides) || n_strides != r->rank))
        return pl_fail(err, PL_E_FORMAT, "invalid 'strides'");
    if (offset != NULL && offset->is_integer) r->offset = offset->integer;
    r->has_shape = true;
    r->has_hash = *hash != '\0';
    if (r->has_hash && !pl_hash128_parse(hash, &r->hash))
        return pl_fail(err, PL_E_FORMAT, "'hash' is not 32 hexadecimal digits");
    r->has_stats = stats != NULL;
    if (r->has_stats && !pl_stats_get(stats, &r->stats))
        return pl_fail(err, PL_E_FORMAT, "invalid 'stats'");
    PL_TRY(read_left_out(rec, item, r, n, err));
    const pl_safetensors_entry *e = pl_safetensors_find(rec->internal->safetensors, r->key);
    if (e != NULL) {
        PL_TRY(match_entry(r, e, err));
        return set_entry(rec, r, e, err);
    }
    if (r->has_stats) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "neither a tensor nor statistics");
}

static pl_status read_container_tuple(pl_recording *rec, const pl_json_value *item, pl_record *r,
                                      pl_err *err) {
    const pl_json_value *items = pl_json_find(item, "items");
    const char *dtype;
    if (items == NULL || items->kind != PL_JSON_ARRAY || !get_text(item, "dtype", &dtype))
        return pl_fail(err, PL_E_FORMAT, "invalid 'items' or 'dtype'");
    if (r->kind == PL_TYPE_OPTIONAL && items->n_items > 1)
        return pl_fail(err, PL_E_FORMAT, "an optional with %zu items", items->n_items);
    r->dtype = pl_dtype_by_name(dtype, strlen(dtype));
    const char **keys = pl_arena_array(rec->internal->arena, items->n_items, sizeof *keys);
    if (keys == NULL) return pl_fail_memory(err, items->n_items);
    for (const pl_json_value *v = items->first; v != NULL; v = v->next) {
        if (v->kind != PL_JSON_STRING) return pl_fail(err, PL_E_FORMAT, "invalid 'items'");
        keys[r->n_items++] = v->string;
    }
    r->items = keys;
    return PL_OK;
}

static pl_status read_stands_for(pl_recording *rec, const pl_json_value *item, pl_record *r,
                                 pl_err *err) {
    const pl_json_value *list = pl_json_find(item, "stands_for");
    if (list == NULL) return PL_OK;
    if (list->kind != PL_JSON_ARRAY) return pl_fail(err, PL_E_FORMAT, "invalid 'stands_for'");
    const char **names = pl_arena_array(rec->internal->arena, list->n_items, sizeof *names);
    if (names == NULL) return pl_fail_memory(err, list->n_items);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        if (v->kind != PL_JSON_STRING) return pl_fail(err, PL_E_FORMAT, "invalid 'stands_for'");
        names[r->n_stands_for++] = v->string;
    }
    r->stands_for = names;
    return PL_OK;
}

static pl_status read_tuple(pl_recording *rec, const pl_json_value *item, pl_err *err) {
    const char *key, *value, *kind;
    const pl_json_value *call = pl_json_find(item, "call");
    if (pl_json_find(item, "key") == NULL || !get_text(item, "key", &key))
        return pl_fail(err, PL_E_FORMAT, "plumb.values: an entry without 'key'");
    if (pl_strmap_has(&rec->internal->by_key, key))
        return pl_fail(err, PL_E_FORMAT, "plumb.values: duplicate entry '%s'", key);
    pl_record *r = pl_recording_add(rec, key, err);
    if (r == NULL) return PL_E_MEMORY;
    if (!get_text(item, "value", &value) || !get_text(item, "node", &r->node) ||
        !get_text(item, "op", &r->op) || !get_text(item, "module", &r->module) ||
        !get_text(item, "graph", &r->graph) || !get_text(item, "kind", &kind)) {
        return pl_fail(err, PL_E_FORMAT, "plumb.values: '%s' has a field of the wrong type", key);
    }
    if (*value != '\0') r->value = value;
    if (call != NULL && call->is_integer && call->integer >= 0) r->call = call->integer;
    if (!get_text(pl_json_find(item, "torch"), "unmapped", &r->unmapped)) r->unmapped = "";
    pl_status st = read_stands_for(rec, item, r, err);
    if (st != PL_OK) {
        /* reported below */
    } else if (*kind == '\0' || strcmp(kind, "tensor") == 0) {
        st = read_tensor_tuple(rec, item, r, err);
    } else if (strcmp(kind, "sequence") == 0 || strcmp(kind, "optional") == 0) {
        r->kind = *kind == 's' ? PL_TYPE_SEQUENCE : PL_TYPE_OPTIONAL;
        st = read_container_tuple(rec, item, r, err);
    } else {
        st = pl_fail(err, PL_E_UNSUPPORTED, "kind '%.40s'", kind);
    }
    return st == PL_OK ? st : pl_err_wrap(err, st, "plumb.values: '%s'", key);
}

/* ---- opening ---- */

static pl_status read_tuples(pl_recording *rec, const char *text, pl_err *err) {
    const pl_json_value *values = NULL;
    const pl_status st = pl_json_read(text, strlen(text), rec->internal->arena, &values, err);
    if (st != PL_OK) return pl_err_wrap(err, st, "plumb.values");
    if (values->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "plumb.values is not an array");
    for (const pl_json_value *v = values->first; v != NULL; v = v->next)
        PL_TRY(read_tuple(rec, v, err));
    return PL_OK;
}

static pl_status open_safetensors(pl_recording *rec, pl_err *err) {
    PL_TRY(pl_safetensors_open(rec->internal->map, &rec->internal->safetensors, err));
    const pl_safetensors *file = rec->internal->safetensors;
    const char *version = pl_safetensors_metadata(file, PL_RECORDING_VERSION_KEY);
    const char *values = pl_safetensors_metadata(file, PL_RECORDING_VALUES_KEY);
    rec->format = version != NULL ? "plumb" : "safetensors";
    if (version != NULL && strcmp(version, PL_RECORDING_VERSION) != 0)
        return pl_fail(err, PL_E_UNSUPPORTED, "unsupported recording version '%.40s', expected %s",
                       version, PL_RECORDING_VERSION);
    if (version != NULL && values != NULL) PL_TRY(read_tuples(rec, values, err));
    rec->provenance = pl_safetensors_metadata(file, PL_RECORDING_PROVENANCE_KEY);
    rec->exported = pl_safetensors_metadata(file, PL_RECORDING_EXPORT_KEY);
    rec->graph = pl_safetensors_metadata(file, PL_RECORDING_GRAPH_KEY);
    for (size_t i = 0; i < file->n_entries; i++) {
        if (!pl_strmap_has(&rec->internal->by_key, file->entries[i].name))
            PL_TRY(add_entry(rec, &file->entries[i], err));
    }
    return PL_OK;
}

pl_status pl_recording_new(const char *path, pl_recording **out, pl_err *err) {
    pl_recording *rec = pl_calloc(1, sizeof *rec);
    struct pl_recording_int *in = pl_calloc(1, sizeof *in);
    pl_arena *arena = pl_arena_new();
    const char *copy = arena == NULL ? NULL : pl_arena_strdup(arena, path);
    if (rec == NULL || in == NULL || copy == NULL) {
        pl_free(rec);
        pl_free(in);
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof *rec);
    }
    in->arena = arena;
    rec->path = copy;
    rec->internal = in;
    *out = rec;
    return PL_OK;
}

static pl_status open_file(pl_recording *rec, pl_err *err) {
    const pl_file_map *map = rec->internal->map;
    if (pl_pt_sniff((pl_bytes){ map->data, map->n_bytes })) return pl_import_pt(rec, err);
    if (pl_zip_sniff(map->data, map->n_bytes)) return pl_import_npz(rec, err);
    if (pl_gguf_sniff(map->data, map->n_bytes)) return pl_import_gguf(rec, err);
    if (pl_import_is_llama_logits(map->data, map->n_bytes)) return pl_import_llama_logits(rec, err);
    /* Before JSON: the length of a header may begin with the byte '{', but JSON has no NUL. */
    if (pl_safetensors_sniff(map->data, map->n_bytes)) return open_safetensors(rec, err);
    if (pl_import_is_polygraphy(map->data, map->n_bytes)) return pl_import_polygraphy(rec, err);
    if (pl_path_has_suffix(rec->path, ".safetensors")) return open_safetensors(rec, err);
    if (pl_npy_sniff(map->data, map->n_bytes) || pl_path_has_suffix(rec->path, ".bin") ||
        pl_path_has_suffix(rec->path, ".raw"))
        return pl_import_one_file(rec, err);
    return pl_fail(
        err, PL_E_FORMAT,
        "not a recording: expected safetensors, npz, npy, .bin, GGUF, a PyTorch file (.pt) or "
        "Polygraphy JSON");
}

pl_status pl_recording_open_map(pl_file_map *map, const char *name, pl_recording **out,
                                pl_err *err) {
    pl_recording *rec = NULL;
    PL_TRY(pl_recording_new(name, &rec, err));
    rec->internal->map = pl_file_map_ref(map);
    const pl_status st = open_file(rec, err);
    if (st != PL_OK) {
        pl_recording_close(rec);
        return pl_err_wrap(err, st, "%s", name);
    }
    *out = rec;
    return PL_OK;
}

static pl_status open_folder(const char *path, pl_recording **out, pl_err *err) {
    pl_recording *rec = NULL;
    PL_TRY(pl_recording_new(path, &rec, err));
    pl_status st = pl_dir_open(path, &rec->internal->dir, err);
    if (st == PL_OK) st = pl_import_folder(rec, err);
    if (st != PL_OK) {
        pl_recording_close(rec);
        return pl_err_wrap(err, st, "%s", path);
    }
    *out = rec;
    return PL_OK;
}

pl_status pl_recording_open_in(const pl_dir *dir, const char *name, pl_recording **out,
                               pl_err *err) {
    pl_file_map *map = NULL;
    if (pl_dir_look(dir, name, NULL) != PL_KIND_FOLDER) {
        PL_TRY(pl_dir_map(dir, name, &map, err));
        const pl_status opened = pl_recording_open_map(map, name, out, err);
        pl_file_map_unref(map);
        return opened;
    }
    pl_recording *rec = NULL;
    PL_TRY(pl_recording_new(name, &rec, err));
    rec->internal->is_nested = true;
    pl_status st = pl_dir_open_in(dir, name, &rec->internal->dir, err);
    if (st == PL_OK) st = pl_import_folder(rec, err);
    if (st != PL_OK) {
        pl_recording_close(rec);
        return pl_err_wrap(err, st, "%s", name);
    }
    *out = rec;
    return PL_OK;
}

pl_status pl_recording_open(const char *path, pl_recording **out, pl_err *err) {
    pl_file_map *map = NULL;
    if (pl_path_is_dir(path)) return open_folder(path, out, err);
    PL_TRY(pl_file_map_open(path, &map, err));
    const pl_status st = pl_recording_open_map(map, path, out, err);
    pl_file_map_unref(map);
    return st;
}

void pl_recording_close(pl_recording *rec) {
    if (rec == NULL) return;
    struct pl_recording_int *in = rec->internal;
    pl_strmap_release(&in->by_key);
    pl_strmap_release(&in->next_call);
    pl_safetensors_close(in->safetensors);
    pl_gguf_close(in->gguf);
    if (in->map != NULL) pl_file_map_unref(in->map);
    pl_dir_close(in->dir);
    pl_arena_free(in->arena);
    pl_free(in);
    pl_free(rec->records);
    pl_free(rec);
}

/* ---- reading ---- */

const pl_record *pl_recording_find(const pl_recording *rec, const char *key) {
    const uintptr_t at = (uintptr_t)pl_strmap_get(&rec->internal->by_key, key);
    return at == 0 ? NULL : &rec->records[at - 1];
}

static pl_status read_strings(const pl_recording *rec, const pl_record *r, pl_tensor **out,
                              pl_err *err) {
    const pl_safetensors_entry *e = r->source->entry;
    const pl_bytes bytes = { rec->internal->map->data + e->offset, e->n_bytes };
    return pl_dense_restore(PL_STRING, r->rank, r->dims, bytes, NULL, out, err);
}

static pl_status read_tensor_file(const pl_recording *rec, const pl_record_source *source,
                                  pl_tensor **out, pl_err *err) {
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    PL_TRY(pl_tensor_file_load_in(rec->internal->dir, source->path, NULL, &file, err));
    pl_status st = PL_OK;
    if (file.n_items != 1 || file.items[0].datum->kind != PL_TYPE_TENSOR) {
        st = pl_fail(err, PL_E_FORMAT, "%s holds %zu tensors, expected one", source->path,
                     file.n_items);
    } else if (source->cast_to != PL_UNDEFINED) {
        st = pl_tensor_cast(file.items[0].datum->tensor, source->cast_to, out, err);
    } else {
        *out = pl_tensor_ref(file.items[0].datum->tensor);
    }
    pl_tensor_file_release(&file);
    return st;
}

/* The file may have changed, or its metadata may be wrong. */
static pl_status check_shape(const pl_record *r, pl_tensor *t, pl_err *err) {
    char want[160], have[160];
    bool fits = t->dtype == r->dtype && t->rank == r->rank;
    for (int i = 0; fits && i < r->rank; i++)
        fits = t->dims[i] == r->dims[i];
    if (fits || !r->has_shape) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "it is %s, but the metadata says %s%s",
                   pl_tensor_describe(t, have, sizeof have), pl_dtype_name(r->dtype),
                   pl_dims_describe(r->rank, r->dims, want, sizeof want));
}

static pl_status read_raw(const pl_recording *rec, const pl_record *r, pl_tensor **out,
                          pl_err *err) {
    pl_file_map *map = NULL;
    if (r->source->path == NULL) { /* the recording is this one file */
        map = pl_file_map_ref(rec->internal->map);
    } else {
        PL_TRY(pl_dir_map(rec->internal->dir, r->source->path, &map, err));
    }
    pl_status st = pl_tensor_new(r->dtype, r->rank, r->dims, out, err);
    if (st == PL_OK && pl_tensor_bytes(*out) != map->n_bytes) {
        st = pl_fail(err, PL_E_FORMAT, "it has %zu bytes, expected %zu", map->n_bytes,
                     pl_tensor_bytes(*out));
        pl_tensor_unref(*out);
        *out = NULL;
    }
    if (st == PL_OK && map->n_bytes > 0) memcpy((*out)->data, map->data, map->n_bytes);
    pl_file_map_unref(map);
    return st;
}

void pl_recording_retype(pl_recording *rec, const char *key, pl_dtype dtype, int rank,
                         const int64_t *dims) {
    int64_t n = 0, n_raw = 0;
    const uintptr_t at = (uintptr_t)pl_strmap_get(&rec->internal->by_key, key);
    pl_record *r = at == 0 ? NULL : &rec->records[at - 1];
    if (r == NULL || r->source == NULL || r->source->kind != PL_SOURCE_RAW ||
        !pl_dims_product(rank, dims, &n) || !pl_dims_product(r->rank, r->dims, &n_raw))
        return;
    const uint64_t have = (uint64_t)n_raw * pl_dtype_bytes(r->dtype);
    if (pl_dtype_bits(dtype) < 8 || (uint64_t)n * pl_dtype_bytes(dtype) != have) return;
    r->dtype = dtype;
    r->rank = rank;
    memcpy(r->dims, dims, (size_t)rank * sizeof *dims);
}

pl_status pl_recording_read(const pl_recording *rec, const pl_record *r, pl_tensor **out,
                            pl_err *err) {
    pl_tensor *t = NULL;
    if (!r->has_data)
        return pl_fail(err, PL_E_NOT_FOUND, "%s: '%s' was recorded without elements", rec->path,
                       r->key);
    pl_status st = PL_OK;
    switch (r->source->kind) {
    case PL_SOURCE_SAFETENSORS:
        st = r->dtype == PL_STRING
                 ? read_strings(rec, r, &t, err)
                 : pl_safetensors_read(rec->internal->safetensors, r->source->entry, &t, err);
        break;
    case PL_SOURCE_TENSOR: t = pl_tensor_ref(r->source->tensor); break;
    case PL_SOURCE_FILE: st = read_tensor_file(rec, r->source, &t, err); break;
    case PL_SOURCE_RAW: st = read_raw(rec, r, &t, err); break;
    case PL_SOURCE_BASE64: st = pl_import_base64(r->source, &t, err); break;
    case PL_SOURCE_NESTED:
        st = pl_recording_read(r->source->nested, r->source->record, &t, err);
        break;
    case PL_SOURCE_REMOTE: st = pl_remote_read(rec, r->source, &t, err); break;
    case PL_SOURCE_JOINED: st = pl_joined_read(rec, r->source, &t, err); break;
    case PL_SOURCE_GGUF: st = pl_gguf_read(rec->internal->gguf, r->source->gguf, &t, err); break;
    }
    if (st == PL_OK) st = check_shape(r, t, err);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return pl_err_wrap(err, st, "%s: '%s'", rec->path, r->key);
    }
    *out = t;
    return PL_OK;
}

void pl_recording_forget(const pl_recording *rec, const pl_record *r) {
    const pl_file_map *map = rec->internal->map;
    if (!r->has_data || r->source->kind != PL_SOURCE_SAFETENSORS || map == NULL || map->heap ||
        map->path == NULL)
        return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)map->data + r->source->entry->offset;
    const uintptr_t end = begin + r->source->entry->n_bytes;
    const uintptr_t first = begin / page * page; /* neighbours on the first page come back */
    if (end - first < page) return;
    (void)madvise((void *)first, (end - first) / page * page, MADV_DONTNEED);
}

/* `left` limits the number of records read: containers that contain each other must not become a
 * tree of exponential size. */
static pl_status read_nested(const pl_recording *rec, const pl_record *r, int depth, size_t *left,
                             pl_datum **out, pl_err *err) {
    if (*left == 0)
        return pl_fail(err, PL_E_FORMAT, "%s: '%s' lists a record twice", rec->path, r->key);
    --*left;
    if (r->kind == PL_TYPE_TENSOR) {
        pl_tensor *t = NULL;
        PL_TRY(pl_recording_read(rec, r, &t, err));
        return pl_datum_of_tensor_take(t, out, err);
    }
    if (depth > NEST_MAX) /* also stops a container that contains itself */
        return pl_fail(err, PL_E_FORMAT, "%s: '%s' is nested too deeply", rec->path, r->key);
    pl_datum **items = pl_calloc(r->n_items + 1, sizeof(pl_datum *));
    if (items == NULL) return pl_fail_memory(err, r->n_items);
    pl_status st = PL_OK;
    for (size_t i = 0; i < r->n_items && st == PL_OK; i++) {
        const pl_record *item = pl_recording_find(rec, r->items[i]);
        st = item == NULL ? pl_fail(err, PL_E_FORMAT, "%s: '%s', an item of '%s', is missing",
                                    rec->path, r->items[i], r->key)
                          : read_nested(rec, item, depth + 1, left, &items[i], err);
    }
    const pl_type_kind kind = r->n_items > 0 && items[0] != NULL ? items[0]->kind : PL_TYPE_TENSOR;
    if (st == PL_OK) {
        st = r->kind == PL_TYPE_SEQUENCE
                 ? pl_datum_new_sequence(kind, r->dtype, items, r->n_items, out, err)
                 : pl_datum_new_optional(kind, r->dtype, items[0], out, err);
    }
    for (size_t i = 0; i < r->n_items; i++)
        pl_datum_unref(items[i]);
    pl_free(items);
    return st;
}

pl_status pl_recording_read_datum(const pl_recording *rec, const pl_record *r, pl_datum **out,
                                  pl_err *err) {
    size_t left = rec->n_records;
    return read_nested(rec, r, 0, &left, out, err);
}

pl_status pl_recording_check_tensor(const pl_recording *rec, const pl_record *r, const pl_tensor *t,
                                    pl_err *err) {
    pl_dense dense;
    if (!r->has_hash) return PL_OK;
    PL_TRY(pl_dense_init(&dense, t, err));
    const pl_hash128 hash = pl_hash128_of(dense.data, dense.n_bytes);
    pl_dense_release(&dense);
    if (pl_hash128_equal(hash, r->hash)) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "%s: '%s' is damaged: hash mismatch", rec->path, r->key);
}

pl_status pl_recording_check_record(const pl_recording *rec, const pl_record *r, uint64_t *n_bytes,
                                    pl_err *err) {
    pl_tensor *t = NULL;
    pl_dense dense;
    PL_TRY(pl_recording_read(rec, r, &t, err));
    pl_status st = pl_dense_init(&dense, t, err);
    if (st == PL_OK) {
        *n_bytes = dense.n_bytes;
        pl_dense_release(&dense);
        st = pl_recording_check_tensor(rec, r, t, err);
    }
    pl_tensor_unref(t);
    return st;
}

pl_status pl_recording_check(const pl_recording *rec, pl_err *err) {
    for (size_t i = 0; i < rec->n_records; i++) {
        uint64_t n_bytes;
        if (rec->records[i].has_data)
            PL_TRY(pl_recording_check_record(rec, &rec->records[i], &n_bytes, err));
    }
    return PL_OK;
}

/* Folders as recordings: Core AI's .aimodelintermediates, npy files, ONNX test data sets.
 *
 * metadata.json has "inputs", "outputs" and "intermediates": name -> { data_file, shape,
 * torch_dtype, node_target, … }, and sometimes "mappings", which is kept as text. npy has no
 * bfloat16, so those are written as float32; torch_dtype gives the original type.
 * (coreai_torch/debugging/torch_utils.py) */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/wire.h"
#include "store/recording_int.h"
#include "tensor/file/npy.h"

/* ---- metadata.json ---- */

typedef struct torch_type {
    const char *name;
    pl_dtype dtype;
} torch_type;
/* clang-format off */
static const torch_type torch_types[] = {
    { "torch.float32", PL_F32 },   { "torch.float", PL_F32 },      { "torch.float64", PL_F64 },
    { "torch.double", PL_F64 },    { "torch.float16", PL_F16 },    { "torch.half", PL_F16 },
    { "torch.bfloat16", PL_BF16 }, { "torch.int64", PL_I64 },      { "torch.long", PL_I64 },
    { "torch.int32", PL_I32 },     { "torch.int", PL_I32 },        { "torch.int16", PL_I16 },
    { "torch.short", PL_I16 },     { "torch.int8", PL_I8 },        { "torch.uint8", PL_U8 },
    { "torch.bool", PL_BOOL },     { "torch.complex64", PL_C64 },  { "torch.cfloat", PL_C64 },
    { "torch.complex128", PL_C128 }, { "torch.cdouble", PL_C128 },
};
/* clang-format on */

static pl_dtype torch_dtype(const pl_json_value *item) {
    const pl_json_value *v = pl_json_find(item, "torch_dtype");
    for (size_t i = 0; v != NULL && i < sizeof torch_types / sizeof *torch_types; i++)
        if (v->kind == PL_JSON_STRING && strcmp(v->string, torch_types[i].name) == 0)
            return torch_types[i].dtype;
    return PL_UNDEFINED;
}

/* The shape and, when its name is known, the type that the file must have. */
static pl_status read_shape(const pl_json_value *item, pl_dtype dtype, pl_record *r, pl_err *err) {
    const pl_json_value *shape = pl_json_find(item, "shape");
    int64_t n;
    if (shape == NULL || dtype == PL_UNDEFINED) return PL_OK;
    if (shape->kind != PL_JSON_ARRAY || shape->n_items > PL_RANK_MAX)
        return pl_fail(err, PL_E_FORMAT, "invalid 'shape'");
    for (const pl_json_value *d = shape->first; d != NULL; d = d->next) {
        if (!d->is_integer || d->integer < 0) return pl_fail(err, PL_E_FORMAT, "invalid 'shape'");
        r->dims[r->rank++] = d->integer;
    }
    if (!pl_dims_product(r->rank, r->dims, &n))
        return pl_fail(err, PL_E_LIMIT, "'shape' is too large");
    pl_dims_strides(r->rank, r->dims, r->strides);
    r->has_shape = true;
    r->dtype = dtype;
    return PL_OK;
}

static pl_status add_item(pl_recording *rec, const pl_json_value *item, unsigned flags,
                          pl_err *err) {
    const pl_json_value *file = pl_json_find(item, "data_file");
    const pl_json_value *target = pl_json_find(item, "node_target");
    const pl_json_value *node = pl_json_find(item, "node_name");
    if (strlen(item->key) != item->n_key)
        return pl_fail(err, PL_E_FORMAT, "a name contains a NUL character");
    if (file == NULL || file->kind != PL_JSON_STRING || strlen(file->string) != file->n_string)
        return pl_fail(err, PL_E_FORMAT, "'data_file' is missing or not a string");
    int fd = -1;
    PL_TRY(pl_dir_open_file(rec->internal->dir, file->string, &fd, err)); /* inside? */
    close(fd);
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_FILE);
    if (source != NULL) source->path = pl_arena_strdup(rec->internal->arena, file->string);
    if (source == NULL || source->path == NULL) return pl_fail_memory(err, 1);
    source->cast_to = torch_dtype(item);
    pl_record *r = pl_recording_add(rec, item->key, err);
    if (r == NULL) return PL_E_MEMORY;
    if (target != NULL && target->kind == PL_JSON_STRING) r->op = target->string;
    if (node != NULL && node->kind == PL_JSON_STRING) r->node = node->string;
    r->flags = flags;
    r->source = source;
    r->has_data = true;
    return read_shape(item, source->cast_to, r, err);
}

static void put_value(pl_json *j, const pl_json_value *v) {
    switch (v->kind) {
    case PL_JSON_NULL: pl_json_null(j); break;
    case PL_JSON_BOOL: pl_json_bool(j, v->boolean); break;
    case PL_JSON_NUMBER:
        if (v->is_integer)
            pl_json_int(j, v->integer);
        else
            pl_json_double(j, v->number);
        break;
    case PL_JSON_STRING: pl_json_string_n(j, v->string, v->n_string); break;
    case PL_JSON_ARRAY:
        pl_json_array_begin(j);
        for (const pl_json_value *c = v->first; c != NULL; c = c->next)
            put_value(j, c);
        pl_json_array_end(j);
        break;
    case PL_JSON_OBJECT:
        pl_json_object_begin(j);
        for (const pl_json_value *c = v->first; c != NULL; c = c->next) {
            pl_json_key(j, c->key);
            put_value(j, c);
        }
        pl_json_object_end(j);
        break;
    }
}

static pl_status keep_mappings(pl_recording *rec, const pl_json_value *mappings, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json j;
    if (mappings == NULL) return PL_OK;
    pl_json_init(&j, &buf, false);
    put_value(&j, mappings);
    rec->mappings =
        pl_buf_ok(&buf) ? pl_arena_strdup(rec->internal->arena, pl_buf_str(&buf)) : NULL;
    pl_buf_release(&buf);
    return rec->mappings == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status read_metadata(pl_recording *rec, const pl_json_value *root, pl_err *err) {
    static const struct {
        const char *key;
        unsigned flags;
    } groups[] = { { "inputs", PL_RECORD_INPUT },
                   { "intermediates", 0 },
                   { "outputs", PL_RECORD_OUTPUT } };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const pl_json_value *group = pl_json_find(root, groups[i].key);
        if (group == NULL || group->kind != PL_JSON_OBJECT)
            return pl_fail(err, PL_E_FORMAT, "'%s' is missing or not an object", groups[i].key);
        for (const pl_json_value *v = group->first; v != NULL; v = v->next) {
            const pl_status st = add_item(rec, v, groups[i].flags, err);
            if (st != PL_OK) return pl_err_wrap(err, st, "%s '%s'", groups[i].key, v->key);
        }
    }
    return keep_mappings(rec, pl_json_find(root, "mappings"), err);
}

static pl_status open_metadata(pl_recording *rec, pl_err *err) {
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    rec->format = "aimodelintermediates";
    PL_TRY(pl_dir_map(rec->internal->dir, "metadata.json", &map, err));
    pl_status st =
        pl_json_read((const char *)map->data, map->n_bytes, rec->internal->arena, &root, err);
    if (st == PL_OK) st = read_metadata(rec, root, err);
    pl_file_map_unref(map);
    return st == PL_OK ? st : pl_err_wrap(err, st, "metadata.json");
}

/* ---- npy files, and input_N.pb, output_N.pb ---- */

static long number_in(const char *name) {
    const char *digits = name + strcspn(name, "0123456789");
    return strtol(digits, NULL, 10);
}

static bool is_test_data(const char *name) {
    return (strncmp(name, "input_", 6) == 0 || strncmp(name, "output_", 7) == 0) &&
           pl_path_has_suffix(name, ".pb");
}

static int compare_test_data(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
    const long i = number_in(x), j = number_in(y);
    return i != j ? (i < j ? -1 : 1) : strcmp(x, y);
}

/* The name that the file itself has (TensorProto.name, field 8), else the file's. */
static pl_status test_data_name(pl_recording *rec, const char *file, const char **out,
                                pl_err *err) {
    pl_file_map *map = NULL;
    pl_wire_field f;
    PL_TRY(pl_dir_map(rec->internal->dir, file, &map, err));
    pl_wire w = pl_wire_of((pl_bytes){ map->data, map->n_bytes });
    *out = pl_arena_strndup(rec->internal->arena, file, strcspn(file, "."));
    while (pl_wire_next(&w, &f))
        if (f.number == 8 && f.type == 2 && f.bytes.n_bytes > 0 &&
            memchr(f.bytes.data, '\0', f.bytes.n_bytes) == NULL)
            *out =
                pl_arena_strndup(rec->internal->arena, (const char *)f.bytes.data, f.bytes.n_bytes);
    pl_file_map_unref(map);
    return *out == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static bool is_raw(const char *name) {
    return pl_path_has_suffix(name, ".bin") || pl_path_has_suffix(name, ".raw");
}

/* Reads shapes before any data: pairing needs them. */
static pl_status npy_head(pl_record *r, pl_file_map *map) {
    pl_tensor *t = NULL;
    const pl_bytes bytes = { map->data, map->n_bytes };
    if (pl_npy_sniff(map->data, map->n_bytes) && pl_npy_read(bytes, map, &t, NULL) == PL_OK) {
        r->has_shape = true;
        r->dtype = t->dtype;
        r->rank = t->rank;
        memcpy(r->dims, t->dims, sizeof r->dims);
        memcpy(r->strides, t->strides, sizeof r->strides);
    }
    pl_tensor_unref(t);
    return PL_OK;
}

/* Raw elements: float32 in one dim, until a model says otherwise. */
static pl_status raw_head(pl_record *r, const pl_file_map *map) {
    const bool floats = map->n_bytes % 4 == 0;
    r->has_shape = true;
    r->dtype = floats ? PL_F32 : PL_U8;
    r->rank = 1;
    r->dims[0] = (int64_t)(floats ? map->n_bytes / 4 : map->n_bytes);
    r->strides[0] = 1;
    return PL_OK;
}

static pl_status read_head(pl_recording *rec, pl_record *r, const char *name, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_dir_map(rec->internal->dir, name, &map, err));
    const pl_status st = is_raw(name) ? raw_head(r, map) : npy_head(r, map);
    pl_file_map_unref(map);
    return st;
}

static pl_status add_file(pl_recording *rec, const char *name, bool is_pb, pl_err *err) {
    pl_record_source *source =
        pl_recording_source(rec, is_raw(name) ? PL_SOURCE_RAW : PL_SOURCE_FILE);
    const char *key = NULL;
    if (source == NULL) return pl_fail_memory(err, 1);
    source->path = pl_arena_strdup(rec->internal->arena, name);
    if (source->path == NULL) return pl_fail_memory(err, 1);
    if (is_pb) {
        PL_TRY(test_data_name(rec, name, &key, err));
    } else {
        key = pl_arena_strndup(rec->internal->arena, name, strlen(name) - 4);
    }
    if (key == NULL) return pl_fail_memory(err, 1);
    pl_record *r = pl_recording_add(rec, key, err);
    if (r == NULL) return PL_E_MEMORY;
    r->source = source;
    r->has_data = true;
    if (!is_pb) return read_head(rec, r, name, err);
    r->flags = name[0] == 'i' ? PL_RECORD_INPUT : PL_RECORD_OUTPUT;
    return PL_OK;
}

pl_status pl_import_one_file(pl_recording *rec, pl_err *err) {
    const char *slash = strrchr(rec->path, '/'), *name = slash == NULL ? rec->path : slash + 1;
    const char *dot = strrchr(name, '.');
    pl_file_map *map = rec->internal->map;
    const char *key = pl_arena_strndup(rec->internal->arena, name,
                                       dot == NULL ? strlen(name) : (size_t)(dot - name));
    if (key == NULL) return pl_fail_memory(err, 1);
    rec->format = is_raw(rec->path) ? "raw" : "npy";
    if (!is_raw(rec->path)) {
        const pl_bytes bytes = { map->data, map->n_bytes };
        pl_tensor *t = NULL;
        PL_TRY(pl_npy_read(bytes, map, &t, err));
        return pl_recording_add_tensor_take(rec, key, t, 0, err);
    }
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_RAW);
    pl_record *r = source == NULL ? NULL : pl_recording_add(rec, key, err);
    if (r == NULL) return pl_fail_memory(err, 1);
    r->source = source;
    r->has_data = true;
    return raw_head(r, map);
}

static pl_status add_files(pl_recording *rec, pl_dir_list *list, pl_err *err) {
    size_t n_pb = 0, n_npy = 0;
    for (size_t i = 0; i < list->n_names; i++) {
        n_pb += is_test_data(list->names[i]);
        n_npy += pl_path_has_suffix(list->names[i], ".npy") || is_raw(list->names[i]);
    }
    if (n_pb == 0 && n_npy == 0)
        return pl_fail(err, PL_E_FORMAT,
                       "not a recording: the folder has no metadata.json, .npy, .bin, input_N.pb "
                       "or output_N.pb");
    if (n_pb > 0) qsort(list->names, list->n_names, sizeof *list->names, compare_test_data);
    rec->format = n_pb > 0 ? "onnx-test-data" : "npy";
    for (size_t i = 0; i < list->n_names; i++) {
        const char *name = list->names[i];
        if (n_pb > 0 ? is_test_data(name) : pl_path_has_suffix(name, ".npy") || is_raw(name))
            PL_TRY(add_file(rec, name, n_pb > 0, err));
    }
    return PL_OK;
}

pl_status pl_import_folder(pl_recording *rec, pl_err *err) {
    const pl_dir *dir = rec->internal->dir;
    pl_dir_list list = { NULL, 0 };
    if (pl_dir_look(dir, "metadata.json", NULL) != PL_KIND_NONE) return open_metadata(rec, err);
    if (pl_import_is_msprobe(dir)) return pl_import_msprobe(rec, err);
    if (pl_import_is_vllm(dir)) return pl_import_vllm(rec, err);
    PL_TRY(pl_dir_names(dir, ".", &list, err));
    const bool is_ranks = !rec->internal->is_nested && pl_import_is_ranks(dir, &list);
    const pl_status st = pl_import_is_sglang(&list)     ? pl_import_sglang(rec, &list, err)
                         : pl_import_is_hf_debug(&list) ? pl_import_hf_debug(rec, &list, err)
                         : is_ranks                     ? pl_import_ranks(rec, &list, err)
                                                        : add_files(rec, &list, err);
    pl_dir_list_free(&list);
    return st;
}

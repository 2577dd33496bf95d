/* Tensors as onnxruntime-web takes and gives them. */
#include <string.h>

#include "backends/web/web_int.h"
#include "base/json.h"

static const struct {
    pl_dtype dtype;
    const char *name;
} types[] = {
    { PL_F32, "float32" }, { PL_U8, "uint8" },    { PL_I8, "int8" },     { PL_U16, "uint16" },
    { PL_I16, "int16" },   { PL_I32, "int32" },   { PL_I64, "int64" },   { PL_STRING, "string" },
    { PL_BOOL, "bool" },   { PL_F16, "float16" }, { PL_F64, "float64" }, { PL_U32, "uint32" },
    { PL_U64, "uint64" },
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

const char *pl_web_type_name(pl_dtype dtype) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}

pl_dtype pl_web_type_of(const char *name) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].dtype;
    return PL_UNDEFINED;
}

static pl_status pack_strings(const pl_tensor *t, pl_buf *out, pl_err *err) {
    const pl_string *strings = t->data;
    pl_json json;
    pl_json_init(&json, out, false);
    pl_json_array_begin(&json);
    for (int64_t i = 0; i < t->n_elements; i++)
        pl_json_string_n(&json, strings[i].data, strings[i].n_bytes);
    pl_json_array_end(&json);
    return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, out->n_bytes);
}

pl_status pl_web_pack(const pl_tensor *t, pl_buf *out, pl_err *err) {
    pl_tensor *dense = NULL;
    PL_TRY(pl_tensor_contiguous(t, &dense, err));
    pl_status st = PL_OK;
    if (dense->dtype == PL_STRING) {
        st = pack_strings(dense, out, err);
    } else {
        const size_t n = pl_tensor_bytes(dense);
        if (n > 0) pl_buf_append(out, dense->data, n);
        if (!pl_buf_ok(out)) st = pl_fail_memory(err, n);
    }
    pl_tensor_unref(dense);
    return st;
}

static pl_status read_strings(pl_tensor *t, const uint8_t *data, size_t n_bytes, pl_err *err) {
    const pl_json_value *list = NULL;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_json_read((const char *)data, n_bytes, arena, &list, err);
    if (st == PL_OK && (list->kind != PL_JSON_ARRAY || list->n_items != (uint64_t)t->n_elements))
        st = pl_fail(err, PL_E_BACKEND, "the page gave a wrong number of strings");
    int64_t i = 0;
    for (const pl_json_value *v = st == PL_OK ? list->first : NULL; v != NULL && st == PL_OK;
         v = v->next)
        st = v->kind == PL_JSON_STRING
                 ? pl_tensor_set_string(t, i++, v->string, v->n_string, err)
                 : pl_fail(err, PL_E_BACKEND, "the page gave a string that is none");
    pl_arena_free(arena);
    return st;
}

pl_status pl_web_unpack(pl_dtype dtype, int rank, const int64_t *dims, const uint8_t *data,
                        size_t n_bytes, pl_datum **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(dtype, rank, dims, &t, err));
    pl_status st = PL_OK;
    if (dtype == PL_STRING) {
        st = read_strings(t, data, n_bytes, err);
    } else if (pl_tensor_bytes(t) != n_bytes) {
        st = pl_fail(err, PL_E_BACKEND, "the page gave %zu bytes, expected %zu", n_bytes,
                     pl_tensor_bytes(t));
    } else if (n_bytes > 0) {
        memcpy(t->data, data, n_bytes);
    }
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    return pl_datum_of_tensor_take(t, out, err);
}

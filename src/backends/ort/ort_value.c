/* Converts plumb's data to ONNX Runtime's values and back. */
#include "backends/ort/ort_value.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "tensor/file/raw.h"

enum { ALIGNMENT = 64 };

#define ORT_TRY(call, doing) PL_TRY(pl_ort_check(&ort->api, ort->api.call, doing, err))

/* ---- in ---- */

static pl_status string_input(const pl_ort_env *ort, const pl_tensor *t, pl_ort_input *out,
                              pl_err *err) {
    const pl_string *strings = t->data;
    const size_t n = (size_t)t->n_elements;
    size_t n_bytes = n * sizeof(char *);
    for (size_t i = 0; i < n; i++) {
        if (strings[i].n_bytes > 0 && memchr(strings[i].data, 0, strings[i].n_bytes) != NULL) {
            return pl_fail(err, PL_E_UNSUPPORTED,
                           "element %zu of a string tensor has a NUL byte, which ONNX Runtime's C "
                           "API does not support",
                           i);
        }
        if (!pl_size_add(n_bytes, strings[i].n_bytes + 1, &n_bytes)) return pl_fail_memory(err, n);
    }
    const char **list = out->packed = pl_malloc(n_bytes + 1);
    if (list == NULL) return pl_fail_memory(err, n_bytes);
    char *at = (char *)(list + n);
    for (size_t i = 0; i < n; i++) {
        list[i] = at;
        if (strings[i].n_bytes > 0) memcpy(at, strings[i].data, strings[i].n_bytes);
        at[strings[i].n_bytes] = '\0';
        at += strings[i].n_bytes + 1;
    }
    ORT_TRY(
        CreateTensorAsOrtValue(ort->allocator, t->dims, (size_t)t->rank, PL_STRING, &out->value),
        "create a string tensor");
    if (n > 0) ORT_TRY(FillStringTensor(out->value, list, n), "fill a string tensor");
    return PL_OK;
}

static pl_status tensor_input(const pl_ort_env *ort, const pl_tensor *tensor, pl_ort_input *out,
                              pl_err *err) {
    size_t n_bytes = 0;
    PL_TRY(pl_tensor_contiguous(tensor, &out->dense, err));
    const pl_tensor *t = out->dense;
    if (t->dtype == PL_STRING) return string_input(ort, t, out, err);
    if (!pl_raw_size(t->dtype, t->n_elements, &n_bytes)) return pl_fail_memory(err, 1);
    void *data = t->data;
    const bool sub_byte = pl_dtype_bits(t->dtype) < 8;
    if (sub_byte || (uintptr_t)data % ALIGNMENT != 0 || n_bytes == 0) {
        data = out->packed = pl_aligned_alloc(ALIGNMENT, n_bytes + ALIGNMENT);
        if (data == NULL) return pl_fail_memory(err, n_bytes);
        if (sub_byte) {
            pl_raw_pack(t->dtype, t->data, data, t->n_elements);
        } else if (n_bytes > 0) {
            memcpy(data, t->data, n_bytes);
        }
    }
    ORT_TRY(CreateTensorWithDataAsOrtValue(ort->cpu, data, n_bytes, t->dims, (size_t)t->rank,
                                           (int)t->dtype, &out->value),
            "create an input tensor");
    return PL_OK;
}

/* The items of a sequence have one type, the keys and values of a map never do. */
static bool is_map(const pl_datum *d) {
    return d->n_items == 2 && d->items[0]->kind == PL_TYPE_TENSOR &&
           d->items[1]->kind == PL_TYPE_TENSOR &&
           d->items[0]->tensor->dtype != d->items[1]->tensor->dtype;
}

static pl_status sequence_input(const pl_ort_env *ort, const pl_datum *d, pl_ort_input *out,
                                pl_err *err) {
    if (d->n_items == 0) {
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "ONNX Runtime's C API cannot create an empty sequence");
    }
    void **values = pl_calloc(d->n_items, sizeof(void *));
    out->items = pl_calloc(d->n_items, sizeof(*out->items));
    pl_status st = values == NULL || out->items == NULL ? pl_fail_memory(err, d->n_items) : PL_OK;
    for (size_t i = 0; i < d->n_items && st == PL_OK; i++) {
        out->n_items = i + 1;
        st = pl_ort_input_new(ort, d->items[i], &out->items[i], err);
        values[i] = out->items[i].value;
    }
    if (st == PL_OK) {
        st = pl_ort_check(&ort->api,
                          ort->api.CreateValue(values, d->n_items,
                                               is_map(d) ? PL_ORT_MAP : PL_ORT_SEQUENCE,
                                               &out->value),
                          is_map(d) ? "create a map" : "create a sequence", err);
    }
    pl_free(values);
    return st;
}

pl_status pl_ort_input_new(const pl_ort_env *ort, const pl_datum *d, pl_ort_input *out,
                           pl_err *err) {
    *out = (pl_ort_input){ 0 };
    if (d->kind == PL_TYPE_TENSOR) return tensor_input(ort, d->tensor, out, err);
    if (d->kind == PL_TYPE_SEQUENCE) return sequence_input(ort, d, out, err);
    /* An optional with a value is passed as that value. */
    if (d->n_items > 0) return pl_ort_input_new(ort, d->items[0], out, err);
    return pl_fail(err, PL_E_UNSUPPORTED, "ONNX Runtime's C API cannot create an empty optional");
}

void pl_ort_input_release(const pl_ort_env *ort, pl_ort_input *input) {
    if (input->value != NULL) ort->api.ReleaseValue(input->value);
    for (size_t i = 0; i < input->n_items; i++)
        pl_ort_input_release(ort, &input->items[i]);
    pl_free(input->items);
    pl_free(input->packed);
    pl_tensor_unref(input->dense);
    *input = (pl_ort_input){ 0 };
}

/* ---- out ---- */

/* The C enum and TensorProto differ from 24 on; creating a tensor takes TensorProto's numbers. */
static pl_dtype dtype_of(int element_type) {
    switch (element_type) {
    case 24: return PL_U2;
    case 25: return PL_I2;
    case 26: return PL_F8E8M0;
    default: return pl_dtype_valid(element_type) ? (pl_dtype)element_type : PL_UNDEFINED;
    }
}

static pl_status read_shape(const pl_ort_env *ort, void *info, int *type, size_t *rank,
                            int64_t dims[PL_RANK_MAX], pl_err *err) {
    ORT_TRY(GetTensorElementType(info, type), "read an element type");
    ORT_TRY(GetDimensionsCount(info, rank), "read a rank");
    if (*rank > PL_RANK_MAX) {
        return pl_fail(err, PL_E_LIMIT,
                       "ort returned a tensor of rank %zu; at most %d is supported", *rank,
                       PL_RANK_MAX);
    }
    ORT_TRY(GetDimensions(info, dims, *rank), "read dims");
    return PL_OK;
}

static pl_status read_strings(const pl_ort_env *ort, void *value, pl_tensor *t, pl_err *err) {
    const size_t n = (size_t)t->n_elements;
    size_t n_bytes = 0;
    if (n == 0) return PL_OK;
    ORT_TRY(GetStringTensorDataLength(value, &n_bytes), "read strings");
    char *bytes = pl_malloc(n_bytes + 1);
    size_t *offsets = pl_calloc(n + 1, sizeof(size_t));
    pl_status st = bytes == NULL || offsets == NULL ? pl_fail_memory(err, n_bytes) : PL_OK;
    if (st == PL_OK) {
        st = pl_ort_check(&ort->api,
                          ort->api.GetStringTensorContent(value, bytes, n_bytes, offsets, n),
                          "read strings", err);
    }
    if (st == PL_OK) offsets[n] = n_bytes;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        if (offsets[i] > offsets[i + 1] || offsets[i + 1] > n_bytes) {
            st = pl_fail(err, PL_E_BACKEND, "ort returned string offsets out of order");
        } else {
            st = pl_tensor_set_string(t, (int64_t)i, bytes + offsets[i],
                                      offsets[i + 1] - offsets[i], err);
        }
    }
    pl_free(bytes);
    pl_free(offsets);
    return st;
}

static pl_status read_elements(const pl_ort_env *ort, void *value, pl_tensor *t, pl_err *err) {
    void *data = NULL;
    if (t->dtype == PL_STRING) return read_strings(ort, value, t, err);
    if (t->n_elements == 0) return PL_OK;
    ORT_TRY(GetTensorMutableData(value, &data), "read a tensor");
    if (data == NULL)
        return pl_fail(err, PL_E_BACKEND, "ort returned a tensor without data (NULL)");
    if (pl_dtype_bits(t->dtype) < 8) {
        pl_raw_unpack(t->dtype, data, t->data, t->n_elements);
    } else {
        memcpy(t->data, data, pl_tensor_bytes(t));
    }
    return PL_OK;
}

typedef struct read_type {
    pl_dtype dtype;
    size_t rank;
    int64_t dims[PL_RANK_MAX];
} read_type;

static pl_status read_tensor_type(const pl_ort_env *ort, void *value, read_type *out, pl_err *err) {
    void *info = NULL;
    int type = 0;
    ORT_TRY(GetTensorTypeAndShape(value, &info), "read a tensor's type");
    const pl_status st = read_shape(ort, info, &type, &out->rank, out->dims, err);
    ort->api.ReleaseTensorTypeAndShapeInfo(info);
    PL_TRY(st);
    out->dtype = dtype_of(type);
    if (out->dtype == PL_UNDEFINED) {
        return pl_fail(err, PL_E_UNSUPPORTED, "ort returned a tensor of element type %d", type);
    }
    return PL_OK;
}

static pl_status read_tensor(const pl_ort_env *ort, void *value, pl_datum **out, pl_err *err) {
    read_type type;
    pl_tensor *t = NULL;
    PL_TRY(read_tensor_type(ort, value, &type, err));
    PL_TRY(pl_tensor_new(type.dtype, (int)type.rank, type.dims, &t, err));
    const pl_status st = read_elements(ort, value, t, err);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    return pl_datum_of_tensor_take(t, out, err);
}

bool pl_ort_value_view(const pl_ort_env *ort, void *value, pl_tensor **out) {
    int kind = 0, has_value = 1;
    void *data = NULL;
    read_type type;
    const pl_ort_api *api = &ort->api;
    return value != NULL &&
           pl_ort_check(api, api->HasValue(value, &has_value), "", NULL) == PL_OK && has_value &&
           pl_ort_check(api, api->GetValueType(value, &kind), "", NULL) == PL_OK &&
           kind == PL_ORT_TENSOR && read_tensor_type(ort, value, &type, NULL) == PL_OK &&
           type.dtype != PL_STRING && pl_dtype_bits(type.dtype) >= 8 &&
           pl_ort_check(api, api->GetTensorMutableData(value, &data), "", NULL) == PL_OK &&
           data != NULL &&
           pl_tensor_borrow(type.dtype, (int)type.rank, type.dims, data, NULL, NULL, out, NULL) ==
               PL_OK;
}

/* Also a map, which is a sequence of two tensors of their own types: its keys, its values. */
static pl_status read_sequence(const pl_ort_env *ort, void *value, bool map, pl_datum **out,
                               pl_err *err) {
    size_t n = 0;
    ORT_TRY(GetValueCount(value, &n), "read a sequence");
    pl_datum **items = pl_calloc(n + 1, sizeof(pl_datum *));
    pl_status st = items == NULL ? pl_fail_memory(err, n) : PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        void *item = NULL;
        st = pl_ort_check(&ort->api, ort->api.GetValue(value, (int)i, ort->allocator, &item),
                          "read an item of a sequence", err);
        if (st == PL_OK) st = pl_ort_value_read(ort, item, false, &items[i], err);
        if (item != NULL) ort->api.ReleaseValue(item);
    }
    if (st == PL_OK) {
        st = pl_datum_new_sequence(n > 0 ? items[0]->kind : PL_TYPE_TENSOR,
                                   n > 0 && !map ? items[0]->elem_dtype : PL_UNDEFINED, items, n,
                                   out, err);
    }
    for (size_t i = 0; items != NULL && i < n; i++)
        pl_datum_unref(items[i]);
    pl_free(items);
    return st;
}

static pl_status wrap_optional(pl_datum *inner, pl_datum **out, pl_err *err) {
    const pl_status st =
        pl_datum_new_optional(inner == NULL ? PL_TYPE_TENSOR : inner->kind,
                              inner == NULL ? PL_UNDEFINED : inner->elem_dtype, inner, out, err);
    pl_datum_unref(inner);
    return st;
}

pl_status pl_ort_value_read(const pl_ort_env *ort, void *value, bool optional, pl_datum **out,
                            pl_err *err) {
    int type = 0, has_value = 1;
    pl_datum *d = NULL;
    if (value == NULL) return pl_fail(err, PL_E_BACKEND, "ort returned no value (NULL)");
    /* Asking an empty optional for its type crashes, and recorded ones may not be declared
     * optional. */
    ORT_TRY(HasValue(value, &has_value), "read an optional");
    if (!has_value) return wrap_optional(NULL, out, err);
    ORT_TRY(GetValueType(value, &type), "read a value's type");
    if (type == PL_ORT_TENSOR) {
        PL_TRY(read_tensor(ort, value, &d, err));
    } else if (type == PL_ORT_SEQUENCE || type == PL_ORT_MAP) {
        PL_TRY(read_sequence(ort, value, type == PL_ORT_MAP, &d, err));
    } else {
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "ort returned a value that is neither a tensor nor a sequence (type %d)",
                       type);
    }
    if (optional) return wrap_optional(d, out, err);
    *out = d;
    return PL_OK;
}

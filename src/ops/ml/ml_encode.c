/* ai.onnx.ml operators that look values up in a table: LabelEncoder, CategoryMapper, OneHotEncoder.
 *
 * Keys are compared by their bytes: a number by its 8 bytes (all NaNs are equal, -0 is 0), a string
 * as it is. */
#include <math.h>
#include <string.h>

#include "base/strmap.h"
#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/ml/ml_rules.h"

/* A list that may be given as strings, ints, floats or a tensor. */
typedef struct any_list {
    pl_dtype dtype; /* PL_UNDEFINED = not given */
    size_t n;
    const pl_string *strings;
    const int64_t *ints;
    const float *floats;
    const pl_tensor *tensor;
} any_list;

/* `names` in the order strings, ints, floats, tensor; NULL = no such attribute. */
static any_list list_of(const pl_node *node, const char *const names[4]) {
    any_list l = { 0 };
    size_t n = 0;
    if (pl_attr_strings(node, names[0], &n) != NULL) {
        l = (any_list){ .dtype = PL_STRING,
                        .n = n,
                        .strings = pl_attr_strings(node, names[0], &n) };
    } else if (pl_attr_ints(node, names[1], &n) != NULL) {
        l = (any_list){ .dtype = PL_I64, .n = n, .ints = pl_attr_ints(node, names[1], &n) };
    } else if (names[2] != NULL && pl_attr_floats(node, names[2], &n) != NULL) {
        l = (any_list){ .dtype = PL_F32, .n = n, .floats = pl_attr_floats(node, names[2], &n) };
    } else if (names[3] != NULL && pl_attr_tensor(node, names[3]) != NULL) {
        l.tensor = pl_attr_tensor(node, names[3]);
        l.dtype = l.tensor->dtype;
        l.n = (size_t)l.tensor->n_elements;
    }
    return l;
}

static bool is_float(pl_dtype dtype) {
    return dtype == PL_F32 || dtype == PL_F64;
}

/* One item in the widest form of its class. */
typedef struct item {
    pl_string s;
    int64_t i;
    double f;
} item;

static item list_item(const any_list *l, size_t k) {
    item v = { { "", 0 }, 0, 0 };
    if (l->strings != NULL) v.s = l->strings[k];
    if (l->ints != NULL) v.i = l->ints[k];
    if (l->floats != NULL) v.f = (double)l->floats[k];
    if (l->tensor == NULL) return v;
    if (l->dtype == PL_STRING) {
        v.s = ((const pl_string *)l->tensor->data)[k];
    } else if (is_float(l->dtype)) {
        v.f = pl_tensor_get_f64(l->tensor, (int64_t)k);
    } else {
        v.i = pl_tensor_get_i64(l->tensor, (int64_t)k);
    }
    return v;
}

static item tensor_item(const pl_tensor *t, int64_t k) {
    const any_list l = { .dtype = t->dtype, .tensor = t };
    return list_item(&l, (size_t)k);
}

typedef union key_bytes {
    int64_t i;
    double f;
} key_bytes;

static pl_string key_of(pl_dtype dtype, const item *v, key_bytes *bytes) {
    if (dtype == PL_STRING) return v->s;
    if (is_float(dtype)) {
        bytes->f = isnan(v->f) ? (double)NAN : v->f + 0.0; /* -0 + 0 is +0 */
    } else {
        bytes->i = v->i;
    }
    return (pl_string){ (const char *)bytes, sizeof(*bytes) };
}

/* Maps each key to its position + 1; of equal keys the last counts (LabelEncoder-4). */
static pl_status index_keys(pl_eval *c, const any_list *keys, pl_strmap *map) {
    key_bytes *bytes = pl_scratch(c, keys->n, sizeof(*bytes));
    if (bytes == NULL) return pl_eval_memory(c);
    for (size_t k = 0; k < keys->n; k++) {
        const item v = list_item(keys, k);
        const pl_string key = key_of(keys->dtype, &v, &bytes[k]);
        if (pl_strmap_put_n(map, key.data, key.n_bytes, (void *)(uintptr_t)(k + 1)) != 0) {
            return pl_eval_memory(c);
        }
    }
    return PL_OK;
}

/* Position + 1 of element k of x; 0 when it is not a key. */
static size_t find_key(const pl_strmap *map, const pl_tensor *x, int64_t k) {
    key_bytes bytes;
    const item v = tensor_item(x, k);
    const pl_string key = key_of(x->dtype, &v, &bytes);
    return (size_t)(uintptr_t)pl_strmap_get_n(map, key.data, key.n_bytes);
}

static pl_status store_item(pl_eval *c, pl_tensor *y, int64_t k, const item *v) {
    void *to = (char *)y->data + (size_t)k * pl_dtype_bytes(y->dtype);
    if (y->dtype == PL_STRING) {
        return pl_tensor_set_string(y, k, v->s.data, v->s.n_bytes, c->err);
    }
    if (is_float(y->dtype)) {
        pl_store_f64(y->dtype, &v->f, to, 1);
    } else {
        pl_store_i64(y->dtype, &v->i, to, 1);
    }
    return PL_OK;
}

/* ---- LabelEncoder-2, -4 ---- */

static const char *const key_names[4] = { "keys_strings", "keys_int64s", "keys_floats",
                                          "keys_tensor" };
static const char *const value_names[4] = { "values_strings", "values_int64s", "values_floats",
                                            "values_tensor" };

static const char *encoder_lists(const pl_node *node, any_list *keys, any_list *values) {
    *keys = list_of(node, key_names);
    *values = list_of(node, value_names);
    if (keys->dtype == PL_UNDEFINED) return "no keys_* attribute is given";
    if (values->dtype == PL_UNDEFINED) return "no values_* attribute is given";
    if (keys->n != values->n) return "keys_* and values_* differ in length";
    const pl_tensor *fallback = pl_attr_tensor(node, "default_tensor");
    if (fallback != NULL && fallback->n_elements != 1)
        return "default_tensor must hold one element";
    if (fallback != NULL && fallback->dtype != values->dtype) {
        return "default_tensor and values_* differ in type";
    }
    const pl_dtype_class k = pl_dtype_class_of(keys->dtype), v = pl_dtype_class_of(values->dtype);
    const bool fine = (k == PL_CLASS_STRING || k == PL_CLASS_INT || is_float(keys->dtype)) &&
                      (v == PL_CLASS_STRING || v == PL_CLASS_INT || is_float(values->dtype));
    return fine ? NULL : "keys or values have a type that is not supported";
}

pl_status pl_label_encoder_infer(pl_infer *c) {
    any_list keys, values;
    const char *bad = encoder_lists(c->node, &keys, &values);
    if (bad != NULL) return pl_infer_fail(c, "%s", bad);
    const pl_dtype x = pl_infer_dtype_of(c, 0);
    if (x != PL_UNDEFINED && pl_dtype_class_of(x) != pl_dtype_class_of(keys.dtype)) {
        return pl_infer_fail(c, "the input is %s, the keys are %s", pl_dtype_name(x),
                             pl_dtype_name(keys.dtype));
    }
    const int rank = pl_infer_rank(c, 0);
    return pl_infer_set(c, 0, pl_infer_dtype(c, values.dtype), rank,
                        rank < 0 ? NULL : c->in[0]->dims);
}

pl_status pl_label_encoder_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    any_list keys, values;
    const char *bad = encoder_lists(c->node, &keys, &values);
    if (bad != NULL) return pl_eval_fail(c, "%s", bad);
    if (y == NULL) return PL_OK;
    item fallback = { pl_attr_string(c->node, "default_string"),
                      pl_attr_int(c->node, "default_int64"),
                      pl_attr_float(c->node, "default_float") };
    const pl_tensor *given = pl_attr_tensor(c->node, "default_tensor");
    if (given != NULL) fallback = tensor_item(given, 0);
    pl_strmap map = PL_STRMAP_INIT;
    pl_status st = index_keys(c, &keys, &map);
    for (int64_t i = 0; i < x->n_elements && st == PL_OK; i++) {
        const size_t at = find_key(&map, x, i);
        const item v = at > 0 ? list_item(&values, at - 1) : fallback;
        st = store_item(c, y, i, &v);
    }
    pl_strmap_release(&map);
    return st;
}

/* ---- CategoryMapper-1, LabelEncoder-1: strings to ints or back ---- */

pl_status pl_category_infer(pl_infer *c) {
    const pl_dtype x = pl_infer_dtype_of(c, 0);
    const int rank = pl_infer_rank(c, 0);
    if (x == PL_UNDEFINED) return PL_OK;
    return pl_infer_set(c, 0, x == PL_STRING ? PL_I64 : PL_STRING, rank,
                        rank < 0 ? NULL : c->in[0]->dims);
}

pl_status pl_category_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const bool old_encoder = strcmp(c->node->op, "LabelEncoder") == 0;
    any_list strings = { .dtype = PL_STRING }, ints = { .dtype = PL_I64 };
    strings.strings =
        pl_attr_strings(c->node, old_encoder ? "classes_strings" : "cats_strings", &strings.n);
    ints.ints = pl_attr_ints(c->node, "cats_int64s", &ints.n);
    if (old_encoder) { /* strings map to their index */
        int64_t *positions = pl_scratch(c, strings.n, sizeof(*positions));
        if (positions == NULL) return pl_eval_memory(c);
        for (size_t i = 0; i < strings.n; i++)
            positions[i] = (int64_t)i;
        ints = (any_list){ .dtype = PL_I64, .n = strings.n, .ints = positions };
    }
    if (strings.n != ints.n) {
        return pl_eval_fail(c, "cats_strings has %zu elements, cats_int64s %zu", strings.n, ints.n);
    }
    if (y == NULL) return PL_OK;
    const bool to_int = x->dtype == PL_STRING;
    const item fallback = { pl_attr_string(c->node, "default_string"),
                            pl_attr_int(c->node, "default_int64"), 0 };
    pl_strmap map = PL_STRMAP_INIT;
    pl_status st = index_keys(c, to_int ? &strings : &ints, &map);
    for (int64_t i = 0; i < x->n_elements && st == PL_OK; i++) {
        const size_t at = find_key(&map, x, i);
        const item v = at > 0 ? list_item(to_int ? &ints : &strings, at - 1) : fallback;
        st = store_item(c, y, i, &v);
    }
    pl_strmap_release(&map);
    return st;
}

/* ---- OneHotEncoder-1 ---- */

static const char *const category_names[4] = { "cats_strings", "cats_int64s", NULL, NULL };

pl_status pl_one_hot_infer(pl_infer *c) {
    const any_list cats = list_of(c->node, category_names);
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype x = pl_infer_dtype_of(c, 0), y = pl_infer_dtype(c, PL_F32);
    if (cats.dtype == PL_UNDEFINED) return pl_infer_fail(c, "no cats_* attribute is given");
    if (x != PL_UNDEFINED && (x == PL_STRING) != (cats.dtype == PL_STRING)) {
        return pl_infer_fail(c, "the input is %s, the categories are %s", pl_dtype_name(x),
                             pl_dtype_name(cats.dtype));
    }
    if (rank < 0) return pl_infer_set_unranked(c, 0, y);
    if (rank >= PL_RANK_MAX) return pl_infer_fail(c, "rank %d exceeds the limit", rank + 1);
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = c->in[0]->dims[i];
    dims[rank] = pl_dim_of((int64_t)cats.n);
    return pl_infer_set(c, 0, y, rank + 1, dims);
}

pl_status pl_one_hot_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const any_list cats = list_of(c->node, category_names);
    const bool zeros = pl_attr_int(c->node, "zeros") != 0;
    if (y == NULL) return PL_OK;
    pl_tensor *whole = NULL; /* floats are truncated to integers first */
    if (x->dtype == PL_STRING) {
        whole = pl_tensor_ref(x);
    } else {
        PL_TRY(pl_tensor_cast(x, PL_I64, &whole, c->err));
    }
    if (y->n_elements > 0) memset(y->data, 0, pl_tensor_bytes(y));
    pl_strmap map = PL_STRMAP_INIT;
    pl_status st = index_keys(c, &cats, &map);
    const double one = 1;
    for (int64_t i = 0; i < x->n_elements && st == PL_OK; i++) {
        const size_t at = find_key(&map, whole, i);
        if (at > 0) {
            const size_t offset = (size_t)i * cats.n + at - 1;
            pl_store_f64(y->dtype, &one, (char *)y->data + offset * pl_dtype_bytes(y->dtype), 1);
        } else if (!zeros) {
            st = pl_eval_fail(c, "element %lld is in no category", (long long)i);
        }
    }
    pl_strmap_release(&map);
    pl_tensor_unref(whole);
    return st;
}

/* Classic machine learning (ai.onnx.ml): features in and out. Linear models and support vector
 * machines are in ml_linear.c, tables in ml_encode.c, maps in ml_map.c and ml_dict.c, trees in
 * ml_tree.c. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

extern const pl_op_def pl_ops_ml[];

/* ---- ArrayFeatureExtractor-1 ---- */

static pl_status extractor_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0), index_rank = pl_infer_rank(c, 1);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank == 0) return pl_infer_fail(c, "the input must have an axis");
    int64_t n = index_rank < 0 ? -1 : 1;
    for (int i = 0; i < index_rank && n >= 0; i++) {
        const pl_dim d = pl_infer_dim(c, 1, i);
        if (!pl_dim_known(d)) {
            n = -1;
        } else if (!pl_i64_mul(n, d.value, &n)) {
            return pl_infer_fail(c, "too many indices");
        }
    }
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < rank - 1; i++)
        dims[i] = c->in[0]->dims[i];
    const int out_rank = rank == 1 ? 2 : rank; /* a vector counts as one row */
    if (rank == 1) dims[0] = pl_dim_of(1);
    dims[out_rank - 1] = n < 0 ? PL_DIM_UNKNOWN : pl_dim_of(n);
    return pl_infer_set(c, 0, dtype, out_rank, dims);
}

static pl_status extractor_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *z = pl_out(c, 0);
    size_t n = 0;
    const int64_t *indices = pl_in_ints(c, 1, &n), width = x->dims[x->rank - 1];
    if (indices == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < n; i++) {
        if (indices[i] >= 0 && indices[i] < width) continue;
        return pl_eval_fail(c, "index %lld is not within 0 to %lld", (long long)indices[i],
                            (long long)width - 1);
    }
    if (z == NULL || z->n_elements == 0 || n == 0) return PL_OK;
    const size_t size = pl_dtype_bytes(x->dtype);
    const int64_t n_rows = z->n_elements / (int64_t)n;
    for (int64_t row = 0, to = 0; row < n_rows; row++) {
        for (size_t i = 0; i < n; i++, to++) {
            const int64_t from = row * width + indices[i];
            if (x->dtype == PL_STRING) {
                const pl_string s = ((const pl_string *)x->data)[from];
                PL_TRY(pl_tensor_set_string(z, to, s.data, s.n_bytes, c->err));
            } else {
                memcpy((char *)z->data + (size_t)to * size,
                       (const char *)x->data + (size_t)from * size, size);
            }
        }
    }
    return PL_OK;
}

/* ---- Binarizer-1 ---- */

static pl_status binarizer_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_f64 *from = pl_in_f64(c, 0);
    const double threshold = pl_attr_float(c->node, "threshold");
    if (y == NULL) return PL_OK;
    if (from == NULL) return pl_eval_memory(c);
    const size_t size = pl_dtype_bytes(y->dtype);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const int64_t bit = from[i] > threshold;
        pl_store_i64(y->dtype, &bit, (char *)y->data + (size_t)i * size, 1);
    }
    return PL_OK;
}

/* ---- Imputer-1 ---- */

/* Number of replacements; 0 when neither attribute is given. There is one for all features, or one
 * for each. */
static pl_status imputer_check(const pl_eval *c, size_t n, int64_t n_features) {
    if (n == 1 || (n > 0 && (int64_t)n == n_features)) return PL_OK;
    return pl_eval_fail(c, "has %zu imputed values for %lld features", n, (long long)n_features);
}

static pl_status imputer_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (x->rank == 0) return pl_eval_fail(c, "the input must have an axis");
    if (y == NULL || x->n_elements == 0) return PL_OK;
    const int64_t n_features = x->dims[x->rank - 1];
    const size_t size = pl_dtype_bytes(x->dtype);
    const bool is_float = pl_dtype_is_float(x->dtype);
    size_t n_floats = 0, n_ints = 0;
    const float *floats = pl_attr_floats(c->node, "imputed_value_floats", &n_floats);
    const int64_t *ints = pl_attr_ints(c->node, "imputed_value_int64s", &n_ints);
    const double old_float = pl_attr_float(c->node, "replaced_value_float");
    const int64_t old_int = pl_attr_int(c->node, "replaced_value_int64");
    const size_t n = is_float ? n_floats : n_ints;
    PL_TRY(imputer_check(c, n, n_features));
    memcpy(y->data, x->data, pl_tensor_bytes(x));
    for (int64_t i = 0; i < x->n_elements; i++) {
        const size_t k = n == 1 ? 0 : (size_t)(i % n_features);
        void *to = (char *)y->data + (size_t)i * size;
        if (is_float) {
            const double v = pl_tensor_get_f64(x, i), new_ = (double)floats[k];
            const bool same = isnan(old_float) ? isnan(v) : v == old_float;
            if (same) pl_store_f64(y->dtype, &new_, to, 1);
        } else if (pl_tensor_get_i64(x, i) == old_int) {
            pl_store_i64(y->dtype, &ints[k], to, 1);
        }
    }
    return PL_OK;
}

/* ---- rules of outputs that are always float ---- */

static pl_status float_like_first(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    return pl_infer_set(c, 0, pl_infer_dtype(c, PL_F32), rank, rank < 0 ? NULL : c->in[0]->dims);
}

/* ---- Normalizer-1 ---- */

/* MAX is "X / max(X)" in the schema, which ONNX Runtime takes literally ('m'). The ONNX reference
 * and scikit-learn, where the operator comes from, use the largest absolute value (onnx issue
 * 8452). */
static double row_norm(const pl_f64 *x, int64_t n, char kind) {
    double norm = kind == 'm' && n > 0 ? x[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        if (kind == 'm') norm = fmax(norm, x[i]);
        if (kind == 'M') norm = fmax(norm, fabs(x[i]));
        if (kind == '1') norm += fabs(x[i]);
        if (kind == '2') norm += x[i] * x[i];
    }
    return kind == '2' ? sqrt(norm) : norm;
}

static pl_status normalizer_eval(pl_eval *c) {
    const pl_f64 *x = pl_in_f64(c, 0);
    pl_tensor *y = pl_out(c, 0);
    int64_t n_rows = 0, n = 0;
    char kind = 0;
    if (pl_attr_string_is(c->node, "norm", "MAX")) kind = c->otherwise ? 'm' : 'M';
    if (pl_attr_string_is(c->node, "norm", "L1")) kind = '1';
    if (pl_attr_string_is(c->node, "norm", "L2")) kind = '2';
    if (kind == 0) return pl_eval_fail(c, "norm is not MAX, L1 or L2");
    if (!pl_ml_rows(pl_in(c, 0), &n_rows, &n)) {
        return pl_eval_fail(c, "the input must have shape [N,C] or [C]");
    }
    double *row = pl_scratch(c, (size_t)n, sizeof(*row));
    if (x == NULL || row == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < n_rows && y != NULL; i++) {
        const double norm = row_norm(x + i * n, n, kind);
        for (int64_t k = 0; k < n; k++)
            row[k] = norm == 0 ? x[i * n + k] : x[i * n + k] / norm;
        pl_ml_store_row(y, i, n, row);
    }
    return PL_OK;
}

/* ---- Scaler-1 ---- */

static pl_status scaler_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const pl_f64 *from = pl_in_f64(c, 0);
    pl_tensor *y = pl_out(c, 0);
    size_t n_offset = 0, n_scale = 0;
    const float *offset = pl_attr_floats(c->node, "offset", &n_offset);
    const float *scale = pl_attr_floats(c->node, "scale", &n_scale);
    if (y == NULL || x->n_elements == 0) return PL_OK;
    if (from == NULL) return pl_eval_memory(c);
    const int64_t n = x->rank == 0 ? 1 : x->dims[x->rank - 1];
    if ((n_offset > 1 && (int64_t)n_offset != n) || (n_scale > 1 && (int64_t)n_scale != n)) {
        return pl_eval_fail(c, "has %zu offsets and %zu scales for %lld features", n_offset,
                            n_scale, (long long)n);
    }
    double *row = pl_scratch(c, (size_t)n, sizeof(*row));
    if (row == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < x->n_elements / n; i++) {
        for (int64_t k = 0; k < n; k++) {
            const double shift = n_offset == 0 ? 0 : (double)offset[n_offset == 1 ? 0 : k];
            const double factor = n_scale == 0 ? 1 : (double)scale[n_scale == 1 ? 0 : k];
            row[k] = (from[i * n + k] - shift) * factor;
        }
        pl_ml_store_row(y, i, n, row);
    }
    return PL_OK;
}

/* ---- FeatureVectorizer-1 ---- */

/* Columns that input i takes in the output; -1 = not known. */
static int64_t vectorizer_width(const pl_infer *c, int i) {
    size_t n = 0;
    const int64_t *given = pl_attr_ints(c->node, "inputdimensions", &n);
    if (given != NULL && (size_t)i < n) return given[i];
    const int rank = pl_infer_rank(c, i);
    return rank < 1 ? -1 : pl_infer_dim(c, i, rank - 1).value;
}

static pl_status vectorizer_infer(pl_infer *c) {
    size_t n = 0;
    const int64_t *given = pl_attr_ints(c->node, "inputdimensions", &n);
    pl_dim dims[2] = { PL_DIM_UNKNOWN, pl_dim_of(0) };
    if (given != NULL && n != (size_t)c->n_in) {
        return pl_infer_fail(c, "inputdimensions has %zu elements for %d inputs", n, c->n_in);
    }
    for (int i = 0; i < c->n_in; i++) {
        const int rank = pl_infer_rank(c, i);
        const int64_t width = vectorizer_width(c, i);
        if (rank == 0 || rank > 2) return pl_infer_fail(c, "input %d is not [N,C] or [C]", i);
        if (given != NULL && width < 0) return pl_infer_fail(c, "inputdimensions is negative");
        if (width < 0) {
            dims[1] = PL_DIM_UNKNOWN;
        } else if (pl_dim_known(dims[1]) && !pl_i64_add(dims[1].value, width, &dims[1].value)) {
            return pl_infer_fail(c, "the output is too wide");
        }
        if (rank < 0) continue;
        const pl_dim rows = rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, i, 0);
        if (pl_dim_known(dims[0]) && pl_dim_known(rows) && dims[0].value != rows.value) {
            return pl_infer_fail(c, "inputs have %lld and %lld rows", (long long)dims[0].value,
                                 (long long)rows.value);
        }
        if (!pl_dim_known(dims[0])) dims[0] = rows;
    }
    return pl_infer_set(c, 0, pl_infer_dtype(c, PL_F32), 2, dims);
}

/* Concatenates the inputs; one that is narrower than inputdimensions says is padded with zeros. */
static pl_status vectorizer_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    size_t n_given = 0;
    const int64_t *given = pl_attr_ints(c->node, "inputdimensions", &n_given);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    const size_t size = pl_dtype_bytes(y->dtype);
    memset(y->data, 0, pl_tensor_bytes(y));
    int64_t at = 0;
    for (int i = 0; i < c->n_in; i++) {
        const pl_tensor *x = pl_in(c, i);
        if (x == NULL) return pl_eval_fail(c, "input %d is missing", i);
        const pl_f64 *from = pl_in_f64(c, i);
        if (from == NULL) return pl_eval_memory(c);
        const int64_t columns = x->dims[x->rank - 1], width = given == NULL ? columns : given[i];
        const int64_t n = pl_i64_min(columns, width);
        double *row = pl_scratch(c, (size_t)n, sizeof(*row));
        if (row == NULL) return pl_eval_memory(c);
        for (int64_t r = 0; r < y->dims[0]; r++) {
            for (int64_t k = 0; k < n; k++)
                row[k] = from[r * columns + k];
            const size_t to = (size_t)(r * y->dims[1] + at) * size;
            pl_store_f64(y->dtype, row, (char *)y->data + to, (size_t)n);
        }
        at += width;
    }
    return PL_OK;
}

/* ---- rows ---- */

#define ML .domain = PL_ML_DOMAIN
#define X_IN(types) .in = PL_PORTS({ "X", types, 0 })
#define FLOAT_OUT(name_) .out = PL_PORTS({ name_, PL_T(PL_F32), 0 })
#define T_LABEL (PL_T_STRING | PL_T_I64)
#define T_ENCODE (T_LABEL | PL_T(PL_I32) | PL_T(PL_I16) | PL_T(PL_F32) | PL_T(PL_F64))
#define CLASSES .out = PL_PORTS({ "Y", T_LABEL, 0 }, { "Z", PL_T(PL_F32), PL_PORT_OPTIONAL })
#define TABLE .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define MODEL .autocast = PL_AMP_FP32
#define POST PL_A_STRING("post_transform", "NONE")
#define LABELS PL_A_LIST("classlabels_strings", STRINGS), PL_A_LIST("classlabels_ints", INTS)
#define KERNEL                                                                                     \
    PL_A_STRING("kernel_type", "LINEAR"), PL_A_LIST("kernel_params", FLOATS),                      \
        PL_A_LIST("support_vectors", FLOATS), PL_A_LIST("coefficients", FLOATS),                   \
        PL_A_LIST("rho", FLOATS)

/* clang-format off */
const pl_op_def pl_ops_ml[] = {
    { .name = "ArrayFeatureExtractor", ML, .since = 1,
      .in = PL_PORTS({ "X", PL_T_ML | PL_T_STRING, 0 }, { "Y", PL_T_I64, PL_PORT_CLASS }), .out = PL_PORTS({ "Z", PL_T_ML | PL_T_STRING, 0 }),
      .infer = extractor_infer, .eval = extractor_eval, .grad = pl_grad_feature_extractor, .bound = PL_BOUND_EXACT,
      .emit = pl_emit_array_features, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (z) <int64[2] y = {3, 0}> { z = ai.onnx.ml.ArrayFeatureExtractor(x, y) }", NULL, 0 }) },
    { .name = "Binarizer", ML, .since = 1, .flags = PL_OP_ELEMENTWISE, X_IN(PL_T_ML), .out = PL_PORTS({ "Y", PL_T_ML, 0 }),
      .attrs = PL_ATTRS(PL_A_FLOAT("threshold", 0)), .infer = pl_infer_same_as_first, .eval = binarizer_eval,
      .grad = PL_GRAD_ZERO, .bound = pl_binarizer_bound, .emit = pl_emit_binarizer, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) { y = ai.onnx.ml.Binarizer<threshold = 0.5>(x) }", NULL, 0 }) },
    { .name = "CategoryMapper", ML, .since = 1, X_IN(T_LABEL), .out = PL_PORTS({ "Y", T_LABEL, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("cats_strings", STRINGS), PL_A_LIST("cats_int64s", INTS),
                        PL_A_STRING("default_string", "_Unused"), PL_A_INT("default_int64", -1)),
      .infer = pl_category_infer, .eval = pl_category_eval, TABLE, PL_EMIT_BREAK("looks up a table of keys"),
      .samples = PL_SAMPLES({ "(int64[4] x) => (y) { y = ai.onnx.ml.CategoryMapper<cats_strings = [\"a\", \"b\"], cats_int64s = [3, 5]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "DictVectorizer", ML, .since = 1, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS({ "X", PL_T_ANY, PL_PORT_NOT_TENSOR }), .out = PL_PORTS({ "Y", PL_T_ML | PL_T_STRING, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("string_vocabulary", STRINGS), PL_A_LIST("int64_vocabulary", INTS)),
      .infer = pl_dict_vectorizer_infer, .eval = pl_dict_vectorizer_eval, .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP,
      PL_EMIT_BREAK("maps are not tensors"),
      .samples = PL_SAMPLES({ "(float[1,2] x) => (y) <int64 i = {0}> { z = ai.onnx.ml.ZipMap<classlabels_int64s = [9, 3]>(x) o = SequenceAt(z, i) y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [3, 4, 9]>(o) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "FeatureVectorizer", ML, .since = 1,
      .in = PL_PORTS({ "X", PL_T_ML, PL_PORT_VARIADIC }), FLOAT_OUT("Y"),
      .attrs = PL_ATTRS(PL_A_LIST("inputdimensions", INTS)), .infer = vectorizer_infer, .eval = vectorizer_eval,
      .grad = pl_grad_feature_vectorizer, .bound = pl_vectorizer_bound, PL_EMIT_BREAK("concatenates any number of inputs: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x, float[2,1] z) => (y) { y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 1]>(x, z) }", NULL, 0 }) },
    { .name = "Imputer", ML, .since = 1, X_IN(PL_T_ML), .out = PL_PORTS({ "Y", PL_T_ML, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("imputed_value_floats", FLOATS), PL_A_FLOAT("replaced_value_float", 0),
                        PL_A_LIST("imputed_value_int64s", INTS), PL_A_INT("replaced_value_int64", 0)),
      .infer = pl_infer_same_as_first, .eval = imputer_eval, .grad = pl_grad_imputer, .bound = pl_imputer_bound,
      .emit = pl_emit_imputer, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(int64[3,2] x) => (y) { y = ai.onnx.ml.Imputer<imputed_value_int64s = [7, 8], replaced_value_int64 = 3>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[3,2] x) => (y) { y = ai.onnx.ml.Imputer<imputed_value_floats = [7.5]>(x) }", NULL, 0 }) },
    { .name = "LabelEncoder", ML, .since = 2, X_IN(T_ENCODE), .out = PL_PORTS({ "Y", T_ENCODE, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("keys_tensor", TENSOR), PL_A_LIST("keys_strings", STRINGS), PL_A_LIST("keys_int64s", INTS),
                        PL_A_LIST("keys_floats", FLOATS), PL_A_LIST("values_tensor", TENSOR), PL_A_LIST("values_strings", STRINGS),
                        PL_A_LIST("values_int64s", INTS), PL_A_LIST("values_floats", FLOATS), PL_A_STRING("default_string", "_Unused"),
                        PL_A_INT("default_int64", -1), PL_A_FLOAT("default_float", -0.0), PL_A_LIST("default_tensor", TENSOR)),
      .infer = pl_label_encoder_infer, .eval = pl_label_encoder_eval, TABLE, PL_EMIT_BREAK("looks up a table of keys"),
      .samples = PL_SAMPLES({ "(int64[5] x) => (y) { y = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2, 3], values_floats = [0.5, 1.5, 2.5], default_float = -1.0>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "LabelEncoder", ML, .since = 1, .until = 1, X_IN(T_LABEL), .out = PL_PORTS({ "Y", T_LABEL, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("classes_strings", STRINGS), PL_A_STRING("default_string", "_Unused"), PL_A_INT("default_int64", -1)),
      .infer = pl_category_infer, .eval = pl_category_eval, TABLE, PL_EMIT_BREAK("looks up a table of keys"),
      .samples = PL_SAMPLES({ "(int64[5] x) => (y) { y = ai.onnx.ml.LabelEncoder<classes_strings = [\"a\", \"b\"]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "LinearClassifier", ML, .since = 1, X_IN(PL_T_ML), CLASSES,
      .attrs = PL_ATTRS(PL_A_REQUIRED("coefficients", FLOATS), PL_A_LIST("intercepts", FLOATS), PL_A_INT("multi_class", 0), LABELS, POST),
      .infer = pl_linear_classifier_infer, .eval = pl_linear_classifier_eval, .grad = PL_GRAD_UNDEFINED, .bound = pl_linear_classifier_bound, MODEL, PL_EMIT_BREAK("selects labels, often strings"), .flags = PL_OP_OPEN,
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y, z) { y, z = ai.onnx.ml.LinearClassifier<coefficients = [0.5, -1.0, 1.0, 2.0, -0.5, 0.25], intercepts = [0.1, 0.2, 0.3], classlabels_ints = [4, 5, 6], post_transform = \"SOFTMAX\">(x) }", NULL, 0 },
                            { "(float[3,2] x) => (y, z) { y, z = ai.onnx.ml.LinearClassifier<coefficients = [0.5, -1.0], intercepts = [0.1], classlabels_strings = [\"n\", \"p\"], post_transform = \"LOGISTIC\">(x) }", NULL, 0 }) },
    { .name = "LinearRegressor", ML, .since = 1, X_IN(PL_T_ML), FLOAT_OUT("Y"),
      .attrs = PL_ATTRS(POST, PL_A_LIST("coefficients", FLOATS), PL_A_LIST("intercepts", FLOATS), PL_A_INT("targets", 1)),
      .infer = pl_linear_regressor_infer, .eval = pl_linear_regressor_eval, .grad = pl_grad_linear_regressor, .bound = pl_linear_regressor_bound, MODEL, PL_EMIT_BREAK("a classical model: a library routine"),
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y) { y = ai.onnx.ml.LinearRegressor<coefficients = [0.5, -1.0, 1.0, 2.0], intercepts = [0.1, 0.2], targets = 2>(x) }", NULL, 0 }) },
    { .name = "Normalizer", ML, .since = 1, X_IN(PL_T_ML), FLOAT_OUT("Y"), .attrs = PL_ATTRS(PL_A_STRING("norm", "MAX")),
      .infer = float_like_first, .eval = normalizer_eval, .grad = pl_grad_normalizer, .bound = pl_normalizer_bound, MODEL, .emit = pl_emit_normalizer, .flags = PL_OP_OPEN,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) { y = ai.onnx.ml.Normalizer<norm = \"L2\">(x) }", NULL, 0 },
                            { "(float[3,4] x) => (y) { y = ai.onnx.ml.Normalizer<norm = \"L1\">(x) }", NULL, 0 },
                            { "(float[3,4] x) => (y) { y = ai.onnx.ml.Normalizer(x) }", NULL, 0 }) },
    { .name = "OneHotEncoder", ML, .since = 1, X_IN(PL_T_ML | PL_T_STRING), FLOAT_OUT("Y"),
      .attrs = PL_ATTRS(PL_A_LIST("cats_int64s", INTS), PL_A_LIST("cats_strings", STRINGS), PL_A_INT("zeros", 1)),
      .infer = pl_one_hot_infer, .eval = pl_one_hot_eval, TABLE, PL_EMIT_BREAK("looks up a table of keys"),
      .samples = PL_SAMPLES({ "(int64[2,3] x) => (y) { y = ai.onnx.ml.OneHotEncoder<cats_int64s = [0, 1, 2, 3]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "SVMClassifier", ML, .since = 1, X_IN(PL_T_ML), CLASSES,
      .attrs = PL_ATTRS(KERNEL, PL_A_LIST("vectors_per_class", INTS), PL_A_LIST("prob_a", FLOATS), PL_A_LIST("prob_b", FLOATS), POST, LABELS),
      .infer = pl_svm_classifier_infer, .eval = pl_svm_classifier_eval, .grad = PL_GRAD_UNDEFINED, .bound = pl_svm_classifier_bound, MODEL, PL_EMIT_BREAK("votes of support vectors: a library routine"),
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y, z) { y, z = ai.onnx.ml.SVMClassifier<kernel_type = \"RBF\", kernel_params = [0.5, 0.0, 3.0], support_vectors = [0.0, 1.0, 1.0, 0.0], coefficients = [1.0, -1.0], rho = [0.1], vectors_per_class = [1, 1], classlabels_ints = [0, 1]>(x) }", NULL, 0 },
                            { "(float[3,2] x) => (y, z) { y, z = ai.onnx.ml.SVMClassifier<kernel_type = \"POLY\", kernel_params = [0.5, 1.0, 2.0], support_vectors = [0.0, 1.0, 1.0, 0.0], coefficients = [1.0, -1.0], rho = [0.1], prob_a = [-1.0], prob_b = [0.2], vectors_per_class = [1, 1], classlabels_ints = [0, 1]>(x) }", NULL, 0 }) },
    { .name = "SVMRegressor", ML, .since = 1, X_IN(PL_T_ML), FLOAT_OUT("Y"),
      .attrs = PL_ATTRS(KERNEL, PL_A_INT("one_class", 0), PL_A_INT("n_supports", 0), POST),
      .infer = pl_svm_regressor_infer, .eval = pl_svm_regressor_eval, .grad = PL_GRAD_UNDEFINED, .bound = pl_svm_regressor_bound, MODEL, PL_EMIT_BREAK("a sum over support vectors: a library routine"),
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y) { y = ai.onnx.ml.SVMRegressor<kernel_type = \"SIGMOID\", kernel_params = [0.5, 0.1, 3.0], support_vectors = [0.0, 1.0, 1.0, 0.0], coefficients = [1.0, -0.5], rho = [0.1], n_supports = 2>(x) }", NULL, 0 }) },
    { .name = "Scaler", ML, .since = 1, X_IN(PL_T_ML), FLOAT_OUT("Y"),
      .attrs = PL_ATTRS(PL_A_LIST("offset", FLOATS), PL_A_LIST("scale", FLOATS)),
      .infer = float_like_first, .eval = scaler_eval, .grad = pl_grad_scaler, .bound = pl_scaler_bound, MODEL, .emit = pl_emit_scaler,
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y) { y = ai.onnx.ml.Scaler<offset = [0.5, 1.0], scale = [2.0, 0.5]>(x) }", NULL, 0 }) },
    { .name = "ZipMap", ML, .since = 1, .flags = PL_OP_OWN_OUT, .in = PL_PORTS({ "X", PL_T(PL_F32), 0 }),
      .out = PL_PORTS({ "Z", PL_T_ANY, PL_PORT_NOT_TENSOR }),
      .attrs = PL_ATTRS(PL_A_LIST("classlabels_strings", STRINGS), PL_A_LIST("classlabels_int64s", INTS)),
      .infer = pl_zip_map_infer, .eval = pl_zip_map_eval, .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP,
      PL_EMIT_BREAK("maps are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,3] x) => (z) { z = ai.onnx.ml.ZipMap<classlabels_int64s = [9, 3, 5]>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[3] x) => (z) { z = ai.onnx.ml.ZipMap<classlabels_strings = [\"b\", \"a\", \"c\"]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

/* Post transforms and labels of ai.onnx.ml, computed in double. */
#include "ops/ml/ml_util.h"

#include <math.h>

pl_status pl_ml_transform_of(const pl_eval *c, pl_ml_transform *out) {
    static const char *const names[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!pl_attr_string_is(c->node, "post_transform", names[i])) continue;
        *out = (pl_ml_transform)i;
        return PL_OK;
    }
    const pl_string s = pl_attr_string(c->node, "post_transform");
    return pl_eval_fail(c, "unknown post_transform '%.*s'", (int)(s.n_bytes & 0xFF), s.data);
}

double pl_ml_logistic(double x) {
    const double v = 1 / (1 + exp(-fabs(x)));
    return x < 0 ? 1 - v : v;
}

/* Winitzki's formula for the inverse error function, as in ONNX Runtime and the ONNX reference; the
 * exact inverse differs from both in the third digit. */
static double probit(double x) {
    const double y = 2 * x - 1, log_ = log((1 - y) * (1 + y));
    if (isinf(log_)) return 0;
    const double v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * log_;
    const double root = sqrt(sqrt(v * v - log_ / 0.147) - v);
    return 1.41421356 * (y < 0 ? -root : root);
}

static void softmax(double *x, size_t n, bool keep_zero) {
    double max = -HUGE_VAL, sum = 0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, x[i]);
    for (size_t i = 0; i < n; i++) {
        const bool zero = keep_zero && fabs(x[i]) <= 1e-7;
        x[i] = zero ? x[i] * exp(-max) : exp(x[i] - max);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] = keep_zero && sum == 0 ? 0.5 : x[i] / sum;
}

void pl_ml_apply(pl_ml_transform transform, double *scores, size_t n) {
    switch (transform) {
    case PL_ML_NONE: break;
    case PL_ML_SOFTMAX: softmax(scores, n, false); break;
    case PL_ML_SOFTMAX_ZERO: softmax(scores, n, true); break;
    case PL_ML_LOGISTIC:
        for (size_t i = 0; i < n; i++)
            scores[i] = pl_ml_logistic(scores[i]);
        break;
    case PL_ML_PROBIT:
        for (size_t i = 0; i < n; i++)
            scores[i] = probit(scores[i]);
        break;
    }
}

const float *pl_ml_matrix(const pl_node *node, const char *name, size_t *n) {
    static const float nothing[1] = { 0 };
    const float *floats = pl_attr_floats(node, name, n);
    return floats == NULL ? nothing : floats;
}

pl_ml_labels pl_ml_labels_of(const pl_node *node, const char *strings, const char *ints) {
    pl_ml_labels l = { 0 };
    l.strings = pl_attr_strings(node, strings, &l.n);
    if (l.n > 0) return l;
    l.strings = NULL;
    l.ints = pl_attr_ints(node, ints, &l.n);
    return l;
}

pl_dtype pl_ml_labels_dtype(const pl_ml_labels *labels) {
    return labels->strings != NULL ? PL_STRING : PL_I64;
}

pl_status pl_ml_set_label(pl_eval *c, const pl_ml_labels *labels, pl_tensor *y, int64_t i,
                          int64_t index) {
    const bool known = index >= 0 && (uint64_t)index < labels->n;
    if (labels->strings == NULL) {
        const int64_t plain = labels->n == 0 ? (index < 0 ? 0 : index) : index >= 0;
        ((pl_i64 *)y->data)[i] = known ? labels->ints[index] : plain;
        return PL_OK;
    }
    const pl_string plain = { index >= 0 ? "1" : "0", 1 };
    const pl_string s = known ? labels->strings[index] : plain;
    return pl_tensor_set_string(y, i, s.data, s.n_bytes, c->err);
}

bool pl_ml_rows(const pl_tensor *x, int64_t *n_rows, int64_t *n_columns) {
    if (x->rank < 1 || x->rank > 2) return false;
    *n_rows = x->rank == 1 ? 1 : x->dims[0];
    *n_columns = x->dims[x->rank - 1];
    return true;
}

static pl_status row_count(const pl_infer *c, pl_dim *out) {
    const int rank = pl_infer_rank(c, 0);
    *out = PL_DIM_UNKNOWN;
    if (rank < 0) return PL_OK;
    if (rank != 1 && rank != 2) return pl_infer_fail(c, "the input must have shape [N,C] or [C]");
    *out = rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, 0, 0);
    return PL_OK;
}

pl_status pl_ml_infer_classes(pl_infer *c, pl_dtype label, int64_t n_scores) {
    pl_dim dims[2] = { PL_DIM_UNKNOWN, n_scores < 0 ? PL_DIM_UNKNOWN : pl_dim_of(n_scores) };
    PL_TRY(row_count(c, &dims[0]));
    PL_TRY(pl_infer_set(c, 0, label, 1, dims));
    return pl_infer_set(c, 1, pl_infer_dtype(c, PL_F32), 2, dims);
}

pl_status pl_ml_infer_regression(pl_infer *c, int64_t n) {
    pl_dim dims[2] = { PL_DIM_UNKNOWN, pl_dim_of(n) };
    PL_TRY(row_count(c, &dims[0]));
    return pl_infer_set(c, 0, pl_infer_dtype(c, PL_F32), 2, dims);
}

void pl_ml_store_row(pl_tensor *y, int64_t row, int64_t width, const double *scores) {
    const size_t offset = (size_t)(row * width) * pl_dtype_bytes(y->dtype);
    pl_store_f64(y->dtype, scores, (char *)y->data + offset, (size_t)width);
}

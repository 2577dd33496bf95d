/* Error bounds of the classic machine-learning operators (ai.onnx.ml). plumb sums in double and
 * rounds once; runtimes sum in float. Linear models and support vector machines:
 * ml_linear_bound.c. */
#include "ops/ml/ml_bound.h"

#include <math.h>
#include <string.h>

#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

/* ---- scores ---- */

static pl_ml_transform transform_of(const pl_node *node) {
    static const char *const names[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };
    if (pl_attr_string(node, "post_transform").n_bytes == 0)
        return (pl_ml_transform)pl_attr_int(node, "post_transform"); /* TreeEnsemble-5 */
    for (int i = PL_ML_PROBIT; i > PL_ML_NONE; i--)
        if (pl_attr_string_is(node, "post_transform", names[i])) return (pl_ml_transform)i;
    return PL_ML_NONE;
}

static bool is_named(const char *const *names, const char *name) {
    while (names != NULL && *names != NULL)
        if (strcmp(*names++, name) == 0) return true;
    return strcmp(name, "post_transform") == 0;
}

/* Output `slot` of the node without some of its attributes. */
static pl_status run_without(pl_bound *c, int slot, const char *const *without, pl_tensor **out) {
    pl_node node = *c->node;
    pl_bound other = *c;
    pl_tensor **in = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(*in));
    node.attrs = pl_arena_array(c->scratch, (size_t)node.n_attrs + 1, sizeof(*node.attrs));
    if (node.attrs == NULL || in == NULL) return pl_fail_memory(c->err, node.n_attrs);
    node.n_attrs = 0;
    for (uint32_t i = 0; i < c->node->n_attrs; i++)
        if (!is_named(without, c->node->attrs[i].name))
            node.attrs[node.n_attrs++] = c->node->attrs[i];
    other.node = &node;
    return pl_b_apply(&other, in, PL_F64, slot, out);
}

pl_status pl_b_scores_open(pl_bound *c, int slot, const char *const *without, pl_b_scores *out) {
    *out = (pl_b_scores){ .width = 0 };
    if (pl_b_out(c, slot) == NULL || pl_b_out(c, slot)->n_elements == 0) return PL_OK;
    PL_TRY(run_without(c, slot, without, &out->raw));
    const pl_tensor *t = out->raw;
    out->s = t->data;
    out->e = pl_arena_array(c->scratch, (size_t)t->n_elements + 1, sizeof(double));
    if (out->e == NULL) {
        pl_tensor_unref(out->raw);
        out->raw = NULL;
        return pl_fail_memory(c->err, (size_t)t->n_elements);
    }
    out->n_rows = t->rank < 1 ? 1 : t->dims[0];
    out->width = out->n_rows == 0 ? 0 : t->n_elements / out->n_rows;
    return PL_OK;
}

/* ---- post transforms ---- */

/* One row of n scores s with errors e, and the results y. */
typedef struct score_row {
    double u;
    const double *s, *e, *y;
    int64_t n;
} score_row;

/* A small probability comes from a difference from 1, so the local error is absolute. */
static void logistic_row(const score_row *r, double *out) {
    for (int64_t i = 0; i < r->n; i++) {
        const double slope = r->y[i] * (1 - r->y[i]) * exp(fmin(r->e[i], 1));
        out[i] = r->e[i] * fmin(0.25, slope) + 3 * r->u;
    }
}

/* d log y_i = d s_i - sum of y_j d s_j; the differences from the largest score are rounded, too. */
static void softmax_row(const score_row *r, bool zeros, double *out) {
    double top = -HUGE_VAL, mean = 0;
    bool jumps = false;
    for (int64_t i = 0; i < r->n; i++)
        top = fmax(top, r->s[i]);
    for (int64_t i = 0; i < r->n; i++) {
        const double from_zero = fabs(fabs(r->s[i]) - 1e-7); /* scores below 1e-7 count as 0 */
        jumps = jumps || (zeros && r->e[i] > 0 && from_zero <= 8 * r->e[i]);
        mean += r->y[i] * (r->e[i] + r->u * (top - r->s[i]));
    }
    for (int64_t i = 0; i < r->n; i++) {
        const double off = r->e[i] + r->u * (top - r->s[i]) + mean + 6 * r->u;
        out[i] = fmin(1, r->y[i] * expm1(off));
        if (zeros && fabs(r->s[i]) <= 1e-7) out[i] += r->e[i];
        if (jumps) out[i] = HUGE_VAL;
    }
}

/* Winitzki's formula (ml_util.c) takes the root of a difference, which cancels in the middle and is
 * steep at the ends. */
static void probit_row(const score_row *r, double *out) {
    for (int64_t i = 0; i < r->n; i++) {
        const double y = fabs(r->y[i]), p = r->s[i], log_ = log(4 * p * (1 - p));
        const double v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * log_;
        const double off = 2 * r->u * (fabs(v) + sqrt(fabs(v * v - log_ / 0.147)));
        out[i] =
            (r->e[i] + r->u) * 2.51 * exp(y * y / 2) + fmin(sqrt(2 * off), off / y) + 4 * r->u * y;
    }
}

static void transform_row(pl_ml_transform transform, const score_row *r, double *out) {
    switch (transform) {
    case PL_ML_NONE: memcpy(out, r->e, (size_t)r->n * sizeof(*out)); break;
    case PL_ML_LOGISTIC: logistic_row(r, out); break;
    case PL_ML_SOFTMAX: softmax_row(r, false, out); break;
    case PL_ML_SOFTMAX_ZERO: softmax_row(r, true, out); break;
    case PL_ML_PROBIT: probit_row(r, out); break;
    }
}

/* ---- labels ---- */

static bool nearly_tied(const double *s, const double *e, int64_t n) {
    int64_t best = 0, second = -1;
    for (int64_t k = 1; k < n; k++)
        if (s[k] > s[best]) best = k;
    for (int64_t k = 0; k < n; k++)
        if (k != best && (second < 0 || s[k] > s[second])) second = k;
    if (second < 0) return fabs(s[0]) <= 8 * e[0]; /* one score: compared with 0 */
    return s[best] - s[second] <= 8 * (e[best] + e[second]) && e[best] + e[second] > 0;
}

/* Strings have no bound. */
static pl_status label_bound(pl_bound *c, const pl_b_scores *scores, const bool *unsure) {
    const pl_tensor *labels = pl_b_out(c, 0);
    const int64_t w = scores->width;
    double *to = NULL;
    if (labels == NULL || labels->dtype == PL_STRING) return PL_OK;
    PL_TRY(pl_b_new(c, 0, &to));
    for (int64_t r = 0; r < scores->n_rows && r < labels->n_elements; r++)
        if (unsure != NULL ? unsure[r] : nearly_tied(scores->s + r * w, scores->e + r * w, w))
            to[r] = HUGE_VAL;
    return PL_OK;
}

pl_status pl_b_scores_set(pl_bound *c, int slot, const pl_b_scores *scores, const bool *unsure) {
    const pl_tensor *y = pl_b_out(c, slot);
    const double *v = pl_b_y(c, slot);
    const int64_t w = scores->width;
    double *e = NULL;
    if (w == 0 || y->n_elements != scores->n_rows * w) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, slot, &e));
    const pl_ml_transform transform = transform_of(c->node);
    for (int64_t r = 0; r < scores->n_rows; r++) {
        const score_row row = { c->u, scores->s + r * w, scores->e + r * w, v + r * w, w };
        transform_row(transform, &row, e + r * w);
    }
    return slot == 0 ? PL_OK : label_bound(c, scores, unsure);
}

/* ---- element by element ---- */

pl_status pl_binarizer_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *x = pl_b_x(c, 0), *ex = pl_b_e(c, 0);
    const double threshold = pl_attr_float(c->node, "threshold");
    double *e = NULL;
    if (y == NULL || ex == NULL || y->n_elements == 0) return PL_OK;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    for (int64_t i = 0; i < y->n_elements; i++)
        e[i] = ex[i] > 0 && fabs(x[i] - threshold) <= 8 * ex[i] ? 1 : 0;
    return PL_OK;
}

/* Elements that are not replaced keep their errors. */
pl_status pl_imputer_bound(pl_bound *c) {
    const pl_tensor *e = c->e_in[0];
    return e == NULL ? PL_OK : pl_b_set_take(c, 0, pl_tensor_ref(c->e_in[0]));
}

/* Integers are rounded to float. */
pl_status pl_vectorizer_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *v = pl_b_y(c, 0);
    pl_tensor **in = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(*in)), *moved = NULL;
    pl_status st = PL_OK;
    bool wide = false;
    if (y == NULL || y->n_elements == 0) return PL_OK;
    if (in == NULL || v == NULL) return pl_fail_memory(c->err, 1);
    for (int i = 0; i < c->n_in; i++) {
        const pl_tensor *x = pl_b_in(c, i);
        wide = wide || c->in_native[i] != PL_F32;
        if (c->e_in[i] != NULL) {
            in[i] = pl_tensor_ref(c->e_in[i]);
        } else if (x != NULL) {
            PL_TRY_GOTO(done, st, pl_tensor_new_zero(PL_F64, x->rank, x->dims, &in[i], c->err));
        }
    }
    if (!wide && !pl_b_any_error(c)) goto done;
    PL_TRY_GOTO(done, st, pl_b_apply(c, in, PL_F64, 0, &moved));
    for (int64_t i = 0; wide && i < y->n_elements; i++)
        ((double *)moved->data)[i] += c->u * fabs(v[i]);
    st = pl_b_set_take(c, 0, moved);
done:
    for (int i = 0; i < c->n_in; i++)
        pl_tensor_unref(in[i]);
    return st;
}

/* y = (x - offset) * scale. */
pl_status pl_scaler_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *v = pl_b_y(c, 0), *x = pl_b_x(c, 0), *ex = pl_b_e(c, 0);
    size_t n_scale = 0;
    const float *scale = pl_attr_floats(c->node, "scale", &n_scale);
    double *e = NULL;
    if (y == NULL || y->n_elements == 0) return PL_OK;
    if (v == NULL || x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    for (int64_t i = 0; i < y->n_elements; i++) {
        const double s = n_scale == 0 ? 1 : fabs((double)scale[(size_t)i % n_scale]);
        e[i] = 2 * c->u * fabs(v[i]) + (ex == NULL ? 0 : s * ex[i]);
        /* An integer that float cannot represent is rounded first. */
        if (!pl_dtype_is_float(c->in_native[0]) && fabs(x[i]) > 0x1p24)
            e[i] += c->u * s * fabs(x[i]);
    }
    return PL_OK;
}

/* y = x / norm of its row. */
pl_status pl_normalizer_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *x = pl_b_x(c, 0), *v = pl_b_y(c, 0), *ex = pl_b_e(c, 0);
    const bool max = pl_attr_string_is(c->node, "norm", "MAX");
    int64_t n_rows = 0, n = 0;
    double *e = NULL;
    if (y == NULL || y->n_elements == 0 || !pl_ml_rows(pl_b_in(c, 0), &n_rows, &n)) return PL_OK;
    /* A sum of n positive numbers; for l2 of squares, where the root halves the relative error. */
    const double sum = max ? 0 : pl_b_sum_error((double)n, 1, 1);
    const double own = 2 + (pl_attr_string_is(c->node, "norm", "L2") ? sum / 2 : sum);
    if (x == NULL || v == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    for (int64_t r = 0; r < n_rows; r++) {
        double norm = 0, inherited = 0;
        for (int64_t k = r * n; k < (r + 1) * n; k++) {
            if (v[k] != 0) norm = fmax(norm, fabs(x[k] / v[k]));
            inherited += ex == NULL ? 0 : ex[k];
        }
        for (int64_t k = r * n; k < (r + 1) * n; k++) {
            e[k] = c->u * own * fabs(v[k]);
            if (ex != NULL && norm > 0) e[k] += (ex[k] + fabs(v[k]) * inherited) / norm;
        }
    }
    return PL_OK;
}

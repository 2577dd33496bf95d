/* Error bounds of the classic machine-learning operators (ai.onnx.ml). plumb adds in double and
 * rounds once; runtimes add in float. */
#include "ops/ml_bound.h"

#include <math.h>

#include "ops/ml_util.h"

/* ---- scores ---- */

/* After the post transform: SOFTMAX and LOGISTIC never widen an error; PROBIT may, in its tails. */
static double transformed(const pl_bound *c, double e, double y) {
    const bool word = pl_attr_string(c->node, "post_transform").n_bytes > 0;
    const int64_t number = word ? PL_ML_LOGISTIC : pl_attr_int(c->node, "post_transform");
    if (word ? pl_attr_string_is(c->node, "post_transform", "NONE") : number == PL_ML_NONE)
        return e;
    const bool probit =
        number == PL_ML_PROBIT || pl_attr_string_is(c->node, "post_transform", "PROBIT");
    return probit ? e * 2.51 * exp(y * y / 2) + 4 * c->u * fabs(y) : e + 4 * c->u;
}

/* Labels of rows whose two best scores are closer than their errors: any. Strings have no bound. */
static pl_status label_bound(pl_bound *c, const double *scores, const double *e, int64_t n_rows,
                             int64_t width) {
    const pl_tensor *labels = pl_b_out(c, 0);
    double *to = NULL;
    if (labels == NULL || labels->dtype == PL_STRING || width < 1) return PL_OK;
    PL_TRY(pl_b_new(c, 0, &to));
    for (int64_t r = 0; r < n_rows && r < labels->n_elements; r++) {
        const double *s = scores + r * width;
        double best = -HUGE_VAL, second = -HUGE_VAL, error = 0;
        for (int64_t k = 0; k < width; k++) {
            second = fmax(second, fmin(best, s[k]));
            best = fmax(best, s[k]);
            error = fmax(error, e[r * width + k]);
        }
        if (width == 1) second = 0; /* compared with 0 */
        if (best - second <= 16 * error) to[r] = HUGE_VAL;
    }
    return PL_OK;
}

/* All scores are off by own + inherited, then transformed. `slot` is the output with the scores; of
 * a classifier output 0 has the labels. */
static pl_status set_scores(pl_bound *c, int slot, double own, double inherited) {
    const pl_tensor *y = pl_b_out(c, slot);
    const double *v = pl_b_y(c, slot);
    double *e = NULL;
    PL_TRY(pl_b_new(c, slot, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    for (int64_t i = 0; i < y->n_elements; i++)
        e[i] = transformed(c, own + inherited, v[i]) + c->u * fabs(v[i]);
    if (slot == 0) return PL_OK;
    const int64_t n_rows = y->rank < 1 ? 1 : y->dims[0];
    return label_bound(c, v, e, n_rows, n_rows == 0 ? 0 : y->n_elements / n_rows);
}

static double sum_abs(const pl_node *node, const char *name, size_t *n) {
    const float *f = pl_attr_floats(node, name, n);
    double sum = 0;
    for (size_t i = 0; i < *n; i++)
        sum += fabs((double)f[i]);
    return sum;
}

static double max_abs(const pl_node *node, const char *name) {
    size_t n = 0;
    const float *f = pl_attr_floats(node, name, &n);
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)f[i]));
    return most;
}

/* ---- linear models ---- */

/* One bound for all scores of the model: the largest sum of |terms| of any row and any model. */
static pl_status linear_bound(pl_bound *c, int slot) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *v = pl_b_x(c, 0), *e = pl_b_e(c, 0);
    int64_t n_rows = 0, n = 0;
    size_t n_coefficients = 0;
    const float *w = pl_attr_floats(c->node, "coefficients", &n_coefficients);
    if (pl_b_out(c, slot) == NULL) slot = 0;
    if (!pl_ml_rows(x, &n_rows, &n) || n == 0 || n_rows == 0) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    double most = 0, inherited = 0;
    for (int64_t r = 0; r < n_rows; r++) {
        for (size_t m = 0; (int64_t)(m + 1) * n <= (int64_t)n_coefficients; m++) {
            double sum = 0, squares = 0;
            for (int64_t k = 0; k < n; k++) {
                const double a = fabs((double)w[(int64_t)m * n + k]);
                const double d = e == NULL ? 0 : a * e[r * n + k];
                sum += a * fabs(v[r * n + k]);
                squares += d * d;
            }
            most = fmax(most, sum);
            inherited = fmax(inherited, sqrt(squares));
        }
    }
    const double own = c->u * pl_b_chain((double)n + 1) * (most + max_abs(c->node, "intercepts"));
    return set_scores(c, slot, own, inherited);
}

pl_status pl_linear_regressor_bound(pl_bound *c) {
    return linear_bound(c, 0);
}

pl_status pl_linear_classifier_bound(pl_bound *c) {
    return linear_bound(c, 1);
}

/* ---- support vector machines ---- */

/* Generous: the largest value a kernel can have times the sum of |coefficients|. */
static pl_status svm_bound(pl_bound *c, int slot) {
    size_t n_params = 0, n_coefficients = 0, n_rho = 0;
    const float *params = pl_attr_floats(c->node, "kernel_params", &n_params);
    const pl_tensor *x = pl_b_in(c, 0);
    const double sum = sum_abs(c->node, "coefficients", &n_coefficients);
    const double rho = sum_abs(c->node, "rho", &n_rho);
    const int64_t n = x->rank < 1 ? 1 : x->dims[x->rank - 1];
    const double gamma = n_params > 0 ? fabs((double)params[0]) : 1;
    const double first = n_params > 1 ? fabs((double)params[1]) : 0;
    const double degree = n_params > 2 ? fabs((double)params[2]) : 1;
    const double vectors = fmax(max_abs(c->node, "support_vectors"), 1);
    const double dot = (double)n * pl_tensor_max_abs(x) * vectors;
    const bool linear = pl_attr_string_is(c->node, "kernel_type", "LINEAR");
    double kernel = 1, slope = (gamma + 1) * (double)n * vectors;
    if (linear) kernel = dot;
    if (pl_attr_string_is(c->node, "kernel_type", "POLY")) {
        kernel = pow(gamma * dot + first, degree);
        slope *= fmax(1, degree * pow(gamma * dot + first, fmax(0, degree - 1)));
    }
    const double terms = (double)(n + (int64_t)n_coefficients);
    const double inside = linear ? 0 : slope * dot; /* what the kernel's argument is off by */
    const double own = c->u * pl_b_chain(terms) * (sum * (kernel + fmin(inside, kernel)) + rho);
    return set_scores(c, slot, 2 * own, sum * slope * pl_b_largest(c, 0));
}

pl_status pl_svm_regressor_bound(pl_bound *c) {
    return svm_bound(c, 0);
}

pl_status pl_svm_classifier_bound(pl_bound *c) {
    return svm_bound(c, 1);
}

/* ---- trees ---- */

/* Leaves are picked exactly unless the input is not; then any leaf is possible. */
static pl_status tree_bound(pl_bound *c, int slot, const char *weights, const char *as_tensor) {
    size_t n_ids = 0, n_roots = 0;
    const int64_t *ids = pl_attr_ints(c->node, "nodes_treeids", &n_ids);
    (void)pl_attr_ints(c->node, "tree_roots", &n_roots);
    const pl_tensor *t = pl_attr_tensor(c->node, as_tensor);
    double trees = (double)n_roots, most = max_abs(c->node, weights);
    for (size_t i = 0; i < n_ids; i++)
        if (i == 0 || ids[i] != ids[i - 1]) trees++;
    if (t != NULL) most = fmax(most, pl_tensor_max_abs(t));
    const double base = max_abs(c->node, "base_values");
    const double own =
        trees <= 1 && base == 0 ? 0 : c->u * pl_b_chain(trees) * (sqrt(trees) * most + base);
    return set_scores(c, slot, own, pl_b_largest(c, 0) > 0 ? 2 * trees * most : 0);
}

pl_status pl_tree_regressor_bound(pl_bound *c) {
    return tree_bound(c, 0, "target_weights", "target_weights_as_tensor");
}

pl_status pl_tree_classifier_bound(pl_bound *c) {
    return tree_bound(c, 1, "class_weights", "class_weights_as_tensor");
}

pl_status pl_tree_ensemble_bound(pl_bound *c) {
    return tree_bound(c, 0, "", "leaf_weights");
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

/* What is not replaced stays as uncertain as it was. */
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
    const double *v = pl_b_y(c, 0), *ex = pl_b_e(c, 0);
    size_t n_scale = 0;
    const float *scale = pl_attr_floats(c->node, "scale", &n_scale);
    double *e = NULL;
    if (y == NULL || y->n_elements == 0) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    for (int64_t i = 0; i < y->n_elements; i++) {
        const double s = n_scale == 0 ? 1 : fabs((double)scale[(size_t)i % n_scale]);
        e[i] = 2 * c->u * fabs(v[i]) + (ex == NULL ? 0 : s * ex[i]);
    }
    return PL_OK;
}

/* y = x / norm of its row. */
pl_status pl_normalizer_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *x = pl_b_x(c, 0), *v = pl_b_y(c, 0), *ex = pl_b_e(c, 0);
    int64_t n_rows = 0, n = 0;
    double *e = NULL;
    if (y == NULL || y->n_elements == 0 || !pl_ml_rows(pl_b_in(c, 0), &n_rows, &n)) return PL_OK;
    if (x == NULL || v == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    for (int64_t r = 0; r < n_rows; r++) {
        double norm = 0, inherited = 0;
        for (int64_t k = r * n; k < (r + 1) * n; k++) {
            if (v[k] != 0) norm = fmax(norm, fabs(x[k] / v[k]));
            inherited += ex == NULL ? 0 : ex[k];
        }
        for (int64_t k = r * n; k < (r + 1) * n; k++) {
            e[k] = c->u * (2 + pl_b_chain((double)n) / 2) * fabs(v[k]);
            if (ex != NULL && norm > 0) e[k] += (ex[k] + fabs(v[k]) * inherited) / norm;
        }
    }
    return PL_OK;
}

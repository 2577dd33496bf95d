/* ai.onnx.ml linear models and support vector machines. Scores are summed in double and rounded
 * once. Where the specification is unclear (two labels and one score), this follows ONNX Runtime
 * and the ONNX reference, which agree. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

/* The whole input in double, and its dims [N, C]. */
static pl_status matrix_in(pl_eval *c, const pl_f64 **x, int64_t *n_rows, int64_t *n_columns) {
    const pl_tensor *t = pl_in(c, 0);
    if (!pl_ml_rows(t, n_rows, n_columns)) {
        return pl_eval_fail(c, "the input must have shape [N,C] or [C]");
    }
    *x = pl_in_f64(c, 0);
    return *x == NULL ? pl_eval_memory(c) : PL_OK;
}

static double dot(const pl_f64 *x, const float *w, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * (double)w[i];
    return sum;
}

/* ---- linear models ---- */

/* Number of models: the number of intercepts, else coefficients / columns; -1 = not known. */
static int64_t count_models(const pl_node *node, pl_dim columns) {
    size_t n_intercepts = 0, n_coefficients = 0;
    (void)pl_attr_floats(node, "intercepts", &n_intercepts);
    (void)pl_attr_floats(node, "coefficients", &n_coefficients);
    if (n_intercepts > 0) return (int64_t)n_intercepts;
    if (!pl_dim_known(columns) || columns.value == 0) return -1;
    return (int64_t)n_coefficients / columns.value;
}

pl_status pl_linear_classifier_infer(pl_infer *c) {
    const pl_ml_labels labels = pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_ints");
    const int rank = pl_infer_rank(c, 0);
    int64_t n = count_models(c->node, pl_infer_dim(c, 0, rank - 1));
    if (c->concrete && n < 1) return pl_infer_fail(c, "no coefficients");
    if (n == 1 && labels.n == 2) n = 2;
    return pl_ml_infer_classes(c, pl_ml_labels_dtype(&labels), n);
}

static pl_status check_models(pl_eval *c, int64_t n_models, int64_t n_columns) {
    size_t n_intercepts = 0, n_coefficients = 0;
    (void)pl_attr_floats(c->node, "intercepts", &n_intercepts);
    (void)pl_attr_floats(c->node, "coefficients", &n_coefficients);
    int64_t wanted = 0;
    if (!pl_i64_mul(n_models, n_columns, &wanted) || wanted != (int64_t)n_coefficients) {
        return pl_eval_fail(c, "has %zu coefficients, expected %lld times %lld", n_coefficients,
                            (long long)n_models, (long long)n_columns);
    }
    if (n_intercepts == 0 || (int64_t)n_intercepts == n_models) return PL_OK;
    return pl_eval_fail(c, "has %zu intercepts, expected %lld", n_intercepts, (long long)n_models);
}

static void linear_scores(const pl_node *node, const pl_f64 *x, int64_t n_columns, int64_t n_models,
                          double *out) {
    size_t n = 0, n_intercepts = 0;
    const float *w = pl_ml_matrix(node, "coefficients", &n);
    const float *b = pl_attr_floats(node, "intercepts", &n_intercepts);
    for (int64_t k = 0; k < n_models; k++) {
        out[k] = dot(x, w + k * n_columns, n_columns);
        if (n_intercepts > 0) out[k] += (double)b[k];
    }
}

static int64_t largest(const double *x, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++) {
        if (x[i] > x[at]) at = i;
    }
    return at;
}

/* Score of the first of two classes that share one model, which LinearClassifier-1 does not define:
 * the negated margin. The other reading is that of ONNX Runtime without a post transform. */
static double first_score(const pl_eval *c, pl_ml_transform transform, double second) {
    return c->otherwise && transform == PL_ML_NONE ? 1 - second : -second;
}

pl_status pl_linear_classifier_eval(pl_eval *c) {
    const pl_ml_labels labels = pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_ints");
    const pl_f64 *x = NULL;
    int64_t n_rows = 0, n_columns = 0;
    pl_ml_transform transform = PL_ML_NONE;
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(matrix_in(c, &x, &n_rows, &n_columns));
    const int64_t n_models = count_models(c->node, pl_dim_of(n_columns));
    PL_TRY(check_models(c, n_models, n_columns));
    const bool second = n_models == 1 && labels.n == 2;
    if (n_models > 1 && labels.n > 0 && (int64_t)labels.n < n_models) {
        return pl_eval_fail(c, "has %zu labels for %lld classes", labels.n, (long long)n_models);
    }
    const int64_t width = second ? 2 : n_models;
    double *scores = pl_scratch(c, (size_t)width, sizeof(*scores));
    if (scores == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < n_rows; i++) {
        linear_scores(c->node, x + i * n_columns, n_columns, n_models, scores);
        int64_t label = largest(scores, n_models);
        if (n_models == 1) label = scores[0] > 0 ? 1 : second ? 0 : -1;
        if (second) {
            scores[1] = scores[0];
            scores[0] = first_score(c, transform, scores[1]);
        }
        pl_ml_apply(transform, scores, (size_t)width);
        if (pl_out(c, 0) != NULL) PL_TRY(pl_ml_set_label(c, &labels, pl_out(c, 0), i, label));
        if (pl_out(c, 1) != NULL) pl_ml_store_row(pl_out(c, 1), i, width, scores);
    }
    return PL_OK;
}

pl_status pl_linear_regressor_infer(pl_infer *c) {
    const int64_t n = pl_attr_int(c->node, "targets");
    if (n < 1 || n > INT32_MAX) return pl_infer_fail(c, "invalid targets %lld", (long long)n);
    return pl_ml_infer_regression(c, n);
}

pl_status pl_linear_regressor_eval(pl_eval *c) {
    const int64_t n = pl_attr_int(c->node, "targets");
    const pl_f64 *x = NULL;
    int64_t n_rows = 0, n_columns = 0;
    pl_ml_transform transform = PL_ML_NONE;
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(matrix_in(c, &x, &n_rows, &n_columns));
    PL_TRY(check_models(c, n, n_columns));
    double *scores = pl_scratch(c, (size_t)n, sizeof(*scores));
    if (scores == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < n_rows && pl_out(c, 0) != NULL; i++) {
        linear_scores(c->node, x + i * n_columns, n_columns, n, scores);
        pl_ml_apply(transform, scores, (size_t)n);
        pl_ml_store_row(pl_out(c, 0), i, n, scores);
    }
    return PL_OK;
}

/* ---- support vector machines ---- */

typedef enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID } svm_kernel;

typedef struct svm {
    svm_kernel kernel;
    double gamma, coef0, degree;
    const float *vectors, *coefficients, *rho, *prob_a, *prob_b;
    size_t n_vectors_floats, n_coefficients, n_rho, n_prob;
    const int64_t *per_class;
    size_t n_per_class;
    int64_t n_vectors; /* 0: linear mode, one vector of coefficients per class */
    int64_t n_columns;
    int64_t n_classes;
} svm;

static pl_status svm_init(pl_eval *c, svm *s, int64_t n_columns) {
    static const char *const names[] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    int kernel = 0;
    while (kernel < 4 && !pl_attr_string_is(c->node, "kernel_type", names[kernel]))
        kernel++;
    if (kernel == 4) return pl_eval_fail(c, "kernel_type is not LINEAR, POLY, RBF or SIGMOID");
    s->kernel = (svm_kernel)kernel;
    size_t n = 0, n_b = 0;
    const float *params = pl_attr_floats(c->node, "kernel_params", &n);
    if (n > 0 && n < 3) return pl_eval_fail(c, "kernel_params has %zu elements, expected 3", n);
    if (n >= 3) {
        s->gamma = (double)params[0];
        s->coef0 = (double)params[1];
        s->degree = (double)params[2];
    }
    s->vectors = pl_ml_matrix(c->node, "support_vectors", &s->n_vectors_floats);
    s->coefficients = pl_ml_matrix(c->node, "coefficients", &s->n_coefficients);
    s->rho = pl_attr_floats(c->node, "rho", &s->n_rho);
    s->prob_a = pl_attr_floats(c->node, "prob_a", &s->n_prob);
    s->prob_b = pl_attr_floats(c->node, "prob_b", &n_b);
    s->n_columns = n_columns;
    if (s->n_prob != n_b) return pl_eval_fail(c, "prob_a and prob_b differ in length");
    if (s->n_coefficients == 0) return pl_eval_fail(c, "no coefficients");
    if (s->n_rho == 0) return pl_eval_fail(c, "rho is empty");
    return PL_OK;
}

static pl_status svm_need(const pl_eval *c, const char *what, size_t found, int64_t a, int64_t b) {
    int64_t wanted = 0;
    if (pl_i64_mul(a, b, &wanted) && (int64_t)found >= wanted) return PL_OK;
    return pl_eval_fail(c, "%s has %zu elements, expected %lld times %lld", what, found,
                        (long long)a, (long long)b);
}

static double svm_dot(const svm *s, const pl_f64 *x, const float *v) {
    double sum = 0;
    if (s->kernel == SVM_RBF) {
        for (int64_t i = 0; i < s->n_columns; i++)
            sum += (x[i] - (double)v[i]) * (x[i] - (double)v[i]);
        return exp(-s->gamma * sum);
    }
    sum = dot(x, v, s->n_columns);
    if (s->kernel == SVM_POLY) return pow(s->gamma * sum + s->coef0, s->degree);
    return s->kernel == SVM_SIGMOID ? tanh(s->gamma * sum + s->coef0) : sum;
}

/* ---- SVMRegressor-1 ---- */

pl_status pl_svm_regressor_infer(pl_infer *c) {
    return pl_ml_infer_regression(c, 1);
}

pl_status pl_svm_regressor_eval(pl_eval *c) {
    const pl_f64 *x = NULL;
    int64_t n_rows = 0, n_columns = 0;
    pl_ml_transform transform = PL_ML_NONE;
    svm s = { 0 };
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(matrix_in(c, &x, &n_rows, &n_columns));
    PL_TRY(svm_init(c, &s, n_columns));
    s.n_vectors = pl_attr_int(c->node, "n_supports");
    if (s.n_vectors < 0) return pl_eval_fail(c, "n_supports is negative");
    if (s.n_vectors > 0) {
        PL_TRY(svm_need(c, "coefficients", s.n_coefficients, s.n_vectors, 1));
        PL_TRY(svm_need(c, "support_vectors", s.n_vectors_floats, s.n_vectors, n_columns));
    } else {
        s.kernel = SVM_LINEAR;
        PL_TRY(svm_need(c, "coefficients", s.n_coefficients, n_columns, 1));
    }
    for (int64_t i = 0; i < n_rows && pl_out(c, 0) != NULL; i++) {
        const pl_f64 *row = x + i * n_columns;
        double sum = s.n_vectors > 0 ? 0 : svm_dot(&s, row, s.coefficients);
        for (int64_t k = 0; k < s.n_vectors; k++)
            sum += (double)s.coefficients[k] * svm_dot(&s, row, s.vectors + k * n_columns);
        sum += (double)s.rho[0];
        if (pl_attr_int(c->node, "one_class") != 0) sum = sum > 0 ? 1 : -1;
        pl_ml_apply(transform, &sum, 1);
        pl_ml_store_row(pl_out(c, 0), i, 1, &sum);
    }
    return PL_OK;
}

/* ---- SVMClassifier-1 ---- */

static int64_t svm_width(int64_t n_classes, bool linear, bool has_prob) {
    if (linear || has_prob || n_classes == 2) return n_classes;
    return n_classes < 2 ? 0 : n_classes * (n_classes - 1) / 2;
}

static const char *svm_counts(const pl_node *node, int64_t *n_classes, int64_t *n_vectors) {
    const pl_ml_labels labels = pl_ml_labels_of(node, "classlabels_strings", "classlabels_ints");
    size_t n = 0;
    const int64_t *per_class = pl_attr_ints(node, "vectors_per_class", &n);
    *n_vectors = 0;
    *n_classes = labels.n == 0 ? 1 : (int64_t)labels.n;
    if (*n_classes > 65535) return "has too many classes";
    for (size_t i = 0; i < n; i++) {
        if (per_class[i] < 0 || per_class[i] > INT32_MAX)
            return "vectors_per_class is out of range";
        *n_vectors += per_class[i];
    }
    if (*n_vectors > INT32_MAX) return "vectors_per_class is out of range";
    if (*n_vectors == 0) return NULL;
    if (*n_classes < 2) return "support vectors need two classes or more";
    return n == labels.n ? NULL : "vectors_per_class and the labels differ in length";
}

pl_status pl_svm_classifier_infer(pl_infer *c) {
    const pl_ml_labels labels = pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_ints");
    int64_t n_classes = 0, n_vectors = 0;
    size_t n_prob = 0;
    (void)pl_attr_floats(c->node, "prob_a", &n_prob);
    const char *bad = svm_counts(c->node, &n_classes, &n_vectors);
    if (bad != NULL) return pl_infer_fail(c, "%s", bad);
    return pl_ml_infer_classes(c, pl_ml_labels_dtype(&labels),
                               svm_width(n_classes, n_vectors == 0, n_prob > 0));
}

/* One score for each pair of classes (i, j) and a vote for the winner. */
static void svm_pairs(const svm *s, const double *kernels, double *scores, double *votes) {
    size_t pair = 0;
    int64_t start_i = 0;
    for (int64_t i = 0; i < s->n_classes; start_i += s->per_class[i], i++) {
        int64_t start_j = start_i + s->per_class[i];
        for (int64_t j = i + 1; j < s->n_classes; start_j += s->per_class[j], j++, pair++) {
            double sum = 0;
            for (int64_t k = 0; k < s->per_class[i]; k++) {
                sum += (double)s->coefficients[(j - 1) * s->n_vectors + start_i + k] *
                       kernels[start_i + k];
            }
            for (int64_t k = 0; k < s->per_class[j]; k++) {
                sum +=
                    (double)s->coefficients[i * s->n_vectors + start_j + k] * kernels[start_j + k];
            }
            scores[pair] = sum + (double)s->rho[pair];
            votes[scores[pair] > 0 ? i : j] += 1;
        }
    }
}

/* Class probabilities from pairwise ones, r[i][j] = P(i | i or j): the iteration of Wu, Lin and
 * Weng (2004), algorithm 2, with libsvm's stopping rule. */
void pl_ml_couple(int64_t n, const double *r, double *q, double *qp, double *p) {
    for (int64_t i = 0; i < n; i++) {
        p[i] = 1.0 / (double)n;
        q[i * n + i] = 0;
        for (int64_t j = 0; j < n; j++) {
            if (j == i) continue;
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = -r[j * n + i] * r[i * n + j];
        }
    }
    for (int64_t round = 0; round < (n > 100 ? n : 100); round++) {
        double pqp = 0, worst = 0;
        for (int64_t i = 0; i < n; i++) {
            qp[i] = 0;
            for (int64_t j = 0; j < n; j++)
                qp[i] += q[i * n + j] * p[j];
            pqp += p[i] * qp[i];
        }
        for (int64_t i = 0; i < n; i++)
            worst = fmax(worst, fabs(qp[i] - pqp));
        if (worst < 0.005 / (double)n) return;
        for (int64_t i = 0; i < n; i++) {
            const double step = (pqp - qp[i]) / q[i * n + i], scale = 1 + step;
            p[i] += step;
            pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / scale / scale;
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + step * q[i * n + j]) / scale;
                p[j] /= scale;
            }
        }
    }
}

typedef struct svm_scratch {
    double *kernels, *pairs, *votes, *r, *q, *qp, *scores;
} svm_scratch;

static void svm_probabilities(const svm *s, svm_scratch *t) {
    const int64_t n = s->n_classes;
    size_t pair = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++, pair++) {
            const double v = t->pairs[pair] * (double)s->prob_a[pair] + (double)s->prob_b[pair];
            const double p = fmin(fmax(1 - pl_ml_logistic(v), 1e-7), 1 - 1e-7);
            t->r[i * n + j] = p;
            t->r[j * n + i] = 1 - p;
        }
    }
    pl_ml_couple(n, t->r, t->q, t->qp, t->scores);
}

/* Classifies one row: fills the scores (width of the output) and returns the index of the label. */
static int64_t svm_classify(const svm *s, const pl_f64 *x, pl_ml_transform transform,
                            svm_scratch *t) {
    const int64_t n = s->n_classes, n_pairs = n * (n - 1) / 2;
    if (s->n_vectors == 0) {
        bool positive = true;
        for (size_t i = 0; i < s->n_coefficients; i++)
            positive = positive && s->coefficients[i] >= 0;
        for (int64_t k = 0; k < n; k++)
            t->scores[k] = svm_dot(s, x, s->coefficients + k * s->n_columns) + (double)s->rho[0];
        int64_t label = largest(t->scores, n);
        if (n == 2 && positive && t->scores[label] >= 0.5) label = 1;
        pl_ml_apply(transform, t->scores, (size_t)n);
        return label;
    }
    for (int64_t k = 0; k < s->n_vectors; k++)
        t->kernels[k] = svm_dot(s, x, s->vectors + k * s->n_columns);
    memset(t->votes, 0, (size_t)n * sizeof(*t->votes));
    svm_pairs(s, t->kernels, t->pairs, t->votes);
    if (s->n_prob > 0) {
        svm_probabilities(s, t);
        pl_ml_apply(transform, t->scores, (size_t)n);
    } else if (n == 2) { /* one score, two columns */
        t->scores[0] = -t->pairs[0];
        t->scores[1] = t->pairs[0];
        pl_ml_apply(transform, t->scores, 2);
    } else {
        memcpy(t->scores, t->pairs, (size_t)n_pairs * sizeof(*t->scores));
        pl_ml_apply(transform, t->scores, (size_t)n_pairs);
    }
    return largest(t->votes, n);
}

static pl_status svm_classifier_check(pl_eval *c, svm *s) {
    const char *bad = svm_counts(c->node, &s->n_classes, &s->n_vectors);
    if (bad != NULL) return pl_eval_fail(c, "%s", bad);
    if (s->n_vectors == 0) {
        s->kernel = SVM_LINEAR;
        s->n_prob = 0;
        return svm_need(c, "coefficients", s->n_coefficients, s->n_classes, s->n_columns);
    }
    const int64_t n_pairs = s->n_classes * (s->n_classes - 1) / 2;
    s->per_class = pl_attr_ints(c->node, "vectors_per_class", &s->n_per_class);
    PL_TRY(svm_need(c, "coefficients", s->n_coefficients, s->n_classes - 1, s->n_vectors));
    PL_TRY(svm_need(c, "support_vectors", s->n_vectors_floats, s->n_vectors, s->n_columns));
    PL_TRY(svm_need(c, "rho", s->n_rho, n_pairs, 1));
    return s->n_prob == 0 ? PL_OK : svm_need(c, "prob_a", s->n_prob, n_pairs, 1);
}

static bool svm_scratch_init(pl_eval *c, const svm *s, svm_scratch *t) {
    const size_t n = (size_t)s->n_classes, n_pairs = n * (n - 1) / 2 + 2;
    const size_t square = s->n_prob > 0 ? n * n : 0;
    t->kernels = pl_scratch(c, (size_t)s->n_vectors, sizeof(double));
    t->pairs = pl_scratch(c, n_pairs, sizeof(double));
    t->votes = pl_scratch(c, n, sizeof(double));
    t->r = pl_scratch(c, square, sizeof(double));
    t->q = pl_scratch(c, square, sizeof(double));
    t->qp = pl_scratch(c, n, sizeof(double));
    t->scores = pl_scratch(c, n_pairs > n ? n_pairs : n, sizeof(double));
    return t->kernels != NULL && t->pairs != NULL && t->votes != NULL && t->r != NULL &&
           t->q != NULL && t->qp != NULL && t->scores != NULL;
}

pl_status pl_svm_classifier_eval(pl_eval *c) {
    const pl_ml_labels labels = pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_ints");
    const pl_f64 *x = NULL;
    int64_t n_rows = 0, n_columns = 0;
    pl_ml_transform transform = PL_ML_NONE;
    svm s = { 0 };
    svm_scratch t;
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(matrix_in(c, &x, &n_rows, &n_columns));
    PL_TRY(svm_init(c, &s, n_columns));
    PL_TRY(svm_classifier_check(c, &s));
    if (!svm_scratch_init(c, &s, &t)) return pl_eval_memory(c);
    const int64_t width = svm_width(s.n_classes, s.n_vectors == 0, s.n_prob > 0);
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t label = svm_classify(&s, x + i * n_columns, transform, &t);
        if (pl_out(c, 0) != NULL) PL_TRY(pl_ml_set_label(c, &labels, pl_out(c, 0), i, label));
        if (pl_out(c, 1) != NULL) pl_ml_store_row(pl_out(c, 1), i, width, t.scores);
    }
    return PL_OK;
}

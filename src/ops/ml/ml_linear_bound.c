/* Error bounds of linear models and support vector machines. For the latter the kernel functions
 * are recomputed with their errors. */
#include <math.h>
#include <stdint.h>

#include "ops/ml/ml_bound.h"
#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

/* A number, the error of computing it in float, and the error inherited from the inputs. */
typedef struct part {
    double v, own, from;
} part;

typedef enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID } svm_kernel;

typedef struct machine {
    pl_bound *c;
    svm_kernel kernel;
    double gamma, coef0, degree, u;
    const float *vectors, *coefficients, *rho;
    size_t n_vectors, n_coefficients, n_rho; /* floats */
    int64_t n;                               /* number of features */
} machine;

static machine machine_of(pl_bound *c, int64_t n) {
    static const char *const names[] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    machine m = { .c = c, .u = c->u, .n = n };
    size_t n_params = 0;
    const float *params = pl_attr_floats(c->node, "kernel_params", &n_params);
    m.vectors = pl_ml_matrix(c->node, "support_vectors", &m.n_vectors);
    m.coefficients = pl_ml_matrix(c->node, "coefficients", &m.n_coefficients);
    m.rho = pl_attr_floats(c->node, "rho", &m.n_rho);
    for (int k = 0; k < 4; k++)
        if (pl_attr_string_is(c->node, "kernel_type", names[k])) m.kernel = (svm_kernel)k;
    if (n_params >= 3) {
        m.gamma = (double)params[0];
        m.coef0 = (double)params[1];
        m.degree = (double)params[2];
    }
    return m;
}

/* ---- kernels ---- */

static part dot_of(const machine *m, const double *x, const double *ex, const float *v) {
    double sum = 0, sizes = 0, squares = 0;
    for (int64_t i = 0; i < m->n; i++) {
        const double term = x[i] * (double)v[i], d = ex == NULL ? 0 : ex[i] * (double)v[i];
        sum += term;
        sizes += fabs(term);
        squares += d * d;
    }
    return (part){ sum, m->u * pl_b_sum_error((double)m->n, sizes, fabs(sum)), sqrt(squares) };
}

/* exp(-gamma * distance squared) */
static part rbf_of(const machine *m, const double *x, const double *ex, const float *v) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < m->n; i++) {
        const double d = x[i] - (double)v[i], e = ex == NULL ? 0 : ex[i];
        sum += d * d;
        squares += (2 * fabs(d) + e) * e * (2 * fabs(d) + e) * e;
    }
    const double y = exp(-m->gamma * sum), g = fabs(m->gamma);
    const double own = m->u * (pl_b_sum_error((double)m->n, sum, sum) + 4 * sum);
    return (part){ y, y * (expm1(fmin(g * own, 700)) + 3 * m->u),
                   y * expm1(fmin(g * sqrt(squares), 700)) };
}

static part kernel_of(const machine *m, const double *x, const double *ex, const float *v) {
    if (m->kernel == SVM_RBF) return rbf_of(m, x, ex, v);
    part t = dot_of(m, x, ex, v);
    if (m->kernel == SVM_LINEAR) return t;
    const double scaled = m->gamma * t.v, g = fabs(m->gamma);
    t.v = scaled + m->coef0;
    t.own = g * t.own + m->u * (fabs(scaled) + fabs(t.v));
    t.from *= g;
    const double off = t.own + t.from;
    const double y = m->kernel == SVM_POLY ? pow(t.v, m->degree) : tanh(t.v);
    const double slope = m->kernel == SVM_POLY
                             ? fabs(m->degree) * pow(fabs(t.v) + off, m->degree - 1)
                             : fmin(1, 1 - y * y + 2 * off);
    return (part){ y, slope * t.own + 4 * m->u * fabs(y), slope * t.from };
}

/* ---- sums of kernels ---- */

typedef struct total {
    double sum, sizes, squares, from;
    int64_t n;
} total;

/* Local errors of the kernels are independent and add in quadrature; errors of x are common to all
 * and add up. */
static void add(total *t, double coefficient, part k) {
    const double a = fabs(coefficient);
    t->sum += coefficient * k.v;
    t->sizes += a * fabs(k.v);
    t->squares += a * k.own * a * k.own;
    t->from += a * k.from;
    t->n++;
}

static double error_of(const machine *m, const total *t, double rho) {
    return m->u * pl_b_sum_error((double)t->n + 1, t->sizes + fabs(rho), fabs(t->sum + rho)) +
           2 * sqrt(t->squares) + t->from;
}

static double rho_at(const machine *m, size_t i) {
    return i < m->n_rho ? (double)m->rho[i] : 0;
}

/* Linear mode: there are no support vectors. */
static double linear_error(const machine *m, const double *x, const double *ex, int64_t k) {
    total t = { .sum = 0 };
    if ((k + 1) * m->n <= (int64_t)m->n_coefficients)
        add(&t, 1, dot_of(m, x, ex, m->coefficients + k * m->n));
    return error_of(m, &t, rho_at(m, 0));
}

/* ---- SVMRegressor-1 ---- */

static pl_status rows_of(pl_bound *c, const double **x, int64_t *n_rows, int64_t *n) {
    *n_rows = *n = 0;
    if (!pl_ml_rows(pl_b_in(c, 0), n_rows, n)) return PL_OK;
    *x = pl_b_x(c, 0);
    return *x == NULL && *n_rows * *n > 0 ? pl_fail_memory(c->err, 1) : PL_OK;
}

pl_status pl_svm_regressor_bound(pl_bound *c) {
    static const char *const without[] = { "one_class", NULL };
    const bool sign = pl_attr_int(c->node, "one_class") != 0;
    const double *x = NULL, *ex = pl_b_e(c, 0);
    int64_t n_rows = 0, n = 0;
    pl_b_scores scores;
    PL_TRY(rows_of(c, &x, &n_rows, &n));
    const machine m = machine_of(c, n);
    const int64_t n_supports = pl_attr_int(c->node, "n_supports");
    PL_TRY(pl_b_scores_open(c, 0, without, &scores));
    for (int64_t r = 0; r < scores.n_rows && r < n_rows; r++) {
        const double *row = x + r * n, *e = ex == NULL ? NULL : ex + r * n;
        total t = { .sum = 0 };
        for (int64_t k = 0; k < n_supports; k++)
            add(&t, (double)m.coefficients[k], kernel_of(&m, row, e, m.vectors + k * n));
        scores.e[r] =
            n_supports > 0 ? error_of(&m, &t, rho_at(&m, 0)) : linear_error(&m, row, e, 0);
        /* one_class: 1 or -1 by the sign */
        if (sign) scores.e[r] = fabs(scores.s[r]) <= 8 * scores.e[r] ? 2 : 0;
    }
    const pl_status st = pl_b_scores_set(c, 0, &scores, NULL);
    pl_tensor_unref(scores.raw);
    return st;
}

/* ---- SVMClassifier-1 ---- */

typedef struct classifier {
    machine m;
    const int64_t *per_class;
    int64_t n_classes, n_vectors;
    const float *prob_a, *prob_b; /* NULL = no probabilities */
    part *kernels;
    double *pairs, *e_pairs;                    /* scores of pairs, their errors */
    double *r, *e_r, *moved, *q, *qp, *p, *p_0; /* probabilities */
} classifier;

static void pair_errors(const classifier *k, const double *x, const double *ex) {
    size_t pair = 0;
    int64_t start[2];
    for (int64_t i = 0; i < k->n_vectors; i++)
        k->kernels[i] = kernel_of(&k->m, x, ex, k->m.vectors + i * k->m.n);
    start[0] = 0;
    for (int64_t i = 0; i < k->n_classes; start[0] += k->per_class[i], i++) {
        start[1] = start[0] + k->per_class[i];
        for (int64_t j = i + 1; j < k->n_classes; start[1] += k->per_class[j], j++, pair++) {
            total t = { .sum = 0 };
            for (int side = 0; side < 2; side++) {
                const int64_t of = side == 0 ? j - 1 : i;
                for (int64_t s = 0; s < k->per_class[side == 0 ? i : j]; s++)
                    add(&t, (double)k->m.coefficients[of * k->n_vectors + start[side] + s],
                        k->kernels[start[side] + s]);
            }
            k->pairs[pair] = t.sum + rho_at(&k->m, pair);
            k->e_pairs[pair] = error_of(&k->m, &t, rho_at(&k->m, pair));
        }
    }
}

/* r and e_r: probabilities of the pairs. */
static void pair_probabilities(const classifier *k) {
    const double u = k->m.u;
    const int64_t n = k->n_classes;
    size_t pair = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++, pair++) {
            const double a = (double)k->prob_a[pair], v = k->pairs[pair] * a;
            const double off =
                fabs(a) * k->e_pairs[pair] + u * (fabs(v) + fabs(v + (double)k->prob_b[pair]));
            const double p =
                fmin(fmax(1 - pl_ml_logistic(v + (double)k->prob_b[pair]), 1e-7), 1 - 1e-7);
            k->r[i * n + j] = p;
            k->r[j * n + i] = 1 - p;
            k->e_r[i * n + j] = off * fmin(0.25, p * (1 - p) * exp(fmin(off, 1))) + 2 * u;
        }
    }
}

/* How far the coupled probabilities move when the pairwise ones move by their errors, tried with
 * four sign patterns. The iteration has a tolerance of its own and may stop a step earlier or
 * later. */
static void coupled_errors(const classifier *k, double *out) {
    enum { PATTERNS = 4 };
    const int64_t n = k->n_classes;
    pl_ml_couple(n, k->r, k->q, k->qp, k->p_0);
    for (int64_t i = 0; i < n; i++)
        out[i] = 6 * k->m.u;
    for (uint64_t t = 0; t < PATTERNS; t++) {
        uint64_t signs = t * UINT64_C(0x9E3779B97F4A7C15);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = i + 1; j < n; j++) {
                const double e = k->e_r[i * n + j];
                const double p = k->r[i * n + j] + (signs >> 63 != 0 ? -e : e);
                k->moved[i * n + j] = fmin(fmax(p, 1e-7), 1 - 1e-7);
                k->moved[j * n + i] = 1 - k->moved[i * n + j];
                signs = signs * UINT64_C(6364136223846793005) + (t != 0);
            }
        }
        pl_ml_couple(n, k->moved, k->q, k->qp, k->p);
        for (int64_t i = 0; i < n; i++)
            out[i] = fmax(out[i], 2 * fabs(k->p[i] - k->p_0[i]) + 6 * k->m.u);
    }
}

static pl_status coupling_init(pl_bound *c, classifier *k, size_t n) {
    k->r = pl_arena_array(c->scratch, n * n, sizeof(double));
    k->e_r = pl_arena_array(c->scratch, n * n, sizeof(double));
    k->moved = pl_arena_array(c->scratch, n * n, sizeof(double));
    k->q = pl_arena_array(c->scratch, n * n, sizeof(double));
    k->qp = pl_arena_array(c->scratch, n, sizeof(double));
    k->p = pl_arena_array(c->scratch, n, sizeof(double));
    k->p_0 = pl_arena_array(c->scratch, n, sizeof(double));
    const bool ok = k->r != NULL && k->e_r != NULL && k->moved != NULL && k->q != NULL &&
                    k->qp != NULL && k->p != NULL && k->p_0 != NULL;
    return ok ? PL_OK : pl_fail_memory(c->err, n * n);
}

static pl_status classifier_init(pl_bound *c, classifier *k, int64_t n) {
    const pl_ml_labels labels = pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_ints");
    size_t n_per_class = 0, n_prob = 0;
    k->m = machine_of(c, n);
    k->per_class = pl_attr_ints(c->node, "vectors_per_class", &n_per_class);
    k->n_classes = labels.n == 0 ? 1 : (int64_t)labels.n;
    for (size_t i = 0; i < n_per_class; i++)
        k->n_vectors += k->per_class[i];
    k->prob_b = pl_attr_floats(c->node, "prob_b", &n_prob);
    k->prob_a = pl_attr_floats(c->node, "prob_a", &n_prob);
    if (n_prob == 0 || k->n_vectors == 0) k->prob_a = NULL;
    const size_t classes = (size_t)k->n_classes, pairs = classes * (classes - 1) / 2 + 2;
    k->kernels = pl_arena_array(c->scratch, (size_t)k->n_vectors + 1, sizeof(part));
    k->pairs = pl_arena_array(c->scratch, pairs, sizeof(double));
    k->e_pairs = pl_arena_array(c->scratch, pairs, sizeof(double));
    if (k->kernels == NULL || k->pairs == NULL || k->e_pairs == NULL)
        return pl_fail_memory(c->err, pairs);
    return k->prob_a == NULL ? PL_OK : coupling_init(c, k, classes);
}

/* Errors of the scores of one row; true when either class may win some pair. */
static bool classifier_row(const classifier *k, const double *x, const double *ex, double *e,
                           int64_t width) {
    bool unsure = false;
    pair_errors(k, x, ex);
    const int64_t n_pairs = k->n_classes * (k->n_classes - 1) / 2;
    for (int64_t i = 0; i < n_pairs; i++)
        unsure = unsure || fabs(k->pairs[i]) <= 8 * k->e_pairs[i];
    if (k->prob_a != NULL) {
        pair_probabilities(k);
        coupled_errors(k, e);
    } else {
        for (int64_t i = 0; i < width; i++) /* two columns for one pair, or one per pair */
            e[i] = k->e_pairs[k->n_classes == 2 ? 0 : i];
    }
    return unsure;
}

pl_status pl_svm_classifier_bound(pl_bound *c) {
    const double *x = NULL, *ex = pl_b_e(c, 0);
    int64_t n_rows = 0, n = 0;
    pl_b_scores scores;
    classifier k = { .n_classes = 0 };
    PL_TRY(rows_of(c, &x, &n_rows, &n));
    PL_TRY(classifier_init(c, &k, n));
    PL_TRY(pl_b_scores_open(c, 1, NULL, &scores));
    bool *unsure = pl_arena_array(c->scratch, (size_t)scores.n_rows + 1, sizeof(*unsure));
    pl_status st = unsure == NULL ? pl_fail_memory(c->err, 1) : PL_OK;
    for (int64_t r = 0; st == PL_OK && r < scores.n_rows && r < n_rows; r++) {
        const double *row = x + r * n, *e = ex == NULL ? NULL : ex + r * n;
        double *to = scores.e + r * scores.width;
        if (k.n_vectors > 0) {
            unsure[r] = classifier_row(&k, row, e, to, scores.width);
            continue;
        }
        for (int64_t i = 0; i < scores.width; i++)
            to[i] = linear_error(&k.m, row, e, i);
    }
    if (st == PL_OK) st = pl_b_scores_set(c, 1, &scores, k.n_vectors > 0 ? unsure : NULL);
    pl_tensor_unref(scores.raw);
    return st;
}

/* ---- linear models ---- */

static double float_at(const pl_node *node, const char *name, size_t i) {
    size_t n = 0;
    const float *f = pl_attr_floats(node, name, &n);
    return i < n ? (double)f[i] : 0;
}

static void linear_row(const pl_bound *c, const double *x, const double *ex, int64_t n,
                       const pl_b_scores *scores, int64_t row) {
    size_t n_coefficients = 0;
    const float *w = pl_ml_matrix(c->node, "coefficients", &n_coefficients);
    const int64_t n_models = (int64_t)n_coefficients / n;
    for (int64_t k = 0; k < scores->width && n_models > 0; k++) {
        const int64_t m = k < n_models ? k : n_models - 1; /* two columns, one model */
        double sum = fabs(float_at(c->node, "intercepts", (size_t)m)), squares = 0;
        for (int64_t i = 0; i < n; i++) {
            const double a = fabs((double)w[m * n + i]), d = ex == NULL ? 0 : a * ex[i];
            sum += a * fabs(x[i]);
            squares += d * d;
        }
        const int64_t at = row * scores->width + k;
        scores->e[at] =
            c->u * pl_b_sum_error((double)n + 1, sum, fabs(scores->s[at])) + sqrt(squares);
    }
}

static pl_status linear_bound(pl_bound *c, int slot) {
    const double *v = pl_b_x(c, 0), *e = pl_b_e(c, 0);
    int64_t n_rows = 0, n = 0;
    size_t n_coefficients = 0;
    pl_b_scores scores;
    if (!pl_ml_rows(pl_b_in(c, 0), &n_rows, &n) || n == 0 || n_rows == 0) return PL_OK;
    bool *unsure = pl_arena_array(c->scratch, (size_t)n_rows, sizeof(*unsure));
    if (v == NULL || unsure == NULL) return pl_fail_memory(c->err, 1);
    (void)pl_attr_floats(c->node, "coefficients", &n_coefficients);
    PL_TRY(pl_b_scores_open(c, slot, NULL, &scores));
    const bool one = (int64_t)n_coefficients < 2 * n; /* its sign is the label */
    for (int64_t r = 0; r < scores.n_rows && r < n_rows; r++) {
        linear_row(c, v + r * n, e == NULL ? NULL : e + r * n, n, &scores, r);
        const int64_t last = (r + 1) * scores.width - 1;
        unsure[r] = fabs(scores.s[last]) <= 8 * scores.e[last];
    }
    const pl_status st = pl_b_scores_set(c, slot, &scores, one ? unsure : NULL);
    pl_tensor_unref(scores.raw);
    return st;
}

pl_status pl_linear_regressor_bound(pl_bound *c) {
    return linear_bound(c, 0);
}

pl_status pl_linear_classifier_bound(pl_bound *c) {
    return linear_bound(c, 1);
}

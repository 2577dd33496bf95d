/* Bound of normalised rows (docs/blame.md, LayerNorm). */
#include <math.h>

#include "ops/lib/bound_nn.h"

pl_status pl_b_spread(pl_bound *c, const pl_tensor *t, const double *data, const pl_tensor *like,
                      const double **out) {
    int64_t stride[PL_RANK_MAX] = { 0 }, index[PL_RANK_MAX] = { 0 }, step = 1, at = 0;
    *out = NULL;
    if (t == NULL || data == NULL) return PL_OK;
    if (pl_tensor_same_shape(t, like)) {
        *out = data;
        return PL_OK;
    }
    /* Surplus leading dims of 1 are dropped. */
    for (int d = t->rank - 1; d >= 0; d--) {
        const int to = d + like->rank - t->rank;
        const bool fits =
            to < 0 ? t->dims[d] == 1 : t->dims[d] == 1 || t->dims[d] == like->dims[to];
        if (!fits) {
            return pl_fail(c->err, PL_E_INTERNAL, "%s: an input is not broadcast", c->node->op);
        }
        if (to >= 0 && t->dims[d] != 1) stride[to] = step;
        step *= t->dims[d];
    }
    double *y = pl_arena_array(c->scratch, (size_t)like->n_elements, sizeof(double));
    if (y == NULL) return pl_fail_memory(c->err, (size_t)like->n_elements);
    for (int64_t i = 0; i < like->n_elements; i++) {
        y[i] = data[at];
        for (int d = like->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < like->dims[d]) break;
            at -= stride[d] * like->dims[d];
            index[d] = 0;
        }
    }
    *out = y;
    return PL_OK;
}

typedef struct norm_job {
    const pl_b_norm *norm;
    double u, u_low, tiny, chain;
    double root; /* relative error of 1 / sqrt and a division, by the precision profile */
    bool low;    /* the result is stored in less precision than it is computed in */
} norm_job;

typedef struct row_stats {
    double mean, abs_mean, sq_mean, e_mean, inverse, variance; /* variance includes epsilon */
} row_stats;

static row_stats stats_of(const pl_b_norm *n, const double *x, const double *ex) {
    row_stats s = { 0 };
    const double count = (double)n->n;
    for (int64_t i = 0; i < n->n; i++) {
        s.mean += x[i];
        s.abs_mean += fabs(x[i]);
        s.sq_mean += x[i] * x[i];
        if (ex != NULL) s.e_mean += ex[i];
    }
    s.mean = n->rms ? 0 : s.mean / count;
    s.abs_mean /= count;
    s.sq_mean /= count;
    s.e_mean /= count;
    if (n->rms) {
        s.variance = s.sq_mean;
    } else {
        for (int64_t i = 0; i < n->n; i++)
            s.variance += (x[i] - s.mean) * (x[i] - s.mean);
        s.variance /= count;
    }
    s.variance += n->epsilon;
    s.inverse = 1 / sqrt(s.variance);
    return s;
}

/* Error of x - mean; rms subtracts no mean. */
static double centre_error(const norm_job *j, const row_stats *s, double x, double ex) {
    if (j->norm->rms) return ex;
    return j->u * (fabs(x) + j->chain * s->abs_mean) + ex + s->e_mean;
}

/* Error of the variance. Many runtimes compute it in one pass as mean of squares - square of the
 * mean, which cancels when the mean is large. That is accepted while enough digits remain: above
 * ONE_PASS_MAX of the variance the result is wrong, not rounded. */
#define ONE_PASS_MAX 0x1p-7
static double variance_error(const norm_job *j, const row_stats *s) {
    const double own = j->u * j->chain;
    const double one_pass = own * s->sq_mean;
    const double most = fmax(ONE_PASS_MAX, 4 * own) * s->variance;
    return one_pass <= most ? one_pass : own * s->variance;
}

static void one_row(const norm_job *j, int64_t row) {
    const pl_b_norm *n = j->norm;
    const int64_t at = row * n->n;
    const double *x = n->x + at, *ex = n->ex == NULL ? NULL : n->ex + at;
    const row_stats s = stats_of(n, x, ex);
    double moved = 0;
    for (int64_t i = 0; i < n->n; i++)
        moved += fabs(x[i] - s.mean) * centre_error(j, &s, x[i], ex == NULL ? 0 : ex[i]);
    moved /= (double)n->n;
    const double v = (variance_error(j, &s) + 2 * moved) / s.variance;
    if (n->e_mean != NULL) n->e_mean[row] = j->u * j->chain * s.abs_mean + s.e_mean;
    if (n->e_inverse != NULL) n->e_inverse[row] = s.inverse * (v / 2 + 2 * j->u + j->root);
    for (int64_t i = 0; n->e != NULL && i < n->n; i++) {
        const double hat = (x[i] - s.mean) * s.inverse;
        const double c = centre_error(j, &s, x[i], ex == NULL ? 0 : ex[i]);
        const double g = n->scale == NULL ? 1 : fabs(n->scale[at + i]);
        const double b = n->bias == NULL ? 0 : fabs(n->bias[at + i]);
        double e = g * (c * s.inverse + fabs(hat) * (v / 2 + 2 * j->u + j->root));
        e += j->u * (fabs(n->y[at + i]) + b);
        if (n->e_scale != NULL) e += fabs(hat) * n->e_scale[at + i];
        if (n->e_bias != NULL) e += n->e_bias[at + i];
        if (j->low) e += j->u_low * fabs(n->y[at + i]) + j->tiny / 2;
        n->e[at + i] = e;
    }
}

static void norm_rows(void *ctx, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
        one_row(ctx, row);
}

void pl_b_norm_rule(const pl_bound *c, const pl_b_norm *norm) {
    const norm_job j = { .norm = norm,
                         .u = c->u_acc,
                         .u_low = c->u,
                         .tiny = c->tiny,
                         .low = c->u > c->u_acc,
                         .root =
                             pl_b_maths(c, PL_MATHS_SQRT, 1, 1) + pl_b_maths(c, PL_MATHS_DIV, 1, 1),
                         .chain = pl_b_chain((double)norm->n) };
    if (norm->n == 0) return;
    pl_pool_for(c->pool, norm->rows, norm->n > 4096 ? 1 : 4096 / norm->n + 1, norm_rows,
                (void *)(uintptr_t)&j);
}

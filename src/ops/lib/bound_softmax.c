/* The error bound of softmax. */
#include "ops/lib/bound_softmax.h"

#include <math.h>

typedef struct bound_job {
    const pl_bound *c;
    pl_axis_view view;
    const double *x, *e, *y; /* e: NULL = exact */
    double *out;
    bool log;
} bound_job;

/* Relative error of the denominator of one row. Each term errs by D = u(2 + |x - max|) + e, from
 * the argument of exp and exp itself, weighted by its probability: inherited errors e add up,
 * roundings add in quadrature. The sum itself adds u sqrt(n) / 16, because runtimes use several
 * accumulators (without that term a float sum over 6625 classes was near the limit). The element's
 * own exp and the division are added in bound_row: u(1.5 + |x - max|). */
static double shared_error(const bound_job *j, int64_t from, double max) {
    const int64_t n = j->view.n, step = j->view.inner;
    const double u = j->c->u_acc;
    double came_in = 0, squares = 0, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = from + k * step;
        const double p = j->log ? exp(j->y[at]) : j->y[at];
        const double far = isfinite(j->x[at]) ? max - j->x[at] : 0;
        if (!(p > 0)) continue;
        const double own =
            p * (u * ((j->log ? 1 : 2) + far) + pl_b_maths(j->c, PL_MATHS_EXP, far, 1));
        came_in += j->e != NULL ? p * j->e[at] : 0;
        squares += own * own;
        sum += own;
    }
    return came_in + (j->log ? sum : sqrt(squares) + u) + u * sqrt((double)n) / 16;
}

static void bound_row(const bound_job *j, int64_t from) {
    const int64_t n = j->view.n, step = j->view.inner;
    double max = -HUGE_VAL;
    for (int64_t k = 0; k < n; k++)
        max = fmax(max, j->x[from + k * step]);
    if (!isfinite(max)) return;
    const double shared = shared_error(j, from, max);
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = from + k * step;
        const double y = j->y[at], far = isfinite(j->x[at]) ? max - j->x[at] : 0;
        const double rounded = j->c->u_acc * ((j->log ? 1 : 1.5) + far) +
                               (j->log ? pl_b_maths(j->c, PL_MATHS_LOG, 1, y)
                                       : pl_b_maths(j->c, PL_MATHS_EXP, far, 1) +
                                             pl_b_maths(j->c, PL_MATHS_DIV, 1, 1));
        const double all = rounded + (j->e != NULL ? j->e[at] : 0) + shared;
        if (j->log) {
            j->out[at] = isfinite(y) ? all + pl_b_round(j->c, y) : 0;
        } else {
            const double grown = all < 40 ? expm1(all) : HUGE_VAL;
            /* y underflowed to 0: its x may be close enough to the maximum to give more. */
            const double least = isfinite(j->x[at]) ? fmin(exp(all - far), 1) : 0;
            j->out[at] = y > 0 ? fmin(y * grown, 1) + pl_b_stored(j->c, y) : least;
        }
    }
}
static void bound_rows(void *ctx, int64_t begin, int64_t end) {
    const bound_job *j = ctx;
    for (int64_t row = begin; row < end; row++)
        bound_row(j, row / j->view.inner * j->view.n * j->view.inner + row % j->view.inner);
}

void pl_b_softmax(const pl_bound *c, pl_axis_view view, const double *x, const double *e,
                  const double *y, bool log, double *out) {
    bound_job j = { c, view, x, e, y, out, log };
    pl_pool_for(c->pool, view.outer * view.inner, pl_rows_grain(view.n), bound_rows, &j);
}

/* Windows of pools, and their loops for any number of spatial dims. */
#include "ops/lib/pool_window.h"

#include <math.h>

/* ---- shapes ---- */

pl_status pl_pool_window(const pl_eval *c, const pl_tensor *x, pl_window *out) {
    PL_TRY(pl_window_read(c->node, x->rank - 2, out, c->err));
    return pl_window_of(c, x, out);
}

pl_pooling_shape pl_pooling_shape_of(const pl_window *w, const pl_tensor *x) {
    pl_pooling_shape s = { .n_spatial = w->n, .planes = x->dims[0] * x->dims[1] };
    for (int d = 0; d < w->n && d < 3; d++) {
        s.in[d] = w->in[d];
        s.out[d] = w->out[d];
        s.kernel[d] = w->kernel[d];
        s.stride[d] = w->stride[d];
        s.dilation[d] = w->dilation[d];
        s.pad_begin[d] = w->pad_begin[d];
        s.pad_end[d] = w->pad_end[d];
    }
    return s;
}

/* ---- loops ---- */

typedef struct any_job {
    const pl_window *w;
    const pl_pool_rule *rule;
    int64_t n_in, n_out;
    const pl_f64 *x;
    pl_f64 *y;
    pl_i64 *indices;
} any_job;

/* Accumulator of one window. */
typedef struct gathered {
    double value;
    int64_t at;
    double count; /* may exceed the input: kernels with SAME padding have no size limit */
} gathered;

static void take(const pl_pool_rule *rule, double v, int64_t at, gathered *g) {
    switch (rule->kind) {
    case PL_POOL_MAX:
        if (g->at < 0 || v > g->value || (isnan(v) && !isnan(g->value))) {
            g->value = v;
            g->at = at;
        }
        break;
    case PL_POOL_AVERAGE: g->value += v; break;
    case PL_POOL_LP:
        g->value += rule->p == 2 ? v * v : rule->p == 1 ? fabs(v) : pow(fabs(v), rule->p);
        break;
    }
}

/* The index with the first spatial dim fastest (storage_order 1). */
static int64_t column_major(const pl_window *w, int64_t at) {
    int64_t digit[PL_RANK_MAX], out = 0;
    for (int d = w->n - 1; d >= 0; d--) {
        digit[d] = at % w->in[d];
        at /= w->in[d];
    }
    for (int d = w->n - 1; d >= 0; d--)
        out = out * w->in[d] + digit[d];
    return out;
}

static gathered gather(const any_job *j, const pl_f64 *x, const int64_t *cell) {
    const pl_window *w = j->w;
    gathered g = { j->rule->kind == PL_POOL_MAX ? -HUGE_VAL : 0, -1, 1 };
    int64_t first[PL_RANK_MAX], n_taps[PL_RANK_MAX], tap[PL_RANK_MAX], seen = 1;
    for (int d = 0; d < w->n; d++) {
        int64_t last = 0, padded_first = 0;
        if (j->rule->count_include_pad) {
            pl_window_taps_in(w, d, cell[d], -w->pad_begin[d], w->in[d] + w->pad_end[d],
                              &padded_first, &last);
            g.count *= (double)(last - padded_first);
        }
        pl_window_taps_in(w, d, cell[d], 0, w->in[d], &first[d], &last);
        n_taps[d] = last - first[d];
        seen *= n_taps[d];
        tap[d] = first[d];
    }
    if (!j->rule->count_include_pad) g.count = (double)seen;
    if (seen == 0) return g;
    int64_t offset[PL_RANK_MAX] = { 0 };
    do {
        int64_t at = 0;
        for (int d = 0; d < w->n; d++)
            tap[d] = first[d] + offset[d];
        if (pl_window_at(w, cell, tap, &at)) take(j->rule, x[at], at, &g);
    } while (pl_window_next(w->n, n_taps, offset));
    return g;
}

static void any_planes(void *ctx, int64_t begin, int64_t end) {
    const any_job *j = ctx;
    for (int64_t p = begin; p < end; p++) {
        int64_t cell[PL_RANK_MAX] = { 0 };
        for (int64_t o = 0; o < j->n_out; o++) {
            const gathered g = gather(j, j->x + p * j->n_in, cell);
            double v = g.value;
            if (j->rule->kind == PL_POOL_AVERAGE) v = g.value / g.count;
            if (j->rule->kind == PL_POOL_LP && j->rule->p != 1) {
                v = j->rule->p == 2 ? sqrt(g.value) : pow(g.value, 1 / j->rule->p);
            }
            j->y[p * j->n_out + o] = v;
            if (j->indices != NULL) {
                const int64_t at =
                    g.at >= 0 && j->rule->column_major ? column_major(j->w, g.at) : g.at;
                j->indices[p * j->n_out + o] = g.at < 0 ? -1 : p * j->n_in + at;
            }
            (void)pl_window_next(j->w->n, j->w->out, cell);
        }
    }
}

void pl_pool_any(pl_pool *pool, const pl_window *w, const pl_pool_rule *rule, int64_t planes,
                 const pl_f64 *x, pl_f64 *y, pl_i64 *indices) {
    any_job job = { w, rule, 1, pl_window_cells(w), x, y, indices };
    for (int d = 0; d < w->n; d++)
        job.n_in *= w->in[d];
    pl_pool_for(pool, planes, 1, any_planes, &job);
}

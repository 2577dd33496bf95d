/* Error bound of com.microsoft MoE and QMoE. Each expert is two products with an activation
 * between them, whose slope is at most 1.13; experts are added with weights whose relative error is
 * twice that of the router. Where the choice of experts is within the error of the router, either
 * choice is right, and the bound covers both. */
#include <math.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/lib/bound_nn.h"
#include "ops/microsoft/moe.h"
#include "ops/microsoft/moe_rules.h"

#define SLOPE 1.13 /* the largest of Gelu's; SiLU's is 1.1 */

typedef struct moe_bound {
    pl_bound *c;
    pl_moe m;
    pl_moe_weights fc1, fc2, fc3;
    const double *x, *ex, *router, *e_router, *mixing, *e_mixing, *y;
    const double *eb1, *eb2, *eb3;
    double *e;
    int64_t room; /* doubles of scratch for a token */
    double *scratch;
    pl_moe_route *routes;
    int64_t *order;
} moe_bound;

/* y = W x + bias with its bound, for one token. low: the weights were unpacked to a type below
 * float. */
static void dots(const moe_bound *b, const pl_moe_weights *w, int64_t expert, const double *x,
                 const double *ex, const double *e_bias, double *row, double *y, double *e) {
    const pl_moe_layer *l = w->layer;
    const double chain = b->c->u_acc * pl_b_chain((double)l->columns + 1);
    const double low = b->c->u > b->c->u_acc ? b->c->u : 0;
    for (int64_t r = 0; r < l->rows; r++) {
        double sum = 0, sizes = 0, squares = 0;
        pl_moe_row(w, expert, r, row);
        for (int64_t i = 0; i < l->columns; i++) {
            const double term = row[i] * x[i], inherited = ex == NULL ? 0 : row[i] * ex[i];
            sum += term;
            sizes += fabs(term);
            squares += inherited * inherited + low * low * term * term;
        }
        const int64_t at = expert * l->rows + r;
        const double bias = w->bias == NULL ? 0 : w->bias[at];
        y[r] = sum + bias;
        e[r] = chain * (sizes + fabs(bias)) + sqrt(squares) + (e_bias == NULL ? 0 : e_bias[at]) +
               b->c->u * fabs(y[r]);
    }
}

static double clipped(double x, double limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

/* The error of an activation: slopes times the errors of its factors, and its own roundings. */
static double activation_error(const moe_bound *b, const double *h, const double *eh,
                               const double *l, const double *el, int64_t i, double y) {
    const pl_moe *m = &b->m;
    const double own = 6 * b->c->u * fabs(y);
    if (m->act != PL_MOE_SWIGLU) {
        const double slope = m->act == PL_MOE_GELU || m->act == PL_MOE_SILU ? SLOPE : 1;
        /* Gelu subtracts near numbers below zero */
        const double lost = m->act == PL_MOE_GELU ? 4 * b->c->u_acc * fabs(h[i]) : 0;
        const double e = slope * eh[i] + lost;
        return l == NULL ? e + own : e * (fabs(l[i]) + el[i]) + slope * fabs(h[i]) * el[i] + own;
    }
    const int64_t at = m->fused && m->interleaved ? 2 * i : i;
    const int64_t other = !m->fused ? i : m->interleaved ? 2 * i + 1 : m->inter + i;
    const double linear = clipped(m->fused ? h[other] : l[other], m->limit);
    const double e_linear = m->fused ? eh[other] : el[other];
    const double gate = h[at] > m->limit ? m->limit : h[at];
    const double swish = fabs(gate / (1 + exp(-m->alpha * gate)));
    return SLOPE * eh[at] * (fabs(linear + m->beta) + e_linear) +
           (swish + 8 * b->c->u * swish) * (e_linear + b->c->u * fabs(linear + m->beta)) + own;
}

/* f = the result of an expert for a token, and its bound. */
static void expert_of(const moe_bound *b, int64_t expert, int64_t token, double *scratch,
                      double **f, double **e) {
    const pl_moe *m = &b->m;
    const int64_t most = pl_i64_max(m->fc1.rows, m->hidden), row = pl_i64_max(m->hidden, m->inter);
    double *h = scratch, *eh = h + most, *l = eh + most, *el = l + m->inter, *a = el + m->inter;
    double *ea = a + m->inter, *weights = ea + m->inter;
    *f = weights + row;
    *e = *f + m->hidden;
    const double *x = b->x + token * m->hidden;
    const double *ex = b->ex == NULL ? NULL : b->ex + token * m->hidden;
    const bool gated = m->fc3.rows > 0;
    dots(b, &b->fc1, expert, x, ex, b->eb1, weights, h, eh);
    if (gated) dots(b, &b->fc3, expert, x, ex, b->eb3, weights, l, el);
    for (int64_t i = 0; i < m->inter; i++) {
        a[i] = pl_moe_activate(m, h, gated ? l : NULL, i);
        ea[i] = activation_error(b, h, eh, gated ? l : NULL, el, i, a[i]);
    }
    dots(b, &b->fc2, expert, a, ea, b->eb2, weights, *f, *e);
}

/* Relative error of the weights of a token's experts. */
static double weight_error(const moe_bound *b, int64_t token) {
    const pl_moe *m = &b->m;
    const double own = b->c->u_acc * ((double)m->experts + 8);
    if (b->mixing != NULL) return own;
    return own +
           (b->e_router == NULL ? 0 : 2 * pl_b_worst(b->e_router + token * m->experts, m->experts));
}

static double router_error(const moe_bound *b, int64_t token, int64_t expert) {
    const int64_t at = token * b->m.experts + expert;
    return (b->e_router == NULL ? 0 : b->e_router[at]) +
           4 * b->c->u_acc * (1 + fabs(b->router[at]));
}

static void add(const moe_bound *b, int64_t token, const double *f, const double *e, double weight,
                double e_weight, bool whole) {
    double *out = b->e + token * b->m.hidden;
    for (int64_t i = 0; i < b->m.hidden; i++)
        out[i] += whole ? weight * (fabs(f[i]) + e[i])
                        : weight * e[i] + (e_weight + b->c->u_acc * 4) * fabs(f[i]);
}

/* Experts beyond the k that errors could bring in; those of the k that they could drop. */
static void add_doubtful(const moe_bound *b, int64_t token, const pl_moe_route *routes,
                         const int64_t *order, double *scratch) {
    const pl_moe *m = &b->m;
    const double *router = b->router + token * m->experts;
    const int64_t last = routes[m->k - 1].expert;
    const double edge = router[last], e_edge = router_error(b, token, last);
    double *f = NULL, *e = NULL, best = -HUGE_VAL, e_best = 0;
    for (int64_t i = m->k; i < m->experts; i++) {
        const int64_t j = order[i];
        const double own = router_error(b, token, j);
        if (router[j] + own < edge - e_edge) continue;
        if (router[j] > best) best = router[j], e_best = own;
        expert_of(b, j, token, scratch, &f, &e);
        add(b, token, f, e, fabs(routes[m->k - 1].weight) * 1.01, 0, true);
    }
    for (int64_t i = 0; best > -HUGE_VAL && i < m->k; i++) {
        const int64_t j = routes[i].expert;
        if (router[j] - router_error(b, token, j) > best + e_best) continue;
        expert_of(b, j, token, scratch, &f, &e);
        add(b, token, f, e, fabs(routes[i].weight) * 1.01, 0, true);
    }
}

static void bound_tokens(void *ctx, int64_t begin, int64_t end) {
    const moe_bound *b = ctx;
    const pl_moe *m = &b->m;
    for (int64_t t = begin; t < end; t++) {
        double *scratch = b->scratch + t * b->room, *f = NULL, *e = NULL;
        pl_moe_route *routes = b->routes + t * m->k;
        int64_t *order = b->order + t * m->experts;
        const double *mixing = b->mixing == NULL ? NULL : b->mixing + t * m->experts;
        pl_moe_routes(m, b->router + t * m->experts, mixing, routes, order);
        const double rel = weight_error(b, t);
        for (int64_t i = 0; i < m->k; i++) {
            const double w = fabs(routes[i].weight);
            const double given =
                b->e_mixing == NULL ? 0 : b->e_mixing[t * m->experts + routes[i].expert];
            expert_of(b, routes[i].expert, t, scratch, &f, &e);
            add(b, t, f, e, w, w * rel + given, false);
        }
        if (m->k < m->experts) add_doubtful(b, t, routes, order, scratch);
        for (int64_t i = t * m->hidden; i < (t + 1) * m->hidden; i++)
            b->e[i] += pl_b_round(b->c, b->y[i]);
    }
}

static pl_status read_inputs(pl_bound *c, moe_bound *b) {
    pl_eval as_eval = { .node = c->node,
                        .n_in = c->n_in,
                        .in = c->in,
                        .pool = c->pool,
                        .scratch = c->scratch,
                        .fp64 = true,
                        .err = c->err };
    PL_TRY(pl_moe_of(&as_eval, &b->m));
    PL_TRY(pl_moe_weights_of(&as_eval, &b->m.fc1, &b->fc1));
    PL_TRY(pl_moe_weights_of(&as_eval, &b->m.fc2, &b->fc2));
    PL_TRY(pl_moe_weights_of(&as_eval, &b->m.fc3, &b->fc3));
    b->x = pl_b_x(c, 0);
    b->ex = pl_b_e(c, 0);
    b->router = pl_b_x(c, 1);
    b->e_router = pl_b_e(c, 1);
    if (b->m.mixing >= 0) {
        b->mixing = pl_b_x(c, b->m.mixing);
        b->e_mixing = pl_b_e(c, b->m.mixing);
    }
    b->y = pl_b_y(c, 0);
    b->eb1 = pl_b_e(c, b->m.fc1.bias);
    b->eb2 = pl_b_e(c, b->m.fc2.bias);
    b->eb3 = b->m.fc3.rows > 0 ? pl_b_e(c, b->m.fc3.bias) : NULL;
    const bool missing = b->m.mixing >= 0 && b->mixing == NULL;
    return b->x == NULL || b->router == NULL || b->y == NULL || missing ? pl_fail_memory(c->err, 1)
                                                                        : PL_OK;
}

pl_status pl_moe_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    moe_bound b = { .c = c };
    if (y == NULL || y->n_elements == 0) return PL_OK;
    PL_TRY(read_inputs(c, &b));
    const pl_moe *m = &b.m;
    b.room = 2 * pl_i64_max(m->fc1.rows, m->hidden) + 4 * m->inter +
             pl_i64_max(m->hidden, m->inter) + 2 * m->hidden;
    b.scratch = pl_arena_array(c->scratch, (size_t)(b.room * m->tokens), sizeof(double));
    b.routes = pl_arena_array(c->scratch, (size_t)(m->k * m->tokens), sizeof(*b.routes));
    b.order = pl_arena_array(c->scratch, (size_t)(m->experts * m->tokens), sizeof(*b.order));
    if (b.scratch == NULL || b.routes == NULL || b.order == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &b.e));
    pl_pool_for(c->pool, m->tokens, 1, bound_tokens, &b);
    return PL_OK;
}

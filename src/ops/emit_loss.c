/* Emission of losses and of the steps of optimizers, computed in double as in their kernels. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

/* ---- losses ---- */

/* -log_prob[class] * weight[class] for every target; nothing where the class is ignored. */
static pl_status losses(pl_emit *c, pl_ref log_prob) {
    char expr[200];
    int64_t dims[PL_EMIT_RANK_MAX], inner = 1;
    pl_emit_in_dims(c, 0, dims);
    for (int d = 2; d < pl_emit_rank(c, 0); d++)
        inner *= dims[d];
    const int64_t seen[2] = { dims[0], inner };
    const long long classes = dims[1];
    const pl_ref target = pl_emit_reshape(c, pl_emit_in(c, 1), 2, seen);
    const bool ignores = pl_attr_has(c->node, "ignore_index");
    snprintf(expr, sizeof(expr), "$0 == %lld ? -1 : px_within($0, 0, %lld, $F)",
             (long long)pl_attr_int(c->node, "ignore_index"), classes - 1);
    if (!ignores) snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", classes - 1);
    const pl_ref class = pl_emit_map1(c, PL_I64, expr, target);
    const pl_ref safe = pl_emit_map1(c, PL_I64, "$0 < 0 ? 0 : $0", class);
    snprintf(expr, sizeof(expr), "($0 * %lld + $1) * %lld + $2", classes, (long long)inner);
    const pl_ref at = pl_emit_map3(c, PL_I64, expr, pl_emit_iota(c, 2, 0, dims[0]), safe,
                                   pl_emit_iota(c, 2, 1, inner));
    const pl_ref p = pl_emit_load(c, log_prob, at);
    pl_ref weight = pl_emit_has(c, 2) ? pl_emit_load(c, pl_emit_in(c, 2), safe)
                                      : pl_emit_constant(c, PL_F64, 1);
    weight = pl_emit_map2(c, PL_F64, "$0 < 0 ? 0 : $1", class, weight);
    const pl_ref loss = pl_emit_map3(c, PL_F64, "$0 < 0 ? 0 : -(double)$1 * $2", class, p, weight);
    if (pl_attr_string_is(c->node, "reduction", "none")) {
        pl_emit_out_dims(c, 0, dims);
        const pl_ref y = pl_emit_map1(c, c->out[0]->dtype, "$0", loss);
        return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
    }
    pl_ref y = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, loss, 3);
    if (pl_attr_string_is(c->node, "reduction", "mean")) {
        y = pl_emit_map2(c, PL_F64, "$0 / $1", y,
                         pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, weight, 3));
    }
    return pl_emit_out(c, 0, pl_emit_scalar(c, pl_emit_map1(c, c->out[0]->dtype, "$0", y)));
}

pl_status pl_emit_nll_loss(pl_emit *c) {
    return losses(c, pl_emit_in(c, 0));
}

pl_status pl_emit_cross_entropy(pl_emit *c) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, 2);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_down_$S($0 - $1)", x, peak);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, 2);
    const pl_ref rest = pl_emit_map1(c, PL_F64, "__builtin_log($0)", sum);
    const pl_ref log_prob = pl_emit_map3(c, wide, "(double)$0 - (double)$1 - $2", x, peak, rest);
    if (pl_emit_wants(c, 1)) {
        PL_TRY(pl_emit_out(c, 1, pl_emit_map1(c, c->out[1]->dtype, "$0", log_prob)));
    }
    return losses(c, log_prob);
}

/* ---- optimizers ---- */

/* What a step sees: R and T, then n of each kind; outputs X and the states. */
typedef struct step {
    pl_ref rate, count, x, g, v, h;
} step;
typedef void (*step_rule)(pl_emit *c, step *s);

static pl_status steps(pl_emit *c, int kinds, step_rule rule) {
    const int n = (c->n_in - 2) / kinds;
    if (pl_emit_elements(c->in[0]) != 1 || pl_emit_elements(c->in[1]) != 1) {
        return pl_emit_decline(c, "R and T are not one number each");
    }
    for (int k = 0; k < n; k++) {
        step s = { .rate = pl_emit_scalar(c, pl_emit_in(c, 0)),
                   .count = pl_emit_scalar(c, pl_emit_in(c, 1)),
                   .x = pl_emit_in(c, 2 + k),
                   .g = pl_emit_in(c, 2 + n + k),
                   .v = pl_emit_in(c, 2 + 2 * n + k),
                   .h = kinds == 4 ? pl_emit_in(c, 2 + 3 * n + k) : -1 };
        char expr[80];
        snprintf(expr, sizeof(expr), "%a * (double)$0 + (double)$1",
                 pl_attr_float(c->node, "norm_coefficient"));
        s.g = pl_emit_map2(c, PL_F64, expr, s.x, s.g);
        rule(c, &s);
        const pl_ref out[] = { s.x, s.v, s.h };
        for (int i = 0; i < kinds - 1; i++) {
            const int to = i * n + k;
            if (!pl_emit_wants(c, to)) continue;
            PL_TRY(pl_emit_out(c, to, pl_emit_map1(c, c->out[to]->dtype, "$0", out[i])));
        }
    }
    return PL_OK;
}

static void adagrad(pl_emit *c, step *s) {
    char expr[160];
    snprintf(expr, sizeof(expr), "(double)$0 / (1 + (double)$1 * %a)",
             pl_attr_float(c->node, "decay_factor"));
    const pl_ref rate = pl_emit_map2(c, PL_F64, expr, s->rate, s->count);
    s->v = pl_emit_map2(c, PL_F64, "(double)$0 + $1 * $1", s->v, s->g);
    snprintf(expr, sizeof(expr), "(double)$0 - $1 * $2 / (__builtin_sqrt($3) + %a)",
             pl_attr_float(c->node, "epsilon"));
    s->x = pl_emit_map(c, PL_F64, expr, 4, (const pl_ref[]){ s->x, rate, s->g, s->v });
}
pl_status pl_emit_adagrad(pl_emit *c) {
    return steps(c, 3, adagrad);
}

static void adam(pl_emit *c, step *s) {
    char expr[260];
    const double alpha = pl_attr_float(c->node, "alpha"), beta = pl_attr_float(c->node, "beta");
    snprintf(expr, sizeof(expr),
             "$1 > 0 ? (double)$0 * (__builtin_sqrt(1 - __builtin_pow(%a, $1)) / (1 - "
             "__builtin_pow(%a, $1))) : (double)$0",
             beta, alpha);
    const pl_ref rate = pl_emit_map2(c, PL_F64, expr, s->rate, s->count);
    snprintf(expr, sizeof(expr), "%a * (double)$0 + %a * $1", alpha, 1 - alpha);
    s->v = pl_emit_map2(c, PL_F64, expr, s->v, s->g);
    snprintf(expr, sizeof(expr), "%a * (double)$0 + %a * $1 * $1", beta, 1 - beta);
    s->h = pl_emit_map2(c, PL_F64, expr, s->h, s->g);
    snprintf(expr, sizeof(expr), "((double)$0 - $1 * $2 / (__builtin_sqrt($3) + %a)) * %a",
             pl_attr_float(c->node, "epsilon"),
             1 - pl_attr_float(c->node, "norm_coefficient_post"));
    s->x = pl_emit_map(c, PL_F64, expr, 4, (const pl_ref[]){ s->x, rate, s->v, s->h });
}
pl_status pl_emit_adam(pl_emit *c) {
    return steps(c, 4, adam);
}

static void momentum(pl_emit *c, step *s) {
    char expr[160];
    const double alpha = pl_attr_float(c->node, "alpha");
    snprintf(expr, sizeof(expr), "%a * (double)$0 + ($2 > 0 ? %a : 1) * $1", alpha,
             pl_attr_float(c->node, "beta"));
    s->v = pl_emit_map3(c, PL_F64, expr, s->v, s->g, s->count);
    snprintf(expr, sizeof(expr), "(double)$0 - (double)$1 * ($2 + %a * $3)", alpha);
    const bool nesterov = pl_attr_string_is(c->node, "mode", "nesterov");
    s->x = pl_emit_map(c, PL_F64, nesterov ? expr : "(double)$0 - (double)$1 * $3", 4,
                       (const pl_ref[]){ s->x, s->rate, s->g, s->v });
}
pl_status pl_emit_momentum(pl_emit *c) {
    if (!pl_attr_string_is(c->node, "mode", "nesterov") &&
        !pl_attr_string_is(c->node, "mode", "standard")) {
        return pl_emit_decline(c, "mode");
    }
    return steps(c, 3, momentum);
}

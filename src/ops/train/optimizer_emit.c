/* Emission of optimizer steps, computed in double as in their kernels. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/train/optimizer_rules.h"

/* Inputs of a step: R and T, then n of each kind; outputs X and the states. */
typedef struct step {
    pl_ref rate, count, x, g, v, h;
} step;
typedef void (*step_rule)(pl_emit *c, step *s);

static pl_status steps(pl_emit *c, int kinds, step_rule rule) {
    const int n = (c->n_in - 2) / kinds;
    if (pl_emit_elements(c->in[0]) != 1 || pl_emit_elements(c->in[1]) != 1) {
        return pl_emit_decline(c, "R and T are not single numbers");
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

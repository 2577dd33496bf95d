/* Shape rules of com.microsoft MoE and QMoE: shapes of all inputs follow from hidden size, inner
 * size, number of experts and bits. */
#include <math.h>

#include "base/size.h"
#include "ops/infer.h"
#include "ops/microsoft/moe_rules.h"

enum { LIMIT = INT32_MAX };

/* Number of elements of input i; -1 when not known. */
static int64_t count_of(const pl_infer *c, int i) {
    const int rank = pl_infer_rank(c, i);
    int64_t n = 1;
    if (rank < 0) return -1;
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = pl_infer_dim(c, i, d);
        if (!pl_dim_known(dim)) return -1;
        if (!pl_i64_mul(n, dim.value, &n)) return INT64_MAX;
    }
    return n;
}

static pl_status meet_count(const pl_infer *c, int i, const char *what, int64_t expected) {
    const int64_t n = count_of(c, i);
    if (n < 0 || n == expected) return PL_OK;
    return pl_infer_fail(c, "%s has %lld elements, expected %lld", what, (long long)n,
                         (long long)expected);
}

typedef struct sizes {
    int64_t experts, hidden, inter, bits, block; /* bits 0: floats; block 0: one for each row */
} sizes;

typedef struct ports {
    int weights, bias, scales, zeros;
    const char *name;
} ports;

static pl_status check_layer(const pl_infer *c, const sizes *s, const ports *p, int64_t rows,
                             int64_t columns) {
    if (!pl_infer_has(c, p->weights)) return PL_OK;
    int64_t per_expert = 0, all = 0;
    if (!pl_i64_mul(rows, columns, &per_expert) || !pl_i64_mul(per_expert, s->experts, &all))
        return pl_infer_fail(c, "%s is too large", p->name);
    if (s->bits > 0 && columns % (8 / s->bits) != 0)
        return pl_infer_fail(c, "%s: %lld codes of %lld bits do not fill bytes", p->name,
                             (long long)columns, (long long)s->bits);
    if (pl_infer_rank(c, p->weights) >= 0 && pl_infer_rank(c, p->weights) != 3)
        return pl_infer_fail(c, "weights of %s have rank %d, expected 3", p->name,
                             pl_infer_rank(c, p->weights));
    PL_TRY(meet_count(c, p->weights, p->name, s->bits > 0 ? all / (8 / s->bits) : all));
    PL_TRY(meet_count(c, p->bias, "a bias", s->experts * rows));
    if (s->bits == 0) return PL_OK;
    if (!pl_infer_has(c, p->scales)) return pl_infer_fail(c, "%s has no scales", p->name);
    const int rank = pl_infer_rank(c, p->scales);
    int64_t blocks = 1;
    if (rank == 3) {
        const pl_dim last = pl_infer_dim(c, p->scales, 2);
        if (pl_dim_known(last)) blocks = last.value;
    } else if (rank >= 0 && rank != 2) {
        return pl_infer_fail(c, "scales of %s have rank %d, expected 2 or 3", p->name, rank);
    }
    if (blocks > 1 && (s->block < 1 || blocks != (columns + s->block - 1) / s->block))
        return pl_infer_fail(c, "%s has %lld scales for a row of %lld in blocks of %lld", p->name,
                             (long long)blocks, (long long)columns, (long long)s->block);
    if (blocks < 1) return pl_infer_fail(c, "%s has no scales", p->name);
    PL_TRY(meet_count(c, p->scales, "scales", s->experts * rows * blocks));
    const int64_t n = count_of(c, p->zeros);
    const int64_t by_row = s->experts * rows * ((blocks * s->bits + 7) / 8);
    const int64_t by_rows = s->experts * ((rows * s->bits + 7) / 8);
    if (n < 0 || n == by_row || (blocks == 1 && n == by_rows)) return PL_OK;
    return pl_infer_fail(c, "%s has %lld bytes of zero points, expected %lld", p->name,
                         (long long)n, (long long)(blocks == 1 ? by_rows : by_row));
}

static pl_status check_router(const pl_infer *c, int i, int64_t tokens, int64_t experts) {
    if (pl_infer_rank(c, i) < 0) return PL_OK;
    if (pl_infer_rank(c, i) != 2)
        return pl_infer_fail(c, "input %d has rank %d, expected 2", i, pl_infer_rank(c, i));
    const pl_dim rows = pl_infer_dim(c, i, 0), n = pl_infer_dim(c, i, 1);
    if ((pl_dim_known(rows) && tokens >= 0 && rows.value != tokens) ||
        (pl_dim_known(n) && n.value != experts))
        return pl_infer_fail(c, "input %d is not (%lld tokens, %lld experts)", i, (long long)tokens,
                             (long long)experts);
    return PL_OK;
}

static pl_status rule(pl_infer *c, sizes *s, const ports layers[3]) {
    const int rank = pl_infer_rank(c, 0);
    const bool fused = pl_attr_string_is(c->node, "activation_type", "swiglu") &&
                       pl_attr_int(c->node, "swiglu_fusion") != 0;
    if (rank >= 0 && rank != 2 && rank != 3)
        return pl_infer_fail(c, "the input has rank %d, expected 2 or 3", rank);
    if (pl_infer_rank(c, 1) >= 0 && pl_infer_rank(c, 1) != 2)
        return pl_infer_fail(c, "router_probs has rank %d, expected 2", pl_infer_rank(c, 1));
    const pl_dim hidden = rank < 0 ? PL_DIM_UNKNOWN : pl_infer_dim(c, 0, rank - 1);
    const pl_dim experts = pl_infer_dim(c, 1, 1);
    const int64_t k = pl_attr_int(c->node, "k"), fc2 = count_of(c, layers[1].weights);
    if (pl_dim_known(experts) && (k < 1 || k > experts.value || experts.value > LIMIT))
        return pl_infer_fail(c, "k is %lld of %lld experts", (long long)k,
                             (long long)experts.value);
    if (!pl_dim_known(hidden) || !pl_dim_known(experts) || fc2 < 0)
        return pl_infer_set_like(c, 0, 0);
    s->hidden = hidden.value;
    s->experts = experts.value;
    if (s->hidden < 1 || s->hidden > LIMIT || fc2 > INT64_MAX / 8)
        return pl_infer_fail(c, "the hidden size is %lld", (long long)s->hidden);
    const int64_t n = s->bits > 0 ? fc2 * (8 / s->bits) : fc2;
    s->inter = n / s->experts / s->hidden;
    if (s->inter < 1 || s->inter > LIMIT)
        return pl_infer_fail(c,
                             "the weights of fc2 do not fit a hidden size of %lld and %lld experts",
                             (long long)s->hidden, (long long)s->experts);
    const int64_t elements = count_of(c, 0), tokens = elements < 0 ? -1 : elements / s->hidden;
    PL_TRY(check_router(c, 1, tokens, s->experts));
    if (s->bits > 0) PL_TRY(check_router(c, 14, tokens, s->experts));
    PL_TRY(check_layer(c, s, &layers[0], fused ? 2 * s->inter : s->inter, s->hidden));
    PL_TRY(check_layer(c, s, &layers[1], s->hidden, s->inter));
    PL_TRY(check_layer(c, s, &layers[2], s->inter, s->hidden));
    return pl_infer_set_like(c, 0, 0);
}

pl_status pl_moe_infer(pl_infer *c) {
    static const ports layers[3] = { { 2, 3, -1, -1, "fc1_experts_weights" },
                                     { 4, 5, -1, -1, "fc2_experts_weights" },
                                     { 6, 7, -1, -1, "fc3_experts_weights" } };
    sizes s = { 0 };
    return rule(c, &s, layers);
}

pl_status pl_qmoe_infer(pl_infer *c) {
    static const ports layers[3] = { { 2, 4, 3, 11, "fc1_experts_weights" },
                                     { 5, 7, 6, 12, "fc2_experts_weights" },
                                     { 8, 10, 9, 13, "fc3_experts_weights" } };
    sizes s = { .bits = pl_attr_int(c->node, "expert_weight_bits"),
                .block = pl_attr_int(c->node, "block_size") };
    if (s.bits != 2 && s.bits != 4 && s.bits != 8)
        return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node, "expert_weight_bits is %lld",
                            (long long)s.bits);
    if (s.block < 0 || s.block > LIMIT)
        return pl_infer_fail(c, "block_size is %lld", (long long)s.block);
    return rule(c, &s, layers);
}

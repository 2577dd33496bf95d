/* Gradient of LinearAttention, expanded step by step. */
#include <math.h>

#include "ops/lib/grad_nn.h"
#include "ops/nn/linear_attention_rules.h"

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

enum { L_QUERY, L_KEY, L_VALUE, L_PAST, L_DECAY, L_BETA, L_ERASE };

/* Step t of (batch, len, heads * n) as (batch, heads, a, b). */
static pl_value *step_of(pl_grad *c, pl_value *x, int64_t t, int64_t heads, int64_t a, int64_t b) {
    const int64_t dims[4] = { 0, heads, a, b };
    return pl_g_reshape(c, pl_g_cut(c, x, 1, t, t + 1), dims, 4);
}

pl_status pl_linear_attention_grad(pl_grad *c) {
    const pl_node *node = c->node;
    const int64_t q_heads = pl_attr_int(node, "q_num_heads");
    const int64_t heads = pl_attr_int(node, "kv_num_heads"), group = q_heads / heads;
    const int64_t len = pl_g_dim(c, node->in[L_QUERY], 1), batch = pl_g_dim(c, node->in[0], 0);
    const int64_t dk = pl_g_dim(c, node->in[L_QUERY], 2) / q_heads;
    const int64_t dv = pl_g_dim(c, node->in[L_VALUE], 2) / heads;
    double scale = pl_attr_float(node, "scale");
    if (c->st != PL_OK) return c->st;
    if (scale == 0) scale = 1 / sqrt((double)dk);
    if (len > 4096 || len < 1)
        return pl_g_fail(c, "is unrolled step by step, and %lld steps are too many",
                         (long long)len);
    pl_value **steps = pl_arena_array(c->graph->model->arena, (size_t)len, sizeof(*steps));
    if (steps == NULL) return pl_fail_memory(c->err, (size_t)len);
    const size_t mark = pl_g_mark(c);
    pl_value *state = input(c, L_PAST), *y[2] = { NULL, NULL };
    pl_g_table zeros;
    if (state == NULL) {
        if (!pl_g_table_new(c, &zeros, 4, (const int64_t[]){ batch, heads, dk, dv })) return c->st;
        state = pl_g_table_value(c, &zeros, node->in[0]->type->dtype);
    }
    for (int64_t t = 0; t < len && c->st == PL_OK; t++) {
        pl_value *key = step_of(c, node->in[L_KEY], t, heads, dk, 1);
        pl_value *v = step_of(c, node->in[L_VALUE], t, heads, 1, dv);
        if (input(c, L_DECAY) != NULL) {
            pl_value *g = step_of(c, node->in[L_DECAY], t, heads, -1, 1);
            state = pl_g_mul(c, state, pl_g1(c, "Exp", g));
        }
        if (input(c, L_BETA) != NULL) {
            const int64_t cols = pl_g_dim(c, node->in[L_BETA], 2);
            pl_value *beta = step_of(c, node->in[L_BETA], t, cols == 1 ? 1 : heads, 1, 1);
            pl_value *from = key;
            if (input(c, L_ERASE) != NULL)
                from = pl_g_mul(c, key, step_of(c, node->in[L_ERASE], t, heads, dk, 1));
            pl_value *known = pl_g2(c, "MatMul", pl_g_swap_last(c, from), state);
            v = pl_g_mul(c, beta, pl_g_sub(c, v, known));
        }
        state = pl_g_add(c, state, pl_g2(c, "MatMul", key, v));
        pl_value *q = step_of(c, node->in[L_QUERY], t, heads, group, dk);
        pl_value *read = pl_g_scaled(c, pl_g2(c, "MatMul", q, state), scale);
        steps[t] = pl_g_reshape(c, read, (const int64_t[]){ 0, 1, -1 }, 3);
    }
    y[0] = pl_g_concat(c, steps, (size_t)len, 1);
    if (node->n_out > 1 && c->dy[1] != NULL) y[1] = state;
    return pl_g_expanded(c, mark, y);
}

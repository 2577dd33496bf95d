/* Gradient of com.microsoft GroupQueryAttention, expanded into simple operators.
 *
 * It is causal. Keys and values are in a buffer: the valid part of the past, the new ones,
 * zeros. */
#include <math.h>

#include "ops/lib/grad_move.h"
#include "ops/lib/grad_nn.h"
#include "ops/microsoft/ms_attention_rules.h"

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, SEQLENS, TOTAL, COS, SIN, POSITION, BIAS, SINK };

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

typedef struct group {
    pl_grad *c;
    int64_t batch, heads, kv_heads, len, size, total, past_room, capacity;
    bool first_prompt;
    pl_value *past_len;  /* (batch), int64 */
    pl_value *q, *k, *v; /* (batch, heads, len, size) */
} group;

static pl_value *line(pl_grad *c, int64_t n) {
    pl_g_table t;
    if (!pl_g_table_new(c, &t, 1, &n)) return NULL;
    for (int64_t i = 0; i < n; i++)
        t.data[i] = (double)i;
    return pl_g_table_value(c, &t, PL_I64);
}

/* (batch, len, n * size) as (batch, n, len, size). */
static pl_value *split(const group *g, pl_value *x, int64_t n) {
    static const int64_t perm[4] = { 0, 2, 1, 3 };
    x = pl_g_reshape(g->c, x, (const int64_t[]){ 0, 0, n, g->size }, 4);
    return pl_g_transpose(g->c, x, perm, 4);
}

static bool load(group *g) {
    pl_grad *c = g->c;
    const pl_node *node = c->node;
    const pl_tensor *total = pl_g_known(input(c, TOTAL));
    g->heads = pl_attr_int(node, "num_heads");
    g->kv_heads = pl_attr_int(node, "kv_num_heads");
    g->batch = pl_g_dim(c, node->in[QUERY], 0);
    g->len = pl_g_dim(c, node->in[QUERY], 1);
    const int64_t hidden = pl_g_dim(c, node->in[QUERY], 2);
    if (c->st == PL_OK && total == NULL)
        (void)pl_g_fail(c, "needs total_sequence_length to be a constant");
    if (c->st == PL_OK && pl_attr_int(node, "local_window_size") == 0)
        (void)pl_g_fail(c, "is not supported for a window of no keys");
    if (c->st != PL_OK) return false;
    g->total = g->capacity = pl_tensor_get_i64(total, 0);
    g->size = hidden / (g->heads + (input(c, KEY) != NULL ? 0 : 2 * g->kv_heads));
    g->first_prompt = g->len == g->total;
    if (input(c, PAST_KEY) != NULL) g->past_room = pl_g_dim(c, node->in[PAST_KEY], 2);
    if (g->past_room > g->capacity) g->capacity = g->past_room;
    pl_value *lens = pl_g_cast(c, node->in[SEQLENS], PL_I64);
    const double shift = (double)(1 - g->len);
    g->past_len = g->first_prompt ? pl_g_mul(c, lens, pl_g_int(c, 0)) : pl_g_plus(c, lens, shift);
    pl_value *part[3] = { node->in[QUERY], input(c, KEY), input(c, VALUE) };
    if (part[1] == NULL) { /* q, k and v packed in one input */
        const int64_t q = g->heads * g->size, kv = g->kv_heads * g->size;
        part[0] = pl_g_cut(c, node->in[QUERY], 2, 0, q);
        part[1] = pl_g_cut(c, node->in[QUERY], 2, q, q + kv);
        part[2] = pl_g_cut(c, node->in[QUERY], 2, q + kv, q + 2 * kv);
    }
    g->q = split(g, part[0], g->heads);
    g->k = split(g, part[1], g->kv_heads);
    g->v = split(g, part[2], g->kv_heads);
    return c->st == PL_OK;
}

/* Rotates queries and keys by their index in the buffer, or by position_ids (for the first prompt
 * its first element, counting up). */
static void rotate(group *g) {
    static const int64_t flat[1] = { -1 };
    pl_grad *c = g->c;
    const int64_t axis = 1, half = pl_g_dim(c, input(c, COS), 1);
    pl_value *rows = pl_g_unsqueeze(c, g->past_len, &axis, 1);
    pl_value *ids = input(c, POSITION);
    if (ids != NULL)
        rows = g->first_prompt ? pl_g_cut(c, pl_g_reshape(c, ids, flat, 1), 0, 0, 1) : ids;
    if (ids == NULL || g->first_prompt) rows = pl_g_add(c, rows, line(c, g->len));
    if (ids != NULL && g->first_prompt) {
        rows = pl_g_reshape(c, rows, (const int64_t[]){ 1, -1 }, 2);
    }
    pl_value *cos = pl_g2(c, "Gather", input(c, COS), rows);
    pl_value *sin = pl_g2(c, "Gather", input(c, SIN), rows);
    g->q = pl_g_turned(c, g->q, cos, sin, g->size, half);
    g->k = pl_g_turned(c, g->k, cos, sin, g->size, half);
}

/* The buffer: row j is from the past, or new, or the row of zeros appended after both. */
static pl_value *join(const group *g, pl_value *past, pl_value *fresh) {
    pl_grad *c = g->c;
    const int64_t none[4] = { 0 }, one[4] = { 0, 0, 1, 0 }, axes[2] = { 1, 3 }, axis = 1;
    if (past == NULL && g->capacity == g->len) return fresh;
    pl_value *all = past == NULL ? fresh : pl_g_concat(c, (pl_value *[]){ past, fresh }, 2, 2);
    all = pl_g_pad(c, all, none, one, 4);
    pl_value *j = line(c, g->capacity), *from = pl_g_unsqueeze(c, g->past_len, &axis, 1);
    pl_value *end = pl_g_plus(c, from, (double)g->len);
    pl_value *new_row = pl_g_plus(c, pl_g_sub(c, j, from), (double)g->past_room);
    pl_value *zeros = pl_g_int(c, g->past_room + g->len);
    pl_value *at = pl_g3(c, "Where", pl_g2(c, "Less", j, end), new_row, zeros);
    at = pl_g3(c, "Where", pl_g2(c, "Less", j, from), j, at); /* batch, capacity */
    at = pl_g_unsqueeze(c, at, axes, 2);
    const int64_t shape[4] = { 1, g->kv_heads, 1, g->size };
    at = pl_g2(c, "Expand", at, pl_g_ints(c, shape, 4));
    return pl_g_op(c, "GatherElements", (pl_value *[]){ all, at }, 2, &PL_G_INT("axis", 2), 1);
}

/* Keys up to the query's own position, limited by the window: (batch, 1, len, total). */
static pl_value *visible(const group *g) {
    pl_grad *c = g->c;
    const int64_t window = pl_attr_int(c->node, "local_window_size"), axes[3] = { 1, 2, 3 },
                  one = 1;
    pl_value *key = line(c, g->total), *query = pl_g_unsqueeze(c, line(c, g->len), &one, 1);
    pl_value *end = pl_g_add(c, pl_g_unsqueeze(c, g->past_len, axes, 3), pl_g_plus(c, query, 1));
    pl_value *seen = pl_g2(c, "Less", key, end);
    if (window <= 0) return seen;
    pl_value *before = pl_g2(c, "Less", key, pl_g_plus(c, end, (double)-window));
    return pl_g2(c, "And", seen, pl_g1(c, "Not", before));
}

/* Softmax with the attention sink: one extra logit per head. */
static pl_value *softmax(const group *g, pl_value *s) {
    pl_grad *c = g->c;
    pl_value *sink = input(c, SINK);
    if (sink == NULL && pl_attr_int(c->node, "smooth_softmax") == 1) {
        pl_g_table zeros;
        if (pl_g_table_new(c, &zeros, 1, &g->heads))
            sink = pl_g_table_value(c, &zeros, s->type->dtype);
    }
    if (sink == NULL) return pl_g1_int(c, "Softmax", s, "axis", 3);
    const int64_t shape[4] = { g->batch, g->heads, g->len, 1 };
    sink = pl_g_reshape(c, sink, (const int64_t[]){ 1, g->heads, 1, 1 }, 4);
    sink = pl_g2(c, "Expand", sink, pl_g_ints(c, shape, 4));
    pl_value *p = pl_g_concat(c, (pl_value *[]){ s, sink }, 2, 3);
    return pl_g_cut(c, pl_g1_int(c, "Softmax", p, "axis", 3), 3, 0, g->total);
}

pl_status pl_ms_group_grad(pl_grad *c) {
    static const int64_t back[4] = { 0, 2, 1, 3 }, flat[3] = { 0, 0, -1 };
    const pl_node *node = c->node;
    const double cap = pl_attr_float(node, "softcap"), scale = pl_attr_float(node, "scale");
    group g = { .c = c };
    pl_value *y[4] = { NULL };
    const size_t mark = pl_g_mark(c);
    if (!load(&g)) return c->st;
    if (pl_attr_int(node, "do_rotary") != 0) rotate(&g);
    pl_value *keys = join(&g, input(c, PAST_KEY), g.k),
             *values = join(&g, input(c, PAST_VALUE), g.v);
    pl_value *k = pl_g_cut(c, keys, 2, 0, g.total), *v = pl_g_cut(c, values, 2, 0, g.total);
    pl_value *q = pl_g_reshape(c, g.q, (const int64_t[]){ 0, g.kv_heads, -1, g.size }, 4);
    q = pl_g_scaled(c, q, scale != 0 ? scale : 1 / sqrt((double)g.size)); /* attention_grad.c */
    pl_value *s = pl_g2(c, "MatMul", q, pl_g_swap_last(c, k));
    s = pl_g_reshape(c, s, (const int64_t[]){ 0, g.heads, g.len, g.total }, 4);
    if (cap > 0) s = pl_g_scaled(c, pl_g1(c, "Tanh", pl_g_scaled(c, s, 1 / cap)), cap);
    if (input(c, BIAS) != NULL) s = pl_g_add(c, s, input(c, BIAS));
    pl_value *seen = visible(&g);
    if (c->st != PL_OK) return c->st;
    pl_value *hidden = pl_g3(c, "Where", seen, s, pl_g_number(c, s, (double)-INFINITY));
    pl_value *p = softmax(&g, hidden);
    pl_value *rows = pl_g_reshape(c, p, (const int64_t[]){ 0, g.kv_heads, -1, g.total }, 4);
    y[0] = pl_g_reshape(c, pl_g2(c, "MatMul", rows, v),
                        (const int64_t[]){ 0, g.heads, g.len, g.size }, 4);
    y[0] = pl_g_reshape(c, pl_g_transpose(c, y[0], back, 4), flat, 3);
    for (uint32_t i = 1; i < 4 && i < node->n_out; i++) {
        if (c->dy[i] == NULL) continue;
        y[i] = i == 1 ? keys : i == 2 ? values : p;
        if (i == 3 && pl_attr_int(node, "qk_output") == 1) y[i] = pl_g_keep(c, seen, s);
    }
    return pl_g_expanded(c, mark, y);
}

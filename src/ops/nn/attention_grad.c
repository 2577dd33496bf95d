/* Gradients of Attention and RotaryEmbedding, expanded into products, softmax and sums. */
#include <math.h>

#include "ops/lib/grad_nn.h"
#include "ops/nn/attention_rules.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD };

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

/* ---- Attention ---- */

typedef struct attention {
    pl_grad *c;
    int rank; /* of Q */
    int64_t q_heads, kv_heads, q_len, kv_len, past_len, head_size, v_size;
    pl_value *q, *k, *v; /* (batch, heads, len, size) */
} attention;

/* (batch, len, heads * size) to (batch, heads, len, size). Without -1 in the shape: len may be
 * 0. */
static pl_value *split_heads(pl_grad *c, pl_value *x, int64_t heads, int64_t size) {
    static const int64_t perm[4] = { 0, 2, 1, 3 };
    const int64_t dims[4] = { 0, 0, heads, size };
    return pl_g_transpose(c, pl_g_reshape(c, x, dims, 4), perm, 4);
}

static void load(attention *a) {
    pl_grad *c = a->c;
    const pl_node *node = c->node;
    a->rank = pl_g_rank(c, node->in[Q]);
    if (c->st != PL_OK) return;
    const bool flat = a->rank == 3;
    a->q_heads = flat ? pl_attr_int(node, "q_num_heads") : pl_g_dim(c, node->in[Q], 1);
    a->kv_heads = flat ? pl_attr_int(node, "kv_num_heads") : pl_g_dim(c, node->in[K], 1);
    a->head_size = pl_g_dim(c, node->in[Q], a->rank - 1) / (flat ? a->q_heads : 1);
    a->v_size = pl_g_dim(c, node->in[V], a->rank - 1) / (flat ? a->kv_heads : 1);
    if (c->st != PL_OK) return;
    a->q = flat ? split_heads(c, node->in[Q], a->q_heads, a->head_size) : node->in[Q];
    a->k = flat ? split_heads(c, node->in[K], a->kv_heads, a->head_size) : node->in[K];
    a->v = flat ? split_heads(c, node->in[V], a->kv_heads, a->v_size) : node->in[V];
    /* Lengths may be unknown where nothing depends on them. */
    const bool groups = a->q_heads != a->kv_heads;
    const bool hides = pl_attr_int(node, "is_causal") != 0 || input(c, NONPAD) != NULL;
    const bool cuts = input(c, MASK) != NULL && node->opset >= 24;
    if (input(c, PAST_KEY) != NULL && c->st == PL_OK) {
        if (groups || hides || cuts) a->past_len = pl_g_dim(c, node->in[PAST_KEY], 2);
        a->k = pl_g_concat(c, (pl_value *[]){ node->in[PAST_KEY], a->k }, 2, 2);
        a->v = pl_g_concat(c, (pl_value *[]){ node->in[PAST_VALUE], a->v }, 2, 2);
    }
    if (c->st != PL_OK) return;
    a->q_len = a->kv_len = -1;
    if (groups || hides) a->q_len = pl_g_dim(c, node->in[Q], a->rank - 2);
    if (groups || hides || cuts) a->kv_len = pl_g_dim(c, node->in[K], a->rank - 2) + a->past_len;
}

/* Stacks the query heads that share a key head, so that one product computes all. */
static pl_value *grouped(const attention *a, pl_value *x, int64_t last) {
    const int64_t dims[4] = { 0, a->kv_heads, a->q_heads / a->kv_heads * a->q_len, last };
    return a->q_heads == a->kv_heads ? x : pl_g_reshape(a->c, x, dims, 4);
}

static pl_value *ungrouped(const attention *a, pl_value *x, int64_t last) {
    const int64_t dims[4] = { 0, a->q_heads, a->q_len, last };
    return a->q_heads == a->kv_heads ? x : pl_g_reshape(a->c, x, dims, 4);
}

static pl_value *numbers(pl_grad *c, int64_t n) {
    pl_g_table line;
    if (!pl_g_table_new(c, &line, 1, &n)) return NULL;
    for (int64_t i = 0; i < n; i++)
        line.data[i] = (double)i;
    return pl_g_table_value(c, &line, PL_I64);
}

/* The same when the number of valid keys is known only at run time: (batch, 1, q_len or 1,
 * kv_len). */
static pl_value *visible_open(const attention *a, int64_t end, bool causal) {
    pl_grad *c = a->c;
    const int64_t axes[3] = { 1, 2, 3 }, axis = 1;
    pl_value *valid = pl_g_unsqueeze(c, input(c, NONPAD), axes, 3), *key = numbers(c, a->kv_len);
    pl_value *all = pl_g_int(c, a->kv_len);
    valid = pl_g3(c, "Where", pl_g2(c, "Less", all, valid), all, valid);
    pl_value *seen = pl_g2(c, "Less", key, valid);
    if (end < a->kv_len) seen = pl_g2(c, "And", seen, pl_g2(c, "Less", key, pl_g_int(c, end)));
    if (!causal) return seen;
    pl_value *shift = pl_g_int(c, a->past_len), *none = pl_g_int(c, 0);
    if (input(c, PAST_KEY) == NULL) { /* a negative count means 0 */
        shift = pl_g3(c, "Where", pl_g2(c, "Less", valid, none), none, valid);
        shift = pl_g_sub(c, shift, pl_g_int(c, a->q_len));
    }
    pl_value *query = pl_g_unsqueeze(c, numbers(c, a->q_len), &axis, 1);
    pl_value *last = pl_g_add(c, pl_g_add(c, query, shift), pl_g_int(c, 1));
    return pl_g2(c, "And", seen, pl_g2(c, "Less", key, last));
}

/* Keys that each query sees by causality, padding and a short mask; NULL when all. */
static pl_value *visible(const attention *a) {
    pl_grad *c = a->c;
    const pl_node *node = c->node;
    const bool causal = pl_attr_int(node, "is_causal") != 0;
    const pl_tensor *nonpad = pl_g_known(input(c, NONPAD));
    int64_t end = a->kv_len;
    if (input(c, MASK) != NULL && node->opset >= 24) {
        const int rank = pl_g_rank(c, node->in[MASK]);
        const int64_t n = rank < 1 ? 1 : pl_g_dim(c, node->in[MASK], rank - 1);
        if (c->st == PL_OK) end = n;
    }
    if (c->st == PL_OK && input(c, NONPAD) != NULL && nonpad == NULL)
        return visible_open(a, end, causal);
    if (c->st != PL_OK || (!causal && nonpad == NULL && end == a->kv_len)) return NULL;
    const int64_t batch = nonpad == NULL ? 1 : nonpad->n_elements;
    const int64_t rows = causal ? a->q_len : 1;
    const int64_t dims[4] = { batch, 1, rows, a->kv_len };
    pl_g_table mask;
    if (!pl_g_table_new(c, &mask, 4, dims)) return NULL;
    for (int64_t i = 0; i < mask.n; i++) {
        const int64_t b = i / (rows * a->kv_len), q = i / a->kv_len % rows;
        int64_t last = end, shift = a->past_len;
        if (nonpad != NULL) {
            const int64_t n = pl_tensor_get_i64(nonpad, b);
            const int64_t valid = n < 0 ? 0 : n > a->kv_len ? a->kv_len : n;
            last = valid < last ? valid : last;
            if (input(c, PAST_KEY) == NULL) shift = valid - a->q_len;
        }
        if (causal && q + shift + 1 < last) last = q + shift + 1;
        mask.data[i] = i % a->kv_len < last;
    }
    return pl_g_table_value(c, &mask, PL_BOOL);
}

/* The mask padded with zeros to the number of keys; keys beyond it are hidden separately. */
static pl_value *whole_mask(const attention *a, pl_value *mask) {
    pl_grad *c = a->c;
    int64_t pads[2 * PL_RANK_MAX] = { 0 };
    if (c->node->opset < 24) return mask;
    const int rank = pl_g_rank(c, mask);
    const int64_t n = rank < 1 ? 1 : pl_g_dim(c, mask, rank - 1);
    if (c->st != PL_OK || n == a->kv_len) return mask;
    pads[2 * rank - 1] = a->kv_len - n;
    return pl_g2(c, "Pad", mask, pl_g_ints(c, pads, 2 * (size_t)rank));
}

/* Scores with bias and hidden keys. *blind: rows that see no key, which give zeros. */
static pl_value *masked(const attention *a, pl_value *s, pl_value **blind) {
    pl_grad *c = a->c;
    const double hidden = (double)-INFINITY;
    const int64_t axis = 3;
    pl_value *mask = input(c, MASK), *seen = visible(a);
    *blind = NULL;
    if (c->st != PL_OK || (mask == NULL && seen == NULL)) return s;
    pl_value *lowest = pl_g_number(c, s, hidden);
    if (mask != NULL && mask->type != NULL && mask->type->dtype == PL_BOOL) {
        /* Pad does not take bools. */
        pl_value *number = whole_mask(a, pl_g_cast(c, mask, PL_I32));
        s = pl_g3(c, "Where", pl_g_cast(c, number, PL_BOOL), s, lowest);
    } else if (mask != NULL) {
        s = pl_g_add(c, s, pl_g_cast_like(c, whole_mask(a, mask), s));
    }
    if (seen != NULL) s = pl_g3(c, "Where", seen, s, lowest);
    pl_value *most = pl_g_reduce(c, "ReduceMax", s, &axis, 1, true);
    *blind = pl_g2(c, "Equal", most, lowest);
    return s;
}

static double scale_of(const attention *a) {
    if (pl_attr_has(a->c->node, "scale")) return pl_attr_float(a->c->node, "scale");
    return a->head_size == 0 ? 1 : 1 / sqrt((double)a->head_size);
}

pl_status pl_attention_grad(pl_grad *c) {
    static const int64_t back[4] = { 0, 2, 1, 3 };
    const double cap = pl_attr_float(c->node, "softcap");
    attention a = { .c = c };
    pl_value *y[4] = { NULL }, *stage[4], *blind = NULL;
    const size_t mark = pl_g_mark(c);
    load(&a);
    if (c->st != PL_OK) return c->st;
    /* Scales the query, not the scores, which may overflow float16. */
    pl_value *q = pl_g_scaled(c, grouped(&a, a.q, a.head_size), scale_of(&a));
    pl_value *s = ungrouped(&a, pl_g2(c, "MatMul", q, pl_g_swap_last(c, a.k)), a.kv_len);
    stage[0] = s;
    if (cap > 0) s = pl_g_scaled(c, pl_g1(c, "Tanh", pl_g_scaled(c, s, 1 / cap)), cap);
    stage[1] = s;
    s = masked(&a, s, &blind);
    stage[2] = s;
    if (blind != NULL) s = pl_g3(c, "Where", blind, pl_g_number(c, s, 0), s);
    pl_value *p = pl_g1_int(c, "Softmax", s, "axis", 3);
    if (blind != NULL) p = pl_g3(c, "Where", blind, pl_g_number(c, p, 0), p);
    stage[3] = p;
    y[0] = ungrouped(&a, pl_g2(c, "MatMul", grouped(&a, p, a.kv_len), a.v), a.v_size);
    const int64_t flat[3] = { 0, 0, a.q_heads * a.v_size };
    if (a.rank == 3) y[0] = pl_g_reshape(c, pl_g_transpose(c, y[0], back, 4), flat, 3);
    for (uint32_t i = 1; i < 4 && i < c->node->n_out; i++) {
        if (c->dy[i] == NULL) continue;
        y[i] = i == 1 ? a.k : i == 2 ? a.v : stage[pl_attr_int(c->node, "qk_matmul_output_mode")];
    }
    return pl_g_expanded(c, mark, y);
}

/* ---- RotaryEmbedding ---- */

pl_status pl_rotary_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *cos = node->in[1], *sin = node->in[2];
    const int rank = pl_g_rank(c, x);
    if (c->st != PL_OK) return c->st;
    const int64_t last = pl_g_dim(c, x, rank - 1), heads = pl_attr_int(node, "num_heads");
    const int64_t size = rank == 3 && heads > 0 ? last / heads : last;
    const int64_t dim = pl_attr_int(node, "rotary_embedding_dim");
    const size_t mark = pl_g_mark(c);
    if (input(c, 3) != NULL) { /* rows of the caches, (batch, len, half) */
        cos = pl_g2(c, "Gather", cos, node->in[3]);
        sin = pl_g2(c, "Gather", sin, node->in[3]);
    }
    pl_value *y = pl_g_turned(c, x, cos, sin, size, (dim == 0 ? size : dim) / 2);
    return pl_g_expanded(c, mark, &y);
}

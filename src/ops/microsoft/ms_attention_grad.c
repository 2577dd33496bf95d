/* Gradients of com.microsoft Attention, MultiHeadAttention, DecoderMaskedMultiHeadAttention and
 * RotaryEmbedding. Beams and rare forms of masks are not supported. */
#include <math.h>

#include "ops/lib/grad_nn.h"
#include "ops/microsoft/ms_attention_rules.h"

static pl_value *input(const pl_grad *c, int i) {
    return i >= 0 && (uint32_t)i < c->node->n_in ? c->node->in[i] : NULL;
}

typedef struct heads {
    pl_grad *c;
    int64_t n, size, v_size, past; /* past: keys before those of the first query */
    pl_value *q, *k, *v;           /* (batch, heads, len, size) */
    int mask, bias;                /* numbers of inputs; -1 = none */
} heads;

/* (batch, len, heads * size) to (batch, heads, len, size). Without -1 in the shape: len may be
 * 0. */
static pl_value *split(pl_grad *c, pl_value *x, int64_t n) {
    static const int64_t perm[4] = { 0, 2, 1, 3 };
    const int64_t last = pl_g_dim(c, x, 2), dims[4] = { 0, 0, n, last / n };
    return pl_g_transpose(c, pl_g_reshape(c, x, dims, 4), perm, 4);
}

/* Part `which` of (batch, len, heads, parts, size). */
static pl_value *unpack(pl_grad *c, pl_value *x, int64_t which) {
    static const int64_t perm[4] = { 0, 2, 1, 3 }, axis = 3;
    pl_value *one = pl_g_squeeze(c, pl_g_cut(c, x, 3, which, which + 1), &axis, 1);
    return pl_g_transpose(c, one, perm, 4);
}

/* The mask as an additive bias: `filter` where it hides a key. Lengths (batch) or flags (batch,
 * keys). */
static pl_value *mask_of(const heads *h, int64_t keys) {
    pl_grad *c = h->c;
    pl_value *mask = input(c, h->mask);
    if (mask == NULL) return NULL;
    const int rank = pl_g_rank(c, mask);
    const int64_t axes[3] = { 1, 2, 3 }, middle[2] = { 1, 2 };
    pl_g_table places;
    pl_value *seen = NULL;
    if (c->st != PL_OK) return NULL;
    if (rank == 1 && pl_g_dim(c, mask, 0) == pl_g_dim(c, h->q, 0)) {
        if (!pl_g_table_new(c, &places, 1, &keys)) return NULL;
        for (int64_t i = 0; i < keys; i++)
            places.data[i] = (double)i;
        pl_value *line = pl_g_table_value(c, &places, mask->type->dtype);
        seen = pl_g2(c, "Less", line, pl_g_unsqueeze(c, mask, axes, 3));
    } else if (rank == 2 && pl_g_dim(c, mask, 1) == keys &&
               pl_g_dim(c, mask, 0) == pl_g_dim(c, h->q, 0)) {
        seen = pl_g_unsqueeze(c, pl_g_cast(c, mask, PL_BOOL), middle, 2);
    } else if (rank != 2) {
        (void)pl_g_fail(c, "is not supported for this mask");
    }
    if (seen == NULL) return NULL;
    return pl_g3(c, "Where", seen, pl_g_number(c, h->q, 0),
                 pl_g_number(c, h->q, pl_attr_float(c->node, "mask_filter_value")));
}

/* Keys up to the query's own position after the past, as a constant. */
static pl_value *causal(pl_grad *c, int64_t queries, int64_t keys, int64_t past) {
    pl_g_table t;
    if (!pl_g_table_new(c, &t, 2, (const int64_t[]){ queries, keys })) return NULL;
    for (int64_t i = 0; i < t.n; i++)
        t.data[i] = i % keys <= i / keys + past;
    return pl_g_table_value(c, &t, PL_BOOL);
}

/* y, and the scores before the softmax. */
static pl_value *attend(const heads *h, pl_value **scores) {
    static const int64_t perm[4] = { 0, 2, 1, 3 };
    pl_grad *c = h->c;
    const int64_t flat[3] = { 0, 0, h->n * pl_g_dim(c, h->v, 3) };
    const double given = pl_attr_float(c->node, "scale");
    const int64_t queries = pl_g_dim(c, h->q, 2), keys = pl_g_dim(c, h->k, 2);
    /* As in attention_grad.c: scaled before the product. */
    pl_value *q = pl_g_scaled(c, h->q, given != 0 ? given : 1 / sqrt((double)h->size));
    pl_value *s = pl_g2(c, "MatMul", q, pl_g_swap_last(c, h->k));
    pl_value *mask = mask_of(h, keys), *bias = input(c, h->bias);
    if (mask != NULL) s = pl_g_add(c, s, mask);
    if (bias != NULL) s = pl_g_add(c, s, bias);
    if (pl_attr_int(c->node, "unidirectional") != 0 && queries > 1)
        s = pl_g3(c, "Where", causal(c, queries, keys, h->past), s,
                  pl_g_number(c, s, (double)-INFINITY));
    *scores = s;
    pl_value *y = pl_g2(c, "MatMul", pl_g1_int(c, "Softmax", s, "axis", 3), h->v);
    return pl_g_reshape(c, pl_g_transpose(c, y, perm, 4), flat, 3);
}

typedef struct mha_ports {
    int bias, mask, attention_bias, past_key, past_value, past_len, beam_width, cache_indirection;
} mha_ports;

/* q, k and v in any form of the inputs: separate, k and v packed, or all three packed. */
static void load_heads(heads *h) {
    pl_grad *c = h->c;
    pl_value *q = c->node->in[0], *k = input(c, 1), *v = input(c, 2);
    if (k == NULL && pl_g_rank(c, q) == 3) {
        const int64_t each = pl_g_dim(c, q, 2) / 3;
        pl_value **to[3] = { &h->q, &h->k, &h->v };
        for (int i = 0; i < 3 && c->st == PL_OK; i++)
            *to[i] = split(c, pl_g_cut(c, q, 2, i * each, (i + 1) * each), h->n);
    } else if (k == NULL) {
        h->q = unpack(c, q, 0);
        h->k = unpack(c, q, 1);
        h->v = unpack(c, q, 2);
    } else {
        const bool flat = pl_g_rank(c, k) == 3;
        h->q = split(c, q, h->n);
        h->k = v == NULL ? unpack(c, k, 0) : flat ? split(c, k, h->n) : k;
        h->v = v == NULL ? unpack(c, k, 1) : flat ? split(c, v, h->n) : v;
    }
    if (c->st != PL_OK) return;
    h->size = pl_g_dim(c, h->q, 3);
    h->v_size = pl_g_dim(c, h->v, 3);
}

/* Adds the bias, which has parts for q, k and v. Keys of rank 4 include it already. */
static void add_bias(heads *h, pl_value *bias) {
    pl_grad *c = h->c;
    const int64_t dims[3] = { h->n, 1, -1 }, each = h->n * h->size;
    const bool done = input(c, 1) != NULL && pl_g_rank(c, input(c, 1)) == 4;
    pl_value **to[3] = { &h->q, &h->k, &h->v };
    for (int i = 0; i < (done ? 1 : 3) && c->st == PL_OK; i++) {
        const int64_t from = i * each, end = i < 2 ? from + each : from + h->n * h->v_size;
        pl_value *part = pl_g_reshape(c, pl_g_cut(c, bias, 0, from, end), dims, 3);
        *to[i] = pl_g_add(c, *to[i], part);
    }
}

/* Appends new rows to the past. With `at` >= 0 the past is a buffer that they are written into, and
 * the rows up to their end are returned. *present: the whole buffer. */
static pl_value *with_past(pl_grad *c, pl_value *past, pl_value *fresh, int64_t at,
                           pl_value **present) {
    *present = fresh;
    if (past == NULL || c->st != PL_OK) return fresh;
    if (at < 0) return *present = pl_g_concat(c, (pl_value *[]){ past, fresh }, 2, 2);
    const int64_t room = pl_g_dim(c, past, 2), end = at + pl_g_dim(c, fresh, 2);
    pl_value *used = pl_g_concat(c, (pl_value *[]){ pl_g_cut(c, past, 2, 0, at), fresh }, 2, 2);
    *present = used;
    if (end < room)
        *present = pl_g_concat(c, (pl_value *[]){ used, pl_g_cut(c, past, 2, end, room) }, 2, 2);
    return used;
}

static pl_status multi_head(pl_grad *c, const mha_ports *p, bool shared) {
    const pl_node *node = c->node;
    pl_value *y[4] = { NULL }, *scores = NULL, *present[2] = { NULL, NULL };
    heads h = { .c = c, .n = pl_attr_int(node, "num_heads") };
    h.mask = p->mask;
    h.bias = p->attention_bias;
    int64_t at = -1;
    size_t n = 0;
    if (input(c, p->cache_indirection) != NULL || input(c, p->beam_width) != NULL)
        return pl_g_fail(c, "is not supported for beams");
    if (shared && input(c, p->past_key) != NULL &&
        !pl_g_known_ints(input(c, p->past_len), &at, 1, &n))
        return pl_g_fail(c, "needs past_sequence_length to be a constant");
    const size_t mark = pl_g_mark(c);
    load_heads(&h);
    if (c->st == PL_OK && input(c, p->bias) != NULL) add_bias(&h, input(c, p->bias));
    if (c->st == PL_OK && input(c, p->past_key) != NULL)
        h.past = at >= 0 ? at : pl_g_dim(c, input(c, p->past_key), 2);
    h.k = with_past(c, input(c, p->past_key), h.k, at, &present[0]);
    h.v = with_past(c, input(c, p->past_value), h.v, at, &present[1]);
    if (c->st != PL_OK) return c->st;
    y[0] = attend(&h, &scores);
    for (uint32_t i = 1; i < 4 && i < node->n_out; i++)
        if (c->dy[i] != NULL) y[i] = i < 3 ? present[i - 1] : scores;
    return pl_g_expanded(c, mark, y);
}

pl_status pl_ms_multi_head_grad(pl_grad *c) {
    static const mha_ports ports = { 3, 4, 5, 6, 7, 8, -1, 9 };
    return multi_head(c, &ports, input(c, ports.past_len) != NULL);
}

pl_status pl_ms_decoder_grad(pl_grad *c) {
    static const mha_ports ports = { 10, 3, 4, 5, 6, 7, 8, 9 };
    return multi_head(c, &ports, pl_attr_int(c->node, "past_present_share_buffer") != 0);
}

pl_status pl_ms_attention_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *y[2] = { NULL, NULL }, *scores = NULL, *past = input(c, 4);
    heads h = { .c = c, .n = pl_attr_int(node, "num_heads"), .mask = 3, .bias = 5 };
    size_t n_sizes = 0;
    const int64_t *sizes = pl_attr_ints(node, "qkv_hidden_sizes", &n_sizes), axis = 0;
    const int64_t columns = pl_g_dim(c, node->in[1], 1);
    if (c->st != PL_OK) return c->st;
    if (pl_attr_int(node, "past_present_share_buffer") != 0)
        return pl_g_fail(c, "is not supported for shared buffers");
    const int64_t q = n_sizes == 3 ? sizes[0] : columns / 3;
    h.size = q / h.n;
    const size_t mark = pl_g_mark(c);
    pl_value *all = pl_g2(c, "MatMul", x, node->in[1]);
    if (input(c, 2) != NULL) all = pl_g_add(c, all, node->in[2]);
    h.q = split(c, pl_g_cut(c, all, 2, 0, q), h.n);
    h.k = split(c, pl_g_cut(c, all, 2, q, 2 * q), h.n);
    h.v = split(c, pl_g_cut(c, all, 2, 2 * q, columns), h.n);
    if (past != NULL) { /* (2, batch, heads, len, size) */
        h.past = pl_g_dim(c, past, 3);
        pl_value *old_k = pl_g_squeeze(c, pl_g_cut(c, past, 0, 0, 1), &axis, 1);
        pl_value *old_v = pl_g_squeeze(c, pl_g_cut(c, past, 0, 1, 2), &axis, 1);
        h.k = pl_g_concat(c, (pl_value *[]){ old_k, h.k }, 2, 2);
        h.v = pl_g_concat(c, (pl_value *[]){ old_v, h.v }, 2, 2);
    }
    y[0] = attend(&h, &scores);
    if (node->n_out > 1 && c->dy[1] != NULL) {
        pl_value *both[2] = { pl_g_unsqueeze(c, h.k, &axis, 1), pl_g_unsqueeze(c, h.v, &axis, 1) };
        y[1] = pl_g_concat(c, both, 2, 0);
    }
    return pl_g_expanded(c, mark, y);
}

/* Inputs are in another order than in ai.onnx RotaryEmbedding; a single position is the start of
 * every row. */
pl_status pl_ms_rotary_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *ids = node->in[1];
    const int rank = pl_g_rank(c, x), id_rank = pl_g_rank(c, ids);
    if (c->st != PL_OK) return c->st;
    const int64_t dim = pl_attr_int(node, "rotary_embedding_dim"), len = pl_g_dim(c, x, rank - 2);
    const int64_t last = pl_g_dim(c, x, rank - 1), columns = pl_g_dim(c, node->in[2], 1);
    if (c->st != PL_OK) return c->st;
    const int64_t heads_n = pl_attr_int(node, "num_heads");
    const int64_t size = rank == 4 ? last : dim > 0 ? last / heads_n : 2 * columns;
    if (id_rank < 2) {
        pl_g_table line;
        if (!pl_g_table_new(c, &line, 2, (const int64_t[]){ 1, len })) return c->st;
        for (int64_t i = 0; i < len; i++)
            line.data[i] = (double)i;
        ids = pl_g_add(c, pl_g_table_value(c, &line, PL_I64), ids);
    }
    const size_t mark = pl_g_mark(c);
    pl_value *y =
        pl_g_turned(c, x, pl_g2(c, "Gather", node->in[2], ids),
                    pl_g2(c, "Gather", node->in[3], ids), size, (dim > 0 ? dim : size) / 2);
    return pl_g_expanded(c, mark, &y);
}

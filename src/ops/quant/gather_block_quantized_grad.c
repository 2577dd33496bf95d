/* Gradient of com.microsoft GatherBlockQuantized with respect to the scales; codes are integers.
 * Each block of an output row adds dy * (code - zero point) to its scale. */
#include "ops/lib/grad_move.h"
#include "ops/quant/gather_block_quantized_rules.h"

enum { DATA, INDICES, SCALES, ZEROS };

/* The factors of the scales: the operator itself on scales of one. */
static pl_value *factors(pl_grad *c) {
    const pl_attr attrs[4] = { pl_g_same_int(c, "bits"), pl_g_same_int(c, "block_size"),
                               pl_g_same_int(c, "gather_axis"), pl_g_same_int(c, "quantize_axis") };
    const pl_node *node = c->node;
    pl_value *scales = node->in[SCALES];
    pl_value *ones = pl_g_expand_like(c, pl_g_number(c, scales, 1), scales);
    const bool has_zeros = node->n_in > ZEROS && node->in[ZEROS] != NULL;
    pl_value *in[4] = { node->in[DATA], node->in[INDICES], ones,
                        has_zeros ? node->in[ZEROS] : NULL };
    pl_value *out[1] = { PL_G_WANTED };
    if (c->st == PL_OK)
        c->st = pl_g_ops(c, node->op, node->domain, in, has_zeros ? 4 : 3, attrs, 4, out, 1);
    return c->st == PL_OK ? out[0] : NULL;
}

pl_status pl_grad_gather_block_quantized(pl_grad *c) {
    static const int64_t last[1] = { 2 };
    const pl_node *node = c->node;
    pl_value *scales = node->in[SCALES];
    const int rank = pl_g_rank(c, scales);
    int64_t axis = pl_attr_int(node, "gather_axis"), q_axis = pl_attr_int(node, "quantize_axis");
    if (rank < 0 || !c->wanted[SCALES]) return c->st;
    if (axis < 0) axis += rank;
    if (q_axis < 0) q_axis += rank;
    if (q_axis != rank - 1 || axis == q_axis)
        return pl_g_fail(c, "needs the last axis as quantize_axis");
    const int64_t block = pl_attr_int(node, "block_size");
    const int64_t blocks = pl_g_dim(c, scales, rank - 1);
    const int64_t n = pl_g_dim(c, c->dy[0], pl_g_rank(c, c->dy[0]) - 1);
    if (c->st != PL_OK) return c->st;
    const int64_t rows[2] = { -1, n }, apart[3] = { -1, blocks, block };
    const int64_t none[2] = { 0, 0 }, more[2] = { 0, blocks * block - n };
    pl_value *g = pl_g_reshape(c, pl_g_mul(c, c->dy[0], factors(c)), rows, 2);
    g = pl_g_reshape(c, pl_g_pad(c, g, none, more, 2), apart, 3);
    g = pl_g_reduce(c, "ReduceSum", g, last, 1, false);
    pl_value *in[2] = { pl_g_positions(c, scales), node->in[INDICES] };
    const pl_attr attr = PL_G_INT("axis", axis);
    pl_value *positions = pl_g_op(c, "Gather", in, 2, &attr, 1);
    c->dx[SCALES] = pl_g_put_back(c, scales, positions, g, false);
    return c->st;
}

/* Gradient of com.microsoft MatMulNBits. */
#include <string.h>

#include "ops/lib/grad_move.h"
#include "ops/quant/matmul_nbits_rules.h"

enum { A, B, SCALES, ZEROS, G_IDX, BIAS };

static pl_value *identity_matrix(pl_grad *c, int64_t k, pl_dtype dtype) {
    const int64_t dims[2] = { k, k };
    pl_tensor *t = NULL;
    if (c->st == PL_OK && k > 16384) (void)pl_g_fail(c, "needs K of at most 16384");
    if (c->st == PL_OK) c->st = pl_tensor_new(PL_F64, 2, dims, &t, c->err);
    if (c->st != PL_OK) return NULL;
    memset(t->data, 0, (size_t)(k * k) * sizeof(double));
    for (int64_t i = 0; i < k; i++)
        ((pl_f64 *)t->data)[i * k + i] = 1;
    pl_tensor *cast = NULL;
    c->st = pl_tensor_cast(t, dtype, &cast, c->err);
    pl_tensor_unref(t);
    return c->st == PL_OK ? pl_g_tensor_take(c, cast) : NULL;
}

/* The weights [K, N], or with scales of one the factors of the scales: the operator itself on the
 * identity matrix. */
static pl_value *weights(pl_grad *c, pl_value *scales) {
    const pl_attr attrs[4] = { PL_G_INT("K", pl_attr_int(c->node, "K")),
                               PL_G_INT("N", pl_attr_int(c->node, "N")),
                               PL_G_INT("bits", pl_attr_int(c->node, "bits")),
                               PL_G_INT("block_size", pl_attr_int(c->node, "block_size")) };
    const pl_dtype dtype = c->node->in[A]->type->dtype;
    pl_value *in[5] = { identity_matrix(c, attrs[0].i, dtype), c->node->in[B], scales, NULL, NULL };
    size_t n = 3;
    for (uint32_t i = ZEROS; i <= G_IDX && i < c->node->n_in; i++) {
        in[i] = c->node->in[i];
        if (in[i] != NULL) n = i + 1;
    }
    pl_value *out[1] = { PL_G_WANTED };
    if (c->st == PL_OK)
        c->st = pl_g_ops(c, "MatMulNBits", c->node->domain, in, n, attrs, 4, out, 1);
    return c->st == PL_OK ? out[0] : NULL;
}

/* Sums over the blocks of K: [K, N] to [N, blocks]. */
static pl_value *block_sums(pl_grad *c, pl_value *g) {
    static const int64_t middle[1] = { 1 }, swap[2] = { 1, 0 };
    const int64_t k = pl_attr_int(c->node, "K"), n = pl_attr_int(c->node, "N");
    const int64_t block = pl_attr_int(c->node, "block_size"), blocks = (k + block - 1) / block;
    const int64_t none[2] = { 0, 0 }, more[2] = { blocks * block - k, 0 };
    const int64_t dims[3] = { blocks, block, n };
    pl_value *apart = pl_g_reshape(c, pl_g_pad(c, g, none, more, 2), dims, 3);
    return pl_g_transpose(c, pl_g_reduce(c, "ReduceSum", apart, middle, 1, false), swap, 2);
}

pl_status pl_grad_matmul_nbits(pl_grad *c) {
    static const int64_t swap[2] = { 1, 0 };
    const pl_node *node = c->node;
    const int64_t rows[2] = { -1, pl_attr_int(node, "N") },
                  in_rows[2] = { -1, pl_attr_int(node, "K") };
    const bool has_bias = node->n_in > BIAS && node->in[BIAS] != NULL;
    const bool float_zeros = node->n_in > ZEROS && node->in[ZEROS] != NULL && c->wanted[ZEROS];
    pl_value *g = pl_g_reshape(c, c->dy[0], rows, 2);
    if (c->wanted[A]) {
        pl_value *w = pl_g_transpose(c, weights(c, node->in[SCALES]), swap, 2);
        c->dx[A] = pl_g_reshape_like(c, pl_g2(c, "MatMul", g, w), node->in[A]);
    }
    if (has_bias && c->wanted[BIAS]) {
        const int64_t first = 0;
        c->dx[BIAS] =
            pl_g_reshape_like(c, pl_g_reduce(c, "ReduceSum", g, &first, 1, false), node->in[BIAS]);
    }
    if (!c->wanted[SCALES] && !float_zeros) return c->st;
    if (node->n_in > G_IDX && node->in[G_IDX] != NULL)
        return pl_g_fail(c, "with respect to scales is not supported with g_idx");
    pl_value *x = pl_g_reshape(c, node->in[A], in_rows, 2);
    pl_value *dw = pl_g2(c, "MatMul", pl_g_transpose(c, x, swap, 2), g); /* [K, N] */
    if (c->wanted[SCALES]) {
        pl_value *ones = pl_g_expand_like(c, pl_g_number(c, node->in[SCALES], 1), node->in[SCALES]);
        pl_value *sums = block_sums(c, pl_g_mul(c, dw, weights(c, ones)));
        c->dx[SCALES] =
            pl_g_reshape_like(c, pl_g_cast_like(c, sums, node->in[SCALES]), node->in[SCALES]);
    }
    if (float_zeros) { /* w = (code - zero) * scale */
        pl_value *sums = pl_g_reshape_like(c, block_sums(c, dw), node->in[ZEROS]);
        pl_value *scales = pl_g_reshape_like(c, node->in[SCALES], node->in[ZEROS]);
        pl_value *dz = pl_g_neg(c, pl_g_mul(c, sums, pl_g_cast_like(c, scales, sums)));
        c->dx[ZEROS] = pl_g_cast_like(c, dz, node->in[ZEROS]);
    }
    return c->st;
}

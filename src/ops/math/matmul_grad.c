/* Gradients of matrix products and of the determinant. */
#include "ops/lib/fused.h"
#include "ops/lib/grad_nn.h"
#include "ops/math/matmul_rules.h"

/* Both operands and the product as matrices: vectors get a dim of 1. */
typedef struct operands {
    pl_value *a, *b, *dy;
    int rank_a, rank_b;
} operands;

static operands as_matrices(pl_grad *c) {
    operands o = { c->node->in[0], c->node->in[1], c->dy[0], 0, 0 };
    o.rank_a = pl_g_rank(c, o.a);
    o.rank_b = pl_g_rank(c, o.b);
    const int64_t first = 0;
    if (c->st != PL_OK) return o;
    if (o.rank_b == 1) {
        o.b = pl_g_unsqueeze(c, o.b, (const int64_t[]){ 1 }, 1);
        const int64_t end = pl_g_rank(c, o.dy);
        o.dy = pl_g_unsqueeze(c, o.dy, &end, 1);
    }
    if (o.rank_a == 1) {
        o.a = pl_g_unsqueeze(c, o.a, &first, 1);
        /* The row dim comes before the column dim. */
        const int rank = pl_g_rank(c, o.dy);
        const int64_t at = rank >= 1 ? rank - 1 : 0;
        o.dy = pl_g_unsqueeze(c, o.dy, &at, 1);
    }
    return o;
}

pl_status pl_matmul_grad(pl_grad *c) {
    const operands o = as_matrices(c);
    if (c->st != PL_OK) return c->st;
    if (c->wanted[0]) {
        pl_value *g = pl_g2(c, "MatMul", o.dy, pl_g_swap_last(c, o.b));
        g = pl_g_unbroadcast(c, g, o.a);
        c->dx[0] = o.rank_a == 1 ? pl_g_reshape_like(c, g, c->node->in[0]) : g;
    }
    if (c->wanted[1]) {
        pl_value *g = pl_g2(c, "MatMul", pl_g_swap_last(c, o.a), o.dy);
        g = pl_g_unbroadcast(c, g, o.b);
        c->dx[1] = o.rank_b == 1 ? pl_g_reshape_like(c, g, c->node->in[1]) : g;
    }
    return c->st;
}

static pl_value *gemm(pl_grad *c, pl_value *a, bool trans_a, pl_value *b, bool trans_b,
                      double alpha) {
    const pl_attr attrs[3] = { PL_G_INT("transA", trans_a), PL_G_INT("transB", trans_b),
                               PL_G_FLOAT("alpha", alpha) };
    pl_value *in[2] = { a, b };
    return pl_g_op(c, "Gemm", in, 2, attrs, 3);
}

pl_status pl_gemm_grad(pl_grad *c) {
    pl_value *a = c->node->in[0], *b = c->node->in[1], *dy = c->dy[0];
    const bool ta = pl_attr_int(c->node, "transA") != 0, tb = pl_attr_int(c->node, "transB") != 0;
    const double alpha = pl_attr_float(c->node, "alpha"), beta = pl_attr_float(c->node, "beta");
    if (pl_g_opset(c) < 11) { /* before opset 11 Gemm requires C */
        if (c->wanted[0]) {
            pl_value *g = pl_g2(c, "MatMul", dy, tb ? b : pl_g_swap_last(c, b));
            c->dx[0] = pl_g_scaled(c, ta ? pl_g_swap_last(c, g) : g, alpha);
        }
        if (c->wanted[1]) {
            pl_value *g = pl_g2(c, "MatMul", ta ? a : pl_g_swap_last(c, a), dy);
            c->dx[1] = pl_g_scaled(c, tb ? pl_g_swap_last(c, g) : g, alpha);
        }
    } else {
        if (c->wanted[0])
            c->dx[0] = ta ? gemm(c, b, tb, dy, true, alpha) : gemm(c, dy, false, b, !tb, alpha);
        if (c->wanted[1])
            c->dx[1] = tb ? gemm(c, dy, true, a, ta, alpha) : gemm(c, a, !ta, dy, false, alpha);
    }
    if (c->node->n_in > 2 && c->node->in[2] != NULL && c->wanted[2])
        c->dx[2] = pl_g_unbroadcast(c, pl_g_scaled(c, dy, beta), c->node->in[2]);
    return c->st;
}

/* The operand as FusedMatMul sees it. */
static pl_value *fused_operand(pl_grad *c, pl_value *x, bool trans, bool trans_batch) {
    const int rank = pl_g_rank(c, x);
    int64_t perm[PL_RANK_MAX];
    if (rank < 2) return x;
    if (trans_batch && rank >= 3) { /* dim 0 moves to just before the last */
        for (int d = 0; d < rank; d++)
            perm[d] = d < rank - 2 ? d + 1 : d == rank - 2 ? 0 : rank - 1;
        x = pl_g_transpose(c, x, perm, (size_t)rank);
    }
    return trans ? pl_g_swap_last(c, x) : x;
}

pl_status pl_fused_matmul_grad(pl_grad *c) {
    const pl_node *node = c->node;
    const size_t mark = pl_g_mark(c);
    pl_value *a = fused_operand(c, node->in[0], pl_attr_int(node, "transA") != 0,
                                pl_attr_int(node, "transBatchA") != 0);
    pl_value *b = fused_operand(c, node->in[1], pl_attr_int(node, "transB") != 0,
                                pl_attr_int(node, "transBatchB") != 0);
    if (c->st != PL_OK) return c->st;
    pl_value *y = pl_g_scaled(c, pl_g2(c, "MatMul", a, b), pl_attr_float(node, "alpha"));
    return pl_g_expanded(c, mark, &y);
}

/* d det / dx = cofactors: determinants of the matrix without row i and column k. */
pl_status pl_det_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int rank = pl_g_rank(c, x);
    const int64_t n = rank < 2 ? 0 : pl_g_dim(c, x, rank - 1);
    if (c->st != PL_OK) return c->st;
    pl_value *dy = pl_g_unsqueeze(c, c->dy[0], (const int64_t[]){ rank - 2, rank - 1 }, 2);
    if (n <= 1) {
        c->dx[0] = n == 1 ? dy : pl_g_zeros_like(c, x);
        return c->st;
    }
    pl_g_table rest, sign;
    if (!pl_g_table_new(c, &rest, 2, (const int64_t[]){ n, n - 1 })) return c->st;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n - 1; k++)
            rest.data[i * (n - 1) + k] = (double)(k < i ? k : k + 1);
    pl_value *index = pl_g_table_value(c, &rest, PL_I64);
    if (!pl_g_table_new(c, &sign, 2, (const int64_t[]){ n, n })) return c->st;
    for (int64_t i = 0; i < n * n; i++)
        sign.data[i] = (i / n + i % n) % 2 == 0 ? 1 : -1;
    pl_value *signs = pl_g_table_value(c, &sign, x->type->dtype);
    pl_value *in[2] = { x, index };
    const pl_attr rows = PL_G_INT("axis", rank - 2), columns = PL_G_INT("axis", rank);
    pl_value *minors = pl_g_op(c, "Gather", in, 2, &rows, 1); /* …, i, n-1, n */
    in[0] = minors;
    minors = pl_g_op(c, "Gather", in, 2, &columns, 1); /* …, i, n-1, k, n-1 */
    int64_t perm[PL_RANK_MAX];
    if (rank + 2 > PL_RANK_MAX) return pl_g_fail(c, "needs too many dims");
    for (int d = 0; d < rank + 2; d++)
        perm[d] = d == rank - 1 ? rank : d == rank ? rank - 1 : d;
    minors = pl_g1(c, "Det", pl_g_transpose(c, minors, perm, (size_t)rank + 2));
    c->dx[0] = pl_g_mul(c, pl_g_mul(c, minors, signs), dy);
    return c->st;
}

pl_status pl_fused_gemm_grad(pl_grad *c) {
    static const char *const names[] = { "alpha", "beta", "transA", "transB" };
    const size_t mark = pl_g_mark(c);
    pl_value *y = pl_fused_grad_activate(c, pl_fused_grad_plain(c, "Gemm", 3, names, 4));
    return pl_g_expanded(c, mark, &y);
}

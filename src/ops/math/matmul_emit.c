/* Emission of matrix products: calls of src/kernels, on views where possible. */
#include <stdio.h>

#include "kernels/gemm/gemm_stored.h"
#include "ops/emit.h"
#include "ops/lib/compute.h"
#include "ops/lib/fused.h"
#include "ops/math/matmul_rules.h"

static pl_ref swap_last(pl_emit *c, pl_ref x, int rank) {
    int perm[PL_EMIT_RANK_MAX];
    for (int d = 0; d < rank; d++)
        perm[d] = d;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return pl_emit_transpose(c, x, perm);
}

/* A vector is a row on the left and a column on the right. */
static pl_ref as_matrix(pl_emit *c, int i, pl_ref x) {
    if (pl_emit_rank(c, i) >= 2) return x;
    int64_t dims[2] = { 1, 1 };
    dims[i == 0 ? 1 : 0] = pl_emit_dim(c, i, 0);
    return pl_emit_reshape(c, x, 2, dims);
}

/* Sets output 0 in its shape (vectors lose their dim of 1). */
static pl_status out_product(pl_emit *c, pl_ref y) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
}

/* Integers wrap: a sum of products in 64 bits over an extra dim. */
static pl_ref integer_product(pl_emit *c, pl_ref a, pl_ref b) {
    int64_t da[PL_EMIT_RANK_MAX], db[PL_EMIT_RANK_MAX];
    pl_dtype dtype;
    if (a < 0 || b < 0) return -1;
    const int ra = c->builder->dims(c, a, da, &dtype), rb = c->builder->dims(c, b, db, &dtype);
    if (ra >= PL_EMIT_RANK_MAX || rb >= PL_EMIT_RANK_MAX) return -1;
    b = swap_last(c, b, rb);
    da[ra] = da[ra - 1];
    da[ra - 1] = 1; /* (…, m, 1, k) */
    const int64_t n = db[rb - 1], k = db[rb - 2];
    db[rb - 2] = 1;
    db[rb - 1] = n;
    db[rb] = k; /* (…, 1, n, k) */
    const pl_ref x = pl_emit_reshape(c, a, ra + 1, da), y = pl_emit_reshape(c, b, rb + 1, db);
    const pl_ref p = pl_emit_map2(c, PL_U64, "(uint64_t)$0 * (uint64_t)$1", x, y);
    const int rank = (ra > rb ? ra : rb) + 1;
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_U64, p, 1u << (rank - 1));
    if (sum < 0) return -1;
    (void)c->builder->dims(c, sum, dims, &dtype);
    return pl_emit_reshape(c, sum, rank - 1, dims);
}

typedef struct half_product {
    int64_t m, n, k;
    pl_stored b;
} half_product;

static pl_status run_half(const pl_emit_args *args, pl_err *err) {
    half_product p = *(const half_product *)args->params;
    p.b.b = args->in[1];
    return pl_gemm_stored_f32(args->pool, p.m, p.n, p.k, 1, args->in[0], p.k, &p.b, args->out, err);
}

/* A large weight of half floats is read as it is: widened it would be kept twice as large. -1 with
 * no reason: not such a product. */
static pl_ref half_of(pl_emit *c) {
    if (c->in_tensor[1] == NULL || pl_emit_rank(c, 0) < 2 || pl_emit_rank(c, 1) != 2 ||
        !pl_compute_is_large_half(c->in_tensor[1]) || !pl_gemm_is_own(c->kernels)) {
        return -1;
    }
    int64_t dims[PL_EMIT_RANK_MAX];
    half_product p = { .n = pl_emit_dim(c, 1, 1), .k = pl_emit_dim(c, 1, 0) };
    p.m = pl_emit_elements(c->in[0]) / p.k;
    p.b = (pl_stored){ .kind = c->in[1]->dtype == PL_F16 ? PL_STORED_F16 : PL_STORED_BF16,
                       .ldb = p.n };
    pl_emit_out_dims(c, 0, dims);
    const pl_emit_kernel kernel = { .what = "a product with half floats",
                                    .run = run_half,
                                    .params = &p,
                                    .n_params = sizeof(p),
                                    .dtype = PL_F32,
                                    .rank = c->out[0]->rank,
                                    .dims = dims };
    const pl_ref args[2] = { pl_emit_wide(c, 0), pl_emit_in(c, 1) };
    return pl_emit_kernel_call(c, &kernel, 2, args);
}

pl_status pl_emit_matmul(pl_emit *c) {
    if (pl_emit_rank(c, 0) < 1 || pl_emit_rank(c, 1) < 1) return pl_emit_decline(c, "a scalar");
    const pl_ref half = half_of(c);
    if (half >= 0) return pl_emit_out(c, 0, half);
    if (!pl_emit_is_float(c->in[0]->dtype)) {
        const pl_ref a = as_matrix(c, 0, pl_emit_in(c, 0)), b = as_matrix(c, 1, pl_emit_in(c, 1));
        return out_product(c, integer_product(c, a, b));
    }
    const pl_emit_gemm gemm = { as_matrix(c, 0, pl_emit_wide(c, 0)),
                                as_matrix(c, 1, pl_emit_wide(c, 1)), 1 };
    return out_product(c, c->builder->gemm(c, &gemm));
}

static pl_ref gemm_of(pl_emit *c) {
    char number[64], expr[120];
    const double beta = pl_attr_float(c->node, "beta");
    pl_ref a = pl_emit_wide(c, 0), b = pl_emit_wide(c, 1);
    if (pl_attr_int(c->node, "transA") != 0) a = swap_last(c, a, 2);
    if (pl_attr_int(c->node, "transB") != 0) b = swap_last(c, b, 2);
    const pl_emit_gemm gemm = { a, b, pl_attr_float(c->node, "alpha") };
    pl_ref y = c->builder->gemm(c, &gemm);
    if (pl_emit_has(c, 2) && beta != 0) {
        snprintf(expr, sizeof(expr), "$0 + %s * $1", pl_emit_number(beta, number));
        y = pl_emit_map2(c, pl_emit_compute(c->out[0]->dtype), beta == 1 ? "$0 + $1" : expr, y,
                         pl_emit_in(c, 2));
    }
    return y;
}

/* Integer Gemm is declined: alpha and beta are floats, which the kernel truncates; rare. */
pl_status pl_emit_gemm_rule(pl_emit *c) {
    if (!pl_emit_is_float(c->in[0]->dtype)) return pl_emit_decline(c, "Gemm of integers");
    return pl_emit_out(c, 0, gemm_of(c));
}
pl_status pl_emit_fused_gemm(pl_emit *c) {
    if (!pl_emit_is_float(c->in[0]->dtype)) return pl_emit_decline(c, "Gemm of integers");
    return pl_fused_emit(c, gemm_of(c));
}

/* com.microsoft FusedMatMul and TransposeMatMul. */
pl_status pl_emit_fused_matmul(pl_emit *c) {
    pl_ref side[2];
    for (int i = 0; i < 2; i++) {
        const int rank = pl_emit_rank(c, i);
        const bool turn = pl_attr_int(c->node, i == 0 ? "transA" : "transB") != 0;
        const char *batch = i == 0 ? "transBatchA" : "transBatchB";
        if (pl_attr_int(c->node, batch) != 0) return pl_emit_decline(c, batch);
        if (rank < 1) return pl_emit_decline(c, "a scalar");
        side[i] = as_matrix(c, i, pl_emit_wide(c, i));
        if (turn && rank >= 2) side[i] = swap_last(c, side[i], rank);
    }
    const pl_emit_gemm gemm = { side[0], side[1], pl_attr_float(c->node, "alpha") };
    return out_product(c, c->builder->gemm(c, &gemm));
}

/* Emission of products of 8-bit integers: MatMulInteger, QLinearMatMul. */
#include "ops/emit.h"
#include "ops/quant/integer_matmul_rules.h"
#include "ops/quant/quantize_emit.h"

typedef struct product {
    pl_gemm_shape gemm;
    bool a_signed, b_signed, has_a, has_b, per_column;
} product;

static pl_status run_product(const pl_emit_args *a, pl_err *err) {
    const product *q = a->params;
    const pl_i32 *za = q->has_a ? a->in[2] : NULL, *zb = q->has_b ? a->in[q->has_a ? 3 : 2] : NULL;
    return pl_gemm_i8(a->pool, &q->gemm, a->in[0], q->a_signed, (pl_gemm_i8_zero){ za, 0, 0 },
                      a->in[1], q->b_signed, (pl_gemm_i8_zero){ zb, q->per_column, 0 }, a->out,
                      err);
}

typedef struct inputs {
    int a, a_zero, b, b_zero;
} inputs;

/* Any shape: differences and their product in double, where the sums are exact. */
static pl_ref product_any(pl_emit *c, const inputs *in) {
    const int ra = pl_emit_rank(c, in->a), rb = pl_emit_rank(c, in->b);
    if (ra < 2 || rb < 2) return -1;
    pl_ref a = pl_emit_in(c, in->a), b = pl_emit_in(c, in->b);
    if (pl_emit_has(c, in->a_zero)) {
        pl_ref z = pl_emit_in(c, in->a_zero);
        const int64_t n = pl_emit_elements(c->in[in->a_zero]);
        if (pl_emit_rank(c, in->a_zero) < 2) {
            z = n == 1 ? pl_emit_scalar(c, z) : pl_emit_along(c, z, 2, 0);
        }
        a = pl_emit_map2(c, PL_F64, "(double)$0 - (double)$1", a, z);
    }
    if (pl_emit_has(c, in->b_zero)) {
        pl_ref z = pl_emit_in(c, in->b_zero);
        if (pl_emit_elements(c->in[in->b_zero]) == 1) z = pl_emit_scalar(c, z);
        b = pl_emit_map2(c, PL_F64, "(double)$0 - (double)$1", b, z);
    }
    const pl_emit_gemm gemm = { pl_emit_convert(c, a, PL_F64), pl_emit_convert(c, b, PL_F64), 1 };
    const pl_ref y = c->builder->gemm(c, &gemm);
    return pl_emit_map1(c, PL_I32, "(int32_t)(int64_t)$0", y);
}

/* A (…, k) by B (k, n) with one zero point for A: one product of the kernel. */
static pl_ref product_of(pl_emit *c, const inputs *in, const int64_t *dims, int rank) {
    const int ra = pl_emit_rank(c, in->a);
    pl_ref args[4] = { pl_emit_in(c, in->a), pl_emit_in(c, in->b) };
    int n = 2;
    product q = { .a_signed = c->in[in->a]->dtype == PL_I8,
                  .b_signed = c->in[in->b]->dtype == PL_I8,
                  .has_a = pl_emit_has(c, in->a_zero),
                  .has_b = pl_emit_has(c, in->b_zero) };
    const int64_t nz = q.has_b ? pl_emit_elements(c->in[in->b_zero]) : 1;
    if (ra < 2 || pl_emit_rank(c, in->b) != 2 ||
        (q.has_a && pl_emit_elements(c->in[in->a_zero]) != 1) ||
        (nz != 1 && nz != pl_emit_dim(c, in->b, 1))) {
        return product_any(c, in);
    }
    q.per_column = nz > 1;
    q.gemm = (pl_gemm_shape){
        .k = pl_emit_dim(c, in->b, 0), .n = pl_emit_dim(c, in->b, 1), .batch = 1, .by = c->kernels
    };
    q.gemm.m = pl_emit_elements(c->in[in->a]) / q.gemm.k;
    if (q.has_a) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->a_zero), PL_I32);
    if (q.has_b) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->b_zero), PL_I32);
    const pl_emit_kernel kernel = { .what = "a product of 8-bit integers",
                                    .run = run_product,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = PL_I32,
                                    .rank = rank,
                                    .dims = dims };
    return pl_emit_kernel_call(c, &kernel, n, args);
}

pl_status pl_emit_matmul_integer(pl_emit *c) {
    static const inputs in = { 0, 2, 1, 3 };
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, product_of(c, &in, dims, c->out[0]->rank));
}

/* One value, or one for each column (rows: transposed). */
static pl_ref row_or_column(pl_emit *c, int i, bool row) {
    const pl_ref x = pl_emit_in(c, i);
    if (pl_emit_elements(c->in[i]) == 1) return pl_emit_scalar(c, x);
    return pl_emit_rank(c, i) < 2 && row ? pl_emit_along(c, x, 2, 0) : x;
}

pl_status pl_emit_qlinear_matmul(pl_emit *c) {
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };
    static const inputs in = { A, A_ZERO, B, B_ZERO };
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    if (pl_emit_rank(c, A) < 2 || pl_emit_rank(c, B) < 2) return pl_emit_decline(c, "a vector");
    const pl_ref acc = product_of(c, &in, dims, c->out[0]->rank);
    return pl_emit_requantised(
        c, acc, row_or_column(c, A_SCALE, true), row_or_column(c, B_SCALE, false),
        pl_emit_scalar(c, pl_emit_in(c, Y_SCALE)), pl_emit_scalar(c, pl_emit_in(c, Y_ZERO)),
        c->in[A_SCALE]->dtype == PL_F64);
}

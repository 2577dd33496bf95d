/* Gemm: Y = alpha * A' * B' + beta * C, every version, and com.microsoft FusedGemm. */
#include <math.h>
#include <string.h>

#include "ops/lib/compute.h"
#include "ops/lib/fused.h"
#include "ops/lib/matmul.h"
#include "ops/math/matmul_rules.h"

/* C may broadcast to (M, N); before Gemm-7 only if the attribute says so. */
static pl_status check_c(const pl_infer *c, const pl_dim *out) {
    const int rank = pl_infer_rank(c, 2);
    if (rank < 0) return PL_OK;
    const bool strict = c->node->def->until == 6 && pl_attr_int(c->node, "broadcast") == 0;
    if (rank > 2 || (strict && rank != 2)) {
        return pl_infer_fail(c, "input C has rank %d, expected %s", rank, strict ? "2" : "0 to 2");
    }
    for (int d = 0; d < rank; d++) {
        const pl_dim have = pl_infer_dim(c, 2, d), want = out[2 - rank + d];
        if (!pl_dim_known(have) || !pl_dim_known(want) || have.value == want.value) continue;
        if (have.value == 1 && !strict) continue;
        return pl_infer_fail(c, "dim %d of input C is %lld, which cannot be broadcast to %lld", d,
                             (long long)have.value, (long long)want.value);
    }
    return PL_OK;
}

pl_status pl_gemm_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int ta = pl_attr_int(c->node, "transA") != 0, tb = pl_attr_int(c->node, "transB") != 0;
    pl_dim out[2] = { PL_DIM_UNKNOWN, PL_DIM_UNKNOWN };
    for (int i = 0; i < 2; i++) {
        const int rank = pl_infer_rank(c, i);
        if (rank >= 0 && rank != 2) {
            return pl_infer_fail(c, "input %d has rank %d, expected 2", i, rank);
        }
    }
    const pl_dim ka = pl_infer_dim(c, 0, 1 - ta), kb = pl_infer_dim(c, 1, tb);
    if (pl_dim_known(ka) && pl_dim_known(kb) && ka.value != kb.value) {
        return pl_infer_fail(c, "the operands are summed over dims of %lld and %lld",
                             (long long)ka.value, (long long)kb.value);
    }
    out[0] = pl_infer_dim(c, 0, ta);
    out[1] = pl_infer_dim(c, 1, 1 - tb);
    PL_TRY(check_c(c, out));
    return pl_infer_set(c, 0, dtype, 2, out);
}

/* Element (i, j) of C is at i * row + j * col. */
typedef struct bias {
    int64_t row, col;
} bias;
static bias bias_of(const pl_tensor *t) {
    bias b = { 0, 0 };
    if (t->rank >= 1 && t->dims[t->rank - 1] != 1) b.col = 1;
    if (t->rank == 2 && t->dims[0] != 1) b.row = t->dims[1];
    return b;
}

#define SPREAD(name, T)                                                                            \
    static void name(const pl_tensor *t, const T *from, T *y, int64_t m, int64_t n) {              \
        const bias b = bias_of(t);                                                                 \
        for (int64_t i = 0; i < m; i++) {                                                          \
            if (b.col == 1) {                                                                      \
                memcpy(y + i * n, from + i * b.row, (size_t)n * sizeof(T));                        \
            } else {                                                                               \
                for (int64_t j = 0; j < n; j++)                                                    \
                    y[i * n + j] = from[i * b.row];                                                \
            }                                                                                      \
        }                                                                                          \
    }
SPREAD(spread_f32, pl_f32)
SPREAD(spread_f64, pl_f64)

static pl_status gemm_ints(pl_eval *c, const pl_matmul *p, double alpha, double beta) {
    pl_tensor *y = pl_out(c, 0);
    const pl_tensor *t = pl_in(c, 2);
    uint64_t *out = pl_scratch(c, (size_t)y->n_elements, sizeof(*out));
    int64_t *add = pl_scratch(c, t == NULL ? 1 : (size_t)t->n_elements, sizeof(*add));
    if (out == NULL || add == NULL) return pl_eval_memory(c);
    PL_TRY(pl_matmul_ints(c, p, pl_in(c, 0), pl_in(c, 1), out));
    if (t != NULL) pl_load_i64(t->dtype, t->data, add, (size_t)t->n_elements);
    const bias b = t == NULL ? (bias){ 0, 0 } : bias_of(t);
    for (int64_t i = 0; i < y->n_elements; i++) {
        const int64_t more = t == NULL ? 0 : add[i / p->n * b.row + i % p->n * b.col];
        if (alpha == 1 && (beta == 1 || t == NULL)) {
            out[i] += (uint64_t)more;
            continue;
        }
        const double v = alpha * (double)(int64_t)out[i] + beta * (double)more;
        if (!(fabs(v) < 9.2e18)) return pl_eval_fail(c, "a sum overflows int64");
        out[i] = (uint64_t)(int64_t)v;
    }
    pl_store_i64(y->dtype, (const int64_t *)out, y->data, (size_t)y->n_elements);
    return PL_OK;
}

static pl_status gemm_with(pl_eval *c, const pl_fused *fused) {
    const pl_tensor *a = pl_in(c, 0), *b = pl_in(c, 1), *t = pl_in(c, 2);
    pl_tensor *y = pl_out(c, 0);
    const pl_matmul_options o = { .trans_a = pl_attr_int(c->node, "transA") != 0,
                                  .trans_b = pl_attr_int(c->node, "transB") != 0 };
    const double alpha = pl_attr_float(c->node, "alpha");
    double beta = pl_attr_float(c->node, "beta");
    if (t == NULL) beta = 0;
    pl_matmul p;
    PL_TRY(pl_matmul_plan(c, a, b, o, &p));
    if (y->n_elements == 0) return PL_OK;
    if (p.k == 0) p.gemm.lda = p.gemm.ldb = 0;
    if (!pl_dtype_is_float(y->dtype)) return gemm_ints(c, &p, alpha, beta);
    pl_kept *kept = pl_kept_of(c, 1);
    if (y->dtype == PL_F64) {
        if (t != NULL && beta != 0) spread_f64(t, t->data, y->data, p.m, p.n);
        PL_TRY(pl_gemm_f64(c->pool, &p.gemm, alpha, a->data, b->data, beta, y->data,
                           pl_kept_gemm(kept), c->err));
        pl_fused_apply_f64(c->pool, fused, y->data, y->n_elements);
        return PL_OK;
    }
    const pl_f32 *fa = pl_compute_in_f32(c, 0, NULL), *fb = pl_compute_in_f32(c, 1, kept);
    const pl_f32 *fc = t == NULL ? NULL : pl_compute_in_f32(c, 2, NULL);
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fa == NULL || fb == NULL || fy == NULL || (t != NULL && fc == NULL)) {
        return pl_eval_memory(c);
    }
    if (t != NULL && beta != 0) spread_f32(t, fc, fy, p.m, p.n);
    if (c->naive) {
        PL_TRY(pl_gemm_long_f32(c->pool, &p.gemm, (float)alpha, fa, fb, (float)beta, fy, c->err));
    } else {
        PL_TRY(pl_gemm_f32(c->pool, &p.gemm, (float)alpha, fa, fb, (float)beta, fy,
                           pl_kept_gemm(kept), c->err));
    }
    pl_fused_apply_f32(c->pool, fused, fy, y->n_elements);
    pl_compute_store(c, y, fy);
    return PL_OK;
}

pl_status pl_gemm_eval(pl_eval *c) {
    const pl_fused none = { 0 };
    return gemm_with(c, &none);
}

pl_status pl_fused_gemm_eval(pl_eval *c) {
    static const char *const names[] = { "activation_alpha", "activation_beta" };
    double params[2] = { 0, 0 };
    size_t n = 0;
    while (n < 2 && pl_attr_has(c->node, names[n])) {
        params[n] = pl_attr_float(c->node, names[n]);
        n++;
    }
    pl_fused fused;
    PL_TRY(pl_fused_read(c->node, params, n, &fused, c->err));
    return gemm_with(c, &fused);
}

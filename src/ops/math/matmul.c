/* Matrix products: MatMul, Gemm, Det and ONNX Runtime's fused ones. The work is in
 * lib/matmul_plan.c and gemm_rows.c. */
#include "ops/lib/matmul.h"

#include <math.h>

#include "ops/lib/bound_nn.h"
#include "ops/lib/fused.h"
#include "ops/math/matmul_rules.h"

extern const pl_op_def pl_ops_matmul[];

/* ---- MatMul ---- */

static pl_status matmul_infer(pl_infer *c) {
    return pl_matmul_infer(c, 0, 1, (pl_matmul_options){ 0 }, pl_infer_dtype_of(c, 0));
}

static pl_status matmul_eval(pl_eval *c) {
    return pl_matmul_eval(c, 0, 1, (pl_matmul_options){ 0 }, 1);
}

/* Length of the sums: the inner dim of A. */
static double depth_of(const pl_tensor *a, pl_matmul_options o) {
    if (a->rank < 2) return (double)a->n_elements;
    const int row = o.trans_batch_a && a->rank >= 3 ? 0 : a->rank - 2;
    return (double)a->dims[o.trans_a ? row : a->rank - 1];
}

static pl_status matmul_bound(pl_bound *c) {
    return pl_b_product_rule(c, 0, 1, -1, depth_of(pl_b_in(c, 0), (pl_matmul_options){ 0 }));
}

static pl_matmul_options fused_options(const pl_node *node) {
    return (pl_matmul_options){ .trans_a = pl_attr_int(node, "transA") != 0,
                                .trans_b = pl_attr_int(node, "transB") != 0,
                                .trans_batch_a = pl_attr_int(node, "transBatchA") != 0,
                                .trans_batch_b = pl_attr_int(node, "transBatchB") != 0 };
}

static pl_status fused_matmul_infer(pl_infer *c) {
    return pl_matmul_infer(c, 0, 1, fused_options(c->node), pl_infer_dtype_of(c, 0));
}

static pl_status fused_matmul_eval(pl_eval *c) {
    return pl_matmul_eval(c, 0, 1, fused_options(c->node), pl_attr_float(c->node, "alpha"));
}

static pl_status fused_matmul_bound(pl_bound *c) {
    const pl_b_dot dot = { .n_factors = 2,
                           .factor = { 0, 1 },
                           .bias = -1,
                           .alpha = pl_attr_float(c->node, "alpha"),
                           .k = depth_of(pl_b_in(c, 0), fused_options(c->node)) };
    return pl_b_dot_rule(c, &dot);
}

/* ---- Gemm ---- */

static pl_status gemm_bound(pl_bound *c) {
    const pl_matmul_options o = { .trans_a = pl_attr_int(c->node, "transA") != 0 };
    const pl_b_dot dot = { .n_factors = 2,
                           .factor = { 0, 1 },
                           .bias = 2,
                           .alpha = pl_attr_float(c->node, "alpha"),
                           .beta = pl_attr_float(c->node, "beta"),
                           .k = depth_of(pl_b_in(c, 0), o) + (pl_b_in(c, 2) != NULL) };
    return pl_b_dot_rule(c, &dot);
}

static pl_status fused_gemm_bound(pl_bound *c) {
    const char *bias = pl_b_in(c, 2) == NULL ? "i0, i1" : "i0, i1, i2";
    return pl_b_expand(c, pl_fused_expand(c, "Gemm", bias, NULL));
}

/* ---- Det ---- */

static pl_status det_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank < 2) return pl_infer_fail(c, "the input has rank %d, expected 2 or more", rank);
    const pl_dim m = pl_infer_dim(c, 0, rank - 2), n = pl_infer_dim(c, 0, rank - 1);
    if (pl_dim_known(m) && pl_dim_known(n) && m.value != n.value) {
        return pl_infer_fail(c, "matrices of %lld x %lld are not square", (long long)m.value,
                             (long long)n.value);
    }
    return pl_infer_set(c, 0, dtype, rank - 2, c->in[0]->dims);
}

/* Gaussian elimination with partial pivoting, in place. */
static double determinant(double *a, int64_t n) {
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++) {
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        }
        if (a[pivot * n + k] == 0) return 0;
        if (pivot != k) {
            det = -det;
            for (int64_t j = k; j < n; j++) {
                const double t = a[k * n + j];
                a[k * n + j] = a[pivot * n + j];
                a[pivot * n + j] = t;
            }
        }
        det *= a[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            const double f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                a[i * n + j] -= f * a[k * n + j];
        }
    }
    return det;
}

static pl_status det_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    const int64_t n = x->dims[x->rank - 1];
    const size_t one = (size_t)(x->n_elements / y->n_elements);
    double *a = pl_scratch(c, one, sizeof(*a));
    if (a == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < y->n_elements; i++) {
        pl_load_f64(x->dtype, (const char *)x->data + (size_t)i * one * pl_dtype_bytes(x->dtype), a,
                    one);
        const double det = determinant(a, n);
        pl_store_f64(y->dtype, &det, (char *)y->data + (size_t)i * pl_dtype_bytes(y->dtype), 1);
    }
    return PL_OK;
}

/* Hadamard's inequality: a determinant changes by at most the product of the row norms times the
 * relative errors of the rows. */
static pl_status det_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    const double *px = pl_b_x(c, 0), *ex = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    const int64_t n = x->dims[x->rank - 1];
    for (int64_t m = 0; m < y->n_elements; m++) {
        double product = 1, inherited = 0;
        for (int64_t i = 0; i < n; i++) {
            double norm = 0, error = 0;
            for (int64_t k = (m * n + i) * n; k < (m * n + i + 1) * n; k++) {
                norm += px[k] * px[k];
                error += ex == NULL ? 0 : ex[k] * ex[k];
            }
            norm = sqrt(norm);
            inherited = inherited * (norm + sqrt(error)) + product * sqrt(error);
            product *= norm;
        }
        e[m] = c->u_acc * (double)n * pl_b_chain((double)n) * product + inherited;
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    return PL_OK;
}

/* ---- rows ---- */

#define MS .domain = "com.microsoft", .since = 1
#define AB(types)                                                                                  \
    { "A", types, PL_PORT_SAME }, {                                                                \
        "B", types, PL_PORT_SAME                                                                   \
    }
#define GEMM_PORTS                                                                                 \
    .in = PL_PORTS(AB(PL_T_NUMERIC), { "C", PL_T_NUMERIC, PL_PORT_SAME | PL_PORT_OPTIONAL }),      \
    .out = PL_PORTS({ "Y", PL_T_NUMERIC, 0 })
#define GEMM_ATTRS                                                                                 \
    PL_A_FLOAT("alpha", 1), PL_A_FLOAT("beta", 1), PL_A_INT("transA", 0), PL_A_INT("transB", 0)
#define FUSED_ATTRS PL_A_FLOAT("alpha", 1), PL_A_INT("transA", 0), PL_A_INT("transB", 0)

/* clang-format off */
const pl_op_def pl_ops_matmul[] = {
    { .name = "Det", .since = 11, .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .infer = det_infer, .eval = det_eval, .grad = pl_det_grad, .bound = det_bound, PL_EMIT_BREAK("a factorisation: a library routine"), .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2,3,3] x) => (y) { y = Det(x) }", NULL, 0 }) },
    { .name = "Gemm", .since = 1, .until = 6, GEMM_PORTS, .attrs = PL_ATTRS(GEMM_ATTRS, PL_A_INT("broadcast", 0)),
      .infer = pl_gemm_infer, .eval = pl_gemm_eval, .grad = pl_gemm_grad, .bound = gemm_bound, .emit = pl_emit_gemm_rule, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS, .weights = PL_WEIGHTS_FOLD,
      .samples = PL_SAMPLES({ "(float[2,3] a, float[3,4] b, float[4] c) => (y) { y = Gemm<broadcast=1>(a, b, c) }", NULL, 0 }) },
    { .name = "Gemm", .since = 7, GEMM_PORTS, .attrs = PL_ATTRS(GEMM_ATTRS),
      .infer = pl_gemm_infer, .eval = pl_gemm_eval, .grad = pl_gemm_grad, .bound = gemm_bound, .emit = pl_emit_gemm_rule, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS, .weights = PL_WEIGHTS_FOLD,
      .samples = PL_SAMPLES({ "(float[2,3] a, float[4,3] b, float[4] c) => (y) { y = Gemm<transB=1, alpha=0.5, beta=2.0>(a, b, c) }", NULL, 0 },
                            { "(float[3,2] a, float[3,4] b) => (y) { y = Gemm<transA=1>(a, b) }", NULL, 0 }) },
    { .name = "MatMul", .since = 1, .in = PL_PORTS(AB(PL_T_NUMERIC)), .out = PL_PORTS({ "Y", PL_T_NUMERIC, 0 }),
      .infer = matmul_infer, .eval = matmul_eval, .grad = pl_matmul_grad, .bound = matmul_bound, .emit = pl_emit_matmul, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS | PL_OP_NARROW_B, .weights = PL_WEIGHTS_FOLD,
      .samples = PL_SAMPLES({ "(float[2,3] a, float[3,4] b) => (y) { y = MatMul(a, b) }", NULL, 0 },
                            { "(float[2,1,3,4] a, float[5,4,2] b) => (y) { y = MatMul(a, b) }", NULL, 0 },
                            { "(float[4] a, float[2,4,3] b) => (y) { y = MatMul(a, b) }", NULL, 0 }) },
    { .name = "FusedGemm", MS, GEMM_PORTS,
      .attrs = PL_ATTRS(GEMM_ATTRS, PL_A_STRING("activation", ""), PL_A_FLOAT("activation_alpha", 0), PL_A_FLOAT("activation_beta", 0),
                        PL_A_FLOAT("activation_gamma", 0)),
      .infer = pl_gemm_infer, .eval = pl_fused_gemm_eval, .grad = pl_fused_gemm_grad, .bound = fused_gemm_bound, .emit = pl_emit_fused_gemm, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[2,3] a, float[3,4] b, float[4] c) => (y) { y = com.microsoft.FusedGemm<activation=\"Relu\">(a, b, c) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "FusedMatMul", MS, .in = PL_PORTS(AB(PL_T_FLOAT)), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(FUSED_ATTRS, PL_A_INT("transBatchA", 0), PL_A_INT("transBatchB", 0)),
      .infer = fused_matmul_infer, .eval = fused_matmul_eval, .grad = pl_fused_matmul_grad, .bound = fused_matmul_bound, .emit = pl_emit_fused_matmul, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[2,3,4] a, float[2,5,4] b) => (y) { y = com.microsoft.FusedMatMul<transB=1, alpha=0.5>(a, b) }", NULL, 0 },
                            { "(float[4,2,3] a, float[2,3,5] b) => (y) { y = com.microsoft.FusedMatMul<transBatchA=1>(a, b) }", NULL, 0 }) },
    { .name = "SparseToDenseMatMul", MS, .in = PL_PORTS(AB(PL_T_FLOAT)), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), /* sparse tensors are made dense when they are read */
      .attrs = PL_ATTRS(FUSED_ATTRS), .infer = fused_matmul_infer, .eval = fused_matmul_eval, .grad = pl_fused_matmul_grad, .bound = fused_matmul_bound, .emit = pl_emit_fused_matmul, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[4,3] a, float[5,4] b) => (y) { y = com.microsoft.SparseToDenseMatMul<transA=1, transB=1, alpha=2.0>(a, b) }", NULL, 0 }) },
    { .name = "TransposeMatMul", MS, .in = PL_PORTS(AB(PL_T_FLOAT)), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(FUSED_ATTRS), .infer = fused_matmul_infer, .eval = fused_matmul_eval, .grad = pl_fused_matmul_grad, .bound = fused_matmul_bound, .emit = pl_emit_fused_matmul, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[2,4,3] a, float[2,4,5] b) => (y) { y = com.microsoft.TransposeMatMul<transA=1>(a, b) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

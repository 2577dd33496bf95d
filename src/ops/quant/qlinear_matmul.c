/* com.microsoft QGemm, MatMulIntegerToFloat and DynamicQuantizeMatMul: integer products whose
 * result is scaled in one step. */
#include "ops/quant/integer_matmul.h"
#include "ops/quant/qlinear.h"
#include "ops/quant/qlinear_rules.h"

/* ---- the scaled product ---- */

typedef struct scale_job {
    const pl_matmul *p;
    const pl_i32 *acc;
    double factor;             /* besides the scales: alpha, or the scale of a */
    const pl_matmul_param *sa; /* NULL: it is in factor */
    const pl_matmul_param *sb;
    const double *bias; /* one for each column, or NULL */
    pl_tensor *y;
} scale_job;

static void scale_rows(void *ctx, int64_t begin, int64_t end) {
    const scale_job *j = ctx;
    const int64_t n = j->p->n;
    const bool in_f64 = j->y->dtype == PL_F64;
    for (int64_t r = begin; r < end; r++) {
        const int64_t item = r / j->p->m, row = r % j->p->m;
        const double *sb = j->sb->value + item * j->sb->stride;
        double a = j->factor;
        if (j->sa != NULL) a *= j->sa->value[j->sa->step == 0 ? 0 : item * j->sa->stride + row];
        for (int64_t k = 0; k < n; k++) {
            const double s = sb[k * j->sb->step], acc = j->acc[r * n + k];
            const double more = j->bias == NULL ? 0 : j->bias[k];
            if (in_f64) {
                ((pl_f64 *)j->y->data)[r * n + k] = acc * (a * s) + more;
            } else {
                const float v = (float)acc * ((float)a * (float)s) + (float)more;
                pl_store_f32(j->y->dtype, &v,
                             (char *)j->y->data + (size_t)(r * n + k) * pl_dtype_bytes(j->y->dtype),
                             1);
            }
        }
    }
}

static pl_status bias_of(pl_eval *c, int i, const double **out) {
    const pl_tensor *t = pl_in(c, i);
    *out = NULL;
    if (t == NULL) return PL_OK;
    double *copy = pl_scratch(c, (size_t)t->n_elements, sizeof(*copy));
    if (copy == NULL) return pl_eval_memory(c);
    pl_load_f64(t->dtype, t->data, copy, (size_t)t->n_elements);
    *out = copy;
    return PL_OK;
}

/* Bias input i has one value for each column. */
static pl_status check_bias(const pl_infer *c, int i, pl_dim columns) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0) return PL_OK;
    const pl_dim n = pl_infer_dim(c, i, 0);
    if (rank != 1 || (pl_dim_known(n) && pl_dim_known(columns) && n.value != columns.value)) {
        return pl_infer_fail(c, "the bias does not have one value for each column");
    }
    return PL_OK;
}

static pl_dim last_dim(const pl_infer *c, int i) {
    const int rank = pl_infer_rank(c, i);
    return rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, i, rank - 1);
}

static pl_dim rows_dim(const pl_infer *c, int i) {
    const int rank = pl_infer_rank(c, i);
    return rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, i, rank - 2);
}

/* ---- MatMulIntegerToFloat ---- */

enum { A, B, A_SCALE, B_SCALE, A_ZERO, B_ZERO, BIAS };

pl_status pl_matmul_integer_to_float_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, A, A_ZERO));
    PL_TRY(pl_quant_same_type(c, B, B_ZERO));
    PL_TRY(pl_matmul_infer(c, A, B, (pl_matmul_options){ 0 }, pl_infer_dtype_of(c, A_SCALE)));
    PL_TRY(pl_matmul_param_check(c, A_SCALE, true, rows_dim(c, A)));
    PL_TRY(pl_matmul_param_check(c, A_ZERO, true, rows_dim(c, A)));
    PL_TRY(pl_matmul_param_check(c, B_SCALE, false, last_dim(c, B)));
    PL_TRY(pl_matmul_param_check(c, B_ZERO, false, last_dim(c, B)));
    return check_bias(c, BIAS, last_dim(c, B));
}

pl_status pl_matmul_integer_to_float_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    pl_matmul p;
    pl_matmul_param za, zb, sa, sb;
    PL_TRY(pl_matmul_plan(c, pl_in(c, A), pl_in(c, B), (pl_matmul_options){ 0 }, &p));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_matmul_param_read(c, &p, A_ZERO, true, &za));
    PL_TRY(pl_matmul_param_read(c, &p, B_ZERO, false, &zb));
    PL_TRY(pl_matmul_param_read(c, &p, A_SCALE, true, &sa));
    PL_TRY(pl_matmul_param_read(c, &p, B_SCALE, false, &sb));
    pl_i32 *acc = pl_scratch(c, (size_t)y->n_elements, sizeof(*acc));
    if (acc == NULL) return pl_eval_memory(c);
    PL_TRY(pl_matmul_i8(c, &p, pl_in(c, A), za, pl_in(c, B), zb, acc));
    scale_job job = { .p = &p, .acc = acc, .factor = 1, .sa = &sa, .sb = &sb, .y = y };
    PL_TRY(bias_of(c, BIAS, &job.bias));
    pl_pool_for(c->pool, p.batch * p.m, 16, scale_rows, &job);
    return PL_OK;
}

/* ---- DynamicQuantizeMatMul ---- */

enum { D_A, D_B, D_B_SCALE, D_B_ZERO, D_BIAS };

pl_status pl_dynamic_quantize_matmul_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, D_B, D_B_ZERO));
    PL_TRY(pl_matmul_infer(c, D_A, D_B, (pl_matmul_options){ 0 }, pl_infer_dtype_of(c, D_A)));
    PL_TRY(pl_matmul_param_check(c, D_B_SCALE, false, last_dim(c, D_B)));
    PL_TRY(pl_matmul_param_check(c, D_B_ZERO, false, last_dim(c, D_B)));
    return check_bias(c, D_BIAS, last_dim(c, D_B));
}

pl_status pl_dynamic_quantize_matmul_eval(pl_eval *c) {
    const pl_tensor *a = pl_in(c, D_A), *b = pl_in(c, D_B);
    pl_tensor *y = pl_out(c, 0), *quantized = NULL;
    pl_matmul p;
    pl_matmul_param zb, sb;
    double scale = 1, zero = 0;
    pl_status st = PL_OK;
    PL_TRY(pl_matmul_plan(c, a, b, (pl_matmul_options){ 0 }, &p));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_matmul_param_read(c, &p, D_B_ZERO, false, &zb));
    PL_TRY(pl_matmul_param_read(c, &p, D_B_SCALE, false, &sb));
    PL_TRY(pl_quant_dynamic(c, a, &scale, &zero));
    pl_i32 *acc = pl_scratch(c, (size_t)y->n_elements, sizeof(*acc));
    if (acc == NULL) return pl_eval_memory(c);
    PL_TRY(pl_tensor_new(PL_U8, a->rank, a->dims, &quantized, c->err));
    pl_quant_whole(c, a, quantized, scale, zero);
    const pl_matmul_param za = { &zero, 0, 0 };
    scale_job job = { .p = &p, .acc = acc, .factor = scale, .sb = &sb, .y = y };
    PL_TRY_GOTO(done, st, pl_matmul_i8(c, &p, quantized, za, b, zb, acc));
    PL_TRY_GOTO(done, st, bias_of(c, D_BIAS, &job.bias));
    pl_pool_for(c->pool, p.batch * p.m, 16, scale_rows, &job);
done:
    pl_tensor_unref(quantized);
    return st;
}

/* ---- QGemm ---- */

enum { G_A, G_A_SCALE, G_A_ZERO, G_B, G_B_SCALE, G_B_ZERO, G_C, G_Y_SCALE, G_Y_ZERO };

static pl_matmul_options gemm_options(const pl_node *node) {
    return (pl_matmul_options){ .trans_a = pl_attr_int(node, "transA") != 0,
                                .trans_b = pl_attr_int(node, "transB") != 0 };
}

static pl_status check_c(const pl_infer *c, pl_dim rows, pl_dim columns) {
    const int rank = pl_infer_rank(c, G_C);
    if (rank > 2) return pl_infer_fail(c, "input C has rank %d, expected 0 to 2", rank);
    for (int d = 0; d < rank; d++) {
        const pl_dim have = pl_infer_dim(c, G_C, d), want = d == rank - 1 ? columns : rows;
        if (!pl_dim_known(have) || !pl_dim_known(want) || have.value == 1) continue;
        if (have.value != want.value) {
            return pl_infer_fail(c, "dim %d of input C is %lld, which cannot be broadcast to %lld",
                                 d, (long long)have.value, (long long)want.value);
        }
    }
    return PL_OK;
}

pl_status pl_qgemm_infer(pl_infer *c) {
    const pl_matmul_options o = gemm_options(c->node);
    for (int i = 0; i <= G_B; i += G_B) {
        const int rank = pl_infer_rank(c, i);
        if (rank >= 0 && rank != 2) {
            return pl_infer_fail(c, "input %d has rank %d, expected 2", i, rank);
        }
    }
    const pl_dim rows = pl_infer_dim(c, G_A, o.trans_a), columns = pl_infer_dim(c, G_B, !o.trans_b);
    const pl_dtype dtype = pl_infer_has(c, G_Y_ZERO) ? pl_infer_dtype_of(c, G_Y_ZERO)
                                                     : pl_infer_dtype_of(c, G_A_SCALE);
    if (pl_infer_has(c, G_Y_ZERO) != pl_infer_has(c, G_Y_SCALE)) {
        return pl_infer_fail(c, "y_scale and y_zero_point are required together");
    }
    PL_TRY(pl_matmul_infer(c, G_A, G_B, o, dtype));
    PL_TRY(pl_qparam_check(c, G_A, G_A_SCALE, G_A_ZERO));
    PL_TRY(pl_quant_same_type(c, G_B, G_B_ZERO));
    PL_TRY(pl_matmul_param_check(c, G_B_SCALE, false, columns));
    PL_TRY(pl_matmul_param_check(c, G_B_ZERO, false, columns));
    PL_TRY(pl_quant_single(c, G_Y_SCALE));
    PL_TRY(pl_quant_single(c, G_Y_ZERO));
    return check_c(c, rows, columns);
}

static void add_c(const pl_tensor *t, const pl_matmul *p, pl_i32 *acc) {
    const int64_t col = t->rank >= 1 && t->dims[t->rank - 1] != 1 ? 1 : 0;
    const int64_t row = t->rank == 2 && t->dims[0] != 1 ? t->dims[1] : 0;
    const pl_i32 *from = t->data;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t k = 0; k < p->n; k++) {
            const uint32_t more = (uint32_t)from[i * row + k * col];
            acc[i * p->n + k] = (int32_t)((uint32_t)acc[i * p->n + k] + more);
        }
    }
}

pl_status pl_qgemm_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    pl_matmul p;
    pl_matmul_param za, zb, sb;
    PL_TRY(pl_matmul_plan(c, pl_in(c, G_A), pl_in(c, G_B), gemm_options(c->node), &p));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_matmul_param_read(c, &p, G_A_ZERO, true, &za));
    PL_TRY(pl_matmul_param_read(c, &p, G_B_ZERO, false, &zb));
    PL_TRY(pl_matmul_param_read(c, &p, G_B_SCALE, false, &sb));
    pl_i32 *acc = pl_scratch(c, (size_t)y->n_elements, sizeof(*acc));
    if (acc == NULL) return pl_eval_memory(c);
    PL_TRY(pl_matmul_i8(c, &p, pl_in(c, G_A), za, pl_in(c, G_B), zb, acc));
    if (pl_has(c, G_C)) add_c(pl_in(c, G_C), &p, acc);
    const double factor = pl_attr_float(c->node, "alpha") * pl_in_float(c, G_A_SCALE, 1);
    if (!pl_has(c, G_Y_SCALE)) {
        scale_job job = { .p = &p, .acc = acc, .factor = factor, .sb = &sb, .y = y };
        pl_pool_for(c->pool, p.m, 16, scale_rows, &job);
        return PL_OK;
    }
    const pl_qparam q = pl_qparam_of(c, G_Y_SCALE, G_Y_ZERO);
    const pl_quant_target target = pl_quant_target_of(y->dtype, q.scale, q.zero);
    const bool in_f64 = pl_in(c, G_A_SCALE)->dtype == PL_F64;
    for (int64_t r = 0; r < p.m; r++) {
        pl_quant_row(&target, acc + r * p.n, factor, sb.value, sb.step, in_f64,
                     (char *)y->data + (size_t)(r * p.n) * pl_dtype_bytes(y->dtype), (size_t)p.n);
    }
    return PL_OK;
}

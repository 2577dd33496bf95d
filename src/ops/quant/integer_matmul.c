/* Products of quantised matrices: MatMulInteger-10, QLinearMatMul-10 and -21. */
#include "ops/quant/integer_matmul.h"

#include <string.h>

#include "base/size.h"
#include "ops/quant/integer_matmul_rules.h"
#include "ops/quant/quant_loops.h"

extern const pl_op_def pl_ops_integer_matmul[];

/* ---- scales and zero points ---- */

pl_status pl_matmul_param_check(const pl_infer *c, int i, bool is_row, pl_dim n) {
    const int rank = pl_infer_rank(c, i);
    if (rank <= 0) return PL_OK;
    bool one = true;
    for (int d = 0; d < rank; d++) {
        if (pl_infer_dim(c, i, d).value != 1) one = false;
    }
    if (one) return PL_OK;
    const int axis = rank > 1 && is_row ? rank - 2 : rank - 1;
    const pl_dim size = pl_infer_dim(c, i, axis);
    const pl_dim other = rank > 1 ? pl_infer_dim(c, i, is_row ? rank - 1 : rank - 2) : pl_dim_of(1);
    if (pl_dim_known(other) && other.value != 1) {
        return pl_infer_fail(c, "input %d has a dim of %lld, expected 1", i,
                             (long long)other.value);
    }
    if (pl_dim_known(size) && pl_dim_known(n) && size.value != n.value && size.value != 1) {
        return pl_infer_fail(
            c, "input %d has %lld values, expected one or one for each of the %lld %s", i,
            (long long)size.value, (long long)n.value, is_row ? "rows" : "columns");
    }
    return PL_OK;
}

pl_status pl_matmul_param_read(pl_eval *c, const pl_matmul *p, int i, bool is_row,
                               pl_matmul_param *out) {
    const pl_tensor *t = pl_in(c, i);
    *out = (pl_matmul_param){ NULL, 0, 0 };
    if (t == NULL) return PL_OK;
    const int64_t n = is_row ? p->m : p->n;
    double *given = pl_scratch(c, (size_t)t->n_elements, sizeof(*given));
    if (given == NULL) return pl_eval_memory(c);
    pl_load_f64(t->dtype, t->data, given, (size_t)t->n_elements);
    out->value = given;
    if (t->n_elements == 1) return PL_OK;
    const int n_batch = t->rank > 2 ? t->rank - 2 : 0;
    if (n_batch > p->n_batch_dims) return pl_eval_fail(c, "input %d has rank %d", i, t->rank);
    const int64_t own = t->rank == 1 ? t->dims[0] : t->dims[t->rank - (is_row ? 2 : 1)];
    for (int d = 0; d < n_batch; d++) {
        const int64_t whole = p->batch_dims[p->n_batch_dims - n_batch + d];
        if (t->dims[d] != 1 && t->dims[d] != whole) {
            return pl_eval_fail(c, "dim %d of input %d is %lld, expected 1 or %lld", d, i,
                                (long long)t->dims[d], (long long)whole);
        }
    }
    int64_t total = 0;
    if (!pl_i64_mul(p->batch, n, &total)) return pl_eval_memory(c);
    double *all = pl_scratch(c, (size_t)total, sizeof(*all));
    if (all == NULL) return pl_eval_memory(c);
    int64_t index[PL_RANK_MAX] = { 0 };
    for (int64_t b = 0; b < p->batch; b++) {
        int64_t at = 0;
        for (int d = 0; d < n_batch; d++) {
            const int64_t x = t->dims[d] == 1 ? 0 : index[p->n_batch_dims - n_batch + d];
            at += x * t->strides[d];
        }
        for (int64_t k = 0; k < n; k++)
            all[b * n + k] = given[at + (own == 1 ? 0 : k)];
        for (int d = p->n_batch_dims - 1; d >= 0 && ++index[d] == p->batch_dims[d]; d--)
            index[d] = 0;
    }
    out->value = all;
    out->step = 1;
    out->stride = n;
    return PL_OK;
}

static pl_status zero_of(pl_eval *c, const pl_matmul *p, pl_matmul_param z, int64_t n,
                         pl_gemm_i8_zero *out) {
    *out = (pl_gemm_i8_zero){ NULL, 0, 0 };
    if (z.value == NULL) return PL_OK;
    const int64_t total = z.step == 0 ? 1 : p->batch * n;
    pl_i32 *value = pl_scratch(c, (size_t)total, sizeof(*value));
    if (value == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < total; i++)
        value[i] = (int32_t)z.value[i];
    *out = (pl_gemm_i8_zero){ value, z.step, z.stride };
    return PL_OK;
}

pl_status pl_matmul_i8(pl_eval *c, const pl_matmul *p, const pl_tensor *a, pl_matmul_param a_zero,
                       const pl_tensor *b, pl_matmul_param b_zero, pl_i32 *acc) {
    pl_gemm_i8_zero za, zb;
    pl_gemm_shape g = p->gemm;
    PL_TRY(zero_of(c, p, a_zero, p->m, &za));
    PL_TRY(zero_of(c, p, b_zero, p->n, &zb));
    if (p->k == 0) {
        memset(acc, 0, (size_t)(p->batch * p->m * p->n) * sizeof(*acc));
        return PL_OK;
    }
    if (g.batch !=
        p->batch) { /* folded: rows of all items in a line, columns' zeros must be shared */
        za.stride = 0;
        if (zb.step != 0) {
            g.m = p->m;
            g.batch = p->batch;
            g.stride_a = p->m * g.lda;
            g.stride_c = p->m * p->n;
            za.stride = za.step == 0 ? 0 : p->m;
        }
    }
    return pl_gemm_i8(c->pool, &g, a->data, a->dtype == PL_I8, za, b->data, b->dtype == PL_I8, zb,
                      acc, c->err);
}

/* ---- MatMulInteger ---- */

/* Rows of a and columns of b; 1 for vectors. */
static pl_dim rows_of(const pl_infer *c, int a) {
    const int rank = pl_infer_rank(c, a);
    return rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, a, rank - 2);
}
static pl_dim columns_of(const pl_infer *c, int b) {
    const int rank = pl_infer_rank(c, b);
    return rank == 1 ? pl_dim_of(1) : pl_infer_dim(c, b, rank - 1);
}

static pl_status matmul_integer_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, 0, 2));
    PL_TRY(pl_quant_same_type(c, 1, 3));
    PL_TRY(pl_matmul_infer(c, 0, 1, (pl_matmul_options){ 0 }, PL_I32));
    PL_TRY(pl_matmul_param_check(c, 2, true, rows_of(c, 0)));
    return pl_matmul_param_check(c, 3, false, columns_of(c, 1));
}

static pl_status matmul_integer_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    pl_matmul p;
    pl_matmul_param za, zb;
    PL_TRY(pl_matmul_plan(c, pl_in(c, 0), pl_in(c, 1), (pl_matmul_options){ 0 }, &p));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_matmul_param_read(c, &p, 2, true, &za));
    PL_TRY(pl_matmul_param_read(c, &p, 3, false, &zb));
    return pl_matmul_i8(c, &p, pl_in(c, 0), za, pl_in(c, 1), zb, y->data);
}

/* ---- QLinearMatMul ---- */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

static pl_status qlinear_matmul_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, A, A_ZERO));
    PL_TRY(pl_quant_same_type(c, B, B_ZERO));
    PL_TRY(pl_matmul_infer(c, A, B, (pl_matmul_options){ 0 }, pl_infer_dtype_of(c, Y_ZERO)));
    PL_TRY(pl_matmul_param_check(c, A_SCALE, true, rows_of(c, A)));
    PL_TRY(pl_matmul_param_check(c, A_ZERO, true, rows_of(c, A)));
    PL_TRY(pl_matmul_param_check(c, B_SCALE, false, columns_of(c, B)));
    PL_TRY(pl_matmul_param_check(c, B_ZERO, false, columns_of(c, B)));
    PL_TRY(pl_quant_single(c, Y_SCALE));
    return pl_quant_single(c, Y_ZERO);
}

static double param_at(const pl_matmul_param *z, int64_t item, int64_t i, double otherwise) {
    return z->value == NULL ? otherwise : z->value[z->step == 0 ? 0 : item * z->stride + i];
}

/* float8: operands minus their zero points, as float. Rare and small, so there is no fast path. */
static pl_status product_f8(pl_eval *c, const pl_matmul *p, const pl_matmul_param *za,
                            const pl_matmul_param *zb, double *out) {
    const pl_tensor *a = pl_in(c, A), *b = pl_in(c, B);
    double *fa = pl_scratch(c, (size_t)a->n_elements, sizeof(*fa));
    double *fb = pl_scratch(c, (size_t)b->n_elements, sizeof(*fb));
    if (fa == NULL || fb == NULL) return pl_eval_memory(c);
    pl_load_f64(a->dtype, a->data, fa, (size_t)a->n_elements);
    pl_load_f64(b->dtype, b->data, fb, (size_t)b->n_elements);
    /* Zero points vary by row or column. Batches may share matrices, so they are subtracted in the
     * sum and not in place. */
    const pl_gemm_shape *g = &p->gemm;
    const bool folded = g->batch != p->batch;
    for (int64_t i = 0; i < p->batch; i++) {
        const double *x = fa + (folded         ? i * p->m * g->lda
                                : g->offsets_a ? g->offsets_a[i]
                                               : i * g->stride_a);
        const double *y = fb + (g->offsets_b ? g->offsets_b[i] : i * g->stride_b);
        for (int64_t r = 0; r < p->m * p->n; r++) {
            const int64_t m = r / p->n, n = r % p->n;
            const double z_a = param_at(za, i, m, 0), z_b = param_at(zb, i, n, 0);
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += (x[m * p->k + k] - z_a) * (y[k * p->n + n] - z_b);
            out[i * p->m * p->n + r] = sum;
        }
    }
    return PL_OK;
}

typedef struct requant_job {
    const pl_matmul *p;
    const pl_matmul_param *sa, *sb;
    const pl_i32 *acc;
    const double *sums; /* replaces acc */
    pl_quant_target target;
    bool in_f64;
    char *y;
} requant_job;

static void requant_rows(void *ctx, int64_t begin, int64_t end) {
    const requant_job *j = ctx;
    const int64_t n = j->p->n;
    for (int64_t r = begin; r < end; r++) {
        const int64_t item = r / j->p->m, row = r % j->p->m;
        const double sa = param_at(j->sa, item, row, 1);
        const double *sb = j->sb->value + (j->sb->step == 0 ? 0 : item * n);
        char *y = j->y + (size_t)(r * n) * pl_dtype_bytes(j->target.dtype);
        if (j->acc != NULL) {
            pl_quant_row(&j->target, j->acc + r * n, sa, sb, j->sb->step, j->in_f64, y, (size_t)n);
            continue;
        }
        for (int64_t k = 0; k < n; k++) {
            const double v = j->sums[r * n + k] * (sa * sb[k * j->sb->step] / j->target.scale);
            pl_quant_store_f64(&j->target, &v, y + (size_t)k * pl_dtype_bytes(j->target.dtype), 1);
        }
    }
}

static pl_status qlinear_matmul_eval(pl_eval *c) {
    const pl_tensor *a = pl_in(c, A);
    pl_tensor *y = pl_out(c, 0);
    pl_matmul p;
    pl_matmul_param za, zb, sa, sb;
    PL_TRY(pl_matmul_plan(c, a, pl_in(c, B), (pl_matmul_options){ 0 }, &p));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_matmul_param_read(c, &p, A_ZERO, true, &za));
    PL_TRY(pl_matmul_param_read(c, &p, B_ZERO, false, &zb));
    PL_TRY(pl_matmul_param_read(c, &p, A_SCALE, true, &sa));
    PL_TRY(pl_matmul_param_read(c, &p, B_SCALE, false, &sb));
    requant_job job = { .p = &p,
                        .sa = &sa,
                        .sb = &sb,
                        .y = y->data,
                        .in_f64 = pl_in(c, A_SCALE)->dtype == PL_F64,
                        .target = pl_quant_target_of(y->dtype, pl_in_float(c, Y_SCALE, 1),
                                                     pl_in_float(c, Y_ZERO, 0)) };
    if (pl_dtype_is_integer(a->dtype)) {
        pl_i32 *acc = pl_scratch(c, (size_t)y->n_elements, sizeof(*acc));
        if (acc == NULL) return pl_eval_memory(c);
        PL_TRY(pl_matmul_i8(c, &p, a, za, pl_in(c, B), zb, acc));
        job.acc = acc;
    } else {
        double *sums = pl_scratch(c, (size_t)y->n_elements, sizeof(*sums));
        if (sums == NULL) return pl_eval_memory(c);
        PL_TRY(product_f8(c, &p, &za, &zb, sums));
        job.sums = sums;
    }
    pl_pool_for(c->pool, p.batch * p.m, 64, requant_rows, &job);
    return PL_OK;
}

/* ---- rows ---- */

#define INTEGER .grad = PL_GRAD_UNDEFINED, .autocast = PL_AMP_KEEP

/* clang-format off */
const pl_op_def pl_ops_integer_matmul[] = {
    { .name = "MatMulInteger", .since = 10,
      .in = PL_PORTS({ "A", PL_T_8BIT, 0 }, { "B", PL_T_8BIT, 0 }, { "a_zero_point", PL_T_8BIT, PL_PORT_OPTIONAL },
                     { "b_zero_point", PL_T_8BIT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T(PL_I32), 0 }), .infer = matmul_integer_infer, .eval = matmul_integer_eval, .bound = pl_matmul_integer_bound, INTEGER, PL_PLAIN("MatMul", false, 0, 1), .emit = pl_emit_matmul_integer,
      .samples = PL_SAMPLES({ "(uint8[2,3] a, uint8[3,4] b, uint8 za, uint8[4] zb) => (y) { y = MatMulInteger(a, b, za, zb) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearMatMul", .since = 10,
      .in = PL_PORTS({ "a", PL_T_8BIT | PL_T_FLOAT8, 0 }, { "a_scale", PL_T_FLOAT, 0 }, { "a_zero_point", PL_T_8BIT | PL_T_FLOAT8, 0 },
                     { "b", PL_T_8BIT | PL_T_FLOAT8, 0 }, { "b_scale", PL_T_FLOAT, 0 }, { "b_zero_point", PL_T_8BIT | PL_T_FLOAT8, 0 },
                     { "y_scale", PL_T_FLOAT, 0 }, { "y_zero_point", PL_T_8BIT | PL_T_FLOAT8, 0 }),
      .out = PL_PORTS({ "y", PL_T_8BIT | PL_T_FLOAT8, 0 }), .infer = qlinear_matmul_infer, .eval = qlinear_matmul_eval, .bound = pl_qlinear_matmul_bound, INTEGER, PL_PLAIN("MatMul", false, 0, 3), .emit = pl_emit_qlinear_matmul,
      .samples = PL_SAMPLES({ "(uint8[2,3] a, uint8[3,4] b) => (y) <float sa = {0.1}, uint8 za = {3}, float[4] sb = {0.1, 0.2, 0.3, 0.4}, "
                              "uint8[4] zb = {1, 2, 3, 4}, float sy = {0.5}, uint8 zy = {100}> { y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

/* Quantised operators of ONNX Runtime, domain com.microsoft: elementwise ones here, products in
 * qlinear_matmul.c and matmul_nbits.c, pools in qlinear_pool.c.
 *
 * Where ONNX Runtime uses tables or fixed point, these compute the formula of
 * docs/ContribOperators.md in double and round once; results differ by at most one step. */
#include "ops/quant/qlinear.h"

#include <math.h>

#include "base/size.h"
#include "ops/lib/elementwise.h"
#include "ops/quant/qlinear_rules.h"
#include "ops/quant/quantize_rules.h"

extern const pl_op_def pl_ops_ms_quant[];

/* ---- parameters and tables ---- */

pl_qparam pl_qparam_of(const pl_eval *c, int i_scale, int i_zero) {
    return (pl_qparam){ pl_in_float(c, i_scale, 1), pl_in_float(c, i_zero, 0) };
}

pl_status pl_qparam_check(const pl_infer *c, int of, int i_scale, int i_zero) {
    PL_TRY(pl_quant_single(c, i_scale));
    PL_TRY(pl_quant_single(c, i_zero));
    return pl_quant_same_type(c, of, i_zero);
}

/* y for every value of an 8-bit type: table[byte] = quantise(fn(dequantise(byte))). Entries have
 * the type `to`: 8 bits, or F64 for values that are not rounded (pl_eval.unrounded). */
typedef union qtable {
    pl_u8 codes[256];
    pl_f64 steps[256];
} qtable;
typedef double (*qtable_fn)(double x, double p);

static void qtable_make(pl_dtype from, pl_qparam in, pl_dtype to, pl_qparam out, qtable_fn fn,
                        double p, qtable *table) {
    const pl_quant_target target = pl_quant_target_of(to, out.scale, out.zero);
    for (int i = 0; i < 256; i++) {
        const double q = from == PL_I8 ? (int8_t)i : i;
        double v = (q - in.zero) * in.scale;
        if (fn != NULL) v = fn(v, p);
        v /= out.scale;
        if (to == PL_F64) {
            table->steps[i] = v;
        } else {
            pl_quant_store_f64(&target, &v, table->codes + i, 1);
        }
    }
}

typedef struct table_job {
    const qtable *table;
    pl_dtype to;
    const pl_u8 *x;
    void *y;
} table_job;

static void table_range(void *ctx, int64_t begin, int64_t end) {
    const table_job *j = ctx;
    if (j->to == PL_F64) {
        for (int64_t i = begin; i < end; i++)
            ((pl_f64 *)j->y)[i] = j->table->steps[j->x[i]];
        return;
    }
    for (int64_t i = begin; i < end; i++)
        ((pl_u8 *)j->y)[i] = j->table->codes[j->x[i]];
}

/* y[i] = table[x[i]] over n bytes of x, in parallel; y has the type `to`. */
static void qtable_apply(pl_pool *pool, const qtable *table, pl_dtype to, const void *x, void *y,
                         int64_t n) {
    table_job job = { table, to, x, y };
    pl_pool_for(pool, n, 64 * 1024, table_range, &job);
}

/* ---- of one input ---- */

static pl_status unary_infer(pl_infer *c) {
    PL_TRY(pl_qparam_check(c, 0, 1, 2));
    PL_TRY(pl_qparam_check(c, 0, 3, 4));
    return pl_infer_set_like(c, 0, 0);
}

static pl_status unary_eval(pl_eval *c, qtable_fn fn, double p) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    qtable table;
    qtable_make(x->dtype, pl_qparam_of(c, 1, 2), y->dtype, pl_qparam_of(c, 3, 4), fn, p, &table);
    qtable_apply(c->pool, &table, y->dtype, x->data, y->data, x->n_elements);
    return PL_OK;
}

static double sigmoid(double x, double p) {
    (void)p;
    return 1 / (1 + exp(-x));
}
static pl_status qlinear_sigmoid_eval(pl_eval *c) {
    return unary_eval(c, sigmoid, 0);
}

static double leaky_relu(double x, double p) {
    return x < 0 ? p * x : x;
}
static pl_status qlinear_leaky_relu_eval(pl_eval *c) {
    return unary_eval(c, leaky_relu, pl_attr_float(c->node, "alpha"));
}

/* ---- of two ---- */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };
enum { CHUNK = 512 };

static pl_status broadcast_infer(pl_infer *c, int a, int b, int cond) {
    pl_dim out[PL_RANK_MAX];
    const int inputs[3] = { a, b, cond };
    int rank = 0;
    for (int i = 0; i < (cond < 0 ? 2 : 3); i++) {
        const int r = pl_infer_rank(c, inputs[i]);
        if (r < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, a));
        rank = r > rank ? r : rank;
    }
    for (int d = 0; d < rank; d++)
        out[d] = pl_dim_of(1);
    for (int i = 0; i < (cond < 0 ? 2 : 3); i++) {
        const int r = pl_infer_rank(c, inputs[i]);
        for (int d = 0; d < r; d++) {
            pl_dim *slot = &out[rank - r + d];
            PL_TRY(pl_infer_broadcast_dim(c, *slot, pl_infer_dim(c, inputs[i], d), slot));
        }
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, a), rank, out);
}

static pl_status binary_infer(pl_infer *c) {
    PL_TRY(pl_qparam_check(c, A, A_SCALE, A_ZERO));
    PL_TRY(pl_qparam_check(c, B, B_SCALE, B_ZERO));
    PL_TRY(pl_qparam_check(c, A, C_SCALE, C_ZERO));
    return broadcast_infer(c, A, B, -1);
}

typedef struct binary_job {
    pl_broadcast b;
    pl_dtype from;
    const char *x, *y;
    char *z;
    pl_qparam qx, qy;
    bool multiplies;
    pl_quant_target target;
    int64_t n_chunks; /* of one row */
} binary_job;

static void binary_units(void *ctx, int64_t begin, int64_t end) {
    const binary_job *j = ctx;
    const int64_t sx = pl_broadcast_step(&j->b, 0), sy = pl_broadcast_step(&j->b, 1);
    const double fx = j->qx.scale / j->target.scale, fy = j->qy.scale / j->target.scale;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / j->n_chunks, from = unit % j->n_chunks * CHUNK;
        const size_t n = (size_t)pl_i64_min(CHUNK, j->b.n_inner - from);
        double x[CHUNK], y[CHUNK];
        pl_load_f64(j->from, j->x + pl_broadcast_row(&j->b, 0, row) + from * sx, x,
                    sx == 0 ? 1 : n);
        pl_load_f64(j->from, j->y + pl_broadcast_row(&j->b, 1, row) + from * sy, y,
                    sy == 0 ? 1 : n);
        for (size_t i = sx == 0 ? 1 : n; i < n; i++)
            x[i] = x[0];
        for (size_t i = sy == 0 ? 1 : n; i < n; i++)
            y[i] = y[0];
        if (j->multiplies) {
            for (size_t i = 0; i < n; i++)
                x[i] = (x[i] - j->qx.zero) * (y[i] - j->qy.zero) * (fx * j->qy.scale);
        } else {
            for (size_t i = 0; i < n; i++)
                x[i] = (x[i] - j->qx.zero) * fx + (y[i] - j->qy.zero) * fy;
        }
        const size_t at = (size_t)(row * j->b.n_inner + from);
        pl_quant_store_f64(&j->target, x, j->z + at * pl_dtype_bytes(j->target.dtype), n);
    }
}

static pl_status binary_eval(pl_eval *c, bool multiplies) {
    const pl_tensor *x = pl_in(c, A), *y = pl_in(c, B);
    pl_tensor *z = pl_out(c, 0);
    const pl_qparam out = pl_qparam_of(c, C_SCALE, C_ZERO);
    if (z->n_elements == 0) return PL_OK;
    binary_job job = { .from = x->dtype,
                       .x = x->data,
                       .y = y->data,
                       .z = z->data,
                       .qx = pl_qparam_of(c, A_SCALE, A_ZERO),
                       .qy = pl_qparam_of(c, B_SCALE, B_ZERO),
                       .multiplies = multiplies,
                       .target = pl_quant_target_of(z->dtype, out.scale, out.zero) };
    pl_broadcast_init(&job.b, z->rank, z->dims, 2, (const pl_tensor *const[]){ x, y });
    job.n_chunks = (job.b.n_inner + CHUNK - 1) / CHUNK;
    pl_pool_for(c->pool, job.b.n_outer * job.n_chunks, 32, binary_units, &job);
    return PL_OK;
}

static pl_status qlinear_add_eval(pl_eval *c) {
    return binary_eval(c, false);
}
static pl_status qlinear_mul_eval(pl_eval *c) {
    return binary_eval(c, true);
}

/* ---- QLinearWhere ---- */

enum { W_COND, W_X, W_X_SCALE, W_X_ZERO, W_Y, W_Y_SCALE, W_Y_ZERO, W_Z_SCALE, W_Z_ZERO };

static pl_status where_infer(pl_infer *c) {
    PL_TRY(pl_qparam_check(c, W_X, W_X_SCALE, W_X_ZERO));
    PL_TRY(pl_qparam_check(c, W_Y, W_Y_SCALE, W_Y_ZERO));
    PL_TRY(pl_qparam_check(c, W_X, W_Z_SCALE, W_Z_ZERO));
    return broadcast_infer(c, W_X, W_Y, W_COND);
}

static pl_status where_eval(pl_eval *c) {
    const pl_tensor *t[3] = { pl_in(c, W_COND), pl_in(c, W_X), pl_in(c, W_Y) };
    pl_tensor *z = pl_out(c, 0);
    const pl_qparam out = pl_qparam_of(c, W_Z_SCALE, W_Z_ZERO);
    qtable table[2];
    pl_broadcast b;
    if (z->n_elements == 0) return PL_OK;
    qtable_make(t[1]->dtype, pl_qparam_of(c, W_X_SCALE, W_X_ZERO), z->dtype, out, NULL, 0,
                &table[0]);
    qtable_make(t[2]->dtype, pl_qparam_of(c, W_Y_SCALE, W_Y_ZERO), z->dtype, out, NULL, 0,
                &table[1]);
    pl_broadcast_init(&b, z->rank, z->dims, 3, t);
    for (int64_t row = 0; row < b.n_outer; row++) {
        const pl_u8 *p[3];
        int64_t step[3];
        for (int k = 0; k < 3; k++) {
            p[k] = (const pl_u8 *)t[k]->data + pl_broadcast_row(&b, k, row);
            step[k] = pl_broadcast_step(&b, k);
        }
        for (int64_t i = 0; i < b.n_inner; i++) {
            const int side = p[0][i * step[0]] != 0 ? 0 : 1;
            const pl_u8 code = p[side + 1][i * step[side + 1]];
            if (z->dtype == PL_F64) {
                ((pl_f64 *)z->data)[row * b.n_inner + i] = table[side].steps[code];
            } else {
                ((pl_u8 *)z->data)[row * b.n_inner + i] = table[side].codes[code];
            }
        }
    }
    return PL_OK;
}

/* ---- QLinearConcat: Y_scale, Y_zero_point, then (tensor, scale, zero point) each ---- */

static pl_status concat_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 1);
    int rank = -1, axis = 0;
    pl_dim out[PL_RANK_MAX];
    if (c->n_in < 5 || (c->n_in - 2) % 3 != 0) {
        return pl_infer_fail(c, "%d inputs, expected 2 plus 3 for each tensor", c->n_in);
    }
    PL_TRY(pl_quant_single(c, 0));
    PL_TRY(pl_quant_single(c, 1));
    for (int i = 2; i < c->n_in; i += 3) {
        const pl_dtype x = pl_infer_dtype_of(c, i), s = pl_infer_dtype_of(c, i + 1);
        if (!pl_infer_has(c, i) || !pl_infer_has(c, i + 1) || !pl_infer_has(c, i + 2) ||
            pl_dtype_is_float(x) || (s != PL_UNDEFINED && !pl_dtype_is_float(s))) {
            return pl_infer_fail(c, "inputs %d to %d are not a tensor, a scale and a zero point", i,
                                 i + 2);
        }
        PL_TRY(pl_qparam_check(c, i, i + 1, i + 2));
        const int r = pl_infer_rank(c, i);
        if (r < 0) return pl_infer_set_unranked(c, 0, dtype);
        if (rank < 0) {
            rank = r;
            PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
            for (int d = 0; d < rank; d++)
                out[d] = pl_infer_dim(c, i, d);
            continue;
        }
        if (r != rank) return pl_infer_fail(c, "input %d has rank %d, expected %d", i, r, rank);
        for (int d = 0; d < rank; d++) {
            const pl_dim dim = pl_infer_dim(c, i, d);
            const bool known = pl_dim_known(dim) && pl_dim_known(out[d]);
            if (d == axis) {
                int64_t sum = 0;
                if (known && !pl_i64_add(dim.value, out[d].value, &sum)) {
                    return pl_infer_fail(c, "the output is too large");
                }
                out[d] = known ? pl_dim_of(sum) : PL_DIM_UNKNOWN;
            } else if (known && dim.value != out[d].value) {
                return pl_infer_fail(c, "dim %d of input %d is %lld, expected %lld", d, i,
                                     (long long)dim.value, (long long)out[d].value);
            } else if (pl_dim_known(dim)) {
                out[d] = dim;
            }
        }
    }
    return pl_infer_set(c, 0, dtype, rank, out);
}

static pl_status concat_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    const pl_qparam out = pl_qparam_of(c, 0, 1);
    int64_t axis = pl_attr_int(c->node, "axis"), outer = 1, inner = 1, at = 0;
    if (y->n_elements == 0) return PL_OK;
    if (axis < 0) axis += y->rank;
    for (int d = 0; d < y->rank; d++) {
        if (d < axis) outer *= y->dims[d];
        if (d > axis) inner *= y->dims[d];
    }
    const int64_t row = y->dims[axis] * inner;
    for (int i = 2; i < c->n_in; i += 3) {
        const pl_tensor *x = pl_in(c, i);
        qtable table;
        const int64_t n = x->dims[axis] * inner;
        qtable_make(x->dtype, pl_qparam_of(c, i + 1, i + 2), y->dtype, out, NULL, 0, &table);
        for (int64_t o = 0; o < outer; o++) {
            const size_t to = (size_t)(o * row + at) * pl_dtype_bytes(y->dtype);
            qtable_apply(NULL, &table, y->dtype, (const char *)x->data + o * n,
                         (char *)y->data + to, n);
        }
        at += n;
    }
    return PL_OK;
}

/* ---- QLinearSoftmax ---- */

static pl_status softmax_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    int axis = 0;
    if (rank >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    return unary_infer(c);
}

/* Before Softmax-13 all dims from the axis on are flattened; since then rows are along the axis
 * alone. */
static pl_status softmax_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_qparam in = pl_qparam_of(c, 1, 2), out = pl_qparam_of(c, 3, 4);
    const bool flat = pl_attr_int(c->node, "opset") < 13;
    int64_t axis = pl_attr_int(c->node, "axis"), n = 1, inner = 1;
    if (axis < 0) axis += x->rank;
    if (x->n_elements == 0) return PL_OK;
    for (int d = (int)axis; d < x->rank; d++) {
        if (d == axis || flat) {
            n *= x->dims[d];
        } else {
            inner *= x->dims[d];
        }
    }
    const pl_quant_target target = pl_quant_target_of(y->dtype, out.scale, out.zero);
    const size_t size = pl_dtype_bytes(y->dtype);
    const pl_u8 *from = x->data;
    double value[256];
    for (int i = 0; i < 256; i++)
        value[i] = (x->dtype == PL_I8 ? (int8_t)i : i) * in.scale;
    for (int64_t r = 0; r < x->n_elements / n; r++) {
        const int64_t start = r / inner * n * inner + r % inner;
        double top = -HUGE_VAL, sum = 0;
        for (int64_t i = 0; i < n; i++)
            top = fmax(top, value[from[start + i * inner]]);
        for (int64_t i = 0; i < n; i++)
            sum += exp(value[from[start + i * inner]] - top);
        for (int64_t i = 0; i < n; i++) {
            const double v = exp(value[from[start + i * inner]] - top) / sum / out.scale;
            char *to = (char *)y->data + (size_t)(start + i * inner) * size;
            pl_quant_store_f64(&target, &v, to, 1);
        }
    }
    return PL_OK;
}

/* ---- rows ---- */

#define MS .domain = "com.microsoft", .since = 1
#define INTEGER .grad = PL_GRAD_UNDEFINED, .autocast = PL_AMP_KEEP
#define SCALE(name_)                                                                               \
    { name_, PL_T(PL_F32), 0 }
#define Q8(name_)                                                                                  \
    { name_, PL_T_8BIT, 0 }
#define ZERO(name_)                                                                                \
    { name_, PL_T_8BIT, PL_PORT_OPTIONAL }
#define QX_TO_QY                                                                                   \
    .in = PL_PORTS(Q8("X"), SCALE("X_scale"), ZERO("X_zero_point"), SCALE("Y_scale"),              \
                   ZERO("Y_zero_point")),                                                          \
    .out = PL_PORTS(Q8("Y"))
#define QAB_TO_QC                                                                                  \
    .in = PL_PORTS({ "A", PL_T_8BIT, PL_PORT_SAME }, SCALE("A_scale"), ZERO("A_zero_point"),       \
                   { "B", PL_T_8BIT, PL_PORT_SAME }, SCALE("B_scale"), ZERO("B_zero_point"),       \
                   SCALE("C_scale"), ZERO("C_zero_point")),                                        \
    .out = PL_PORTS(Q8("C"))
#define POOL_ATTRS                                                                                 \
    PL_A_STRING("auto_pad", "NOTSET"), PL_A_INT("ceil_mode", 0),                                   \
        PL_A_REQUIRED("kernel_shape", INTS), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)
#define XQ " <float sx = {0.1}, uint8 zx = {3}, float sy = {0.05}, uint8 zy = {20}> "

/* clang-format off */
const pl_op_def pl_ops_ms_quant[] = {
    { .name = "DequantizeLinear", MS, .flags = PL_OP_DEQUANTIZE, .in = PL_PORTS({ "x", PL_T_QUANT | PL_T(PL_I32), 0 }, { "x_scale", PL_T_FLOAT, 0 }, { "x_zero_point", PL_T_QUANT | PL_T(PL_I32), PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "y", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(PL_A_INT("axis", 1)), .infer = pl_dequantize_infer, .eval = pl_dequantize_eval, .grad = pl_grad_dequantize, .bound = pl_dequantize_bound, .emit = pl_emit_dequantize, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(uint8[2,3] x) => (y) <float s = {0.5}, uint8 z = {3}> { y = com.microsoft.DequantizeLinear(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "DynamicQuantizeMatMul", MS, PL_PLAIN("MatMul", true, 0, 1), .in = PL_PORTS(SCALE("A"), Q8("B"), SCALE("b_scale"), ZERO("b_zero_point"), { "bias", PL_T(PL_F32), PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T(PL_F32), 0 }), .infer = pl_dynamic_quantize_matmul_infer, .eval = pl_dynamic_quantize_matmul_eval,
      .grad = PL_GRAD_ZERO, .bound = pl_dynamic_quantize_matmul_bound, PL_EMIT_BREAK("a product of quantised values: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] a, int8[3,4] b, float[4] bias) => (y) <float[4] s = {0.1, 0.2, 0.3, 0.4}> { y = com.microsoft.DynamicQuantizeMatMul(a, b, s, , bias) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "MatMulIntegerToFloat", MS, PL_PLAIN("MatMul", true, 0, 1),
      .in = PL_PORTS(Q8("A"), Q8("B"), { "a_scale", PL_T_FLOAT, 0 }, { "b_scale", PL_T_FLOAT, 0 }, ZERO("a_zero_point"), ZERO("b_zero_point"), { "bias", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .infer = pl_matmul_integer_to_float_infer, .eval = pl_matmul_integer_to_float_eval, .bound = pl_matmul_integer_to_float_bound, INTEGER, PL_EMIT_BREAK("a product of quantised values: a library routine"),
      .samples = PL_SAMPLES({ "(uint8[2,3] a, int8[3,4] b) => (y) <float sa = {0.1}, float[4] sb = {0.1, 0.2, 0.3, 0.4}, uint8 za = {3}> { y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "NhwcMaxPool", MS, .in = PL_PORTS(Q8("x")), .out = PL_PORTS(Q8("y")), .attrs = PL_ATTRS(POOL_ATTRS, PL_A_LIST("dilations", INTS)),
      .infer = pl_nhwc_max_pool_infer, .eval = pl_nhwc_max_pool_eval, .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, PL_EMIT_BREAK("a pool with the channels last: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(uint8[1,5,5,2] x) => (y) { y = com.microsoft.NhwcMaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QGemm", MS, PL_PLAIN("Gemm", false, 0, 3, 6),
      .in = PL_PORTS(Q8("A"), SCALE("a_scale"), Q8("a_zero_point"), Q8("B"), SCALE("b_scale"), Q8("b_zero_point"), { "C", PL_T(PL_I32), PL_PORT_OPTIONAL },
                     { "y_scale", PL_T(PL_F32), PL_PORT_OPTIONAL }, ZERO("y_zero_point")),
      .out = PL_PORTS({ "Y", PL_T_8BIT | PL_T(PL_F32), 0 }), .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 1), PL_A_INT("transA", 0), PL_A_INT("transB", 0)),
      .infer = pl_qgemm_infer, .eval = pl_qgemm_eval, .bound = pl_qgemm_bound, INTEGER, PL_EMIT_BREAK("a product of quantised values: a library routine"),
      .samples = PL_SAMPLES({ "(uint8[2,3] a, int8[4,3] b, int32[4] c) => (y) <float sa = {0.1}, uint8 za = {3}, float[4] sb = {0.1, 0.2, 0.3, 0.4}, int8[4] zb = {0, 0, 1, 0}, "
                              "float sy = {0.5}, uint8 zy = {9}> { y = com.microsoft.QGemm<transB=1>(a, sa, za, b, sb, zb, c, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(uint8[2,3] a, int8[3,4] b) => (y) <float sa = {0.1}, uint8 za = {3}, float sb = {0.1}, int8 zb = {0}> { y = com.microsoft.QGemm(a, sa, za, b, sb, zb) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearAdd", MS, PL_PLAIN("Add", false, 0, 3), .flags = PL_OP_ELEMENTWISE, QAB_TO_QC, .infer = binary_infer, .eval = qlinear_add_eval, .bound = pl_qlinear_add_bound, INTEGER, .emit = pl_emit_qlinear_add,
      .samples = PL_SAMPLES({ "(uint8[2,3] a, uint8[3] b) => (y)" XQ "{ y = com.microsoft.QLinearAdd(a, sx, zx, b, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearAveragePool", MS, PL_PLAIN("AveragePool", false, 0), QX_TO_QY, .attrs = PL_ATTRS(POOL_ATTRS, PL_A_INT("count_include_pad", 0), PL_A_INT("channels_last", 0)),
      .infer = pl_qlinear_pool_infer, .eval = pl_qlinear_average_pool_eval, .bound = pl_qlinear_mean_bound, INTEGER, PL_EMIT_BREAK("a pool of quantised values: a library routine"),
      .samples = PL_SAMPLES({ "(uint8[1,2,5,5] x) => (y)" XQ "{ y = com.microsoft.QLinearAveragePool<kernel_shape=[2,2], pads=[1,1,0,0]>(x, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearConcat", MS, .in = PL_PORTS(SCALE("Y_scale"), Q8("Y_zero_point"), { "inputs", PL_T_8BIT | PL_T(PL_F32), PL_PORT_VARIADIC }),
      .out = PL_PORTS(Q8("Y")), .attrs = PL_ATTRS(PL_A_REQUIRED("axis", INT)), .infer = concat_infer, .eval = concat_eval, .bound = pl_qlinear_concat_bound, INTEGER, .emit = pl_emit_qlinear_concat,
      .samples = PL_SAMPLES({ "(uint8[2,3] a, uint8[2,1] b) => (y)" XQ "{ y = com.microsoft.QLinearConcat<axis=1>(sy, zy, a, sx, zx, b, sy, zx) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearGlobalAveragePool", MS, PL_PLAIN("GlobalAveragePool", false, 0), QX_TO_QY, .attrs = PL_ATTRS(PL_A_INT("channels_last", 0)),
      .infer = pl_qlinear_global_pool_infer, .eval = pl_qlinear_global_pool_eval, .bound = pl_qlinear_mean_bound, INTEGER, PL_EMIT_BREAK("a pool of quantised values: a library routine"),
      .samples = PL_SAMPLES({ "(uint8[2,3,4,5] x) => (y)" XQ "{ y = com.microsoft.QLinearGlobalAveragePool(x, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearLeakyRelu", MS, PL_PLAIN("LeakyRelu", false, 0), .flags = PL_OP_ELEMENTWISE, QX_TO_QY, .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 0.01)),
      .infer = unary_infer, .eval = qlinear_leaky_relu_eval, .bound = pl_qlinear_leaky_relu_bound, INTEGER, .emit = pl_emit_qlinear_leaky_relu,
      .samples = PL_SAMPLES({ "(uint8[2,3] x) => (y)" XQ "{ y = com.microsoft.QLinearLeakyRelu<alpha=0.2>(x, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearMul", MS, PL_PLAIN("Mul", false, 0, 3), .flags = PL_OP_ELEMENTWISE, QAB_TO_QC, .infer = binary_infer, .eval = qlinear_mul_eval, .bound = pl_qlinear_mul_bound, INTEGER, .emit = pl_emit_qlinear_mul,
      .samples = PL_SAMPLES({ "(uint8[2,3] a, uint8[2,1] b) => (y)" XQ "{ y = com.microsoft.QLinearMul(a, sx, zx, b, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearReduceMean", MS, QX_TO_QY, .attrs = PL_ATTRS(PL_A_LIST("axes", INTS), PL_A_INT("keepdims", 1)),
      .infer = pl_qlinear_reduce_mean_infer, .eval = pl_qlinear_reduce_mean_eval, .bound = pl_qlinear_mean_bound, INTEGER, PL_EMIT_BREAK("a mean of quantised values: a library routine"),
      .samples = PL_SAMPLES({ "(uint8[2,3,4] x) => (y)" XQ "{ y = com.microsoft.QLinearReduceMean<axes=[-1], keepdims=0>(x, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearSigmoid", MS, PL_PLAIN("Sigmoid", false, 0), .flags = PL_OP_ELEMENTWISE, QX_TO_QY, .infer = unary_infer, .eval = qlinear_sigmoid_eval, .bound = pl_qlinear_sigmoid_bound, INTEGER, .emit = pl_emit_qlinear_sigmoid,
      .samples = PL_SAMPLES({ "(uint8[2,3] x) => (y) <float sx = {0.1}, uint8 zx = {3}, float sy = {0.00390625}> { y = com.microsoft.QLinearSigmoid(x, sx, zx, sy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearSoftmax", MS, PL_PLAIN("Softmax", false, 0), QX_TO_QY, .attrs = PL_ATTRS(PL_A_INT("axis", -1), PL_A_REQUIRED("opset", INT)),
      .infer = softmax_infer, .eval = softmax_eval, .bound = pl_qlinear_softmax_bound, INTEGER, .emit = pl_emit_qlinear_softmax,
      .samples = PL_SAMPLES({ "(uint8[2,3] x) => (y) <float sx = {0.1}, uint8 zx = {3}, float sy = {0.00390625}, uint8 zy = {0}> { y = com.microsoft.QLinearSoftmax<opset=13>(x, sx, zx, sy, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearWhere", MS,
      .in = PL_PORTS({ "condition", PL_T_BOOL, 0 }, Q8("X"), SCALE("x_scale"), Q8("x_zero_point"), Q8("Y"), SCALE("y_scale"), Q8("y_zero_point"), SCALE("z_scale"), Q8("z_zero_point")),
      .out = PL_PORTS(Q8("Z")), .infer = where_infer, .eval = where_eval, .bound = pl_qlinear_where_bound, INTEGER, .emit = pl_emit_qlinear_where,
      .samples = PL_SAMPLES({ "(bool[2,3] c, uint8[2,3] x, uint8[3] y) => (z)" XQ "{ z = com.microsoft.QLinearWhere(c, x, sx, zx, y, sy, zy, sx, zy) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QuantizeLinear", MS, .flags = PL_OP_QUANTIZE, .in = PL_PORTS({ "x", PL_T_FLOAT, 0 }, { "y_scale", PL_T_FLOAT, 0 }, { "y_zero_point", PL_T_QUANT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "y", PL_T_QUANT, 0 }), .attrs = PL_ATTRS(PL_A_INT("axis", 1)), .infer = pl_quantize_infer, .eval = pl_quantize_eval,
      .grad = PL_GRAD_ZERO, .bound = pl_quantize_bound, .emit = pl_emit_quantize, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <float s = {0.1}, uint8 z = {128}> { y = com.microsoft.QuantizeLinear(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

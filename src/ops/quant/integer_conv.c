/* ConvInteger-10 and QLinearConv-10. */
#include "ops/lib/convolve.h"
#include "ops/quant/integer_conv_rules.h"
#include "ops/quant/quant_loops.h"

extern const pl_op_def pl_ops_integer_conv[];

/* One value, or one for each output channel. */
static pl_status check_per_channel(const pl_infer *c, int i, int w) {
    if (pl_infer_rank(c, i) == 1 && pl_infer_dim(c, i, 0).value != 1) {
        return pl_conv_check_bias(c, i, pl_infer_dim(c, w, 0));
    }
    return pl_quant_single(c, i);
}

typedef struct operands {
    int x, x_zero, w, w_zero;
} operands;

/* Codes minus zero point in double, for the general loops. */
static pl_status load_less_zero(pl_eval *c, int i, int i_zero, double **out) {
    const pl_tensor *t = pl_in(c, i), *z = pl_in(c, i_zero);
    double *v = pl_scratch(c, (size_t)t->n_elements, sizeof(*v));
    if (v == NULL) return pl_eval_memory(c);
    pl_load_f64(t->dtype, t->data, v, (size_t)t->n_elements);
    *out = v;
    if (z == NULL || t->n_elements == 0) return PL_OK;
    const int64_t each = t->n_elements / z->n_elements; /* elements that share a zero point */
    for (int64_t k = 0; k < t->n_elements; k++)
        v[k] -= (double)pl_tensor_get_i64(z, k / each);
    return PL_OK;
}

static pl_status accumulate(pl_eval *c, operands o, const pl_tensor *y, pl_i32 *acc) {
    const pl_tensor *x = pl_in(c, o.x), *w = pl_in(c, o.w), *wz = pl_in(c, o.w_zero);
    const int64_t groups = pl_attr_int(c->node, "group");
    pl_window win = { 0 };
    PL_TRY(pl_conv_window(c, x, w, &win));
    if (win.n > 3 || x->n_elements == 0 || w->n_elements == 0) {
        double *fx = NULL, *fw = NULL;
        double *sum = pl_scratch(c, (size_t)y->n_elements, sizeof(*sum));
        if (sum == NULL) return pl_eval_memory(c);
        PL_TRY(load_less_zero(c, o.x, o.x_zero, &fx));
        PL_TRY(load_less_zero(c, o.w, o.w_zero, &fw));
        PL_TRY(pl_conv_any(c, &win, x, w->dims[0], groups, fx, fw, NULL, sum));
        for (int64_t i = 0; i < y->n_elements; i++)
            acc[i] = (int32_t)(uint32_t)(int64_t)sum[i];
        return PL_OK;
    }
    pl_gemm_i8_zero zero = { NULL, 0, 0 };
    if (wz != NULL) {
        pl_i32 *value = pl_scratch(c, (size_t)wz->n_elements, sizeof(*value));
        if (value == NULL) return pl_eval_memory(c);
        for (int64_t i = 0; i < wz->n_elements; i++)
            value[i] = (int32_t)pl_tensor_get_i64(wz, i);
        zero = (pl_gemm_i8_zero){ value, wz->n_elements > 1, 0 };
    }
    const pl_conv_shape s = pl_conv_shape_of(c, &win, x, w->dims[0], groups);
    return pl_conv_i8(c->pool, &s, x->data, x->dtype == PL_I8, (int32_t)pl_in_int(c, o.x_zero, 0),
                      w->data, w->dtype == PL_I8, zero, acc, c->err);
}

/* ---- ConvInteger ---- */

static pl_status conv_integer_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, 0, 2));
    PL_TRY(pl_quant_same_type(c, 1, 3));
    PL_TRY(pl_conv_infer_shape(c, 0, 1, PL_I32));
    PL_TRY(pl_quant_single(c, 2));
    return check_per_channel(c, 3, 1);
}

static pl_status conv_integer_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    return accumulate(c, (operands){ 0, 2, 1, 3 }, y, y->data);
}

/* ---- QLinearConv ---- */

enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

static pl_status qlinear_conv_infer(pl_infer *c) {
    PL_TRY(pl_quant_same_type(c, X, X_ZERO));
    PL_TRY(pl_quant_same_type(c, W, W_ZERO));
    PL_TRY(pl_conv_infer_shape(c, X, W, pl_infer_dtype_of(c, Y_ZERO)));
    PL_TRY(pl_quant_single(c, X_SCALE));
    PL_TRY(pl_quant_single(c, X_ZERO));
    PL_TRY(check_per_channel(c, W_SCALE, W));
    PL_TRY(check_per_channel(c, W_ZERO, W));
    PL_TRY(pl_quant_single(c, Y_SCALE));
    PL_TRY(pl_quant_single(c, Y_ZERO));
    return pl_conv_check_bias(c, BIAS, pl_infer_dim(c, W, 0));
}

typedef struct requant_job {
    pl_i32 *acc;
    const pl_i32 *bias;
    const pl_f64 *w_scale;
    int64_t w_step, channels, cells;
    double x_scale;
    bool in_f64;
    pl_quant_target target;
    char *y;
} requant_job;

static void requant_planes(void *ctx, int64_t begin, int64_t end) {
    const requant_job *j = ctx;
    for (int64_t p = begin; p < end; p++) {
        const int64_t channel = p % j->channels;
        pl_i32 *acc = j->acc + p * j->cells;
        if (j->bias != NULL) {
            const uint32_t add = (uint32_t)j->bias[channel];
            for (int64_t i = 0; i < j->cells; i++)
                acc[i] = (int32_t)((uint32_t)acc[i] + add);
        }
        pl_quant_row(&j->target, acc, j->x_scale, j->w_scale + channel * j->w_step, 0, j->in_f64,
                     j->y + (size_t)(p * j->cells) * pl_dtype_bytes(j->target.dtype),
                     (size_t)j->cells);
    }
}

static pl_status qlinear_conv_eval(pl_eval *c) {
    const pl_tensor *w_scale = pl_in(c, W_SCALE);
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    requant_job job = { .acc = pl_scratch(c, (size_t)y->n_elements, sizeof(pl_i32)),
                        .bias = pl_has(c, BIAS) ? pl_in(c, BIAS)->data : NULL,
                        .w_scale = pl_in_f64(c, W_SCALE),
                        .w_step = w_scale->n_elements > 1,
                        .channels = y->dims[1],
                        .x_scale = pl_in_float(c, X_SCALE, 1),
                        .in_f64 = w_scale->dtype == PL_F64,
                        .target = pl_quant_target_of(y->dtype, pl_in_float(c, Y_SCALE, 1),
                                                     pl_in_float(c, Y_ZERO, 0)),
                        .y = y->data };
    if (job.acc == NULL || job.w_scale == NULL) return pl_eval_memory(c);
    job.cells = y->n_elements / (y->dims[0] * y->dims[1]);
    PL_TRY(accumulate(c, (operands){ X, X_ZERO, W, W_ZERO }, y, job.acc));
    pl_pool_for(c->pool, y->dims[0] * y->dims[1], 4, requant_planes, &job);
    return PL_OK;
}

/* ---- rows ---- */

#define WINDOW_ATTRS                                                                               \
    PL_A_STRING("auto_pad", "NOTSET"), PL_A_LIST("dilations", INTS), PL_A_INT("group", 1),         \
        PL_A_LIST("kernel_shape", INTS), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)
#define INTEGER .grad = PL_GRAD_UNDEFINED, .autocast = PL_AMP_KEEP

/* clang-format off */
const pl_op_def pl_ops_integer_conv[] = {
    { .name = "ConvInteger", .since = 10,
      .in = PL_PORTS({ "x", PL_T_8BIT, 0 }, { "w", PL_T_8BIT, 0 }, { "x_zero_point", PL_T_8BIT, PL_PORT_OPTIONAL },
                     { "w_zero_point", PL_T_8BIT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "y", PL_T(PL_I32), 0 }), .attrs = PL_ATTRS(WINDOW_ATTRS), .infer = conv_integer_infer, .eval = conv_integer_eval, .bound = pl_conv_integer_bound, INTEGER, PL_PLAIN("Conv", false, 0, 1), .emit = pl_emit_conv_integer,
      .samples = PL_SAMPLES({ "(uint8[1,1,3,3] x, uint8[1,1,2,2] w, uint8 z) => (y) { y = ConvInteger<pads=[1,1,1,1]>(x, w, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QLinearConv", .since = 10,
      .in = PL_PORTS({ "x", PL_T_8BIT, 0 }, { "x_scale", PL_T_FLOAT, 0 }, { "x_zero_point", PL_T_8BIT, 0 },
                     { "w", PL_T_8BIT, 0 }, { "w_scale", PL_T_FLOAT, 0 }, { "w_zero_point", PL_T_8BIT, 0 },
                     { "y_scale", PL_T_FLOAT, 0 }, { "y_zero_point", PL_T_8BIT, 0 }, { "B", PL_T(PL_I32), PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "y", PL_T_8BIT, 0 }), .attrs = PL_ATTRS(WINDOW_ATTRS), .infer = qlinear_conv_infer, .eval = qlinear_conv_eval, .bound = pl_qlinear_conv_bound, INTEGER, PL_PLAIN("Conv", false, 0, 3, 8), .emit = pl_emit_qlinear_conv,
      .samples = PL_SAMPLES({ "(uint8[1,2,4,4] x, int8[3,2,2,2] w, int32[3] b) => (y) <float sx = {0.1}, uint8 zx = {3}, float[3] sw = {0.1, 0.2, 0.3}, "
                              "int8[3] zw = {0, 0, 0}, float sy = {0.5}, uint8 zy = {100}> { y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

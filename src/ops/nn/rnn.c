/* Recurrent operators: shapes, rows, and com.microsoft's dynamically quantised LSTM. The recurrence
 * is in rnn_run.inc. Low-precision types compute in float and are rounded at the end. */
#include "ops/nn/rnn.h"

#include <math.h>

#include "kernels/gemm/gemm.h"
#include "ops/infer.h"
#include "ops/nn/rnn_rules.h"

extern const pl_op_def pl_ops_rnn[];

/* ---- shapes ---- */

typedef struct rnn_dims {
    bool layout;
    int64_t dirs, gates;
    pl_dim seq, batch, in, hidden;
} rnn_dims;

static pl_status check_dim(const pl_infer *c, int input, int axis, pl_dim expected) {
    const pl_dim found = pl_infer_dim(c, input, axis);
    if (!pl_dim_known(found) || !pl_dim_known(expected) || found.value == expected.value) {
        return PL_OK;
    }
    return pl_infer_fail(c, "input %d: dim %d is %lld, expected %lld", input, axis,
                         (long long)found.value, (long long)expected.value);
}

static pl_status check_shape(const pl_infer *c, int input, int rank, const pl_dim *dims) {
    const int found = pl_infer_rank(c, input);
    if (found < 0) return PL_OK;
    if (found != rank)
        return pl_infer_fail(c, "input %d has rank %d, expected %d", input, found, rank);
    for (int d = 0; d < rank; d++)
        PL_TRY(check_dim(c, input, d, dims[d]));
    return PL_OK;
}

static pl_dim times(int64_t n, pl_dim d) {
    int64_t product = 0;
    if (!pl_dim_known(d) || __builtin_mul_overflow(n, d.value, &product)) return PL_DIM_UNKNOWN;
    return pl_dim_of(product);
}

static pl_status read_direction(const pl_infer *c, rnn_dims *d) {
    const bool both = pl_attr_string_is(c->node, "direction", "bidirectional");
    if (!both && !pl_attr_string_is(c->node, "direction", "forward") &&
        !pl_attr_string_is(c->node, "direction", "reverse")) {
        return pl_infer_fail(c, "direction is not forward, reverse or bidirectional");
    }
    d->dirs = both ? 2 : 1;
    return PL_OK;
}

static pl_status read_dims(const pl_infer *c, int64_t gates, int r_input, int r_axis, rnn_dims *d) {
    *d = (rnn_dims){ .gates = gates };
    d->layout = pl_attr_int(c->node, "layout") != 0;
    PL_TRY(read_direction(c, d));
    const int rank = pl_infer_rank(c, 0);
    if (rank >= 0 && rank != 3) return pl_infer_fail(c, "input 0 has rank %d, expected 3", rank);
    d->seq = pl_infer_dim(c, 0, d->layout ? 1 : 0);
    d->batch = pl_infer_dim(c, 0, d->layout ? 0 : 1);
    d->in = pl_infer_dim(c, 0, 2);
    d->hidden = pl_infer_dim(c, r_input, r_axis);
    if (pl_attr_has(c->node, "hidden_size")) {
        const int64_t hidden = pl_attr_int(c->node, "hidden_size");
        if (hidden < 1) return pl_infer_fail(c, "invalid hidden_size %lld", (long long)hidden);
        d->hidden = pl_dim_of(hidden);
    }
    return PL_OK;
}

/* initial_h, initial_c and the peepholes, where given. */
static pl_status check_states(const pl_infer *c, const rnn_dims *d) {
    const pl_dim dirs = pl_dim_of(d->dirs);
    const pl_dim state[3] = { d->layout ? d->batch : dirs, d->layout ? dirs : d->batch, d->hidden };
    const pl_dim bias[2] = { dirs, times(2 * d->gates, d->hidden) };
    const pl_dim lengths[1] = { d->batch };
    PL_TRY(check_shape(c, 3, 2, bias));
    PL_TRY(check_shape(c, 4, 1, lengths));
    PL_TRY(check_shape(c, 5, 3, state));
    if (d->gates != 4) return PL_OK;
    PL_TRY(check_shape(c, 6, 3, state));
    const pl_dim peep[2] = { dirs, times(3, d->hidden) };
    return check_shape(c, 7, 2, peep);
}

static pl_status set_outputs(pl_infer *c, const rnn_dims *d) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_dim dirs = pl_dim_of(d->dirs);
    const pl_dim y_seq[4] = { d->seq, dirs, d->batch, d->hidden };
    const pl_dim y_batch[4] = { d->batch, d->seq, dirs, d->hidden };
    const pl_dim state[3] = { d->layout ? d->batch : dirs, d->layout ? dirs : d->batch, d->hidden };
    PL_TRY(pl_infer_set(c, 0, dtype, 4, d->layout ? y_batch : y_seq));
    PL_TRY(pl_infer_set(c, 1, dtype, 3, state));
    return d->gates == 4 ? pl_infer_set(c, 2, dtype, 3, state) : PL_OK;
}

static pl_status infer_recurrent(pl_infer *c, int64_t gates) {
    rnn_dims d;
    PL_TRY(read_dims(c, gates, 2, 2, &d));
    const pl_dim dirs = pl_dim_of(d.dirs), rows = times(gates, d.hidden);
    const pl_dim w[3] = { dirs, rows, d.in }, r[3] = { dirs, rows, d.hidden };
    PL_TRY(check_shape(c, 1, 3, w));
    PL_TRY(check_shape(c, 2, 3, r));
    PL_TRY(check_states(c, &d));
    return set_outputs(c, &d);
}

static pl_status infer_rnn(pl_infer *c) {
    return infer_recurrent(c, 1);
}
static pl_status infer_gru(pl_infer *c) {
    return infer_recurrent(c, 3);
}
static pl_status infer_lstm(pl_infer *c) {
    return infer_recurrent(c, 4);
}

/* ---- kernels ---- */

static pl_status eval_recurrent(pl_eval *c, pl_rnn_kind kind) {
    pl_rnn rnn;
    PL_TRY(pl_rnn_read(c, kind, &rnn));
    return pl_in(c, 0)->dtype == PL_F64 ? pl_rnn_run_f64(c, &rnn, NULL)
                                        : pl_rnn_run_f32(c, &rnn, NULL);
}

static pl_status rnn_eval(pl_eval *c) {
    return eval_recurrent(c, PL_RNN_PLAIN);
}
static pl_status gru_eval(pl_eval *c) {
    return eval_recurrent(c, PL_RNN_GRU);
}
static pl_status lstm_eval(pl_eval *c) {
    return eval_recurrent(c, PL_RNN_LSTM);
}

static pl_status rnn_bound(pl_bound *c) {
    return pl_rnn_bound(c, PL_RNN_PLAIN, false);
}
static pl_status gru_bound(pl_bound *c) {
    return pl_rnn_bound(c, PL_RNN_GRU, false);
}
static pl_status lstm_bound(pl_bound *c) {
    return pl_rnn_bound(c, PL_RNN_LSTM, false);
}

/* ---- com.microsoft DynamicQuantizeLSTM ----
 * W (dirs, in, 4*hidden) and R (dirs, hidden, 4*hidden) are int8 or uint8 with a scale and zero
 * point for each direction or each column. The other operand of each product is quantised to uint8
 * on the fly, over all rows of that product, as DynamicQuantizeLinear-11 does. */

typedef struct quant_lstm {
    pl_eval *c;
    const pl_rnn *rnn;
} quant_lstm;

typedef struct quant_weight {
    const char *data;
    bool is_signed;
    const pl_f32 *scale;
    int64_t scale_step; /* 0: one scale per direction */
    int32_t *zero;      /* per column, or one */
    int64_t zero_step;
} quant_weight;

static pl_status read_weight(const quant_lstm *q, bool recurrent, int64_t dir, int64_t depth,
                             int64_t columns, quant_weight *out) {
    pl_eval *c = q->c;
    const pl_tensor *w = pl_in(c, recurrent ? 2 : 1);
    const pl_tensor *scale = pl_in(c, recurrent ? 10 : 8), *zero = pl_in(c, recurrent ? 11 : 9);
    const int64_t n_scale = scale->n_elements / q->rnn->dirs;
    const int64_t n_zero = zero == NULL ? 0 : zero->n_elements / q->rnn->dirs;
    if ((n_scale != 1 && n_scale != columns) ||
        (zero != NULL && n_zero != 1 && n_zero != columns)) {
        return pl_eval_fail(c, "scale or zero point has %lld and %lld entries per direction",
                            (long long)n_scale, (long long)n_zero);
    }
    out->data = (const char *)w->data + dir * depth * columns;
    out->is_signed = w->dtype == PL_I8;
    out->scale = (const pl_f32 *)scale->data + dir * n_scale;
    out->scale_step = n_scale == 1 ? 0 : 1;
    out->zero_step = n_zero <= 1 ? 0 : 1;
    out->zero = pl_scratch(c, (size_t)(n_zero > 0 ? n_zero : 1), sizeof(int32_t));
    if (out->zero == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < n_zero; i++) {
        out->zero[i] = (int32_t)pl_tensor_get_i64(zero, dir * n_zero + i);
    }
    return PL_OK;
}

/* uint8 codes of x and their scale and zero point. */
static void quantize(const pl_f32 *x, int64_t n, uint8_t *codes, float *scale, int32_t *zero) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    *scale = (high - low) / 255.0f;
    if (!(*scale > 0)) *scale = 1;
    const float z = rintf(-low / *scale);
    *zero = (int32_t)(z < 0 ? 0 : z > 255 ? 255 : z);
    for (int64_t i = 0; i < n; i++) {
        const float v = rintf(x[i] / *scale) + (float)*zero;
        codes[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static pl_status quant_product(void *ctx, bool recurrent, int64_t dir, int64_t m, const pl_f32 *x,
                               pl_f32 *y) {
    const quant_lstm *q = ctx;
    pl_eval *c = q->c;
    const int64_t k = recurrent ? q->rnn->hidden : q->rnn->in, n = 4 * q->rnn->hidden;
    quant_weight w = { 0 };
    float scale = 1;
    int32_t zero = 0;
    PL_TRY(read_weight(q, recurrent, dir, k, n, &w));
    uint8_t *codes = pl_scratch(c, (size_t)(m * k), 1);
    int32_t *sums = pl_scratch(c, (size_t)(m * n), sizeof(*sums));
    if (codes == NULL || sums == NULL) return pl_eval_memory(c);
    quantize(x, m * k, codes, &scale, &zero);
    const pl_gemm_shape shape = { .m = m, .n = n, .k = k, .batch = 1, .by = c->kernels };
    const pl_gemm_i8_zero a_zero = { &zero, 0, 0 }, b_zero = { w.zero, w.zero_step, 0 };
    PL_TRY(pl_gemm_i8(c->pool, &shape, codes, false, a_zero, w.data, w.is_signed, b_zero, sums,
                      c->err));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            y[i * n + j] = (float)sums[i * n + j] * (scale * w.scale[j * w.scale_step]);
        }
    }
    return PL_OK;
}

static pl_status dynamic_quantize_lstm_eval(pl_eval *c) {
    pl_rnn rnn;
    PL_TRY(pl_rnn_read(c, PL_RNN_LSTM, &rnn));
    quant_lstm q = { c, &rnn };
    const pl_rnn_product product = { quant_product, &q };
    return pl_rnn_run_f32(c, &rnn, &product);
}

static pl_status dynamic_quantize_lstm_bound(pl_bound *c) {
    return pl_rnn_bound(c, PL_RNN_LSTM, true);
}

static pl_status infer_dynamic_quantize_lstm(pl_infer *c) {
    rnn_dims d;
    PL_TRY(read_dims(c, 4, 2, 1, &d));
    const pl_dim dirs = pl_dim_of(d.dirs), columns = times(4, d.hidden);
    const pl_dim w[3] = { dirs, d.in, columns }, r[3] = { dirs, d.hidden, columns };
    PL_TRY(check_shape(c, 1, 3, w));
    PL_TRY(check_shape(c, 2, 3, r));
    PL_TRY(check_states(c, &d));
    return set_outputs(c, &d);
}

/* ---- rows ---- */

#define RNN_PORTS                                                                                  \
    { "X", PL_T_FLOAT, PL_PORT_SAME }, { "W", PL_T_FLOAT, PL_PORT_SAME },                          \
        { "R", PL_T_FLOAT, PL_PORT_SAME }, { "B", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL },   \
        { "sequence_lens", PL_T(PL_I32), PL_PORT_OPTIONAL | PL_PORT_LENGTH }, {                    \
        "initial_h", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL                                   \
    }
#define RNN_ATTRS                                                                                  \
    PL_A_LIST("activation_alpha", FLOATS), PL_A_LIST("activation_beta", FLOATS),                   \
        PL_A_LIST("activations", STRINGS), PL_A_FLOAT("clip", 0),                                  \
        PL_A_STRING("direction", "forward"), PL_A_INT("hidden_size", 0), PL_A_INT("layout", 0),    \
        PL_A_INT("output_sequence", 0)
#define RNN_OUT                                                                                    \
    { "Y", PL_T_FLOAT, PL_PORT_OPTIONAL }, {                                                       \
        "Y_h", PL_T_FLOAT, PL_PORT_OPTIONAL                                                        \
    }

/* clang-format off */
const pl_op_def pl_ops_rnn[] = {
    { .name = "RNN", .since = 1, .flags = PL_OP_SUMS, .in = PL_PORTS(RNN_PORTS), .out = PL_PORTS(RNN_OUT),
      .attrs = PL_ATTRS(RNN_ATTRS), .infer = infer_rnn, .eval = rnn_eval, .grad = pl_rnn_grad, .bound = rnn_bound, PL_EMIT_BREAK("computed step by step: a library routine"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES(
          { "(float[4,2,3] x, float[2,5,3] w, float[2,5,5] r, float[2,10] b) => (y, h) "
            "{ y, h = RNN<hidden_size=5, direction=\"bidirectional\">(x, w, r, b) }", NULL, 0 },
          { "(float[4,2,3] x, float[1,5,3] w, float[1,5,5] r, float[1,10] b) => (y, h) <int32[2] n = {4, 2}> "
            "{ y, h = RNN<hidden_size=5, direction=\"reverse\", activations=[\"Relu\"]>(x, w, r, b, n) }", NULL, 0 }) },
    { .name = "GRU", .since = 1, .flags = PL_OP_SUMS, .in = PL_PORTS(RNN_PORTS), .out = PL_PORTS(RNN_OUT),
      .attrs = PL_ATTRS(RNN_ATTRS, PL_A_INT("linear_before_reset", 0)),
      .infer = infer_gru, .eval = gru_eval, .grad = pl_gru_grad, .bound = gru_bound, PL_EMIT_BREAK("computed step by step: a library routine"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES(
          { "(float[4,2,3] x, float[1,15,3] w, float[1,15,5] r, float[1,30] b, float[1,2,5] h0) => (y, h) "
            "{ y, h = GRU<hidden_size=5>(x, w, r, b, , h0) }", NULL, 0 },
          { "(float[4,2,3] x, float[2,15,3] w, float[2,15,5] r, float[2,30] b) => (y, h) "
            "{ y, h = GRU<hidden_size=5, linear_before_reset=1, direction=\"bidirectional\">(x, w, r, b) }", NULL, 0 },
          { "(float[2,4,3] x, float[1,15,3] w, float[1,15,5] r, float[2,1,5] h0) => (y, h) "
            "{ y, h = GRU<hidden_size=5, layout=1>(x, w, r, \"\", \"\", h0) }", NULL, 0 }) },
    { .name = "LSTM", .since = 1, .flags = PL_OP_SUMS,
      .in = PL_PORTS(RNN_PORTS, { "initial_c", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL },
                     { "P", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }),
      .out = PL_PORTS(RNN_OUT, { "Y_c", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(RNN_ATTRS, PL_A_INT("input_forget", 0)),
      .infer = infer_lstm, .eval = lstm_eval, .grad = pl_lstm_grad, .bound = lstm_bound, PL_EMIT_BREAK("computed step by step: a library routine"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES(
          { "(float[4,2,3] x, float[1,20,3] w, float[1,20,5] r, float[1,40] b, float[1,2,5] h0, float[1,2,5] c0, float[1,15] p) "
            "=> (y, h, c) { y, h, c = LSTM<hidden_size=5>(x, w, r, b, , h0, c0, p) }", NULL, 0 },
          { "(float[4,2,3] x, float[2,20,3] w, float[2,20,5] r, float[2,40] b) => (y, h, c) "
            "{ y, h, c = LSTM<hidden_size=5, direction=\"bidirectional\", clip=1.0>(x, w, r, b) }", NULL, 0 },
          { "(float[4,3,3] x, float[2,20,3] w, float[2,20,5] r, float[2,40] b) => (y, h, c) <int32[3] n = {4, 2, 3}> "
            "{ y, h, c = LSTM<hidden_size=5, direction=\"bidirectional\">(x, w, r, b, n) }", NULL, 0 },
          { "(float[4,3,2] x, float[1,12,2] w, float[1,12,3] r, int32[3] n) => (y, h, c) { y, h, c = LSTM<hidden_size=3>(x, w, r, , n) }", "n=1:4", 0 },
          { "(float[3,1,2] x, float[1,12,2] w, float[1,12,3] r) => (y) { y = LSTM<hidden_size=3, input_forget=1, "
            "activations=[\"HardSigmoid\", \"ScaledTanh\", \"Softsign\"], activation_alpha=[0.3, 1.2], activation_beta=[0.4, 0.8]>(x, w, r) }", NULL, 0 }) },
    { .name = "DynamicQuantizeLSTM", .domain = "com.microsoft", .since = 1, .flags = PL_OP_NO_FP64, PL_PLAIN("LSTM", true, 0),
      .in = PL_PORTS({ "X", PL_T(PL_F32), 0 }, { "W", PL_T(PL_I8) | PL_T(PL_U8), 0 },
                     { "R", PL_T(PL_I8) | PL_T(PL_U8), 0 }, { "B", PL_T(PL_F32), PL_PORT_OPTIONAL },
                     { "sequence_lens", PL_T(PL_I32), PL_PORT_OPTIONAL | PL_PORT_LENGTH }, { "initial_h", PL_T(PL_F32), PL_PORT_OPTIONAL },
                     { "initial_c", PL_T(PL_F32), PL_PORT_OPTIONAL }, { "P", PL_T(PL_F32), PL_PORT_OPTIONAL },
                     { "W_scale", PL_T(PL_F32), 0 }, { "W_zero_point", PL_T(PL_I8) | PL_T(PL_U8), 0 },
                     { "R_scale", PL_T(PL_F32), 0 }, { "R_zero_point", PL_T(PL_I8) | PL_T(PL_U8), 0 }),
      .out = PL_PORTS(RNN_OUT, { "Y_c", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(RNN_ATTRS, PL_A_INT("input_forget", 0)),
      .infer = infer_dynamic_quantize_lstm, .eval = dynamic_quantize_lstm_eval,
      .grad = PL_GRAD_UNDEFINED, .bound = dynamic_quantize_lstm_bound, PL_EMIT_BREAK("computed step by step: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(float[4,1,3] x, int8[1,3,20] w, int8[1,5,20] r, float[1,40] b) => (y, h, c) "
            "<float[1] ws = {0.1}, int8[1] wz = {0}, float[1] rs = {0.1}, int8[1] rz = {0}> "
            "{ y, h, c = com.microsoft.DynamicQuantizeLSTM<hidden_size=5>(x, w, r, b, , , , , ws, wz, rs, rz) }",
            NULL, PL_SAMPLE_NO_GRAD },
          { "(float[4,1,3] x, int8[1,3,20] w, int8[1,5,20] r) => (y) "
            "<float[1] ws = {0.1}, int8[1] wz = {0}, float[1] rs = {0.1}, int8[1] rz = {0}> "
            "{ y = com.microsoft.DynamicQuantizeLSTM(x, w, r, , , , , , ws, wz, rs, rz) }",
            NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

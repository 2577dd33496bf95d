/* Attributes and shapes of recurrent operators, and their activations. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/soft.h"
#include "kernels/vmath.h"
#include "ops/nn/rnn.h"

enum act_kind {
    ACT_AFFINE,
    ACT_ELU,
    ACT_HARD_SIGMOID,
    ACT_LEAKY_RELU,
    ACT_RELU,
    ACT_SCALED_TANH,
    ACT_SIGMOID,
    ACT_SOFTPLUS,
    ACT_SOFTSIGN,
    ACT_TANH,
    ACT_THRESHOLDED_RELU
};

/* ONNX RNN-14: names are case-insensitive; alpha and beta default to those of the operators of the
 * same name. */
static const struct act_row {
    const char *name;
    double alpha, beta;
    bool has_alpha, has_beta;
} act_rows[] = {
    [ACT_AFFINE] = { "affine", 1, 0, true, true },
    [ACT_ELU] = { "elu", 1, 0, true, false },
    [ACT_HARD_SIGMOID] = { "hardsigmoid", 0.2, 0.5, true, true },
    [ACT_LEAKY_RELU] = { "leakyrelu", 0.01, 0, true, false },
    [ACT_RELU] = { "relu", 0, 0, false, false },
    [ACT_SCALED_TANH] = { "scaledtanh", 1, 1, true, true },
    [ACT_SIGMOID] = { "sigmoid", 0, 0, false, false },
    [ACT_SOFTPLUS] = { "softplus", 0, 0, false, false },
    [ACT_SOFTSIGN] = { "softsign", 0, 0, false, false },
    [ACT_TANH] = { "tanh", 0, 0, false, false },
    [ACT_THRESHOLDED_RELU] = { "thresholdedrelu", 1, 0, true, false },
};
enum { N_ACTS = sizeof(act_rows) / sizeof(act_rows[0]) };

#define DEFINE_ACT(fn, T, table, EXP, LOG1P, FABS, TANH)                                           \
    void fn(const pl_rnn_act *act, T *x, int64_t n) {                                              \
        const T a = (T)act->alpha, b = (T)act->beta;                                               \
        switch (act->kind) {                                                                       \
        case ACT_SIGMOID: pl_vmath_get()->table.sigmoid(x, x, (size_t)n); return;                  \
        case ACT_TANH: pl_vmath_get()->table.tanh(x, x, (size_t)n); return;                        \
        default: break;                                                                            \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T v = x[i];                                                                      \
            switch (act->kind) {                                                                   \
            case ACT_AFFINE: x[i] = a * v + b; break;                                              \
            case ACT_ELU: x[i] = v < 0 ? a * (EXP(v) - 1) : v; break;                              \
            case ACT_HARD_SIGMOID: {                                                               \
                const T y = a * v + b;                                                             \
                x[i] = y < 0 ? 0 : y > 1 ? 1 : y;                                                  \
                break;                                                                             \
            }                                                                                      \
            case ACT_LEAKY_RELU: x[i] = v < 0 ? a * v : v; break;                                  \
            case ACT_RELU: x[i] = v > 0 ? v : 0; break;                                            \
            case ACT_SCALED_TANH: x[i] = a * TANH(b * v); break;                                   \
            case ACT_SOFTPLUS: x[i] = LOG1P(EXP(-FABS(v))) + (v > 0 ? v : 0); break;               \
            case ACT_SOFTSIGN: x[i] = v / (1 + FABS(v)); break;                                    \
            case ACT_THRESHOLDED_RELU: x[i] = v > a ? v : 0; break;                                \
            default: break;                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

#define SOFT_EXP(x) (float)pl_soft_exp((double)(x))
#define SOFT_LOG1P(x) (float)pl_soft_log1p((double)(x))
#define SOFT_TANH(x) (float)pl_soft_tanh((double)(x))
DEFINE_ACT(pl_rnn_act_f32, pl_f32, f32, SOFT_EXP, SOFT_LOG1P, fabsf, SOFT_TANH)
DEFINE_ACT(pl_rnn_act_f64, pl_f64, f64, exp, log1p, fabs, tanh)

void pl_rnn_act_name(const pl_rnn_act *act, char *out, size_t n_out) {
    static const char *const names[] = {
        [ACT_AFFINE] = "Affine",
        [ACT_ELU] = "Elu",
        [ACT_HARD_SIGMOID] = "HardSigmoid",
        [ACT_LEAKY_RELU] = "LeakyRelu",
        [ACT_RELU] = "Relu",
        [ACT_SCALED_TANH] = "ScaledTanh",
        [ACT_SIGMOID] = "Sigmoid",
        [ACT_SOFTPLUS] = "Softplus",
        [ACT_SOFTSIGN] = "Softsign",
        [ACT_TANH] = "Tanh",
        [ACT_THRESHOLDED_RELU] = "ThresholdedRelu",
    };
    snprintf(out, n_out, "%s", names[act->kind]);
}

static bool same_name(pl_string s, const char *name) {
    if (s.n_bytes != strlen(name)) return false;
    for (size_t i = 0; i < s.n_bytes; i++) {
        if (tolower((unsigned char)s.data[i]) != name[i]) return false;
    }
    return true;
}

static pl_status find_act(const pl_eval *c, pl_string name, int *out) {
    for (int i = 0; i < N_ACTS; i++) {
        if (!same_name(name, act_rows[i].name)) continue;
        *out = i;
        return PL_OK;
    }
    return pl_eval_unsupported(c, "unknown activation '%.*s'",
                               (int)(name.n_bytes < 100 ? name.n_bytes : 100), name.data);
}

/* The lists of alphas and betas have values only for activations that take one, in order. */
static pl_status read_acts(const pl_eval *c, pl_rnn *r) {
    static const int defaults[3][3] = { { ACT_TANH, 0, 0 },
                                        { ACT_SIGMOID, ACT_TANH, 0 },
                                        { ACT_SIGMOID, ACT_TANH, ACT_TANH } };
    static const size_t per_dir[3] = { 1, 2, 3 };
    size_t n_names = 0, n_alpha = 0, n_beta = 0, at_alpha = 0, at_beta = 0;
    const pl_string *names = pl_attr_strings(c->node, "activations", &n_names);
    const float *alpha = pl_attr_floats(c->node, "activation_alpha", &n_alpha);
    const float *beta = pl_attr_floats(c->node, "activation_beta", &n_beta);
    const size_t n = per_dir[r->kind];
    if (n_names != 0 && n_names != n * (size_t)r->dirs) {
        return pl_eval_fail(c, "%zu activations, expected %zu", n_names, n * (size_t)r->dirs);
    }
    for (size_t d = 0; d < (size_t)r->dirs; d++) {
        for (size_t k = 0; k < n; k++) {
            pl_rnn_act *act = &r->act[d][k];
            act->kind = defaults[r->kind][k];
            if (n_names > 0) PL_TRY(find_act(c, names[d * n + k], &act->kind));
            const struct act_row *row = &act_rows[act->kind];
            act->alpha = row->alpha;
            act->beta = row->beta;
            if (row->has_alpha && at_alpha < n_alpha) act->alpha = (double)alpha[at_alpha++];
            if (row->has_beta && at_beta < n_beta) act->beta = (double)beta[at_beta++];
        }
    }
    return PL_OK;
}

static pl_status read_lengths(pl_eval *c, pl_rnn *r) {
    size_t n = 0;
    const int64_t *given = pl_in_ints(c, 4, &n);
    if (pl_has(c, 4) && given == NULL) return pl_eval_memory(c);
    if (given == NULL) {
        int64_t *lengths = pl_scratch(c, (size_t)r->batch, sizeof(*lengths));
        if (lengths == NULL) return pl_eval_memory(c);
        for (int64_t b = 0; b < r->batch; b++)
            lengths[b] = r->seq;
        r->lengths = lengths;
        return PL_OK;
    }
    if ((int64_t)n != r->batch) {
        return pl_eval_fail(c, "sequence_lens has %zu entries, expected %lld", n,
                            (long long)r->batch);
    }
    for (size_t b = 0; b < n; b++) {
        if (given[b] < 0 || given[b] > r->seq) {
            return pl_eval_fail(c, "sequence_lens[%zu] is %lld, expected 0 to %lld", b,
                                (long long)given[b], (long long)r->seq);
        }
    }
    r->lengths = given;
    return PL_OK;
}

pl_status pl_rnn_read(pl_eval *c, pl_rnn_kind kind, pl_rnn *out) {
    static const int64_t gates[3] = { 1, 3, 4 };
    const pl_tensor *x = pl_in(c, 0);
    *out = (pl_rnn){ .kind = kind, .gates = gates[kind] };
    out->layout = pl_attr_int(c->node, "layout") != 0;
    out->seq = x->dims[out->layout ? 1 : 0];
    out->batch = x->dims[out->layout ? 0 : 1];
    out->in = x->dims[2];
    out->dirs = pl_attr_string_is(c->node, "direction", "bidirectional") ? 2 : 1;
    out->reverse[0] = pl_attr_string_is(c->node, "direction", "reverse");
    out->reverse[1] = true;
    /* (dirs, gates * hidden, hidden), or the other way round: DynamicQuantizeLSTM */
    const int64_t *r = pl_in(c, 2)->dims;
    out->hidden = pl_attr_has(c->node, "hidden_size") ? pl_attr_int(c->node, "hidden_size")
                  : r[1] < r[2]                       ? r[1]
                                                      : r[2];
    out->clip = pl_attr_has(c->node, "clip") ? pl_attr_float(c->node, "clip") : 0;
    out->linear_before_reset = pl_attr_int(c->node, "linear_before_reset") != 0;
    out->input_forget = pl_attr_int(c->node, "input_forget") != 0;
    PL_TRY(read_acts(c, out));
    return read_lengths(c, out);
}

void pl_rnn_packed_release(pl_rnn_packed *packed) {
    for (int d = 0; d < 2; d++) {
        pl_gemm_state_free(packed->w[d]);
        pl_gemm_state_free(packed->r[d]);
        pl_gemm_state_free(packed->r_last[d]);
    }
    *packed = (pl_rnn_packed){ 0 };
}

static void packed_free(void *packed) {
    pl_rnn_packed_release(packed);
    pl_free(packed);
}

pl_rnn_packed *pl_rnn_packed_get(pl_eval *c, pl_rnn_packed *local) {
    const bool constant = c->in_constant != NULL && c->in_constant[1] && c->in_constant[2];
    if (!constant || c->state == NULL) return local;
    if (*c->state == NULL) {
        *c->state = pl_calloc(1, sizeof(pl_rnn_packed));
        if (*c->state == NULL) return local; /* only slower */
        *c->state_free = packed_free;
    }
    return *c->state;
}

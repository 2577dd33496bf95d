/* BatchNormalization: y = (x - mean) * (scale / sqrt(var + epsilon)) + bias for each channel.
 *
 * It trains (uses statistics of the batch) with training_mode=1 since opset 14; before that if the
 * node names more outputs than Y and is_test (opset 1 to 6) is 0. With spatial=0 (opset 1 to 8)
 * every element of a sample is a channel of its own. */
#include <math.h>

#include "base/size.h"
#include "kernels/vmath.h"
#include "ops/grad.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/float_io.h"
#include "ops/lib/norm_rows.h"
#include "ops/next_version.h"
#include "ops/nn/batch_norm_rules.h"
#include "ops/nn/norm_int.h"

extern const pl_op_def pl_ops_batch_norm[];

enum { IN_SCALE = 1, IN_BIAS, IN_MEAN, IN_VAR };

typedef struct job {
    int64_t batch, channels, inner;
    const void *x;
    void *y;
    const void *mean, *factor, *bias; /* one for each channel, in the type of the loop */
    double *batch_mean, *batch_var;
} job;

#define LOOPS(F, T)                                                                                \
    static void apply_##F(void *ctx, int64_t begin, int64_t end) {                                 \
        const job *j = ctx;                                                                        \
        const int64_t inner = j->inner;                                                            \
        const pl_##F *mean = j->mean, *factor = j->factor, *bias = j->bias;                        \
        for (int64_t row = begin; row < end; row++) {                                              \
            const int64_t k = row % j->channels;                                                   \
            const T m = mean[k], a = factor[k], b = bias[k];                                       \
            const pl_##F *x = (const pl_##F *)j->x + row * j->inner;                               \
            pl_##F *y = (pl_##F *)j->y + row * j->inner;                                           \
            for (int64_t i = 0; i < inner; i++)                                                    \
                y[i] = (x[i] - m) * a + b;                                                         \
        }                                                                                          \
    }                                                                                              \
    /* inner == 1: a row is a sample. */                                                           \
    static void apply_flat_##F(void *ctx, int64_t begin, int64_t end) {                            \
        const job *j = ctx;                                                                        \
        const int64_t channels = j->channels;                                                      \
        const pl_##F *mean = j->mean, *factor = j->factor, *bias = j->bias;                        \
        for (int64_t row = begin; row < end; row++) {                                              \
            const pl_##F *x = (const pl_##F *)j->x + row * j->channels;                            \
            pl_##F *y = (pl_##F *)j->y + row * j->channels;                                        \
            for (int64_t k = 0; k < channels; k++)                                                 \
                y[k] = (x[k] - mean[k]) * factor[k] + bias[k];                                     \
        }                                                                                          \
    }                                                                                              \
    static void statistics_##F(void *ctx, int64_t begin, int64_t end) {                            \
        const job *j = ctx;                                                                        \
        const double count = (double)j->batch * (double)j->inner;                                  \
        for (int64_t k = begin; k < end; k++) {                                                    \
            double sum = 0, squares = 0;                                                           \
            for (int64_t n = 0; n < j->batch; n++) {                                               \
                const pl_##F *x = (const pl_##F *)j->x + (n * j->channels + k) * j->inner;         \
                sum += pl_vmath_get()->F.sum(x, (size_t)j->inner);                                 \
            }                                                                                      \
            const double mean = sum / count;                                                       \
            for (int64_t n = 0; n < j->batch; n++) {                                               \
                const pl_##F *x = (const pl_##F *)j->x + (n * j->channels + k) * j->inner;         \
                for (int64_t i = 0; i < j->inner; i++) {                                           \
                    const double d = (double)x[i] - mean;                                          \
                    squares += d * d;                                                              \
                }                                                                                  \
            }                                                                                      \
            j->batch_mean[k] = mean;                                                               \
            j->batch_var[k] = squares / count;                                                     \
        }                                                                                          \
    }
LOOPS(f32, float)
LOOPS(f64, double)

bool pl_batch_norm_is_training(const pl_node *node) {
    if (node->opset >= 14) return pl_attr_int(node, "training_mode") != 0;
    bool named = false;
    for (uint32_t i = 1; i < node->n_out; i++)
        named = named || node->out[i] != NULL;
    return named && (node->opset >= 7 || pl_attr_int(node, "is_test") == 0);
}

bool pl_batch_norm_is_spatial(const pl_node *node) {
    return node->opset >= 9 || pl_attr_int(node, "spatial") != 0;
}

/* ---- shape ---- */

static pl_status batch_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(pl_infer_set_like(c, 0, 0));
    pl_dtype dtype = pl_infer_dtype_of(c, IN_MEAN);
    if (dtype == PL_UNDEFINED) dtype = pl_infer_dtype_of(c, 0);
    if (rank == 0) return pl_infer_fail(c, "X is a scalar");
    pl_dim channels = rank > 1 ? pl_infer_dim(c, 0, 1) : rank == 1 ? pl_dim_of(1) : PL_DIM_UNKNOWN;
    const bool spatial = pl_batch_norm_is_spatial(c->node);
    for (int d = 2; d < rank && !spatial; d++) {
        const pl_dim dim = pl_infer_dim(c, 0, d);
        int64_t n = 0;
        if (!pl_dim_known(channels) || !pl_dim_known(dim)) {
            channels = PL_DIM_UNKNOWN;
        } else if (!pl_i64_mul(channels.value, dim.value, &n)) {
            return pl_infer_fail(c, "X is too large");
        } else {
            channels = pl_dim_of(n);
        }
    }
    static const char *const names[] = { "X", "scale", "B", "mean", "var" };
    for (int i = IN_SCALE; i <= IN_VAR && spatial; i++) {
        PL_TRY(pl_norm_check_length(c, i, channels, names[i]));
    }
    for (int i = 1; i < c->n_out; i++) {
        const int mean_rank = pl_infer_rank(c, IN_MEAN);
        if (mean_rank < 0) {
            PL_TRY(pl_infer_set(c, i, dtype, 1, &channels));
        } else {
            PL_TRY(pl_infer_set(c, i, dtype, mean_rank, c->in[IN_MEAN]->dims));
        }
    }
    return PL_OK;
}

/* ---- kernel ---- */

static void put_channels(pl_eval *c, int i, const double *values) {
    pl_tensor *t = pl_out(c, i);
    if (t != NULL) pl_store_f64(t->dtype, values, t->data, (size_t)t->n_elements);
}

/* Updates the running statistics; then sets mean and var to those of the batch. */
static pl_status train(pl_eval *c, job *j, double *mean, double *var, bool is_f64) {
    const double momentum = pl_attr_float(c->node, "momentum");
    const size_t n = (size_t)j->channels;
    double *running = pl_scratch(c, n, sizeof(*running));
    j->batch_mean = pl_scratch(c, n, sizeof(double));
    j->batch_var = pl_scratch(c, n, sizeof(double));
    if (running == NULL || j->batch_mean == NULL || j->batch_var == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, j->channels, pl_rows_grain(j->batch * j->inner),
                is_f64 ? statistics_f64 : statistics_f32, j);
    for (size_t k = 0; k < n; k++)
        running[k] = mean[k] * momentum + j->batch_mean[k] * (1 - momentum);
    put_channels(c, 1, running);
    for (size_t k = 0; k < n; k++)
        running[k] = var[k] * momentum + j->batch_var[k] * (1 - momentum);
    put_channels(c, 2, running);
    put_channels(c, 3, j->batch_mean);
    put_channels(c, 4, j->batch_var);
    for (size_t k = 0; k < n; k++) {
        mean[k] = j->batch_mean[k];
        var[k] = j->batch_var[k];
    }
    return PL_OK;
}

static double *channels_of(pl_eval *c, int i, int64_t channels) {
    const pl_tensor *t = pl_in(c, i);
    if (t == NULL || t->n_elements != channels) return NULL;
    double *copy = pl_scratch(c, (size_t)channels, sizeof(*copy));
    if (copy != NULL) pl_load_f64(t->dtype, t->data, copy, (size_t)channels);
    return copy;
}

static const void *in_loop_type(pl_eval *c, const double *from, size_t n, bool is_f64) {
    if (is_f64) return from;
    float *to = pl_scratch(c, n, sizeof(*to));
    for (size_t k = 0; to != NULL && k < n; k++)
        to[k] = (float)from[k];
    return to;
}

static pl_status normalize(pl_eval *c, job *j, bool is_f64) {
    const size_t n = (size_t)j->channels;
    for (int i = IN_SCALE; i <= IN_VAR; i++) {
        if (pl_in(c, i)->n_elements == j->channels) continue;
        return pl_eval_fail(c, "input %d has %lld elements, expected %lld", i,
                            (long long)pl_in(c, i)->n_elements, (long long)j->channels);
    }
    double *factor = channels_of(c, IN_SCALE, j->channels);
    double *bias = channels_of(c, IN_BIAS, j->channels);
    double *mean = channels_of(c, IN_MEAN, j->channels);
    double *var = channels_of(c, IN_VAR, j->channels);
    if (factor == NULL || bias == NULL || mean == NULL || var == NULL) return pl_eval_memory(c);
    if (pl_batch_norm_is_training(c->node)) {
        PL_TRY(train(c, j, mean, var, is_f64));
    } else {
        for (int i = 1; i < c->n_out; i++)
            put_channels(c, i, i % 2 == 1 ? mean : var);
    }
    const double epsilon = pl_attr_float(c->node, "epsilon");
    for (size_t k = 0; k < n; k++)
        factor[k] /= sqrt(var[k] + epsilon);
    j->mean = in_loop_type(c, mean, n, is_f64);
    j->factor = in_loop_type(c, factor, n, is_f64);
    j->bias = in_loop_type(c, bias, n, is_f64);
    if (j->mean == NULL || j->factor == NULL || j->bias == NULL) return pl_eval_memory(c);
    if (j->inner == 1) {
        pl_pool_for(c->pool, j->batch, pl_rows_grain(j->channels),
                    is_f64 ? apply_flat_f64 : apply_flat_f32, j);
    } else {
        pl_pool_for(c->pool, j->batch * j->channels, pl_rows_grain(j->inner),
                    is_f64 ? apply_f64 : apply_f32, j);
    }
    return PL_OK;
}

static pl_status batch_norm_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    if (x->n_elements == 0) {
        for (int i = 1; i < c->n_out; i++) {
            const pl_tensor *from = pl_in(c, i % 2 == 1 ? IN_MEAN : IN_VAR);
            pl_tensor *to = pl_out(c, i); /* an empty batch does not change the statistics */
            if (to == NULL || to->n_elements != from->n_elements) continue;
            for (int64_t k = 0; k < to->n_elements; k++) {
                const double v = pl_tensor_get_f64(from, k);
                pl_store_f64(to->dtype, &v,
                             (char *)to->data + (size_t)k * pl_dtype_bytes(to->dtype), 1);
            }
        }
        return PL_OK;
    }
    const bool is_f64 = x->dtype == PL_F64;
    const int last = pl_batch_norm_is_spatial(c->node) && x->rank > 1 ? 2 : x->rank;
    const pl_axis_view view =
        x->rank == 1 ? (pl_axis_view){ x->n_elements, 1, 1 } : pl_axis_view_of(x, 1, last);
    job j = { .batch = view.outer,
              .channels = view.n,
              .inner = view.inner,
              .x = pl_in_floats(c, 0, is_f64),
              .y = pl_out_floats(c, 0, is_f64) };
    if (j.x == NULL) return pl_eval_memory(c);
    if (j.y == NULL) j.y = pl_scratch(c, (size_t)x->n_elements, sizeof(double));
    if (j.y == NULL) return pl_eval_memory(c);
    PL_TRY(normalize(c, &j, is_f64));
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

/* ---- bound ---- */

typedef struct sides { /* inputs 1 to 4 and their errors, one number for each channel */
    const double *x[5], *e[5];
} sides;

static double error_at(const sides *s, int i, int64_t k) {
    return s->e[i] == NULL ? 0 : s->e[i][k];
}

typedef struct fixed_job {
    const pl_bound *c;
    const pl_axis_view *v;
    const sides *s;
    double epsilon, maths;
    double *e;
} fixed_job;

/* Rows of one channel each: u(4k(|x| + |m|) + |b|) plus inherited errors, k = |scale| / sqrt(var +
 * epsilon). */
static void fixed_rows(void *ctx, int64_t begin, int64_t end) {
    const fixed_job *j = ctx;
    const sides *s = j->s;
    const double u = j->c->u_acc, maths = j->maths;
    for (int64_t row = begin; row < end; row++) {
        const int64_t ch = row % j->v->n, n = j->v->inner;
        const double m = s->x[IN_MEAN][ch], var = s->x[IN_VAR][ch] + j->epsilon;
        const double k = fabs(s->x[IN_SCALE][ch]) / sqrt(var), bias = fabs(s->x[IN_BIAS][ch]);
        const double e_mean = error_at(s, IN_MEAN, ch), e_bias = error_at(s, IN_BIAS, ch);
        const double e_factor =
            error_at(s, IN_SCALE, ch) / sqrt(var) + k * error_at(s, IN_VAR, ch) / var / 2;
        const double *x = s->x[0] + row * n, *ex = s->e[0] == NULL ? NULL : s->e[0] + row * n;
        double *e = j->e + row * n;
        for (int64_t i = 0; i < n; i++) {
            const double d = fabs(x[i] - m);
            double sum = k * d * maths;
            sum += u * (4 * k * (fabs(x[i]) + fabs(m)) + bias);
            sum += k * ((ex == NULL ? 0 : ex[i]) + e_mean);
            sum += d * e_factor;
            e[i] = sum + e_bias;
        }
    }
}

/* Low precision is computed in float and rounded once. */
static void bound_fixed(pl_bound *c, const pl_axis_view *v, const sides *s, double epsilon,
                        double *e) {
    fixed_job j = { c, v, s, epsilon, 0, e };
    j.maths = pl_b_maths(c, PL_MATHS_SQRT, 1, 1) + pl_b_maths(c, PL_MATHS_DIV, 1, 1);
    pl_pool_for(c->pool, v->outer * v->n, pl_rows_grain(v->inner), fixed_rows, &j);
    const double *y = pl_b_y(c, 0);
    if (y != NULL) pl_b_add_stored(c, y, e, v->outer * v->n * v->inner);
}

/* Transposes (outer, channels, inner) to channels first, or back. NULL for NULL. */
static double *turn(pl_bound *c, const pl_axis_view *v, const double *x, bool back) {
    const int64_t n = v->outer * v->n * v->inner;
    double *y = x == NULL ? NULL : pl_arena_array(c->scratch, (size_t)n, sizeof(*y));
    for (int64_t i = 0; y != NULL && i < n; i++) {
        const int64_t ch = i / v->inner % v->n;
        const int64_t to = (ch * v->outer + i / v->inner / v->n) * v->inner + i % v->inner;
        if (back) {
            y[i] = x[to];
        } else {
            y[to] = x[i];
        }
    }
    return y;
}

static double *each_element(pl_bound *c, const pl_axis_view *v, const double *x) {
    const int64_t row = v->outer * v->inner;
    double *y = x == NULL ? NULL : pl_arena_array(c->scratch, (size_t)(row * v->n), sizeof(*y));
    for (int64_t i = 0; y != NULL && i < row * v->n; i++)
        y[i] = x[i / row];
    return y;
}

/* Outputs 1 to 4: running or saved statistics. */
static pl_status bound_statistics(pl_bound *c, const sides *s, const double *e_mean,
                                  const double *e_var, int64_t channels) {
    const double momentum = pl_attr_float(c->node, "momentum");
    for (int i = 1; i < c->n_out; i++) {
        const double *y = pl_b_y(c, i), *own = i % 2 == 1 ? e_mean : e_var;
        double *e = NULL;
        PL_TRY(pl_b_new(c, i, &e));
        if (e == NULL || y == NULL) continue;
        const int from = i % 2 == 1 ? IN_MEAN : IN_VAR;
        for (int64_t k = 0; k < channels; k++) {
            e[k] = own[k] + c->u * fabs(y[k]);
            if (i > 2) continue;
            const double old = fabs(s->x[from][k]);
            e[k] = (1 - momentum) * own[k] + momentum * error_at(s, from, k) +
                   2 * c->u * (old + fabs(y[k]));
        }
    }
    return PL_OK;
}

/* Statistics of the batch: each channel is a normalised row. */
static pl_status bound_training(pl_bound *c, const pl_axis_view *v, const sides *s) {
    const double epsilon = pl_attr_float(c->node, "epsilon");
    double *e_mean = pl_arena_array(c->scratch, (size_t)v->n, sizeof(double));
    double *e_inverse = pl_arena_array(c->scratch, (size_t)v->n, sizeof(double));
    const int64_t row = v->outer * v->inner;
    double *e = pl_arena_array(c->scratch, (size_t)(row * v->n), sizeof(double));
    const double *y = pl_b_y(c, 0);
    const pl_b_norm norm = { .rows = v->n,
                             .n = row,
                             .epsilon = epsilon,
                             .x = turn(c, v, s->x[0], false),
                             .ex = turn(c, v, s->e[0], false),
                             .y = turn(c, v, y, false),
                             .scale = each_element(c, v, s->x[IN_SCALE]),
                             .e_scale = each_element(c, v, s->e[IN_SCALE]),
                             .bias = each_element(c, v, s->x[IN_BIAS]),
                             .e_bias = each_element(c, v, s->e[IN_BIAS]),
                             .e = y == NULL ? NULL : e,
                             .e_mean = e_mean,
                             .e_inverse = e_inverse };
    if (e_mean == NULL || e_inverse == NULL || e == NULL || norm.x == NULL) {
        return pl_fail_memory(c->err, 1);
    }
    pl_b_norm_rule(c, &norm);
    for (int64_t k = 0; k < v->n; k++) { /* from the error of 1/sqrt(v) to that of v */
        double mean = 0, var = 0;
        for (int64_t i = 0; i < row; i++)
            mean += norm.x[k * row + i] / (double)row;
        for (int64_t i = 0; i < row; i++)
            var += (norm.x[k * row + i] - mean) * (norm.x[k * row + i] - mean) / (double)row;
        e_inverse[k] *= 2 * (var + epsilon) * sqrt(var + epsilon);
    }
    double *to = NULL;
    PL_TRY(pl_b_new(c, 0, &to));
    const double *back = turn(c, v, e, true);
    for (int64_t i = 0; to != NULL && back != NULL && i < row * v->n; i++)
        to[i] = back[i];
    return bound_statistics(c, s, e_mean, e_inverse, v->n);
}

static pl_status batch_norm_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    sides s = { { NULL }, { NULL } };
    double *e = NULL;
    if (x->n_elements == 0) return PL_OK;
    const int last = pl_batch_norm_is_spatial(c->node) && x->rank > 1 ? 2 : x->rank;
    const pl_axis_view v =
        x->rank == 1 ? (pl_axis_view){ x->n_elements, 1, 1 } : pl_axis_view_of(x, 1, last);
    for (int i = 0; i <= IN_VAR; i++) {
        s.x[i] = pl_b_x(c, i);
        s.e[i] = pl_b_e(c, i);
        if (s.x[i] == NULL) return pl_fail_memory(c->err, 1);
    }
    if (pl_batch_norm_is_training(c->node)) return bound_training(c, &v, &s);
    PL_TRY(pl_b_new(c, 0, &e));
    if (e != NULL) bound_fixed(c, &v, &s, pl_attr_float(c->node, "epsilon"), e);
    for (int i = 1; i < c->n_out; i++) { /* copies of the inputs */
        const int from = i % 2 == 1 ? IN_MEAN : IN_VAR;
        if (pl_b_out(c, i) != NULL && c->e_in[from] != NULL)
            PL_TRY(pl_b_set_take(c, i, pl_tensor_ref(c->e_in[from])));
    }
    return PL_OK;
}

static double batch_norm_scale(const pl_node *node, int64_t channel) {
    const pl_tensor *g = pl_g_known(node->in[IN_SCALE]), *v = pl_g_known(node->in[IN_VAR]);
    if (g == NULL || v == NULL || channel >= g->n_elements || channel >= v->n_elements) return 1;
    return fabs(pl_tensor_get_f64(g, channel)) /
           sqrt(pl_tensor_get_f64(v, channel) + pl_attr_float(node, "epsilon"));
}

/* ---- the next version ---- */

static pl_status next_batch_norm(pl_node *node, pl_err *err) {
    if (pl_attr_int(node, "spatial") == 0) return pl_next_never(node, err);
    pl_next_drop_attr(node, "spatial");
    return PL_OK;
}

/* ---- rows ---- */

#define OPTIONAL_OUT(name)                                                                         \
    { name, PL_T_FLOAT, PL_PORT_OPTIONAL }
#define BATCH_IN                                                                                   \
    .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "scale", PL_T_FLOAT, 0 }, { "B", PL_T_FLOAT, 0 },     \
                   { "input_mean", PL_T_FLOAT, 0 }, { "input_var", PL_T_FLOAT, 0 })
#define BATCH_OLD_OUT                                                                              \
    .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, OPTIONAL_OUT("mean"), OPTIONAL_OUT("var"),             \
                    OPTIONAL_OUT("saved_mean"), OPTIONAL_OUT("saved_var"))
#define BATCH_RULES                                                                                \
    .flags = PL_OP_REDUCTION, .infer = batch_norm_infer, .eval = batch_norm_eval,                  \
    .grad = pl_batch_norm_grad, .bound = batch_norm_bound, .folds = batch_norm_scale
#define BATCH_TEXT(out, attrs)                                                                     \
    "(float[2,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (" out ") { " out       \
    " = BatchNormalization" attrs "(x, s, b, m, v) }"
#define MOMENTUM PL_A_FLOAT("momentum", 0.9)
#define EPSILON PL_A_FLOAT("epsilon", 1e-5)
#define OLD PL_A_LIST("consumed_inputs", INTS)

/* clang-format off */
const pl_op_def pl_ops_batch_norm[] = {
    { .name = "BatchNormalization", .since = 14, BATCH_IN,
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, OPTIONAL_OUT("running_mean"), OPTIONAL_OUT("running_var")),
      .attrs = PL_ATTRS(EPSILON, MOMENTUM, PL_A_INT("training_mode", 0)), BATCH_RULES, .autocast = PL_AMP_KEEP, .emit = pl_emit_batch_norm,
      .samples = PL_SAMPLES({ BATCH_TEXT("y", ""), "v=0.5:2", 0 },
                            { BATCH_TEXT("y, rm, rv", "<training_mode=1, momentum=0.8>"), "v=0.5:2", 0 }) },
    { .name = "BatchNormalization", .since = 9, .until = 13, BATCH_IN, BATCH_OLD_OUT,
      .attrs = PL_ATTRS(EPSILON, MOMENTUM), BATCH_RULES, .autocast = PL_AMP_FP32, .emit = pl_emit_batch_norm,
      .samples = PL_SAMPLES({ BATCH_TEXT("y", ""), "v=0.5:2", 0 }) },
    { .name = "BatchNormalization", .since = 1, .until = 8, .next = next_batch_norm, BATCH_IN, BATCH_OLD_OUT,
      .attrs = PL_ATTRS(EPSILON, MOMENTUM, PL_A_INT("is_test", 0), PL_A_INT("spatial", 1), OLD), BATCH_RULES, .autocast = PL_AMP_FP32, .emit = pl_emit_batch_norm,
      .samples = PL_SAMPLES({ BATCH_TEXT("y", ""), "v=0.5:2", 0 },
                            { "(float[2,3,2] x, float[3,2] s, float[3,2] b, float[3,2] m, float[3,2] v) => (y) "
                              "{ y = BatchNormalization<spatial=0>(x, s, b, m, v) }", "v=0.5:2", 0 }) },
    { 0 },
};
/* clang-format on */

/* Normalisations. The row loop is in norm_rows.c, BatchNormalization in batch_norm.c.
 *
 * Statistics are computed in double. stash_type (LayerNormalization-17 and others) is the type that
 * the specification computes in; the rest is in float, or in double for double inputs and
 * stash_type 11. */
#include <math.h>
#include <string.h>

#include "kernels/vmath.h"
#include "ops/lib/elementwise.h"
#include "ops/lib/norm_rows.h"
#include "ops/next_version.h"
#include "ops/nn/norm_int.h"
#include "ops/nn/norm_rules.h"

extern const pl_op_def pl_ops_norm[];

enum { SEGMENT = 256 }; /* elements of an inner dim worked on at a time */

/* ---- LayerNormalization, RMSNormalization ---- */

static pl_status infer_rows(pl_infer *c, int n_statistics) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t stash =
        pl_attr_has(c->node, "stash_type") ? pl_attr_int(c->node, "stash_type") : 1;
    if (stash != PL_F32 && stash != PL_F64 && stash != PL_F16 && stash != PL_BF16) {
        return pl_infer_fail(c, "stash_type is %lld, expected a float type", (long long)stash);
    }
    PL_TRY(pl_norm_check_onto(c, 1, "scale"));
    if (c->n_in > 2) PL_TRY(pl_norm_check_onto(c, 2, "B"));
    /* RMSNormalization-23: Y has the type of the scale; in LayerNormalization that is also the type
     * of X. */
    pl_dtype dtype = pl_infer_dtype_of(c, 1);
    if (dtype == PL_UNDEFINED) dtype = pl_infer_dtype_of(c, 0);
    PL_TRY(pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims));
    const pl_dtype stat_dtype = pl_infer_dtype(c, (pl_dtype)stash);
    if (rank < 0) {
        for (int i = 1; i <= n_statistics; i++)
            PL_TRY(pl_infer_set_unranked(c, i, stat_dtype));
        return PL_OK;
    }
    int axis = 0;
    pl_dim dims[PL_RANK_MAX];
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    for (int d = 0; d < rank; d++)
        dims[d] = d < axis ? c->in[0]->dims[d] : pl_dim_of(1);
    for (int i = 1; i <= n_statistics; i++)
        PL_TRY(pl_infer_set(c, i, stat_dtype, rank, dims));
    return PL_OK;
}

static pl_status layer_norm_infer(pl_infer *c) {
    return infer_rows(c, 2);
}
static pl_status rms_norm_infer(pl_infer *c) {
    return infer_rows(c, 1);
}

/* Statistics go to outputs `mean_out` (0 = none) and `inverse_out`. */
static pl_status eval_rows(pl_eval *c, bool rms, int mean_out, int inverse_out) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    const bool is_f64 = x->dtype == PL_F64 || pl_attr_int(c->node, "stash_type") == PL_F64;
    if (x->n_elements == 0) {
        if (mean_out > 0) pl_norm_fill_nan(pl_out(c, mean_out));
        pl_norm_fill_nan(pl_out(c, inverse_out));
        return PL_OK;
    }
    const pl_axis_view view = pl_axis_view_of(x, axis, x->rank);
    const bool whole =
        pl_norm_scale_is_whole(c, 1, x, axis) || pl_norm_scale_is_whole(c, 2, x, axis);
    const pl_norm norm = { .rows = view.outer,
                           .n = view.n,
                           .block = 1,
                           .period = whole ? view.outer : 1,
                           .rms = rms,
                           .naive = c->naive && !is_f64,
                           .epsilon = pl_attr_float(c->node, "epsilon"),
                           .x = pl_in_floats(c, 0, is_f64),
                           .scale = pl_norm_scale(c, 1, x, axis, whole, is_f64),
                           .bias = pl_norm_scale(c, 2, x, axis, whole, is_f64),
                           .y = pl_out_floats(c, 0, is_f64),
                           .mean = mean_out > 0 ? pl_out_floats(c, mean_out, is_f64) : NULL,
                           .inverse = pl_out_floats(c, inverse_out, is_f64) };
    if (norm.x == NULL || norm.scale == NULL || norm.y == NULL ||
        (norm.bias == NULL && pl_has(c, 2))) {
        return pl_eval_memory(c);
    }
    pl_norm_run(c->pool, &norm, is_f64);
    pl_out_floats_done(c, 0, norm.y, is_f64);
    if (mean_out > 0) pl_out_floats_done(c, mean_out, norm.mean, is_f64);
    pl_out_floats_done(c, inverse_out, norm.inverse, is_f64);
    return PL_OK;
}

static pl_status layer_norm_eval(pl_eval *c) {
    return eval_rows(c, false, 1, 2);
}
static pl_status rms_norm_eval(pl_eval *c) {
    return eval_rows(c, true, 0, 1);
}

/* ---- InstanceNormalization, GroupNormalization ---- */

static pl_status instance_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank >= 0 && rank < 2)
        return pl_infer_fail(c, "input has rank %d, expected 2 or more", rank);
    PL_TRY(pl_norm_check_length(c, 1, pl_infer_dim(c, 0, 1), "scale"));
    PL_TRY(pl_norm_check_length(c, 2, pl_infer_dim(c, 0, 1), "B"));
    return pl_infer_set_like(c, 0, 0);
}

/* GroupNormalization-18 has a scale per group, -21 one per channel. */
static pl_status group_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t groups = pl_attr_int(c->node, "num_groups");
    const pl_dim channels = pl_infer_dim(c, 0, 1);
    if (rank >= 0 && rank < 2) return pl_infer_fail(c, "X has rank %d, expected 2 or more", rank);
    if (groups < 1) return pl_infer_fail(c, "invalid num_groups %lld", (long long)groups);
    if (pl_dim_known(channels) && channels.value % groups != 0) {
        return pl_infer_fail(c, "%lld channels cannot be split into %lld groups",
                             (long long)channels.value, (long long)groups);
    }
    const pl_dim size = c->node->opset < 21 ? pl_dim_of(groups) : channels;
    PL_TRY(pl_norm_check_length(c, 1, size, "scale"));
    PL_TRY(pl_norm_check_length(c, 2, size, "bias"));
    return pl_infer_set_like(c, 0, 0);
}

/* Rows are (sample, group); `per_group` of them share scales. */
static pl_status eval_groups(pl_eval *c, int64_t groups, bool scale_per_group) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    const pl_axis_view view = pl_axis_view_of(x, 1, 2);
    pl_norm norm = { .rows = view.outer * groups,
                     .n = view.n / groups * view.inner,
                     .period = groups,
                     .naive = c->naive && !is_f64,
                     .epsilon = pl_attr_float(c->node, "epsilon"),
                     .x = pl_in_floats(c, 0, is_f64),
                     .scale = pl_in_floats(c, 1, is_f64),
                     .bias = pl_in_floats(c, 2, is_f64),
                     .y = pl_out_floats(c, 0, is_f64) };
    norm.block = scale_per_group ? norm.n : view.inner;
    if (norm.x == NULL || norm.scale == NULL || norm.bias == NULL || norm.y == NULL) {
        return pl_eval_memory(c);
    }
    pl_norm_run(c->pool, &norm, is_f64);
    pl_out_floats_done(c, 0, norm.y, is_f64);
    return PL_OK;
}

static pl_status instance_norm_eval(pl_eval *c) {
    return eval_groups(c, pl_in(c, 0)->dims[1], false);
}
static pl_status group_norm_eval(pl_eval *c) {
    return eval_groups(c, pl_attr_int(c->node, "num_groups"), c->node->opset < 21);
}

/* ---- LpNormalization ---- */

typedef struct lp_job {
    int64_t p, n_segments;
    pl_axis_view view;
    const void *x;
    void *y;
} lp_job;

/* A norm of 0 gives 0, as in ONNX Runtime. */
#define LP_LOOPS(F, T)                                                                             \
    static void lp_rows_##F(void *ctx, int64_t begin, int64_t end) {                               \
        const lp_job *j = ctx;                                                                     \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const size_t n = (size_t)j->view.n;                                                        \
        for (int64_t row = begin; row < end; row++) {                                              \
            const pl_##F *x = (const pl_##F *)j->x + (size_t)row * n;                              \
            const double norm = j->p == 1 ? v->sum_abs(x, n) : sqrt(v->sum_sq(x, n));              \
            v->div_s(x, (T)(norm == 0 ? 1 : norm), (pl_##F *)j->y + (size_t)row * n, n);           \
        }                                                                                          \
    }                                                                                              \
    static void lp_segments_##F(void *ctx, int64_t begin, int64_t end) {                           \
        const lp_job *j = ctx;                                                                     \
        const int64_t inner = j->view.inner;                                                       \
        for (int64_t unit = begin; unit < end; unit++) {                                           \
            const int64_t from = unit % j->n_segments * SEGMENT;                                   \
            const int64_t w = inner - from < SEGMENT ? inner - from : SEGMENT;                     \
            const int64_t at = unit / j->n_segments * j->view.n * inner + from;                    \
            double norm[SEGMENT] = { 0 };                                                          \
            for (int64_t k = 0; k < j->view.n; k++) {                                              \
                const pl_##F *x = (const pl_##F *)j->x + at + k * inner;                           \
                for (int64_t i = 0; i < w; i++) {                                                  \
                    const double e = (double)x[i];                                                 \
                    norm[i] += j->p == 1 ? fabs(e) : e * e;                                        \
                }                                                                                  \
            }                                                                                      \
            for (int64_t i = 0; i < w; i++) {                                                      \
                if (j->p == 2) norm[i] = sqrt(norm[i]);                                            \
                if (norm[i] == 0) norm[i] = 1;                                                     \
            }                                                                                      \
            for (int64_t k = 0; k < j->view.n; k++) {                                              \
                const pl_##F *x = (const pl_##F *)j->x + at + k * inner;                           \
                pl_##F *y = (pl_##F *)j->y + at + k * inner;                                       \
                for (int64_t i = 0; i < w; i++)                                                    \
                    y[i] = x[i] / (T)norm[i];                                                      \
            }                                                                                      \
        }                                                                                          \
    }
LP_LOOPS(f32, float)
LP_LOOPS(f64, double)

static pl_status lp_norm_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    lp_job j = { .p = pl_attr_int(c->node, "p"),
                 .view = pl_axis_view_of(x, axis, axis + 1),
                 .x = pl_in_floats(c, 0, is_f64),
                 .y = pl_out_floats(c, 0, is_f64) };
    if (j.x == NULL || j.y == NULL) return pl_eval_memory(c);
    if (j.view.inner == 1) {
        pl_pool_for(c->pool, j.view.outer, pl_rows_grain(j.view.n),
                    is_f64 ? lp_rows_f64 : lp_rows_f32, &j);
    } else {
        j.n_segments = (j.view.inner + SEGMENT - 1) / SEGMENT;
        const int64_t width = j.view.inner < SEGMENT ? j.view.inner : SEGMENT;
        pl_pool_for(c->pool, j.view.outer * j.n_segments, pl_rows_grain(j.view.n * width),
                    is_f64 ? lp_segments_f64 : lp_segments_f32, &j);
    }
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

static pl_status lp_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t p = pl_attr_int(c->node, "p");
    int axis = 0;
    if (p != 1 && p != 2) return pl_infer_fail(c, "p is %lld, expected 1 or 2", (long long)p);
    if (rank >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    return pl_infer_set_like(c, 0, 0);
}

/* ---- LRN ---- */

typedef struct lrn_job {
    double alpha, beta, bias;
    int64_t before, after; /* channels of the window on either side */
    pl_axis_view view;
    const void *x;
    void *y;
} lrn_job;

/* beta is 0.75 in every model, and two square roots are much faster than pow. */
static double lrn_power(double t, double beta) {
    return beta == 0.75 ? sqrt(t * sqrt(t)) : pow(t, beta);
}

#define LRN_LOOPS(F, T)                                                                            \
    static void lrn_##F(void *ctx, int64_t begin, int64_t end) {                                   \
        const lrn_job *j = ctx;                                                                    \
        const int64_t inner = j->view.inner;                                                       \
        for (int64_t row = begin; row < end; row++) {                                              \
            const int64_t k = row % j->view.n;                                                     \
            const int64_t first = k > j->before ? -j->before : -k;                                 \
            const int64_t last = j->view.n - 1 - k > j->after ? j->after : j->view.n - 1 - k;      \
            const pl_##F *x = (const pl_##F *)j->x + row * inner;                                  \
            pl_##F *y = (pl_##F *)j->y + row * inner;                                              \
            for (int64_t at = 0; at < inner; at += SEGMENT) {                                      \
                const int64_t w = inner - at < SEGMENT ? inner - at : SEGMENT;                     \
                double sum[SEGMENT] = { 0 };                                                       \
                for (int64_t d = first; d <= last; d++) {                                          \
                    const pl_##F *z = x + d * inner + at;                                          \
                    for (int64_t i = 0; i < w; i++)                                                \
                        sum[i] += (double)z[i] * (double)z[i];                                     \
                }                                                                                  \
                for (int64_t i = 0; i < w; i++) {                                                  \
                    const double t = j->bias + j->alpha * sum[i];                                  \
                    y[at + i] = (T)((double)x[at + i] / lrn_power(t, j->beta));                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
LRN_LOOPS(f32, float)
LRN_LOOPS(f64, double)

static pl_status lrn_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t size = pl_attr_int(c->node, "size");
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    lrn_job j = { .alpha = pl_attr_float(c->node, "alpha") / (double)size,
                  .beta = pl_attr_float(c->node, "beta"),
                  .bias = pl_attr_float(c->node, "bias"),
                  .before = (size - 1) / 2,
                  .after = size / 2,
                  .view = pl_axis_view_of(x, 1, 2),
                  .x = pl_in_floats(c, 0, is_f64),
                  .y = pl_out_floats(c, 0, is_f64) };
    if (j.x == NULL || j.y == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, j.view.outer * j.view.n, pl_rows_grain(j.view.inner),
                is_f64 ? lrn_f64 : lrn_f32, &j);
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

static pl_status lrn_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t size = pl_attr_int(c->node, "size");
    if (size < 1) return pl_infer_fail(c, "size is %lld, expected 1 or more", (long long)size);
    if (rank >= 0 && rank < 2) return pl_infer_fail(c, "X has rank %d, expected 2 or more", rank);
    return pl_infer_set_like(c, 0, 0);
}

/* ---- MeanVarianceNormalization ---- */

/* Axes as a bit set. Version 0 (experimental, until opset 8): all but the channels, or all. */
uint32_t pl_mvn_axes(const pl_node *node, int rank) {
    static const int64_t usual[] = { 0, 2, 3 };
    const uint32_t all = (uint32_t)((1u << rank) - 1);
    if (node->opset < 9) return pl_attr_int(node, "across_channels") != 0 ? all : all & ~2u;
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(node, "axes", &n);
    if (!pl_attr_has(node, "axes")) {
        axes = usual;
        n = 3;
    }
    uint32_t set = 0;
    for (size_t i = 0; i < n; i++)
        set |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
    return set;
}

static pl_status mvn_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(c->node, "axes", &n);
    int axis = 0;
    for (size_t i = 0; rank >= 0 && i < n; i++)
        PL_TRY(pl_infer_axis(c, axes[i], rank, &axis));
    if (c->node->opset >= 9 && !pl_attr_has(c->node, "axes") && rank >= 0 && rank < 4) {
        return pl_infer_fail(c, "the default axes 0, 2, 3 do not fit rank %d", rank);
    }
    return pl_infer_set_like(c, 0, 0);
}

typedef struct mvn_job {
    pl_broadcast b; /* 0: x, 1: statistics */
    const pl_f64 *x;
    double *mean, *deviation;
} mvn_job;

/* Sums x (pass 0) or squared deviations (pass 1) into the statistics. */
static void mvn_sum(const mvn_job *j, int pass) {
    const int64_t step = pl_broadcast_step(&j->b, 1), sx = pl_broadcast_step(&j->b, 0);
    for (int64_t row = 0; row < j->b.n_outer; row++) {
        const pl_f64 *x = j->x + pl_broadcast_row(&j->b, 0, row);
        const int64_t at = pl_broadcast_row(&j->b, 1, row);
        for (int64_t i = 0; i < j->b.n_inner; i++) {
            const int64_t k = at + i * step;
            if (pass == 0) {
                j->mean[k] += x[i * sx];
            } else {
                const double d = x[i * sx] - j->mean[k];
                j->deviation[k] += d * d;
            }
        }
    }
}

static pl_status mvn_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    if (x->n_elements == 0) return PL_OK;
    const uint32_t axes = pl_mvn_axes(c->node, x->rank);
    pl_tensor kept = { .dtype = PL_F64, .rank = x->rank }; /* shape of the statistics */
    int64_t n_kept = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        kept.dims[d] = (axes >> d & 1) != 0 ? 1 : x->dims[d];
        kept.strides[d] = n_kept;
        n_kept *= kept.dims[d];
    }
    mvn_job j = { .x = pl_in_f64(c, 0),
                  .mean = pl_scratch(c, (size_t)n_kept, sizeof(double)),
                  .deviation = pl_scratch(c, (size_t)n_kept, sizeof(double)) };
    pl_f64 *y = pl_out_floats(c, 0, true);
    if (j.x == NULL || j.mean == NULL || j.deviation == NULL || y == NULL) return pl_eval_memory(c);
    memset(j.mean, 0, (size_t)n_kept * sizeof(double));
    memset(j.deviation, 0, (size_t)n_kept * sizeof(double));
    pl_broadcast_init(&j.b, x->rank, x->dims, 2, (const pl_tensor *const[]){ x, &kept });
    const double count = (double)x->n_elements / (double)n_kept;
    mvn_sum(&j, 0);
    for (int64_t k = 0; k < n_kept; k++)
        j.mean[k] /= count;
    const bool scale = c->node->opset >= 9 || pl_attr_int(c->node, "normalize_variance") != 0;
    if (scale) mvn_sum(&j, 1);
    for (int64_t k = 0; k < n_kept; k++)
        j.deviation[k] = scale ? sqrt(j.deviation[k] / count) + 1e-9 : 1;
    const int64_t step = pl_broadcast_step(&j.b, 1);
    for (int64_t row = 0; row < j.b.n_outer; row++) {
        const int64_t at = pl_broadcast_row(&j.b, 1, row), from = row * j.b.n_inner;
        for (int64_t i = 0; i < j.b.n_inner; i++) {
            const int64_t k = at + i * step;
            y[from + i] = (j.x[from + i] - j.mean[k]) / j.deviation[k];
        }
    }
    pl_out_floats_done(c, 0, y, true);
    return PL_OK;
}

/* ---- rows ---- */

#define X_SCALE_B(bias_flags)                                                                      \
    .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "Scale", PL_T_FLOAT, 0 },                             \
                   { "B", PL_T_FLOAT, bias_flags })
#define OPTIONAL(name)                                                                             \
    { name, PL_T_FLOAT, PL_PORT_OPTIONAL }
#define GROUP_PORTS                                                                                \
    .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "scale", PL_T_FLOAT, PL_PORT_SAME },       \
                   { "bias", PL_T_FLOAT, PL_PORT_SAME }),                                          \
    .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 })
#define RULES(name, rule)                                                                          \
    .flags = PL_OP_REDUCTION, .infer = name##_infer, .eval = name##_eval, .grad = rule##_grad,     \
    .bound = rule##_bound, .autocast = PL_AMP_FP32
#define X_Y .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 })
#define EPSILON PL_A_FLOAT("epsilon", 1e-5)
#define LAYER_ATTRS .attrs = PL_ATTRS(PL_A_INT("axis", -1), EPSILON, PL_A_INT("stash_type", 1))
#define MS .domain = "com.microsoft", .since = 1
#define SIMPLIFIED                                                                                 \
    .name = "SimplifiedLayerNormalization",                                                        \
    .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "scale", PL_T_FLOAT, 0 }),                            \
    .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, OPTIONAL("inv_std_var")), LAYER_ATTRS,                 \
    RULES(rms_norm, pl_rms_norm), .emit = pl_emit_rms_norm
#define OLD PL_A_LIST("consumed_inputs", INTS)

/* clang-format off */
const pl_op_def pl_ops_norm[] = {
    { .name = "GroupNormalization", .since = 21, GROUP_PORTS,
      .attrs = PL_ATTRS(EPSILON, PL_A_REQUIRED("num_groups", INT), PL_A_INT("stash_type", 1)),
      RULES(group_norm, pl_group_norm), .emit = pl_emit_group_norm,
      .samples = PL_SAMPLES({ "(float[2,4,3,3] x, float[4] s, float[4] b) => (y) { y = GroupNormalization<num_groups=2>(x, s, b) }", NULL, 0 }) },
    { .name = "GroupNormalization", .since = 18, .until = 20, GROUP_PORTS,
      .attrs = PL_ATTRS(EPSILON, PL_A_REQUIRED("num_groups", INT)), RULES(group_norm, pl_group_norm), .emit = pl_emit_group_norm,
      .samples = PL_SAMPLES({ "(float[2,4,3,3] x, float[2] s, float[2] b) => (y) { y = GroupNormalization<num_groups=2>(x, s, b) }", NULL, 0 }) },
    { .name = "InstanceNormalization", .since = 1,
      .in = PL_PORTS({ "input", PL_T_FLOAT, PL_PORT_SAME }, { "scale", PL_T_FLOAT, PL_PORT_SAME }, { "B", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(EPSILON, OLD),
      RULES(instance_norm, pl_instance_norm), .emit = pl_emit_instance_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4,5] x, float[3] s, float[3] b) => (y) { y = InstanceNormalization(x, s, b) }", NULL, 0 }) },
    /* Standard since 17; ONNX Runtime has had it in this domain since 1. */
    { .name = "LayerNormalization", .since = 1, X_SCALE_B(PL_PORT_OPTIONAL),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, OPTIONAL("Mean"), OPTIONAL("InvStdDev")),
      LAYER_ATTRS,
      RULES(layer_norm, pl_layer_norm), .emit = pl_emit_layer_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] s, float[4] b) => (y) { y = LayerNormalization(x, s, b) }", NULL, 0 },
                            { "(float[2,3,4] x, float[3,4] s) => (y, m, i) { y, m, i = LayerNormalization<axis=1>(x, s) }", NULL, 0 },
                            { "(float[2,3,4] x, float[2,1,1] s) => (y) { y = LayerNormalization(x, s) }", NULL, 0 }) },
    { .name = "LpNormalization", .since = 1, X_Y, .attrs = PL_ATTRS(PL_A_INT("axis", -1), PL_A_INT("p", 2)),
      RULES(lp_norm, pl_lp_norm), .emit = pl_emit_lp_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = LpNormalization(x) }", NULL, 0 },
                            { "(float[2,3,4] x) => (y) { y = LpNormalization<axis=1, p=1>(x) }", NULL, 0 }) },
    { .name = "LRN", .since = 1, X_Y,
      .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 0.0001), PL_A_FLOAT("beta", 0.75), PL_A_FLOAT("bias", 1), PL_A_REQUIRED("size", INT)),
      RULES(lrn, pl_lrn), .emit = pl_emit_lrn,
      .samples = PL_SAMPLES({ "(float[2,5,3,3] x) => (y) { y = LRN<size=3, alpha=0.1>(x) }", NULL, 0 },
                            { "(float[2,5,3,3] x) => (y) { y = LRN<size=4, beta=0.5, bias=2.0>(x) }", NULL, 0 }) },
    { .name = "MeanVarianceNormalization", .since = 9, X_Y, .attrs = PL_ATTRS(PL_A_LIST("axes", INTS)),
      RULES(mvn, pl_mvn), .emit = pl_emit_mvn,
      .samples = PL_SAMPLES({ "(float[2,3,4,5] x) => (y) { y = MeanVarianceNormalization(x) }", NULL, 0 },
                            { "(float[2,3,4] x) => (y) { y = MeanVarianceNormalization<axes=[-1]>(x) }", NULL, 0 },
                            { "(float[2,3,1] x) => (y) { y = MeanVarianceNormalization<axes=[-1]>(x) }", NULL, 0 }) },
    { .name = "MeanVarianceNormalization", .since = 1, .until = 8, .next = pl_next_never, X_Y,
      .attrs = PL_ATTRS(PL_A_INT("across_channels", 0), PL_A_INT("normalize_variance", 1)),
      RULES(mvn, pl_mvn), .emit = pl_emit_mvn,
      .samples = PL_SAMPLES({ "(float[2,3,4,5] x) => (y) { y = MeanVarianceNormalization(x) }", NULL, 0 },
                            { "(float[2,3,4,5] x) => (y) { y = MeanVarianceNormalization<across_channels=1, normalize_variance=0>(x) }", NULL, 0 }) },
    { .name = "RMSNormalization", .since = 23,
      .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "scale", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      LAYER_ATTRS,
      RULES(rms_norm, pl_rms_norm), .emit = pl_emit_rms_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] s) => (y) { y = RMSNormalization(x, s) }", NULL, 0 },
                            { "(float[2,3,4] x, float[3,1] s) => (y) { y = RMSNormalization<axis=1>(x, s) }", NULL, 0 }) },
    /* ONNX Runtime's names for the same operator. */
    { .name = "LayerNormalization", MS, .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "scale", PL_T_FLOAT, 0 }, OPTIONAL("B")),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, OPTIONAL("mean"), OPTIONAL("inv_std_var")), LAYER_ATTRS,
      RULES(layer_norm, pl_layer_norm), .emit = pl_emit_layer_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] s, float[4] b) => (y) { y = com.microsoft.LayerNormalization(x, s, b) }", NULL, 0 }) },
    { .domain = NULL, .since = 1, SIMPLIFIED, /* ONNX Runtime has it in ai.onnx */
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] s) => (y) { y = SimplifiedLayerNormalization(x, s) }", NULL, 0 }) },
    { MS, SIMPLIFIED,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] s) => (y, i) { y, i = com.microsoft.SimplifiedLayerNormalization(x, s) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

/* Softmax, LogSoftmax and Hardmax.
 *
 * Before opset 13 the input is flattened to a matrix: dims before `axis` are rows, the others one
 * column; since then only the axis itself is reduced. The loops are in lib/softmax_run.c. */
#include <math.h>

#include "ops/bound.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/bound_softmax.h"
#include "ops/lib/float_io.h"
#include "ops/lib/softmax_run.h"
#include "ops/nn/softmax_rules.h"

extern const pl_op_def pl_ops_softmax[];

static pl_status eval(pl_eval *c, pl_softmax_kind kind) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    if (x->n_elements == 0) return PL_OK;
    pl_softmax j = { .kind = kind,
                     .naive = c->naive,
                     .view = pl_axis_view_of(x, axis, c->node->opset < 13 ? x->rank : axis + 1) };
    const bool is_f64 = x->dtype == PL_F64;
    j.x = pl_in_floats(c, 0, is_f64);
    j.y = pl_out_floats(c, 0, is_f64);
    if (j.x == NULL || j.y == NULL) return pl_eval_memory(c);
    pl_softmax_rows(c->pool, &j, is_f64);
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

static pl_status softmax_eval(pl_eval *c) {
    return eval(c, PL_SOFTMAX);
}
static pl_status log_softmax_eval(pl_eval *c) {
    return eval(c, PL_LOG_SOFTMAX);
}
static pl_status hardmax_eval(pl_eval *c) {
    return eval(c, PL_HARDMAX);
}

static pl_status axis_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    int axis = 0;
    if (rank >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    return pl_infer_same_as_first(c);
}

/* ---- error bounds ---- */

static pl_axis_view view_of(const pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    return pl_axis_view_of(x, axis, c->node->opset < 13 ? x->rank : axis + 1);
}

static pl_status bound(pl_bound *c, bool log) {
    double *out = NULL;
    if (pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    const double *x = pl_b_x(c, 0), *y = pl_b_y(c, 0);
    if (x == NULL || y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &out));
    pl_b_softmax(c, view_of(c), x, pl_b_e(c, 0), y, log, out);
    return PL_OK;
}
static pl_status softmax_bound(pl_bound *c) {
    return bound(c, false);
}
static pl_status log_softmax_bound(pl_bound *c) {
    return bound(c, true);
}

/* 1 where another element could be the largest, and at the current largest then. */
static pl_status hardmax_bound(pl_bound *c) {
    double *out = NULL;
    if (!pl_b_any_error(c) || pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0)
        return PL_OK;
    const double *x = pl_b_x(c, 0), *y = pl_b_y(c, 0), *e = pl_b_e(c, 0);
    const pl_axis_view v = view_of(c);
    if (x == NULL || y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &out));
    for (int64_t row = 0; row < v.outer * v.inner; row++) {
        const int64_t from = row / v.inner * v.n * v.inner + row % v.inner;
        int64_t won = from;
        for (int64_t k = 0; k < v.n; k++)
            if (y[from + k * v.inner] != 0) won = from + k * v.inner;
        for (int64_t k = 0; k < v.n; k++) {
            const int64_t at = from + k * v.inner;
            const double reach = 8 * (e[at] + e[won]);
            if (at != won && reach > 0 && x[won] - x[at] <= reach) out[at] = out[won] = 1;
        }
    }
    return PL_OK;
}

/* ---- gradients ---- */

/* Sums over the axes that the operator treats as one. */
static pl_value *sum_over(pl_grad *c, pl_value *g) {
    int64_t axes[PL_RANK_MAX];
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t axis = pl_attr_int(c->node, "axis");
    size_t n = 0;
    if (rank < 0) return NULL;
    if (axis < 0) axis += rank;
    for (int64_t d = axis; d < (c->node->opset < 13 ? rank : axis + 1); d++)
        axes[n++] = d;
    return n == 0 ? g : pl_g_reduce(c, "ReduceSum", g, axes, n, true);
}

static pl_status softmax_grad(pl_grad *c) { /* y (dy - sum(dy y)) */
    pl_value *y = c->node->out[0], *dy = c->dy[0];
    c->dx[0] = pl_g_mul(c, y, pl_g_sub(c, dy, sum_over(c, pl_g_mul(c, dy, y))));
    return c->st;
}

static pl_status log_softmax_grad(pl_grad *c) { /* dy - exp(y) sum(dy) */
    pl_value *share = pl_g_mul(c, pl_g1(c, "Exp", c->node->out[0]), sum_over(c, c->dy[0]));
    c->dx[0] = pl_g_sub(c, c->dy[0], share);
    return c->st;
}

/* ---- rows ---- */

#define ROW(name_, since_, until_, axis_, fn, grad_, emit_, ...)                                   \
    {                                                                                              \
        .name = name_, .since = since_, .until = until_, .flags = PL_OP_REDUCTION,                 \
        .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),  \
        .attrs = PL_ATTRS(PL_A_INT("axis", axis_)), .infer = axis_infer, .eval = fn##_eval,        \
        .grad = grad_, .bound = fn##_bound, .emit = emit_, .autocast = __VA_ARGS__,                \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3,4] x) => (y) { y = " name_ "(x) }", NULL, 0 },                           \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", NULL, 0 },                   \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=0>(x) }", NULL, 0 },                   \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", "x=9990:10000",              \
              PL_SAMPLE_NO_GRAD },                                                                 \
            { "(float16[4,300] x) => (y) { y = " name_ "(x) }", "x=-20:20", PL_SAMPLE_NO_GRAD })   \
    }
#define BOTH(name_, fn, grad_, emit_, ...)                                                         \
    ROW(name_, 13, 0, -1, fn, grad_, emit_, __VA_ARGS__),                                          \
        ROW(name_, 1, 12, 1, fn, grad_, emit_, __VA_ARGS__)

/* clang-format off */
const pl_op_def pl_ops_softmax[] = {
    BOTH("Hardmax", hardmax, PL_GRAD_ZERO, pl_emit_hardmax, PL_AMP_KEEP, .nan = PL_NAN_ANY),
    BOTH("LogSoftmax", log_softmax, log_softmax_grad, pl_emit_log_softmax, PL_AMP_FP32),
    BOTH("Softmax", softmax, softmax_grad, pl_emit_softmax, PL_AMP_FP32),
    { 0 },
};
/* clang-format on */

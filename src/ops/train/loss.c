/* Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 *
 * Both take scores (N, C, inner) and one class for each (n, inner). The loss of an element is
 * -log_prob[class] * weight[class]; elements of class ignore_index do not count. The mean divides
 * by the sum of the used weights (NaN when there are none). Sums are in double. */
#include <math.h>
#include <string.h>

#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/bound_softmax.h"
#include "ops/lib/softmax_run.h"
#include "ops/train/loss_rules.h"

extern const pl_op_def pl_ops_loss[];

/* ---- shape ---- */

static pl_status check_reduction(pl_infer *c) {
    static const char *const names[] = { "none", "sum", "mean" };
    for (int i = 0; i < 3; i++)
        if (pl_attr_string_is(c->node, "reduction", names[i])) return PL_OK;
    return pl_infer_fail(c, "reduction is neither none, sum nor mean");
}

static pl_status check_same(pl_infer *c, int i, int axis, int axis_0, const char *what) {
    const pl_dim have = pl_infer_dim(c, i, axis), want = pl_infer_dim(c, 0, axis_0);
    if (!pl_dim_known(have) || !pl_dim_known(want) || have.value == want.value) return PL_OK;
    return pl_infer_fail(c, "dim %d of %s is %lld, expected %lld", axis, what,
                         (long long)have.value, (long long)want.value);
}

static pl_status loss_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0), rank_target = pl_infer_rank(c, 1);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    PL_TRY(check_reduction(c));
    if (rank >= 0 && rank < 2)
        return pl_infer_fail(c, "scores have rank %d, expected 2 or more", rank);
    if (rank >= 0 && rank_target >= 0) {
        if (rank_target != rank - 1) {
            return pl_infer_fail(c, "target has rank %d, expected %d", rank_target, rank - 1);
        }
        for (int d = 0; d < rank_target; d++)
            PL_TRY(check_same(c, 1, d, d == 0 ? 0 : d + 1, "target"));
    }
    if (pl_infer_rank(c, 2) >= 0) {
        if (pl_infer_rank(c, 2) != 1) return pl_infer_fail(c, "weight is not of rank 1");
        PL_TRY(check_same(c, 2, 0, 1, "weight"));
    }
    PL_TRY(pl_infer_set_like(c, 1, 0)); /* log_prob of SoftmaxCrossEntropyLoss */
    if (!pl_attr_string_is(c->node, "reduction", "none")) return pl_infer_set(c, 0, dtype, 0, NULL);
    return pl_infer_set(c, 0, dtype, rank_target, rank_target < 0 ? NULL : c->in[1]->dims);
}

/* ---- kernel ---- */

typedef struct loss_job {
    pl_axis_view view; /* batch, classes, inner */
    const void *log_prob;
    const pl_f64 *weight; /* NULL = 1 */
    bool is_f64, has_ignored;
    int64_t ignored;
    double sum, weights;
    bool naive; /* both sums in float */
} loss_job;

static pl_status element_loss(const pl_eval *c, loss_job *j, int64_t i, double *loss) {
    const int64_t class = pl_tensor_get_i64(pl_in(c, 1), i);
    *loss = 0;
    if (j->has_ignored && class == j->ignored) return PL_OK;
    if (class < 0 || class >= j->view.n) {
        return pl_eval_fail(c, "class %lld of target element %lld is not in 0 to %lld",
                            (long long)class, (long long)i, (long long)(j->view.n - 1));
    }
    const int64_t at = (i / j->view.inner * j->view.n + class) * j->view.inner + i % j->view.inner;
    const double p =
        j->is_f64 ? ((const pl_f64 *)j->log_prob)[at] : (double)((const pl_f32 *)j->log_prob)[at];
    const double w = j->weight == NULL ? 1 : j->weight[class];
    *loss = -p * w;
    j->sum += *loss;
    j->weights += w;
    if (j->naive) {
        j->sum = (double)(float)j->sum;
        j->weights = (double)(float)j->weights;
    }
    return PL_OK;
}

static pl_status put_losses(pl_eval *c, loss_job *j) {
    pl_tensor *y = pl_out(c, 0);
    const bool none = pl_attr_string_is(c->node, "reduction", "none");
    const size_t bytes = pl_dtype_bytes(y->dtype);
    const int64_t n = pl_in(c, 1)->n_elements;
    for (int64_t i = 0; i < n; i++) {
        double loss = 0;
        PL_TRY(element_loss(c, j, i, &loss));
        if (none) pl_store_f64(y->dtype, &loss, (char *)y->data + (size_t)i * bytes, 1);
    }
    if (none) return PL_OK;
    const bool mean = pl_attr_string_is(c->node, "reduction", "mean");
    const double result = mean ? j->sum / j->weights : j->sum;
    pl_store_f64(y->dtype, &result, y->data, 1);
    return PL_OK;
}

static pl_status setup(pl_eval *c, loss_job *j) {
    const pl_tensor *x = pl_in(c, 0);
    *j = (loss_job){ .is_f64 = x->dtype == PL_F64,
                     .naive = c->naive && x->dtype != PL_F64,
                     .weight = pl_has(c, 2) ? pl_in_f64(c, 2) : NULL,
                     .has_ignored = pl_attr_has(c->node, "ignore_index"),
                     .ignored = pl_attr_int(c->node, "ignore_index"),
                     .view = { 1, 1, 1 } };
    if (pl_has(c, 2) && j->weight == NULL) return pl_eval_memory(c);
    j->log_prob = pl_in_floats(c, 0, j->is_f64);
    if (x->n_elements > 0) j->view = pl_axis_view_of(x, 1, 2);
    if (x->n_elements == 0) j->view.n = 0; /* every class is out of range */
    return j->log_prob == NULL ? pl_eval_memory(c) : PL_OK;
}

static pl_status nll_eval(pl_eval *c) {
    loss_job j;
    PL_TRY(setup(c, &j));
    return put_losses(c, &j);
}

static pl_status cross_entropy_eval(pl_eval *c) {
    loss_job j;
    const int64_t n = pl_in(c, 0)->n_elements;
    PL_TRY(setup(c, &j));
    void *log_prob = pl_out_floats(c, 1, j.is_f64);
    if (log_prob == NULL)
        log_prob = pl_scratch(c, (size_t)n + 1, j.is_f64 ? sizeof(double) : sizeof(float));
    if (log_prob == NULL) return pl_eval_memory(c);
    if (n > 0) pl_log_softmax_run(c->pool, j.view, j.log_prob, log_prob, j.is_f64);
    j.log_prob = log_prob;
    pl_out_floats_done(c, 1, log_prob, j.is_f64);
    return put_losses(c, &j);
}

/* ---- error bounds ---- */

/* One element -p w with the errors of both; zeros where the class is ignored. */
typedef struct loss_error {
    double loss, error, weight, weight_error;
    double square; /* sum of squared errors: in a mean they add in quadrature */
} loss_error;

static loss_error element_error(pl_bound *c, const double *p, const double *e, int64_t at,
                                int64_t class) {
    const pl_tensor *weight = pl_b_in(c, 2);
    const double *we = pl_b_e(c, 2);
    loss_error r = { .weight = weight == NULL ? 1 : pl_tensor_get_f64(weight, class),
                     .weight_error = weight == NULL || we == NULL ? 0 : we[class] };
    r.loss = fabs(p[at] * r.weight);
    r.error = (e == NULL ? 0 : e[at] * (fabs(r.weight) + r.weight_error)) +
              fabs(p[at]) * r.weight_error + (weight == NULL ? 0 : c->u_acc * r.loss);
    return r;
}

/* From log-probabilities p with errors e. A sum is a chain of additions; the mean divides by
 * another sum. */
static pl_status put_bounds(pl_bound *c, const double *p, const double *e, double *out) {
    const pl_tensor *x = pl_b_in(c, 0), *target = pl_b_in(c, 1);
    const bool ignores = pl_attr_has(c->node, "ignore_index");
    const int64_t ignored = pl_attr_int(c->node, "ignore_index");
    const bool none = pl_attr_string_is(c->node, "reduction", "none");
    const pl_axis_view v = pl_axis_view_of(x, 1, 2);
    loss_error sum = { 0 };
    for (int64_t i = 0; i < target->n_elements; i++) {
        const int64_t class = pl_tensor_get_i64(target, i);
        if ((ignores && class == ignored) || class < 0 || class >= v.n) continue;
        const int64_t at = (i / v.inner * v.n + class) * v.inner + i % v.inner;
        const loss_error r = element_error(c, p, e, at, class);
        if (none) out[i] = r.error + pl_b_stored(c, r.loss);
        sum.loss += r.loss;
        sum.error += r.error;
        sum.square += r.error * r.error;
        sum.weight += fabs(r.weight);
        sum.weight_error += r.weight_error;
    }
    if (none) return PL_OK;
    const double chain = c->u_acc * pl_b_chain((double)target->n_elements);
    out[0] = sum.error + chain * sum.loss;
    if (pl_attr_string_is(c->node, "reduction", "mean") && sum.weight > 0) {
        const double y = sum.loss / sum.weight;
        const double weights = pl_b_in(c, 2) == NULL ? 0 : chain + sum.weight_error / sum.weight;
        out[0] = sqrt(sum.square) / sum.weight + y * (chain + c->u_acc + weights);
    }
    out[0] += pl_b_stored(c, pl_tensor_get_f64(pl_b_out(c, 0), 0));
    return PL_OK;
}

static pl_status nll_bound(pl_bound *c) {
    double *out = NULL;
    if (pl_b_out(c, 0) == NULL || pl_b_in(c, 0)->n_elements == 0) return PL_OK;
    PL_TRY(pl_b_new(c, 0, &out));
    const double *p = pl_b_x(c, 0);
    return p == NULL ? pl_fail_memory(c->err, 1) : put_bounds(c, p, pl_b_e(c, 0), out);
}

static pl_status cross_entropy_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const size_t n = (size_t)x->n_elements;
    double *out = NULL, *logs = NULL;
    if (n == 0) return PL_OK;
    const double *scores = pl_b_x(c, 0);
    double *p = pl_arena_array(c->scratch, n, sizeof(double));
    double *e = pl_arena_array(c->scratch, n, sizeof(double));
    if (scores == NULL || p == NULL || e == NULL) return pl_fail_memory(c->err, n);
    const pl_axis_view v = pl_axis_view_of(x, 1, 2);
    pl_log_softmax_run(c->pool, v, scores, p, true);
    pl_b_softmax(c, v, scores, pl_b_e(c, 0), p, true, e);
    PL_TRY(pl_b_new(c, 1, &logs));
    if (logs != NULL) memcpy(logs, e, n * sizeof(double));
    PL_TRY(pl_b_new(c, 0, &out));
    return out == NULL ? PL_OK : put_bounds(c, p, e, out);
}

/* ---- gradients ---- */

/* 0, 1, … C-1 along axis 1 of a tensor of this rank. */
static pl_value *class_numbers(pl_grad *c, pl_value *x, int rank) {
    int64_t dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = d == 1 ? -1 : 1;
    pl_value *count =
        pl_g_slice(c, pl_g_shape(c, x), (int64_t[]){ 1 }, (int64_t[]){ 2 }, (int64_t[]){ 0 }, 1);
    count = pl_g_squeeze(c, count, (int64_t[]){ 0 }, 1);
    pl_value *numbers = pl_g3(c, "Range", pl_g_int(c, 0), count, pl_g_int(c, 1));
    return pl_g_reshape(c, numbers, dims, (size_t)rank);
}

typedef struct loss_values {
    int rank;
    pl_value *picked; /* bool, (N, C, …): true at the target class */
    pl_value *weight; /* its weight there, else 0 */
    pl_value *g;      /* incoming gradient of each element, to be multiplied by -weight */
} loss_values;

static pl_status loss_setup(pl_grad *c, loss_values *v) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *target = pl_g_cast(c, node->in[1], PL_I64);
    int64_t dims[PL_RANK_MAX];
    v->rank = pl_g_rank(c, x);
    if (v->rank < 0) return c->st;
    pl_value *classes = pl_g_unsqueeze(c, target, (int64_t[]){ 1 }, 1);
    v->picked = pl_g2(c, "Equal", classes, class_numbers(c, x, v->rank));
    if (pl_attr_has(node, "ignore_index")) {
        pl_value *ignored = pl_g_int(c, pl_attr_int(node, "ignore_index"));
        pl_value *counts = pl_g1(c, "Not", pl_g2(c, "Equal", classes, ignored));
        v->picked = pl_g2(c, "And", v->picked, counts);
    }
    v->weight = pl_g_cast_like(c, v->picked, x);
    if (node->n_in > 2 && node->in[2] != NULL) {
        for (int d = 0; d < v->rank; d++)
            dims[d] = d == 1 ? -1 : 1;
        v->weight = pl_g_mul(c, v->weight, pl_g_reshape(c, node->in[2], dims, (size_t)v->rank));
    }
    v->g = c->dy[0];
    if (pl_attr_string_is(node, "reduction", "none"))
        v->g = pl_g_unsqueeze(c, v->g, (int64_t[]){ 1 }, 1);
    if (pl_attr_string_is(
            node, "reduction",
            "mean")) { /* in float at least: more than 65504 of a class may be there */
        pl_value *sum = pl_g_reduce(c, "ReduceSum", pl_g_widened(c, v->weight), NULL, 0, false);
        v->g = pl_g_cast_like(c, pl_g_div(c, pl_g_widened(c, v->g), sum), c->dy[0]);
    }
    return c->st;
}

/* d/dw of -p w, and of the divisor of the mean. */
static pl_status give_weight(pl_grad *c, const loss_values *v, pl_value *log_prob) {
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    if (c->node->n_in < 3 || !c->wanted[2]) return c->st;
    for (int d = 0; d < v->rank; d++)
        if (d != 1) axes[n++] = d;
    pl_value *slope = pl_g_neg(c, log_prob);
    if (pl_attr_string_is(c->node, "reduction", "mean"))
        slope = pl_g_sub(c, slope, c->node->out[0]);
    slope = pl_g_keep(c, v->picked, pl_g_mul(c, slope, v->g));
    c->dx[2] = pl_g_reduce(c, "ReduceSum", slope, axes, n, false);
    return c->st;
}

static pl_status nll_grad(pl_grad *c) {
    loss_values v = { 0 };
    PL_TRY(loss_setup(c, &v));
    if (c->wanted[0]) c->dx[0] = pl_g_neg(c, pl_g_mul(c, v.weight, v.g));
    return give_weight(c, &v, c->node->in[0]);
}

static pl_status cross_entropy_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *log_prob = node->n_out > 1 ? node->out[1] : NULL, *dp = NULL;
    const int64_t axis[1] = { 1 };
    if (log_prob == NULL)
        log_prob = pl_g_sub(c, x, pl_g_reduce(c, "ReduceLogSumExp", x, axis, 1, true));
    if (c->dy[0] != NULL) {
        loss_values v = { 0 };
        PL_TRY(loss_setup(c, &v));
        PL_TRY(give_weight(c, &v, log_prob));
        dp = pl_g_neg(c, pl_g_mul(c, v.weight, v.g));
    }
    if (!c->wanted[0]) return c->st;
    if (node->n_out > 1 && c->dy[1] != NULL) dp = dp == NULL ? c->dy[1] : pl_g_add(c, dp, c->dy[1]);
    pl_value *sum = pl_g_reduce(c, "ReduceSum", dp, axis, 1, true);
    c->dx[0] = pl_g_sub(c, dp, pl_g_mul(c, pl_g1(c, "Exp", log_prob), sum));
    return c->st;
}

/* ---- rows ---- */

#define IN(a, b, w)                                                                                \
    .in = PL_PORTS({ a, PL_T_FLOAT, PL_PORT_SAME }, { b, PL_T_INDEX, PL_PORT_CLASS },              \
                   { w, PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL })
#define REST(fn)                                                                                   \
    .flags = PL_OP_REDUCTION,                                                                      \
    .attrs = PL_ATTRS(PL_A_INT("ignore_index", 0), PL_A_STRING("reduction", "mean")),              \
    .infer = loss_infer, .eval = fn##_eval, .grad = fn##_grad, .bound = fn##_bound,                \
    .autocast = PL_AMP_FP32

/* clang-format off */
const pl_op_def pl_ops_loss[] = {
    { .name = "NegativeLogLikelihoodLoss", .since = 12, IN("input", "target", "weight"),
      .out = PL_PORTS({ "loss", PL_T_FLOAT, 0 }), REST(nll), .emit = pl_emit_nll_loss,
      .samples = PL_SAMPLES({ "(float[2,3] x, int64[2] t) => (y) { y = NegativeLogLikelihoodLoss(x, t) }", "t=0:2", 0 },
                            { "(float[2,3,4] x, int64[2,4] t, float[3] w) => (y) "
                              "{ y = NegativeLogLikelihoodLoss<reduction=\"none\", ignore_index=1>(x, t, w) }", "t=0:2 w=0.5:2", 0 },
                            { "(float[4,3] x, int64[4] t, float[3] w) => (y) { y = NegativeLogLikelihoodLoss<ignore_index=2>(x, t, w) }", "t=0:2 w=0.5:2", 0 },
                            { "(float16[6,5,4] x, int64[6,4] t) => (y) { y = NegativeLogLikelihoodLoss<reduction=\"sum\">(x, t) }", "t=0:4", PL_SAMPLE_NO_GRAD }) },
    { .name = "SoftmaxCrossEntropyLoss", .since = 12, IN("scores", "labels", "weights"),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }, { "log_prob", PL_T_FLOAT, PL_PORT_OPTIONAL }), REST(cross_entropy), .emit = pl_emit_cross_entropy,
      .samples = PL_SAMPLES({ "(float[2,3] x, int64[2] t) => (y) { y = SoftmaxCrossEntropyLoss(x, t) }", "t=0:2", 0 },
                            { "(float[2,3,4] x, int32[2,4] t, float[3] w) => (y, p) "
                              "{ y, p = SoftmaxCrossEntropyLoss<reduction=\"sum\", ignore_index=1>(x, t, w) }", "t=0:2 w=0.5:2", 0 },
                            { "(float[4,3,2] x, int64[4,2] t, float[3] w) => (y) { y = SoftmaxCrossEntropyLoss<ignore_index=0>(x, t, w) }", "t=0:2 w=0.5:2", 0 },
                            { "(float[4,3] x, int64[4] t) => (y) { y = SoftmaxCrossEntropyLoss<reduction=\"none\">(x, t) }", "t=0:2", 0 },
                            { "(float16[16,9] x, int64[16] t) => (y, p) { y, p = SoftmaxCrossEntropyLoss(x, t) }", "t=0:8 x=-9:9", PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

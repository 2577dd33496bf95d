/* Reductions over axes, ArgMax and ArgMin, running sums. The loops are in reduce_loops.c and
 * reduce_axis.c. */
#include "ops/math/reduce.h"

#include <string.h>

#include "ops/lib/content.h"
#include "ops/math/reduce_rules.h"

extern const pl_op_def pl_ops_reduce[];

/* ---- Reduce… ---- */

static bool reduces_all(const pl_node *node, size_t n_axes) {
    return n_axes == 0 && pl_attr_int(node, "noop_with_empty_axes") == 0;
}

/* The axes are an input whose content is unknown. */
static pl_status infer_open(pl_infer *c, int rank, bool keep) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_dim n_axes = pl_infer_rank(c, 1) == 1 ? pl_infer_dim(c, 1, 0) : PL_DIM_UNKNOWN;
    pl_dim dims[PL_RANK_MAX];
    if (!keep && (!pl_dim_known(n_axes) || n_axes.value == 0 || n_axes.value > rank)) {
        return pl_infer_set_unranked(c, 0, dtype);
    }
    if (!keep) rank -= (int)n_axes.value;
    for (int d = 0; d < rank; d++)
        dims[d] = PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, dtype, rank, dims);
}

static pl_status reduce_shape(pl_infer *c, int *out_rank) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const bool keep = pl_attr_int(c->node, "keepdims") != 0;
    pl_axes axes = { .known = true };
    pl_dim dims[PL_RANK_MAX];
    *out_rank = -1;
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    PL_TRY(pl_axes_read(c, "axes", 1, rank, false, &axes));
    if (!axes.known) return infer_open(c, rank, keep);
    bool reduced[PL_RANK_MAX] = { false };
    for (int d = 0; d < rank; d++)
        reduced[d] = reduces_all(c->node, axes.n);
    for (size_t k = 0; k < axes.n; k++)
        reduced[axes.axis[k]] = true;
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (!reduced[d]) dims[n++] = c->in[0]->dims[d];
        if (reduced[d] && keep) dims[n++] = pl_dim_of(1);
    }
    *out_rank = rank == 1 && !reduced[0] ? -1 : n;
    return pl_infer_set(c, 0, dtype, n, dims);
}

/* Content of a shape reduced to one number. Symbols survive only for one element or a product. */
static pl_status reduce_content(pl_infer *c, int rank, bool product) {
    const pl_content *x = c->concrete || rank < 0 || rank > 1 ? NULL : pl_content_of(c, 0);
    pl_dim out = PL_DIM_UNKNOWN;
    if (x == NULL || x->n == 0) return PL_OK;
    for (size_t k = 0; k < x->n; k++) {
        if (x->known[k] && x->dims[k].value < 0) return PL_OK; /* not a size */
    }
    if (x->n == 1) {
        out = x->dims[0];
    } else if (product) {
        PL_TRY(pl_dims_multiply(c, x->dims, 0, (int)x->n, &out));
    }
    const bool known = pl_dim_known(out);
    return known || out.name != NULL ? pl_content_set(c, 0, rank, 1, &out, &known) : PL_OK;
}

static pl_status reduce_infer(pl_infer *c) {
    int rank = -1;
    return reduce_shape(c, &rank);
}

/* Max, min and sum of one element are the element itself. */
static pl_status reduce_select_infer(pl_infer *c) {
    int rank = -1;
    PL_TRY(reduce_shape(c, &rank));
    return reduce_content(c, rank, false);
}

static pl_status reduce_prod_infer(pl_infer *c) {
    int rank = -1;
    PL_TRY(reduce_shape(c, &rank));
    return reduce_content(c, rank, true);
}

void pl_reduced_axes(const pl_node *node, int rank, const int64_t *axes, size_t n_axes,
                     bool *reduced) {
    if (pl_attr_has(node, "axes")) axes = pl_attr_ints(node, "axes", &n_axes);
    for (int d = 0; d < rank; d++)
        reduced[d] = reduces_all(node, n_axes);
    for (size_t k = 0; axes != NULL && k < n_axes; k++)
        reduced[axes[k] < 0 ? axes[k] + rank : axes[k]] = true;
}

static pl_status reduce_eval(pl_eval *c, pl_reduce_kind kind) {
    const pl_tensor *x = pl_in(c, 0);
    bool reduced[PL_RANK_MAX] = { false };
    size_t n = 0;
    const int64_t *axes = NULL;
    if (pl_has(c, 1)) {
        axes = pl_in_ints(c, 1, &n);
        if (axes == NULL) return pl_eval_memory(c);
    }
    pl_reduced_axes(c->node, x->rank, axes, n, reduced);
    PL_TRY(pl_reduce(c, kind, x, reduced, pl_out(c, 0)));
    /* ONNX ReduceMean-18: "yields undefined". NumPy and plumb give NaN, ONNX Runtime 0. */
    if (c->otherwise && kind == PL_REDUCE_MEAN && x->n_elements == 0 &&
        pl_out(c, 0)->n_elements > 0)
        memset(pl_out(c, 0)->data, 0, pl_tensor_bytes(pl_out(c, 0)));
    return PL_OK;
}

#define REDUCE_EVAL(name, kind)                                                                    \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        return reduce_eval(c, kind);                                                               \
    }
REDUCE_EVAL(l1, PL_REDUCE_L1)
REDUCE_EVAL(l2, PL_REDUCE_L2)
REDUCE_EVAL(log_sum, PL_REDUCE_LOG_SUM)
REDUCE_EVAL(log_sum_exp, PL_REDUCE_LOG_SUM_EXP)
REDUCE_EVAL(max, PL_REDUCE_MAX)
REDUCE_EVAL(mean, PL_REDUCE_MEAN)
REDUCE_EVAL(min, PL_REDUCE_MIN)
REDUCE_EVAL(prod, PL_REDUCE_PROD)
REDUCE_EVAL(sum, PL_REDUCE_SUM)
REDUCE_EVAL(sum_square, PL_REDUCE_SUM_SQUARE)

/* ---- ArgMax, ArgMin ---- */

static pl_status arg_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const bool keep = pl_attr_int(c->node, "keepdims") != 0;
    int axis = 0, n = 0;
    pl_dim dims[PL_RANK_MAX];
    if (rank < 0) return pl_infer_set_unranked(c, 0, PL_I64);
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    bool empty = false; /* output is empty: the axis may be empty, too */
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = c->in[0]->dims[d];
        if (d != axis) dims[n++] = dim;
        if (d == axis && keep) dims[n++] = pl_dim_of(1);
        empty = empty || (d != axis && pl_dim_known(dim) && dim.value == 0);
    }
    const pl_dim along = c->in[0]->dims[axis];
    if (pl_dim_known(along) && along.value == 0 && !empty && c->concrete) {
        return pl_infer_fail(c, "axis %d is empty: it has no largest or smallest element", axis);
    }
    return pl_infer_set(c, 0, PL_I64, n, dims);
}

static pl_status arg_eval(pl_eval *c, bool smallest) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t axis = pl_attr_int(c->node, "axis");
    const bool last = pl_attr_int(c->node, "select_last_index") != 0;
    pl_arg_reduce(c, x, (int)(axis < 0 ? axis + x->rank : axis), smallest, last, pl_out(c, 0));
    return PL_OK;
}
static pl_status arg_max_eval(pl_eval *c) {
    return arg_eval(c, false);
}
static pl_status arg_min_eval(pl_eval *c) {
    return arg_eval(c, true);
}

/* ---- CumSum, CumProd ---- */

static pl_status cumulate_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_tensor *at = c->in_tensor[1];
    int axis = 0;
    if (at != NULL && at->n_elements != 1) {
        return pl_infer_fail(c, "axis has %lld elements, expected one", (long long)at->n_elements);
    }
    if (at != NULL && rank >= 0) PL_TRY(pl_infer_axis(c, pl_tensor_get_i64(at, 0), rank, &axis));
    return pl_infer_set_like(c, 0, 0);
}

static pl_status cumulate_eval(pl_eval *c, bool product) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t axis = pl_in_int(c, 1, 0);
    pl_cumulate(c, x, (int)(axis < 0 ? axis + x->rank : axis), product,
                pl_attr_int(c->node, "exclusive") != 0, pl_attr_int(c->node, "reverse") != 0,
                pl_out(c, 0));
    return PL_OK;
}
static pl_status cum_sum_eval(pl_eval *c) {
    return cumulate_eval(c, false);
}
static pl_status cum_prod_eval(pl_eval *c) {
    return cumulate_eval(c, true);
}

/* ---- rows ---- */

/* clang-format off */
#define KEEPDIMS PL_A_INT("keepdims", 1)
#define ROW(types, flags_, rule, fn, bound_, grad_, emit_, ...)                                    \
    .flags = PL_OP_REDUCTION | PL_OP_SHAPE | (flags_), .out = PL_PORTS({ "reduced", types, 0 }),   \
    .infer = rule, .eval = fn, .grad = grad_, .bound = bound_, .emit = emit_,                      \
    .autocast = __VA_ARGS__
/* Axes as an attribute up to opset `until_`, then as an input. ranges: value ranges of the samples.
 * Further arguments go to ROW. */
#define BY_ATTR(name_, until_, types, ranges, ...)                                                 \
    { .name = name_, .since = 1, .until = until_, .in = PL_PORTS({ "data", types, 0 }),            \
      .attrs = PL_ATTRS(PL_A_LIST("axes", INTS), KEEPDIMS), ROW(types, __VA_ARGS__),               \
      .samples = PL_SAMPLES(                                                                       \
          { "(float[2,3,4] x) => (y) { y = " name_ "<axes=[-2], keepdims=0>(x) }", ranges, 0 },    \
          { "(float[2,3,4] x) => (y) { y = " name_ "(x) }", ranges, 0 },                           \
          { "(float16[4,700] x) => (y) { y = " name_ "<axes=[1]>(x) }", ranges,                    \
            PL_SAMPLE_NO_GRAD }) }
#define BY_INPUT(name_, since_, types, ranges, ...)                                                \
    { .name = name_, .since = since_,                                                              \
      .in = PL_PORTS({ "data", types, 0 }, { "axes", PL_T_I64, PL_PORT_OPTIONAL | PL_PORT_AXES }),                \
      .attrs = PL_ATTRS(KEEPDIMS, PL_A_INT("noop_with_empty_axes", 0)), ROW(types, __VA_ARGS__),   \
      .samples = PL_SAMPLES(                                                                       \
          { "(float[2,3,4] x) => (y) <int64[2] axes = {0,-1}> { y = " name_                        \
            "<keepdims=0>(x, axes) }", ranges, 0 },                                                \
          { "(float[2,3] x) => (y) <int64[1] axes = {1}> { y = " name_ "(x, axes) }", ranges, 0 }, \
          { "(float[2,3] x) => (y) { y = " name_ "<noop_with_empty_axes=1>(x) }", ranges, 0 },     \
          { "(float[1500,2] x) => (y) <int64[1] axes = {0}> { y = " name_ "(x, axes) }", ranges,   \
            PL_SAMPLE_NO_GRAD },                                                                   \
          /* with an element that is 0 */                                                          \
          { "(float[2,3] x) => (y) <float[2,3] m = {0.5,0,1,1,1,1}, int64[1] axes = {1}> "         \
            "{ t = Mul(x, m) y = " name_ "<keepdims=0>(t, axes) }", "x=0.5:2", PL_SAMPLE_NO_GRAD }) }
#define REDUCE(name_, types, ranges, ...)                                                          \
    BY_ATTR(name_, 17, types, ranges, __VA_ARGS__),                                                \
    BY_INPUT(name_, 18, types, ranges, __VA_ARGS__)

#define ARG(name_, fn, emit_)                                                                       \
    {                                                                                              \
        .name = name_, .since = 1, .flags = PL_OP_REDUCTION | PL_OP_PICKS,                         \
        .in = PL_PORTS({ "data", PL_T_NUMERIC, 0 }), .out = PL_PORTS({ "reduced", PL_T_I64, 0 }),  \
        .attrs = PL_ATTRS(PL_A_INT("axis", 0), KEEPDIMS, PL_A_INT("select_last_index", 0)),        \
        .infer = arg_infer, .eval = fn, .grad = PL_GRAD_UNDEFINED, .bound = pl_arg_bound,          \
        .emit = emit_, .autocast = PL_AMP_KEEP,                                                    \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", NULL, PL_SAMPLE_NO_GRAD },   \
            { "(float[2,3] x) => (y) { y = " name_                                                 \
              "<axis=-1, keepdims=0, select_last_index=1>(x) }",                                   \
              NULL, PL_SAMPLE_NO_GRAD })                                                           \
    }
#define CUMULATE(name_, since_, fn)                                                                \
    {                                                                                              \
        .name = name_, .since = since_, .flags = PL_OP_SHAPE,                                      \
        .in = PL_PORTS({ "x", PL_T_NUMERIC, 0 }, { "axis", PL_T_INDEX, PL_PORT_AXES }),                       \
        .out = PL_PORTS({ "y", PL_T_NUMERIC, 0 }),                                                 \
        .attrs = PL_ATTRS(PL_A_INT("exclusive", 0), PL_A_INT("reverse", 0)),                       \
        .infer = cumulate_infer, .eval = fn##_eval, .grad = pl_##fn##_grad,                          \
        .bound = pl_##fn##_bound, .emit = pl_emit_##fn, .autocast = PL_AMP_FP32,                   \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3,4] x) => (y) <int64 axis = {1}> { y = " name_ "(x, axis) }", NULL, 0 },  \
            { "(float[2,3] x) => (y) <int32 axis = {-1}> { y = " name_                             \
              "<exclusive=1, reverse=1>(x, axis) }",                                               \
              NULL, 0 })                                                                           \
    }

const pl_op_def pl_ops_reduce[] = {
    ARG("ArgMax", arg_max_eval, pl_emit_arg_max),
    ARG("ArgMin", arg_min_eval, pl_emit_arg_min),
    CUMULATE("CumProd", 26, cum_prod),
    CUMULATE("CumSum", 11, cum_sum),
    REDUCE("ReduceL1", PL_T_NUMERIC, NULL, 0, reduce_infer, l1_eval, pl_reduce_sum_bound, pl_reduce_l1_grad, pl_emit_reduce_l1, PL_AMP_FP32),
    REDUCE("ReduceL2", PL_T_NUMERIC, "x=0.1:2", 0, reduce_infer, l2_eval, pl_reduce_l2_bound, pl_reduce_l2_grad, pl_emit_reduce_l2, PL_AMP_FP32),
    REDUCE("ReduceLogSum", PL_T_NUMERIC, "x=0.1:2", 0, reduce_infer, log_sum_eval, pl_reduce_log_sum_bound, pl_reduce_log_sum_grad, pl_emit_reduce_log_sum, PL_AMP_FP32),
    REDUCE("ReduceLogSumExp", PL_T_NUMERIC, NULL, 0, reduce_infer, log_sum_exp_eval, pl_reduce_log_sum_exp_bound, pl_reduce_log_sum_exp_grad, pl_emit_reduce_log_sum_exp, PL_AMP_FP32),
    REDUCE("ReduceMax", PL_T_NUMERIC | PL_T_BOOL, NULL, 0, reduce_select_infer, max_eval, pl_reduce_extreme_bound, pl_reduce_extreme_grad, pl_emit_reduce_max, PL_AMP_KEEP, .nan = PL_NAN_EITHER),
    REDUCE("ReduceMean", PL_T_NUMERIC, NULL, PL_OP_OPEN, reduce_infer, mean_eval, pl_reduce_mean_bound, pl_reduce_mean_grad, pl_emit_reduce_mean, PL_AMP_FP32),
    REDUCE("ReduceMin", PL_T_NUMERIC | PL_T_BOOL, NULL, 0, reduce_select_infer, min_eval, pl_reduce_extreme_bound, pl_reduce_extreme_grad, pl_emit_reduce_min, PL_AMP_KEEP, .nan = PL_NAN_EITHER),
    REDUCE("ReduceProd", PL_T_NUMERIC, "x=0.9:1.1", 0, reduce_prod_infer, prod_eval, pl_reduce_prod_bound, pl_reduce_prod_grad, pl_emit_reduce_prod, PL_AMP_FP32),
    BY_ATTR("ReduceSum", 12, PL_T_NUMERIC, NULL, 0, reduce_select_infer, sum_eval, pl_reduce_sum_bound, pl_reduce_sum_grad, pl_emit_reduce_sum, PL_AMP_FP32),
    BY_INPUT("ReduceSum", 13, PL_T_NUMERIC, NULL, 0, reduce_select_infer, sum_eval, pl_reduce_sum_bound, pl_reduce_sum_grad, pl_emit_reduce_sum, PL_AMP_FP32),
    REDUCE("ReduceSumSquare", PL_T_NUMERIC, NULL, 0, reduce_infer, sum_square_eval, pl_reduce_sum_square_bound, pl_reduce_sum_square_grad, pl_emit_reduce_sum_square, PL_AMP_FP32),
    { 0 },
};
/* clang-format on */

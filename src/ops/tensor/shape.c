/* Operators that change or return a shape: Reshape, Squeeze and the like (views), Shape, Size,
 * Identity, Expand, Tile.
 *
 * Their rules keep symbols: Reshape of [N,C,H,W] by [Shape(x)[0],-1] gives [N,?], and a symbol on
 * both sides is cancelled before -1 is computed. */
#include "base/size.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/grad.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"
#include "ops/tensor/shape_rules.h"

extern const pl_op_def pl_ops_shape[];

static pl_status view_eval(pl_eval *c) {
    return pl_out_view(c, 0, 0);
}

/* Unranked, or of the given rank when only the number of axes is known. */
static pl_status set_open(pl_infer *c, pl_dtype dtype, int rank) {
    pl_dim dims[PL_RANK_MAX];
    if (rank < 0 || rank > PL_RANK_MAX) return pl_infer_set_unranked(c, 0, dtype);
    for (int d = 0; d < rank; d++)
        dims[d] = PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, dtype, rank, dims);
}

/* Length of the 1-d input i, or -1. */
static int input_length(const pl_infer *c, int i) {
    const pl_dim n = pl_infer_dim(c, i, 0);
    return pl_infer_rank(c, i) == 1 && pl_dim_known(n) && n.value <= PL_RANK_MAX ? (int)n.value
                                                                                 : -1;
}

/* ---- Reshape ---- */

typedef struct target {
    int rank;
    pl_dim dims[PL_RANK_MAX];
    int open; /* index of the -1; -1 = none */
} target;

static pl_status target_put(const pl_infer *c, target *t, bool known, pl_dim value) {
    const int k = t->rank++;
    const int in_rank = pl_infer_rank(c, 0);
    t->dims[k] = PL_DIM_UNKNOWN;
    if (!known) {
        if (value.name != NULL) t->dims[k] = value;
    } else if (value.value == 0 && pl_attr_int(c->node, "allowzero") == 0) {
        if (in_rank >= 0 && k >= in_rank) {
            return pl_infer_fail(
                c, "dim %d of the new shape is 0 (copied), but the input has rank %d", k, in_rank);
        }
        t->dims[k] = pl_infer_dim(c, 0, k);
    } else if (value.value == -1) {
        if (t->open >= 0) return pl_infer_fail(c, "the new shape has more than one -1");
        t->open = k;
    } else if (value.value < 0) {
        return pl_infer_fail(c, "dim %d of the new shape is %lld", k, (long long)value.value);
    } else {
        t->dims[k] = pl_dim_of(value.value);
    }
    return PL_OK;
}

/* Cancels symbols that occur on both sides by setting them to 1. */
static void cancel_symbols(pl_dim *a, int na, pl_dim *b, int nb, int skip) {
    for (int i = 0; i < na; i++) {
        for (int k = 0; k < nb && !pl_dim_known(a[i]); k++) {
            if (k == skip || pl_dim_known(b[k]) || !pl_dim_equal(a[i], b[k])) continue;
            a[i] = b[k] = pl_dim_of(1);
        }
    }
}

/* The last unknown dim and how many there are, and the product of the known dims. */
static pl_status factor(const pl_infer *c, const pl_dim *dims, int n, int64_t *product,
                        pl_dim *open, int *n_open) {
    pl_dim known[PL_RANK_MAX], all = PL_DIM_UNKNOWN;
    *n_open = 0;
    for (int d = 0; d < n; d++) {
        known[d] = pl_dim_known(dims[d]) ? dims[d] : pl_dim_of(1);
        if (pl_dim_known(dims[d])) continue;
        *open = dims[d];
        *n_open += 1;
    }
    PL_TRY(pl_dims_multiply(c, known, 0, n, &all));
    *product = all.value;
    return PL_OK;
}

static pl_status target_close(const pl_infer *c, target *t) {
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) return PL_OK;
    pl_dim in[PL_RANK_MAX], out[PL_RANK_MAX], open = PL_DIM_UNKNOWN, other = PL_DIM_UNKNOWN;
    int64_t have = 0, want = 0;
    int n_open = 0, n_other = 0;
    for (int d = 0; d < rank; d++)
        in[d] = c->in[0]->dims[d];
    for (int d = 0; d < t->rank; d++)
        out[d] = d == t->open ? pl_dim_of(1) : t->dims[d];
    cancel_symbols(in, rank, out, t->rank, t->open);
    PL_TRY(factor(c, in, rank, &have, &open, &n_open));
    PL_TRY(factor(c, out, t->rank, &want, &other, &n_other));
    const bool both = n_open == 0 && n_other == 0;
    if (t->open < 0) {
        if (!both || have == want) return PL_OK;
        return pl_infer_fail(c, "cannot reshape %lld elements into %lld", (long long)have,
                             (long long)want);
    }
    if (want == 0) {
        return c->concrete ? pl_infer_fail(c, "-1 is ambiguous with a dim of 0") : PL_OK;
    }
    if (both && have % want != 0) {
        return pl_infer_fail(c, "cannot reshape %lld elements into a multiple of %lld",
                             (long long)have, (long long)want);
    }
    if (both) t->dims[t->open] = pl_dim_of(have / want);
    if (n_open == 1 && n_other == 0 && have == want) t->dims[t->open] = open;
    return PL_OK;
}

static pl_status reshape_to(pl_infer *c, size_t n, const pl_dim *dims, const bool *known) {
    target t = { .open = -1 };
    if (n > PL_RANK_MAX) {
        return pl_infer_fail(c, "the new shape has %zu dims, the limit is %d", n, PL_RANK_MAX);
    }
    for (size_t k = 0; k < n; k++)
        PL_TRY(target_put(c, &t, known == NULL || known[k], dims[k]));
    PL_TRY(target_close(c, &t));
    PL_TRY(pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), t.rank, t.dims));
    return pl_content_pass(c, t.rank);
}

static pl_status reshape_infer(pl_infer *c) {
    const pl_content *shape = pl_content_of(c, 1);
    if (shape != NULL) return reshape_to(c, shape->n, shape->dims, shape->known);
    if (c->concrete) return pl_infer_fail(c, "the new shape is not a list of integers");
    return set_open(c, pl_infer_dtype_of(c, 0), input_length(c, 1));
}

static pl_status reshape1_infer(pl_infer *c) {
    size_t n = 0;
    const int64_t *shape = pl_attr_ints(c->node, "shape", &n);
    pl_dim dims[PL_RANK_MAX];
    for (size_t k = 0; k < n && k < PL_RANK_MAX; k++)
        dims[k] = (pl_dim){ shape[k], NULL };
    return reshape_to(c, n, dims, NULL);
}

/* ---- Flatten, Squeeze, Unsqueeze ---- */

static pl_status flatten_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) return set_open(c, pl_infer_dtype_of(c, 0), 2);
    const int64_t axis = pl_attr_int(c->node, "axis");
    /* A scalar flattens to [1,1] although the default axis, 1, is beyond its rank. */
    if (axis < -rank || axis > pl_i64_max(rank, 1)) {
        return pl_infer_fail(c, "axis is %lld, expected %d to %d", (long long)axis, -rank, rank);
    }
    const int at = (int)pl_i64_min(axis < 0 ? axis + rank : axis, rank);
    pl_dim dims[2];
    PL_TRY(pl_dims_multiply(c, c->in[0]->dims, 0, at, &dims[0]));
    PL_TRY(pl_dims_multiply(c, c->in[0]->dims, at, rank, &dims[1]));
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 2, dims);
}

static pl_status squeeze_all(pl_infer *c, int rank) {
    pl_dim dims[PL_RANK_MAX];
    int n = 0;
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = c->in[0]->dims[d];
        if (!pl_dim_known(dim)) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
        if (dim.value != 1) dims[n++] = dim;
    }
    PL_TRY(pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), n, dims));
    return pl_content_pass(c, n);
}

static pl_status squeeze_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    pl_axes axes;
    PL_TRY(pl_axes_read(c, "axes", 1, rank, false, &axes));
    if (!axes.present) return squeeze_all(c, rank);
    if (!axes.known) {
        const int n = input_length(c, 1);
        return set_open(c, dtype, n < 0 ? -1 : rank - n);
    }
    bool drop[PL_RANK_MAX] = { false };
    for (size_t k = 0; k < axes.n; k++)
        drop[axes.axis[k]] = true;
    pl_dim dims[PL_RANK_MAX];
    int n = 0;
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = c->in[0]->dims[d];
        if (!drop[d]) {
            dims[n++] = dim;
        } else if (pl_dim_known(dim) && dim.value != 1) {
            return pl_infer_fail(c, "cannot squeeze axis %d, which has %lld elements", d,
                                 (long long)dim.value);
        }
    }
    PL_TRY(pl_infer_set(c, 0, dtype, n, dims));
    return pl_content_pass(c, n);
}

/* Number of axes given to Unsqueeze; -1 when not known. */
static int unsqueeze_count(pl_infer *c) {
    size_t n = 0;
    (void)pl_attr_ints(c->node, "axes", &n);
    if (pl_node_attr(c->node, "axes") != NULL) return n <= PL_RANK_MAX ? (int)n : PL_RANK_MAX + 1;
    const pl_content *content = pl_content_of(c, 1);
    if (content != NULL) return (int)content->n;
    return input_length(c, 1);
}

static pl_status unsqueeze_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int added = unsqueeze_count(c);
    if (pl_node_attr(c->node, "axes") == NULL && pl_infer_rank(c, 1) > 1) {
        return pl_infer_fail(c, "input 1 (axes) has rank %d, expected 1", pl_infer_rank(c, 1));
    }
    if (rank < 0 || added < 0) return pl_infer_set_unranked(c, 0, dtype);
    const int n = rank + added;
    if (n > PL_RANK_MAX) return pl_infer_set(c, 0, dtype, n, NULL); /* fails: too many dims */
    pl_axes axes;
    PL_TRY(pl_axes_read(c, "axes", 1, n, true, &axes));
    if (!axes.known) return set_open(c, dtype, n);
    bool is_new[PL_RANK_MAX] = { false };
    for (size_t k = 0; k < axes.n; k++)
        is_new[axes.axis[k]] = true;
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0, from = 0; d < n; d++) {
        dims[d] = is_new[d] ? pl_dim_of(1) : c->in[0]->dims[from++];
    }
    PL_TRY(pl_infer_set(c, 0, dtype, n, dims));
    return pl_content_pass(c, n);
}

/* ---- Shape, Size ---- */

/* Shape-15: start and end clamped to 0..rank. */
static void shape_range(const pl_node *node, int rank, int *begin, int *end) {
    int64_t from = pl_attr_int(node, "start");
    int64_t to = pl_node_attr(node, "end") != NULL ? pl_attr_int(node, "end") : rank;
    from = pl_i64_min(pl_i64_max(from < 0 ? from + rank : from, 0), rank);
    to = pl_i64_min(pl_i64_max(to < 0 ? to + rank : to, 0), rank);
    *begin = (int)from;
    *end = (int)pl_i64_max(from, to);
}

static pl_status shape_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dim length = PL_DIM_UNKNOWN;
    if (rank < 0) return pl_infer_set(c, 0, PL_I64, 1, &length);
    int begin, end;
    shape_range(c->node, rank, &begin, &end);
    length = pl_dim_of(end - begin);
    PL_TRY(pl_infer_set(c, 0, PL_I64, 1, &length));
    bool known[PL_RANK_MAX];
    for (int d = begin; d < end; d++)
        known[d - begin] = pl_dim_known(c->in[0]->dims[d]);
    return pl_content_set(c, 0, 1, (size_t)(end - begin), c->in[0]->dims + begin, known);
}

static pl_status shape_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    int begin, end;
    shape_range(c->node, x->rank, &begin, &end);
    pl_i64 *y = pl_out(c, 0)->data;
    for (int d = begin; d < end; d++)
        y[d - begin] = x->dims[d];
    return PL_OK;
}

static pl_status size_infer(pl_infer *c) {
    PL_TRY(pl_infer_set(c, 0, PL_I64, 0, NULL));
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) return PL_OK;
    pl_dim size;
    PL_TRY(pl_dims_multiply(c, c->in[0]->dims, 0, rank, &size));
    const bool known = pl_dim_known(size);
    return pl_content_set(c, 0, 0, 1, &size, &known);
}

static pl_status size_eval(pl_eval *c) {
    *(pl_i64 *)pl_out(c, 0)->data = pl_in(c, 0)->n_elements;
    return PL_OK;
}

/* ---- Identity ---- */

static pl_status identity_infer(pl_infer *c) {
    PL_TRY(pl_infer_set_like(c, 0, 0));
    const pl_content *content = c->concrete ? NULL : pl_content_of(c, 0);
    return content == NULL ? PL_OK : pl_content_pass(c, content->rank);
}

static pl_status identity_eval(pl_eval *c) {
    return pl_out_set_datum_take(c, 0, pl_datum_ref(pl_in_datum(c, 0)));
}

/* ---- Expand ---- */

static pl_status expand_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_content *shape = pl_content_of(c, 1);
    if (shape == NULL && c->concrete) {
        return pl_infer_fail(c, "the shape is not a list of integers");
    }
    const int n = shape != NULL ? (int)shape->n : input_length(c, 1);
    if (rank < 0 || n < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (shape == NULL) return set_open(c, dtype, rank > n ? rank : n);
    const int out = rank > n ? rank : n;
    if (out > PL_RANK_MAX) return pl_infer_set(c, 0, dtype, out, NULL);
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < out; d++) {
        const int i = d - (out - rank), s = d - (out - n);
        pl_dim want = s < 0 ? pl_dim_of(1) : shape->dims[s];
        if (s >= 0 && !shape->known[s]) want = (pl_dim){ -1, want.name };
        if (s >= 0 && shape->known[s] && want.value < 0) {
            return pl_infer_fail(c, "dim %d of the shape is %lld", s, (long long)want.value);
        }
        const pl_dim have = i < 0 ? pl_dim_of(1) : c->in[0]->dims[i];
        PL_TRY(pl_infer_broadcast_dim(c, have, want, &dims[d]));
    }
    return pl_infer_set(c, 0, dtype, out, dims);
}

static pl_status expand_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_move m = { .rank = y->rank };
    for (int d = 0; d < y->rank; d++) {
        const int i = d - (y->rank - x->rank);
        m.dims[d] = y->dims[d];
        m.from[d] = i < 0 || x->dims[i] == 1 ? 0 : x->strides[i];
        m.to[d] = y->strides[d];
    }
    PL_TRY(pl_move_tensor(c, &m, x, 0, y, 0));
    return pl_own_strings(c, y);
}

/* ---- Tile ---- */

static pl_status tile_dim(const pl_infer *c, pl_dim dim, int64_t repeat, pl_dim *out) {
    if (repeat < 0) return pl_infer_fail(c, "a repeat is %lld", (long long)repeat);
    *out = repeat == 1 ? dim : PL_DIM_UNKNOWN;
    if (repeat == 0) *out = pl_dim_of(0);
    if (!pl_dim_known(dim) || repeat <= 1) return PL_OK;
    if (!pl_i64_mul(dim.value, repeat, &out->value)) {
        return pl_infer_fail(c, "%lld times %lld elements do not fit in 63 bits", (long long)repeat,
                             (long long)dim.value);
    }
    return PL_OK;
}

static pl_status tile_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_content *repeats = pl_content_of(c, 1);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (repeats == NULL && !c->concrete) return set_open(c, dtype, rank);
    if (repeats == NULL || repeats->n != (size_t)rank) {
        return pl_infer_fail(c, "expected %d repeats, one for each dim of the input", rank);
    }
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++) {
        dims[d] = PL_DIM_UNKNOWN;
        const pl_dim dim = c->in[0]->dims[d];
        if (repeats->known[d]) {
            PL_TRY(tile_dim(c, dim, repeats->dims[d].value, &dims[d]));
        } else if (pl_dim_known(dim) && dim.value == 1 && repeats->dims[d].name != NULL) {
            dims[d] = repeats->dims[d];
        }
    }
    return pl_infer_set(c, 0, dtype, rank, dims);
}

/* Tile-1: one axis; axis and count are tensors of one element. */
static pl_status tile1_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_tensor *tiles = c->in_tensor[1], *at = c->in_tensor[2];
    if (rank < 0 || tiles == NULL || at == NULL) return set_open(c, dtype, rank);
    if (tiles->n_elements != 1 || at->n_elements != 1 || tiles->dtype == PL_STRING) {
        return pl_infer_fail(c, "tiles and axis must be single numbers");
    }
    int axis = 0;
    pl_dim dims[PL_RANK_MAX];
    PL_TRY(pl_infer_axis(c, pl_tensor_get_i64(at, 0), rank, &axis));
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    PL_TRY(tile_dim(c, dims[axis], pl_tensor_get_i64(tiles, 0), &dims[axis]));
    return pl_infer_set(c, 0, dtype, rank, dims);
}

static pl_status tile_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_move m = { .rank = 2 * y->rank };
    if (y->n_elements == 0) return PL_OK;
    for (int d = 0; d < y->rank; d++) { /* [repeat, dim] for each dim */
        m.dims[2 * d] = y->dims[d] / x->dims[d];
        m.to[2 * d] = y->strides[d] * x->dims[d];
        m.dims[2 * d + 1] = x->dims[d];
        m.from[2 * d + 1] = x->strides[d];
        m.to[2 * d + 1] = y->strides[d];
    }
    PL_TRY(pl_move_tensor(c, &m, x, 0, y, 0));
    return pl_own_strings(c, y);
}

/* ---- rows ---- */

#define MOVES .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define VIEWS                                                                                      \
    .flags = PL_OP_VIEW | PL_OP_OWN_OUT | PL_OP_SHAPE, .eval = view_eval, .grad = pl_grad_view,    \
    MOVES
#define ASKS .grad = PL_GRAD_ZERO, .bound = pl_b_untouched, .autocast = PL_AMP_KEEP
#define OUT(name) .out = PL_PORTS({ name, PL_T_ANY, 0 })
#define DATA_ONLY .in = PL_PORTS({ "data", PL_T_ANY, 0 })
#define DATA_AND(name, flags) .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { name, PL_T_I64, flags })

/* clang-format off */
const pl_op_def pl_ops_shape[] = {
    { .name = "Expand", .since = 8, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "shape", PL_T_I64, 0 }), OUT("output"),
      .infer = expand_infer, .eval = expand_eval, .grad = pl_grad_expand, MOVES, .emit = pl_emit_expand_rule,
      .samples = PL_SAMPLES(
          { "(float[3,1] x) => (y) <int64[3] shape = {2,1,4}> { y = Expand(x, shape) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64[1] shape = {1}> { y = Expand(x, shape) }", NULL, 0 }) },
    { .name = "Flatten", .since = 1, VIEWS, DATA_ONLY, OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("axis", 1)), .infer = flatten_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = Flatten(x) }", NULL, 0 },
                            { "(float[2,3,4] x) => (y) { y = Flatten<axis=-1>(x) }", NULL, 0 },
                            { "(float[2,3] x) => (y) { y = Flatten<axis=0>(x) }", NULL, 0 }) },
    { .name = "Identity", .since = 1, .flags = PL_OP_VIEW | PL_OP_OWN_OUT | PL_OP_SHAPE, .list = PL_LIST_PASS,
      .in = PL_PORTS({ "input", PL_T_ANY, PL_PORT_ANY_KIND }),
      .out = PL_PORTS({ "output", PL_T_ANY, PL_PORT_ANY_KIND }),
      .infer = identity_infer, .eval = identity_eval, .grad = pl_grad_view, MOVES, .emit = pl_emit_identity,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Identity(x) }", NULL, 0 },
                            { "(int64 x) => (y) { y = Identity(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Reshape", .since = 1, .until = 4, VIEWS, DATA_ONLY, OUT("reshaped"),
      .attrs = PL_ATTRS(PL_A_LIST("shape", INTS), PL_A_LIST("consumed_inputs", INTS)),
      .infer = reshape1_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = Reshape<shape=[0,-1]>(x) }", NULL, 0 }) },
    { .name = "Reshape", .since = 5, VIEWS, DATA_AND("shape", 0), OUT("reshaped"),
      .attrs = PL_ATTRS(PL_A_INT("allowzero", 0)), .infer = reshape_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES(
          { "(float[2,3,4] x) => (y) <int64[2] shape = {0,-1}> { y = Reshape(x, shape) }", NULL, 0 },
          { "(float[2,6] x) => (y) <int64[4] shape = {3,1,2,2}> { y = Reshape(x, shape) }", NULL, 0 },
          { "(float[0,3] x) => (y) <int64[2] shape = {3,0}> { y = Reshape<allowzero=1>(x, shape) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Shape", .since = 1, .flags = PL_OP_SHAPE | PL_OP_DIMS, DATA_ONLY, .out = PL_PORTS({ "shape", PL_T_I64, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("start", 0), PL_A_INT("end", 0)),
      .infer = shape_infer, .eval = shape_eval, ASKS, .emit = pl_emit_types_only,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = Shape(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[2,3,4] x) => (y) { y = Shape<start=1, end=-1>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Size", .since = 1, .flags = PL_OP_SHAPE, DATA_ONLY, .out = PL_PORTS({ "size", PL_T_I64, 0 }),
      .infer = size_infer, .eval = size_eval, ASKS, .emit = pl_emit_types_only,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = Size(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Squeeze", .since = 1, .until = 12, VIEWS, DATA_ONLY, OUT("squeezed"),
      .attrs = PL_ATTRS(PL_A_LIST("axes", INTS)), .infer = squeeze_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[1,3,1] x) => (y) { y = Squeeze<axes=[0]>(x) }", NULL, 0 },
                            { "(float[1,3,1] x) => (y) { y = Squeeze(x) }", NULL, 0 }) },
    { .name = "Squeeze", .since = 13, VIEWS, DATA_AND("axes", PL_PORT_OPTIONAL | PL_PORT_AXES), OUT("squeezed"),
      .infer = squeeze_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[1,3,1] x) => (y) <int64[1] axes = {-1}> { y = Squeeze(x, axes) }", NULL, 0 },
                            { "(float[1,3,1] x) => (y) { y = Squeeze(x) }", NULL, 0 }) },
    { .name = "Tile", .since = 1, .until = 5,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "tiles", PL_T_NUMERIC, 0 }, { "axis", PL_T_NUMERIC, 0 }),
      OUT("output"), .infer = tile1_infer, .eval = tile_eval, .grad = pl_grad_tile, MOVES, .emit = pl_emit_tile,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <float tiles = {2}, float axis = {1}> { y = Tile(x, tiles, axis) }", NULL, 0 }) },
    { .name = "Tile", .since = 6,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "repeats", PL_T_I64, 0 }),
      OUT("output"), .infer = tile_infer, .eval = tile_eval, .grad = pl_grad_tile, MOVES, .emit = pl_emit_tile,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <int64[2] repeats = {2,3}> { y = Tile(x, repeats) }", NULL, 0 },
                            { "(float[1,3] x) => (y) <int64[2] repeats = {4,1}> { y = Tile(x, repeats) }", NULL, 0 }) },
    { .name = "Unsqueeze", .since = 1, .until = 12, VIEWS, DATA_ONLY, OUT("expanded"),
      .attrs = PL_ATTRS(PL_A_REQUIRED("axes", INTS)), .infer = unsqueeze_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Unsqueeze<axes=[0,3]>(x) }", NULL, 0 }) },
    { .name = "Unsqueeze", .since = 13, VIEWS, DATA_AND("axes", PL_PORT_AXES), OUT("expanded"),
      .infer = unsqueeze_infer, .emit = pl_emit_same_elements,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <int64[2] axes = {3,0}> { y = Unsqueeze(x, axes) }", NULL, 0 },
                            { "(float x) => (y) <int64[1] axes = {0}> { y = Unsqueeze(x, axes) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

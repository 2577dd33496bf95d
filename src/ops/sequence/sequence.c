/* Sequences and optionals: making them, reading from them, splitting and joining tensors.
 *
 * Items are shared, never copied; only SplitToSequence (along an inner axis) and ConcatFromSequence
 * move elements. */
#include <string.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/join.h"

extern const pl_op_def pl_ops_sequence[];

/* ---- asking ---- */

static const pl_datum *sequence_in(const pl_eval *c, int i) {
    const pl_datum *d = pl_in_datum(c, i);
    return d != NULL && d->kind == PL_TYPE_SEQUENCE ? d : NULL;
}

static pl_status need_sequence(const pl_eval *c, int i, const pl_datum **out) {
    *out = sequence_in(c, i);
    return *out != NULL ? PL_OK : pl_eval_fail(c, "input %d is not a sequence", i);
}

/* A scalar position in [-n, n), or [-n, n] when `past_end`. */
static pl_status position_in(const pl_eval *c, int i, size_t n_items, bool past_end, size_t *out) {
    const pl_tensor *t = pl_in(c, i);
    const int64_t n = (int64_t)n_items;
    if (t == NULL || t->n_elements != 1) {
        return pl_eval_fail(c, "position must be a scalar");
    }
    const int64_t at = pl_tensor_get_i64(t, 0), last = past_end ? n : n - 1;
    if (at < -n || at > last) {
        return pl_eval_fail(c, "position is %lld, expected %lld to %lld", (long long)at,
                            (long long)-n, (long long)last);
    }
    *out = (size_t)(at < 0 ? at + n : at);
    return PL_OK;
}

static const pl_type *elem_of(const pl_infer *c, int i) {
    return pl_infer_has(c, i) && c->in[i]->kind != PL_TYPE_TENSOR ? c->in[i]->elem : NULL;
}

static pl_status set_of(pl_infer *c, int i, pl_type_kind kind, const pl_type *elem) {
    const pl_type *type = pl_type_of(c->arena, kind, elem);
    if (type == NULL) return pl_fail_memory(c->err, sizeof(*type));
    return pl_infer_set_type(c, i, type);
}

static pl_status check_position(const pl_infer *c, int i) {
    const int rank = pl_infer_rank(c, i);
    if (rank <= 0) return PL_OK;
    /* The specification requires a scalar; [1] is common and harmless. */
    const pl_dim d = pl_infer_dim(c, i, 0);
    if (rank == 1 && (!pl_dim_known(d) || d.value == 1)) return PL_OK;
    return pl_infer_fail(c, "position must be a scalar");
}

/* ---- making ---- */

static pl_status construct_infer(pl_infer *c) {
    const pl_type *elem = pl_infer_has(c, 0) ? c->in[0] : NULL;
    for (int i = 1; i < c->n_in; i++) {
        PL_TRY(pl_infer_union(c, elem, pl_infer_has(c, i) ? c->in[i] : NULL, &elem));
    }
    return set_of(c, 0, PL_TYPE_SEQUENCE, elem);
}

static pl_status construct_eval(pl_eval *c) {
    for (int i = 0; i < c->n_in; i++) {
        if (pl_in(c, i) == NULL) return pl_eval_fail(c, "input %d is missing", i);
    }
    const pl_dtype dtype = c->n_in > 0 ? pl_in(c, 0)->dtype : PL_UNDEFINED;
    pl_datum *d = NULL;
    PL_TRY(pl_datum_new_sequence(PL_TYPE_TENSOR, dtype, c->in, (size_t)c->n_in, &d, c->err));
    return pl_out_set_datum_take(c, 0, d);
}

static pl_status empty_infer(pl_infer *c) {
    const int64_t dtype = pl_attr_int(c->node, "dtype");
    if (!pl_dtype_valid(dtype)) {
        return pl_infer_fail(c, "dtype %lld is not an element type", (long long)dtype);
    }
    const pl_type *elem = pl_type_tensor_unranked(c->arena, pl_infer_dtype(c, (pl_dtype)dtype));
    if (elem == NULL) return pl_fail_memory(c->err, sizeof(*elem));
    return set_of(c, 0, PL_TYPE_SEQUENCE, elem);
}

static pl_status empty_eval(pl_eval *c) {
    const pl_dtype dtype = pl_eval_dtype(c, (pl_dtype)pl_attr_int(c->node, "dtype"));
    pl_datum *d = NULL;
    PL_TRY(pl_datum_new_sequence(PL_TYPE_TENSOR, dtype, NULL, 0, &d, c->err));
    return pl_out_set_datum_take(c, 0, d);
}

static pl_status insert_infer(pl_infer *c) {
    PL_TRY(check_position(c, 2));
    const pl_type *elem = elem_of(c, 0);
    const pl_dtype item = pl_infer_dtype_of(c, 1);
    const bool is_tensor = elem != NULL && elem->kind == PL_TYPE_TENSOR;
    if (is_tensor && elem->dtype != PL_UNDEFINED && item != PL_UNDEFINED && elem->dtype != item) {
        return pl_infer_fail(c, "cannot insert %s into a sequence of %s", pl_dtype_name(item),
                             pl_dtype_name(elem->dtype));
    }
    PL_TRY(pl_infer_union(c, elem, pl_infer_has(c, 1) ? c->in[1] : NULL, &elem));
    return set_of(c, 0, PL_TYPE_SEQUENCE, elem);
}

static pl_status insert_eval(pl_eval *c) {
    const pl_datum *s = NULL;
    PL_TRY(need_sequence(c, 0, &s));
    const pl_tensor *t = pl_in(c, 1);
    if (t == NULL) return pl_eval_fail(c, "input 1 is not a tensor");
    if (s->elem_dtype != PL_UNDEFINED && s->elem_dtype != t->dtype) {
        return pl_eval_fail(c, "cannot insert %s into a sequence of %s", pl_dtype_name(t->dtype),
                            pl_dtype_name(s->elem_dtype));
    }
    size_t at = s->n_items;
    if (pl_has(c, 2)) PL_TRY(position_in(c, 2, s->n_items, true, &at));
    pl_datum **items = pl_scratch(c, s->n_items + 1, sizeof(*items));
    if (items == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i <= s->n_items; i++) {
        items[i] = i == at ? c->in[1] : s->items[i - (i > at ? 1 : 0)];
    }
    pl_datum *d = NULL;
    PL_TRY(pl_datum_new_sequence(PL_TYPE_TENSOR, t->dtype, items, s->n_items + 1, &d, c->err));
    return pl_out_set_datum_take(c, 0, d);
}

static pl_status erase_infer(pl_infer *c) {
    PL_TRY(check_position(c, 1));
    return pl_infer_set_like(c, 0, 0);
}

static pl_status erase_eval(pl_eval *c) {
    const pl_datum *s = NULL;
    PL_TRY(need_sequence(c, 0, &s));
    if (s->n_items == 0) return pl_eval_fail(c, "the sequence is empty");
    size_t at = s->n_items - 1;
    if (pl_has(c, 1)) PL_TRY(position_in(c, 1, s->n_items, false, &at));
    pl_datum **items = pl_scratch(c, s->n_items, sizeof(*items));
    if (items == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i + 1 < s->n_items; i++)
        items[i] = s->items[i + (i >= at ? 1 : 0)];
    pl_datum *d = NULL;
    PL_TRY(pl_datum_new_sequence(s->elem_kind, s->elem_dtype, items, s->n_items - 1, &d, c->err));
    return pl_out_set_datum_take(c, 0, d);
}

/* ---- taking ---- */

static pl_status at_infer(pl_infer *c) {
    PL_TRY(check_position(c, 1));
    return pl_infer_set_type(c, 0, elem_of(c, 0));
}

static pl_status at_eval(pl_eval *c) {
    const pl_datum *s = NULL;
    PL_TRY(need_sequence(c, 0, &s));
    size_t at = 0;
    if (s->n_items == 0) return pl_eval_fail(c, "the sequence is empty");
    PL_TRY(position_in(c, 1, s->n_items, false, &at));
    return pl_out_set_datum_take(c, 0, pl_datum_ref(s->items[at]));
}

static pl_status length_infer(pl_infer *c) {
    return pl_infer_set(c, 0, PL_I64, 0, NULL);
}

static pl_status length_eval(pl_eval *c) {
    const pl_datum *s = NULL;
    PL_TRY(need_sequence(c, 0, &s));
    pl_tensor *y = pl_out(c, 0);
    if (y != NULL) *(pl_i64 *)y->data = (int64_t)s->n_items;
    return PL_OK;
}

/* ---- SplitToSequence-11 ---- */

static pl_status split_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_type *elem = NULL;
    if (pl_infer_rank(c, 1) > 1) return pl_infer_fail(c, "split must be a scalar or 1-D");
    if (rank < 0) {
        elem = pl_type_tensor_unranked(c->arena, dtype);
    } else {
        int axis = 0, n = 0;
        PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
        const bool by_one = !pl_infer_has(c, 1);
        const bool drop = by_one && pl_attr_int(c->node, "keepdims") == 0;
        pl_dim dims[PL_RANK_MAX];
        for (int i = 0; i < rank; i++) {
            if (i == axis && drop) continue;
            dims[n] = c->in[0]->dims[i];
            if (i == axis) dims[n] = by_one ? pl_dim_of(1) : PL_DIM_UNKNOWN;
            n++;
        }
        elem = pl_type_tensor(c->arena, dtype, n, dims);
    }
    if (elem == NULL) return pl_fail_memory(c->err, sizeof(*elem));
    return set_of(c, 0, PL_TYPE_SEQUENCE, elem);
}

/* Lengths of the parts along an axis of length `dim`, in scratch. */
static pl_status split_lengths(pl_eval *c, int64_t dim, const int64_t **out, size_t *n_out) {
    const pl_tensor *split = pl_in(c, 1);
    if (split != NULL && split->rank > 0) {
        const int64_t *lengths = pl_in_ints(c, 1, n_out);
        if (lengths == NULL) return pl_eval_memory(c);
        int64_t sum = 0;
        for (size_t i = 0; i < *n_out; i++) {
            if (lengths[i] < 0 || !pl_i64_add(sum, lengths[i], &sum)) {
                return pl_eval_fail(c, "split[%zu] is %lld", i, (long long)lengths[i]);
            }
        }
        *out = lengths;
        if (sum == dim) return PL_OK;
        return pl_eval_fail(c, "split adds up to %lld, expected %lld", (long long)sum,
                            (long long)dim);
    }
    const int64_t length = split == NULL ? 1 : pl_in_int(c, 1, 1);
    if (length <= 0)
        return pl_eval_fail(c, "split is %lld, expected a positive number", (long long)length);
    *n_out = (size_t)(dim / length + (dim % length != 0 ? 1 : 0));
    int64_t *lengths = pl_scratch(c, *n_out, sizeof(*lengths));
    if (lengths == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < *n_out; i++)
        lengths[i] = pl_i64_min(length, dim - (int64_t)i * length);
    *out = lengths;
    return PL_OK;
}

/* One part: a view of it, made contiguous. */
static pl_status split_part(pl_eval *c, const pl_tensor *x, int axis, int64_t begin, int64_t length,
                            bool drop, pl_datum **out) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i == axis && drop) continue;
        dims[rank] = i == axis ? length : x->dims[i];
        strides[rank++] = x->strides[i];
    }
    pl_tensor *view = NULL, *part = NULL;
    const int64_t offset = x->n_elements == 0 ? 0 : begin * x->strides[axis];
    PL_TRY(pl_tensor_view(x, rank, dims, strides, offset, &view, c->err));
    const pl_status st = pl_tensor_contiguous(view, &part, c->err);
    pl_tensor_unref(view);
    return st != PL_OK ? st : pl_datum_of_tensor_take(part, out, c->err);
}

static pl_status split_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    if (x == NULL || x->rank == 0) return pl_eval_fail(c, "a scalar cannot be split");
    int64_t axis = pl_attr_int(c->node, "axis"), at = 0; /* the shape rule has checked the range */
    if (axis < 0) axis += x->rank;
    const bool drop = !pl_has(c, 1) && pl_attr_int(c->node, "keepdims") == 0;
    const int64_t *lengths = NULL;
    size_t n = 0, n_made = 0;
    PL_TRY(split_lengths(c, x->dims[axis], &lengths, &n));
    pl_datum **parts = pl_scratch(c, n, sizeof(*parts)), *d = NULL;
    if (parts == NULL) return pl_eval_memory(c);
    pl_status st = PL_OK;
    for (; n_made < n; n_made++) {
        PL_TRY_GOTO(done, st,
                    split_part(c, x, (int)axis, at, lengths[n_made], drop, &parts[n_made]));
        at += lengths[n_made];
    }
    PL_TRY_GOTO(done, st, pl_datum_new_sequence(PL_TYPE_TENSOR, x->dtype, parts, n, &d, c->err));
    st = pl_out_set_datum_take(c, 0, d);
done:
    for (size_t i = 0; i < n_made; i++)
        pl_datum_unref(parts[i]);
    return st;
}

/* ---- ConcatFromSequence-11 ---- */

static pl_status concat_infer(pl_infer *c) {
    const pl_type *elem = elem_of(c, 0);
    if (elem == NULL || elem->kind != PL_TYPE_TENSOR) return PL_OK;
    const bool stack = pl_attr_int(c->node, "new_axis") != 0;
    if (!elem->has_rank) return pl_infer_set_unranked(c, 0, elem->dtype);
    const int rank = elem->rank + (stack ? 1 : 0);
    if (rank > PL_RANK_MAX) return pl_infer_fail(c, "rank %d exceeds the limit", rank);
    int axis = 0;
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0, from = 0; i < rank; i++) {
        dims[i] = i == axis ? PL_DIM_UNKNOWN : elem->dims[from];
        if (i != axis || !stack) from++;
    }
    return pl_infer_set(c, 0, elem->dtype, rank, dims);
}

static pl_status concat_eval(pl_eval *c) {
    const pl_datum *s = NULL;
    PL_TRY(need_sequence(c, 0, &s));
    if (s->n_items == 0) return pl_eval_fail(c, "the sequence is empty");
    const int64_t new_axis = pl_attr_int(c->node, "new_axis");
    if (new_axis != 0 && new_axis != 1) {
        return pl_eval_fail(c, "new_axis is %lld, expected 0 or 1", (long long)new_axis);
    }
    pl_tensor *y = NULL;
    PL_TRY(pl_join(c, s->items, s->n_items, pl_attr_int(c->node, "axis"), new_axis != 0,
                   "the items of the sequence", &y));
    return pl_out_set_take(c, 0, y);
}

/* ---- optionals ---- */

static const pl_type *optional_attr(const pl_node *node) {
    const pl_attr *attr = pl_node_attr(node, "type");
    return attr == NULL ? NULL : attr->type_proto;
}

static const pl_type *strip_shape(pl_infer *c, const pl_type *type) {
    if (type == NULL) return NULL;
    if (type->kind == PL_TYPE_TENSOR) {
        return pl_type_tensor_unranked(c->arena, pl_infer_dtype(c, type->dtype));
    }
    const pl_type *elem = strip_shape(c, type->elem);
    return pl_type_of(c->arena, type->kind, elem);
}

static pl_status optional_infer(pl_infer *c) {
    if (pl_infer_has(c, 0)) {
        if (c->in[0]->kind == PL_TYPE_OPTIONAL) {
            return pl_infer_fail(c, "an optional cannot hold an optional");
        }
        return c->in[0]->kind == PL_TYPE_NONE ? PL_OK : set_of(c, 0, PL_TYPE_OPTIONAL, c->in[0]);
    }
    const pl_type *type = optional_attr(c->node);
    if (type == NULL) return pl_infer_fail(c, "neither an input nor attribute 'type' is given");
    const pl_type *elem = strip_shape(c, type);
    if (elem == NULL) return pl_fail_memory(c->err, sizeof(*elem));
    return set_of(c, 0, PL_TYPE_OPTIONAL, elem);
}

static pl_status optional_eval(pl_eval *c) {
    pl_datum *in = c->n_in > 0 ? c->in[0] : NULL, *d = NULL;
    pl_type_kind kind = PL_TYPE_TENSOR;
    pl_dtype dtype = PL_UNDEFINED;
    if (in != NULL) {
        kind = in->kind;
        dtype = in->kind == PL_TYPE_TENSOR ? in->tensor->dtype : in->elem_dtype;
    } else {
        const pl_type *type = optional_attr(c->node);
        if (type != NULL) kind = type->kind;
        while (type != NULL && type->kind != PL_TYPE_TENSOR)
            type = type->elem;
        if (type != NULL) dtype = pl_eval_dtype(c, type->dtype);
    }
    PL_TRY(pl_datum_new_optional(kind, dtype, in, &d, c->err));
    return pl_out_set_datum_take(c, 0, d);
}

static pl_status get_infer(pl_infer *c) {
    if (!pl_infer_has(c, 0) || c->in[0]->kind == PL_TYPE_NONE) return PL_OK;
    const bool wrapped = c->in[0]->kind == PL_TYPE_OPTIONAL;
    return pl_infer_set_type(c, 0, wrapped ? c->in[0]->elem : c->in[0]);
}

/* OptionalGetElement-18: a value that is not an optional is returned itself. */
static pl_status get_eval(pl_eval *c) {
    const pl_datum *d = pl_in_datum(c, 0);
    if (d == NULL) return pl_eval_fail(c, "the input is missing");
    if (d->kind != PL_TYPE_OPTIONAL) return pl_out_set_datum_take(c, 0, pl_datum_ref(d));
    if (d->n_items == 0) return pl_eval_fail(c, "the optional is empty");
    return pl_out_set_datum_take(c, 0, pl_datum_ref(d->items[0]));
}

static pl_status has_infer(pl_infer *c) {
    return pl_infer_set(c, 0, PL_BOOL, 0, NULL);
}

static pl_status has_eval(pl_eval *c) {
    const pl_datum *d = pl_in_datum(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y == NULL) return PL_OK;
    *(pl_u8 *)y->data = d != NULL && (d->kind != PL_TYPE_OPTIONAL || d->n_items > 0);
    return PL_OK;
}

/* ---- rows ---- */

#define EXACT .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define SEQ(name_)                                                                                 \
    { name_, PL_T_ANY, PL_PORT_NOT_TENSOR }
#define TENSOR(name_)                                                                              \
    { name_, PL_T_ANY, 0 }
#define POSITION(flags_)                                                                           \
    { "position", PL_T_INDEX, flags_ }

/* clang-format off */
const pl_op_def pl_ops_sequence[] = {
    { .name = "ConcatFromSequence", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_JOIN,
      .in = PL_PORTS(SEQ("input_sequence")), .out = PL_PORTS(TENSOR("concat_result")),
      .attrs = PL_ATTRS(PL_A_REQUIRED("axis", INT), PL_A_INT("new_axis", 0)),
      .infer = concat_infer, .eval = concat_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES(
          { "(float[2,3] x, float[2,4] y) => (z) { s = SequenceConstruct(x, y) z = ConcatFromSequence<axis = 1>(s) }", NULL, 0 },
          { "(float[2,3] x, float[2,3] y) => (z) { s = SequenceConstruct(x, y) z = ConcatFromSequence<axis = -1, new_axis = 1>(s) }", NULL, 0 }) },
    { .name = "Optional", .since = 15, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS({ "input", PL_T_ANY, PL_PORT_OPTIONAL | PL_PORT_ANY_KIND }),
      .out = PL_PORTS({ "output", PL_T_ANY, PL_PORT_NOT_TENSOR }),
      .attrs = PL_ATTRS(PL_A_LIST("type", TYPE_PROTO)),
      .infer = optional_infer, .eval = optional_eval, .grad = pl_grad_view, EXACT, PL_EMIT_BREAK("optionals are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { o = Optional(x) y = OptionalGetElement(o) }", NULL, 0 }) },
    { .name = "OptionalGetElement", .since = 15, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS({ "input", PL_T_ANY, PL_PORT_ANY_KIND }), .out = PL_PORTS({ "output", PL_T_ANY, PL_PORT_ANY_KIND }),
      .infer = get_infer, .eval = get_eval, .grad = pl_grad_view, EXACT, PL_EMIT_BREAK("optionals are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = OptionalGetElement(x) }", NULL, 0 }) },
    { .name = "OptionalHasElement", .since = 15,
      .in = PL_PORTS({ "input", PL_T_ANY, PL_PORT_OPTIONAL | PL_PORT_ANY_KIND }), .out = PL_PORTS({ "output", PL_T_BOOL, 0 }),
      .infer = has_infer, .eval = has_eval, .grad = PL_GRAD_UNDEFINED, .bound = pl_b_untouched,
      PL_EMIT_BREAK("optionals are not tensors"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { o = Optional(x) y = OptionalHasElement(o) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "SequenceAt", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_READ,
      .in = PL_PORTS(SEQ("input_sequence"), POSITION(0)), .out = PL_PORTS(TENSOR("tensor")),
      .infer = at_infer, .eval = at_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,3] x, float[4] y) => (z) <int64 p = {-2}> { s = SequenceConstruct(x, y) z = SequenceAt(s, p) }", NULL, 0 }) },
    { .name = "SequenceConstruct", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_MAKE,
      .in = PL_PORTS({ "inputs", PL_T_ANY, PL_PORT_VARIADIC | PL_PORT_SAME }), .out = PL_PORTS(SEQ("output_sequence")),
      .infer = construct_infer, .eval = construct_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,3] x, float[4] y) => (s) { s = SequenceConstruct(x, y) }", NULL, 0 }) },
    { .name = "SequenceEmpty", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_MAKE,
      .in = PL_NO_PORTS, .out = PL_PORTS(SEQ("output")), .attrs = PL_ATTRS(PL_A_INT("dtype", PL_F32)),
      .infer = empty_infer, .eval = empty_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2] x) => (y) { s = SequenceEmpty<dtype = 1>() t = SequenceInsert(s, x) y = SequenceLength(t) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "SequenceErase", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_ERASE,
      .in = PL_PORTS(SEQ("input_sequence"), POSITION(PL_PORT_OPTIONAL)), .out = PL_PORTS(SEQ("output_sequence")),
      .infer = erase_infer, .eval = erase_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2] x, float[3] y) => (t) <int64 p = {0}> { s = SequenceConstruct(x, y) t = SequenceErase(s, p) }", NULL, 0 },
                            { "(float[2] x, float[3] y) => (t) { s = SequenceConstruct(x, y) t = SequenceErase(s) }", NULL, 0 }) },
    { .name = "SequenceInsert", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_INSERT,
      .in = PL_PORTS(SEQ("input_sequence"), TENSOR("tensor"), POSITION(PL_PORT_OPTIONAL)), .out = PL_PORTS(SEQ("output_sequence")),
      .infer = insert_infer, .eval = insert_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2] x, float[3] y) => (t) <int64 p = {-1}> { s = SequenceConstruct(x, y) t = SequenceInsert(s, y, p) }", NULL, 0 },
                            { "(float[2] x, float[3] y) => (t) { s = SequenceConstruct(x) t = SequenceInsert(s, y) }", NULL, 0 }) },
    { .name = "SequenceLength", .since = 11,
      .in = PL_PORTS(SEQ("input_sequence")), .out = PL_PORTS({ "length", PL_T_I64, 0 }),
      .infer = length_infer, .eval = length_eval, .grad = PL_GRAD_UNDEFINED, .bound = pl_b_untouched,
      PL_EMIT_BREAK("sequences are not tensors"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2] x, float[3] y) => (n) { s = SequenceConstruct(x, y) n = SequenceLength(s) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "SplitToSequence", .since = 11, .flags = PL_OP_OWN_OUT, .list = PL_LIST_SPLIT,
      .in = PL_PORTS(TENSOR("input"), { "split", PL_T_INDEX, PL_PORT_OPTIONAL }), .out = PL_PORTS(SEQ("output_sequence")),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_INT("keepdims", 1)),
      .infer = split_infer, .eval = split_eval, .grad = pl_grad_apart, EXACT, PL_EMIT_BREAK("sequences are not tensors"),
      .samples = PL_SAMPLES({ "(float[2,5] x) => (s) <int64 n = {2}> { s = SplitToSequence<axis = 1>(x, n) }", NULL, 0 },
                            { "(float[2,5] x) => (s) <int64[2] n = {1,4}> { s = SplitToSequence<axis = -1>(x, n) }", NULL, 0 },
                            { "(float[2,5] x) => (s) { s = SplitToSequence<keepdims = 0>(x) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

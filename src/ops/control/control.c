/* Control flow: If, Loop, Scan, SequenceMap.
 *
 * Bodies run through c->run_body. Scan outputs are kept piece by piece while the loop runs and are
 * joined once at its end, so that the cost is linear in the number of iterations. */
#include "ops/control/control.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "ops/control/control_rules.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/join.h"
#include "ops/next_version.h"

extern const pl_op_def pl_ops_control[];

/* ---- bodies ---- */

/* Runs a body on n_args arguments. Further inputs must have a default: before IR 4 initializers
 * were listed as inputs. `out` (zeroed) has room for body->n_outputs. */
static pl_status run(pl_eval *c, pl_graph *body, pl_datum *const *args, size_t n_args,
                     pl_datum **out) {
    if (c->run_body == NULL) return pl_eval_unsupported(c, "bodies cannot be run here");
    pl_datum *const *all = args;
    if (body->n_inputs > n_args) {
        pl_datum **padded = pl_calloc(body->n_inputs, sizeof(*padded));
        if (padded == NULL) return pl_eval_memory(c);
        for (size_t i = 0; i < n_args; i++)
            padded[i] = args[i];
        pl_status st = PL_OK;
        for (size_t i = n_args; i < body->n_inputs && st == PL_OK; i++) {
            if (body->inputs[i]->init != NULL) continue;
            st = pl_eval_fail(c, "body '%s' has %zu inputs, expected %zu", body->name,
                              body->n_inputs, n_args);
        }
        if (st == PL_OK) {
            st = c->run_body(c, body, padded, body->n_inputs, out, body->n_outputs);
        }
        pl_free(padded);
        return st;
    }
    return c->run_body(c, body, all, n_args, out, body->n_outputs);
}

static void unref_all(pl_datum **data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

static pl_status need_body(const pl_eval *c, const char *name, pl_graph **out) {
    *out = pl_attr_graph(c->node, name);
    return *out != NULL ? PL_OK : pl_eval_fail(c, "attribute '%s' is missing", name);
}

/* The boolean in a condition: one element, any shape. */
static pl_status truth(const pl_eval *c, const pl_datum *d, bool *out) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->dtype != PL_BOOL ||
        d->tensor->n_elements != 1) {
        return pl_eval_fail(c, "the condition must be one bool");
    }
    *out = *(const pl_u8 *)d->tensor->data != 0;
    return PL_OK;
}

/* ---- pieces of a scan output ---- */

typedef struct pieces {
    pl_datum **items;
    size_t n, capacity;
} pieces;

static pl_status pieces_add(pl_eval *c, pieces *p, pl_datum *d) {
    if (d->kind != PL_TYPE_TENSOR) return pl_eval_fail(c, "a scan output must be a tensor");
    if (!PL_ARRAY_ROOM(p->items, p->n, &p->capacity)) return pl_eval_memory(c);
    p->items[p->n++] = pl_datum_ref(d);
    return PL_OK;
}

static void pieces_release(pieces *p) {
    unref_all(p->items, p->n);
    pl_free(p->items);
    *p = (pieces){ NULL, 0, 0 };
}

static void pieces_reverse(pieces *p) {
    for (size_t i = 0; i < p->n / 2; i++) {
        pl_datum *d = p->items[i];
        p->items[i] = p->items[p->n - 1 - i];
        p->items[p->n - 1 - i] = d;
    }
}

/* The loop never ran, so no piece has a shape: use the type that the body declares. Unknown dims
 * become 0, as in ONNX Runtime. */
static pl_status empty_scan_output(pl_eval *c, const pl_value *value, int64_t axis,
                                   pl_tensor **out) {
    const pl_type *type = value->type;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || type->dtype == PL_UNDEFINED) {
        return pl_eval_fail(c, "no iteration ran and the type of '%s' is not known", value->name);
    }
    const int rank = (type->has_rank ? type->rank : 0) + 1;
    if (axis < 0) axis += rank;
    if (rank > PL_RANK_MAX || axis < 0 || axis >= rank) {
        return pl_eval_fail(c, "scan output '%s' has no axis %lld", value->name, (long long)axis);
    }
    int64_t dims[PL_RANK_MAX];
    for (int i = 0, from = 0; i < rank; i++) {
        dims[i] = 0;
        if (i == axis) continue;
        dims[i] = pl_i64_max(type->dims[from++].value, 0);
    }
    return pl_tensor_new(pl_eval_dtype(c, type->dtype), rank, dims, out, c->err);
}

static pl_status pieces_join(pl_eval *c, const pieces *p, const pl_value *value, int64_t axis,
                             pl_tensor **out) {
    if (p->n == 0) return empty_scan_output(c, value, axis, out);
    return pl_join(c, p->items, p->n, axis, true, "the pieces of a scan output", out);
}

/* ---- If ---- */

static pl_status infer_outputs_of(pl_infer *c, pl_graph *body, const pl_type *const *in,
                                  size_t n_in, const pl_type ***out) {
    *out = NULL;
    if (body == NULL || c->infer_body == NULL || body->n_inputs != n_in) return PL_OK;
    const pl_type **types = pl_arena_array(c->arena, body->n_outputs, sizeof(*types));
    if (types == NULL) return pl_fail_memory(c->err, sizeof(*types));
    PL_TRY(c->infer_body(c, body, in, n_in, types));
    *out = types;
    return PL_OK;
}

static pl_status if_infer(pl_infer *c) {
    pl_graph *then_ = pl_attr_graph(c->node, "then_branch");
    pl_graph *else_ = pl_attr_graph(c->node, "else_branch");
    if (then_ == NULL || else_ == NULL) return pl_infer_fail(c, "a branch is missing");
    if ((size_t)c->n_out > then_->n_outputs || (size_t)c->n_out > else_->n_outputs) {
        return pl_infer_fail(c, "has %d outputs, its branches %zu and %zu", c->n_out,
                             then_->n_outputs, else_->n_outputs);
    }
    if (c->concrete) return PL_OK;
    const pl_type **a = NULL, **b = NULL;
    PL_TRY(infer_outputs_of(c, then_, NULL, 0, &a));
    PL_TRY(infer_outputs_of(c, else_, NULL, 0, &b));
    for (int i = 0; a != NULL && b != NULL && i < c->n_out; i++) {
        const pl_type *type = NULL;
        PL_TRY(pl_infer_union(c, a[i], b[i], &type));
        PL_TRY(pl_infer_set_type(c, i, type));
    }
    return PL_OK;
}

static pl_status if_eval(pl_eval *c) {
    bool cond = false;
    pl_graph *body = NULL;
    PL_TRY(truth(c, pl_in_datum(c, 0), &cond));
    PL_TRY(need_body(c, cond ? "then_branch" : "else_branch", &body));
    pl_datum **out = pl_scratch(c, body->n_outputs, sizeof(*out));
    if (out == NULL) return pl_eval_memory(c);
    PL_TRY(run(c, body, NULL, 0, out));
    pl_status st = PL_OK;
    for (size_t i = 0; i < body->n_outputs && i < (size_t)c->n_out && st == PL_OK; i++) {
        st = pl_out_set_datum_take(c, (int)i, out[i]);
        out[i] = NULL;
    }
    unref_all(out, body->n_outputs);
    return st;
}

/* ---- Loop ---- */

static const pl_type *without_shape(pl_infer *c, const pl_type *type) {
    if (type == NULL || type->kind == PL_TYPE_NONE) return NULL;
    if (type->kind == PL_TYPE_TENSOR) return pl_type_tensor_unranked(c->arena, type->dtype);
    return pl_type_of(c->arena, type->kind, without_shape(c, type->elem));
}

/* A scan output's type: the body's with one unknown (or given) dim at `axis`. */
static pl_status set_scan_output(pl_infer *c, int i, const pl_type *type, int64_t axis,
                                 pl_dim length) {
    if (type == NULL || type->kind != PL_TYPE_TENSOR) return PL_OK;
    if (!type->has_rank) return pl_infer_set_unranked(c, i, type->dtype);
    const int rank = type->rank + 1;
    if (rank > PL_RANK_MAX) return pl_infer_fail(c, "rank %d exceeds the limit", rank);
    int at = 0;
    PL_TRY(pl_infer_axis(c, axis, rank, &at));
    pl_dim dims[PL_RANK_MAX];
    for (int k = 0, from = 0; k < rank; k++)
        dims[k] = k == at ? length : type->dims[from++];
    return pl_infer_set(c, i, type->dtype, rank, dims);
}

static pl_status loop_infer(pl_infer *c) {
    pl_graph *body = pl_attr_graph(c->node, "body");
    const size_t n_states = c->n_in > 2 ? (size_t)c->n_in - 2 : 0;
    if (body == NULL) return pl_infer_fail(c, "the body is missing");
    if (body->n_outputs < n_states + 1 || (size_t)c->n_out > body->n_outputs - 1) {
        return pl_infer_fail(c, "body '%s' has %zu outputs, too few for %zu states and %d outputs",
                             body->name, body->n_outputs, n_states, c->n_out);
    }
    if (c->concrete) return PL_OK;
    const pl_type **in = pl_arena_array(c->arena, n_states + 2, sizeof(*in)), **out = NULL;
    if (in == NULL) return pl_fail_memory(c->err, sizeof(*in));
    in[0] = pl_type_tensor(c->arena, PL_I64, pl_loop_rank(body, 0), (pl_dim[]){ pl_dim_of(1) });
    in[1] = pl_type_tensor_unranked(c->arena, PL_BOOL);
    /* Shapes may change from one iteration to the next. */
    for (size_t i = 0; i < n_states; i++)
        in[i + 2] = without_shape(c, c->in[i + 2]);
    PL_TRY(infer_outputs_of(c, body, in, n_states + 2, &out));
    for (int i = 0; i < c->n_out; i++) {
        if (out != NULL && (size_t)i >= n_states) {
            PL_TRY(set_scan_output(c, i, out[i + 1], 0, PL_DIM_UNKNOWN));
        } else if ((size_t)i < n_states) {
            const pl_type *type = in[i + 2];
            if (out != NULL) PL_TRY(pl_infer_union(c, c->in[i + 2], out[i + 1], &type));
            PL_TRY(pl_infer_set_type(c, i, type));
        }
    }
    return PL_OK;
}

typedef struct loop {
    pl_graph *body;
    size_t n_states, n_scans;
    pl_datum **args; /* iteration, condition, states; owned */
    pl_datum **out;  /* condition, states, scan outputs */
    pieces *scans;
} loop;

static pl_status loop_init(pl_eval *c, loop *l) {
    PL_TRY(need_body(c, "body", &l->body));
    l->n_states = c->n_in > 2 ? (size_t)c->n_in - 2 : 0;
    l->n_scans = l->body->n_outputs - 1 - l->n_states; /* the shape rule has checked */
    l->args = pl_scratch(c, l->n_states + 2, sizeof(*l->args));
    l->out = pl_scratch(c, l->body->n_outputs, sizeof(*l->out));
    l->scans = pl_scratch(c, l->n_scans, sizeof(*l->scans));
    if (l->args == NULL || l->out == NULL || l->scans == NULL) return pl_eval_memory(c);
    if (pl_has(c, 1)) {
        l->args[1] = pl_datum_ref(c->in[1]);
    } else {
        PL_TRY(pl_loop_number(PL_BOOL, pl_loop_rank(l->body, 1), 1, &l->args[1], c->err));
    }
    for (size_t i = 0; i < l->n_states; i++) {
        pl_datum *d = c->in[i + 2];
        if (d != NULL) l->args[i + 2] = pl_datum_ref(d);
    }
    return PL_OK;
}

/* One iteration: the outputs of the body become the arguments of the next. */
static pl_status loop_step(pl_eval *c, loop *l, int64_t iteration) {
    pl_datum_unref(l->args[0]);
    l->args[0] = NULL;
    PL_TRY(pl_loop_number(PL_I64, pl_loop_rank(l->body, 0), iteration, &l->args[0], c->err));
    PL_TRY(run(c, l->body, l->args, l->n_states + 2, l->out));
    pl_status st = PL_OK;
    for (size_t i = 0; i < l->n_scans && st == PL_OK; i++) {
        st = pieces_add(c, &l->scans[i], l->out[1 + l->n_states + i]);
    }
    for (size_t i = 0; i <= l->n_states; i++) {
        pl_datum_unref(l->args[i + 1]);
        l->args[i + 1] = l->out[i];
        l->out[i] = NULL;
    }
    unref_all(l->out, l->body->n_outputs);
    return st;
}

static pl_status loop_finish(pl_eval *c, loop *l) {
    for (size_t i = 0; i < l->n_states && i < (size_t)c->n_out; i++) {
        if (l->args[i + 2] == NULL) return pl_eval_fail(c, "state %zu is missing", i);
        PL_TRY(pl_out_set_datum_take(c, (int)i, pl_datum_ref(l->args[i + 2])));
    }
    for (size_t i = 0; i < l->n_scans; i++) {
        const int to = (int)(l->n_states + i);
        if (!pl_wants(c, to)) continue;
        pl_tensor *t = NULL;
        PL_TRY(pieces_join(c, &l->scans[i], l->body->outputs[1 + l->n_states + i], 0, &t));
        PL_TRY(pl_out_set_take(c, to, t));
        pieces_release(&l->scans[i]);
    }
    return PL_OK;
}

/* The body's condition ends the loop even when the node has no condition input. ONNX Loop-11 says
 * that it is ignored then, but every runtime honours it, and without a trip count the loop would
 * never end. */
static pl_status loop_eval(pl_eval *c) {
    loop l = { 0 };
    pl_status st = PL_OK;
    const pl_tensor *trip = pl_in(c, 0);
    if (trip != NULL && trip->n_elements != 1) {
        return pl_eval_fail(c, "the trip count must be one number");
    }
    const int64_t n = pl_in_int(c, 0, INT64_MAX);
    PL_TRY_GOTO(done, st, loop_init(c, &l));
    for (int64_t i = 0; i < n; i++) {
        bool go = false;
        PL_TRY_GOTO(done, st, truth(c, l.args[1], &go));
        if (!go) break;
        PL_TRY_GOTO(done, st, loop_step(c, &l, i));
    }
    st = loop_finish(c, &l);
done:
    if (l.args != NULL) unref_all(l.args, l.n_states + 2);
    for (size_t i = 0; l.scans != NULL && i < l.n_scans; i++)
        pieces_release(&l.scans[i]);
    return st;
}

/* ---- SequenceMap-17 ---- */

static pl_status map_infer(pl_infer *c) {
    pl_graph *body = pl_attr_graph(c->node, "body");
    if (body == NULL) return pl_infer_fail(c, "the body is missing");
    if ((size_t)c->n_out > body->n_outputs) {
        return pl_infer_fail(c, "has %d outputs, its body %zu", c->n_out, body->n_outputs);
    }
    if (c->concrete) return PL_OK;
    const pl_type **in = pl_arena_array(c->arena, (size_t)c->n_in, sizeof(*in)), **out = NULL;
    if (in == NULL) return pl_fail_memory(c->err, sizeof(*in));
    for (int i = 0; i < c->n_in; i++) {
        const pl_type *type = c->in[i];
        in[i] = type != NULL && type->kind == PL_TYPE_SEQUENCE ? type->elem : type;
    }
    PL_TRY(infer_outputs_of(c, body, in, (size_t)c->n_in, &out));
    for (int i = 0; i < c->n_out; i++) {
        const pl_type *type = pl_type_of(c->arena, PL_TYPE_SEQUENCE, out == NULL ? NULL : out[i]);
        if (type == NULL) return pl_fail_memory(c->err, sizeof(*type));
        PL_TRY(pl_infer_set_type(c, i, type));
    }
    return PL_OK;
}

static pl_status map_step(pl_eval *c, pl_graph *body, size_t k, pl_datum **args, pl_datum **out,
                          pieces *results) {
    for (int i = 0; i < c->n_in; i++) {
        const pl_datum *d = c->in[i];
        const bool each = d != NULL && d->kind == PL_TYPE_SEQUENCE;
        args[i] = each ? d->items[k] : c->in[i];
    }
    PL_TRY(run(c, body, args, (size_t)c->n_in, out));
    pl_status st = PL_OK;
    for (size_t i = 0; i < body->n_outputs && st == PL_OK; i++)
        st = pieces_add(c, &results[i], out[i]);
    unref_all(out, body->n_outputs);
    return st;
}

static pl_status map_finish(pl_eval *c, const pl_graph *body, const pieces *results) {
    for (int i = 0; i < c->n_out; i++) {
        const pieces *p = &results[i];
        pl_dtype dtype = PL_UNDEFINED;
        const pl_type *type = body->outputs[i]->type;
        if (p->n > 0) {
            dtype = p->items[0]->tensor->dtype;
        } else if (type != NULL && type->kind == PL_TYPE_TENSOR) {
            dtype = pl_eval_dtype(c, type->dtype);
        }
        pl_datum *d = NULL;
        PL_TRY(pl_datum_new_sequence(PL_TYPE_TENSOR, dtype, p->items, p->n, &d, c->err));
        PL_TRY(pl_out_set_datum_take(c, i, d));
    }
    return PL_OK;
}

static pl_status map_eval(pl_eval *c) {
    pl_graph *body = NULL;
    PL_TRY(need_body(c, "body", &body));
    const pl_datum *first = pl_in_datum(c, 0);
    if (first == NULL || first->kind != PL_TYPE_SEQUENCE) {
        return pl_eval_fail(c, "input 0 is not a sequence");
    }
    for (int i = 1; i < c->n_in; i++) {
        const pl_datum *d = c->in[i];
        if (d == NULL || d->kind != PL_TYPE_SEQUENCE || d->n_items == first->n_items) continue;
        return pl_eval_fail(c, "input %d has %zu items, expected %zu", i, d->n_items,
                            first->n_items);
    }
    pl_datum **args = pl_scratch(c, (size_t)c->n_in, sizeof(*args));
    pl_datum **out = pl_scratch(c, body->n_outputs, sizeof(*out));
    pieces *results = pl_scratch(c, body->n_outputs, sizeof(*results));
    if (args == NULL || out == NULL || results == NULL) return pl_eval_memory(c);
    pl_status st = PL_OK;
    for (size_t k = 0; k < first->n_items && st == PL_OK; k++)
        st = map_step(c, body, k, args, out, results);
    if (st == PL_OK) st = map_finish(c, body, results);
    for (size_t i = 0; i < body->n_outputs; i++)
        pieces_release(&results[i]);
    return st;
}

/* ---- Scan ---- */

/* The type without one axis; notes its dim in *dim. */
static pl_status drop_axis(pl_infer *c, const pl_type *type, int64_t axis, pl_dim *dim,
                           const pl_type **out) {
    *out = type;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) return PL_OK;
    int at = 0, n = 0;
    PL_TRY(pl_infer_axis(c, axis, type->rank, &at));
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < type->rank; i++) {
        if (i != at) dims[n++] = type->dims[i];
    }
    const pl_dim d = type->dims[at];
    if (pl_dim_known(*dim) && pl_dim_known(d) && d.value != dim->value) {
        return pl_infer_fail(c, "scan inputs have lengths %lld and %lld", (long long)dim->value,
                             (long long)d.value);
    }
    if (!pl_dim_known(*dim) && (pl_dim_known(d) || dim->name == NULL)) *dim = d;
    *out = pl_type_tensor(c->arena, type->dtype, n, dims);
    return *out == NULL ? pl_fail_memory(c->err, sizeof(pl_type)) : PL_OK;
}

static pl_status scan_set_outputs(pl_infer *c, const pl_scan_layout *s, const pl_type *const *out,
                                  pl_dim batch, pl_dim length) {
    for (int i = 0; i < c->n_out; i++) {
        const size_t k = (size_t)i;
        if (k < s->n_states) {
            PL_TRY(pl_infer_set_like(c, i, (int)(s->first + k)));
            continue;
        }
        if (out == NULL) continue;
        const int64_t axis = s->out_axes == NULL ? 0 : s->out_axes[k - s->n_states];
        PL_TRY(set_scan_output(c, i, out[k], axis, length));
        if (pl_scan_has_batch(c->node)) PL_TRY(set_scan_output(c, i, c->out[i], 0, batch));
    }
    return PL_OK;
}

static pl_status scan_infer(pl_infer *c) {
    pl_scan_layout s;
    const char *name = NULL, *bad = pl_scan_read(&s, c->node, (size_t)c->n_in, &name);
    if (bad != NULL) return pl_infer_fail(c, "'%s' %s", name, bad);
    if ((size_t)c->n_out > s.body->n_outputs) {
        return pl_infer_fail(c, "has %d outputs, its body %zu", c->n_out, s.body->n_outputs);
    }
    const size_t n = s.n_states + s.n_in;
    const pl_type **in = pl_arena_array(c->arena, n, sizeof(*in)), **out = NULL;
    if (in == NULL) return pl_fail_memory(c->err, sizeof(*in));
    pl_dim batch = PL_DIM_UNKNOWN, length = PL_DIM_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        in[i] = c->in[s.first + i];
        if (pl_scan_has_batch(c->node)) PL_TRY(drop_axis(c, in[i], 0, &batch, &in[i]));
        if (i < s.n_states) continue;
        const int64_t axis = s.in_axes == NULL ? 0 : s.in_axes[i - s.n_states];
        PL_TRY(drop_axis(c, in[i], axis, &length, &in[i]));
    }
    if (c->concrete) return PL_OK;
    PL_TRY(infer_outputs_of(c, s.body, in, n, &out));
    return scan_set_outputs(c, &s, out, batch, length);
}

/* The contiguous tensor with `axis` moved to the front. */
static pl_status axis_to_front(pl_eval *c, pl_tensor *t, int64_t axis, pl_tensor **out) {
    if (axis < 0) axis += t->rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    dims[0] = t->dims[axis];
    strides[0] = t->strides[axis];
    for (int i = 0, to = 1; i < t->rank; i++) {
        if (i == axis) continue;
        dims[to] = t->dims[i];
        strides[to++] = t->strides[i];
    }
    pl_tensor *view = NULL;
    PL_TRY(pl_tensor_view(t, t->rank, dims, strides, 0, &view, c->err));
    const pl_status st = pl_tensor_contiguous(view, out, c->err);
    pl_tensor_unref(view);
    return st;
}

static pl_status slice_of(pl_eval *c, const pl_tensor *t, int64_t i, pl_datum **out) {
    pl_tensor *slice = NULL;
    PL_TRY(pl_cut_first(t, i, i + 1, true, &slice, c->err));
    return pl_datum_of_tensor_take(slice, out, c->err);
}

typedef struct scan {
    pl_scan_layout s;
    pl_tensor **inputs; /* scan axis first; owned */
    pl_datum **args;    /* states, slices; owned */
    pl_datum **out;     /* of the body */
    pieces *results; /* scan outputs; with a batch: one piece for each step of this batch entry */
    pieces *batches; /* Scan-8: one piece for each batch entry, of states and scan outputs */
    int64_t length;
} scan;

/* Runs `steps` iterations on inputs whose first axis is the scan axis; the states are in args. */
static pl_status scan_steps(pl_eval *c, scan *w, pl_tensor *const *inputs, int64_t steps) {
    const pl_scan_layout *s = &w->s;
    for (int64_t i = 0; i < steps; i++) {
        for (size_t k = 0; k < s->n_in; k++) {
            const bool reverse = s->in_reverse != NULL && s->in_reverse[k] != 0;
            pl_datum **slot = &w->args[s->n_states + k];
            pl_datum_unref(*slot);
            *slot = NULL;
            PL_TRY(slice_of(c, inputs[k], reverse ? steps - 1 - i : i, slot));
        }
        PL_TRY(run(c, s->body, w->args, s->n_states + s->n_in, w->out));
        for (size_t k = 0; k < s->n_states; k++) {
            pl_datum_unref(w->args[k]);
            w->args[k] = w->out[k];
            w->out[k] = NULL;
        }
        pl_status st = PL_OK;
        for (size_t k = 0; k < s->n_out && st == PL_OK; k++)
            st = pieces_add(c, &w->results[k], w->out[s->n_states + k]);
        unref_all(w->out, s->body->n_outputs);
        PL_TRY(st);
    }
    for (size_t k = 0; k < s->n_out; k++) {
        if (s->out_reverse != NULL && s->out_reverse[k] != 0) pieces_reverse(&w->results[k]);
    }
    return PL_OK;
}

static pl_status scan_open(pl_eval *c, scan *w) {
    const char *name = NULL, *bad = pl_scan_read(&w->s, c->node, (size_t)c->n_in, &name);
    if (bad != NULL) return pl_eval_fail(c, "'%s' %s", name, bad);
    const pl_scan_layout *s = &w->s;
    w->inputs = pl_scratch(c, s->n_in, sizeof(*w->inputs));
    w->args = pl_scratch(c, s->n_states + s->n_in, sizeof(*w->args));
    w->out = pl_scratch(c, s->body->n_outputs, sizeof(*w->out));
    w->results = pl_scratch(c, s->n_out, sizeof(*w->results));
    w->batches = pl_scratch(c, s->body->n_outputs, sizeof(*w->batches));
    if (w->inputs == NULL || w->args == NULL || w->out == NULL || w->results == NULL ||
        w->batches == NULL) {
        return pl_eval_memory(c);
    }
    for (size_t i = 0; i < s->n_states + s->n_in; i++) {
        if (pl_in(c, (int)(s->first + i)) != NULL) continue;
        return pl_eval_fail(c, "input %zu is not a tensor", s->first + i);
    }
    return PL_OK;
}

static void scan_close(scan *w) {
    for (size_t i = 0; w->inputs != NULL && i < w->s.n_in; i++)
        pl_tensor_unref(w->inputs[i]);
    if (w->args != NULL) unref_all(w->args, w->s.n_states + w->s.n_in);
    for (size_t i = 0; w->results != NULL && i < w->s.n_out; i++)
        pieces_release(&w->results[i]);
    for (size_t i = 0; w->batches != NULL && i < w->s.body->n_outputs; i++)
        pieces_release(&w->batches[i]);
}

static pl_status scan_eval(pl_eval *c) {
    scan w = { .length = 0 };
    pl_status st = PL_OK;
    PL_TRY(scan_open(c, &w));
    const pl_scan_layout *s = &w.s;
    for (size_t i = 0; i < s->n_states; i++)
        w.args[i] = pl_datum_ref(c->in[i]);
    for (size_t i = 0; i < s->n_in; i++) { /* the shape rule has checked axes and lengths */
        const int64_t axis = s->in_axes == NULL ? 0 : s->in_axes[i];
        PL_TRY_GOTO(done, st, axis_to_front(c, c->in[s->n_states + i]->tensor, axis, &w.inputs[i]));
        w.length = w.inputs[i]->dims[0];
    }
    PL_TRY_GOTO(done, st, scan_steps(c, &w, w.inputs, w.length));
    for (size_t i = 0; i < (size_t)c->n_out; i++) {
        if (i < s->n_states) {
            PL_TRY_GOTO(done, st, pl_out_set_datum_take(c, (int)i, pl_datum_ref(w.args[i])));
        } else if (pl_wants(c, (int)i)) {
            const size_t k = i - s->n_states;
            pl_tensor *t = NULL;
            PL_TRY_GOTO(done, st,
                        pieces_join(c, &w.results[k], s->body->outputs[i],
                                    s->out_axes == NULL ? 0 : s->out_axes[k], &t));
            PL_TRY_GOTO(done, st, pl_out_set_take(c, (int)i, t));
        }
    }
done:
    scan_close(&w);
    return st;
}

/* Scan-8: outputs of shorter sequences are padded with zeros. */
static pl_status pad_pieces(pl_eval *c, pieces *p, const pl_value *value, int64_t length) {
    if ((int64_t)p->n >= length) return PL_OK;
    pl_tensor *zero = NULL;
    pl_datum *d = NULL;
    if (p->n > 0) {
        const pl_tensor *t = p->items[0]->tensor;
        PL_TRY(pl_tensor_new_zero(t->dtype, t->rank, t->dims, &zero, c->err));
    } else {
        const pl_type *type = value->type;
        if (type == NULL || !pl_type_is_concrete(type)) {
            return pl_eval_fail(c, "a sequence of length 0 and no known shape of '%s'",
                                value->name);
        }
        int64_t dims[PL_RANK_MAX];
        for (int i = 0; i < type->rank; i++)
            dims[i] = type->dims[i].value;
        PL_TRY(pl_tensor_new_zero(pl_eval_dtype(c, type->dtype), type->rank, dims, &zero, c->err));
    }
    PL_TRY(pl_datum_of_tensor_take(zero, &d, c->err));
    pl_status st = PL_OK;
    while ((int64_t)p->n < length && st == PL_OK)
        st = pieces_add(c, p, d);
    pl_datum_unref(d);
    return st;
}

static pl_status scan8_entry(pl_eval *c, scan *w, int64_t b, int64_t steps) {
    const pl_scan_layout *s = &w->s;
    unref_all(w->args, s->n_states + s->n_in);
    for (size_t i = 0; i < s->n_states; i++)
        PL_TRY(slice_of(c, c->in[1 + i]->tensor, b, &w->args[i]));
    for (size_t i = 0; i < s->n_in; i++) {
        pl_tensor_unref(w->inputs[i]);
        w->inputs[i] = NULL;
        PL_TRY(pl_cut_first(c->in[1 + s->n_states + i]->tensor, b, b + 1, true, &w->inputs[i],
                            c->err));
    }
    PL_TRY(scan_steps(c, w, w->inputs, steps));
    for (size_t i = 0; i < s->n_states; i++)
        PL_TRY(pieces_add(c, &w->batches[i], w->args[i]));
    for (size_t k = 0; k < s->n_out; k++) {
        const pl_value *value = s->body->outputs[s->n_states + k];
        pl_tensor *t = NULL;
        pl_datum *d = NULL;
        PL_TRY(pad_pieces(c, &w->results[k], value, w->length));
        PL_TRY(pieces_join(c, &w->results[k], value, 0, &t));
        PL_TRY(pl_datum_of_tensor_take(t, &d, c->err));
        const pl_status st = pieces_add(c, &w->batches[s->n_states + k], d);
        pl_datum_unref(d);
        PL_TRY(st);
        pieces_release(&w->results[k]);
    }
    return PL_OK;
}

/* Checked lengths of the sequences; NULL when all have full length. */
static pl_status scan8_lengths(pl_eval *c, int64_t n_batch, int64_t length, const int64_t **out) {
    *out = NULL;
    size_t n = 0;
    if (!pl_has(c, 0)) return PL_OK;
    const int64_t *lengths = pl_in_ints(c, 0, &n);
    if (lengths == NULL) return pl_eval_memory(c);
    if ((int64_t)n != n_batch) return pl_eval_fail(c, "sequence_lens has %zu elements", n);
    for (size_t i = 0; i < n; i++) {
        if (lengths[i] >= 0 && lengths[i] <= length) continue;
        return pl_eval_fail(c, "sequence_lens[%zu] is %lld, expected 0 to %lld", i,
                            (long long)lengths[i], (long long)length);
    }
    *out = lengths;
    return PL_OK;
}

static pl_status scan8_eval(pl_eval *c) {
    scan w = { .length = 0 };
    pl_status st = PL_OK;
    PL_TRY(scan_open(c, &w));
    const pl_tensor *x = c->in[1 + w.s.n_states]->tensor;
    const int64_t n_batch = x->dims[0]; /* the shape rule has checked ranks and equal sizes */
    const int64_t *lengths = NULL;
    w.length = x->dims[1];
    PL_TRY_GOTO(done, st, scan8_lengths(c, n_batch, w.length, &lengths));
    for (int64_t b = 0; b < n_batch; b++) {
        PL_TRY_GOTO(done, st, scan8_entry(c, &w, b, lengths == NULL ? w.length : lengths[b]));
    }
    for (int i = 0; i < c->n_out; i++) {
        if (!pl_wants(c, i)) continue;
        pl_tensor *t = NULL;
        PL_TRY_GOTO(done, st, pieces_join(c, &w.batches[i], w.s.body->outputs[i], 0, &t));
        PL_TRY_GOTO(done, st, pl_out_set_take(c, i, t));
    }
done:
    scan_close(&w);
    return st;
}

/* ---- rows ---- */

#define ANY(name_, flags_)                                                                         \
    { name_, PL_T_ANY, PL_PORT_ANY_KIND | (flags_) }
#define CONTROL .flags = PL_OP_CONTROL | PL_OP_OWN_OUT
#define BODY PL_A_REQUIRED("body", GRAPH)

/* clang-format off */
const pl_op_def pl_ops_control[] = {
    { .name = "If", .since = 1, CONTROL, .bodies = PL_BODIES_BRANCHES,
      .in = PL_PORTS({ "cond", PL_T_BOOL, 0 }), .out = PL_PORTS(ANY("outputs", PL_PORT_VARIADIC)),
      .attrs = PL_ATTRS(PL_A_REQUIRED("then_branch", GRAPH), PL_A_REQUIRED("else_branch", GRAPH)),
      .infer = if_infer, .eval = if_eval, .grad = pl_grad_branches, .bound = pl_if_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(bool c, float[2] x) => (y) { y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Abs(x) }> }", NULL, 0 }) },
    { .name = "Loop", .since = 1, CONTROL, .bodies = PL_BODIES_LOOP,
      .in = PL_PORTS({ "M", PL_T_I64, PL_PORT_OPTIONAL }, { "cond", PL_T_BOOL, PL_PORT_OPTIONAL },
                     ANY("v_initial", PL_PORT_VARIADIC | PL_PORT_OPTIONAL)),
      .out = PL_PORTS(ANY("v_final_and_scan_outputs", PL_PORT_VARIADIC)), .attrs = PL_ATTRS(BODY),
      .infer = loop_infer, .eval = loop_eval, .grad = pl_grad_unrolled, .bound = pl_loop_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2] x) => (y, s) <int64 m = {3}, bool t = {1}> { y, s = Loop(m, t, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] u) { d = Identity(c) w = Add(v, x) u = Neg(v) }> }", NULL, 0 }) },
    { .name = "Scan", .since = 9, CONTROL, .bodies = PL_BODIES_SCAN,
      .in = PL_PORTS({ "initial_state_and_scan_inputs", PL_T_ANY, PL_PORT_VARIADIC }),
      .out = PL_PORTS({ "final_state_and_scan_outputs", PL_T_ANY, PL_PORT_VARIADIC }),
      .attrs = PL_ATTRS(BODY, PL_A_REQUIRED("num_scan_inputs", INT), PL_A_LIST("scan_input_axes", INTS),
                        PL_A_LIST("scan_input_directions", INTS), PL_A_LIST("scan_output_axes", INTS),
                        PL_A_LIST("scan_output_directions", INTS)),
      .infer = scan_infer, .eval = scan_eval, .grad = pl_grad_unrolled, .bound = pl_scan_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(float[2] v, float[3,2] x) => (y, s) { y, s = Scan(v, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Add(a, e) o = Neg(n) }> }", NULL, 0 },
          { "(float[2] v, float[2,3] x) => (y, s) { y, s = Scan(v, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1], scan_input_directions = [1], scan_output_directions = [1], body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Add(a, e) o = Neg(n) }> }", NULL, 0 }) },
    { .name = "Scan", .since = 8, .until = 8, CONTROL, .bodies = PL_BODIES_SCAN, .next = pl_next_never,
      .in = PL_PORTS({ "sequence_lens", PL_T_I64, PL_PORT_OPTIONAL },
                     { "initial_state_and_scan_inputs", PL_T_ANY, PL_PORT_VARIADIC }),
      .out = PL_PORTS({ "final_state_and_scan_outputs", PL_T_ANY, PL_PORT_VARIADIC }),
      .attrs = PL_ATTRS(BODY, PL_A_REQUIRED("num_scan_inputs", INT), PL_A_LIST("directions", INTS)),
      .infer = scan_infer, .eval = scan8_eval, .grad = PL_GRAD_UNDEFINED, .no_grad = "gradients require opset 9 or later", .bound = pl_scan_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[1,2] v, float[1,3,2] x) => (y, s) { y, s = Scan(\"\", v, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Add(a, e) o = Neg(n) }> }", NULL, 0 }) },
    { .name = "SequenceMap", .since = 17, CONTROL, .bodies = PL_BODIES_OTHER, .list = PL_LIST_MAP,
      .in = PL_PORTS({ "input_sequence", PL_T_ANY, PL_PORT_NOT_TENSOR },
                     ANY("additional_inputs", PL_PORT_VARIADIC | PL_PORT_OPTIONAL)),
      .out = PL_PORTS({ "out_sequence", PL_T_ANY, PL_PORT_VARIADIC | PL_PORT_NOT_TENSOR }), .attrs = PL_ATTRS(BODY),
      .infer = map_infer, .eval = map_eval, .grad = pl_grad_apart, .bound = pl_sequence_map_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2] x, float[3] y, float[1] z) => (t) { s = SequenceConstruct(x, y) t = SequenceMap(s, z) <body = b (float[N] e, float[1] f) => (float[N] g) { g = Add(e, f) }> }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

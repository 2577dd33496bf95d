/* Replay: a table of data and bounds by value id, filled by put and by nodes. */
#include "interp/replay.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "interp/plan.h"
#include "interp/raise.h"
#include "ops/bound.h"

typedef enum exactness {
    NOT_KNOWN,
    OWN_EXACT, /* its elements are exact; its inputs have not been checked */
    EXACT,
    INEXACT
} exactness;

typedef struct slot {
    pl_datum *datum;
    pl_tensor *bound;  /* NULL = exact */
    uint8_t put;       /* set by the caller: the edge of the segment */
    uint8_t exactness; /* enum exactness */
} slot;

struct pl_replay {
    pl_model *model;
    pl_replay_options options;
    pl_plan plan;
    slot *slots; /* by value id */
    pl_arena *scratch[PL_GRAPH_DEPTH_MAX + 2];
    int depth;
    size_t n_without_rule;
    const pl_value **doubts; /* stack of is_exact */
    size_t doubts_capacity;
};

static void slot_clear(slot *s) {
    pl_datum_unref(s->datum);
    pl_tensor_unref(s->bound);
    memset(s, 0, sizeof(*s));
}

/* ---- life cycle ---- */

pl_status pl_replay_new(pl_model *model, const pl_replay_options *options, pl_replay **out,
                        pl_err *err) {
    pl_replay *r = pl_calloc(1, sizeof(*r));
    if (r == NULL) return pl_fail_memory(err, sizeof(*r));
    r->model = model;
    r->options = *options;
    r->slots = pl_calloc((size_t)model->n_values + 1, sizeof(slot));
    pl_status st = pl_plan_init(&r->plan, model, err);
    if (st == PL_OK && r->slots == NULL) st = pl_fail_memory(err, model->n_values);
    if (st != PL_OK) {
        pl_replay_free(r);
        return st;
    }
    *out = r;
    return PL_OK;
}

void pl_replay_free(pl_replay *r) {
    if (r == NULL) return;
    if (r->slots != NULL) pl_replay_clear_all(r);
    pl_plan_release(&r->plan);
    for (size_t i = 0; i < sizeof(r->scratch) / sizeof(r->scratch[0]); i++)
        pl_arena_free(r->scratch[i]);
    pl_free(r->slots);
    pl_free(r->doubts);
    pl_free(r);
}

/* ---- data ---- */

pl_status pl_replay_put(pl_replay *r, const pl_value *value, const pl_datum *datum,
                        const pl_tensor *bound, pl_err *err) {
    slot *s = &r->slots[value->id];
    pl_datum *own = NULL;
    if (r->options.native) {
        own = pl_datum_ref(datum);
    } else {
        PL_TRY(pl_datum_raise(r->options.pool, datum, &own, err));
    }
    slot_clear(s);
    s->datum = own;
    s->bound = bound == NULL ? NULL : pl_tensor_ref(bound);
    s->put = 1;
    /* What had the model's own type is representable in it. */
    if (bound == NULL && datum->kind == PL_TYPE_TENSOR &&
        pl_value_dtype(value, PL_UNDEFINED) == datum->tensor->dtype)
        s->exactness = EXACT;
    return PL_OK;
}

const pl_datum *pl_replay_get(const pl_replay *r, const pl_value *value) {
    return r->slots[value->id].datum;
}

const pl_tensor *pl_replay_bound(const pl_replay *r, const pl_value *value) {
    return r->slots[value->id].bound;
}

void pl_replay_clear_all(pl_replay *r) {
    for (uint32_t i = 0; i < r->model->n_values; i++)
        slot_clear(&r->slots[i]);
}

size_t pl_replay_without_rule(const pl_replay *r) {
    return r->n_without_rule;
}

static pl_dtype native_of(const pl_value *value, const pl_datum *d) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return PL_UNDEFINED;
    const pl_dtype held = d->tensor->dtype;
    return pl_value_dtype(value, held == PL_F64 ? PL_F32 : held);
}

/* Moves elements of input 0 to where integers say: in fp64 it does what it does in any type. */
static bool only_moves(const pl_node *node) {
    bool moves = node->def->bound == PL_BOUND_EXACT && node->n_out == 1;
    for (uint32_t i = 1; moves && i < node->n_in; i++)
        moves = node->in[i] != NULL && pl_dtype_is_integer(pl_value_dtype(node->in[i], PL_F32));
    return moves;
}

/* A large weight that is not widened as a whole: the kernel does so as it reads it, or only what
 * is taken from it is. */
static bool stays_narrow(const pl_node *node, uint32_t i) {
    enum { LARGE = 1 << 16 };
    const pl_tensor *t = node->in[i] == NULL ? NULL : node->in[i]->init;
    if (t == NULL || !pl_dtype_is_raised(t->dtype) || t->n_elements < LARGE || t->rank != 2 ||
        !pl_tensor_is_contiguous(t))
        return false;
    return i == 1 ? pl_node_has_flag(node, PL_OP_NARROW_B) : i == 0 && only_moves(node);
}

/* The current data of a value, initializers included; `narrow`: weights in their own type. *out is
 * a new reference. */
static pl_status fetch(pl_replay *r, const pl_value *value, bool narrow, pl_datum **out,
                       pl_err *err) {
    *out = NULL;
    if (value == NULL) return PL_OK;
    const slot *s = &r->slots[value->id];
    if (s->datum != NULL) {
        *out = pl_datum_ref(s->datum);
        return PL_OK;
    }
    if (value->init == NULL) {
        return pl_fail(err, PL_E_INTERNAL, "replay: value '%s' was used before it was computed",
                       value->name);
    }
    pl_datum *d = NULL;
    PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(value->init), &d, err));
    if (r->options.native || narrow) {
        *out = d;
        return PL_OK;
    }
    const pl_status st = pl_datum_raise(r->options.pool, d, out, err);
    pl_datum_unref(d);
    return st;
}

/* ---- exactness ---- */

static bool representable(const pl_tensor *t, pl_dtype dtype) {
    if (t->dtype != PL_F64 || dtype == PL_F64) return true;
    enum { BLOCK = 1024 };
    double back[BLOCK];
    unsigned char packed[BLOCK * sizeof(double)];
    const pl_f64 *x = t->data;
    const int64_t n_all = pl_tensor_is_filled(t) ? 1 : t->n_elements;
    for (int64_t at = 0; at < n_all; at += BLOCK) {
        const size_t n = (size_t)(n_all - at < BLOCK ? n_all - at : BLOCK);
        double block[BLOCK];
        memcpy(block, x + at, n * sizeof(double));
        pl_store_f64(dtype, block, packed, n);
        pl_load_f64(dtype, packed, back, n);
        for (size_t i = 0; i < n; i++) {
            if (!(back[i] == block[i]) && !isnan(block[i])) return false;
        }
    }
    return true;
}

/* Are the value's own elements exact? Does not check what it was computed from. */
static bool own_exact(const pl_value *value, const slot *s) {
    if (s->datum == NULL) return value->init != NULL; /* weights are exact */
    if (s->datum->kind != PL_TYPE_TENSOR) return s->bound == NULL;
    /* The bound of a computed value may be nothing but slack, so ignore it. */
    return (s->bound == NULL || !s->put) &&
           representable(s->datum->tensor, native_of(value, s->datum));
}

/* The first input that is not known to be exact, or NULL. */
static const pl_value *first_doubt(const pl_replay *r, const pl_value *value) {
    const slot *s = &r->slots[value->id];
    const pl_node *node = value->producer;
    if (s->put || s->datum == NULL || node == NULL) return NULL;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL && r->slots[node->in[i]->id].exactness != EXACT) return node->in[i];
    }
    return NULL;
}

static bool push(pl_replay *r, size_t n, const pl_value *value) {
    if (!PL_ARRAY_ROOM(r->doubts, n, &r->doubts_capacity)) return false;
    r->doubts[n] = value;
    return true;
}

/* Is every element of the value, and of all that it was computed from, representable in the types
 * of the model? For values that were put, only their own elements count. With a sparse recording
 * segments can be as deep as the model, so the stack is on the heap; if it cannot grow, nothing is
 * exact, which only widens bounds. */
static bool is_exact(pl_replay *r, const pl_value *value) {
    size_t n = push(r, 0, value) ? 1 : 0;
    while (n > 0) {
        const pl_value *v = r->doubts[n - 1];
        slot *s = &r->slots[v->id];
        if (s->exactness == NOT_KNOWN) s->exactness = own_exact(v, s) ? OWN_EXACT : INEXACT;
        const pl_value *doubt = s->exactness == OWN_EXACT ? first_doubt(r, v) : NULL;
        if (doubt != NULL && r->slots[doubt->id].exactness != INEXACT && push(r, n, doubt)) {
            n++;
            continue;
        }
        if (s->exactness == OWN_EXACT) s->exactness = doubt == NULL ? EXACT : INEXACT;
        n--;
    }
    return r->slots[value->id].exactness == EXACT;
}

void pl_replay_release_after(pl_replay *r, const pl_node *node) {
    const pl_graph_plan *g = &r->plan.graphs[node->graph->id];
    const bool asked = !r->options.native && !r->options.no_bounds;
    for (uint32_t k = g->release_at[node->index]; k < g->release_at[node->index + 1]; k++) {
        slot *s = &r->slots[g->release[k]->id];
        /* Later nodes of the segment may still need to know. */
        const bool exact = asked && s->datum != NULL && is_exact(r, g->release[k]);
        const bool known = asked && s->datum != NULL;
        slot_clear(s);
        if (known) s->exactness = exact ? EXACT : INEXACT;
    }
}

/* ---- nodes ---- */

typedef struct call { /* one node at work; tables in scratch */
    pl_replay *r;
    const pl_node *node;
    pl_datum **in, **out;
    pl_tensor **e_in, **e_out;
    pl_dtype *in_native, *out_native;
} call;

static pl_status run_node(pl_replay *r, const pl_node *node, bool bounds, pl_err *err);

static void clear_body(pl_replay *r, const pl_graph *body) {
    for (size_t i = 0; i < body->n_values; i++)
        slot_clear(&r->slots[body->values[i]->id]);
}

/* Puts the inputs, runs the nodes, returns data and (if asked for) bounds of the outputs. */
static pl_status run_body(pl_replay *r, const pl_graph *body, pl_datum *const *in,
                          pl_tensor *const *e_in, size_t n_in, pl_datum **out, pl_tensor **e_out,
                          size_t n_out, pl_err *err) {
    pl_status st = PL_OK;
    if (n_in != body->n_inputs || n_out != body->n_outputs) {
        return pl_fail(err, PL_E_INVALID, "body '%s' has %zu inputs and %zu outputs", body->name,
                       body->n_inputs, body->n_outputs);
    }
    if (r->depth > PL_GRAPH_DEPTH_MAX)
        return pl_fail(err, PL_E_LIMIT, "bodies are nested too deeply");
    clear_body(r, body);
    for (size_t i = 0; i < n_in; i++) {
        slot *s = &r->slots[body->inputs[i]->id];
        s->datum = in[i] == NULL ? NULL : pl_datum_ref(in[i]);
        s->bound = e_in == NULL || e_in[i] == NULL ? NULL : pl_tensor_ref(e_in[i]);
        s->exactness = INEXACT;
    }
    for (size_t i = 0; i < n_out; i++) {
        out[i] = NULL;
        if (e_out != NULL) e_out[i] = NULL;
    }
    for (size_t i = 0; i < body->n_nodes && st == PL_OK; i++)
        st = run_node(r, body->nodes[i], e_out != NULL, err);
    for (size_t i = 0; i < n_out && st == PL_OK; i++) {
        const slot *s = &r->slots[body->outputs[i]->id];
        st = fetch(r, body->outputs[i], false, &out[i], err);
        if (e_out != NULL && s->bound != NULL) e_out[i] = pl_tensor_ref(s->bound);
    }
    clear_body(r, body);
    for (size_t i = 0; st != PL_OK && i < n_out; i++) {
        pl_datum_unref(out[i]);
        out[i] = NULL;
        if (e_out == NULL) continue;
        pl_tensor_unref(e_out[i]);
        e_out[i] = NULL;
    }
    return st;
}

static pl_status eval_body(pl_eval *c, pl_graph *body, pl_datum *const *in, size_t n_in,
                           pl_datum **out, size_t n_out) {
    const call *k = c->runner;
    return run_body(k->r, body, in, NULL, n_in, out, NULL, n_out, c->err);
}

static pl_status bound_body(pl_bound *c, pl_graph *body, pl_datum *const *in,
                            pl_tensor *const *e_in, size_t n_in, pl_datum **out, pl_tensor **e_out,
                            size_t n_out) {
    const call *k = c->runner;
    return run_body(k->r, body, in, e_in, n_in, out, e_out, n_out, c->err);
}

static bool input_exact(pl_bound *c, int i) {
    const call *k = c->runner;
    return k->node->in[i] == NULL || is_exact(k->r, k->node->in[i]);
}

/* The float type of a node: that of its first float output, else of its first float input. */
static pl_dtype own_type(const call *k) {
    for (uint32_t i = 0; i < k->node->n_out; i++)
        if (pl_dtype_is_float(k->out_native[i])) return k->out_native[i];
    for (uint32_t i = 0; i < k->node->n_in; i++)
        if (pl_dtype_is_float(k->in_native[i])) return k->in_native[i];
    return PL_UNDEFINED;
}

static double tiny_of(pl_dtype dtype) {
    if (dtype == PL_F16) return 0x1p-24;
    return dtype == PL_F64 ? 0x1p-1022 : 0x1p-126;
}

/* A node without named outputs has nothing to bound. */
static bool has_output(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) return true;
    return false;
}

static pl_status run_bound(call *k, pl_arena *scratch, pl_err *err) {
    if (!has_output(k->node)) return PL_OK;
    const pl_dtype own = own_type(k);
    const pl_arithmetic *arithmetic = k->r->options.arithmetic;
    double u = own == PL_UNDEFINED ? 0 : pl_dtype_unit_roundoff(own);
    if (arithmetic != NULL && own != PL_UNDEFINED) u = fmax(u, arithmetic->storage);
    const double most = k->r->options.u_acc > 0 ? k->r->options.u_acc : 0x1p-24;
    pl_bound c = { .node = k->node,
                   .n_in = (int)k->node->n_in,
                   .n_out = (int)k->node->n_out,
                   .in = k->in,
                   .out = k->out,
                   .e_in = k->e_in,
                   .e_out = k->e_out,
                   .in_native = k->in_native,
                   .out_native = k->out_native,
                   /* For a model in double the replay is no more precise than the model. */
                   .u = own == PL_F64 ? 2 * u : u,
                   .u_acc = own == PL_F64 ? 2 * u : most,
                   .otherwise = k->r->options.otherwise,
                   .tiny = tiny_of(arithmetic != NULL && arithmetic->storage > 0 ? PL_F16 : own),
                   .arithmetic = arithmetic,
                   .exact = input_exact,
                   .run_body = bound_body,
                   .runner = k,
                   .pool = k->r->options.pool,
                   .scratch = scratch,
                   .err = err };
    if (k->node->def->bound == PL_BOUND_TODO) k->r->n_without_rule++;
    return pl_b_rule(&c);
}

/* ---- casts ---- */

static double round_to(pl_dtype dtype, double x) {
    unsigned char packed[sizeof(double)];
    double back = 0;
    pl_store_f64(dtype, &x, packed, 1);
    pl_load_f64(dtype, packed, &back, 1);
    return back;
}

static bool rounds(const call *k) {
    const pl_dtype to = k->out_native[0], from = k->in_native[0];
    return (k->node->def->flags & PL_OP_CAST) != 0 && k->node->n_out == 1 && k->out[0] != NULL &&
           k->out[0]->kind == PL_TYPE_TENSOR && k->out[0]->tensor->dtype == PL_F64 &&
           pl_dtype_is_float(to) && pl_dtype_is_float(from) &&
           pl_dtype_unit_roundoff(to) > pl_dtype_unit_roundoff(from);
}

/* Rounds to the target type, which the fp64 kernel does not do. The bound covers every value
 * reachable by rounding an input within its error. */
static pl_status round_cast(call *k, pl_err *err) {
    pl_tensor *y = NULL, *e = NULL;
    const pl_tensor *x = k->out[0]->tensor;
    PL_TRY(pl_tensor_copy(x, &y, err));
    const double *before = x->data, *e_in = k->e_in[0] == NULL ? NULL : k->e_in[0]->data;
    double *after = y->data;
    if (e_in != NULL) {
        const pl_status st = pl_tensor_new_zero(PL_F64, x->rank, x->dims, &e, err);
        if (st != PL_OK) {
            pl_tensor_unref(y);
            return st;
        }
    }
    for (int64_t i = 0; i < x->n_elements; i++) {
        after[i] = round_to(k->out_native[0], before[i]);
        if (e_in == NULL || !isfinite(after[i])) continue;
        const double up = round_to(k->out_native[0], before[i] + 8 * e_in[i]);
        const double down = round_to(k->out_native[0], before[i] - 8 * e_in[i]);
        ((double *)e->data)[i] = fmax(up - after[i], after[i] - down);
    }
    pl_datum_unref(k->out[0]);
    k->out[0] = NULL;
    k->e_out[0] = e;
    return pl_datum_of_tensor_take(y, &k->out[0], err);
}

static pl_status call_init(call *k, pl_arena *scratch, pl_err *err) {
    const pl_node *node = k->node;
    k->in = pl_arena_array(scratch, (size_t)node->n_in + 1, sizeof(pl_datum *));
    k->e_in = pl_arena_array(scratch, (size_t)node->n_in + 1, sizeof(pl_tensor *));
    k->in_native = pl_arena_array(scratch, (size_t)node->n_in + 1, sizeof(pl_dtype));
    k->out = pl_arena_array(scratch, (size_t)node->n_out + 1, sizeof(pl_datum *));
    k->e_out = pl_arena_array(scratch, (size_t)node->n_out + 1, sizeof(pl_tensor *));
    k->out_native = pl_arena_array(scratch, (size_t)node->n_out + 1, sizeof(pl_dtype));
    if (k->in == NULL || k->e_in == NULL || k->in_native == NULL || k->out == NULL ||
        k->e_out == NULL || k->out_native == NULL) {
        return pl_fail_memory(err, node->n_in);
    }
    return PL_OK;
}

/* Has the replay that is ahead computed this node from the very same data? Bodies see more than the
 * inputs of their node. */
static bool is_ahead(const pl_replay *r, const pl_node *node) {
    const pl_replay *ahead = r->options.ahead;
    if (ahead == NULL || r->options.native || r->depth != 1) return false;
    if (pl_node_bodies(node) != PL_BODIES_NONE) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL) continue;
        const uint32_t id = node->in[i]->id;
        if (r->slots[id].datum != ahead->slots[id].datum) return false;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        const slot *s = &ahead->slots[node->out[i]->id];
        if (s->datum == NULL || s->put) return false;
    }
    return true;
}

static void take_results(call *k) {
    for (uint32_t i = 0; i < k->node->n_out; i++) {
        if (k->node->out[i] == NULL) continue;
        k->out[i] = pl_datum_ref(k->r->options.ahead->slots[k->node->out[i]->id].datum);
    }
}

static pl_status eval_call(call *k, pl_arena *scratch, pl_err *err) {
    const pl_node *node = k->node;
    pl_replay *r = k->r;
    const bool moves = node->n_in > 0 && stays_narrow(node, 0);
    const bool no_fp64 = !r->options.native && (moves || (node->def->flags & PL_OP_NO_FP64) != 0);
    pl_status st = PL_OK;
    for (uint32_t i = 0; i < node->n_in; i++) {
        PL_TRY(fetch(r, node->in[i], moves || (!no_fp64 && stays_narrow(node, i)), &k->in[i], err));
        if (k->in[i] == NULL) continue;
        k->e_in[i] = r->slots[node->in[i]->id].bound;
        k->in_native[i] = native_of(node->in[i], k->in[i]);
    }
    if (is_ahead(r, node)) {
        take_results(k);
        return PL_OK;
    }
    pl_datum **args = k->in;
    if (no_fp64) {
        args = pl_arena_array(scratch, (size_t)node->n_in + 1, sizeof(pl_datum *));
        if (args == NULL) return pl_fail_memory(err, node->n_in);
        for (uint32_t i = 0; i < node->n_in && st == PL_OK; i++) {
            args[i] = k->in[i] == NULL ? NULL : pl_datum_ref(k->in[i]);
            st = pl_datum_lower(k->in_native[i], &args[i], err);
        }
    }
    const pl_eval_setup setup = { .pool = r->options.pool,
                                  .kernels = r->options.kernels,
                                  .scratch = scratch,
                                  .fp64 = !r->options.native && !no_fp64,
                                  .narrow_b = true,
                                  .naive = r->options.native && !r->options.fast,
                                  .otherwise = r->options.otherwise,
                                  .seed = r->options.seed,
                                  .run_body = eval_body,
                                  .runner = k };
    if (st == PL_OK) st = pl_eval_node(node, args, k->out, &setup, err);
    for (uint32_t i = 0; no_fp64 && i < node->n_in; i++)
        pl_datum_unref(args[i]);
    for (uint32_t i = 0; no_fp64 && st == PL_OK && i < node->n_out; i++) {
        pl_datum *raised = NULL;
        if (k->out[i] == NULL) continue;
        PL_TRY(pl_datum_raise(r->options.pool, k->out[i], &raised, err));
        pl_datum_unref(k->out[i]);
        k->out[i] = raised;
    }
    return st;
}

static pl_status run_node(pl_replay *r, const pl_node *node, bool bounds, pl_err *err) {
    r->depth++;
    if (r->scratch[r->depth] == NULL) r->scratch[r->depth] = pl_arena_new();
    pl_arena *scratch = r->scratch[r->depth];
    call k = { .r = r, .node = node };
    pl_status st = scratch == NULL ? pl_fail_memory(err, 1) : call_init(&k, scratch, err);
    if (st != PL_OK) goto done;
    PL_TRY_GOTO(done, st, eval_call(&k, scratch, err));
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] != NULL) k.out_native[i] = native_of(node->out[i], k.out[i]);
    }
    if (bounds && !r->options.native && !r->options.no_bounds) {
        st = rounds(&k) ? round_cast(&k, err) : run_bound(&k, scratch, err);
    }
done:
    for (uint32_t i = 0; k.in != NULL && i < node->n_in; i++)
        pl_datum_unref(k.in[i]);
    for (uint32_t i = 0; k.out != NULL && k.e_out != NULL && i < node->n_out; i++) {
        if (st != PL_OK || node->out[i] == NULL || k.out[i] == NULL) {
            pl_datum_unref(k.out[i]);
            pl_tensor_unref(k.e_out[i]);
            continue;
        }
        slot *s = &r->slots[node->out[i]->id];
        slot_clear(s);
        s->datum = k.out[i];
        s->bound = k.e_out[i];
    }
    if (scratch != NULL) pl_arena_reset(scratch);
    r->depth--;
    return st;
}

/* Bit for bit. What is no tensor of plain elements counts as the same. */
static bool same_bits(const pl_datum *x, const pl_datum *y) {
    if (x == NULL || y == NULL || x->kind != PL_TYPE_TENSOR || y->kind != PL_TYPE_TENSOR ||
        x->tensor->dtype == PL_STRING)
        return true;
    return pl_tensor_identical(x->tensor, y->tensor);
}

pl_status pl_replay_again(pl_replay *r, const pl_node *node, const pl_value **differs,
                          pl_err *err) {
    r->depth++;
    if (r->scratch[r->depth] == NULL) r->scratch[r->depth] = pl_arena_new();
    pl_arena *scratch = r->scratch[r->depth];
    call k = { .r = r, .node = node };
    pl_status st = scratch == NULL ? pl_fail_memory(err, 1) : call_init(&k, scratch, err);
    if (st == PL_OK) st = eval_call(&k, scratch, err);
    for (uint32_t i = 0; st == PL_OK && i < node->n_out && *differs == NULL; i++) {
        if (node->out[i] != NULL && !same_bits(k.out[i], r->slots[node->out[i]->id].datum))
            *differs = node->out[i];
    }
    for (uint32_t i = 0; k.in != NULL && i < node->n_in; i++)
        pl_datum_unref(k.in[i]);
    for (uint32_t i = 0; k.out != NULL && i < node->n_out; i++)
        pl_datum_unref(k.out[i]);
    if (scratch != NULL) pl_arena_reset(scratch);
    r->depth--;
    return st;
}

pl_status pl_replay_node(pl_replay *r, const pl_node *node, pl_err *err) {
    return run_node(r, node, true, err);
}

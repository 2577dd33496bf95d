/* Runs a model: one slot per value, filled by nodes, emptied by the plan. Bodies use the slots of
 * their own values; a body never runs twice at the same time, so one set is enough. */
#include "interp/interp.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file_fault.h"
#include "base/rng.h"
#include "interp/dont_care.h"
#include "interp/plan.h"
#include "interp/raise.h"
#include "kernels/provider.h"
#include "ops/eval.h"

struct pl_interp {
    pl_model *model;
    pl_interp_options options;
    pl_plan plan;
    pl_datum **slots;                          /* by value id */
    pl_arena *scratch[PL_GRAPH_DEPTH_MAX + 2]; /* one per depth: an outer node's scratch lives on */
    int depth;
    pl_dont_care nothing; /* elements of this run that mean nothing: seen as zeros from outside */
    uint64_t n_body_runs; /* makes random numbers differ between runs of a body */
};

static void slot_clear(pl_interp *in, const pl_value *value) {
    pl_datum_unref(in->slots[value->id]);
    in->slots[value->id] = NULL;
}

static void clear_all(pl_interp *in) {
    for (uint32_t i = 0; i < in->model->n_values; i++) {
        pl_datum_unref(in->slots[i]);
        in->slots[i] = NULL;
    }
}

/* ---- data on its way into a node ---- */

/* The slot's datum, made from the initializer when nothing else provided it. */
static pl_status fetch(pl_interp *in, const pl_value *value, pl_datum **out, pl_err *err) {
    *out = NULL;
    if (value == NULL) return PL_OK;
    if (in->slots[value->id] != NULL) {
        *out = pl_datum_ref(in->slots[value->id]);
        return PL_OK;
    }
    if (value->init == NULL) {
        return pl_fail(err, PL_E_INTERNAL, "value '%s' was used before it was computed",
                       value->name);
    }
    pl_datum *d = NULL;
    PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(value->init), &d, err));
    if (in->options.fp64 && pl_dtype_is_raised(value->init->dtype)) {
        /* Not kept: a model's weights as doubles would need twice its size. */
        const pl_status st = pl_datum_raise(in->options.pool, d, out, err);
        pl_datum_unref(d);
        return st;
    }
    in->slots[value->id] = d;
    *out = pl_datum_ref(d);
    return PL_OK;
}

/* ---- nodes ---- */

static pl_status run_graph(pl_interp *in, const pl_graph *graph, pl_err *err);

static pl_status run_body(pl_eval *c, pl_graph *body, pl_datum *const *args, size_t n_args,
                          pl_datum **out, size_t n_out) {
    pl_interp *in = c->runner;
    in->n_body_runs++;
    if (n_args != body->n_inputs || n_out != body->n_outputs) {
        return pl_eval_fail(c, "body '%s' has %zu inputs and %zu outputs, expected %zu and %zu",
                            body->name, body->n_inputs, body->n_outputs, n_args, n_out);
    }
    if (in->depth > PL_GRAPH_DEPTH_MAX) return pl_eval_fail(c, "bodies are nested too deeply");
    pl_status st = PL_OK;
    for (size_t i = 0; i < n_args; i++) {
        slot_clear(in, body->inputs[i]);
        in->slots[body->inputs[i]->id] = args[i] == NULL ? NULL : pl_datum_ref(args[i]);
    }
    for (size_t i = 0; i < n_out; i++)
        out[i] = NULL;
    PL_TRY_GOTO(done, st, run_graph(in, body, c->err));
    for (size_t i = 0; i < n_out; i++) {
        PL_TRY_GOTO(done, st, fetch(in, body->outputs[i], &out[i], c->err));
    }
done:
    for (size_t i = 0; i < body->n_values; i++) {
        if (body->values[i]->init == NULL) slot_clear(in, body->values[i]);
    }
    for (size_t i = 0; st != PL_OK && i < n_out; i++) {
        pl_datum_unref(out[i]);
        out[i] = NULL;
    }
    return st;
}

static pl_status show(const pl_interp *in, const pl_node *node, const pl_value *value,
                      const pl_datum *d, pl_err *err) {
    pl_datum *shown = pl_datum_ref(d);
    pl_status st = pl_dont_care_hide(&in->nothing, value, &shown, err);
    if (st == PL_OK) st = in->options.hook(in->options.hook_ctx, node, value, shown, err);
    pl_datum_unref(shown);
    return st;
}

static pl_status publish(pl_interp *in, const pl_node *node, pl_datum **out, pl_err *err) {
    pl_status st = PL_OK;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (out[i] == NULL) continue;
        if (st == PL_OK && in->options.hook != NULL) {
            st = show(in, node, node->out[i], out[i], err);
        }
        slot_clear(in, node->out[i]);
        in->slots[node->out[i]->id] = out[i];
    }
    return st;
}

static pl_status raise_outputs(const pl_node *node, pl_datum **out, pl_err *err) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        pl_datum *raised = NULL;
        if (out[i] == NULL) continue;
        PL_TRY(pl_datum_raise(NULL, out[i], &raised, err));
        pl_datum_unref(out[i]);
        out[i] = raised;
    }
    return PL_OK;
}

static uint64_t seed_of(const pl_interp *in) {
    if (in->depth <= 1) return in->options.seed;
    return pl_rng_at(in->options.seed, in->n_body_runs, 0);
}

static pl_status run_node(pl_interp *in, const pl_graph_plan *g, const pl_node *node, pl_err *err) {
    const bool native = in->options.fp64 && (node->def->flags & PL_OP_NO_FP64) != 0;
    pl_arena *scratch = in->scratch[in->depth];
    pl_datum **args = pl_arena_array(scratch, node->n_in, sizeof(pl_datum *));
    pl_datum **out = pl_arena_array(scratch, node->n_out, sizeof(pl_datum *));
    bool *constant = pl_arena_array(scratch, node->n_in, sizeof(bool));
    if (args == NULL || out == NULL || constant == NULL) return pl_fail_memory(err, node->n_in);
    pl_status st = PL_OK;
    for (uint32_t i = 0; i < node->n_in; i++) {
        PL_TRY_GOTO(done, st, fetch(in, node->in[i], &args[i], err));
        if (native && args[i] != NULL) {
            /* Gold met an operator without an fp64 form: convert back to the model's types. */
            const pl_dtype dtype = pl_value_dtype(node->in[i], PL_F32);
            PL_TRY_GOTO(done, st, pl_datum_lower(dtype, &args[i], err));
        }
        constant[i] =
            node->in[i] != NULL && in->plan.constant[node->in[i]->id] && !in->options.fp64;
    }
    const pl_eval_setup setup = { .pool = in->options.pool,
                                  .kernels = in->options.kernels,
                                  .scratch = scratch,
                                  .fp64 = in->options.fp64 && !native,
                                  .otherwise = in->options.otherwise,
                                  .seed = seed_of(in),
                                  .in_constant = constant,
                                  .state = &g->state[node->index],
                                  .state_free = &g->state_free[node->index],
                                  .run_body = run_body,
                                  .runner = in };
    PL_TRY_GOTO(done, st, pl_eval_node(node, args, out, &setup, err));
    if (native) st = raise_outputs(node, out, err);
    if (st == PL_OK) {
        st = publish(in, node, out, err);
    } else {
        for (uint32_t i = 0; i < node->n_out; i++)
            pl_datum_unref(out[i]);
    }
done:
    for (uint32_t i = 0; i < node->n_in; i++)
        pl_datum_unref(args[i]);
    return st;
}

/* Checked before every node and every iteration of a body: a Loop may be endless, and a body
 * empty. */
static pl_status check_deadline(const pl_interp *in, pl_err *err) {
    if (in->options.deadline_ns == 0 || pl_clock_ns() < in->options.deadline_ns) return PL_OK;
    return pl_fail(err, PL_E_TIMEOUT, "the reference did not finish in time");
}

static pl_status run_graph(pl_interp *in, const pl_graph *graph, pl_err *err) {
    const pl_graph_plan *g = &in->plan.graphs[graph->id];
    const bool is_main = graph->parent == NULL;
    in->depth++;
    pl_status st = PL_OK;
    if (in->scratch[in->depth] == NULL) in->scratch[in->depth] = pl_arena_new();
    if (in->scratch[in->depth] == NULL) st = pl_fail_memory(err, 1);
    if (st == PL_OK) st = check_deadline(in, err);
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        const int64_t start = is_main && in->options.node_ns != NULL ? pl_clock_ns() : 0;
        st = run_node(in, g, graph->nodes[i], err);
        if (st == PL_OK) st = check_deadline(in, err);
        pl_arena_reset(in->scratch[in->depth]);
        for (uint32_t k = g->release_at[i]; k < g->release_at[i + 1]; k++) {
            slot_clear(in, g->release[k]);
        }
        if (!is_main) continue;
        if (in->options.node_ns != NULL) in->options.node_ns[i] = (uint64_t)(pl_clock_ns() - start);
        if (st == PL_OK)
            st = pl_progress_step(in->options.progress, "run", (int64_t)i + 1,
                                  (int64_t)graph->n_nodes, err);
    }
    in->depth--;
    return st;
}

/* ---- whole runs ---- */

/* The element type of a sequence or an optional, however deep. */
static bool elements_fit(const pl_type *type, const pl_datum *d) {
    while (type->elem != NULL)
        type = type->elem;
    return type->kind != PL_TYPE_TENSOR || type->dtype == PL_UNDEFINED ||
           d->elem_dtype == PL_UNDEFINED || d->elem_dtype == type->dtype;
}

/* Its keys and its values. */
static bool is_map_of(const pl_type *type, const pl_datum *d) {
    if (d->kind != PL_TYPE_SEQUENCE || d->n_items != 2) return false;
    const pl_datum *keys = d->items[0], *values = d->items[1];
    if (keys->kind != PL_TYPE_TENSOR || values->kind != PL_TYPE_TENSOR) return false;
    const bool known = type->elem != NULL && type->elem->dtype != PL_UNDEFINED;
    return keys->tensor->n_elements == values->tensor->n_elements &&
           (type->dtype == PL_UNDEFINED || keys->tensor->dtype == type->dtype) &&
           (!known || values->tensor->dtype == type->elem->dtype);
}

pl_status pl_interp_check_input(const pl_value *value, const pl_datum *d, bool any_shape,
                                pl_err *err) {
    const pl_type *type = value->type;
    char found[200];
    if (type == NULL || type->kind == PL_TYPE_NONE) return PL_OK;
    bool fits = type->kind == PL_TYPE_MAP ? is_map_of(type, d)
                                          : d->kind == type->kind && elements_fit(type, d);
    if (fits && d->kind == PL_TYPE_TENSOR) {
        const pl_tensor *t = d->tensor;
        fits = type->dtype == PL_UNDEFINED || t->dtype == type->dtype;
        fits = fits && (any_shape || !type->has_rank || t->rank == type->rank);
        for (int i = 0; fits && !any_shape && type->has_rank && i < type->rank; i++) {
            fits = !pl_dim_known(type->dims[i]) || type->dims[i].value == t->dims[i];
        }
    }
    if (fits) return PL_OK;
    pl_buf wanted = PL_BUF_INIT;
    pl_type_print(&wanted, type);
    const pl_status st = pl_fail(err, PL_E_INVALID, "input '%s' is %s, expected %s", value->name,
                                 pl_datum_describe(d, found, sizeof(found)), pl_buf_str(&wanted));
    pl_buf_release(&wanted);
    return st;
}

static pl_status take_inputs(pl_interp *in, pl_datum *const *data, pl_err *err) {
    const pl_graph *graph = in->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_value *value = graph->inputs[i];
        slot_clear(in, value);
        if (data[i] == NULL) {
            if (value->init != NULL) continue;
            return pl_fail(err, PL_E_USAGE, "input '%s' is missing", value->name);
        }
        PL_TRY(pl_interp_check_input(value, data[i], in->options.any_shape, err));
        if (in->options.fp64) {
            PL_TRY(pl_datum_raise(in->options.pool, data[i], &in->slots[value->id], err));
        } else {
            in->slots[value->id] = pl_datum_ref(data[i]);
        }
    }
    return PL_OK;
}

pl_status pl_interp_run(pl_interp *interp, pl_datum *const *data, pl_datum **out, pl_err *err) {
    pl_interp *in = interp;
    in->n_body_runs = 0;
    const pl_graph *graph = in->model->graph;
    pl_status st = PL_OK;
    for (size_t i = 0; i < graph->n_outputs; i++)
        out[i] = NULL;
    PL_TRY_GOTO(done, st, take_inputs(in, data, err));
    PL_TRY_GOTO(
        done, st,
        pl_dont_care_find(in->model, data, pl_pool_threads(in->options.pool), &in->nothing, err));
    PL_TRY_GOTO(done, st, run_graph(in, graph, err));
    for (size_t i = 0; i < graph->n_outputs; i++) {
        PL_TRY_GOTO(done, st, fetch(in, graph->outputs[i], &out[i], err));
        PL_TRY_GOTO(done, st, pl_dont_care_hide(&in->nothing, graph->outputs[i], &out[i], err));
    }
    st = pl_file_fault_check(err);
done:
    clear_all(in);
    pl_dont_care_release(&in->nothing);
    for (size_t i = 0; st != PL_OK && i < graph->n_outputs; i++) {
        pl_datum_unref(out[i]);
        out[i] = NULL;
    }
    return st;
}

pl_status pl_interp_new(pl_model *model, const pl_interp_options *options, pl_interp **out,
                        pl_err *err) {
    pl_interp *in = pl_calloc(1, sizeof(*in));
    if (in == NULL) return pl_fail_memory(err, sizeof(*in));
    pl_status st = PL_OK;
    in->model = model;
    in->options = *options;
    PL_TRY_GOTO(done, st, pl_provider_of(options->kernels, &in->options.kernels, err));
    in->slots = pl_calloc((size_t)model->n_values + 1, sizeof(pl_datum *));
    if (in->slots == NULL) {
        st = pl_fail_memory(err, model->n_values);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_ops_resolve(model, err));
    PL_TRY_GOTO(done, st, pl_plan_init(&in->plan, model, err));
    *out = in;
    in = NULL;
done:
    pl_interp_free(in);
    return st;
}

void pl_interp_free(pl_interp *in) {
    if (in == NULL) return;
    if (in->slots != NULL) clear_all(in);
    pl_free(in->slots);
    for (size_t i = 0; i < sizeof(in->scratch) / sizeof(in->scratch[0]); i++) {
        pl_arena_free(in->scratch[i]);
    }
    pl_plan_release(&in->plan);
    pl_free(in);
}

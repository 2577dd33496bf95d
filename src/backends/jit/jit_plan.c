/* A plan: a copy of the model with the types of one set of inputs, constants folded, and the steps
 * that run it. */
#include <dlfcn.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "base/size.h"
#include "graph/edit.h"
#include "ops/eval.h"
#include "ops/infer.h"

enum { FOLD_BYTES_MAX = 64 << 20 };

void jit_plan_free(jit_plan *plan) {
    if (plan == NULL) return;
    for (size_t i = 0; i < plan->n_prims; i++)
        jit_call_free(plan->prims[i].call);
    for (size_t i = 0; plan->heap != NULL && i < plan->n_slots; i++)
        pl_datum_unref(plan->heap[i]);
    for (size_t i = 0; plan->model != NULL && i < plan->model->n_values; i++) {
        if (plan->constants != NULL) pl_datum_unref(plan->constants[i]);
        if (plan->slots != NULL) pl_datum_unref(plan->slots[i]);
    }
    pl_arena_free(plan->arena);
    pl_model_free(plan->model);
    if (plan->library != NULL) dlclose(plan->library);
    pl_buf_release(&plan->text);
    pl_free(plan->memory);
    pl_free(plan->weights);
    pl_free(plan->log);
    pl_free(plan->prims);
    pl_free(plan->refs);
    pl_free(plan->steps);
    pl_free(plan->params);
    pl_free(plan);
}

/* ---- types ---- */

static const pl_type *type_of(pl_arena *arena, const pl_tensor *t) {
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < t->rank; d++)
        dims[d] = pl_dim_of(t->dims[d]);
    return pl_type_tensor(arena, t->dtype, t->rank, dims);
}

bool jit_plan_fits(const jit_plan *plan, pl_datum *const *in) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_type *type = plan->in_types[i];
        const pl_tensor *t = in[i] != NULL ? in[i]->tensor : graph->inputs[i]->init;
        if (t == NULL && type == NULL) continue;
        if (t == NULL || type == NULL || t->dtype != type->dtype || t->rank != type->rank) {
            return false;
        }
        for (int d = 0; d < t->rank; d++)
            if (t->dims[d] != type->dims[d].value) return false;
    }
    return true;
}

/* Ignores declared types of inner values: exporters do declare wrong ones, and memory is laid out
 * by these types. Only types that rules derive from the inputs count. */
static pl_status set_types(jit_plan *plan, pl_datum *const *in, pl_err *err) {
    pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->producer != NULL) graph->values[i]->type = NULL;
    plan->in_types = pl_arena_array(plan->arena, graph->n_inputs, sizeof(pl_type *));
    if (plan->in_types == NULL) return pl_fail_memory(err, graph->n_inputs);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_value *value = graph->inputs[i];
        const pl_tensor *t = in != NULL && in[i] != NULL ? in[i]->tensor : NULL;
        if (t == NULL && (in == NULL || in[i] == NULL)) t = value->init;
        if (t != NULL) {
            value->type = type_of(plan->model->arena, t);
            if (value->type == NULL) return pl_fail_memory(err, 1);
        }
        const bool known =
            t != NULL || (in == NULL && value->type != NULL && pl_type_is_concrete(value->type));
        plan->in_types[i] = known ? value->type : NULL;
    }
    return PL_OK;
}

/* ---- constants ---- */

static pl_status note_constants(jit_plan *plan, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->init == NULL || value->is_input) continue;
        PL_TRY(
            pl_datum_of_tensor_take(pl_tensor_ref(value->init), &plan->constants[value->id], err));
    }
    return PL_OK;
}

static bool output_is_small(const pl_value *value) {
    size_t n = value->type == NULL ? 0 : pl_dtype_bytes(value->type->dtype);
    if (value->type == NULL || !pl_type_is_concrete(value->type)) return false;
    for (int d = 0; d < value->type->rank; d++) {
        if (!pl_size_mul(n, (size_t)value->type->dims[d].value, &n) || n > FOLD_BYTES_MAX) {
            return false;
        }
    }
    return true;
}

static bool can_fold(const jit_plan *plan, const pl_node *node) {
    if (pl_node_is_random(node) || (node->def->flags & PL_OP_CONTROL) != 0) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL && plan->constants[node->in[i]->id] == NULL) return false;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] != NULL && !output_is_small(node->out[i])) return false;
    }
    return node->n_out > 0;
}

/* True when the node was folded to constants. A node that fails is left to the run, which reports
 * it. */
bool jit_fold(jit_program *p, jit_plan *plan, const pl_node *node) {
    pl_datum **in = pl_arena_array(p->scratch, node->n_in, sizeof(*in));
    pl_datum **out = pl_arena_array(p->scratch, node->n_out, sizeof(*out));
    bool ok = jit_pass_on(p, JIT_PASS_FOLD) && in != NULL && out != NULL && can_fold(plan, node);
    for (uint32_t i = 0; ok && i < node->n_in; i++)
        in[i] = node->in[i] == NULL ? NULL : plan->constants[node->in[i]->id];
    const pl_eval_setup setup = { .pool = p->pool, .scratch = p->scratch, .seed = p->seed };
    ok = ok && pl_eval_node(node, in, out, &setup, NULL) == PL_OK;
    for (uint32_t i = 0; ok && i < node->n_out; i++) {
        if (node->out[i] != NULL) plan->constants[node->out[i]->id] = out[i];
    }
    pl_arena_reset(p->scratch);
    return ok;
}

/* ---- breaks ---- */

const pl_jit_fault *jit_fault_of(const jit_program *p, const pl_node *node) {
    for (size_t i = 0; i < p->options->n_faults; i++) {
        const pl_jit_fault *fault = &p->options->faults[i];
        if (!pl_jit_fault_is_compile_error(fault) && pl_jit_fault_hits(fault, node)) return fault;
    }
    return NULL;
}

typedef struct captures {
    const pl_graph *graph;
    const char **names;
    size_t n;
    bool *seen; /* by value id */
} captures;

static void capture(captures *c, const pl_value *value) {
    if (value == NULL || value->graph != c->graph || c->seen[value->id]) return;
    c->seen[value->id] = true;
    if (value->init == NULL || value->is_input) c->names[c->n++] = value->name;
}

static pl_status capture_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++) {
        for (uint32_t k = 0; k < body->nodes[i]->n_in; k++)
            capture(ctx, body->nodes[i]->in[k]);
        PL_TRY(pl_node_each_body(body->nodes[i], capture_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        capture(ctx, body->outputs[i]);
    return PL_OK;
}

/* A node with bodies runs as a separate model in the interpreter. */
static void break_release(void *object) {
    jit_break *b = object;
    if (b->state != NULL && b->state_free != NULL) b->state_free(b->state);
    pl_interp_free(b->interp);
    pl_model_free(b->part);
}

static pl_status make_part(jit_program *p, jit_plan *plan, jit_break *b, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    captures c = { .graph = graph };
    pl_status st = PL_OK;
    c.names = pl_calloc((size_t)plan->model->n_values + 1, sizeof(char *));
    c.seen = pl_calloc((size_t)plan->model->n_values + 1, sizeof(bool));
    const char **to = pl_calloc(b->node->n_out + 1, sizeof(char *));
    size_t n_to = 0;
    if (c.names == NULL || c.seen == NULL || to == NULL) {
        st = pl_fail_memory(err, plan->model->n_values);
        goto done;
    }
    for (uint32_t i = 0; i < b->node->n_in; i++)
        capture(&c, b->node->in[i]);
    PL_TRY_GOTO(done, st, pl_node_each_body(b->node, capture_body, &c, err));
    for (uint32_t i = 0; i < b->node->n_out; i++)
        if (b->node->out[i] != NULL) to[n_to++] = b->node->out[i]->name;
    if (n_to == 0) goto done;
    PL_TRY_GOTO(done, st, pl_model_cut(plan->model, c.names, c.n, to, n_to, &b->part, err));
    for (size_t i = 0; i < b->part->graph->n_inputs; i++)
        b->part->graph->inputs[i]->type = NULL; /* any type is allowed */
    const pl_interp_options options = {
        .pool = p->pool, .seed = p->seed, .kernels = p->options->kernels, .any_shape = true
    };
    st = pl_interp_new(b->part, &options, &b->interp, err);
done:
    pl_free(c.names);
    pl_free(c.seen);
    pl_free(to);
    return st;
}

pl_status jit_break_new(jit_program *p, jit_plan *plan, const pl_node *node, const char *reason,
                        jit_break **out, pl_err *err) {
    jit_break *b = pl_arena_alloc(plan->arena, sizeof(*b));
    if (b == NULL) return pl_fail_memory(err, sizeof(*b));
    *b = (jit_break){ .node = node, .reason = reason, .fault = jit_fault_of(p, node) };
    *out = b;
    if (pl_arena_defer(plan->arena, break_release, b) != 0) return pl_fail_memory(err, 1);
    if ((node->def->flags & PL_OP_CONTROL) == 0) return PL_OK;
    return make_part(p, plan, b, err);
}

/* ---- the whole ---- */

pl_status jit_plan_new(jit_program *p, pl_datum *const *in, jit_plan **out, pl_err *err) {
    pl_status st = PL_OK;
    double start = jit_now_ms();
    jit_plan *plan = pl_calloc(1, sizeof(*plan));
    if (plan == NULL) return pl_fail_memory(err, sizeof(*plan));
    plan->arena = pl_arena_new();
    if (plan->arena == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_model_copy(p->model, &plan->model, err));
    PL_TRY_GOTO(done, st, pl_ops_resolve(plan->model, err));
    plan->constants = pl_arena_array(plan->arena, plan->model->n_values, sizeof(pl_datum *));
    plan->slots = pl_arena_array(plan->arena, plan->model->n_values, sizeof(pl_datum *));
    if (plan->constants == NULL || plan->slots == NULL) {
        st = pl_fail_memory(err, plan->model->n_values);
        goto done;
    }
    PL_TRY_GOTO(done, st, set_types(plan, in, err));
    /* A model that inference rejects still runs node by node, and the run reports why. */
    if (pl_model_infer(plan->model, NULL, NULL) == PL_E_MEMORY) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, note_constants(plan, err));
    PL_TRY_GOTO(done, st, jit_lower(p, plan, err));
    jit_phase_note(plan, "lower", start);
    start = jit_now_ms();
    PL_TRY_GOTO(done, st, jit_fuse(p, plan, err));
    jit_phase_note(plan, "fuse", start);
    start = jit_now_ms();
    PL_TRY_GOTO(done, st, jit_schedule(p, plan, err));
    jit_phase_note(plan, "schedule", start);
    start = jit_now_ms();
    PL_TRY_GOTO(done, st, jit_emit(p, plan, err));
    jit_phase_note(plan, "emit", start);
    start = jit_now_ms();
    st = jit_build(p, plan, err);
    if (st != PL_OK) {
        (void)jit_explain(p, plan, NULL); /* useful when compiling failed */
        goto done;
    }
    jit_phase_note(plan, "build", start);
    start = jit_now_ms();
    PL_TRY_GOTO(done, st, jit_weights(p, plan, err));
    jit_phase_note(plan, "pack", start);
    *out = plan;
    plan = NULL;
done:
    jit_plan_free(plan);
    return st;
}

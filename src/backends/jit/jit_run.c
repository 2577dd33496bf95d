/* Running a plan: steps in order; every value that a step leaves in memory is shown to the hook. */
#include <string.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "ops/eval.h"

/* ---- inputs ---- */

static bool input_fits(const pl_type *type, const pl_datum *d, bool any_shape) {
    if (type == NULL || type->kind == PL_TYPE_NONE) return true;
    if (d->kind != type->kind) return false;
    if (d->kind != PL_TYPE_TENSOR) return true;
    const pl_tensor *t = d->tensor;
    if (type->dtype != PL_UNDEFINED && t->dtype != type->dtype) return false;
    if (any_shape || !type->has_rank) return true;
    if (t->rank != type->rank) return false;
    for (int i = 0; i < type->rank; i++) {
        if (pl_dim_known(type->dims[i]) && type->dims[i].value != t->dims[i]) return false;
    }
    return true;
}

pl_status jit_check_inputs(const jit_program *p, pl_datum *const *in, pl_err *err) {
    for (size_t i = 0; i < p->model->graph->n_inputs; i++) {
        const pl_value *value = p->model->graph->inputs[i];
        if (in[i] == NULL) {
            if (value->init != NULL) continue;
            return pl_fail(err, PL_E_USAGE, "input '%s' is missing", value->name);
        }
        if (input_fits(value->type, in[i], p->any_shape)) continue;
        char found[200];
        pl_buf wanted = PL_BUF_INIT;
        pl_type_print(&wanted, value->type);
        const pl_status st =
            pl_fail(err, PL_E_INVALID, "input '%s' is %s, expected %s", value->name,
                    pl_datum_describe(in[i], found, sizeof(found)), pl_buf_str(&wanted));
        pl_buf_release(&wanted);
        return st;
    }
    return PL_OK;
}

static pl_status take_inputs(jit_plan *plan, pl_datum *const *in, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_value *value = graph->inputs[i];
        if (in[i] != NULL) {
            plan->slots[value->id] = pl_datum_ref(in[i]);
        } else if (value->init != NULL) {
            PL_TRY(
                pl_datum_of_tensor_take(pl_tensor_ref(value->init), &plan->slots[value->id], err));
        }
    }
    return PL_OK;
}

/* ---- values ---- */

static pl_datum *datum_of(const jit_plan *plan, const pl_value *value) {
    return plan->slots[value->id] != NULL ? plan->slots[value->id] : plan->constants[value->id];
}

static pl_status show(jit_program *p, const pl_value *value, pl_datum *datum, pl_err *err) {
    const plumb_run_args *args = p->args;
    if (args->hook == NULL || !pl_hook_wants(args->hook, value->name)) return PL_OK;
    const plumb_seen seen = { .name = value->name,
                              .datum = (const plumb_datum *)datum,
                              .stands_for = &value->name,
                              .n_stands_for = 1 };
    args->record->n_seen++;
    return (pl_status)args->hook->value(args->hook->ctx, &seen, (plumb_error *)err);
}

/* ---- breaks ---- */

static pl_status run_part(const jit_plan *plan, const jit_break *b, pl_datum **out, pl_err *err) {
    const pl_graph *part = b->part->graph;
    pl_datum **in = pl_calloc(part->n_inputs + 1, sizeof(*in));
    pl_datum **made = pl_calloc(part->n_outputs + 1, sizeof(*made));
    pl_status st = in == NULL || made == NULL ? pl_fail_memory(err, 1) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < part->n_inputs; i++) {
        const pl_value *value = pl_graph_find(plan->model->graph, part->inputs[i]->name);
        in[i] = value == NULL ? NULL : datum_of(plan, value);
    }
    if (st == PL_OK) st = pl_interp_run(b->interp, in, made, err);
    size_t n = 0;
    for (uint32_t i = 0; st == PL_OK && i < b->node->n_out; i++)
        if (b->node->out[i] != NULL) out[i] = made[n++];
    pl_free(in);
    pl_free(made);
    return st;
}

static pl_status run_kernel(jit_program *p, const jit_plan *plan, jit_break *b, pl_datum **out,
                            pl_err *err) {
    const pl_node *node = b->node;
    pl_datum **in = pl_arena_array(p->scratch, node->n_in, sizeof(*in));
    bool *constant = pl_arena_array(p->scratch, node->n_in, sizeof(*constant));
    if (in == NULL || constant == NULL) return pl_fail_memory(err, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value == NULL) continue;
        in[i] = datum_of(plan, value);
        constant[i] = plan->constants[value->id] != NULL;
        if (in[i] == NULL) {
            return pl_fail(err, PL_E_INTERNAL, "value '%s' was needed before it was there",
                           value->name);
        }
    }
    const pl_eval_setup setup = { .pool = p->pool,
                                  .scratch = p->scratch,
                                  .seed = p->seed,
                                  .in_constant = constant,
                                  .state = &b->state,
                                  .state_free = &b->state_free };
    return pl_eval_node(node, in, out, &setup, err);
}

static pl_status run_break(jit_program *p, jit_plan *plan, jit_break *b, pl_err *err) {
    const pl_node *node = b->node;
    pl_datum **out = pl_calloc(node->n_out + 1, sizeof(*out));
    if (out == NULL) return pl_fail_memory(err, node->n_out);
    pl_status st = PL_OK;
    if (b->interp != NULL) {
        st = run_part(plan, b, out, err);
    } else if ((node->def->flags & PL_OP_CONTROL) == 0) {
        st = run_kernel(p, plan, b, out, err);
    }
    pl_arena_reset(p->scratch);
    if (st == PL_OK && b->fault != NULL) {
        st = pl_jit_fault_apply(b->fault, node, out, node->n_out, err);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (out[i] == NULL) continue;
        if (st == PL_OK) st = show(p, node->out[i], out[i], err);
        pl_datum_unref(plan->slots[node->out[i]->id]);
        plan->slots[node->out[i]->id] = out[i];
    }
    pl_free(out);
    return st;
}

/* ---- the whole ---- */

static void clear_slots(jit_plan *plan) {
    for (size_t i = 0; i < plan->model->n_values; i++) {
        pl_datum_unref(plan->slots[i]);
        plan->slots[i] = NULL;
    }
}

static pl_status run_steps(jit_program *p, jit_plan *plan, pl_err *err) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        const jit_step *step = &plan->steps[s];
        PL_TRY(run_break(p, plan, step->brk, err));
        for (size_t k = 0; k < step->n_dead; k++) {
            pl_datum_unref(plan->slots[step->dead[k]->id]);
            plan->slots[step->dead[k]->id] = NULL;
        }
    }
    return PL_OK;
}

pl_status jit_plan_run(jit_program *p, jit_plan *plan, const plumb_run_args *args, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    pl_status st = PL_OK;
    p->args = args;
    if (args->hook != NULL) {
        *args->record = (plumb_record_info){ .n_values = p->n_values + p->n_hidden,
                                             .n_hidden = p->n_hidden,
                                             .n_runs = 1 };
    }
    PL_TRY_GOTO(done, st, take_inputs(plan, (pl_datum *const *)(uintptr_t)args->in, err));
    PL_TRY_GOTO(done, st, run_steps(p, plan, err));
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_datum *d = datum_of(plan, graph->outputs[i]);
        if (d == NULL) {
            st = pl_fail(err, PL_E_INTERNAL, "output '%s' was not made", graph->outputs[i]->name);
            goto done;
        }
        args->out[i] = pl_datum_public(pl_datum_ref(d));
    }
done:
    clear_slots(plan);
    p->args = NULL;
    return st;
}

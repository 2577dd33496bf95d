/* Runs a plan: steps in order; every value that a step leaves in memory is passed to the hook. */
#include <string.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "ops/eval.h"

/* ---- inputs ---- */

pl_status jit_check_inputs(const jit_program *p, pl_datum *const *in, pl_err *err) {
    for (size_t i = 0; i < p->model->graph->n_inputs; i++) {
        const pl_value *value = p->model->graph->inputs[i];
        if (in[i] == NULL) {
            if (value->init != NULL) continue;
            return pl_fail(err, PL_E_USAGE, "input '%s' is missing", value->name);
        }
        PL_TRY(pl_interp_check_input(value, in[i], p->any_shape, err));
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

/* A tensor with the shape of a value from memory of the plan; copied, since the memory is
 * reused. */
static pl_status datum_of_memory(const jit_plan *plan, const pl_value *value, int prim,
                                 pl_datum **out, pl_err *err) {
    const jit_prim *p = &plan->prims[prim];
    const jit_ref *ref = &plan->refs[plan->value_ref[value->id]];
    pl_tensor *t = NULL;
    if (plan->heap[p->slot] != NULL) {
        PL_TRY(pl_tensor_reshape(plan->heap[p->slot]->tensor, ref->rank, ref->dims, &t, err));
    } else {
        PL_TRY(pl_tensor_new(p->dtype, ref->rank, ref->dims, &t, err));
        memcpy(t->data, plan->buffers[p->slot], pl_tensor_bytes(t));
    }
    return pl_datum_of_tensor_take(t, out, err);
}

/* A new reference to the data of a value; NULL when it was not computed. */
static pl_status datum_of(const jit_plan *plan, const pl_value *value, pl_datum **out,
                          pl_err *err) {
    const int ref = plan->value_ref[value->id];
    *out = NULL;
    if (plan->slots[value->id] != NULL) {
        *out = pl_datum_ref(plan->slots[value->id]);
    } else if (plan->constants[value->id] != NULL) {
        *out = pl_datum_ref(plan->constants[value->id]);
    } else if (ref >= 0 && plan->prims[plan->refs[ref].prim].slot >= 0) {
        return datum_of_memory(plan, value, plan->refs[ref].prim, out, err);
    }
    return PL_OK;
}

/* Passes a tensor to the hook under all names of values that it holds. */
static pl_status show(jit_program *p, const char *const *names, size_t n_names, pl_datum *datum,
                      pl_err *err) {
    const plumb_run_args *args = p->args;
    const char **wanted = pl_arena_array(p->scratch, n_names, sizeof(*wanted));
    size_t n = 0;
    if (wanted == NULL) return pl_fail_memory(err, n_names);
    for (size_t i = 0; i < n_names; i++)
        if (pl_hook_wants(args->hook, names[i])) wanted[n++] = names[i];
    if (n == 0) return PL_OK;
    const plumb_seen seen = { .name = wanted[0],
                              .datum = (const plumb_datum *)datum,
                              .stands_for = wanted,
                              .n_stands_for = n };
    args->record->n_seen++;
    const pl_status st = args->hook->value(args->hook->ctx, &seen, err);
    pl_arena_reset(p->scratch);
    return st;
}

static pl_status show_all(jit_program *p, const jit_plan *plan, const jit_shown *list, size_t n,
                          pl_err *err) {
    for (size_t i = 0; p->args->hook != NULL && i < n; i++) {
        pl_datum *d = NULL;
        PL_TRY(datum_of(plan, list[i].value, &d, err));
        const pl_status st = d == NULL ? PL_OK : show(p, list[i].names, list[i].n_names, d, err);
        pl_datum_unref(d);
        PL_TRY(st);
    }
    return PL_OK;
}

/* ---- breaks ---- */

static pl_status run_part(const jit_plan *plan, const jit_break *b, pl_datum **out, pl_err *err) {
    const pl_graph *part = b->part->graph;
    pl_datum **in = pl_calloc(part->n_inputs + 1, sizeof(*in));
    pl_datum **made = pl_calloc(part->n_outputs + 1, sizeof(*made));
    pl_status st = in == NULL || made == NULL ? pl_fail_memory(err, 1) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < part->n_inputs; i++) {
        const pl_value *value = pl_graph_find(plan->model->graph, part->inputs[i]->name);
        if (value != NULL) st = datum_of(plan, value, &in[i], err);
    }
    if (st == PL_OK) st = pl_interp_run(b->interp, in, made, err);
    for (size_t i = 0; in != NULL && i < part->n_inputs; i++)
        pl_datum_unref(in[i]);
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
    pl_status st = PL_OK;
    for (uint32_t i = 0; st == PL_OK && i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value == NULL) continue;
        st = datum_of(plan, value, &in[i], err);
        constant[i] = plan->constants[value->id] != NULL;
        if (st == PL_OK && in[i] == NULL) {
            st = pl_fail(err, PL_E_INTERNAL, "value '%s' was used before it was computed",
                         value->name);
        }
    }
    const pl_eval_setup setup = { .pool = p->pool,
                                  .scratch = p->scratch,
                                  .seed = p->seed,
                                  .kernels = p->options->kernels,
                                  .in_constant = constant,
                                  .state = &b->state,
                                  .state_free = &b->state_free };
    if (st == PL_OK) st = pl_eval_node(node, in, out, &setup, err);
    for (uint32_t i = 0; i < node->n_in; i++)
        pl_datum_unref(in[i]);
    return st;
}

/* Later steps rely on the type that the shape rule inferred. A planted fault may change a number
 * that a shape depends on. */
static pl_status check_promise(const jit_program *program, const jit_plan *plan,
                               const pl_value *value, const pl_datum *d, pl_err *err) {
    const int ref = plan->value_ref[value->id];
    if (ref < 0) return PL_OK;
    const jit_prim *p = &plan->prims[plan->refs[ref].prim];
    bool kept = d->kind == PL_TYPE_TENSOR && d->tensor->dtype == p->dtype &&
                d->tensor->rank == p->rank && pl_tensor_is_contiguous(d->tensor);
    for (int i = 0; kept && i < p->rank; i++)
        kept = d->tensor->dims[i] == p->dims[i];
    if (!kept) {
        return pl_fail(err, program->options->n_faults > 0 ? PL_E_BACKEND : PL_E_INTERNAL,
                       "value '%s' does not have the type or shape that its shape rule gives",
                       value->name);
    }
    if (p->slot >= 0) plan->buffers[p->slot] = d->tensor->data;
    return PL_OK;
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
        if (st == PL_OK) st = check_promise(p, plan, node->out[i], out[i], err);
        if (st == PL_OK && p->args->hook != NULL) st = show(p, &node->out[i]->name, 1, out[i], err);
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

/* Sets the addresses of inputs and of tensors that are outputs or go to breaks. */
static pl_status bind_buffers(jit_plan *plan, pl_err *err) {
    for (size_t i = 0; i < plan->n_slots; i++) {
        const jit_prim *p = &plan->prims[plan->slot_prim[i]];
        if (p->kind == JIT_INPUT) plan->buffers[i] = plan->slots[p->value->id]->tensor->data;
        if (!p->heap || p->kind == JIT_INPUT || p->kind == JIT_CONST || p->kind == JIT_EXTERN) {
            continue;
        }
        /* Reuse the tensor of the last run if the caller has released it. */
        const pl_datum *last = plan->heap[i];
        if (last != NULL && __atomic_load_n(&last->refs, __ATOMIC_ACQUIRE) == 1 &&
            pl_tensor_is_sole(last->tensor)) {
            continue;
        }
        pl_datum_unref(plan->heap[i]);
        plan->heap[i] = NULL;
        pl_tensor *t = NULL;
        PL_TRY(pl_tensor_new_lasting(p->dtype, p->rank, p->dims, &t, err));
        plan->buffers[i] = t->data;
        PL_TRY(pl_datum_of_tensor_take(t, &plan->heap[i], err));
    }
    return PL_OK;
}

typedef struct part_job {
    const jit_part *part;
    const jit_plan *plan;
} part_job;

static void part_range(void *ctx, int64_t begin, int64_t end) {
    const part_job *j = ctx;
    j->part->fn(j->plan->buffers, j->plan->params, begin, end);
}

/* Blocks per thread. With more, memory of two threads is adjacent: cache lines move between their
 * caches from run to run, and prefetching restarts (relu on 16 MB, 2 threads: 0.39 ms in blocks of
 * 64 KB, 0.20 like this). */
enum { BLOCKS = 8 };

/* A multiple of the grain, because emitted loops expect ends there. Every element is computed alone
 * or with its row, so its bits do not depend on the split. */
static int64_t block_of(const jit_program *p, const jit_part *part) {
    const int64_t blocks = BLOCKS * (int64_t)pl_pool_threads(p->pool);
    const int64_t grains = part->n / part->grain / blocks;
    return grains > 1 ? grains * part->grain : part->grain;
}

static void run_loop(jit_program *p, const jit_plan *plan, const jit_loop *loop) {
    for (size_t i = 0; i < loop->n_parts; i++) {
        part_job job = { &loop->parts[i], plan };
        const bool small = loop->parts[i].n <= loop->parts[i].grain;
        pl_pool_for(small ? NULL : p->pool, loop->parts[i].n, block_of(p, &loop->parts[i]),
                    part_range, &job);
    }
}

static pl_status run_kernel_call(const jit_program *p, const jit_plan *plan, const jit_prim *prim,
                                 pl_err *err) {
    const void *in[PL_EMIT_ARGS_MAX];
    for (int i = 0; i < prim->n_args; i++)
        in[i] = plan->buffers[plan->prims[prim->args[i].prim].slot];
    const pl_emit_args args = { p->pool, in, plan->buffers[prim->slot], prim->kernel->params,
                                p->options->kernels };
    return prim->kernel->run(&args, err);
}

static pl_status check_indices(jit_plan *plan, pl_err *err) {
    if (plan->failed_prim == 0) return PL_OK;
    const pl_node *node = plan->prims[plan->failed_prim - 1].node;
    plan->failed_prim = 0;
    return pl_node_fail(err, PL_E_INVALID, node, "an index is out of range");
}

static pl_status run_steps(jit_program *p, jit_plan *plan, pl_err *err) {
    PL_TRY(show_all(p, plan, plan->first_shown, plan->n_first_shown, err));
    for (size_t s = 0; s < plan->n_steps; s++) {
        const jit_step *step = &plan->steps[s];
        switch (step->kind) {
        case JIT_STEP_BREAK: PL_TRY(run_break(p, plan, plan->prims[step->prim].brk, err)); break;
        case JIT_STEP_CALL: {
            jit_prim *prim = &plan->prims[step->prim];
            PL_TRY(prim->kernel != NULL ? run_kernel_call(p, plan, prim, err)
                                        : jit_call_run(p, plan, prim, err));
            break;
        }
        case JIT_STEP_LOOP: run_loop(p, plan, step->loop); break;
        }
        PL_TRY(check_indices(plan, err));
        PL_TRY(show_all(p, plan, step->shown, step->n_shown, err));
        for (size_t k = 0; k < step->n_dead; k++) {
            pl_datum_unref(plan->slots[step->dead[k]->id]);
            plan->slots[step->dead[k]->id] = NULL;
        }
    }
    return PL_OK;
}

/* A value that shares the memory of another (Identity, or Reshape of a break's output or an
 * input). */
static pl_status output_of(const jit_plan *plan, const pl_value *value, pl_datum **out,
                           pl_err *err) {
    const int ref = plan->value_ref[value->id];
    PL_TRY(datum_of(plan, value, out, err));
    if (*out != NULL) return PL_OK;
    return pl_fail(err, PL_E_INTERNAL, "output '%s' was not computed (%d)", value->name, ref);
}

pl_status jit_plan_run(jit_program *p, jit_plan *plan, const plumb_run_args *args, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    pl_status st = PL_OK;
    p->args = args;
    plan->failed_prim = 0; /* left from a run that ended early */
    if (args->hook != NULL) {
        *args->record = (plumb_record_info){ .n_values = p->n_values + p->n_hidden,
                                             .n_hidden = p->n_hidden,
                                             .n_runs = 1 };
    }
    PL_TRY_GOTO(done, st, take_inputs(plan, (pl_datum *const *)(uintptr_t)args->in, err));
    PL_TRY_GOTO(done, st, bind_buffers(plan, err));
    PL_TRY_GOTO(done, st, run_steps(p, plan, err));
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_datum *d = NULL;
        PL_TRY_GOTO(done, st, output_of(plan, graph->outputs[i], &d, err));
        args->out[i] = pl_datum_public(d);
    }
done:
    clear_slots(plan);
    p->args = NULL;
    return st;
}

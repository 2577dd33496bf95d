/* Primitives to steps.
 *
 * Primitives are visited in the order of the nodes. Each joins the latest step that it reads from,
 * if that is a loop over the same indices; otherwise it starts a new step. So a step only reads
 * from earlier steps. A map whose only reader uses it through a view is folded into that reader and
 * never gets a loop of its own. */
#include <string.h>

#include "backends/jit/jit_call.h"
#include "base/alloc.h"
#include "base/array.h"

enum { LOOP_PRIMS_MAX = 400, FOLD_DEPTH_MAX = 32 };

/* ---- readers of each value ---- */

static void mark_live(jit_plan *plan, int at) {
    jit_prim *p = &plan->prims[at];
    if (p->live) return;
    p->live = true;
}

/* In reverse order: a primitive is live if it is a root or a live primitive reads it. */
static void find_live(jit_plan *plan) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const int ref = plan->value_ref[graph->outputs[i]->id];
        if (ref >= 0) mark_live(plan, plan->refs[ref].prim);
    }
    for (size_t i = plan->n_prims; i-- > 0;) {
        jit_prim *p = &plan->prims[i];
        if (p->kind == JIT_BREAK) p->live = true;
        if (!p->live) continue;
        for (int k = 0; k < p->n_args; k++) {
            mark_live(plan, p->args[k].prim);
            plan->prims[p->args[k].prim].uses++;
        }
    }
}

/* fuse=off: values without readers are computed anyway, so that they can be recorded. */
static void keep_values(jit_plan *plan) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const int ref = plan->value_ref[graph->values[i]->id];
        if (ref >= 0 && graph->values[i]->producer != NULL) mark_live(plan, plan->refs[ref].prim);
    }
}

static bool repeats(const jit_prim *from, const jit_ref *ref) {
    int64_t n = 1;
    for (int d = 0; d < ref->rank; d++)
        n *= ref->dims[d];
    return n > from->n;
}

/* In reverse order, so that an index computation read only by a folded-in one is folded in, too. */
static void fold_in(jit_plan *plan) {
    for (size_t i = plan->n_prims; i-- > 0;) {
        const jit_prim *p = &plan->prims[i];
        if (!p->live || (p->kind != JIT_MAP && p->kind != JIT_LOAD && p->kind != JIT_REDUCE &&
                         p->kind != JIT_CONCAT)) {
            continue;
        }
        for (int k = 0; k < p->n_args; k++) {
            const jit_ref *ref = &p->args[k];
            jit_prim *from = &plan->prims[ref->prim];
            if (from->kind != JIT_MAP || from->forced || from->uses != 1 || ref->flat) continue;
            const pl_emit_index same = jit_index_identity(from->rank);
            const bool plain = p->kind != JIT_CONCAT && from->rank == ref->rank &&
                               memcmp(from->dims, ref->dims, sizeof(from->dims)) == 0 &&
                               jit_index_equal(&ref->at, &same, ref->dims);
            /* Index computations are cheap, and those that do not vary along a row are computed
             * once per row. */
            const bool place = from->dtype == PL_I64;
            const int depth = p->folded_in ? p->depth + 1 : 1;
            if (depth > FOLD_DEPTH_MAX) continue;
            if (plain ? place && p->folded_in : place || !repeats(from, ref)) {
                from->folded_in = true;
                from->depth = depth;
            }
        }
    }
}

void jit_each_read(const jit_plan *plan, const jit_prim *prim, jit_read_fn fn, void *ctx) {
    for (int k = 0; k < prim->n_args; k++) {
        const jit_prim *from = &plan->prims[prim->args[k].prim];
        if (from->folded_in) {
            jit_each_read(plan, from, fn, ctx);
        } else {
            fn(ctx, prim->args[k].prim);
        }
    }
}

typedef struct last_step {
    const jit_plan *plan;
    int step;
} last_step;

static void note_step(void *ctx, int prim) {
    last_step *l = ctx;
    if (l->plan->prims[prim].step > l->step) l->step = l->plan->prims[prim].step;
}

/* ---- joining a loop ---- */

/* Every read of a primitive in the loop must use the same index. */
static bool reads_fit(const jit_plan *plan, const jit_prim *reader, const pl_emit_index *place,
                      bool row, int step, const jit_loop *loop) {
    for (int k = 0; k < reader->n_args; k++) {
        const jit_ref *ref = &reader->args[k];
        const jit_prim *from = &plan->prims[ref->prim];
        const pl_emit_index at = jit_index_compose(&ref->at, place);
        if (from->folded_in) {
            if (!reads_fit(plan, from, &at, row, step, loop)) return false;
            continue;
        }
        if (from->step != step) continue;
        if (reader->kind == JIT_LOAD && k == 0) return false; /* needs the whole tensor first */
        if (ref->flat || (row && !from->row)) return false;
        if (!jit_index_equal(&at, &from->place, loop->dims)) return false;
    }
    return true;
}

static pl_emit_index row_place(const jit_loop *loop) {
    pl_emit_index at = jit_index_identity(loop->rank);
    for (int d = 0; d < loop->rank; d++)
        if ((loop->inner >> d & 1) != 0) at.c[d][d] = 0;
    return at;
}

static bool has_dims(const jit_loop *loop, int rank, const int64_t *dims, bool row) {
    if (rank != loop->rank) return false;
    for (int d = 0; d < rank; d++) {
        const bool one = row && (loop->inner >> d & 1) != 0;
        if (dims[d] != (one ? 1 : loop->dims[d])) return false;
    }
    return true;
}

static bool join_map(const jit_plan *plan, jit_prim *p, const jit_loop *loop, int step) {
    p->row = false;
    if (has_dims(loop, p->rank, p->dims, false)) {
        p->place = jit_index_identity(loop->rank);
        if (reads_fit(plan, p, &p->place, false, step, loop)) return true;
    }
    if (loop->inner == 0 || loop->follows) return false;
    p->row = true;
    if (has_dims(loop, p->rank, p->dims, true)) {
        p->place = row_place(loop);
        if (reads_fit(plan, p, &p->place, true, step, loop)) return true;
    }
    /* The same without the reduced dims. */
    pl_emit_index at;
    memset(&at, 0, sizeof(at));
    at.cols = loop->rank;
    for (int d = 0; d < loop->rank; d++) {
        if ((loop->inner >> d & 1) != 0) continue;
        if (at.rows >= p->rank || p->dims[at.rows] != loop->dims[d]) return false;
        at.c[at.rows++][d] = 1;
    }
    if (at.rows != p->rank) return false;
    p->place = at;
    return reads_fit(plan, p, &p->place, true, step, loop);
}

static bool join_reduce(const jit_plan *plan, jit_prim *p, jit_loop *loop, int step) {
    const jit_ref *ref = &p->args[0];
    if (loop->follows || loop->concat >= 0 || !has_dims(loop, ref->rank, ref->dims, false))
        return false;
    if (loop->inner != 0 && loop->inner != p->axes) return false;
    const pl_emit_index all = jit_index_identity(loop->rank);
    if (!reads_fit(plan, p, &all, false, step, loop)) return false;
    loop->inner = p->axes;
    p->row = true;
    p->place = row_place(loop);
    return true;
}

/* An epilogue runs along the columns of a kernel, which may be several dims: every operand must be
 * able to treat them as one. */
static bool columns_merge(const jit_plan *plan, const jit_prim *p, const pl_emit_index *place,
                          const jit_loop *loop, int step) {
    for (int k = 0; k < p->n_args; k++) {
        const jit_prim *from = &plan->prims[p->args[k].prim];
        int64_t c[JIT_RANK], at, stride = -1, n = 1;
        jit_ref ref = p->args[k];
        ref.at = jit_index_compose(&p->args[k].at, place);
        if (from->folded_in) {
            if (!columns_merge(plan, from, &ref.at, loop, step)) return false;
            continue;
        }
        if (from->step == step) continue;
        jit_ref_flat(plan, &ref, c, &at);
        for (int d = loop->rank - 1; d >= 0 && (loop->inner >> d & 1) != 0; d--) {
            if (loop->dims[d] == 1) continue;
            if (stride >= 0 && c[d] != stride * n) return false;
            if (stride < 0) stride = c[d];
            n *= loop->dims[d];
        }
    }
    return true;
}

static bool join(const jit_program *program, const jit_plan *plan, jit_prim *p, int step) {
    jit_loop *loop = plan->steps[step].loop;
    if (loop->n_prims >= LOOP_PRIMS_MAX) return false;
    const int first = loop->follows ? plan->steps[step].prim : loop->prims[0];
    if (!program->options->fuse && plan->prims[first].node != p->node) return false;
    const pl_emit_index whole = jit_index_identity(p->rank);
    if (loop->follows && (p->rank != loop->rank || !columns_merge(plan, p, &whole, loop, step))) {
        return false;
    }
    if (p->kind == JIT_MAP || p->kind == JIT_LOAD) return join_map(plan, p, loop, step);
    if (p->kind == JIT_REDUCE) return join_reduce(plan, p, loop, step);
    return false;
}

/* ---- steps ---- */

static jit_step *add_step(jit_plan *plan, jit_step_kind kind, int prim) {
    if (!PL_ARRAY_ROOM(plan->steps, plan->n_steps, &plan->steps_capacity)) return NULL;
    jit_step *s = &plan->steps[plan->n_steps++];
    *s = (jit_step){ .kind = kind, .prim = prim };
    return s;
}

static pl_status open_loop(jit_plan *plan, jit_prim *p, pl_err *err) {
    jit_loop *loop = pl_arena_alloc(plan->arena, sizeof(*loop));
    int *prims = pl_arena_array(plan->arena, LOOP_PRIMS_MAX, sizeof(int));
    jit_step *s = add_step(plan, JIT_STEP_LOOP, -1);
    if (loop == NULL || prims == NULL || s == NULL) return pl_fail_memory(err, sizeof(*loop));
    s->loop = loop;
    loop->prims = prims;
    loop->concat = p->kind == JIT_CONCAT ? p->axis : -1;
    const bool reduces = p->kind == JIT_REDUCE;
    loop->rank = reduces ? p->args[0].rank : p->rank;
    memcpy(loop->dims, reduces ? p->args[0].dims : p->dims, sizeof(loop->dims));
    loop->inner = reduces ? p->axes : 0;
    p->row = reduces;
    p->place = reduces ? row_place(loop) : jit_index_identity(loop->rank);
    return PL_OK;
}

/* An empty loop after a call, for its epilogue. */
static pl_status open_after(jit_plan *plan, int step, pl_err *err) {
    jit_step *s = &plan->steps[step];
    jit_prim *call = &plan->prims[s->prim];
    if (s->loop != NULL) return PL_OK;
    jit_loop *loop = pl_arena_alloc(plan->arena, sizeof(*loop));
    int *prims = pl_arena_array(plan->arena, LOOP_PRIMS_MAX, sizeof(int));
    if (loop == NULL || prims == NULL) return pl_fail_memory(err, sizeof(*loop));
    loop->prims = prims;
    loop->concat = -1;
    loop->follows = true;
    loop->rank = call->rank;
    memcpy(loop->dims, call->dims, sizeof(loop->dims));
    for (int d = call->rank - jit_call_column_dims(call->call); d < call->rank; d++)
        loop->inner |= 1u << d;
    call->place = jit_index_identity(call->rank);
    s->loop = loop;
    return PL_OK;
}

/* Depth of nested folded-in primitives, including this one. */
static int height_of(const jit_plan *plan, const jit_prim *p) {
    int height = 1;
    for (int k = 0; k < p->n_args; k++) {
        const jit_prim *from = &plan->prims[p->args[k].prim];
        if (from->folded_in && from->depth >= height) height = from->depth + 1;
    }
    return height;
}

/* A cheap map with a single reader that fits no loop is computed by its reader. In a loop of its
 * own it would be stored, and its reader might have to join that loop instead of the one of its
 * other operand. */
static bool can_wait(const jit_program *program, const jit_plan *plan, const jit_prim *p, int at) {
    if (height_of(plan, p) > FOLD_DEPTH_MAX) return false;
    if (!jit_pass_on(program, JIT_PASS_INLINE) || !program->options->fuse || p->kind != JIT_MAP ||
        p->forced || p->uses != 1 || strstr(p->expr, "px_") != NULL ||
        strchr(p->expr, '/') != NULL) {
        return false;
    }
    for (size_t i = (size_t)at + 1; i < plan->n_prims; i++) {
        const jit_prim *q = &plan->prims[i];
        for (int k = 0; q->live && k < q->n_args; k++)
            if (q->args[k].prim == at) {
                return q->kind == JIT_MAP && !q->args[k].flat && !repeats(p, &q->args[k]);
            }
    }
    return false;
}

static pl_status place_prim(jit_program *program, jit_plan *plan, int at, pl_err *err) {
    jit_prim *p = &plan->prims[at];
    last_step last = { plan, -1 };
    switch (p->kind) {
    case JIT_INPUT:
    case JIT_CONST:
    case JIT_IOTA: return PL_OK;
    case JIT_EXTERN: p->step = plan->prims[p->axis].step; return PL_OK;
    case JIT_BREAK:
    case JIT_CALL:
        if (add_step(plan, p->kind == JIT_CALL ? JIT_STEP_CALL : JIT_STEP_BREAK, at) == NULL) {
            return pl_fail_memory(err, sizeof(jit_step));
        }
        p->step = (int)plan->n_steps - 1;
        return PL_OK;
    case JIT_MAP:
    case JIT_LOAD:
    case JIT_REDUCE:
    case JIT_CONCAT: break;
    }
    if (p->folded_in) {
        p->depth = height_of(plan, p);
        return PL_OK;
    }
    jit_each_read(plan, p, note_step, &last);
    const bool after_call = last.step >= 0 && plan->steps[last.step].kind == JIT_STEP_CALL &&
                            plan->prims[plan->steps[last.step].prim].call != NULL;
    if (after_call && p->kind == JIT_MAP && jit_pass_on(program, JIT_PASS_EPILOGUE)) {
        PL_TRY(open_after(plan, last.step, err));
    }
    const bool joined =
        last.step >= 0 && plan->steps[last.step].loop != NULL && join(program, plan, p, last.step);
    if (!joined && can_wait(program, plan, p, at)) {
        p->depth = height_of(plan, p);
        p->folded_in = true;
        return PL_OK;
    }
    if (!joined) {
        PL_TRY(open_loop(plan, p, err));
        last.step = (int)plan->n_steps - 1;
    }
    jit_loop *loop = plan->steps[last.step].loop;
    loop->prims[loop->n_prims++] = at;
    p->step = last.step;
    return PL_OK;
}

pl_status jit_fuse(jit_program *p, jit_plan *plan, pl_err *err) {
    if (!p->options->fuse) keep_values(plan);
    find_live(plan);
    if (jit_pass_on(p, JIT_PASS_INLINE)) fold_in(plan);
    for (size_t i = 0; i < plan->n_prims; i++) {
        if (plan->prims[i].live) PL_TRY(place_prim(p, plan, (int)i, err));
    }
    for (size_t s = 0; s < plan->n_steps; s++) /* removes empty epilogues */
        if (plan->steps[s].loop != NULL && plan->steps[s].loop->n_prims == 0) {
            plan->steps[s].loop = NULL;
        }
    return PL_OK;
}

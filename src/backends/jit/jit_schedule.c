/* Memory layout, lifetimes of values, and after which step they can be recorded.
 *
 * A primitive has memory if a later step reads it, or if it must have (outputs, operands of
 * kernels). Outputs and inputs of breaks are separate tensors; everything else is in one block,
 * where buffers with disjoint lifetimes may overlap. */
#include <stdlib.h>
#include <string.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"

enum { ALIGN = 64, PLACED_MAX = 4096 };

/* ---- readers of each value, by time ---- */

typedef struct reading {
    jit_plan *plan;
    int step;
} reading;

static void note_read(void *ctx, int at) {
    const reading *r = ctx;
    jit_prim *p = &r->plan->prims[at];
    if (p->kind == JIT_IOTA) return;
    if (p->step != r->step) p->in_memory = true;
    if (r->step > p->last_use) p->last_use = r->step;
}

static bool always_in_memory(const jit_prim *p) {
    return p->forced || p->kind == JIT_CALL || p->kind == JIT_INPUT || p->kind == JIT_CONST ||
           p->kind == JIT_EXTERN;
}

static void find_memory(jit_plan *plan) {
    for (size_t i = 0; i < plan->n_prims; i++) {
        jit_prim *p = &plan->prims[i];
        p->last_use = p->step;
        p->in_memory = p->live && !p->folded_in && p->kind != JIT_BREAK && always_in_memory(p);
    }
    for (size_t i = 0; i < plan->n_prims; i++) {
        const jit_prim *p = &plan->prims[i];
        reading r = { plan, p->step };
        if (p->live && !p->folded_in) jit_each_read(plan, p, note_read, &r);
    }
}

/* If only its epilogue reads the result of a call, the epilogue overwrites it in place. */
static void find_overwritten(jit_plan *plan) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        const jit_step *step = &plan->steps[s];
        if (step->kind != JIT_STEP_CALL || step->loop == NULL) continue;
        jit_prim *call = &plan->prims[step->prim];
        if (call->forced || call->last_use > (int)s) continue;
        for (size_t i = step->loop->n_prims; i-- > 0;) {
            jit_prim *p = &plan->prims[step->loop->prims[i]];
            if (!p->in_memory || p->dtype != call->dtype || p->n != call->n) continue;
            p->place_of = step->prim;
            call->overwritten = true;
            break;
        }
    }
}

static bool is_computed(const jit_prim *p) {
    return p->kind == JIT_MAP || p->kind == JIT_LOAD || p->kind == JIT_REDUCE ||
           p->kind == JIT_CONCAT || p->kind == JIT_CALL;
}

/* ---- one block for all ---- */

typedef struct placed {
    jit_prim *prim;
} placed;

static int larger_first(const void *a, const void *b) {
    const jit_prim *x = ((const placed *)a)->prim, *y = ((const placed *)b)->prim;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool meet(const jit_prim *a, const jit_prim *b) {
    return a->step <= b->last_use && b->step <= a->last_use;
}

/* The lowest offset that overlaps no buffer alive at the same time. */
static size_t find_place(const placed *list, size_t n, const jit_prim *p) {
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n; i++) {
            const jit_prim *q = list[i].prim;
            if (!meet(p, q) || q->offset >= at + p->n_bytes || at >= q->offset + q->n_bytes) {
                continue;
            }
            at = q->offset + q->n_bytes;
            moved = true;
        }
    }
    return at;
}

static pl_status place_all(const jit_program *program, jit_plan *plan, pl_err *err) {
    placed *list = pl_calloc(plan->n_prims + 1, sizeof(*list));
    size_t n = 0;
    if (list == NULL) return pl_fail_memory(err, plan->n_prims);
    for (size_t i = 0; i < plan->n_prims; i++) {
        jit_prim *p = &plan->prims[i];
        if (!p->in_memory || p->heap || p->overwritten || !is_computed(p)) continue;
        const size_t bytes = (size_t)p->n * pl_dtype_bytes(p->dtype);
        p->n_bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        plan->n_memory_naive += p->n_bytes;
        list[n++].prim = p;
    }
    const bool reuse = jit_pass_on(program, JIT_PASS_REUSE);
    qsort(list, n, sizeof(*list), larger_first);
    for (size_t i = 0; i < n; i++) {
        jit_prim *p = list[i].prim;
        /* The search is quadratic: later buffers get their own memory. */
        p->offset = reuse && i < PLACED_MAX ? find_place(list, i, p) : plan->n_memory;
        if (p->offset + p->n_bytes > plan->n_memory) plan->n_memory = p->offset + p->n_bytes;
    }
    pl_free(list);
    if (plan->n_memory == 0) return PL_OK;
    plan->memory = pl_large_alloc(plan->n_memory);
    return plan->memory == NULL ? pl_fail_memory(err, plan->n_memory) : PL_OK;
}

static pl_status number_slots(jit_plan *plan, pl_err *err) {
    plan->slot_prim = pl_arena_array(plan->arena, plan->n_prims, sizeof(int));
    plan->buffers = pl_arena_array(plan->arena, plan->n_prims + 1, sizeof(void *));
    plan->heap = pl_arena_array(plan->arena, plan->n_prims, sizeof(pl_datum *));
    if (plan->slot_prim == NULL || plan->buffers == NULL || plan->heap == NULL) {
        return pl_fail_memory(err, plan->n_prims);
    }
    for (size_t i = 0; i < plan->n_prims; i++) {
        jit_prim *p = &plan->prims[i];
        if (!p->in_memory || p->overwritten) continue;
        p->slot = (int)plan->n_slots;
        if (p->place_of >= 0) plan->prims[p->place_of].slot = p->slot;
        plan->slot_prim[plan->n_slots++] = (int)i;
    }
    plan->buffers[plan->n_slots] = &plan->failed_prim;
    for (size_t i = 0; i < plan->n_slots; i++) {
        const jit_prim *p = &plan->prims[plan->slot_prim[i]];
        if (p->kind == JIT_CONST) plan->buffers[i] = p->tensor->data;
        if (is_computed(p) && !p->heap) plan->buffers[i] = plan->memory + p->offset;
    }
    return PL_OK;
}

/* ---- data of breaks ---- */

typedef struct deaths {
    jit_plan *plan;
    int *last; /* by value id */
    int step;
} deaths;

static void note_value(const deaths *d, const pl_value *value) {
    if (value != NULL && value->graph == d->plan->model->graph) d->last[value->id] = d->step;
}

static pl_status note_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++) {
        for (uint32_t k = 0; k < body->nodes[i]->n_in; k++)
            note_value(ctx, body->nodes[i]->in[k]);
        PL_TRY(pl_node_each_body(body->nodes[i], note_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        note_value(ctx, body->outputs[i]);
    return PL_OK;
}

static pl_status find_last_steps(deaths *d, pl_err *err) {
    const jit_plan *plan = d->plan;
    for (size_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].kind != JIT_STEP_BREAK) continue;
        const pl_node *node = plan->prims[plan->steps[s].prim].node;
        d->step = (int)s;
        for (uint32_t k = 0; k < node->n_in; k++)
            note_value(d, node->in[k]);
        for (uint32_t k = 0; k < node->n_out; k++)
            note_value(d, node->out[k]);
        PL_TRY(pl_node_each_body(node, note_body, d, err));
    }
    for (size_t i = 0; i < plan->n_prims; i++) {
        const jit_prim *p = &plan->prims[i];
        if (p->kind != JIT_EXTERN || !p->live) continue;
        if (p->last_use > d->last[p->value->id]) d->last[p->value->id] = p->last_use;
        if (p->leaves) d->last[p->value->id] = (int)plan->n_steps; /* kept for an output */
    }
    return PL_OK;
}

static pl_status find_deaths(jit_plan *plan, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    deaths d = { .plan = plan };
    d.last = pl_arena_array(plan->arena, plan->model->n_values, sizeof(int));
    size_t *count = pl_arena_array(plan->arena, plan->n_steps, sizeof(size_t));
    if (d.last == NULL || count == NULL) return pl_fail_memory(err, plan->model->n_values);
    for (size_t i = 0; i < plan->model->n_values; i++)
        d.last[i] = -1;
    PL_TRY(find_last_steps(&d, err));
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < graph->n_values; i++) {
            const pl_value *value = graph->values[i];
            const int last = d.last[value->id];
            if (last < 0 || last >= (int)plan->n_steps || value->is_output) continue;
            jit_step *s = &plan->steps[last];
            if (pass == 1) s->dead[s->n_dead++] = value;
            count[last]++;
        }
        for (size_t s = 0; pass == 0 && s < plan->n_steps; s++) {
            plan->steps[s].dead = pl_arena_array(plan->arena, count[s], sizeof(pl_value *));
            if (plan->steps[s].dead == NULL) return pl_fail_memory(err, count[s]);
        }
    }
    return PL_OK;
}

/* ---- what can be shown ---- */

/* The step after which a value is complete and in order in memory; -1: from the start; -2:
 * never. */
static int shown_after(const jit_plan *plan, const pl_value *value) {
    const int ref = plan->value_ref[value->id];
    if (value->producer == NULL) return -2;
    if (plan->constants[value->id] != NULL) return -1;
    if (ref < 0 || !jit_ref_is_whole(plan, &plan->refs[ref])) return -2;
    const jit_prim *p = &plan->prims[plan->refs[ref].prim];
    if (!p->in_memory || p->overwritten || p->value == value) return -2; /* shown by its break */
    return p->step;
}

/* Room for one more; NULL when out of memory. */
static void *grow(pl_arena *arena, void *list, size_t n, size_t size) {
    if (n > 0 && (n & (n - 1)) != 0) return list;
    void *more = pl_arena_array(arena, n == 0 ? 1 : 2 * n, size);
    if (more != NULL && n > 0) memcpy(more, list, n * size);
    return more;
}

/* Finds a value with the same memory and shape (Identity, or a Reshape to the same shape): one
 * tensor under several names. */
static jit_shown *find_same(const jit_plan *plan, jit_shown *list, size_t n, const jit_ref *ref) {
    for (size_t i = n; ref != NULL && i > 0; i--) {
        jit_shown *s = &list[i - 1];
        if (s->prim != ref->prim) continue;
        const jit_ref *other = &plan->refs[plan->value_ref[s->value->id]];
        if (other->rank == ref->rank &&
            memcmp(other->dims, ref->dims, (size_t)ref->rank * sizeof(int64_t)) == 0)
            return s;
    }
    return NULL;
}

static pl_status add_shown(jit_plan *plan, const pl_value *value, jit_shown **list, size_t *n,
                           pl_err *err) {
    const int at = plan->value_ref[value->id];
    const jit_ref *ref = at < 0 || plan->constants[value->id] != NULL ? NULL : &plan->refs[at];
    jit_shown *s = find_same(plan, *list, *n, ref);
    if (s == NULL) {
        *list = grow(plan->arena, *list, *n, sizeof(jit_shown));
        if (*list == NULL) return pl_fail_memory(err, *n);
        s = &(*list)[(*n)++];
        *s = (jit_shown){ .value = value, .prim = ref == NULL ? -1 : ref->prim };
    }
    s->names = grow(plan->arena, s->names, s->n_names, sizeof(*s->names));
    if (s->names == NULL) return pl_fail_memory(err, s->n_names);
    s->names[s->n_names++] = value->name;
    return PL_OK;
}

static pl_status find_shown(jit_plan *plan, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        const int after = shown_after(plan, value);
        if (after == -2) continue;
        jit_step *step = after < 0 ? NULL : &plan->steps[after];
        PL_TRY(add_shown(plan, value, step == NULL ? &plan->first_shown : &step->shown,
                         step == NULL ? &plan->n_first_shown : &step->n_shown, err));
    }
    return PL_OK;
}

pl_status jit_schedule(jit_program *p, jit_plan *plan, pl_err *err) {
    find_memory(plan);
    if (jit_pass_on(p, JIT_PASS_OVERWRITE)) find_overwritten(plan);
    PL_TRY(place_all(p, plan, err));
    PL_TRY(number_slots(plan, err));
    PL_TRY(find_deaths(plan, err));
    return find_shown(plan, err);
}

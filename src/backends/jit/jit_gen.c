/* Translates a loop to instructions.
 *
 * A row of the loop runs in stages: users of a reduction's result are in a later stage. A value
 * that a later stage needs again is kept in a small array if it is expensive, and recomputed if it
 * is cheap. Adjacent dims are merged where all accesses allow it. */
#include "backends/jit/jit_gen.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

enum { STASH_BYTES_MAX = 64 << 10 };

void jit_gen_release(gen *g) {
    pl_free(g->instrs);
    pl_free(g->accesses);
    pl_free(g->acts);
    pl_free(g->stashed);
    pl_free(g->section);
    pl_free(g->outer_c);
    pl_free(g->inner_c);
}

static void *grown(gen *g, void *array, size_t n, size_t *capacity, size_t size) {
    if (n >= *capacity && !pl_array_grow(&array, capacity, size)) g->failed = true;
    return array;
}

/* ---- stages ---- */

typedef struct stage_of {
    const jit_plan *plan;
    int step, stage;
} stage_of;

static void note_stage(void *ctx, int at) {
    stage_of *s = ctx;
    const jit_prim *p = &s->plan->prims[at];
    if (p->step == s->step && p->stage > s->stage) s->stage = p->stage;
}

int jit_gen_stages(jit_plan *plan, int step) {
    const jit_loop *loop = plan->steps[step].loop;
    int n = 1;
    for (size_t i = 0; i < loop->n_prims; i++) {
        jit_prim *p = &plan->prims[loop->prims[i]];
        stage_of s = { plan, step, 0 };
        jit_each_read(plan, p, note_stage, &s);
        p->stage = s.stage + (p->kind == JIT_REDUCE);
        const int loops = p->row ? p->stage : p->stage + 1;
        if (loops > n) n = loops;
    }
    return n;
}

/* ---- pieces of Concat ---- */

size_t jit_gen_pieces(const jit_plan *plan, const jit_loop *loop, int64_t *borders, size_t max) {
    size_t n = 1;
    borders[0] = 0;
    for (size_t i = 0; loop->concat >= 0 && i < loop->n_prims; i++) {
        const jit_prim *p = &plan->prims[loop->prims[i]];
        int64_t at = 0;
        for (int k = 0; p->kind == JIT_CONCAT && k < p->n_args; k++) {
            at += p->args[k].dims[p->axis];
            size_t place = 0;
            while (place < n && borders[place] < at)
                place++;
            if (place < n && borders[place] == at) continue;
            if (n + 1 >= max) return 0;
            memmove(borders + place + 1, borders + place, (n - place) * sizeof(*borders));
            borders[place] = at;
            n++;
        }
    }
    if (n > 1) return n - 1;
    borders[1] = loop->concat >= 0 ? loop->dims[loop->concat] : 0;
    return 1;
}

/* ---- values ---- */

static int add_access(gen *g, int prim, const int64_t *c, int64_t k) {
    for (size_t i = 0; i < g->n_accesses; i++) {
        const gen_access *a = &g->accesses[i];
        bool same = a->prim == prim && a->k == k;
        for (int d = 0; same && d < g->loop->rank; d++)
            same = a->c[d] == c[d] || g->dims[d] == 1;
        if (same) return (int)i;
    }
    g->accesses = grown(g, g->accesses, g->n_accesses, &g->accesses_capacity, sizeof(gen_access));
    if (g->failed) return 0;
    gen_access *a = &g->accesses[g->n_accesses];
    a->prim = prim;
    a->k = k;
    for (int d = 0; d < JIT_RANK; d++)
        a->c[d] = d < g->loop->rank && g->dims[d] > 1 ? c[d] : 0;
    return (int)g->n_accesses++;
}

/* An element of a primitive's memory at an index map over the loop's dims. */
static int access_at(gen *g, int prim, bool flat, const pl_emit_index *at) {
    const jit_prim *p = &g->plan->prims[prim];
    jit_ref ref = { .prim = prim, .flat = flat, .at = *at };
    int64_t c[JIT_RANK], k;
    (void)p;
    jit_ref_flat(g->plan, &ref, c, &k);
    return add_access(g, prim, c, k);
}

static bool access_varies(const gen *g, int access) {
    for (int d = 0; d < g->loop->rank; d++)
        if ((g->loop->inner >> d & 1) != 0 && g->accesses[access].c[d] != 0) return true;
    return g->loop->inner == 0;
}

static int find_instr(const gen *g, int prim, const pl_emit_index *place, int stage) {
    for (size_t i = 0; i < g->n_instrs; i++) {
        const gen_instr *in = &g->instrs[i];
        /* A value computed once per row can be used in later stages, but not in earlier ones. */
        if (in->prim != prim || (in->varies ? in->stage != stage : in->stage > stage)) continue;
        if (jit_index_equal(&in->place, place, g->dims)) return (int)i;
    }
    return -1;
}

static int add_instr(gen *g, const gen_instr *in) {
    g->instrs = grown(g, g->instrs, g->n_instrs, &g->instrs_capacity, sizeof(gen_instr));
    if (g->failed) return 0;
    g->instrs[g->n_instrs] = *in;
    return (int)g->n_instrs++;
}

static int value_of(gen *g, int prim, bool flat, const pl_emit_index *at, int stage);

static int load(gen *g, int prim, bool flat, const pl_emit_index *at, int stage) {
    gen_instr in = { .kind = GEN_LOAD, .prim = prim, .stage = stage, .place = *at };
    const jit_prim *p = &g->plan->prims[prim];
    if (p->kind == JIT_CONST && p->n == 1) {
        in.kind = GEN_NUMBER;
        return add_instr(g, &in);
    }
    in.access = access_at(g, prim, flat, at);
    if (g->failed) return 0;
    in.varies = access_varies(g, in.access);
    return add_instr(g, &in);
}

/* Concat: finds the argument that contains the piece. */
static int piece_of(gen *g, const jit_prim *p, const pl_emit_index *at, int stage) {
    int64_t begin = 0;
    for (int k = 0; k < p->n_args; k++) {
        const int64_t end = begin + p->args[k].dims[p->axis];
        if (g->low >= begin && g->low < end) {
            pl_emit_index shifted = *at;
            shifted.k[p->axis] -= begin;
            const pl_emit_index inside = jit_index_compose(&p->args[k].at, &shifted);
            return value_of(g, p->args[k].prim, p->args[k].flat, &inside, stage);
        }
        begin = end;
    }
    g->failed = true;
    return 0;
}

/* The position varies, the base does not: use the address of its first element. */
static int pick(gen *g, int prim, const pl_emit_index *at, int stage) {
    const jit_ref *base = &g->plan->prims[prim].args[0], *where = &g->plan->prims[prim].args[1];
    static const int64_t nowhere[JIT_RANK];
    gen_instr in = { .kind = GEN_PICK, .prim = prim, .stage = stage, .place = *at };
    const pl_emit_index inside = jit_index_compose(&where->at, at);
    in.args[0] = value_of(g, where->prim, where->flat, &inside, stage);
    if (g->failed) return 0;
    in.access = add_access(g, base->prim, nowhere, 0);
    in.varies = g->instrs[in.args[0]].varies;
    return add_instr(g, &in);
}

static int compute(gen *g, int prim, const pl_emit_index *at, int stage) {
    const jit_prim *p = &g->plan->prims[prim];
    if (p->kind == JIT_CONCAT) return piece_of(g, p, at, stage);
    if (p->kind == JIT_LOAD) return pick(g, prim, at, stage);
    gen_instr in = { .kind = GEN_EXPR,
                     .prim = prim,
                     .expr = p->expr,
                     .n_args = p->n_args,
                     .stage = stage,
                     .place = *at };
    for (int k = 0; k < p->n_args; k++) {
        const pl_emit_index inside = jit_index_compose(&p->args[k].at, at);
        in.args[k] = value_of(g, p->args[k].prim, p->args[k].flat, &inside, stage);
        if (g->failed) return 0;
        in.varies = in.varies || g->instrs[in.args[k]].varies;
    }
    return add_instr(g, &in);
}

static int value_of(gen *g, int prim, bool flat, const pl_emit_index *at, int stage) {
    const jit_prim *p = &g->plan->prims[prim];
    if (g->failed) return 0;
    const int found = find_instr(g, prim, at, stage);
    if (found >= 0) return found;
    const bool ours = p->step == g->step && !p->folded_in && p->step >= 0 && p->kind != JIT_CALL;
    if (!ours && !p->folded_in) return load(g, prim, flat, at, stage);
    if (ours && p->kind == JIT_REDUCE) {
        const gen_instr in = { .kind = GEN_SCALAR, .prim = prim, .stage = stage, .place = *at };
        return add_instr(g, &in);
    }
    if (ours && !p->row && p->stage < stage && g->stashed[prim]) {
        const gen_instr in = {
            .kind = GEN_STASH, .prim = prim, .stage = stage, .place = *at, .varies = true
        };
        return add_instr(g, &in);
    }
    if (ours && !p->row && p->stage < stage && p->in_memory) return load(g, prim, false, at, stage);
    return compute(g, prim, at, stage);
}

/* ---- kept values ---- */

static bool is_dear(const jit_prim *p) {
    return p->kind == JIT_MAP && (strstr(p->expr, "px_") != NULL || strchr(p->expr, '/') != NULL);
}

typedef struct later {
    gen *g;
    int stage;
} later;

static void note_later(void *ctx, int at) {
    const later *l = ctx;
    const jit_prim *p = &l->g->plan->prims[at];
    if (p->step != l->g->step || p->row || p->stage >= l->stage || p->in_memory) return;
    if (is_dear(p)) l->g->stashed[at] = true;
}

static void choose_stashes(gen *g) {
    int64_t n = 1;
    for (int d = 0; d < g->loop->rank; d++)
        if ((g->loop->inner >> d & 1) != 0) n *= g->dims[d];
    if (g->loop->inner == 0 || n * 8 > STASH_BYTES_MAX) return;
    for (size_t i = 0; i < g->loop->n_prims; i++) {
        const jit_prim *p = &g->plan->prims[g->loop->prims[i]];
        if (p->row && p->kind != JIT_REDUCE) continue;
        later l = { g, p->kind == JIT_REDUCE ? p->stage - 1 : p->stage };
        jit_each_read(g->plan, p, note_later, &l);
    }
}

static void add_act(gen *g, const gen_act *act) {
    g->acts = grown(g, g->acts, g->n_acts, &g->acts_capacity, sizeof(gen_act));
    if (!g->failed) g->acts[g->n_acts++] = *act;
}

static pl_emit_index base_of(const gen *g) {
    pl_emit_index at = jit_index_identity(g->loop->rank);
    if (g->loop->concat >= 0) at.k[g->loop->concat] = g->low;
    return at;
}

static void act_on(gen *g, int prim) {
    const jit_prim *p = &g->plan->prims[prim];
    const pl_emit_index base = base_of(g), at = jit_index_compose(&p->place, &base);
    gen_act act = { .prim = prim, .stage = p->stage, .row = p->row };
    if (p->kind == JIT_REDUCE) {
        act.kind = GEN_FOLD;
        act.stage = p->stage - 1;
        act.row = false;
        const pl_emit_index inside = jit_index_compose(&p->args[0].at, &base);
        act.instr = value_of(g, p->args[0].prim, p->args[0].flat, &inside, act.stage);
        add_act(g, &act);
        act.stage = p->stage;
        act.row = true;
    }
    if (!p->in_memory && !g->stashed[prim]) return;
    act.kind = p->in_memory ? GEN_STORE : GEN_KEEP;
    act.instr = value_of(g, prim, false, &at, p->row ? g->n_stages : p->stage);
    if (p->in_memory) act.access = access_at(g, prim, false, &at);
    if (p->row) act.stage = g->n_stages;
    add_act(g, &act);
}

/* ---- merging dims ---- */

static bool can_merge(const gen *g, int a, int b) {
    if ((g->loop->inner >> a & 1) != (g->loop->inner >> b & 1)) return false;
    for (size_t i = 0; i < g->n_accesses; i++)
        if (g->accesses[i].c[a] != g->accesses[i].c[b] * g->dims[b]) return false;
    return true;
}

static void take_dims(gen *g, bool inner, int64_t *dims, int *n, int64_t (*c)[JIT_RANK]) {
    int last = -1;
    for (int d = 0; d < g->loop->rank; d++) {
        if (((g->loop->inner >> d & 1) != 0) != inner || g->dims[d] == 1) continue;
        const bool merge = last >= 0 && can_merge(g, last, d);
        if (!merge) dims[(*n)++] = 1;
        dims[*n - 1] *= g->dims[d];
        for (size_t i = 0; i < g->n_accesses; i++)
            c[i][*n - 1] = g->accesses[i].c[d];
        last = d;
    }
}

/* Without a reduction the last dim is the inner one. */
static pl_status merge(gen *g, pl_err *err) {
    g->outer_c = pl_calloc(g->n_accesses + 1, sizeof(*g->outer_c));
    g->inner_c = pl_calloc(g->n_accesses + 1, sizeof(*g->inner_c));
    if (g->outer_c == NULL || g->inner_c == NULL) return pl_fail_memory(err, g->n_accesses);
    take_dims(g, false, g->outer, &g->n_outer, g->outer_c);
    take_dims(g, true, g->inner, &g->n_inner, g->inner_c);
    if (g->loop->inner == 0 && g->n_outer > 0) {
        g->n_outer--;
        g->n_inner = 1;
        g->inner[0] = g->outer[g->n_outer];
        for (size_t i = 0; i < g->n_accesses; i++)
            g->inner_c[i][0] = g->outer_c[i][g->n_outer];
    }
    return PL_OK;
}

/* Values that do not vary along the inner dims are computed once per row. */
static void find_varying(gen *g) {
    for (size_t i = 0; i < g->n_instrs; i++) {
        gen_instr *in = &g->instrs[i];
        if (in->kind == GEN_LOAD) {
            in->varies = false;
            for (int d = 0; d < g->n_inner; d++)
                in->varies = in->varies || g->inner_c[in->access][d] != 0;
        } else if (in->kind == GEN_PICK) {
            in->varies = g->instrs[in->args[0]].varies;
        } else if (in->kind == GEN_EXPR) {
            in->varies = false;
            for (int k = 0; k < in->n_args; k++)
                in->varies = in->varies || g->instrs[in->args[k]].varies;
        }
    }
}

pl_status jit_gen(gen *g, const jit_plan *plan, int step, int64_t low, int64_t high, pl_err *err) {
    const jit_loop *loop = plan->steps[step].loop;
    g->plan = plan;
    g->loop = loop;
    g->step = step;
    g->low = low;
    memcpy(g->dims, loop->dims, sizeof(g->dims));
    if (loop->concat >= 0) g->dims[loop->concat] = high - low;
    g->stashed = pl_calloc(plan->n_prims + 1, sizeof(bool));
    if (g->stashed == NULL) return pl_fail_memory(err, plan->n_prims);
    choose_stashes(g);
    for (int stage = 0; stage <= g->n_stages; stage++) {
        for (size_t i = 0; i < loop->n_prims; i++) {
            const jit_prim *p = &plan->prims[loop->prims[i]];
            const int when = p->kind == JIT_REDUCE ? p->stage - 1 : p->row ? g->n_stages : p->stage;
            if (when == stage) act_on(g, loop->prims[i]);
        }
    }
    if (g->failed) return pl_fail_memory(err, 1);
    PL_TRY(merge(g, err));
    find_varying(g);
    return PL_OK;
}

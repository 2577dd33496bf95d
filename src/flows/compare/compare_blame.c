#include "flows/compare/compare_blame.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "flows/prepare.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "session/verdict.h"

typedef struct run_records {
    const pl_recording *recording;
    const pl_recording *exact; /* of the model's own run */
    const pl_record **of;      /* by value id */
    const pl_side **as;        /* by value id: the shape to give it; NULL = its own */
    bool *is_exact;            /* by value id: taken from the model's own run */
} run_records;

typedef struct replaying {
    const pl_compare_side *sides;
    int of;
    pl_model *model;
    pl_session *session;
    run_records runs[2];
    const pl_value **value; /* by point */
    pl_datum **in;
    pl_blame blame;
    bool has_blame;
} replaying;

static bool has(void *ctx, const pl_value *value) {
    const run_records *r = ctx;
    return r->of[value->id] != NULL;
}

static pl_status get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const run_records *r = ctx;
    const pl_side *as = r->as[value->id];
    pl_tensor *dense = NULL, *shaped = NULL;
    const pl_recording *rec = r->is_exact[value->id] ? r->exact : r->recording;
    PL_TRY(pl_recording_read_datum(rec, r->of[value->id], out, err));
    if (as == NULL || (*out)->kind != PL_TYPE_TENSOR) return PL_OK;
    pl_status st = pl_tensor_contiguous((*out)->tensor, &dense, err);
    if (st == PL_OK) st = pl_tensor_reshape(dense, as->rank, as->dims, &shaped, err);
    pl_tensor_unref(dense);
    pl_datum_unref(*out);
    *out = NULL;
    return st == PL_OK ? pl_datum_of_tensor_take(shaped, out, err) : st;
}

/* The same elements in the same order. */
static bool is_flat(const pl_sync_point *p) {
    return strcmp(p->layout, "reshape") == 0 || strcmp(p->layout, "squeeze") == 0;
}

/* As in the model: the same type, no layout conversion. */
static bool usable(const pl_sync_point *p, const pl_record *r, const pl_value *v) {
    if (r == NULL || !r->has_data || (p->layout[0] != '\0' && !is_flat(p))) return false;
    return v->type == NULL || v->type->kind != PL_TYPE_TENSOR || !r->has_shape ||
           v->type->dtype == r->dtype;
}

/* Does it follow from integer inputs by integer operations: lengths, positions, shapes? */
static bool is_counted(const pl_node *node, const bool *counted) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_type *t = node->out[i] == NULL ? NULL : node->out[i]->type;
        if (node->out[i] == NULL) continue;
        if (t == NULL || t->kind != PL_TYPE_TENSOR || !pl_dtype_is_integer(t->dtype)) return false;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *v = node->in[i];
        if (v == NULL || v->init != NULL) continue;
        const bool input = v->is_input && v->type != NULL && v->type->kind == PL_TYPE_TENSOR &&
                           pl_dtype_is_integer(v->type->dtype);
        if (!input && !counted[v->id]) return false;
    }
    return !pl_node_has_body(node);
}

/* Another engine has no lengths and positions of its own in the recording; what follows from the
 * inputs in integers is the same there, and nothing to blame. */
static void add_exact(replaying *x) {
    const pl_graph *graph = x->model->graph;
    run_records *other = &x->runs[1 - x->of];
    bool *counted = other->is_exact;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (!is_counted(node, counted)) continue;
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL) counted[node->out[k]->id] = true;
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        const pl_record *r = counted[v->id] && other->of[v->id] == NULL
                                 ? pl_recording_find(other->exact, v->name)
                                 : NULL;
        counted[v->id] = r != NULL && r->has_data;
        if (counted[v->id]) other->of[v->id] = r;
    }
}

static pl_status map_values(replaying *x, pl_err *err) {
    const size_t n = (size_t)x->model->n_values + 1;
    const pl_session *s = x->session;
    x->value = pl_calloc(s->n_points + 1, sizeof *x->value);
    for (int i = 0; i < 2; i++) {
        x->runs[i].recording = x->sides[i].recording;
        x->runs[i].of = pl_calloc(n, sizeof *x->runs[i].of);
        x->runs[i].as = pl_calloc(n, sizeof *x->runs[i].as);
        x->runs[i].is_exact = pl_calloc(n, sizeof *x->runs[i].is_exact);
        x->runs[i].exact = x->sides[x->of].recording;
    }
    if (x->value == NULL || x->runs[0].of == NULL || x->runs[1].of == NULL ||
        x->runs[0].as == NULL || x->runs[1].as == NULL || x->runs[0].is_exact == NULL ||
        x->runs[1].is_exact == NULL)
        return pl_fail_memory(err, n);
    for (size_t k = 0; k < s->n_points; k++) {
        const pl_sync_point *p = &s->points[k];
        const char *name = x->of == 0 ? p->value : p->counterpart;
        const pl_value *v = pl_strmap_get(&x->model->graph->by_name, name);
        if (v == NULL || v->producer == NULL) continue;
        x->value[k] = v;
        for (int i = 0; i < 2; i++) {
            const char *key = i == 0 ? p->a.key : p->b.key;
            const pl_record *r = key == NULL ? NULL : pl_recording_find(x->sides[i].recording, key);
            if (!usable(p, r, v)) continue;
            x->runs[i].of[v->id] = r;
            if (is_flat(p) && i != x->of) x->runs[i].as[v->id] = x->of == 0 ? &p->a : &p->b;
        }
    }
    add_exact(x);
    return PL_OK;
}

static pl_status read_inputs(replaying *x, pl_err *err) {
    const pl_graph *graph = x->model->graph;
    const pl_recording *rec = x->sides[x->of].recording;
    x->in = pl_calloc(graph->n_inputs + 1, sizeof(pl_datum *));
    if (x->in == NULL) return pl_fail_memory(err, graph->n_inputs);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_record *r = pl_recording_find(rec, graph->inputs[i]->name);
        if (r != NULL) PL_TRY(pl_recording_read_datum(rec, r, &x->in[i], err));
    }
    return PL_OK;
}

/* ---- text ---- */

static const char *keep(pl_session *s, const char *text) {
    const char *copy = pl_arena_strdup(s->arena, text == NULL ? "" : text);
    return copy == NULL ? "" : copy;
}

static void settle_point(const replaying *x, size_t k) {
    pl_sync_point *p = &x->session->points[k];
    if (x->value[k] == NULL) return;
    const pl_judgement *v = &x->blame.of[x->value[k]->id];
    if (!v->judged) return;
    p->propagated = v->propagated;
    p->local = v->local;
    p->amplified = v->amplified;
    p->q = v->q;
    p->excuse = keep(x->session, v->excuse);
    p->facts.local = v->facts.local;
    p->facts.cleared = v->facts.cleared;
    if (v->facts.local == PL_FACT_NO && !v->facts.cleared) {
        if (*v->reason != '\0') p->reason = keep(x->session, v->reason);
    } else if (p->facts.bad_inputs != PL_FACT_YES) {
        /* It was computed correctly from its inputs. */
        p->facts.bad_inputs = pl_fact_of(v->verdict == PL_VERDICT_INHERITED);
    }
    pl_verdict_decide(p);
}

static pl_status copy_blame(replaying *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_blame *from = &x->blame;
    s->blame = pl_arena_array(s->arena, from->n_groups, sizeof *s->blame);
    if (s->blame == NULL) return pl_fail_memory(err, from->n_groups);
    for (size_t i = 0; i < from->n_groups; i++) {
        const pl_blame_entry *g = &from->groups[i];
        const char **members = pl_arena_array(s->arena, g->n_members, sizeof *members);
        if (members == NULL) return pl_fail_memory(err, g->n_members);
        for (size_t k = 0; k < g->n_members; k++)
            members[k] = keep(s, g->members[k]);
        s->blame[i] = *g;
        s->blame[i].members = members;
        s->blame[i].node = keep(s, g->node);
        s->blame[i].op = keep(s, g->op);
        s->blame[i].value = keep(s, g->value);
        s->blame[i].kind = keep(s, g->kind);
        s->blame[i].where = keep(s, g->where);
        s->blame[i].reason = keep(s, g->reason);
        s->blame[i].module = keep(s, g->module);
        s->blame[i].source = keep(s, g->source);
    }
    s->n_blame = from->n_groups;
    s->n_replayed = from->n_replayed;
    s->n_unreplayed = from->n_unreplayed;
    s->single_node_share =
        from->n_replayed > 0 ? (double)from->n_single / (double)from->n_replayed : 0;
    return PL_OK;
}

static void release(replaying *x) {
    for (size_t i = 0; x->in != NULL && i < x->model->graph->n_inputs; i++)
        pl_datum_unref(x->in[i]);
    pl_free(x->in);
    pl_free((void *)x->value);
    pl_free((void *)x->runs[0].of);
    pl_free((void *)x->runs[1].of);
    pl_free((void *)x->runs[0].as);
    pl_free((void *)x->runs[1].as);
    pl_free(x->runs[0].is_exact);
    pl_free(x->runs[1].is_exact);
    if (x->has_blame) pl_blame_release(&x->blame);
}

pl_status pl_compare_blame(const pl_compare_side sides[2], int of, pl_pool *pool, uint64_t seed,
                           const pl_progress *progress, pl_session *session, pl_buf *notes,
                           pl_err *err) {
    replaying x = { .sides = sides, .of = of, .model = sides[of].model->model, .session = session };
    const pl_blame_options options = { .pool = pool, .seed = seed, .progress = progress };
    pl_err why = PL_ERR_INIT;
    pl_status st = PL_OK;
    if (pl_make_ready(x.model, PL_READY_TYPED, &sides[of].model->edited, &why) != PL_OK) {
        pl_buf_printf(notes, "no value could be replayed: %s\n", why.message);
        return PL_OK;
    }
    PL_TRY_GOTO(done, st, map_values(&x, err));
    PL_TRY_GOTO(done, st, read_inputs(&x, err));
    const pl_run_data a = { .has = has, .get = get, .ctx = &x.runs[0] };
    const pl_run_data b = { .has = has, .get = get, .ctx = &x.runs[1] };
    PL_TRY_GOTO(done, st, pl_blame_run(x.model, x.in, &a, &b, &options, &x.blame, err));
    x.has_blame = true;
    for (size_t k = 0; k < session->n_points; k++)
        settle_point(&x, k);
    if (x.blame.n_unreplayed > 0)
        pl_buf_printf(notes, "not replayed: %zu value%s (%s)\n", x.blame.n_unreplayed,
                      pl_plural(x.blame.n_unreplayed), x.blame.first_unreplayed);
    st = copy_blame(&x, err);
done:
    release(&x);
    return st;
}

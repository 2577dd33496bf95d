/* A quantised model against its float model. Quantisation makes values differ, so they are judged
 * by their effective precision. Blamed are mistakes of the quantiser, and a runtime that does not
 * compute what the quantised model says, which is checked separately. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/analyze_int.h"
#include "flows/analyze/mixed.h"
#include "flows/analyze/quant_mistakes.h"
#include "flows/analyze/quant_table.h"
#include "pair/effective.h"
#include "pair/pair_graph.h"
#include "session/verdict.h"

static pl_status blame_runtime(pl_analysis *x, pl_err *err) {
    const pl_run_data a = pl_side_run_data(&x->a);
    const pl_blame_options options = {
        .pool = x->pool, .seed = x->inputs->seed, .skip_gold = true, .progress = &x->progress
    };
    return pl_blame_run(x->model, x->in, &a, NULL, &options, &x->own_blame, err);
}

/* ---- values ---- */

static const char *say_size(pl_analysis *x, double relative) {
    const char *text =
        pl_arena_printf(x->arena, "quantisation moves it by %.3g of its size", relative);
    return text == NULL ? "" : text;
}

/* Its error is noise or inherited; `far` when it exceeds the limit. */
static void excuse(pl_analysis *x, pl_judgement *v, double limit) {
    const double relative = v->scale > 0 ? v->propagated / v->scale : 0;
    v->facts.local = PL_FACT_YES;
    v->facts.far = relative > limit;
    v->facts.grown = false;
    v->verdict = pl_verdict_of_value(&v->facts);
    v->reason = v->facts.far ? say_size(x, relative) : "";
    v->excuse = "quantised";
}

static void accuse(pl_judgement *v, const char *kind, const char *reason) {
    v->judged = true;
    v->facts.local = PL_FACT_NO;
    v->verdict = pl_verdict_of_value(&v->facts);
    v->kind = kind;
    v->reason = reason;
}

/* The value of the float model paired with this one of the model under test. */
static const pl_value *paired_with(const pl_analysis *x, const pl_value *own) {
    const pl_graph *graph = x->replayed->graph;
    for (size_t i = 0; i < graph->n_values; i++)
        if (x->pairs.a[graph->values[i]->id] == own) return graph->values[i];
    return NULL;
}

/* Is there a layer between the value and the nearest recorded values before it? A fused runtime
 * records few. In the order of the model, so that earlier values are known. */
static void find_noisy(pl_analysis *x, const pl_mixed *m, bool *noisy) {
    const pl_graph *graph = x->replayed->graph;
    for (size_t i = 0; i < m->n_layers; i++)
        noisy[m->layers[i].value->id] = true;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        bool any = false;
        for (uint32_t k = 0; k < node->n_in; k++) {
            const pl_value *in = node->in[k];
            any = any || (in != NULL && in->producer != NULL && noisy[in->id] &&
                          !pl_analysis_a_has(x, in));
        }
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL)
                noisy[node->out[k]->id] =
                    noisy[node->out[k]->id] || any || m->through[node->out[k]->id];
    }
}

static void judge_values(pl_analysis *x, const bool *noisy, double limit) {
    const pl_graph *graph = x->replayed->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const uint32_t id = graph->values[i]->id;
        pl_judgement *v = &x->blame.of[id];
        if (!v->judged || v->facts.unreplayed) continue;
        const bool wrong = v->verdict == PL_VERDICT_CULPRIT;
        if (x->mistakes[id].kind != NULL) {
            const char *reason =
                pl_arena_printf(x->arena, "%s: %s", x->mistakes[id].kind, x->mistakes[id].evidence);
            accuse(v, x->mistakes[id].kind, reason == NULL ? "" : reason);
        } else if (!wrong || (noisy[id] && v->local_class == PL_LOCAL_MEASURED)) {
            excuse(x, v, limit);
        }
    }
    for (size_t i = 0; i < x->model->graph->n_values; i++) {
        const pl_judgement *own = &x->own_blame.of[x->model->graph->values[i]->id];
        if (!own->judged || own->verdict != PL_VERDICT_CULPRIT) continue;
        const pl_value *v = paired_with(x, x->model->graph->values[i]);
        if (v != NULL) accuse(&x->blame.of[v->id], own->kind, own->reason);
    }
}

/* ---- groups ---- */

static const pl_blame_entry *group_of(const pl_analysis *x, const char *value) {
    for (size_t i = 0; i < x->blame.n_groups; i++)
        if (strcmp(x->blame.groups[i].value, value) == 0) return &x->blame.groups[i];
    return NULL;
}

static pl_blame_entry mistake_entry(const pl_analysis *x, const pl_layer *layer) {
    const pl_mistake *mistake = &x->mistakes[layer->value->id];
    const pl_blame_entry *known = group_of(x, layer->value->name);
    pl_blame_entry e = { .members = NULL };
    if (known != NULL) e = *known;
    if (known == NULL) {
        e.module = e.source = "";
        e.effect = (double)NAN;
    }
    e.q = (double)NAN; /* the bound belongs to another computation */
    e.node = layer->value->producer->name;
    e.op = layer->value->producer->op;
    e.value = layer->value->name;
    e.kind = mistake->kind;
    e.where = "";
    e.reason = x->blame.of[layer->value->id].reason;
    if (e.reason == NULL || *e.reason == '\0') e.reason = mistake->evidence;
    e.in_model = true;
    e.n_members = 0;
    return e;
}

/* First the runtime's faults, then the quantiser's mistakes by their effect, then other differences
 * from the float model. */
static pl_status regroup(pl_analysis *x, const pl_mixed *m, const bool *noisy, pl_err *err) {
    const size_t most = x->own_blame.n_groups + m->n_layers + x->blame.n_groups + 1;
    pl_blame_entry *all = pl_arena_array(x->blame.arena, most, sizeof(*all));
    size_t n = 0;
    if (all == NULL) return pl_fail_memory(err, most);
    for (size_t i = 0; i < x->own_blame.n_groups; i++)
        all[n++] = x->own_blame.groups[i];
    const size_t first = n;
    for (size_t i = 0; i < m->n_layers; i++) {
        if (x->mistakes[m->layers[i].value->id].kind == NULL) continue;
        const pl_blame_entry e = mistake_entry(x, &m->layers[i]);
        size_t at = n++;
        for (; at > first && all[at - 1].score < e.score; at--)
            all[at] = all[at - 1];
        all[at] = e;
    }
    for (size_t i = 0; i < x->blame.n_groups; i++) {
        const pl_value *v = pl_graph_find(x->replayed->graph, x->blame.groups[i].value);
        const pl_judgement *of = v == NULL ? NULL : &x->blame.of[v->id];
        if (of == NULL || of->verdict != PL_VERDICT_CULPRIT || !of->judged) continue;
        if (noisy[v->id] && of->local_class == PL_LOCAL_MEASURED) continue;
        all[n] = x->blame.groups[i];
        all[n++].in_model = true;
    }
    x->blame.groups = all;
    x->blame.n_groups = n;
    return PL_OK;
}

/* A reference that computes on codes is not a float model: compare it like any other. */
static bool has_codes(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_values; i++) {
        const pl_value *v = model->graph->values[i];
        if (v->producer == NULL || v->type == NULL || v->type->kind != PL_TYPE_TENSOR) continue;
        if (pl_dtype_is_integer(v->type->dtype) && pl_dtype_bits(v->type->dtype) <= 8) return true;
    }
    return false;
}

pl_status pl_analysis_quantised(pl_analysis *x, pl_err *err) {
    const char *why = NULL;
    bool *noisy = NULL;
    pl_mixed m;
    pl_status st = PL_OK;
    if (x->reference_model == NULL || x->recording != NULL || has_codes(x->replayed)) return PL_OK;
    PL_TRY_GOTO(done, st, pl_mixed_find(&m, x, 1, &why, err));
    if (m.n_layers == 0) goto done;
    x->mistakes = pl_arena_array(x->arena, (size_t)x->replayed->n_values + 1, sizeof(pl_mistake));
    noisy = pl_calloc((size_t)x->replayed->n_values + 1, sizeof(bool));
    if (x->mistakes == NULL || noisy == NULL) {
        st = pl_fail_memory(err, x->replayed->n_values);
        goto done;
    }
    memset(x->mistakes, 0, ((size_t)x->replayed->n_values + 1) * sizeof(pl_mistake));
    x->session->quant_limit = pl_quant_limit(x);
    PL_TRY_GOTO(done, st, blame_runtime(x, err));
    for (size_t i = 0; i < m.n_layers; i++)
        PL_TRY_GOTO(
            done, st,
            pl_quant_mistake(x, &m, &m.layers[i], &x->mistakes[m.layers[i].value->id], err));
    find_noisy(x, &m, noisy);
    judge_values(x, noisy, x->session->quant_limit);
    PL_TRY_GOTO(done, st, regroup(x, &m, noisy, err));
    st = pl_analysis_timed(x, "quantisers", err);
done:
    pl_free(noisy);
    pl_mixed_close(&m);
    return st;
}

/* ---- precision ---- */

pl_status pl_analysis_find_precision(pl_analysis *x, pl_err *err) {
    pl_pair_side side;
    pl_pair_graph graph = { .values = NULL };
    pl_dtype *dtype = NULL;
    pl_precision *of = NULL;
    pl_status st = PL_OK;
    x->precision = pl_arena_array(x->arena, (size_t)x->model->n_values + 1, sizeof(pl_precision));
    if (x->precision == NULL) return pl_fail_memory(err, x->model->n_values);
    for (size_t i = 0; i <= x->model->n_values; i++)
        x->precision[i] = PL_PRECISION_F64;
    PL_TRY_GOTO(done, st, pl_pair_side_of_model(x->model, x->arena, &side, err));
    PL_TRY_GOTO(done, st, pl_pair_graph_init(&graph, &side, err));
    dtype = pl_calloc((size_t)graph.n_values + 1, sizeof(*dtype));
    of = pl_calloc((size_t)graph.n_values + 1, sizeof(*of));
    if (dtype == NULL || of == NULL) {
        st = pl_fail_memory(err, graph.n_values);
        goto done;
    }
    for (size_t i = 0; i < x->model->graph->n_values; i++) {
        const pl_value *v = x->model->graph->values[i];
        const uint32_t at = pl_pair_graph_find(&graph, "", v->name);
        if (at != PL_PAIR_NONE && v->type != NULL && v->type->kind == PL_TYPE_TENSOR)
            dtype[at] = v->type->dtype;
    }
    pl_effective_find(&graph, dtype, NULL, x->reference_model != NULL, of);
    for (size_t i = 0; i < x->model->graph->n_values; i++) {
        const pl_value *v = x->model->graph->values[i];
        const uint32_t at = pl_pair_graph_find(&graph, "", v->name);
        if (at != PL_PAIR_NONE) x->precision[v->id] = of[at];
    }
done:
    pl_free(dtype);
    pl_free(of);
    pl_pair_graph_release(&graph);
    return st;
}

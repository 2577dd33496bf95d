/* The search for the smallest set of nodes to raise.
 *
 * Nodes are ranked by the loss from low precision and its effect on the outputs. Bisection finds
 * the shortest prefix of that list with which the outputs meet their limit; its last node is
 * needed, and the search repeats on the nodes before it. A last round tries to leave out each node.
 * Each query is one run of the model on the backend under test. */
#include "flows/analyze/advise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/advise_int.h"
#include "flows/check/accuracy.h"
#include "flows/convert.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "passes/quant_pairs.h"

enum { MAX_QUERIES = 256, MAX_EFFECTS = 16, MAX_ROWS = 64 };
/* Results that lose more than this factor from one rounding of the inputs are reported. */
static const double CONDITION = 32;

typedef struct search {
    pl_advising x;
    const pl_advise_options *options;
    pl_advice *advice;
    pl_arena *arena;
    pl_accuracy accuracy;
    pl_datum ***target; /* by sample, by output: fp64 */
    size_t *ranked;     /* units that can be raised, worst first */
    size_t n_ranked;
    bool *raise;       /* by index in base: the current candidate */
    double error;      /* of the last run: worst output */
    char trouble[300]; /* why the last run failed the limit; "" */
    bool spent;        /* out of queries */
} search;

/* ---- what can be raised ---- */

static bool is_low(pl_dtype d) {
    return d == PL_F16 || d == PL_BF16;
}

static pl_dtype low_type_of(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        const pl_value *v = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        const pl_type *type = v == NULL ? NULL : v->type;
        if (type != NULL && type->kind == PL_TYPE_TENSOR && is_low(type->dtype)) return type->dtype;
    }
    return PL_UNDEFINED;
}

static void find_floats(pl_advising *x) {
    for (size_t i = 0; i < x->base->graph->n_nodes; i++) {
        const pl_node *node = x->base->graph->nodes[i], *twin = x->twins[i];
        if (node->n_in == 0 || node->def == NULL || pl_node_has_body(node)) continue;
        const pl_dtype d = low_type_of(twin);
        if (d == PL_UNDEFINED) continue;
        x->units[i].can = true;
        if (x->type == PL_UNDEFINED) x->type = d;
    }
}

/* A pair belongs to the node whose result it rounds; at an input of the model, to its first reader.
 */
static void find_pairs(pl_advising *x) {
    const pl_graph *graph = x->base->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (pl_node_is_dequantize(node)) {
            const pl_value *from = pl_quant_pair_source(node->out[0]);
            const pl_node *maker = from == NULL ? NULL : from->producer;
            if (maker == NULL || maker->graph != graph || pl_node_is_dequantize(maker)) continue;
            x->units[maker->index].can = true;
            x->owner[i] = maker->index + 1;
            continue;
        }
        for (uint32_t k = 0; k < node->n_in && !pl_node_is_quantize(node); k++) {
            if (node->in[k] == NULL || pl_quant_pair_source(node->in[k]) == NULL) continue;
            x->units[i].can = true;
            size_t *owner = &x->owner[node->in[k]->producer->index];
            if (*owner == 0) *owner = i + 1;
        }
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        x->pairs = x->pairs || x->units[i].can;
}

static pl_status advising_init(search *s, pl_analysis *of, size_t n, pl_err *err) {
    pl_advising *x = &s->x;
    x->of = of;
    x->n_samples = n;
    x->low = of[0].model;
    x->amp = s->options->original != NULL;
    x->base = x->amp ? s->options->original : x->low;
    x->pool = of[0].pool;
    const size_t n_nodes = x->base->graph->n_nodes + 1;
    x->units = pl_calloc(n_nodes, sizeof(pl_unit));
    x->owner = pl_calloc(n_nodes, sizeof(size_t));
    s->raise = pl_calloc(n_nodes, sizeof(bool));
    s->ranked = pl_calloc(n_nodes, sizeof(size_t));
    s->target = pl_calloc(n, sizeof(pl_datum **));
    if (x->units == NULL || x->owner == NULL || s->raise == NULL || s->ranked == NULL ||
        s->target == NULL) {
        return pl_fail_memory(err, n_nodes);
    }
    x->twins = x->amp ? s->options->twins : x->base->graph->nodes;
    for (size_t i = 0; i + 1 < n_nodes; i++)
        x->units[i].condition = x->units[i].effect = (double)NAN;
    if (!x->amp) find_pairs(x);
    if (!x->pairs) find_floats(x);
    return PL_OK;
}

/* ---- the target ---- */

static pl_status run_fp64(const search *s, pl_model *model, pl_datum *const *in, uint64_t seed,
                          pl_datum **out, pl_err *err) {
    const pl_interp_options options = {
        .pool = s->x.pool, .fp64 = true, .seed = seed, .any_shape = true
    };
    pl_interp *interp = NULL;
    PL_TRY(pl_interp_new(model, &options, &interp, err));
    const pl_status st = pl_interp_run(interp, in, out, err);
    pl_interp_free(interp);
    return st;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

/* The outputs of the reference model, in the order of this one's. */
static pl_status target_of_reference(search *s, const pl_analysis *a, pl_datum **out, pl_err *err) {
    const pl_graph *from = a->replayed->graph, *to = s->x.low->graph;
    pl_datum **all = pl_calloc(from->n_outputs + 1, sizeof(pl_datum *));
    if (all == NULL) return pl_fail_memory(err, from->n_outputs);
    const pl_status st = run_fp64(s, a->replayed, a->replayed_in, a->inputs->seed, all, err);
    for (size_t i = 0; i < to->n_outputs && st == PL_OK; i++) {
        const pl_datum *d = i < from->n_outputs ? all[i] : NULL;
        for (size_t k = 0; k < from->n_outputs; k++)
            if (strcmp(from->outputs[k]->name, to->outputs[i]->name) == 0) d = all[k];
        out[i] = d == NULL ? NULL : pl_datum_ref(d);
    }
    drop(all, from->n_outputs);
    return st;
}

static pl_status raised_model(const search *s, pl_model **out, pl_err *err) {
    const pl_advising *x = &s->x;
    PL_TRY(pl_model_copy(x->base, out, err));
    pl_pass_job job = { .model = *out, .nodes = s->raise };
    if (!x->pairs && x->amp) job.value = s->options->amp;
    const char *pass = x->pairs ? "bypass-pairs" : x->amp ? "amp" : "raise-nodes";
    return pl_pass_run(pass, &job, err);
}

static void choose_all(search *s, bool yes) {
    for (size_t i = 0; i < s->x.base->graph->n_nodes; i++)
        s->raise[i] = yes && s->x.units[i].can;
}

static pl_status make_target(search *s, pl_err *err) {
    const size_t n = s->x.low->graph->n_outputs;
    pl_model *without = NULL;
    pl_status st = PL_OK;
    choose_all(s, true);
    if (s->x.pairs) PL_TRY_GOTO(done, st, raised_model(s, &without, err));
    for (size_t i = 0; i < s->x.n_samples && st == PL_OK; i++) {
        const pl_analysis *a = &s->x.of[i];
        s->target[i] = pl_calloc(n + 1, sizeof(pl_datum *));
        if (s->target[i] == NULL) {
            st = pl_fail_memory(err, n);
        } else if (a->reference_model != NULL) {
            st = target_of_reference(s, a, s->target[i], err);
        } else {
            st = run_fp64(s, without != NULL ? without : s->x.base, a->in, a->inputs->seed,
                          s->target[i], err);
        }
    }
done:
    pl_model_free(without);
    return st;
}

/* ---- one answer ---- */

/* Do these outputs of a sample meet the limit? */
static pl_status judge(search *s, size_t sample, pl_datum *const *out, bool *ok, pl_err *err) {
    const pl_graph *graph = s->x.low->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_accuracy_check c;
        const pl_datum *want = s->target[sample][i];
        if (want == NULL || out[i] == NULL) continue;
        PL_TRY(pl_accuracy_compare(&s->accuracy, want, out[i], want, &c, err));
        if (c.measured && c.acc.nonfinite_index >= 0) s->error = (double)INFINITY;
        if (c.measured && c.acc.sum_rr > 0)
            s->error = fmax(s->error, sqrt(c.acc.sum_sq / c.acc.sum_rr));
        if (c.same) continue;
        if (*ok)
            snprintf(s->trouble, sizeof(s->trouble), "output '%.80s': %.200s",
                     graph->outputs[i]->name, c.why);
        *ok = false;
    }
    return PL_OK;
}

/* Runs the model with s->raise raised, on every sample. */
static pl_status ask(search *s, bool *ok, pl_err *err) {
    const pl_analysis *a = &s->x.of[0];
    const size_t n = s->x.low->graph->n_outputs;
    const pl_compile_options compile = { .seed = a->inputs->seed,
                                         .threads = a->options->threads,
                                         .any_shape = true };
    pl_model *model = NULL;
    pl_program *program = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = PL_OK, ran = PL_OK;
    *ok = false;
    s->error = 0;
    s->trouble[0] = '\0';
    s->spent = s->advice->n_queries >= MAX_QUERIES;
    if (s->spent) return PL_OK;
    s->advice->n_queries++;
    PL_TRY(pl_progress_step(&a->progress, "advice: runs", (int64_t)s->advice->n_queries, 0, err));
    PL_TRY_GOTO(done, st, raised_model(s, &model, err));
    ran = pl_program_new(a->a.backend, model, &compile, &program, &trouble);
    *ok = ran == PL_OK;
    for (size_t i = 0; i < s->x.n_samples && ran == PL_OK && st == PL_OK; i++) {
        pl_datum **out = pl_calloc(n + 1, sizeof(pl_datum *));
        if (out == NULL) st = pl_fail_memory(err, n);
        if (st == PL_OK) ran = pl_program_run(program, s->x.of[i].in, out, &trouble);
        if (st == PL_OK && ran == PL_OK) st = judge(s, i, out, ok, err);
        drop(out, n);
    }
    if (ran == PL_E_MEMORY) st = pl_fail_memory(err, 0);
    if (ran != PL_OK) { /* the backend cannot run it: inconclusive */
        *ok = false;
        s->error = (double)NAN;
        snprintf(s->trouble, sizeof(s->trouble), "%.290s", trouble.message);
    }
done:
    pl_program_free(program);
    pl_model_free(model);
    return st;
}

/* ---- the order ---- */

/* Nodes that become non-finite come first, then those with a measured effect, then the rest. */
static int by_loss(const pl_unit *x, const pl_unit *y) {
    const bool over_x = x->n_over > 0 || isinf(x->local);
    const bool over_y = y->n_over > 0 || isinf(y->local);
    if (over_x != over_y) return over_x ? -1 : 1;
    const bool seen_x = !isnan(x->effect), seen_y = !isnan(y->effect);
    if (seen_x != seen_y) return seen_x ? -1 : 1;
    const double a = seen_x ? x->effect : x->local, b = seen_x ? y->effect : y->local;
    if (a != b) return a > b ? -1 : 1;
    return 0;
}

static void sort_units(search *s) { /* stable: ties keep the model's order */
    for (size_t i = 1; i < s->n_ranked; i++) {
        const size_t unit = s->ranked[i];
        size_t k = i;
        for (; k > 0 && by_loss(&s->x.units[unit], &s->x.units[s->ranked[k - 1]]) < 0; k--)
            s->ranked[k] = s->ranked[k - 1];
        s->ranked[k] = unit;
    }
}

static pl_status rank(search *s, bool effects, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    for (size_t i = 0; i < s->x.base->graph->n_nodes; i++)
        if (s->x.units[i].can) s->ranked[s->n_ranked++] = i;
    s->advice->n_nodes = s->n_ranked;
    pl_status st = pl_advise_survey(&s->x, &trouble);
    if (st == PL_OK) {
        sort_units(s);
        const size_t n = s->n_ranked < MAX_EFFECTS ? s->n_ranked : MAX_EFFECTS;
        if (effects) st = pl_advise_effects(&s->x, s->ranked, n, &trouble);
        sort_units(s);
    }
    if (st == PL_OK) return PL_OK;
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 0);
    /* fp64 cannot run an operator: the order is then a guess, but the results are not. */
    return pl_analysis_note(&s->x.of[0], err, "advice: stopped the survey early: %s",
                            trouble.message);
}

/* ---- the search ---- */

static pl_status ask_first(search *s, const bool *decided, size_t n_first, bool *ok, pl_err *err) {
    choose_all(s, false);
    for (size_t i = 0; i < s->n_ranked; i++)
        s->raise[s->ranked[i]] = i < n_first || decided[i];
    return ask(s, ok, err);
}

/* decided[i] is about ranked[i]. Raising all meets the limit, raising none does not. */
static pl_status find_set(search *s, bool *decided, pl_err *err) {
    size_t open = s->n_ranked;
    bool ok = false;
    while (open > 0) {
        size_t low = 0, high = open;
        while (high - low > 1) {
            const size_t middle = low + (high - low) / 2;
            PL_TRY(ask_first(s, decided, middle, &ok, err));
            if (s->spent) break;
            *(ok ? &high : &low) = middle;
        }
        if (s->spent) { /* the best known set, however large */
            for (size_t i = 0; i < high; i++)
                decided[i] = true;
            return PL_OK;
        }
        decided[high - 1] = true;
        open = high - 1;
        PL_TRY(ask_first(s, decided, 0, &ok, err));
        if (ok || s->spent) {
            for (size_t i = 0; i < open && !ok; i++)
                decided[i] = true;
            return PL_OK;
        }
    }
    return PL_OK;
}

/* Drops nodes that are not needed; *minimal is true when all others are. */
static pl_status leave_out(search *s, bool *decided, bool *minimal, pl_err *err) {
    *minimal = true;
    for (size_t i = s->n_ranked; i-- > 0;) {
        bool ok = false;
        if (!decided[i]) continue;
        decided[i] = false;
        PL_TRY(ask_first(s, decided, 0, &ok, err));
        if (!ok) decided[i] = true;
        if (s->spent) *minimal = false;
    }
    return PL_OK;
}

static pl_status search_set(search *s, bool *decided, pl_err *err) {
    pl_advice *a = s->advice;
    bool ok = false;
    PL_TRY(ask_first(s, decided, s->n_ranked, &ok, err));
    a->after = s->error;
    if (!ok) {
        a->reason = pl_arena_printf(
            s->arena, "even with all %zu nodes in float32 the outputs miss their limit: %s",
            s->n_ranked, s->trouble);
        return a->reason == NULL ? pl_fail_memory(err, 1) : PL_OK;
    }
    PL_TRY(find_set(s, decided, err));
    PL_TRY(leave_out(s, decided, &a->one_minimal, err));
    s->advice->n_queries -= s->spent; /* the final check is always made */
    PL_TRY(ask_first(s, decided, 0, &ok, err));
    a->met = ok;
    a->after = s->error;
    for (size_t i = 0; i < s->n_ranked; i++)
        a->n_raised += decided[i];
    a->reason = pl_arena_printf(s->arena,
                                "raise %zu of %zu %s nodes to float32: the worst output error "
                                "drops from %.3g to %.3g of the output's size%s (%s; %zu runs)",
                                a->n_raised, a->n_nodes, a->precision, a->before, a->after,
                                a->one_minimal ? "; every one of them is needed"
                                               : "; a smaller set may exist",
                                a->limit, a->n_queries);
    return a->reason == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

/* ---- the result ---- */

static pl_loss loss_of(const pl_node *node, const pl_unit *u) {
    if (u->n_over > 0 || isinf(u->local)) return PL_LOSS_OVERFLOW;
    if (100 * u->n_under > u->n_nonzero) return PL_LOSS_UNDERFLOW;
    if (!(u->condition >= CONDITION)) return PL_LOSS_NONE;
    uint32_t n_read = 0;
    for (uint32_t k = 0; k < node->n_in; k++)
        n_read += node->in[k] != NULL;
    const bool alone = n_read == 1 && (node->def->flags & PL_OP_ELEMENTWISE) != 0;
    return alone ? PL_LOSS_SENSITIVE : PL_LOSS_CANCELLATION;
}

static pl_status fill_row(search *s, size_t unit, bool raise, pl_err *err) {
    const pl_node *node = s->x.base->graph->nodes[unit];
    const pl_unit *u = &s->x.units[unit];
    pl_advice_row *row = &s->advice->rows[s->advice->n_rows];
    pl_origin origin;
    const pl_loss loss = loss_of(node, u);
    const char *value = node->name;
    if (!raise && (loss == PL_LOSS_NONE || s->advice->n_rows >= MAX_ROWS)) return PL_OK;
    for (uint32_t k = node->n_out; k-- > 0;)
        if (node->out[k] != NULL) value = node->out[k]->name;
    PL_TRY(pl_node_origin(node, s->arena, &origin, err));
    *row = (pl_advice_row){ .node = pl_analysis_keep(&s->x.of[0], node->name),
                            .op = pl_analysis_keep(&s->x.of[0], node->op),
                            .value = pl_analysis_keep(&s->x.of[0], value),
                            .module = origin.module,
                            .loss = loss,
                            .raise = raise,
                            .n = u->n,
                            .n_over = u->n_over,
                            .n_under = u->n_under,
                            .largest = u->largest,
                            .condition = u->condition,
                            .local = u->local,
                            .effect = u->effect };
    s->advice->n_rows++;
    return PL_OK;
}

static pl_status fill_rows(search *s, const bool *decided, pl_err *err) {
    s->advice->rows = pl_arena_array(s->arena, s->n_ranked + 1, sizeof(pl_advice_row));
    if (s->advice->rows == NULL) return pl_fail_memory(err, s->n_ranked);
    for (int first = 1; first >= 0; first--) /* raised nodes first, then other findings */
        for (size_t i = 0; i < s->n_ranked; i++)
            if (decided[i] == (first != 0)) PL_TRY(fill_row(s, s->ranked[i], decided[i], err));
    return PL_OK;
}

static pl_status write_model(search *s, const bool *decided, pl_err *err) {
    const char *path = s->options->out;
    pl_model *raised = NULL;
    if (path == NULL || !s->advice->met) return PL_OK;
    choose_all(s, false);
    for (size_t i = 0; i < s->n_ranked; i++)
        s->raise[s->ranked[i]] = decided[i];
    const plumb_convert_options options = { .size = sizeof(options) };
    pl_status st = raised_model(s, &raised, err);
    if (st == PL_OK) st = pl_convert(raised, path, &options, err);
    pl_model_free(raised);
    s->advice->model = pl_analysis_keep(&s->x.of[0], path);
    return st;
}

static pl_status set_limit(search *s, pl_err *err) {
    const double tol = s->x.of[0].options->tol;
    pl_precision p = s->x.pairs            ? PL_PRECISION_INT8
                     : s->x.type == PL_F16 ? PL_PRECISION_F16
                                           : PL_PRECISION_BF16;
    pl_accuracy_init(&s->accuracy);
    s->accuracy.pool = s->x.pool;
    s->accuracy.any_float = true;
    s->accuracy.precision = p;
    if (tol > 0) s->accuracy.tol = tol;
    s->advice->precision = pl_precision_name(p);
    s->advice->limit =
        tol > 0 ? pl_arena_printf(s->arena, "limit: every element within %g (|r| + rms)", tol)
                : pl_arena_printf(s->arena, "limit: %g of an output's size", pl_accuracy_floor(p));
    return s->advice->limit == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status advise(search *s, pl_err *err) {
    bool ok = true;
    pl_status st = PL_OK;
    bool *decided = pl_calloc(s->x.base->graph->n_nodes + 1, sizeof(bool));
    if (decided == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, set_limit(s, err));
    PL_TRY_GOTO(done, st, make_target(s, err));
    for (size_t i = 0; i < s->x.n_samples; i++)
        PL_TRY_GOTO(done, st, judge(s, i, s->x.of[i].a.plain, &ok, err));
    s->advice->before = s->error;
    PL_TRY_GOTO(done, st, rank(s, !ok, err));
    if (ok) {
        s->advice->met = s->advice->one_minimal = true;
        s->advice->after = s->advice->before;
        s->advice->reason = pl_arena_printf(
            s->arena, "no node needs float32: the worst output is off by %.3g of its size (%s)",
            s->advice->before, s->advice->limit);
        if (s->advice->reason == NULL) st = pl_fail_memory(err, 1);
    } else {
        st = search_set(s, decided, err);
    }
    PL_TRY_GOTO(done, st, st);
    if (!s->advice->met) memset(decided, 0, s->n_ranked * sizeof(bool));
    PL_TRY_GOTO(done, st, fill_rows(s, decided, err));
    st = write_model(s, decided, err);
done:
    pl_free(decided);
    return st;
}

static void search_release(search *s) {
    for (size_t i = 0; s->target != NULL && i < s->x.n_samples; i++)
        drop(s->target[i], s->x.low->graph->n_outputs);
    pl_free(s->target);
    pl_free(s->x.units);
    pl_free(s->x.owner);
    pl_free(s->raise);
    pl_free(s->ranked);
}

pl_status pl_advise(pl_analysis *of, size_t n_samples, const pl_advise_options *options,
                    pl_err *err) {
    search s = { .options = options, .arena = of[0].arena };
    s.advice = pl_arena_array(s.arena, 1, sizeof(pl_advice));
    if (s.advice == NULL) return pl_fail_memory(err, 1);
    pl_advice_init(s.advice);
    of[0].session->advice = s.advice;
    if (of[0].a.backend == NULL || of[0].session->outcome == PL_OUTCOME_FAILED) {
        s.advice->reason = "none: the model did not run";
        return PL_OK;
    }
    pl_status st = advising_init(&s, of, n_samples, err);
    if (st == PL_OK && !s.x.pairs && s.x.type == PL_UNDEFINED) {
        s.advice->reason = "none: no node of the main graph computes in float16 or bfloat16, and "
                           "there is no QuantizeLinear/DequantizeLinear pair";
    } else if (st == PL_OK) {
        st = advise(&s, err);
    }
    if (st == PL_OK) st = pl_analysis_timed(&of[0], "advice", err);
    search_release(&s);
    return st;
}

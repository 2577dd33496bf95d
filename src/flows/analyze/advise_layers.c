/* Which layers of a quantised model to keep in float: the fewest with which the outputs meet their
 * limit, and the best set of that size that was found.
 *
 * Two orders are tried: greedily by the gain of a layer on top of those already kept, and by its
 * share of the error (if two layers round the same numbers, keeping one of them gains nothing, and
 * only the share shows them). The shorter prefix that meets the limit is taken, and layers are then
 * removed one at a time. After that all sets of that size are tried if there are few, else layers
 * are exchanged as long as that helps. Every candidate is run. Samples that were held back are only
 * used to accept or reject the final result.
 *
 * Top-1 agreement over a few hundred rows is a count, and a single row could decide between sets.
 * So it says whether a set is good enough, and the divergence of the probabilities says which one
 * is best. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/advise.h"
#include "flows/analyze/mixed.h"
#include "flows/analyze/quant_table.h"
#include "flows/convert.h"
#include "session/advice.h"

enum { MAX_RUNS = 500, EXCHANGE_MAX = 24, ALL_SETS_MAX = 260 };
static const double TOP1_GOAL = 0.99; /* of the rows */
static const double MOST_OF_IT =
    0.9; /* of what all layers in float give, when that is too little */

typedef struct answer { /* result for a set that was run */
    bool *keep;
    pl_mixed_score score;
} answer;

typedef struct search {
    pl_mixed *m;
    const pl_advise_options *options;
    pl_advice *advice;
    pl_analysis *x;
    bool top1;
    double goal; /* goal for the merit; NAN = the limit decides */
    double limit;
    size_t *order; /* layers by share, largest first */
    bool *keep, *best, *work;
    pl_mixed_score given;            /* the original model */
    pl_mixed_score none, all, score; /* nothing kept, all kept, `best` */
    answer *answers;
    size_t n_answers;
} search;

/* ---- judging ---- */

/* Larger is better. */
static double merit(const search *s, const pl_mixed_score *c, int part) {
    if (!c->ran || isnan(c->error[part])) return -(double)INFINITY;
    if (s->top1) return isnan(c->apart[part]) ? -(double)INFINITY : -c->apart[part];
    const pl_metric *metric = s->m->metric;
    if (metric == NULL) return -c->error[part];
    return metric->direction == PL_HIGHER_IS_BETTER ? c->metric[part] : -c->metric[part];
}

static bool is_met(const search *s, const pl_mixed_score *c) {
    if (!c->ran) return false;
    if (!isnan(s->goal)) return merit(s, c, PL_PART_SEARCH) >= s->goal;
    return s->top1 ? c->top1[PL_PART_SEARCH] >= TOP1_GOAL : c->error[PL_PART_SEARCH] <= s->limit;
}

static bool is_better(const search *s, const pl_mixed_score *a, const pl_mixed_score *b) {
    return merit(s, a, PL_PART_SEARCH) > merit(s, b, PL_PART_SEARCH);
}

static pl_status ask(search *s, const bool *keep, pl_mixed_score *out, pl_err *err) {
    const size_t n = s->m->n_layers;
    for (size_t i = 0; i < s->n_answers; i++) {
        if (memcmp(s->answers[i].keep, keep, n * sizeof(bool)) != 0) continue;
        *out = s->answers[i].score;
        return PL_OK;
    }
    s->advice->n_queries++;
    PL_TRY(
        pl_progress_step(&s->x->progress, "advice: runs", (int64_t)s->advice->n_queries, 0, err));
    PL_TRY(pl_mixed_try(s->m, keep, out, err));
    if (s->n_answers == MAX_RUNS) return PL_OK;
    bool *copy = pl_arena_array(s->x->arena, n + 1, sizeof(bool));
    if (copy == NULL) return pl_fail_memory(err, n);
    memcpy(copy, keep, n * sizeof(bool));
    s->answers[s->n_answers++] = (answer){ copy, *out };
    return PL_OK;
}

static bool is_spent(const search *s) {
    return s->advice->n_queries >= MAX_RUNS;
}

static size_t count(const search *s, const bool *keep) {
    size_t n = 0;
    for (size_t i = 0; i < s->m->n_layers; i++)
        n += keep[i];
    return n;
}

/* Keeps the smaller set, or the better of two of equal size. */
static void offer(search *s, const bool *keep, const pl_mixed_score *score, bool *any) {
    const size_t n = count(s, keep), known = count(s, s->best);
    if (*any && (n > known || (n == known && !is_better(s, score, &s->score)))) return;
    memcpy(s->best, keep, s->m->n_layers * sizeof(bool));
    s->score = *score;
    *any = true;
}

/* ---- two orders ---- */

/* The shortest prefix, in the order by share, that meets the goal. */
static pl_status by_share(search *s, bool *any, pl_err *err) {
    pl_mixed_score c;
    memset(s->work, 0, s->m->n_layers * sizeof(bool));
    for (size_t i = 0; i < s->m->n_layers && !is_spent(s); i++) {
        s->work[s->order[i]] = true;
        PL_TRY(ask(s, s->work, &c, err));
        if (!is_met(s, &c)) continue;
        offer(s, s->work, &c, any);
        return PL_OK;
    }
    return PL_OK;
}

static double gain_of(const search *s, size_t layer) {
    const pl_quantisation *q = s->x->session->quant;
    for (size_t i = 0; i < q->n_rows; i++) {
        if (strcmp(q->rows[i].value, s->m->layers[layer].own->name) != 0) continue;
        return isnan(q->rows[i].gain) ? -(double)INFINITY : q->rows[i].gain;
    }
    return -(double)INFINITY;
}

/* Lazy greedy: the earlier gain of a layer is about the most it can gain now, so take the first
 * layer that is still best after measuring it again. */
static pl_status greedily(search *s, bool *any, pl_err *err) {
    const size_t n = s->m->n_layers;
    double *gain = pl_calloc(n + 1, sizeof(double));
    size_t *round = pl_calloc(n + 1, sizeof(size_t));
    pl_mixed_score so_far = s->none, c;
    pl_status st = PL_OK;
    memset(s->work, 0, n * sizeof(bool));
    if (gain == NULL || round == NULL) {
        st = pl_fail_memory(err, n);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        gain[i] = gain_of(s, i);
        /* The table's gains do not apply here, so measure every layer first. */
        if (isfinite(gain[i]) && (s->top1 || s->m->unsigned_weights)) gain[i] = (double)INFINITY;
    }
    for (size_t taken = 0; taken < n && !is_spent(s);) {
        size_t top = SIZE_MAX;
        for (size_t i = 0; i < n; i++)
            if (!s->work[i] && (top == SIZE_MAX || gain[i] > gain[top])) top = i;
        if (top == SIZE_MAX || gain[top] == -(double)INFINITY) break;
        s->work[top] = true;
        PL_TRY_GOTO(done, st, ask(s, s->work, &c, err));
        gain[top] = merit(s, &c, PL_PART_SEARCH) - merit(s, &so_far, PL_PART_SEARCH);
        round[top] = taken + 1;
        bool leads = true;
        for (size_t i = 0; i < n; i++)
            if (!s->work[i] && gain[i] > gain[top] && round[i] != taken + 1) leads = false;
        if (!leads) {
            s->work[top] = false;
            continue;
        }
        taken++;
        so_far = c;
        if (!is_met(s, &c)) continue;
        offer(s, s->work, &c, any);
        break;
    }
done:
    pl_free(gain);
    pl_free(round);
    return st;
}

/* ---- making it smaller and better ---- */

static pl_status leave_out(search *s, bool *minimal, pl_err *err) {
    pl_mixed_score c;
    *minimal = true;
    for (size_t i = s->m->n_layers; i-- > 0;) { /* cheapest first */
        const size_t layer = s->order[i];
        if (!s->best[layer]) continue;
        if (is_spent(s)) {
            *minimal = false;
            return PL_OK;
        }
        memcpy(s->work, s->best, s->m->n_layers * sizeof(bool));
        s->work[layer] = false;
        PL_TRY(ask(s, s->work, &c, err));
        if (!is_met(s, &c)) continue;
        memcpy(s->best, s->work, s->m->n_layers * sizeof(bool));
        s->score = c;
    }
    return PL_OK;
}

static pl_status offer_work(search *s, bool *better, pl_err *err) {
    pl_mixed_score c;
    PL_TRY(ask(s, s->work, &c, err));
    *better = is_met(s, &c) && is_better(s, &c, &s->score);
    if (!*better) return PL_OK;
    memcpy(s->best, s->work, s->m->n_layers * sizeof(bool));
    s->score = c;
    return PL_OK;
}

/* One out, one in: the rows at the top of the table, and those that gain most. */
static pl_status exchange(search *s, pl_err *err) {
    bool again = true;
    for (int round = 0; again && round < 3; round++) {
        again = false;
        for (size_t out = 0; out < s->m->n_layers; out++) {
            size_t tried = 0;
            for (size_t i = 0; i < s->m->n_layers && tried < EXCHANGE_MAX; i++) {
                const size_t in = s->order[i];
                bool better = false;
                if (!s->best[out] || is_spent(s)) break;
                if (s->best[in]) continue;
                tried++;
                memcpy(s->work, s->best, s->m->n_layers * sizeof(bool));
                s->work[out] = false;
                s->work[in] = true;
                PL_TRY(offer_work(s, &better, err));
                again = again || better;
            }
        }
    }
    return PL_OK;
}

/* Number of sets of k out of n; at most ALL_SETS_MAX + 1. */
static size_t count_sets(size_t n, size_t k) {
    size_t sets = 1;
    for (size_t i = 0; i < k && sets <= ALL_SETS_MAX; i++)
        sets = sets * (n - i) / (i + 1);
    return sets <= ALL_SETS_MAX ? sets : ALL_SETS_MAX + 1;
}

/* Tries every set of k layers. at[] are positions in the order; the last one changes fastest. */
static pl_status try_all(search *s, size_t k, pl_err *err) {
    const size_t n = s->m->n_layers;
    size_t at[ALL_SETS_MAX];
    bool better = false;
    if (k == 0 || k > n || n > ALL_SETS_MAX) return PL_OK;
    for (size_t i = 0; i < k; i++)
        at[i] = i;
    while (!is_spent(s)) {
        memset(s->work, 0, n * sizeof(bool));
        for (size_t i = 0; i < k; i++)
            s->work[s->order[at[i]]] = true;
        PL_TRY(offer_work(s, &better, err));
        size_t moved = k;
        while (moved > 0 && at[moved - 1] == n - k + moved - 1)
            moved--;
        if (moved == 0) return PL_OK;
        at[moved - 1]++;
        for (size_t i = moved; i < k; i++)
            at[i] = at[i - 1] + 1;
    }
    return PL_OK;
}

static pl_status improve(search *s, pl_err *err) {
    const size_t k = count(s, s->best), n = s->m->n_layers;
    const bool few = count_sets(n, k) <= ALL_SETS_MAX;
    PL_TRY(few ? try_all(s, k, err) : PL_OK);
    return exchange(s, err); /* results are cached, so nothing runs twice */
}

/* ---- the result ---- */

static const char *figures(const search *s, const pl_mixed_score *c, int part) {
    char text[120];
    int n = snprintf(text, sizeof(text), "%.3g of their size", c->error[part]);
    if (s->m->metric != NULL)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %s %.4g", s->m->metric->name,
                      c->metric[part]);
    if (!isnan(c->top1[part]))
        snprintf(text + n, sizeof(text) - (size_t)n, ", top-1 %.1f %%", 100 * c->top1[part]);
    return pl_analysis_keep(s->x, text);
}

static pl_status say(search *s, const char *text, pl_err *err) {
    s->advice->reason = text;
    return text == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static const char *figures_held(const search *s) {
    if (s->m->n_held == 0)
        return "; nothing was held back: give 4 samples or a batch of 8 to have it checked";
    return pl_arena_printf(s->x->arena, "; on %lld %s held back: %s instead of %s",
                           (long long)s->m->n_held, s->m->by_rows ? "rows" : "samples",
                           figures(s, &s->score, PL_PART_HELD),
                           figures(s, &s->given, PL_PART_HELD));
}

static const char *changes(const search *s) {
    const char *weights = s->m->made ? "" : ", with the weights of the float model";
    const char *avoided = s->m->unsigned_weights ? "unsigned weights (uint8, the same numbers), "
                                                   "which avoid the saturated products"
                                                 : "";
    if (s->advice->n_raised == 0) return avoided;
    return pl_arena_printf(s->x->arena, "%s%skeep %zu of %zu layers in float%s", avoided,
                           *avoided == '\0' ? "" : "; and ", s->advice->n_raised, s->m->n_layers,
                           weights);
}

static pl_status propose(search *s, pl_err *err) {
    pl_advice *a = s->advice;
    a->n_raised = count(s, s->best);
    a->unsigned_weights = s->m->unsigned_weights;
    a->met = is_met(s, &s->score);
    a->after = s->score.error[PL_PART_SEARCH];
    a->held_after = s->score.error[PL_PART_HELD];
    a->top1_after = s->score.top1[PL_PART_SEARCH];
    const char *held = figures_held(s), *what = changes(s);
    if (held == NULL || what == NULL) return pl_fail_memory(err, 1);
    return say(s,
               pl_arena_printf(
                   s->x->arena,
                   "%s: the outputs are then off by %s instead of %s%s%s (%s; %zu runs)", what,
                   figures(s, &s->score, PL_PART_SEARCH), figures(s, &s->given, PL_PART_SEARCH),
                   held, a->one_minimal ? "; no layer of them can be left out" : "", a->limit,
                   a->n_queries),
               err);
}

/* Better than the original model, also on the samples that were held back. */
static bool is_worth_it(const search *s, const pl_mixed_score *c) {
    const int held = PL_PART_HELD;
    if (!is_better(s, c, &s->given)) return false;
    if (s->m->n_held == 0) return true;
    if (s->top1 && c->top1[held] < s->given.top1[held]) return false;
    return merit(s, c, held) > merit(s, &s->given, held);
}

static pl_status refuse(search *s, const char *why, pl_err *err) {
    memset(s->best, 0, s->m->n_layers * sizeof(bool));
    s->advice->met = false;
    s->advice->after = s->advice->before;
    return say(s,
               pl_arena_printf(s->x->arena, "no mixed-precision model is proposed: %s (%zu runs)",
                               why, s->advice->n_queries),
               err);
}

static pl_status fill_rows(search *s, pl_err *err) {
    pl_advice *a = s->advice;
    pl_quantisation *q = s->x->session->quant;
    a->rows = pl_arena_array(s->x->arena, s->m->n_layers + 1, sizeof(pl_advice_row));
    if (a->rows == NULL) return pl_fail_memory(err, s->m->n_layers);
    for (size_t i = 0; i < q->n_rows; i++) {
        for (size_t k = 0; k < s->m->n_layers; k++)
            if (s->best[k] && strcmp(s->m->layers[k].own->name, q->rows[i].value) == 0)
                q->rows[i].keep = true;
        if (!q->rows[i].keep) continue;
        a->rows[a->n_rows++] = (pl_advice_row){ .node = q->rows[i].node,
                                                .op = q->rows[i].op,
                                                .value = q->rows[i].value,
                                                .module = q->rows[i].module,
                                                .raise = true,
                                                .largest = (double)NAN,
                                                .condition = (double)NAN,
                                                .local = (double)NAN,
                                                .effect = q->rows[i].share };
    }
    return PL_OK;
}

/* The candidates may have run on another backend; the final check is on the one under test, with
 * the written file if there is one. */
static pl_status verify(search *s, pl_err *err) {
    const char *path = s->options->out;
    const plumb_convert_options options = { .size = sizeof(options) };
    pl_backend *usual = s->m->backend;
    plumb_model *file = NULL;
    pl_model *model = NULL;
    pl_mixed_score c = { .ran = false };
    plumb_error trouble = { PLUMB_OK, "" };
    pl_status st = pl_mixed_model(s->m, s->best, &model, err);
    if (st == PL_OK && path != NULL) {
        st = pl_convert(model, path, &options, err);
        if (st == PL_OK && plumb_model_open(path, &file, &trouble) != PLUMB_OK)
            st = pl_fail(err, trouble.status, "%s", trouble.message);
        if (st == PL_OK) s->advice->model = pl_analysis_keep(s->x, path);
    }
    if (s->x->a.backend != NULL) s->m->backend = s->x->a.backend;
    if (st == PL_OK) st = pl_mixed_try_model(s->m, file != NULL ? file->model : model, &c, err);
    s->m->backend = usual;
    const double most = 1.05 * s->score.error[PL_PART_SEARCH] + 1e-6;
    if (st == PL_OK && !(c.ran && c.error[PL_PART_SEARCH] <= most))
        st = pl_fail(
            err, PL_E_INTERNAL,
            "the mixed-precision model gives %.3g instead of %.3g when it is run again%s%s",
            c.error[PL_PART_SEARCH], s->score.error[PL_PART_SEARCH], c.ran ? "" : ": ", c.why);
    plumb_model_close(file);
    pl_model_free(model);
    return st;
}

/* ---- the whole ---- */

static pl_status search_init(search *s, pl_err *err) {
    const size_t n = s->m->n_layers;
    const pl_quantisation *q = s->x->session->quant;
    s->order = pl_calloc(n + 1, sizeof(size_t));
    s->keep = pl_calloc(n + 1, sizeof(bool));
    s->best = pl_calloc(n + 1, sizeof(bool));
    s->work = pl_calloc(n + 1, sizeof(bool));
    if (s->order == NULL || s->keep == NULL || s->best == NULL || s->work == NULL)
        return pl_fail_memory(err, n);
    for (size_t i = 0; i < q->n_rows; i++)
        for (size_t k = 0; k < n; k++)
            if (strcmp(s->m->layers[k].own->name, q->rows[i].value) == 0) s->order[i] = k;
    s->limit = q->limit;
    s->goal = (double)NAN;
    s->advice->precision = "int8";
    s->advice->n_nodes = n;
    s->advice->by = s->top1 ? "top1" : s->x->session->metric;
    s->advice->n_held = s->m->n_held;
    s->advice->limit =
        s->top1 ? pl_arena_printf(s->x->arena, "goal: top-1 agreement of %g %%", 100 * TOP1_GOAL)
                : pl_arena_printf(s->x->arena, "limit: %g of an output's size", s->limit);
    return s->advice->limit == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status look_at_ends(search *s, pl_err *err) {
    const bool other = s->m->unsigned_weights;
    PL_TRY(ask(s, s->keep, &s->none, err));
    s->given = s->none;
    s->m->unsigned_weights = false;
    if (other) PL_TRY(pl_mixed_try(s->m, s->keep, &s->given, err));
    s->m->unsigned_weights = other;
    for (size_t i = 0; i < s->m->n_layers; i++)
        s->keep[i] = true;
    PL_TRY(ask(s, s->keep, &s->all, err));
    s->advice->before = s->advice->after = s->given.error[PL_PART_SEARCH];
    s->advice->held_before = s->given.error[PL_PART_HELD];
    s->advice->top1_before = s->given.top1[PL_PART_SEARCH];
    return PL_OK;
}

/* Finds the fewest layers, then the best set of that size; *why says why there is none, or NULL. */
static pl_status find_layers(search *s, const char **why, pl_err *err) {
    bool any = false;
    *why = NULL;
    if (!s->all.ran) *why = s->all.why;
    if (s->all.ran && !is_better(s, &s->all, &s->none))
        *why = "with every layer in float the outputs are no better";
    if (*why != NULL) return PL_OK;
    if (!is_met(s, &s->all))
        s->goal =
            merit(s, &s->none, PL_PART_SEARCH) +
            MOST_OF_IT * (merit(s, &s->all, PL_PART_SEARCH) - merit(s, &s->none, PL_PART_SEARCH));
    PL_TRY(by_share(s, &any, err));
    PL_TRY(greedily(s, &any, err));
    if (!any) *why = "no set of layers that was tried is good enough";
    if (!any) return PL_OK;
    PL_TRY(leave_out(s, &s->advice->one_minimal, err));
    PL_TRY(improve(s, err));
    if (!is_better(s, &s->score, &s->given))
        *why = "none of those that were tried is better than the quantised model";
    else if (!is_worth_it(s, &s->score))
        *why = "the best one is no better than the quantised model on what was held back";
    return PL_OK;
}

static pl_status decide(search *s, pl_err *err) {
    const char *why = NULL;
    PL_TRY(look_at_ends(s, err));
    if (!s->given.ran || !s->none.ran)
        return refuse(s, s->given.ran ? s->none.why : s->given.why, err);
    if (s->top1 && isnan(s->none.top1[PL_PART_SEARCH]))
        return pl_fail(
            err, PL_E_USAGE,
            "option 'advise-metric' top1: the first float output has no classes (it needs at "
            "least two dimensions)");
    const bool remedy = s->m->unsigned_weights && is_worth_it(s, &s->none);
    const bool enough = is_met(s, remedy ? &s->none : &s->given);
    if (enough && !remedy) {
        s->advice->met = s->advice->one_minimal = true;
        return say(s,
                   pl_arena_printf(s->x->arena,
                                   "nothing has to be kept in float: the outputs are off by %s "
                                   "(%s)",
                                   figures(s, &s->given, PL_PART_SEARCH), s->advice->limit),
                   err);
    }
    if (!enough) PL_TRY(find_layers(s, &why, err));
    if (enough || why != NULL) { /* no layers: unsigned weights alone may still help */
        memset(s->best, 0, s->m->n_layers * sizeof(bool));
        s->score = s->none;
        if (!remedy) return refuse(s, why, err);
    }
    PL_TRY(propose(s, err));
    return verify(s, err);
}

pl_status pl_advise_layers(pl_mixed *m, const pl_advise_options *options, pl_err *err) {
    search s = { .m = m, .options = options, .x = &m->of[0] };
    const char *by = s.x->options->advise_metric;
    s.top1 = by != NULL && strcmp(by, "top1") == 0;
    s.advice = pl_arena_array(s.x->arena, 1, sizeof(pl_advice));
    if (s.advice == NULL) return pl_fail_memory(err, 1);
    pl_advice_init(s.advice);
    s.x->session->advice = s.advice;
    s.answers = pl_calloc(MAX_RUNS, sizeof(answer));
    pl_status st = s.answers == NULL ? pl_fail_memory(err, MAX_RUNS) : search_init(&s, err);
    if (st == PL_OK) st = decide(&s, err);
    if (st == PL_OK) st = fill_rows(&s, err);
    if (st == PL_OK) st = pl_analysis_timed(s.x, "advice", err);
    pl_free(s.order);
    pl_free(s.keep);
    pl_free(s.best);
    pl_free(s.work);
    pl_free(s.answers);
    return st;
}

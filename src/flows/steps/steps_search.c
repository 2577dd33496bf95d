/* Selects the steps to analyse, and concludes from the analyses.
 *
 * Suspects are steps whose outputs differ by more than their precision explains. The first one that
 * an analysis confirms is the result if the step before it agrees; else the search continues by
 * bisection, because a fault may exist for a while before it shows. A step is reached by running
 * from a checkpoint of A's state without recording, so a thousand steps cost only a handful of
 * recorded ones. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/progress.h"
#include "flows/analyze/analyze.h"
#include "flows/steps/steps.h"

enum { MAX_SUSPECTS = 8 }; /* that agree, before giving up */

/* ---- one step ---- */

pl_status pl_steps_rewind(pl_steps *s, size_t step, pl_err *err) {
    const pl_checkpoint *from = NULL;
    const size_t n = s->a.model->graph->n_inputs;
    for (size_t i = 0; i < s->n_checkpoints; i++)
        if (s->checkpoints[i].step <= step && (from == NULL || s->checkpoints[i].step > from->step))
            from = &s->checkpoints[i];
    pl_side_drop_state(&s->a);
    for (size_t i = 0; from != NULL && i < n; i++)
        if (from->state[i] != NULL) s->a.state[i] = pl_datum_ref(from->state[i]);
    for (size_t k = from == NULL ? 0 : from->step; k < step; k++) {
        const pl_feed_window w = pl_steps_window(s, &s->a, k);
        PL_TRY(pl_side_step(&s->a, &w, k, s->a.state, err));
        pl_side_keep_state(&s->a);
    }
    const pl_feed_window w = pl_steps_window(s, &s->a, step);
    pl_steps_drop(s->a.in, n);
    return pl_feed_make(&s->a.feed, &w, step, s->a.state, s->a.in, err);
}

static pl_status step_folder(const pl_steps *s, size_t step, char **out, pl_err *err) {
    pl_buf path = PL_BUF_INIT;
    *out = NULL;
    if (s->o->output == NULL) return PL_OK;
    pl_buf_printf(&path, "%s/step-%zu", s->o->output, step);
    *out = pl_buf_take(&path);
    return *out == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status analyze_feed(pl_steps *s, const char *folder, pl_session **out, pl_err *err) {
    const pl_graph *g = s->a.model->graph;
    const plumb_generate_options *o = s->o;
    plumb_inputs inputs = { .size = sizeof(inputs), .seed = o->inputs->seed, .n_samples = 1 };
    plumb_input *tensors = pl_calloc(g->n_inputs + 1, sizeof(*tensors));
    if (tensors == NULL) return pl_fail_memory(err, g->n_inputs);
    for (size_t i = 0; i < g->n_inputs; i++)
        if (s->a.in[i] != NULL && s->a.in[i]->kind == PL_TYPE_TENSOR)
            tensors[inputs.n_tensors++] =
                (plumb_input){ g->inputs[i]->name, (const plumb_tensor *)s->a.in[i]->tensor };
    inputs.tensors = tensors;
    const plumb_analyze_options options = { .size = sizeof(options),
                                            .inputs = &inputs,
                                            .backend = o->backend,
                                            .reference = o->reference,
                                            .reference_model = o->reference_model,
                                            .timeout = o->timeout,
                                            .memory_limit = o->memory_limit,
                                            .threads = o->threads,
                                            .output = folder,
                                            .save = o->save == NULL ? "suspects" : o->save,
                                            .progress = o->progress,
                                            .sandbox = o->sandbox };
    const pl_status st = pl_analyze(s->m, &options, out, err);
    pl_free(tensors);
    return st;
}

/* The analysis of a step, made once. NULL when the limit is reached. */
static pl_status analyze_step(pl_steps *s, size_t step, const pl_session **out, pl_err *err) {
    *out = NULL;
    if (s->steps[step].analysis != SIZE_MAX) {
        *out = s->analyses[s->steps[step].analysis].session;
        return PL_OK;
    }
    if (s->n_analyses == PL_MAX_ANALYSES) return PL_OK;
    pl_step_analysis *x = &s->analyses[s->n_analyses];
    *x = (pl_step_analysis){ .step = step };
    pl_status st = step_folder(s, step, &x->folder, err);
    if (st == PL_OK) st = pl_steps_rewind(s, step, err);
    if (st == PL_OK) st = analyze_feed(s, x->folder, &x->session, err);
    if (st != PL_OK) {
        pl_free(x->folder);
        return pl_err_wrap(err, st, "step %zu", step);
    }
    s->steps[step].analysis = s->n_analyses++;
    *out = x->session;
    return PL_OK;
}

static bool convicts(const pl_session *x) {
    return x != NULL &&
           (x->outcome == PL_OUTCOME_DIVERGED || x->outcome == PL_OUTCOME_NONDETERMINISTIC);
}

/* ---- the search ---- */

/* The step with the largest score. */
static size_t worst_step(const pl_steps *s) {
    size_t worst = 0;
    for (size_t i = 1; i < s->n_steps; i++)
        if (s->steps[i].score > s->steps[worst].score) worst = i;
    return worst;
}

static size_t next_suspect(const pl_steps *s, size_t from) {
    for (size_t i = from; i < s->n_steps; i++)
        if (s->steps[i].score > 1) return i;
    return SIZE_MAX;
}

/* The first wrong step between one that agrees (or the start) and one that is wrong. */
static pl_status narrow(pl_steps *s, size_t from, size_t bad, size_t *first, pl_err *err) {
    const pl_session *x = NULL;
    size_t low = from;  /* every step before it is assumed to agree */
    bool beside = true; /* most often the one before agrees */
    while (low < bad) {
        const size_t at = beside ? bad - 1 : low + (bad - 1 - low) / 2;
        beside = false;
        PL_TRY(analyze_step(s, at, &x, err));
        if (x == NULL) break;
        if (convicts(x)) {
            bad = at;
        } else {
            low = at + 1;
        }
    }
    *first = bad;
    return PL_OK;
}

/* The first suspect that is confirmed, else the worst step if it is. */
static pl_status find_bad(pl_steps *s, size_t *bad, size_t *low, bool *gave_up, pl_err *err) {
    const pl_session *x = NULL;
    size_t n = 0;
    *bad = SIZE_MAX;
    *low = 0;
    *gave_up = false;
    for (size_t i = next_suspect(s, 0); i != SIZE_MAX; i = next_suspect(s, i + 1)) {
        if (n++ == MAX_SUSPECTS) {
            *gave_up = true;
            break;
        }
        PL_TRY(analyze_step(s, i, &x, err));
        if (convicts(x)) {
            *bad = i;
            return PL_OK;
        }
        *low = i + 1;
    }
    const size_t worst = worst_step(s);
    PL_TRY(analyze_step(s, worst, &x, err));
    if (convicts(x)) {
        *bad = worst;
        if (*low > worst) *low = 0;
        *gave_up = false;
    }
    return PL_OK;
}

/* ---- the answer ---- */

static const pl_session *session_of(const pl_steps *s, size_t step) {
    const size_t i = step < s->n_steps ? s->steps[step].analysis : SIZE_MAX;
    return i == SIZE_MAX ? NULL : s->analyses[i].session;
}

static void say(pl_steps *s, pl_outcome outcome, const char *text) {
    s->outcome = outcome;
    (void)snprintf(s->reason, sizeof(s->reason), "%s", text);
}

static void say_culprit(pl_steps *s) {
    const pl_session *x = session_of(s, s->first_divergent);
    const pl_step *step = &s->steps[s->first_divergent];
    const pl_blame_entry *b = pl_steps_culprit(s);
    char text[560], where[60] = "";
    if (b == NULL) {
        (void)snprintf(text, sizeof(text), "step %zu: %.480s", s->first_divergent, x->reason);
    } else {
        const int64_t layer = pl_steps_layer(b->node[0] != '\0' ? b->node : b->value);
        if (layer >= 0) (void)snprintf(where, sizeof(where), " in layer %lld", (long long)layer);
        (void)snprintf(text, sizeof(text), "step %zu (after %lld token%s): %s '%.200s'%s: %.120s",
                       s->first_divergent, (long long)step->past, pl_plural((size_t)step->past),
                       b->op, b->node[0] != '\0' ? b->node : b->value, where,
                       b->kind[0] != '\0' ? b->kind : "local error beyond its bound");
    }
    say(s, x->outcome, text);
}

static void count_ties(pl_steps *s) { /* an analysed step that agrees explains its flip */
    for (size_t i = 0; i < s->n_steps; i++) {
        const pl_session *x = session_of(s, i);
        if (s->steps[i].flip && x != NULL) s->steps[i].tie = x->outcome == PL_OUTCOME_AGREE;
    }
}

static void conclude_clean(pl_steps *s, bool gave_up) {
    size_t n_flips = 0, n_ties = 0, first = SIZE_MAX;
    char text[400];
    for (size_t i = 0; i < s->n_analyses; i++) {
        const pl_session *x = s->analyses[i].session;
        if (x->outcome == PL_OUTCOME_AGREE) continue;
        (void)snprintf(text, sizeof(text), "step %zu: %.300s", s->analyses[i].step, x->reason);
        say(s, x->outcome, text);
        return;
    }
    for (size_t i = 0; i < s->n_steps; i++) {
        n_flips += s->steps[i].flip;
        n_ties += s->steps[i].flip && s->steps[i].tie;
        if (s->steps[i].flip && !s->steps[i].tie && first == SIZE_MAX) first = i;
    }
    if (first != SIZE_MAX) {
        (void)snprintf(text, sizeof(text),
                       "step %zu: another token, margin %.3g beyond a tie; no operation is to "
                       "blame: rounding that %s",
                       first, s->steps[first].logits[PL_LOGIT_margin],
                       s->ran_own ? "the state accumulates" : "is amplified");
        say(s, PL_OUTCOME_DIVERGED, text);
        return;
    }
    if (gave_up) {
        (void)snprintf(text, sizeof(text),
                       "more than %d steps differ by more than their precision explains, and the "
                       "first %d agree when they are analysed",
                       MAX_SUSPECTS, MAX_SUSPECTS);
        say(s, PL_OUTCOME_INCONCLUSIVE, text);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "%zu step%s compared, %zu analysed; %zu flip%s, all of them ties", s->n_steps,
                   pl_plural(s->n_steps), s->n_analyses, n_flips, pl_plural(n_flips));
    if (n_ties == 0)
        (void)snprintf(text, sizeof(text), "%zu step%s compared, %zu analysed; %s", s->n_steps,
                       pl_plural(s->n_steps), s->n_analyses,
                       s->steps[0].has_logits ? "every choice is the same"
                                              : "outputs and state agree");
    say(s, PL_OUTCOME_AGREE, text);
}

/* Without analyses: concludes from the outputs. */
static void conclude_unanalysed(pl_steps *s) {
    const size_t first = next_suspect(s, 0);
    char text[300];
    if (first == SIZE_MAX) {
        (void)snprintf(text, sizeof(text),
                       "%zu step%s compared: outputs and state agree; no operation was analysed",
                       s->n_steps, pl_plural(s->n_steps));
        say(s, PL_OUTCOME_AGREE, text);
        return;
    }
    s->first_divergent = first;
    (void)snprintf(text, sizeof(text),
                   "step %zu: outputs or state differ by %.3g times what their precision explains",
                   first, s->steps[first].score);
    say(s, PL_OUTCOME_DIVERGED, text);
}

/* Finds what carried the difference to the step where it first showed. */
static void find_carrier(pl_steps *s) {
    const size_t at = s->first_divergent;
    if (at == SIZE_MAX) return;
    s->carried_by = s->ran_own && s->parted != SIZE_MAX && s->parted > at ? "state"
                    : s->steps[at].state_suspect                          ? "both"
                                                                          : "computation";
}

static pl_status search(pl_steps *s, bool *gave_up, pl_err *err) {
    size_t bad = SIZE_MAX, low = 0;
    const pl_session *x = NULL;
    PL_TRY(find_bad(s, &bad, &low, gave_up, err));
    if (bad == SIZE_MAX) return PL_OK;
    PL_TRY(narrow(s, low, bad, &s->first_divergent, err));
    return analyze_step(s, worst_step(s), &x, err);
}

/* Each side had its own state, and they diverged. To see what a step itself computes, both sides
 * need the same state: runs the steps up to there again. The report stays about the own states. */
static pl_status search_own(pl_steps *s, bool *gave_up, pl_err *err) {
    const size_t n = s->n_steps, n_tokens = s->n_tokens;
    pl_step *own = pl_calloc(n, sizeof(*own));
    if (own == NULL) return pl_fail_memory(err, n);
    memcpy(own, s->steps, n * sizeof(*own));
    pl_status st = pl_steps_pass(s, s->parted + 1, err);
    if (st == PL_OK) st = search(s, gave_up, err);
    for (size_t i = 0; i < n; i++) {
        own[i].analysis = i < s->n_steps ? s->steps[i].analysis : SIZE_MAX;
        if (i == s->first_divergent) own[i].state_suspect = s->steps[i].state_suspect;
    }
    memcpy(s->steps, own, n * sizeof(*own));
    s->n_steps = n;
    s->n_tokens = n_tokens;
    pl_free(own);
    return st;
}

pl_status pl_steps_search(pl_steps *s, pl_err *err) {
    bool gave_up = false;
    const bool own = !s->shared;
    if (s->o->skip_analysis) {
        conclude_unanalysed(s);
        return PL_OK;
    }
    s->shared = true;
    if (own) s->parted = next_suspect(s, 0);
    PL_TRY(own && s->parted != SIZE_MAX ? search_own(s, &gave_up, err) : search(s, &gave_up, err));
    count_ties(s);
    if (s->first_divergent == SIZE_MAX) {
        conclude_clean(s, gave_up);
    } else {
        say_culprit(s);
        find_carrier(s);
    }
    return PL_OK;
}

const pl_blame_entry *pl_steps_culprit(const pl_steps *s) {
    const pl_session *x = session_of(s, s->first_divergent);
    return x == NULL || x->n_blame == 0 ? NULL : &x->blame[0];
}

int64_t pl_steps_first_flip(const pl_steps *s) {
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].flip) return (int64_t)i;
    return -1;
}

double pl_steps_perplexity(const pl_steps *s, int metric) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->n_steps; i++) {
        if (!s->steps[i].has_logits || s->steps[i].token < 0) continue;
        sum += s->steps[i].logits[metric];
        n++;
    }
    return n == 0 ? (double)NAN : exp(sum / (double)n);
}

/* ---- layers ---- */

static bool is_word(const char *at, size_t n) {
    static const char *const words[] = { "layers", "layer", "blocks", "block", "h", "blk" };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strlen(words[i]) == n && strncmp(words[i], at, n) == 0) return true;
    return false;
}

int64_t pl_steps_layer(const char *name) {
    for (const char *at = name; *at != '\0';) {
        size_t n = 0;
        while (isalpha((unsigned char)at[n]))
            n++;
        const char *digits = at + n;
        if (n > 0 && (*digits == '.' || *digits == '_' || *digits == '/')) digits++;
        if (n > 0 && is_word(at, n) && isdigit((unsigned char)*digits)) {
            int64_t layer = 0;
            while (isdigit((unsigned char)*digits) && layer < 1000000)
                layer = 10 * layer + (*digits++ - '0');
            return layer;
        }
        at += n > 0 ? n : 1;
    }
    return -1;
}

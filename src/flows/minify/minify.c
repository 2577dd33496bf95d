/* The minifier: runs the strategies in turn, checks each success again and saves it.
 *
 * A success counts only if the strategy's measure got smaller, no node was added, and the candidate
 * failed the same way a second time. Log lines follow PyTorch's where possible. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/file.h"
#include "base/progress.h"
#include "flows/api.h"
#include "flows/inputs_doubt.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/repro/checkpoint.h"
#include "flows/minify/search/mini_ahead.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_work.h"
#include "flows/minify/search/mini_write.h"
#include "flows/minify/strategy/strategy.h"

enum { ROUNDS_MAX = 64 };

static const pl_strategy *const strategies[] = {
#define PL_STRATEGY(name) &pl_strategy_##name,
#include "flows/minify/strategy/strategies.def"
#undef PL_STRATEGY
};
enum { N_STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

void pl_mini_log(pl_mini *m, const char *format, ...) {
    char line[1024];
    va_list args;
    if (m->options->log == NULL || pl_ahead_is_scout(m->ahead)) return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    m->options->log(m->options->log_ctx, line);
}

double pl_mini_cpu_seconds(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- progress ---- */

static int64_t goal_of(const pl_measure *x, pl_goal goal) {
    switch (goal) {
    case PL_GOAL_NODES: return (int64_t)x->n_nodes;
    case PL_GOAL_INPUTS: return (int64_t)x->n_inputs;
    case PL_GOAL_OUTPUTS: return (int64_t)x->n_outputs;
    case PL_GOAL_ELEMENTS: return x->n_elements;
    case PL_GOAL_ATTRS: return (int64_t)x->n_attrs;
    case PL_GOAL_COMPLEX: return x->n_complex;
    case PL_GOAL_TYPES: return x->n_odd_types;
    case PL_GOAL_ORIGINAL: return x->n_original;
    }
    return 0;
}

static void say_success(pl_mini *m, const pl_measure *a, const pl_measure *b) {
    if (b->n_nodes < a->n_nodes) {
        pl_mini_log(m, "SUCCESS: Went from %zu to %zu nodes", a->n_nodes, b->n_nodes);
    }
    if (b->n_inputs != a->n_inputs) {
        pl_mini_log(m, "SUCCESS: Went from %zu to %zu inputs", a->n_inputs, b->n_inputs);
    }
    if (b->n_outputs < a->n_outputs) {
        pl_mini_log(m, "SUCCESS: Went from %zu to %zu outputs", a->n_outputs, b->n_outputs);
    }
    if (b->n_elements < a->n_elements) {
        pl_mini_log(m, "SUCCESS: Went from %lld to %lld elements", (long long)a->n_elements,
                    (long long)b->n_elements);
    }
    if (b->n_attrs < a->n_attrs && b->n_nodes == a->n_nodes) {
        pl_mini_log(m, "SUCCESS: Went from %zu to %zu attributes and inputs of nodes", a->n_attrs,
                    b->n_attrs);
    }
    if (b->n_original < a->n_original) {
        pl_mini_log(m, "SUCCESS: Went from %lld to %lld values of the original's weights",
                    (long long)a->n_original, (long long)b->n_original);
    }
    if (b->n_complex < a->n_complex && b->n_elements == a->n_elements) {
        pl_mini_log(m, "SUCCESS: Went from %lld to %lld elements that are not simple",
                    (long long)a->n_complex, (long long)b->n_complex);
    }
}

static void report(pl_mini *m, const pl_measure *now) {
    char phase[96];
    if (pl_ahead_is_scout(m->ahead)) return;
    snprintf(phase, sizeof(phase), "minify: %zu node%s, %lld element%s", now->n_nodes,
             pl_plural(now->n_nodes), (long long)now->n_elements,
             pl_plural((uint64_t)now->n_elements));
    pl_progress_update(m->options->progress, phase, (int64_t)m->oracle->n_queries, 0);
}

static pl_status accept_take(pl_mini *m, const pl_strategy *s, pl_mini_state *candidate,
                             bool *success, pl_err *err) {
    pl_measure before, after;
    pl_answer answer = PL_ANSWER_PASSES;
    pl_status st = PL_OK;
    pl_mini_state_measure(m->best, &before);
    pl_mini_state_measure(candidate, &after);
    *success = false;
    if (s->goal == PL_GOAL_COMPLEX) {
        before.n_complex = pl_mini_count_complex(m->best);
        after.n_complex = pl_mini_count_complex(candidate);
    }
    if (s->goal == PL_GOAL_ORIGINAL) {
        st = pl_mini_count_original(m, m->best, &before.n_original, err);
        if (st == PL_OK) st = pl_mini_count_original(m, candidate, &after.n_original, err);
    }
    if (st != PL_OK) {
        pl_mini_state_free(candidate);
        return st;
    }
    if (goal_of(&after, s->goal) >= goal_of(&before, s->goal) || after.n_nodes > before.n_nodes) {
        pl_mini_log(m, "FAIL: %s (nothing got smaller; the search goes on)", s->name);
    } else if ((st = pl_oracle_ask_again(m->oracle, candidate, &answer, err)) == PL_OK &&
               answer != PL_ANSWER_FAILS) {
        pl_mini_log(m, "WARNING: %s: did not fail a second time; not applied", s->name);
    } else if (st == PL_OK) {
        say_success(m, &before, &after);
        pl_mini_state_free(m->best);
        m->best = candidate;
        candidate = NULL;
        *success = true;
        m->n_accepted++;
        pl_oracle_narrow(m->oracle);
        report(m, &after);
        st = pl_mini_checkpoint(m, err);
    }
    pl_mini_state_free(candidate);
    return st;
}

static size_t power_of_two(size_t n) {
    size_t g = 1;
    while (2 * g <= n)
        g *= 2;
    return g;
}

static pl_status try_strategy(pl_mini *m, const pl_strategy *s, bool *success, pl_err *err) {
    const pl_graph *graph = m->best->model->graph;
    pl_mini_state *candidate = NULL;
    *success = false;
    if ((s->needs_data && !m->with_data) || (s->needs_blame && m->blamed[0] == '\0')) return PL_OK;
    if (s->goal == PL_GOAL_NODES && s->stage < PL_STAGE_DETAIL && graph->n_nodes < 2) return PL_OK;
    pl_mini_log(m, "%s", "");
    pl_mini_log(m, "Strategy: %s (G: %zu) (%zu nodes, %zu inputs)", s->name,
                power_of_two(graph->n_nodes), graph->n_nodes, graph->n_inputs);
    const pl_status st = s->run(m, m->best, &candidate, err);
    if (candidate == NULL) {
        if (st == PL_OK)
            pl_mini_log(m, "FAIL: %s (it found nothing smaller; the search goes on)", s->name);
        return st;
    }
    /* Keep what a strategy had found when the budget ran out. */
    pl_err trouble = PL_ERR_INIT;
    const pl_status accepted = accept_take(m, s, candidate, success, &trouble);
    if (accepted != PL_OK && st == PL_OK) {
        *err = trouble;
        return accepted;
    }
    return st;
}

static pl_status refresh_values(pl_mini *m, pl_err *err) {
    bool ok = false;
    if (!m->with_data || m->best->values != NULL || m->best->model->graph->n_nodes < 2) {
        return PL_OK;
    }
    return pl_mini_state_evaluate(m, m->best, &ok, err);
}

/* Runs every strategy of a stage in turn; repeats while one succeeds, if asked to. */
static pl_status run_stage(pl_mini *m, pl_stage stage, bool again, bool *any, pl_err *err) {
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool success = false;
        if (stage == PL_STAGE_STRUCTURE && m->best->model->graph->n_nodes > 1) {
            pl_mini_log(m, "Trying granularity %zu", power_of_two(m->best->model->graph->n_nodes));
        }
        for (size_t i = 0; i < N_STRATEGIES; i++) {
            bool one = false;
            if (strategies[i]->stage != stage) continue;
            PL_TRY(refresh_values(m, err));
            PL_TRY(try_strategy(m, strategies[i], &one, err));
            success = success || one;
        }
        *any = *any || success;
        if (!success || !again) return PL_OK;
    }
    return PL_OK;
}

static pl_status run_stages(pl_mini *m, pl_err *err) {
    bool guessed = false;
    PL_TRY(run_stage(m, PL_STAGE_GUESS, false, &guessed, err));
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool smaller = false, proved_wrong = false;
        PL_TRY(run_stage(m, PL_STAGE_STRUCTURE, true, &smaller, err));
        PL_TRY(run_stage(m, PL_STAGE_DETAIL, true, &smaller, err));
        PL_TRY(run_stage(m, PL_STAGE_PROOF, true, &proved_wrong, err));
        if (!proved_wrong) return PL_OK;
    }
    return PL_OK;
}

/* The original must fail, twice, in the same way. */
static pl_status check_original(pl_mini *m, pl_err *err) {
    pl_answer answer = PL_ANSWER_PASSES;
    char text[400];
    const pl_status st = pl_oracle_learn(m->oracle, m->best, &answer, err);
    if (st == PL_E_INVALID && m->with_data)
        PL_TRY(pl_inputs_doubt(m->best->model, m->options->inputs, m->best->in, NULL, NULL,
                               pl_mini_deadline(m, PL_DOUBT_SECONDS), err));
    PL_TRY(st);
    if (answer == PL_ANSWER_PASSES) {
        return pl_fail(err, PL_E_INVALID,
                       "Input graph did not fail the tester: there is nothing to minify");
    }
    if (answer != PL_ANSWER_FAILS) {
        pl_signature_describe(&m->oracle->target, text, sizeof(text));
        return pl_fail(err, PL_E_INVALID, "the model fails, but not with the signature '%s'", text);
    }
    pl_signature_describe(&m->oracle->target, text, sizeof(text));
    if (m->options->check_str != NULL && m->oracle->target.kind <= PL_FAIL_DETERMINISM)
        return pl_fail(err, PL_E_USAGE,
                       "option 'check-str' requires a failure with an error message; this is: %s",
                       text);
    pl_mini_log(m, "Failure: %s", text);
    for (int i = 0; i < 2; i++) {
        PL_TRY(pl_oracle_ask_again(m->oracle, m->best, &answer, err));
        if (answer == PL_ANSWER_FAILS) continue;
        return pl_fail(
            err, PL_E_INVALID,
            "the failure (%s) is flaky: run %d of 3 passed; a flaky failure cannot be minified",
            text, i + 2);
    }
    return PL_OK;
}

static pl_status search(pl_mini *m, pl_err *err) {
    PL_TRY(check_original(m, err));
    const size_t n_nodes = pl_model_count_nodes(m->best->model);
    if (!m->resumed) m->n_nodes_before = n_nodes;
    pl_mini_log(m, "Started off with %zu nodes", n_nodes);
    const pl_status st = run_stages(m, err);
    if (st == PL_E_LIMIT) pl_mini_log(m, "Stopped: %s", err->message);
    return st == PL_E_LIMIT ? PL_OK : st;
}

pl_status pl_mini_run(pl_mini *m, pl_mini_state *start_take, pl_err *err) {
    pl_answer answer = PL_ANSWER_PASSES;
    const double since = pl_mini_cpu_seconds();
    m->best = start_take;
    PL_TRY(pl_mini_weights_know_originals(m->oracle->weights, m->best, err));
    if (m->options->check != NULL) {
        PL_TRY(pl_mini_weights_use_file(m->oracle->weights, m->best, m->work, err));
    }
    const pl_status st = search(m, err);
    /* A speculative worker without a query to answer has no result; the rest is not its job. */
    if (pl_ahead_is_scout(m->ahead)) pl_ahead_report(m->ahead, NULL);
    pl_ahead_stop(m->ahead);
    PL_TRY(st);
    PL_TRY(pl_oracle_ask_again(m->oracle, m->best, &answer, err));
    if (answer != PL_ANSWER_FAILS) {
        return pl_fail(err, PL_E_INVALID,
                       "the smallest model no longer fails: the failure is flaky");
    }
    m->cpu_seconds = pl_mini_cpu_seconds() - since;
    pl_mini_log(m, "Made %zu queries", m->oracle->n_queries);
    return pl_mini_bisect(m, err);
}

/* The oracle: one predicate for every strategy. Answers are cached by the content of the
 * candidate. */
#include "flows/minify/oracle/oracle.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/progress.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_ahead.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_write.h"

pl_status pl_oracle_new(pl_mini *m, const pl_oracle_row *row, void *self, pl_oracle **out,
                        pl_err *err) {
    pl_oracle *o = pl_calloc(1, sizeof(*o));
    if (o == NULL) return pl_fail_memory(err, sizeof(*o));
    o->row = row;
    o->m = m;
    o->self = self;
    o->check_str = m->options->check_str;
    o->max_queries = m->options->max_queries;
    o->deadline = m->options->max_time > 0 ? m->started + m->options->max_time : 0;
    o->keep_other = m->options->keep_other != 0;
    pl_signature_init(&o->target);
    o->arena = pl_arena_new();
    const pl_status st =
        o->arena == NULL ? pl_fail_memory(err, 1) : pl_mini_weights_new(&o->weights, err);
    if (st != PL_OK) {
        o->row = NULL; /* the caller frees self */
        pl_oracle_free(o);
        return st;
    }
    *out = o;
    return PL_OK;
}

void pl_oracle_free(pl_oracle *o) {
    if (o == NULL) return;
    if (o->row != NULL && o->row->release != NULL) o->row->release(o);
    for (size_t i = 0; i < o->n_others; i++)
        pl_mini_state_free(o->others[i].state);
    pl_free(o->others);
    pl_mini_weights_free(o->weights);
    pl_buf_release(&o->bytes);
    pl_strmap_release(&o->cache);
    pl_arena_free(o->arena);
    pl_free(o);
}

pl_status pl_observed_add(pl_observed *o, const pl_signature *s, pl_err *err) {
    if (!PL_ARRAY_ROOM(o->items, o->n_items, &o->capacity)) return pl_fail_memory(err, sizeof(*s));
    o->items[o->n_items++] = *s;
    return PL_OK;
}

void pl_observed_release(pl_observed *o) {
    pl_free(o->items);
    *o = (pl_observed){ 0 };
}

/* ---- other failures ---- */

static bool same_failure(const pl_signature *a, const pl_signature *b) {
    return a->kind == b->kind && a->number == b->number && strcmp(a->op, b->op) == 0;
}

static pl_status note_other(pl_oracle *o, const pl_signature *s, const pl_mini_state *state,
                            pl_err *err) {
    for (size_t i = 0; i < o->n_others; i++) {
        if (!same_failure(&o->others[i].signature, s)) continue;
        o->others[i].n_seen++;
        return PL_OK;
    }
    if (!PL_ARRAY_ROOM(o->others, o->n_others, &o->others_capacity))
        return pl_fail_memory(err, o->n_others);
    pl_other *other = &o->others[o->n_others];
    *other = (pl_other){ .signature = *s, .n_seen = 1 };
    if (o->keep_other && state != NULL) PL_TRY(pl_mini_state_copy(state, &other->state, err));
    o->n_others++;
    return PL_OK;
}

/* ---- asking ---- */

static pl_status observe(pl_oracle *o, pl_mini_state *state, pl_observed *seen, pl_err *err) {
    o->n_runs++;
    return o->row->observe(o, state, seen, err);
}

typedef struct question { /* a state, or a candidate that is not built */
    pl_mini_state *state;
    const pl_bytes_question *bytes;
    pl_hash128 key;
} question;

static pl_status observe_question(pl_oracle *o, const question *q, pl_observed *seen, pl_err *err) {
    pl_buf model = PL_BUF_INIT;
    if (q->bytes == NULL) return observe(o, q->state, seen, err);
    o->n_runs++;
    pl_status st = q->bytes->finish(q->bytes->ctx, &model, err);
    if (st == PL_OK) st = o->row->observe_bytes(o, &model, seen, err);
    pl_buf_release(&model);
    return st;
}

/* Stopped by the budget, not by the candidate: not an answer. */
static bool is_cut_short(const pl_oracle *o, const pl_observed *seen) {
    bool timed_out = seen->invalid;
    for (size_t i = 0; i < seen->n_items; i++)
        timed_out = timed_out || seen->items[i].kind == PL_FAIL_TIMEOUT;
    return timed_out && o->deadline > 0 && pl_api_seconds() > o->deadline;
}

static bool is_inner(const pl_oracle *o, const pl_signature *seen) {
    if (seen->kind != o->target.kind || seen->kind > PL_FAIL_DETERMINISM) return false;
    for (size_t i = 0; i < o->n_inner; i++)
        if (strcmp(o->inner[i], seen->op) == 0) return true;
    return false;
}

static bool matches(const pl_oracle *o, const pl_signature *seen) {
    return pl_signature_matches(&o->target, seen, o->check_str) || is_inner(o, seen);
}

void pl_oracle_narrow(pl_oracle *o) {
    if (o->n_inner == 0) return;
    /* A speculative process assumed the answer and does not know which operator it was. */
    if (pl_ahead_is_scout(o->m->ahead)) pl_ahead_recall(o->m->ahead);
    if (strcmp(o->m->found.op, o->target.op) == 0) return;
    o->target = o->m->found;
    o->n_inner = 0;
    pl_ahead_recall(o->m->ahead);
}

static pl_status judge(pl_oracle *o, const question *q, pl_report *out, pl_err *err) {
    pl_observed seen = { 0 };
    const double since = pl_api_seconds();
    pl_status st = observe_question(o, q, &seen, err);
    if (st == PL_OK && is_cut_short(o, &seen)) {
        st = pl_fail(err, PL_E_LIMIT, "the time limit is reached");
    }
    *out = (pl_report){ .key = q->key, .answer = PL_ANSWER_OTHER };
    pl_signature_init(&out->seen);
    if (seen.n_items > 0) out->seen = seen.items[0];
    if (seen.invalid || seen.n_items == 0) {
        out->answer = seen.invalid ? PL_ANSWER_INVALID : PL_ANSWER_PASSES;
    }
    for (size_t i = 0; i < seen.n_items && !seen.invalid; i++) {
        if (!matches(o, &seen.items[i])) continue;
        out->answer = PL_ANSWER_FAILS;
        out->seen = seen.items[i];
        break; /* the most important match */
    }
    out->seconds = pl_api_seconds() - since;
    pl_observed_release(&seen);
    return st;
}

/* Acts on an answer, from the cache or from a run. */
static pl_status take_report(pl_oracle *o, const pl_report *r, const pl_mini_state *state,
                             pl_answer *out, pl_err *err) {
    *out = r->answer;
    if (r->answer == PL_ANSWER_FAILS) o->m->found = r->seen;
    return r->answer == PL_ANSWER_OTHER ? note_other(o, &r->seen, state, err) : PL_OK;
}

pl_status pl_oracle_bytes(pl_oracle *o, pl_mini_state *state, pl_err *err) {
    if (state->serial == 0) state->serial = ++o->last_serial;
    if (o->bytes_serial == state->serial) return PL_OK;
    o->bytes_serial = 0;
    pl_buf_reset(&o->bytes);
    PL_TRY(pl_mini_state_bytes(state, o->weights, &o->bytes, &o->key, err));
    o->bytes_serial = state->serial;
    return PL_OK;
}

/* Candidates that differ only in names are the same, unless a user's check decides, which may look
 * at names. */
static pl_status key_of(pl_oracle *o, pl_mini_state *state, pl_hash128 *out, pl_err *err) {
    pl_buf spec = PL_BUF_INIT;
    if (o->m->options->check != NULL) {
        PL_TRY(pl_oracle_bytes(o, state, err));
        *out = o->key;
        return PL_OK;
    }
    pl_status st = pl_oracle_spec(o, state, &spec, err);
    if (st == PL_OK) st = pl_mini_state_key(state, o->weights, pl_buf_str(&spec), out, err);
    pl_buf_release(&spec);
    return st;
}

static pl_status remember(pl_oracle *o, const char *hex, pl_answer answer, pl_err *err) {
    const char *key = pl_arena_strdup(o->arena, hex);
    if (key == NULL ||
        pl_strmap_put(&o->cache, key, (void *)(uintptr_t)((unsigned)answer + 1)) != 0) {
        return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

pl_status pl_oracle_learn(pl_oracle *o, pl_mini_state *state, pl_answer *out, pl_err *err) {
    pl_observed seen = { 0 };
    pl_status st = PL_OK;
    *out = PL_ANSWER_PASSES;
    PL_TRY_GOTO(done, st, observe(o, state, &seen, err));
    o->n_queries++;
    if (seen.invalid) {
        st = pl_fail(err, PL_E_INVALID, "the reference cannot run the model: %s", seen.why);
        goto done;
    }
    for (size_t i = 0; i < seen.n_items; i++) {
        if (o->target.kind == PL_FAIL_NONE && *out != PL_ANSWER_FAILS) {
            o->target = seen.items[0];
        }
        if (!pl_signature_matches(&o->target, &seen.items[i], o->check_str)) continue;
        if (*out != PL_ANSWER_FAILS) o->m->found = seen.items[i];
        *out = PL_ANSWER_FAILS;
    }
    if (*out == PL_ANSWER_PASSES && seen.n_items > 0) {
        *out = PL_ANSWER_OTHER;
        st = note_other(o, &seen.items[0], state, err);
    }
done:
    if (!o->m->resumed) o->original = o->target;
    pl_observed_release(&seen);
    return st;
}

static pl_status check_budget(const pl_oracle *o, pl_err *err) {
    if (o->max_queries > 0 && o->n_queries >= o->max_queries) {
        return pl_fail(err, PL_E_LIMIT, "the limit of %zu queries is reached", o->max_queries);
    }
    if (o->deadline > 0 && pl_api_seconds() > o->deadline) {
        return pl_fail(err, PL_E_LIMIT, "the time limit is reached");
    }
    return PL_OK;
}

/* In a speculative process only what determines the next query is kept. */
static pl_status answer_as_scout(pl_oracle *o, const question *q, pl_answer *out, pl_err *err) {
    pl_report report;
    bool fails = false;
    if (!pl_ahead_assume(o->m->ahead, &fails)) {
        const pl_status st = judge(o, q, &report, err);
        pl_ahead_report(o->m->ahead, st == PL_OK ? &report : NULL);
    }
    *out = fails ? PL_ANSWER_FAILS : PL_ANSWER_PASSES;
    return PL_OK;
}

static pl_status answer(pl_oracle *o, const question *q, pl_answer *out, pl_err *err) {
    pl_report report;
    bool fails = false;
    if (pl_ahead_is_scout(o->m->ahead)) return answer_as_scout(o, q, out, err);
    PL_TRY(check_budget(o, err));
    PL_TRY(pl_progress_poll(o->m->options->progress, err));
    pl_ahead_send(o->m->ahead, &fails);
    if (pl_ahead_is_scout(o->m->ahead)) {
        *out = fails ? PL_ANSWER_FAILS : PL_ANSWER_PASSES;
        return PL_OK;
    }
    if (pl_ahead_receive(o->m->ahead, q->key, &report)) {
        o->n_runs++;
        o->oracle_seconds += report.seconds;
    } else {
        PL_TRY(judge(o, q, &report, err));
    }
    PL_TRY(take_report(o, &report, q->state, out, err));
    pl_ahead_settle(o->m->ahead, *out == PL_ANSWER_FAILS, report.seconds);
    if (*out != PL_ANSWER_INVALID) o->n_queries++;
    return PL_OK;
}

static pl_status ask(pl_oracle *o, const question *q, pl_answer *out, pl_err *err) {
    char hex[PL_HASH128_HEX];
    pl_hash128_hex(q->key, hex);
    const uintptr_t found = (uintptr_t)pl_strmap_get(&o->cache, hex);
    if (found != 0) {
        o->n_cached++;
        *out = (pl_answer)(found - 1);
        return PL_OK;
    }
    PL_TRY(answer(o, q, out, err));
    return remember(o, hex, *out, err);
}

pl_status pl_oracle_ask(pl_oracle *o, pl_mini_state *state, pl_answer *out, pl_err *err) {
    question q = { .state = state };
    PL_TRY(key_of(o, state, &q.key, err));
    return ask(o, &q, out, err);
}

pl_status pl_oracle_ask_bytes(pl_oracle *o, const pl_bytes_question *bytes, pl_answer *out,
                              pl_err *err) {
    const question q = { .bytes = bytes, .key = bytes->key };
    return ask(o, &q, out, err);
}

pl_status pl_oracle_ask_again(pl_oracle *o, pl_mini_state *state, pl_answer *out, pl_err *err) {
    const question q = { .state = state };
    pl_report report;
    pl_ahead_send_again(o->m->ahead);
    if (pl_ahead_is_scout(o->m->ahead)) { /* it almost always fails again */
        *out = PL_ANSWER_FAILS;
        return PL_OK;
    }
    PL_TRY(pl_progress_poll(o->m->options->progress, err));
    PL_TRY(judge(o, &q, &report, err));
    PL_TRY(take_report(o, &report, state, out, err));
    pl_ahead_settle_again(o->m->ahead, *out == PL_ANSWER_FAILS);
    return PL_OK;
}

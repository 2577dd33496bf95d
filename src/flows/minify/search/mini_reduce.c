/* Leaving out items while the failure stays.
 *
 * First all undecided items are left out at once. If that passes, bisection finds the shortest
 * prefix that still fails: its last item is needed, and everything after it is dropped. One needed
 * item costs log2(n) + 1 queries, k of them k times that; delta debugging pays for both halves and
 * their complements at each level. If nearly everything is needed, doubling steps from the end find
 * it with one query each. */
#include "flows/minify/search/mini_reduce.h"

#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/search/mini_fast.h"
#include "flows/minify/search/mini_state.h"

pl_status pl_mini_try_take(pl_mini *m, pl_mini_state *candidate, pl_mini_state **best, bool *fails,
                           pl_err *err) {
    pl_answer answer = PL_ANSWER_INVALID;
    const pl_status st = pl_oracle_ask(m->oracle, candidate, &answer, err);
    *fails = st == PL_OK && answer == PL_ANSWER_FAILS;
    if (*fails) {
        pl_mini_state_free(*best);
        *best = candidate;
    } else if (st == PL_OK && answer == PL_ANSWER_PASSES && m->options->good != NULL) {
        pl_mini_state_free(m->good);
        m->good = candidate;
    } else {
        pl_mini_state_free(candidate);
    }
    return st;
}

pl_status pl_mini_ask_nodes(pl_mini *m, const pl_mini_state *from, const bool *keep, bool *fails,
                            pl_err *err) {
    pl_mini_fast *fast = NULL;
    pl_mini_state *candidate = NULL, *found = NULL;
    *fails = false;
    PL_TRY(pl_mini_fast_of(m, from, &fast, err));
    if (fast != NULL) return pl_mini_fast_ask(m, fast, keep, fails, err);
    PL_TRY(pl_mini_cut(m, from, keep, &candidate, err));
    if (candidate == NULL) return PL_OK;
    const pl_status st = pl_mini_try_take(m, candidate, &found, fails, err);
    pl_mini_state_free(found);
    return st;
}

/* Queries the items of [0, n_first) and the decided ones; remembers what fails. */
static pl_status fails_with(pl_reduce *r, const bool *decided, size_t n_first, bool *fails,
                            pl_err *err) {
    pl_mini_state *candidate = NULL;
    pl_status st = PL_OK;
    *fails = false;
    bool *keep = pl_calloc(r->n + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, r->n);
    for (size_t i = 0; i < r->n; i++)
        keep[i] = i < n_first || decided[i];
    if (r->ask != NULL) {
        st = r->ask(r->ctx, keep, fails, err);
    } else {
        st = r->build(r->ctx, keep, &candidate, err);
        if (st == PL_OK && candidate != NULL) {
            st = pl_mini_try_take(r->m, candidate, &r->best, fails, err);
        }
    }
    if (*fails) memcpy(r->keep, keep, r->n);
    pl_free(keep);
    return st;
}

/* The shortest failing prefix in (low, high], if high fails and low does not. */
static pl_status halve(pl_reduce *r, const bool *decided, size_t low, size_t high, size_t *out,
                       pl_err *err) {
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        bool fails = false;
        PL_TRY(fails_with(r, decided, middle, &fails, err));
        *(fails ? &high : &low) = middle;
    }
    *out = high;
    return PL_OK;
}

/* The same from the end, in doubling steps; `first` itself has not been tried. */
static pl_status stride(pl_reduce *r, const bool *decided, size_t first, size_t high, size_t *out,
                        pl_err *err) {
    for (size_t step = 1; high > first; step *= 2) {
        const size_t next = high - first > step ? high - step : first;
        bool fails = false;
        PL_TRY(fails_with(r, decided, next, &fails, err));
        if (!fails) return halve(r, decided, next, high, out, err);
        high = next;
    }
    *out = first;
    return PL_OK;
}

static pl_status search(pl_reduce *r, bool *decided, pl_err *err) {
    const size_t first = r->first_matters && r->n > 0 ? 1 : 0;
    size_t open = r->n; /* items [first, open) are undecided and present */
    size_t n_in_row = 0;
    if (first == 1) decided[0] = true;
    if (r->last_matters && open > first) decided[--open] = true;
    while (open > first) {
        bool fails = false;
        size_t prefix = open;
        if (n_in_row == 0) { /* if the last one was needed, the rest probably is, too */
            PL_TRY(fails_with(r, decided, first, &fails, err));
            if (fails) return PL_OK;
            PL_TRY(halve(r, decided, first, open, &prefix, err));
        } else {
            PL_TRY(stride(r, decided, first, open, &prefix, err));
            if (prefix == first) return PL_OK;
        }
        n_in_row = prefix == open ? n_in_row + 1 : 0;
        decided[prefix - 1] = true;
        open = prefix - 1;
        if (r->patience > 0 && n_in_row >= r->patience) {
            r->gave_up = true;
            return PL_OK;
        }
    }
    return PL_OK;
}

static void replace(pl_mini_state **best, pl_mini_state *found) {
    if (found == NULL) return;
    pl_mini_state_free(*best);
    *best = found;
}

static void keep_end(bool *keep, size_t n, size_t n_kept, bool prefix) {
    memset(keep, 0, n);
    memset(prefix ? keep : keep + (n - n_kept), 1, n_kept);
}

pl_status pl_reduce_run(pl_reduce *r, pl_mini_state **best, pl_err *err) {
    bool *decided = pl_calloc(r->n + 1, sizeof(bool));
    pl_free(r->keep);
    r->keep = pl_calloc(r->n + 1, sizeof(bool));
    pl_status st = PL_OK;
    if (decided == NULL || r->keep == NULL) {
        st = pl_fail_memory(err, r->n);
    } else {
        memset(r->keep, 1, r->n);
        st = search(r, decided, err);
    }
    /* Builds what was only queried so far; also if the budget ended the search. */
    if (r->ask != NULL && r->keep != NULL && memchr(r->keep, 0, r->n) != NULL) {
        const pl_status built = r->build(r->ctx, r->keep, &r->best, st == PL_OK ? err : NULL);
        if (st == PL_OK) st = built;
    }
    pl_free(decided);
    pl_free(r->keep);
    r->keep = NULL;
    replace(best, r->best);
    r->best = NULL;
    return st;
}

pl_status pl_mini_truncate(pl_mini *m, const pl_mini_state *from, bool prefix, pl_mini_state **best,
                           pl_err *err) {
    const size_t n = from->model->graph->n_nodes;
    size_t none = 0, all = n; /* number of nodes kept: all fails, none does not */
    pl_mini_state *found = NULL;
    pl_status st = PL_OK;
    bool *keep = pl_calloc(n + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, n);
    while (all - none > 1 && st == PL_OK) {
        const size_t middle = none + (all - none) / 2;
        bool fails = false;
        keep_end(keep, n, middle, prefix);
        st = pl_mini_ask_nodes(m, from, keep, &fails, err);
        if (st == PL_OK) *(fails ? &all : &none) = middle;
    }
    if (all < n) { /* also if the budget ended the search */
        keep_end(keep, n, all, prefix);
        const pl_status built = pl_mini_cut(m, from, keep, &found, st == PL_OK ? err : NULL);
        if (st == PL_OK) st = built;
    }
    replace(best, found);
    pl_free(keep);
    return st;
}

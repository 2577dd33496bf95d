/* Leaving out items while the failure stays.
 *
 * From the end: all undecided items are left out at once; if that passes, the shortest prefix that
 * still fails is searched by halving, its last item matters and is kept, and everything after it is
 * gone. One item that matters costs log2(n) + 1 queries, k of them k times that, where delta
 * debugging pays for both halves and for their complements at each level. Where nearly everything
 * matters, steps from the end that double find it in one query each. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"

pl_status pl_mini_try_take(pl_mini *m, pl_mini_state *candidate, pl_mini_state **best, bool *fails,
                           pl_err *err) {
    pl_answer answer = PL_ANSWER_INVALID;
    const pl_status st = pl_oracle_ask(m->oracle, candidate, &answer, err);
    *fails = st == PL_OK && answer == PL_ANSWER_FAILS;
    if (*fails) {
        pl_mini_state_free(*best);
        *best = candidate;
    } else {
        pl_mini_state_free(candidate);
    }
    return st;
}

/* Asks for the items of [0, n_first) and those that were decided; remembers what fails. */
static pl_status fails_with(pl_reduce *r, const bool *decided, size_t n_first, bool *fails,
                            pl_err *err) {
    pl_mini_state *candidate = NULL;
    pl_status st = PL_OK;
    *fails = false;
    bool *keep = pl_calloc(r->n + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, r->n);
    for (size_t i = 0; i < r->n; i++)
        keep[i] = i < n_first || decided[i];
    st = r->build(r->ctx, keep, &candidate, err);
    if (st == PL_OK && candidate != NULL) {
        st = pl_mini_try_take(r->m, candidate, &r->best, fails, err);
    }
    if (*fails) memcpy(r->keep, keep, r->n);
    pl_free(keep);
    return st;
}

/* The shortest prefix in (low, high] that fails, given that high does and low does not. */
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

/* The same from the end, in steps that double. */
static pl_status stride(pl_reduce *r, const bool *decided, size_t high, size_t *out, pl_err *err) {
    for (size_t step = 1; step < high; step *= 2) {
        bool fails = false;
        PL_TRY(fails_with(r, decided, high - step, &fails, err));
        if (!fails) return halve(r, decided, high - step, high, out, err);
        high -= step;
    }
    return halve(r, decided, 0, high, out, err);
}

pl_status pl_reduce_run(pl_reduce *r, pl_err *err) {
    pl_status st = PL_OK;
    size_t open = r->n; /* items [0, open) are undecided and there */
    size_t n_kept_in_row = 0;
    bool *decided = pl_calloc(r->n + 1, sizeof(bool));
    r->keep = pl_calloc(r->n + 1, sizeof(bool));
    if (decided == NULL || r->keep == NULL) {
        st = pl_fail_memory(err, r->n);
        goto done;
    }
    memset(r->keep, 1, r->n);
    if (r->last_matters && open > 0) decided[--open] = true;
    while (open > 0) {
        bool fails = false;
        size_t prefix = open;
        /* When the last few all mattered, the rest at once will hardly be free. */
        if (n_kept_in_row < 3) PL_TRY_GOTO(done, st, fails_with(r, decided, 0, &fails, err));
        if (fails) break;
        if (n_kept_in_row < 3) {
            st = open == 1 ? PL_OK : halve(r, decided, 0, open, &prefix, err);
        } else {
            st = stride(r, decided, open, &prefix, err);
        }
        if (st != PL_OK) goto done;
        if (n_kept_in_row >= 3 && prefix == 1) { /* is even the first needed? */
            PL_TRY_GOTO(done, st, fails_with(r, decided, 0, &fails, err));
            if (fails) break;
        }
        n_kept_in_row = prefix + 4 > open ? n_kept_in_row + 1 : 0;
        decided[prefix - 1] = true;
        open = prefix - 1;
    }
done:
    pl_free(decided);
    return st;
}

void pl_reduce_release(pl_reduce *r) {
    pl_mini_state_free(r->best);
    pl_free(r->keep);
    *r = (pl_reduce){ 0 };
}

/* Speculation: scouts, which are forks, run queries that may come next. */
#ifndef PL_MINI_AHEAD_H
#define PL_MINI_AHEAD_H

#include "base/hash.h"
#include "flows/minify/oracle/oracle.h"

typedef struct pl_ahead pl_ahead;
typedef struct pl_report { /* an answer with the observed signature */
    pl_hash128 key;
    pl_answer answer;
    pl_signature seen; /* for FAILS and OTHER */
    double seconds;
} pl_report;

/* jobs: queries that may run at the same time; 1 = no speculation. */
pl_status pl_ahead_new(pl_mini *m, int jobs, pl_ahead **out, pl_err *err);
void pl_ahead_stop(pl_ahead *ahead); /* kills all scouts and sends no more */
void pl_ahead_free(pl_ahead *ahead); /* NULL is fine, here and in all of these */
bool pl_ahead_is_scout(const pl_ahead *ahead);
void pl_ahead_counts(const pl_ahead *ahead, size_t *n_sent, size_t *n_used);
/* Called before a query. Also returns in the scouts: there *fails is the answer that they
 * assume. */
void pl_ahead_send(pl_ahead *ahead, bool *fails);
/* The same for a repetition, whose answer is assumed to be the same. */
void pl_ahead_send_again(pl_ahead *ahead);
/* The answer of the scout at this query; false = there is none. Waits for it. */
bool pl_ahead_receive(pl_ahead *ahead, pl_hash128 key, pl_report *out);
/* The answer is known: kills scouts that assumed another one. seconds 0 = not measured. */
void pl_ahead_settle(pl_ahead *ahead, bool fails, double seconds);
void pl_ahead_settle_again(pl_ahead *ahead, bool fails);
/* The next query is a different one, which scouts cannot know. */
void pl_ahead_recall(pl_ahead *ahead);
/* In a scout: the next answer to assume; false = this is the query to report. */
bool pl_ahead_assume(pl_ahead *ahead, bool *fails);
/* In a scout: reports and exits; NULL = nothing to report. */
void pl_ahead_report(pl_ahead *ahead, const pl_report *report) __attribute__((noreturn));

#endif

/* Looking ahead: scouts, which are forks, work on the questions that may come next. */
#ifndef PL_MINI_AHEAD_H
#define PL_MINI_AHEAD_H

#include "base/hash.h"
#include "flows/minify/oracle/oracle.h"

typedef struct pl_ahead pl_ahead;
typedef struct pl_report { /* an answer with what was seen */
    pl_hash128 key;
    pl_answer answer;
    pl_signature seen; /* of FAILS and OTHER */
    double seconds;
} pl_report;

/* jobs: questions that may be worked on at the same time; 1 = no looking ahead. */
pl_status pl_ahead_new(pl_mini *m, int jobs, pl_ahead **out, pl_err *err);
void pl_ahead_stop(pl_ahead *ahead); /* ends all scouts and sends no more */
void pl_ahead_free(pl_ahead *ahead); /* NULL is fine, here and in all of these */
bool pl_ahead_is_scout(const pl_ahead *ahead);
void pl_ahead_counts(const pl_ahead *ahead, size_t *n_sent, size_t *n_used);
/* Called with a question at hand. This returns in the scouts, too: there *fails is the answer that
 * they take for granted. */
void pl_ahead_send(pl_ahead *ahead, bool *fails);
/* The same for a repetition, whose answer is taken to be the same. */
void pl_ahead_send_again(pl_ahead *ahead);
/* The answer of the scout that has arrived here; false = there is none. Waits for it. */
bool pl_ahead_receive(pl_ahead *ahead, pl_hash128 key, pl_report *out);
/* The answer is known: who went another way is ended. seconds 0 = not measured. */
void pl_ahead_settle(pl_ahead *ahead, bool fails, double seconds);
void pl_ahead_settle_again(pl_ahead *ahead, bool fails);
/* What is asked from now on is another question: scouts cannot know it. */
void pl_ahead_recall(pl_ahead *ahead);
/* In a scout: the next answer to take for granted; false = this question is the one to report. */
bool pl_ahead_assume(pl_ahead *ahead, bool *fails);
/* In a scout: says it and ends the process; NULL = there is nothing to say. */
void pl_ahead_report(pl_ahead *ahead, const pl_report *report) __attribute__((noreturn));

#endif

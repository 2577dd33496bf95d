/* Shared by ms_search.c (BeamSearch, GreedySearch) and ms_search_step.c (one step of the decoder).
 */
#ifndef PL_MS_SEARCH_RULES_H
#define PL_MS_SEARCH_RULES_H

#include "ops/eval.h"

typedef struct pl_search {
    pl_eval *c;
    pl_graph *body;
    int64_t batch, beams, rows;      /* rows = batch * beams */
    int64_t prompt, length, longest; /* tokens: of the prompt, now, at most */
    int64_t shortest, eos, pad, ngram, vocab;
    double repetition;
    bool of_logits; /* scores are logits, not log-probabilities: a greedy search */
    const int64_t *vocab_mask, *first_mask; /* NULL = all allowed; first_mask: (batch, vocab) */
    int64_t *tokens, *spare;                /* (rows, longest) */
    int64_t *positions;                     /* by row: of the next token */
    int64_t *mask;                          /* (rows, longest): is it a word? */
    double *scores;                         /* (rows, vocab): of the next token */
    pl_datum **state;                       /* of the decoder; NULL entries = none yet */
    size_t n_state;
} pl_search;

/* Reads inputs and attributes both have; n_beams is 1 for a greedy search. `first` = input number
 * of repetition_penalty. */
pl_status pl_search_init(pl_search *s, int64_t n_beams, int first);
void pl_search_release(pl_search *s);
/* Runs the decoder on what is new and leaves the scores of the next token, after the processors. */
pl_status pl_search_step(pl_search *s);
/* Goes on with row from[i] as row i, and one token more. */
pl_status pl_search_take(pl_search *s, const int64_t *from, const int64_t *token);

#endif

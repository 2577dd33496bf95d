/* What the inputs of a model get at each step: token ids, masks, positions, lengths and state.
 *
 * Rules go by the names that exporters use (ONNX Runtime GenAI, Optimum, plain opset 23), one row
 * each (feed_rules.def); a state is an output that becomes an input of the next step. The user may
 * override both. An input without a rule is given by the user or generated, anew for each step. */
#ifndef PL_FEED_H
#define PL_FEED_H

#include <plumb.h>

#include "base/buf.h"
#include "graph/graph.h"
#include "tensor/datum.h"

/* The tokens of one step. All rows have the same number; padding fills the rest. */
typedef struct pl_feed_window {
    const int64_t *tokens; /* (batch,n) */
    int64_t batch, n;
    int64_t past;  /* tokens before this step, padding included */
    int64_t left;  /* padding before the first token of every row, in the whole sequence */
    int64_t right; /* padding at the end of this step */
} pl_feed_window;

typedef struct pl_feed_rule {
    const char *name, *fits, *gives;
    /* Of an input of this rank (-1 = not known). */
    pl_status (*make)(const pl_value *input, int rank, const pl_feed_window *w, pl_tensor **out,
                      pl_err *err);
} pl_feed_rule;
extern const pl_feed_rule pl_feed_rules[];
extern const size_t pl_n_feed_rules;

typedef struct pl_feed_input {
    const pl_feed_rule *rule; /* NULL = a state, or given by the user */
    size_t state;             /* output that feeds it; SIZE_MAX = not a state */
    bool told;                /* set by the user */
} pl_feed_input;

typedef struct pl_feed {
    const pl_model *model;
    pl_feed_input *in;         /* by input */
    bool *is_state;            /* by output: fed back */
    size_t logits;             /* output; SIZE_MAX = none */
    size_t n_states, n_tokens; /* inputs that are states, that take token ids */
    const plumb_inputs *source;
    pl_datum **given; /* by input; what the user gave for every step, or NULL */
} pl_feed;
/* Release also on failure. `source` is borrowed. Operators must be resolved. */
pl_status pl_feed_init(pl_feed *f, const pl_model *model, const plumb_generate_options *o,
                       pl_err *err);
void pl_feed_release(pl_feed *f);
void pl_feed_explain(const pl_feed *f, plumb_format format, pl_buf *out);

/* Fills in[] for one step; state[i] (by input) is the state that enters it, all NULL at first: then
 * zeros, empty along the axis that grows. in[] holds references also on failure. */
pl_status pl_feed_make(const pl_feed *f, const pl_feed_window *w, size_t step,
                       pl_datum *const *state, pl_datum **in, pl_err *err);
/* The state of input i before the first step. */
pl_status pl_feed_empty(const pl_feed *f, size_t i, int64_t batch, pl_datum **out, pl_err *err);

#endif

/* States and candidates.
 *
 * A state is a model with data for its inputs. A candidate is a state that a strategy made from the
 * best one so far; the oracle says whether it fails in the same way. Any subset of the nodes of a
 * state is a candidate: what it needs from nodes that are gone is fed with the recorded value, and
 * what it made for them becomes an output (mini_cut.c, mini_bypass.c). */
#ifndef PL_MINI_STATE_H
#define PL_MINI_STATE_H

#include "flows/minify/search/mini_values.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_mini pl_mini; /* flows/minify/minify_int.h */

typedef struct pl_mini_state {
    pl_model *model;        /* resolved; inner types as far as they are known */
    pl_datum **in;          /* by input; NULL where there is none */
    pl_mini_values *values; /* of its inner values; NULL = not known any more */
    uint64_t serial;        /* given when it is asked for the first time: it does not change then */
    const char *file;       /* that holds exactly this model; NULL = none. Lives with the caller */
} pl_mini_state;

typedef struct pl_measure { /* of a state: what gets smaller */
    size_t n_nodes;         /* bodies included */
    size_t n_inputs, n_outputs;
    int64_t n_elements;  /* of inputs and weights */
    size_t n_attrs;      /* attributes and optional inputs that are not left out */
    int64_t n_complex;   /* of pl_mini_count_complex; only counted when they matter */
    int64_t n_original;  /* values of the original's weights; only counted when they matter */
    int64_t n_odd_types; /* inputs and weights of float types other than float32 */
} pl_measure;

/* Takes the model and the data. */
pl_status pl_mini_state_new_take(pl_model *model, pl_datum **in, pl_mini_state **out, pl_err *err);
void pl_mini_state_free(pl_mini_state *state); /* NULL is fine */
/* A copy to be changed; it shares tensors and values. */
pl_status pl_mini_state_copy(const pl_mini_state *from, pl_mini_state **out, pl_err *err);
void pl_mini_state_measure(const pl_mini_state *state, pl_measure *out);
/* Elements of inputs and weights that are neither 0 nor 1 nor like the one before. */
int64_t pl_mini_count_complex(const pl_mini_state *state);
/* Element-wise work done: inner types are forgotten and inferred again, inputs get the types of
 * their data. *ok false: the shapes contradict each other. */
pl_status pl_mini_state_settle(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);
/* Input i becomes a weight with the data that it has. */
pl_status pl_mini_state_freeze(pl_mini_state *state, size_t i, pl_err *err);
void pl_mini_state_drop_input(pl_mini_state *state, size_t i);
/* Removes inputs that nothing uses; *n_dropped counts. */
pl_status pl_mini_state_drop_unused(pl_mini_state *state, size_t *n_dropped, pl_err *err);
/* Runs the reference and remembers every value. False: it cannot run. */
pl_status pl_mini_state_evaluate(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);

/* The nodes with keep[index]. *out is NULL when there is no such model (no node, no data). */
pl_status pl_mini_cut(pl_mini *m, const pl_mini_state *from, const bool *keep, pl_mini_state **out,
                      pl_err *err);
/* Only the outputs with keep[i], and what they need. */
pl_status pl_mini_cut_outputs(pl_mini *m, const pl_mini_state *from, const bool *keep,
                              pl_mini_state **out, pl_err *err);
/* Replaces nodes without keep[index] by one of their inputs of the same type (mini_bypass.c). */
pl_status pl_mini_bypass(pl_mini *m, const pl_mini_state *from, const bool *keep,
                         pl_mini_state **out, pl_err *err);
bool pl_mini_can_bypass(const pl_node *node);
/* The input that can stand for a node's only output; NULL = none. */
pl_value *pl_mini_stand_in(const pl_node *node);
/* Uses of values become uses of instead[id], where that is not NULL; bodies too. `ctx` is the
 * array. Outputs of the main graph are moved by the second. */
pl_status pl_mini_redirect(void *ctx, pl_graph *graph, pl_err *err);
/* An output becomes that of what stands for it, unless that is an input or an output already. */
void pl_mini_move_outputs(pl_graph *graph, pl_value *const *instead);

#endif

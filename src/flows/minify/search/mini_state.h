/* States and candidates.
 *
 * A state is a model with data for its inputs. A candidate is a state that a strategy made from the
 * best one so far; the oracle says whether it fails in the same way. Any subset of the nodes of a
 * state is a candidate: inputs from removed nodes are fed with recorded values, and values computed
 * for them become outputs (mini_cut.c, mini_bypass.c). */
#ifndef PL_MINI_STATE_H
#define PL_MINI_STATE_H

#include "flows/minify/search/mini_values.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_mini pl_mini; /* flows/minify/minify_int.h */

typedef struct pl_mini_state {
    pl_model *model;        /* resolved; inner types if known */
    pl_datum **in;          /* by input; NULL where there is none */
    pl_mini_values *values; /* of its inner values; NULL = no longer known */
    uint64_t serial;        /* set at its first query; it does not change afterwards */
    const char *file;       /* file with exactly this model; NULL = none. Owned by the caller */
} pl_mini_state;

typedef struct pl_measure { /* measures of a state, to be reduced */
    size_t n_nodes;         /* bodies included */
    size_t n_inputs, n_outputs;
    int64_t n_elements;  /* of inputs and weights */
    size_t n_attrs;      /* attributes and optional inputs that are present */
    int64_t n_complex;   /* pl_mini_count_complex; only counted if it matters */
    int64_t n_original;  /* values of the original's weights; only counted if they matter */
    int64_t n_odd_types; /* inputs and weights of float types other than float32 */
} pl_measure;

/* Takes the model and the data. */
pl_status pl_mini_state_new_take(pl_model *model, pl_datum **in, pl_mini_state **out, pl_err *err);
void pl_mini_state_free(pl_mini_state *state); /* NULL is fine */
/* A copy to change; shares tensors and values. */
pl_status pl_mini_state_copy(const pl_mini_state *from, pl_mini_state **out, pl_err *err);
void pl_mini_state_measure(const pl_mini_state *state, pl_measure *out);
/* Elements of inputs and weights that are neither 0 nor 1 nor like the one before. */
int64_t pl_mini_count_complex(const pl_mini_state *state);
/* After changes to shapes: infers inner types again; inputs get the types of their data. *ok false:
 * the shapes contradict. */
pl_status pl_mini_state_settle(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);
/* Makes input i a weight with its data. */
pl_status pl_mini_state_freeze(pl_mini_state *state, size_t i, pl_err *err);
void pl_mini_state_drop_input(pl_mini_state *state, size_t i);
/* Removes unused inputs; *n_dropped counts them. */
pl_status pl_mini_state_drop_unused(pl_mini_state *state, size_t *n_dropped, pl_err *err);
/* Runs the reference and keeps every value. *ok false: it cannot run. */
pl_status pl_mini_state_evaluate(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);

/* The nodes with keep[index]. *out is NULL when that is not possible (no node, no data). */
pl_status pl_mini_cut(pl_mini *m, const pl_mini_state *from, const bool *keep, pl_mini_state **out,
                      pl_err *err);
/* Only the outputs with keep[i], and what they need. */
pl_status pl_mini_cut_outputs(pl_mini *m, const pl_mini_state *from, const bool *keep,
                              pl_mini_state **out, pl_err *err);
/* Replaces nodes without keep[index] by one of their inputs of the same type (mini_bypass.c). */
pl_status pl_mini_bypass(pl_mini *m, const pl_mini_state *from, const bool *keep,
                         pl_mini_state **out, pl_err *err);
bool pl_mini_can_bypass(const pl_node *node);
/* The input that can replace a node's only output; NULL = none. */
pl_value *pl_mini_stand_in(const pl_node *node);
/* Replaces uses of values by instead[id] if not NULL; bodies, too. `ctx` is the array. The second
 * function moves outputs of the main graph. */
pl_status pl_mini_redirect(void *ctx, pl_graph *graph, pl_err *err);
/* An output moves to its replacement, unless that is an input or an output already. */
void pl_mini_move_outputs(pl_graph *graph, pl_value *const *instead);

#endif

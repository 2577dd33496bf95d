/* Replaying parts of a model: any nodes, on any data, in fp64 with an error bound carried along, or
 * at the model's own precision. With bounds an operator whose purpose is to round (Cast) does
 * round: a runtime that does not is wrong.
 *
 * The caller puts the data at the edge of a segment, runs its nodes in topological order and takes
 * the results. Nodes must be of the main graph; their bodies run with them. Nothing is freed
 * automatically: see pl_replay_clear_all and pl_replay_release_after. Only one thread may use a
 * replay at a time. */
#ifndef PL_REPLAY_H
#define PL_REPLAY_H

#include "base/threads.h"
#include "graph/graph.h"
#include "ops/arithmetic.h"
#include "tensor/datum.h"

typedef struct pl_replay pl_replay;

typedef struct pl_replay_options {
    pl_pool *pool;  /* borrowed; NULL = one thread */
    bool native;    /* the model's own precision, naive long sums (pl_eval.naive), no bounds */
    bool fast;      /* with native: sums as in the kernels */
    bool no_bounds; /* fp64 only */
    bool otherwise; /* where ONNX is ambiguous, take the other reading (pl_eval.otherwise) */
    uint64_t seed;
    const struct pl_provider *kernels; /* for integer products; NULL = the default */
    const pl_arithmetic *arithmetic;   /* precision profile for bounds; NULL = rounding only */
    double u_acc; /* unit roundoff of accumulators; 0 = the default, at most 2^-24 */
    /* Borrowed; NULL = none. A replay in fp64 of the same model, one node ahead: where both have
     * the same data (not equal data) at all inputs of a node, its results are taken, not computed.
     */
    const pl_replay *ahead;
} pl_replay_options;

/* The model is borrowed, resolved and inferred (or has run), and must not change. */
pl_status pl_replay_new(pl_model *model, const pl_replay_options *options, pl_replay **out,
                        pl_err *err);
void pl_replay_free(pl_replay *replay); /* NULL is fine */

/* Puts data at a value; floats are converted to double unless native. `bound` (f64, same shape; may
 * be NULL) is the error that the data may already have. Both are borrowed. */
pl_status pl_replay_put(pl_replay *replay, const pl_value *value, const pl_datum *datum,
                        const pl_tensor *bound, pl_err *err);
/* Runs one node; its inputs must have been put or computed (initializers need not). */
pl_status pl_replay_node(pl_replay *replay, const pl_node *node, pl_err *err);
/* Runs a node a second time and drops the results. If an output differs in its bits from the first
 * run, *differs is the first such output; else it is unchanged. */
pl_status pl_replay_again(pl_replay *replay, const pl_node *node, const pl_value **differs,
                          pl_err *err);
/* Borrowed until the value is cleared or put again; NULL when there is none. */
const pl_datum *pl_replay_get(const pl_replay *replay, const pl_value *value);
const pl_tensor *pl_replay_bound(const pl_replay *replay, const pl_value *value); /* NULL = exact */
void pl_replay_clear_all(pl_replay *replay);
/* Clears the values of the main graph that no node after this one needs (outputs of the model
 * stay). For replaying a whole graph in order. */
void pl_replay_release_after(pl_replay *replay, const pl_node *node);
/* Number of nodes so far whose operator has no bound rule. */
size_t pl_replay_without_rule(const pl_replay *replay);

#endif

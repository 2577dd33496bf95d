/* Runs parts of a model on the backend and the rest on the reference, to find what a black box
 * computes wrongly.
 *
 * Any set of nodes is a model: its inputs are values of the reference, values read by other nodes
 * are its outputs. These are judged as usual, by an fp64 replay of the part on the same values,
 * with error bounds. */
#ifndef PL_PARTS_H
#define PL_PARTS_H

#include "base/arena.h"
#include "flows/analyze/side_run.h"

typedef struct pl_guilty_part {
    const pl_node **nodes; /* in order; the smallest set found that is wrong by itself */
    size_t n_nodes;
    bool minimal; /* without any one of them the others are right, or the backend refuses them */
    double q;
    const char *kind, *where, *reason; /* of its worst output */
} pl_guilty_part;

typedef struct pl_parts_found {
    pl_guilty_part *parts; /* in the order of the model; in the arena */
    size_t n_parts;
    size_t n_queries, n_refused; /* parts that were run; of these, those the backend refused */
    bool whole; /* the whole model is wrong when run this way, so a search makes sense */
} pl_parts_found;

typedef struct pl_parts_options {
    pl_side_options side; /* how the backend runs: spec, limits, seed */
    pl_backend *backend;  /* open, used for every part */
    pl_pool *pool;
    pl_arena *arena;    /* of the result */
    size_t max_queries; /* 0 = 96 */
} pl_parts_options;

/* The model is resolved and inferred; in[] are its inputs. */
pl_status pl_parts_search(pl_model *model, pl_datum *const *in, const pl_parts_options *options,
                          pl_parts_found *out, pl_err *err);

#endif

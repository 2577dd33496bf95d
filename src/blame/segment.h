/* Segments: the part of the model between a recorded value and the nearest recorded values before
 * it. Recorded are the values for which `has` says so, and the inputs and weights of the model. */
#ifndef PL_SEGMENT_H
#define PL_SEGMENT_H

#include "base/arena.h"
#include "graph/graph.h"

typedef bool (*pl_has_fn)(void *ctx, const pl_value *value);

typedef struct pl_segment {
    const pl_node **nodes; /* in topological order; the last one computes the value */
    size_t n_nodes;
    size_t n_computing;      /* of these, not only constants */
    const pl_value **inputs; /* recorded values and model inputs at its edge, each once */
    size_t n_inputs;
} pl_segment;

/* For many segments of one model: marks that need no clearing. */
typedef struct pl_segmenter {
    const pl_model *model;
    pl_has_fn has;
    void *ctx;
    uint32_t *node_mark;  /* by index in the main graph */
    uint32_t *value_mark; /* by value id */
    uint32_t epoch;
    const pl_node **stack;
} pl_segmenter;

pl_status pl_segmenter_init(pl_segmenter *s, const pl_model *model, pl_has_fn has, void *ctx,
                            pl_err *err);
void pl_segmenter_release(pl_segmenter *s);
/* Lists are in the arena. Empty when the value has no producer. */
pl_status pl_segment_find(pl_segmenter *s, const pl_value *value, pl_arena *arena, pl_segment *out,
                          pl_err *err);

#endif

/* A model on the weights of a GGUF file: those that llama.cpp ran.
 *
 * Weights are found by layer and role. One that is the model's own weight but for the rounding of
 * its type takes its place, and what feeds the product is rounded as ggml rounds it (GgmlRound), so
 * that a replay differs from the engine by rounding only. One that differs by more stays as it is
 * in the model, and is told: the comparison then names the product. */
#ifndef PL_COMPARE_WEIGHTS_H
#define PL_COMPARE_WEIGHTS_H

#include "base/buf.h"
#include "flows/compare/compare_side.h"
#include "pair/pair.h"

/* In place. Appends lines to notes, and rows to the map: what rounds has no counterpart. `theirs`
 * is the engine's recording, `of` the side that the model is on, 0 for A. */
pl_status pl_compare_take_weights(pl_compare_side *side, const pl_recording *theirs, int of,
                                  const char *path, pl_pair_map *map, pl_buf *notes, pl_err *err);

#endif

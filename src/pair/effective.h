/* The effective precision of a value: the coarsest that any of its inputs went through. A float
 * after a quantisation has int8, one after a cast to fp16 has fp16.
 *
 * Quantised weights count only when they are not the same on both sides: rounded once, they are
 * exact for both. */
#ifndef PL_EFFECTIVE_H
#define PL_EFFECTIVE_H

#include "metric/metrics.h"
#include "pair/pair_graph.h"

/* of[v] for every value of the graph; F64 where nothing is known. dtype[v] = recorded type, or
 * PL_UNDEFINED. same[v] (may be NULL): both sides have the same bits here, so nothing before it can
 * make later values differ. */
void pl_effective_find(const pl_pair_graph *graph, const pl_dtype *dtype, const bool *same,
                       bool count_weights, pl_precision *of);
/* rounded[v]: its integers come from reals, which one side may have rounded to the next code. */
void pl_effective_rounded(const pl_pair_graph *graph, const pl_dtype *dtype, const bool *same,
                          bool *rounded);
/* The coarser of two; EXACT only when `base` is. */
pl_precision pl_precision_coarser(pl_precision base, pl_precision effective);

#endif

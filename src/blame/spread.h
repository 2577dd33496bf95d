/* What rounding alone can do to the outputs of a model.
 *
 * Where values are quantised to few bits, a rounding near a tie becomes a whole step, and a network
 * may amplify a step: two correct runs then differ by more than the bound of any single operation.
 * This measures how much: fp64 runs in which every value is off by a random part of its own
 * bound. */
#ifndef PL_SPREAD_H
#define PL_SPREAD_H

#include "base/progress.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "ops/arithmetic.h"
#include "tensor/datum.h"

enum { PL_SPREAD_RUNS = 6 };

/* The most that an output moves between these runs and the one without noise. */
typedef struct pl_spread {
    double rms;        /* NAN when unknown */
    double largest;    /* of one element */
    int64_t n_changed; /* number of elements that changed */
} pl_spread;

/* spread[k] of output k. Bounds are those of the precision profile. The model is resolved and
 * inferred, in[] are its inputs. */
pl_status pl_rounding_spread(pl_model *model, pl_datum *const *in, const pl_arithmetic *arithmetic,
                             pl_pool *pool, uint64_t seed, const pl_progress *progress,
                             pl_spread *spread, pl_err *err);

/* The value of one code: 1 for integers; the scale of the DequantizeLinear before the output, if
 * only reshapes are between. 0 = not known. */
double pl_code_step(const pl_value *output);

#endif

/* What rounding alone can do to the outputs of a model.
 *
 * Where values go through codes of few bits a rounding near a tie becomes a whole step, and a net
 * may make much of a step: two correct runs then differ by more than any bound of a single
 * operation. How much is measured: fp64 runs in which every value is off by a random part of its
 * own bound. */
#ifndef PL_SPREAD_H
#define PL_SPREAD_H

#include "base/progress.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "ops/arithmetic.h"
#include "tensor/datum.h"

enum { PL_SPREAD_RUNS = 6 };

/* The most that one output moves between these runs and the one without noise. */
typedef struct pl_spread {
    double rms;        /* NAN where it cannot be said */
    double largest;    /* of one element */
    int64_t n_changed; /* elements that are not the same */
} pl_spread;

/* spread[k] of output k. Bounds are those of the precision profile. The model is resolved and
 * inferred, in[] are its inputs. */
pl_status pl_rounding_spread(pl_model *model, pl_datum *const *in, const pl_arithmetic *arithmetic,
                             pl_pool *pool, uint64_t seed, const pl_progress *progress,
                             pl_spread *spread, pl_err *err);

/* What one code of a value is worth: 1 for integers; the scale of the DequantizeLinear before it,
 * with nothing but other shapes between. 0 = not known. */
double pl_code_step(const pl_value *output);

#endif

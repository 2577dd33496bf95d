/* The parts of the gradient of RoiAlign that are nodes. */
#ifndef PL_REGION_GRAD_H
#define PL_REGION_GRAD_H

#include "ops/grad.h"

/* RoiAlign: outputs are the mean or the largest (the first of them) of the last axis of
 * `cells` (regions, 1, outputs, each; int64) times `weights`. */
pl_status pl_roi_gather_grad(pl_grad *c, pl_value *cells, pl_value *weights, bool largest);
pl_status pl_roi_align_open_grad(pl_grad *c); /* regions that only the run knows */

#endif

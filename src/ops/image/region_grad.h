/* Gradients of RoiAlign that consist of graph nodes. */
#ifndef PL_REGION_GRAD_H
#define PL_REGION_GRAD_H

#include "ops/grad.h"

/* RoiAlign: each output is the sum, or the first largest, along the last axis of the gathered
 * `cells` (regions, 1, outputs, each; int64) times `weights`. */
pl_status pl_roi_gather_grad(pl_grad *c, pl_value *cells, pl_value *weights, bool largest);
pl_status pl_roi_align_open_grad(pl_grad *c); /* regions known only at run time */

#endif

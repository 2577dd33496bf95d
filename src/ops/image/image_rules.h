/* Rules named in the rows of image.c and defined in the files beside it. */
#ifndef PL_IMAGE_RULES_H
#define PL_IMAGE_RULES_H

#include "ops/op.h"

/* grid_sample.c */
pl_status pl_grid_sample_infer(pl_infer *c);
pl_status pl_grid_sample_eval(pl_eval *c);

/* image_grad.c */
pl_status pl_affine_grid_grad(pl_grad *c);
pl_status pl_grid_sample_grad(pl_grad *c);

#endif

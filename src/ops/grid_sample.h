/* GridSample's kernel: op_image.c holds its row. */
#ifndef PL_GRID_SAMPLE_H
#define PL_GRID_SAMPLE_H

#include "ops/eval.h"
#include "ops/infer.h"

pl_status pl_grid_sample_infer(pl_infer *c);
pl_status pl_grid_sample_eval(pl_eval *c);

#endif

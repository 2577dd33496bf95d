/* The parts of family "transform" that cut and extend: their rows stand in op_transform.c. */
#ifndef PL_TRANSFORM_H
#define PL_TRANSFORM_H

#include "ops/op.h"

/* Slice-1 (attributes), Slice-10 and DynamicSlice (inputs). */
pl_status pl_slice_infer(pl_infer *c);
pl_status pl_slice_eval(pl_eval *c);
/* Pad-1, Pad-2 (attributes), Pad-11 and later (inputs). */
pl_status pl_pad_infer(pl_infer *c);
pl_status pl_pad_eval(pl_eval *c);
pl_status pl_center_crop_pad_infer(pl_infer *c);
pl_status pl_center_crop_pad_eval(pl_eval *c);

#endif

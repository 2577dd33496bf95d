/* Shared by the quantised operators of ONNX Runtime (com.microsoft). */
#ifndef PL_QLINEAR_H
#define PL_QLINEAR_H

#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/quant/quant_loops.h"

/* Scale and zero point of one tensor; a zero point that is left out is 0. */
typedef struct pl_qparam {
    double scale, zero;
} pl_qparam;
pl_qparam pl_qparam_of(const pl_eval *c, int i_scale, int i_zero);
/* For shape rules: both must have one element, the zero point the type of input `of`. */
pl_status pl_qparam_check(const pl_infer *c, int of, int i_scale, int i_zero);

#endif

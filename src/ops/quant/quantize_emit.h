/* Rounding to codes in emission rules. */
#ifndef PL_QUANTIZE_EMIT_H
#define PL_QUANTIZE_EMIT_H

#include "ops/emit.h"

/* Clamps x, rounds to even and adds the zero point. */
pl_ref pl_emit_quantised(pl_emit *c, pl_dtype to, pl_dtype in, pl_ref x, pl_ref zero);
/* acc * (s1 * s2 / s3), rounded to the output's type; scales must broadcast to acc. */
pl_status pl_emit_requantised(pl_emit *c, pl_ref acc, pl_ref s1, pl_ref s2, pl_ref s3, pl_ref zero,
                              bool in_f64);

#endif

/* Rules named in the rows of quantize.c and defined in the files beside it. */
#ifndef PL_QUANTIZE_RULES_H
#define PL_QUANTIZE_RULES_H

#include "ops/op.h"

/* quant_loops.c */
pl_status pl_dynamic_quantize_eval(pl_eval *c);

/* quantize_bound.c */
pl_status pl_dequantize_bound(pl_bound *c);
pl_status pl_dynamic_quantize_bound(pl_bound *c);
pl_status pl_quantize_bound(pl_bound *c);

/* quantize_emit.c */
pl_status pl_emit_dequantize(pl_emit *c);
pl_status pl_emit_dynamic_quantize(pl_emit *c);
pl_status pl_emit_quantize(pl_emit *c);

/* quantize_grad.c */
pl_status pl_grad_dequantize(pl_grad *c);

#endif

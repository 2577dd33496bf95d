/* Gradient rules of quantised operators. */
#ifndef PL_QUANT_GRAD_H
#define PL_QUANT_GRAD_H

#include "ops/grad_index.h"

pl_status pl_grad_dequantize(pl_grad *c);
pl_status pl_grad_matmul_nbits(pl_grad *c);

#endif

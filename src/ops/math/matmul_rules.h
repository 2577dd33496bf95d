/* Rules named in the rows of matmul.c and defined in the files beside it. */
#ifndef PL_MATMUL_RULES_H
#define PL_MATMUL_RULES_H

#include "ops/op.h"

/* gemm_rows.c */
pl_status pl_gemm_infer(pl_infer *c);
pl_status pl_fused_gemm_eval(pl_eval *c);
pl_status pl_gemm_eval(pl_eval *c);

/* matmul_emit.c */
pl_status pl_emit_fused_gemm(pl_emit *c);
pl_status pl_emit_fused_matmul(pl_emit *c);
pl_status pl_emit_gemm_rule(pl_emit *c);
pl_status pl_emit_matmul(pl_emit *c);

/* matmul_grad.c */
pl_status pl_det_grad(pl_grad *c);
pl_status pl_fused_gemm_grad(pl_grad *c);
pl_status pl_fused_matmul_grad(pl_grad *c);
pl_status pl_gemm_grad(pl_grad *c);
pl_status pl_matmul_grad(pl_grad *c);

#endif

/* Calls of the heavy kernels in src/kernels, with facts known at compile time. */
#ifndef PL_JIT_CALL_H
#define PL_JIT_CALL_H

#include "backends/jit/jit_int.h"

/* Can a product read it in place? */
bool jit_gemm_operand_fits(const jit_plan *plan, const jit_ref *ref);
/* NULL when out of memory. rank and dims of the result are filled. */
jit_call *jit_call_gemm(const jit_plan *plan, const jit_ref *a, const jit_ref *b, double alpha,
                        const struct pl_provider *by, int *rank, int64_t *dims);
/* factor: one for each channel of the input, as the last argument. */
jit_call *jit_call_conv(const pl_conv_shape *shape, bool winograd, bool factor);
/* Is this input of a convolution a tensor times one factor per channel? If so, returns both. */
bool jit_conv_factor(const jit_plan *plan, const jit_ref *ref, const pl_conv_shape *shape,
                     jit_ref *x, jit_ref *factor);
/* Number of dims of the result that are columns, for an epilogue. */
int jit_call_column_dims(const jit_call *call);
/* True if without a copy of A one product would become many small ones. */
bool jit_gemm_wants_copy(const jit_plan *plan, const jit_ref *a, const jit_ref *b);
/* "gemm 197x768x3072", for dumps. */
void jit_call_describe(const jit_call *call, pl_buf *out);

#endif

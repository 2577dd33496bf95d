/* The recurrence in float and in double: rnn_run.inc included twice. */
#include <string.h>

#include "kernels/gemm/gemm.h"
#include "ops/nn/rnn.h"

/* clang-format off */
#define REAL float
#define ELEMENT pl_f32
#define GEMM pl_gemm_f32
#define LOAD pl_in_f32
#define STORE pl_store_f32
#define ACT pl_rnn_act_f32
#define NAME(x) x##_f32
#define PRODUCT_HOOK                                                                               \
    if (k->product != NULL) return k->product->run(k->product->ctx, recurrent, dir, m, x, y);
#include "ops/nn/rnn_run.inc"
#undef REAL
#undef ELEMENT
#undef GEMM
#undef LOAD
#undef STORE
#undef ACT
#undef NAME
#undef PRODUCT_HOOK

#define REAL double
#define ELEMENT pl_f64
#define GEMM pl_gemm_f64
#define LOAD pl_in_f64
#define STORE pl_store_f64
#define ACT pl_rnn_act_f64
#define NAME(x) x##_f64
#define PRODUCT_HOOK (void)dir; /* the quantised product exists in float only */
#include "ops/nn/rnn_run.inc"
/* clang-format on */

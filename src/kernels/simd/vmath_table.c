/* The table of vector maths for one instruction set. */
#include "kernels/simd/vmath_table.h"

#include "kernels/simd/half.h"
#include "kernels/simd/vmath_f32.h"
#include "kernels/simd/vmath_f64.h"

#define PL_ROW(type, name) .name = type##_##name
#define PL_ROWS(type)                                                                              \
    {                                                                                              \
        PL_ROW(type, exp), PL_ROW(type, log), PL_ROW(type, tanh), PL_ROW(type, erf),               \
            PL_ROW(type, sigmoid), PL_ROW(type, gelu_erf), PL_ROW(type, gelu_tanh),                \
            PL_ROW(type, silu), PL_ROW(type, softplus), PL_ROW(type, add), PL_ROW(type, sub),      \
            PL_ROW(type, mul), PL_ROW(type, div), PL_ROW(type, max), PL_ROW(type, min),            \
            PL_ROW(type, add_s), PL_ROW(type, sub_s), PL_ROW(type, rsub_s), PL_ROW(type, mul_s),   \
            PL_ROW(type, div_s), PL_ROW(type, rdiv_s), PL_ROW(type, max_s), PL_ROW(type, min_s),   \
            PL_ROW(type, sum), PL_ROW(type, sum_sq), PL_ROW(type, sum_abs), PL_ROW(type, dot),     \
            PL_ROW(type, reduce_max), PL_ROW(type, reduce_min), PL_ROW(type, softmax),             \
            PL_ROW(type, log_softmax), PL_ROW(type, mean_var)                                      \
    }

const pl_vmath PL_SIMD(pl_vmath_table) = {
#if PL_SIMD_AVX512
    .isa = PL_ISA_AVX512,
#elif PL_SIMD_AVX2
    .isa = PL_ISA_AVX2,
#elif PL_SIMD_NEON
    .isa = PL_ISA_NEON,
#else
    .isa = PL_ISA_BASE,
#endif
    .f32 = PL_ROWS(f32),
    .f64 = PL_ROWS(f64),
    .f16_to_f32 = f16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_bf16 = f32_to_bf16,
};

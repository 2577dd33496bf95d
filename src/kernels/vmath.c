/* Chooses the table of vector maths. */
#include "kernels/vmath.h"

#include "kernels/simd/vmath_table.h"

const pl_vmath *pl_vmath_of(pl_isa isa) {
    if (isa > pl_cpu_isa_max()) return NULL;
    switch (isa) {
#if defined(__x86_64__)
    case PL_ISA_AVX512: return &pl_vmath_table_avx512;
    case PL_ISA_AVX2: return &pl_vmath_table_avx2;
#else
    case PL_ISA_AVX512:
    case PL_ISA_AVX2: return NULL;
#endif
    case PL_ISA_BASE: return &pl_vmath_table_base;
    case PL_ISA_COUNT: break;
    }
    return NULL;
}

const pl_vmath *pl_vmath_get(void) {
    return pl_vmath_of(pl_cpu_isa());
}

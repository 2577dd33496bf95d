/* Chooses the table of metric kernels. */
#include "kernels/cpu.h"
#include "kernels/simd/metric_table.h"

const pl_metric_kernels *pl_metric_kernels_of(int isa) {
    if (isa < 0 || isa > (int)pl_cpu_isa_max()) return NULL;
#if defined(__x86_64__)
    if (isa == PL_ISA_AVX512) return &pl_metric_table_avx512;
    if (isa == PL_ISA_AVX2) return &pl_metric_table_avx2;
#endif
    return isa == PL_ISA_BASE ? &pl_metric_table_base : NULL;
}

const pl_metric_kernels *pl_metric_kernels_get(void) {
    return pl_metric_kernels_of((int)pl_cpu_isa());
}

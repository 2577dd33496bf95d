/* Chooses the table of metric kernels. */
#include "kernels/cpu.h"
#include "kernels/simd/metric_table.h"

const pl_metric_kernels *pl_metric_kernels_of(int set) {
#if defined(__x86_64__)
    if (set == PL_METRIC_SETS - 1)
        return pl_cpu_multiplies_bf16() ? &pl_metric_table_avx512_bf16 : NULL;
#endif
    if (set < 0 || !pl_cpu_has((pl_isa)set)) return NULL;
    return PL_TABLE_OF((pl_isa)set, pl_metric_table);
}

const pl_metric_kernels *pl_metric_kernels_get(void) {
    const pl_metric_kernels *best = pl_metric_kernels_of(PL_METRIC_SETS - 1);
    return best != NULL ? best : pl_metric_kernels_of((int)pl_cpu_isa());
}

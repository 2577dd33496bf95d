/* Chooses the table of metric kernels. */
#include "kernels/cpu.h"
#include "kernels/simd/metric_table.h"

const pl_metric_kernels *pl_metric_kernels_of(int isa) {
    if (isa < 0 || isa > (int)pl_cpu_isa_max()) return NULL;
    return PL_TABLE_OF((pl_isa)isa, pl_metric_table);
}

const pl_metric_kernels *pl_metric_kernels_get(void) {
    return pl_metric_kernels_of((int)pl_cpu_isa());
}

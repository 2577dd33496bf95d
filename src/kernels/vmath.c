/* Chooses the table of vector maths. */
#include "kernels/vmath.h"

#include "kernels/simd/vmath_table.h"

const pl_vmath *pl_vmath_of(pl_isa isa) {
    return isa > pl_cpu_isa_max() ? NULL : PL_TABLE_OF(isa, pl_vmath_table);
}

const pl_vmath *pl_vmath_get(void) {
    return pl_vmath_of(pl_cpu_isa());
}

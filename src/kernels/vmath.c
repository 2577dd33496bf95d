/* Chooses the table of vector maths. */
#include "kernels/vmath.h"

#include "kernels/simd/vmath_table.h"

const pl_vmath *pl_vmath_of(pl_isa isa) {
    return pl_cpu_has(isa) ? PL_TABLE_OF(isa, pl_vmath_table) : NULL;
}

const pl_vmath *pl_vmath_get(void) {
    return pl_vmath_of(pl_cpu_isa());
}

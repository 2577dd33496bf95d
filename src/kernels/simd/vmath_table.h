/* The tables that vmath.c chooses from; avx2 and avx512 exist on x86-64 only. */
#ifndef PL_VMATH_TABLE_H
#define PL_VMATH_TABLE_H

#include "kernels/vmath.h"

extern const pl_vmath pl_vmath_table_base, pl_vmath_table_avx2, pl_vmath_table_avx512;
extern const pl_vmath pl_vmath_table_neon;

#endif

/* The tables that metric_choice.c chooses from; avx2 and avx512 exist on x86-64 only. */
#ifndef PL_METRIC_TABLE_H
#define PL_METRIC_TABLE_H

#include "metric/metric_block.h"

extern const pl_metric_kernels pl_metric_table_base, pl_metric_table_avx2, pl_metric_table_avx512;
extern const pl_metric_kernels pl_metric_table_neon;
extern const pl_metric_kernels pl_metric_table_avx512_bf16; /* also needs AVX512_BF16 */

#endif

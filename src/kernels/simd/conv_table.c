/* Inner loops of convolution and pooling for one instruction set. */
#include "kernels/simd/conv_table.h"

#include "kernels/simd/simd.h"

#define T float
#define E pl_f32
#define V pl_vf
#define VN PL_VF
#define VLOAD pl_vf_load
#define VSTORE pl_vf_store
#define VSET pl_vf_set
#define MAC pl_vf_mac
#define F(name) f32_##name
#include "kernels/simd/conv_rows.h"
#undef T
#undef E
#undef V
#undef VN
#undef VLOAD
#undef VSTORE
#undef VSET
#undef MAC
#undef F

#define T double
#define E pl_f64
#define V pl_vd
#define VN PL_VD
#define VLOAD pl_vd_load
#define VSTORE pl_vd_store
#define VSET pl_vd_set
#define MAC pl_vd_mac
#define F(name) f64_##name
#include "kernels/simd/conv_rows.h"

#define PL_ROWS(suffix)                                                                            \
    .fill_##suffix = suffix##_fill, .depthwise_##suffix = suffix##_depthwise,                      \
    .gather_##suffix = suffix##_gather, .max_row_##suffix = suffix##_max_row,                      \
    .sum_row_##suffix = suffix##_sum_row, .scatter_##suffix = suffix##_scatter

const pl_conv_table PL_SIMD(pl_conv_table) = { PL_ROWS(f32), PL_ROWS(f64) };

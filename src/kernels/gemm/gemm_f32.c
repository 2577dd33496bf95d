/* The blocked product in f32. */
#include "base/alloc.h"
#include "base/size.h"
#include "kernels/gemm/gemm_int.h"

#define T float
#define E pl_f32
#define S(name) name##_f32
#include "kernels/gemm/gemm_driver.inc"

/* The blocked product in f64. */
#include "base/alloc.h"
#include "base/size.h"
#include "kernels/gemm/gemm_int.h"

#define T double
#define E pl_f64
#define S(name) name##_f64
#include "kernels/gemm/gemm_driver.inc"

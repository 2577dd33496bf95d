/* Convolution in f64. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

#define T double
#define E pl_f64
#define S(name) name##_f64
#include "kernels/conv/conv_float.inc"

/* Transposed convolution: a product, then columns to image. */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

enum { COLS_MAX = 4 << 20 }; /* elements of columns held at a time */

#define T float
#define E pl_f32
#define S(name) name##_f32
#include "kernels/conv/conv_transpose.inc"
#undef T
#undef E
#undef S
#define T double
#define E pl_f64
#define S(name) name##_f64
#include "kernels/conv/conv_transpose.inc"

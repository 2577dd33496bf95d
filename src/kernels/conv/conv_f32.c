/* Convolution in f32. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

#define T float
#define E pl_f32
#define S(name) name##_f32
#include "kernels/conv/conv_float.inc"

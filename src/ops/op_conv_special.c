/* Family "conv_special": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_conv_special[];

/* clang-format off */
const pl_op_def pl_ops_conv_special[] = {
    { 0 },
};
/* clang-format on */

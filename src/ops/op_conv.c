/* Family "conv": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_conv[];

/* clang-format off */
const pl_op_def pl_ops_conv[] = {
    { 0 },
};
/* clang-format on */

/* Family "softmax": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_softmax[];

/* clang-format off */
const pl_op_def pl_ops_softmax[] = {
    { 0 },
};
/* clang-format on */

/* Family "loss": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_loss[];

/* clang-format off */
const pl_op_def pl_ops_loss[] = {
    { 0 },
};
/* clang-format on */

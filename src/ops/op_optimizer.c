/* Family "optimizer": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_optimizer[];

/* clang-format off */
const pl_op_def pl_ops_optimizer[] = {
    { 0 },
};
/* clang-format on */

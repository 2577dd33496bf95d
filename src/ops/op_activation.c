/* Family "activation": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_activation[];

/* clang-format off */
const pl_op_def pl_ops_activation[] = {
    { 0 },
};
/* clang-format on */

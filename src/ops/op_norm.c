/* Family "norm": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_norm[];

/* clang-format off */
const pl_op_def pl_ops_norm[] = {
    { 0 },
};
/* clang-format on */

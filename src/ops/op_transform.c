/* Family "transform": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_transform[];

/* clang-format off */
const pl_op_def pl_ops_transform[] = {
    { 0 },
};
/* clang-format on */

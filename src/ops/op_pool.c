/* Family "pool": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_pool[];

/* clang-format off */
const pl_op_def pl_ops_pool[] = {
    { 0 },
};
/* clang-format on */

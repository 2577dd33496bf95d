/* Family "type": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_type[];

/* clang-format off */
const pl_op_def pl_ops_type[] = {
    { 0 },
};
/* clang-format on */

/* Family "scatter": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_scatter[];

/* clang-format off */
const pl_op_def pl_ops_scatter[] = {
    { 0 },
};
/* clang-format on */

/* Family "resize": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_resize[];

/* clang-format off */
const pl_op_def pl_ops_resize[] = {
    { 0 },
};
/* clang-format on */

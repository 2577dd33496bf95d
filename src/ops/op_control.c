/* Family "control": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_control[];

/* clang-format off */
const pl_op_def pl_ops_control[] = {
    { 0 },
};
/* clang-format on */

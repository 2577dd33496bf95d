/* Family "binary": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_binary[];

/* clang-format off */
const pl_op_def pl_ops_binary[] = {
    { 0 },
};
/* clang-format on */

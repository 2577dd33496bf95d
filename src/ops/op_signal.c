/* Family "signal": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_signal[];

/* clang-format off */
const pl_op_def pl_ops_signal[] = {
    { 0 },
};
/* clang-format on */

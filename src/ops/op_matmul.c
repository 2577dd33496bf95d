/* Family "matmul": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_matmul[];

/* clang-format off */
const pl_op_def pl_ops_matmul[] = {
    { 0 },
};
/* clang-format on */

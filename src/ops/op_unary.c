/* Family "unary": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_unary[];

/* clang-format off */
const pl_op_def pl_ops_unary[] = {
    { 0 },
};
/* clang-format on */

/* Family "logical": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_logical[];

/* clang-format off */
const pl_op_def pl_ops_logical[] = {
    { 0 },
};
/* clang-format on */

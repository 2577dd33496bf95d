/* Family "shape": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_shape[];

/* clang-format off */
const pl_op_def pl_ops_shape[] = {
    { 0 },
};
/* clang-format on */

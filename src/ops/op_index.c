/* Family "index": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_index[];

/* clang-format off */
const pl_op_def pl_ops_index[] = {
    { 0 },
};
/* clang-format on */

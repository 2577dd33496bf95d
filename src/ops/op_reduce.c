/* Family "reduce": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_reduce[];

/* clang-format off */
const pl_op_def pl_ops_reduce[] = {
    { 0 },
};
/* clang-format on */

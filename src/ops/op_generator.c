/* Family "generator": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_generator[];

/* clang-format off */
const pl_op_def pl_ops_generator[] = {
    { 0 },
};
/* clang-format on */

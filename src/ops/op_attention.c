/* Family "attention": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_attention[];

/* clang-format off */
const pl_op_def pl_ops_attention[] = {
    { 0 },
};
/* clang-format on */

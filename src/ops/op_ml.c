/* Family "ml": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_ml[];

/* clang-format off */
const pl_op_def pl_ops_ml[] = {
    { 0 },
};
/* clang-format on */

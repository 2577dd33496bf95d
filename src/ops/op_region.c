/* Family "region": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_region[];

/* clang-format off */
const pl_op_def pl_ops_region[] = {
    { 0 },
};
/* clang-format on */

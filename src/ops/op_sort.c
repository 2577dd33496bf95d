/* Family "sort": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_sort[];

/* clang-format off */
const pl_op_def pl_ops_sort[] = {
    { 0 },
};
/* clang-format on */

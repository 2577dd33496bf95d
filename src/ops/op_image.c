/* Family "image": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_image[];

/* clang-format off */
const pl_op_def pl_ops_image[] = {
    { 0 },
};
/* clang-format on */

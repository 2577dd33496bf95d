/* Family "text": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_text[];

/* clang-format off */
const pl_op_def pl_ops_text[] = {
    { 0 },
};
/* clang-format on */

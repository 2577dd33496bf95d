/* Family "sequence": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_sequence[];

/* clang-format off */
const pl_op_def pl_ops_sequence[] = {
    { 0 },
};
/* clang-format on */

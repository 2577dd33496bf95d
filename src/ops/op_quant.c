/* Family "quant": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_quant[];

/* clang-format off */
const pl_op_def pl_ops_quant[] = {
    { 0 },
};
/* clang-format on */

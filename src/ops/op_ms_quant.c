/* Family "ms_quant": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_ms_quant[];

/* clang-format off */
const pl_op_def pl_ops_ms_quant[] = {
    { 0 },
};
/* clang-format on */

/* Family "ms_fused": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_ms_fused[];

/* clang-format off */
const pl_op_def pl_ops_ms_fused[] = {
    { 0 },
};
/* clang-format on */

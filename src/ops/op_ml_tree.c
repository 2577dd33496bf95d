/* Family "ml_tree": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_ml_tree[];

/* clang-format off */
const pl_op_def pl_ops_ml_tree[] = {
    { 0 },
};
/* clang-format on */

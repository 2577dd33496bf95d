/* Family "rnn": no rows yet. */
#include "ops/op.h"

extern const pl_op_def pl_ops_rnn[];

/* clang-format off */
const pl_op_def pl_ops_rnn[] = {
    { 0 },
};
/* clang-format on */

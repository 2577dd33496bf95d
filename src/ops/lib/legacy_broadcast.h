/* Broadcasting of binary operators before opset 7: attributes `broadcast` and `axis`.
 *
 * Without broadcast=1 both shapes are equal. With it B is stretched onto A, never the other way:
 * its dims align with A's dims axis, axis+1, … or, without `axis`, with A's last dims. */
#ifndef PL_LEGACY_BROADCAST_H
#define PL_LEGACY_BROADCAST_H

#include "ops/bound.h"
#include "ops/infer.h"
#include "ops/lib/elementwise.h"

#define PL_LEGACY_ATTRS                                                                            \
    PL_A_INT("axis", 0), PL_A_INT("broadcast", 0), PL_A_LIST("consumed_inputs", INTS)

/* Output 0 has the given dtype; shapes that do not fit are errors. */
pl_status pl_infer_legacy_broadcast(pl_infer *c, pl_dtype dtype);
/* B with the trailing dims of 1 that NumPy broadcasting needs; a new reference. */
pl_status pl_legacy_operand(const pl_eval *c, pl_tensor **out);
/* pl_eval_binary for an operator of two inputs of any opset. */
pl_status pl_eval_two(pl_eval *c, const pl_binary_ops *ops);
/* pl_b_each for an operator of two inputs of any opset. */
pl_status pl_b_each_legacy(pl_bound *c, pl_b_element fn);

#endif

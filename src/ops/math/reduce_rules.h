/* Rules named in the rows of reduce.c and defined in the files beside it. */
#ifndef PL_REDUCE_RULES_H
#define PL_REDUCE_RULES_H

#include "ops/op.h"

/* The axes of x that the node reduces. axes: its second input, NULL when there is none. */
void pl_reduced_axes(const pl_node *node, int rank, const int64_t *axes, size_t n_axes,
                     bool *reduced);

/* reduce_bound.c */
pl_status pl_arg_bound(pl_bound *c); /* ArgMax, ArgMin */
pl_status pl_cum_prod_bound(pl_bound *c);
pl_status pl_cum_sum_bound(pl_bound *c);
pl_status pl_reduce_extreme_bound(pl_bound *c); /* ReduceMax, ReduceMin */
pl_status pl_reduce_l2_bound(pl_bound *c);
pl_status pl_reduce_log_sum_bound(pl_bound *c);
pl_status pl_reduce_log_sum_exp_bound(pl_bound *c);
pl_status pl_reduce_mean_bound(pl_bound *c);
pl_status pl_reduce_prod_bound(pl_bound *c);
pl_status pl_reduce_sum_bound(pl_bound *c); /* ReduceL1 as well */
pl_status pl_reduce_sum_square_bound(pl_bound *c);

/* reduce_emit.c */
pl_status pl_emit_arg_max(pl_emit *c);
pl_status pl_emit_arg_min(pl_emit *c);
pl_status pl_emit_cum_prod(pl_emit *c);
pl_status pl_emit_cum_sum(pl_emit *c);
pl_status pl_emit_reduce_l1(pl_emit *c);
pl_status pl_emit_reduce_l2(pl_emit *c);
pl_status pl_emit_reduce_log_sum(pl_emit *c);
pl_status pl_emit_reduce_log_sum_exp(pl_emit *c);
pl_status pl_emit_reduce_max(pl_emit *c);
pl_status pl_emit_reduce_mean(pl_emit *c);
pl_status pl_emit_reduce_min(pl_emit *c);
pl_status pl_emit_reduce_prod(pl_emit *c);
pl_status pl_emit_reduce_sum(pl_emit *c);
pl_status pl_emit_reduce_sum_square(pl_emit *c);

/* reduce_grad.c */
pl_status pl_cum_prod_grad(pl_grad *c);
pl_status pl_cum_sum_grad(pl_grad *c);
pl_status pl_reduce_extreme_grad(pl_grad *c);
pl_status pl_reduce_l1_grad(pl_grad *c);
pl_status pl_reduce_l2_grad(pl_grad *c);
pl_status pl_reduce_log_sum_exp_grad(pl_grad *c);
pl_status pl_reduce_log_sum_grad(pl_grad *c);
pl_status pl_reduce_mean_grad(pl_grad *c);
pl_status pl_reduce_prod_grad(pl_grad *c);
pl_status pl_reduce_sum_grad(pl_grad *c);
pl_status pl_reduce_sum_square_grad(pl_grad *c);

#endif

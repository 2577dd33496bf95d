/* Rules of normalisations that stand in more than one table. */
#ifndef PL_OP_NORM_INT_H
#define PL_OP_NORM_INT_H

#include "ops/bound.h"
#include "ops/infer.h"

/* op_norm_batch.c */
pl_status pl_batch_norm_infer(pl_infer *c);
double pl_batch_norm_scale(const pl_node *node, int64_t channel);
pl_status pl_batch_norm_eval(pl_eval *c);
pl_status pl_batch_norm_bound(pl_bound *c);
bool pl_batch_norm_is_training(const pl_node *node);
bool pl_batch_norm_is_spatial(const pl_node *node); /* else a statistic for each element */

/* op_norm.c: layer and RMS normalisation; statistics are outputs 1 and 2, or 1 alone. */
pl_status pl_layer_norm_infer(pl_infer *c);
pl_status pl_layer_norm_eval(pl_eval *c);
pl_status pl_rms_norm_infer(pl_infer *c);
pl_status pl_rms_norm_eval(pl_eval *c);
/* Axes of MeanVarianceNormalization as a bit set. */
uint32_t pl_mvn_axes(const pl_node *node, int rank);

/* norm_bound.c */
pl_status pl_layer_norm_bound(pl_bound *c);
pl_status pl_rms_norm_bound(pl_bound *c);
pl_status pl_instance_norm_bound(pl_bound *c);
pl_status pl_group_norm_bound(pl_bound *c);
pl_status pl_lp_norm_bound(pl_bound *c);
pl_status pl_lrn_bound(pl_bound *c);
pl_status pl_mvn_bound(pl_bound *c);

/* Input i has one dim of the given size (when both are known), else an error that names it. */
pl_status pl_norm_check_length(pl_infer *c, int i, pl_dim size, const char *what);
/* Input i can be stretched onto input 0 by numpy's rules, never the other way. */
pl_status pl_norm_check_onto(pl_infer *c, int i, const char *what);

#endif

/* Rules named in the rows of norm.c and defined in the files beside it. */
#ifndef PL_NORM_RULES_H
#define PL_NORM_RULES_H

#include "ops/op.h"

/* norm_bound.c */
pl_status pl_group_norm_bound(pl_bound *c);
pl_status pl_instance_norm_bound(pl_bound *c);
pl_status pl_layer_norm_bound(pl_bound *c);
pl_status pl_lp_norm_bound(pl_bound *c);
pl_status pl_lrn_bound(pl_bound *c);
pl_status pl_mvn_bound(pl_bound *c);
pl_status pl_rms_norm_bound(pl_bound *c);

/* norm_emit.c */
pl_status pl_emit_group_norm(pl_emit *c);
pl_status pl_emit_instance_norm(pl_emit *c);
pl_status pl_emit_layer_norm(pl_emit *c);
pl_status pl_emit_lp_norm(pl_emit *c);
pl_status pl_emit_lrn(pl_emit *c);
pl_status pl_emit_mvn(pl_emit *c);
pl_status pl_emit_rms_norm(pl_emit *c);

/* norm_grad.c */
pl_status pl_group_norm_grad(pl_grad *c);
pl_status pl_instance_norm_grad(pl_grad *c);
pl_status pl_layer_norm_grad(pl_grad *c);
pl_status pl_lp_norm_grad(pl_grad *c);
pl_status pl_lrn_grad(pl_grad *c);
pl_status pl_mvn_grad(pl_grad *c);
pl_status pl_rms_norm_grad(pl_grad *c);

#endif

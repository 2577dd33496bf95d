/* Rules named in the rows of transform.c and defined in the files beside it. */
#ifndef PL_TRANSFORM_RULES_H
#define PL_TRANSFORM_RULES_H

#include "ops/op.h"

/* pad.c */
pl_status pl_pad_infer(pl_infer *c);
pl_status pl_pad_eval(pl_eval *c);

/* slice.c */
pl_status pl_center_crop_pad_infer(pl_infer *c);
pl_status pl_slice_infer(pl_infer *c);
pl_status pl_center_crop_pad_eval(pl_eval *c);
pl_status pl_slice_eval(pl_eval *c);

/* slice_grad.c */
pl_status pl_grad_pad(pl_grad *c);
pl_status pl_grad_slice(pl_grad *c);

/* transform_emit.c */
pl_status pl_emit_center_crop_pad(pl_emit *c);
pl_status pl_emit_concat_rule(pl_emit *c);
pl_status pl_emit_concat_training(pl_emit *c);
pl_status pl_emit_depth_to_space(pl_emit *c);
pl_status pl_emit_pad(pl_emit *c);
pl_status pl_emit_reverse_sequence(pl_emit *c);
pl_status pl_emit_slice_rule(pl_emit *c);
pl_status pl_emit_space_to_depth(pl_emit *c);
pl_status pl_emit_split_rule(pl_emit *c);
pl_status pl_emit_transpose_rule(pl_emit *c);
pl_status pl_emit_trilu(pl_emit *c);

/* transform_grad.c */
pl_status pl_grad_center_crop_pad(pl_grad *c);
pl_status pl_grad_concat(pl_grad *c);
pl_status pl_grad_depth_to_space(pl_grad *c);
pl_status pl_grad_reverse_sequence(pl_grad *c);
pl_status pl_grad_space_to_depth(pl_grad *c);
pl_status pl_grad_split(pl_grad *c);
pl_status pl_grad_transpose(pl_grad *c);
pl_status pl_grad_trilu(pl_grad *c);

#endif

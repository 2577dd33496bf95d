/* Rules named in the rows of ms_attention.c and defined in the files beside it. */
#ifndef PL_MS_ATTENTION_RULES_H
#define PL_MS_ATTENTION_RULES_H

#include "ops/op.h"

/* group_query.c */
pl_status pl_ms_group_infer(pl_infer *c);
pl_status pl_ms_rotary_infer(pl_infer *c);
pl_status pl_ms_group_eval(pl_eval *c);
pl_status pl_ms_rotary_eval(pl_eval *c);

/* group_query_grad.c */
pl_status pl_ms_group_grad(pl_grad *c);

/* group_undefined.c */
extern const pl_undefined_rule pl_ms_group_undefined;

/* paged.c */
pl_status pl_ms_paged_infer(pl_infer *c);
pl_status pl_ms_paged_eval(pl_eval *c);

/* paged_bound.c */
pl_status pl_ms_paged_bound(pl_bound *c);
extern const pl_undefined_rule pl_ms_paged_undefined;

/* ms_attention_bound.c */
pl_status pl_ms_attention_bound(pl_bound *c);
pl_status pl_ms_decoder_bound(pl_bound *c);
pl_status pl_ms_group_bound(pl_bound *c);
pl_status pl_ms_multi_head_bound(pl_bound *c);
pl_status pl_ms_q_attention_bound(pl_bound *c);
pl_status pl_ms_rotary_bound(pl_bound *c);

/* ms_attention_emit.c */
pl_status pl_emit_ms_rotary(pl_emit *c);

/* ms_attention_grad.c */
pl_status pl_ms_attention_grad(pl_grad *c);
pl_status pl_ms_decoder_grad(pl_grad *c);
pl_status pl_ms_multi_head_grad(pl_grad *c);
pl_status pl_ms_rotary_grad(pl_grad *c);

#endif

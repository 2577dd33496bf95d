/* Dims of attention operators in shape rules. Each named size occurs in several inputs and must be
 * the same in all of them. */
#ifndef PL_ATTENTION_DIMS_H
#define PL_ATTENTION_DIMS_H

#include "ops/infer.h"

/* `dim` takes `found` if it is unknown so far; two different known values are an error. */
pl_status pl_meet_agree(const pl_infer *c, const char *what, pl_dim found, pl_dim *dim);
pl_status pl_meet_divide(const pl_infer *c, const char *what, pl_dim dim, int64_t by, pl_dim *out);
pl_status pl_meet_multiply(const pl_infer *c, pl_dim dim, int64_t by, pl_dim *out);
pl_status pl_meet_sum(const pl_infer *c, pl_dim a, pl_dim b, pl_dim *out);
/* Input i must have this rank if its rank is known; *known tells whether it is. */
pl_status pl_meet_rank(const pl_infer *c, int i, const char *what, int rank, bool *known);
/* Right-aligned dims of input i must be 1 or those given; unknown dims pass. */
pl_status pl_meet_broadcast(const pl_infer *c, int i, const char *what, int rank,
                            const pl_dim *dims);
/* The single integer in input i as a length; unknown when its content is not known. */
pl_status pl_meet_length(pl_infer *c, int i, const char *what, pl_dim *out);
/* A count of heads: at least 1. */
pl_status pl_meet_heads(const pl_infer *c, const char *attr, int64_t *out);

#endif

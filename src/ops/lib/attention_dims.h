/* Dims of attention operators in shape rules: each named size is met several times, in several
 * inputs, and must be the same everywhere. */
#ifndef PL_ATTENTION_DIMS_H
#define PL_ATTENTION_DIMS_H

#include "ops/infer.h"

/* *dim takes `found` when it is still open; two known values that differ are an error. */
pl_status pl_meet_agree(const pl_infer *c, const char *what, pl_dim found, pl_dim *dim);
pl_status pl_meet_divide(const pl_infer *c, const char *what, pl_dim dim, int64_t by, pl_dim *out);
pl_status pl_meet_multiply(const pl_infer *c, pl_dim dim, int64_t by, pl_dim *out);
pl_status pl_meet_sum(const pl_infer *c, pl_dim a, pl_dim b, pl_dim *out);
/* Input i must have this rank when its rank is known; *known tells whether it is. */
pl_status pl_meet_rank(const pl_infer *c, int i, const char *what, int rank, bool *known);
/* Right-aligned dims of input i are 1 or those given (unknown ones pass). */
pl_status pl_meet_broadcast(const pl_infer *c, int i, const char *what, int rank,
                            const pl_dim *dims);
/* The one integer in input i, as a length: unknown when its content is not at hand. */
pl_status pl_meet_length(pl_infer *c, int i, const char *what, pl_dim *out);
/* A count of heads: at least 1. */
pl_status pl_meet_heads(const pl_infer *c, const char *attr, int64_t *out);

#endif

/* Joins the tensors of a sequence, and cuts a tensor into pieces. Shared by the sequence operators
 * and the scan outputs of control flow. Every element is copied once. */
#ifndef PL_JOIN_H
#define PL_JOIN_H

#include "ops/eval.h"
#include "ops/infer.h"

/* Concatenates n >= 1 contiguous tensors along `axis`, or, with `stack`, along a new axis at that
 * place. `axis` may be negative; every mismatch is an error that names the node and says `what` the
 * parts are. */
pl_status pl_join(pl_eval *c, pl_datum *const *parts, size_t n, int64_t axis, bool stack,
                  const char *what, pl_tensor **out);

/* Elements `begin` to `end` (exclusive) of a contiguous tensor along axis 0 as a view. With
 * `squeeze` the axis is dropped (end == begin + 1). */
pl_status pl_cut_first(const pl_tensor *t, int64_t begin, int64_t end, bool squeeze,
                       pl_tensor **out, pl_err *err);

/* The type of a value that is sometimes `a` and sometimes `b`: only what both agree on. */
pl_status pl_infer_union(pl_infer *c, const pl_type *a, const pl_type *b, const pl_type **out);

#endif

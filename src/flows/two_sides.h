/* Rejects comparisons of a computation with itself. */
#ifndef PL_TWO_SIDES_H
#define PL_TWO_SIDES_H

#include "graph/graph.h"

/* Do both specs mean the same backend, computing the same way? Options that only change speed or
 * what is written (threads, debug-dir, ...) make no difference. */
bool pl_two_sides_same_spec(const char *a, const char *b);

/* PL_E_USAGE when both specs mean the same backend with the same options, on the same model (two
 * files of the same content are one), or jit and eager on a model of which jit compiles nothing;
 * the message lists the available backends, and names the option 'reference' where there is one. */
pl_status pl_two_sides_check(const char *a, const pl_model *model_a, const char *b,
                             const pl_model *model_b, bool has_reference, pl_err *err);

#endif

/* Two sides that are one computation have nothing to say about each other. */
#ifndef PL_TWO_SIDES_H
#define PL_TWO_SIDES_H

#include "graph/graph.h"

/* PL_E_USAGE when both specs mean the same backend with the same options, on the same model (two
 * files of the same content are one); the message lists what there is. */
pl_status pl_two_sides_check(const char *a, const pl_model *model_a, const char *b,
                             const pl_model *model_b, pl_err *err);

#endif

/* Does a repro go wrong in the same way elsewhere? Two bugs of one operator fail on each other's
 * repro, but rarely by the same numbers. */
#ifndef PL_REPRO_VALUES_H
#define PL_REPRO_VALUES_H

#include "flows/corpus/worker.h"

/* True only if the failure is told apart from the one that the repro was written for: another kind
 * of error, and outputs that are not those of `observed/`. `failure` is it as text. */
bool pl_repro_differs(const pl_work *work, const char *folder, plumb_model *model,
                      const plumb_inputs *inputs, const char *failure);

#endif

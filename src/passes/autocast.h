/* Mixed precision: each operator computes in the type given by the autocast column of its row. */
#ifndef PL_AUTOCAST_H
#define PL_AUTOCAST_H

#include "passes/changes.h"

/* "fp16", "bf16". */
bool pl_amp_parse(const char *text, pl_dtype *out);
/* In place. `low` is PL_F16 or PL_BF16. Outputs of the model keep their declared types. */
pl_status pl_model_autocast(pl_model *model, pl_dtype low, pl_changes *changes, pl_err *err);
/* The same, but nodes of the main graph for which raise[index] is true compute in float32. */
pl_status pl_model_autocast_but(pl_model *model, pl_dtype low, const bool *raise,
                                pl_changes *changes, pl_err *err);
/* Every float becomes a double: inputs, outputs, constants, bodies and Casts. In place. */
pl_status pl_model_fp64(pl_model *model, pl_changes *changes, pl_err *err);
/* The nodes of the main graph for which raise[index] is true compute in float32, the others as
 * before; among them a Cast to a lower type no longer lowers. In place. */
pl_status pl_model_raise_nodes(pl_model *model, const bool *raise, pl_changes *changes,
                               pl_err *err);

#endif

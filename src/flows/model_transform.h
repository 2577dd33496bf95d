/* Transforms a model before it is written or run: eval mode, mixed precision, fp64. */
#ifndef PL_MODEL_TRANSFORM_H
#define PL_MODEL_TRANSFORM_H

#include <plumb.h>

#include "passes/changes.h"

/* In place, in the order of the members. */
pl_status pl_transform(pl_model *model, const plumb_transform_options *options, pl_changes *changes,
                       pl_err *err);
/* "3 casts, 2 constants converted": one line without a line end. */
void pl_transform_summary(const pl_changes *changes, pl_buf *out);

#endif

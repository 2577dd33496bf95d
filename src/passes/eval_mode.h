/* Eval mode: training-only behaviour switched off, as PyTorch's module.eval(). */
#ifndef PL_EVAL_MODE_H
#define PL_EVAL_MODE_H

#include "passes/changes.h"

/* Changes the model in place, bodies too: Dropout of every opset, BatchNormalization in training
 * mode (the form with several outputs as well: updated statistics become the given ones), and
 * whatever else has a training_mode or is_test. Operators must be resolved. Linear. */
pl_status pl_model_eval_mode(pl_model *model, pl_changes *changes, pl_err *err);

#endif

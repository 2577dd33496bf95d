/* A model written as .onnx or .onnxtxt, or a graph with gradients made from it. */
#ifndef PL_CONVERT_H
#define PL_CONVERT_H

#include "flows/api.h"

/* Never overwrites a file. */
pl_status pl_convert(pl_model *model, const char *path, const plumb_convert_options *options,
                     pl_err *err);

#endif

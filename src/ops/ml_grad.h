/* Gradient rules of the ai.onnx.ml rows that have a derivative. */
#ifndef PL_ML_GRAD_H
#define PL_ML_GRAD_H

#include "ops/grad_index.h"

pl_status pl_grad_feature_extractor(pl_grad *c);
pl_status pl_grad_feature_vectorizer(pl_grad *c);
pl_status pl_grad_imputer(pl_grad *c);
pl_status pl_grad_linear_regressor(pl_grad *c);
pl_status pl_grad_normalizer(pl_grad *c);
pl_status pl_grad_scaler(pl_grad *c);

#endif

/* Error bounds of the ai.onnx.ml rows. */
#ifndef PL_ML_BOUND_H
#define PL_ML_BOUND_H

#include "ops/bound.h"

pl_status pl_linear_regressor_bound(pl_bound *c);
pl_status pl_linear_classifier_bound(pl_bound *c);
pl_status pl_svm_regressor_bound(pl_bound *c);
pl_status pl_svm_classifier_bound(pl_bound *c);
pl_status pl_tree_regressor_bound(pl_bound *c);
pl_status pl_tree_classifier_bound(pl_bound *c);
pl_status pl_tree_ensemble_bound(pl_bound *c);
pl_status pl_binarizer_bound(pl_bound *c);
pl_status pl_imputer_bound(pl_bound *c);
pl_status pl_vectorizer_bound(pl_bound *c);
pl_status pl_scaler_bound(pl_bound *c);
pl_status pl_normalizer_bound(pl_bound *c);

#endif

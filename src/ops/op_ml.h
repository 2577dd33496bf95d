/* Inside the ai.onnx.ml files only: rules and kernels whose rows stand in op_ml.c. */
#ifndef PL_OP_ML_H
#define PL_OP_ML_H

#include "ops/ml_util.h"

/* op_ml_encode.c: tables from values to values */
pl_status pl_label_encoder_infer(pl_infer *c);
pl_status pl_label_encoder_eval(pl_eval *c);
pl_status pl_category_infer(pl_infer *c); /* also LabelEncoder-1 */
pl_status pl_category_eval(pl_eval *c);
pl_status pl_one_hot_infer(pl_infer *c);
pl_status pl_one_hot_eval(pl_eval *c);

/* op_ml_linear.c: linear models and support vector machines */
pl_status pl_linear_classifier_infer(pl_infer *c);
pl_status pl_linear_classifier_eval(pl_eval *c);
pl_status pl_linear_regressor_infer(pl_infer *c);
pl_status pl_linear_regressor_eval(pl_eval *c);
pl_status pl_svm_classifier_infer(pl_infer *c);
pl_status pl_svm_classifier_eval(pl_eval *c);
pl_status pl_svm_regressor_infer(pl_infer *c);
pl_status pl_svm_regressor_eval(pl_eval *c);

#endif

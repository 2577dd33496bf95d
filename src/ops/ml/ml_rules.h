/* Rules named in the rows of ml.c and defined in the files beside it. */
#ifndef PL_ML_RULES_H
#define PL_ML_RULES_H

#include "ops/op.h"

/* ml_bound.c */
pl_status pl_binarizer_bound(pl_bound *c);
pl_status pl_imputer_bound(pl_bound *c);
pl_status pl_normalizer_bound(pl_bound *c);
pl_status pl_scaler_bound(pl_bound *c);
pl_status pl_vectorizer_bound(pl_bound *c);

/* ml_emit.c */
pl_status pl_emit_array_features(pl_emit *c);
pl_status pl_emit_binarizer(pl_emit *c);
pl_status pl_emit_imputer(pl_emit *c);
pl_status pl_emit_normalizer(pl_emit *c);
pl_status pl_emit_scaler(pl_emit *c);

/* ml_encode.c */
pl_status pl_category_infer(pl_infer *c); /* also LabelEncoder-1 */
pl_status pl_label_encoder_infer(pl_infer *c);
pl_status pl_one_hot_infer(pl_infer *c);
pl_status pl_category_eval(pl_eval *c);
pl_status pl_label_encoder_eval(pl_eval *c);
pl_status pl_one_hot_eval(pl_eval *c);

/* ml_grad.c */
pl_status pl_grad_feature_extractor(pl_grad *c);
pl_status pl_grad_feature_vectorizer(pl_grad *c);
pl_status pl_grad_imputer(pl_grad *c);
pl_status pl_grad_linear_regressor(pl_grad *c);
pl_status pl_grad_normalizer(pl_grad *c);
pl_status pl_grad_scaler(pl_grad *c);

/* ml_linear.c */
pl_status pl_linear_classifier_infer(pl_infer *c);
pl_status pl_linear_regressor_infer(pl_infer *c);
pl_status pl_svm_classifier_infer(pl_infer *c);
pl_status pl_svm_regressor_infer(pl_infer *c);
pl_status pl_linear_classifier_eval(pl_eval *c);
pl_status pl_linear_regressor_eval(pl_eval *c);
pl_status pl_svm_classifier_eval(pl_eval *c);
pl_status pl_svm_regressor_eval(pl_eval *c);

/* ml_linear_bound.c */
pl_status pl_linear_classifier_bound(pl_bound *c);
pl_status pl_linear_regressor_bound(pl_bound *c);
pl_status pl_svm_classifier_bound(pl_bound *c);
pl_status pl_svm_regressor_bound(pl_bound *c);

/* ml_dict.c */
pl_status pl_dict_vectorizer_infer(pl_infer *c);
pl_status pl_dict_vectorizer_eval(pl_eval *c);

/* ml_map.c */
pl_status pl_zip_map_infer(pl_infer *c);
pl_status pl_zip_map_eval(pl_eval *c);

#endif

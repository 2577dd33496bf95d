/* Shared by the classic machine-learning operators (ai.onnx.ml): post transforms of scores, and
 * class labels. */
#ifndef PL_ML_UTIL_H
#define PL_ML_UTIL_H

#include "ops/eval.h"
#include "ops/infer.h"

#define PL_ML_DOMAIN "ai.onnx.ml"
#define PL_T_ML (PL_T(PL_F32) | PL_T(PL_F64) | PL_T(PL_I64) | PL_T(PL_I32))

typedef enum pl_ml_transform {
    PL_ML_NONE,
    PL_ML_SOFTMAX,
    PL_ML_LOGISTIC,
    PL_ML_SOFTMAX_ZERO,
    PL_ML_PROBIT
} pl_ml_transform; /* values as in TreeEnsemble-5 */

/* From attribute post_transform; an unknown name is an error. */
pl_status pl_ml_transform_of(const pl_eval *c, pl_ml_transform *out);
/* One row of n scores, in place. */
void pl_ml_apply(pl_ml_transform transform, double *scores, size_t n);
double pl_ml_logistic(double x);
/* SVMClassifier: probabilities p of n classes from pairwise ones, r[i][j] = P(i | i or j); q (n x
 * n) and qp (n) are scratch. */
void pl_ml_couple(int64_t n, const double *r, double *q, double *qp, double *p);

/* A matrix in an attribute. Never NULL: rows of no columns are offsets into it, too. */
const float *pl_ml_matrix(const pl_node *node, const char *name, size_t *n);

/* Class labels: strings when there are any, else ints. */
typedef struct pl_ml_labels {
    const pl_string *strings;
    const int64_t *ints;
    size_t n;
} pl_ml_labels;
pl_ml_labels pl_ml_labels_of(const pl_node *node, const char *strings, const char *ints);
pl_dtype pl_ml_labels_dtype(const pl_ml_labels *labels);
/* Sets element i of the label output. An index of -1, or n or more, means the plain labels 1 and 0
 * of a model without two labels. */
pl_status pl_ml_set_label(pl_eval *c, const pl_ml_labels *labels, pl_tensor *y, int64_t i,
                          int64_t index);

/* Rows and columns of [N, C] or [C] (one row); false for another rank. */
bool pl_ml_rows(const pl_tensor *x, int64_t *n_rows, int64_t *n_columns);
/* Outputs of a classifier with `n_scores` per row; n_scores < 0 = not known. */
pl_status pl_ml_infer_classes(pl_infer *c, pl_dtype label, int64_t n_scores);
/* Output 0 of a regressor: [N, n]. */
pl_status pl_ml_infer_regression(pl_infer *c, int64_t n);
/* Writes a row of the output from doubles. */
void pl_ml_store_row(pl_tensor *y, int64_t row, int64_t width, const double *scores);

#endif

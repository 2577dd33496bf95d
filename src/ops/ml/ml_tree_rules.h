/* Rules named in the rows of ml_tree.c and defined in the files beside it. */
#ifndef PL_ML_TREE_RULES_H
#define PL_ML_TREE_RULES_H

#include "ops/op.h"

/* ml_tree_bound.c */
pl_status pl_tree_classifier_bound(pl_bound *c);
pl_status pl_tree_ensemble_bound(pl_bound *c);
pl_status pl_tree_regressor_bound(pl_bound *c);

#endif

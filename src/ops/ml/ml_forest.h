/* Tree ensembles in one form: nodes with direct indices, votes at the leaves. Made from the
 * attributes of TreeEnsembleClassifier and -Regressor (pl_forest_from_nodes) or of TreeEnsemble-5
 * (pl_forest_from_ensemble); every index is checked here, so walking a tree needs no checks. */
#ifndef PL_ML_FOREST_H
#define PL_ML_FOREST_H

#include "ops/eval.h"

typedef enum pl_tree_mode { /* values as in TreeEnsemble-5 */
                            PL_TREE_LEQ,
                            PL_TREE_LT,
                            PL_TREE_GTE,
                            PL_TREE_GT,
                            PL_TREE_EQ,
                            PL_TREE_NEQ,
                            PL_TREE_MEMBER,
                            PL_TREE_LEAF
} pl_tree_mode;

typedef enum pl_tree_aggregate { /* values as in TreeEnsemble-5 */
                                 PL_TREE_AVERAGE,
                                 PL_TREE_SUM,
                                 PL_TREE_MIN,
                                 PL_TREE_MAX
} pl_tree_aggregate;

typedef struct pl_forest_node {
    pl_tree_mode mode;
    bool missing_is_true; /* NaN goes to on_true */
    uint32_t on_true, on_false;
    int64_t feature;
    double value;
    size_t first, last; /* LEAF: range of votes; MEMBER: range of members */
} pl_forest_node;

typedef struct pl_forest_vote {
    int64_t target;
    double weight;
} pl_forest_vote;

typedef struct pl_forest {
    pl_arena *arena;
    pl_forest_node *nodes;
    size_t n_nodes;
    uint32_t *roots;
    size_t n_roots;
    pl_forest_vote *votes;
    size_t n_votes;
    double *members;
    double *base;
    size_t n_base;
    int64_t n_targets;
    int64_t max_feature; /* -1 when no node tests one */
    pl_tree_aggregate aggregate;
    int64_t only_class; /* target of all votes, -1 when they differ */
    bool all_positive;  /* no weight is negative */
} pl_forest;

pl_status pl_forest_from_nodes(pl_eval *c, pl_forest **out);
pl_status pl_forest_from_ensemble(pl_eval *c, pl_forest **out);
void pl_forest_free(pl_forest *forest); /* NULL is fine */

#endif

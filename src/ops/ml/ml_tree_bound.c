/* Error bounds of the tree ensembles. */
#include <math.h>

#include "ops/ml/ml_bound.h"
#include "ops/ml/ml_tree_rules.h"

typedef struct forest_size {
    double n_trees;
    double sum;  /* sum over the trees of their largest |weight| */
    double base; /* largest |base value| */
} forest_size;

static double largest_of(const pl_node *node, const char *list, const char *tensor) {
    size_t n = 0;
    const float *f = pl_attr_floats(node, list, &n);
    const pl_tensor *t = pl_attr_tensor(node, tensor);
    double most = t == NULL ? 0 : pl_tensor_max_abs(t);
    for (size_t i = 0; i < n; i++) {
        const double x = fabs((double)f[i]);
        if (x > most) most = x; /* not fmax: gcc 12 for ARM64 fails on it in a loop */
    }
    return most;
}

typedef struct tree_attrs {
    const char *weights, *as_tensor, *tree_ids; /* tree_ids: tree of each weight; NULL = unknown */
} tree_attrs;

/* Assumes that the weights of a tree are consecutive; otherwise a tree counts more than once, which
 * only widens the bound. */
static forest_size measure_forest(const pl_node *node, const tree_attrs *a) {
    size_t n_ids = 0, n_roots = 0, n_weights = 0;
    const int64_t *ids = a->tree_ids == NULL ? NULL : pl_attr_ints(node, a->tree_ids, &n_ids);
    const float *w = pl_attr_floats(node, a->weights, &n_weights);
    const pl_tensor *t = pl_attr_tensor(node, a->as_tensor);
    forest_size f = { .base = largest_of(node, "base_values", "base_values_as_tensor") };
    (void)pl_attr_ints(node, "tree_roots", &n_roots);
    if (ids == NULL) {
        f.n_trees = (double)n_roots;
        f.sum = f.n_trees * largest_of(node, a->weights, a->as_tensor);
    }
    double most = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const bool in_tensor = t != NULL && (int64_t)i < t->n_elements;
        const double x = in_tensor       ? pl_tensor_get_f64(t, (int64_t)i)
                         : i < n_weights ? (double)w[i]
                                         : 0;
        most = fmax(most, fabs(x));
        if (i + 1 < n_ids && ids[i + 1] == ids[i]) continue;
        f.n_trees++;
        f.sum += most;
        most = 0;
    }
    return f;
}

/* Leaves are chosen exactly if the input is exact; otherwise any leaf is possible. */
static pl_status tree_bound(pl_bound *c, int slot, const tree_attrs *a) {
    const forest_size f = measure_forest(c->node, a);
    const int64_t number = pl_attr_int(c->node, "aggregate_function"); /* 0 when it is a string */
    const bool word = pl_attr_string(c->node, "aggregate_function").n_bytes > 0;
    const bool mean = word ? pl_attr_string_is(c->node, "aggregate_function", "AVERAGE")
                           : a->tree_ids == NULL && number == 0;
    const bool picks = word ? pl_attr_string_is(c->node, "aggregate_function", "MIN") ||
                                  pl_attr_string_is(c->node, "aggregate_function", "MAX")
                            : a->tree_ids == NULL && number > 1;
    const double by = mean && f.n_trees > 0 ? f.n_trees : 1;
    const double terms = (picks ? 1 : f.n_trees) + (f.base > 0 ? 1 : 0);
    pl_b_scores scores;
    PL_TRY(pl_b_scores_open(c, slot, NULL, &scores));
    for (int64_t i = 0; i < scores.n_rows * scores.width; i++) {
        const double y = fabs(scores.s[i]), sum = picks ? y : f.sum / by;
        if (terms > 1)
            scores.e[i] = c->u_acc * (pl_b_sum_error(terms, sum + f.base, y) + (mean ? y : 0));
        scores.e[i] += pl_b_stored(c, y);
        if (pl_b_largest(c, 0) > 0) scores.e[i] += 2 * f.sum / by;
    }
    const pl_status st = pl_b_scores_set(c, slot, &scores, NULL);
    pl_tensor_unref(scores.raw);
    return st;
}

pl_status pl_tree_regressor_bound(pl_bound *c) {
    static const tree_attrs a = { "target_weights", "target_weights_as_tensor", "target_treeids" };
    return tree_bound(c, 0, &a);
}

pl_status pl_tree_classifier_bound(pl_bound *c) {
    static const tree_attrs a = { "class_weights", "class_weights_as_tensor", "class_treeids" };
    return tree_bound(c, 1, &a);
}

pl_status pl_tree_ensemble_bound(pl_bound *c) {
    static const tree_attrs a = { "", "leaf_weights", NULL };
    return tree_bound(c, 0, &a);
}

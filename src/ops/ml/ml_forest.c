/* Builds forests from attributes. None of them is trusted: lengths, ids and features are checked;
 * cycles are detected while walking, by counting steps. */
#include "ops/ml/ml_forest.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strmap.h"

void pl_forest_free(pl_forest *forest) {
    if (forest == NULL) return;
    pl_arena_free(forest->arena);
    pl_free(forest);
}

static pl_status forest_new(const pl_eval *c, pl_forest **out) {
    pl_forest *f = pl_calloc(1, sizeof(*f));
    if (f == NULL) return pl_eval_memory(c);
    f->arena = pl_arena_new();
    f->max_feature = f->only_class = -1;
    f->aggregate = PL_TREE_SUM;
    f->all_positive = true;
    if (f->arena == NULL) {
        pl_free(f);
        return pl_eval_memory(c);
    }
    *out = f;
    return PL_OK;
}

/* Floats from a list or, under NAME_as_tensor, from a tensor; in the forest's arena. */
static pl_status numbers_of(const pl_eval *c, pl_forest *f, const char *name, const char *as_tensor,
                            double **out, size_t *n) {
    const float *floats = pl_attr_floats(c->node, name, n);
    const pl_tensor *t = pl_attr_tensor(c->node, as_tensor);
    *out = NULL;
    if (floats == NULL) *n = 0;
    if (floats == NULL && t == NULL) return PL_OK;
    if (floats != NULL && t != NULL) {
        return pl_eval_fail(c, "both '%s' and '%s' are given", name, as_tensor);
    }
    if (t != NULL) {
        if (!pl_dtype_is_float(t->dtype)) return pl_eval_fail(c, "'%s' is not float", as_tensor);
        *n = (size_t)t->n_elements;
    }
    *out = pl_arena_array(f->arena, *n, sizeof(**out));
    if (*out == NULL) return pl_eval_memory(c);
    for (size_t i = 0; floats != NULL && i < *n; i++)
        (*out)[i] = (double)floats[i];
    if (t != NULL) pl_load_f64(t->dtype, t->data, *out, *n);
    return PL_OK;
}

/* A list that must have n elements. */
static pl_status ints_of(const pl_eval *c, const char *name, size_t n, const int64_t **out) {
    size_t found = 0;
    *out = pl_attr_ints(c->node, name, &found);
    if (found == n) return PL_OK;
    return pl_eval_fail(c, "'%s' has %zu elements, expected %zu", name, found, n);
}

static pl_status feature_of(const pl_eval *c, pl_forest *f, int64_t feature) {
    if (feature < 0) return pl_eval_fail(c, "a node tests feature %lld", (long long)feature);
    if (feature > f->max_feature) f->max_feature = feature;
    return PL_OK;
}

static pl_status add_vote(const pl_eval *c, pl_forest *f, size_t at, int64_t target,
                          double weight) {
    if (target < 0 || target >= f->n_targets) {
        return pl_eval_fail(c, "a leaf votes for target %lld of %lld", (long long)target,
                            (long long)f->n_targets);
    }
    f->votes[at] = (pl_forest_vote){ target, weight };
    if (weight < 0) f->all_positive = false;
    return PL_OK;
}

/* ---- TreeEnsembleClassifier and -Regressor: nodes are named by tree and node id ---- */

typedef struct node_name { /* key of the map: its bytes */
    int64_t tree, node;
} node_name;

typedef struct names {
    node_name *keys;
    pl_strmap map; /* name -> index + 1 */
} names;

static bool names_find(const names *n, int64_t tree, int64_t node, uint32_t *out) {
    const node_name key = { tree, node };
    const uintptr_t found = (uintptr_t)pl_strmap_get_n(&n->map, (const char *)&key, sizeof(key));
    *out = (uint32_t)(found - 1);
    return found > 0;
}

static pl_status names_init(pl_eval *c, names *n, const int64_t *trees, const int64_t *nodes,
                            size_t count) {
    n->keys = pl_scratch(c, count, sizeof(*n->keys));
    if (n->keys == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < count; i++) {
        uint32_t other = 0;
        n->keys[i] = (node_name){ trees[i], nodes[i] };
        if (names_find(n, trees[i], nodes[i], &other)) {
            return pl_eval_fail(c, "tree %lld has two nodes %lld", (long long)trees[i],
                                (long long)nodes[i]);
        }
        if (pl_strmap_put_n(&n->map, (const char *)&n->keys[i], sizeof(node_name),
                            (void *)(uintptr_t)(i + 1)) != 0) {
            return pl_eval_memory(c);
        }
    }
    return PL_OK;
}

static pl_status mode_of(const pl_eval *c, pl_string s, pl_tree_mode *out) {
    static const char *const modes[] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF" };
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (i == PL_TREE_MEMBER || strlen(modes[i]) != s.n_bytes ||
            memcmp(modes[i], s.data, s.n_bytes) != 0) {
            continue;
        }
        *out = (pl_tree_mode)i;
        return PL_OK;
    }
    return pl_eval_fail(c, "unknown node mode '%.*s'", (int)(s.n_bytes & 0x7F), s.data);
}

typedef struct node_attrs {
    const int64_t *trees, *nodes, *features, *on_true, *on_false, *missing;
    const pl_string *modes;
    double *values;
    size_t n;
} node_attrs;

static pl_status node_attrs_init(const pl_eval *c, pl_forest *f, node_attrs *a) {
    size_t n_values = 0, n_missing = 0;
    a->modes = pl_attr_strings(c->node, "nodes_modes", &a->n);
    if (a->n == 0 || a->n >= UINT32_MAX) return pl_eval_fail(c, "nodes_modes is empty or too long");
    PL_TRY(ints_of(c, "nodes_treeids", a->n, &a->trees));
    PL_TRY(ints_of(c, "nodes_nodeids", a->n, &a->nodes));
    PL_TRY(ints_of(c, "nodes_featureids", a->n, &a->features));
    PL_TRY(ints_of(c, "nodes_truenodeids", a->n, &a->on_true));
    PL_TRY(ints_of(c, "nodes_falsenodeids", a->n, &a->on_false));
    PL_TRY(numbers_of(c, f, "nodes_values", "nodes_values_as_tensor", &a->values, &n_values));
    if (a->values == NULL || n_values != a->n) {
        return pl_eval_fail(c, "nodes_values has %zu elements, expected %zu", n_values, a->n);
    }
    a->missing = pl_attr_ints(c->node, "nodes_missing_value_tracks_true", &n_missing);
    if (n_missing == 0) a->missing = NULL;
    if (n_missing == 0 || n_missing == a->n) return PL_OK;
    return pl_eval_fail(c, "nodes_missing_value_tracks_true has %zu elements, expected %zu",
                        n_missing, a->n);
}

static pl_status fill_nodes(pl_eval *c, pl_forest *f, const node_attrs *a, const names *n,
                            bool *is_child) {
    for (size_t i = 0; i < a->n; i++) {
        pl_forest_node *node = &f->nodes[i];
        PL_TRY(mode_of(c, a->modes[i], &node->mode));
        node->value = a->values[i];
        node->missing_is_true = a->missing != NULL && a->missing[i] != 0;
        if (node->mode == PL_TREE_LEAF) continue;
        node->feature = a->features[i];
        PL_TRY(feature_of(c, f, node->feature));
        if (!names_find(n, a->trees[i], a->on_true[i], &node->on_true) ||
            !names_find(n, a->trees[i], a->on_false[i], &node->on_false)) {
            return pl_eval_fail(c, "node %lld of tree %lld has a child that does not exist",
                                (long long)a->nodes[i], (long long)a->trees[i]);
        }
        is_child[node->on_true] = is_child[node->on_false] = true;
    }
    return PL_OK;
}

/* Roots are the nodes without a parent. */
static pl_status find_roots(pl_eval *c, pl_forest *f, const bool *is_child) {
    f->roots = pl_arena_array(f->arena, f->n_nodes, sizeof(*f->roots));
    if (f->roots == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < f->n_nodes; i++) {
        if (!is_child[i]) f->roots[f->n_roots++] = (uint32_t)i;
    }
    return f->n_roots > 0 ? PL_OK : pl_eval_fail(c, "no node is a root: the trees are cycles");
}

/* Sorts the votes by leaf with a counting sort. */
static pl_status fill_votes(pl_eval *c, pl_forest *f, const names *n, const int64_t *trees,
                            const int64_t *nodes, const int64_t *targets, const double *weights) {
    uint32_t *leaf = pl_scratch(c, f->n_votes, sizeof(*leaf));
    f->votes = pl_arena_array(f->arena, f->n_votes, sizeof(*f->votes));
    if (leaf == NULL || f->votes == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < f->n_votes; i++) {
        if (!names_find(n, trees[i], nodes[i], &leaf[i])) {
            return pl_eval_fail(c, "a vote is for node %lld of tree %lld, which does not exist",
                                (long long)nodes[i], (long long)trees[i]);
        }
        f->nodes[leaf[i]].last++;
    }
    size_t at = 0;
    for (size_t i = 0; i < f->n_nodes; i++) {
        const size_t count = f->nodes[i].last;
        f->nodes[i].first = f->nodes[i].last = at;
        at += count;
    }
    f->only_class = f->n_votes > 0 ? targets[0] : -1;
    for (size_t i = 0; i < f->n_votes; i++) {
        PL_TRY(add_vote(c, f, f->nodes[leaf[i]].last++, targets[i], weights[i]));
        if (targets[i] != targets[0]) f->only_class = -1;
    }
    return PL_OK;
}

static pl_status read_votes(pl_eval *c, pl_forest *f, const names *n, bool classifier) {
    const int64_t *trees = NULL, *nodes = NULL, *targets = NULL;
    double *weights = NULL;
    PL_TRY(numbers_of(c, f, classifier ? "class_weights" : "target_weights",
                      classifier ? "class_weights_as_tensor" : "target_weights_as_tensor", &weights,
                      &f->n_votes));
    PL_TRY(ints_of(c, classifier ? "class_treeids" : "target_treeids", f->n_votes, &trees));
    PL_TRY(ints_of(c, classifier ? "class_nodeids" : "target_nodeids", f->n_votes, &nodes));
    PL_TRY(ints_of(c, classifier ? "class_ids" : "target_ids", f->n_votes, &targets));
    return fill_votes(c, f, n, trees, nodes, targets, weights);
}

static pl_status aggregate_of(const pl_eval *c, pl_tree_aggregate *out) {
    static const char *const all[] = { "AVERAGE", "SUM", "MIN", "MAX" };
    for (int i = 0; i < 4; i++) {
        if (!pl_attr_string_is(c->node, "aggregate_function", all[i])) continue;
        *out = (pl_tree_aggregate)i;
        return PL_OK;
    }
    return pl_eval_fail(c, "aggregate_function is not SUM, AVERAGE, MIN or MAX");
}

static pl_status build_from_nodes(pl_eval *c, pl_forest *f, names *n) {
    const bool classifier = strcmp(c->node->op, "TreeEnsembleClassifier") == 0;
    node_attrs a = { 0 };
    if (classifier) {
        size_t n_strings = 0, n_ints = 0;
        (void)pl_attr_strings(c->node, "classlabels_strings", &n_strings);
        (void)pl_attr_ints(c->node, "classlabels_int64s", &n_ints);
        f->n_targets = (int64_t)(n_strings > 0 ? n_strings : n_ints);
    } else {
        f->n_targets = pl_attr_int(c->node, "n_targets");
        PL_TRY(aggregate_of(c, &f->aggregate));
    }
    PL_TRY(numbers_of(c, f, "base_values", "base_values_as_tensor", &f->base, &f->n_base));
    PL_TRY(node_attrs_init(c, f, &a));
    PL_TRY(names_init(c, n, a.trees, a.nodes, a.n));
    f->n_nodes = a.n;
    f->nodes = pl_arena_array(f->arena, a.n, sizeof(*f->nodes));
    bool *is_child = pl_scratch(c, a.n, sizeof(*is_child));
    if (f->nodes == NULL || is_child == NULL) return pl_eval_memory(c);
    PL_TRY(fill_nodes(c, f, &a, n, is_child));
    PL_TRY(find_roots(c, f, is_child));
    return read_votes(c, f, n, classifier);
}

pl_status pl_forest_from_nodes(pl_eval *c, pl_forest **out) {
    pl_forest *f = NULL;
    names n = { NULL, PL_STRMAP_INIT };
    PL_TRY(forest_new(c, &f));
    const pl_status st = build_from_nodes(c, f, &n);
    pl_strmap_release(&n.map);
    if (st != PL_OK) {
        pl_forest_free(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

/* ---- TreeEnsemble-5: inner nodes and leaves are two lists; leaves follow the nodes here ---- */

static pl_status child_of(const pl_eval *c, size_t n_inner, size_t n_leaves, int64_t id,
                          bool is_leaf, uint32_t *out) {
    const size_t n = is_leaf ? n_leaves : n_inner;
    if (id < 0 || (uint64_t)id >= n) {
        return pl_eval_fail(c, "%s %lld does not exist", is_leaf ? "leaf" : "node", (long long)id);
    }
    *out = (uint32_t)((size_t)id + (is_leaf ? n_inner : 0));
    return PL_OK;
}

/* The member sets follow one another in the order of the nodes, each ended by NaN. */
static pl_status read_members(pl_eval *c, pl_forest *f, size_t n_inner) {
    const pl_tensor *t = pl_attr_tensor(c->node, "membership_values");
    const size_t n = t == NULL ? 0 : (size_t)t->n_elements;
    size_t at = 0;
    f->members = pl_arena_array(f->arena, n, sizeof(*f->members));
    if (f->members == NULL) return pl_eval_memory(c);
    if (t != NULL) pl_load_f64(t->dtype, t->data, f->members, n);
    for (size_t i = 0; i < n_inner; i++) {
        pl_forest_node *node = &f->nodes[i];
        if (node->mode != PL_TREE_MEMBER) continue;
        node->first = at;
        while (at < n && !isnan(f->members[at]))
            at++;
        if (at == n) return pl_eval_fail(c, "membership_values has too few sets");
        node->last = at++;
    }
    return PL_OK;
}

static pl_status read_inner(pl_eval *c, pl_forest *f, size_t n_inner, size_t n_leaves) {
    const pl_tensor *modes = pl_attr_tensor(c->node, "nodes_modes");
    const pl_tensor *splits = pl_attr_tensor(c->node, "nodes_splits");
    const int64_t *features = NULL, *on_true = NULL, *on_false = NULL, *true_leaf = NULL,
                  *false_leaf = NULL, *missing = NULL;
    size_t n_missing = 0;
    PL_TRY(ints_of(c, "nodes_featureids", n_inner, &features));
    PL_TRY(ints_of(c, "nodes_truenodeids", n_inner, &on_true));
    PL_TRY(ints_of(c, "nodes_falsenodeids", n_inner, &on_false));
    PL_TRY(ints_of(c, "nodes_trueleafs", n_inner, &true_leaf));
    PL_TRY(ints_of(c, "nodes_falseleafs", n_inner, &false_leaf));
    if (pl_attr_ints(c->node, "nodes_missing_value_tracks_true", &n_missing) != NULL &&
        n_missing > 0) {
        PL_TRY(ints_of(c, "nodes_missing_value_tracks_true", n_inner, &missing));
    }
    if (splits->n_elements != modes->n_elements || !pl_dtype_is_float(splits->dtype)) {
        return pl_eval_fail(c, "nodes_splits is not float or not as long as nodes_modes");
    }
    for (size_t i = 0; i < n_inner; i++) {
        pl_forest_node *node = &f->nodes[i];
        const int64_t mode = pl_tensor_get_i64(modes, (int64_t)i);
        if (mode < 0 || mode > PL_TREE_MEMBER) {
            return pl_eval_fail(c, "unknown node mode %lld", (long long)mode);
        }
        node->mode = (pl_tree_mode)mode;
        node->value = pl_tensor_get_f64(splits, (int64_t)i);
        node->missing_is_true = missing != NULL && missing[i] != 0;
        node->feature = features[i];
        PL_TRY(feature_of(c, f, node->feature));
        PL_TRY(child_of(c, n_inner, n_leaves, on_true[i], true_leaf[i] != 0, &node->on_true));
        PL_TRY(child_of(c, n_inner, n_leaves, on_false[i], false_leaf[i] != 0, &node->on_false));
    }
    return read_members(c, f, n_inner);
}

static pl_status read_leaves(pl_eval *c, pl_forest *f, size_t n_inner, size_t n_leaves) {
    const pl_tensor *weights = pl_attr_tensor(c->node, "leaf_weights");
    const int64_t *targets = NULL;
    PL_TRY(ints_of(c, "leaf_targetids", n_leaves, &targets));
    if (!pl_dtype_is_float(weights->dtype)) return pl_eval_fail(c, "leaf_weights is not float");
    f->n_votes = n_leaves;
    f->votes = pl_arena_array(f->arena, n_leaves, sizeof(*f->votes));
    if (f->votes == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < n_leaves; i++) {
        PL_TRY(add_vote(c, f, i, targets[i], pl_tensor_get_f64(weights, (int64_t)i)));
        f->nodes[n_inner + i] = (pl_forest_node){ .mode = PL_TREE_LEAF, .first = i, .last = i + 1 };
    }
    return PL_OK;
}

static pl_status build_from_ensemble(pl_eval *c, pl_forest *f) {
    const pl_tensor *modes = pl_attr_tensor(c->node, "nodes_modes");
    const pl_tensor *splits = pl_attr_tensor(c->node, "nodes_splits");
    const pl_tensor *weights = pl_attr_tensor(c->node, "leaf_weights");
    size_t n_roots = 0;
    const int64_t *roots = pl_attr_ints(c->node, "tree_roots", &n_roots);
    const int64_t aggregate = pl_attr_int(c->node, "aggregate_function");
    if (modes == NULL || splits == NULL || weights == NULL || !pl_dtype_is_integer(modes->dtype)) {
        return pl_eval_fail(c, "nodes_modes, nodes_splits or leaf_weights is invalid");
    }
    if (aggregate < PL_TREE_AVERAGE || aggregate > PL_TREE_MAX) {
        return pl_eval_fail(c, "invalid aggregate_function %lld", (long long)aggregate);
    }
    const size_t n_inner = (size_t)modes->n_elements, n_leaves = (size_t)weights->n_elements;
    if (n_inner + n_leaves >= UINT32_MAX) return pl_eval_fail(c, "too many nodes");
    f->aggregate = (pl_tree_aggregate)aggregate;
    f->n_targets = pl_attr_int(c->node, "n_targets");
    f->n_nodes = n_inner + n_leaves;
    f->nodes = pl_arena_array(f->arena, f->n_nodes, sizeof(*f->nodes));
    f->roots = pl_arena_array(f->arena, n_roots, sizeof(*f->roots));
    if (f->nodes == NULL || f->roots == NULL) return pl_eval_memory(c);
    for (; f->n_roots < n_roots; f->n_roots++) {
        PL_TRY(child_of(c, n_inner, n_leaves, roots[f->n_roots], false, &f->roots[f->n_roots]));
    }
    PL_TRY(read_inner(c, f, n_inner, n_leaves));
    return read_leaves(c, f, n_inner, n_leaves);
}

pl_status pl_forest_from_ensemble(pl_eval *c, pl_forest **out) {
    pl_forest *f = NULL;
    PL_TRY(forest_new(c, &f));
    const pl_status st = build_from_ensemble(c, f);
    if (st != PL_OK) {
        pl_forest_free(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

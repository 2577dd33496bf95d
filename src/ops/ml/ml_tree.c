/* Tree ensembles of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble-5.
 *
 * All three are converted to one form (ml_forest.h), which is kept between runs; rows of the input
 * are processed in parallel. Where the specification does not define binary classifiers, this
 * follows ONNX Runtime, for which the models were made. */
#include <math.h>
#include <string.h>

#include "ops/ml/ml_forest.h"
#include "ops/ml/ml_tree_rules.h"
#include "ops/ml/ml_util.h"

extern const pl_op_def pl_ops_ml_tree[];

/* ---- the forest of this node, from the last run or new ---- */

static void free_forest(void *p) {
    pl_forest_free(p);
}

static pl_status forest_of(pl_eval *c, pl_forest **out, bool *owned) {
    *owned = false;
    if (c->state != NULL && *c->state != NULL) {
        *out = *c->state;
        return PL_OK;
    }
    const bool newest = strcmp(c->node->op, "TreeEnsemble") == 0;
    PL_TRY(newest ? pl_forest_from_ensemble(c, out) : pl_forest_from_nodes(c, out));
    if (c->state == NULL || c->state_free == NULL) {
        *owned = true;
        return PL_OK;
    }
    *c->state = *out;
    *c->state_free = free_forest;
    return PL_OK;
}

/* ---- walking ---- */

typedef struct walk {
    const pl_forest *forest;
    const pl_f64 *x;
    int64_t n_columns;
    double *scores; /* [rows, n_targets] */
    bool *touched;  /* same shape: has a leaf voted? */
    bool endless;   /* a cycle was found; only ever set to true */
} walk;

static bool takes_true(const pl_forest *f, const pl_forest_node *n, double v) {
    if (n->missing_is_true && isnan(v)) return true;
    switch (n->mode) {
    case PL_TREE_LEQ: return v <= n->value;
    case PL_TREE_LT: return v < n->value;
    case PL_TREE_GTE: return v >= n->value;
    case PL_TREE_GT: return v > n->value;
    case PL_TREE_EQ: return v == n->value;
    case PL_TREE_NEQ: return v != n->value;
    case PL_TREE_MEMBER:
        for (size_t i = n->first; i < n->last; i++) {
            if (f->members[i] == v) return true;
        }
        return false;
    case PL_TREE_LEAF: break;
    }
    return false;
}

static void vote(const walk *w, const pl_forest_node *leaf, double *scores, bool *touched) {
    const pl_forest *f = w->forest;
    for (size_t i = leaf->first; i < leaf->last; i++) {
        const int64_t t = f->votes[i].target;
        const double v = f->votes[i].weight;
        if (f->aggregate == PL_TREE_MIN || f->aggregate == PL_TREE_MAX) {
            const bool better = f->aggregate == PL_TREE_MIN ? v < scores[t] : v > scores[t];
            if (better || !touched[t]) scores[t] = v;
        } else {
            scores[t] += v;
        }
        touched[t] = true;
    }
}

static void walk_rows(void *ctx, int64_t begin, int64_t end) {
    walk *w = ctx;
    const pl_forest *f = w->forest;
    for (int64_t row = begin; row < end; row++) {
        double *scores = w->scores + row * f->n_targets;
        bool *touched = w->touched + row * f->n_targets;
        for (size_t t = 0; t < f->n_roots; t++) {
            const pl_forest_node *n = &f->nodes[f->roots[t]];
            for (size_t steps = 0; n->mode != PL_TREE_LEAF; steps++) {
                if (steps > f->n_nodes) {
                    __atomic_store_n(&w->endless, true, __ATOMIC_RELAXED);
                    return;
                }
                const double v = w->x[row * w->n_columns + n->feature];
                n = &f->nodes[takes_true(f, n, v) ? n->on_true : n->on_false];
            }
            vote(w, n, scores, touched);
        }
        for (int64_t k = 0; f->aggregate == PL_TREE_AVERAGE && k < f->n_targets; k++)
            scores[k] /= (double)(f->n_roots == 0 ? 1 : f->n_roots);
    }
}

/* Scores of all rows in scratch, before base values and post transform. */
static pl_status walk_all(pl_eval *c, const pl_forest *f, walk *w, int64_t *n_rows) {
    const pl_tensor *x = pl_in(c, 0);
    if (!pl_ml_rows(x, n_rows, &w->n_columns)) {
        return pl_eval_fail(c, "the input must have shape [N,F]");
    }
    if (f->max_feature >= w->n_columns && x->n_elements > 0) {
        return pl_eval_fail(c, "a node tests feature %lld, but the input has %lld",
                            (long long)f->max_feature, (long long)w->n_columns);
    }
    if (x->n_elements == 0 && *n_rows > 0 && f->max_feature >= 0) {
        return pl_eval_fail(c, "the input has no features");
    }
    size_t n = 0;
    w->forest = f;
    w->x = pl_in_f64(c, 0);
    if (__builtin_mul_overflow((size_t)*n_rows, (size_t)f->n_targets, &n)) {
        return pl_eval_memory(c);
    }
    w->scores = pl_scratch(c, n, sizeof(*w->scores));
    w->touched = pl_scratch(c, n, sizeof(*w->touched));
    if (w->x == NULL || w->scores == NULL || w->touched == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, *n_rows, 32, walk_rows, w);
    return w->endless ? pl_eval_fail(c, "a tree has a cycle") : PL_OK;
}

/* ---- regressors ---- */

static pl_status regressor_infer(pl_infer *c) {
    const int64_t n = pl_attr_int(c->node, "n_targets");
    if (n < 1 || n > INT32_MAX) return pl_infer_fail(c, "invalid n_targets %lld", (long long)n);
    return pl_ml_infer_regression(c, n);
}

static pl_status ensemble_infer(pl_infer *c) {
    const int64_t n = pl_attr_int(c->node, "n_targets");
    if (n < 1 || n > INT32_MAX) return pl_infer_fail(c, "invalid n_targets %lld", (long long)n);
    const int rank = pl_infer_rank(c, 0);
    if (rank >= 0 && rank != 2) return pl_infer_fail(c, "the input must have shape [N,F]");
    const pl_dim dims[2] = { pl_infer_dim(c, 0, 0), pl_dim_of(n) };
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 2, dims);
}

static pl_status regress(pl_eval *c, const pl_forest *f, pl_ml_transform transform) {
    walk w = { 0 };
    int64_t n_rows = 0;
    pl_tensor *y = pl_out(c, 0);
    PL_TRY(walk_all(c, f, &w, &n_rows));
    if (f->n_base > 1 && (int64_t)f->n_base != f->n_targets) {
        return pl_eval_fail(c, "has %zu base values, expected %lld", f->n_base,
                            (long long)f->n_targets);
    }
    for (int64_t i = 0; i < n_rows && y != NULL; i++) {
        double *scores = w.scores + i * f->n_targets;
        for (int64_t k = 0; f->n_base > 0 && k < f->n_targets; k++)
            scores[k] += f->base[f->n_base == 1 ? 0 : k];
        pl_ml_apply(transform, scores, (size_t)f->n_targets);
        pl_ml_store_row(y, i, f->n_targets, scores);
    }
    return PL_OK;
}

static pl_status regressor_eval(pl_eval *c) {
    pl_ml_transform transform = PL_ML_NONE;
    pl_forest *f = NULL;
    bool owned = false;
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(forest_of(c, &f, &owned));
    const pl_status st = regress(c, f, transform);
    if (owned) pl_forest_free(f);
    return st;
}

static pl_status ensemble_eval(pl_eval *c) {
    const int64_t transform = pl_attr_int(c->node, "post_transform");
    if (transform < PL_ML_NONE || transform > PL_ML_PROBIT) {
        return pl_eval_fail(c, "invalid post_transform %lld", (long long)transform);
    }
    pl_forest *f = NULL;
    bool owned = false;
    PL_TRY(forest_of(c, &f, &owned));
    const pl_status st = regress(c, f, (pl_ml_transform)transform);
    if (owned) pl_forest_free(f);
    return st;
}

/* ---- classifier ---- */

static pl_ml_labels labels_of(const pl_node *node) {
    return pl_ml_labels_of(node, "classlabels_strings", "classlabels_int64s");
}

static pl_status classifier_infer(pl_infer *c) {
    const pl_ml_labels labels = labels_of(c->node);
    if (labels.n == 0) return pl_infer_fail(c, "no classlabels_* attribute is given");
    return pl_ml_infer_classes(c, pl_ml_labels_dtype(&labels), (int64_t)labels.n);
}

/* Two labels, but all votes are for one class: its score p alone decides. If no vote is negative, p
 * is a probability (threshold 0.5), else a margin (threshold 0). Votes for the first class are
 * meant for the second, a convention of all exporters, and fill both columns. */
static int64_t classify_binary(const pl_forest *f, pl_ml_transform transform, double *scores) {
    const double base = f->n_base > 0 ? f->base[f->n_base - 1] : 0;
    const double p = scores[f->only_class] + base;
    const bool sharp = transform == PL_ML_LOGISTIC || transform == PL_ML_SOFTMAX ||
                       transform == PL_ML_SOFTMAX_ZERO;
    scores[1] = p;
    if (f->only_class == 0) {
        const bool probability = transform == PL_ML_PROBIT || (f->all_positive && !sharp);
        scores[0] = probability ? 1 - p : -p;
    } else if (f->n_base == 2) {
        scores[0] += f->base[0];
    }
    pl_ml_apply(transform, scores, 2);
    return p > (f->all_positive ? 0.5 : 0);
}

static int64_t classify(const pl_forest *f, pl_ml_transform transform, double *scores) {
    if (f->only_class >= 0 && f->n_targets == 2) return classify_binary(f, transform, scores);
    for (int64_t k = 0; k < f->n_targets && k < (int64_t)f->n_base; k++)
        scores[k] += f->base[k];
    int64_t label = 0;
    for (int64_t k = 1; k < f->n_targets; k++) {
        if (scores[k] > scores[label]) label = k;
    }
    if (f->n_targets == 1) label = scores[0] > 0 ? 1 : -1;
    pl_ml_apply(transform, scores, (size_t)f->n_targets);
    return label;
}

static pl_status classify_all(pl_eval *c, const pl_forest *f, pl_ml_transform transform) {
    const pl_ml_labels labels = labels_of(c->node);
    walk w = { 0 };
    int64_t n_rows = 0;
    PL_TRY(walk_all(c, f, &w, &n_rows));
    for (int64_t i = 0; i < n_rows; i++) {
        double *scores = w.scores + i * f->n_targets;
        const int64_t label = classify(f, transform, scores);
        if (pl_out(c, 0) != NULL) PL_TRY(pl_ml_set_label(c, &labels, pl_out(c, 0), i, label));
        if (pl_out(c, 1) != NULL) pl_ml_store_row(pl_out(c, 1), i, f->n_targets, scores);
    }
    return PL_OK;
}

static pl_status classifier_eval(pl_eval *c) {
    pl_ml_transform transform = PL_ML_NONE;
    pl_forest *f = NULL;
    bool owned = false;
    PL_TRY(pl_ml_transform_of(c, &transform));
    PL_TRY(forest_of(c, &f, &owned));
    const pl_status st = classify_all(c, f, transform);
    if (owned) pl_forest_free(f);
    return st;
}

/* ---- rows ---- */

#define ML .domain = PL_ML_DOMAIN
#define MODEL .grad = PL_GRAD_ZERO, .autocast = PL_AMP_FP32
#define LIST(name_, type_) PL_A_LIST(name_, type_)
#define NODES                                                                                      \
    LIST("nodes_treeids", INTS), LIST("nodes_nodeids", INTS), LIST("nodes_featureids", INTS),      \
        LIST("nodes_values", FLOATS), LIST("nodes_values_as_tensor", TENSOR),                      \
        LIST("nodes_hitrates", FLOATS), LIST("nodes_hitrates_as_tensor", TENSOR),                  \
        LIST("nodes_modes", STRINGS), LIST("nodes_truenodeids", INTS),                             \
        LIST("nodes_falsenodeids", INTS), LIST("nodes_missing_value_tracks_true", INTS),           \
        LIST("base_values", FLOATS), LIST("base_values_as_tensor", TENSOR),                        \
        PL_A_STRING("post_transform", "NONE")

/* clang-format off */
const pl_op_def pl_ops_ml_tree[] = {
    { .name = "TreeEnsemble", ML, .since = 5,
      .in = PL_PORTS({ "X", PL_T(PL_F16) | PL_T(PL_F32) | PL_T(PL_F64), 0 }),
      .out = PL_PORTS({ "Y", PL_T(PL_F16) | PL_T(PL_F32) | PL_T(PL_F64), 0 }),
      .attrs = PL_ATTRS(PL_A_INT("aggregate_function", 1), PL_A_REQUIRED("leaf_targetids", INTS), PL_A_REQUIRED("leaf_weights", TENSOR),
                        LIST("membership_values", TENSOR), PL_A_INT("n_targets", 1), PL_A_REQUIRED("nodes_falseleafs", INTS),
                        PL_A_REQUIRED("nodes_falsenodeids", INTS), PL_A_REQUIRED("nodes_featureids", INTS), LIST("nodes_hitrates", TENSOR),
                        LIST("nodes_missing_value_tracks_true", INTS), PL_A_REQUIRED("nodes_modes", TENSOR), PL_A_REQUIRED("nodes_splits", TENSOR),
                        PL_A_REQUIRED("nodes_trueleafs", INTS), PL_A_REQUIRED("nodes_truenodeids", INTS), PL_A_INT("post_transform", 0),
                        PL_A_REQUIRED("tree_roots", INTS)),
      .infer = ensemble_infer, .eval = ensemble_eval, .bound = pl_tree_ensemble_bound, MODEL, PL_EMIT_BREAK("walks through trees"),
      .samples = PL_SAMPLES({ "(float[3,1] x) => (y) { y = ai.onnx.ml.TreeEnsemble<n_targets = 2, aggregate_function = 1, tree_roots = [0], nodes_featureids = [0, 0], nodes_modes = uint8[2] {0, 0}, nodes_splits = float[2] {0.0, 1.0}, nodes_truenodeids = [0, 1], nodes_trueleafs = [1, 1], nodes_falsenodeids = [1, 2], nodes_falseleafs = [0, 1], leaf_targetids = [0, 1, 0], leaf_weights = float[3] {5.0, 12.0, -12.0}>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "TreeEnsembleClassifier", ML, .since = 1,
      .in = PL_PORTS({ "X", PL_T_ML, 0 }), .out = PL_PORTS({ "Y", PL_T_STRING | PL_T_I64, 0 }, { "Z", PL_T(PL_F32), PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(NODES, LIST("class_treeids", INTS), LIST("class_nodeids", INTS), LIST("class_ids", INTS), LIST("class_weights", FLOATS),
                        LIST("class_weights_as_tensor", TENSOR), LIST("classlabels_strings", STRINGS), LIST("classlabels_int64s", INTS)),
      .infer = classifier_infer, .eval = classifier_eval, .bound = pl_tree_classifier_bound, MODEL, PL_EMIT_BREAK("walks through trees"),
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y, z) { y, z = ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], nodes_values = [0.0, 0.0, 0.0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0], class_nodeids = [1, 2], class_ids = [0, 1], class_weights = [1.0, 1.0], classlabels_int64s = [3, 4]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "TreeEnsembleRegressor", ML, .since = 1,
      .in = PL_PORTS({ "X", PL_T_ML, 0 }), .out = PL_PORTS({ "Y", PL_T(PL_F32), 0 }),
      .attrs = PL_ATTRS(NODES, LIST("target_treeids", INTS), LIST("target_nodeids", INTS), LIST("target_ids", INTS), LIST("target_weights", FLOATS),
                        LIST("target_weights_as_tensor", TENSOR), PL_A_INT("n_targets", 1), PL_A_STRING("aggregate_function", "SUM")),
      .infer = regressor_infer, .eval = regressor_eval, .bound = pl_tree_regressor_bound, MODEL, PL_EMIT_BREAK("walks through trees"),
      .samples = PL_SAMPLES({ "(float[3,2] x) => (y) { y = ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], nodes_values = [0.0, 0.0, 0.0], nodes_modes = [\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.5, -2.5], base_values = [0.5], n_targets = 1, aggregate_function = \"AVERAGE\">(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

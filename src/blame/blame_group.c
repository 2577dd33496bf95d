/* Groups culprit values by nodes and ranks the groups by their effect on the outputs.
 *
 * Outputs of one node are one culprit. Segments that share nodes are one group, named after the
 * shared nodes: a fault that feeds two recorded values shows in both. The effect of a group is how
 * much of the run's total error appears in gold when only this group's error is added to it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "metric/logits.h"
#include "ops/op.h"

typedef struct group {
    size_t first;  /* index of its first flagged value */
    size_t parent; /* union-find */
    double q;      /* largest */
    double effect;
    uint32_t *members; /* node indexes, sorted */
    size_t n_members;
} group;

static size_t find_root(group *groups, size_t i) {
    while (groups[i].parent != i) {
        groups[i].parent = groups[groups[i].parent].parent;
        i = groups[i].parent;
    }
    return i;
}

static bool is_plain_constant(const pl_node *node) {
    return node->n_in == 0 && (node->def->flags & (PL_OP_RANDOM | PL_OP_CONTROL)) == 0;
}

static size_t intersect(uint32_t *x, size_t n_x, const uint32_t *y, size_t n_y) {
    size_t n = 0, k = 0;
    for (size_t i = 0; i < n_x; i++) {
        while (k < n_y && y[k] < x[i])
            k++;
        if (k < n_y && y[k] == x[i]) x[n++] = x[i];
    }
    return n;
}

static pl_status group_init(pl_blaming *j, group *g, size_t i, pl_err *err) {
    const pl_flagged *f = &j->flagged[i];
    *g = (group){ .first = i, .parent = i, .effect = (double)NAN, .q = j->out->of[f->value->id].q };
    g->members = pl_arena_array(j->out->arena, f->segment.n_nodes + 1, sizeof(uint32_t));
    if (g->members == NULL) return pl_fail_memory(err, f->segment.n_nodes);
    for (size_t k = 0; k < f->segment.n_nodes; k++) {
        if (is_plain_constant(f->segment.nodes[k]) && f->segment.n_nodes > 1) continue;
        g->members[g->n_members++] = f->segment.nodes[k]->index;
    }
    return PL_OK;
}

/* Each flagged value joins the group that already has one of its nodes: linear in the size of the
 * segments. */
static pl_status join(pl_blaming *j, group *groups, pl_err *err) {
    size_t *owner = pl_calloc(j->model->graph->n_nodes + 1, sizeof(size_t)); /* group + 1 */
    if (owner == NULL) return pl_fail_memory(err, j->model->graph->n_nodes);
    for (size_t i = 0; i < j->n_flagged; i++) {
        for (size_t k = 0; k < groups[i].n_members; k++) {
            const uint32_t node = groups[i].members[k];
            if (owner[node] == 0) continue;
            const size_t root = find_root(groups, owner[node] - 1);
            if (root == i || groups[i].parent != i) continue;
            groups[i].parent = root;
        }
        const size_t root = find_root(groups, i);
        if (root != i) {
            group *g = &groups[root];
            g->q = fmax(g->q, groups[i].q);
            const size_t n =
                intersect(g->members, g->n_members, groups[i].members, groups[i].n_members);
            if (n > 0) g->n_members = n;
        }
        for (size_t k = 0; k < groups[i].n_members; k++)
            owner[groups[i].members[k]] = root + 1;
    }
    pl_free(owner);
    return PL_OK;
}

/* ---- effect ---- */

/* The logits of a decoder, by name; SIZE_MAX = none. */
static size_t find_logits(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (strcmp(graph->outputs[i]->name, "logits") == 0) return i;
    return SIZE_MAX;
}

/* Root of the mean divergence of the softmax of rows: as a distance it is of first order. NAN when
 * the logits are not there. */
static double logits_distance(const pl_datum *d, const pl_datum *gold) {
    double values[PL_N_LOGIT_METRICS];
    if (d == NULL || gold == NULL || d->kind != PL_TYPE_TENSOR || gold->kind != PL_TYPE_TENSOR ||
        gold->tensor->rank < 1 || !pl_tensor_same_shape(d->tensor, gold->tensor) ||
        gold->tensor->n_elements == 0 ||
        pl_measure_logits(d->tensor, gold->tensor, NULL, 0, values, NULL) != PL_OK)
        return (double)NAN;
    return sqrt(fmax(values[PL_LOGIT_kl], 0));
}

/* rms distance over all float outputs, each relative to its size; or that of the logits. */
static double outputs_distance(const pl_blaming *j, const pl_replay *x, pl_datum *const *gold) {
    const pl_graph *graph = j->model->graph;
    const size_t logits = j->options->by_logits ? find_logits(graph) : SIZE_MAX;
    double sum = 0;
    if (logits != SIZE_MAX) {
        const double far = logits_distance(pl_replay_get(x, graph->outputs[logits]), gold[logits]);
        if (!isnan(far)) return far;
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_datum *d = pl_replay_get(x, graph->outputs[i]);
        if (d == NULL || gold[i] == NULL || d->kind != PL_TYPE_TENSOR ||
            gold[i]->kind != PL_TYPE_TENSOR || d->tensor->dtype == PL_STRING ||
            !pl_tensor_same_shape(d->tensor, gold[i]->tensor)) {
            continue;
        }
        double part = 0, size = 0;
        for (int64_t k = 0; k < d->tensor->n_elements; k++) {
            const double g = pl_tensor_get_f64(gold[i]->tensor, k);
            const double off = pl_tensor_get_f64(d->tensor, k) - g;
            if (!isfinite(off)) return (double)INFINITY;
            part += off * off;
            size += g * g;
        }
        sum += size > 0 ? part / size : part;
    }
    return sqrt(sum);
}

/* Runs gold with only the group's own errors added. */
static pl_status gold_with(pl_blaming *j, group *groups, size_t root, pl_err *err) {
    const pl_graph *graph = j->model->graph;
    pl_replay_clear_all(j->gold);
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (j->in[i] != NULL) PL_TRY(pl_replay_put(j->gold, graph->inputs[i], j->in[i], NULL, err));
    size_t next = 0; /* flagged values are in the order of the nodes */
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        PL_TRY(pl_replay_node(j->gold, node, err));
        for (; next < j->n_flagged && j->flagged[next].value->producer == node; next++) {
            const pl_flagged *f = &j->flagged[next];
            if (root == SIZE_MAX || find_root(groups, next) != root || f->shift == NULL) continue;
            const pl_datum *d = pl_replay_get(j->gold, f->value);
            if (d == NULL || d->kind != PL_TYPE_TENSOR ||
                !pl_tensor_same_shape(d->tensor, f->shift)) {
                continue;
            }
            pl_tensor *sum = NULL, *typed = NULL;
            pl_datum *moved = NULL;
            PL_TRY(pl_tensor_cast(d->tensor, PL_F64, &sum, err));
            double *x = sum->data;
            const double *shift = f->shift->data;
            for (int64_t k = 0; k < sum->n_elements; k++)
                x[k] += shift[k];
            pl_status st = pl_tensor_cast(sum, d->tensor->dtype, &typed, err);
            pl_tensor_unref(sum);
            if (st == PL_OK) st = pl_datum_of_tensor_take(typed, &moved, err);
            if (st == PL_OK) st = pl_replay_put(j->gold, f->value, moved, NULL, err);
            pl_datum_unref(moved);
            PL_TRY(st);
        }
        pl_replay_release_after(j->gold, node);
    }
    return PL_OK;
}

static pl_status keep_outputs(pl_blaming *j, pl_datum ***out, pl_err *err) {
    const pl_graph *graph = j->model->graph;
    *out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    if (*out == NULL) return pl_fail_memory(err, graph->n_outputs);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_datum *d = pl_replay_get(j->gold, graph->outputs[i]);
        (*out)[i] = d == NULL ? NULL : pl_datum_ref(d);
    }
    return PL_OK;
}

/* Distance of the run's outputs from gold's. */
static pl_status total_distance(pl_blaming *j, pl_datum *const *gold, double *out, pl_err *err) {
    const pl_graph *graph = j->model->graph;
    pl_replay_clear_all(j->local);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_datum *a = NULL;
        if (!j->a->has(j->a->ctx, graph->outputs[i])) continue;
        PL_TRY(j->a->get(j->a->ctx, graph->outputs[i], &a, err));
        const pl_status st = pl_replay_put(j->local, graph->outputs[i], a, NULL, err);
        pl_datum_unref(a);
        PL_TRY(st);
    }
    *out = outputs_distance(j, j->local, gold);
    return PL_OK;
}

static pl_status measure_effects(pl_blaming *j, group *groups, const size_t *roots, size_t n_roots,
                                 pl_err *err) {
    const size_t most = j->options->max_effects == 0 ? 16 : j->options->max_effects;
    pl_datum **gold = NULL;
    double total = 0;
    pl_status st = PL_OK;
    if (j->gold == NULL || n_roots == 0) return PL_OK;
    PL_TRY_GOTO(done, st, keep_outputs(j, &gold, err));
    PL_TRY_GOTO(done, st, total_distance(j, gold, &total, err));
    for (size_t i = 0; i < n_roots && i < most; i++) {
        pl_err trouble = PL_ERR_INIT;
        const pl_status ran = gold_with(j, groups, roots[i], &trouble);
        if (ran == PL_E_MEMORY) {
            st = pl_fail_memory(err, 0);
            goto done;
        }
        if (ran != PL_OK) continue; /* gold cannot run an operator: the effect is unknown */
        const double own = outputs_distance(j, j->gold, gold);
        groups[roots[i]].effect = isinf(own) ? 1 : total > 0 ? own / total : 0;
        PL_TRY_GOTO(done, st,
                    pl_progress_step(j->options->progress, "effects", (int64_t)i + 1,
                                     (int64_t)n_roots, err));
    }
done:
    for (size_t i = 0; gold != NULL && i < j->model->graph->n_outputs; i++)
        pl_datum_unref(gold[i]);
    pl_free(gold);
    return st;
}

/* ---- entries ---- */

static double score_of(const group *g) {
    return isnan(g->effect) ? 0 : g->effect;
}

static const char *first_output(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) return node->out[i]->name;
    return node->name;
}

static pl_status fill_entry(pl_blaming *j, const group *g, pl_blame_entry *e, pl_err *err) {
    const pl_graph *graph = j->model->graph;
    const pl_flagged *f = &j->flagged[g->first];
    const pl_judgement *v = &j->out->of[f->value->id];
    /* For several segments, the last node they share; for one, the producer of the value. */
    const pl_node *node = graph->nodes[g->members[g->n_members - 1]];
    const char **members = pl_arena_array(j->out->arena, g->n_members + 1, sizeof(char *));
    pl_origin origin;
    if (members == NULL) return pl_fail_memory(err, g->n_members);
    for (size_t i = 0; i < g->n_members; i++)
        members[i] = first_output(graph->nodes[g->members[i]]);
    PL_TRY(pl_node_origin(node, j->out->arena, &origin, err));
    const char *source = origin.line > 0
                             ? pl_arena_printf(j->out->arena, "%s:%d", origin.file, origin.line)
                             : origin.file;
    *e =
        (pl_blame_entry){ .node = node->name,
                          .op = node->op,
                          .value = node == f->value->producer ? f->value->name : first_output(node),
                          .members = members,
                          .n_members = g->n_members,
                          .kind = v->kind,
                          .where = v->where,
                          .q = g->q,
                          .effect = g->effect,
                          .score = score_of(g),
                          .reason = v->reason,
                          .module = origin.module,
                          .source = source == NULL ? "" : source };
    return PL_OK;
}

typedef struct rank {
    size_t root;
    double score, q;
} rank;

/* Ties go to the earlier node in the model. */
static int by_rank(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    if (x->q != y->q) return x->q < y->q ? 1 : -1;
    return (x->root > y->root) - (x->root < y->root);
}

pl_status pl_blame_group(pl_blaming *j, pl_err *err) {
    const size_t n = j->n_flagged;
    group *groups = pl_calloc(n + 1, sizeof(group));
    rank *ranked = pl_calloc(n + 1, sizeof(rank));
    size_t *roots = pl_calloc(n + 1, sizeof(size_t));
    size_t n_roots = 0;
    pl_status st = PL_OK;
    if (groups == NULL || ranked == NULL || roots == NULL) {
        st = pl_fail_memory(err, n);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        PL_TRY_GOTO(done, st, group_init(j, &groups[i], i, err));
    /* Quantised layers are each off by themselves, though their segments share a mask. */
    if (!j->options->by_logits) st = join(j, groups, err);
    if (st != PL_OK) goto done;
    for (size_t i = 0; i < n; i++)
        if (find_root(groups, i) == i) ranked[n_roots++] = (rank){ i, 0, groups[i].q };
    qsort(ranked, n_roots, sizeof(rank), by_rank);
    for (size_t i = 0; i < n_roots; i++)
        roots[i] = ranked[i].root;
    PL_TRY_GOTO(done, st, measure_effects(j, groups, roots, n_roots, err));
    j->out->groups = pl_arena_array(j->out->arena, n_roots + 1, sizeof(pl_blame_entry));
    if (j->out->groups == NULL) {
        st = pl_fail_memory(err, n_roots);
        goto done;
    }
    for (size_t i = 0; i < n_roots; i++)
        ranked[i].score = score_of(&groups[ranked[i].root]);
    qsort(ranked, n_roots, sizeof(rank), by_rank);
    for (size_t i = 0; i < n_roots; i++)
        PL_TRY_GOTO(done, st, fill_entry(j, &groups[ranked[i].root], &j->out->groups[i], err));
    j->out->n_groups = n_roots;
done:
    pl_free(groups);
    pl_free(ranked);
    pl_free(roots);
    return st;
}

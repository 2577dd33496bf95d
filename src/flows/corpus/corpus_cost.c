/* Estimates the cost of an item from its graph, and assigns items to shards.
 *
 * The estimates are rough and only need to put long items before short ones. They are integers that
 * depend only on the file, so that every shard splits the list the same way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/api.h"
#include "flows/corpus/corpus.h"
#include "flows/corpus/journal.h"
#include "flows/corpus/schedule.h"
#include "graph/graph.h"
#include "ops/infer.h"

enum {
    BASE_US = 60000, /* processes, the runtime's library */
    NODE_US = 300,   /* compiling, checking twice */
    UNREADABLE_US = 5000
};
static const double ns_per_multiply = 3.0, ns_per_element = 20.0; /* both sides and fp64 */

/* Elements of a value; unknown dims count as 1. */
static double size_of(const pl_value *v) {
    double n = 1;
    if (v == NULL) return 0;
    if (v->init != NULL) return (double)v->init->n_elements;
    if (v->type == NULL || v->type->kind != PL_TYPE_TENSOR || !v->type->has_rank) return 0;
    for (int i = 0; i < v->type->rank; i++)
        if (pl_dim_known(v->type->dims[i])) n *= (double)v->type->dims[i].value;
    return n;
}

/* For a matrix product, sqrt(MK * KN * MN) is the number of multiplications; for other operators
 * that read two tensors it is a fair guess. */
static pl_status add_graph(void *ctx, pl_graph *graph, pl_err *err) {
    double *us = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const double a = node->n_in > 0 ? size_of(node->in[0]) : 0;
        const double b = node->n_in > 1 ? size_of(node->in[1]) : 0;
        const double c = node->n_out > 0 ? size_of(node->out[0]) : 0;
        *us += (double)NODE_US + (a + b + c) * ns_per_element / 1e3;
        if (a > 0 && b > 0 && c > 0) *us += sqrt(a) * sqrt(b) * sqrt(c) * ns_per_multiply / 1e3;
        PL_TRY(pl_node_each_body(node, add_graph, ctx, err));
    }
    return PL_OK;
}

/* An unreadable model is an item like any other: its own process reports the error. */
static uint64_t cost_of(const char *path) {
    plumb_model *model = NULL;
    double us = BASE_US;
    if (plumb_model_open(path, &model, NULL) != PL_OK) return UNREADABLE_US;
    pl_model *m = model->model;
    const pl_infer_options options = { 0 };
    if (pl_ops_resolve_known(m, NULL) == PL_OK) (void)pl_model_infer(m, &options, NULL);
    (void)add_graph(&us, m->graph, NULL);
    plumb_model_close(model);
    return us < 1e15 ? (uint64_t)us : (uint64_t)1e15;
}

pl_status pl_corpus_estimate(pl_corpus_list *list, const pl_progress *progress, pl_err *err) {
    for (size_t i = 0; i < list->n_items; i++) {
        pl_corpus_item *x = &list->items[i];
        PL_TRY(
            pl_progress_step(progress, "reading models", (int64_t)i, (int64_t)list->n_items, err));
        x->cost = i > 0 && strcmp(x->path, x[-1].path) == 0 ? x[-1].cost : cost_of(x->path);
    }
    return PL_OK;
}

pl_status pl_corpus_recall(pl_corpus_list *list, const char *folder, pl_err *err) {
    pl_dir *dir = NULL;
    pl_arena *arena = pl_arena_new();
    pl_journal_read read = { 0 };
    if (arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_dir_open(folder, &dir, err);
    if (st == PL_OK && pl_dir_look(dir, "parts", NULL) == PL_KIND_FOLDER)
        st = pl_journal_read_all(dir, arena, &read, err);
    for (size_t i = 0; st == PL_OK && i < list->n_items; i++) {
        const pl_journal_entry *e = pl_strmap_get(&read.entries, list->items[i].key);
        if (e != NULL && e->result != NULL && e->seconds > 0 && e->seconds < 1e6) {
            list->items[i].cost = (uint64_t)(e->seconds * 1e6);
            list->items[i].cost_is_known = true;
        }
    }
    pl_journal_read_release(&read);
    pl_dir_close(dir);
    pl_arena_free(arena);
    return st;
}

typedef struct ranked {
    uint64_t cost;
    const char *key;
    size_t at;
} ranked;

static int longest_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
    return strcmp(x->key, y->key);
}

pl_status pl_corpus_shard(const pl_corpus_list *list, size_t i, size_t n, size_t **out,
                          size_t *n_out, pl_err *err) {
    ranked *all = pl_calloc(list->n_items + 1, sizeof *all);
    size_t *chosen = pl_calloc(list->n_items + 1, sizeof *chosen);
    *n_out = 0;
    *out = chosen;
    if (all == NULL || chosen == NULL) {
        pl_free(all);
        pl_free(chosen);
        return pl_fail_memory(err, list->n_items);
    }
    for (size_t k = 0; k < list->n_items; k++)
        all[k] = (ranked){ list->items[k].cost, list->items[k].key, k };
    if (list->n_items > 0) qsort(all, list->n_items, sizeof *all, longest_first);
    for (size_t k = 0; k < list->n_items; k++)
        if (pl_schedule_shard(k, n) == i - 1) chosen[(*n_out)++] = all[k].at;
    pl_free(all);
    return PL_OK;
}

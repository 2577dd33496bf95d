/* For tests of pairing: the same model under other names and in another order, and values for both
 * sides without running the second one. */
#ifndef PAIR_MODELS_H
#define PAIR_MODELS_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "compare/pair.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "store/blob.h"

static inline void pm_check(pl_status st, const pl_err *err) {
    if (st != PL_OK) fail_msg("%s", err->message);
}

/* ---- renaming ---- */

static inline void pm_mark_needs(const pl_node *node, const pl_graph *graph, bool *needs) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *v = node->in[i];
        if (v != NULL && v->graph == graph && v->producer != NULL) needs[v->producer->index] = true;
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        const pl_graph *body = a->type == PL_ATTR_GRAPH ? a->graph : NULL;
        if (body == NULL) continue;
        for (size_t k = 0; k < body->n_nodes; k++)
            pm_mark_needs(body->nodes[k], graph, needs);
        for (size_t k = 0; k < body->n_outputs; k++) {
            const pl_value *v = body->outputs[k];
            if (v->graph == graph && v->producer != NULL) needs[v->producer->index] = true;
        }
    }
}

/* Another topological order: each node gets a random wish, and those it depends on come first. */
static inline void pm_shuffle(pl_graph *graph, uint64_t seed) {
    const size_t n = graph->n_nodes;
    pl_node **order = pl_calloc(n + 1, sizeof(pl_node *));
    uint32_t *left = pl_calloc(n + 1, sizeof(uint32_t)), *ready = pl_calloc(n + 1, 4);
    uint32_t *heads = pl_malloc((n + 1) * 4), *next = NULL, *to = NULL;
    size_t n_edges = 0, capacity = 0, n_ready = 0, n_done = 0;
    bool *needs = pl_calloc(n + 1, 1);
    memset(heads, 0xff, (n + 1) * 4);
    for (size_t i = 0; i < n; i++)
        graph->nodes[i]->index = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        const pl_node *node = graph->nodes[i];
        bool bodies = false;
        for (uint32_t k = 0; k < node->n_attrs; k++)
            bodies = bodies || node->attrs[k].type == PL_ATTR_GRAPH;
        size_t from = 0, end = i;
        if (bodies) {
            memset(needs, 0, n);
            pm_mark_needs(node, graph, needs);
        }
        for (uint32_t k = 0; !bodies && k < node->n_in; k++) {
            const pl_value *v = node->in[k];
            if (v != NULL && v->graph == graph && v->producer != NULL)
                needs[v->producer->index] = true;
        }
        /* Without bodies only the producers themselves: long graphs stay quick. */
        for (uint32_t k = 0; bodies ? from < end : k < node->n_in; bodies ? (void)from++ : (void)k++) {
            const pl_value *v = bodies ? NULL : node->in[k];
            size_t p = from;
            if (!bodies) {
                if (v == NULL || v->graph != graph || v->producer == NULL) continue;
                p = v->producer->index;
            }
            if (!needs[p]) continue;
            needs[p] = false;
            if (n_edges == capacity) {
                capacity = capacity * 2 + 64;
                next = pl_realloc_array(next, capacity, 4);
                to = pl_realloc_array(to, capacity, 4);
            }
            to[n_edges] = (uint32_t)i;
            next[n_edges] = heads[p];
            heads[p] = (uint32_t)n_edges++;
            left[i]++;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (left[i] == 0) ready[n_ready++] = (uint32_t)i;
    while (n_ready > 0) {
        const size_t pick = pl_rng_at(seed, 7, n_done) % n_ready;
        const uint32_t at = ready[pick];
        ready[pick] = ready[--n_ready];
        order[n_done++] = graph->nodes[at];
        for (uint32_t e = heads[at]; e != UINT32_MAX; e = next[e])
            if (--left[to[e]] == 0) ready[n_ready++] = to[e];
    }
    assert_int_equal(n_done, n);
    memcpy(graph->nodes, order, n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        graph->nodes[i]->index = (uint32_t)i;
    pl_free(order);
    pl_free(left);
    pl_free(ready);
    pl_free(heads);
    pl_free(next);
    pl_free(to);
    pl_free(needs);
}

typedef struct pm_renamed {
    pl_model *model;
    char (*names)[24]; /* by id of the value in the original */
} pm_renamed;

static inline void pm_rename_graph(pl_graph *to, const pl_graph *from, pm_renamed *r,
                                   uint64_t seed) {
    assert_int_equal(to->n_values, from->n_values);
    for (size_t i = 0; i < to->n_values; i++) {
        char *name = r->names[from->values[i]->id];
        assert_string_equal(to->values[i]->name, from->values[i]->name);
        snprintf(name, sizeof r->names[0], "v%016llx",
                 (unsigned long long)pl_rng_at(seed, 1, from->values[i]->id));
        to->values[i]->name = pl_model_intern(r->model, name, strlen(name));
    }
    for (size_t i = 0; i < to->n_nodes; i++) {
        pl_node *node = to->nodes[i];
        node->name = node->doc = "";
        node->n_props = 0;
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            if (node->attrs[k].type == PL_ATTR_GRAPH)
                pm_rename_graph(node->attrs[k].graph, from->nodes[i]->attrs[k].graph, r, seed);
        }
    }
    pm_shuffle(to, seed + from->id);
}

/* Through a file's bytes, so that nothing of the original is left in it. */
static inline pm_renamed pm_rename(const pl_model *model, uint64_t seed) {
    pl_err err = PL_ERR_INIT;
    pm_renamed r = { .names = pl_calloc((size_t)model->n_values + 1, 24) };
    pm_check(pl_model_copy(model, &r.model, &err), &err);
    pm_rename_graph(r.model->graph, model->graph, &r, seed);
    pl_buf bytes = PL_BUF_INIT;
    pl_model *again = NULL;
    pm_check(pl_model_serialize(r.model, &bytes, &err), &err);
    pm_check(pl_model_read_bytes((pl_bytes){ (const uint8_t *)bytes.data, bytes.n_bytes }, NULL,
                                 NULL, "renamed", &again, &err),
             &err);
    pl_buf_release(&bytes);
    pl_model_free(r.model);
    r.model = again;
    return r;
}

static inline void pm_renamed_free(pm_renamed *r) {
    pl_model_free(r->model);
    pl_free(r->names);
}

/* ---- counting ---- */

typedef struct pm_score {
    size_t n_items, n_right, n_wrong;
    double right; /* share of A's items */
} pm_score;

static inline pm_score pm_score_of(const pl_pairing *p, const pl_pair_side *a,
                                   const pl_pair_side *b, const pm_renamed *r, bool verbose) {
    pm_score s = { .n_items = a->n_items };
    for (size_t i = 0; i < p->n_pairs; i++) {
        const pl_pair_item *x = &a->items[p->pairs[i].a], *y = &b->items[p->pairs[i].b];
        const bool right = strcmp(r->names[x->in_graph->id], y->value) == 0;
        s.n_right += right;
        s.n_wrong += !right;
        if (!right && verbose)
            printf("    wrong: %s (%s) - %s by %s, %s\n", x->name, x->op, y->name,
                   p->pairs[i].method, p->pairs[i].how);
    }
    for (size_t i = 0; i < p->n_unpaired_a && verbose && i < 10; i++) {
        const pl_pair_item *x = &a->items[p->unpaired_a[i].item];
        printf("    open: %s (%s in '%s'): %s\n", x->name, x->op, x->graph,
               p->unpaired_a[i].reason);
    }
    s.right = s.n_items == 0 ? 1 : (double)s.n_right / (double)s.n_items;
    return s;
}

#endif

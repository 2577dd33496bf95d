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
#include "flows/inputs.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "pair/pair.h"
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
        for (uint32_t k = 0; bodies ? from < end : k < node->n_in;
             bodies ? (void)from++ : (void)k++) {
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

enum { PM_NAME_MAX = 160 };

typedef struct pm_renamed {
    pl_model *model;
    char (*names)[PM_NAME_MAX]; /* by id of the value in the original */
    bool perturb;               /* every float weight becomes another one */
    size_t rotate; /* > 0: not random names, but those of the values so many places on */
} pm_renamed;

static inline void pm_perturb(pl_model *model, pl_tensor **t) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *copy = NULL;
    if (*t == NULL || (*t)->dtype != PL_F32) return;
    pm_check(pl_tensor_copy(*t, &copy, &err), &err);
    pl_f32 *x = copy->data;
    for (int64_t i = 0; i < copy->n_elements; i++)
        x[i] += 0.001f + 0.001f * x[i];
    *t = copy; /* the model keeps the old reference */
    pm_check(pl_model_keep_tensor_take(model, copy, &err), &err);
}

static inline void pm_rename_graph(pl_graph *to, const pl_graph *from, pm_renamed *r,
                                   uint64_t seed) {
    assert_int_equal(to->n_values, from->n_values);
    for (size_t i = 0; i < to->n_values; i++) {
        char *name = r->names[from->values[i]->id];
        assert_string_equal(to->values[i]->name, from->values[i]->name);
        const char *other = from->values[(i + r->rotate) % from->n_values]->name;
        assert_true(strlen(other) < sizeof r->names[0]);
        if (r->rotate > 0) {
            snprintf(name, sizeof r->names[0], "%s", other);
        } else {
            snprintf(name, sizeof r->names[0], "v%016llx",
                     (unsigned long long)pl_rng_at(seed, 1, from->values[i]->id));
        }
        to->values[i]->name = pl_model_intern(r->model, name, strlen(name));
        if (r->perturb) pm_perturb(r->model, &to->values[i]->init);
    }
    pl_strmap_release(&to->by_name);
    to->by_name = (pl_strmap)PL_STRMAP_INIT;
    for (size_t i = 0; i < to->n_values; i++)
        assert_int_equal(pl_strmap_put(&to->by_name, to->values[i]->name, to->values[i]), 0);
    for (size_t i = 0; i < to->n_nodes; i++) {
        pl_node *node = to->nodes[i];
        node->name = node->doc = "";
        node->n_props = 0;
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            if (r->perturb && strcmp(node->op, "Constant") == 0 &&
                node->attrs[k].type == PL_ATTR_TENSOR)
                pm_perturb(r->model, &node->attrs[k].tensor);
            if (node->attrs[k].type == PL_ATTR_GRAPH)
                pm_rename_graph(node->attrs[k].graph, from->nodes[i]->attrs[k].graph, r, seed);
        }
    }
    pm_shuffle(to, seed + from->id);
}

/* Through a file's bytes, so that nothing of the original is left in it. */
static inline pm_renamed pm_rename_by(const pl_model *model, uint64_t seed, bool perturb,
                                      size_t rotate) {
    pl_err err = PL_ERR_INIT;
    pm_renamed r = { .names = pl_calloc((size_t)model->n_values + 1, PM_NAME_MAX),
                     .perturb = perturb,
                     .rotate = rotate };
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

static inline pm_renamed pm_rename(const pl_model *model, uint64_t seed, bool perturb) {
    return pm_rename_by(model, seed, perturb, 0);
}

static inline void pm_renamed_free(pm_renamed *r) {
    pl_model_free(r->model);
    pl_free(r->names);
}

/* ---- values ---- */

typedef struct pm_values {
    pl_tensor **tensors; /* by id of the value in the model; the first time it was computed */
    size_t n;
} pm_values;

static inline pl_status pm_note(void *ctx, const pl_node *node, const pl_value *value,
                                const pl_datum *datum, pl_err *err) {
    pm_values *v = ctx;
    (void)node;
    (void)err;
    if (datum->kind == PL_TYPE_TENSOR && value->id < v->n && v->tensors[value->id] == NULL)
        v->tensors[value->id] = pl_tensor_ref(datum->tensor);
    return PL_OK;
}

/* Runs the model on the inputs input_N.npy of a folder (NULL = generated ones). */
static inline pm_values pm_run(pl_model *model, const char *io) {
    pl_err err = PL_ERR_INIT;
    pm_values v = { pl_calloc((size_t)model->n_values + 1, sizeof(pl_tensor *)), model->n_values };
    const pl_graph *g = model->graph;
    pl_datum **in = pl_calloc(g->n_inputs + 1, sizeof *in);
    pl_datum **out = pl_calloc(g->n_outputs + 1, sizeof *out);
    char texts[16][800];
    const char *files[16];
    plumb_inputs inputs = { .files = files };
    for (size_t i = 0; io != NULL && i < g->n_inputs && inputs.n_files < 16; i++) {
        char path[700];
        snprintf(path, sizeof path, "%.600s/input_%zu.npy", io, i);
        if (!pl_path_exists(path)) continue;
        snprintf(texts[inputs.n_files], sizeof texts[0], "%.80s=%.700s", g->inputs[i]->name, path);
        files[inputs.n_files] = texts[inputs.n_files];
        inputs.n_files++;
    }
    pl_interp *interp = NULL;
    const pl_interp_options options = { .hook = pm_note, .hook_ctx = &v, .any_shape = true };
    pm_check(pl_interp_new(model, &options, &interp, &err), &err);
    pm_check(pl_inputs_make(model, &inputs, in, &err), &err);
    pm_check(pl_interp_run(interp, in, out, &err), &err);
    for (size_t i = 0; i < g->n_inputs; i++) {
        if (in[i] != NULL && in[i]->kind == PL_TYPE_TENSOR)
            v.tensors[g->inputs[i]->id] = pl_tensor_ref(in[i]->tensor);
        pl_datum_unref(in[i]);
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        pl_datum_unref(out[i]);
    pl_interp_free(interp);
    pl_free(in);
    pl_free(out);
    return v;
}

static inline void pm_values_free(pm_values *v) {
    for (size_t i = 0; i < v->n; i++)
        pl_tensor_unref(v->tensors[i]);
    pl_free(v->tensors);
}

/* A side whose items have the values of the original, with relative noise. */
typedef struct pm_side {
    pl_pair_side side;
    pl_pair_item *items;
    pl_tensor **tensors; /* by item */
} pm_side;

static inline pl_status pm_read(void *ctx, size_t item, pl_tensor **out, pl_err *err) {
    pl_tensor *const *tensors = ctx;
    (void)err;
    *out = pl_tensor_ref(tensors[item]);
    return PL_OK;
}

static inline pl_tensor *pm_noisy(const pl_tensor *t, double noise) {
    pl_tensor *copy = NULL;
    pl_err err = PL_ERR_INIT;
    pm_check(pl_tensor_copy(t, &copy, &err), &err);
    pl_f32 *x = copy->data;
    for (int64_t i = 0; noise > 0 && t->dtype == PL_F32 && i < t->n_elements; i++)
        x[i] = (float)((double)x[i] * (1 + noise * pl_rng_normal_at(5, 0, (uint64_t)i)));
    return copy;
}

/* `names`: those of a renamed model by id in `original`, or NULL when the side is the original. */
static inline void pm_add_values(pm_side *s, const pm_values *v, const pl_pair_side *original,
                                 const pm_renamed *r, double noise, pl_arena *arena) {
    const pl_pair_side *from = &s->side;
    pl_strmap ids = PL_STRMAP_INIT;
    s->items = pl_arena_array(arena, from->n_items + 1, sizeof *s->items);
    s->tensors = pl_arena_array(arena, from->n_items + 1, sizeof *s->tensors);
    for (size_t i = 0; i < original->n_items; i++) {
        const uintptr_t id = original->items[i].in_graph->id;
        const char *name = r == NULL ? original->items[i].name : r->names[id];
        assert_int_equal(pl_strmap_put(&ids, name, (void *)(id + 1)), 0);
    }
    for (size_t i = 0; i < from->n_items; i++) {
        pl_pair_item *item = &s->items[i];
        *item = from->items[i];
        const uintptr_t id = (uintptr_t)pl_strmap_get(&ids, r == NULL ? item->name : item->value);
        assert_true(id > 0);
        const pl_tensor *t = v->tensors[id - 1];
        if (t == NULL) continue; /* the branch was not taken */
        s->tensors[i] = pm_noisy(t, noise);
        pl_dense dense;
        pm_check(pl_dense_init(&dense, s->tensors[i], NULL), &(pl_err)PL_ERR_INIT);
        item->has_shape = item->has_hash = item->has_data = true;
        item->dtype = t->dtype;
        item->rank = t->rank;
        memcpy(item->dims, t->dims, sizeof item->dims);
        item->hash = pl_dense_blob(&dense, t->dtype).hash;
        pl_dense_release(&dense);
    }
    pl_strmap_release(&ids);
    s->side.items = s->items;
    s->side.read = pm_read;
    s->side.ctx = s->tensors;
}

static inline void pm_side_free(pm_side *s) {
    for (size_t i = 0; s->tensors != NULL && i < s->side.n_items; i++)
        pl_tensor_unref(s->tensors[i]);
}

/* Without the graph, and only what was computed. */
static inline void pm_forget_graph(pm_side *s, bool forget_ops) {
    size_t n = 0;
    for (size_t i = 0; i < s->side.n_items; i++) {
        if (s->tensors[i] == NULL) continue;
        s->items[n] = s->items[i];
        s->tensors[n] = s->tensors[i];
        if (forget_ops) s->items[n].op = "";
        n++;
    }
    s->side.n_items = n;
    s->side.model = NULL;
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

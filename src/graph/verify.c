/* Structural checks and the topological order.
 *
 * An edge of the order is "node needs a value that another node of the same graph produces",
 * directly or through the bodies it owns (which may use values of every graph around them). */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "graph/graph.h"

typedef struct edge {
    uint32_t node; /* the dependent */
    uint32_t next; /* edge from the same producer; UINT32_MAX = none */
} edge;

typedef struct sorter {
    pl_graph *graph;
    uint32_t *n_waiting; /* per node: producers not placed yet */
    uint32_t *first_use; /* per node: head of its list of dependents */
    edge *edges;
    size_t n_edges, edges_capacity;
    bool in_order;
    const pl_node *current;
} sorter;

typedef pl_status (*use_fn)(void *ctx, pl_value *value, pl_err *err);

typedef struct use_walk {
    use_fn fn;
    void *ctx;
} use_walk;

static pl_status walk_body_uses(void *ctx, pl_graph *body, pl_err *err);

/* Every value that a node needs, including those used inside its bodies. */
static pl_status walk_node_uses(const pl_node *node, use_walk *walk, pl_err *err) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL) PL_TRY(walk->fn(walk->ctx, node->in[i], err));
    }
    return pl_node_each_body(node, walk_body_uses, walk, err);
}

static pl_status walk_body_uses(void *ctx, pl_graph *body, pl_err *err) {
    use_walk *walk = ctx;
    for (size_t i = 0; i < body->n_nodes; i++)
        PL_TRY(walk_node_uses(body->nodes[i], walk, err));
    for (size_t i = 0; i < body->n_outputs; i++) {
        PL_TRY(walk->fn(walk->ctx, body->outputs[i], err));
    }
    return PL_OK;
}

static pl_status note_order(void *ctx, pl_value *value, pl_err *err) {
    sorter *s = ctx;
    (void)err;
    if (value->graph != s->graph || value->producer == NULL) return PL_OK;
    if (value->producer->index >= s->current->index) s->in_order = false;
    return PL_OK;
}

static pl_status note_edge(void *ctx, pl_value *value, pl_err *err) {
    sorter *s = ctx;
    if (value->graph != s->graph || value->producer == NULL) return PL_OK;
    if (s->n_edges >= UINT32_MAX - 1 || !PL_ARRAY_ROOM(s->edges, s->n_edges, &s->edges_capacity))
        return pl_fail_memory(err, s->n_edges * sizeof(*s->edges));
    s->edges[s->n_edges] = (edge){ s->current->index, s->first_use[value->producer->index] };
    s->first_use[value->producer->index] = (uint32_t)s->n_edges++;
    s->n_waiting[s->current->index]++;
    return PL_OK;
}

/* A binary heap; taking the smallest ready index first keeps the file's order where possible. */
static void heap_push(uint32_t *heap, size_t *n, uint32_t item) {
    size_t at = (*n)++;
    while (at > 0 && heap[(at - 1) / 2] > item) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static uint32_t heap_pop(uint32_t *heap, size_t *n) {
    const uint32_t top = heap[0];
    const uint32_t last = heap[--(*n)];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *n) break;
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static pl_status fail_cycle(const sorter *s, pl_err *err) {
    char text[600];
    for (size_t i = 0; i < s->graph->n_nodes; i++) {
        if (s->n_waiting[i] == 0) continue;
        return pl_fail(err, PL_E_INVALID, "graph '%s': %s is part of a cycle", s->graph->name,
                       pl_node_describe(s->graph->nodes[i], text, sizeof(text)));
    }
    return pl_fail(err, PL_E_INTERNAL, "graph '%s': sorting failed", s->graph->name);
}

static pl_status place_all(sorter *s, pl_node **sorted, uint32_t *heap, pl_err *err) {
    const size_t n = s->graph->n_nodes;
    size_t n_heap = 0, n_placed = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->n_waiting[i] == 0) heap_push(heap, &n_heap, (uint32_t)i);
    }
    while (n_heap > 0) {
        const uint32_t at = heap_pop(heap, &n_heap);
        sorted[n_placed++] = s->graph->nodes[at];
        for (uint32_t e = s->first_use[at]; e != UINT32_MAX; e = s->edges[e].next) {
            const uint32_t node = s->edges[e].node;
            if (--s->n_waiting[node] == 0) heap_push(heap, &n_heap, node);
        }
    }
    return n_placed == n ? PL_OK : fail_cycle(s, err);
}

static pl_status sort_out_of_order(sorter *s, pl_err *err) {
    pl_graph *graph = s->graph;
    const size_t n = graph->n_nodes;
    pl_status st = PL_OK;
    pl_node **sorted = pl_calloc(n, sizeof(pl_node *));
    uint32_t *heap = pl_calloc(n, sizeof(*heap));
    s->n_waiting = pl_calloc(n, sizeof(*s->n_waiting));
    s->first_use = pl_malloc(n * sizeof(*s->first_use));
    if (sorted == NULL || heap == NULL || s->n_waiting == NULL || s->first_use == NULL) {
        st = pl_fail_memory(err, n * sizeof(pl_node *));
        goto done;
    }
    memset(s->first_use, 0xff, n * sizeof(*s->first_use));
    use_walk walk = { note_edge, s };
    for (size_t i = 0; i < n; i++) {
        s->current = graph->nodes[i];
        PL_TRY_GOTO(done, st, walk_node_uses(s->current, &walk, err));
    }
    PL_TRY_GOTO(done, st, place_all(s, sorted, heap, err));
    memcpy(graph->nodes, sorted, n * sizeof(pl_node *));
    for (size_t i = 0; i < n; i++)
        graph->nodes[i]->index = (uint32_t)i;
done:
    pl_free(sorted);
    pl_free(heap);
    pl_free(s->n_waiting);
    pl_free(s->first_use);
    pl_free(s->edges);
    return st;
}

static pl_status sort_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)ctx;
    return pl_graph_sort(body, err);
}

pl_status pl_graph_sort(pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i]->index = (uint32_t)i;
        PL_TRY(pl_node_each_body(graph->nodes[i], sort_body, NULL, err));
    }
    sorter s = { .graph = graph, .in_order = true };
    use_walk walk = { note_order, &s };
    for (size_t i = 0; i < graph->n_nodes && s.in_order; i++) {
        s.current = graph->nodes[i];
        PL_TRY(walk_node_uses(s.current, &walk, err));
    }
    return s.in_order ? PL_OK : sort_out_of_order(&s, err);
}

/* ---- verify ---- */

static bool is_visible(const pl_graph *graph, const pl_value *value) {
    for (; graph != NULL; graph = graph->parent) {
        if (value->graph == graph) return true;
    }
    return false;
}

static bool has_source(const pl_value *value) {
    return value->producer != NULL || value->is_input || value->init != NULL;
}

static pl_status verify_use(const pl_node *node, const pl_value *value, pl_err *err) {
    char text[600];
    if (!is_visible(node->graph, value)) {
        return pl_fail(err, PL_E_INVALID, "%s uses '%s', which is not visible in graph '%s'",
                       pl_node_describe(node, text, sizeof(text)), value->name, node->graph->name);
    }
    if (!has_source(value)) {
        return pl_fail(err, PL_E_INVALID,
                       "%s uses value '%s', which no node, input or initializer defines",
                       pl_node_describe(node, text, sizeof(text)), value->name);
    }
    return PL_OK;
}

static pl_status verify_graph(pl_graph *graph, int depth, pl_err *err);

typedef struct verify_ctx {
    int depth;
} verify_ctx;

static pl_status verify_body(void *ctx, pl_graph *body, pl_err *err) {
    const verify_ctx *v = ctx;
    return verify_graph(body, v->depth + 1, err);
}

static pl_status verify_node(pl_node *node, int depth, pl_err *err) {
    char text[600];
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL) PL_TRY(verify_use(node, node->in[i], err));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_value *value = node->out[i];
        if (value == NULL) continue;
        if (value->graph != node->graph || value->producer != node) {
            return pl_fail(err, PL_E_INVALID, "%s: output '%s' already has a producer",
                           pl_node_describe(node, text, sizeof(text)), value->name);
        }
    }
    verify_ctx ctx = { depth };
    return pl_node_each_body(node, verify_body, &ctx, err);
}

static pl_status verify_graph(pl_graph *graph, int depth, pl_err *err) {
    if (depth > PL_GRAPH_DEPTH_MAX) {
        return pl_fail(err, PL_E_LIMIT, "graph '%s': bodies are nested deeper than %d", graph->name,
                       PL_GRAPH_DEPTH_MAX);
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(verify_node(graph->nodes[i], depth, err));
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_value *value = graph->outputs[i];
        if (!has_source(value) || !is_visible(graph, value)) {
            return pl_fail(
                err, PL_E_INVALID,
                "graph '%s': output '%s' is not defined by any node, input or initializer",
                graph->name, value->name);
        }
    }
    return PL_OK;
}

pl_status pl_model_verify(pl_model *model, pl_err *err) {
    PL_TRY(verify_graph(model->graph, 0, err));
    return pl_graph_sort(model->graph, err);
}

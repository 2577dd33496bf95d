/* ONNX Gradient-1 (ai.onnx.preview.training): partial derivatives of the value that attribute `y`
 * names with respect to those that `xs` names. */
#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "passes/backward.h"
#include "passes/pass_int.h"
#include "passes/passes.h"

static bool is_gradient(const pl_node *node) {
    return strcmp(node->op, "Gradient") == 0 &&
           strcmp(node->domain, "ai.onnx.preview.training") == 0;
}

static pl_status find_named(const pl_node *node, pl_string name, pl_value **out, pl_err *err) {
    *out = pl_strmap_get_n(&node->graph->by_name, name.data, name.n_bytes);
    if (*out != NULL) return PL_OK;
    return pl_node_fail(err, PL_E_INVALID, node, "it names value '%.*s', which does not exist",
                        (int)(name.n_bytes < 200 ? name.n_bytes : 200), name.data);
}

static pl_status read_names(const pl_node *node, pl_value **xs, size_t *n_xs, pl_value **y,
                            pl_err *err) {
    const pl_attr *names = pl_node_attr(node, "xs"), *target = pl_node_attr(node, "y");
    if (names == NULL || names->type != PL_ATTR_STRINGS || target == NULL ||
        target->type != PL_ATTR_STRING || names->n < node->n_out) {
        return pl_node_fail(err, PL_E_INVALID, node, "attributes xs and y must name values");
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        PL_TRY(find_named(node, names->strings[i], &xs[i], err));
        /* Derivatives at another point than the graph's own values would need a second copy of the
         * graph. */
        if (i < node->n_in && node->in[i] != xs[i]) {
            return pl_node_fail(err, PL_E_UNSUPPORTED, node,
                                "input %u is not the value '%s' that xs names", i, xs[i]->name);
        }
    }
    *n_xs = node->n_out;
    return find_named(node, target->s, y, err);
}

/* Adds the gradient's nodes, and an Identity for each output of the node that is removed. */
static pl_status lower(pl_graph *graph, pl_node *node, pl_err *err) {
    pl_value **xs = pl_calloc((size_t)node->n_out + 1, sizeof(pl_value *));
    pl_value **dx = pl_calloc((size_t)node->n_out + 1, sizeof(pl_value *));
    pl_value *y = NULL;
    size_t n_xs = 0;
    pl_status st = xs == NULL || dx == NULL ? pl_fail_memory(err, node->n_out) : PL_OK;
    if (st == PL_OK) st = read_names(node, xs, &n_xs, &y, err);
    if (st == PL_OK) st = pl_backward(graph, y, NULL, xs, n_xs, dx, err);
    for (size_t i = 0; st == PL_OK && i < n_xs; i++) {
        pl_node *identity = NULL;
        if (node->out[i] == NULL) continue;
        if (dx[i] == NULL) {
            st = pl_pass_zeros_like(graph, xs[i], 0, "grad/zeros", &dx[i], err);
            if (st != PL_OK) break;
        }
        st = pl_graph_add_node(graph, "Identity", "", 1, 1, &identity, err);
        if (st != PL_OK) break;
        identity->in[0] = dx[i];
        pl_node_set_output(identity, 0, node->out[i]);
    }
    pl_free(xs);
    pl_free(dx);
    return st;
}

/* Inference must know every operator, so the Gradient nodes are removed first. Their outputs stay
 * and get a new producer. */
static size_t take_out(pl_graph *graph, pl_node **taken) {
    size_t n_taken = 0, n_kept = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        if (!is_gradient(node)) {
            node->index = (uint32_t)n_kept;
            graph->nodes[n_kept++] = node;
            continue;
        }
        taken[n_taken++] = node;
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != NULL) node->out[k]->producer = NULL;
        }
    }
    graph->n_nodes = n_kept;
    return n_taken;
}

pl_status pl_lower_gradient(pl_model *model, pl_err *err) {
    pl_graph *graph = model->graph;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += is_gradient(graph->nodes[i]);
    if (n == 0) return PL_OK;
    pl_node **taken = pl_calloc(n, sizeof(pl_node *));
    if (taken == NULL) return pl_fail_memory(err, n);
    n = take_out(graph, taken);
    pl_status st = pl_ops_resolve(model, err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        st = lower(graph, taken[i], err);
        if (st == PL_OK) st = pl_ops_resolve(model, err);
    }
    pl_free(taken);
    if (st == PL_OK) st = pl_graph_sort(graph, err);
    return st == PL_OK ? pl_graph_unshadow(graph, err) : st;
}

static pl_status run(pl_pass_job *job, pl_err *err) {
    return pl_lower_gradient(job->model, err);
}

extern const pl_pass pl_pass_lower_gradient;
const pl_pass pl_pass_lower_gradient = {
    .name = "lower-gradient",
    .summary = "the operator Gradient becomes the nodes that compute it (always done)",
    .run = run,
};

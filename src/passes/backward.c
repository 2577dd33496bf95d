/* Reverse accumulation: nodes from y backwards, each asked for its rule once, when all that its
 * outputs feed has been asked. */
#include "passes/backward.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/grad.h"
#include "ops/infer.h"

typedef struct backward {
    pl_graph *graph;
    size_t n_values; /* of the model before the pass */
    bool *depends;   /* by value id: depends on one of xs */
    pl_value **grad; /* by value id: accumulated so far; NULL = zero */
    pl_err *err;
} backward;

static bool node_depends(const backward *b, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL && b->depends[node->in[i]->id]) return true;
    }
    return false;
}

static void mark_dependents(backward *b, size_t n_nodes) {
    for (size_t i = 0; i < n_nodes; i++) {
        const pl_node *node = b->graph->nodes[i];
        if (!node_depends(b, node)) continue;
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != NULL) b->depends[node->out[k]->id] = true;
        }
    }
}

static pl_status accumulate(backward *b, const pl_node *node, pl_value *x, pl_value *dx) {
    pl_value **slot = &b->grad[x->id];
    if (*slot == NULL) {
        *slot = dx;
        return PL_OK;
    }
    pl_grad c = { .graph = b->graph, .node = node, .err = b->err };
    *slot = pl_g_add(&c, *slot, dx);
    return c.st;
}

static pl_status visit(backward *b, const pl_node *node, pl_arena *arena) {
    pl_value **dy = pl_arena_array(arena, node->n_out, sizeof(pl_value *));
    pl_value **dx = pl_arena_array(arena, node->n_in, sizeof(pl_value *));
    bool *wanted = pl_arena_array(arena, node->n_in, sizeof(bool));
    bool any = false;
    if (dy == NULL || dx == NULL || wanted == NULL) return pl_fail_memory(b->err, node->n_in);
    for (uint32_t k = 0; k < node->n_out; k++) {
        dy[k] = node->out[k] == NULL ? NULL : b->grad[node->out[k]->id];
        any = any || dy[k] != NULL;
    }
    if (!any || !node_depends(b, node)) return PL_OK;
    any = false;
    for (uint32_t k = 0; k < node->n_in; k++) {
        wanted[k] =
            node->in[k] != NULL && b->depends[node->in[k]->id] && pl_g_is_float(node->in[k]);
        any = any || wanted[k];
    }
    if (!any) return PL_OK;
    if (node->def->grad == PL_GRAD_TODO || node->def->grad == PL_GRAD_UNDEFINED) {
        return pl_node_fail(b->err, PL_E_UNSUPPORTED, node, "this operator has no gradient rule%s",
                            node->def->grad == PL_GRAD_TODO ? " yet" : "");
    }
    pl_grad c = {
        .graph = b->graph, .node = node, .dy = dy, .dx = dx, .wanted = wanted, .err = b->err
    };
    PL_TRY(node->def->grad(&c));
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (wanted[k] && dx[k] != NULL) PL_TRY(accumulate(b, node, node->in[k], dx[k]));
    }
    return PL_OK;
}

/* Ones of y's shape, whatever it turns out to be. */
static pl_status seed_ones(backward *b, pl_value *y, pl_value **out) {
    pl_node *shape = NULL, *ones = NULL;
    pl_value *dims = NULL;
    pl_tensor *one = NULL;
    const int64_t n = 1;
    PL_TRY(pl_graph_add_node(b->graph, "Shape", "", 1, 1, &shape, b->err));
    shape->in[0] = y;
    PL_TRY(pl_graph_add_fresh_value(b->graph, "grad/shape", &dims, b->err));
    pl_node_set_output(shape, 0, dims);
    PL_TRY(pl_graph_add_node(b->graph, "ConstantOfShape", "", 1, 1, &ones, b->err));
    ones->in[0] = dims;
    PL_TRY(pl_graph_add_fresh_value(b->graph, "grad/ones", out, b->err));
    (*out)->type = y->type;
    pl_node_set_output(ones, 0, *out);
    pl_attr *value = pl_node_add_attr(ones, "value", PL_ATTR_TENSOR);
    if (value == NULL) return pl_fail_memory(b->err, 1);
    const pl_dtype dtype =
        y->type != NULL && y->type->dtype != PL_UNDEFINED ? y->type->dtype : PL_F32;
    PL_TRY(pl_tensor_new(dtype, 1, &n, &one, b->err));
    pl_store_f64(dtype, &(const double){ 1 }, one->data, 1);
    PL_TRY(pl_model_keep_tensor_take(b->graph->model, one, b->err));
    value->tensor = one;
    return PL_OK;
}

static pl_status run_backward(backward *b, pl_value *y, pl_value *dy, pl_value *const *xs,
                              size_t n_xs, pl_value **out, pl_arena *arena) {
    const size_t n_nodes = b->graph->n_nodes;
    for (size_t i = 0; i < n_xs; i++)
        b->depends[xs[i]->id] = true;
    mark_dependents(b, n_nodes);
    if (dy == NULL) PL_TRY(seed_ones(b, y, &dy));
    b->grad[y->id] = dy;
    for (size_t i = n_nodes; i-- > 0;)
        PL_TRY(visit(b, b->graph->nodes[i], arena));
    for (size_t i = 0; i < n_xs; i++)
        out[i] = b->grad[xs[i]->id];
    return PL_OK;
}

pl_status pl_backward(pl_graph *graph, pl_value *y, pl_value *dy, pl_value *const *xs, size_t n_xs,
                      pl_value **out, pl_err *err) {
    backward b = { .graph = graph, .n_values = graph->model->n_values, .err = err };
    pl_arena *arena = pl_arena_new();
    pl_status st = PL_OK;
    b.depends = pl_calloc(b.n_values + 1, sizeof(bool));
    b.grad = pl_calloc(b.n_values + 1, sizeof(pl_value *));
    if (arena == NULL || b.depends == NULL || b.grad == NULL) {
        st = pl_fail_memory(err, b.n_values);
    } else {
        st = run_backward(&b, y, dy, xs, n_xs, out, arena);
    }
    pl_free(b.depends);
    pl_free(b.grad);
    pl_arena_free(arena);
    return st;
}

/* Dependence through a graph and its bodies; building nodes. */
#include <string.h>

#include "ops/op.h"
#include "passes/pass_int.h"

/* ---- uses ---- */

typedef struct uses {
    pl_use_fn fn;
    void *ctx;
} uses;

static pl_status use_body(void *ctx, pl_graph *body, pl_err *err) {
    const uses *u = ctx;
    (void)err;
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != NULL) u->fn(u->ctx, node->in[k]);
        (void)pl_node_each_body(node, use_body, ctx, NULL);
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        u->fn(u->ctx, body->outputs[i]);
    return PL_OK;
}

void pl_node_each_use(const pl_node *node, pl_use_fn fn, void *ctx) {
    uses u = { fn, ctx };
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != NULL) fn(ctx, node->in[i]);
    (void)pl_node_each_body(node, use_body, &u, NULL);
}

/* ---- dependence ---- */

bool pl_carries_gradient(const pl_value *value) {
    const pl_type *type = value->type;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || type->dtype == PL_UNDEFINED) return true;
    return ((1u << type->dtype) & PL_T_FLOAT) != 0;
}

typedef struct question {
    const bool *depends;
    bool answer;
} question;

static void ask(void *ctx, pl_value *value) {
    question *q = ctx;
    q->answer = q->answer || q->depends[value->id];
}

bool pl_node_depends(const pl_node *node, const bool *depends) {
    question q = { depends, false };
    if (node->def != NULL && node->def->grad == PL_GRAD_ZERO) return false;
    pl_node_each_use(node, ask, &q);
    return q.answer;
}

static pl_status mark_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)err;
    pl_mark_dependents(body, ctx);
    return PL_OK;
}

void pl_mark_dependents(const pl_graph *graph, bool *depends) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (!pl_node_depends(node, depends)) continue;
        (void)pl_node_each_body(node, mark_body, depends, NULL);
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != NULL && pl_carries_gradient(node->out[k]))
                depends[node->out[k]->id] = true;
        }
    }
}

/* ---- building ---- */

pl_tensor *pl_pass_constant(const pl_value *value) {
    const pl_node *node = value->producer;
    if (value->init != NULL && !value->is_input) return value->init;
    if (!pl_node_has_flag(node, PL_OP_CONSTANT)) return NULL;
    return pl_attr_tensor(node, "value");
}

pl_status pl_pass_op(pl_graph *graph, const char *op, pl_value *const *in, size_t n_in,
                     const char *base, pl_node **node, pl_value **out, pl_err *err) {
    pl_node *made = NULL;
    PL_TRY(pl_graph_add_node(graph, op, "", n_in, 1, &made, err));
    for (size_t i = 0; i < n_in; i++)
        made->in[i] = in[i];
    PL_TRY(pl_graph_add_fresh_value(graph, base, out, err));
    pl_node_set_output(made, 0, *out);
    made->def = pl_op_find("", op, made->opset);
    if (node != NULL) *node = made;
    return PL_OK;
}

pl_status pl_pass_set_ints(pl_node *node, const char *name, const int64_t *v, size_t n,
                           pl_err *err) {
    pl_attr *attr = pl_node_add_attr(node, name, PL_ATTR_INTS);
    int64_t *copy = pl_arena_array(node->graph->model->arena, n, sizeof(*copy));
    if (attr == NULL || copy == NULL) return pl_fail_memory(err, n);
    memcpy(copy, v, n * sizeof(*v));
    attr->ints = copy;
    attr->n = n;
    return PL_OK;
}

pl_status pl_pass_ints(pl_graph *graph, pl_dtype dtype, bool scalar, const int64_t *v, size_t n,
                       const char *base, pl_value **out, pl_err *err) {
    pl_tensor *t = NULL;
    const int64_t dims[1] = { (int64_t)n };
    PL_TRY(pl_tensor_new(dtype, scalar ? 0 : 1, dims, &t, err));
    pl_store_i64(dtype, v, t->data, n);
    pl_status st = pl_graph_add_fresh_value(graph, base, out, err);
    if (st == PL_OK) st = pl_value_set_init(*out, t, err);
    const pl_dim dim = { .value = (int64_t)n, .name = NULL };
    if (st == PL_OK) {
        (*out)->type = pl_type_tensor(graph->model->arena, dtype, scalar ? 0 : 1, &dim);
        if ((*out)->type == NULL) st = pl_fail_memory(err, 1);
    }
    pl_tensor_unref(t);
    return st;
}

pl_status pl_pass_axis(pl_graph *graph, const char *op, pl_value *x, int64_t axis, const char *base,
                       pl_value **out, pl_err *err) {
    pl_node *node = NULL;
    pl_value *in[2] = { x, NULL };
    const bool as_input = pl_model_opset(graph->model, "") >= 13;
    if (as_input) PL_TRY(pl_pass_ints(graph, PL_I64, false, &axis, 1, base, &in[1], err));
    PL_TRY(pl_pass_op(graph, op, in, as_input ? 2 : 1, base, &node, out, err));
    return as_input ? PL_OK : pl_pass_set_ints(node, "axes", &axis, 1, err);
}

pl_status pl_pass_zeros_like(pl_graph *graph, pl_value *x, double value, const char *base,
                             pl_value **out, pl_err *err) {
    pl_node *fill = NULL;
    pl_value *shape = NULL;
    pl_tensor *t = NULL;
    const int64_t one = 1;
    const char *shape_name = pl_arena_printf(graph->model->arena, "%s/shape", base);
    if (shape_name == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_pass_op(graph, "Shape", &x, 1, shape_name, NULL, &shape, err));
    PL_TRY(pl_pass_op(graph, "ConstantOfShape", &shape, 1, base, &fill, out, err));
    (*out)->type = x->type;
    pl_attr *attr = pl_node_add_attr(fill, "value", PL_ATTR_TENSOR);
    if (attr == NULL) return pl_fail_memory(err, 1);
    const pl_dtype dtype =
        x->type != NULL && x->type->dtype != PL_UNDEFINED ? x->type->dtype : PL_F32;
    PL_TRY(pl_tensor_new(dtype, 1, &one, &t, err));
    pl_store_f64(dtype, &value, t->data, 1);
    PL_TRY(pl_model_keep_tensor_take(graph->model, t, err));
    attr->tensor = t;
    return PL_OK;
}

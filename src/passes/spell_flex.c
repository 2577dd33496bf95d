/* Expands FlexAttention into simple operators and copies of its bodies.
 *
 * Its bodies may read values of enclosing graphs, so a gradient rule, which covers only the inputs
 * of its node, is not enough; and no other runtime knows the operator. */
#include <math.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/grad.h"
#include "passes/pass_int.h"

enum { Q, K, V };

/* Applies a body to x, in the type that the body expects. */
static pl_value *through(pl_grad *c, const char *attr, pl_dtype type, pl_value *x) {
    pl_graph *body = pl_attr_graph(c->node, attr);
    pl_model *const model = c->graph->model;
    if (body == NULL || c->st != PL_OK) return x;
    if (body->n_inputs < 1 || body->n_outputs != 1) {
        c->st = pl_node_fail(c->err, PL_E_INVALID, c->node, "%s must have one input and one output",
                             attr);
        return NULL;
    }
    const pl_dtype wide = x->type->dtype;
    x = pl_g_cast(c, x, type);
    const char *prefix = pl_arena_printf(model->arena, "%s/%s", c->node->out[0]->name, attr);
    pl_value **map = pl_calloc((size_t)model->n_values + 1, sizeof(pl_value *)), *y = NULL;
    if (c->st == PL_OK && (prefix == NULL || map == NULL)) c->st = pl_fail_memory(c->err, 1);
    if (c->st == PL_OK && map != NULL) {
        map[body->inputs[0]->id] = x;
        c->st = pl_graph_copy_into(body, c->graph, prefix, map, c->err);
    }
    if (c->st == PL_OK && map != NULL) {
        y = map[body->outputs[0]->id];
        y->type = x->type; /* a body keeps type and shape */
        y = pl_g_cast(c, y, wide);
    }
    pl_free(map);
    return y;
}

/* (batch, heads, len, size) with each head repeated for the query heads that share it. */
static pl_value *repeated(pl_grad *c, pl_value *x, int64_t times) {
    const int64_t axis = 2;
    if (times == 1 || c->st != PL_OK) return x;
    const int64_t flat[4] = { 0, pl_g_dim(c, x, 1) * times, -1, pl_g_dim(c, x, 3) };
    pl_value **copies = pl_arena_array(c->graph->model->arena, (size_t)times, sizeof(*copies));
    if (copies == NULL) {
        c->st = pl_fail_memory(c->err, (size_t)times);
        return NULL;
    }
    copies[0] = pl_g_unsqueeze(c, x, &axis, 1);
    for (int64_t i = 1; i < times; i++)
        copies[i] = copies[0];
    return pl_g_reshape(c, pl_g_concat(c, copies, (size_t)times, axis), flat, 4);
}

static pl_value *spelt(pl_grad *c) {
    static const int64_t swap[4] = { 0, 1, 3, 2 };
    const pl_node *node = c->node;
    const pl_dtype own = node->in[Q]->type->dtype;
    pl_dtype type = (pl_dtype)pl_attr_int(node, "softmax_precision");
    if (type == PL_UNDEFINED) type = own == PL_F64 ? PL_F64 : PL_F32;
    const pl_dtype wide = type == PL_F64 || own == PL_F64 ? PL_F64 : PL_F32;
    const int64_t heads = pl_g_dim(c, node->in[Q], 1), kv_heads = pl_g_dim(c, node->in[K], 1);
    const int64_t size = pl_g_dim(c, node->in[Q], 3);
    if (c->st != PL_OK) return NULL;
    const int64_t times = kv_heads > 0 ? heads / kv_heads : 1;
    double scale = size > 0 ? 1 / sqrt((double)size) : 1;
    if (pl_attr_has(node, "scale")) scale = pl_attr_float(node, "scale");
    pl_value *q = pl_g_cast(c, node->in[Q], wide);
    pl_value *k = repeated(c, pl_g_cast(c, node->in[K], wide), times);
    pl_value *v = repeated(c, pl_g_cast(c, node->in[V], wide), times);
    pl_value *s = pl_g2(c, "MatMul", q, pl_g_transpose(c, k, swap, 4));
    s = pl_g_mul(c, s, pl_g_number_of(c, wide, scale));
    s = through(c, "score_mod", type, s);
    s = pl_g1_int(c, "Softmax", s, "axis", 3);
    s = through(c, "prob_mod", type, s);
    return pl_g_cast(c, pl_g2(c, "MatMul", s, v), own);
}

pl_status pl_spell_flex(pl_graph *graph, pl_node *node, pl_err *err) {
    pl_grad c = { .graph = graph, .node = node, .err = err };
    pl_value *y = spelt(&c), *out = node->out[0];
    PL_TRY(c.st);
    pl_node *last = NULL;
    node->out[0] = NULL;
    PL_TRY(pl_graph_add_node(graph, "Identity", "", 1, 1, &last, err));
    last->in[0] = y;
    last->def = pl_op_find("", "Identity", last->opset);
    pl_node_set_output(last, 0, out);
    bool *dropped = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (dropped == NULL) return pl_fail_memory(err, graph->n_nodes);
    for (size_t i = 0; i < graph->n_nodes; i++)
        dropped[i] = graph->nodes[i] == node;
    const pl_status st = pl_graph_remove_nodes(graph, dropped, err);
    pl_free(dropped);
    return st;
}

/* Helpers of gradient rules. */
#include "ops/grad.h"

#include <string.h>

static pl_status add_op(pl_grad *c, const char *op, pl_value *const *in, size_t n_in,
                        const pl_type *type, pl_value **out) {
    pl_node *node = NULL;
    PL_TRY(pl_graph_add_node(c->graph, op, "", n_in, 1, &node, c->err));
    for (size_t i = 0; i < n_in; i++)
        node->in[i] = in[i];
    const char *base = pl_arena_printf(
        c->graph->model->arena, "grad/%s/%s",
        c->node->n_out > 0 && c->node->out[0] != NULL ? c->node->out[0]->name : c->node->op, op);
    if (base == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_graph_add_fresh_value(c->graph, base, out, c->err));
    (*out)->type = type;
    pl_node_set_output(node, 0, *out);
    return PL_OK;
}

pl_status pl_g_unary(pl_grad *c, const char *op, pl_value *x, pl_value **out) {
    return add_op(c, op, &x, 1, x->type, out);
}

pl_status pl_g_binary(pl_grad *c, const char *op, pl_value *x, pl_value *y, const pl_type *type,
                      pl_value **out) {
    return add_op(c, op, (pl_value *const[]){ x, y }, 2, type, out);
}

pl_status pl_g_ints(pl_grad *c, const int64_t *ints, size_t n, pl_value **out) {
    const int64_t dims[1] = { (int64_t)n };
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_I64, 1, dims, &t, c->err));
    if (n > 0) memcpy(t->data, ints, n * sizeof(*ints));
    pl_status st = pl_graph_add_fresh_value(c->graph, "grad/ints", out, c->err);
    if (st == PL_OK) st = pl_value_set_init(*out, t, c->err);
    pl_tensor_unref(t);
    return st;
}

static pl_status need_shape(const pl_grad *c, const pl_type *type, const char *name) {
    if (type != NULL && pl_type_is_concrete(type)) return PL_OK;
    return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node,
                        "its gradient needs the shape of '%s', which is not known", name);
}

pl_status pl_g_unbroadcast(pl_grad *c, pl_value *g, const pl_type *g_type, const pl_value *x,
                           pl_value **out) {
    int64_t axes[PL_RANK_MAX], dims[PL_RANK_MAX];
    size_t n_axes = 0;
    if (g_type != NULL && x->type != NULL && pl_type_equal(g_type, x->type)) {
        *out = g;
        return PL_OK;
    }
    PL_TRY(need_shape(c, g_type, g->name));
    PL_TRY(need_shape(c, x->type, x->name));
    const int lead = g_type->rank - x->type->rank;
    for (int d = 0; d < g_type->rank; d++) {
        const int64_t own = d < lead ? 1 : x->type->dims[d - lead].value;
        if (own == 1 && g_type->dims[d].value != 1) axes[n_axes++] = d;
    }
    for (int d = 0; d < x->type->rank; d++)
        dims[d] = x->type->dims[d].value;
    pl_value *sum = g, *axes_value = NULL, *shape = NULL;
    if (n_axes > 0) {
        PL_TRY(pl_g_ints(c, axes, n_axes, &axes_value));
        PL_TRY(pl_g_binary(c, "ReduceSum", g, axes_value, NULL, &sum));
    }
    PL_TRY(pl_g_ints(c, dims, (size_t)x->type->rank, &shape));
    return pl_g_binary(c, "Reshape", sum, shape, x->type, out);
}

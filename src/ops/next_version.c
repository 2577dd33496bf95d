/* The rules by which nodes change with their opset (ONNX changelog). */
#include "ops/next_version.h"

#include <string.h>

static void drop_attr(pl_node *node, const char *name) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) != 0) node->attrs[n++] = node->attrs[i];
    node->n_attrs = n;
}

pl_status pl_next_never(pl_node *node, pl_err *err) {
    return pl_node_fail(err, PL_E_UNSUPPORTED, node,
                        "gradients are written from opset %d on, which computes this in another "
                        "way",
                        node->def->until + 1);
}

pl_status pl_next_batch_norm(pl_node *node, pl_err *err) {
    if (pl_attr_int(node, "spatial") == 0) return pl_next_never(node, err);
    drop_attr(node, "spatial");
    return PL_OK;
}

pl_status pl_next_upsample(pl_node *node, pl_err *err) {
    size_t n = 0;
    pl_model *const model = node->graph->model;
    const float *scales = pl_attr_floats(node, "scales", &n);
    const char *base = pl_arena_printf(model->arena, "%s/scales", node->out[0]->name);
    pl_value **in = pl_arena_array(model->arena, 2, sizeof(*in)), *value = NULL;
    pl_tensor *t = NULL;
    if (base == NULL || in == NULL) return pl_fail_memory(err, 2);
    const int64_t dims[1] = { (int64_t)n };
    PL_TRY(pl_tensor_new(PL_F32, 1, dims, &t, err));
    if (n > 0) memcpy(t->data, scales, n * sizeof(float));
    pl_status st = pl_graph_add_fresh_value(node->graph, base, &value, err);
    if (st == PL_OK) st = pl_value_set_init(value, t, err);
    pl_tensor_unref(t);
    PL_TRY(st);
    in[0] = node->in[0];
    in[1] = value;
    node->in = in;
    node->n_in = 2;
    drop_attr(node, "scales");
    return PL_OK;
}

pl_status pl_node_to_opset(pl_node *node, int to, pl_err *err) {
    for (const pl_op_def *row = node->def; row->until != 0 && row->until < to;) {
        const pl_op_def *next = pl_op_find(node->domain, node->op, row->until + 1);
        if (next == NULL) return pl_next_never(node, err);
        if (row->next != NULL) PL_TRY(row->next(node, err));
        row = node->def = next;
    }
    node->opset = to;
    return PL_OK;
}

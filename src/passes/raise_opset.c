/* Models of opset 7 and 8 become models of opset 9, in which gradients are written.
 *
 * Between them operators only took more types, but for those below (ONNX changelog). Opset 6 and
 * older broadcast by an attribute: they are left as they are. */
#include <string.h>

#include "ops/op.h"
#include "passes/pass_int.h"

enum { FROM = 7, TO = 9 };

static void drop_attr(pl_node *node, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) != 0) node->attrs[n++] = node->attrs[i];
    node->n_attrs = (uint32_t)n;
}

/* Upsample-9 has its scales as an input. */
static pl_status raise_upsample(pl_node *node, pl_err *err) {
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

static pl_status raise_graph(void *ctx, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        PL_TRY(pl_node_each_body(node, raise_graph, ctx, err));
        if (!pl_domain_is_onnx(node->domain)) continue;
        const bool batch_norm = strcmp(node->op, "BatchNormalization") == 0;
        const bool old = strcmp(node->op, "Scan") == 0 || pl_op_find("", node->op, TO) == NULL ||
                         strcmp(node->op, "MeanVarianceNormalization") == 0 ||
                         (batch_norm && pl_attr_int(node, "spatial") == 0);
        if (old) {
            return pl_node_fail(err, PL_E_UNSUPPORTED, node,
                                "gradients are written from opset %d on, which computes this in "
                                "another way",
                                TO);
        }
        if (batch_norm) drop_attr(node, "spatial");
        if (strcmp(node->op, "Upsample") == 0) PL_TRY(raise_upsample(node, err));
        node->opset = TO;
        node->def = NULL;
    }
    return PL_OK;
}

pl_status pl_raise_opset(pl_model *model, pl_err *err) {
    const int version = pl_model_opset(model, "");
    if (version < FROM || version >= TO) return PL_OK;
    PL_TRY(pl_ops_resolve(model, err)); /* defaults of attributes stand in the rows */
    PL_TRY(raise_graph(NULL, model->graph, err));
    return pl_model_set_opset(model, "", TO, err);
}

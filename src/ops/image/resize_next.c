/* Upgrades Upsample-7 to Upsample-9: the scales become an input. */
#include <string.h>

#include "ops/image/resize_rules.h"
#include "ops/next_version.h"

pl_status pl_next_upsample(pl_node *node, pl_err *err) {
    size_t n = 0;
    pl_model *const model = node->graph->model;
    const float *scales = pl_attr_floats(node, "scales", &n);
    const char *name = node->n_out > 0 && node->out[0] != NULL ? node->out[0]->name : "upsample";
    const char *base = pl_arena_printf(model->arena, "%s/scales", name);
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
    pl_next_drop_attr(node, "scales");
    return PL_OK;
}

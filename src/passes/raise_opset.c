/* Upgrades models of opset 7 and 8 to opset 9, the lowest that gradient rules support.
 *
 * The operator's row says what a version changes. Opset 6 and older broadcast by an attribute and
 * are unchanged. */
#include "ops/next_version.h"
#include "passes/pass_int.h"
#include "passes/passes.h"

enum { FROM = 7, TO = 9 };

static pl_status raise_graph(void *ctx, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        PL_TRY(pl_node_each_body(node, raise_graph, ctx, err));
        if (!pl_domain_is_onnx(node->domain)) continue;
        PL_TRY(pl_node_to_opset(node, TO, err));
        node->def = NULL;
    }
    return PL_OK;
}

pl_status pl_raise_opset(pl_model *model, pl_err *err) {
    const int version = pl_model_opset(model, "");
    if (version < FROM || version >= TO) return PL_OK;
    PL_TRY(pl_ops_resolve(model, err)); /* defaults of attributes are in the rows */
    PL_TRY(raise_graph(NULL, model->graph, err));
    return pl_model_set_opset(model, "", TO, err);
}

static pl_status run(pl_pass_job *job, pl_err *err) {
    return pl_raise_opset(job->model, err);
}

extern const pl_pass pl_pass_raise_opset;
const pl_pass pl_pass_raise_opset = {
    .name = "raise-opset",
    .summary = "opset 7 and 8 become opset 9 (part of backward)",
    .run = run,
};

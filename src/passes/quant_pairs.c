/* Bypasses pairs of QuantizeLinear and DequantizeLinear around selected nodes. */
#include "passes/quant_pairs.h"

#include <string.h>

#include "graph/edit.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/passes.h"

bool pl_node_is_quantize(const pl_node *node) {
    return pl_node_has_flag(node, PL_OP_QUANTIZE);
}

bool pl_node_is_dequantize(const pl_node *node) {
    return pl_node_has_flag(node, PL_OP_DEQUANTIZE);
}

static pl_dtype dtype_of(const pl_value *value) {
    const pl_type *type = value->type;
    return type != NULL && type->kind == PL_TYPE_TENSOR ? type->dtype : PL_UNDEFINED;
}

static bool has_scale(const pl_node *node) {
    return node->n_in >= 2 && node->in[0] != NULL && node->in[1] != NULL;
}

/* PyTorch's exporter inserts casts of codes to their own type and copies of constants. */
static bool changes_nothing(const pl_node *node) {
    if (node == NULL || node->n_in != 1 || node->in[0] == NULL || node->out[0] == NULL)
        return false;
    if (pl_node_has_flag(node, PL_OP_CAST))
        return dtype_of(node->in[0]) != PL_UNDEFINED &&
               dtype_of(node->in[0]) == dtype_of(node->out[0]);
    return node->def != NULL && node->def->list == PL_LIST_PASS;
}

const pl_value *pl_value_behind(const pl_value *value) {
    while (value != NULL && changes_nothing(value->producer))
        value = value->producer->in[0];
    return value;
}

pl_value *pl_quant_pair_source(const pl_value *value) {
    const pl_node *last = value == NULL ? NULL : value->producer;
    if (!pl_node_is_dequantize(last) || !has_scale(last)) return NULL;
    const pl_node *first = pl_value_behind(last->in[0])->producer;
    if (!pl_node_is_quantize(first) || !has_scale(first)) return NULL;
    return dtype_of(first->in[0]) == dtype_of(value) ? first->in[0] : NULL;
}

static pl_status note(pl_changes *changes, const pl_value *value, const pl_node *node,
                      pl_err *err) {
    const pl_change change = { .kind = PL_CHANGE_DROP,
                               .value = value->name,
                               .node = node->name,
                               .op = node->op,
                               .from = dtype_of(value),
                               .to = dtype_of(value),
                               .what = "no longer quantised" };
    return pl_changes_add(changes, &change, err);
}

static pl_status pass_inputs(pl_node *node, pl_changes *changes, pl_err *err) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        pl_value *from = NULL;
        while (node->in[i] != NULL && (from = pl_quant_pair_source(node->in[i])) != NULL) {
            PL_TRY(note(changes, node->in[i], node, err));
            node->in[i] = from;
        }
    }
    return PL_OK;
}

/* A DequantizeLinear whose codes come from a selected node: its readers read the node's
 * result. An output of the model keeps its name. */
static pl_status pass_output(pl_node *last, pl_value *from, pl_changes *changes, pl_err *err) {
    pl_value *value = last->out[0];
    PL_TRY(note(changes, value, from->producer, err));
    if (!value->is_output) return pl_graph_replace_uses(last->graph, value, from, err);
    last->op = pl_model_intern(last->graph->model, "Identity", strlen("Identity"));
    last->domain = pl_model_intern(last->graph->model, "", 0);
    if (last->op == NULL || last->domain == NULL) return pl_fail_memory(err, 1);
    last->opset = pl_model_opset(last->graph->model, "");
    last->def = pl_op_find("", last->op, last->opset);
    last->in[0] = from;
    last->n_in = 1;
    last->n_attrs = 0;
    return PL_OK;
}

pl_status pl_model_bypass_pairs(pl_model *model, const bool *raise, pl_changes *changes,
                                pl_err *err) {
    pl_graph *graph = model->graph;
    const size_t n_nodes = graph->n_nodes;
    size_t n_removed = 0;
    PL_TRY(pl_ops_resolve(model, err));
    PL_TRY(pl_model_infer(model, NULL, err));
    for (size_t i = 0; i < n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        if (pl_node_is_dequantize(node) && node->n_out > 0 && node->out[0] != NULL) {
            pl_value *from = pl_quant_pair_source(node->out[0]);
            const pl_node *maker = from == NULL ? NULL : from->producer;
            if (maker != NULL && maker->graph == graph && raise[maker->index]) {
                PL_TRY(pass_output(node, from, changes, err));
            }
        } else if (raise[i] && !pl_node_is_quantize(node)) {
            PL_TRY(pass_inputs(node, changes, err));
        }
    }
    PL_TRY(pl_graph_remove_dead(graph, &n_removed, err));
    PL_TRY(pl_graph_sort(graph, err));
    PL_TRY(pl_ops_resolve(model, err));
    return pl_model_infer(model, NULL, err);
}

static pl_status run(pl_pass_job *job, pl_err *err) {
    return pl_model_bypass_pairs(job->model, job->nodes, job->changes, err);
}

extern const pl_pass pl_pass_bypass_pairs;
const pl_pass pl_pass_bypass_pairs = {
    .name = "bypass-pairs",
    .summary = "selected nodes are no longer quantised (precision advice)",
    .takes_nodes = true,
    .run = run,
};

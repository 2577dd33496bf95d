/* Upgrades nodes of an old opset to a later one, version by version (ONNX changelog). */
#include "ops/next_version.h"

#include <string.h>

void pl_next_drop_attr(pl_node *node, const char *name) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) != 0) node->attrs[n++] = node->attrs[i];
    node->n_attrs = n;
}

pl_status pl_next_never(pl_node *node, pl_err *err) {
    return pl_node_fail(
        err, PL_E_UNSUPPORTED, node,
        "gradients require opset %d or later, where this operator is defined differently",
        node->def->until + 1);
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

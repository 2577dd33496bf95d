/* Warnings about a model: not errors, but its author should know. */
#include <string.h>

#include "base/nearest.h"
#include "ops/op.h"

static const char *attr_at(const void *ctx, size_t i) {
    const pl_op_attr *rows = ctx;
    return rows[i].name;
}

const char *pl_op_unknown_attr(const pl_node *node) {
    static const pl_op_attr none = { .name = NULL };
    if (node->def == NULL || (node->def->flags & PL_OP_FOREIGN) != 0) return NULL;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_op_attr *row = node->def->attrs == NULL ? &none : node->def->attrs;
        while (row->name != NULL && strcmp(row->name, node->attrs[i].name) != 0)
            row++;
        if (row->name == NULL) return node->attrs[i].name;
    }
    return NULL;
}

typedef struct found { /* the first of each kind, and their count */
    const pl_node *attr, *import, *foreign;
    size_t n_attr, n_import, n_foreign;
} found;

static void note(const pl_node *node, const pl_node **first, size_t *n) {
    if (*first == NULL) *first = node;
    ++*n;
}

static pl_status look(void *ctx, pl_graph *graph, pl_err *err) {
    found *f = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (pl_op_unknown_attr(node) != NULL) note(node, &f->attr, &f->n_attr);
        if (pl_node_has_flag(node, PL_OP_FOREIGN)) note(node, &f->foreign, &f->n_foreign);
        if (node->function == NULL && pl_model_opset(graph->model, node->domain) == 0)
            note(node, &f->import, &f->n_import);
        PL_TRY(pl_node_each_body(node, look, ctx, err));
    }
    return PL_OK;
}

static void put_more(pl_buf *out, size_t n) {
    if (n > 1) pl_buf_printf(out, " (and %zu more)", n - 1);
}

static void put_attr(const found *f, pl_buf *out) {
    char text[600];
    const char *name = pl_op_unknown_attr(f->attr);
    pl_buf_printf(out, "%s: unknown attribute '%s' is ignored",
                  pl_node_describe(f->attr, text, sizeof(text)), name);
    if (f->attr->def->attrs != NULL) {
        const char *near = pl_nearest(name, strlen(name), attr_at, f->attr->def->attrs);
        if (near != NULL) pl_buf_printf(out, "; did you mean '%s'?", near);
    }
    put_more(out, f->n_attr);
}

/* The newest versions that plumb's tables cover. */
enum { OPSET_NEWEST = 28, ML_NEWEST = 5, IR_NEWEST = 14 };

static bool put_version(const pl_model *model, size_t *i, pl_buf *out) {
    const int opset = pl_model_opset(model, ""), ml = pl_model_opset(model, "ai.onnx.ml");
    if (opset > OPSET_NEWEST && (*i)-- == 0) {
        pl_buf_printf(
            out,
            "opset %d of ai.onnx is newer than %d, the newest that plumb knows; operators "
            "are taken as of %d",
            opset, OPSET_NEWEST, OPSET_NEWEST);
        return true;
    }
    if (ml > ML_NEWEST && (*i)-- == 0) {
        pl_buf_printf(out,
                      "opset %d of ai.onnx.ml is newer than %d, the newest that plumb knows; "
                      "operators are taken as of %d",
                      ml, ML_NEWEST, ML_NEWEST);
        return true;
    }
    if (model->ir_version > IR_NEWEST && (*i)-- == 0) {
        pl_buf_printf(out, "IR version %lld is newer than %d, the newest that plumb knows",
                      (long long)model->ir_version, IR_NEWEST);
        return true;
    }
    return false;
}

bool pl_op_warning(const pl_model *model, size_t i, pl_buf *out) {
    found f = { .attr = NULL };
    char text[600];
    if (put_version(model, &i, out)) return true;
    (void)look(&f, model->graph, NULL);
    const pl_node *const first[] = { f.foreign, f.import, f.attr };
    for (size_t k = 0; k < 3; k++) {
        if (first[k] == NULL || i-- > 0) continue;
        if (k == 0) {
            pl_buf_printf(out,
                          "%s: op '%s' of domain '%s' is not known; only the backend can run it, "
                          "and what it computes is not verified",
                          pl_node_describe(f.foreign, text, sizeof(text)), f.foreign->op,
                          f.foreign->domain);
            put_more(out, f.n_foreign);
        } else if (k == 1) {
            pl_buf_printf(out,
                          "no opset is imported for domain '%s' of op '%s'; taken as version %d",
                          f.import->domain, f.import->op, f.import->opset);
            put_more(out, f.n_import);
        } else {
            put_attr(&f, out);
        }
        return true;
    }
    return false;
}

/* The list of families, and lookup of a node's row. Adding a family adds one word to FAMILIES. */
#include <stdarg.h>
#include <string.h>

#include "base/count.h"
#include "ops/op.h"

/* clang-format off */
#define FAMILIES(X)                                                                                \
    X(activation) X(attention) X(batch_norm) X(binary) X(control) X(conv) X(conv_special)          \
    X(einsum) X(gather_block_quantized) X(generator) X(ggml_round) X(image) X(index) X(integer_conv) X(integer_matmul)                     \
    X(linear_attention) X(logical) X(loss) X(matmul) X(matmul_nbits) X(ml) X(ml_tree) X(moe)              \
    X(ms_attention) X(ms_fused) X(ms_padding) X(ms_quant) X(norm) X(optimizer) X(pool) X(quant) X(reduce)        \
    X(region) X(resize) X(rnn) X(scatter) X(search) X(sequence) X(shape) X(signal) X(softmax) X(sort)        \
    X(text) X(transform) X(type) X(unary)
/* clang-format on */

#define X(family) extern const pl_op_def pl_ops_##family[];
FAMILIES(X)
#undef X

typedef struct family {
    const char *name;
    const pl_op_def *rows; /* ends with a row without a name */
} family;

static const family families[] = {
#define X(name_) { #name_, pl_ops_##name_ },
    FAMILIES(X)
#undef X
};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

static const char *row_domain(const pl_op_def *row) {
    return row->domain == NULL ? "" : row->domain;
}

static bool row_serves(const pl_op_def *row, int opset) {
    return row->since <= opset && (row->until == 0 || opset <= row->until);
}

static const pl_op_def *row_at(size_t i, const family **in) {
    for (size_t f = 0; f < N_FAMILIES; f++) {
        for (const pl_op_def *row = families[f].rows; row->name != NULL; row++) {
            if (i-- > 0) continue;
            *in = &families[f];
            return row;
        }
    }
    return NULL;
}

const pl_op_def *pl_op_at(size_t i) {
    const family *in = NULL;
    return row_at(i, &in);
}

const char *pl_op_family(size_t i) {
    const family *in = NULL;
    return row_at(i, &in) == NULL ? "" : in->name;
}

const pl_op_def *pl_op_find(const char *domain, const char *name, int opset) {
    if (pl_domain_is_onnx(domain)) domain = "";
    for (size_t f = 0; f < N_FAMILIES; f++) {
        for (const pl_op_def *row = families[f].rows; row->name != NULL; row++) {
            if (strcmp(row->name, name) == 0 && strcmp(row_domain(row), domain) == 0 &&
                row_serves(row, opset)) {
                return row;
            }
        }
    }
    return NULL;
}

pl_status pl_node_fail(pl_err *err, pl_status status, const pl_node *node, const char *format,
                       ...) {
    va_list args;
    va_start(args, format);
    (void)pl_vfail(err, status, format, args);
    va_end(args);
    char text[600];
    return pl_err_wrap(err, status, "%s", pl_node_describe(node, text, sizeof(text)));
}

/* ---- resolving ---- */

/* Rows of one op are adjacent (a test checks it). */
static const pl_op_def *first_row(const char *name) {
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const pl_op_def *row = families[f].rows; row->name != NULL; row++)
            if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

/* The first row of each op that the model has met so far: a model has few operators, so that an
 * index of all rows would cost a small model more than the rest of its preparation. */
static const pl_op_def *remembered_row(pl_strmap *met, const char *name) {
    const pl_op_def *row = pl_strmap_get(met, name);
    if (row != NULL) return row;
    row = first_row(name);
    /* Without memory for the entry, the next node with this op searches again. */
    if (row != NULL) (void)pl_strmap_put(met, row->name, (void *)(uintptr_t)row);
    return row;
}

static const pl_op_def *find_row(pl_strmap *met, const pl_node *node) {
    const pl_op_def *row = remembered_row(met, node->op);
    if (row == NULL) return NULL;
    for (const pl_op_def *r = row; r->name != NULL && strcmp(r->name, row->name) == 0; r++) {
        if (strcmp(row_domain(r), node->domain) == 0 && row_serves(r, node->opset)) return r;
    }
    return pl_op_find(node->domain, node->op, node->opset); /* another domain's rows of that name */
}

static pl_status fail_unknown(const pl_node *node, pl_err *err) {
    const char *domain = node->domain[0] == '\0' ? "ai.onnx" : node->domain;
    if (node->opset == 0 && node->domain[0] == '\0') {
        return pl_node_fail(err, PL_E_INVALID, node,
                            "the model imports no opset for domain '%s' of op '%s'", domain,
                            node->op);
    }
    const bool other_version = first_row(node->op) != NULL;
    return pl_node_fail(err, PL_E_UNSUPPORTED, node, "op '%s' of domain '%s' at opset %d is %s",
                        node->op, domain, node->opset,
                        other_version ? "not supported in that version or domain" : "not known");
}

static pl_status check_ports(const pl_node *node, const pl_port *ports, uint32_t n,
                             pl_value *const *values, const char *what, bool need, pl_err *err) {
    uint32_t n_max = 0;
    bool variadic = false;
    for (const pl_port *p = ports; p->name != NULL; p++, n_max++) {
        variadic = variadic || (p->flags & PL_PORT_VARIADIC) != 0;
        const bool optional = (p->flags & PL_PORT_OPTIONAL) != 0;
        if (optional || !need || (n_max < n && values[n_max] != NULL)) continue;
        return pl_node_fail(err, PL_E_INVALID, node, "%s %u ('%s') is missing", what, n_max,
                            p->name);
    }
    for (uint32_t i = n_max - 1; need && variadic && i < n;
         i++) /* "" stands for no port of a list */
        if (values[i] == NULL)
            return pl_node_fail(err, PL_E_INVALID, node, "%s %u ('%s') is missing", what, i,
                                ports[n_max - 1].name);
    if (n <= n_max || variadic) return PL_OK;
    return pl_node_fail(err, PL_E_INVALID, node, "has %u %s%s, expected at most %u", n, what,
                        pl_plural(n), n_max);
}

static const char *attr_type_name(pl_attr_type type) {
    static const char *const names[] = { "none",           "float",   "int",    "string",
                                         "tensor",         "graph",   "floats", "ints",
                                         "strings",        "tensors", "graphs", "sparse tensor",
                                         "sparse tensors", "type" };
    return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

static pl_status check_attrs(const pl_node *node, pl_err *err) {
    static const pl_op_attr none = { .name = NULL };
    const pl_op_attr *rows = node->def->attrs == NULL ? &none : node->def->attrs;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *attr = &node->attrs[i];
        const pl_op_attr *row = rows;
        while (row->name != NULL && strcmp(row->name, attr->name) != 0)
            row++;
        if (row->name == NULL) continue; /* ignored, as runtimes do: pl_op_warning */
        const bool dense = row->type == PL_ATTR_TENSOR && attr->type == PL_ATTR_SPARSE_TENSOR;
        if (row->type != attr->type && !dense) {
            return pl_node_fail(err, PL_E_INVALID, node, "attribute '%s' has type %s, expected %s",
                                attr->name, attr_type_name(attr->type), attr_type_name(row->type));
        }
    }
    for (const pl_op_attr *row = rows; row->name != NULL; row++) {
        if (row->required && pl_node_attr(node, row->name) == NULL) {
            return pl_node_fail(err, PL_E_INVALID, node, "required attribute '%s' is missing",
                                row->name);
        }
    }
    return PL_OK;
}

/* Domains that are not imported use the newest version of the operator, as in runtimes. */
static int version_without_import(const pl_node *node) {
    int version = 1;
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const pl_op_def *row = families[f].rows; row->name != NULL; row++)
            if (row->since > version && strcmp(row->name, node->op) == 0 &&
                strcmp(row_domain(row), node->domain) == 0)
                version = row->since;
    return version;
}

static bool is_foreign(const pl_node *node) {
    static const char *const own[] = { "", "ai.onnx.training", "ai.onnx.preview.training" };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(node->domain, own[i]) == 0) return false;
    return true;
}

typedef struct resolving {
    pl_strmap met;
    bool known; /* unknown operators are allowed */
} resolving;

static pl_status resolve_graph(void *ctx, pl_graph *graph, pl_err *err) {
    resolving *r = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        if (node->opset == 0 && node->domain[0] != '\0') node->opset = version_without_import(node);
        node->def = find_row(&r->met, node);
        if (node->def == NULL && r->known && is_foreign(node)) node->def = &pl_op_foreign;
        if (node->def == NULL) return fail_unknown(node, err);
        if (node->def == &pl_op_foreign) {
            PL_TRY(pl_node_each_body(node, resolve_graph, ctx, err));
            continue;
        }
        PL_TRY(check_ports(node, node->def->in, node->n_in, node->in, "input", true, err));
        PL_TRY(check_ports(node, node->def->out, node->n_out, node->out, "output", false, err));
        PL_TRY(check_attrs(node, err));
        PL_TRY(pl_node_each_body(node, resolve_graph, ctx, err));
    }
    return PL_OK;
}

static pl_status resolve(pl_model *model, bool known, pl_err *err) {
    resolving r = { .met = PL_STRMAP_INIT, .known = known };
    const pl_status st = resolve_graph(&r, model->graph, err);
    pl_strmap_release(&r.met);
    return st;
}

pl_status pl_ops_resolve(pl_model *model, pl_err *err) {
    return resolve(model, false, err);
}

pl_status pl_ops_resolve_known(pl_model *model, pl_err *err) {
    return resolve(model, true, err);
}

/* ---- questions ---- */

bool pl_node_is_random(const pl_node *node) {
    if (node->def == NULL || (node->def->flags & PL_OP_RANDOM) == 0) return false;
    if (pl_attr_int(node, "is_test") != 0) return false; /* Dropout-1 and -6 */
    for (uint32_t i = 0; node->def->in[i].name != NULL; i++) {
        if (strcmp(node->def->in[i].name, "training_mode") != 0) continue;
        return i < node->n_in && node->in[i] != NULL;
    }
    return true;
}

const char *pl_node_label(const pl_node *node) {
    const bool named = node->name != NULL && *node->name != '\0';
    return named || node->n_out == 0 || node->out[0] == NULL ? node->name : node->out[0]->name;
}

const pl_node *pl_random_source(const pl_value *value) {
    enum { NEARBY = 256 };
    const pl_node *queue[NEARBY];
    size_t n = 0;
    if (value->producer != NULL) queue[n++] = value->producer;
    for (size_t at = 0; at < n; at++) {
        if (pl_node_is_random(queue[at])) return queue[at];
        for (uint32_t i = 0; i < queue[at]->n_in && n < NEARBY; i++)
            if (queue[at]->in[i] != NULL && queue[at]->in[i]->producer != NULL)
                queue[n++] = queue[at]->in[i]->producer;
    }
    return NULL;
}

typedef struct node_search {
    bool (*matches)(const pl_node *node, unsigned flag);
    unsigned flag;
    bool found;
} node_search;

static pl_status search_graph(void *ctx, pl_graph *graph, pl_err *err) {
    node_search *search = ctx;
    for (size_t i = 0; i < graph->n_nodes && !search->found; i++) {
        search->found = search->matches(graph->nodes[i], search->flag);
        PL_TRY(pl_node_each_body(graph->nodes[i], search_graph, ctx, err));
    }
    return PL_OK;
}

static bool matches_random(const pl_node *node, unsigned flag) {
    (void)flag;
    return pl_node_is_random(node);
}

static const pl_op_def *row_of(const pl_node *node) {
    if (node == NULL || node->def != NULL) return node == NULL ? NULL : node->def;
    return pl_op_find(node->domain, node->op, node->opset);
}

bool pl_node_has_flag(const pl_node *node, unsigned flag) {
    const pl_op_def *row = row_of(node);
    return row != NULL && (row->flags & flag) != 0;
}

bool pl_node_rounds_input(const pl_node *node) {
    return pl_node_has_flag(node, PL_OP_LEVELS) && pl_attr_int(node, "accuracy_level") == 4;
}

pl_bodies pl_node_bodies(const pl_node *node) {
    const pl_op_def *row = row_of(node);
    return row == NULL ? PL_BODIES_NONE : row->bodies;
}

static bool matches_flag(const pl_node *node, unsigned flag) {
    return node->def != NULL && (node->def->flags & flag) != 0;
}

bool pl_model_is_random(const pl_model *model) {
    node_search search = { matches_random, 0, false };
    (void)search_graph(&search, model->graph, NULL);
    return search.found;
}

bool pl_model_has_flag(const pl_model *model, unsigned flag) {
    node_search search = { matches_flag, flag, false };
    (void)search_graph(&search, model->graph, NULL);
    return search.found;
}

/* ---- placeholders for missing rules ---- */

pl_status pl_grad_todo(pl_grad *c) {
    (void)c;
    return PL_E_UNSUPPORTED;
}
pl_status pl_grad_zero(pl_grad *c) {
    (void)c;
    return PL_OK;
}
pl_status pl_grad_undefined(pl_grad *c) {
    (void)c;
    return PL_E_UNSUPPORTED;
}
pl_status pl_emit_todo(pl_emit *c) {
    (void)c;
    return PL_E_UNSUPPORTED;
}
pl_status pl_emit_never(pl_emit *c) {
    (void)c;
    return PL_E_UNSUPPORTED;
}

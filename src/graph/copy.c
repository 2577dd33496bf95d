/* Deep copies of models, graphs and nodes; tensors are shared. */
#include <string.h>

#include "base/alloc.h"
#include "graph/copy_int.h"
#include "graph/edit.h"

pl_status pl_copy_text(pl_copier *c, const char *s, const char **out) {
    *out = s == NULL || s[0] == '\0' ? "" : pl_arena_strdup(c->to->arena, s);
    return *out == NULL ? pl_fail_memory(c->err, strlen(s)) : PL_OK;
}

static pl_status copy_word(pl_copier *c, const char *s, const char **out) {
    *out = pl_model_intern(c->to, s, strlen(s));
    return *out == NULL ? pl_fail_memory(c->err, strlen(s)) : PL_OK;
}

static void *copy_array(pl_copier *c, const void *from, size_t count, size_t size) {
    void *to = pl_arena_array(c->to->arena, count, size);
    if (to != NULL && count > 0) memcpy(to, from, count * size);
    return to;
}

static pl_status copy_bytes(pl_copier *c, pl_string from, pl_string *out) {
    char *data = pl_arena_strndup(c->to->arena, from.n_bytes == 0 ? "" : from.data, from.n_bytes);
    if (data == NULL) return pl_fail_memory(c->err, from.n_bytes);
    *out = (pl_string){ data, from.n_bytes };
    return PL_OK;
}

static pl_status copy_props(pl_copier *c, const pl_prop *from, size_t n, const pl_prop **out) {
    pl_prop *props = pl_arena_array(c->to->arena, n, sizeof *props);
    if (props == NULL) return pl_fail_memory(c->err, n * sizeof *props);
    for (size_t i = 0; i < n; i++) {
        PL_TRY(copy_word(c, from[i].key, &props[i].key));
        PL_TRY(pl_copy_text(c, from[i].value, &props[i].value));
    }
    *out = props;
    return PL_OK;
}

static pl_status copy_type(pl_copier *c, const pl_type *from, const pl_type **out) {
    *out = NULL;
    if (from == NULL) return PL_OK;
    pl_type *type = copy_array(c, from, 1, sizeof *type);
    const size_t rank = from->has_rank ? (size_t)from->rank : 0;
    pl_dim *dims = copy_array(c, from->dims, rank, sizeof *dims);
    if (type == NULL || dims == NULL) return pl_fail_memory(c->err, sizeof *type);
    for (size_t i = 0; i < rank; i++) {
        if (dims[i].name != NULL) PL_TRY(copy_word(c, dims[i].name, &dims[i].name));
    }
    type->dims = dims;
    *out = type;
    return copy_type(c, from->elem, &type->elem);
}

/* ---- values and nodes ---- */

pl_status pl_copy_value(pl_copier *c, const pl_value *from, pl_graph *to) {
    pl_value *value = NULL;
    PL_TRY(pl_graph_add_value(to, from->name, &value, c->err));
    PL_TRY(copy_type(c, from->type, &value->type));
    PL_TRY(pl_copy_text(c, from->doc, &value->doc));
    c->values[from->id] = value;
    return PL_OK;
}

pl_status pl_copy_init(pl_copier *c, const pl_value *from) {
    if (from->init == NULL) return PL_OK;
    return pl_value_set_init(c->values[from->id], from->init, c->err);
}

static pl_status copy_tensor(pl_copier *c, pl_tensor *from, pl_tensor **out) {
    *out = pl_tensor_ref(from);
    return pl_model_keep_tensor_take(c->to, *out, c->err);
}

static pl_status copy_content(pl_copier *c, const pl_graph *from, pl_graph *to);

static pl_status copy_body(pl_copier *c, const pl_graph *from, pl_node *owner, pl_graph **out) {
    if (c->depth > PL_GRAPH_DEPTH_MAX)
        return pl_fail(c->err, PL_E_LIMIT, "graph '%s': bodies are nested deeper than %d",
                       from->name, PL_GRAPH_DEPTH_MAX);
    PL_TRY(pl_graph_new(c->to, owner->graph, from->name, out, c->err));
    (*out)->owner = owner;
    c->depth++;
    const pl_status st = copy_content(c, from, *out);
    c->depth--;
    return st;
}

static pl_status copy_list(pl_copier *c, const pl_attr *from, pl_node *owner, pl_attr *to) {
    const size_t n = from->n;
    pl_string *strings;
    switch (from->type) {
    case PL_ATTR_FLOATS: to->floats = copy_array(c, from->floats, n, sizeof(float)); break;
    case PL_ATTR_INTS: to->ints = copy_array(c, from->ints, n, sizeof(int64_t)); break;
    case PL_ATTR_STRINGS:
        to->strings = strings = pl_arena_array(c->to->arena, n, sizeof *strings);
        for (size_t i = 0; strings != NULL && i < n; i++)
            PL_TRY(copy_bytes(c, from->strings[i], &strings[i]));
        break;
    case PL_ATTR_TENSORS:
        to->tensors = pl_arena_array(c->to->arena, n, sizeof(pl_tensor *));
        for (size_t i = 0; to->tensors != NULL && i < n; i++)
            PL_TRY(copy_tensor(c, from->tensors[i], &to->tensors[i]));
        break;
    case PL_ATTR_GRAPHS:
        to->graphs = pl_arena_array(c->to->arena, n, sizeof(pl_graph *));
        for (size_t i = 0; to->graphs != NULL && i < n; i++)
            PL_TRY(copy_body(c, from->graphs[i], owner, &to->graphs[i]));
        break;
    default: return PL_OK;
    }
    const bool ok = to->floats != NULL || to->ints != NULL || to->strings != NULL ||
                    to->tensors != NULL || to->graphs != NULL;
    return ok ? PL_OK : pl_fail_memory(c->err, n);
}

static pl_status copy_attr(pl_copier *c, const pl_attr *from, pl_node *owner, pl_attr *to) {
    *to = (pl_attr){ .type = from->type, .f = from->f, .i = from->i, .n = from->n };
    PL_TRY(copy_word(c, from->name, &to->name));
    switch (from->type) {
    case PL_ATTR_STRING: return copy_bytes(c, from->s, &to->s);
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: return copy_tensor(c, from->tensor, &to->tensor);
    case PL_ATTR_GRAPH: return copy_body(c, from->graph, owner, &to->graph);
    case PL_ATTR_TYPE_PROTO: return copy_type(c, from->type_proto, &to->type_proto);
    default: return copy_list(c, from, owner, to);
    }
}

static pl_status copy_node_words(pl_copier *c, const pl_node *from, pl_node *to) {
    PL_TRY(pl_copy_text(c, from->name, &to->name));
    PL_TRY(pl_copy_text(c, from->doc, &to->doc));
    PL_TRY(pl_copy_text(c, from->overload, &to->overload));
    if (from->function != NULL) PL_TRY(copy_word(c, from->function, &to->function));
    PL_TRY(copy_props(c, from->props, from->n_props, &to->props));
    to->n_props = from->n_props;
    to->opset = from->opset;
    to->def = from->def;
    return PL_OK;
}

pl_status pl_copy_node(pl_copier *c, const pl_node *from, pl_graph *to) {
    pl_node *node = NULL;
    PL_TRY(pl_graph_add_node(to, from->op, from->domain, from->n_in, from->n_out, &node, c->err));
    PL_TRY(copy_node_words(c, from, node));
    for (uint32_t i = 0; i < from->n_in; i++) {
        if (from->in[i] == NULL) continue;
        node->in[i] = c->values[from->in[i]->id];
        if (node->in[i] == NULL)
            return pl_fail(c->err, PL_E_INTERNAL, "value '%s' was not copied", from->in[i]->name);
    }
    for (uint32_t i = 0; i < from->n_out; i++) {
        if (from->out[i] != NULL) pl_node_set_output(node, i, c->values[from->out[i]->id]);
    }
    node->attrs = pl_arena_array(c->to->arena, from->n_attrs, sizeof(pl_attr));
    if (node->attrs == NULL) return pl_fail_memory(c->err, from->n_attrs * sizeof(pl_attr));
    for (uint32_t i = 0; i < from->n_attrs; i++) {
        PL_TRY(copy_attr(c, &from->attrs[i], node, &node->attrs[i]));
        node->n_attrs = i + 1;
    }
    return PL_OK;
}

/* Everything inside: values, nodes, bodies. */
static pl_status copy_content(pl_copier *c, const pl_graph *from, pl_graph *to) {
    PL_TRY(pl_copy_text(c, from->doc, &to->doc));
    PL_TRY(copy_props(c, from->props, from->n_props, &to->props));
    to->n_props = from->n_props;
    for (size_t i = 0; i < from->n_values; i++) {
        PL_TRY(pl_copy_value(c, from->values[i], to));
        PL_TRY(pl_copy_init(c, from->values[i]));
    }
    for (size_t i = 0; i < from->n_inputs; i++)
        PL_TRY(pl_graph_add_input(to, c->values[from->inputs[i]->id], c->err));
    for (size_t i = 0; i < from->n_nodes; i++)
        PL_TRY(pl_copy_node(c, from->nodes[i], to));
    for (size_t i = 0; i < from->n_outputs; i++)
        PL_TRY(pl_graph_add_output(to, c->values[from->outputs[i]->id], c->err));
    return PL_OK;
}

/* ---- within one model ---- */

/* Values outside the copied nodes are shared, not copied. */
static pl_status keep_outside(void *ctx, pl_graph *body, pl_err *err) {
    pl_copier *c = ctx;
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            pl_value *value = node->in[k];
            if (value != NULL && c->values[value->id] == NULL) c->values[value->id] = value;
        }
        PL_TRY(pl_node_each_body(node, keep_outside, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++) {
        pl_value *value = body->outputs[i];
        if (c->values[value->id] == NULL) c->values[value->id] = value;
    }
    return PL_OK;
}

static pl_status copy_renamed(pl_copier *c, const pl_value *from, const char *prefix,
                              pl_graph *to) {
    const char *name = pl_arena_printf(c->to->arena, "%s/%s", prefix, from->name);
    if (name == NULL) return pl_fail_memory(c->err, strlen(prefix));
    PL_TRY(pl_graph_add_fresh_value(to, name, &c->values[from->id], c->err));
    c->values[from->id]->type = from->type;
    return pl_copy_init(c, from);
}

pl_status pl_graph_copy_into(const pl_graph *from, pl_graph *to, const char *prefix, pl_value **map,
                             pl_err *err) {
    pl_copier c = { .to = to->model, .values = map, .err = err };
    /* Copies may be appended to the same lists that are read. */
    const size_t n_nodes = from->n_nodes, n_values = from->n_values;
    for (size_t i = 0; i < n_values; i++) {
        if (map[from->values[i]->id] == NULL) PL_TRY(copy_renamed(&c, from->values[i], prefix, to));
    }
    for (size_t i = 0; i < n_nodes; i++) {
        const pl_node *node = from->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            pl_value *value = node->in[k];
            if (value != NULL && map[value->id] == NULL) map[value->id] = value;
        }
        PL_TRY(pl_node_each_body(node, keep_outside, &c, err));
        PL_TRY(pl_copy_node(&c, node, to));
    }
    for (size_t i = 0; i < from->n_outputs; i++) {
        pl_value *value = from->outputs[i];
        if (map[value->id] == NULL) map[value->id] = value;
    }
    return PL_OK;
}

/* ---- models ---- */

static pl_status copy_functions(pl_copier *c, const pl_model *from) {
    pl_function *functions = pl_arena_array(c->to->arena, from->n_functions, sizeof *functions);
    if (functions == NULL) return pl_fail_memory(c->err, from->n_functions * sizeof *functions);
    for (size_t i = 0; i < from->n_functions; i++) {
        const pl_function *f = &from->functions[i];
        PL_TRY(copy_word(c, f->domain, &functions[i].domain));
        PL_TRY(copy_word(c, f->name, &functions[i].name));
        PL_TRY(copy_word(c, f->overload, &functions[i].overload));
        const uint8_t *data = copy_array(c, f->bytes.data, f->bytes.n_bytes, 1);
        if (data == NULL) return pl_fail_memory(c->err, f->bytes.n_bytes);
        functions[i].bytes = (pl_bytes){ data, f->bytes.n_bytes };
    }
    c->to->functions = functions;
    c->to->n_functions = from->n_functions;
    return PL_OK;
}

static pl_status copy_header(pl_copier *c, const pl_model *from) {
    pl_model *to = c->to;
    to->ir_version = from->ir_version;
    to->model_version = from->model_version;
    PL_TRY(pl_copy_text(c, from->path, &to->path));
    PL_TRY(pl_copy_text(c, from->producer_name, &to->producer_name));
    PL_TRY(pl_copy_text(c, from->producer_version, &to->producer_version));
    PL_TRY(pl_copy_text(c, from->domain, &to->domain));
    PL_TRY(pl_copy_text(c, from->doc, &to->doc));
    for (size_t i = 0; i < from->n_opsets; i++)
        PL_TRY(pl_model_set_opset(to, from->opsets[i].domain, from->opsets[i].version, c->err));
    PL_TRY(copy_props(c, from->props, from->n_props, &to->props));
    to->n_props = from->n_props;
    PL_TRY(copy_word(c, from->graph->name, &to->graph->name));
    return copy_functions(c, from);
}

pl_status pl_copier_init(pl_copier *c, const pl_model *from, pl_err *err) {
    *c = (pl_copier){ .err = err };
    PL_TRY(pl_model_new(&c->to, err));
    c->values = pl_calloc((size_t)from->n_values + 1, sizeof(pl_value *));
    if (c->values == NULL) return pl_fail_memory(err, from->n_values * sizeof(pl_value *));
    return copy_header(c, from);
}

void pl_copier_release(pl_copier *c) {
    pl_free(c->values);
    pl_model_free(c->to);
    *c = (pl_copier){ 0 };
}

pl_status pl_model_copy(const pl_model *model, pl_model **out, pl_err *err) {
    pl_copier c;
    pl_status st = pl_copier_init(&c, model, err);
    if (st == PL_OK) st = copy_content(&c, model->graph, c.to->graph);
    if (st == PL_OK) {
        *out = c.to;
        c.to = NULL;
    }
    pl_copier_release(&c);
    return st;
}

/* Building and querying the IR. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"

bool pl_domain_is_onnx(const char *domain) {
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static void map_release(void *map) {
    pl_strmap_release(map);
}

static void tensor_release(void *tensor) {
    pl_tensor_unref(tensor);
}

pl_status pl_model_new(pl_model **out, pl_err *err) {
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, sizeof(pl_model));
    pl_model *model = pl_arena_alloc(arena, sizeof(*model));
    if (model == NULL || pl_arena_defer(arena, map_release, &model->strings) != 0) {
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof(*model));
    }
    model->arena = arena;
    model->path = model->producer_name = model->producer_version = model->domain = model->doc = "";
    const pl_status st = pl_graph_new(model, NULL, "", &model->graph, err);
    if (st != PL_OK) {
        pl_model_free(model);
        return st;
    }
    *out = model;
    return PL_OK;
}

void pl_model_free(pl_model *model) {
    if (model != NULL) pl_arena_free(model->arena);
}

int pl_model_opset(const pl_model *model, const char *domain) {
    if (pl_domain_is_onnx(domain)) domain = "";
    for (size_t i = 0; i < model->n_opsets; i++) {
        if (strcmp(model->opsets[i].domain, domain) == 0) return model->opsets[i].version;
    }
    return 0;
}

pl_status pl_model_set_opset(pl_model *model, const char *domain, int version, pl_err *err) {
    if (pl_domain_is_onnx(domain)) domain = "";
    for (size_t i = 0; i < model->n_opsets; i++) {
        if (strcmp(model->opsets[i].domain, domain) != 0) continue;
        model->opsets[i].version = version;
        return PL_OK;
    }
    if (model->n_opsets == PL_MODEL_OPSETS_MAX)
        return pl_fail(err, PL_E_LIMIT,
                       "opset_import of '%.200s': at most %d domains are supported", domain,
                       PL_MODEL_OPSETS_MAX);
    pl_opset *grown = pl_arena_array(model->arena, model->n_opsets + 1, sizeof(*grown));
    const char *kept = pl_model_intern(model, domain, strlen(domain));
    if (grown == NULL || kept == NULL) return pl_fail_memory(err, sizeof(*grown));
    if (model->n_opsets > 0) {
        memcpy(grown, model->opsets, model->n_opsets * sizeof(*grown));
    }
    grown[model->n_opsets] = (pl_opset){ kept, version };
    model->opsets = grown;
    model->n_opsets++;
    return PL_OK;
}

const char *pl_model_intern(pl_model *model, const char *s, size_t n) {
    const char *found = pl_strmap_get_n(&model->strings, s, n);
    if (found != NULL) return found;
    char *copy = pl_arena_strndup(model->arena, s, n);
    if (copy == NULL || pl_strmap_put_n(&model->strings, copy, n, copy) != 0) return NULL;
    return copy;
}

pl_status pl_graph_new(pl_model *model, pl_graph *parent, const char *name, pl_graph **out,
                       pl_err *err) {
    pl_graph *graph = pl_arena_alloc(model->arena, sizeof(*graph));
    if (graph == NULL || pl_arena_defer(model->arena, map_release, &graph->by_name) != 0) {
        return pl_fail_memory(err, sizeof(*graph));
    }
    graph->model = model;
    graph->parent = parent;
    graph->name = pl_model_intern(model, name, strlen(name));
    graph->doc = "";
    if (graph->name == NULL) return pl_fail_memory(err, strlen(name));
    graph->id = model->n_graphs++;
    *out = graph;
    return PL_OK;
}

#define APPEND(graph, field, item, err)                                                            \
    do {                                                                                           \
        if (!PL_ARENA_ROOM((graph)->model->arena, (graph)->field, (graph)->n_##field,              \
                           &(graph)->field##_capacity))                                            \
            return pl_fail_memory(err, sizeof(void *));                                            \
        (graph)->field[(graph)->n_##field++] = (item);                                             \
    } while (0)

pl_status pl_graph_add_value(pl_graph *graph, const char *name, pl_value **out, pl_err *err) {
    return pl_graph_add_value_n(graph, name, strlen(name), out, err);
}

pl_status pl_graph_add_value_n(pl_graph *graph, const char *name, size_t n_name, pl_value **out,
                               pl_err *err) {
    const int n_shown = (int)pl_size_min(n_name, 200);
    if (n_name > 0 && memchr(name, '\0', n_name) != NULL) {
        return pl_fail(err, PL_E_FORMAT, "graph '%s': value name '%.*s' contains a NUL byte",
                       graph->name, n_shown, name);
    }
    if (pl_strmap_get_n(&graph->by_name, name, n_name) != NULL) {
        return pl_fail(err, PL_E_INVALID, "graph '%s': value '%.*s' is defined twice", graph->name,
                       n_shown, name);
    }
    pl_model *model = graph->model;
    if (model->n_values == UINT32_MAX) {
        return pl_fail(err, PL_E_LIMIT, "graph '%s': more than 2^32 values", graph->name);
    }
    pl_value *value = pl_arena_alloc(model->arena, sizeof(*value));
    const char *kept = pl_arena_strndup(model->arena, name, n_name);
    if (value == NULL || kept == NULL) return pl_fail_memory(err, sizeof(*value));
    value->name = kept;
    value->graph = graph;
    value->doc = "";
    APPEND(graph, values, value, err);
    if (pl_strmap_put_n(&graph->by_name, kept, n_name, value) != 0) {
        graph->n_values--;
        return pl_fail_memory(err, sizeof(*value));
    }
    value->id = model->n_values++;
    *out = value;
    return PL_OK;
}

/* Writes base_k to `name` and returns whether the name is taken. */
static bool number_is_taken(const pl_graph *graph, const char *base, size_t k, char *name,
                            size_t n) {
    snprintf(name, n, "%s_%zu", base, k);
    return pl_graph_find_in_scope(graph, name) != NULL;
}

pl_status pl_graph_add_fresh_value(pl_graph *graph, const char *base, pl_value **out, pl_err *err) {
    if (base[0] == '\0') base = "value";
    if (pl_graph_find_in_scope(graph, base) == NULL) {
        return pl_graph_add_value(graph, base, out, err);
    }
    const size_t n = strlen(base) + 24;
    char *name = pl_malloc(n);
    if (name == NULL) return pl_fail_memory(err, n);
    /* Numbers are used in order: double until one is free, then bisect. A pass may ask for
     * thousands of names with the same base. */
    size_t low = 0, high = 1;
    while (number_is_taken(graph, base, high, name, n)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (number_is_taken(graph, base, middle, name, n)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (void)number_is_taken(graph, base, high, name, n);
    const pl_status st = pl_graph_add_value(graph, name, out, err);
    pl_free(name);
    return st;
}

pl_status pl_graph_add_input(pl_graph *graph, pl_value *value, pl_err *err) {
    APPEND(graph, inputs, value, err);
    value->is_input = true;
    return PL_OK;
}

pl_status pl_graph_add_output(pl_graph *graph, pl_value *value, pl_err *err) {
    APPEND(graph, outputs, value, err);
    value->is_output = true;
    return PL_OK;
}

pl_status pl_graph_add_node(pl_graph *graph, const char *op, const char *domain, size_t n_in,
                            size_t n_out, pl_node **out, pl_err *err) {
    pl_model *model = graph->model;
    if (pl_domain_is_onnx(domain)) domain = "";
    if (n_in > UINT32_MAX || n_out > UINT32_MAX || graph->n_nodes >= UINT32_MAX) {
        return pl_fail(err, PL_E_LIMIT, "graph '%s': too many nodes or edges", graph->name);
    }
    pl_node *node = pl_arena_alloc(model->arena, sizeof(*node));
    pl_value **in = pl_arena_array(model->arena, n_in, sizeof(pl_value *));
    pl_value **outputs = pl_arena_array(model->arena, n_out, sizeof(pl_value *));
    const char *op_kept = pl_model_intern(model, op, strlen(op));
    const char *domain_kept = pl_model_intern(model, domain, strlen(domain));
    if (node == NULL || in == NULL || outputs == NULL || op_kept == NULL || domain_kept == NULL) {
        return pl_fail_memory(err, sizeof(*node));
    }
    *node = (pl_node){ .op = op_kept,
                       .domain = domain_kept,
                       .name = "",
                       .doc = "",
                       .overload = "",
                       .in = in,
                       .out = outputs,
                       .n_in = (uint32_t)n_in,
                       .n_out = (uint32_t)n_out,
                       .opset = pl_model_opset(model, domain_kept),
                       .index = (uint32_t)graph->n_nodes,
                       .graph = graph };
    APPEND(graph, nodes, node, err);
    *out = node;
    return PL_OK;
}

void pl_node_set_output(pl_node *node, uint32_t slot, pl_value *value) {
    node->out[slot] = value;
    if (value == NULL) return;
    value->producer = node;
    value->producer_slot = slot;
}

pl_status pl_model_keep_tensor_take(pl_model *model, pl_tensor *t, pl_err *err) {
    if (pl_arena_defer(model->arena, tensor_release, t) == 0) return PL_OK;
    pl_tensor_unref(t);
    return pl_fail_memory(err, sizeof(*t));
}

pl_status pl_value_set_init(pl_value *value, pl_tensor *tensor, pl_err *err) {
    PL_TRY(pl_model_keep_tensor_take(value->graph->model, pl_tensor_ref(tensor), err));
    value->init = tensor;
    if (value->type != NULL) return PL_OK; /* otherwise derive it: inference rules read it */
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < tensor->rank; i++)
        dims[i] = pl_dim_of(tensor->dims[i]);
    value->type = pl_type_tensor(value->graph->model->arena, tensor->dtype, tensor->rank, dims);
    return value->type == NULL ? pl_fail_memory(err, sizeof(pl_type)) : PL_OK;
}

pl_attr *pl_node_add_attr(pl_node *node, const char *name, pl_attr_type type) {
    pl_model *model = node->graph->model;
    pl_attr *grown = pl_arena_array(model->arena, (size_t)node->n_attrs + 1, sizeof(*grown));
    const char *kept = pl_model_intern(model, name, strlen(name));
    if (grown == NULL || kept == NULL) return NULL;
    if (node->n_attrs > 0) memcpy(grown, node->attrs, node->n_attrs * sizeof(*grown));
    node->attrs = grown;
    pl_attr *attr = &grown[node->n_attrs++];
    attr->name = kept;
    attr->type = type;
    return attr;
}

pl_value *pl_graph_find(const pl_graph *graph, const char *name) {
    return pl_strmap_get(&graph->by_name, name);
}

pl_value *pl_graph_find_in_scope(const pl_graph *graph, const char *name) {
    for (; graph != NULL; graph = graph->parent) {
        pl_value *value = pl_graph_find(graph, name);
        if (value != NULL) return value;
    }
    return NULL;
}

const pl_attr *pl_node_attr(const pl_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
    }
    return NULL;
}

const char *pl_node_describe(const pl_node *node, char *out, size_t n_out) {
    const char *produces = "nothing";
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        produces = node->out[i]->name;
        break;
    }
    const bool named = node->name[0] != '\0';
    const bool foreign = node->domain[0] != '\0';
    snprintf(out, n_out, "node %s%.200s%s(%.100s%s%.100s-%d) that produces '%.200s'",
             named ? "'" : "", node->name, named ? "' " : "", node->domain, foreign ? "." : "",
             node->op, node->opset, produces);
    return out;
}

bool pl_node_has_body(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].type == PL_ATTR_GRAPH || node->attrs[i].type == PL_ATTR_GRAPHS)
            return true;
    return false;
}

pl_status pl_node_each_body(const pl_node *node, pl_body_fn fn, void *ctx, pl_err *err) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *attr = &node->attrs[i];
        if (attr->type == PL_ATTR_GRAPH && attr->graph != NULL) {
            PL_TRY(fn(ctx, attr->graph, err));
        }
        if (attr->type != PL_ATTR_GRAPHS) continue;
        for (size_t k = 0; k < attr->n; k++)
            PL_TRY(fn(ctx, attr->graphs[k], err));
    }
    return PL_OK;
}

static pl_status count_body(void *ctx, pl_graph *body, pl_err *err) {
    size_t *count = ctx;
    *count += body->n_nodes;
    for (size_t i = 0; i < body->n_nodes; i++) {
        PL_TRY(pl_node_each_body(body->nodes[i], count_body, ctx, err));
    }
    return PL_OK;
}

size_t pl_model_count_nodes(const pl_model *model) {
    size_t count = 0;
    (void)count_body(&count, model->graph, NULL);
    return count;
}

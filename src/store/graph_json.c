/* A graph as JSON: weights and tensors by type, shape and hash only. */
#include "store/graph_json.h"

#include "base/json.h"
#include "store/blob.h"

/* Each body takes five levels of JSON, and JSON readers limit nesting. */
enum { BODY_DEPTH_MAX = 10 };

typedef struct printer {
    pl_json json;
    pl_arena *arena; /* of origins */
    pl_err *err;
} printer;

static pl_status put_graph(printer *p, const pl_graph *graph, int depth);

static pl_status put_tensor(printer *p, const pl_tensor *t) {
    pl_json *j = &p->json;
    pl_dense dense;
    char hex[PL_HASH128_HEX];
    PL_TRY(pl_dense_init(&dense, t, p->err));
    pl_hash128_hex(pl_dense_blob(&dense, t->dtype).hash, hex);
    pl_dense_release(&dense);
    pl_json_put_string(j, "dtype", pl_dtype_name(t->dtype));
    pl_json_put_ints(j, "shape", t->dims, (size_t)t->rank);
    pl_json_put_string(j, "hash", hex);
    return PL_OK;
}

static pl_status put_tensor_object(printer *p, const pl_tensor *t) {
    pl_json_object_begin(&p->json);
    PL_TRY(put_tensor(p, t));
    pl_json_object_end(&p->json);
    return PL_OK;
}

static void put_type(printer *p, const pl_type *type) {
    pl_buf text = PL_BUF_INIT;
    if (type == NULL || type->kind == PL_TYPE_NONE) return;
    pl_type_print(&text, type);
    if (!pl_buf_ok(&text)) p->json.buf->failed = true;
    pl_json_put_string(&p->json, "type", pl_buf_str(&text));
    pl_buf_release(&text);
}

static pl_status put_list(printer *p, const pl_attr *a, int depth) {
    pl_json *j = &p->json;
    pl_json_array_begin(j);
    for (size_t i = 0; i < a->n; i++) {
        if (a->type == PL_ATTR_FLOATS) {
            pl_json_double(j, (double)a->floats[i]);
        } else if (a->type == PL_ATTR_INTS) {
            pl_json_int(j, a->ints[i]);
        } else if (a->type == PL_ATTR_STRINGS) {
            pl_json_string_n(j, a->strings[i].data, a->strings[i].n_bytes);
        } else if (a->type == PL_ATTR_TENSORS) {
            PL_TRY(put_tensor_object(p, a->tensors[i]));
        } else if (a->type == PL_ATTR_GRAPHS) {
            PL_TRY(put_graph(p, a->graphs[i], depth + 1));
        }
    }
    pl_json_array_end(j);
    return PL_OK;
}

/* The key gives the type, like the fields of AttributeProto. */
static pl_status put_attr(printer *p, const pl_attr *a, int depth) {
    static const struct {
        pl_attr_type type;
        const char *key;
    } lists[] = { { PL_ATTR_FLOATS, "floats" },
                  { PL_ATTR_INTS, "ints" },
                  { PL_ATTR_STRINGS, "strings" },
                  { PL_ATTR_TENSORS, "tensors" },
                  { PL_ATTR_GRAPHS, "graphs" } };
    pl_json *j = &p->json;
    pl_json_key(j, a->name);
    pl_json_object_begin(j);
    if (a->type == PL_ATTR_FLOAT) pl_json_put_double(j, "f", (double)a->f);
    if (a->type == PL_ATTR_INT) pl_json_put_int(j, "i", a->i);
    if (a->type == PL_ATTR_STRING) {
        pl_json_key(j, "s");
        pl_json_string_n(j, a->s.data, a->s.n_bytes);
    }
    if (a->type == PL_ATTR_TENSOR || a->type == PL_ATTR_SPARSE_TENSOR) {
        pl_json_key(j, "t");
        PL_TRY(put_tensor_object(p, a->tensor));
    }
    if (a->type == PL_ATTR_GRAPH) {
        pl_json_key(j, "g");
        PL_TRY(put_graph(p, a->graph, depth + 1));
    }
    if (a->type == PL_ATTR_TYPE_PROTO) put_type(p, a->type_proto);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (a->type != lists[i].type) continue;
        pl_json_key(j, lists[i].key);
        PL_TRY(put_list(p, a, depth));
    }
    pl_json_object_end(j);
    return PL_OK;
}

static void put_edges(pl_json *j, const char *key, pl_value *const *values, size_t n) {
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++)
        pl_json_string(j, values[i] == NULL ? NULL : values[i]->name);
    pl_json_array_end(j);
}

static pl_status put_node(printer *p, const pl_node *node, int depth) {
    pl_json *j = &p->json;
    pl_origin origin;
    PL_TRY(pl_node_origin(node, p->arena, &origin, p->err));
    pl_json_object_begin(j);
    pl_json_put_string(j, "op", node->op);
    if (*node->domain != '\0') pl_json_put_string(j, "domain", node->domain);
    if (*node->name != '\0') pl_json_put_string(j, "name", node->name);
    if (*origin.module != '\0') pl_json_put_string(j, "module", origin.module);
    if (*origin.file != '\0') {
        pl_json_put_string(j, "file", origin.file);
        pl_json_put_int(j, "line", origin.line);
    }
    put_edges(j, "in", node->in, node->n_in);
    put_edges(j, "out", node->out, node->n_out);
    if (node->n_attrs > 0) {
        pl_json_key(j, "attrs");
        pl_json_object_begin(j);
        for (uint32_t i = 0; i < node->n_attrs; i++)
            PL_TRY(put_attr(p, &node->attrs[i], depth));
        pl_json_object_end(j);
    }
    pl_json_object_end(j);
    pl_arena_reset(p->arena);
    return PL_OK;
}

static pl_status put_weights(printer *p, const pl_graph *graph) {
    pl_json *j = &p->json;
    pl_json_key(j, "weights");
    pl_json_array_begin(j);
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        if (v->init == NULL) continue;
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", v->name);
        PL_TRY(put_tensor(p, v->init));
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    return PL_OK;
}

static void put_inputs(printer *p, const pl_graph *graph) {
    pl_json *j = &p->json;
    pl_json_key(j, "inputs");
    pl_json_array_begin(j);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", graph->inputs[i]->name);
        put_type(p, graph->inputs[i]->type);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static pl_status put_graph(printer *p, const pl_graph *graph, int depth) {
    pl_json *j = &p->json;
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", graph->name);
    if (depth > BODY_DEPTH_MAX) {
        pl_json_put_bool(j, "left_out", true);
        pl_json_object_end(j);
        return PL_OK;
    }
    if (depth == 0) {
        pl_json_key(j, "opsets");
        pl_json_object_begin(j);
        for (size_t i = 0; i < graph->model->n_opsets; i++)
            pl_json_put_int(j, graph->model->opsets[i].domain, graph->model->opsets[i].version);
        pl_json_object_end(j);
    }
    put_inputs(p, graph);
    put_edges(j, "outputs", graph->outputs, graph->n_outputs);
    PL_TRY(put_weights(p, graph));
    pl_json_key(j, "nodes");
    pl_json_array_begin(j);
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(put_node(p, graph->nodes[i], depth));
    pl_json_array_end(j);
    pl_json_object_end(j);
    return PL_OK;
}

pl_status pl_graph_json(const pl_model *model, pl_buf *out, pl_err *err) {
    printer p = { .arena = pl_arena_new(), .err = err };
    if (p.arena == NULL) return pl_fail_memory(err, 1);
    pl_json_init(&p.json, out, false);
    pl_status st = put_graph(&p, model->graph, 0);
    if (st == PL_OK && !pl_buf_ok(out)) st = pl_fail_memory(err, out->n_bytes);
    pl_arena_free(p.arena);
    return st;
}

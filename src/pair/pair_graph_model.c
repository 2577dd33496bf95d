/* The graph that the layers walk, from a model. */
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"
#include "store/blob.h"

typedef struct builder {
    pl_pair_graph *g;
    pl_arena *scratch; /* for origins */
    pl_err *err;
} builder;

static pl_status put_graph(builder *b, const pl_graph *graph, const char *path);

static pl_status describe(const pl_tensor *t, pl_pg_const *out, pl_err *err) {
    pl_dense dense;
    PL_TRY(pl_dense_init(&dense, t, err));
    *out = (pl_pg_const){ .dtype = t->dtype, .rank = t->rank };
    out->hash = pl_dense_blob(&dense, t->dtype).hash;
    memcpy(out->dims, t->dims, (size_t)t->rank * sizeof *t->dims);
    pl_dense_release(&dense);
    return PL_OK;
}

/* ---- attributes: a hash of each, summed, so that their order does not matter ---- */

static void put_u64(pl_buf *buf, uint64_t x) {
    pl_buf_append(buf, &x, sizeof x);
}

static void put_text(pl_buf *buf, const char *s, size_t n) {
    put_u64(buf, n);
    pl_buf_append(buf, s, n);
}

static pl_status put_tensor(pl_buf *buf, const pl_tensor *t, pl_err *err) {
    pl_pg_const c;
    PL_TRY(describe(t, &c, err));
    put_u64(buf, pl_pair_hash_const(&c));
    return PL_OK;
}

static pl_status put_attr(pl_buf *buf, const pl_attr *a, pl_err *err) {
    put_text(buf, a->name, strlen(a->name));
    put_u64(buf, a->type == PL_ATTR_SPARSE_TENSOR ? PL_ATTR_TENSOR : (uint64_t)a->type);
    switch (a->type) {
    case PL_ATTR_FLOAT: pl_buf_append(buf, &a->f, sizeof a->f); break;
    case PL_ATTR_INT: put_u64(buf, (uint64_t)a->i); break;
    case PL_ATTR_STRING: put_text(buf, a->s.data, a->s.n_bytes); break;
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: return put_tensor(buf, a->tensor, err);
    case PL_ATTR_TYPE_PROTO: {
        pl_buf text = PL_BUF_INIT;
        pl_type_print(&text, a->type_proto);
        if (!pl_buf_ok(&text)) buf->failed = true;
        put_text(buf, pl_buf_str(&text), text.n_bytes);
        pl_buf_release(&text);
        break;
    }
    default: break;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (a->type == PL_ATTR_FLOATS) pl_buf_append(buf, &a->floats[i], sizeof(float));
        if (a->type == PL_ATTR_INTS) put_u64(buf, (uint64_t)a->ints[i]);
        if (a->type == PL_ATTR_STRINGS) put_text(buf, a->strings[i].data, a->strings[i].n_bytes);
        if (a->type == PL_ATTR_TENSORS) PL_TRY(put_tensor(buf, a->tensors[i], err));
    }
    return PL_OK;
}

static pl_status hash_attrs(const pl_node *node, uint64_t *out, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_status st = PL_OK;
    *out = 0;
    for (uint32_t i = 0; i < node->n_attrs && st == PL_OK; i++) {
        pl_buf_reset(&buf);
        st = put_attr(&buf, &node->attrs[i], err);
        if (st == PL_OK && !pl_buf_ok(&buf)) st = pl_fail_memory(err, buf.n_bytes);
        if (st == PL_OK) *out += pl_hash64(pl_buf_str(&buf), buf.n_bytes);
    }
    pl_buf_release(&buf);
    return st;
}

/* ---- values and nodes ---- */

static pl_status put_values(builder *b, const pl_graph *graph, const char *path) {
    pl_pair_graph *g = b->g;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        uint32_t at;
        if (v->id >= g->n_by_id) continue;
        PL_TRY(pl_pair_graph_add_value(g, path, v->name, &at, b->err));
        g->by_id[v->id] = at;
        if (v->init != NULL && !v->is_input) {
            pl_pg_const c;
            PL_TRY(describe(v->init, &c, b->err));
            pl_pair_graph_set_const(g, at, &c);
        }
    }
    for (size_t i = 0; i < graph->n_inputs && graph->parent == NULL; i++) {
        pl_pg_value *v = &g->values[g->by_id[graph->inputs[i]->id]];
        v->flags |= PL_PG_INPUT;
        v->io = (uint32_t)i;
    }
    for (size_t i = 0; i < graph->n_outputs && graph->parent == NULL; i++) {
        pl_pg_value *v = &g->values[g->by_id[graph->outputs[i]->id]];
        v->flags |= PL_PG_OUTPUT;
        if (v->io == PL_PAIR_NONE) v->io = (uint32_t)i;
    }
    return PL_OK;
}

static size_t list_ids(const pl_pair_graph *g, pl_value *const *values, size_t n, uint32_t *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = values[i] == NULL ? PL_PAIR_NONE : g->by_id[values[i]->id];
    return n;
}

/* Bodies of the node, each after a node that represents its inputs. */
static pl_status put_bodies(builder *b, const pl_node *node, const char *path) {
    const char *value = node->op;
    for (uint32_t i = node->n_out; i-- > 0;)
        if (node->out[i] != NULL) value = node->out[i]->name;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        const size_t n = a->type == PL_ATTR_GRAPH ? 1 : a->type == PL_ATTR_GRAPHS ? a->n : 0;
        for (size_t k = 0; k < n; k++) {
            const pl_graph *body = a->type == PL_ATTR_GRAPH ? a->graph : a->graphs[k];
            const char *inner = pl_arena_printf(b->g->arena, "%s%s%s/%s", path,
                                                *path == '\0' ? "" : "/", value, a->name);
            if (inner == NULL) return pl_fail_memory(b->err, 1);
            PL_TRY(put_values(b, body, inner));
            uint32_t *in = pl_arena_array(b->g->arena, node->n_in + body->n_inputs + 1, sizeof *in);
            if (in == NULL) return pl_fail_memory(b->err, body->n_inputs);
            uint32_t *out = in + node->n_in;
            list_ids(b->g, node->in, node->n_in, in);
            list_ids(b->g, body->inputs, body->n_inputs, out);
            const pl_pg_new_node inputs = { .op = node->op,
                                            .domain = node->domain,
                                            .module = "",
                                            .attrs = pl_hash64(a->name, strlen(a->name)) + k,
                                            .flags = PL_PG_BODY,
                                            .in = in,
                                            .out = out,
                                            .n_own_in = node->n_in,
                                            .n_in = node->n_in,
                                            .n_out = body->n_inputs };
            PL_TRY(pl_pair_graph_add_node(b->g, &inputs, b->err));
            PL_TRY(put_graph(b, body, inner));
        }
    }
    return PL_OK;
}

static size_t count_body_outputs(const pl_node *node) {
    size_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        if (a->type == PL_ATTR_GRAPH) n += a->graph->n_outputs;
        for (size_t k = 0; a->type == PL_ATTR_GRAPHS && k < a->n; k++)
            n += a->graphs[k]->n_outputs;
    }
    return n;
}

static pl_status put_constant(builder *b, const pl_node *node, bool *done) {
    const pl_attr *a = pl_node_attr(node, "value");
    *done = false;
    const pl_op_def *row = pl_pair_graph_row(b->g, node->domain, node->op, node->opset);
    if (row == NULL || (row->flags & PL_OP_CONSTANT) == 0 || !pl_domain_is_onnx(node->domain)) {
        return PL_OK;
    }
    if (node->n_out != 1 || node->out[0] == NULL) return PL_OK;
    pl_pg_const c = { .dtype = PL_UNDEFINED };
    if (a != NULL && a->type == PL_ATTR_TENSOR) {
        PL_TRY(describe(a->tensor, &c, b->err));
    } else { /* value_ints, value_float, … */
        PL_TRY(hash_attrs(node, &c.hash.low, b->err));
    }
    pl_pair_graph_set_const(b->g, b->g->by_id[node->out[0]->id], &c);
    *done = true;
    return PL_OK;
}

static pl_status put_node(builder *b, const pl_node *node, const char *path) {
    bool done = false;
    PL_TRY(put_constant(b, node, &done));
    if (done) return PL_OK;
    PL_TRY(put_bodies(b, node, path));
    const size_t n_body = count_body_outputs(node);
    pl_origin origin;
    PL_TRY(pl_node_origin(node, b->scratch, &origin, b->err));
    pl_pg_new_node n = { .op = node->op,
                         .domain = node->domain,
                         .module = origin.module,
                         .opset = node->opset,
                         .n_own_in = node->n_in,
                         .n_in = node->n_in + n_body,
                         .n_out = node->n_out };
    uint32_t *ids = pl_calloc(n.n_in + n.n_out + 1, sizeof *ids);
    if (ids == NULL) return pl_fail_memory(b->err, n.n_in);
    size_t at = list_ids(b->g, node->in, node->n_in, ids);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        const size_t n_graphs = a->type == PL_ATTR_GRAPHS ? a->n : a->type == PL_ATTR_GRAPH;
        for (size_t k = 0; k < n_graphs; k++) {
            const pl_graph *body = a->type == PL_ATTR_GRAPH ? a->graph : a->graphs[k];
            at += list_ids(b->g, body->outputs, body->n_outputs, ids + at);
        }
    }
    list_ids(b->g, node->out, node->n_out, ids + at);
    n.in = ids;
    n.out = ids + at;
    pl_status st = hash_attrs(node, &n.attrs, b->err);
    if (st == PL_OK) st = pl_pair_graph_add_node(b->g, &n, b->err);
    pl_free(ids);
    pl_arena_reset(b->scratch);
    return st;
}

static pl_status put_graph(builder *b, const pl_graph *graph, const char *path) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(put_node(b, graph->nodes[i], path));
    return PL_OK;
}

pl_status pl_pair_graph_from_model(pl_pair_graph *g, const pl_model *model, pl_err *err) {
    builder b = { .g = g, .scratch = pl_arena_new(), .err = err };
    g->n_by_id = model->n_values;
    g->by_id = pl_malloc(((size_t)model->n_values + 1) * sizeof *g->by_id);
    if (b.scratch == NULL || g->by_id == NULL) {
        pl_arena_free(b.scratch);
        return pl_fail_memory(err, model->n_values);
    }
    memset(g->by_id, 0xff, ((size_t)model->n_values + 1) * sizeof *g->by_id);
    pl_status st = put_values(&b, model->graph, "");
    if (st == PL_OK) st = put_graph(&b, model->graph, "");
    pl_arena_free(b.scratch);
    return st;
}

/* pl_model_hash: what a model computes, without its names.
 *
 * Bottom-up, a value's hash is made of its producer's operator, attributes and input hashes, so the
 * order of independent nodes and all names drop out. That alone cannot tell two equal nodes from
 * one node used twice (a - b from a - a with two random sources), so a second round mixes in where
 * each value is used, and all nodes are summed. Symbolic dims count by first appearance, not by
 * name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "graph/edit.h"

typedef struct hashing {
    pl_hash128 *values; /* by value id */
    pl_hash128 *uses;   /* by value id: sum over uses */
    bool *known;        /* by value id */
    pl_hash128 *nodes;  /* by pre-order number */
    size_t n_values, n_nodes, at_node;
    pl_strmap dims; /* symbolic dim -> its number + 1 */
    pl_hash128 sum;
    int depth;
    bool out_of_memory; /* sticky */
    pl_tensor_hash_fn hash_tensor;
    void *ctx;
    pl_err *err;
} hashing;

/* ---- small pieces ---- */

static void put_u64(pl_buf *buf, uint64_t x) {
    pl_buf_append(buf, &x, sizeof x);
}

static void put_hash(pl_buf *buf, pl_hash128 h) {
    put_u64(buf, h.low);
    put_u64(buf, h.high);
}

static void put_bytes(pl_buf *buf, const void *data, size_t n) {
    put_u64(buf, n);
    pl_buf_append(buf, data, n);
}

static void put_text(pl_buf *buf, const char *s) {
    put_bytes(buf, s, strlen(s));
}

static void add(pl_hash128 *sum, pl_hash128 h) {
    sum->low += h.low;
    sum->high += h.high + (sum->low < h.low);
}

static pl_status finish(pl_buf *buf, pl_hash128 *out, pl_err *err) {
    const bool ok = pl_buf_ok(buf);
    if (ok) *out = pl_hash128_of(pl_buf_str(buf), buf->n_bytes);
    pl_buf_release(buf);
    return ok ? PL_OK : pl_fail_memory(err, 0);
}

static pl_hash128 hash_use(pl_hash128 user, uint64_t slot) {
    const uint64_t words[] = { user.low, user.high, slot };
    return pl_hash128_of(words, sizeof words);
}

/* ---- types and tensors ---- */

static uint64_t dim_number(hashing *h, const char *name) {
    const uintptr_t found = (uintptr_t)pl_strmap_get(&h->dims, name);
    if (found != 0) return found;
    const uintptr_t number = h->dims.n_entries + 1;
    if (pl_strmap_put(&h->dims, name, (void *)number) != 0) h->out_of_memory = true;
    return number;
}

static void put_type(hashing *h, pl_buf *buf, const pl_type *type) {
    for (int depth = 0; type != NULL && depth < PL_GRAPH_DEPTH_MAX; depth++, type = type->elem) {
        put_u64(buf, (uint64_t)type->kind << 32 | (uint64_t)type->dtype << 8 | type->has_rank);
        if (type->kind != PL_TYPE_TENSOR && type->kind != PL_TYPE_SPARSE) continue;
        put_u64(buf, type->has_rank ? (uint64_t)type->rank : 0);
        for (int i = 0; type->has_rank && i < type->rank; i++) {
            const pl_dim d = type->dims[i];
            put_u64(buf, (uint64_t)d.value);
            put_u64(buf, d.value < 0 && d.name != NULL ? dim_number(h, d.name) : 0);
        }
    }
}

static pl_status hash_tensor(void *ctx, pl_tensor *tensor, pl_hash128 *out, pl_err *err) {
    pl_tensor *t = NULL;
    pl_buf buf = PL_BUF_INIT;
    (void)ctx;
    PL_TRY(pl_tensor_contiguous(tensor, &t, err));
    put_u64(&buf, (uint64_t)t->dtype);
    put_u64(&buf, (uint64_t)t->rank);
    for (int i = 0; i < t->rank; i++)
        put_u64(&buf, (uint64_t)t->dims[i]);
    if (t->dtype == PL_STRING) {
        for (int64_t i = 0; i < t->n_elements; i++) {
            pl_string s;
            memcpy(&s, (const char *)t->data + (size_t)i * sizeof s, sizeof s);
            put_bytes(&buf, s.data, s.n_bytes);
        }
    } else {
        put_hash(&buf, pl_hash128_of(t->data, pl_tensor_bytes(t)));
    }
    pl_tensor_unref(t);
    return finish(&buf, out, err);
}

static pl_status put_tensor(const hashing *h, pl_buf *buf, pl_tensor *tensor) {
    pl_hash128 hash;
    PL_TRY(h->hash_tensor(h->ctx, tensor, &hash, h->err));
    put_hash(buf, hash);
    return PL_OK;
}

/* ---- attributes ---- */

static pl_status hash_graph(hashing *h, const pl_graph *graph, pl_hash128 *out);

static pl_status put_graph(hashing *h, pl_buf *buf, const pl_graph *graph) {
    pl_hash128 hash;
    PL_TRY(hash_graph(h, graph, &hash));
    put_hash(buf, hash);
    return PL_OK;
}

static pl_status put_list(hashing *h, pl_buf *buf, const pl_attr *a) {
    put_u64(buf, a->n);
    for (size_t i = 0; i < a->n; i++) {
        switch (a->type) {
        case PL_ATTR_FLOATS: pl_buf_append(buf, &a->floats[i], sizeof(float)); break;
        case PL_ATTR_INTS: put_u64(buf, (uint64_t)a->ints[i]); break;
        case PL_ATTR_STRINGS: put_bytes(buf, a->strings[i].data, a->strings[i].n_bytes); break;
        case PL_ATTR_TENSORS: PL_TRY(put_tensor(h, buf, a->tensors[i])); break;
        case PL_ATTR_GRAPHS: PL_TRY(put_graph(h, buf, a->graphs[i])); break;
        default: break;
        }
    }
    return PL_OK;
}

static pl_status put_attr(hashing *h, pl_buf *buf, const pl_attr *a) {
    put_text(buf, a->name);
    put_u64(buf, (uint64_t)a->type);
    switch (a->type) {
    case PL_ATTR_FLOAT: pl_buf_append(buf, &a->f, sizeof a->f); break;
    case PL_ATTR_INT: put_u64(buf, (uint64_t)a->i); break;
    case PL_ATTR_STRING: put_bytes(buf, a->s.data, a->s.n_bytes); break;
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: return put_tensor(h, buf, a->tensor);
    case PL_ATTR_GRAPH: return put_graph(h, buf, a->graph);
    case PL_ATTR_TYPE_PROTO: put_type(h, buf, a->type_proto); break;
    default: return put_list(h, buf, a);
    }
    return PL_OK;
}

static int by_name(const void *a, const void *b) {
    const pl_attr *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* A node's attributes by name; the caller frees the list. */
static pl_status sort_attrs(hashing *h, const pl_node *node, const pl_attr ***out) {
    const pl_attr **sorted = pl_calloc((size_t)node->n_attrs + 1, sizeof *sorted);
    if (sorted == NULL) return pl_fail_memory(h->err, node->n_attrs);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        sorted[i] = &node->attrs[i];
    qsort(sorted, node->n_attrs, sizeof *sorted, by_name);
    *out = sorted;
    return PL_OK;
}

static pl_status put_attrs(hashing *h, pl_buf *buf, const pl_node *node) {
    pl_status st = PL_OK;
    const pl_attr **sorted = NULL;
    PL_TRY(sort_attrs(h, node, &sorted));
    put_u64(buf, node->n_attrs);
    for (uint32_t i = 0; i < node->n_attrs && st == PL_OK; i++)
        st = put_attr(h, buf, sorted[i]);
    pl_free(sorted);
    return st;
}

/* ---- nodes and graphs, bottom-up ---- */

static uint32_t count_without_tail(pl_value *const *values, uint32_t n) {
    while (n > 0 && values[n - 1] == NULL)
        n--;
    return n;
}

static pl_status put_value(const hashing *h, pl_buf *buf, const pl_value *value) {
    if (value == NULL) {
        put_u64(buf, 0);
        return PL_OK;
    }
    if (value->id >= h->n_values || !h->known[value->id])
        return pl_fail(h->err, PL_E_INVALID,
                       "value '%s' is used before it is defined: sort the graph first",
                       value->name);
    put_hash(buf, h->values[value->id]);
    return PL_OK;
}

static pl_status know(hashing *h, const pl_value *value, pl_hash128 hash) {
    if (value->id >= h->n_values)
        return pl_fail(h->err, PL_E_INTERNAL, "value '%s' has invalid id %u of %zu", value->name,
                       value->id, h->n_values);
    h->values[value->id] = hash;
    h->known[value->id] = true;
    return PL_OK;
}

static pl_status put_node(hashing *h, pl_buf *buf, const pl_node *node) {
    const uint32_t n_in = count_without_tail(node->in, node->n_in);
    const uint32_t n_out = count_without_tail(node->out, node->n_out);
    put_text(buf, node->op);
    put_text(buf, node->domain);
    put_text(buf, node->overload);
    put_u64(buf, (uint64_t)node->opset);
    put_u64(buf, n_in);
    for (uint32_t i = 0; i < n_in; i++)
        PL_TRY(put_value(h, buf, node->in[i]));
    put_u64(buf, n_out);
    for (uint32_t i = 0; i < n_out; i++)
        put_u64(buf, node->out[i] != NULL);
    return put_attrs(h, buf, node);
}

static pl_status hash_node(hashing *h, const pl_node *node) {
    pl_buf buf = PL_BUF_INIT;
    pl_hash128 hash;
    const size_t number = h->at_node++;
    const pl_status st = put_node(h, &buf, node);
    if (st != PL_OK) {
        pl_buf_release(&buf);
        return st;
    }
    PL_TRY(finish(&buf, &hash, h->err));
    h->nodes[number] = hash;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] != NULL) PL_TRY(know(h, node->out[i], hash_use(hash, i)));
    }
    return PL_OK;
}

static pl_status hash_source(hashing *h, const pl_value *value, const char *kind, size_t index) {
    pl_buf buf = PL_BUF_INIT;
    pl_status st = PL_OK;
    pl_hash128 hash;
    put_text(&buf, kind);
    put_u64(&buf, (uint64_t)h->depth);
    put_u64(&buf, index);
    if (value->is_input) put_type(h, &buf, value->type);
    put_u64(&buf, value->init != NULL);
    if (value->init != NULL) st = put_tensor(h, &buf, value->init);
    if (st != PL_OK) {
        pl_buf_release(&buf);
        return st;
    }
    PL_TRY(finish(&buf, &hash, h->err));
    return know(h, value, hash);
}

static pl_status put_graph_content(hashing *h, pl_buf *buf, const pl_graph *graph) {
    put_u64(buf, graph->n_inputs);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        PL_TRY(hash_source(h, graph->inputs[i], "input", i));
        PL_TRY(put_value(h, buf, graph->inputs[i]));
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->init != NULL && !value->is_input) PL_TRY(hash_source(h, value, "init", 0));
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(hash_node(h, graph->nodes[i]));
    put_u64(buf, graph->n_outputs);
    for (size_t i = 0; i < graph->n_outputs; i++)
        PL_TRY(put_value(h, buf, graph->outputs[i]));
    return PL_OK;
}

static pl_status hash_graph(hashing *h, const pl_graph *graph, pl_hash128 *out) {
    pl_buf buf = PL_BUF_INIT;
    if (h->depth > PL_GRAPH_DEPTH_MAX)
        return pl_fail(h->err, PL_E_LIMIT, "graph '%s': bodies are nested deeper than %d",
                       graph->name, PL_GRAPH_DEPTH_MAX);
    h->depth++;
    const pl_status st = put_graph_content(h, &buf, graph);
    h->depth--;
    if (st != PL_OK) {
        pl_buf_release(&buf);
        return st;
    }
    return finish(&buf, out, h->err);
}

/* ---- uses, then the sum of it all ---- */

/* Both walks visit nodes in the same order, so that numbers agree: attributes sorted by name. */
typedef pl_status (*visit_fn)(hashing *h, const pl_graph *graph);

static pl_status visit_bodies(hashing *h, const pl_node *node, visit_fn fn) {
    pl_status st = PL_OK;
    const pl_attr **sorted = NULL;
    PL_TRY(sort_attrs(h, node, &sorted));
    for (uint32_t i = 0; i < node->n_attrs && st == PL_OK; i++) {
        const pl_attr *a = sorted[i];
        if (a->type == PL_ATTR_GRAPH) st = fn(h, a->graph);
        for (size_t k = 0; a->type == PL_ATTR_GRAPHS && k < a->n && st == PL_OK; k++)
            st = fn(h, a->graphs[k]);
    }
    pl_free(sorted);
    return st;
}

static pl_status note_uses(hashing *h, const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const pl_hash128 hash = h->nodes[h->at_node++];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != NULL) add(&h->uses[node->in[k]->id], hash_use(hash, k));
        }
        if (node->n_attrs > 0) PL_TRY(visit_bodies(h, node, note_uses));
    }
    for (size_t i = 0; i < graph->n_outputs; i++)
        add(&h->uses[graph->outputs[i]->id], hash_use((pl_hash128){ 1, 2 }, i));
    return PL_OK;
}

static pl_status sum_all(hashing *h, const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        pl_hash128 mixed = h->nodes[h->at_node++];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL) continue;
            const pl_hash128 use = h->uses[node->out[k]->id];
            const uint64_t words[] = { mixed.low, mixed.high, k, use.low, use.high };
            mixed = pl_hash128_of(words, sizeof words);
        }
        add(&h->sum, mixed);
        if (node->n_attrs > 0) PL_TRY(visit_bodies(h, node, sum_all));
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->init == NULL || value->is_input) continue;
        const pl_hash128 own = h->values[value->id], use = h->uses[value->id];
        const uint64_t words[] = { own.low, own.high, use.low, use.high };
        add(&h->sum, pl_hash128_of(words, sizeof words));
    }
    return PL_OK;
}

pl_status pl_model_hash(const pl_model *model, pl_hash128 *out, pl_err *err) {
    return pl_model_hash_by(model, hash_tensor, NULL, out, err);
}

pl_status pl_model_hash_by(const pl_model *model, pl_tensor_hash_fn fn, void *ctx, pl_hash128 *out,
                           pl_err *err) {
    hashing h = { .n_values = model->n_values,
                  .n_nodes = pl_model_count_nodes(model),
                  .hash_tensor = fn,
                  .ctx = ctx,
                  .err = err };
    pl_status st = PL_OK;
    pl_hash128 graph = { 0, 0 };
    h.values = pl_calloc(h.n_values + 1, sizeof *h.values);
    h.uses = pl_calloc(h.n_values + 1, sizeof *h.uses);
    h.known = pl_calloc(h.n_values + 1, sizeof *h.known);
    h.nodes = pl_calloc(h.n_nodes + 1, sizeof *h.nodes);
    if (h.values == NULL || h.uses == NULL || h.known == NULL || h.nodes == NULL) {
        st = pl_fail_memory(err, h.n_values * sizeof *h.values);
        goto done;
    }
    PL_TRY_GOTO(done, st, hash_graph(&h, model->graph, &graph));
    if (h.out_of_memory) {
        st = pl_fail_memory(err, 0);
        goto done;
    }
    h.at_node = 0;
    PL_TRY_GOTO(done, st, note_uses(&h, model->graph));
    h.at_node = 0;
    PL_TRY_GOTO(done, st, sum_all(&h, model->graph));
    const uint64_t words[] = { graph.low, graph.high, h.sum.low, h.sum.high };
    *out = pl_hash128_of(words, sizeof words);
done:
    pl_strmap_release(&h.dims);
    pl_free(h.values);
    pl_free(h.uses);
    pl_free(h.known);
    pl_free(h.nodes);
    return st;
}

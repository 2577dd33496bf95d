/* Candidates as bytes without building them: for the user's check, which only needs the model's
 * bytes.
 *
 * The best state is serialised once; a subset of its nodes is then a few copies of byte ranges. At
 * 5,000 nodes that costs a tenth of building and serialising a graph. The driver builds the final
 * candidate and checks it again, so the two ways only need to agree on the answer. */
#include "flows/minify/search/mini_fast.h"

#include <string.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_write.h"
#include "onnx/onnx_fields.h"

typedef struct range {
    uint32_t begin, end; /* in bytes; begin == end: not there */
} range;

struct pl_mini_fast {
    const pl_mini_state *from;
    uint64_t serial;
    pl_buf bytes;     /* of the whole */
    range head, tail; /* of the model, around its graph */
    range *nodes;     /* by index, with the field's tag */
    range *infos;     /* by value id: ValueInfoProto, without the tag */
    range *inits;     /* by value id: the field with its tag; small ones only */
    size_t n_nodes;
    bool *used, *for_others, *seen; /* by value id */
    size_t n_values;
};

void pl_mini_fast_free(pl_mini_fast *f) {
    if (f == NULL) return;
    pl_buf_release(&f->bytes);
    pl_free(f->nodes);
    pl_free(f->infos);
    pl_free(f->inits);
    pl_free(f->used);
    pl_free(f->for_others);
    pl_free(f->seen);
    pl_free(f);
}

static bool is_simple(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (node->n_in == 0) return false; /* constants become weights when cut off */
        if (pl_node_has_body(node)) return false;
    }
    return true;
}

/* ---- reading the whole back ---- */

static const pl_value *named(const pl_graph *graph, pl_bytes message, uint32_t field_name) {
    pl_wire wire = pl_wire_of(message);
    pl_wire_field field;
    while (pl_wire_next(&wire, &field)) {
        if (field.number != field_name || field.type != 2) continue;
        return pl_strmap_get_n(&graph->by_name, (const char *)field.bytes.data,
                               field.bytes.n_bytes);
    }
    return NULL;
}

static range range_of(const pl_mini_fast *f, const uint8_t *begin, const uint8_t *end) {
    const uint8_t *base = (const uint8_t *)f->bytes.data;
    return (range){ (uint32_t)(begin - base), (uint32_t)(end - base) };
}

static bool index_graph(pl_mini_fast *f, pl_bytes content) {
    enum { TENSOR_NAME = 8 };
    const pl_graph *graph = f->from->model->graph;
    pl_wire wire = pl_wire_of(content);
    pl_wire_field field;
    const uint8_t *begin = wire.at;
    size_t n_nodes = 0;
    for (; pl_wire_next(&wire, &field); begin = wire.at) {
        const pl_value *v = NULL;
        switch (field.number) {
        case GRAPH_NODE:
            if (n_nodes < f->n_nodes) f->nodes[n_nodes] = range_of(f, begin, wire.at);
            n_nodes++;
            break;
        case GRAPH_INITIALIZER:
            v = named(graph, field.bytes, TENSOR_NAME);
            if (v != NULL) f->inits[v->id] = range_of(f, begin, wire.at);
            break;
        case GRAPH_INPUT:
        case GRAPH_OUTPUT:
        case GRAPH_VALUE_INFO:
            v = named(graph, field.bytes, VALUE_NAME);
            if (v == NULL) break;
            f->infos[v->id] = range_of(f, field.bytes.data, field.bytes.data + field.bytes.n_bytes);
            break;
        default: break;
        }
    }
    return n_nodes == f->n_nodes;
}

static bool index_all(pl_mini_fast *f) {
    const pl_bytes all = { (const uint8_t *)f->bytes.data, f->bytes.n_bytes };
    pl_wire wire = pl_wire_of(all);
    pl_wire_field field;
    const uint8_t *begin = wire.at;
    bool found = false;
    for (; pl_wire_next(&wire, &field); begin = wire.at) {
        if (field.number != MODEL_GRAPH || field.type != 2) continue;
        f->head = range_of(f, all.data, begin);
        f->tail = range_of(f, wire.at, wire.end);
        found = index_graph(f, field.bytes);
    }
    return found;
}

static pl_status prepare(pl_mini *m, const pl_mini_state *from, pl_mini_fast **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    const size_t n_values = (size_t)from->model->n_values + 1;
    pl_hash128 key;
    pl_mini_fast *f = pl_calloc(1, sizeof(*f));
    if (f == NULL) return pl_fail_memory(err, sizeof(*f));
    f->from = from;
    f->n_nodes = graph->n_nodes;
    f->n_values = n_values;
    f->nodes = pl_calloc(f->n_nodes + 1, sizeof(range));
    f->infos = pl_calloc(n_values, sizeof(range));
    f->inits = pl_calloc(n_values, sizeof(range));
    f->used = pl_calloc(n_values, sizeof(bool));
    f->for_others = pl_calloc(n_values, sizeof(bool));
    f->seen = pl_calloc(n_values, sizeof(bool));
    pl_status st = PL_OK;
    if (f->nodes == NULL || f->infos == NULL || f->inits == NULL || f->used == NULL ||
        f->for_others == NULL || f->seen == NULL) {
        st = pl_fail_memory(err, n_values);
    } else {
        st = pl_mini_state_bytes(from, m->oracle->weights, &f->bytes, &key, err);
    }
    if (st == PL_OK && (f->bytes.n_bytes > UINT32_MAX || !index_all(f))) {
        f->n_nodes = 0; /* unusable */
    }
    if (st != PL_OK) {
        pl_mini_fast_free(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

pl_status pl_mini_fast_of(pl_mini *m, const pl_mini_state *from, pl_mini_fast **out, pl_err *err) {
    *out = NULL;
    if (m->with_data || m->options->good != NULL || m->options->keep_other) return PL_OK;
    if (m->fast != NULL && m->fast->from == from && m->fast->serial == m->n_accepted) {
        *out = m->fast->n_nodes > 0 ? m->fast : NULL;
        return PL_OK;
    }
    pl_mini_fast_free(m->fast);
    m->fast = NULL;
    if (!is_simple(from->model->graph)) return PL_OK;
    PL_TRY(prepare(m, from, &m->fast, err));
    m->fast->serial = m->n_accepted;
    *out = m->fast->n_nodes > 0 ? m->fast : NULL;
    return PL_OK;
}

/* ---- putting a candidate together ---- */

static void put(pl_buf *out, const pl_mini_fast *f, range r) {
    if (r.end > r.begin) pl_buf_append(out, f->bytes.data + r.begin, r.end - r.begin);
}

static void put_value(pl_buf *out, const pl_mini_fast *f, uint32_t field, const pl_value *v) {
    const range r = f->infos[v->id];
    if (r.end > r.begin) {
        pl_wire_put_bytes(out, field, f->bytes.data + r.begin, r.end - r.begin);
        return;
    }
    pl_buf name = PL_BUF_INIT;
    pl_wire_put_string(&name, VALUE_NAME, v->name);
    if (!pl_buf_ok(&name)) out->failed = true;
    pl_wire_put_bytes(out, field, pl_buf_str(&name), name.n_bytes);
    pl_buf_release(&name);
}

/* Copies runs of kept nodes at once. */
static void put_nodes(pl_buf *out, const pl_mini_fast *f, const bool *keep) {
    for (size_t i = 0; i < f->n_nodes; i++) {
        if (!keep[i]) continue;
        range r = f->nodes[i];
        while (i + 1 < f->n_nodes && keep[i + 1] && f->nodes[i + 1].begin == r.end)
            r.end = f->nodes[++i].end;
        put(out, f, r);
    }
}

static void note_uses(pl_mini_fast *f, const bool *keep) {
    const pl_graph *graph = f->from->model->graph;
    memset(f->used, 0, f->n_values);
    memset(f->for_others, 0, f->n_values);
    memset(f->seen, 0, f->n_values);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        bool *mark = keep[i] ? f->used : f->for_others;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != NULL) mark[node->in[k]->id] = true;
    }
}

static void put_outputs(pl_buf *out, const pl_mini_fast *f, const bool *keep, size_t *n_out) {
    const pl_graph *graph = f->from->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const pl_value *spare = NULL;
        bool needed = false;
        for (uint32_t k = 0; k < node->n_out && keep[i]; k++) {
            const pl_value *v = node->out[k];
            if (v == NULL) continue;
            if (spare == NULL) spare = v;
            const bool leaves = v->is_output || f->for_others[v->id];
            needed = needed || leaves || f->used[v->id];
            if (!leaves) continue;
            put_value(out, f, GRAPH_OUTPUT, v);
            (*n_out)++;
        }
        if (!keep[i] || needed || spare == NULL) continue;
        put_value(out, f, GRAPH_OUTPUT, spare);
        (*n_out)++;
    }
}

/* Inputs: values that kept nodes use and none computes. Weights: the small ones they use. */
static void put_sources(pl_buf *out, pl_mini_fast *f, const bool *keep, size_t *n_large) {
    const pl_graph *graph = f->from->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in && keep[i]; k++) {
            const pl_value *v = node->in[k];
            if (v == NULL || f->seen[v->id]) continue;
            f->seen[v->id] = true;
            if (v->producer != NULL && keep[v->producer->index]) continue;
            if (v->init != NULL) put(out, f, f->inits[v->id]);
            if (v->init != NULL && f->inits[v->id].end == 0) (*n_large)++;
            if (v->init == NULL || v->is_input) put_value(out, f, GRAPH_INPUT, v);
        }
    }
}

typedef struct question {
    pl_mini *m;
    pl_mini_fast *fast;
    pl_buf graph; /* without large weights */
    size_t n_large;
} question;

static pl_status finish(void *ctx, pl_buf *model, pl_err *err) {
    question *q = ctx;
    const pl_mini_fast *f = q->fast;
    if (q->n_large > 0) {
        PL_TRY(pl_mini_weights_put_used(q->m->oracle->weights, f->from, f->used, q->m->work,
                                        &q->graph, err));
    }
    put(model, f, f->head);
    pl_wire_put_bytes(model, MODEL_GRAPH, pl_buf_str(&q->graph), q->graph.n_bytes);
    put(model, f, f->tail);
    return pl_buf_ok(&q->graph) && pl_buf_ok(model) ? PL_OK : pl_fail_memory(err, 1);
}

static pl_status make_key(const question *q, pl_hash128 *out, pl_err *err) {
    const pl_hash128 own = pl_hash128_of(pl_buf_str(&q->graph), q->graph.n_bytes);
    pl_buf key = PL_BUF_INIT;
    pl_status st = PL_OK;
    *out = own;
    if (q->n_large == 0) return PL_OK;
    pl_buf_append(&key, &own, sizeof(own));
    st = pl_mini_weights_put_key(q->m->oracle->weights, q->fast->from, q->fast->used, &key, err);
    if (st == PL_OK && !pl_buf_ok(&key)) st = pl_fail_memory(err, 1);
    if (st == PL_OK) *out = pl_hash128_of(key.data, key.n_bytes);
    pl_buf_release(&key);
    return st;
}

pl_status pl_mini_fast_ask(pl_mini *m, pl_mini_fast *f, const bool *keep, bool *fails,
                           pl_err *err) {
    question q = { .m = m, .fast = f, .graph = PL_BUF_INIT };
    pl_bytes_question asked = { .finish = finish, .ctx = &q };
    size_t n_out = 0;
    pl_answer answer = PL_ANSWER_PASSES;
    pl_status st = PL_OK;
    *fails = false;
    note_uses(f, keep);
    put_nodes(&q.graph, f, keep);
    pl_wire_put_string(&q.graph, GRAPH_NAME, "graph");
    put_sources(&q.graph, f, keep, &q.n_large);
    put_outputs(&q.graph, f, keep, &n_out);
    if (n_out == 0) goto done;
    if (!pl_buf_ok(&q.graph)) {
        st = pl_fail_memory(err, q.graph.n_bytes);
        goto done;
    }
    PL_TRY_GOTO(done, st, make_key(&q, &asked.key, err));
    PL_TRY_GOTO(done, st, pl_oracle_ask_bytes(m->oracle, &asked, &answer, err));
    *fails = answer == PL_ANSWER_FAILS;
done:
    pl_buf_release(&q.graph);
    return st;
}

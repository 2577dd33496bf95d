/* Writing ModelProto.
 *
 * Protobuf puts the length of a message before it, so messages are built from the inside out.
 * Weights are not copied: a rope remembers where their bytes belong, and they are written directly
 * from their storage. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/size.h"
#include "graph/portable.h"
#include "onnx/onnx.h"
#include "onnx/onnx_fields.h"
#include "onnx/onnx_int.h"
#include "tensor/file/tensor_proto.h"

enum {
    CHUNK_MIN = 4096,          /* smaller tensors are copied into the message */
    EXTERNAL_MIN = 1024,       /* smaller tensors stay in the model, as with onnx.save */
    EXTERNAL_ALIGNMENT = 4096, /* so that readers can map them */
    INLINE_MAX = 1900000000,   /* weights in the model itself; protobuf ends at 2^31 - 1 */
    MESSAGE_MAX = INT32_MAX
};

/* Fields of TensorProto that this file writes */
enum {
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    LOCATION_EXTERNAL = 1
};

/* ---- ropes ---- */

typedef struct rope_chunk {
    size_t at; /* offset in the rope: the chunk comes before this byte */
    const void *data;
    size_t n_bytes;
} rope_chunk;

typedef struct rope {
    pl_buf bytes;
    rope_chunk *chunks; /* ascending by `at`; data is borrowed */
    size_t n_chunks, chunks_capacity;
    size_t chunk_bytes;
} rope;

static void rope_release(rope *r) {
    pl_buf_release(&r->bytes);
    pl_free(r->chunks);
    *r = (rope){ 0 };
}

static size_t rope_size(const rope *r) {
    return r->bytes.n_bytes + r->chunk_bytes; /* cannot overflow: both are in memory */
}

static void rope_add_chunk(rope *r, size_t at, const void *data, size_t n_bytes) {
    if (!PL_ARRAY_ROOM(r->chunks, r->n_chunks, &r->chunks_capacity)) {
        r->bytes.failed = true;
        return;
    }
    r->chunks[r->n_chunks++] = (rope_chunk){ at, data, n_bytes };
    r->chunk_bytes += n_bytes;
}

/* Appends `inner` as a bytes field and releases it. */
static void rope_put_message_take(rope *r, uint32_t number, rope *inner) {
    pl_wire_put_bytes_head(&r->bytes, number, rope_size(inner));
    const size_t base = r->bytes.n_bytes;
    for (size_t i = 0; i < inner->n_chunks; i++)
        rope_add_chunk(r, base + inner->chunks[i].at, inner->chunks[i].data,
                       inner->chunks[i].n_bytes);
    if (inner->bytes.n_bytes > 0) pl_buf_append(&r->bytes, inner->bytes.data, inner->bytes.n_bytes);
    if (!pl_buf_ok(&inner->bytes)) r->bytes.failed = true;
    rope_release(inner);
}

/* Calls put for the pieces in order. */
typedef pl_status (*rope_put_fn)(void *ctx, const void *data, size_t n_bytes, pl_err *err);
static pl_status rope_write(const rope *r, rope_put_fn put, void *ctx, pl_err *err) {
    size_t at = 0;
    for (size_t i = 0; i <= r->n_chunks; i++) {
        const size_t end = i < r->n_chunks ? r->chunks[i].at : r->bytes.n_bytes;
        if (end > at) PL_TRY(put(ctx, r->bytes.data + at, end - at, err));
        at = end;
        if (i < r->n_chunks) PL_TRY(put(ctx, r->chunks[i].data, r->chunks[i].n_bytes, err));
    }
    return PL_OK;
}

/* ---- state ---- */

typedef struct external_tensor {
    const pl_tensor *tensor;
    uint64_t offset;
} external_tensor;

typedef struct writer {
    const char *location;       /* external data file; NULL = none */
    const pl_onnx_refer *refer; /* files whose bytes are not copied; NULL = none */
    external_tensor *externals;
    size_t n_externals, externals_capacity;
    uint64_t external_end;
    int depth;
    pl_err *err;
} writer;

/* ---- types ---- */

static void put_dim(pl_buf *out, pl_dim dim) {
    pl_buf buf = PL_BUF_INIT;
    if (pl_dim_known(dim)) {
        pl_wire_put_int(&buf, DIM_VALUE, dim.value);
    } else if (dim.name != NULL) {
        pl_wire_put_string(&buf, DIM_PARAM, dim.name);
    }
    if (!pl_buf_ok(&buf)) out->failed = true;
    pl_wire_put_bytes(out, SHAPE_DIM, pl_buf_str(&buf), buf.n_bytes);
    pl_buf_release(&buf);
}

static void put_message(pl_buf *out, uint32_t number, pl_buf *inner_take) {
    if (!pl_buf_ok(inner_take)) out->failed = true;
    pl_wire_put_bytes(out, number, pl_buf_str(inner_take), inner_take->n_bytes);
    pl_buf_release(inner_take);
}

static void put_tensor_type(pl_buf *out, const pl_type *type) {
    pl_wire_put_int(out, TYPE_TENSOR_ELEM, (int64_t)type->dtype);
    if (!type->has_rank) return;
    pl_buf shape = PL_BUF_INIT;
    for (int i = 0; i < type->rank; i++)
        put_dim(&shape, type->dims[i]);
    put_message(out, TYPE_TENSOR_SHAPE, &shape);
}

static void put_type(pl_buf *out, const pl_type *type, int depth) {
    pl_buf inner = PL_BUF_INIT, elem = PL_BUF_INIT;
    const bool is_map = type->kind == PL_TYPE_MAP;
    uint32_t number = 0;
    switch (type->kind) {
    case PL_TYPE_TENSOR: number = TYPE_TENSOR; break;
    case PL_TYPE_SPARSE: number = TYPE_SPARSE; break;
    case PL_TYPE_SEQUENCE: number = TYPE_SEQUENCE; break;
    case PL_TYPE_OPTIONAL: number = TYPE_OPTIONAL; break;
    case PL_TYPE_MAP: number = TYPE_MAP; break;
    case PL_TYPE_NONE: return;
    }
    if (number == TYPE_TENSOR || number == TYPE_SPARSE) {
        put_tensor_type(&inner, type);
    } else {
        if (is_map) pl_wire_put_int(&inner, TYPE_MAP_KEY, (int64_t)type->dtype);
        if (type->elem != NULL && depth < PL_GRAPH_DEPTH_MAX)
            put_type(&elem, type->elem, depth + 1);
        put_message(&inner, is_map ? TYPE_MAP_VALUE : TYPE_ELEM, &elem);
    }
    put_message(out, number, &inner);
}

static void put_value_info(pl_buf *out, uint32_t number, const pl_value *value) {
    pl_buf buf = PL_BUF_INIT, type = PL_BUF_INIT;
    pl_wire_put_string(&buf, VALUE_NAME, value->name);
    if (value->spelt.n_bytes > 0 && value->type == value->spelt_type) {
        pl_wire_put_bytes(&buf, VALUE_TYPE, value->spelt.data, value->spelt.n_bytes);
    } else if (value->type != NULL && value->type->kind != PL_TYPE_NONE) {
        put_type(&type, value->type, 0);
        put_message(&buf, VALUE_TYPE, &type);
    }
    if (value->doc[0] != '\0') pl_wire_put_string(&buf, VALUE_DOC_STRING, value->doc);
    put_message(out, number, &buf);
}

static void put_props(pl_buf *out, uint32_t number, const pl_prop *props, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pl_buf buf = PL_BUF_INIT;
        pl_wire_put_string(&buf, ENTRY_KEY, props[i].key);
        pl_wire_put_string(&buf, ENTRY_VALUE, props[i].value);
        put_message(out, number, &buf);
    }
}

/* ---- tensors ---- */

static void put_tensor_head(pl_buf *out, const char *name, const pl_tensor *t) {
    for (int i = 0; i < t->rank; i++)
        pl_wire_put_int(out, TENSOR_DIMS, t->dims[i]);
    pl_wire_put_int(out, TENSOR_DATA_TYPE, (int64_t)t->dtype);
    if (name != NULL) pl_wire_put_string(out, TENSOR_NAME, name);
}

static bool can_borrow(const pl_tensor *t) {
    return t->dtype != PL_STRING && pl_dtype_bits(t->dtype) >= 8 && pl_tensor_is_contiguous(t);
}

static void put_external_entry(pl_buf *out, const char *key, const char *value) {
    const pl_prop entry = { key, value };
    put_props(out, TENSOR_EXTERNAL_DATA, &entry, 1);
}

static void put_location(pl_buf *out, const char *location, uint64_t offset, size_t n_bytes) {
    char text[32];
    put_external_entry(out, "location", location);
    snprintf(text, sizeof text, "%" PRIu64, offset);
    put_external_entry(out, "offset", text);
    snprintf(text, sizeof text, "%zu", n_bytes);
    put_external_entry(out, "length", text);
    pl_wire_put_int(out, TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
}

/* The name under which the model may refer to the bytes of t where they are; NULL = it copies. */
static const char *referred(const writer *w, const pl_tensor *t) {
    if (w->refer == NULL || !can_borrow(t) || pl_tensor_bytes(t) < EXTERNAL_MIN) return NULL;
    const pl_file_map *file = pl_tensor_mapping(t);
    return file == NULL || file->heap ? NULL : w->refer->name(w->refer->ctx, file);
}

static void put_tensor(const writer *w, rope *out, uint32_t number, const char *name,
                       const char *doc, const pl_tensor *t) {
    rope inner = { 0 };
    const size_t n_bytes = pl_tensor_bytes(t);
    const char *location = referred(w, t);
    if (doc[0] != '\0') pl_wire_put_string(&inner.bytes, TENSOR_DOC_STRING, doc);
    if (location != NULL) {
        const uint8_t *at = t->data;
        put_tensor_head(&inner.bytes, name, t);
        put_location(&inner.bytes, location, (uint64_t)(at - pl_tensor_mapping(t)->data), n_bytes);
    } else if (can_borrow(t) && n_bytes >= CHUNK_MIN) {
        put_tensor_head(&inner.bytes, name, t);
        pl_wire_put_bytes_head(&inner.bytes, TENSOR_RAW_DATA, n_bytes);
        rope_add_chunk(&inner, inner.bytes.n_bytes, t->data, n_bytes);
    } else {
        pl_tensor_proto_write(&inner.bytes, name, t);
    }
    rope_put_message_take(out, number, &inner);
}

static pl_status put_external(writer *w, rope *out, const pl_value *value, size_t n_bytes) {
    rope inner = { 0 };
    const uint64_t offset =
        (w->external_end + EXTERNAL_ALIGNMENT - 1) / EXTERNAL_ALIGNMENT * EXTERNAL_ALIGNMENT;
    if (!PL_ARRAY_ROOM(w->externals, w->n_externals, &w->externals_capacity))
        return pl_fail_memory(w->err, w->n_externals);
    w->externals[w->n_externals++] = (external_tensor){ value->init, offset };
    w->external_end = offset + n_bytes;
    put_tensor_head(&inner.bytes, value->name, value->init);
    put_location(&inner.bytes, w->location, offset, n_bytes);
    rope_put_message_take(out, GRAPH_INITIALIZER, &inner);
    return PL_OK;
}

static pl_status put_initializer(writer *w, rope *out, const pl_value *value) {
    size_t n_bytes = 0;
    if (w->location != NULL && pl_raw_size(value->init->dtype, value->init->n_elements, &n_bytes) &&
        n_bytes >= EXTERNAL_MIN)
        return put_external(w, out, value, n_bytes);
    put_tensor(w, out, GRAPH_INITIALIZER, value->name, value->is_input ? "" : value->doc,
               value->init);
    return PL_OK;
}

/* The IR stores sparse attributes as dense tensors; this writes the elements that are not zero
 * bits. */
static pl_status put_sparse(writer *w, rope *out, uint32_t number, pl_tensor *tensor) {
    rope inner = { 0 };
    pl_tensor *t = NULL, *values = NULL, *indices = NULL;
    pl_status st = PL_OK;
    int64_t n = 0;
    static const uint8_t zeros[16] = { 0 };
    const size_t size = pl_dtype_bytes(tensor->dtype);
    if (tensor->dtype == PL_STRING)
        return pl_fail(w->err, PL_E_UNSUPPORTED, "sparse tensors of strings are not supported");
    PL_TRY(pl_tensor_contiguous(tensor, &t, w->err));
    const uint8_t *data = t->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        n += memcmp(data + (size_t)i * size, zeros, size) != 0;
    PL_TRY_GOTO(done, st, pl_tensor_new(t->dtype, 1, &n, &values, w->err));
    PL_TRY_GOTO(done, st, pl_tensor_new(PL_I64, 1, &n, &indices, w->err));
    n = 0;
    for (int64_t i = 0; i < t->n_elements; i++) {
        if (memcmp(data + (size_t)i * size, zeros, size) == 0) continue;
        memcpy((uint8_t *)values->data + (size_t)n * size, data + (size_t)i * size, size);
        ((pl_i64 *)indices->data)[n++] = i;
    }
    /* Both are temporary: they must be copied, not borrowed. */
    pl_buf part = PL_BUF_INIT;
    pl_tensor_proto_write(&part, NULL, values);
    put_message(&inner.bytes, SPARSE_VALUES, &part);
    pl_tensor_proto_write(&part, NULL, indices);
    put_message(&inner.bytes, SPARSE_INDICES, &part);
    for (int i = 0; i < t->rank; i++)
        pl_wire_put_int(&inner.bytes, SPARSE_DIMS, t->dims[i]);
    rope_put_message_take(out, number, &inner);
done:
    pl_tensor_unref(values);
    pl_tensor_unref(indices);
    pl_tensor_unref(t);
    return st;
}

/* ---- attributes ---- */

static pl_status put_graph(writer *w, rope *out, uint32_t number, const pl_graph *graph);

static void put_floats(pl_buf *out, const float *items, size_t n) {
    pl_buf packed = PL_BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &items[i], sizeof bits);
        for (int k = 0; k < 4; k++)
            pl_buf_putc(&packed, (char)(uint8_t)(bits >> (8 * k)));
    }
    put_message(out, ATTR_FLOATS, &packed);
}

static void put_ints(pl_buf *out, const int64_t *items, size_t n) {
    pl_buf packed = PL_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        pl_wire_put_varint(&packed, (uint64_t)items[i]);
    put_message(out, ATTR_INTS, &packed);
}

static void put_attr_type(pl_buf *out, const pl_type *type) {
    pl_buf buf = PL_BUF_INIT;
    put_type(&buf, type, 0);
    put_message(out, ATTR_TP, &buf);
}

static pl_status put_attr_value(writer *w, rope *out, const pl_attr *a) {
    switch (a->type) {
    case PL_ATTR_FLOAT: pl_wire_put_float(&out->bytes, ATTR_F, a->f); break;
    case PL_ATTR_INT: pl_wire_put_int(&out->bytes, ATTR_I, a->i); break;
    case PL_ATTR_STRING: pl_wire_put_bytes(&out->bytes, ATTR_S, a->s.data, a->s.n_bytes); break;
    case PL_ATTR_TENSOR: put_tensor(w, out, ATTR_T, NULL, "", a->tensor); break;
    case PL_ATTR_GRAPH: return put_graph(w, out, ATTR_G, a->graph);
    case PL_ATTR_FLOATS: put_floats(&out->bytes, a->floats, a->n); break;
    case PL_ATTR_INTS: put_ints(&out->bytes, a->ints, a->n); break;
    case PL_ATTR_STRINGS:
        for (size_t i = 0; i < a->n; i++)
            pl_wire_put_bytes(&out->bytes, ATTR_STRINGS, a->strings[i].data, a->strings[i].n_bytes);
        break;
    case PL_ATTR_TENSORS:
        for (size_t i = 0; i < a->n; i++)
            put_tensor(w, out, ATTR_TENSORS, NULL, "", a->tensors[i]);
        break;
    case PL_ATTR_GRAPHS:
        for (size_t i = 0; i < a->n; i++)
            PL_TRY(put_graph(w, out, ATTR_GRAPHS, a->graphs[i]));
        break;
    case PL_ATTR_SPARSE_TENSOR: return put_sparse(w, out, ATTR_SPARSE_TENSOR, a->tensor);
    case PL_ATTR_TYPE_PROTO: put_attr_type(&out->bytes, a->type_proto); break;
    case PL_ATTR_NONE: return pl_fail(w->err, PL_E_INVALID, "attribute '%s' has no type", a->name);
    }
    return PL_OK;
}

static pl_status put_attr(writer *w, rope *out, const pl_attr *a) {
    rope inner = { 0 };
    pl_wire_put_string(&inner.bytes, ATTR_NAME, a->name);
    const pl_status st = put_attr_value(w, &inner, a);
    pl_wire_put_int(&inner.bytes, ATTR_TYPE, (int64_t)a->type);
    rope_put_message_take(out, NODE_ATTRIBUTE, &inner);
    return st;
}

/* ---- nodes and graphs ---- */

static pl_status put_node_fields(writer *w, rope *out, const pl_node *node) {
    pl_buf *buf = &out->bytes;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value != NULL) PL_TRY(pl_graph_check_capture(node->graph, value, w->err));
        pl_wire_put_string(buf, NODE_INPUT, value == NULL ? "" : value->name);
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        pl_wire_put_string(buf, NODE_OUTPUT, node->out[i] == NULL ? "" : node->out[i]->name);
    if (node->name[0] != '\0') pl_wire_put_string(buf, NODE_NAME, node->name);
    pl_wire_put_string(buf, NODE_OP_TYPE, node->op);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        PL_TRY(put_attr(w, out, &node->attrs[i]));
    if (node->doc[0] != '\0') pl_wire_put_string(buf, NODE_DOC_STRING, node->doc);
    if (node->domain[0] != '\0') pl_wire_put_string(buf, NODE_DOMAIN, node->domain);
    if (node->overload[0] != '\0') pl_wire_put_string(buf, NODE_OVERLOAD, node->overload);
    put_props(buf, NODE_METADATA_PROPS, node->props, node->n_props);
    return PL_OK;
}

static pl_status put_node(writer *w, rope *out, const pl_node *node) {
    rope inner = { 0 };
    const pl_status st = put_node_fields(w, &inner, node);
    rope_put_message_take(out, GRAPH_NODE, &inner);
    return st;
}

static pl_status put_graph_fields(writer *w, rope *out, const pl_graph *graph) {
    pl_buf *buf = &out->bytes;
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(put_node(w, out, graph->nodes[i]));
    /* onnx.checker refuses graphs without a name. */
    pl_wire_put_string(buf, GRAPH_NAME, graph->name[0] == '\0' ? "graph" : graph->name);
    for (size_t i = 0; i < graph->n_values; i++) {
        if (graph->values[i]->init != NULL) PL_TRY(put_initializer(w, out, graph->values[i]));
    }
    if (graph->doc[0] != '\0') pl_wire_put_string(buf, GRAPH_DOC_STRING, graph->doc);
    for (size_t i = 0; i < graph->n_inputs; i++)
        put_value_info(buf, GRAPH_INPUT, graph->inputs[i]);
    for (size_t i = 0; i < graph->n_outputs; i++) {
        PL_TRY(pl_graph_check_capture(graph, graph->outputs[i], w->err));
        put_value_info(buf, GRAPH_OUTPUT, graph->outputs[i]);
    }
    pl_value **typed = NULL;
    size_t n_typed = 0;
    PL_TRY(pl_graph_list_typed(graph, &typed, &n_typed, w->err));
    for (size_t i = 0; i < n_typed; i++)
        put_value_info(buf, GRAPH_VALUE_INFO, typed[i]);
    pl_free(typed);
    put_props(buf, GRAPH_METADATA_PROPS, graph->props, graph->n_props);
    if (graph->kept.n_bytes > 0) pl_buf_append(buf, graph->kept.data, graph->kept.n_bytes);
    return PL_OK;
}

static pl_status put_graph(writer *w, rope *out, uint32_t number, const pl_graph *graph) {
    rope inner = { 0 };
    if (w->depth > PL_GRAPH_DEPTH_MAX)
        return pl_fail(w->err, PL_E_LIMIT, "graph '%s': bodies are nested deeper than %d",
                       graph->name, PL_GRAPH_DEPTH_MAX);
    w->depth++;
    const pl_status st = put_graph_fields(w, &inner, graph);
    w->depth--;
    rope_put_message_take(out, number, &inner);
    return st;
}

/* ---- models ---- */

static void put_text(pl_buf *out, uint32_t number, const char *s) {
    if (s[0] != '\0') pl_wire_put_string(out, number, s);
}

static pl_status put_opsets(rope *out, const pl_model *model, pl_err *err) {
    pl_opset *opsets = NULL;
    size_t n_opsets = 0;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 0);
    const pl_status st = pl_model_collect_opsets(model, arena, &opsets, &n_opsets, err);
    for (size_t i = 0; i < n_opsets; i++) {
        pl_buf buf = PL_BUF_INIT;
        pl_wire_put_string(&buf, OPSET_DOMAIN, opsets[i].domain);
        pl_wire_put_int(&buf, OPSET_VERSION, opsets[i].version);
        put_message(&out->bytes, MODEL_OPSET_IMPORT, &buf);
    }
    pl_arena_free(arena);
    return st;
}

static pl_status put_model(writer *w, rope *out, const pl_model *model) {
    pl_buf *buf = &out->bytes;
    pl_wire_put_int(buf, MODEL_IR_VERSION, model->ir_version);
    put_text(buf, MODEL_PRODUCER_NAME, model->producer_name);
    put_text(buf, MODEL_PRODUCER_VERSION, model->producer_version);
    put_text(buf, MODEL_DOMAIN, model->domain);
    if (model->model_version != 0) pl_wire_put_int(buf, MODEL_MODEL_VERSION, model->model_version);
    put_text(buf, MODEL_DOC_STRING, model->doc);
    PL_TRY(put_graph(w, out, MODEL_GRAPH, model->graph));
    PL_TRY(put_opsets(out, model, w->err));
    put_props(buf, MODEL_METADATA_PROPS, model->props, model->n_props);
    if (w->refer != NULL && w->refer->finish != NULL) w->refer->finish(w->refer->ctx, buf);
    if (model->kept.n_bytes > 0) pl_buf_append(buf, model->kept.data, model->kept.n_bytes);
    if (!pl_buf_ok(buf)) return pl_fail_memory(w->err, buf->n_bytes);
    if (rope_size(out) > MESSAGE_MAX)
        return pl_fail(w->err, PL_E_LIMIT,
                       "the model has %zu bytes, a protobuf message at most %d; use external data",
                       rope_size(out), MESSAGE_MAX);
    return PL_OK;
}

static pl_status put_to_buf(void *ctx, const void *data, size_t n_bytes, pl_err *err) {
    pl_buf_append(ctx, data, n_bytes);
    return pl_buf_ok(ctx) ? PL_OK : pl_fail_memory(err, n_bytes);
}

pl_status pl_model_serialize(const pl_model *model, pl_buf *out, pl_err *err) {
    return pl_model_serialize_referring(model, NULL, out, err);
}

pl_status pl_model_serialize_referring(const pl_model *model, const pl_onnx_refer *refer,
                                       pl_buf *out, pl_err *err) {
    writer w = { .refer = refer, .err = err };
    rope r = { 0 };
    pl_status st = put_model(&w, &r, model);
    if (st == PL_OK) st = rope_write(&r, put_to_buf, out, err);
    rope_release(&r);
    return st;
}

/* ---- files ---- */

static pl_status put_to_file(void *ctx, const void *data, size_t n_bytes, pl_err *err) {
    return pl_file_writer_append(ctx, data, n_bytes, err);
}

static pl_status put_zeros(pl_file_writer *file, uint64_t until, pl_err *err) {
    static const uint8_t zeros[EXTERNAL_ALIGNMENT];
    const uint64_t n = until - pl_file_writer_offset(file);
    return n == 0 ? PL_OK : pl_file_writer_append(file, zeros, (size_t)n, err);
}

static pl_status write_externals(const writer *w, pl_file_writer *file, pl_err *err) {
    for (size_t i = 0; i < w->n_externals; i++) {
        const pl_tensor *t = w->externals[i].tensor;
        PL_TRY(put_zeros(file, w->externals[i].offset, err));
        if (can_borrow(t)) {
            PL_TRY(pl_file_writer_append(file, t->data, pl_tensor_bytes(t), err));
            continue;
        }
        pl_buf raw = PL_BUF_INIT;
        pl_tensor_put_raw(&raw, t);
        const pl_status st = pl_buf_ok(&raw)
                                 ? pl_file_writer_append(file, raw.data, raw.n_bytes, err)
                                 : pl_fail_memory(err, pl_tensor_bytes(t));
        pl_buf_release(&raw);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status sum_weights(void *ctx, pl_graph *graph, pl_err *err) {
    uint64_t *sum = ctx;
    for (size_t i = 0; i < graph->n_values; i++) {
        if (graph->values[i]->init != NULL) *sum += pl_tensor_bytes(graph->values[i]->init);
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], sum_weights, ctx, err));
    return PL_OK;
}

uint64_t pl_model_weight_bytes(const pl_model *model) {
    uint64_t sum = 0;
    return sum_weights(&sum, model->graph, NULL) == PL_OK ? sum : 0;
}

void pl_onnx_put_model_prop(pl_buf *out, const char *key, const char *value) {
    const pl_prop prop = { key, value };
    put_props(out, MODEL_METADATA_PROPS, &prop, 1);
}

/* The data file is complete before the model that refers to it appears. */
static pl_status write_files(writer *w, const rope *r, const char *path, const char *data_path,
                             pl_err *err) {
    pl_file_writer *data = NULL, *file = NULL;
    pl_status st = PL_OK;
    if (w->n_externals > 0 && pl_path_exists(data_path))
        return pl_fail(err, PL_E_EXISTS, "%s already exists", data_path);
    PL_TRY_GOTO(done, st, pl_file_writer_open(path, &file, err));
    PL_TRY_GOTO(done, st, rope_write(r, put_to_file, file, err));
    if (w->n_externals > 0) {
        PL_TRY_GOTO(done, st, pl_file_writer_open(data_path, &data, err));
        PL_TRY_GOTO(done, st, write_externals(w, data, err));
        st = pl_file_writer_commit_take(data, err);
        data = NULL;
        if (st != PL_OK) goto done;
    }
    st = pl_file_writer_commit_take(file, err);
    file = NULL;
done:
    pl_file_writer_abort_take(data);
    pl_file_writer_abort_take(file);
    return st;
}

pl_status pl_model_write(const pl_model *model, const char *path, bool external, pl_err *err) {
    writer w = { .err = err };
    rope r = { 0 };
    pl_buf data_path = PL_BUF_INIT;
    pl_status st = PL_OK;
    const uint64_t n_weights = pl_model_weight_bytes(model);
    pl_buf_printf(&data_path, "%s.data", path);
    if (!pl_buf_ok(&data_path)) {
        st = pl_fail_memory(err, strlen(path));
        goto done;
    }
    if (external || n_weights > INLINE_MAX) w.location = pl_path_basename(pl_buf_str(&data_path));
    PL_TRY_GOTO(done, st, put_model(&w, &r, model));
    st = write_files(&w, &r, path, pl_buf_str(&data_path), err);
done:
    rope_release(&r);
    pl_free(w.externals);
    pl_buf_release(&data_path);
    return st == PL_OK ? st : pl_err_wrap(err, st, "while writing %s", path);
}

void pl_onnx_put_output(pl_buf *onnx, const char *name) {
    pl_buf value = PL_BUF_INIT, graph = PL_BUF_INIT;
    pl_wire_put_string(&value, VALUE_NAME, name);
    pl_wire_put_bytes(&graph, GRAPH_OUTPUT, pl_buf_str(&value), value.n_bytes);
    pl_wire_put_bytes(onnx, MODEL_GRAPH, pl_buf_str(&graph), graph.n_bytes);
    if (!pl_buf_ok(&value) || !pl_buf_ok(&graph)) onnx->failed = true;
    pl_buf_release(&value);
    pl_buf_release(&graph);
}

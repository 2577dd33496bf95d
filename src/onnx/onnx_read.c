/* Reading ModelProto, GraphProto, NodeProto and FunctionProto.
 *
 * By hand rather than with protobuf-c: zero copy (537 MB open in 0.1 ms instead of 600 ms and 1
 * GB), no generated code, and we check all bounds ourselves. Repeated `graph` fields merge, as
 * protobuf requires. A graph is read in passes: values of inputs, initializers and node outputs
 * first, then the nodes, so that bodies and unsorted nodes can refer to anything that exists.
 * Function calls are inlined by reading the function's nodes again for each call. */
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx.h"
#include "onnx/onnx_int.h"

/* ---- small pieces ---- */

static pl_status fail_wire(pl_err *err, const char *what) {
    return pl_fail(err, PL_E_FORMAT, "%s: malformed or truncated protobuf", what);
}

static const char *intern_bytes(pl_model *model, pl_bytes b) {
    return pl_model_intern(model, pl_bytes_chars(b), b.n_bytes);
}

static const char *keep_string(pl_model *model, pl_bytes b) {
    return b.n_bytes == 0 ? "" : pl_arena_strndup(model->arena, pl_bytes_chars(b), b.n_bytes);
}

static pl_status read_prop(pl_model *model, pl_bytes bytes, pl_prop *out, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *out = (pl_prop){ "", "" };
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == ENTRY_KEY) out->key = intern_bytes(model, f.bytes);
        if (f.number == ENTRY_VALUE) out->value = keep_string(model, f.bytes);
    }
    if (wire.bad) return fail_wire(err, "metadata_props");
    return out->key == NULL || out->value == NULL ? pl_fail_memory(err, bytes.n_bytes) : PL_OK;
}

static pl_status add_prop(pl_model *model, const pl_prop **props, size_t *n, pl_bytes bytes,
                          pl_err *err) {
    pl_prop prop;
    PL_TRY(read_prop(model, bytes, &prop, err));
    /* The capacity is the next power of two: a file of a megabyte may have 500000 empty entries. */
    pl_prop *list = (pl_prop *)(uintptr_t)*props;
    if ((*n & (*n - 1)) == 0) {
        list = pl_arena_array(model->arena, *n == 0 ? 1 : 2 * *n, sizeof(*list));
        if (list == NULL) return pl_fail_memory(err, *n * sizeof(*list));
        if (*n > 0) memcpy(list, *props, *n * sizeof(*list));
    }
    list[(*n)++] = prop;
    *props = list;
    return PL_OK;
}

pl_status pl_onnx_read_opset(pl_model *model, pl_bytes bytes, pl_opset *out, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *out = (pl_opset){ "", 0 };
    int64_t version = 0;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == OPSET_DOMAIN && pl_field_is_bytes(&f)) {
            out->domain = intern_bytes(model, f.bytes);
            if (out->domain == NULL) return pl_fail_memory(err, f.bytes.n_bytes);
        }
        if (f.number == OPSET_VERSION && f.type == 0) version = (int64_t)f.integer;
    }
    if (wire.bad) return fail_wire(err, "opset_import");
    if (version < 0 || version > 1000000) {
        return pl_fail(err, PL_E_INVALID, "opset_import: invalid version %lld of domain '%s'",
                       (long long)version, out->domain);
    }
    if (pl_domain_is_onnx(out->domain)) out->domain = "";
    out->version = (int)version;
    return PL_OK;
}

/* ---- names ---- */

/* Marks an input that a function call leaves out: its uses inside are left out, too. Only its
 * address matters; it is never written. */
static pl_value omitted;

static pl_value *frame_find_here(const pl_onnx_frame *frame, pl_bytes name) {
    const pl_strmap *map = frame->names != NULL ? frame->names : &frame->graph->by_name;
    return pl_strmap_get_n(map, pl_bytes_chars(name), name.n_bytes);
}

static pl_value *frame_find(const pl_onnx_frame *frame, pl_bytes name) {
    for (; frame != NULL; frame = frame->parent) {
        pl_value *value = frame_find_here(frame, name);
        if (value != NULL) return value;
        if (frame->names != NULL) return NULL; /* functions do not see outer names */
    }
    return NULL;
}

/* A long name of a call is prefixed to every name inside, so limit the bytes of names made by
 * inlining. */
static pl_status count_name(pl_onnx_reader *r, size_t n_bytes, pl_err *err) {
    r->inlined_bytes += n_bytes + sizeof(pl_value *);
    if (r->inlined_bytes / 64 <= r->n_bytes + (1 << 18)) return PL_OK;
    return pl_fail(err, PL_E_LIMIT,
                   "inlining the functions makes the model more than 64 times larger");
}

/* Defines a value in this frame. Inside a function its name gets the prefix of the call. */
static pl_status frame_define(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes name,
                              pl_value **out, pl_err *err) {
    if (frame->names == NULL) {
        return pl_graph_add_value_n(frame->graph, pl_bytes_chars(name), name.n_bytes, out, err);
    }
    pl_model *model = frame->graph->model;
    const char *key = keep_string(model, name);
    if (key == NULL) return pl_fail_memory(err, name.n_bytes);
    PL_TRY(count_name(r, strlen(frame->prefix) + name.n_bytes, err));
    const char *full = pl_arena_printf(model->arena, "%s/%s", frame->prefix, key);
    if (full == NULL) return pl_fail_memory(err, name.n_bytes);
    PL_TRY(pl_graph_add_fresh_value(frame->graph, full, out, err));
    return pl_strmap_put(frame->names, key, *out) == 0 ? PL_OK : pl_fail_memory(err, name.n_bytes);
}

static int frame_opset(const pl_onnx_frame *frame, const char *domain) {
    for (; frame != NULL; frame = frame->parent) {
        if (frame->names == NULL) continue;
        for (size_t i = 0; i < frame->n_opsets; i++) {
            if (strcmp(frame->opsets[i].domain, domain) == 0) return frame->opsets[i].version;
        }
        return 0;
    }
    return -1; /* not in a function: use the model's */
}

/* ---- nodes ---- */

typedef struct node_head {
    pl_bytes op, domain, name, doc, overload;
    size_t n_in, n_out, n_attrs, n_props;
} node_head;

static pl_status read_node_head(pl_bytes bytes, node_head *out, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *out = (node_head){ 0 };
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        switch (f.number) {
        case NODE_INPUT: out->n_in++; break;
        case NODE_OUTPUT: out->n_out++; break;
        case NODE_ATTRIBUTE: out->n_attrs++; break;
        case NODE_METADATA_PROPS: out->n_props++; break;
        case NODE_NAME: out->name = f.bytes; break;
        case NODE_OP_TYPE: out->op = f.bytes; break;
        case NODE_DOMAIN: out->domain = f.bytes; break;
        case NODE_DOC_STRING: out->doc = f.bytes; break;
        case NODE_OVERLOAD: out->overload = f.bytes; break;
        default: break;
        }
    }
    if (wire.bad) return fail_wire(err, "node");
    if (out->op.n_bytes == 0) {
        return pl_fail(err, PL_E_FORMAT, "node '%.*s' has no op_type",
                       (int)(out->name.n_bytes < 200 ? out->name.n_bytes : 200),
                       pl_bytes_chars(out->name));
    }
    if (memchr(out->op.data, 0, out->op.n_bytes) != NULL) {
        return pl_fail(err, PL_E_FORMAT, "node '%.*s' has an op_type with a NUL byte",
                       (int)pl_size_min(out->name.n_bytes, 200), pl_bytes_chars(out->name));
    }
    return PL_OK;
}

static pl_status define_inside(pl_onnx_frame *frame, pl_bytes name, pl_err *err) {
    const char *key = pl_bytes_chars(name);
    if (pl_strmap_get_n(frame->defined, key, name.n_bytes) != NULL) {
        return pl_fail(err, PL_E_INVALID, "function %s: value '%.*s' is defined twice",
                       frame->function, (int)pl_size_min(name.n_bytes, 200), key);
    }
    return pl_strmap_put_n(frame->defined, key, name.n_bytes, frame) == 0 ? PL_OK
                                                                          : pl_fail_memory(err, 1);
}

static pl_status define_outputs(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes node,
                                pl_err *err) {
    pl_wire wire = pl_wire_of(node);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number != NODE_OUTPUT || !pl_field_is_bytes(&f) || f.bytes.n_bytes == 0) continue;
        pl_value *value = NULL;
        if (frame->names != NULL) {
            PL_TRY(define_inside(frame, f.bytes, err));
            /* An output of a function is already a value of the caller. */
            if (frame_find_here(frame, f.bytes) != NULL) continue;
        }
        PL_TRY(frame_define(r, frame, f.bytes, &value, err));
    }
    return wire.bad ? fail_wire(err, "node") : PL_OK;
}

static pl_status fail_unknown_input(const node_head *head, pl_bytes name, pl_err *err) {
    return pl_fail(
        err, PL_E_INVALID,
        "node '%.*s' (%.*s): input '%.*s' is not defined by any node, input or initializer",
        (int)(head->name.n_bytes < 200 ? head->name.n_bytes : 200), pl_bytes_chars(head->name),
        (int)(head->op.n_bytes < 100 ? head->op.n_bytes : 100), pl_bytes_chars(head->op),
        (int)(name.n_bytes < 200 ? name.n_bytes : 200), pl_bytes_chars(name));
}

typedef struct node_parts { /* one node, resolved, not yet in the graph */
    pl_value **in, **out;
    pl_attr *attrs;
    pl_prop *props;
    size_t n_in, n_out, n_attrs, n_props;
} node_parts;

static pl_status resolve_edge(pl_onnx_frame *frame, const node_head *head, pl_bytes name,
                              bool is_input, pl_value **out, pl_err *err) {
    *out = NULL;
    if (name.n_bytes == 0) return PL_OK;
    *out = is_input ? frame_find(frame, name) : frame_find_here(frame, name);
    if (*out == NULL) return fail_unknown_input(head, name, err);
    if (*out == &omitted) *out = NULL;
    return PL_OK;
}

static pl_status read_node_parts(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes bytes,
                                 const node_head *head, node_parts *p, pl_err *err) {
    pl_arena *arena = r->model->arena;
    p->in = pl_arena_array(arena, head->n_in, sizeof(pl_value *));
    p->out = pl_arena_array(arena, head->n_out, sizeof(pl_value *));
    p->attrs = pl_arena_array(arena, head->n_attrs, sizeof(pl_attr));
    p->props = pl_arena_array(arena, head->n_props, sizeof(pl_prop));
    if (p->in == NULL || p->out == NULL || p->attrs == NULL || p->props == NULL) {
        return pl_fail_memory(err, bytes.n_bytes);
    }
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        bool found = false;
        switch (f.number) {
        case NODE_INPUT:
            PL_TRY(resolve_edge(frame, head, f.bytes, true, &p->in[p->n_in++], err));
            break;
        case NODE_OUTPUT:
            PL_TRY(resolve_edge(frame, head, f.bytes, false, &p->out[p->n_out++], err));
            break;
        case NODE_ATTRIBUTE:
            PL_TRY(pl_onnx_read_attr(r, frame, f.bytes, &p->attrs[p->n_attrs], &found, err));
            p->n_attrs += found;
            break;
        case NODE_METADATA_PROPS:
            PL_TRY(read_prop(r->model, f.bytes, &p->props[p->n_props++], err));
            break;
        default: break;
        }
    }
    return PL_OK; /* cannot happen: the same bytes were read before */
}

static pl_status inline_call(pl_onnx_reader *r, pl_onnx_frame *frame, const pl_function *function,
                             const char *node_name, const node_parts *call, pl_err *err);

/* Sets the owner of bodies, which were read before their node existed. */
static void own_bodies(pl_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        pl_attr *attr = &node->attrs[i];
        if (attr->type == PL_ATTR_GRAPH && attr->graph != NULL) attr->graph->owner = node;
        for (size_t k = 0; attr->type == PL_ATTR_GRAPHS && k < attr->n; k++) {
            attr->graphs[k]->owner = node;
        }
    }
}

static pl_status add_node(pl_onnx_frame *frame, const node_head *head, const char *domain,
                          const char *name, const node_parts *p, pl_err *err) {
    pl_model *model = frame->graph->model;
    pl_node *node = NULL;
    const char *op = intern_bytes(model, head->op);
    const char *doc = keep_string(model, head->doc);
    const char *overload = keep_string(model, head->overload);
    if (op == NULL || doc == NULL || overload == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_graph_add_node(frame->graph, op, domain, 0, 0, &node, err));
    node->name = name;
    node->doc = doc;
    node->overload = overload;
    node->in = p->in;
    node->out = p->out;
    node->attrs = p->attrs;
    node->props = p->props;
    node->n_in = (uint32_t)p->n_in;
    node->n_out = (uint32_t)p->n_out;
    node->n_attrs = (uint32_t)p->n_attrs;
    node->n_props = (uint32_t)p->n_props;
    const int opset = frame_opset(frame, node->domain);
    if (opset >= 0) node->opset = opset;
    for (const pl_onnx_frame *f = frame; f != NULL && node->function == NULL; f = f->parent) {
        node->function = f->function;
    }
    /* torch 2 stores module and line only at the call; nodes of its functions inherit them. */
    for (const pl_onnx_frame *f = frame; f != NULL && node->n_props == 0; f = f->parent) {
        node->props = f->props;
        node->n_props = (uint32_t)f->n_props;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        pl_node_set_output(node, i, p->out[i]);
    own_bodies(node);
    return PL_OK;
}

static pl_status read_node(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes bytes, pl_err *err) {
    pl_model *model = r->model;
    node_head head;
    node_parts parts = { 0 };
    if (++r->n_nodes > PL_ONNX_NODES_MAX) {
        return pl_fail(err, PL_E_LIMIT, "more than %d nodes after inlining functions",
                       PL_ONNX_NODES_MAX);
    }
    PL_TRY(read_node_head(bytes, &head, err));
    const char *domain = intern_bytes(model, head.domain);
    const char *name = keep_string(model, head.name);
    if (domain == NULL || name == NULL) return pl_fail_memory(err, head.name.n_bytes);
    if (pl_domain_is_onnx(domain)) domain = "";
    if (frame->names != NULL && name[0] != '\0') {
        PL_TRY(count_name(r, strlen(frame->prefix) + head.name.n_bytes, err));
        name = pl_arena_printf(model->arena, "%s/%s", frame->prefix, name);
        if (name == NULL) return pl_fail_memory(err, head.name.n_bytes);
    }
    PL_TRY(read_node_parts(r, frame, bytes, &head, &parts, err));
    const pl_function *function = NULL;
    PL_TRY(pl_onnx_find_function(r, domain, head.op, head.overload, &function, err));
    if (function != NULL) return inline_call(r, frame, function, name, &parts, err);
    return add_node(frame, &head, domain, name, &parts, err);
}

/* ---- functions ---- */

static pl_status bind_formal(pl_onnx_frame *inner, pl_bytes formal, pl_value *actual, pl_err *err) {
    pl_model *model = inner->graph->model;
    const char *key = keep_string(model, formal);
    if (key == NULL) return pl_fail_memory(err, formal.n_bytes);
    return pl_strmap_put(inner->names, key, actual) == 0 ? PL_OK
                                                         : pl_fail_memory(err, formal.n_bytes);
}

/* Attributes of the call, then defaults of the function for missing ones. */
static pl_status call_attrs(pl_onnx_reader *r, pl_onnx_frame *frame, const pl_function *function,
                            const node_parts *call, pl_onnx_frame *inner, pl_err *err) {
    for (size_t i = 0; i < call->n_attrs; i++) {
        pl_attr *attr = &call->attrs[i];
        if (pl_strmap_has(inner->attrs, attr->name)) continue; /* the first of a name wins */
        if (pl_strmap_put(inner->attrs, attr->name, attr) != 0) return pl_fail_memory(err, 1);
    }
    pl_wire wire = pl_wire_of(function->bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number != FUNCTION_ATTRIBUTE_PROTO || !pl_field_is_bytes(&f)) continue;
        bool found = false;
        pl_attr *attr = pl_arena_alloc(r->model->arena, sizeof(*attr));
        if (attr == NULL) return pl_fail_memory(err, sizeof(*attr));
        PL_TRY(pl_onnx_read_attr(r, frame, f.bytes, attr, &found, err));
        if (!found || pl_strmap_has(inner->attrs, attr->name)) continue;
        if (pl_strmap_put(inner->attrs, attr->name, attr) != 0) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

static pl_status bind_call(pl_onnx_reader *r, const pl_function *function, const node_parts *call,
                           pl_onnx_frame *inner, pl_err *err) {
    pl_wire wire = pl_wire_of(function->bytes);
    pl_wire_field f;
    size_t n_in = 0, n_out = 0, n_opsets = 0;
    while (pl_wire_next(&wire, &f))
        n_opsets += f.number == FUNCTION_OPSET_IMPORT;
    if (wire.bad) return fail_wire(err, "function");
    if (n_opsets > PL_MODEL_OPSETS_MAX) {
        return pl_fail(err, PL_E_LIMIT, "at most %d domains are supported", PL_MODEL_OPSETS_MAX);
    }
    pl_opset *opsets = pl_arena_array(r->model->arena, n_opsets, sizeof(*opsets));
    if (opsets == NULL) return pl_fail_memory(err, sizeof(*opsets));
    wire = pl_wire_of(function->bytes);
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == FUNCTION_INPUT) {
            pl_value *actual = n_in < call->n_in ? call->in[n_in] : NULL;
            n_in++;
            PL_TRY(bind_formal(inner, f.bytes, actual != NULL ? actual : &omitted, err));
            PL_TRY(define_inside(inner, f.bytes, err));
        } else if (f.number == FUNCTION_OPSET_IMPORT) {
            PL_TRY(pl_onnx_read_opset(r->model, f.bytes, &opsets[inner->n_opsets++], err));
        }
    }
    inner->opsets = opsets;
    wire = pl_wire_of(function->bytes);
    while (pl_wire_next(&wire, &f)) {
        if (f.number != FUNCTION_OUTPUT || !pl_field_is_bytes(&f)) continue;
        pl_value *actual = n_out < call->n_out ? call->out[n_out] : NULL;
        n_out++;
        if (actual != NULL && frame_find_here(inner, f.bytes) != NULL) {
            return pl_fail(err, PL_E_UNSUPPORTED,
                           "function %s returns its input '%.*s' unchanged; expected an Identity",
                           function->name, (int)pl_size_min(f.bytes.n_bytes, 200),
                           pl_bytes_chars(f.bytes));
        }
        if (actual != NULL) PL_TRY(bind_formal(inner, f.bytes, actual, err));
    }
    if (call->n_in > n_in || call->n_out > n_out) {
        return pl_fail(err, PL_E_INVALID,
                       "call of function %s has %zu inputs and %zu outputs, expected at most %zu "
                       "and %zu",
                       function->name, call->n_in, call->n_out, n_in, n_out);
    }
    return PL_OK;
}

pl_status pl_onnx_read_nodes(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes_list spans,
                             uint32_t field, pl_err *err) {
    for (size_t s = 0; s < spans.n; s++) {
        pl_wire wire = pl_wire_of(spans.items[s]);
        pl_wire_field f;
        while (pl_wire_next(&wire, &f)) {
            if (f.number == field && pl_field_is_bytes(&f)) {
                PL_TRY(define_outputs(r, frame, f.bytes, err));
            }
        }
    }
    for (size_t s = 0; s < spans.n; s++) {
        pl_wire wire = pl_wire_of(spans.items[s]);
        pl_wire_field f;
        while (pl_wire_next(&wire, &f)) {
            if (f.number == field && pl_field_is_bytes(&f)) {
                PL_TRY(read_node(r, frame, f.bytes, err));
            }
        }
    }
    return PL_OK;
}

static const char *call_prefix(const char *node_name, const node_parts *call,
                               const char *function) {
    if (node_name[0] != '\0') return node_name;
    for (size_t i = 0; i < call->n_out; i++) {
        if (call->out[i] != NULL) return call->out[i]->name;
    }
    return function;
}

static pl_status inline_call(pl_onnx_reader *r, pl_onnx_frame *frame, const pl_function *function,
                             const char *node_name, const node_parts *call, pl_err *err) {
    pl_strmap names = PL_STRMAP_INIT, defined = PL_STRMAP_INIT, attrs = PL_STRMAP_INIT;
    pl_onnx_frame inner = { .parent = frame,
                            .graph = frame->graph,
                            .names = &names,
                            .defined = &defined,
                            .attrs = &attrs,
                            .props = call->props,
                            .n_props = call->n_props,
                            .depth = frame->depth + 1 };
    pl_status st = PL_OK;
    if (inner.depth > PL_GRAPH_DEPTH_MAX) {
        return pl_fail(err, PL_E_LIMIT,
                       "function %s: calls are nested deeper than %d (does it call itself?)",
                       function->name, PL_GRAPH_DEPTH_MAX);
    }
    const char *outer = frame->function != NULL ? frame->function : "";
    inner.function =
        pl_arena_printf(r->model->arena, "%s%s%s%s%s", outer, outer[0] ? "/" : "", function->domain,
                        function->domain[0] ? "." : "", function->name);
    inner.prefix = call_prefix(node_name, call, function->name);
    if (inner.function == NULL) return pl_fail_memory(err, 1);
    PL_TRY(count_name(r, strlen(inner.function), err));
    PL_TRY_GOTO(done, st, call_attrs(r, frame, function, call, &inner, err));
    PL_TRY_GOTO(done, st, bind_call(r, function, call, &inner, err));
    const pl_bytes_list span = { &function->bytes, 1 };
    PL_TRY_GOTO(done, st, pl_onnx_read_nodes(r, &inner, span, FUNCTION_NODE, err));
    for (size_t i = 0; i < call->n_out; i++) {
        if (call->out[i] == NULL || call->out[i]->producer != NULL) continue;
        st = pl_fail(err, PL_E_INVALID, "function %s does not produce its output %zu",
                     function->name, i);
        goto done;
    }
done:
    pl_strmap_release(&names);
    pl_strmap_release(&defined);
    pl_strmap_release(&attrs);
    if (st == PL_OK || frame->function != NULL) return st; /* wrapped by the outermost call */
    return pl_err_wrap(err, st, "in function %s", function->name);
}

/* ---- graphs ---- */

static pl_status read_input(pl_onnx_frame *frame, pl_bytes bytes, pl_err *err) {
    pl_onnx_value_info info;
    pl_value *value = NULL;
    PL_TRY(pl_onnx_read_value_info(frame->graph->model, bytes, &info, err));
    PL_TRY(pl_graph_add_value_n(frame->graph, pl_bytes_chars(info.name), info.name.n_bytes, &value,
                                err));
    pl_onnx_declare(value, &info);
    value->doc = keep_string(frame->graph->model, info.doc);
    if (value->doc == NULL) return pl_fail_memory(err, info.doc.n_bytes);
    return pl_graph_add_input(frame->graph, value, err);
}

static pl_status add_initializer(pl_onnx_frame *frame, const char *name, pl_tensor *tensor,
                                 pl_err *err) {
    pl_value *value = pl_graph_find(frame->graph, name);
    const pl_tensor *before = value == NULL ? NULL : value->init;
    if (before != NULL && (before->dtype != tensor->dtype || !pl_tensor_same_shape(before, tensor)))
        return pl_fail(err, PL_E_INVALID, "graph '%s': two initializers '%s' of different shapes",
                       frame->graph->name, name);
    if (before == NULL && (value == NULL || !value->is_input))
        PL_TRY(pl_graph_add_value(frame->graph, name, &value, err));
    value->init = tensor; /* the last one counts, as in ONNX Runtime */
    if (value->type != NULL) return PL_OK;
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < tensor->rank; i++)
        dims[i] = pl_dim_of(tensor->dims[i]);
    value->type = pl_type_tensor(frame->graph->model->arena, tensor->dtype, tensor->rank, dims);
    return value->type == NULL ? pl_fail_memory(err, sizeof(pl_type)) : PL_OK;
}

static pl_status read_initializer(pl_onnx_reader *r, pl_onnx_frame *frame, const pl_wire_field *f,
                                  pl_err *err) {
    const char *name = "";
    pl_tensor *tensor = NULL;
    if (f->number == GRAPH_SPARSE_INITIALIZER) {
        PL_TRY(pl_onnx_read_sparse(r, f->bytes, &name, &tensor, err));
    } else {
        PL_TRY(pl_onnx_read_tensor(r, f->bytes, &name, &tensor, err));
    }
    PL_TRY(pl_model_keep_tensor_take(r->model, tensor, err));
    PL_TRY(add_initializer(frame, name, tensor, err));
    pl_value *value = pl_graph_find(frame->graph, name);
    const pl_bytes doc = pl_onnx_tensor_doc(f->bytes);
    if (doc.n_bytes == 0 || value->is_input) return PL_OK;
    value->doc = keep_string(r->model, doc);
    return value->doc == NULL ? pl_fail_memory(err, doc.n_bytes) : PL_OK;
}

static pl_status read_graph_heads(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes span,
                                  pl_err *err) {
    pl_wire wire = pl_wire_of(span);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        switch (f.number) {
        case GRAPH_NAME: frame->graph->name = intern_bytes(r->model, f.bytes); break;
        case GRAPH_DOC_STRING: frame->graph->doc = keep_string(r->model, f.bytes); break;
        case GRAPH_INPUT: PL_TRY(read_input(frame, f.bytes, err)); break;
        case GRAPH_METADATA_PROPS:
            PL_TRY(add_prop(r->model, &frame->graph->props, &frame->graph->n_props, f.bytes, err));
            break;
        default: break;
        }
        if (frame->graph->name == NULL || frame->graph->doc == NULL) {
            return pl_fail_memory(err, f.bytes.n_bytes);
        }
    }
    return wire.bad ? fail_wire(err, "graph") : PL_OK;
}

static pl_status read_initializers(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes span,
                                   pl_err *err) {
    pl_wire wire = pl_wire_of(span);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == GRAPH_INITIALIZER || f.number == GRAPH_SPARSE_INITIALIZER) {
            PL_TRY(read_initializer(r, frame, &f, err));
        }
    }
    return PL_OK;
}

/* Known types are kept. */
static pl_status add_value_info(pl_value *value, const pl_onnx_value_info *info, pl_err *err) {
    pl_onnx_declare(value, info);
    if (value->doc[0] == '\0') value->doc = keep_string(value->graph->model, info->doc);
    return value->doc == NULL ? pl_fail_memory(err, info->doc.n_bytes) : PL_OK;
}

static pl_status read_output(pl_onnx_frame *frame, pl_bytes bytes, pl_err *err) {
    pl_onnx_value_info info;
    PL_TRY(pl_onnx_read_value_info(frame->graph->model, bytes, &info, err));
    pl_value *value = frame_find(frame, info.name);
    if (value == NULL || value == &omitted) {
        return pl_fail(
            err, PL_E_INVALID,
            value == NULL
                ? "graph '%s': output '%.*s' is not defined by any node, input or initializer"
                : "graph '%s': output '%.*s' is an input that the call omits",
            frame->graph->name, (int)pl_size_min(info.name.n_bytes, 200),
            pl_bytes_chars(info.name));
    }
    PL_TRY(add_value_info(value, &info, err));
    return pl_graph_add_output(frame->graph, value, err);
}

static pl_status read_graph_tails(pl_onnx_frame *frame, pl_bytes span, pl_buf *kept, pl_err *err) {
    pl_wire wire = pl_wire_of(span);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == GRAPH_OUTPUT) PL_TRY(read_output(frame, f.bytes, err));
        if (f.number == GRAPH_QUANTIZATION)
            pl_wire_put_bytes(kept, f.number, f.bytes.data, f.bytes.n_bytes);
        if (f.number != GRAPH_VALUE_INFO) continue;
        pl_onnx_value_info info;
        PL_TRY(pl_onnx_read_value_info(frame->graph->model, f.bytes, &info, err));
        pl_value *value = frame_find_here(frame, info.name);
        if (value != NULL)
            PL_TRY(add_value_info(value, &info, err));
        else
            pl_wire_put_bytes(kept, f.number, f.bytes.data, f.bytes.n_bytes);
    }
    return PL_OK;
}

pl_status pl_onnx_read_graph(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes_list spans,
                             pl_err *err) {
    if (frame->depth > PL_GRAPH_DEPTH_MAX) {
        return pl_fail(err, PL_E_LIMIT, "bodies are nested deeper than %d", PL_GRAPH_DEPTH_MAX);
    }
    for (size_t s = 0; s < spans.n; s++) {
        PL_TRY(read_graph_heads(r, frame, spans.items[s], err));
    }
    for (size_t s = 0; s < spans.n; s++) {
        PL_TRY(read_initializers(r, frame, spans.items[s], err));
    }
    PL_TRY(pl_onnx_read_nodes(r, frame, spans, GRAPH_NODE, err));
    pl_buf kept = PL_BUF_INIT;
    pl_status st = PL_OK;
    for (size_t s = 0; s < spans.n && st == PL_OK; s++)
        st = read_graph_tails(frame, spans.items[s], &kept, err);
    if (st == PL_OK) return pl_onnx_keep(r->model, &kept, &frame->graph->kept, err);
    pl_buf_release(&kept);
    return st;
}

/* ---- models ---- */

static pl_status read_model_scalar(pl_model *model, const pl_wire_field *f, pl_err *err) {
    const char **slot = NULL;
    if (f->type == 0) {
        if (f->number == MODEL_IR_VERSION) model->ir_version = (int64_t)f->integer;
        if (f->number == MODEL_MODEL_VERSION) model->model_version = (int64_t)f->integer;
        return PL_OK;
    }
    if (!pl_field_is_bytes(f)) return PL_OK;
    switch (f->number) {
    case MODEL_PRODUCER_NAME: slot = &model->producer_name; break;
    case MODEL_PRODUCER_VERSION: slot = &model->producer_version; break;
    case MODEL_DOMAIN: slot = &model->domain; break;
    case MODEL_DOC_STRING: slot = &model->doc; break;
    case MODEL_METADATA_PROPS:
        return add_prop(model, &model->props, &model->n_props, f->bytes, err);
    case MODEL_OPSET_IMPORT: {
        pl_opset opset;
        PL_TRY(pl_onnx_read_opset(model, f->bytes, &opset, err));
        return pl_model_set_opset(model, opset.domain, opset.version, err);
    }
    default: return PL_OK;
    }
    *slot = keep_string(model, f->bytes);
    return *slot == NULL ? pl_fail_memory(err, f->bytes.n_bytes) : PL_OK;
}

typedef struct model_spans {
    pl_bytes *graphs;
    size_t n_graphs, n_functions;
} model_spans;

static pl_status read_model_heads(pl_onnx_reader *r, pl_bytes bytes, model_spans *spans,
                                  pl_err *err) {
    pl_model *model = r->model;
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        spans->n_graphs += f.number == MODEL_GRAPH && f.type == 2;
        spans->n_functions += f.number == MODEL_FUNCTIONS && f.type == 2;
        PL_TRY(read_model_scalar(model, &f, err));
    }
    if (wire.bad) return fail_wire(err, "model");
    if (spans->n_graphs == 0) {
        return pl_fail(err, PL_E_FORMAT, "not an ONNX model: it has no graph");
    }
    spans->graphs = pl_arena_array(model->arena, spans->n_graphs, sizeof(pl_bytes));
    model->functions = pl_arena_array(model->arena, spans->n_functions, sizeof(pl_function));
    if (spans->graphs == NULL || model->functions == NULL) return pl_fail_memory(err, 1);
    size_t n_graphs = 0;
    wire = pl_wire_of(bytes);
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == MODEL_GRAPH) spans->graphs[n_graphs++] = f.bytes;
        if (f.number != MODEL_FUNCTIONS) continue;
        PL_TRY(pl_onnx_add_function(r, f.bytes, &model->functions[model->n_functions], err));
        model->n_functions++;
    }
    return PL_OK;
}

static void map_release(void *map) {
    pl_file_map_unref(map);
}

static pl_status read_model(pl_onnx_reader *r, pl_bytes bytes, pl_err *err) {
    model_spans spans = { 0 };
    if (r->map != NULL) {
        pl_file_map *kept = pl_file_map_ref(r->map); /* function bytes point into it */
        if (pl_arena_defer(r->model->arena, map_release, kept) != 0) {
            pl_file_map_unref(kept);
            return pl_fail_memory(err, 1);
        }
    }
    PL_TRY(read_model_heads(r, bytes, &spans, err));
    pl_buf kept = PL_BUF_INIT;
    pl_wire wire = pl_wire_of(bytes);
    for (pl_wire_field f; pl_wire_next(&wire, &f);)
        if (f.number == MODEL_TRAINING_INFO && pl_field_is_bytes(&f))
            pl_wire_put_bytes(&kept, f.number, f.bytes.data, f.bytes.n_bytes);
    PL_TRY(pl_onnx_keep(r->model, &kept, &r->model->kept, err));
    /* IR 1 and 2 have no imports: everything is version 1. */
    if (r->model->n_opsets == 0) PL_TRY(pl_model_set_opset(r->model, "", 1, err));
    pl_onnx_frame frame = { .graph = r->model->graph };
    PL_TRY(pl_onnx_read_graph(r, &frame, (pl_bytes_list){ spans.graphs, spans.n_graphs }, err));
    return pl_model_verify(r->model, err);
}

static pl_status read_bytes(pl_bytes bytes, pl_file_map *map, const char *folder, pl_dir *dir,
                            bool looking, const char *name, pl_model **out, pl_err *err) {
    pl_onnx_reader r = {
        .map = map, .folder = folder, .looking = looking, .n_bytes = bytes.n_bytes
    };
    PL_TRY(pl_model_new(&r.model, err));
    r.dir = dir == NULL ? NULL : pl_dir_ref(dir);
    pl_status st = read_model(&r, bytes, err);
    pl_onnx_drop_references(r.model);
    for (size_t i = 0; i < r.external.n_entries; i++) {
        pl_file_map_unref(r.external.entries[i].value);
    }
    pl_strmap_release(&r.external);
    pl_strmap_release(&r.functions);
    pl_dir_close(r.dir);
    if (st == PL_OK) {
        const char *path = pl_arena_strdup(r.model->arena, name);
        if (path == NULL) st = pl_fail_memory(err, strlen(name));
        r.model->path = path;
    }
    if (st != PL_OK) {
        pl_model_free(r.model);
        return pl_err_wrap(err, st, "%s", name);
    }
    *out = r.model;
    return PL_OK;
}

pl_status pl_model_read_bytes(pl_bytes bytes, pl_file_map *map, const char *dir, const char *name,
                              pl_model **out, pl_err *err) {
    return read_bytes(bytes, map, dir, NULL, false, name, out, err);
}

static pl_status read_in(pl_dir *dir, const char *name, bool looking, pl_model **out, pl_err *err) {
    pl_file_map *map = NULL;
    char *path = pl_path_join(pl_dir_path(dir), name);
    pl_status st = path == NULL ? pl_fail_memory(err, 1) : pl_dir_map(dir, name, &map, err);
    if (st == PL_OK)
        st = read_bytes((pl_bytes){ map->data, map->n_bytes }, map, NULL, dir, looking, path, out,
                        err);
    pl_file_map_unref(map);
    pl_free(path);
    return st;
}

pl_status pl_model_read_in(pl_dir *dir, const char *name, pl_model **out, pl_err *err) {
    return read_in(dir, name, false, out, err);
}

pl_status pl_model_look_in(pl_dir *dir, const char *name, pl_model **out, pl_err *err) {
    return read_in(dir, name, true, out, err);
}

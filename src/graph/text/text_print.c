/* The printer of the ONNX text form.
 *
 * What onnx.parser can read is written as by onnx.printer. Our extensions: names that are not
 * identifiers, or look like types, are always quoted; control characters and invalid UTF-8 are
 * \xHH; NaNs other than the default are nan(0xBITS). Lost, because the format cannot hold them: doc
 * strings of graphs, nodes and values, metadata of graphs and nodes. */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/utf8.h"
#include "graph/portable.h"
#include "graph/text/text.h"
#include "graph/text/text_int.h"

typedef struct printer {
    pl_buf *out;
    int64_t max_elements;
    int indent;
    pl_err *err;
} printer;

/* ---- words ---- */

static void put_quoted(pl_buf *out, const char *s, size_t n) {
    pl_buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        const size_t step = pl_utf8_step(s + i, n - i);
        const unsigned char c = (unsigned char)s[i];
        if (step == 0 || (c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
            pl_buf_printf(out, "\\x%02x", (unsigned)c);
            i++;
            continue;
        }
        if (c == '"' || c == '\\') pl_buf_putc(out, '\\');
        pl_buf_append(out, s + i, step);
        i += step;
    }
    pl_buf_putc(out, '"');
}

/* Unquoted only if no reader can mistake it for something else. */
static void put_name(pl_buf *out, const char *name) {
    const size_t n = strlen(name);
    if (pl_lex_is_ident(name, n) && !pl_text_is_type_word(name, n) &&
        !pl_lex_word_is_float((pl_string){ name, n })) {
        pl_buf_append(out, name, n);
    } else {
        put_quoted(out, name, n);
    }
}

static void put_indent(const printer *p) {
    for (int i = 0; i < p->indent; i++)
        pl_buf_puts(p->out, "   ");
}

/* com.microsoft is unquoted; a domain with an unusual part is quoted as a whole. */
static void put_operator(pl_buf *out, const pl_node *node) {
    const char *part = node->domain;
    bool plain = true;
    while (plain && part[0] != '\0') {
        const size_t n = strcspn(part, ".");
        plain = pl_lex_is_ident(part, n) && (part[n] == '\0' || part[n + 1] != '\0');
        part += n + (part[n] == '.');
    }
    if (node->domain[0] != '\0') {
        if (plain) {
            pl_buf_puts(out, node->domain);
        } else {
            put_quoted(out, node->domain, strlen(node->domain));
        }
        pl_buf_putc(out, '.');
    }
    put_name(out, node->op);
    if (node->overload[0] == '\0') return;
    pl_buf_putc(out, ':');
    put_name(out, node->overload);
}

/* ---- numbers: the shortest of two precisions that reads back to the same bits ---- */

static void put_f32(pl_buf *out, float x) {
    char text[40];
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) {
        if ((bits & 0x7fffffffU) == 0x7fc00000U) {
            pl_buf_puts(out, bits >> 31 ? "-nan" : "nan");
        } else {
            pl_buf_printf(out, "nan(0x%08" PRIx32 ")", bits);
        }
        return;
    }
    snprintf(text, sizeof text, "%.6g", (double)x);
    if (strtof(text, NULL) != x) snprintf(text, sizeof text, "%.9g", (double)x);
    pl_buf_puts(out, text);
}

/* In an attribute 1 is an integer (for onnx.parser 1.12 even behind ": float"), and -0 has lost its
 * sign. */
static void put_float(pl_buf *out, float x) {
    const size_t from = out->n_bytes;
    put_f32(out, x);
    if (pl_buf_ok(out) && strpbrk(pl_buf_str(out) + from, ".en") == NULL) pl_buf_puts(out, ".0");
}

static void put_f64(pl_buf *out, double x) {
    char text[40];
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) {
        if ((bits & INT64_MAX) == UINT64_C(0x7ff8000000000000)) {
            pl_buf_puts(out, bits >> 63 ? "-nan" : "nan");
        } else {
            pl_buf_printf(out, "nan(0x%016" PRIx64 ")", bits);
        }
        return;
    }
    snprintf(text, sizeof text, "%.15g", x);
    if (strtod(text, NULL) != x) snprintf(text, sizeof text, "%.17g", x);
    pl_buf_puts(out, text);
}

/* ---- types ---- */

static bool type_is_printable(const pl_type *type, int depth) {
    if (type == NULL || depth > PL_TEXT_TYPE_DEPTH_MAX) return false;
    switch (type->kind) {
    case PL_TYPE_TENSOR:
    case PL_TYPE_SPARSE: return type->dtype != PL_UNDEFINED;
    case PL_TYPE_MAP:
        return type->dtype != PL_UNDEFINED && type_is_printable(type->elem, depth + 1);
    case PL_TYPE_SEQUENCE:
    case PL_TYPE_OPTIONAL: return type_is_printable(type->elem, depth + 1);
    case PL_TYPE_NONE: break;
    }
    return false;
}

static void put_tensor_type(pl_buf *out, const pl_type *type) {
    pl_buf_puts(out, pl_dtype_name(type->dtype));
    if (!type->has_rank) {
        pl_buf_puts(out, "[]");
        return;
    }
    for (int i = 0; i < type->rank; i++) {
        pl_buf_putc(out, i == 0 ? '[' : ',');
        if (pl_dim_known(type->dims[i])) {
            pl_buf_printf(out, "%" PRId64, type->dims[i].value);
        } else if (type->dims[i].name != NULL) {
            put_name(out, type->dims[i].name);
        } else {
            pl_buf_putc(out, '?');
        }
    }
    if (type->rank > 0) pl_buf_putc(out, ']');
}

static void put_type(pl_buf *out, const pl_type *type) {
    switch (type->kind) {
    case PL_TYPE_TENSOR: put_tensor_type(out, type); return;
    case PL_TYPE_SPARSE:
        pl_buf_puts(out, "sparse_tensor(");
        put_tensor_type(out, type);
        break;
    case PL_TYPE_SEQUENCE:
        pl_buf_puts(out, "seq(");
        put_type(out, type->elem);
        break;
    case PL_TYPE_OPTIONAL:
        pl_buf_puts(out, "optional(");
        put_type(out, type->elem);
        break;
    case PL_TYPE_MAP:
        pl_buf_printf(out, "map(%s, ", pl_dtype_name(type->dtype));
        put_type(out, type->elem);
        break;
    case PL_TYPE_NONE: return;
    }
    pl_buf_putc(out, ')');
}

static void put_value_info(pl_buf *out, const pl_value *value) {
    if (type_is_printable(value->type, 0)) {
        put_type(out, value->type);
        pl_buf_putc(out, ' ');
    }
    put_name(out, value->name);
}

/* ---- tensors ---- */

static void put_bits(pl_buf *out, const pl_tensor *t, int64_t i) {
    const uint8_t *data = (const uint8_t *)t->data;
    if (pl_dtype_bytes(t->dtype) == 1) {
        pl_buf_printf(out, "%u", data[i]);
    } else {
        pl_buf_printf(out, "%u", data[2 * i] | (unsigned)data[2 * i + 1] << 8);
    }
}

static void put_element(pl_buf *out, const pl_tensor *t, int64_t i) {
    switch (pl_dtype_class_of(t->dtype)) {
    case PL_CLASS_STRING: {
        pl_string s;
        memcpy(&s, (const char *)t->data + (size_t)i * sizeof s, sizeof s);
        put_quoted(out, s.data, s.n_bytes);
        return;
    }
    case PL_CLASS_FLOAT:
    case PL_CLASS_COMPLEX:
        if (t->dtype == PL_F32 || t->dtype == PL_C64) {
            put_f32(out, ((const pl_f32 *)t->data)[i]);
        } else if (t->dtype == PL_F64 || t->dtype == PL_C128) {
            put_f64(out, ((const pl_f64 *)t->data)[i]);
        } else {
            put_bits(out, t, i);
        }
        return;
    default: break;
    }
    if (t->dtype == PL_U64) {
        pl_buf_printf(out, "%" PRIu64, ((const pl_u64 *)t->data)[i]);
    } else {
        pl_buf_printf(out, "%" PRId64, pl_tensor_get_i64(t, i));
    }
}

static void put_tensor_head(pl_buf *out, const pl_tensor *t) {
    pl_buf_puts(out, pl_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        pl_buf_printf(out, "%c%" PRId64, i == 0 ? '[' : ',', t->dims[i]);
    if (t->rank > 0) pl_buf_putc(out, ']');
}

static pl_status put_elements(const printer *p, const char *owner, pl_tensor *tensor) {
    pl_tensor *t = NULL;
    int64_t n = tensor->n_elements;
    if (p->max_elements > 0 && n > p->max_elements)
        return pl_fail(p->err, PL_E_LIMIT,
                       "'%s' has %" PRId64 " elements, text is limited to %" PRId64, owner, n,
                       p->max_elements);
    PL_TRY(pl_tensor_contiguous(tensor, &t, p->err));
    if (pl_dtype_class_of(t->dtype) == PL_CLASS_COMPLEX) n *= 2; /* pairs */
    pl_buf_putc(p->out, '{');
    for (int64_t i = 0; i < n && pl_buf_ok(p->out); i++) {
        if (i > 0) pl_buf_putc(p->out, ',');
        put_element(p->out, t, i);
    }
    pl_buf_putc(p->out, '}');
    pl_tensor_unref(t);
    return PL_OK;
}

static pl_status put_constant(const printer *p, const char *owner, pl_tensor *t) {
    put_tensor_head(p->out, t);
    pl_buf_putc(p->out, ' ');
    return put_elements(p, owner, t);
}

/* ---- attributes ---- */

static pl_status put_graph(printer *p, const pl_graph *graph);

static const char *attr_type_text(pl_attr_type type) {
    switch (type) {
    case PL_ATTR_FLOAT: return "float";
    case PL_ATTR_INT: return "int";
    case PL_ATTR_STRING: return "string";
    case PL_ATTR_TENSOR: return "tensor";
    case PL_ATTR_GRAPH: return "graph";
    case PL_ATTR_FLOATS: return "floats";
    case PL_ATTR_INTS: return "ints";
    case PL_ATTR_STRINGS: return "strings";
    case PL_ATTR_TENSORS: return "tensors";
    case PL_ATTR_GRAPHS: return "graphs";
    case PL_ATTR_SPARSE_TENSOR: return "sparse_tensor";
    case PL_ATTR_TYPE_PROTO: return "type_proto";
    case PL_ATTR_NONE: break;
    }
    return NULL;
}

static pl_status put_item(printer *p, const pl_attr *a, size_t i) {
    switch (a->type) {
    case PL_ATTR_FLOATS: put_float(p->out, a->floats[i]); break;
    case PL_ATTR_INTS: pl_buf_printf(p->out, "%" PRId64, a->ints[i]); break;
    case PL_ATTR_STRINGS: put_quoted(p->out, a->strings[i].data, a->strings[i].n_bytes); break;
    case PL_ATTR_TENSORS: return put_constant(p, a->name, a->tensors[i]);
    default: return put_graph(p, a->graphs[i]);
    }
    return PL_OK;
}

static pl_status put_list(printer *p, const pl_attr *a) {
    pl_buf_putc(p->out, '[');
    for (size_t i = 0; i < a->n; i++) {
        if (i > 0) pl_buf_puts(p->out, ", ");
        PL_TRY(put_item(p, a, i));
    }
    pl_buf_putc(p->out, ']');
    return PL_OK;
}

static pl_status put_attr(printer *p, const pl_attr *a) {
    const char *type = attr_type_text(a->type);
    if (type == NULL || (a->type == PL_ATTR_TYPE_PROTO && !type_is_printable(a->type_proto, 0)))
        return pl_fail(p->err, PL_E_UNSUPPORTED, "attribute '%s' has no text form (type %d)",
                       a->name, (int)a->type);
    put_name(p->out, a->name);
    pl_buf_printf(p->out, ": %s = ", type);
    switch (a->type) {
    case PL_ATTR_FLOAT: put_float(p->out, a->f); break;
    case PL_ATTR_INT: pl_buf_printf(p->out, "%" PRId64, a->i); break;
    case PL_ATTR_STRING: put_quoted(p->out, a->s.data, a->s.n_bytes); break;
    case PL_ATTR_TYPE_PROTO: put_type(p->out, a->type_proto); break;
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: return put_constant(p, a->name, a->tensor);
    case PL_ATTR_GRAPH: return put_graph(p, a->graph);
    default: return put_list(p, a);
    }
    return PL_OK;
}

static pl_status put_attrs(printer *p, const pl_node *node) {
    if (node->n_attrs == 0) return PL_OK;
    pl_buf_puts(p->out, " <");
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (i > 0) pl_buf_puts(p->out, ", ");
        PL_TRY(put_attr(p, &node->attrs[i]));
    }
    pl_buf_putc(p->out, '>');
    return PL_OK;
}

/* ---- nodes and graphs ---- */

static pl_status put_operands(const printer *p, const pl_graph *graph, pl_value *const *values,
                              uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) pl_buf_puts(p->out, ", ");
        if (values[i] == NULL) {
            pl_buf_puts(p->out, "\"\"");
            continue;
        }
        PL_TRY(pl_graph_check_capture(graph, values[i], p->err));
        put_name(p->out, values[i]->name);
    }
    return PL_OK;
}

static pl_status put_node(printer *p, const pl_node *node) {
    const bool attrs_last = pl_node_has_body(node);
    put_indent(p);
    if (node->name[0] != '\0') {
        pl_buf_putc(p->out, '[');
        put_name(p->out, node->name);
        pl_buf_puts(p->out, "] ");
    }
    PL_TRY(put_operands(p, node->graph, node->out, node->n_out));
    pl_buf_puts(p->out, " = ");
    put_operator(p->out, node);
    if (!attrs_last) PL_TRY(put_attrs(p, node));
    pl_buf_puts(p->out, " (");
    PL_TRY(put_operands(p, node->graph, node->in, node->n_in));
    pl_buf_putc(p->out, ')');
    if (attrs_last) PL_TRY(put_attrs(p, node));
    pl_buf_putc(p->out, '\n');
    return PL_OK;
}

/* An input's default is in the signature if the declared type has its exact shape; else among the
 * initializers, so that the declared type is kept. */
static bool default_fits_type(const pl_value *value) {
    const pl_type *type = value->type;
    const pl_tensor *t = value->init;
    if (t == NULL || type == NULL || !pl_type_is_concrete(type)) return false;
    if (type->dtype != t->dtype || type->rank != t->rank) return false;
    for (int i = 0; i < t->rank; i++) {
        if (type->dims[i].value != t->dims[i]) return false;
    }
    return true;
}

static pl_status put_signature(printer *p, const pl_graph *graph) {
    put_name(p->out, graph->name);
    pl_buf_puts(p->out, " (");
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_value *value = graph->inputs[i];
        if (i > 0) pl_buf_puts(p->out, ", ");
        put_value_info(p->out, value);
        if (!default_fits_type(value)) continue;
        pl_buf_puts(p->out, " = ");
        PL_TRY(put_elements(p, value->name, value->init));
    }
    pl_buf_puts(p->out, ") => (");
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (i > 0) pl_buf_puts(p->out, ", ");
        PL_TRY(pl_graph_check_capture(graph, graph->outputs[i], p->err));
        put_value_info(p->out, graph->outputs[i]);
    }
    pl_buf_puts(p->out, ")\n");
    return PL_OK;
}

static void put_separator(const printer *p, size_t *n_put) {
    if (*n_put == 0) put_indent(p);
    pl_buf_putc(p->out, *n_put == 0 ? '<' : ',');
    if (*n_put > 0) {
        pl_buf_putc(p->out, '\n');
        put_indent(p);
        pl_buf_putc(p->out, ' ');
    }
    (*n_put)++;
}

static pl_status put_value_infos(printer *p, const pl_graph *graph) {
    size_t n_put = 0;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->init == NULL || (value->is_input && default_fits_type(value))) continue;
        put_separator(p, &n_put);
        put_tensor_head(p->out, value->init);
        pl_buf_putc(p->out, ' ');
        put_name(p->out, value->name);
        pl_buf_puts(p->out, " = ");
        PL_TRY(put_elements(p, value->name, value->init));
    }
    pl_value **typed = NULL;
    size_t n_typed = 0;
    PL_TRY(pl_graph_list_typed(graph, &typed, &n_typed, p->err));
    for (size_t i = 0; i < n_typed; i++) {
        if (!type_is_printable(typed[i]->type, 0)) continue;
        put_separator(p, &n_put);
        put_value_info(p->out, typed[i]);
    }
    pl_free(typed);
    if (n_put > 0) pl_buf_puts(p->out, ">\n");
    return PL_OK;
}

static pl_status put_graph(printer *p, const pl_graph *graph) {
    if (p->indent >= PL_GRAPH_DEPTH_MAX)
        return pl_fail(p->err, PL_E_LIMIT, "graph '%s': bodies are nested deeper than %d",
                       graph->name, PL_GRAPH_DEPTH_MAX);
    PL_TRY(put_signature(p, graph));
    PL_TRY(put_value_infos(p, graph));
    put_indent(p);
    pl_buf_puts(p->out, "{\n");
    p->indent++;
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(put_node(p, graph->nodes[i]));
    p->indent--;
    put_indent(p);
    pl_buf_putc(p->out, '}');
    return PL_OK;
}

/* ---- the model ---- */

static void put_text_property(pl_buf *out, const char *key, const char *value) {
    if (value[0] == '\0') return;
    pl_buf_printf(out, ",\n   %s: ", key);
    put_quoted(out, value, strlen(value));
}

static void put_header(pl_buf *out, const pl_model *model, const pl_opset *opsets,
                       size_t n_opsets) {
    pl_buf_printf(out, "<\n   ir_version: %" PRId64 ",\n   opset_import: [", model->ir_version);
    for (size_t i = 0; i < n_opsets; i++) {
        if (i > 0) pl_buf_puts(out, ", ");
        put_quoted(out, opsets[i].domain, strlen(opsets[i].domain));
        pl_buf_printf(out, " : %d", opsets[i].version);
    }
    pl_buf_putc(out, ']');
    put_text_property(out, "producer_name", model->producer_name);
    put_text_property(out, "producer_version", model->producer_version);
    put_text_property(out, "domain", model->domain);
    if (model->model_version != 0)
        pl_buf_printf(out, ",\n   model_version: %" PRId64, model->model_version);
    put_text_property(out, "doc_string", model->doc);
    for (size_t i = 0; i < model->n_props; i++) {
        pl_buf_puts(out, i == 0 ? ",\n   metadata_props: [" : ", ");
        put_quoted(out, model->props[i].key, strlen(model->props[i].key));
        pl_buf_puts(out, ": ");
        put_quoted(out, model->props[i].value, strlen(model->props[i].value));
        if (i + 1 == model->n_props) pl_buf_putc(out, ']');
    }
    pl_buf_puts(out, "\n>\n");
}

static pl_status print_model(const pl_model *model, int64_t max_elements, pl_buf *out,
                             pl_err *err) {
    printer p = { out, max_elements, 0, err };
    pl_opset *opsets = NULL;
    size_t n_opsets = 0;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_model_collect_opsets(model, arena, &opsets, &n_opsets, err);
    if (st == PL_OK) {
        put_header(out, model, opsets, n_opsets);
        st = put_graph(&p, model->graph);
    }
    pl_arena_free(arena);
    return st;
}

pl_status pl_model_print(const pl_model *model, int64_t max_elements, pl_buf *out, pl_err *err) {
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0) return pl_fail_memory(err, 0);
    const locale_t before = uselocale(c); /* decimal points, whatever the program's locale */
    const pl_status st = print_model(model, max_elements, out, err);
    uselocale(before);
    freelocale(c);
    pl_buf_putc(out, '\n');
    if (st == PL_OK && !pl_buf_ok(out)) return pl_fail_memory(err, out->n_bytes);
    return st;
}

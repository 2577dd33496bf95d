/* The parser of the ONNX text form: nodes, graphs, models. */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "graph/text/text.h"
#include "graph/text/text_int.h"

enum {
    TEXT_IR_VERSION = 8,         /* for a text that gives none */
    OPSET_VERSION_MAX = 1000000, /* as in files */
};

/* ---- names ---- */

static pl_status add_ref(pl_text_parser *p, pl_text_ref ref) {
    PL_TRY(pl_text_reserve(p, &p->refs, p->n_refs, &p->refs_capacity, sizeof ref));
    p->refs[p->n_refs++] = ref;
    return PL_OK;
}

static pl_status resolve(pl_text_parser *p, const pl_text_ref *ref) {
    pl_value *value = pl_graph_find(ref->graph, ref->name);
    const bool own = value != NULL;
    if (!own && ref->kind != PL_TEXT_TYPE)
        value = pl_graph_find_in_scope(ref->graph->parent, ref->name);
    if (value == NULL) {
        if (ref->kind == PL_TEXT_TYPE) return PL_OK; /* a type for a value that does not exist */
        return pl_lex_fail(&p->lex, ref->at, PL_E_INVALID,
                           ref->kind == PL_TEXT_USE ? "value '%s' is used but not defined"
                                                    : "output '%s' is not defined",
                           ref->name);
    }
    if (ref->kind == PL_TEXT_USE) {
        *ref->slot = value;
        return PL_OK;
    }
    if (own && ref->type != NULL && value->init == NULL) value->type = ref->type;
    if (ref->kind == PL_TEXT_TYPE) return PL_OK;
    return pl_graph_add_output(ref->graph, value, p->err);
}

static pl_status resolve_all(pl_text_parser *p) {
    for (size_t i = 0; i < p->n_refs; i++)
        PL_TRY(resolve(p, &p->refs[i]));
    return PL_OK;
}

/* A list of operand names: "" or nothing before a comma is an omitted one; a trailing comma adds
 * nothing. */
static pl_status parse_ids(pl_text_parser *p, pl_text_ids *out) {
    do {
        pl_string word;
        bool found;
        pl_text_id id = { "", 0 };
        const bool empty = pl_lex_peek(&p->lex) == ',';
        id.at = p->lex.at;
        PL_TRY(pl_lex_name(&p->lex, &word, &found));
        if (!found && !empty) break;
        if (found) PL_TRY(pl_text_intern(p, word, &id.name));
        PL_TRY(pl_text_reserve(p, &out->items, out->n, &out->capacity, sizeof id));
        out->items[out->n++] = id;
    } while (pl_lex_match(&p->lex, ','));
    return PL_OK;
}

static pl_status map_ids(pl_text_parser *p, const pl_graph *graph, pl_text_ids *ids) {
    for (size_t i = 0; p->frame != NULL && i < ids->n; i++)
        PL_TRY(pl_text_map_name(p, graph, &ids->items[i].name));
    return PL_OK;
}

static pl_status define(pl_text_parser *p, pl_graph *graph, pl_text_id id, pl_value **out) {
    if (pl_graph_find(graph, id.name) != NULL)
        return pl_lex_fail(&p->lex, id.at, PL_E_INVALID, "value '%s' is defined twice", id.name);
    return pl_graph_add_value(graph, id.name, out, p->err);
}

/* ---- nodes ---- */

static int opset_of(const pl_text_parser *p, const pl_node *node) {
    const pl_text_function *function = p->frame == NULL ? NULL : p->frame->function;
    for (size_t i = 0; function != NULL && i < function->n_opsets; i++) {
        if (strcmp(function->opsets[i].domain, node->domain) == 0)
            return function->opsets[i].version;
    }
    return pl_model_opset(p->model, node->domain);
}

pl_status pl_text_add_node(pl_text_parser *p, pl_graph *graph, const char *op, const char *domain,
                           const pl_text_ids *in, const pl_text_ids *out, pl_node **node) {
    if (p->graph_only && pl_model_opset(p->model, domain) == 0)
        PL_TRY(pl_model_set_opset(p->model, domain, 1, p->err));
    if (p->frame != NULL && ++p->n_inlined > PL_TEXT_INLINE_MAX)
        return pl_lex_fail(&p->lex, p->lex.at, PL_E_LIMIT, "functions: more than %d nodes",
                           PL_TEXT_INLINE_MAX);
    PL_TRY(pl_graph_add_node(graph, op, domain, in->n, out->n, node, p->err));
    (*node)->opset = opset_of(p, *node);
    if (p->frame != NULL) (*node)->function = p->frame->path;
    for (size_t i = 0; i < in->n; i++) {
        if (in->items[i].name[0] == '\0') continue;
        PL_TRY(add_ref(p, (pl_text_ref){ .kind = PL_TEXT_USE,
                                         .graph = graph,
                                         .name = in->items[i].name,
                                         .at = in->items[i].at,
                                         .slot = &(*node)->in[i] }));
    }
    for (size_t i = 0; i < out->n; i++) {
        pl_value *value;
        if (out->items[i].name[0] == '\0') continue;
        PL_TRY(define(p, graph, out->items[i], &value));
        pl_node_set_output(*node, (uint32_t)i, value);
    }
    return PL_OK;
}

static pl_status own_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)err;
    body->owner = ctx;
    return PL_OK;
}

static pl_status set_attrs(pl_text_parser *p, pl_node *node, const pl_text_attr_list *attrs) {
    if (attrs->n == 0) return PL_OK;
    if (attrs->n > UINT32_MAX) return pl_fail_memory(p->err, attrs->n);
    node->attrs = pl_arena_array(p->model->arena, attrs->n, sizeof(pl_attr));
    if (node->attrs == NULL) return pl_fail_memory(p->err, attrs->n * sizeof(pl_attr));
    memcpy(node->attrs, attrs->items, attrs->n * sizeof(pl_attr));
    node->n_attrs = (uint32_t)attrs->n;
    return pl_node_each_body(node, own_body, node, p->err);
}

typedef struct node_text { /* a node while it is parsed */
    const char *label, *op, *domain, *overload;
    pl_text_ids in, out;
    pl_text_attr_list attrs;
    size_t at; /* of the operator's name */
} node_text;

/* com.microsoft.Gelu: all but the last part is the domain. Unusual parts may be quoted. */
static pl_status parse_qualified(pl_text_parser *p, node_text *node) {
    pl_buf domain = PL_BUF_INIT;
    pl_status st = PL_OK;
    pl_string word;
    bool found;
    for (size_t n_parts = 0;; n_parts++) {
        PL_TRY_GOTO(done, st, pl_lex_name(&p->lex, &word, &found));
        if (!found) {
            st = pl_lex_fail_expected(&p->lex, "an operator");
            goto done;
        }
        PL_TRY_GOTO(done, st, pl_text_intern(p, word, &node->op));
        if (!pl_lex_match(&p->lex, '.')) break;
        if (n_parts > 0) pl_buf_putc(&domain, '.');
        pl_buf_puts(&domain, node->op);
    }
    if (node->op[0] == '\0') {
        st = pl_lex_fail(&p->lex, node->at, PL_E_FORMAT, "the name of an operator is empty");
        goto done;
    }
    if (!pl_buf_ok(&domain)) {
        st = pl_fail_memory(p->err, 0);
        goto done;
    }
    st = pl_text_intern(p, (pl_string){ pl_buf_str(&domain), domain.n_bytes }, &node->domain);
    if (st == PL_OK && pl_domain_is_onnx(node->domain)) node->domain = "";
done:
    pl_buf_release(&domain);
    return st;
}

static pl_status parse_label(pl_text_parser *p, const char **out) {
    pl_string word;
    bool found;
    *out = "";
    if (!pl_lex_match(&p->lex, '[')) return PL_OK;
    PL_TRY(pl_lex_name(&p->lex, &word, &found));
    if (found) PL_TRY(pl_text_intern(p, word, out));
    PL_TRY(pl_lex_expect(&p->lex, ']'));
    if (p->frame == NULL || (*out)[0] == '\0') return PL_OK;
    PL_TRY(pl_text_count_inlined(p, p->lex.at, strlen(p->frame->prefix) + strlen(*out)));
    *out = pl_arena_printf(p->model->arena, "%s%s", p->frame->prefix, *out);
    return *out == NULL ? pl_fail_memory(p->err, 0) : PL_OK;
}

static pl_status read_node(pl_text_parser *p, pl_graph *graph, node_text *node) {
    pl_string word;
    bool found;
    PL_TRY(parse_label(p, &node->label));
    PL_TRY(parse_ids(p, &node->out));
    PL_TRY(pl_lex_expect(&p->lex, '='));
    (void)pl_lex_peek(&p->lex);
    node->at = p->lex.at;
    PL_TRY(parse_qualified(p, node));
    node->overload = "";
    if (pl_lex_match(&p->lex, ':')) {
        PL_TRY(pl_lex_name(&p->lex, &word, &found));
        if (!found) return pl_lex_fail_expected(&p->lex, "an overload");
        PL_TRY(pl_text_intern(p, word, &node->overload));
    }
    PL_TRY(pl_text_parse_attrs(p, graph, &node->attrs));
    PL_TRY(pl_lex_expect(&p->lex, '('));
    PL_TRY(parse_ids(p, &node->in));
    PL_TRY(pl_lex_expect(&p->lex, ')'));
    if (node->attrs.n == 0) PL_TRY(pl_text_parse_attrs(p, graph, &node->attrs));
    PL_TRY(map_ids(p, graph, &node->in));
    return map_ids(p, graph, &node->out);
}

static pl_status build_node(pl_text_parser *p, pl_graph *graph, const node_text *text) {
    pl_node *node = NULL;
    const pl_text_function *function;
    PL_TRY(pl_text_find_function(p, text->domain, text->op, text->overload, &function));
    if (function != NULL)
        return pl_text_inline_call(p, function, graph, text->label, &text->in, &text->out,
                                   &text->attrs, text->at);
    PL_TRY(pl_text_add_node(p, graph, text->op, text->domain, &text->in, &text->out, &node));
    node->name = text->label;
    node->overload = text->overload;
    return set_attrs(p, node, &text->attrs);
}

static pl_status parse_node(pl_text_parser *p, pl_graph *graph) {
    node_text node = { 0 };
    pl_status st = read_node(p, graph, &node);
    if (st == PL_OK) st = build_node(p, graph, &node);
    pl_free(node.in.items);
    pl_free(node.out.items);
    pl_free(node.attrs.items);
    return st;
}

pl_status pl_text_parse_nodes(pl_text_parser *p, pl_graph *graph) {
    PL_TRY(pl_lex_expect(&p->lex, '{'));
    while (!pl_lex_match(&p->lex, '}')) {
        if (pl_lex_peek(&p->lex) < 0) return pl_lex_fail_expected(&p->lex, "a node or '}'");
        PL_TRY(parse_node(p, graph));
    }
    return PL_OK;
}

/* ---- graphs ---- */

/* [type] name */
static pl_status parse_value_info(pl_text_parser *p, const pl_graph *graph, const pl_type **type,
                                  pl_text_id *id) {
    pl_string word;
    bool found;
    *type = NULL;
    if (pl_text_next_is_type(p)) PL_TRY(pl_text_parse_type(p, type));
    (void)pl_lex_peek(&p->lex);
    id->at = p->lex.at;
    PL_TRY(pl_lex_name(&p->lex, &word, &found));
    if (!found) return pl_lex_fail_expected(&p->lex, "the name of a value");
    PL_TRY(pl_text_intern(p, word, &id->name));
    return pl_text_map_name(p, graph, &id->name);
}

static pl_status parse_init(pl_text_parser *p, const pl_type *type, pl_value *value) {
    pl_tensor *t = NULL;
    PL_TRY(pl_text_parse_tensor(p, type, &t));
    const pl_status st = pl_value_set_init(value, t, p->err);
    pl_tensor_unref(t);
    return st;
}

static pl_status parse_inputs(pl_text_parser *p, pl_graph *graph) {
    if (!pl_lex_match(&p->lex, '(')) return PL_OK;
    if (pl_lex_match(&p->lex, ')')) return PL_OK;
    do {
        const pl_type *type;
        pl_text_id id;
        pl_value *value;
        PL_TRY(parse_value_info(p, graph, &type, &id));
        PL_TRY(define(p, graph, id, &value));
        value->type = type;
        PL_TRY(pl_graph_add_input(graph, value, p->err));
        if (pl_lex_match(&p->lex, '=')) PL_TRY(parse_init(p, type, value));
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, ')');
}

static pl_status parse_outputs(pl_text_parser *p, pl_graph *graph) {
    PL_TRY(pl_lex_expect(&p->lex, '('));
    if (pl_lex_match(&p->lex, ')')) return PL_OK;
    do {
        const pl_type *type;
        pl_text_id id;
        PL_TRY(parse_value_info(p, graph, &type, &id));
        PL_TRY(add_ref(p, (pl_text_ref){ .kind = PL_TEXT_OUTPUT,
                                         .graph = graph,
                                         .name = id.name,
                                         .at = id.at,
                                         .type = type }));
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, ')');
}

static pl_status parse_initializer(pl_text_parser *p, pl_graph *graph, const pl_type *type,
                                   pl_text_id id) {
    pl_value *value = pl_graph_find(graph, id.name);
    if (value == NULL) {
        PL_TRY(define(p, graph, id, &value));
        value->type = type;
    } else if (!value->is_input || value->init != NULL) { /* sets the default of an input */
        return pl_lex_fail(&p->lex, id.at, PL_E_INVALID, "value '%s' is defined twice", id.name);
    }
    return parse_init(p, type, value);
}

/* <float[2] w = {1, 2}, float[N] y>: initializers, and types of values inside. */
pl_status pl_text_parse_value_infos(pl_text_parser *p, pl_graph *graph) {
    if (!pl_lex_match(&p->lex, '<')) return PL_OK;
    if (pl_lex_match(&p->lex, '>')) return PL_OK;
    do {
        const pl_type *type;
        pl_text_id id;
        PL_TRY(parse_value_info(p, graph, &type, &id));
        if (pl_lex_match(&p->lex, '=')) {
            PL_TRY(parse_initializer(p, graph, type, id));
        } else {
            PL_TRY(add_ref(p, (pl_text_ref){ .kind = PL_TEXT_TYPE,
                                             .graph = graph,
                                             .name = id.name,
                                             .at = id.at,
                                             .type = type }));
        }
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, '>');
}

static pl_status parse_graph(pl_text_parser *p, pl_graph *graph) {
    PL_TRY(parse_inputs(p, graph));
    PL_TRY(pl_lex_expect_arrow(&p->lex));
    PL_TRY(parse_outputs(p, graph));
    PL_TRY(pl_text_parse_value_infos(p, graph));
    return pl_text_parse_nodes(p, graph);
}

pl_status pl_text_parse_body(pl_text_parser *p, const char *name, pl_graph *parent,
                             pl_graph **out) {
    pl_graph *graph = NULL;
    if (p->depth >= PL_GRAPH_DEPTH_MAX)
        return pl_lex_fail(&p->lex, p->lex.at, PL_E_LIMIT, "graphs are nested deeper than %d",
                           PL_GRAPH_DEPTH_MAX);
    PL_TRY(pl_graph_new(p->model, parent, name, &graph, p->err));
    p->depth++;
    const pl_status st = parse_graph(p, graph);
    p->depth--;
    *out = graph;
    return st;
}

/* ---- the model ---- */

typedef struct opset_list {
    pl_opset *items; /* heap */
    size_t n, capacity;
} opset_list;

/* "domain" : version. As in files, the last entry for a domain wins. */
static pl_status parse_opset(pl_text_parser *p, opset_list *out) {
    const char *domain;
    int64_t version;
    PL_TRY(pl_text_parse_cstring(p, &domain));
    if (pl_domain_is_onnx(domain)) domain = "";
    PL_TRY(pl_lex_expect(&p->lex, ':'));
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    PL_TRY(pl_text_parse_int(p, &version));
    if (version < 0 || version > OPSET_VERSION_MAX)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "opset version %lld is out of range",
                           (long long)version);
    size_t i = 0;
    while (i < out->n && strcmp(out->items[i].domain, domain) != 0)
        i++;
    if (i == PL_MODEL_OPSETS_MAX)
        return pl_lex_fail(&p->lex, at, PL_E_LIMIT, "at most %d domains are supported",
                           PL_MODEL_OPSETS_MAX);
    PL_TRY(pl_text_reserve(p, &out->items, out->n, &out->capacity, sizeof *out->items));
    out->items[i] = (pl_opset){ domain, (int)version };
    if (i == out->n) out->n++;
    return PL_OK;
}

pl_status pl_text_parse_opsets(pl_text_parser *p, pl_opset **out, size_t *n_out) {
    opset_list list = { 0 };
    pl_status st = PL_OK;
    PL_TRY(pl_lex_expect(&p->lex, '['));
    if (pl_lex_match(&p->lex, ']')) return PL_OK;
    do {
        PL_TRY_GOTO(done, st, parse_opset(p, &list));
    } while (pl_lex_match(&p->lex, ','));
    PL_TRY_GOTO(done, st, pl_lex_expect(&p->lex, ']'));
    *out = pl_arena_array(p->model->arena, list.n, sizeof *list.items);
    if (*out == NULL) {
        st = pl_fail_memory(p->err, list.n * sizeof *list.items);
        goto done;
    }
    memcpy(*out, list.items, list.n * sizeof *list.items);
    *n_out = list.n;
done:
    pl_free(list.items);
    return st;
}

static pl_status parse_props(pl_text_parser *p, const pl_prop **out, size_t *n_out) {
    pl_prop *items = NULL, *kept;
    size_t n = 0, capacity = 0;
    pl_status st = PL_OK;
    PL_TRY(pl_lex_expect(&p->lex, '['));
    if (pl_lex_match(&p->lex, ']')) return PL_OK;
    do {
        PL_TRY_GOTO(done, st, pl_text_reserve(p, &items, n, &capacity, sizeof *items));
        PL_TRY_GOTO(done, st, pl_text_parse_cstring(p, &items[n].key));
        PL_TRY_GOTO(done, st, pl_lex_expect(&p->lex, ':'));
        PL_TRY_GOTO(done, st, pl_text_parse_cstring(p, &items[n].value));
        n++;
    } while (pl_lex_match(&p->lex, ','));
    PL_TRY_GOTO(done, st, pl_lex_expect(&p->lex, ']'));
    kept = pl_arena_array(p->model->arena, n, sizeof *items);
    if (kept == NULL) {
        st = pl_fail_memory(p->err, n * sizeof *items);
        goto done;
    }
    memcpy(kept, items, n * sizeof *items);
    *out = kept;
    *n_out = n;
done:
    pl_free(items);
    return st;
}

static pl_status parse_header_value(pl_text_parser *p, pl_string key, size_t at) {
    pl_model *m = p->model;
    const struct {
        const char *key, **to;
    } strings[] = { { "producer_name", &m->producer_name },
                    { "producer_version", &m->producer_version },
                    { "domain", &m->domain },
                    { "doc_string", &m->doc } };
    const char *name;
    PL_TRY(pl_text_intern(p, key, &name));
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        if (strcmp(name, strings[i].key) == 0) return pl_text_parse_cstring(p, strings[i].to);
    }
    if (strcmp(name, "ir_version") == 0) return pl_text_parse_int(p, &m->ir_version);
    if (strcmp(name, "model_version") == 0) return pl_text_parse_int(p, &m->model_version);
    if (strcmp(name, "opset_import") == 0) return pl_text_parse_opsets(p, &m->opsets, &m->n_opsets);
    if (strcmp(name, "metadata_props") == 0) return parse_props(p, &m->props, &m->n_props);
    return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "unknown model property '%s'", name);
}

static pl_status parse_header(pl_text_parser *p) {
    if (!pl_lex_match(&p->lex, '<')) return PL_OK;
    if (pl_lex_match(&p->lex, '>')) return PL_OK;
    do {
        pl_string key;
        (void)pl_lex_peek(&p->lex);
        const size_t at = p->lex.at;
        PL_TRY(pl_lex_ident(&p->lex, &key));
        PL_TRY(pl_lex_expect(&p->lex, ':'));
        PL_TRY(parse_header_value(p, key, at));
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, '>');
}

static pl_status parse_model(pl_text_parser *p) {
    pl_string name;
    bool found;
    size_t end = 0;
    PL_TRY(parse_header(p));
    PL_TRY(pl_text_parse_functions(p, &end));
    PL_TRY(pl_lex_name(&p->lex, &name, &found));
    if (found) PL_TRY(pl_text_intern(p, name, &p->model->graph->name));
    PL_TRY(parse_graph(p, p->model->graph));
    (void)pl_lex_peek(&p->lex);
    if (p->lex.at != end) return pl_lex_fail_expected(&p->lex, "the end or a function");
    PL_TRY(resolve_all(p));
    return pl_model_verify(p->model, p->err);
}

static pl_status parse(const char *text, size_t n_text, const char *name, int opset, pl_model **out,
                       pl_err *err) {
    pl_text_parser p = { .err = err, .graph_only = opset > 0 };
    pl_status st = PL_OK;
    pl_lex_init(&p.lex, text, n_text, name, err);
    PL_TRY_GOTO(done, st, pl_model_new(&p.model, err));
    p.model->ir_version = TEXT_IR_VERSION;
    if (opset > 0) PL_TRY_GOTO(done, st, pl_model_set_opset(p.model, "", opset, err));
    PL_TRY_GOTO(done, st, parse_model(&p));
    *out = p.model;
    p.model = NULL;
done:
    pl_text_release_functions(&p);
    pl_free(p.refs);
    pl_model_free(p.model);
    pl_lex_release(&p.lex);
    return st;
}

pl_status pl_model_parse(const char *text, size_t n_text, const char *name, pl_model **out,
                         pl_err *err) {
    return parse(text, n_text, name, 0, out, err);
}

pl_status pl_model_parse_graph(const char *text, int opset, pl_model **out, pl_err *err) {
    if (opset <= 0) return pl_fail(err, PL_E_USAGE, "opset %d is not positive", opset);
    return parse(text, strlen(text), "graph", opset, out, err);
}

/* Attributes in the ONNX text form: name [: type] = value, [list], or @reference. */
#include <string.h>

#include "base/alloc.h"
#include "graph/text/text_int.h"

/* clang-format off */
static const struct { const char *name; pl_attr_type type; } TYPES[] = {
    { "float", PL_ATTR_FLOAT }, { "int", PL_ATTR_INT }, { "string", PL_ATTR_STRING },
    { "tensor", PL_ATTR_TENSOR }, { "graph", PL_ATTR_GRAPH }, { "floats", PL_ATTR_FLOATS },
    { "ints", PL_ATTR_INTS }, { "strings", PL_ATTR_STRINGS }, { "tensors", PL_ATTR_TENSORS },
    { "graphs", PL_ATTR_GRAPHS }, { "sparse_tensor", PL_ATTR_SPARSE_TENSOR },
    { "type_proto", PL_ATTR_TYPE_PROTO },
};
/* clang-format on */

static const char *type_name(pl_attr_type type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (TYPES[i].type == type) return TYPES[i].name;
    }
    return "nothing";
}

static pl_attr_type item_type(pl_attr_type list) {
    switch (list) {
    case PL_ATTR_FLOATS: return PL_ATTR_FLOAT;
    case PL_ATTR_INTS: return PL_ATTR_INT;
    case PL_ATTR_STRINGS: return PL_ATTR_STRING;
    case PL_ATTR_TENSORS: return PL_ATTR_TENSOR;
    case PL_ATTR_GRAPHS: return PL_ATTR_GRAPH;
    default: return PL_ATTR_NONE;
    }
}

static pl_attr_type list_type(pl_attr_type item) {
    switch (item) {
    case PL_ATTR_FLOAT: return PL_ATTR_FLOATS;
    case PL_ATTR_INT: return PL_ATTR_INTS;
    case PL_ATTR_STRING: return PL_ATTR_STRINGS;
    case PL_ATTR_TENSOR: return PL_ATTR_TENSORS;
    case PL_ATTR_GRAPH: return PL_ATTR_GRAPHS;
    default: return PL_ATTR_NONE;
    }
}

/* ---- one value ---- */

static pl_status parse_number_value(pl_text_parser *p, pl_attr *out) {
    pl_lex_number number;
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    if (number.is_float) {
        out->type = PL_ATTR_FLOAT;
        return pl_lex_number_f32(&p->lex, &number, &out->f);
    }
    out->type = PL_ATTR_INT;
    return pl_lex_number_i64(&p->lex, &number, &out->i);
}

/* A quoted string, or the quoted name of a graph: then its signature follows. */
static pl_status parse_string_value(pl_text_parser *p, pl_graph *graph, pl_attr *out) {
    pl_string s;
    const size_t at = p->lex.at;
    PL_TRY(pl_lex_string(&p->lex, &s));
    char *copy = pl_arena_strndup(p->model->arena, s.data, s.n_bytes);
    if (copy == NULL) return pl_fail_memory(p->err, s.n_bytes);
    if (pl_lex_peek(&p->lex) == '(') {
        if (strlen(copy) != s.n_bytes)
            return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "name contains a NUL byte");
        out->type = PL_ATTR_GRAPH;
        return pl_text_parse_body(p, copy, graph, &out->graph);
    }
    out->type = PL_ATTR_STRING;
    out->s = (pl_string){ copy, s.n_bytes };
    return PL_OK;
}

/* float[2] {1, 2} or float[2] name = {1, 2} is a tensor; float[2] alone is a type. */
static pl_status parse_typed_value(pl_text_parser *p, pl_attr *out) {
    const pl_type *type = NULL;
    pl_string ignored;
    bool named;
    PL_TRY(pl_text_parse_type(p, &type));
    PL_TRY(pl_lex_name(&p->lex, &ignored, &named)); /* the name of a tensor is not kept */
    const bool has_equal = pl_lex_match(&p->lex, '=');
    if (!named && !has_equal && pl_lex_peek(&p->lex) != '{') {
        out->type = PL_ATTR_TYPE_PROTO;
        out->type_proto = type;
        return PL_OK;
    }
    out->type = PL_ATTR_TENSOR;
    PL_TRY(pl_text_parse_tensor(p, type, &out->tensor));
    return pl_model_keep_tensor_take(p->model, out->tensor, p->err);
}

static pl_status parse_value(pl_text_parser *p, pl_graph *graph, pl_attr *out) {
    pl_string word;
    const char *name;
    const int c = pl_lex_peek(&p->lex);
    if (c == '"') return parse_string_value(p, graph, out);
    if (c == '(') {
        out->type = PL_ATTR_GRAPH;
        return pl_text_parse_body(p, "", graph, &out->graph);
    }
    if (!pl_lex_peek_ident(&p->lex, &word)) return parse_number_value(p, out);
    if (pl_text_next_is_type(p)) return parse_typed_value(p, out);
    if (pl_lex_word_is_float(word)) return parse_number_value(p, out);
    out->type = PL_ATTR_GRAPH;
    PL_TRY(pl_text_intern(p, word, &name));
    p->lex.at += word.n_bytes;
    return pl_text_parse_body(p, name, graph, &out->graph);
}

/* Converts a value to the declared type: an integer may be given for a float, a tensor for a sparse
 * one (the IR stores those dense). */
static pl_status coerce(pl_text_parser *p, pl_attr_type wanted, size_t at, pl_attr *value) {
    if (wanted == PL_ATTR_NONE || wanted == value->type) return PL_OK;
    if (wanted == PL_ATTR_FLOAT && value->type == PL_ATTR_INT) {
        value->f = (float)value->i;
        value->i = 0;
        value->type = wanted;
        return PL_OK;
    }
    if (wanted == PL_ATTR_SPARSE_TENSOR && value->type == PL_ATTR_TENSOR) {
        value->type = wanted;
        return PL_OK;
    }
    return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "expected a value of type %s, found %s",
                       type_name(wanted), type_name(value->type));
}

/* ---- lists ---- */

#define COPY_ITEMS(attr, field, member)                                                            \
    do {                                                                                           \
        for (size_t i_ = 0; i_ < items->n; i_++)                                                   \
            (field)[i_] = items->items[i_].member;                                                 \
    } while (0)

static pl_status store_list(pl_text_parser *p, const pl_text_attr_list *items, pl_attr *attr) {
    pl_arena *arena = p->model->arena;
    float *floats =
        pl_arena_array(arena, attr->type == PL_ATTR_FLOATS ? items->n : 0, sizeof *floats);
    int64_t *ints = pl_arena_array(arena, attr->type == PL_ATTR_INTS ? items->n : 0, sizeof *ints);
    void **rest = pl_arena_array(arena, items->n, sizeof(pl_string));
    if (floats == NULL || ints == NULL || rest == NULL) return pl_fail_memory(p->err, items->n);
    attr->n = items->n;
    switch (attr->type) {
    case PL_ATTR_FLOATS:
        COPY_ITEMS(attr, floats, f);
        attr->floats = floats;
        break;
    case PL_ATTR_INTS:
        COPY_ITEMS(attr, ints, i);
        attr->ints = ints;
        break;
    case PL_ATTR_STRINGS: {
        pl_string *strings = (pl_string *)rest;
        COPY_ITEMS(attr, strings, s);
        attr->strings = strings;
        break;
    }
    case PL_ATTR_TENSORS:
        attr->tensors = (pl_tensor **)rest;
        COPY_ITEMS(attr, attr->tensors, tensor);
        break;
    default:
        attr->graphs = (pl_graph **)rest;
        COPY_ITEMS(attr, attr->graphs, graph);
        break;
    }
    return PL_OK;
}

static pl_status parse_items(pl_text_parser *p, pl_graph *graph, pl_attr_type wanted,
                             pl_text_attr_list *items) {
    do {
        PL_TRY(pl_text_reserve(p, &items->items, items->n, &items->capacity, sizeof(pl_attr)));
        pl_attr *item = &items->items[items->n];
        *item = (pl_attr){ .name = "" };
        (void)pl_lex_peek(&p->lex);
        const size_t at = p->lex.at;
        PL_TRY(parse_value(p, graph, item));
        /* [1, 2.5] is a list of floats although its first item is an integer. */
        if (wanted == PL_ATTR_NONE && items->n > 0) {
            const pl_attr_type first = items->items[0].type;
            if (first == PL_ATTR_INT && item->type == PL_ATTR_FLOAT) {
                for (size_t i = 0; i < items->n; i++)
                    PL_TRY(coerce(p, PL_ATTR_FLOAT, at, &items->items[i]));
            } else {
                PL_TRY(coerce(p, first, at, item));
            }
        }
        PL_TRY(coerce(p, wanted, at, item));
        if (list_type(item->type) == PL_ATTR_NONE)
            return pl_lex_fail(&p->lex, at, PL_E_UNSUPPORTED, "lists of %s", type_name(item->type));
        items->n++;
    } while (pl_lex_match(&p->lex, ','));
    return PL_OK;
}

static pl_status parse_list(pl_text_parser *p, pl_graph *graph, pl_attr *attr) {
    pl_text_attr_list items = { 0 };
    pl_status st = PL_OK;
    const size_t at = p->lex.at;
    const pl_attr_type wanted = item_type(attr->type);
    if (attr->type != PL_ATTR_NONE && wanted == PL_ATTR_NONE)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "expected a value of type %s, found a list",
                           type_name(attr->type));
    if (pl_lex_peek(&p->lex) != ']') {
        PL_TRY_GOTO(done, st, parse_items(p, graph, wanted, &items));
        attr->type = list_type(items.items[0].type);
    } else if (attr->type == PL_ATTR_NONE) {
        st = pl_lex_fail(&p->lex, at, PL_E_FORMAT,
                         "an empty list requires a type, for example 'a: ints = []'");
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_lex_expect(&p->lex, ']'));
    st = store_list(p, &items, attr);
done:
    pl_free(items.items);
    return st;
}

/* ---- a whole attribute ---- */

static pl_status parse_declared_type(pl_text_parser *p, pl_attr_type *out) {
    pl_string word;
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    PL_TRY(pl_lex_ident(&p->lex, &word));
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (strlen(TYPES[i].name) != word.n_bytes) continue;
        if (memcmp(TYPES[i].name, word.data, word.n_bytes) != 0) continue;
        *out = TYPES[i].type;
        return PL_OK;
    }
    return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "unknown attribute type '%.*s'",
                       (int)(word.n_bytes < 60 ? word.n_bytes : 60), word.data);
}

/* @name takes the call's attribute; if the call has none, the attribute is omitted. */
static pl_status parse_reference(pl_text_parser *p, const char *name, pl_attr_type wanted,
                                 pl_text_attr_list *out) {
    pl_string word;
    const char *wanted_name;
    bool found;
    const size_t at = p->lex.at;
    PL_TRY(pl_lex_name(&p->lex, &word, &found));
    if (!found) return pl_lex_fail_expected(&p->lex, "an attribute name after '@'");
    PL_TRY(pl_text_intern(p, word, &wanted_name));
    if (p->frame == NULL)
        return pl_lex_fail(&p->lex, at, PL_E_INVALID, "'@%s' is used outside a function",
                           wanted_name);
    const pl_attr *source = pl_text_frame_attr(p, wanted_name);
    if (source == NULL) return PL_OK;
    pl_attr copy = *source;
    copy.name = name;
    PL_TRY(coerce(p, wanted, at, &copy));
    out->items[out->n++] = copy;
    return PL_OK;
}

pl_status pl_text_parse_attr(pl_text_parser *p, const char *name, pl_graph *graph,
                             pl_text_attr_list *out) {
    pl_attr attr = { .name = name };
    PL_TRY(pl_text_reserve(p, &out->items, out->n, &out->capacity, sizeof(pl_attr)));
    if (pl_lex_match(&p->lex, ':')) PL_TRY(parse_declared_type(p, &attr.type));
    PL_TRY(pl_lex_expect(&p->lex, '='));
    const pl_attr_type wanted = attr.type;
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    if (pl_lex_match(&p->lex, '@')) return parse_reference(p, name, wanted, out);
    if (pl_lex_match(&p->lex, '[')) {
        PL_TRY(parse_list(p, graph, &attr));
    } else {
        PL_TRY(parse_value(p, graph, &attr));
        PL_TRY(coerce(p, wanted, at, &attr));
    }
    out->items[out->n++] = attr;
    return PL_OK;
}

pl_status pl_text_parse_attrs(pl_text_parser *p, pl_graph *graph, pl_text_attr_list *out) {
    pl_string word;
    const char *name;
    bool found;
    if (!pl_lex_match(&p->lex, '<')) return PL_OK;
    if (pl_lex_match(&p->lex, '>')) return PL_OK;
    do {
        PL_TRY(pl_lex_name(&p->lex, &word, &found));
        if (!found) return pl_lex_fail_expected(&p->lex, "an attribute name");
        PL_TRY(pl_text_intern(p, word, &name));
        PL_TRY(pl_text_parse_attr(p, name, graph, out));
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, '>');
}

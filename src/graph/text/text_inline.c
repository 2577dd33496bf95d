/* Model-local functions in the ONNX text form: found, then inlined at each call.
 *
 * A call parses the function's node list again, straight into the caller's graph. Inner names get
 * the call's node name (or its first output's) and a slash in front. */
#include <string.h>

#include "base/alloc.h"
#include "graph/text/text_int.h"

/* ---- reading signatures ---- */

static void function_release(pl_text_function *function) {
    pl_free(function->inputs.items);
    pl_free(function->outputs.items);
    pl_free(function->attrs.items);
    pl_free(function->defaults.items);
    pl_free(function);
}

void pl_text_release_functions(pl_text_parser *p) {
    for (size_t i = 0; i < p->n_functions; i++)
        function_release(p->functions[i]);
    pl_free(p->functions);
    pl_strmap_release(&p->function_by_key);
    pl_strmap_release(&p->taken);
    pl_strmap_release(&p->prefixes);
}

static void put_key(pl_buf *buf, const char *domain, const char *name, const char *overload) {
    pl_buf_printf(buf, "%zu:%s%zu:%s%s", strlen(domain), domain, strlen(name), name, overload);
}

pl_status pl_text_find_function(pl_text_parser *p, const char *domain, const char *name,
                                const char *overload, const pl_text_function **out) {
    pl_buf key = PL_BUF_INIT;
    *out = NULL;
    if (p->n_functions == 0) return PL_OK;
    put_key(&key, domain, name, overload);
    const bool ok = pl_buf_ok(&key);
    if (ok) *out = pl_strmap_get(&p->function_by_key, pl_buf_str(&key));
    pl_buf_release(&key);
    return ok ? PL_OK : pl_fail_memory(p->err, 0);
}

static pl_status parse_function_header(pl_text_parser *p, pl_text_function *f) {
    if (!pl_lex_match(&p->lex, '<')) return PL_OK;
    do {
        pl_string word;
        const char *key, *ignored;
        (void)pl_lex_peek(&p->lex);
        const size_t at = p->lex.at;
        PL_TRY(pl_lex_ident(&p->lex, &word));
        PL_TRY(pl_text_intern(p, word, &key));
        PL_TRY(pl_lex_expect(&p->lex, ':'));
        if (strcmp(key, "domain") == 0) {
            PL_TRY(pl_text_parse_cstring(p, &f->domain));
            if (pl_domain_is_onnx(f->domain)) f->domain = "";
        } else if (strcmp(key, "overload") == 0) {
            PL_TRY(pl_text_parse_cstring(p, &f->overload));
        } else if (strcmp(key, "doc_string") == 0) {
            PL_TRY(pl_text_parse_cstring(p, &ignored));
        } else if (strcmp(key, "opset_import") == 0) {
            PL_TRY(pl_text_parse_opsets(p, &f->opsets, &f->n_opsets));
        } else {
            return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "unknown function property '%s'", key);
        }
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, '>');
}

static pl_status read_name(pl_text_parser *p, const char *what, pl_text_id *out) {
    pl_string word;
    bool found;
    (void)pl_lex_peek(&p->lex);
    out->at = p->lex.at;
    PL_TRY(pl_lex_name(&p->lex, &word, &found));
    if (!found || word.n_bytes == 0) {
        p->lex.at = out->at;
        return pl_lex_fail_expected(&p->lex, what);
    }
    return pl_text_intern(p, word, &out->name);
}

static pl_status add_id(pl_text_parser *p, pl_text_ids *ids, pl_text_id id) {
    PL_TRY(pl_text_reserve(p, &ids->items, ids->n, &ids->capacity, sizeof id));
    ids->items[ids->n++] = id;
    return PL_OK;
}

/* <alpha, beta: float = 1.0>: names, and names with a default. */
static pl_status parse_function_attrs(pl_text_parser *p, pl_text_function *f) {
    pl_text_id id;
    if (!pl_lex_match(&p->lex, '<')) return PL_OK;
    if (pl_lex_match(&p->lex, '>')) return PL_OK;
    do {
        PL_TRY(read_name(p, "an attribute name", &id));
        const int c = pl_lex_peek(&p->lex);
        if (c != ':' && c != '=') {
            PL_TRY(add_id(p, &f->attrs, id));
            continue;
        }
        const size_t at = p->lex.at;
        PL_TRY(pl_text_parse_attr(p, id.name, p->model->graph, &f->defaults));
        const pl_attr_type type = f->defaults.items[f->defaults.n - 1].type;
        if (type == PL_ATTR_GRAPH || type == PL_ATTR_GRAPHS)
            return pl_lex_fail(&p->lex, at, PL_E_UNSUPPORTED,
                               "attribute '%s': graphs are not supported as defaults of functions",
                               id.name);
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, '>');
}

static pl_status parse_formals(pl_text_parser *p, pl_text_ids *out) {
    const pl_type *ignored;
    pl_text_id id;
    PL_TRY(pl_lex_expect(&p->lex, '('));
    if (pl_lex_match(&p->lex, ')')) return PL_OK;
    do {
        if (pl_text_next_is_type(p)) PL_TRY(pl_text_parse_type(p, &ignored));
        PL_TRY(read_name(p, "the name of a value", &id));
        PL_TRY(add_id(p, out, id));
    } while (pl_lex_match(&p->lex, ','));
    return pl_lex_expect(&p->lex, ')');
}

static pl_status parse_signature(pl_text_parser *p, pl_text_function *f) {
    pl_text_id name;
    pl_buf key = PL_BUF_INIT;
    f->domain = f->overload = "";
    PL_TRY(parse_function_header(p, f));
    PL_TRY(read_name(p, "the name of a function", &name));
    f->name = name.name;
    f->at = name.at;
    PL_TRY(parse_function_attrs(p, f));
    PL_TRY(parse_formals(p, &f->inputs));
    PL_TRY(pl_lex_expect_arrow(&p->lex));
    PL_TRY(parse_formals(p, &f->outputs));
    const int c = pl_lex_peek(&p->lex);
    f->body_at = p->lex.at;
    if (c == '<') PL_TRY(pl_lex_skip_group(&p->lex));
    if (pl_lex_peek(&p->lex) != '{') return pl_lex_fail_expected(&p->lex, "'{'");
    PL_TRY(pl_lex_skip_group(&p->lex));
    f->body_bytes = p->lex.at - f->body_at;
    put_key(&key, f->domain, f->name, f->overload);
    f->key = pl_buf_ok(&key) ? pl_arena_strdup(p->model->arena, pl_buf_str(&key)) : NULL;
    pl_buf_release(&key);
    return f->key == NULL ? pl_fail_memory(p->err, 0) : PL_OK;
}

static pl_status parse_function(pl_text_parser *p) {
    PL_TRY(pl_text_reserve(p, &p->functions, p->n_functions, &p->functions_capacity,
                           sizeof(pl_text_function *)));
    pl_text_function *f = pl_calloc(1, sizeof *f);
    if (f == NULL) return pl_fail_memory(p->err, sizeof *f);
    p->functions[p->n_functions++] = f;
    PL_TRY(parse_signature(p, f));
    if (pl_strmap_has(&p->function_by_key, f->key))
        return pl_lex_fail(&p->lex, f->at, PL_E_INVALID, "function '%s%s%s' is defined twice",
                           f->domain, f->domain[0] == '\0' ? "" : ".", f->name);
    if (pl_strmap_put(&p->function_by_key, f->key, f) != 0) return pl_fail_memory(p->err, 0);
    return PL_OK;
}

/* ---- finding functions ---- */

static pl_status skip_main_graph(pl_text_parser *p) {
    pl_string ignored;
    bool found;
    PL_TRY(pl_lex_name(&p->lex, &ignored, &found));
    if (pl_lex_peek(&p->lex) == '(') PL_TRY(pl_lex_skip_group(&p->lex));
    PL_TRY(pl_lex_expect_arrow(&p->lex));
    if (pl_lex_peek(&p->lex) == '(') PL_TRY(pl_lex_skip_group(&p->lex));
    if (pl_lex_peek(&p->lex) == '<') PL_TRY(pl_lex_skip_group(&p->lex));
    if (pl_lex_peek(&p->lex) != '{') return pl_lex_fail_expected(&p->lex, "'{'");
    return pl_lex_skip_group(&p->lex);
}

/* Only quoted names can look like "call/inner". */
static pl_status note_quoted_names(pl_text_parser *p, size_t from, size_t to) {
    pl_string s;
    const char *kept;
    p->lex.at = from;
    while (pl_lex_peek(&p->lex) >= 0 && p->lex.at < to) {
        if (p->lex.text[p->lex.at] != '"') {
            p->lex.at++;
            continue;
        }
        PL_TRY(pl_lex_string(&p->lex, &s));
        if (memchr(s.data, '/', s.n_bytes) == NULL) continue;
        PL_TRY(pl_text_intern(p, s, &kept));
        if (pl_strmap_put_n(&p->taken, kept, s.n_bytes, p) != 0) return pl_fail_memory(p->err, 0);
    }
    return PL_OK;
}

pl_status pl_text_parse_functions(pl_text_parser *p, size_t *end) {
    const size_t from = p->lex.at;
    p->lex.err = NULL;
    const pl_status st = skip_main_graph(p);
    p->lex.err = p->err;
    (void)pl_lex_peek(&p->lex);
    *end = st == PL_OK ? p->lex.at : p->lex.n_text;
    /* The main graph has an error: parsing it will give a better message. */
    while (st == PL_OK && pl_lex_peek(&p->lex) >= 0)
        PL_TRY(parse_function(p));
    if (p->n_functions > 0) PL_TRY(note_quoted_names(p, from, *end));
    p->lex.at = from;
    return PL_OK;
}

/* ---- calls ---- */

const pl_attr *pl_text_frame_attr(const pl_text_parser *p, const char *name) {
    return pl_strmap_get(&p->frame->attrs, name);
}

/* The first of a name wins. */
static pl_status bind_attrs(pl_text_parser *p, pl_text_frame *frame,
                            const pl_text_attr_list *attrs) {
    for (size_t i = 0; i < attrs->n; i++) {
        pl_attr *attr = &attrs->items[i];
        if (pl_strmap_has(&frame->attrs, attr->name)) continue;
        if (pl_strmap_put(&frame->attrs, attr->name, attr) != 0) return pl_fail_memory(p->err, 0);
    }
    return PL_OK;
}

pl_status pl_text_count_inlined(pl_text_parser *p, size_t at, size_t n_bytes) {
    p->inlined_bytes += n_bytes;
    if (p->n_inlined <= PL_TEXT_INLINE_MAX && p->inlined_bytes / 64 <= p->lex.n_text + (1 << 18))
        return PL_OK;
    return pl_lex_fail(
        &p->lex, at, PL_E_LIMIT,
        "functions make more than %d calls or make the text more than 64 times larger",
        PL_TEXT_INLINE_MAX);
}

pl_status pl_text_map_name(pl_text_parser *p, const pl_graph *graph, const char **name) {
    pl_text_frame *frame = p->frame;
    const char *mapped;
    if (frame == NULL || (*name)[0] == '\0') return PL_OK;
    mapped = pl_strmap_get(&frame->names, *name);
    for (size_t k = 0; mapped == NULL; k++) {
        PL_TRY(pl_text_count_inlined(p, p->lex.at, strlen(frame->prefix) + strlen(*name)));
        char *wanted = k == 0
                           ? pl_arena_printf(p->model->arena, "%s%s", frame->prefix, *name)
                           : pl_arena_printf(p->model->arena, "%s%s_%zu", frame->prefix, *name, k);
        if (wanted == NULL) return pl_fail_memory(p->err, 0);
        if (pl_strmap_has(&p->taken, wanted) || pl_graph_find_in_scope(graph, wanted) != NULL)
            continue;
        mapped = wanted;
        if (pl_strmap_put(&frame->names, *name, wanted) != 0 ||
            pl_strmap_put(&p->taken, wanted, p) != 0)
            return pl_fail_memory(p->err, 0);
    }
    *name = mapped;
    return PL_OK;
}

static pl_status bind(pl_text_parser *p, pl_text_frame *frame, const char *formal,
                      const char *actual) {
    /* The map stores void *, but nothing writes through it. */
    void *kept = (void *)(uintptr_t)actual;
    return pl_strmap_put(&frame->names, formal, kept) == 0 ? PL_OK : pl_fail_memory(p->err, 0);
}

/* "call/", or "call_2/" when an earlier call has that prefix. */
static pl_status choose_prefix(pl_text_parser *p, pl_text_frame *frame, const char *node_name,
                               const pl_text_ids *out) {
    const char *base = node_name;
    for (size_t i = 0; base[0] == '\0' && i < out->n; i++)
        base = out->items[i].name;
    if (base[0] == '\0') base = frame->function->name;
    base = pl_model_intern(p->model, base, strlen(base));
    if (base == NULL) return pl_fail_memory(p->err, 0);
    char *count = pl_strmap_get(&p->prefixes, base);
    const size_t n = count == NULL ? 1 : *(size_t *)(void *)count + 1;
    size_t *kept =
        count == NULL ? pl_arena_alloc(p->model->arena, sizeof *kept) : (size_t *)(void *)count;
    if (kept == NULL || pl_strmap_put(&p->prefixes, base, kept) != 0)
        return pl_fail_memory(p->err, 0);
    *kept = n;
    frame->prefix = n == 1 ? pl_arena_printf(p->model->arena, "%s/", base)
                           : pl_arena_printf(p->model->arena, "%s_%zu/", base, n);
    return frame->prefix == NULL ? pl_fail_memory(p->err, 0) : PL_OK;
}

static pl_status choose_path(pl_text_parser *p, pl_text_frame *frame) {
    const pl_text_function *f = frame->function;
    const char *outer = frame->caller == NULL ? "" : frame->caller->path;
    PL_TRY(pl_text_count_inlined(p, p->lex.at, strlen(outer) + strlen(frame->prefix)));
    frame->path = pl_arena_printf(p->model->arena, "%s%s%s%s%s", outer, outer[0] == '\0' ? "" : "/",
                                  f->domain, f->domain[0] == '\0' ? "" : ".", f->name);
    return frame->path == NULL ? pl_fail_memory(p->err, 0) : PL_OK;
}

static pl_status check_call(pl_text_parser *p, const pl_text_function *f, const pl_text_ids *in,
                            const pl_text_ids *out, const pl_text_attr_list *attrs, size_t at) {
    if (p->depth >= PL_GRAPH_DEPTH_MAX)
        return pl_lex_fail(&p->lex, at, PL_E_LIMIT,
                           "function '%s': calls are nested deeper than %d", f->name,
                           PL_GRAPH_DEPTH_MAX);
    p->n_inlined++;
    PL_TRY(pl_text_count_inlined(p, at, f->body_bytes));
    if (in->n > f->inputs.n || out->n > f->outputs.n)
        return pl_lex_fail(
            &p->lex, at, PL_E_INVALID,
            "call of '%s' has %zu inputs and %zu outputs, the function has %zu and %zu", f->name,
            in->n, out->n, f->inputs.n, f->outputs.n);
    for (size_t i = 0; i < attrs->n; i++) {
        if (attrs->items[i].type == PL_ATTR_GRAPH || attrs->items[i].type == PL_ATTR_GRAPHS)
            return pl_lex_fail(&p->lex, at, PL_E_UNSUPPORTED,
                               "call of '%s': graph attribute '%s' of a function is not supported",
                               f->name, attrs->items[i].name);
    }
    return PL_OK;
}

/* Outputs that are also inputs, or occur twice in the signature, need an Identity. */
static pl_status bind_outputs(pl_text_parser *p, pl_text_frame *frame, pl_graph *graph,
                              const pl_text_ids *out) {
    const pl_text_ids *formals = &frame->function->outputs;
    for (size_t i = 0; i < out->n; i++) {
        const char *actual = out->items[i].name;
        const char *bound = pl_strmap_get(&frame->names, formals->items[i].name);
        pl_node *node;
        if (actual[0] == '\0') continue;
        if (bound == NULL) {
            PL_TRY(bind(p, frame, formals->items[i].name, actual));
            continue;
        }
        pl_text_id from = { bound, formals->items[i].at };
        pl_text_id to = out->items[i];
        if (bound[0] == '\0')
            return pl_lex_fail(&p->lex, to.at, PL_E_INVALID,
                               "function '%s': output '%s' is an input that the call omits",
                               frame->function->name, formals->items[i].name);
        PL_TRY(pl_text_add_node(p, graph, "Identity", "", &(pl_text_ids){ &from, 1, 1 },
                                &(pl_text_ids){ &to, 1, 1 }, &node));
    }
    return PL_OK;
}

static pl_status inline_in_frame(pl_text_parser *p, pl_text_frame *frame, pl_graph *graph,
                                 const char *node_name, const pl_text_ids *in,
                                 const pl_text_ids *out, const pl_text_attr_list *attrs) {
    const pl_text_function *f = frame->function;
    PL_TRY(bind_attrs(p, frame, attrs));
    PL_TRY(bind_attrs(p, frame, &f->defaults));
    PL_TRY(choose_prefix(p, frame, node_name, out));
    PL_TRY(choose_path(p, frame));
    for (size_t i = 0; i < f->inputs.n; i++)
        PL_TRY(bind(p, frame, f->inputs.items[i].name, i < in->n ? in->items[i].name : ""));
    p->frame = frame;
    PL_TRY(bind_outputs(p, frame, graph, out));
    p->lex.at = f->body_at;
    PL_TRY(pl_text_parse_value_infos(p, graph));
    return pl_text_parse_nodes(p, graph);
}

pl_status pl_text_inline_call(pl_text_parser *p, const pl_text_function *function, pl_graph *graph,
                              const char *node_name, const pl_text_ids *in, const pl_text_ids *out,
                              const pl_text_attr_list *attrs, size_t at) {
    pl_text_frame frame = { .function = function, .caller = p->frame };
    pl_text_frame *const caller = p->frame;
    PL_TRY(check_call(p, function, in, out, attrs, at));
    const size_t back = p->lex.at;
    p->depth++;
    const pl_status st = inline_in_frame(p, &frame, graph, node_name, in, out, attrs);
    p->depth--;
    p->frame = caller;
    p->lex.at = back;
    pl_strmap_release(&frame.names);
    pl_strmap_release(&frame.attrs);
    return st;
}

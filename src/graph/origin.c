/* Where a node comes from: the module and the source line of the program that exported it.
 *
 * torch >= 2.5 writes metadata_props: name_scopes is a Python list from the root module down to the
 * operation itself, stack_trace is Python's own form with the innermost frame last. torch 1.x with
 * verbose=True writes a doc_string, one `file(line): function` a line, innermost first. Both stacks
 * are mostly torch's own code, which is skipped: the user wants the line of the model. */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/size.h"
#include "graph/graph.h"

typedef struct span {
    const char *data;
    size_t n;
} span;

static span span_of(const char *s) {
    return (span){ s, strlen(s) };
}

static bool span_is(span s, const char *text) {
    return s.n == strlen(text) && memcmp(s.data, text, s.n) == 0;
}

static bool span_starts(span s, const char *text) {
    return s.n >= strlen(text) && memcmp(s.data, text, strlen(text)) == 0;
}

static span trim(span s) {
    while (s.n > 0 && isspace((unsigned char)s.data[0]))
        s = (span){ s.data + 1, s.n - 1 };
    while (s.n > 0 && isspace((unsigned char)s.data[s.n - 1]))
        s.n--;
    return s;
}

/* Splits off the part before the first byte in `stops`; false when nothing is left. */
static bool next_part(span *rest, const char *stops, span *out) {
    size_t n = 0;
    if (rest->data == NULL) return false;
    while (n < rest->n && strchr(stops, rest->data[n]) == NULL)
        n++;
    *out = (span){ rest->data, n };
    *rest = n < rest->n ? (span){ rest->data + n + 1, rest->n - n - 1 } : (span){ NULL, 0 };
    return true;
}

static pl_status keep(pl_arena *arena, span s, const char **out, pl_err *err) {
    *out = pl_arena_strndup(arena, s.n == 0 ? "" : s.data, s.n);
    return *out == NULL ? pl_fail_memory(err, s.n) : PL_OK;
}

static const char *prop(const pl_node *node, const char *key) {
    for (uint32_t i = 0; i < node->n_props; i++) {
        if (strcmp(node->props[i].key, key) == 0) return node->props[i].value;
    }
    return NULL;
}

/* ---- stacks ---- */

typedef struct frame {
    span file, function, code;
    int line;
} frame;

/* Parts of torch that occur in traces; a user's folder may also be called torch. */
static bool is_torch_part(span s) {
    static const char *const parts[] = { "nn",    "jit",           "onnx",        "fx",
                                         "utils", "autograd",      "export",      "amp",
                                         "ao",    "functional.py", "overrides.py" };
    if (s.n > 0 && s.data[0] == '_') return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (span_is(s, parts[i])) return true;
    }
    return false;
}

static bool is_library(span file) {
    span rest = file, part, before = { "", 0 };
    bool after_torch = false;
    if (file.n == 0 || file.data[0] == '<') return true; /* <frozen …>, <string> */
    while (next_part(&rest, "/\\", &part)) {
        if (after_torch && is_torch_part(part)) return true;
        after_torch = span_is(part, "torch");
        if (after_torch && (span_is(before, "site-packages") || span_is(before, "dist-packages")))
            return true;
        before = part;
    }
    return false;
}

static bool parse_line_number(span s, int *out) {
    int value = 0;
    if (s.n == 0) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!isdigit((unsigned char)s.data[i]) || value > (INT_MAX - 9) / 10) return false;
        value = value * 10 + (s.data[i] - '0');
    }
    *out = value;
    return true;
}

/* model.py(8): forward */
static bool parse_torch_frame(span line, frame *out) {
    const char *at = NULL;
    for (size_t i = 0; i + 2 < line.n; i++) { /* the last "): ": file names may contain brackets */
        if (memcmp(line.data + i, "): ", 3) == 0) at = line.data + i;
    }
    if (at == NULL) return false;
    const size_t end = (size_t)(at - line.data);
    size_t open = end;
    while (open > 0 && line.data[open] != '(')
        open--;
    if (open == 0) return false;
    out->file = (span){ line.data, open };
    out->function = out->code = trim((span){ at + 3, line.n - end - 3 });
    return parse_line_number((span){ line.data + open + 1, end - open - 1 }, &out->line);
}

/* File "model.py", line 8, in forward */
static bool parse_python_frame(span line, frame *out) {
    if (!span_starts(line, "File \"")) return false;
    const span rest = { line.data + 6, line.n - 6 };
    const char *quote = memchr(rest.data, '"', rest.n);
    if (quote == NULL) return false;
    out->file = (span){ rest.data, (size_t)(quote - rest.data) };
    span tail = { quote + 1, rest.n - out->file.n - 1 };
    if (!span_starts(tail, ", line ")) return false;
    tail = (span){ tail.data + 7, tail.n - 7 };
    span number;
    if (!next_part(&tail, ",", &number)) return false;
    out->function = trim(tail.data == NULL ? (span){ "", 0 } : tail);
    if (span_starts(out->function, "in "))
        out->function = (span){ out->function.data + 3, out->function.n - 3 };
    out->code = out->function;
    return parse_line_number(number, &out->line);
}

/* The innermost frame that is not torch's. */
static bool find_user_frame(const char *text, frame *out) {
    span rest = span_of(text), line;
    bool found = false, wants_code = false;
    while (next_part(&rest, "\n", &line)) {
        frame f = { .line = 0 };
        line = trim(line);
        if (parse_python_frame(line, &f)) { /* outermost first: a later one is further inside */
            wants_code = !is_library(f.file);
            if (wants_code) *out = f;
            found = found || wants_code;
        } else if (parse_torch_frame(line, &f)) { /* innermost first */
            if (is_library(f.file)) continue;
            *out = f;
            return true;
        } else if (wants_code && line.n > 0) {
            out->code = line;
            wants_code = false;
        }
    }
    return found;
}

/* ---- module paths ---- */

/* The next string of a Python list literal, without its quotes. Escapes are left as they are:
 * module names have none. */
static bool next_string(span *rest, span *out) {
    size_t from = 0, to;
    while (from < rest->n && rest->data[from] != '\'' && rest->data[from] != '"')
        from++;
    if (from >= rest->n) return false;
    const char quote = rest->data[from++];
    for (to = from; to < rest->n && rest->data[to] != quote; to++) {
        if (rest->data[to] == '\\' && to + 1 < rest->n) to++;
    }
    if (to >= rest->n) return false;
    *out = (span){ rest->data + from, to - from };
    *rest = (span){ rest->data + to + 1, rest->n - to - 1 };
    return true;
}

/* ['', 'network', 'network.0', 'linear'] -> network.0: the last entry is the operation. */
static bool module_of_scopes(const char *text, span *out) {
    span rest = span_of(text), item, before = { "", 0 }, last = { "", 0 };
    size_t n = 0;
    while (next_string(&rest, &item)) {
        before = last;
        last = item;
        n++;
    }
    *out = before;
    return n > 0;
}

/* : Net/network: Sequential/network.0: Linear/linear: aten.linear.default -> network.0 */
static bool module_of_namespace(const char *text, span *out) {
    span rest = span_of(text), part, before = { "", 0 }, last = { "", 0 };
    size_t n = 0;
    while (next_part(&rest, "/", &part)) {
        const char *colon = memchr(part.data, ':', part.n);
        before = last;
        last = colon == NULL ? (span){ "", 0 } : (span){ part.data, (size_t)(colon - part.data) };
        n++;
    }
    *out = trim(before);
    return n > 1;
}

/* Class names when there are no others: ['__main__.Net', 'torch.nn.modules.linear.Linear', 'aten…']
 * -> Net/Linear */
static pl_status module_of_classes(const char *text, pl_arena *arena, const char **out,
                                   pl_err *err) {
    span rest = span_of(text), item, before = { NULL, 0 };
    const char *path = "";
    while (next_string(&rest, &item)) {
        if (before.data != NULL) {
            span name = before;
            for (size_t i = 0; i < before.n; i++) {
                if (before.data[i] == '.') name = (span){ before.data + i + 1, before.n - i - 1 };
            }
            path = pl_arena_printf(arena, "%s%s%.*s", path, path[0] == '\0' ? "" : "/",
                                   (int)pl_size_min(name.n, 1000), name.data);
            if (path == NULL) return pl_fail_memory(err, name.n);
        }
        before = item;
    }
    *out = path;
    return PL_OK;
}

/* /layer1/layer1.0/conv1/Conv -> layer1.0.conv1. Children of a container repeat its name. */
static pl_status module_of_scope_name(const char *name, pl_arena *arena, const char **out,
                                      pl_err *err) {
    pl_buf path = PL_BUF_INIT;
    span rest = span_of(name), part, before = { "", 0 };
    size_t last_at = 0;
    while (next_part(&rest, "/", &part) &&
           rest.data != NULL) { /* without the operation at the end */
        if (part.n == 0) continue;
        const bool repeats = before.n > 0 && part.n > before.n && part.data[before.n] == '.' &&
                             memcmp(part.data, before.data, before.n) == 0;
        if (repeats) {
            path.n_bytes = last_at;
        } else if (path.n_bytes > 0) {
            pl_buf_putc(&path, '.');
        }
        last_at = path.n_bytes;
        pl_buf_append(&path, part.data, part.n);
        before = part;
    }
    const pl_status st = pl_buf_ok(&path)
                             ? keep(arena, (span){ pl_buf_str(&path), path.n_bytes }, out, err)
                             : pl_fail_memory(err, 0);
    pl_buf_release(&path);
    return st;
}

/* layer1.0.conv1.weight -> layer1.0.conv1 */
static bool module_of_weight(const pl_value *value, span *out) {
    if (value == NULL || value->init == NULL || strchr(value->name, '/') != NULL ||
        strchr(value->name, ':') != NULL)
        return false;
    const char *dot = strrchr(value->name, '.');
    if (dot == NULL || dot == value->name || !isalpha((unsigned char)dot[1])) return false;
    *out = (span){ value->name, (size_t)(dot - value->name) };
    return true;
}

static const char *scope_name(const pl_node *node) {
    if (strchr(node->name, '/') != NULL) return node->name;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] != NULL && node->out[i]->name[0] == '/') return node->out[i]->name;
    }
    return NULL;
}

static pl_status find_module(const pl_node *node, pl_arena *arena, const char **out, pl_err *err) {
    const char *scopes = prop(node, "pkg.torch.onnx.name_scopes");
    const char *name_space = prop(node, "namespace");
    const char *classes = prop(node, "pkg.torch.onnx.class_hierarchy");
    const char *name = scope_name(node);
    span module;
    if (scopes != NULL && module_of_scopes(scopes, &module)) return keep(arena, module, out, err);
    if (name_space != NULL && module_of_namespace(name_space, &module))
        return keep(arena, module, out, err);
    if (classes != NULL) return module_of_classes(classes, arena, out, err);
    if (name != NULL) return module_of_scope_name(name, arena, out, err);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (module_of_weight(node->in[i], &module)) return keep(arena, module, out, err);
    }
    return PL_OK;
}

pl_status pl_node_origin(const pl_node *node, pl_arena *arena, pl_origin *out, pl_err *err) {
    const char *trace = prop(node, "pkg.torch.onnx.stack_trace");
    const char *fx = prop(node, "pkg.torch.onnx.fx_node");
    frame f = { .line = 0 };
    *out = (pl_origin){ "", "", 0, "" };
    PL_TRY(find_module(node, arena, &out->module, err));
    const bool found =
        (trace != NULL && find_user_frame(trace, &f)) || find_user_frame(node->doc, &f);
    if (!found) return fx == NULL ? PL_OK : keep(arena, trim(span_of(fx)), &out->code, err);
    out->line = f.line;
    PL_TRY(keep(arena, f.file, &out->file, err));
    return keep(arena, f.code, &out->code, err);
}

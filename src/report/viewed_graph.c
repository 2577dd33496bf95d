/* The graph of a session's model for the page: values by number, a row for each node of the main
 * graph, attributes as short text. Weights are named with their type, never sent. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "base/utf8.h"
#include "report/viewed.h"

enum { ATTR_ITEMS_MAX = 16, ATTR_TEXT_MAX = 400 };
enum { SOURCE_AROUND = 12, SOURCE_LINE_MAX = 400 };

/* ---- attributes ---- */

static void put_quoted(pl_buf *b, pl_string s) {
    const char *data = s.n_bytes == 0 ? "" : s.data;
    const size_t n = pl_utf8_cut(data, s.n_bytes, ATTR_TEXT_MAX);
    pl_buf_putc(b, '"');
    pl_buf_append(b, data, n);
    pl_buf_puts(b, n < s.n_bytes ? "…\"" : "\"");
}

static void put_tensor(pl_buf *b, const pl_tensor *t) {
    char text[128];
    if (t == NULL) return;
    pl_buf_puts(b, pl_tensor_describe(t, text, sizeof text));
    if (t->n_elements != 1 || !pl_tensor_is_contiguous(t)) return;
    const pl_dtype_class c = pl_dtype_class_of(t->dtype);
    if (c == PL_CLASS_UINT) {
        pl_buf_printf(b, " {%llu}", (unsigned long long)pl_tensor_get_i64(t, 0));
    } else if (c == PL_CLASS_INT) {
        pl_buf_printf(b, " {%lld}", (long long)pl_tensor_get_i64(t, 0));
    } else if (c != PL_CLASS_STRING && c != PL_CLASS_COMPLEX) {
        pl_buf_printf(b, " {%.9g}", pl_tensor_get_f64(t, 0));
    }
}

static void put_item(pl_buf *b, const pl_attr *a, size_t i) {
    if (a->type == PL_ATTR_FLOATS) {
        pl_buf_printf(b, "%.9g", (double)a->floats[i]);
    } else if (a->type == PL_ATTR_INTS) {
        pl_buf_printf(b, "%lld", (long long)a->ints[i]);
    } else if (a->type == PL_ATTR_STRINGS) {
        put_quoted(b, a->strings[i]);
    } else if (a->type == PL_ATTR_TENSORS) {
        put_tensor(b, a->tensors[i]);
    } else {
        pl_buf_puts(b, "graph");
    }
}

static void attr_text(pl_buf *b, const pl_attr *a) {
    switch (a->type) {
    case PL_ATTR_FLOAT: pl_buf_printf(b, "%.9g", (double)a->f); return;
    case PL_ATTR_INT: pl_buf_printf(b, "%lld", (long long)a->i); return;
    case PL_ATTR_STRING: put_quoted(b, a->s); return;
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: put_tensor(b, a->tensor); return;
    case PL_ATTR_GRAPH:
        pl_buf_printf(b, "graph of %zu nodes", a->graph == NULL ? 0 : a->graph->n_nodes);
        return;
    case PL_ATTR_TYPE_PROTO:
        if (a->type_proto != NULL) pl_type_print(b, a->type_proto);
        return;
    case PL_ATTR_NONE: return;
    case PL_ATTR_FLOATS:
    case PL_ATTR_INTS:
    case PL_ATTR_STRINGS:
    case PL_ATTR_TENSORS:
    case PL_ATTR_GRAPHS: break;
    }
    pl_buf_putc(b, '[');
    for (size_t i = 0; i < a->n && i < ATTR_ITEMS_MAX; i++) {
        if (i > 0) pl_buf_puts(b, ", ");
        put_item(b, a, i);
    }
    pl_buf_puts(b, a->n > ATTR_ITEMS_MAX ? ", …]" : "]");
}

/* ---- nodes ---- */

static void put_edges(pl_json *j, pl_value *const *values, size_t n, const int64_t *numbers) {
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++)
        pl_json_int(j, values[i] == NULL ? -1 : numbers[values[i]->id]);
    pl_json_array_end(j);
}

/* [op, domain, name, module, file, line, code, inputs, outputs, [[attribute, text], …]] */
static pl_status put_node(pl_json *j, const pl_node *node, const int64_t *numbers, pl_arena *arena,
                          pl_err *err) {
    pl_origin origin;
    pl_buf text = PL_BUF_INIT;
    PL_TRY(pl_node_origin(node, arena, &origin, err));
    pl_json_array_begin(j);
    pl_json_string(j, node->op);
    pl_json_string(j, node->domain);
    pl_json_string(j, node->name);
    pl_json_string(j, origin.module);
    pl_json_string(j, origin.file);
    pl_json_int(j, origin.line);
    pl_json_string(j, origin.code);
    put_edges(j, node->in, node->n_in, numbers);
    put_edges(j, node->out, node->n_out, numbers);
    pl_json_array_begin(j);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        pl_buf_reset(&text);
        attr_text(&text, &node->attrs[i]);
        if (!pl_buf_ok(&text)) j->buf->failed = true;
        pl_json_array_begin(j);
        pl_json_string(j, node->attrs[i].name);
        pl_json_string_n(j, pl_buf_str(&text), text.n_bytes);
        pl_json_array_end(j);
    }
    pl_json_array_end(j);
    pl_json_array_end(j);
    pl_buf_release(&text);
    pl_arena_reset(arena);
    return PL_OK;
}

static void put_type(pl_json *j, const pl_value *v) {
    char described[128];
    pl_buf text = PL_BUF_INIT;
    if (v->init != NULL) {
        pl_json_string(j, pl_tensor_describe(v->init, described, sizeof described));
        return;
    }
    if (v->type != NULL && v->type->kind != PL_TYPE_NONE) pl_type_print(&text, v->type);
    if (!pl_buf_ok(&text)) j->buf->failed = true;
    pl_json_string(j, pl_buf_str(&text));
    pl_buf_release(&text);
}

static void put_values(pl_json *j, const pl_graph *g, int64_t *numbers) {
    pl_json_key(j, "values");
    pl_json_array_begin(j);
    for (size_t i = 0; i < g->n_values; i++) {
        numbers[g->values[i]->id] = (int64_t)i;
        pl_json_string(j, g->values[i]->name);
    }
    pl_json_array_end(j);
    pl_json_key(j, "types");
    pl_json_array_begin(j);
    for (size_t i = 0; i < g->n_values; i++)
        put_type(j, g->values[i]);
    pl_json_array_end(j);
    pl_json_key(j, "weights");
    pl_json_array_begin(j);
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i]->init != NULL && !g->values[i]->is_input) pl_json_int(j, (int64_t)i);
    pl_json_array_end(j);
}

pl_status pl_viewed_put_graph(const pl_model *model, pl_buf *out, pl_err *err) {
    pl_json json, *j = &json;
    pl_json_init(j, out, false);
    if (model == NULL) {
        pl_json_null(j);
        return PL_OK;
    }
    const pl_graph *g = model->graph;
    pl_arena *arena = pl_arena_new();
    int64_t *numbers = pl_calloc((size_t)model->n_values + 1, sizeof *numbers);
    pl_status st = arena == NULL || numbers == NULL ? pl_fail_memory(err, model->n_values) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < model->n_values; i++)
        numbers[i] = -1;
    if (st == PL_OK) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", g->name);
        put_values(j, g, numbers);
        pl_json_key(j, "inputs");
        put_edges(j, g->inputs, g->n_inputs, numbers);
        pl_json_key(j, "outputs");
        put_edges(j, g->outputs, g->n_outputs, numbers);
        pl_json_key(j, "nodes");
        pl_json_array_begin(j);
        for (size_t i = 0; st == PL_OK && i < g->n_nodes; i++)
            st = put_node(j, g->nodes[i], numbers, arena, err);
        pl_json_array_end(j);
        pl_json_object_end(j);
    }
    pl_free(numbers);
    pl_arena_free(arena);
    return st;
}

/* ---- source ---- */

/* The model says "/home/who/project/net.py", but the folder on this machine may be anywhere. Looks
 * for the file in it by shorter and shorter ends of the path. */
static pl_status find_source(const char *folder, const char *file, pl_file_map **out, pl_err *err) {
    pl_dir *dir = NULL;
    PL_TRY(pl_dir_open_lenient(folder, &dir, err));
    pl_status st = PL_E_NOT_FOUND;
    for (const char *at = file; at != NULL; at = strchr(at, '/')) {
        while (*at == '/')
            at++;
        if (*at == '\0') break;
        st = pl_dir_map(dir, at, out, NULL);
        if (st == PL_OK) break;
    }
    pl_dir_close(dir);
    if (st == PL_OK) return PL_OK;
    return pl_fail(err, PL_E_NOT_FOUND, "'%s' is outside '%s'", file, folder);
}

pl_status pl_viewed_put_source(const char *folder, const char *file, long line, pl_buf *out,
                               pl_err *err) {
    pl_file_map *map = NULL;
    pl_json json, *j = &json;
    PL_TRY(find_source(folder, file, &map, err));
    const long first = line > SOURCE_AROUND ? line - SOURCE_AROUND : 1;
    const char *at = (const char *)map->data, *end = at + map->n_bytes;
    pl_json_init(j, out, false);
    pl_json_object_begin(j);
    pl_json_put_int(j, "first", first);
    pl_json_put_int(j, "line", line);
    pl_json_key(j, "lines");
    pl_json_array_begin(j);
    for (long n = 1; at < end && n <= line + SOURCE_AROUND; n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        const size_t length = (size_t)(stop - at);
        if (n >= first) pl_json_string_n(j, at, pl_utf8_cut(at, length, SOURCE_LINE_MAX));
        at = stop + 1;
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
    pl_file_map_unref(map);
    return PL_OK;
}

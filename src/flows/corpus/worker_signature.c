/* What distinguishes bugs: the operator, its relevant attributes, and the form of the message. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/api.h"
#include "flows/corpus/worker.h"
#include "ops/infer.h"

enum { SHAPE_MAX = 240, ATTR_TEXT_MAX = 40 };

/* ---- messages ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '/' || c == ':' || c == '-' ||
           c == '+' || c == '#';
}

/* A word with a digit, a slash or only hexadecimal digits is a number, a path or a name. */
static void put_word(pl_buf *out, const char *word, size_t n) {
    bool digit = false, letter = false, slash = false;
    for (size_t i = 0; i < n; i++) {
        digit |= isdigit((unsigned char)word[i]) != 0;
        letter |= isalpha((unsigned char)word[i]) != 0;
        slash |= word[i] == '/';
    }
    if (slash || (digit && letter)) {
        pl_buf_putc(out, '_');
    } else if (digit) {
        pl_buf_putc(out, '#');
    } else {
        pl_buf_append(out, word, n);
    }
}

const char *pl_message_shape(pl_arena *arena, const char *message) {
    pl_buf out = PL_BUF_INIT;
    const char *s = message;
    while (*s != '\0' && out.n_bytes < SHAPE_MAX) {
        const char *close = *s == '\'' || *s == '"' ? strchr(s + 1, *s) : NULL;
        size_t n = 0;
        while (is_word(s[n]))
            n++;
        if (close != NULL) {
            pl_buf_putc(&out, '_');
            s = close + 1;
        } else if (n > 0) {
            put_word(&out, s, n);
            s += n;
        } else if (isspace((unsigned char)*s)) {
            pl_buf_putc(&out, ' ');
            while (isspace((unsigned char)*s))
                s++;
        } else {
            pl_buf_putc(&out, *s++);
        }
    }
    const char *shape = pl_buf_ok(&out) ? pl_arena_strdup(arena, pl_buf_str(&out)) : NULL;
    pl_buf_release(&out);
    return shape;
}

/* ---- the node ---- */

static void put_dtype(pl_buf *out, const pl_value *v) {
    if (v == NULL) return;
    if (v->init != NULL) {
        pl_buf_puts(out, pl_dtype_name(v->init->dtype));
    } else if (v->type != NULL && v->type->kind == PL_TYPE_TENSOR) {
        pl_buf_puts(out, pl_dtype_name(v->type->dtype));
    } else {
        pl_buf_putc(out, '?');
    }
}

static void put_dtypes(pl_buf *out, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (i > 0) pl_buf_putc(out, ',');
        put_dtype(out, node->in[i]);
    }
    pl_buf_putc(out, '>');
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (i > 0) pl_buf_putc(out, ',');
        put_dtype(out, node->out[i]);
    }
}

/* String attributes select an algorithm; numbers are sizes and positions, which vary for one
 * bug. */
static void put_attrs(pl_buf *out, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        if (out->n_bytes > 0) pl_buf_putc(out, ' ');
        pl_buf_put_clean(out, a->name);
        if (a->type != PL_ATTR_STRING) continue;
        char text[ATTR_TEXT_MAX + 1];
        const size_t n = a->s.n_bytes < ATTR_TEXT_MAX ? a->s.n_bytes : ATTR_TEXT_MAX;
        memcpy(text, a->s.data, n);
        text[n] = '\0';
        pl_buf_putc(out, '=');
        pl_buf_put_clean(out, text);
    }
}

static const pl_node *find_node(const pl_graph *graph, const char *value, const char *op) {
    const pl_value *v = value[0] == '\0' ? NULL : pl_graph_find(graph, value);
    if (v != NULL && v->producer != NULL) return v->producer;
    for (size_t i = 0; op[0] != '\0' && i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i]->op, op) == 0) return graph->nodes[i];
    return NULL;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Each word once, sorted, with spaces between. NULL when out of memory. */
static const char *words_of(const char **words, size_t n, pl_arena *arena) {
    pl_buf out = PL_BUF_INIT;
    if (n > 0) qsort(words, n, sizeof *words, by_text);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(words[i], words[i - 1]) == 0) continue;
        if (i > 0) pl_buf_putc(&out, ' ');
        pl_buf_put_clean(&out, words[i]);
    }
    const char *text = pl_buf_ok(&out) ? pl_arena_strdup(arena, pl_buf_str(&out)) : NULL;
    pl_buf_release(&out);
    return text;
}

static const char *ops_of(const pl_graph *graph, pl_arena *arena) {
    const char **ops = pl_calloc(graph->n_nodes + 1, sizeof *ops);
    if (ops == NULL) return NULL;
    for (size_t i = 0; i < graph->n_nodes; i++)
        ops[i] = graph->nodes[i]->op;
    const char *text = words_of(ops, graph->n_nodes, arena);
    pl_free(ops);
    return text;
}

/* Without bodies: a repro is small. */
static const char *edges_of(const pl_graph *graph, pl_arena *arena) {
    size_t n = 0, n_max = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n_max += graph->nodes[i]->n_in;
    const char **edges = pl_calloc(n_max + 1, sizeof *edges);
    bool ok = edges != NULL;
    for (size_t i = 0; ok && i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; ok && k < node->n_in; k++) {
            if (node->in[k] == NULL || node->in[k]->producer == NULL) continue;
            edges[n] = pl_arena_printf(arena, "%s>%s", node->in[k]->producer->op, node->op);
            ok = edges[n++] != NULL;
        }
    }
    const char *text = ok ? words_of(edges, n, arena) : NULL;
    pl_free(edges);
    return text;
}

pl_status pl_bug_look(pl_bug *bug, const char *model_path, const char *value, bool is_repro,
                      pl_arena *arena, pl_err *err) {
    plumb_model *model = NULL;
    pl_buf attrs = PL_BUF_INIT, dtypes = PL_BUF_INIT;
    const pl_infer_options options = { 0 };
    if (plumb_model_open(model_path, &model, NULL) != PL_OK) return PL_OK;
    if (pl_ops_resolve_known(model->model, NULL) == PL_OK)
        (void)pl_model_infer(model->model, &options, NULL);
    const pl_node *node = find_node(model->model->graph, value, bug->op);
    if (node != NULL) {
        put_attrs(&attrs, node);
        put_dtypes(&dtypes, node);
        if (bug->op[0] == '\0') bug->op = pl_arena_strdup(arena, node->op);
        bug->attrs = pl_arena_strdup(arena, pl_buf_str(&attrs));
        bug->dtypes = pl_arena_strdup(arena, pl_buf_str(&dtypes));
    }
    if (is_repro) {
        bug->ops = ops_of(model->model->graph, arena);
        bug->edges = edges_of(model->model->graph, arena);
    }
    const bool ok = bug->ops != NULL && bug->edges != NULL && pl_buf_ok(&attrs) &&
                    pl_buf_ok(&dtypes) && bug->op != NULL && bug->attrs != NULL &&
                    bug->dtypes != NULL;
    pl_buf_release(&attrs);
    pl_buf_release(&dtypes);
    plumb_model_close(model);
    return ok ? PL_OK : pl_fail_memory(err, 1);
}

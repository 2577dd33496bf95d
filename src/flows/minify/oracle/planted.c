/* Renumbers injected faults. Works on the text of a spec: "jit:inject=KIND@OP:N,…". */
#include "flows/minify/oracle/planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"

/* One item of a spec, "\," escaped: its length. */
static size_t item_length(const char *at) {
    size_t n = 0;
    while (at[n] != '\0' && at[n] != ',')
        n += at[n] == '\\' && at[n + 1] != '\0' ? 2 : 1;
    return n;
}

typedef struct fault {
    char op[64];
    long n;        /* 0 = all */
    size_t n_kind; /* length of "inject=KIND@OP" */
} fault;

static bool read_fault(const char *item, size_t n_item, fault *out) {
    char text[256];
    if (n_item >= sizeof(text) || strncmp(item, "inject=", 7) != 0) return false;
    memcpy(text, item, n_item);
    text[n_item] = '\0';
    const char *at = strchr(text, '@');
    if (at == NULL) return false;
    const size_t n_op = strcspn(at + 1, ":");
    if (n_op == 0 || n_op >= sizeof(out->op)) return false;
    memcpy(out->op, at + 1, n_op);
    out->op[n_op] = '\0';
    out->n_kind = (size_t)(at + 1 - text) + n_op;
    out->n = at[1 + n_op] == ':' ? strtol(at + 2 + n_op, NULL, 10) : 0;
    return true;
}

static const pl_node *nth(const pl_graph *graph, const char *op, long n) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (strcmp(graph->nodes[i]->op, op) == 0 && --n == 0) return graph->nodes[i];
    return NULL;
}

static const char *first_value(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) return node->out[i]->name;
    return NULL;
}

pl_status pl_planted_find(pl_planted *p, const char *spec, const pl_graph *graph, pl_err *err) {
    const char *at = spec == NULL ? NULL : strchr(spec, ':');
    pl_planted_release(p);
    while (at != NULL && *at != '\0' && p->n_faults < PL_PLANTED_MAX) {
        fault f;
        at++;
        const size_t n = item_length(at);
        if (read_fault(at, n, &f)) {
            const pl_node *node = f.n == 0 ? NULL : nth(graph, f.op, f.n);
            const char *value = node == NULL ? NULL : first_value(node);
            snprintf(p->faults[p->n_faults].op, sizeof(f.op), "%s", f.op);
            p->faults[p->n_faults].value = value == NULL ? NULL : pl_strdup(value);
            if (value != NULL && p->faults[p->n_faults].value == NULL)
                return pl_fail_memory(err, 1);
            p->n_faults++;
        }
        at += n;
    }
    return PL_OK;
}

/* Number of the node that computes `value` among those of its type; 0 = not found. */
static long number_of(const pl_graph *graph, const char *op, const char *value) {
    long n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (strcmp(node->op, op) != 0) continue;
        n++;
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL && strcmp(node->out[k]->name, value) == 0) return n;
    }
    return 0;
}

pl_status pl_planted_spec(const pl_planted *p, const char *spec, const pl_graph *graph, pl_buf *out,
                          pl_err *err) {
    const size_t n_name = strcspn(spec, ":");
    const char *at = spec + n_name;
    char separator = ':';
    size_t k = 0;
    pl_buf_append(out, spec, n_name);
    while (*at != '\0') {
        fault f;
        at++;
        const size_t n = item_length(at);
        const bool is_fault = k < p->n_faults && read_fault(at, n, &f);
        const char *value = is_fault ? p->faults[k].value : NULL;
        const long number = value == NULL ? 0 : number_of(graph, f.op, value);
        k += is_fault;
        if (value == NULL || number > 0) {
            pl_buf_putc(out, separator);
            separator = ',';
            pl_buf_append(out, at, value == NULL ? n : f.n_kind);
            if (value != NULL) pl_buf_printf(out, ":%ld", number);
        }
        at += n;
    }
    return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, 1);
}

/* Operators of the graph, each once. */
static const char *op_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    for (size_t k = 0; k < graph->n_nodes; k++) {
        bool seen = false;
        for (size_t b = 0; b < k && !seen; b++)
            seen = strcmp(graph->nodes[b]->op, graph->nodes[k]->op) == 0;
        if (!seen && i-- == 0) return graph->nodes[k]->op;
    }
    return NULL;
}

void pl_planted_misses(const char *spec, const pl_graph *graph, pl_buf *out) {
    const char *at = spec == NULL || strncmp(spec, "jit:", 4) != 0 ? NULL : spec + 3;
    while (at != NULL && *at != '\0') {
        fault f;
        at++;
        const size_t n = item_length(at);
        if (read_fault(at, n, &f) && nth(graph, f.op, f.n > 0 ? f.n : 1) == NULL) {
            const char *no = nth(graph, f.op, 1) == NULL ? "no" : "too few";
            pl_buf_printf(out, "%.*s plants nothing: the main graph has %s %s", (int)n, at, no,
                          f.op);
            if (*no == 'n' && no[1] == 'o' && no[2] == '\0')
                pl_nearest_put(out, f.op, strlen(f.op), op_at, graph);
            pl_buf_putc(out, '\n');
        }
        at += n;
    }
}

void pl_planted_release(pl_planted *p) {
    for (size_t i = 0; i < p->n_faults; i++)
        pl_free(p->faults[i].value);
    *p = (pl_planted){ 0 };
}

/* Builds the graph that the layers walk; finds views and quantised forms. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "pair/pair_int.h"

/* ---- building ---- */

static uint64_t hash_text(const char *s) {
    return pl_hash64(s, strlen(s));
}

static uint64_t label_of(const char *op, const char *domain, uint64_t attrs) {
    const uint64_t d = pl_domain_is_onnx(domain) ? 0 : hash_text(domain);
    return pl_pair_mix(pl_pair_mix(hash_text(op), d), attrs);
}

pl_status pl_pair_graph_add_value(pl_pair_graph *g, const char *path, const char *name,
                                  uint32_t *out, pl_err *err) {
    const uint32_t v = g->n_values;
    const char *copy = pl_arena_strdup(g->arena, name);
    const char *key = *path == '\0' ? copy : pl_arena_printf(g->arena, "%s\n%s", path, name);
    if (copy == NULL || key == NULL || v >= PL_PAIR_NONE - 1 ||
        !PL_ARRAY_ROOM(g->values, v, &g->values_capacity) ||
        pl_strmap_put(&g->by_path, key, (void *)((uintptr_t)v + 1)) != 0)
        return pl_fail_memory(err, sizeof *g->values);
    g->values[v] = (pl_pg_value){ .name = copy,
                                  .producer = PL_PAIR_NONE,
                                  .root = v,
                                  .real = v,
                                  .first_item = PL_PAIR_NONE,
                                  .io = PL_PAIR_NONE };
    g->n_values++;
    *out = v;
    return PL_OK;
}

uint64_t pl_pair_hash_const(const pl_pg_const *c) {
    uint64_t h = pl_pair_mix(c->hash.low, c->hash.high);
    h = pl_pair_mix(h, (uint64_t)c->dtype);
    return pl_pair_mix(h, pl_hash64(c->dims, (size_t)c->rank * sizeof *c->dims));
}

void pl_pair_graph_set_const(pl_pair_graph *g, uint32_t value, const pl_pg_const *c) {
    pl_pg_value *v = &g->values[value];
    v->flags |= PL_PG_CONST | PL_PG_FIXED;
    v->content = pl_pair_hash_const(c);
    v->shape = pl_hash64(c->dims, (size_t)c->rank * sizeof *c->dims);
}

/* A recorded graph may lack opsets and domains, and runtimes put ai.onnx operators into domains of
 * their own. */
static const pl_op_def *find_row(const char *domain, const char *op, int opset) {
    enum { NEWEST = 1000 };
    const pl_op_def *row = pl_op_find(domain, op, opset);
    if (row == NULL) row = pl_op_find(domain, op, NEWEST);
    if (row == NULL) row = pl_op_find("", op, NEWEST);
    return row == NULL ? pl_op_find("com.microsoft", op, NEWEST) : row;
}

/* Searches the operator table once for each kind of node, not for each node. */
const pl_op_def *pl_pair_graph_row(pl_pair_graph *g, const char *domain, const char *op,
                                   int opset) {
    char key[128];
    const int n_key = snprintf(key, sizeof key, "%d %s %s", opset, domain, op);
    if (n_key < 0 || n_key >= (int)sizeof key) return find_row(domain, op, opset);
    if (pl_strmap_has(&g->ops, key)) return pl_strmap_get(&g->ops, key);
    const pl_op_def *row = find_row(domain, op, opset);
    const char *copy = pl_arena_strdup(g->arena, key);
    if (copy != NULL) (void)pl_strmap_put(&g->ops, copy, (void *)(uintptr_t)row);
    return row;
}

static unsigned flags_of(const pl_pg_new_node *n, const pl_op_def *def) {
    unsigned flags = n->flags;
    if (def == NULL || (n->flags & PL_PG_BODY) != 0) return flags;
    if (strcmp(def->domain == NULL ? "" : def->domain,
               pl_domain_is_onnx(n->domain) ? "" : n->domain) != 0) {
        return flags; /* only the same name */
    }
    if ((def->flags & PL_OP_VIEW) != 0) flags |= PL_PG_VIEW;
    if ((def->flags & PL_OP_COMMUTATIVE) != 0) flags |= PL_PG_COMMUTATIVE;
    if ((def->flags & PL_OP_RANDOM) != 0 && (flags & PL_PG_VIEW) == 0) flags |= PL_PG_RANDOM;
    return flags;
}

pl_status pl_pair_graph_add_node(pl_pair_graph *g, const pl_pg_new_node *n, pl_err *err) {
    const pl_op_def *row = pl_pair_graph_row(g, n->domain, n->op, n->opset);
    const pl_plain_form *plain = row == NULL ? NULL : row->plain;
    size_t n_edges = 0;
    if (!pl_size_add(n->n_in, n->n_out, &n_edges) || !pl_size_add(n_edges, g->n_edges, &n_edges) ||
        g->n_nodes >= PL_PAIR_NONE - 1 || n_edges >= PL_PAIR_NONE ||
        !PL_ARRAY_ROOM(g->nodes, g->n_nodes, &g->nodes_capacity) ||
        !PL_ARRAY_ROOM_FOR(g->edges, n_edges, &g->edges_capacity))
        return pl_fail_memory(err, n_edges);
    pl_pg_node *node = &g->nodes[g->n_nodes];
    *node = (pl_pg_node){ .op = pl_arena_strdup(g->arena, n->op),
                          .domain = pl_arena_strdup(g->arena, n->domain),
                          .module = pl_arena_strdup(g->arena, n->module),
                          .label = label_of(n->op, n->domain, n->attrs),
                          .in = g->n_edges,
                          .n_in = (uint32_t)n->n_in,
                          .n_own_in = (uint32_t)n->n_own_in,
                          .out = g->n_edges + (uint32_t)n->n_in,
                          .n_out = (uint32_t)n->n_out,
                          .row = row,
                          .flags = flags_of(n, row) };
    if (node->op == NULL || node->domain == NULL || node->module == NULL)
        return pl_fail_memory(err, 1);
    node->plain = plain == NULL ? node->label : label_of(plain->op, "", n->attrs);
    node->slots = plain == NULL ? NULL : plain->slots;
    if (n->n_in > 0) memcpy(g->edges + node->in, n->in, n->n_in * sizeof *n->in);
    if (n->n_out > 0) memcpy(g->edges + node->out, n->out, n->n_out * sizeof *n->out);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (n->out[i] == PL_PAIR_NONE) continue;
        g->values[n->out[i]].producer = g->n_nodes;
        g->values[n->out[i]].slot = i;
    }
    g->n_edges = (uint32_t)n_edges;
    g->n_nodes++;
    return PL_OK;
}

/* ---- after the last node ---- */

static pl_status find_uses(pl_pair_graph *g, pl_err *err) {
    g->use_at = pl_calloc((size_t)g->n_values + 2, sizeof *g->use_at);
    g->uses = pl_calloc((size_t)g->n_edges + 1, sizeof *g->uses);
    if (g->use_at == NULL || g->uses == NULL) return pl_fail_memory(err, g->n_edges);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const pl_pg_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t v = g->edges[node->in + k];
            if (v != PL_PAIR_NONE) g->use_at[v + 2]++;
        }
    }
    for (uint32_t v = 0; v < g->n_values; v++)
        g->use_at[v + 2] += g->use_at[v + 1];
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const pl_pg_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t v = g->edges[node->in + k];
            if (v != PL_PAIR_NONE) g->uses[g->use_at[v + 1]++] = (pl_pg_use){ n, k };
        }
    }
    return PL_OK;
}

static pl_pg_value *input_of(const pl_pair_graph *g, const pl_pg_node *node, uint32_t k) {
    if (k >= node->n_own_in) return NULL;
    const uint32_t v = g->edges[node->in + k];
    return v == PL_PAIR_NONE ? NULL : &g->values[v];
}

static void same_number(pl_pg_value *v, const pl_pg_value *x, unsigned codes) {
    v->real = x->real;
    v->flags = (v->flags & ~(unsigned)PL_PG_CODES) | codes;
}

/* Mul by a scale computed at run time, and the scales themselves. */
static bool trace_scale(const pl_pair_graph *g, pl_pg_node *node, pl_pg_value *v) {
    const pl_pg_value *x = input_of(g, node, 0), *y = input_of(g, node, 1);
    if (x == NULL || y == NULL) return false;
    const bool sx = (x->flags & PL_PG_SCALE) != 0, sy = (y->flags & PL_PG_SCALE) != 0;
    if (!sx && !sy) return false;
    if ((sx || (x->flags & PL_PG_FIXED) != 0) && (sy || (y->flags & PL_PG_FIXED) != 0)) {
        v->flags |= PL_PG_SCALE;
        return true;
    }
    same_number(v, sx ? y : x, 0);
    node->flags |= PL_PG_QUANT;
    return true;
}

static void trace_quantised(const pl_pair_graph *g, pl_pg_node *node, pl_pg_value *v) {
    const pl_pg_value *x = input_of(g, node, 0);
    const pl_op_def *row = node->row;
    if (row == NULL) return;
    if (row->plain != NULL) {
        if (!row->plain->floats) v->flags |= PL_PG_CODES;
        return;
    }
    if (x == NULL) return;
    if ((row->flags & PL_OP_FINDS_SCALE) != 0) {
        node->flags |= PL_PG_QUANT;
        if (v->slot == 0) {
            same_number(v, x, PL_PG_CODES);
        } else {
            v->flags |= PL_PG_SCALE;
        }
    } else if ((row->flags & PL_OP_QUANTIZE) != 0) {
        node->flags |= PL_PG_QUANT;
        same_number(v, x, PL_PG_CODES);
    } else if ((row->flags & (PL_OP_DEQUANTIZE | PL_OP_ROUNDS)) != 0) {
        node->flags |= PL_PG_QUANT;
        same_number(v, x, 0);
    } else if ((row->flags & PL_OP_CAST) != 0 && (x->flags & PL_PG_CODES) != 0) {
        node->flags |= PL_PG_QUANT;
        same_number(v, x, PL_PG_CODES);
    } else if ((row->flags & PL_OP_TIMES) != 0) {
        (void)trace_scale(g, node, v);
    }
}

static void trace_view(const pl_pair_graph *g, const pl_pg_node *node, pl_pg_value *v) {
    const pl_pg_value *x = input_of(g, node, 0);
    if (x == NULL || v->slot != 0) return;
    v->root = x->root;
    v->real = x->real;
    v->flags |= x->flags & (PL_PG_CODES | PL_PG_SCALE);
}

static bool is_fixed(const pl_pair_graph *g, const pl_pg_node *node) {
    bool fixed = node->n_in > 0 && (node->flags & (PL_PG_BODY | PL_PG_RANDOM)) == 0;
    for (uint32_t k = 0; k < node->n_in && fixed; k++) {
        const uint32_t v = g->edges[node->in + k];
        fixed = v == PL_PAIR_NONE || (g->values[v].flags & PL_PG_FIXED) != 0;
    }
    return fixed;
}

static void trace(pl_pair_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        pl_pg_node *node = &g->nodes[n];
        const bool fixed = is_fixed(g, node);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t out = g->edges[node->out + k];
            if (out == PL_PAIR_NONE) continue;
            pl_pg_value *v = &g->values[out];
            if (fixed) v->flags |= PL_PG_FIXED;
            if ((node->flags & PL_PG_VIEW) != 0) {
                trace_view(g, node, v);
            } else {
                trace_quantised(g, node, v);
            }
        }
    }
}

pl_status pl_pair_graph_init(pl_pair_graph *g, const pl_pair_side *side, pl_err *err) {
    *g = (pl_pair_graph){ .arena = pl_arena_new() };
    if (g->arena == NULL) return pl_fail_memory(err, 1);
    if (side->model != NULL) {
        PL_TRY(pl_pair_graph_from_model(g, side->model, err));
    } else if (side->graph_json != NULL) {
        PL_TRY(pl_pair_graph_from_json(g, side->graph_json, err));
    }
    PL_TRY(find_uses(g, err));
    trace(g);
    return PL_OK;
}

void pl_pair_graph_release(pl_pair_graph *g) {
    pl_free(g->values);
    pl_free(g->nodes);
    pl_free(g->edges);
    pl_free(g->uses);
    pl_free(g->use_at);
    pl_free(g->by_id);
    pl_strmap_release(&g->by_path);
    pl_strmap_release(&g->ops);
    pl_arena_free(g->arena);
}

uint32_t pl_pair_graph_find(const pl_pair_graph *g, const char *path, const char *name) {
    uintptr_t found = 0;
    if (*path == '\0') {
        found = (uintptr_t)pl_strmap_get(&g->by_path, name);
    } else {
        char *key = pl_arena_printf(g->arena, "%s\n%s", path, name);
        if (key != NULL) found = (uintptr_t)pl_strmap_get(&g->by_path, key);
    }
    return found == 0 ? PL_PAIR_NONE : (uint32_t)(found - 1);
}

/* A side of a pairing, from a recording or from a model alone. */
#include <stdio.h>
#include <string.h>

#include "pair/pair_int.h"

static pl_status read_record(void *ctx, size_t item, pl_tensor **out, pl_err *err) {
    const pl_recording *rec = *(const pl_recording *const *)ctx;
    const size_t *records = (const size_t *)((const char *)ctx + sizeof rec);
    return pl_recording_read(rec, &rec->records[records[item]], out, err);
}

static void fill_item(pl_pair_item *item, const pl_record *r) {
    *item = (pl_pair_item){ .name = r->key,
                            .value = r->value,
                            .graph = r->graph,
                            .call = r->call,
                            .stands_for = r->stands_for,
                            .n_stands_for = r->n_stands_for,
                            .op = r->op,
                            .module = r->module,
                            .source = "",
                            .unmapped = *r->unmapped != '\0',
                            .has_shape = r->has_shape,
                            .dtype = r->has_shape ? r->dtype : PL_UNDEFINED,
                            .rank = r->has_shape ? r->rank : 0,
                            .has_hash = r->has_hash,
                            .hash = r->hash,
                            .has_stats = r->has_stats,
                            .stats = r->stats,
                            .has_data = r->has_data,
                            .flags = r->flags };
    memcpy(item->dims, r->dims, sizeof item->dims);
}

/* A recording without a graph may come with the model it was made from. */
pl_status pl_pair_side_of_recording(const pl_recording *recording, const pl_model *model,
                                    pl_arena *arena, pl_pair_side *out, pl_err *err) {
    const size_t n = recording->n_records;
    pl_pair_item *items = pl_arena_array(arena, n + 1, sizeof *items);
    char *ctx = pl_arena_alloc(arena, sizeof recording + (n + 1) * sizeof(size_t));
    if (items == NULL || ctx == NULL) return pl_fail_memory(err, n * sizeof *items);
    size_t *records = (size_t *)(void *)(ctx + sizeof recording);
    *out = (pl_pair_side){ .items = items,
                           .model = model,
                           .graph_json = model == NULL ? recording->graph : NULL,
                           .read = read_record,
                           .ctx = ctx };
    memcpy(ctx, &recording, sizeof recording);
    for (size_t i = 0; i < n; i++) {
        const pl_record *r = &recording->records[i];
        if (r->kind != PL_TYPE_TENSOR && r->kind != PL_TYPE_NONE) continue;
        records[out->n_items] = i;
        fill_item(&items[out->n_items++], r);
    }
    return PL_OK;
}

/* ---- from a model ---- */

typedef struct lister {
    pl_pair_item *items;
    size_t n;
    pl_strmap names;
    pl_arena *arena;
} lister;

static pl_status add_item(lister *l, const pl_value *v, const char *path, const pl_node *node,
                          unsigned flags, pl_err *err) {
    pl_pair_item *item = &l->items[l->n];
    const char *name = v->name;
    for (int k = 1; pl_strmap_has(&l->names, name); k++) {
        name = pl_arena_printf(l->arena, "%s#%d", v->name, k);
        if (name == NULL) return pl_fail_memory(err, 1);
    }
    *item = (pl_pair_item){ .name = name,
                            .value = v->name,
                            .graph = path,
                            .op = node == NULL ? "" : node->op,
                            .module = "",
                            .source = "",
                            .flags = flags,
                            .in_graph = v };
    const pl_type *type = v->type;
    if (pl_type_is_concrete(type) && type->rank <= PL_RANK_MAX) {
        item->has_shape = true;
        item->dtype = type->dtype;
        item->rank = type->rank;
        for (int i = 0; i < type->rank; i++)
            item->dims[i] = type->dims[i].value;
    }
    if (node != NULL) {
        pl_origin origin;
        PL_TRY(pl_node_origin(node, l->arena, &origin, err));
        item->module = origin.module;
        if (*origin.file != '\0')
            item->source = pl_arena_printf(l->arena, "%s:%d", origin.file, origin.line);
        if (item->source == NULL) return pl_fail_memory(err, 1);
    }
    if (pl_strmap_put(&l->names, name, item) != 0) return pl_fail_memory(err, 1);
    l->n++;
    return PL_OK;
}

static pl_status list_graph(lister *l, const pl_graph *graph, const char *path, pl_err *err);

static pl_status list_bodies(lister *l, const pl_node *node, const char *path, pl_err *err) {
    const char *value = node->op;
    for (uint32_t i = node->n_out; i-- > 0;)
        if (node->out[i] != NULL) value = node->out[i]->name;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const pl_attr *a = &node->attrs[i];
        if (a->type != PL_ATTR_GRAPH) continue;
        const char *inner =
            pl_arena_printf(l->arena, "%s%s%s/%s", path, *path == '\0' ? "" : "/", value, a->name);
        if (inner == NULL) return pl_fail_memory(err, 1);
        PL_TRY(list_graph(l, a->graph, inner, err));
    }
    return PL_OK;
}

static pl_status list_graph(lister *l, const pl_graph *graph, const char *path, pl_err *err) {
    for (size_t i = 0; i < graph->n_inputs && graph->parent == NULL; i++) {
        const pl_value *v = graph->inputs[i];
        const unsigned out = v->is_output ? PL_RECORD_OUTPUT : 0;
        PL_TRY(add_item(l, v, path, NULL, PL_RECORD_INPUT | out, err));
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        PL_TRY(list_bodies(l, node, path, err));
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_value *v = node->out[k];
            if (v == NULL) continue;
            const bool is_out = v->is_output && graph->parent == NULL;
            PL_TRY(add_item(l, v, path, node, is_out ? PL_RECORD_OUTPUT : 0, err));
        }
    }
    return PL_OK;
}

pl_status pl_pair_side_of_model(const pl_model *model, pl_arena *arena, pl_pair_side *out,
                                pl_err *err) {
    lister l = { .names = PL_STRMAP_INIT, .arena = arena };
    l.items = pl_arena_array(arena, (size_t)model->n_values + 1, sizeof *l.items);
    if (l.items == NULL) return pl_fail_memory(err, model->n_values);
    const pl_status st = list_graph(&l, model->graph, "", err);
    pl_strmap_release(&l.names);
    *out = (pl_pair_side){ .items = l.items, .n_items = l.n, .model = model };
    return st;
}

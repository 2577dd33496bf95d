#include "passes/unsigned_weights.h"

#include <string.h>

#include "ops/infer.h"
#include "ops/op.h"
#include "passes/quant_pairs.h"

static const pl_tensor *int8_constant(const pl_value *given) {
    const pl_value *v = pl_value_behind(given);
    const bool constant = v != NULL && v->producer == NULL && !v->is_input && v->init != NULL;
    return constant && v->init->dtype == PL_I8 ? v->init : NULL;
}

static bool is_optional(const pl_value *v) {
    return v == NULL || int8_constant(v) != NULL;
}

/* A new constant with the codes of t plus 128; t NULL: a zero point of 128. */
static pl_status shifted(pl_graph *graph, const pl_tensor *t, const char *base, pl_value **out,
                         pl_err *err) {
    pl_tensor *dense = NULL, *to = NULL;
    pl_status st = PL_OK;
    if (t == NULL) {
        PL_TRY(pl_tensor_new(PL_U8, 0, NULL, &to, err));
        *(uint8_t *)to->data = 128;
    } else {
        PL_TRY(pl_tensor_contiguous(t, &dense, err));
        PL_TRY_GOTO(done, st, pl_tensor_new(PL_U8, t->rank, t->dims, &to, err));
        for (int64_t i = 0; i < t->n_elements; i++)
            ((uint8_t *)to->data)[i] = (uint8_t)(((const int8_t *)dense->data)[i] + 128);
    }
    PL_TRY_GOTO(done, st, pl_graph_add_fresh_value(graph, base, out, err));
    st = pl_value_set_init(*out, to, err);
done:
    pl_tensor_unref(dense);
    pl_tensor_unref(to);
    return st;
}

/* Index of the zero-point input; -1 = the operator has none. */
static int zero_slot(const pl_node *node, int slot) {
    const char *name = node->def->in[slot].name;
    const size_t n = strlen(name);
    if (pl_node_is_dequantize(node)) return 2;
    for (int i = 0; node->def->in[i].name != NULL; i++) {
        const char *port = node->def->in[i].name;
        if (strncmp(port, name, n) == 0 && strcmp(port + n, "_zero_point") == 0) return i;
    }
    return -1;
}

static pl_status set_input(pl_node *node, int slot, pl_value *value, pl_err *err) {
    if ((uint32_t)slot >= node->n_in) {
        pl_value **in =
            pl_arena_array(node->graph->model->arena, (size_t)slot + 1, sizeof(pl_value *));
        if (in == NULL) return pl_fail_memory(err, (size_t)slot);
        memset(in, 0, ((size_t)slot + 1) * sizeof(pl_value *));
        memcpy(in, node->in, node->n_in * sizeof(pl_value *));
        node->in = in;
        node->n_in = (uint32_t)slot + 1;
    }
    node->in[slot] = value;
    return PL_OK;
}

/* With one scale per channel there must be one zero point per channel. */
static pl_status zeros_for(const pl_node *node, const pl_tensor *zero, pl_tensor **out,
                           pl_err *err) {
    const pl_value *of = pl_node_is_dequantize(node) ? pl_value_behind(node->in[1]) : NULL;
    const pl_tensor *scale = of != NULL && of->producer == NULL ? of->init : NULL;
    *out = NULL;
    if (zero != NULL || scale == NULL) return PL_OK;
    return pl_tensor_new_zero(PL_I8, scale->rank, scale->dims, out, err);
}

static pl_status change(pl_node *node, int slot, size_t *n_changed, pl_err *err) {
    const pl_tensor *codes = (uint32_t)slot < node->n_in ? int8_constant(node->in[slot]) : NULL;
    const int at = codes == NULL ? -1 : zero_slot(node, slot);
    pl_value *zero = at >= 0 && (uint32_t)at < node->n_in ? node->in[at] : NULL;
    pl_value *to = NULL, *to_zero = NULL;
    pl_tensor *made = NULL;
    if (at < 0 || !is_optional(zero)) return PL_OK;
    PL_TRY(zeros_for(node, int8_constant(zero), &made, err));
    pl_status st = shifted(node->graph, codes, node->in[slot]->name, &to, err);
    if (st == PL_OK)
        st = shifted(node->graph, made != NULL ? made : int8_constant(zero),
                     zero != NULL ? zero->name : "zero_point", &to_zero, err);
    if (st == PL_OK) st = set_input(node, slot, to, err);
    if (st == PL_OK) st = set_input(node, at, to_zero, err);
    pl_tensor_unref(made);
    *n_changed += st == PL_OK;
    return st;
}

/* Is it the weight of a product? Others stay unchanged. */
static bool feeds_product(const pl_graph *graph, const pl_value *v) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (node->def == NULL || node->def->weights == PL_WEIGHTS_NONE) continue;
        if (node->n_in > 1 && node->in[1] == v) return true;
    }
    return false;
}

pl_status pl_model_unsigned_weights(pl_model *model, size_t *n_changed, pl_err *err) {
    pl_graph *graph = model->graph;
    *n_changed = 0;
    PL_TRY(pl_ops_resolve(model, err));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        if (node->def == NULL) continue;
        if (node->def->plain != NULL && node->def->plain->slots[1] >= 0)
            PL_TRY(change(node, node->def->plain->slots[1], n_changed, err));
        if (pl_node_is_dequantize(node) && feeds_product(graph, node->out[0]))
            PL_TRY(change(node, 0, n_changed, err));
    }
    PL_TRY(pl_ops_resolve(model, err));
    return pl_model_infer(model, NULL, err);
}

#include "passes/keep_float.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/pass_int.h"
#include "passes/quant_pairs.h"

enum { DEPTH_MAX = 64 };

static pl_dtype dtype_of(const pl_value *value) {
    const pl_type *type = value->type;
    return type != NULL && type->kind == PL_TYPE_TENSOR ? type->dtype : PL_UNDEFINED;
}

static bool is_codes(const pl_value *value) {
    const pl_dtype d = dtype_of(value);
    return d != PL_UNDEFINED && pl_dtype_is_integer(d) && pl_dtype_bits(d) <= 16;
}

bool pl_node_is_quantised(const pl_node *node) {
    return node != NULL && node->def != NULL &&
           (node->def->plain != NULL ||
            (node->def->flags & (PL_OP_QUANTIZE | PL_OP_DEQUANTIZE | PL_OP_FINDS_SCALE)) != 0);
}

/* ---- codes ---- */

static bool ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The last input with this name: operators on codes have the output's scale after the others. */
static pl_value *last_port(const pl_node *node, const char *end) {
    pl_value *found = NULL;
    for (uint32_t i = 0; i < node->n_in && node->def->in[i].name != NULL; i++)
        if (ends_with(node->def->in[i].name, end)) found = node->in[i];
    return found;
}

bool pl_codes_parameters(const pl_value *codes, pl_value **scale, pl_value **zero) {
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        const pl_node *node = codes->producer;
        *scale = *zero = NULL;
        if (node == NULL || node->def == NULL) return false;
        if ((node->def->flags & PL_OP_FINDS_SCALE) != 0) {
            *scale = node->n_out > 1 ? node->out[1] : NULL;
            *zero = node->n_out > 2 ? node->out[2] : NULL;
        } else if ((node->def->flags & PL_OP_QUANTIZE) != 0) {
            *scale = node->n_in > 1 ? node->in[1] : NULL;
            *zero = node->n_in > 2 ? node->in[2] : NULL;
        } else if (node->def->plain != NULL) {
            *scale = node->def->plain->floats ? NULL : last_port(node, "_scale");
            *zero = last_port(node, "zero_point");
        } else if (node->n_in > 0 && node->in[0] != NULL && is_codes(node->in[0])) {
            codes = node->in[0]; /* only moves elements (pool, reshape): same parameters */
            continue;
        }
        return *scale != NULL;
    }
    return false;
}

/* Quantises x with the parameters of `codes`, or dequantises it. */
static pl_status convert(pl_graph *graph, bool back, pl_value *x, const pl_value *codes,
                         pl_value **out, pl_err *err) {
    pl_value *in[3] = { x, NULL, NULL };
    if (!pl_codes_parameters(codes, &in[1], &in[2]))
        return pl_fail(err, PL_E_UNSUPPORTED, "the scale of '%s' is not known", codes->name);
    const size_t n = in[2] == NULL ? 2 : 3;
    if (back) return pl_pass_op(graph, "DequantizeLinear", in, n, codes->name, NULL, out, err);
    return pl_pass_op(graph, "QuantizeLinear", in, n, codes->name, NULL, out, err);
}

/* ---- the models ---- */

/* An operator must mean the same in both models' opsets. */
static pl_status check_versions(pl_model *model, const pl_model *floats, pl_err *err) {
    for (size_t i = 0; i < floats->n_opsets; i++) {
        const pl_opset *o = &floats->opsets[i];
        if (pl_model_opset(model, o->domain) == 0)
            PL_TRY(pl_model_set_opset(model, o->domain, o->version, err));
    }
    return PL_OK;
}

static pl_status check_node(const pl_model *model, const pl_node *node, pl_err *err) {
    const int version = pl_model_opset(model, node->domain);
    if (version == node->opset || pl_op_find(node->domain, node->op, version) == node->def)
        return PL_OK;
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "%s means something else in opset %d of the quantised model than in opset %d of "
                   "the float model",
                   node->op, version, node->opset);
}

/* Maps values that are not kept to their counterparts, dequantised if those are codes. */
static pl_status stand_in(pl_model *model, const pl_keep_float *job, pl_value **map, pl_err *err) {
    const pl_graph *from = job->floats->graph;
    for (size_t i = 0; i < from->n_values; i++) {
        const uint32_t id = from->values[i]->id;
        if (job->counterpart[id] == NULL || job->keep[id]) continue;
        pl_value *own = pl_graph_find(model->graph, job->counterpart[id]);
        if (own == NULL || (own->producer == NULL && !own->is_input)) continue;
        if (!is_codes(own) || is_codes(from->values[i])) {
            map[id] = own;
            continue;
        }
        pl_err ignored = PL_ERR_INIT; /* if it fails, the float model's nodes are used */
        const pl_status st = convert(model->graph, true, own, own, &map[id], &ignored);
        if (st == PL_E_MEMORY) return pl_fail_memory(err, 0);
    }
    return PL_OK;
}

/* From now on the copy produces the model's value; the old producer gets an unused output. */
static pl_status take_over(pl_model *model, pl_value *own, pl_value *copy, pl_err *err) {
    pl_value *old = NULL;
    pl_node *producer = own->producer;
    const uint32_t slot = own->producer_slot;
    if (producer == NULL) return pl_fail(err, PL_E_INVALID, "'%s' is not computed", own->name);
    PL_TRY(pl_graph_add_fresh_value(model->graph, own->name, &old, err));
    pl_node_set_output(producer, slot, old);
    pl_node *maker = copy->producer;
    const uint32_t at = copy->producer_slot;
    PL_TRY(pl_graph_replace_uses(model->graph, copy, own, err));
    pl_node_set_output(maker, at, own);
    copy->producer = NULL;
    return PL_OK;
}

/* The codes that a float value was dequantised from, if an operator computed them: others may read
 * them, too. */
static pl_value *codes_behind(const pl_value *own) {
    const pl_node *node = own->producer;
    pl_value *codes = pl_node_is_dequantize(node) && node->n_in > 0 ? node->in[0] : NULL;
    if (codes == NULL || codes->producer == NULL || pl_node_is_quantize(codes->producer))
        return NULL;
    return codes;
}

static pl_status replace_one(pl_model *model, const char *name, pl_value *copy, pl_err *err) {
    pl_value *own = pl_graph_find(model->graph, name), *codes = NULL;
    if (own == NULL) return pl_fail(err, PL_E_INVALID, "no value '%s' in the model", name);
    if (!is_codes(own)) {
        pl_value *behind = codes_behind(own);
        PL_TRY(take_over(model, own, copy, err));
        if (behind == NULL) return PL_OK;
        PL_TRY(convert(model->graph, false, own, behind, &codes, err));
        return take_over(model, behind, codes, err);
    }
    PL_TRY(convert(model->graph, false, copy, own, &codes, err));
    return take_over(model, own, codes, err);
}

pl_status pl_model_keep_float(pl_model *model, const pl_keep_float *job, pl_err *err) {
    const pl_model *floats = job->floats;
    pl_value **map = pl_calloc((size_t)floats->n_values + 1, sizeof(pl_value *));
    const size_t n_before = model->graph->n_nodes;
    size_t n_removed = 0;
    pl_status st = PL_OK;
    if (map == NULL) return pl_fail_memory(err, floats->n_values);
    PL_TRY_GOTO(done, st, pl_ops_resolve(model, err));
    PL_TRY_GOTO(done, st, pl_model_infer(model, NULL, err));
    PL_TRY_GOTO(done, st, check_versions(model, floats, err));
    PL_TRY_GOTO(done, st, stand_in(model, job, map, err));
    PL_TRY_GOTO(done, st, pl_graph_graft(floats, model, job->keep, map, err));
    for (size_t i = n_before; i < model->graph->n_nodes; i++)
        if (model->graph->nodes[i]->def != NULL)
            PL_TRY_GOTO(done, st, check_node(model, model->graph->nodes[i], err));
    for (size_t i = 0; i < floats->graph->n_values; i++) {
        const uint32_t id = floats->graph->values[i]->id;
        if (!job->keep[id]) continue;
        PL_TRY_GOTO(done, st, replace_one(model, job->counterpart[id], map[id], err));
    }
    PL_TRY_GOTO(done, st, pl_graph_remove_dead(model->graph, &n_removed, err));
    PL_TRY_GOTO(done, st, pl_graph_sort(model->graph, err));
    PL_TRY_GOTO(done, st, pl_ops_resolve(model, err));
    st = pl_model_infer(model, NULL, err);
done:
    pl_free(map);
    return st;
}

/* A model in half precision against its float source: the source is replayed in half precision,
 * with its weights rounded, so that blame has the bounds of what the model under test can do. A
 * fault is beyond them; rounding is not. The reference itself runs as it is. */
#include "base/alloc.h"
#include "flows/analyze/analyze_int.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "tensor/tensor.h"

/* The type of most elements of the float weights. */
static pl_dtype type_of_weights(const pl_model *model) {
    static const pl_dtype types[] = { PL_F32, PL_F16, PL_BF16 };
    int64_t n[3] = { 0 };
    for (size_t i = 0; i < model->graph->n_values; i++) {
        const pl_tensor *t = model->graph->values[i]->init;
        for (int k = 0; t != NULL && k < 3; k++)
            if (t->dtype == types[k]) n[k] += t->n_elements;
    }
    int best = 0;
    for (int k = 1; k < 3; k++)
        if (n[k] > n[best]) best = k;
    return n[best] == 0 ? PL_UNDEFINED : types[best];
}

static bool has_bodies(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (pl_node_bodies(model->graph->nodes[i]) != PL_BODIES_NONE) return true;
    return false;
}

static pl_status lower_value(pl_model *model, pl_value *value, pl_dtype low, pl_err *err) {
    if (value->type != NULL && value->type->kind == PL_TYPE_TENSOR &&
        value->type->dtype == PL_F32) {
        pl_type *type = pl_arena_alloc(model->arena, sizeof(*type));
        if (type == NULL) return pl_fail_memory(err, sizeof(*type));
        *type = *value->type;
        type->dtype = low;
        value->type = type;
    }
    if (value->init == NULL || value->init->dtype != PL_F32) return PL_OK;
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_cast(value->init, low, &t, err));
    const pl_status st = pl_value_set_init(value, t, err);
    pl_tensor_unref(t);
    return st;
}

/* In place, value by value: what blame finds is kept by number, so no value may come or go (as with
 * the pass of passes/retype.h). A model that says a type of its own (a Cast, a Constant) then fails
 * to infer, and is not lowered. */
static pl_status lower_model(pl_model *model, pl_dtype low, pl_err *err) {
    if (has_bodies(model)) return pl_fail(err, PL_E_UNSUPPORTED, "the model has bodies");
    for (size_t i = 0; i < model->graph->n_values; i++)
        PL_TRY(lower_value(model, model->graph->values[i], low, err));
    PL_TRY(pl_ops_resolve(model, err));
    return pl_model_infer(model, NULL, err);
}

static pl_status lower_inputs(pl_analysis *x, pl_err *err) {
    const pl_graph *g = x->lowered->graph;
    x->lowered_in = pl_calloc(g->n_inputs + 1, sizeof(pl_datum *));
    if (x->lowered_in == NULL) return pl_fail_memory(err, g->n_inputs);
    for (size_t i = 0; i < g->n_inputs; i++)
        if (x->replayed_in[i] != NULL)
            PL_TRY(pl_input_as(g->inputs[i], x->replayed_in[i], &x->lowered_in[i], err));
    return PL_OK;
}

pl_status pl_analysis_lower_reference(pl_analysis *x, pl_err *err) {
    const pl_dtype low = type_of_weights(x->model);
    if (x->reference_model == NULL || x->recording != NULL || x->replayed == x->model ||
        (low != PL_F16 && low != PL_BF16) || type_of_weights(x->replayed) != PL_F32) {
        return PL_OK;
    }
    pl_err ignored = PL_ERR_INIT;
    PL_TRY(pl_model_copy(x->replayed, &x->lowered, err));
    if (lower_model(x->lowered, low, &ignored) != PL_OK) { /* judged by the reference's precision */
        pl_model_free(x->lowered);
        x->lowered = NULL;
        return PL_OK;
    }
    return lower_inputs(x, err);
}

void pl_analysis_release_lowered(pl_analysis *x) {
    for (size_t i = 0; x->lowered_in != NULL && i < x->lowered->graph->n_inputs; i++)
        pl_datum_unref(x->lowered_in[i]);
    pl_free(x->lowered_in);
    pl_model_free(x->lowered);
}

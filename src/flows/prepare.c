/* Preparing a model: copy, shapes, transformations, gradients, inputs. */
#include "flows/prepare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "flows/inputs.h"
#include "flows/model_transform.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "ops/infer.h"
#include "passes/passes.h"

const char *pl_output_kind_name(pl_output_kind kind) {
    static const char *const names[] = { "output", "buffer", "input gradient", "parameter gradient",
                                         "buffer gradient" };
    return names[kind];
}

pl_status pl_make_ready(pl_model *model, pl_ready level, bool *edited, pl_err *err) {
    const size_t n_nodes = model->graph->n_nodes;
    PL_TRY(pl_pass_apply("lower-gradient", model, err));
    if (edited != NULL && model->graph->n_nodes != n_nodes) *edited = true;
    if (level == PL_READY_KNOWN)
        PL_TRY(pl_ops_resolve_known(model, err));
    else if (level >= PL_READY_RESOLVED)
        PL_TRY(pl_ops_resolve(model, err));
    return level >= PL_READY_TYPED ? pl_model_infer(model, NULL, err) : PL_OK;
}

pl_status pl_ready_inputs(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                          pl_err *err) {
    const pl_graph *graph = model->graph;
    PL_TRY(pl_inputs_make(model, source, in, err));
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (in[i] != NULL) PL_TRY(pl_interp_check_input(graph->inputs[i], in[i], false, err));
    return PL_OK;
}

static bool is_float(const pl_value *value) {
    return value->type != NULL && value->type->kind == PL_TYPE_TENSOR &&
           ((1u << value->type->dtype) & PL_T_FLOAT) != 0;
}

/* ---- shapes ---- */

/* Unknown dims of the model are taken from the data. */
static pl_status bind_shapes(pl_model *model, pl_datum *const *in, pl_err *err) {
    for (size_t i = 0; i < model->graph->n_inputs; i++) {
        pl_value *value = model->graph->inputs[i];
        const pl_type *type = value->type;
        if (in[i] == NULL || in[i]->kind != PL_TYPE_TENSOR || type == NULL) continue;
        const pl_tensor *t = in[i]->tensor;
        if (type->kind != PL_TYPE_TENSOR || (type->has_rank && type->rank != t->rank)) continue;
        pl_dim dims[PL_RANK_MAX];
        for (int k = 0; k < t->rank; k++) {
            const bool known = type->has_rank && pl_dim_known(type->dims[k]);
            dims[k] = known ? type->dims[k] : pl_dim_of(t->dims[k]);
        }
        value->type = pl_type_tensor(model->arena, type->dtype, t->rank, dims);
        if (value->type == NULL) return pl_fail_memory(err, sizeof(pl_type));
    }
    return PL_OK;
}

/* ---- buffers ---- */

/* Are inputs 3 and 4 a mean and a variance? */
static bool takes_statistics(const pl_op_def *def) {
    for (int i = 0; def != NULL && def->in[i].name != NULL; i++)
        if (i == 3) return strcmp(def->in[i].name, "input_mean") == 0;
    return false;
}

static bool is_statistics(const pl_op_def *def, uint32_t output) {
    const char *name = def->out[output].name;
    static const char *const names[] = { "running_mean", "running_var", "mean", "var" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Names outputs of a node up to output n. */
static pl_status name_outputs(pl_node *node, uint32_t n, pl_err *err) {
    pl_arena *arena = node->graph->model->arena;
    pl_value **out = pl_arena_array(arena, n, sizeof(*out));
    if (out == NULL) return pl_fail_memory(err, n);
    memcpy(out, node->out, node->n_out * sizeof(*out));
    for (uint32_t i = node->n_out; i < n; i++) {
        const char *base = pl_arena_printf(arena, "%s/%s", out[0]->name, node->def->out[i].name);
        if (base == NULL) return pl_fail_memory(err, 1);
        PL_TRY(pl_graph_add_fresh_value(node->graph, base, &out[i], err));
    }
    const uint32_t first = node->n_out;
    node->out = out;
    node->n_out = n;
    for (uint32_t i = first; i < n; i++)
        pl_node_set_output(node, i, out[i]);
    return PL_OK;
}

/* Outputs that only training has: statistics of BatchNormalization, the mask that the gradient of
 * Dropout needs. */
static pl_status name_training_outputs(pl_node *node, pl_err *err) {
    if (node->def == NULL || node->n_out != 1 || node->out[0] == NULL) return PL_OK;
    if (node->def->out[1].name == NULL) return PL_OK;
    const bool trains = pl_node_attr(node, "training_mode") != NULL &&
                        pl_attr_int(node, "training_mode") != 0 && is_statistics(node->def, 1);
    if (trains) return name_outputs(node, 3, err);
    const bool masks = pl_node_is_random(node) && strcmp(node->def->out[1].name, "mask") == 0;
    return masks ? name_outputs(node, 2, err) : PL_OK;
}

static pl_status collect_buffers(pl_model *model, pl_err *err) {
    pl_graph *graph = model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        PL_TRY(name_training_outputs(node, err));
        const bool statistics = node->n_out > 1 && takes_statistics(node->def);
        for (uint32_t k = 1; statistics && k < node->n_out; k++) {
            if (node->out[k] == NULL || node->out[k]->is_output || !is_statistics(node->def, k))
                continue;
            PL_TRY(pl_graph_add_output(graph, node->out[k], err));
        }
    }
    return PL_OK;
}

/* ---- gradients ---- */

typedef struct incoming { /* incoming gradients */
    const pl_prepare_options *options;
    const pl_model *forward;
    pl_datum **out; /* of a forward run, if shapes are not known before it */
    size_t n_loss;  /* outputs of the model itself; buffers come after them */
    size_t n_counted;
} incoming;

static pl_status run_forward(incoming *g, pl_datum *const *in, pl_err *err) {
    const pl_graph *graph = g->forward->graph;
    bool known = true;
    for (size_t i = 0; i < graph->n_outputs; i++)
        known =
            known && (!is_float(graph->outputs[i]) || pl_type_is_concrete(graph->outputs[i]->type));
    if (known) return PL_OK;
    const pl_interp_options options = { .pool = g->options->pool, .seed = g->options->seed };
    pl_interp *interp = NULL;
    g->out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    if (g->out == NULL) return pl_fail_memory(err, graph->n_outputs);
    pl_model *model = NULL;
    pl_status st = pl_model_copy(g->forward, &model, err);
    if (st == PL_OK) st = pl_interp_new(model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, in, g->out, err);
    pl_interp_free(interp);
    pl_model_free(model);
    return st;
}

static pl_status make_incoming(const incoming *g, size_t output, pl_datum **out, pl_err *err) {
    const pl_value *y = g->forward->graph->outputs[output];
    const char *only = g->options->loss_output;
    const bool counts = output < g->n_loss && (only == NULL || strcmp(only, y->name) == 0);
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL;
    int rank = y->type->rank;
    if (g->out != NULL) {
        rank = g->out[output]->tensor->rank;
        memcpy(dims, g->out[output]->tensor->dims, sizeof(dims));
    } else {
        for (int i = 0; i < rank; i++)
            dims[i] = y->type->dims[i].value;
    }
    PL_TRY(pl_tensor_new(y->type->dtype, rank, dims, &t, err));
    const double numel = t->n_elements > 0 ? (double)t->n_elements : 1;
    const double each = counts ? 1 / (numel * (double)g->n_counted) : 0;
    const size_t size = pl_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double random = g->options->random_gradients
                                  ? pl_rng_normal_at(g->options->grad_seed, output, (uint64_t)i)
                                  : 1;
        const double x = each * random;
        pl_store_f64(t->dtype, &x, (char *)t->data + (size_t)i * size, 1);
    }
    return pl_datum_of_tensor_take(t, out, err);
}

/* Counts the outputs of the loss; names that are not float outputs are errors. */
static pl_status count_loss(const pl_graph *graph, const char *only, size_t n_loss, size_t *n,
                            pl_err *err) {
    *n = 0;
    for (size_t i = 0; i < n_loss; i++) {
        const pl_value *y = graph->outputs[i];
        if (only != NULL && strcmp(only, y->name) != 0) continue;
        if (only != NULL && !is_float(y))
            return pl_fail(err, PL_E_USAGE,
                           "option 'loss-output' '%s' is not a float tensor: it has no gradient",
                           only);
        *n += is_float(y);
    }
    if (only == NULL || *n > 0) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "option 'loss-output' '%s' is not an output of the model",
                   only);
}

static bool has_parameters(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->is_input ? is_float(value)
                            : value->init != NULL && ((1u << value->init->dtype) & PL_T_FLOAT) != 0)
            return true;
    }
    return false;
}

/* Before IR version 4 initializers are also listed as inputs, but are constants. */
static bool is_constant(const pl_model *model, const pl_value *input) {
    return input->init != NULL && model->ir_version < 4;
}

static pl_status fill_parameter(pl_prepared *p, const char *name, pl_datum *datum, pl_err *err) {
    const pl_graph *graph = p->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (strcmp(graph->inputs[i]->name, name) != 0) continue;
        p->in[i] = pl_datum_ref(datum);
        return PL_OK;
    }
    return pl_fail(err, PL_E_USAGE, "input '%s' is a constant of this model and takes no data",
                   name);
}

/* Inputs of the joint graph: those given, then the incoming gradients; parameters have defaults. */
static pl_status fill_joint(pl_prepared *p, incoming *g, pl_datum *const *in, size_t n_in,
                            pl_err *err) {
    const pl_graph *forward = g->forward->graph;
    p->n_in = p->model->graph->n_inputs;
    p->in = pl_calloc(p->n_in + 1, sizeof(pl_datum *));
    if (p->in == NULL) return pl_fail_memory(err, p->n_in);
    size_t at = 0;
    for (size_t i = 0; i < n_in; i++) {
        if (!is_constant(g->forward, forward->inputs[i])) {
            p->in[at++] = in[i] == NULL ? NULL : pl_datum_ref(in[i]);
        } else if (in[i] != NULL) {
            PL_TRY(fill_parameter(p, forward->inputs[i]->name, in[i], err));
        }
    }
    for (size_t i = 0; i < forward->n_outputs; i++) {
        if (!is_float(forward->outputs[i])) continue;
        PL_TRY(make_incoming(g, i, &p->in[at++], err));
    }
    return PL_OK;
}

static pl_status add_gradients(pl_prepared *p, const pl_graph *graph, pl_datum *const *in,
                               const pl_prepare_options *o, pl_err *err) {
    incoming g = { .options = o, .forward = p->model, .n_loss = graph->n_outputs };
    pl_pass_job job = { .model = p->model, .value = "joint" };
    PL_TRY(count_loss(p->model->graph, o->loss_output, g.n_loss, &g.n_counted, err));
    if (g.n_counted == 0 || !has_parameters(p->model->graph)) {
        snprintf(p->note, sizeof(p->note), "no float %s: forward only",
                 g.n_counted == 0 ? "output" : "input or parameter");
        return PL_OK;
    }
    const size_t n_outputs = p->model->graph->n_outputs;
    pl_model *forward = p->model;
    pl_status st = run_forward(&g, in, err);
    if (st == PL_OK) st = pl_pass_run("backward", &job, err);
    if (st == PL_OK) {
        p->model = job.made;
        p->has_gradients = true;
        st = fill_joint(p, &g, in, graph->n_inputs, err);
    }
    for (size_t i = 0; g.out != NULL && i < n_outputs; i++)
        pl_datum_unref(g.out[i]);
    pl_free(g.out);
    if (p->model != forward) p->forward = forward;
    return st;
}

/* ---- all of it ---- */

static pl_status fill_plain(pl_prepared *p, pl_datum *const *in, size_t n_in, pl_err *err) {
    if (p->in != NULL) return PL_OK;
    p->n_in = n_in;
    p->in = pl_calloc(n_in + 1, sizeof(pl_datum *));
    if (p->in == NULL) return pl_fail_memory(err, n_in);
    for (size_t i = 0; i < n_in; i++)
        p->in[i] = in[i] == NULL ? NULL : pl_datum_ref(in[i]);
    return PL_OK;
}

/* Does a node use it as statistics for normalising? */
static bool is_buffer(const pl_graph *graph, const pl_value *value) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (!takes_statistics(node->def)) continue;
        for (uint32_t k = 3; k < node->n_in && k < 5; k++)
            if (node->in[k] == value) return true;
    }
    return false;
}

static pl_status sort_outputs(pl_prepared *p, const pl_model *model, pl_err *err) {
    const pl_graph *graph = p->model->graph;
    p->n_out = graph->n_outputs;
    p->kinds = pl_calloc(p->n_out + 1, sizeof(*p->kinds));
    if (p->kinds == NULL) return pl_fail_memory(err, p->n_out);
    for (size_t i = 0; i < p->n_out; i++) {
        const char *name = graph->outputs[i]->name;
        const pl_value *own = pl_graph_find(model->graph, name);
        if (i < model->graph->n_outputs) continue;
        const bool gradient =
            p->has_gradients && strncmp(name, "d_", 2) == 0 && (own == NULL || !own->is_output);
        const pl_value *of = gradient ? pl_graph_find(model->graph, name + 2) : NULL;
        p->kinds[i] = !gradient ? PL_OUTPUT_BUFFER
                      : of != NULL && of->is_input && !is_constant(model, of)
                          ? PL_OUTPUT_INPUT_GRADIENT
                      : of != NULL && is_buffer(model->graph, of) ? PL_OUTPUT_BUFFER_GRADIENT
                                                                  : PL_OUTPUT_PARAMETER_GRADIENT;
    }
    return PL_OK;
}

pl_status pl_prepare(const pl_model *model, pl_datum *const *in, const pl_prepare_options *o,
                     pl_prepared *out, pl_err *err) {
    const size_t n_in = model->graph->n_inputs;
    *out = (pl_prepared){ .changes = PL_CHANGES_INIT };
    PL_TRY(pl_model_copy(model, &out->model, err));
    PL_TRY(pl_make_ready(out->model, PL_READY_RESOLVED, NULL, err));
    if (o->backward) PL_TRY(bind_shapes(out->model, in, err));
    PL_TRY(pl_transform(out->model, &o->transform, &out->changes, err));
    if (!o->transform.eval && o->backward) PL_TRY(collect_buffers(out->model, err));
    PL_TRY(pl_make_ready(out->model, PL_READY_TYPED, NULL, err));
    if (o->backward) PL_TRY(add_gradients(out, model->graph, in, o, err));
    PL_TRY(fill_plain(out, in, n_in, err));
    return sort_outputs(out, model, err);
}

void pl_prepared_release(pl_prepared *p) {
    for (size_t i = 0; p->in != NULL && i < p->n_in; i++)
        pl_datum_unref(p->in[i]);
    pl_free(p->in);
    pl_free(p->kinds);
    pl_model_free(p->model);
    pl_model_free(p->forward);
    pl_changes_release(&p->changes);
    *p = (pl_prepared){ .changes = PL_CHANGES_INIT };
}

bool pl_context_is_plain(const plumb_context *c) {
    return c->eval == 0 && c->amp == NULL && c->backward == 0;
}

pl_status pl_context_prepare(const plumb_context *c, const pl_model *model, pl_datum *const *in,
                             uint64_t seed, pl_pool *pool, pl_prepared *out, pl_err *err) {
    const pl_prepare_options options = { .transform = { .eval = c->eval, .amp = c->amp },
                                         .backward = c->backward != 0,
                                         .loss_output = c->loss_output,
                                         .random_gradients = c->random_gradients != 0,
                                         .grad_seed = c->grad_seed,
                                         .seed = seed,
                                         .pool = pool };
    PL_TRY(pl_prepare(model, in, &options, out, err));
    if (c->backward && !out->has_gradients) {
        return pl_fail(err, PL_E_UNSUPPORTED, "no gradients: %s", out->note);
    }
    return PL_OK;
}

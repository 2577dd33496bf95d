#include "flows/analyze/mixed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/inputs.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/op.h"
#include "passes/keep_float.h"
#include "passes/passes.h"
#include "passes/quant_pairs.h"
#include "passes/unsigned_weights.h"

/* ---- the float model ---- */

static bool is_constant(const pl_value *given) {
    const pl_value *v = pl_value_behind(given);
    return v != NULL && v->init != NULL && v->producer == NULL && !v->is_input;
}

/* Are only constants still dequantised? */
static bool is_float_now(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++) {
        const pl_node *node = model->graph->nodes[i];
        if (!pl_node_is_quantised(node)) continue;
        if (!pl_node_is_dequantize(node) || !is_constant(node->in[0])) return false;
    }
    return true;
}

static bool is_quantised(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (pl_node_is_quantised(model->graph->nodes[i])) return true;
    return false;
}

static pl_status make_floats(pl_mixed *m, const char **why, pl_err *err) {
    const size_t n = m->model->graph->n_nodes;
    bool *all = pl_calloc(n + 1, sizeof(bool));
    pl_status st = PL_OK;
    if (all == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        all[i] = true;
    m->made = true;
    PL_TRY_GOTO(done, st, pl_model_copy(m->model, &m->floats, err));
    pl_pass_job job = { .model = m->floats, .nodes = all };
    PL_TRY_GOTO(done, st, pl_pass_run("bypass-pairs", &job, err));
    if (!is_float_now(m->floats))
        *why = "the model computes on codes: which layer loses how much takes its float model "
               "as the reference";
done:
    pl_free(all);
    return st;
}

/* Names in the model, by value of the float one. */
static pl_status find_counterparts(pl_mixed *m, pl_err *err) {
    const pl_graph *from = m->floats->graph, *own = m->model->graph;
    m->counterpart = pl_calloc((size_t)m->floats->n_values + 1, sizeof(char *));
    m->through = pl_calloc((size_t)m->floats->n_values + 1, sizeof(bool));
    if (m->counterpart == NULL || m->through == NULL) return pl_fail_memory(err, from->n_values);
    for (size_t i = 0; i < from->n_values; i++) {
        const pl_value *v = from->values[i];
        if (v->producer == NULL || pl_node_is_quantised(v->producer)) continue;
        const pl_value *to = m->made ? pl_graph_find(own, v->name) : m->of[0].pairs.a[v->id];
        if (to != NULL && to->producer != NULL) m->counterpart[v->id] = to->name;
    }
    for (size_t i = 0; i < from->n_inputs; i++) {
        const size_t k =
            pl_ports_match(from->inputs, from->n_inputs, i, own->inputs, own->n_inputs);
        if (k != SIZE_MAX) m->counterpart[from->inputs[i]->id] = own->inputs[k]->name;
    }
    return PL_OK;
}

/* ---- layers ---- */

typedef struct walk {
    const bool *known; /* by value id of the model: it has a counterpart */
    bool *seen;        /* by node index */
    bool quantised;
} walk;

static void walk_back(walk *w, const pl_node *node, int depth) {
    if (node == NULL || w->seen[node->index] || depth > 200) return;
    w->seen[node->index] = true;
    w->quantised = w->quantised || pl_node_is_quantised(node);
    for (uint32_t i = 0; i < node->n_in && !w->quantised; i++) {
        const pl_value *v = node->in[i];
        if (v != NULL && !w->known[v->id]) walk_back(w, v->producer, depth + 1);
    }
}

static const pl_tensor *constant_of(const pl_value *v) {
    return is_constant(v) ? pl_value_behind(v)->init : NULL;
}

static bool same_constant(const pl_value *x, const pl_value *y) {
    const pl_tensor *a = constant_of(x), *b = constant_of(y);
    return x == y ||
           (a != NULL && b != NULL && a->dtype == b->dtype && pl_tensor_same_shape(a, b) &&
            memcmp(a->data, b->data, pl_tensor_bytes(a)) == 0);
}

/* A pool or reshape between two roundings to the same codes: the second changes nothing, so leaving
 * out one of them changes nothing either. */
static bool passes_through(const pl_model *model, const pl_value *own) {
    const pl_node *maker = own->producer;
    const pl_node *back = maker->n_in > 0 && maker->in[0] != NULL ? maker->in[0]->producer : NULL;
    bool any = false;
    if (own->is_output || back == NULL || !pl_node_is_dequantize(back) || back->n_in < 2)
        return false;
    for (uint32_t i = 1; i < maker->n_in; i++)
        if (maker->in[i] != NULL && !is_constant(maker->in[i])) return false;
    if (maker->def->weights != PL_WEIGHTS_NONE) return false;
    for (size_t i = 0; i < model->graph->n_nodes; i++) {
        const pl_node *node = model->graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != own) continue;
            if (!pl_node_is_quantize(node) || !same_constant(node->in[1], back->in[1]))
                return false;
            if (node->n_in != back->n_in ||
                (node->n_in > 2 && !same_constant(node->in[2], back->in[2])))
                return false;
            any = true;
        }
    }
    return any;
}

static pl_status find_layers(pl_mixed *m, pl_err *err) {
    const pl_graph *from = m->floats->graph;
    const size_t n_nodes = m->model->graph->n_nodes;
    bool *known = m->known = pl_calloc((size_t)m->model->n_values + 1, sizeof(bool));
    bool *seen = pl_calloc(n_nodes + 1, sizeof(bool));
    m->layers = pl_calloc(from->n_values + 1, sizeof(pl_layer));
    if (known == NULL || seen == NULL || m->layers == NULL) {
        pl_free(seen);
        return pl_fail_memory(err, from->n_values);
    }
    for (size_t i = 0; i < from->n_values; i++) {
        const char *name = m->counterpart[from->values[i]->id];
        if (name != NULL) known[pl_graph_find(m->model->graph, name)->id] = true;
    }
    for (size_t i = 0; i < from->n_nodes; i++) {
        const pl_node *node = from->nodes[i];
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_value *v = node->out[k];
            if (v == NULL || m->counterpart[v->id] == NULL) continue;
            const pl_value *own = pl_graph_find(m->model->graph, m->counterpart[v->id]);
            walk w = { .known = known, .seen = seen };
            memset(seen, 0, n_nodes * sizeof(bool));
            walk_back(&w, own->producer, 0);
            m->through[v->id] = w.quantised && passes_through(m->model, own);
            if (w.quantised && !m->through[v->id]) m->layers[m->n_layers++] = (pl_layer){ v, own };
        }
    }
    pl_free(seen);
    return PL_OK;
}

/* ---- the backend ---- */

/* Each candidate is compiled and run once, so both must be cheap. Layers are measured on eager,
 * which compiles nothing: on a mobilenet it is ten times faster than ONNX Runtime. */
static pl_status choose_backend(pl_mixed *m, pl_err *err) {
    const pl_analysis *a = &m->of[0];
    const pl_backend_options options =
        pl_backend_options_for("eager", a->options->timeout, a->options->memory_limit);
    PL_TRY(pl_backend_open("eager", &options, &m->quick, err));
    m->backend = a->a.backend;
    if (m->backend == NULL || strcmp(pl_backend_name(m->backend), "jit") == 0)
        m->backend = m->quick;
    return PL_OK;
}

pl_status pl_mixed_find(pl_mixed *m, pl_analysis *of, size_t n_samples, const char **why,
                        pl_err *err) {
    *m = (pl_mixed){ .of = of, .n_samples = n_samples, .model = of[0].model };
    *why = NULL;
    if (!is_quantised(m->model) || of[0].recording != NULL) return PL_OK;
    m->metric = pl_metric_find(of[0].session->metric);
    if (of[0].reference_model != NULL) {
        m->floats = of[0].replayed;
    } else {
        PL_TRY(make_floats(m, why, err));
        if (*why != NULL) return PL_OK;
    }
    PL_TRY(find_counterparts(m, err));
    return find_layers(m, err);
}

pl_status pl_mixed_open(pl_mixed *m, pl_analysis *of, size_t n_samples, const char **why,
                        pl_err *err) {
    PL_TRY(pl_mixed_find(m, of, n_samples, why, err));
    if (m->n_layers == 0) return PL_OK;
    PL_TRY(choose_backend(m, err));
    return pl_mixed_make_target(m, err);
}

void pl_mixed_close(pl_mixed *m) {
    for (size_t s = 0; m->target != NULL && s < m->n_samples; s++) {
        for (size_t i = 0; m->target[s] != NULL && i < m->model->graph->n_outputs; i++)
            pl_datum_unref(m->target[s][i]);
        pl_free(m->target[s]);
    }
    pl_free(m->target);
    pl_free(m->layers);
    pl_free(m->counterpart);
    pl_free(m->through);
    pl_free(m->known);
    if (m->made) pl_model_free(m->floats);
    pl_backend_close(m->quick);
    *m = (pl_mixed){ .of = NULL };
}

/* ---- candidates ---- */

/* Values that only pass through to a kept layer are kept, too. */
static void add_through(const pl_mixed *m, bool *keep, const pl_value *v, int depth) {
    const pl_node *node = v->producer;
    for (uint32_t i = 0; node != NULL && i < node->n_in && depth < 64; i++) {
        const pl_value *in = node->in[i];
        if (in == NULL || in->producer == NULL || keep[in->id]) continue;
        if (m->through[in->id]) keep[in->id] = true;
        if (m->through[in->id] || m->counterpart[in->id] == NULL)
            add_through(m, keep, in, depth + 1);
    }
}

pl_status pl_mixed_model(const pl_mixed *m, const bool *keep, pl_model **out, pl_err *err) {
    bool *values = pl_calloc((size_t)m->floats->n_values + 1, sizeof(bool));
    size_t n_changed = 0;
    pl_status st = PL_OK;
    if (values == NULL) return pl_fail_memory(err, m->floats->n_values);
    for (size_t i = 0; i < m->n_layers; i++) {
        if (!keep[i]) continue;
        values[m->layers[i].value->id] = true;
        add_through(m, values, m->layers[i].value, 0);
    }
    const pl_keep_float job = { .floats = m->floats,
                                .counterpart = m->counterpart,
                                .keep = values };
    st = pl_model_copy(m->model, out, err);
    if (st == PL_OK) st = pl_model_keep_float(*out, &job, err);
    if (st == PL_OK && m->unsigned_weights) st = pl_model_unsigned_weights(*out, &n_changed, err);
    if (st != PL_OK) {
        pl_model_free(*out);
        *out = NULL;
    }
    pl_free(values);
    return st;
}

static bool is_answer(pl_status st) {
    return st == PL_E_BACKEND || st == PL_E_TIMEOUT || st == PL_E_UNSUPPORTED || st == PL_E_INVALID;
}

static pl_status fail_or_answer(pl_status st, const pl_err *trouble, pl_mixed_score *out,
                                pl_err *err) {
    out->ran = st == PL_OK;
    if (st == PL_OK) return PL_OK;
    if (!is_answer(st)) {
        *err = *trouble;
        return st;
    }
    snprintf(out->why, sizeof(out->why), "%.190s", trouble->message);
    return PL_OK;
}

pl_status pl_mixed_try_model(pl_mixed *m, pl_model *model, pl_mixed_score *out, pl_err *err) {
    const pl_analysis *a = &m->of[0];
    const size_t n = m->model->graph->n_outputs;
    const pl_compile_options compile = { .seed = a->inputs->seed,
                                         .threads = a->options->threads,
                                         .any_shape = true };
    pl_err trouble = PL_ERR_INIT;
    pl_program *program = NULL;
    pl_mixed_score_begin(out);
    m->n_runs++;
    pl_status ran = pl_program_new(m->backend, model, &compile, &program, &trouble);
    pl_status st = PL_OK;
    for (size_t i = 0; i < m->n_samples && ran == PL_OK && st == PL_OK; i++) {
        pl_datum **y = pl_calloc(n + 1, sizeof(pl_datum *));
        if (y == NULL) st = pl_fail_memory(err, n);
        if (st == PL_OK) ran = pl_program_run(program, m->of[i].in, y, &trouble);
        if (st == PL_OK && ran == PL_OK) st = pl_mixed_measure(m, i, y, out, err);
        for (size_t k = 0; y != NULL && k < n; k++)
            pl_datum_unref(y[k]);
        pl_free(y);
    }
    pl_program_free(program);
    PL_TRY(st);
    pl_mixed_score_end(m, out);
    return fail_or_answer(ran, &trouble, out, err);
}

pl_status pl_mixed_try(pl_mixed *m, const bool *keep, pl_mixed_score *out, pl_err *err) {
    pl_model *model = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_mixed_score_begin(out);
    const pl_status made = pl_mixed_model(m, keep, &model, &trouble);
    if (made != PL_OK) return fail_or_answer(made, &trouble, out, err);
    const pl_status st = pl_mixed_try_model(m, model, out, err);
    pl_model_free(model);
    return st;
}

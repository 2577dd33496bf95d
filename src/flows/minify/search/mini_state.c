/* States: a model with data for its inputs, and small changes to it. */

#include "flows/minify/search/mini_state.h"

#include "base/alloc.h"
#include "base/size.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_values.h"
#include "flows/minify/search/mini_work.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "ops/infer.h"

pl_status pl_mini_state_new_take(pl_model *model, pl_datum **in, pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = pl_calloc(1, sizeof(*s));
    if (s == NULL) {
        for (size_t i = 0; i < model->graph->n_inputs; i++)
            pl_datum_unref(in[i]);
        pl_free(in);
        pl_model_free(model);
        return pl_fail_memory(err, sizeof(*s));
    }
    s->model = model;
    s->in = in;
    *out = s;
    return PL_OK;
}

void pl_mini_state_free(pl_mini_state *s) {
    if (s == NULL) return;
    for (size_t i = 0; s->in != NULL && i < s->model->graph->n_inputs; i++)
        pl_datum_unref(s->in[i]);
    pl_free(s->in);
    pl_mini_values_unref(s->values);
    pl_model_free(s->model);
    pl_free(s);
}

pl_status pl_mini_state_copy(const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    pl_model *model = NULL;
    const size_t n_in = from->model->graph->n_inputs;
    pl_datum **in = pl_calloc(n_in + 1, sizeof(pl_datum *));
    if (in == NULL) return pl_fail_memory(err, n_in);
    const pl_status st = pl_model_copy(from->model, &model, err);
    if (st != PL_OK) {
        pl_free(in);
        return st;
    }
    for (size_t i = 0; i < n_in; i++)
        in[i] = from->in[i] == NULL ? NULL : pl_datum_ref(from->in[i]);
    PL_TRY(pl_mini_state_new_take(model, in, out, err));
    (*out)->values = pl_mini_values_ref(from->values);
    return PL_OK;
}

/* ---- measuring ---- */

/* Elements that are neither 0 nor 1 nor equal to the one before. */
static int64_t count_complex(const pl_tensor *t) {
    int64_t n = 0;
    if (!pl_tensor_is_contiguous(t)) return t->n_elements;
    if (t->dtype == PL_STRING) return t->n_elements;
    double before = 0;
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double x = pl_tensor_get_f64(t, i);
        n += (x < 0 || x > 0) && (x < 1 || x > 1) && !(i > 0 && x <= before && x >= before);
        if (x != x) n++;
        before = x;
    }
    return n;
}

static void measure_tensor(const pl_tensor *t, pl_measure *out) {
    out->n_elements += t->n_elements;
    out->n_odd_types += pl_dtype_is_float(t->dtype) && t->dtype != PL_F32;
}

int64_t pl_mini_count_complex(const pl_mini_state *s) {
    const pl_graph *graph = s->model->graph;
    int64_t n = 0;
    for (size_t i = 0; i < graph->n_values + graph->n_inputs; i++) {
        const bool is_weight = i < graph->n_values;
        const pl_datum *d = is_weight ? NULL : s->in[i - graph->n_values];
        const pl_tensor *t = is_weight ? graph->values[i]->init : d == NULL ? NULL : d->tensor;
        /* Large tensors are not simple anyway; counting is worth it only for small ones. */
        if (t != NULL) n += t->n_elements > 65536 ? t->n_elements : count_complex(t);
    }
    return n;
}

static pl_status measure_body(void *ctx, pl_graph *body, pl_err *err);

static void measure_graph(const pl_graph *graph, pl_measure *out) {
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->init != NULL) measure_tensor(graph->values[i]->init, out);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        out->n_nodes++;
        out->n_attrs += node->n_attrs;
        for (uint32_t k = 0; k < node->n_in; k++)
            out->n_attrs += node->in[k] != NULL;
        pl_node_each_body(node, measure_body, out, NULL);
    }
}

static pl_status measure_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)err;
    measure_graph(body, ctx);
    return PL_OK;
}

void pl_mini_state_measure(const pl_mini_state *s, pl_measure *out) {
    const pl_graph *graph = s->model->graph;
    *out = (pl_measure){ .n_inputs = graph->n_inputs, .n_outputs = graph->n_outputs };
    measure_graph(graph, out);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_datum *d = s->in[i];
        if (d != NULL && d->kind == PL_TYPE_TENSOR) measure_tensor(d->tensor, out);
        const pl_type *type = graph->inputs[i]->type;
        if (d != NULL || type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) continue;
        int64_t n = 1;
        for (int k = 0; k < type->rank; k++)
            n *= type->dims[k].value > 0 && n < INT32_MAX ? type->dims[k].value : 1;
        out->n_elements += n;
    }
}

/* ---- inputs ---- */

void pl_mini_state_drop_input(pl_mini_state *s, size_t i) {
    pl_graph *graph = s->model->graph;
    graph->inputs[i]->is_input = false;
    pl_datum_unref(s->in[i]);
    for (size_t k = i + 1; k < graph->n_inputs; k++) {
        graph->inputs[k - 1] = graph->inputs[k];
        s->in[k - 1] = s->in[k];
    }
    graph->n_inputs--;
    s->in[graph->n_inputs] = NULL;
}

pl_status pl_mini_state_freeze(pl_mini_state *s, size_t i, pl_err *err) {
    pl_value *value = s->model->graph->inputs[i];
    if (s->in[i] == NULL || s->in[i]->kind != PL_TYPE_TENSOR) return PL_OK;
    PL_TRY(pl_value_set_init(value, s->in[i]->tensor, err));
    pl_mini_state_drop_input(s, i);
    return PL_OK;
}

typedef struct uses {
    bool *used; /* by value id */
} uses;

static pl_status note_uses(void *ctx, pl_graph *graph, pl_err *err) {
    const uses *u = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != NULL) u->used[node->in[k]->id] = true;
        PL_TRY(pl_node_each_body(node, note_uses, ctx, err));
    }
    for (size_t i = 0; i < graph->n_outputs; i++)
        u->used[graph->outputs[i]->id] = true;
    return PL_OK;
}

pl_status pl_mini_state_drop_unused(pl_mini_state *s, size_t *n_dropped, pl_err *err) {
    pl_graph *graph = s->model->graph;
    size_t n = 0;
    *n_dropped = 0;
    uses u = { pl_calloc((size_t)s->model->n_values + 1, sizeof(bool)) };
    if (u.used == NULL) return pl_fail_memory(err, s->model->n_values);
    const pl_status st = note_uses(&u, graph, err);
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++) {
        pl_value *value = graph->inputs[i];
        if (u.used[value->id]) {
            s->in[n] = s->in[i];
            graph->inputs[n++] = value;
            continue;
        }
        /* The value remains without use or producer: as a weight it would be written. */
        value->is_input = false;
        value->init = NULL;
        pl_datum_unref(s->in[i]);
        (*n_dropped)++;
    }
    if (st == PL_OK) {
        for (size_t i = n; i < graph->n_inputs; i++)
            s->in[i] = NULL;
        graph->n_inputs = n;
    }
    pl_free(u.used);
    return st;
}

/* ---- types again ---- */

static pl_status type_of_datum(pl_model *model, const pl_datum *d, const pl_type **out,
                               pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return PL_OK;
    for (int i = 0; i < d->tensor->rank; i++)
        dims[i] = pl_dim_of(d->tensor->dims[i]);
    *out = pl_type_tensor(model->arena, d->tensor->dtype, d->tensor->rank, dims);
    return *out == NULL ? pl_fail_memory(err, sizeof(pl_type)) : PL_OK;
}

static pl_status forget_types(void *ctx, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->producer != NULL) graph->values[i]->type = NULL;
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], forget_types, ctx, err));
    return PL_OK;
}

/* A Loop with an empty body may run forever without calling the hook. */
static pl_status find_empty_loop(void *ctx, pl_graph *graph, pl_err *err) {
    if (pl_node_bodies(graph->owner) == PL_BODIES_LOOP && graph->n_nodes == 0) {
        *(bool *)ctx = true;
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], find_empty_loop, ctx, err));
    return PL_OK;
}

pl_status pl_mini_state_settle(pl_mini *m, pl_mini_state *s, bool *ok, pl_err *err) {
    pl_graph *graph = s->model->graph;
    pl_err trouble = PL_ERR_INIT;
    (void)m;
    for (size_t i = 0; i < graph->n_inputs; i++)
        PL_TRY(type_of_datum(s->model, s->in[i], &graph->inputs[i]->type, err));
    PL_TRY(forget_types(NULL, graph, err));
    const pl_infer_options strict = { .strict = true };
    pl_status st = pl_ops_resolve(s->model, &trouble);
    if (st == PL_OK) st = pl_model_infer(s->model, &strict, &trouble);
    if (st == PL_E_MEMORY) {
        *err = trouble;
        return st;
    }
    bool endless = false;
    PL_TRY(find_empty_loop(&endless, graph, err));
    *ok = st == PL_OK && !endless;
    pl_mini_values_unref(s->values);
    s->values = NULL;
    return PL_OK;
}

/* ---- the reference's values ---- */

typedef struct keeping {
    pl_mini_values *values;
    const pl_graph *graph;
} keeping;

enum { EVALUATE_SECONDS = 600 }; /* a Loop may have become endless */

static pl_status keep_value(void *ctx, const pl_node *node, const pl_value *value,
                            const pl_datum *d, pl_err *err) {
    const keeping *k = ctx;
    if (node->graph != k->graph || pl_mini_values_has(k->values, value->name)) return PL_OK;
    return pl_mini_values_put(k->values, value->name, d, err);
}

pl_status pl_mini_state_evaluate(pl_mini *m, pl_mini_state *s, bool *ok, pl_err *err) {
    pl_graph *graph = s->model->graph;
    keeping k = { s->values, graph };
    pl_interp *interp = NULL;
    pl_err trouble = PL_ERR_INIT;
    if (s->values == NULL) PL_TRY(pl_mini_values_new(&s->values, err));
    k.values = s->values;
    const pl_interp_options options = { .pool = m->pool,
                                        .seed = m->options->inputs->seed,
                                        .any_shape = true,
                                        .hook = keep_value,
                                        .hook_ctx = &k,
                                        .deadline_ns = pl_mini_deadline(m, EVALUATE_SECONDS) };
    pl_datum **out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    if (out == NULL) return pl_fail_memory(err, graph->n_outputs);
    pl_status st = pl_interp_new(s->model, &options, &interp, &trouble);
    if (st == PL_OK) st = pl_interp_run(interp, s->in, out, &trouble);
    for (size_t i = 0; i < graph->n_outputs; i++)
        pl_datum_unref(out[i]);
    pl_free(out);
    pl_interp_free(interp);
    *ok = st == PL_OK;
    if (st == PL_OK) return PL_OK;
    if (err != NULL) *err = trouble;
    return st == PL_E_MEMORY || st == PL_E_IO ? st : PL_OK;
}

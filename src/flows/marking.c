/* Marking values as outputs, in groups. */
#include "flows/marking.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"

typedef struct marks {
    pl_side_run *run;
    pl_datum *const *in;
    const pl_value **values; /* that could be outputs, in order */
    size_t n_values, max_runs;
    pl_marked_fn fn;
    void *ctx;
    pl_marking *out;
} marks;

static bool can_mark(const pl_value *value) {
    /* An output needs a type; sequences and optionals are left alone. */
    return !value->is_output && value->type != NULL && value->type->kind == PL_TYPE_TENSOR &&
           value->type->dtype != PL_UNDEFINED;
}

static pl_status list_values(marks *m, pl_err *err) {
    const pl_graph *graph = m->run->model->graph;
    m->values = pl_calloc(graph->n_values + 1, sizeof(pl_value *));
    if (m->values == NULL) return pl_fail_memory(err, graph->n_values);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != NULL && node->n_in > 0 && can_mark(node->out[k])) {
                m->values[m->n_values++] = node->out[k];
            }
        }
    }
    return PL_OK;
}

/* The model with values lo .. hi - 1 as further outputs; the tensors are shared. */
static pl_status marked_model(const marks *m, size_t lo, size_t hi, pl_model **out, pl_err *err) {
    pl_status st = pl_model_copy(m->run->model, out, err);
    for (size_t i = lo; i < hi && st == PL_OK; i++) {
        pl_value *value = pl_graph_find((*out)->graph, m->values[i]->name);
        st = value == NULL
                 ? pl_fail(err, PL_E_INTERNAL, "marking: '%s' got lost", m->values[i]->name)
                 : pl_graph_add_output((*out)->graph, value, err);
    }
    return st;
}

typedef enum answer { SAME_OUTPUTS, OTHER_OUTPUTS, REFUSED } answer;

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

/* Compiles and runs with a group marked; shows the values when the outputs are as before. */
static pl_status run_group(marks *m, size_t lo, size_t hi, answer *how, pl_err *err) {
    const size_t n_plain = m->run->model->graph->n_outputs, n = n_plain + (hi - lo);
    const pl_compile_options compile = { .seed = m->run->options.seed,
                                         .threads = m->run->options.threads,
                                         .any_shape = true };
    pl_model *model = NULL;
    pl_program *program = NULL;
    pl_datum **out = pl_calloc(n + 1, sizeof(pl_datum *));
    pl_err trouble = PL_ERR_INIT;
    pl_status st = PL_OK;
    *how = REFUSED;
    if (out == NULL) return pl_fail_memory(err, n);
    PL_TRY_GOTO(done, st, marked_model(m, lo, hi, &model, err));
    m->out->n_runs++;
    if (pl_program_new(m->run->backend, model, &compile, &program, &trouble) != PL_OK ||
        pl_program_run(program, m->in, out, &trouble) != PL_OK) {
        if (trouble.status == PL_E_MEMORY) st = pl_fail_memory(err, 0);
        goto done;
    }
    *how = SAME_OUTPUTS;
    for (size_t i = 0; i < n_plain; i++) {
        if (out[i] == NULL || !pl_datum_identical(out[i], m->run->plain[i])) *how = OTHER_OUTPUTS;
    }
    for (size_t i = lo; i < hi && st == PL_OK && *how == SAME_OUTPUTS && m->fn != NULL; i++) {
        const pl_datum *d = out[n_plain + (i - lo)];
        if (d != NULL) st = m->fn(m->ctx, m->values[i], d, err);
    }
done:
    drop(out, n);
    pl_program_free(program);
    pl_model_free(model);
    return st;
}

static pl_status mark(marks *m, size_t lo, size_t hi, pl_err *err) {
    answer how = REFUSED;
    if (lo == hi) return PL_OK;
    if (m->out->n_runs >= m->max_runs) {
        m->out->n_disturbed += hi - lo;
        return PL_OK;
    }
    PL_TRY(run_group(m, lo, hi, &how, err));
    if (how == SAME_OUTPUTS) {
        m->out->n_shown += hi - lo;
        return PL_OK;
    }
    if (hi - lo == 1) {
        m->out->n_disturbed++;
        return PL_OK;
    }
    const size_t middle = lo + (hi - lo) / 2;
    PL_TRY(mark(m, lo, middle, err));
    return mark(m, middle, hi, err);
}

pl_status pl_mark_values(pl_side_run *run, pl_datum *const *in, size_t max_runs, pl_marked_fn fn,
                         void *ctx, pl_marking *out, pl_err *err) {
    *out = (pl_marking){ 0, 0, 0 };
    marks m = { .run = run, .in = in, .max_runs = max_runs, .fn = fn, .ctx = ctx, .out = out };
    pl_status st = list_values(&m, err);
    if (st == PL_OK) st = mark(&m, 0, m.n_values, err);
    pl_free(m.values);
    return st;
}

pl_status pl_mark_disturbs(pl_side_run *run, pl_datum *const *in, bool *tried, bool *disturbs,
                           pl_err *err) {
    pl_marking counts = { 0, 0, 0 };
    marks m = { .run = run, .in = in, .max_runs = 1, .out = &counts };
    answer how = REFUSED;
    pl_status st = list_values(&m, err);
    if (st == PL_OK && m.n_values > 0) st = run_group(&m, 0, m.n_values, &how, err);
    pl_free(m.values);
    *tried = how != REFUSED;
    *disturbs = how == OTHER_OUTPUTS;
    return st;
}

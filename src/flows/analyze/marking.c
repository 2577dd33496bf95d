/* Marking values as outputs, in groups.
 *
 * All recorded values come from one run: values of different runs, which fuse different nodes, do
 * not fit together, and a replay between them would blame the boundary. So first find groups that
 * do not change the outputs, then join them as far as the outputs still do not change. */
#include "flows/analyze/marking.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"

typedef struct marks {
    pl_side_run *run;
    pl_datum *const *in;
    const pl_value **values; /* that could be outputs, in order */
    size_t n_values, max_runs;
    bool *chosen;    /* by value: to be marked in the next run */
    size_t *lo, *hi; /* groups that do not change the outputs */
    size_t n_groups;
    pl_marked_fn fn;
    void *ctx;
    pl_marking *out;
} marks;

static bool can_mark(const pl_value *value) {
    /* An output needs a type; sequences and optionals are skipped. */
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

/* The model with the chosen values as further outputs; the tensors are shared. */
static pl_status marked_model(const marks *m, pl_model **out, pl_err *err) {
    pl_status st = pl_model_copy(m->run->model, out, err);
    for (size_t i = 0; i < m->n_values && st == PL_OK; i++) {
        if (!m->chosen[i]) continue;
        pl_value *value = pl_graph_find((*out)->graph, m->values[i]->name);
        st = value == NULL
                 ? pl_fail(err, PL_E_INTERNAL, "marking: '%s' is missing", m->values[i]->name)
                 : pl_graph_add_output((*out)->graph, value, err);
    }
    return st;
}

static void choose(marks *m, size_t lo, size_t hi, bool yes) {
    for (size_t i = lo; i < hi; i++)
        m->chosen[i] = yes;
}

typedef enum answer { SAME_OUTPUTS, OTHER_OUTPUTS, REFUSED } answer;

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static pl_status show_chosen(marks *m, pl_datum *const *marked, pl_err *err) {
    size_t k = 0;
    for (size_t i = 0; i < m->n_values; i++) {
        if (!m->chosen[i]) continue;
        const pl_datum *d = marked[k++];
        if (d != NULL) PL_TRY(m->fn(m->ctx, m->values[i], d, err));
        m->out->n_shown++;
    }
    return PL_OK;
}

/* Compiles and runs with the chosen values marked. If asked to, passes them on when the outputs are
 * unchanged. */
static pl_status run_chosen(marks *m, bool show, answer *how, pl_err *err) {
    size_t n = m->run->model->graph->n_outputs;
    const size_t n_plain = n;
    const pl_compile_options compile = { .seed = m->run->options.seed,
                                         .threads = m->run->options.threads,
                                         .any_shape = true };
    pl_model *model = NULL;
    pl_program *program = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = PL_OK;
    for (size_t i = 0; i < m->n_values; i++)
        n += m->chosen[i];
    pl_datum **out = pl_calloc(n + 1, sizeof(pl_datum *));
    *how = REFUSED;
    if (out == NULL) return pl_fail_memory(err, n);
    PL_TRY_GOTO(done, st, marked_model(m, &model, err));
    m->out->n_runs++;
    if (pl_program_new(m->run->backend, model, &compile, &program, &trouble) != PL_OK ||
        pl_program_run(program, m->in, out, &trouble) != PL_OK) {
        if (trouble.status == PL_E_MEMORY) st = pl_fail_memory(err, 0);
        m->out->n_refused++;
        goto done;
    }
    *how = SAME_OUTPUTS;
    for (size_t i = 0; i < n_plain; i++) {
        if (out[i] == NULL || !pl_datum_identical(out[i], m->run->plain[i])) *how = OTHER_OUTPUTS;
    }
    m->out->n_other += *how == OTHER_OUTPUTS;
    if (show && *how == SAME_OUTPUTS) st = show_chosen(m, out + n_plain, err);
done:
    drop(out, n);
    pl_program_free(program);
    pl_model_free(model);
    return st;
}

/* Finds groups that do not change the outputs. */
static pl_status find_groups(marks *m, size_t lo, size_t hi, pl_err *err) {
    answer how = REFUSED;
    if (lo == hi || m->out->n_runs >= m->max_runs) return PL_OK;
    choose(m, 0, m->n_values, false);
    choose(m, lo, hi, true);
    PL_TRY(run_chosen(m, hi - lo == m->n_values, &how, err)); /* all at once: done */
    if (how == SAME_OUTPUTS) {
        m->lo[m->n_groups] = lo;
        m->hi[m->n_groups++] = hi;
        return PL_OK;
    }
    if (hi - lo == 1) return PL_OK;
    const size_t middle = lo + (hi - lo) / 2;
    PL_TRY(find_groups(m, lo, middle, err));
    return find_groups(m, middle, hi, err);
}

/* The largest group, plus every other one that can be added to it; then one run records them all.
 */
static pl_status join_groups(marks *m, pl_err *err) {
    size_t largest = 0;
    answer how = REFUSED;
    if (m->n_groups == 0) return PL_OK;
    for (size_t i = 0; i < m->n_groups; i++)
        if (m->hi[i] - m->lo[i] > m->hi[largest] - m->lo[largest]) largest = i;
    choose(m, 0, m->n_values, false);
    for (size_t i = 0; i < m->n_groups; i++)
        choose(m, m->lo[i], m->hi[i], true);
    PL_TRY(run_chosen(m, true, &how, err));
    if (how == SAME_OUTPUTS) return PL_OK;
    choose(m, 0, m->n_values, false);
    choose(m, m->lo[largest], m->hi[largest], true);
    for (size_t i = 0; i < m->n_groups && m->out->n_runs < 2 * m->max_runs; i++) {
        if (i == largest) continue;
        choose(m, m->lo[i], m->hi[i], true);
        PL_TRY(run_chosen(m, false, &how, err));
        if (how != SAME_OUTPUTS) choose(m, m->lo[i], m->hi[i], false);
    }
    return run_chosen(m, true, &how, err);
}

static pl_status marks_init(marks *m, pl_err *err) {
    PL_TRY(list_values(m, err));
    m->chosen = pl_calloc(m->n_values + 1, sizeof(bool));
    m->lo = pl_calloc(m->n_values + 1, sizeof(size_t));
    m->hi = pl_calloc(m->n_values + 1, sizeof(size_t));
    if (m->chosen != NULL && m->lo != NULL && m->hi != NULL) return PL_OK;
    return pl_fail_memory(err, m->n_values);
}

static void marks_release(marks *m) {
    pl_free(m->values);
    pl_free(m->chosen);
    pl_free(m->lo);
    pl_free(m->hi);
}

pl_status pl_mark_values(pl_side_run *run, pl_datum *const *in, size_t max_runs, pl_marked_fn fn,
                         void *ctx, pl_marking *out, pl_err *err) {
    *out = (pl_marking){ .n_runs = 0 };
    marks m = { .run = run, .in = in, .max_runs = max_runs, .fn = fn, .ctx = ctx, .out = out };
    pl_status st = marks_init(&m, err);
    if (st == PL_OK) st = find_groups(&m, 0, m.n_values, err);
    if (st == PL_OK && out->n_shown == 0) st = join_groups(&m, err);
    out->n_disturbed = m.n_values - out->n_shown;
    marks_release(&m);
    return st;
}

pl_status pl_mark_disturbs(pl_side_run *run, pl_datum *const *in, bool *tried, bool *disturbs,
                           pl_err *err) {
    pl_marking counts = { .n_runs = 0 };
    marks m = { .run = run, .in = in, .max_runs = 1, .out = &counts };
    answer how = REFUSED;
    pl_status st = marks_init(&m, err);
    if (st == PL_OK) choose(&m, 0, m.n_values, true);
    if (st == PL_OK && m.n_values > 0) st = run_chosen(&m, false, &how, err);
    marks_release(&m);
    *tried = how != REFUSED;
    *disturbs = how == OTHER_OUTPUTS;
    return st;
}

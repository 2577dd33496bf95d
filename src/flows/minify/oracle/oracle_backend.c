/* The oracle for a backend: compares it with plumb's own reference.
 *
 * The backend compiles and runs the candidate behind the guard; blame judges its recorded values.
 * The first run, on the original, also records the values that feed cuts: the backend's own if they
 * are finite and of the right type, since the failure was seen with those, else the reference's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/side_run.h"
#include "flows/api.h"
#include "flows/check/accuracy.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/oracle/planted.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_values.h"
#include "flows/minify/search/mini_work.h"
#include "interp/interp.h"
#include "ops/op.h"

enum { SPOOL_MEMORY = 64 << 20 };
#define FIRST_TIMEOUT 20.0

typedef struct under_test {
    pl_planted planted;
    double timeout;
    bool learning;
    double reference_seconds, first_seconds;
    pl_backend *backend; /* open: its guard handles many queries; NULL = none */
} under_test;

static void release(pl_oracle *o) {
    under_test *u = o->self;
    pl_backend_close(u->backend);
    pl_planted_release(&u->planted);
    pl_free(u);
}

pl_status pl_oracle_spec(pl_oracle *o, const pl_mini_state *state, pl_buf *out, pl_err *err) {
    const under_test *u = o->self;
    const char *spec = pl_backend_spec_or_default(o->m->options->backend);
    if (u == NULL || o->m->options->check != NULL) return PL_OK;
    return pl_planted_spec(&u->planted, spec, state->model->graph, out, err);
}

const pl_backend *pl_oracle_backend(const pl_oracle *o) {
    const under_test *u = o->self;
    return u == NULL || o->m->options->check != NULL ? NULL : u->backend;
}

/* ---- errors ---- */

static bool is_op_of(const pl_graph *graph, const char *word, size_t n) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (strlen(graph->nodes[i]->op) == n && strncmp(graph->nodes[i]->op, word, n) == 0)
            return true;
    return false;
}

/* The first operator type named in an error message, outside of quotes: "(Relu)". */
static void find_op(const pl_graph *graph, const char *text, char *out, size_t n_out) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    while (*text != '\0') {
        const char *close = *text == '\'' || *text == '"' ? strchr(text + 1, *text) : NULL;
        if (close != NULL) {
            text = close + 1;
            continue;
        }
        const size_t n = strspn(text, letters);
        if (n > 2 && is_op_of(graph, text, n)) {
            snprintf(out, n_out, "%.*s", (int)n, text);
            return;
        }
        text += n == 0 ? 1 : n;
    }
}

static pl_status classify(const pl_side_run *run, const pl_mini_state *state, bool compiling,
                          const pl_err *trouble, pl_observed *out, pl_err *err) {
    pl_signature s;
    if (trouble->status != PL_E_BACKEND && trouble->status != PL_E_TIMEOUT &&
        trouble->status != PL_E_UNSUPPORTED && trouble->status != PL_E_INVALID &&
        trouble->status != PL_E_FORMAT && trouble->status != PL_E_LIMIT) {
        *err = *trouble;
        return trouble->status;
    }
    const pl_failure *failure = pl_backend_failure(run->backend);
    pl_signature_init(&s);
    snprintf(s.text, sizeof(s.text), "%.*s", (int)sizeof(s.text) - 1, trouble->message);
    s.kind = compiling ? PL_FAIL_COMPILE : PL_FAIL_RUN;
    if (failure->happened || trouble->status == PL_E_TIMEOUT) {
        if (failure->timed_out || trouble->status == PL_E_TIMEOUT) {
            s.kind = PL_FAIL_TIMEOUT;
        } else if (failure->out_of_memory) {
            s.kind = PL_FAIL_MEMORY;
        } else if (failure->signal != 0) {
            s.kind = PL_FAIL_SIGNAL;
            s.number = failure->signal;
        }
    }
    if (s.kind == PL_FAIL_COMPILE || s.kind == PL_FAIL_RUN) {
        find_op(state->model->graph, s.text, s.op, sizeof(s.op));
    }
    return pl_observed_add(out, &s, err);
}

#define REFERENCE_SECONDS 10.0 /* for a Loop that a change made endless */

/* A failure of the backend counts only if the reference can run. */
static pl_status check_reference(pl_oracle *o, pl_mini_state *state, pl_observed *out,
                                 pl_err *err) {
    under_test *u = o->self;
    pl_interp *interp = NULL;
    pl_err trouble = PL_ERR_INIT;
    const double since = pl_api_seconds();
    const size_t n_out = state->model->graph->n_outputs;
    /* The original may run as long as the budget allows. */
    const double seconds = u->learning ? 1e9 : fmax(REFERENCE_SECONDS, 10 * u->first_seconds);
    const pl_interp_options options = { .pool = o->m->pool,
                                        .seed = o->m->options->inputs->seed,
                                        .any_shape = true,
                                        .deadline_ns = pl_mini_deadline(o->m, seconds) };
    pl_datum **data = pl_calloc(n_out + 1, sizeof(pl_datum *));
    if (data == NULL) return pl_fail_memory(err, n_out);
    pl_status st = pl_interp_new(state->model, &options, &interp, &trouble);
    if (st == PL_OK) st = pl_interp_run(interp, state->in, data, &trouble);
    for (size_t i = 0; i < n_out; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
    pl_interp_free(interp);
    u->reference_seconds = pl_api_seconds() - since;
    if (u->learning) u->first_seconds = u->reference_seconds;
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 1);
    if (st == PL_OK) return PL_OK;
    out->invalid = true;
    snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, trouble.message);
    return PL_OK;
}

/* ---- wrong values ---- */

static int64_t elements_of(const pl_side_run *run, const pl_value *value) {
    pl_datum *d = NULL;
    int64_t n = 0;
    if (run->entry[value->id] == 0 ||
        pl_spool_get(run->spool, run->entry[value->id] - 1, &d, NULL) != PL_OK) {
        return 0;
    }
    if (d->kind == PL_TYPE_TENSOR) n = d->tensor->n_elements;
    pl_datum_unref(d);
    return n;
}

static void fill_signature(const pl_side_run *run, const pl_judgement *v, const pl_value *value,
                           pl_signature *s) {
    s->kind = v->local_class == PL_LOCAL_NONFINITE ? PL_FAIL_NONFINITE
              : v->local_class == PL_LOCAL_SHAPE   ? PL_FAIL_METADATA
                                                   : PL_FAIL_DIVERGENCE;
    snprintf(s->value, sizeof(s->value), "%s", value->name);
    snprintf(s->text, sizeof(s->text), "%.*s", (int)sizeof(s->text) - 1, v->reason);
    s->n_elements = elements_of(run, value);
}

static pl_status add_groups(pl_oracle *o, const pl_side_run *run, const pl_blame *blame,
                            pl_observed *out, pl_err *err) {
    for (size_t i = 0; i < blame->n_groups; i++) {
        const pl_blame_entry *e = &blame->groups[i];
        const pl_value *value = pl_strmap_get(&run->by_name, e->value);
        pl_signature s;
        pl_signature_init(&s);
        if (value != NULL) fill_signature(run, &blame->of[value->id], value, &s);
        if (s.kind == PL_FAIL_NONE) s.kind = PL_FAIL_DIVERGENCE;
        snprintf(s.op, sizeof(s.op), "%s", e->op);
        snprintf(s.value, sizeof(s.value), "%s", e->value);
        snprintf(s.error_kind, sizeof(s.error_kind), "%s", e->kind);
        s.q = e->q;
        PL_TRY(pl_observed_add(out, &s, err));
    }
    (void)o;
    return PL_OK;
}

/* No culprit, or none known yet: judge by the outputs. */
static bool goes_by_outputs(const pl_oracle *o) {
    const under_test *u = o->self;
    return u->learning || (o->target.kind != PL_FAIL_NONE && !o->target.op[0]);
}

/* Outputs that are far off without a culprit and not at a discontinuity. */
static pl_status add_outputs(pl_mini *m, const pl_mini_state *state, const pl_side_run *run,
                             const pl_blame *blame, pl_observed *out, pl_err *err) {
    const pl_graph *graph = run->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_value *value = graph->outputs[i];
        const pl_judgement *v = &blame->of[value->id];
        if (value->producer == NULL || !v->judged) continue;
        const pl_accuracy_figures figures = {
            .inherited = v->verdict == PL_VERDICT_INHERITED || v->verdict == PL_VERDICT_AMPLIFIED,
            .error = v->propagated,
            .scale = v->scale,
            .relative = (double)NAN,
        };
        bool jumps = false;
        if (!pl_accuracy_output_fails(&m->accuracy, &figures)) continue;
        PL_TRY(pl_mini_jumps(m, state, run->plain, i, &figures, &jumps, err));
        if (jumps) continue;
        pl_signature s;
        pl_signature_init(&s);
        fill_signature(run, v, value, &s);
        PL_TRY(pl_observed_add(out, &s, err));
    }
    return PL_OK;
}

/* The first culprit in the graph leads, even if another has more effect on the outputs. */
static void put_first_in_graph(const pl_graph *graph, pl_observed *out) {
    size_t first = 0;
    uint32_t at = UINT32_MAX;
    for (size_t i = 0; i < out->n_items; i++) {
        const pl_value *v = pl_graph_find(graph, out->items[i].value);
        if (v == NULL || v->producer == NULL || v->producer->index >= at) continue;
        at = v->producer->index;
        first = i;
    }
    if (first == 0) return;
    const pl_signature s = out->items[first];
    out->items[first] = out->items[0];
    out->items[0] = s;
}

typedef struct inner_ops {
    pl_mini *m;
    size_t capacity;
} inner_ops;

static pl_status note_inner(void *ctx, pl_graph *body, pl_err *err) {
    inner_ops *x = ctx;
    pl_oracle *o = x->m->oracle;
    for (size_t i = 0; i < body->n_nodes; i++) {
        if (o->n_inner < x->capacity) {
            o->inner[o->n_inner] = pl_arena_strdup(x->m->arena, body->nodes[i]->op);
            if (o->inner[o->n_inner] == NULL) return pl_fail_memory(err, 1);
            o->n_inner++;
        }
        PL_TRY(pl_node_each_body(body->nodes[i], note_inner, ctx, err));
    }
    return PL_OK;
}

/* Blame sees an If, Loop or Scan as one operator; the fault may be in its body. */
static pl_status keep_inner(pl_mini *m, const pl_graph *graph, const char *value, pl_err *err) {
    const pl_value *v = pl_graph_find(graph, value);
    const pl_node *node = v == NULL ? NULL : v->producer;
    if (node == NULL || node->def == NULL || (node->def->flags & PL_OP_CONTROL) == 0) return PL_OK;
    inner_ops x = { m, pl_model_count_nodes(graph->model) };
    m->oracle->n_inner = 0;
    m->oracle->inner = pl_arena_array(m->arena, x.capacity + 1, sizeof(char *));
    if (m->oracle->inner == NULL) return pl_fail_memory(err, x.capacity);
    return pl_node_each_body(node, note_inner, &x, err);
}

static pl_status keep_blame(pl_mini *m, const pl_blame *blame, const pl_signature *leading,
                            pl_err *err) {
    snprintf(m->blamed, sizeof(m->blamed), "%s", leading->value);
    for (size_t i = 0; i < blame->n_groups; i++) {
        const pl_blame_entry *e = &blame->groups[i];
        if (strcmp(e->value, leading->value) != 0) continue;
        m->blamed_group = pl_arena_array(m->arena, e->n_members + 1, sizeof(char *));
        if (m->blamed_group == NULL) return pl_fail_memory(err, e->n_members);
        for (size_t k = 0; k < e->n_members; k++) {
            m->blamed_group[k] = pl_arena_strdup(m->arena, e->members[k]);
            if (m->blamed_group[k] == NULL) return pl_fail_memory(err, 1);
        }
        m->n_blamed_group = e->n_members;
    }
    return PL_OK;
}

static pl_status judge(pl_oracle *o, pl_side_run *run, pl_mini_state *state, pl_observed *out,
                       pl_err *err) {
    const under_test *u = o->self;
    const pl_run_data a = pl_side_run_data(run);
    const bool by_outputs = goes_by_outputs(o);
    const pl_blame_options options = { .pool = o->m->pool,
                                       .seed = o->m->options->inputs->seed,
                                       .skip_gold = !by_outputs };
    pl_blame blame = { 0 };
    pl_err trouble = PL_ERR_INIT;
    pl_status st = pl_blame_run(state->model, state->in, &a, NULL, &options, &blame, &trouble);
    if (st == PL_E_MEMORY || st == PL_E_IO) {
        *err = trouble;
    } else if (st != PL_OK) { /* the replay cannot run it: invalid */
        out->invalid = true;
        snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, trouble.message);
        st = PL_OK;
    } else {
        st = add_groups(o, run, &blame, out, err);
        if (st == PL_OK && out->n_items == 0 && by_outputs)
            st = add_outputs(o->m, state, run, &blame, out, err);
        if (o->m->options->strict) put_first_in_graph(state->model->graph, out);
        if (st == PL_OK && u->learning && out->n_items > 0 && out->items[0].op[0] != '\0') {
            st = keep_blame(o->m, &blame, &out->items[0], err);
            if (st == PL_OK) {
                st = keep_inner(o->m, state->model->graph, out->items[0].value, err);
            }
        }
    }
    pl_blame_release(&blame);
    return st;
}

/* By accuracy: outputs that the predicate accepts are no failure, whatever blame says; rejected
 * ones are, even without a culprit. */
static pl_status judge_accuracy(pl_oracle *o, const pl_side_run *run, pl_mini_state *state,
                                pl_observed *out, pl_err *err) {
    const pl_value *wrong = NULL;
    if (out->n_items == 0 && !goes_by_outputs(o)) return PL_OK;
    PL_TRY(pl_mini_wrong_output(o->m, state, run->plain, &wrong, err));
    if (wrong == NULL) {
        pl_observed_release(out);
        return PL_OK;
    }
    if (out->n_items > 0) return PL_OK;
    pl_signature s;
    pl_signature_init(&s);
    s.kind = PL_FAIL_DIVERGENCE;
    snprintf(s.value, sizeof(s.value), "%s", wrong->name);
    snprintf(s.text, sizeof(s.text), "fails the accuracy check");
    s.n_elements = elements_of(run, wrong);
    return pl_observed_add(out, &s, err);
}

/* Blame has no bound for complex numbers, sequences and optionals: only the predicate judges them.
 */
static bool has_unbounded_output(const pl_side_run *run) {
    for (size_t i = 0; i < run->model->graph->n_outputs; i++) {
        const pl_datum *d = run->plain[i];
        if (d == NULL) continue;
        if (d->kind != PL_TYPE_TENSOR) return true;
        if (pl_dtype_class_of(d->tensor->dtype) == PL_CLASS_COMPLEX) return true;
    }
    return false;
}

static pl_status add_unstable(const pl_side_run *run, pl_observed *out, pl_err *err) {
    pl_signature s;
    pl_signature_init(&s);
    s.kind = PL_FAIL_DETERMINISM;
    snprintf(s.value, sizeof(s.value), "%s", run->unstable->name);
    snprintf(s.op, sizeof(s.op), "%s", run->unstable->producer->op);
    snprintf(s.text, sizeof(s.text), "%s", run->difference);
    return pl_observed_add(out, &s, err);
}

/* ---- values for the cuts ---- */

static bool usable(const pl_datum *mine, const pl_datum *reference) {
    if (mine->kind != PL_TYPE_TENSOR || reference->kind != PL_TYPE_TENSOR) return false;
    const pl_tensor *a = mine->tensor, *b = reference->tensor;
    if (a->dtype != b->dtype || !pl_tensor_same_shape(a, b)) return false;
    if (!pl_dtype_is_float(a->dtype)) return true;
    for (int64_t i = 0; i < a->n_elements; i++)
        if (!isfinite(pl_tensor_get_f64(a, i)) && isfinite(pl_tensor_get_f64(b, i))) return false;
    return true;
}

static pl_status collect_values(pl_oracle *o, const pl_side_run *run, pl_mini_state *state,
                                pl_observed *out, pl_err *err) {
    const pl_graph *graph = state->model->graph;
    bool ok = false;
    pl_err trouble = PL_ERR_INIT;
    pl_mini_values_unref(state->values);
    state->values = NULL;
    PL_TRY(pl_mini_state_evaluate(o->m, state, &ok, &trouble));
    if (!ok) {
        out->invalid = true;
        snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, trouble.message);
        return PL_OK;
    }
    for (size_t i = 0; run != NULL && i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        pl_datum *mine = NULL, *reference = NULL;
        if (v->producer == NULL || run->entry[v->id] == 0) continue;
        pl_status st = pl_spool_get(run->spool, run->entry[v->id] - 1, &mine, err);
        if (st == PL_OK) st = pl_mini_values_get(state->values, v->name, &reference, err);
        if (st == PL_OK && reference != NULL && usable(mine, reference)) {
            st = pl_mini_values_put(state->values, v->name, mine, err);
        }
        pl_datum_unref(mine);
        pl_datum_unref(reference);
        PL_TRY(st);
    }
    return PL_OK;
}

/* ---- the whole ---- */

/* Starting a guard with a runtime costs more than most candidates. */
static pl_status keep_open(pl_oracle *o, const char *spec, pl_err *err) {
    under_test *u = o->self;
    const double left = pl_mini_seconds_left(o->m);
    const double timeout = left < u->timeout ? left : u->timeout;
    pl_backend_options options = pl_backend_options_for(spec, timeout, o->m->options->memory_limit);
    options.tmp_dir = o->m->work;
    options.sandbox = o->m->options->sandbox;
    /* Candidates refer to the original's weights in its file. */
    const pl_model *original = o->m->original;
    const char *const file = original != NULL && original->path[0] != '\0' ? original->path : NULL;
    options.readable = &file;
    options.n_readable = 1;
    options.progress = o->m->options->progress;
    if (u->backend != NULL && strcmp(pl_backend_spec(u->backend), spec) == 0) {
        pl_backend_set_timeout(u->backend, timeout);
        return PL_OK;
    }
    pl_backend_close(u->backend);
    u->backend = NULL;
    return pl_backend_open(spec, &options, &u->backend, err);
}

/* The parent process owns the connection to that guard. */
static void forked(pl_oracle *o) {
    under_test *u = o->self;
    pl_backend_abandon(u->backend);
    u->backend = NULL;
}

static pl_status run_backend(pl_oracle *o, pl_mini_state *state, pl_side_run *run, pl_observed *out,
                             pl_err *err) {
    under_test *u = o->self;
    pl_buf spec = PL_BUF_INIT;
    pl_err trouble = PL_ERR_INIT;
    bool compiling = true;
    pl_status st = pl_oracle_spec(o, state, &spec, err);
    if (st == PL_OK) st = keep_open(o, pl_buf_str(&spec), err);
    if (st != PL_OK) { /* a bad spec, a missing library */
        pl_buf_release(&spec);
        return st;
    }
    const pl_side_options options = { .spec = pl_buf_str(&spec),
                                      .backend = u->backend,
                                      .file = state->file,
                                      .seed = o->m->options->inputs->seed,
                                      .threads = o->m->options->threads,
                                      .spool_memory = SPOOL_MEMORY };
    const double since = pl_api_seconds();
    st = pl_side_run_init(run, state->model, &options, &trouble);
    if (st == PL_OK) {
        compiling = false;
        st = pl_side_run_plain(run, state->in, &trouble);
    }
    const bool values_matter =
        u->learning || o->target.kind == PL_FAIL_NONE || (o->target.kind <= PL_FAIL_DETERMINISM);
    if (st == PL_OK && values_matter) st = pl_side_run_record(run, state->in, &trouble);
    if (st == PL_OK && (u->learning || o->target.kind == PL_FAIL_DETERMINISM)) {
        st = pl_side_run_repeat(run, state->in, &trouble);
    }
    o->oracle_seconds += pl_api_seconds() - since;
    if (st != PL_OK) st = classify(run, state, compiling, &trouble, out, err);
    run->options.spec = ""; /* it is freed */
    pl_buf_release(&spec);
    return st;
}

static pl_status observe(pl_oracle *o, pl_mini_state *state, pl_observed *out, pl_err *err) {
    under_test *u = o->self;
    pl_side_run run = { 0 };
    const double since = pl_api_seconds();
    u->learning = o->n_runs == 1;
    if (u->learning)
        PL_TRY(pl_planted_find(&u->planted, o->m->options->backend, state->model->graph, err));
    /* Blame replays in this process, where the model must terminate. */
    const bool may_hang = (!u->learning && o->target.kind == PL_FAIL_TIMEOUT) ||
                          pl_model_has_flag(state->model, PL_OP_CONTROL);
    pl_status st = may_hang ? check_reference(o, state, out, err) : PL_OK;
    if (st != PL_OK || out->invalid) return st;
    if (o->target.kind == PL_FAIL_TIMEOUT && may_hang && o->m->options->timeout <= 0) {
        u->timeout = 1 + 5 * u->reference_seconds;
    }
    st = run_backend(o, state, &run, out, err);
    if (st != PL_OK) goto done;
    const bool broke = out->n_items > 0;
    if (broke) {
        st = may_hang ? PL_OK : check_reference(o, state, out, err);
    } else if (run.unstable != NULL) {
        st = add_unstable(&run, out, err);
    } else {
        st = judge(o, &run, state, out, err);
        const bool unbounded = out->n_items == 0 && has_unbounded_output(&run);
        if (st == PL_OK && !out->invalid && (o->m->options->accuracy || unbounded))
            st = judge_accuracy(o, &run, state, out, err);
    }
    if (st == PL_OK && u->learning && out->n_items > 0 && !out->invalid) {
        st = collect_values(o, broke ? NULL : &run, state, out, err);
        if (run.unstable != NULL && !broke) {
            snprintf(o->m->blamed, sizeof(o->m->blamed), "%s", run.unstable->name);
        }
    }
    if (u->learning && o->m->options->timeout <= 0) {
        u->timeout = fmax(5.0, 10 * (pl_api_seconds() - since));
    }
done:
    pl_side_run_release(&run);
    return st;
}

static const pl_oracle_row row = { "backend", observe, release, NULL, forked };

pl_status pl_oracle_backend_new(pl_mini *m, pl_oracle **out, pl_err *err) {
    under_test *u = pl_calloc(1, sizeof(*u));
    if (u == NULL) return pl_fail_memory(err, sizeof(*u));
    u->timeout = m->options->timeout > 0 ? m->options->timeout : FIRST_TIMEOUT;
    const pl_status st = pl_oracle_new(m, &row, u, out, err);
    if (st != PL_OK) pl_free(u);
    return st;
}

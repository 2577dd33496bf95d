/* Gradient rules of the operator table: every sample of every row that has a rule, against central
 * differences in fp64, with a random incoming gradient for each float output.
 *
 * PLUMB_GRAD_OP=Name looks at one operator. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"
#include "passes/backward.h"

enum { MAX_NODES = 64, MAX_PORTS = 64, MAX_GRADS = 256, MAX_ELEMENTS = 24 };
static const double STEP = 1e-5;
/* Third derivatives of order 1 give 1e-10, rounding of sums 1e-11 / STEP. Constants of the rules
 * are floats here, as the samples are: 3e-8. */
static const double ABSOLUTE = 2e-7, RELATIVE = 2e-6;

typedef struct joint { /* a sample and what its outputs' gradients are */
    const pl_op_def *row;
    const pl_sample *sample;
    pl_model *model;
    int opset;
    size_t n_in, n_out, n_nodes; /* of the sample itself */
    const pl_node *nodes[MAX_NODES];
    pl_datum *in[MAX_PORTS + 1];       /* doubles where floats */
    size_t d_at[MAX_PORTS];            /* input that is the gradient of output k; 0 = none */
    int grad_at[MAX_PORTS][MAX_PORTS]; /* output that is d(output k)/d(input i); -1 = zero */
    pl_err err;
} joint;

typedef struct tally {
    size_t n_rows, n_checked, n_bad;
    double worst;
} tally;

static void complain(const joint *j, tally *t, const char *what) {
    t->n_bad++;
    fprintf(stderr, "%s-%d '%s': %s\n", j->row->name, j->opset, j->sample->graph, what);
}

static bool is_float(const pl_value *value) {
    return value->type != NULL && value->type->kind == PL_TYPE_TENSOR &&
           pl_dtype_is_float(value->type->dtype);
}

static pl_status parse(joint *j) {
    const char *domain = j->row->domain == NULL ? "" : j->row->domain;
    PL_TRY(
        pl_model_parse_graph(j->sample->graph, domain[0] == 0 ? j->opset : 17, &j->model, &j->err));
    if (domain[0] != 0) {
        PL_TRY(pl_model_set_opset(j->model, domain, j->opset, &j->err));
        for (size_t i = 0; i < j->model->graph->n_nodes; i++)
            if (strcmp(j->model->graph->nodes[i]->domain, domain) == 0)
                j->model->graph->nodes[i]->opset = j->opset;
    }
    PL_TRY(pl_ops_resolve(j->model, &j->err));
    return pl_model_infer(j->model, NULL, &j->err);
}

static pl_status make_inputs(joint *j, uint64_t seed) {
    char text[256] = "";
    const char *ranges[16];
    plumb_inputs source = { .seed = seed, .ranges = ranges };
    if (j->sample->ranges != NULL) snprintf(text, sizeof(text), "%s", j->sample->ranges);
    for (char *w = strtok(text, " "); w != NULL && source.n_ranges < 16; w = strtok(NULL, " "))
        ranges[source.n_ranges++] = w;
    PL_TRY(pl_inputs_make(j->model, &source, j->in, &j->err));
    for (size_t i = 0; i < j->n_in; i++) {
        pl_datum *d = j->in[i];
        pl_tensor *wide = NULL;
        if (d == NULL || d->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(d->tensor->dtype))
            continue;
        PL_TRY(pl_tensor_cast(d->tensor, PL_F64, &wide, &j->err));
        pl_datum_unref(d);
        PL_TRY(pl_datum_of_tensor_take(wide, &j->in[i], &j->err));
    }
    return PL_OK;
}

/* In double throughout, whatever the graph declares. Differences need the nodes of the sample only.
 */
static pl_status run(joint *j, bool all, pl_datum **out) {
    const pl_replay_options options = { .no_bounds = true, .seed = 1 };
    const pl_graph *graph = j->model->graph;
    pl_replay *replay = NULL;
    pl_status st = pl_replay_new(j->model, &options, &replay, &j->err);
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++) {
        if (j->in[i] == NULL) continue;
        st = pl_replay_put(replay, graph->inputs[i], j->in[i], NULL, &j->err);
    }
    for (size_t i = 0; i < (all ? graph->n_nodes : j->n_nodes) && st == PL_OK; i++)
        st = pl_replay_node(replay, all ? graph->nodes[i] : j->nodes[i], &j->err);
    for (size_t i = 0; i < graph->n_outputs && st == PL_OK; i++) {
        const pl_datum *d = pl_replay_get(replay, graph->outputs[i]);
        out[i] = d == NULL ? NULL : pl_datum_ref(d);
    }
    pl_replay_free(replay);
    return st;
}

/* Bodies are written out by the pass: then all nodes are needed for the outputs too. */
static bool are_kept(const joint *j) {
    const pl_graph *graph = j->model->graph;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        for (size_t k = 0; k < j->n_nodes; k++)
            n += graph->nodes[i] == j->nodes[k];
    }
    return n == j->n_nodes;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

/* Adds an input for the gradient of each float output, and the gradients as outputs. */
static pl_status build(joint *j, pl_datum *const *plain) {
    pl_graph *graph = j->model->graph;
    for (size_t k = 0; k < j->n_out; k++) {
        for (size_t i = 0; i < j->n_in; i++)
            j->grad_at[k][i] = -1;
        pl_value *y = graph->outputs[k], *dy = NULL, *dx[MAX_PORTS] = { NULL };
        if (!is_float(y)) continue;
        PL_TRY(pl_graph_add_fresh_value(graph, "d_out", &dy, &j->err));
        dy->type = y->type;
        PL_TRY(pl_graph_add_input(graph, dy, &j->err));
        j->d_at[k] = graph->n_inputs - 1;
        pl_tensor *seed = NULL;
        const pl_tensor *t = plain[k]->tensor;
        PL_TRY(pl_tensor_new(PL_F64, t->rank, t->dims, &seed, &j->err));
        for (int64_t i = 0; i < seed->n_elements; i++)
            ((pl_f64 *)seed->data)[i] = 2 * pl_rng_uniform_at(77, k, (uint64_t)i) - 1;
        PL_TRY(pl_datum_of_tensor_take(seed, &j->in[j->d_at[k]], &j->err));
        PL_TRY(pl_backward(graph, y, dy, graph->inputs, j->n_in, dx, &j->err));
        for (size_t i = 0; i < j->n_in; i++) {
            if (dx[i] == NULL) continue;
            if (dx[i]->is_output || dx[i]->is_input) { /* the same value twice */
                pl_node *copy = NULL;
                pl_value *other = NULL;
                PL_TRY(pl_graph_add_node(graph, "Identity", "", 1, 1, &copy, &j->err));
                copy->in[0] = dx[i];
                PL_TRY(pl_graph_add_fresh_value(graph, "copy", &other, &j->err));
                pl_node_set_output(copy, 0, other);
                other->type = dx[i]->type;
                dx[i] = other;
            }
            PL_TRY(pl_graph_add_output(graph, dx[i], &j->err));
            j->grad_at[k][i] = (int)graph->n_outputs - 1;
        }
    }
    PL_TRY(pl_model_verify(j->model, &j->err));
    PL_TRY(pl_ops_resolve(j->model, &j->err));
    return pl_model_infer(j->model, NULL, &j->err);
}

/* sum over outputs of dy * y */
static double loss(const joint *j, pl_datum *const *out) {
    double sum = 0;
    for (size_t k = 0; k < j->n_out; k++) {
        if (j->d_at[k] == 0) continue;
        const pl_f64 *dy = j->in[j->d_at[k]]->tensor->data, *y = out[k]->tensor->data;
        for (int64_t i = 0; i < out[k]->tensor->n_elements; i++)
            if (dy[i] != 0) sum += dy[i] * y[i];
    }
    return sum;
}

static pl_status difference(joint *j, pl_f64 *x, double *slope) {
    pl_datum *out[MAX_GRADS] = { NULL };
    const double before = *x, h = STEP * fmax(1, fabs(before));
    double at[2] = { 0 };
    pl_status st = PL_OK;
    for (int s = 0; s < 2 && st == PL_OK; s++) {
        *x = before + (s == 0 ? -h : h);
        st = run(j, j->n_nodes == 0, out);
        if (st == PL_OK) at[s] = loss(j, out);
        drop(out, MAX_GRADS);
    }
    *x = before;
    *slope = (at[1] - at[0]) / (2 * h);
    return st;
}

static double gradient_at(const joint *j, pl_datum *const *out, size_t input, int64_t i) {
    double sum = 0;
    for (size_t k = 0; k < j->n_out; k++)
        if (j->d_at[k] != 0 && j->grad_at[k][input] >= 0)
            sum += pl_tensor_get_f64(out[j->grad_at[k][input]]->tensor, i);
    return sum;
}

static pl_status compare(joint *j, pl_datum *const *out, tally *t) {
    for (size_t i = 0; i < j->n_in; i++) {
        if (j->in[i] == NULL || !is_float(j->model->graph->inputs[i])) continue;
        pl_tensor *x = j->in[i]->tensor;
        for (size_t k = 0; k < j->n_out; k++) {
            if (j->d_at[k] == 0 || j->grad_at[k][i] < 0) continue;
            if (pl_tensor_same_shape(out[j->grad_at[k][i]]->tensor, x)) continue;
            complain(j, t, "a gradient has another shape than its input");
            return PL_OK;
        }
        const int64_t stride = x->n_elements / MAX_ELEMENTS + 1;
        for (int64_t e = 0; e < x->n_elements; e += stride) {
            double want = 0;
            PL_TRY(difference(j, (pl_f64 *)x->data + e, &want));
            const double got = gradient_at(j, out, i, e);
            const double off = fabs(got - want) / (ABSOLUTE + RELATIVE * fabs(want));
            t->n_checked++;
            if (off <= t->worst) continue;
            t->worst = off;
            if (off <= 1) continue;
            char what[160];
            snprintf(what, sizeof(what), "d%s[%lld] is %.12g, differences say %.12g",
                     j->model->graph->inputs[i]->name, (long long)e, got, want);
            complain(j, t, what);
            t->worst = 0;
        }
        if (t->n_bad > 40) return PL_OK;
    }
    return PL_OK;
}

static bool uses_row(const pl_model *model, const pl_op_def *row) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (model->graph->nodes[i]->def == row) return true;
    return false;
}

static bool all_have_rules(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++) {
        const pl_grad_fn fn = model->graph->nodes[i]->def->grad;
        if (fn == PL_GRAD_TODO || fn == PL_GRAD_UNDEFINED) return false;
    }
    return true;
}

static void check_sample(const pl_op_def *row, const pl_sample *sample, int opset, tally *t) {
    joint j = { .row = row, .sample = sample, .opset = opset };
    pl_datum *out[MAX_GRADS] = { NULL };
    pl_status st = parse(&j);
    if (st == PL_OK &&
        (!uses_row(j.model, row) || !all_have_rules(j.model) || pl_model_is_random(j.model)))
        goto done;
    if (st == PL_OK) {
        for (; j.n_nodes < j.model->graph->n_nodes && j.n_nodes < MAX_NODES; j.n_nodes++)
            j.nodes[j.n_nodes] = j.model->graph->nodes[j.n_nodes];
        assert_int_equal(j.n_nodes, j.model->graph->n_nodes);
        j.n_in = j.model->graph->n_inputs;
        j.n_out = j.model->graph->n_outputs;
        st = make_inputs(&j, 1);
    }
    if (st == PL_OK) st = run(&j, false, out);
    if (st == PL_OK) st = build(&j, out);
    drop(out, MAX_GRADS);
    if (st == PL_OK && !are_kept(&j)) j.n_nodes = 0;
    if (st == PL_OK) st = run(&j, true, out);
    if (st == PL_OK) st = compare(&j, out, t);
    if (st != PL_OK) complain(&j, t, j.err.message);
done:
    drop(out, MAX_GRADS);
    drop(j.in, MAX_PORTS + 1);
    pl_model_free(j.model);
}

/* At the oldest and the newest opset that the row serves; gradients are written from 9 on. */
static void check_row(const pl_op_def *row, const pl_sample *sample, tally *t) {
    const bool other = row->domain != NULL && row->domain[0] != 0;
    const int low = other || row->since > 9 ? row->since : 9;
    const int high = row->until > 0 ? row->until : other || row->since > 22 ? row->since : 22;
    if (row->until > 0 && row->until < 9 && !other) return;
    check_sample(row, sample, low, t);
    if (high > low) check_sample(row, sample, high, t);
}

static void test_gradients__agree_with_differences(void **state) {
    (void)state;
    const char *only = getenv("PLUMB_GRAD_OP");
    tally t = { 0 };
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (only != NULL && strcmp(only, row->name) != 0) continue;
        if (row->grad == PL_GRAD_TODO || row->grad == PL_GRAD_UNDEFINED) continue;
        t.n_rows++;
        for (const pl_sample *s = row->samples; s->graph != NULL; s++) {
            if ((s->flags & PL_SAMPLE_NO_GRAD) == 0) check_row(row, s, &t);
        }
    }
    fprintf(stderr, "%zu rows, %zu derivatives, worst %.3g of the tolerance\n", t.n_rows,
            t.n_checked, t.worst);
    assert_int_equal(t.n_bad, 0);
    if (only == NULL) assert_true(t.n_checked > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients__agree_with_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Error bounds of the operator table: every sample of every row, run at its own precision, stays
 * within the bound of its fp64 replay; and the bound is not so wide that a fault of one part in a
 * thousand would pass. */
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

#include "blame/local_error.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "ops/infer.h"

enum { MAX_PORTS = 64, N_SEEDS = 3 };

typedef struct tally {
    size_t n_values, n_blind, n_bad;
    double worst;
    const char *only; /* PLUMB_BOUND_OP: look at one operator */
} tally;

static pl_status make_inputs(const pl_model *model, const pl_sample *sample, uint64_t seed,
                             pl_datum **in, pl_err *err) {
    char text[256] = "";
    const char *ranges[16];
    plumb_inputs source = { .seed = seed };
    if (sample->ranges != NULL) snprintf(text, sizeof(text), "%s", sample->ranges);
    source.ranges = ranges;
    for (char *w = strtok(text, " "); w != NULL && source.n_ranges < 16; w = strtok(NULL, " "))
        ranges[source.n_ranges++] = w;
    return pl_inputs_make(model, &source, in, err);
}

/* The whole sample as one segment. */
static pl_status replay_sample(pl_model *model, pl_datum *const *in, pl_replay **out, pl_err *err) {
    const pl_replay_options options = { .seed = 1 };
    const pl_graph *graph = model->graph;
    PL_TRY(pl_replay_new(model, &options, out, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (in[i] == NULL) continue;
        PL_TRY(pl_replay_put(*out, graph->inputs[i], in[i], NULL, err));
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_replay_node(*out, graph->nodes[i], err));
    return PL_OK;
}

/* Would the value times 1.001 be found? Values that are zero or integer cannot tell. */
static bool sees_fault(const pl_tensor *a, const pl_tensor *d, const pl_tensor *bound) {
    pl_tensor *faulty = NULL;
    pl_local_error e;
    bool any = false;
    if (a->dtype != PL_F32 || pl_tensor_copy(a, &faulty, NULL) != PL_OK) return true;
    pl_f32 *x = faulty->data;
    for (int64_t i = 0; i < faulty->n_elements; i++) {
        any = any || (isfinite(x[i]) && fabsf(x[i]) > 1e-3f);
        x[i] *= 1.001f;
    }
    const pl_status st = pl_local_error_measure(NULL, faulty, d, bound, PL_F32, &e, NULL);
    pl_tensor_unref(faulty);
    return st == PL_OK && (!any || e.q > PL_Q_CULPRIT);
}

static void judge(const pl_op_def *row, const pl_sample *sample, const pl_value *value,
                  const pl_datum *a, pl_replay *replay, tally *t) {
    const pl_datum *d = pl_replay_get(replay, value);
    const pl_tensor *bound = pl_replay_bound(replay, value);
    pl_local_error e;
    if (a == NULL || d == NULL || a->kind != PL_TYPE_TENSOR) return;
    if ((row->flags & PL_OP_PICKS) != 0 && pl_dtype_is_integer(a->tensor->dtype)) return;
    assert_int_equal(
        pl_local_error_measure(NULL, a->tensor, d->tensor, bound, a->tensor->dtype, &e, NULL),
        PL_OK);
    t->n_values++;
    if (e.q > t->worst) t->worst = e.q;
    if (e.q > PL_Q_CULPRIT) {
        t->n_bad++;
        fprintf(stderr,
                "%s-%d '%s': q = %.3g at element %lld of '%s' (a %.9g, replay %.9g, bound %.3g)\n",
                row->name, row->since, sample->graph, e.q, (long long)e.worst, value->name,
                e.worst < 0 ? 0 : pl_tensor_get_f64(a->tensor, e.worst),
                e.worst < 0 ? 0 : pl_tensor_get_f64(d->tensor, e.worst),
                e.worst < 0 || bound == NULL ? 0 : pl_tensor_get_f64(bound, e.worst));
    }
    if (row->bound != PL_BOUND_TODO && !sees_fault(a->tensor, d->tensor, bound)) {
        t->n_blind++;
        fprintf(stderr, "%s-%d '%s': the bound hides a fault of 1e-3\n", row->name, row->since,
                sample->graph);
    }
}

static bool uses_row(const pl_model *model, const pl_op_def *row) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (model->graph->nodes[i]->def == row) return true;
    return false;
}

static void check_sample(const pl_op_def *row, const pl_sample *sample, uint64_t seed, tally *t) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_datum *in[MAX_PORTS] = { NULL }, *out[MAX_PORTS] = { NULL };
    pl_interp *interp = NULL;
    pl_replay *replay = NULL;
    const char *domain = row->domain == NULL ? "" : row->domain;
    pl_status st =
        pl_model_parse_graph(sample->graph, domain[0] == 0 ? row->since : 17, &model, &err);
    if (st == PL_OK && domain[0] != 0) {
        st = pl_model_set_opset(model, domain, row->since, &err);
        for (size_t i = 0; i < model->graph->n_nodes; i++)
            if (strcmp(model->graph->nodes[i]->domain, domain) == 0)
                model->graph->nodes[i]->opset = row->since;
    }
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, &err);
    if (st == PL_OK && (!uses_row(model, row) || pl_model_is_random(model))) goto done;
    if (st == PL_OK) st = make_inputs(model, sample, seed, in, &err);
    const pl_interp_options options = { .seed = 1 };
    if (st == PL_OK) st = pl_interp_new(model, &options, &interp, &err);
    if (st == PL_OK) st = pl_interp_run(interp, in, out, &err);
    if (st == PL_OK) st = replay_sample(model, in, &replay, &err);
    for (size_t i = 0; st == PL_OK && i < model->graph->n_outputs; i++)
        judge(row, sample, model->graph->outputs[i], out[i], replay, t);
    if (st != PL_OK) {
        t->n_bad++;
        fprintf(stderr, "%s-%d '%s': %s\n", row->name, row->since, sample->graph, err.message);
    }
done:
    pl_replay_free(replay);
    pl_interp_free(interp);
    for (size_t i = 0; i < MAX_PORTS; i++) {
        pl_datum_unref(in[i]);
        pl_datum_unref(out[i]);
    }
    pl_model_free(model);
}

static void test_bounds__hold_on_every_sample(void **state) {
    (void)state;
    tally t = { .only = getenv("PLUMB_BOUND_OP") };
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (t.only != NULL && strcmp(t.only, row->name) != 0) continue;
        for (const pl_sample *s = row->samples; s->graph != NULL; s++)
            for (uint64_t seed = 1; seed <= N_SEEDS; seed++)
                check_sample(row, s, seed, &t);
    }
    fprintf(stderr, "%zu values, largest q %.3g\n", t.n_values, t.worst);
    assert_int_equal(t.n_bad, 0);
    assert_int_equal(t.n_blind, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds__hold_on_every_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

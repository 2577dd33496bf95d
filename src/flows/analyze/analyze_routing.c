/* Choices of experts: which of them are the same on both sides, and how much of the error the other
 * ones make. For that the model runs once more with the choices of the other side put in place. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "flows/analyze/analyze_int.h"
#include "interp/raise.h"
#include "interp/replay.h"
#include "metric/metrics.h"
#include "ops/op.h"
#include "session/routing.h"

typedef struct pl_seen_choice {
    pl_choice choice;      /* of the replayed model */
    const pl_value *value; /* of it */
    pl_datum *a, *b;
    pl_route route;
} seen;

pl_status pl_analysis_see_choice(pl_analysis *x, const pl_value *value, const pl_datum *a,
                                 const pl_datum *b, pl_err *err) {
    seen s = { .value = value };
    if (a->kind != PL_TYPE_TENSOR || b == NULL || b->kind != PL_TYPE_TENSOR) return PL_OK;
    if (x->routers == 0) x->routers = pl_graph_has_routers(x->replayed->graph) ? 1 : -1;
    s.choice = pl_choice_of(x->replayed->graph, value, x->routers > 0);
    if (s.choice.node == NULL) return PL_OK;
    if (!pl_choice_agree(&s.choice, a->tensor, b->tensor, &s.route.rows, &s.route.same))
        return PL_OK;
    if (!PL_ARENA_ROOM(x->arena, x->choices, x->n_choices, &x->choices_capacity))
        return pl_fail_memory(err, x->n_choices);
    const pl_value *own = x->pairs.a[value->id];
    s.route.node = pl_analysis_keep(x, s.choice.node->name);
    s.route.op = pl_analysis_keep(x, s.choice.node->op);
    s.route.value = pl_analysis_keep(x, own == NULL ? value->name : own->name);
    s.a = pl_datum_ref(a);
    s.b = pl_datum_ref(b);
    x->choices[x->n_choices++] = s;
    return PL_OK;
}

void pl_analysis_drop_choices(pl_analysis *x) {
    for (size_t i = 0; i < x->n_choices; i++) {
        pl_datum_unref(x->choices[i].a);
        pl_datum_unref(x->choices[i].b);
    }
    x->n_choices = 0;
}

/* ---- a run with the choices of the other side ---- */

static pl_status put_as(pl_replay *r, const pl_value *value, const pl_tensor *t, pl_err *err) {
    const pl_dtype dtype = pl_value_dtype(value, t->dtype);
    pl_tensor *cast = NULL;
    pl_datum *d = NULL;
    PL_TRY(pl_tensor_cast(t, dtype, &cast, err));
    PL_TRY(pl_datum_of_tensor_take(cast, &d, err));
    const pl_status st = pl_replay_put(r, value, d, NULL, err);
    pl_datum_unref(d);
    return st;
}

/* What TopK would give for these indices: the elements they point to. *fits is false where an index
 * lies outside. */
static pl_status pick(const pl_tensor *x, const pl_tensor *at, int axis, bool *fits,
                      pl_tensor **out, pl_err *err) {
    pl_tensor *y = NULL;
    int64_t inner = 1;
    *fits = at->rank == x->rank && axis >= 0 && axis < x->rank;
    for (int d = axis + 1; *fits && d < x->rank; d++)
        inner *= x->dims[d];
    if (!*fits) return PL_OK;
    const int64_t n = x->dims[axis], k = at->dims[axis];
    PL_TRY(pl_tensor_new(x->dtype, at->rank, at->dims, &y, err));
    const size_t size = pl_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < at->n_elements && *fits; i++) {
        const int64_t index = pl_tensor_get_i64(at, i);
        const int64_t from = ((i / (k * inner)) * n + index) * inner + i % inner;
        *fits = index >= 0 && index < n && from < x->n_elements;
        if (!*fits) break;
        const double value = pl_tensor_get_f64(x, from);
        pl_store_f64(x->dtype, &value, (char *)y->data + (size_t)i * size, 1);
    }
    *out = y;
    return PL_OK;
}

static pl_status impose_indices(pl_replay *r, const pl_node *node, const pl_tensor *indices,
                                int axis, pl_err *err) {
    const pl_datum *x = pl_replay_get(r, node->in[0]);
    pl_tensor *values = NULL;
    bool fits = false;
    if (x == NULL || x->kind != PL_TYPE_TENSOR) return PL_OK;
    PL_TRY(pick(x->tensor, indices, axis, &fits, &values, err));
    pl_status st = PL_OK;
    if (fits) st = put_as(r, node->out[1], indices, err);
    if (fits && st == PL_OK && node->out[0] != NULL) st = put_as(r, node->out[0], values, err);
    pl_tensor_unref(values);
    return st;
}

/* After a node: where it made a choice, or scores to choose by, those of the other side. */
static pl_status impose(const pl_analysis *x, pl_replay *r, const pl_node *node, bool a_side,
                        pl_err *err) {
    for (size_t i = 0; i < x->n_choices; i++) {
        const seen *s = &x->choices[i];
        const pl_value *value = a_side ? x->pairs.a[s->value->id] : s->value;
        if (value == NULL || value->producer != node) continue;
        const pl_tensor *t = (a_side ? s->b : s->a)->tensor;
        if (s->choice.scores) PL_TRY(put_as(r, value, t, err));
        if (!s->choice.scores && node->n_out == 2 && node->out[1] == value)
            PL_TRY(impose_indices(r, node, t, s->choice.axis, err));
    }
    return PL_OK;
}

/* a_side: the model under test with the choices of the reference; else the other way round. *out is
 * output i of the replayed model, or NULL when it is not available. */
static pl_status run_imposed(const pl_analysis *x, bool a_side, size_t i, pl_datum **out,
                             pl_err *err) {
    pl_model *model = a_side ? x->model : x->replayed;
    pl_datum *const *in = a_side ? x->in : x->replayed_in;
    const pl_replay_options options = {
        .pool = x->pool, .native = true, .fast = true, .seed = x->inputs->seed
    };
    const pl_graph *graph = model->graph;
    const pl_value *output = x->replayed->graph->outputs[i];
    pl_replay *r = NULL;
    *out = NULL;
    if (a_side) output = x->pairs.a[output->id];
    if (output == NULL) return PL_OK;
    PL_TRY(pl_replay_new(model, &options, &r, err));
    pl_status st = PL_OK;
    for (size_t k = 0; k < graph->n_inputs && st == PL_OK; k++)
        if (in[k] != NULL) st = pl_replay_put(r, graph->inputs[k], in[k], NULL, err);
    bool ran = true;
    for (size_t k = 0; k < graph->n_nodes && st == PL_OK && ran; k++) {
        ran = pl_replay_node(r, graph->nodes[k], NULL) == PL_OK;
        if (ran) st = impose(x, r, graph->nodes[k], a_side, err);
        pl_replay_release_after(r, graph->nodes[k]);
    }
    const pl_datum *d = st == PL_OK && ran ? pl_replay_get(r, output) : NULL;
    if (d != NULL) *out = pl_datum_ref(d);
    pl_replay_free(r);
    return st;
}

static double relative(pl_pool *pool, const pl_datum *y, const pl_datum *ref) {
    pl_accumulators acc;
    if (y == NULL || ref == NULL || y->kind != PL_TYPE_TENSOR || ref->kind != PL_TYPE_TENSOR ||
        !pl_tensor_same_shape(y->tensor, ref->tensor) ||
        pl_accumulate(pool, y->tensor, ref->tensor, &acc, NULL) != PL_OK || !(acc.sum_rr > 0))
        return (double)NAN;
    return sqrt(acc.sum_sq / acc.sum_rr);
}

/* The logits, else the first float output that is known on both sides. */
static size_t output_to_ask(const pl_analysis *x) {
    const pl_graph *graph = x->replayed->graph;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < x->outputs.n && i < graph->n_outputs; i++) {
        const pl_datum *a = x->outputs.a[i];
        if (a == NULL || x->outputs.b[i] == NULL || a->kind != PL_TYPE_TENSOR ||
            !pl_dtype_is_float(a->tensor->dtype))
            continue;
        if (strcmp(graph->outputs[i]->name, "logits") == 0) return i;
        if (found == SIZE_MAX) found = i;
    }
    return found;
}

static pl_status weigh(pl_analysis *x, pl_routing *r, pl_err *err) {
    const size_t i = output_to_ask(x);
    pl_datum *y = NULL;
    if (i == SIZE_MAX) return PL_OK;
    PL_TRY(run_imposed(x, false, i, &y, err));
    r->alone = relative(x->pool, y, x->outputs.b[i]);
    pl_datum_unref(y);
    if (isnan(r->alone)) return PL_OK;
    r->output = pl_analysis_keep(x, x->replayed->graph->outputs[i]->name);
    r->error = relative(x->pool, x->outputs.a[i], x->outputs.b[i]);
    if (x->replayed == x->model) return PL_OK;
    PL_TRY(run_imposed(x, true, i, &y, err));
    r->without = relative(x->pool, y, x->outputs.b[i]);
    pl_datum_unref(y);
    return PL_OK;
}

pl_status pl_analysis_routing(pl_analysis *x, pl_err *err) {
    if (x->n_choices == 0) return PL_OK;
    pl_routing *r = pl_arena_array(x->arena, 1, sizeof(*r));
    if (r == NULL) return pl_fail_memory(err, sizeof(*r));
    *r = (pl_routing){
        .output = "", .error = (double)NAN, .alone = (double)NAN, .without = (double)NAN
    };
    r->of = pl_arena_array(x->arena, x->n_choices, sizeof(*r->of));
    if (r->of == NULL) return pl_fail_memory(err, x->n_choices);
    for (size_t i = 0; i < x->n_choices; i++) {
        r->of[r->n++] = x->choices[i].route;
        r->rows += x->choices[i].route.rows;
        r->same += x->choices[i].route.same;
    }
    x->session->routing = r;
    return r->same == r->rows ? PL_OK : weigh(x, r, err);
}

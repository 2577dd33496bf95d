/* Values with another shape than in the model: harmless ones, and the effects of the others. */
#include <math.h>
#include <string.h>

#include "blame/blame_int.h"
#include "pair/layout.h"

typedef struct view {
    pl_tensor *as; /* the recorded elements with the model's dims; NULL = different elements */
    char layout[PL_LAYOUT_TEXT_MAX]; /* "" = in order */
} view;

static pl_status fits(const pl_blaming *j, const pl_value *value, const pl_tensor *as,
                      const pl_tensor *d, bool *yes, pl_err *err) {
    pl_local_error e;
    PL_TRY(pl_local_error_measure(j->options->pool, as, d, pl_replay_bound(j->local, value),
                                  pl_blaming_native(j, value, as), &e, err));
    *yes = e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT;
    return PL_OK;
}

/* Elements in order, or with axes in another order. */
static pl_status find_view(const pl_blaming *j, const pl_value *value, const pl_tensor *held,
                           const pl_tensor *d, view *out, pl_err *err) {
    pl_tensor *dense = NULL, *as = NULL, *like = NULL;
    pl_layout layout;
    bool yes = false;
    pl_status st = PL_OK;
    *out = (view){ .as = NULL };
    PL_TRY(pl_tensor_contiguous(held, &dense, err));
    PL_TRY_GOTO(done, st, pl_tensor_reshape(dense, d->rank, d->dims, &as, err));
    PL_TRY_GOTO(done, st, fits(j, value, as, d, &yes, err));
    if (!yes && held->rank == d->rank) {
        PL_TRY_GOTO(done, st, pl_layout_find(d, dense, &layout, err));
        const bool turned =
            strncmp(layout.text, "transpose", 9) == 0 && strchr(layout.text, ';') == NULL;
        if (turned) {
            pl_tensor_unref(as);
            as = NULL;
            PL_TRY_GOTO(done, st, pl_layout_apply(layout.text, d, dense, &like, &as, err));
            PL_TRY_GOTO(done, st, fits(j, value, as, d, &yes, err));
            memcpy(out->layout, layout.text, sizeof(out->layout));
        }
    }
    if (yes) out->as = pl_tensor_ref(as);
done:
    pl_tensor_unref(dense);
    pl_tensor_unref(as);
    pl_tensor_unref(like);
    return st;
}

/* A runtime may keep an inner value flat, [24,32] for [2,12,32] (a MatMul that became a Gemm), or
 * with channels first (it moved a Transpose). The same elements in another shape are not a fault as
 * long as everything that uses them is right. The shape of an output, or one that the run's own
 * model requires, must match. */
pl_status pl_blaming_view(pl_blaming *j, const pl_value *value, pl_datum **a, const pl_tensor *d,
                          pl_judgement *v, pl_err *err) {
    const pl_tensor *held = (*a)->tensor;
    pl_datum *datum = NULL;
    view found;
    pl_status st = PL_OK;
    if (value->is_output || pl_tensor_same_shape(held, d) || held->n_elements != d->n_elements ||
        held->n_elements == 0 || held->dtype == PL_STRING ||
        (j->a->reshaped != NULL && j->a->reshaped(j->a->ctx, value))) {
        return PL_OK;
    }
    PL_TRY(find_view(j, value, held, d, &found, err));
    if (found.as == NULL) return PL_OK;
    char is[160], expected[160];
    int64_t *dims = pl_arena_array(j->out->arena, (size_t)d->rank + 1, sizeof(int64_t));
    const char *layout = pl_arena_strdup(j->out->arena, found.layout);
    const char *reason =
        pl_arena_printf(j->out->arena, "has shape %s, the model declares %s",
                        pl_dims_describe(held->rank, held->dims, is, sizeof(is)),
                        pl_dims_describe(d->rank, d->dims, expected, sizeof(expected)));
    if (dims == NULL || layout == NULL || reason == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    memcpy(dims, d->dims, (size_t)d->rank * sizeof(int64_t));
    v->view = dims;
    v->view_rank = d->rank;
    v->layout = *layout == '\0' ? NULL : layout;
    v->reason = reason;
    v->excuse = "the same elements in a different shape";
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(pl_tensor_ref(found.as), &datum, err));
    pl_datum_unref(*a);
    *a = datum;
done:
    pl_tensor_unref(found.as);
    return st;
}

/* Does the run have it in another shape than the replay? */
static bool is_shaped(const pl_blaming *j, const pl_value *value) {
    const pl_judgement *v = &j->out->of[value->id];
    return v->judged && (v->view != NULL || v->local_class == PL_LOCAL_SHAPE);
}

/* Puts the segment's input in the run's own shape. */
static pl_status put_own(pl_blaming *j, pl_replay *r, const pl_value *value, pl_err *err) {
    pl_datum *d = NULL;
    if (value->producer != NULL) {
        PL_TRY(j->a->get(j->a->ctx, value, &d, err));
    } else {
        size_t i = 0;
        while (i < j->model->graph->n_inputs && j->model->graph->inputs[i] != value)
            i++;
        if (i == j->model->graph->n_inputs || j->in[i] == NULL) return PL_OK;
        d = pl_datum_ref(j->in[i]);
    }
    const pl_status st = pl_replay_put(r, value, d, NULL, err);
    pl_datum_unref(d);
    return st;
}

/* Is the value right for inputs in the shapes that the run has? *ran is false when the model's
 * operators cannot take those. */
static pl_status follows_from_shapes(pl_blaming *j, const pl_segment *segment,
                                     const pl_value *value, const pl_tensor *a, bool *ran,
                                     bool *yes, pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic };
    pl_replay *r = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error e;
    pl_status st = pl_replay_new(j->model, &options, &r, err);
    for (size_t i = 0; i < segment->n_inputs && st == PL_OK; i++)
        st = put_own(j, r, segment->inputs[i], err);
    *yes = false;
    *ran = st == PL_OK;
    for (size_t i = 0; i < segment->n_nodes && *ran; i++)
        *ran = pl_replay_node(r, segment->nodes[i], &trouble) == PL_OK;
    const pl_datum *d = *ran ? pl_replay_get(r, value) : NULL;
    if (d != NULL && d->kind == PL_TYPE_TENSOR) {
        st = pl_local_error_measure(j->options->pool, a, d->tensor, pl_replay_bound(r, value),
                                    pl_blaming_native(j, value, a), &e, err);
        *yes = st == PL_OK && e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT;
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

static pl_status blame_input(pl_blaming *j, const pl_value *shaped, pl_err *err) {
    pl_judgement *in = &j->out->of[shaped->id];
    pl_segment own;
    in->facts.local = PL_FACT_NO;
    pl_judgement_decide(in);
    in->q = (double)INFINITY;
    in->kind = "shape";
    in->excuse = "";
    in->local_class = PL_LOCAL_SHAPE;
    PL_TRY(pl_segment_find(&j->segmenter, shaped, j->out->arena, &own, err));
    return pl_blaming_flag(j, shaped, &own, NULL, NULL, err);
}

pl_status pl_blaming_shape_did_it(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                  const pl_tensor *a, pl_judgement *v, bool *done, pl_err *err) {
    const pl_value *viewed = NULL;
    bool ran = false, yes = false, any = false, wrong = false;
    *done = false;
    for (size_t i = 0; i < segment->n_inputs; i++) {
        const pl_value *in = segment->inputs[i];
        if (!is_shaped(j, in)) continue;
        any = true;
        if (j->out->of[in->id].view == NULL) {
            wrong = true;
        } else {
            viewed = in;
        }
    }
    if (!any) return PL_OK;
    PL_TRY(follows_from_shapes(j, segment, value, a, &ran, &yes, err));
    if (!yes && (ran || !wrong)) return PL_OK;
    *done = true;
    if (!ran) {
        v->facts = (pl_value_facts){ .unreplayed = true };
        pl_judgement_decide(v);
        v->reason = "cannot be replayed: its inputs do not have the declared shape";
        j->out->n_replayed--;
        j->out->n_single -= segment->n_computing == 1;
        j->out->n_unreplayed++;
        if (*j->out->first_unreplayed == '\0') j->out->first_unreplayed = v->reason;
        return PL_OK;
    }
    v->facts = (pl_value_facts){ .local = PL_FACT_NO, .cleared = true };
    pl_judgement_decide(v);
    v->reason = "computed from a value with the wrong shape";
    /* The value that seemed harmless was not. */
    const bool known = viewed == NULL || j->out->of[viewed->id].verdict == PL_VERDICT_CULPRIT;
    return known || wrong ? PL_OK : blame_input(j, viewed, err);
}

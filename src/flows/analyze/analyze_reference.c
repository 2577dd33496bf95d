/* The reference of an analysis: a backend on the same model, another model, or a recording; and how
 * its values correspond to those of the run under test.
 *
 * If the reference is another model, its segments are replayed: a node that was changed in the
 * model under test then shows, because the replay computes it as in the reference. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/analyze/analyze_int.h"
#include "flows/inputs.h"
#include "flows/prepare.h"
#include "interp/raise.h"
#include "ops/infer.h"

static bool is_model_file(const char *path) {
    return pl_path_has_suffix(path, ".onnx") || pl_path_has_suffix(path, ".onnxtxt");
}

/* An existing path is a file, not a backend spec. */
static bool is_recording(const char *reference) {
    return reference != NULL && !is_model_file(reference) && pl_path_exists(reference);
}

static pl_status open_model(pl_analysis *x, const char *path, pl_err *err) {
    plumb_error trouble = { PLUMB_OK, "" };
    if (plumb_model_open(path, &x->reference_model, &trouble) != PLUMB_OK) {
        return pl_fail(err, trouble.status, "%s", trouble.message);
    }
    x->replayed = x->reference_model->model;
    return pl_make_ready(x->replayed, PL_READY_KNOWN, &x->reference_model->edited, err);
}

static const pl_tensor *input_named(const pl_analysis *x, const char *name, int rank) {
    const pl_graph *g = x->model->graph;
    for (size_t i = 0; i < g->n_inputs; i++)
        if (strcmp(g->inputs[i]->name, name) == 0 && x->in[i] != NULL &&
            x->in[i]->kind == PL_TYPE_TENSOR && x->in[i]->tensor->rank == rank)
            return x->in[i]->tensor;
    return NULL;
}

/* position_ids, which some exports of a decoder require and others compute: the positions of the
 * tokens behind those that the mask counts as past. *out stays NULL for other inputs. */
static pl_status make_positions(const pl_analysis *x, const pl_value *input, pl_datum **out,
                                pl_err *err) {
    const pl_tensor *ids = input_named(x, "input_ids", 2);
    const pl_tensor *mask = input_named(x, "attention_mask", 2);
    pl_tensor *t = NULL;
    if (strcmp(input->name, "position_ids") != 0 || ids == NULL || mask == NULL ||
        pl_value_dtype(input, PL_I64) != PL_I64 || mask->dims[1] < ids->dims[1] ||
        mask->dims[0] != ids->dims[0] || mask->dtype != PL_I64 || !pl_tensor_is_contiguous(mask))
        return PL_OK;
    PL_TRY(pl_tensor_new(PL_I64, 2, ids->dims, &t, err));
    const int64_t n = ids->dims[1], total = mask->dims[1];
    for (int64_t b = 0; b < ids->dims[0]; b++) {
        int64_t at = -1;
        for (int64_t i = 0; i < total; i++) { /* padding has no position of its own */
            at += ((const pl_i64 *)mask->data)[b * total + i] != 0;
            if (i >= total - n) ((pl_i64 *)t->data)[b * n + i - (total - n)] = at < 0 ? 0 : at;
        }
    }
    return pl_datum_of_tensor_take(t, out, err);
}

static pl_status match_inputs(pl_analysis *x, pl_err *err) {
    const pl_graph *to = x->replayed->graph, *from = x->model->graph;
    x->replayed_in = pl_calloc(to->n_inputs + 1, sizeof(pl_datum *));
    if (x->replayed_in == NULL) return pl_fail_memory(err, to->n_inputs);
    for (size_t i = 0; i < to->n_inputs; i++) {
        const size_t k = pl_ports_match(to->inputs, to->n_inputs, i, from->inputs, from->n_inputs);
        if (k != SIZE_MAX && x->in[k] != NULL)
            PL_TRY(pl_input_as(to->inputs[i], x->in[k], &x->replayed_in[i], err));
        if (x->replayed_in[i] == NULL)
            PL_TRY(make_positions(x, to->inputs[i], &x->replayed_in[i], err));
        if (x->replayed_in[i] == NULL && to->inputs[i]->init == NULL) {
            return pl_fail(err, PL_E_INVALID,
                           "the reference model requires input '%s', which is missing from the "
                           "model under test",
                           to->inputs[i]->name);
        }
    }
    return PL_OK;
}

pl_status pl_analysis_open_recording(pl_analysis *x, pl_err *err) {
    const plumb_analyze_options *o = x->options;
    if (o->reference_model != NULL || !is_recording(o->reference)) return PL_OK;
    PL_TRY(pl_recording_open(o->reference, &x->recording, err));
    x->session->b.path = pl_analysis_keep(x, o->reference);
    x->session->b.backend = "recording";
    x->session->b.spec = x->session->b.path;
    return PL_OK;
}

pl_status pl_analysis_open_reference(pl_analysis *x, pl_err *err) {
    const plumb_analyze_options *o = x->options;
    const char *path = o->reference_model;
    x->replayed = x->model;
    if (path == NULL && o->reference != NULL && is_model_file(o->reference)) path = o->reference;
    if (path != NULL) {
        PL_TRY(open_model(x, path, err));
        x->session->b.path = pl_analysis_keep(x, path);
    }
    if (o->map != NULL) {
        if (x->recording == NULL && x->reference_model == NULL)
            return pl_fail(
                err, PL_E_USAGE,
                "option 'map' requires a recording or another model as option 'reference'");
        PL_TRY(pl_pair_map_open(o->map, &x->map, err));
        if (x->recording != NULL) PL_TRY(pl_pair_map_expand(&x->map, 1, x->recording, err));
    }
    PL_TRY(match_inputs(x, err));
    return pl_analysis_lower_reference(x, err);
}

/* ---- pairing ---- */

static pl_status pair(pl_analysis *x, const pl_pair_side *a, const pl_pair_side *b,
                      pl_pairing *found, pl_err *err) {
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    if (x->map.arena != NULL) options.map = &x->map;
    PL_TRY(pl_pair_values(a, b, &options, found, err));
    pl_session *s = x->session;
    s->left_b = pl_arena_array(x->arena, found->n_unpaired_b, sizeof(*s->left_b));
    if (s->left_b == NULL) {
        pl_pairing_release(found);
        return pl_fail_memory(err, found->n_unpaired_b);
    }
    for (size_t i = 0; i < found->n_unpaired_b; i++) {
        const pl_pair_item *item = &b->items[found->unpaired_b[i].item];
        s->left_b[s->n_left_b++] =
            (pl_left_over){ .value = pl_analysis_keep(x, item->name),
                            .op = pl_analysis_keep(x, item->op),
                            .reason = pl_analysis_keep(x, found->unpaired_b[i].reason),
                            .expected = found->unpaired_b[i].expected };
    }
    return PL_OK;
}

static pl_status pairs_init(pl_analysis *x, pl_err *err) {
    const size_t n = (size_t)x->replayed->n_values + 1;
    x->pairs.a = pl_calloc(n, sizeof(pl_value *));
    x->pairs.method = pl_calloc(n, sizeof(char *));
    x->pairs.relation = pl_calloc(n, sizeof(char *));
    x->pairs.confidence = pl_calloc(n, sizeof(double));
    if (x->pairs.a == NULL || x->pairs.method == NULL || x->pairs.relation == NULL ||
        x->pairs.confidence == NULL) {
        return pl_fail_memory(err, n);
    }
    return PL_OK;
}

static void pair_with_itself(pl_analysis *x) {
    const pl_graph *graph = x->replayed->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const uint32_t id = graph->values[i]->id;
        x->pairs.a[id] = graph->values[i];
        x->pairs.method[id] = "name";
        x->pairs.relation[id] = "1:1";
        x->pairs.confidence[id] = 1;
    }
}

static pl_status pair_models(pl_analysis *x, pl_err *err) {
    pl_pair_side a, b;
    pl_pairing found;
    PL_TRY(pl_pair_side_of_model(x->model, x->arena, &a, err));
    PL_TRY(pl_pair_side_of_model(x->replayed, x->arena, &b, err));
    PL_TRY(pair(x, &a, &b, &found, err));
    for (size_t i = 0; i < found.n_pairs; i++) {
        const pl_pair *p = &found.pairs[i];
        const pl_value *va = a.items[p->a].in_graph, *vb = b.items[p->b].in_graph;
        if (va == NULL || vb == NULL || vb->graph != x->replayed->graph || *p->layout != '\0') {
            continue;
        }
        x->pairs.a[vb->id] = va;
        x->pairs.method[vb->id] = pl_analysis_keep(x, p->method);
        x->pairs.relation[vb->id] = pl_analysis_keep(x, p->relation);
        x->pairs.confidence[vb->id] = p->confidence;
    }
    const size_t n_pairs = found.n_pairs;
    pl_pairing_release(&found);
    if (n_pairs == 0) {
        return pl_fail(err, PL_E_INVALID, "no value of '%s' has a counterpart in '%s'",
                       x->model->path, x->replayed->path);
    }
    return PL_OK;
}

/* B is a recording: pairs its records with the model's values. */
static pl_status pair_recording(pl_analysis *x, pl_err *err) {
    pl_pair_side a, b;
    pl_pairing found;
    pair_with_itself(x);
    x->recorded = pl_calloc((size_t)x->replayed->n_values + 1, sizeof(size_t));
    if (x->recorded == NULL) return pl_fail_memory(err, x->replayed->n_values);
    PL_TRY(pl_pair_side_of_model(x->model, x->arena, &a, err));
    PL_TRY(pl_pair_side_of_recording(x->recording, NULL, x->arena, &b, err));
    PL_TRY(pair(x, &a, &b, &found, err));
    size_t n_paired = 0;
    for (size_t i = 0; i < found.n_pairs; i++) {
        const pl_pair *p = &found.pairs[i];
        const pl_value *value = a.items[p->a].in_graph;
        const pl_record *record = pl_recording_find(x->recording, b.items[p->b].name);
        if (value == NULL || record == NULL || !record->has_data || *p->layout != '\0') continue;
        x->recorded[value->id] = (size_t)(record - x->recording->records) + 1;
        x->pairs.method[value->id] = pl_analysis_keep(x, p->method);
        x->pairs.confidence[value->id] = p->confidence;
        n_paired++;
    }
    pl_pairing_release(&found);
    if (n_paired == 0) {
        return pl_fail(err, PL_E_INVALID,
                       "nothing in recording '%s' could be paired with the model",
                       x->recording->path);
    }
    return PL_OK;
}

pl_status pl_analysis_pair(pl_analysis *x, pl_err *err) {
    PL_TRY(pairs_init(x, err));
    if (x->recording != NULL) {
        PL_TRY(pair_recording(x, err));
    } else if (x->replayed != x->model) {
        PL_TRY(pair_models(x, err));
    } else {
        pair_with_itself(x);
    }
    return pl_analysis_timed(x, "pair", err);
}

void pl_analysis_close_reference(pl_analysis *x) {
    pl_free(x->pairs.a);
    pl_free(x->pairs.method);
    pl_free(x->pairs.relation);
    pl_free(x->pairs.confidence);
    pl_free(x->recorded);
    pl_analysis_release_lowered(x);
    for (size_t i = 0; x->replayed_in != NULL && i < x->replayed->graph->n_inputs; i++)
        pl_datum_unref(x->replayed_in[i]);
    pl_free(x->replayed_in);
    if (x->map.arena != NULL) pl_pair_map_release(&x->map);
    pl_recording_close(x->recording);
    plumb_model_close(x->reference_model);
}

/* ---- data by value of the replayed model ---- */

typedef struct mapped {
    const pl_analysis *x;
    const pl_side_run *run;
} mapped;

static bool run_has(const pl_analysis *x, const pl_side_run *run, const pl_value *value) {
    const pl_value *a = x->pairs.a[value->id];
    return a != NULL && a->producer != NULL && run->entry[a->id] != 0;
}

bool pl_analysis_a_has(void *ctx, const pl_value *value) {
    const pl_analysis *x = ctx;
    return run_has(x, &x->a, value);
}

static bool mapped_has(void *ctx, const pl_value *value) {
    const mapped *m = ctx;
    return run_has(m->x, m->run, value);
}

static pl_status mapped_get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const mapped *m = ctx;
    return pl_spool_get(m->run->spool, m->run->entry[m->x->pairs.a[value->id]->id] - 1, out, err);
}

static bool nothing_has(void *ctx, const pl_value *value) {
    (void)ctx;
    (void)value;
    return false;
}

static bool mapped_reshaped(void *ctx, const pl_value *value) {
    const mapped *m = ctx;
    const pl_value *own = m->x->pairs.a[value->id];
    const pl_type *x = own == NULL ? NULL : own->type, *y = value->type;
    if (own == value || x == NULL || y == NULL || x->kind != PL_TYPE_TENSOR ||
        y->kind != PL_TYPE_TENSOR || !x->has_rank || !y->has_rank) {
        return false;
    }
    if (x->rank != y->rank) return true;
    for (int i = 0; i < x->rank; i++) {
        if (x->dims[i].value >= 0 && y->dims[i].value >= 0 && x->dims[i].value != y->dims[i].value)
            return true;
    }
    return false;
}

pl_run_data pl_analysis_run_data(pl_analysis *x, const pl_side_run *run) {
    mapped *m = pl_arena_alloc(x->arena, sizeof(*m));
    if (m == NULL) return (pl_run_data){ .has = nothing_has, .get = mapped_get };
    *m = (mapped){ x, run };
    return (pl_run_data){ .has = mapped_has,
                          .get = mapped_get,
                          .ctx = m,
                          .has_copies = run->n_unknown > 0 || run->marked || run->mode > 0,
                          .reshaped = mapped_reshaped,
                          .arithmetic = run->arithmetic,
                          .adds_f16 = pl_side_run_adds_f16(run) };
}

static bool record_has(void *ctx, const pl_value *value) {
    const pl_analysis *x = ctx;
    return x->recorded[value->id] != 0;
}

static pl_status record_get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const pl_analysis *x = ctx;
    return pl_recording_read_datum(x->recording, &x->recording->records[x->recorded[value->id] - 1],
                                   out, err);
}

pl_run_data pl_analysis_reference_data(pl_analysis *x) {
    if (x->recording != NULL) {
        return (pl_run_data){ .has = record_has, .get = record_get, .ctx = x };
    }
    if (x->foreign != NULL) return (pl_run_data){ .has = nothing_has, .get = mapped_get };
    return pl_side_run_data(&x->b);
}

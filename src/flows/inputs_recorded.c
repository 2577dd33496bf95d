#include "flows/inputs_recorded.h"

#include "backends/backend.h"
#include "flows/inputs.h"

static bool says_how(const plumb_inputs *s) {
    return s->n_ranges > 0 || s->fill != PLUMB_FILL_RANDOM || s->seed != 0;
}

/* An engine's flat array of the right length and type is reshaped to the model's input. One dim may
 * be unknown: it follows from the length. */
static pl_status unflatten(const pl_value *input, pl_datum **d, pl_err *err) {
    const pl_type *type = input->type;
    int64_t dims[PL_RANK_MAX], n = 0, rest = 1;
    int open = -1;
    pl_tensor *shaped = NULL, *dense = NULL;
    if ((*d)->kind != PL_TYPE_TENSOR || (*d)->tensor->rank != 1 || type == NULL ||
        type->kind != PL_TYPE_TENSOR || !type->has_rank || type->rank < 2)
        return PL_OK;
    for (int i = 0; i < type->rank; i++) {
        const bool known = pl_dim_known(type->dims[i]);
        if (!known && open >= 0) return PL_OK;
        if (!known) open = i;
        dims[i] = known ? type->dims[i].value : 1;
    }
    if (!pl_dims_product(type->rank, dims, &rest)) return PL_OK;
    if (open >= 0 && rest > 0) dims[open] = (*d)->tensor->n_elements / rest;
    if (!pl_dims_product(type->rank, dims, &n) || n != (*d)->tensor->n_elements) return PL_OK;
    PL_TRY(pl_tensor_contiguous((*d)->tensor, &dense, err));
    pl_status st = pl_tensor_reshape(dense, type->rank, dims, &shaped, err);
    pl_tensor_unref(dense);
    PL_TRY(st);
    pl_datum_unref(*d);
    *d = NULL;
    return pl_datum_of_tensor_take(shaped, d, err);
}

static pl_status recorded_input(const pl_recording *rec, const pl_value *input, pl_datum **out,
                                pl_err *err) {
    const pl_record *r = pl_recording_find(rec, input->name);
    *out = NULL;
    if (r == NULL || (r->kind == PL_TYPE_TENSOR && !r->has_data)) return PL_OK;
    PL_TRY(pl_recording_read_datum(rec, r, out, err));
    return unflatten(input, out, err);
}

static pl_status refuse(const pl_recording *rec, const pl_value *input, const pl_datum *given,
                        const pl_datum *recorded, pl_err *err) {
    char x[100], y[100];
    return pl_fail(err, PL_E_INVALID,
                   "input '%s' (%s) differs from the one in recording '%s' (%s), so the runs "
                   "cannot be compared; without option 'input' and option 'inputs' the recorded "
                   "inputs are used",
                   input->name, pl_datum_describe(given, x, sizeof(x)), rec->path,
                   pl_datum_describe(recorded, y, sizeof(y)));
}

pl_status pl_inputs_make_recorded(const pl_model *model, const plumb_inputs *source,
                                  const pl_recording *rec, bool lenient, pl_datum **in,
                                  size_t *n_taken, pl_err *err) {
    const pl_graph *graph = model->graph;
    size_t taken = 0;
    PL_TRY(pl_inputs_given(model, source, in, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_datum *recorded = NULL;
        pl_status st = recorded_input(rec, graph->inputs[i], &recorded, err);
        if (st == PL_OK && in[i] == NULL && recorded == NULL && graph->inputs[i]->init == NULL &&
            !says_how(source) && !lenient) {
            st = pl_fail(err, PL_E_INVALID,
                         "recording '%s' has no input '%s'; pass the one it was made with: option "
                         "'input' %s=FILE",
                         rec->path, graph->inputs[i]->name, graph->inputs[i]->name);
        }
        if (st == PL_OK && in[i] != NULL && recorded != NULL &&
            !pl_datum_identical(in[i], recorded)) {
            st = refuse(rec, graph->inputs[i], in[i], recorded, err);
        }
        if (st == PL_OK && in[i] == NULL && recorded != NULL) {
            in[i] = recorded;
            recorded = NULL;
            taken++;
        }
        pl_datum_unref(recorded);
        PL_TRY(st);
    }
    if (n_taken != NULL) *n_taken = taken;
    return pl_inputs_make_missing(model, source, in, err);
}

/* The tensors of a step: one function per row of feed_rules.def, and the state before the first. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/inputs.h"
#include "flows/steps/feed.h"

/* As int64, then in the input's type. */
static pl_status cast_take(pl_tensor *t, const pl_value *input, pl_tensor **out, pl_err *err) {
    const pl_dtype to = input->type == NULL ? PL_I64 : input->type->dtype;
    if (to == t->dtype || to == PL_UNDEFINED) {
        *out = t;
        return PL_OK;
    }
    const pl_status st = pl_tensor_cast(t, to, out, err);
    pl_tensor_unref(t);
    return st;
}

static pl_status fail_rank(const pl_value *input, const char *rule, int rank, pl_err *err) {
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "input '%s' has rank %d, for which the rule %s is not defined; give it with "
                   "option 'input', or another rule with option 'feed'",
                   input->name, rank, rule);
}

/* ---- one value for each token ---- */

typedef int64_t (*of_token)(const pl_feed_window *w, int64_t row, int64_t i);

static pl_status by_token(const pl_value *input, int rank, const pl_feed_window *w,
                          const char *rule, of_token value, pl_tensor **out, pl_err *err) {
    const int64_t dims[] = { w->batch, w->n };
    pl_tensor *t = NULL;
    const bool flat = rank == 1; /* positions shared by all rows, or a batch of one */
    if (rank > 2 || rank == 0) return fail_rank(input, rule, rank, err);
    PL_TRY(pl_tensor_new(PL_I64, flat ? 1 : 2, flat ? dims + 1 : dims, &t, err));
    int64_t *x = t->data;
    for (int64_t row = 0; row < (flat ? 1 : w->batch); row++)
        for (int64_t i = 0; i < w->n; i++)
            x[row * w->n + i] = value(w, row, i);
    return cast_take(t, input, out, err);
}

static int64_t token_at(const pl_feed_window *w, int64_t row, int64_t i) {
    return w->tokens == NULL ? 0 : w->tokens[row * w->n + i];
}
static int64_t position_at(const pl_feed_window *w, int64_t row, int64_t i) {
    const int64_t p = w->past + i - w->left;
    (void)row;
    return p < 0 ? 0 : p;
}
static int64_t zero_at(const pl_feed_window *w, int64_t row, int64_t i) {
    (void)w, (void)row, (void)i;
    return 0;
}
static int64_t one_at(const pl_feed_window *w, int64_t row, int64_t i) {
    (void)w, (void)row, (void)i;
    return 1;
}

static pl_status feed_tokens(const pl_value *input, int rank, const pl_feed_window *w,
                             pl_tensor **out, pl_err *err) {
    return by_token(input, rank, w, "tokens", token_at, out, err);
}
static pl_status feed_positions(const pl_value *input, int rank, const pl_feed_window *w,
                                pl_tensor **out, pl_err *err) {
    return by_token(input, rank, w, "positions", position_at, out, err);
}
static pl_status feed_zeros(const pl_value *input, int rank, const pl_feed_window *w,
                            pl_tensor **out, pl_err *err) {
    return by_token(input, rank, w, "zeros", zero_at, out, err);
}
static pl_status feed_ones(const pl_value *input, int rank, const pl_feed_window *w,
                           pl_tensor **out, pl_err *err) {
    return by_token(input, rank, w, "ones", one_at, out, err);
}

/* ---- one value for each row, or for all ---- */

static pl_status by_row(const pl_value *input, int rank, const pl_feed_window *w, bool per_row,
                        int64_t value, pl_tensor **out, pl_err *err) {
    const pl_type *type = input->type;
    int64_t dims[] = { per_row ? w->batch : 1, 1 };
    pl_tensor *t = NULL;
    if (rank > 2) return fail_rank(input, "of lengths", rank, err);
    for (int i = 0; i < rank && type != NULL && type->has_rank; i++)
        if (pl_dim_known(type->dims[i])) dims[i] = type->dims[i].value;
    PL_TRY(pl_tensor_new(PL_I64, rank < 0 ? 1 : rank, dims, &t, err));
    for (int64_t i = 0; i < t->n_elements; i++)
        ((int64_t *)t->data)[i] = value;
    return cast_take(t, input, out, err);
}

static pl_status feed_last(const pl_value *input, int rank, const pl_feed_window *w,
                           pl_tensor **out, pl_err *err) {
    return by_row(input, rank, w, true, w->past + w->n - w->right - 1, out, err);
}
static pl_status feed_total(const pl_value *input, int rank, const pl_feed_window *w,
                            pl_tensor **out, pl_err *err) {
    return by_row(input, rank, w, false, w->past + w->n, out, err);
}
static pl_status feed_past(const pl_value *input, int rank, const pl_feed_window *w,
                           pl_tensor **out, pl_err *err) {
    return by_row(input, rank, w, false, w->past, out, err);
}
static pl_status feed_length(const pl_value *input, int rank, const pl_feed_window *w,
                             pl_tensor **out, pl_err *err) {
    return by_row(input, rank, w, false, w->n, out, err);
}
static pl_status feed_cached(const pl_value *input, int rank, const pl_feed_window *w,
                             pl_tensor **out, pl_err *err) {
    return by_row(input, rank, w, false, w->past > 0, out, err);
}

/* ---- masks ---- */

/* May query i of the step see key j of the whole sequence? */
static bool may_see(const pl_feed_window *w, int64_t i, int64_t j) {
    return j >= w->left && j < w->past + w->n - w->right && j <= w->past + i;
}

static pl_status causal_mask(const pl_value *input, int rank, const pl_feed_window *w,
                             pl_tensor **out, pl_err *err) {
    const int64_t total = w->past + w->n;
    const int64_t dims[] = { w->batch, 1, w->n, total };
    const bool additive = input->type != NULL && pl_dtype_is_float(input->type->dtype);
    const double hidden =
        input->type != NULL && input->type->dtype == PL_F16 ? -65504 : (double)-FLT_MAX;
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_F64, rank, rank == 4 ? dims : dims + 1, &t, err));
    double *x = t->data;
    if (rank == 3 && w->batch != 1) {
        pl_tensor_unref(t);
        return fail_rank(input, "mask (of several rows)", rank, err);
    }
    for (int64_t row = 0; row < w->batch; row++)
        for (int64_t i = 0; i < w->n; i++)
            for (int64_t j = 0; j < total; j++)
                *x++ = may_see(w, i, j) ? (additive ? 0 : 1) : (additive ? hidden : 0);
    return cast_take(t, input, out, err);
}

static pl_status feed_mask(const pl_value *input, int rank, const pl_feed_window *w,
                           pl_tensor **out, pl_err *err) {
    const int64_t dims[] = { w->batch, w->past + w->n };
    pl_tensor *t = NULL;
    if (rank == 3 || rank == 4) return causal_mask(input, rank, w, out, err);
    if (rank != 2 && rank != -1) return fail_rank(input, "mask", rank, err);
    PL_TRY(pl_tensor_new(PL_I64, 2, dims, &t, err));
    int64_t *x = t->data;
    for (int64_t row = 0; row < w->batch; row++)
        for (int64_t j = 0; j < dims[1]; j++)
            *x++ = j >= w->left && j < dims[1] - w->right;
    return cast_take(t, input, out, err);
}

/* ---- the table ---- */
const pl_feed_rule pl_feed_rules[] = {
#define PL_FEED_RULE(name, fits, gives) { #name, fits, gives, feed_##name },
#include "flows/steps/feed_rules.def"
#undef PL_FEED_RULE
};
const size_t pl_n_feed_rules = sizeof(pl_feed_rules) / sizeof(*pl_feed_rules);

/* ---- state ---- */

/* An axis grows if the output that is fed back has another size there. Without shapes, a KV cache
 * is assumed: (batch, heads, length, size). */
static bool grows(const pl_type *in, const pl_type *out, int axis) {
    if (in->rank == 4 && axis == 0) return false;
    if (out == NULL || out->kind != PL_TYPE_TENSOR || !out->has_rank || out->rank != in->rank)
        return in->rank == 4 && axis == 2;
    const pl_dim x = in->dims[axis], y = out->dims[axis];
    if (x.name != NULL && y.name != NULL) return strcmp(x.name, y.name) != 0;
    return in->rank == 4 ? axis == 2 : false;
}

static int64_t size_told(const plumb_inputs *source, const char *name) {
    const size_t n = name == NULL ? 0 : strlen(name);
    for (size_t i = 0; n > 0 && source != NULL && i < source->n_dims; i++) {
        const char *equals = strrchr(source->dims[i], '=');
        long long value = 0;
        if (equals != NULL && (size_t)(equals - source->dims[i]) == n &&
            strncmp(source->dims[i], name, n) == 0 && sscanf(equals + 1, "%lld", &value) == 1)
            return value;
    }
    return -1;
}

pl_status pl_feed_empty(const pl_feed *f, size_t i, int64_t batch, pl_datum **out, pl_err *err) {
    const pl_graph *graph = f->model->graph;
    const pl_value *input = graph->inputs[i], *from = graph->outputs[f->in[i].state];
    const pl_type *type = input->type;
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank)
        return pl_fail(
            err, PL_E_INVALID,
            "the shape of state '%s' is not known; give its first value with option 'input'",
            input->name);
    for (int axis = 0; axis < type->rank; axis++) {
        const pl_dim d = type->dims[axis];
        const int64_t told = size_told(f->source, d.name);
        const bool is_batch = axis == 0 && type->rank == 4;
        dims[axis] = pl_dim_known(d)                                                   ? d.value
                     : told >= 0                                                       ? told
                     : grows(type, from->type, axis)                                   ? 0
                     : is_batch || (d.name != NULL && strstr(d.name, "batch") != NULL) ? batch
                                                                                       : 1;
    }
    PL_TRY(pl_tensor_new_zero(type->dtype, type->rank, dims, &t, err));
    return pl_datum_of_tensor_take(t, out, err);
}

/* ---- one step ---- */

/* Converts a state to this side's type, such as that of an fp16 model in an fp32 one. */
static pl_status state_as(const pl_value *input, pl_datum *state, pl_datum **out, pl_err *err) {
    pl_tensor *t = NULL;
    const bool other = state->kind == PL_TYPE_TENSOR && input->type != NULL &&
                       input->type->kind == PL_TYPE_TENSOR &&
                       input->type->dtype != state->tensor->dtype;
    if (!other) {
        *out = pl_datum_ref(state);
        return PL_OK;
    }
    PL_TRY(pl_tensor_cast(state->tensor, input->type->dtype, &t, err));
    return pl_datum_of_tensor_take(t, out, err);
}

static pl_status by_rule(const pl_feed *f, size_t i, const pl_feed_window *w, pl_datum **out,
                         pl_err *err) {
    const pl_value *input = f->model->graph->inputs[i];
    const pl_type *type = input->type;
    const int rank =
        type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank ? -1 : type->rank;
    pl_tensor *t = NULL;
    PL_TRY(f->in[i].rule->make(input, rank, w, &t, err));
    return pl_datum_of_tensor_take(t, out, err);
}

/* Generated anew for each step; or one set of files or tensors per step, the last one for the
 * rest. */
static pl_status by_user(const pl_feed *f, size_t i, size_t step, pl_datum **out, pl_err *err) {
    const plumb_inputs *s = f->source;
    plumb_inputs own = *s;
    if (f->given[i] != NULL) {
        *out = pl_datum_ref(f->given[i]);
        return PL_OK;
    }
    pl_datum **all = NULL;
    const size_t n = f->model->graph->n_inputs;
    own.seed = s->seed + step;
    if (s->n_sets > 0) own.sets = s->sets + (step < s->n_sets ? step : s->n_sets - 1);
    own.n_sets = s->n_sets > 0;
    const size_t n_samples = s->n_samples > 1 ? s->n_samples : 1;
    if (s->n_tensors > 0)
        own.tensors = s->tensors + s->n_tensors * (step < n_samples ? step : n_samples - 1);
    own.n_samples = 1;
    own.dims = NULL;
    own.n_dims = 0;
    all = pl_calloc(n, sizeof(*all));
    pl_status st = all == NULL ? pl_fail_memory(err, n) : PL_OK;
    if (st == PL_OK) st = pl_inputs_given(f->model, &own, all, err);
    own.dims = s->dims;
    own.n_dims = s->n_dims;
    if (st == PL_OK && all[i] != NULL) {
        *out = pl_datum_ref(all[i]);
    } else if (st == PL_OK && f->model->graph->inputs[i]->init == NULL) {
        st = pl_inputs_generate(f->model, &own, i, out, err);
    }
    for (size_t k = 0; all != NULL && k < n; k++)
        pl_datum_unref(all[k]);
    pl_free(all);
    return st;
}

pl_status pl_feed_make(const pl_feed *f, const pl_feed_window *w, size_t step,
                       pl_datum *const *state, pl_datum **in, pl_err *err) {
    const pl_graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_feed_input *rule = &f->in[i];
        pl_status st = PL_OK;
        if (rule->state != SIZE_MAX && state != NULL && state[i] != NULL) {
            st = state_as(graph->inputs[i], state[i], &in[i], err);
        } else if (rule->state != SIZE_MAX && f->given[i] != NULL) {
            in[i] = pl_datum_ref(f->given[i]);
        } else if (rule->state != SIZE_MAX) {
            st = pl_feed_empty(f, i, w->batch, &in[i], err);
        } else {
            st = rule->rule != NULL ? by_rule(f, i, w, &in[i], err)
                                    : by_user(f, i, step, &in[i], err);
        }
        if (st != PL_OK) return st;
    }
    return PL_OK;
}

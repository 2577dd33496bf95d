/* Excuses: before a value is blamed, its segment is replayed with what a correct runtime may do
 * differently.
 *
 * First the model's own precision with naive long sums: a chain of roundings that a naive runtime
 * also has is not a fault (q is divided by the q of that run). Then, where low precision or
 * quantised layers are involved: inputs rounded to the type that the model declares; inputs off by
 * one rounding of that type, since the consumer may have used another copy; weights that were
 * rounded after folding; a float bias that was quantised with the layer. And where ONNX is
 * ambiguous: the other reading. One row each. */
#include <math.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"

typedef enum excuse_bits {
    ROUND_INPUTS = 1, /* rounded to the declared low-precision type */
    ALLOW_INPUTS = 2, /* off by one rounding of it */
    FOLDED_WEIGHTS = 4,
    QUANTISED_BIAS = 8,
    NATIVE = 16,
    WIDE_CASTS = 32,      /* a Cast to low precision passes its input through, */
    OTHERWISE = 128,      /* the other reading where ONNX is ambiguous */
    FITTED_BIAS = 256,    /* a float bias rounded with a scale that is to blame */
    WIDE_DATA_CASTS = 64, /* but not for constants, which were folded and rounded */
    F16_SUMS = 512,       /* added in float16 */
} excuse_bits;

typedef struct excuse_row {
    const char *name;
    unsigned bits;
    bool (*applies)(const pl_blaming *j, const pl_segment *segment, const pl_value *value);
    bool f16_only; /* only for a value that the run holds in float16 */
} excuse_row;

static bool is_low(pl_dtype dtype) {
    return pl_dtype_is_float(dtype) && pl_dtype_unit_roundoff(dtype) > 0x1p-24;
}

static pl_dtype declared(const pl_value *value) {
    const pl_type *type = value->type;
    return type != NULL && type->kind == PL_TYPE_TENSOR ? type->dtype : PL_UNDEFINED;
}

static bool has_low(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    (void)j;
    if (is_low(declared(value))) return true;
    for (size_t i = 0; i < segment->n_inputs; i++)
        if (is_low(declared(segment->inputs[i]))) return true;
    return false;
}

/* Did the run have the value in higher precision than the model declares? Then the node used either
 * that or its rounding. */
static bool held_wider(const pl_blaming *j, const pl_value *value) {
    pl_datum *a = NULL;
    pl_err ignored = PL_ERR_INIT;
    if (pl_blaming_get(j, value, &a, &ignored) != PL_OK) return false;
    const bool wider = a->kind == PL_TYPE_TENSOR && pl_dtype_is_float(a->tensor->dtype) &&
                       !is_low(a->tensor->dtype);
    pl_datum_unref(a);
    return wider;
}

/* Are there inputs whose copies may have been used in different precision, each on its own? Two
 * wider ones can be mixed; a single one is covered by trying both forms. */
static bool has_copies(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    size_t n = 0;
    if (!j->a->has_copies || !has_low(j, segment, value)) return false;
    for (size_t i = 0; i < segment->n_inputs; i++) {
        const pl_value *in = segment->inputs[i];
        if (in->producer == NULL || !is_low(declared(in))) continue;
        if (!held_wider(j, in)) return true;
        n++;
    }
    return n > 1;
}

/* A Cast to low precision whose result something computes with. A runtime that has no kernel for
 * the low type computes wide and drops the pair, the model's Cast down and its own Cast up (ONNX
 * Runtime on a CPU): one rounding less. A Cast up in the model itself is different: there the model
 * asks for the rounding. */
static bool feeds_low(const pl_segment *segment, const pl_node *cast) {
    if (!pl_node_has_flag(cast, PL_OP_CAST) || cast->in[0] == NULL || cast->out[0] == NULL) {
        return false;
    }
    const pl_dtype from = declared(cast->in[0]);
    if (!is_low(declared(cast->out[0])) || !pl_dtype_is_float(from) || is_low(from)) return false;
    bool computes = false;
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_node *node = segment->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != cast->out[0]) continue;
            if (pl_node_has_flag(node, PL_OP_CAST)) return false;
            computes = true;
        }
    }
    return computes;
}

enum { CHAIN_MAX = 8 }; /* nodes between a weight and its Cast */

static bool is_constant(const pl_value *value, int depth) {
    if (value == NULL || (value->init != NULL && !value->is_input)) return true;
    const pl_node *node = value->producer;
    if (node == NULL || depth == 0) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!is_constant(node->in[i], depth - 1)) return false;
    return true;
}

static bool is_passed_on(const pl_segment *segment, const pl_node *node, unsigned bits) {
    if ((bits & (WIDE_CASTS | WIDE_DATA_CASTS)) == 0 || !feeds_low(segment, node)) return false;
    return (bits & WIDE_CASTS) != 0 || !is_constant(node->in[0], CHAIN_MAX);
}

static bool has_wide(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    (void)j;
    (void)value;
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (feeds_low(segment, segment->nodes[i])) return true;
    return false;
}

/* A dot product followed by something that can be folded into its weights. */
static bool has_folding(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    bool dot = false;
    if (!has_low(j, segment, value)) return false;
    for (size_t i = 0; i < segment->n_nodes; i++) {
        if (dot && segment->nodes[i]->def->folds != NULL) return true;
        dot = dot || segment->nodes[i]->def->weights != PL_WEIGHTS_NONE;
    }
    return false;
}

static bool has_wide_folding(const pl_blaming *j, const pl_segment *segment,
                             const pl_value *value) {
    return has_wide(j, segment, value) && has_folding(j, segment, value);
}

static bool has_bias(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    (void)j;
    (void)value;
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (pl_bias_is_quantised(segment->nodes[i])) return true;
    return false;
}

static bool has_misled_bias(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    (void)value;
    return pl_bias_misled(j, segment) != NULL;
}

/* CPUs with float16 arithmetic have kernels that add in it (ONNX Runtime on ARM64: convolutions,
 * pools and Softmax). What its other kernels compute is wider in the recording (f16_only). */
static bool adds_f16(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    if (!j->a->adds_f16 || !has_low(j, segment, value)) return false;
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (pl_node_has_flag(segment->nodes[i], PL_OP_REDUCTION | PL_OP_SUMS)) return true;
    return false;
}

static bool adds_f16_folded(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    return adds_f16(j, segment, value) && has_folding(j, segment, value);
}

static bool has_open(const pl_blaming *j, const pl_segment *segment, const pl_value *value) {
    (void)j;
    (void)value;
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (pl_node_has_flag(segment->nodes[i], PL_OP_OPEN)) return true;
    return false;
}

const char pl_excuse_otherwise[] = "ONNX leaves this open; this reading is also valid";

static const excuse_row rows[] = {
    { pl_excuse_otherwise, OTHERWISE, has_open, false },
    { "inputs rounded to the declared type", ROUND_INPUTS, has_low, false },
    { "a low-precision copy of an input", ALLOW_INPUTS, has_copies, false },
    { "weights rounded after folding", ROUND_INPUTS | ALLOW_INPUTS | FOLDED_WEIGHTS, has_folding,
      false },
    { "bias quantised by the runtime", QUANTISED_BIAS, has_bias, false },
    { "bias quantised with a scale that is to blame", FITTED_BIAS, has_misled_bias, false },
    { "computed wider than declared", WIDE_CASTS, has_wide, false },
    { "computed wider than declared, except for weights", WIDE_DATA_CASTS, has_wide, false },
    { "computed wider than declared, weights rounded after folding",
      ROUND_INPUTS | ALLOW_INPUTS | FOLDED_WEIGHTS | WIDE_CASTS, has_wide_folding, false },
    { "added in float16 by this CPU's kernels", ROUND_INPUTS | F16_SUMS, adds_f16, true },
    { "added in float16 by this CPU's kernels, weights rounded after folding",
      ROUND_INPUTS | ALLOW_INPUTS | FOLDED_WEIGHTS | F16_SUMS, adds_f16_folded, true },
};

/* ---- replaying a segment with an allowance ---- */

/* c |x| + floor, as a bound. */
static pl_status bound_of(const pl_tensor *x, double c, double least, pl_tensor **out,
                          pl_err *err) {
    PL_TRY(pl_tensor_cast(x, PL_F64, out, err));
    double *e = (*out)->data;
    for (int64_t i = 0; i < (*out)->n_elements; i++)
        e[i] = c * fabs(e[i]) + least;
    return PL_OK;
}

static pl_status put_edge(pl_blaming *j, pl_replay *r, const pl_value *value, unsigned bits,
                          pl_err *err) {
    pl_datum *a = NULL;
    pl_tensor *bound = NULL;
    pl_status st = PL_OK;
    if (value->is_input && value->producer == NULL) {
        size_t i = 0;
        while (i < j->model->graph->n_inputs && j->model->graph->inputs[i] != value)
            i++;
        if (i == j->model->graph->n_inputs || j->in[i] == NULL) return PL_OK;
        a = pl_datum_ref(j->in[i]);
    } else {
        PL_TRY(pl_blaming_get(j, value, &a, err));
    }
    const pl_dtype type = declared(value);
    if (a->kind == PL_TYPE_TENSOR && is_low(type)) {
        pl_tensor *t = NULL;
        if ((bits & (ROUND_INPUTS | NATIVE)) != 0 && a->tensor->dtype != type) {
            PL_TRY_GOTO(done, st, pl_tensor_cast(a->tensor, type, &t, err));
            pl_datum_unref(a);
            a = NULL;
            PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(t, &a, err));
        }
        if ((bits & ALLOW_INPUTS) != 0 && value->producer != NULL) {
            PL_TRY_GOTO(done, st,
                        bound_of(a->tensor, pl_dtype_unit_roundoff(type), 0, &bound, err));
        }
    }
    st = pl_replay_put(r, value, a, bound, err);
done:
    pl_datum_unref(a);
    pl_tensor_unref(bound);
    return st;
}

static double scale_of(const pl_node *node, int64_t channel) {
    const double k = node->def->folds(node, channel);
    return k > 0 && isfinite(k) ? k : 1;
}

/* Half a step of fp16 below its smallest normal number. */
#define HALF_STEP 0x1p-25

/* Weights of a convolution that something is folded into: a subnormal folded weight is off by half
 * a step, so the weight is off by that over the scale of its channel. */
static void add_subnormal(const pl_segment *segment, const pl_node *node, const pl_tensor *w,
                          double *e) {
    const pl_node *scale = NULL;
    for (size_t i = 0; i < segment->n_nodes && scale == NULL; i++) {
        const pl_node *next = segment->nodes[i];
        if (next->n_in > 1 && next->in[0] == node->out[0] && next->def->folds != NULL) scale = next;
    }
    const bool by_channel = scale != NULL && node->def->weights == PL_WEIGHTS_ROWS && w->rank > 1;
    const int64_t each = by_channel && w->dims[0] > 0 ? w->n_elements / w->dims[0] : 0;
    for (int64_t i = 0; i < w->n_elements; i++)
        e[i] += HALF_STEP / (each > 0 ? scale_of(scale, i / each) : 1);
}

pl_status pl_blaming_put_edges(pl_blaming *j, pl_replay *r, const pl_segment *segment,
                               pl_err *err) {
    for (size_t i = 0; i < segment->n_inputs; i++)
        PL_TRY(put_edge(j, r, segment->inputs[i], 0, err));
    return PL_OK;
}

/* Float weights of the segment may have been rounded once more. */
static pl_status put_weights(pl_replay *r, const pl_segment *segment, pl_err *err) {
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_node *node = segment->nodes[i];
        for (uint32_t k = 1; k < node->n_in; k++) {
            const pl_value *w = node->in[k];
            if (w == NULL || w->init == NULL || w->is_input || !is_low(w->init->dtype)) continue;
            pl_tensor *bound = NULL;
            pl_datum *d = NULL;
            const double u = pl_dtype_unit_roundoff(w->init->dtype);
            PL_TRY(bound_of(w->init, u, 0, &bound, err));
            if (w->init->dtype == PL_F16) add_subnormal(segment, node, w->init, bound->data);
            pl_status st = pl_datum_of_tensor_take(pl_tensor_ref(w->init), &d, err);
            if (st == PL_OK) st = pl_replay_put(r, w, d, bound, err);
            pl_datum_unref(d);
            pl_tensor_unref(bound);
            PL_TRY(st);
        }
    }
    return PL_OK;
}

/* Skips the Cast: its result is its input, with the same bound. */
static pl_status pass_on(pl_replay *r, const pl_node *cast, pl_err *err) {
    const pl_datum *d = pl_replay_get(r, cast->in[0]);
    pl_tensor *bound = NULL;
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return PL_OK;
    if (pl_replay_bound(r, cast->in[0]) != NULL)
        PL_TRY(pl_tensor_cast(pl_replay_bound(r, cast->in[0]), PL_F64, &bound, err));
    pl_datum *same = pl_datum_ref(d); /* put may free what it comes from */
    const pl_status st = pl_replay_put(r, cast->out[0], same, bound, err);
    pl_datum_unref(same);
    pl_tensor_unref(bound);
    return st;
}

static pl_status replay_segment(pl_blaming *j, const pl_segment *segment, unsigned bits,
                                pl_replay **out, pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic,
                                        .native = (bits & NATIVE) != 0,
                                        .u_acc = (bits & F16_SUMS) != 0 ? 0x1p-11 : 0,
                                        .otherwise = (bits & OTHERWISE) != 0 };
    PL_TRY(pl_replay_new(j->model, &options, out, err));
    for (size_t i = 0; i < segment->n_inputs; i++)
        PL_TRY(put_edge(j, *out, segment->inputs[i], bits, err));
    if ((bits & FOLDED_WEIGHTS) != 0) PL_TRY(put_weights(*out, segment, err));
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_node *node = segment->nodes[i];
        if ((bits & QUANTISED_BIAS) != 0 && pl_bias_is_quantised(node)) {
            PL_TRY(pl_bias_round(j, *out, node, err));
        }
        PL_TRY(pl_replay_node(*out, node, err));
        if (is_passed_on(segment, node, bits)) PL_TRY(pass_on(*out, node, err));
    }
    return PL_OK;
}

static const pl_tensor *result_of(const pl_replay *r, const pl_value *value) {
    const pl_datum *d = pl_replay_get(r, value);
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

/* q of the naive run at the model's own precision; 0 when not available. If inputs had to be
 * rounded for it, the replay it is measured against uses the rounded inputs, too. */
static pl_status naive_q(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                         pl_dtype native, double *q, pl_err *err) {
    pl_replay *r = NULL, *rounded = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error e;
    pl_status st = PL_OK;
    *q = 0;
    bool ran = replay_segment(j, segment, NATIVE, &r, &trouble) == PL_OK;
    if (ran && has_low(j, segment, value)) {
        ran = replay_segment(j, segment, ROUND_INPUTS, &rounded, &trouble) == PL_OK;
    }
    const pl_replay *against = rounded == NULL ? j->local : rounded;
    if (ran && result_of(r, value) != NULL && result_of(against, value) != NULL) {
        st =
            pl_local_error_measure(j->options->pool, result_of(r, value), result_of(against, value),
                                   pl_replay_bound(against, value), native, &e, err);
        if (st == PL_OK && e.kind == PL_LOCAL_MEASURED) *q = e.q;
    }
    pl_replay_free(r);
    pl_replay_free(rounded);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

/* ---- NaN compared with numbers ---- */

static bool has_nan(const pl_tensor *t) {
    if (t->dtype == PL_STRING || !pl_dtype_is_float(t->dtype)) return false;
    for (int64_t i = 0; i < t->n_elements; i++)
        if (isnan(pl_tensor_get_f64(t, i))) return true;
    return false;
}

static bool has_nan_rule(const pl_segment *segment, pl_nan rule) {
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (segment->nodes[i]->def->nan == rule) return true;
    return false;
}

/* ONNX does not say whether NaN or a number is the larger one (MaxPool-12, Max-13, Clip-13,
 * TopK-11): either may be the result, and what is selected or sorted by it is undefined. *e becomes
 * the error over elements where both are numbers, or neither is. */
static pl_status forgive_nan(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                             const pl_tensor *a, pl_local_error *e, pl_err *err) {
    const pl_tensor *d = result_of(j->local, value);
    bool nan_in = false;
    const bool sorts = has_nan_rule(segment, PL_NAN_ANY);
    const bool either = e->kind == PL_LOCAL_NONFINITE && has_nan_rule(segment, PL_NAN_EITHER);
    if (d == NULL || !(sorts || either)) return PL_OK;
    for (size_t i = 0; i < segment->n_inputs && !nan_in; i++) {
        pl_datum *in = NULL;
        if (segment->inputs[i]->producer == NULL) continue;
        PL_TRY(pl_blaming_get(j, segment->inputs[i], &in, err));
        nan_in = in->kind == PL_TYPE_TENSOR && has_nan(in->tensor);
        pl_datum_unref(in);
    }
    if (!nan_in) return PL_OK;
    if (sorts) e->q = 0;
    if (sorts) return PL_OK;
    pl_tensor *same = NULL;
    PL_TRY(pl_tensor_cast(d, PL_F64, &same, err));
    double *x = same->data;
    for (int64_t i = 0; i < same->n_elements; i++) {
        const double held = pl_tensor_get_f64(a, i);
        if (isnan(held) != isnan(x[i])) x[i] = held;
    }
    const pl_status st =
        pl_local_error_measure(j->options->pool, a, same, pl_replay_bound(j->local, value),
                               pl_blaming_native(j, value, a), e, err);
    pl_tensor_unref(same);
    return st;
}

/* A value between recorded ones may leave the range of its type where fp64 does not (the Exp of a
 * LogSumExp in fp16): if the model's own precision gives the same NaN or Inf, it is not the
 * runtime's fault. */
static pl_status forgive_overflow(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                  const pl_tensor *a, pl_local_error *e, pl_err *err) {
    const pl_tensor *d = result_of(j->local, value);
    pl_replay *r = NULL;
    pl_tensor *same = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = PL_OK;
    if (d == NULL || e->kind != PL_LOCAL_NONFINITE) return PL_OK;
    const bool ran = replay_segment(j, segment, NATIVE, &r, &trouble) == PL_OK;
    const pl_tensor *native = ran ? result_of(r, value) : NULL;
    if (native == NULL || !pl_tensor_same_shape(native, a)) goto done;
    PL_TRY_GOTO(done, st, pl_tensor_cast(d, PL_F64, &same, err));
    double *x = same->data;
    for (int64_t i = 0; i < same->n_elements; i++) {
        const double held = pl_tensor_get_f64(a, i), own = pl_tensor_get_f64(native, i);
        if (!isfinite(held) && (held == own || (isnan(held) && isnan(own)))) x[i] = held;
    }
    st = pl_local_error_measure(j->options->pool, a, same, pl_replay_bound(j->local, value),
                                pl_blaming_native(j, value, a), e, err);
done:
    pl_replay_free(r);
    pl_tensor_unref(same);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

pl_status pl_excuse_shape(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, pl_local_error *e, const char **excuse, pl_err *err) {
    pl_replay *r = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error again;
    pl_status st = PL_OK;
    for (size_t i = 0; i < segment->n_inputs; i++) { /* explained by an input of the wrong shape */
        const pl_judgement *in = &j->out->of[segment->inputs[i]->id];
        if (in->judged && in->local_class == PL_LOCAL_SHAPE) return PL_OK;
    }
    const bool ran = replay_segment(j, segment, NATIVE, &r, &trouble) == PL_OK;
    const pl_tensor *own = ran ? result_of(r, value) : NULL;
    if (own != NULL && pl_tensor_same_shape(own, a)) {
        st = pl_local_error_measure(j->options->pool, a, own, NULL, pl_blaming_native(j, value, a),
                                    &again, err);
        if (st == PL_OK && again.kind == PL_LOCAL_MEASURED && again.q <= PL_Q_UNUSUAL) {
            *e = again;
            *excuse = "the model's own precision picks the same";
        }
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

/* Replaces e by the row's error if that is smaller. */
static pl_status try_row(pl_blaming *j, const excuse_row *row, const pl_segment *segment,
                         const pl_value *value, const pl_tensor *a, pl_local_error *e, bool *helped,
                         pl_err *err) {
    pl_replay *r = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error again;
    pl_status st = PL_OK;
    *helped = false;
    const bool ran = ((row->bits & FITTED_BIAS) != 0
                          ? pl_bias_replay_fitted(j, segment, value, a, &r, &trouble)
                          : replay_segment(j, segment, row->bits, &r, &trouble)) == PL_OK;
    if (ran && result_of(r, value) != NULL) {
        st = pl_local_error_measure(j->options->pool, a, result_of(r, value),
                                    pl_replay_bound(r, value), pl_blaming_native(j, value, a),
                                    &again, err);
        *helped = st == PL_OK && again.q < e->q;
        if (*helped) *e = again;
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

pl_status pl_excuse_try(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                        const pl_tensor *a, pl_local_error *e, double *q_ref, const char **excuse,
                        pl_err *err) {
    const pl_dtype native = pl_blaming_native(j, value, a);
    *excuse = "";
    PL_TRY(forgive_nan(j, segment, value, a, e, err));
    if (e->q <= PL_Q_UNUSUAL) {
        *excuse = "NaN against a number: either may be the maximum";
        return PL_OK;
    }
    PL_TRY(forgive_overflow(j, segment, value, a, e, err));
    if (e->q <= PL_Q_UNUSUAL) {
        *excuse = "the model's own precision overflows there too";
        return PL_OK;
    }
    PL_TRY(naive_q(j, segment, value, native, q_ref, err));
    const double plain = fmax(1, *q_ref);
    if (e->q / plain <= PL_Q_UNUSUAL) {
        *excuse = "plain summation in the model's own precision has the same error";
        return PL_OK;
    }
    /* The first excuse that helps may do so by chance, so all are tried and the best one counts. */
    const char *best = "";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && e->q / plain > PL_Q_UNUSUAL; i++) {
        bool helped = false;
        const pl_local_error before = *e;
        if (!rows[i].applies(j, segment, value)) continue;
        if (rows[i].f16_only && a->dtype != PL_F16) continue;
        PL_TRY(try_row(j, &rows[i], segment, value, a, e, &helped, err));
        if (helped && (rows[i].bits & OTHERWISE) != 0 && e->q / plain > PL_Q_CULPRIT) {
            *e = before; /* neither reading fits: judge by the first */
            continue;
        }
        if (helped) best = rows[i].name;
    }
    if (e->q / plain <= PL_Q_CULPRIT) *excuse = best;
    return PL_OK;
}

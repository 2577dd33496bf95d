/* The rules of the gate. */
#include "flows/check/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "metric/overflow.h"
#include "metric/same.h"
#include "ops/op.h"

enum { DEPTH_MAX = 32 };
/* How much further from gold than the reference correct code may be. Measured on 30 real models:
 * ONNX Runtime and jit stay below 4, except for single-element outputs where the reference happens
 * to be very close. */
static const double NOISE = 16;
static const double MOVES = 4;
/* Relative to the rms of the output; those exceptions stay below 2e-6 in float32. */
static const double floors[PL_PRECISION_COUNT] = {
    [PL_PRECISION_F64] = 1e-13, [PL_PRECISION_F32] = 1e-5,   [PL_PRECISION_F16] = 2e-3,
    [PL_PRECISION_BF16] = 2e-2, [PL_PRECISION_F8E4M3] = 0.1, [PL_PRECISION_F8E5M2] = 0.2,
    [PL_PRECISION_F4] = 0.5,    [PL_PRECISION_INT16] = 1e-3, [PL_PRECISION_INT8] = 0.1,
    [PL_PRECISION_INT4] = 0.5,  [PL_PRECISION_INT2] = 1,     [PL_PRECISION_EXACT] = 0,
};

/* Relative to an output's size: below this no output fails by figures without a culprit. */
static const double OUTPUT_TOL = 1e-4;

double pl_accuracy_output_tol(const pl_accuracy *a) {
    return isnan(a->tol) ? OUTPUT_TOL : a->tol;
}

bool pl_accuracy_output_fails(const pl_accuracy *a, const pl_accuracy_figures *f) {
    pl_output_facts facts = *f;
    facts.tol = pl_accuracy_output_tol(a);
    return pl_verdict_output_fails(&facts);
}

double pl_accuracy_floor(pl_precision precision) {
    return floors[precision];
}

void pl_accuracy_init(pl_accuracy *a) {
    *a = (pl_accuracy){ .profile = PL_PROFILE_PLUMB,
                        .tol = (double)NAN,
                        .precision = PL_PRECISION_F64,
                        .floats = PL_PRECISION_F64 };
    pl_same_options_init(&a->same);
}

pl_status pl_accuracy_read(const pl_accuracy_options *o, pl_accuracy *a, pl_err *err) {
    pl_accuracy_init(a);
    if (o->profile != NULL && o->profile[0] != '\0' && !pl_profile_parse(o->profile, &a->profile))
        return pl_fail(err, PL_E_USAGE, "profile is '%s', expected plumb or torch", o->profile);
    if (o->same != NULL && o->same[0] != '\0') {
        PL_TRY(pl_same_options_parse(o->same, &a->same, err));
    }
    if (o->tol > 0) a->tol = o->tol;
    if (o->tol > 0 && a->profile == PL_PROFILE_TORCH) a->same.tol = o->tol;
    a->strict = o->strict;
    return PL_OK;
}

static void check_init(pl_accuracy_check *c) {
    memset(c, 0, sizeof(*c));
    c->rule = "none";
    c->same = true;
    c->precision = PL_PRECISION_F64;
    c->ref_error = c->res_error = c->allowed = c->multiplier = c->tol = (double)NAN;
    c->res_largest = c->largest_allowed = (double)NAN;
}

__attribute__((format(printf, 3, 4))) static void fail(pl_accuracy_check *c, const char *rule,
                                                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof(c->why), format, args);
    va_end(args);
    c->same = false;
    c->rule = rule;
}

static bool is_floating(pl_dtype d) {
    return pl_dtype_is_float(d) || pl_dtype_class_of(d) == PL_CLASS_COMPLEX;
}

/* Enumerators go from fine to coarse within floats and within codes. */
static pl_precision coarser(pl_precision a, pl_precision b) {
    return a > b ? a : b;
}

pl_precision pl_model_precision(const pl_model *model, bool *flips, pl_precision *floats) {
    const pl_graph *graph = model->graph;
    pl_precision p = PL_PRECISION_F64;
    *flips = false;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_type *type = graph->values[i]->type;
        if (graph->values[i]->producer == NULL || type == NULL || type->kind != PL_TYPE_TENSOR)
            continue;
        const pl_dtype d = type->dtype;
        if (pl_dtype_is_integer(d) && pl_dtype_bits(d) <= 8) *flips = true;
        if (pl_node_rounds_input(graph->values[i]->producer)) *flips = true;
        if (pl_dtype_is_float(d)) p = coarser(p, pl_precision_of(d, d));
    }
    *floats = p;
    return *flips ? PL_PRECISION_INT8 : p;
}

/* Floats become codes here: a rounding error may become a step. */
static bool rounds_to_codes(const pl_node *node) {
    bool reads_floats = false, makes_codes = false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_type *t = node->in[i] == NULL ? NULL : node->in[i]->type;
        reads_floats =
            reads_floats || (t != NULL && t->kind == PL_TYPE_TENSOR && pl_dtype_is_float(t->dtype));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_type *t = node->out[i] == NULL ? NULL : node->out[i]->type;
        makes_codes =
            makes_codes || (t != NULL && t->kind == PL_TYPE_TENSOR &&
                            pl_dtype_is_integer(t->dtype) && pl_dtype_bits(t->dtype) <= 8);
    }
    return (reads_floats && makes_codes) || pl_node_rounds_input(node);
}

pl_precision pl_output_precision(const pl_model *model, const pl_value *output, const bool *known,
                                 bool *flips, pl_precision *floats) {
    bool *seen = pl_calloc((size_t)model->n_values + 1, sizeof(bool));
    const pl_value **queue = pl_calloc((size_t)model->n_values + 1, sizeof(*queue));
    pl_precision p = PL_PRECISION_F64;
    bool whole = seen == NULL || queue == NULL || output == NULL;
    size_t n = 0;
    *flips = false;
    if (!whole) {
        queue[n++] = output;
        seen[output->id] = true;
    }
    for (size_t at = 0; at < n && !whole; at++) {
        const pl_node *node = queue[at]->producer;
        const pl_type *t = queue[at]->type;
        if (node == NULL || (at > 0 && known != NULL && known[queue[at]->id])) continue;
        if (t != NULL && t->kind == PL_TYPE_TENSOR && pl_dtype_is_float(t->dtype))
            p = coarser(p, pl_precision_of(t->dtype, t->dtype));
        *flips = *flips || rounds_to_codes(node);
        whole = pl_node_has_body(node); /* values captured by a body are not listed */
        for (uint32_t i = 0; i < node->n_in && !whole; i++) {
            if (node->in[i] == NULL || seen[node->in[i]->id]) continue;
            seen[node->in[i]->id] = true;
            queue[n++] = node->in[i];
        }
    }
    pl_free(seen);
    pl_free(queue);
    if (whole) return pl_model_precision(model, flips, floats);
    *floats = p;
    return *flips ? PL_PRECISION_INT8 : p;
}

/* ---- tensors, profile plumb ---- */

typedef struct triple {
    const pl_tensor *ref, *res, *gold; /* gold may be NULL */
} triple;

static double rms_of(const pl_accumulators *acc) {
    const double rms =
        acc->n_finite > 0 ? ldexp(sqrt(acc->sum_rr / (double)acc->n_finite), (int)acc->v_scale) : 0;
    return rms > 0 ? rms : 1;
}

static double rmse_of(const pl_accumulators *acc) {
    return pl_metric_find("rmse")->value(acc);
}

/* What the floats allow; flipped codes must be justified (pl_accuracy_settle). */
static pl_precision without_flips(const pl_accuracy *a, pl_precision precision) {
    return a->flips && precision >= PL_PRECISION_INT16 ? a->floats : precision;
}

/* Judges against gold, by the errors `of_ref` and `of_res`. */
static void judge_by_gold(const pl_accuracy *a, const pl_accumulators *of_ref,
                          const pl_accumulators *of_res, pl_accuracy_check *c) {
    const double rms = rms_of(of_res);
    const double least = floors[without_flips(a, c->precision)] * rms;
    c->ref_error = rmse_of(of_ref);
    c->res_error = rmse_of(of_res);
    c->multiplier = NOISE;
    c->tol = least;
    c->allowed = NOISE * c->ref_error + least + a->absolute;
    c->rule = "rmse";
    c->res_largest = of_res->max_abs;
    c->largest_allowed = NOISE * of_ref->max_abs + 8 * least + a->absolute;
    if (!(c->res_error <= c->allowed)) {
        fail(c, "rmse", "error against fp64 %.3g, allowed %.3g", c->res_error, c->allowed);
    } else if (!(of_res->max_abs <= c->largest_allowed)) {
        fail(c, "largest", "element %lld is %.9g, %.9g in fp64: off by %.3g, allowed %.3g",
             (long long)of_res->max_abs_index, of_res->max_abs_a, of_res->max_abs_r,
             of_res->max_abs, c->largest_allowed);
    }
}

static void say_nonfinite(const pl_accumulators *acc, pl_accuracy_check *c) {
    const int64_t n = acc->n_nan_a + acc->n_nan_r + acc->n_inf_a + acc->n_inf_r + acc->n_inf_sign;
    fail(c, "nonfinite", "NaN or Inf on one side only at %lld element%s, first at %lld",
         (long long)n, pl_plural((uint64_t)n), (long long)acc->nonfinite_index);
}

static pl_status judge_by_reference(const pl_accuracy *a, const triple *t, pl_accuracy_check *c,
                                    pl_err *err) {
    const pl_judge judge = { .profile = PL_PROFILE_PLUMB,
                             .tol = a->tol,
                             .metric = pl_metric_find("psnr") };
    const pl_judge_pair pair = {
        .value = "",
        .op = "",
        .precision = c->precision,
        .dtype = t->res->dtype,
        .absolute = a->absolute,
    };
    pl_judged judged;
    PL_TRY(pl_judge_tensors(&judge, a->pool, &pair, t->res, t->ref, &judged, err));
    c->rule = "tolerance";
    c->tol = pl_judge_tol(&judge, c->precision);
    if (judged.rule_fails) fail(c, "tolerance", "%s", judged.reason);
    return PL_OK;
}

/* Positions of NaN and Inf must be as in the reference, or as in gold if the reference differs from
 * it. */
static pl_status judge_floats(const pl_accuracy *a, const triple *t, pl_accuracy_check *c,
                              pl_err *err) {
    const bool gold = t->gold != NULL && isnan(a->tol) && pl_tensor_same_shape(t->gold, t->res);
    pl_accumulators of_ref, of_res;
    const int64_t n_over = t->gold != NULL && c->acc.n_finite < c->acc.n
                               ? pl_overflow_count(t->res, t->gold, true)
                               : 0;
    if (n_over > 0 && c->acc.nonfinite_index < 0) {
        fail(c, "overflow",
             "NaN or Inf in %lld of %lld elements that are finite in fp64; the reference has them "
             "too: the model overflows its own types",
             (long long)n_over, (long long)c->acc.n);
        return PL_OK;
    }
    if (pl_accumulators_class(&c->acc) == PL_PAIR_EXACT) {
        c->rule = "exact";
        return PL_OK;
    }
    if (gold) {
        PL_TRY(pl_accumulate(a->pool, t->ref, t->gold, &of_ref, err));
        PL_TRY(pl_accumulate(a->pool, t->res, t->gold, &of_res, err));
    }
    if (c->acc.nonfinite_index >= 0) {
        const bool better = gold && of_res.nonfinite_index < 0 && of_ref.nonfinite_index >= 0;
        if (!better) {
            say_nonfinite(&c->acc, c);
            return PL_OK;
        }
        judge_by_gold(a, &of_ref, &of_res, c);
        if (c->same) c->rule = "better than the reference";
        return PL_OK;
    }
    if (!gold) return judge_by_reference(a, t, c, err);
    judge_by_gold(a, &of_ref, &of_res, c);
    return PL_OK;
}

static void say_unequal(pl_accuracy_check *c) {
    fail(c, "equality", "%lld of %lld elements differ, first at %lld", (long long)c->acc.n_mismatch,
         (long long)c->acc.n, (long long)c->acc.mismatch_index);
}

/* Is every element equal to the reference, or near fp64 where that differs from the reference? */
static pl_status is_ref_or_gold(const triple *t, bool *is, pl_err *err) {
    enum { RUN = 512 };
    double x[RUN], r[RUN], g[RUN];
    const pl_dtype d = t->ref->dtype;
    const size_t n_bytes = pl_dtype_bytes(d);
    pl_tensor *c[3] = { NULL };
    pl_status st = pl_tensor_contiguous(t->res, &c[0], err);
    if (st == PL_OK) st = pl_tensor_contiguous(t->ref, &c[1], err);
    if (st == PL_OK) st = pl_tensor_contiguous(t->gold, &c[2], err);
    *is = st == PL_OK;
    for (int64_t at = 0; *is && at < c[0]->n_elements; at += RUN) {
        const size_t n = (size_t)(c[0]->n_elements - at < RUN ? c[0]->n_elements - at : RUN);
        const size_t from = (size_t)at * n_bytes;
        pl_load_f64(d, (const char *)c[0]->data + from, x, n);
        pl_load_f64(d, (const char *)c[1]->data + from, r, n);
        pl_load_f64(d, (const char *)c[2]->data + from, g, n);
        for (size_t i = 0; i < n && *is; i++) {
            const double apart = fabs(r[i] - g[i]);
            const size_t e = from + i * n_bytes; /* 64 bits do not fit into a double */
            *is =
                memcmp((const char *)c[0]->data + e, (const char *)c[1]->data + e, n_bytes) == 0 ||
                (apart > 0 && x[i] >= fmin(r[i], g[i]) - apart && x[i] <= fmax(r[i], g[i]) + apart);
        }
    }
    for (size_t i = 0; i < 3; i++)
        pl_tensor_unref(c[i]);
    return st;
}

/* Integers and bools when not strict: one code of 8 bits that was a float is rounding; an element
 * where fp64 differs from the reference does not count. */
static pl_status judge_codes(const pl_accuracy *a, const triple *t, pl_accuracy_check *c,
                             pl_err *err) {
    const pl_dtype d = t->ref->dtype;
    bool either = false;
    /* With gold, pl_accuracy_settle checks whether rounding flips as many. */
    if (a->flips && pl_dtype_is_integer(d) && pl_dtype_bits(d) <= 8 && c->acc.max_abs <= 1 &&
        (t->gold == NULL || a->floats >= a->precision))
        return PL_OK;
    say_unequal(c);
    if (t->gold == NULL || t->gold->dtype != d || !pl_tensor_same_shape(t->gold, t->ref) ||
        d == PL_STRING)
        return PL_OK;
    PL_TRY(is_ref_or_gold(t, &either, err));
    if (!either) return PL_OK;
    c->same = true;
    c->rule = "fp64 rounds differently";
    return PL_OK;
}

static pl_status judge_tensors(const pl_accuracy *a, const triple *t, pl_accuracy_check *c,
                               pl_err *err) {
    char x[100], y[100];
    const pl_dtype dr = t->ref->dtype, ds = t->res->dtype;
    const bool fits = dr == ds || (a->any_float && pl_judge_types_fit(ds, dr));
    if (!fits || !pl_tensor_same_shape(t->ref, t->res)) {
        fail(c, fits ? "shape" : "dtype", "is %s, expected %s",
             pl_tensor_describe(t->res, x, sizeof(x)), pl_tensor_describe(t->ref, y, sizeof(y)));
        return PL_OK;
    }
    c->precision = coarser(a->precision, pl_precision_of(ds, dr));
    if (!is_floating(dr)) c->precision = pl_precision_of(ds, dr);
    PL_TRY(pl_accumulate(a->pool, t->res, t->ref, &c->acc, err));
    c->measured = true;
    if (is_floating(dr)) return judge_floats(a, t, c, err);
    c->rule = "equality";
    if (c->acc.n_mismatch > 0 && !a->strict) return judge_codes(a, t, c, err);
    if (c->acc.n_mismatch > 0) say_unequal(c);
    return PL_OK;
}

/* ---- all kinds ---- */

static pl_status walk(const pl_accuracy *a, const pl_datum *ref, const pl_datum *res,
                      const pl_datum *gold, int depth, pl_accuracy_check *c, pl_err *err) {
    char x[100], y[100];
    check_init(c);
    if (depth > DEPTH_MAX) return pl_fail(err, PL_E_LIMIT, "data nested deeper than %d", DEPTH_MAX);
    if (ref->kind != res->kind || ref->n_items != res->n_items) {
        fail(c, "structure", "is %s, expected %s", pl_datum_describe(res, x, sizeof(x)),
             pl_datum_describe(ref, y, sizeof(y)));
        return PL_OK;
    }
    const bool with_gold = gold != NULL && gold->kind == ref->kind && gold->n_items == ref->n_items;
    if (ref->kind == PL_TYPE_TENSOR) {
        const triple t = { ref->tensor, res->tensor, with_gold ? gold->tensor : NULL };
        return judge_tensors(a, &t, c, err);
    }
    for (size_t i = 0; i < ref->n_items; i++) {
        pl_accuracy_check item;
        PL_TRY(walk(a, ref->items[i], res->items[i], with_gold ? gold->items[i] : NULL, depth + 1,
                    &item, err));
        const bool first = i == 0;
        if (item.same && !first) continue;
        *c = item;
        c->measured = false; /* it is of one item only */
        if (item.same) continue;
        char rest[sizeof(c->path)];
        snprintf(rest, sizeof(rest), "%s", item.path);
        snprintf(c->path, sizeof(c->path), "[%zu]%.100s", i, rest);
        return PL_OK;
    }
    return PL_OK;
}

/* ---- profile torch ---- */

static bool holds_floats(const pl_datum *d) {
    if (d->kind == PL_TYPE_TENSOR) return pl_dtype_is_float(d->tensor->dtype);
    for (size_t i = 0; i < d->n_items; i++)
        if (d->items[i] != NULL && holds_floats(d->items[i])) return true;
    return false;
}

static pl_status compare_torch(const pl_accuracy *a, const pl_datum *ref, const pl_datum *res,
                               const pl_datum *gold, pl_accuracy_check *c, pl_err *err) {
    pl_same_result same;
    plumb_same_options options = a->same;
    /* Without an fp64 run (a recording), PyTorch's rule would let any float pass as well. */
    if (!a->strict && (gold != NULL || !holds_floats(ref))) options.ignore_non_fp = 1;
    if (a->any_float) options.exact_dtype = 0;
    check_init(c);
    /* PyTorch's allclose broadcasts: an empty tensor is close to a row of anything. */
    if (ref->kind == PL_TYPE_TENSOR && res->kind == PL_TYPE_TENSOR &&
        !pl_tensor_same_shape(ref->tensor, res->tensor)) {
        char x[100], y[100];
        fail(c, "shape", "is %s, expected %s", pl_tensor_describe(res->tensor, x, sizeof(x)),
             pl_tensor_describe(ref->tensor, y, sizeof(y)));
        return PL_OK;
    }
    PL_TRY(pl_same(ref, res, gold, &options, &same, err));
    c->same = same.verdict == PL_SAME_YES;
    c->rule = pl_same_rule_name(same.rule);
    c->ignored = c->same && same.rule == PL_RULE_NON_FP;
    c->tol = options.tol;
    if (same.rule == PL_RULE_RMSE) {
        c->ref_error = same.ref_error;
        c->res_error = same.res_error;
        c->multiplier = same.multiplier;
        c->allowed = same.multiplier * same.ref_error + options.tol / 10;
    }
    snprintf(c->path, sizeof(c->path), "%s", same.path);
    snprintf(c->why, sizeof(c->why), "%s", same.why);
    if (!c->same && c->why[0] == '\0') snprintf(c->why, sizeof(c->why), "same() returned False");
    const bool measurable = ref->kind == PL_TYPE_TENSOR && res->kind == PL_TYPE_TENSOR &&
                            pl_tensor_same_shape(ref->tensor, res->tensor) &&
                            pl_judge_types_fit(res->tensor->dtype, ref->tensor->dtype);
    if (!measurable) return PL_OK;
    c->precision = pl_precision_of(res->tensor->dtype, ref->tensor->dtype);
    c->measured = true;
    PL_TRY(pl_accumulate(a->pool, res->tensor, ref->tensor, &c->acc, err));
    if (c->ignored && c->acc.n_mismatch == 0) c->ignored = false; /* equal anyway */
    return PL_OK;
}

pl_status pl_accuracy_excuse(const pl_accuracy *a, const pl_datum *gold, const pl_datum *moved,
                             pl_accuracy_check *c, pl_err *err) {
    pl_accumulators acc;
    if (c->same || isnan(c->largest_allowed) || gold == NULL || moved == NULL) return PL_OK;
    if (gold->kind != PL_TYPE_TENSOR || moved->kind != PL_TYPE_TENSOR ||
        !pl_tensor_same_shape(gold->tensor, moved->tensor))
        return PL_OK;
    PL_TRY(pl_accumulate(a->pool, moved->tensor, gold->tensor, &acc, err));
    if (acc.nonfinite_index >= 0) return PL_OK;
    if (!(c->res_error <= c->allowed + MOVES * rmse_of(&acc))) return PL_OK;
    if (!(c->res_largest <= c->largest_allowed + MOVES * acc.max_abs)) return PL_OK;
    c->same = true;
    c->rule = "unstable";
    snprintf(c->why, sizeof(c->why), "rounding of the inputs moves it by %.3g", rmse_of(&acc));
    return PL_OK;
}

pl_status pl_accuracy_compare(const pl_accuracy *a, const pl_datum *ref, const pl_datum *res,
                              const pl_datum *gold, pl_accuracy_check *out, pl_err *err) {
    if (a->profile == PL_PROFILE_TORCH) return compare_torch(a, ref, res, gold, out, err);
    return walk(a, ref, res, gold, 0, out, err);
}

/* The torch rule, in the order of the tests in PyTorch's same(). T1…T12 number the steps of the
 * tensor branch, R1…R7 those of the RMSE rule. */
#include "metric/same.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metric/same_int.h"
#include "metric/torch_close.h"

const char *pl_same_rule_name(pl_same_rule rule) {
    static const char *const names[PL_RULE_COUNT] = {
        "none",   "dtype",    "structure",  "non-fp", "equality", "bool",      "iou",
        "cosine", "allclose", "nan-rescue", "rmse",   "both-nan", "nonfinite", "bound"
    };
    return rule < PL_RULE_COUNT ? names[rule] : "?";
}

void pl_same_result_init(pl_same_result *out) {
    memset(out, 0, sizeof *out);
    out->index = -1;
}

void pl_same_say(pl_same_result *out, pl_same_verdict verdict, pl_same_rule rule,
                 const char *format, ...) {
    va_list args;
    va_start(args, format);
    out->verdict = verdict;
    out->rule = rule;
    vsnprintf(out->why, sizeof out->why, format, args);
    va_end(args);
}

static pl_status decide(pl_same_result *out, bool same, pl_same_rule rule) {
    out->verdict = same ? PL_SAME_YES : PL_SAME_NO;
    out->rule = rule;
    return PL_OK;
}

/* ---- RMSE ---- */
static double multiplier_for(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                             const plumb_same_options *o) {
    const int64_t n = fp64->n_elements;
    const bool larger = o->use_larger_multiplier_for_smaller_tensor != 0;
    const bool one_by_one =
        ref->rank == 4 && ref->dims[2] == 1 && ref->dims[3] == 1; /* pooled features */
    if (o->force_max_multiplier || (larger && n <= 10)) return 10;
    if (larger && n <= 500) return 8;
    if (n < 1000 || one_by_one || o->tol >= 0.02) return 3;
    return res->dtype == PL_F16 || res->dtype == PL_BF16 ? 3 : 2;
}

/* R1: res agrees with fp64 where ref is NaN: better than ref. */
static pl_status nan_rescue(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                            const plumb_same_options *o, bool *out, pl_err *err) {
    bool in_fp64, in_res, in_ref;
    *out = false;
    PL_TRY(pl_torch_has_nan(fp64, &in_fp64, err));
    PL_TRY(pl_torch_has_nan(res, &in_res, err));
    PL_TRY(pl_torch_has_nan(ref, &in_ref, err));
    if (in_fp64 || in_res || !in_ref || !pl_torch_broadcasts(fp64, res)) return PL_OK;
    pl_tensor *cast = NULL;
    PL_TRY(pl_tensor_cast(fp64, res->dtype, &cast, err));
    const pl_status st = pl_torch_allclose(cast, res, 0.04, o->equal_nan != 0, out, err);
    pl_tensor_unref(cast);
    return st;
}

static pl_status rmse_rule(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                           const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    bool rescued;
    char shape[200];
    if (!pl_torch_broadcasts(fp64, ref) || !pl_torch_broadcasts(fp64, res)) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "the fp64 reference is %s",
                    pl_tensor_describe(fp64, shape, sizeof shape));
        return PL_OK;
    }
    PL_TRY(nan_rescue(ref, res, fp64, o, &rescued, err));
    if (rescued) return decide(out, true, PL_RULE_NAN_RESCUE);
    PL_TRY(pl_torch_rmse(fp64, ref, &out->ref_error, err)); /* R2 */
    PL_TRY(pl_torch_rmse(fp64, res, &out->res_error, err)); /* R3 */
    out->multiplier = multiplier_for(ref, res, fp64, o);    /* R4 */
    if (out->res_error <= out->multiplier * out->ref_error + o->tol / 10) {
        return decide(out, true, PL_RULE_RMSE); /* R5 */
    }
    if (o->equal_nan && isnan(out->ref_error) && isnan(out->res_error)) {
        return decide(out, true, PL_RULE_BOTH_NAN); /* R6 */
    }
    pl_same_say(out, PL_SAME_NO, PL_RULE_RMSE,
                "RMSE (res-fp64): %.5f, (ref-fp64): %.5f, %s, multiplier %g, tol %g",
                out->res_error, out->ref_error, pl_tensor_describe(res, shape, sizeof shape),
                out->multiplier, o->tol);
    return PL_OK;
}

/* ---- bool, cosine ---- */
static pl_status iou_rule(const pl_tensor *ref, const pl_tensor *res, double threshold,
                          pl_same_result *out, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    pl_status st = PL_OK;
    if (!pl_tensor_same_shape(ref, res)) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "IoU of different shapes");
        return PL_OK;
    }
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(ref, &a, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(res, &b, err));
    int64_t both = 0, any = 0;
    const pl_u8 *x = a->data, *y = b->data;
    for (int64_t i = 0; i < a->n_elements; i++) {
        both += x[i] != 0 && y[i] != 0;
        any += x[i] != 0 || y[i] != 0;
    }
    const double iou = any == 0 ? 1 : (double)both / (double)any;
    decide(out, any == 0 || iou >= threshold, PL_RULE_IOU);
    if (out->verdict == PL_SAME_NO)
        pl_same_say(out, PL_SAME_NO, PL_RULE_IOU, "IoU is %.6f, below %g", iou, threshold);
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st;
}

static pl_status cosine_rule(const pl_tensor *ref, const pl_tensor *res,
                             const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    pl_status st = PL_OK;
    pl_tensor *cx = NULL, *cy = NULL, *x = NULL, *y = NULL;
    bool close = false;
    double score = 0;
    PL_TRY_GOTO(done, st, pl_tensor_cast(ref, PL_F32, &cx, err));
    PL_TRY_GOTO(done, st, pl_tensor_cast(res, PL_F32, &cy, err));
    PL_TRY_GOTO(done, st, pl_tensor_reshape(cx, 1, &cx->n_elements, &x, err));
    PL_TRY_GOTO(done, st, pl_tensor_reshape(cy, 1, &cy->n_elements, &y, err));
    if (!pl_torch_broadcasts(x, y)) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "%lld elements against %lld",
                    (long long)x->n_elements, (long long)y->n_elements);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_torch_allclose(x, y, o->tol, true, &close, err));
    if (!close) {
        PL_TRY_GOTO(done, st, pl_torch_cosine(x, y, &score, err));
        close = score >= 0.99;
    }
    decide(out, close, PL_RULE_COSINE);
    if (!close)
        pl_same_say(out, PL_SAME_NO, PL_RULE_COSINE, "cosine similarity is %.6f, below 0.99",
                    score);
done:
    pl_tensor_unref(y);
    pl_tensor_unref(x);
    pl_tensor_unref(cy);
    pl_tensor_unref(cx);
    return st;
}

/* ---- tensors ---- */
static pl_status close_rule(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                            const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    char a[100], b[100];
    bool close;
    if (!pl_torch_broadcasts(ref, res)) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "%s does not broadcast with %s",
                    pl_tensor_describe(ref, a, sizeof a), pl_tensor_describe(res, b, sizeof b));
        return PL_OK;
    }
    PL_TRY(pl_torch_allclose(ref, res, o->tol, o->equal_nan != 0, &close, err));
    if (close) return decide(out, true, PL_RULE_ALLCLOSE);                       /* T9 */
    if (fp64->dtype == PL_F64) return rmse_rule(ref, res, fp64, o, out, err);    /* T10 */
    if (o->ignore_non_fp) return decide(out, true, PL_RULE_NON_FP);              /* T11 */
    pl_same_say(out, PL_SAME_NO, PL_RULE_ALLCLOSE, "not within tol %g", o->tol); /* T12 */
    return PL_OK;
}

/* str: equality, or nothing. */
static pl_status strings_rule(const pl_tensor *ref, const pl_tensor *res,
                              const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    if (o->ignore_non_fp) return decide(out, true, PL_RULE_NON_FP);
    PL_TRY(pl_tensor_contiguous(ref, &a, err));
    const pl_status st = pl_tensor_contiguous(res, &b, err);
    if (st == PL_OK && pl_tensor_identical(a, b)) {
        decide(out, true, PL_RULE_EQUALITY);
    } else if (st == PL_OK) {
        pl_same_say(out, PL_SAME_NO, PL_RULE_EQUALITY, "strings differ");
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st;
}

static pl_status bool_rule(const pl_tensor *ref, const pl_tensor *res, const plumb_same_options *o,
                           pl_same_result *out, pl_err *err) {
    bool close;
    if (o->ignore_non_fp) return decide(out, true, PL_RULE_NON_FP);                 /* T4 */
    if (o->use_iou_for_bool) return iou_rule(ref, res, o->iou_threshold, out, err); /* T5 */
    if (!pl_torch_broadcasts(ref, res)) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "shapes do not broadcast");
        return PL_OK;
    }
    PL_TRY(pl_torch_allclose(ref, res, o->tol, o->equal_nan != 0, &close, err)); /* T6 */
    decide(out, close, PL_RULE_BOOL);
    if (!close) pl_same_say(out, PL_SAME_NO, PL_RULE_BOOL, "uint8 tensor did not match");
    return PL_OK;
}

pl_status pl_same_tensor(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                         const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    pl_same_result_init(out);
    const bool strings = ref->dtype == PL_STRING;
    if (fp64 == NULL) fp64 = ref;
    if (strings) return strings_rule(ref, res, o, out, err);
    if (res->dtype == PL_STRING) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_DTYPE, "numbers against strings");
        return PL_OK;
    }
    if (o->exact_dtype) {
        if (ref->dtype != res->dtype) { /* T3 */
            pl_same_say(out, PL_SAME_NO, PL_RULE_DTYPE, "dtype mismatch %s, %s",
                        pl_dtype_name(ref->dtype), pl_dtype_name(res->dtype));
            return PL_OK;
        }
        if (ref->dtype == PL_BOOL) return bool_rule(ref, res, o, out, err);
    }
    if (o->cos_similarity) return cosine_rule(ref, res, o, out, err); /* T7 */
    if (o->exact_dtype || ref->dtype == res->dtype) return close_rule(ref, res, fp64, o, out, err);
    pl_tensor *cast = NULL; /* T8 */
    PL_TRY(pl_tensor_cast(ref, res->dtype, &cast, err));
    const pl_status st =
        close_rule(cast, res, fp64 == ref ? ref : fp64, o, out, err); /* fp64 stays uncast */
    pl_tensor_unref(cast);
    return st;
}

/* ---- sequences, optionals, dictionaries ---- */
void pl_same_path_prepend(pl_same_result *out, const char *step) {
    char path[sizeof out->path];
    snprintf(path, sizeof path, "%s%.*s", step, (int)(sizeof path - strlen(step) - 1), out->path);
    memcpy(out->path, path, sizeof path);
}

static bool is_none(const pl_datum *d) {
    return d->kind == PL_TYPE_OPTIONAL && d->n_items == 0;
}
/* The content of an optional, which is transparent as in Python. */
static const pl_datum *unwrap(const pl_datum *d) {
    while (d != NULL && d->kind == PL_TYPE_OPTIONAL && d->n_items == 1)
        d = d->items[0];
    return d;
}

static pl_status none_rule(const pl_datum *res, const plumb_same_options *o, pl_same_result *out) {
    if (o->ignore_non_fp) return decide(out, true, PL_RULE_NON_FP);
    decide(out, is_none(res), PL_RULE_EQUALITY);
    if (!is_none(res)) pl_same_say(out, PL_SAME_NO, PL_RULE_EQUALITY, "expected nothing (None)");
    return PL_OK;
}

static pl_status same_at(const pl_datum *ref, const pl_datum *res, const pl_datum *fp64,
                         const plumb_same_options *o, int depth, pl_same_result *out, pl_err *err) {
    char a[100], b[100], step[32];
    ref = unwrap(ref);
    res = unwrap(res);
    fp64 = fp64 == NULL ? ref : unwrap(fp64);
    pl_same_result_init(out);
    if (depth > PL_SAME_DEPTH_MAX)
        return pl_fail(err, PL_E_LIMIT, "data nested deeper than %d", PL_SAME_DEPTH_MAX);
    if (is_none(ref)) return none_rule(res, o, out);
    if (ref->kind != res->kind || ref->kind != fp64->kind) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "%s against %s",
                    pl_datum_describe(ref, a, sizeof a),
                    pl_datum_describe(ref->kind != res->kind ? res : fp64, b, sizeof b));
        return PL_OK;
    }
    if (ref->kind == PL_TYPE_TENSOR)
        return pl_same_tensor(ref->tensor, res->tensor, fp64->tensor, o, out, err);
    if (ref->n_items != res->n_items || ref->n_items != fp64->n_items) {
        pl_same_say(out, PL_SAME_NO, PL_RULE_STRUCTURE, "length mismatch: %zu, %zu (fp64 %zu)",
                    ref->n_items, res->n_items, fp64->n_items);
        return PL_OK;
    }
    for (size_t i = 0; i < ref->n_items; i++) {
        PL_TRY(same_at(ref->items[i], res->items[i], fp64->items[i], o, depth + 1, out, err));
        if (out->verdict == PL_SAME_YES) continue;
        snprintf(step, sizeof step, "[%zu]", i);
        pl_same_path_prepend(out, step);
        return PL_OK;
    }
    return PL_OK;
}

pl_status pl_same(const pl_datum *ref, const pl_datum *res, const pl_datum *fp64,
                  const plumb_same_options *options, pl_same_result *out, pl_err *err) {
    return same_at(ref, res, fp64, options, 0, out, err);
}

static int entry_order(const void *x, const void *y) {
    return strcmp(((const pl_same_entry *)x)->name, ((const pl_same_entry *)y)->name);
}
static const pl_same_entry *entry_find(const pl_same_entry *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

pl_status pl_same_dict(const pl_same_entry *ref, size_t n_ref, const pl_same_entry *res,
                       size_t n_res, const pl_same_entry *fp64, size_t n_fp64,
                       const plumb_same_options *o, pl_same_result *out, pl_err *err) {
    pl_status st = PL_OK;
    pl_same_result_init(out);
    pl_same_entry *sorted = pl_calloc(n_ref + 1, sizeof *sorted);
    if (sorted == NULL) return pl_fail_memory(err, (n_ref + 1) * sizeof *sorted);
    if (n_ref > 0) memcpy(sorted, ref, n_ref * sizeof *ref);
    qsort(sorted, n_ref, sizeof *sorted, entry_order);
    bool keys = n_ref == n_res;
    for (size_t i = 0; i < n_ref && keys; i++)
        keys = entry_find(res, n_res, sorted[i].name) != NULL;
    if (!keys) {
        pl_same_say(out, PL_SAME_RAISES, PL_RULE_STRUCTURE, "the sets of names differ");
        goto done;
    }
    for (size_t i = 0; i < n_ref && st == PL_OK && out->verdict == PL_SAME_YES; i++) {
        const pl_same_entry *gold = fp64 == NULL ? NULL : entry_find(fp64, n_fp64, sorted[i].name);
        st = pl_same(sorted[i].value, entry_find(res, n_res, sorted[i].name)->value,
                     gold == NULL ? NULL : gold->value, o, out, err);
        if (st != PL_OK || out->verdict == PL_SAME_YES) continue;
        char step[100];
        snprintf(step, sizeof step, "['%.90s']", sorted[i].name);
        pl_same_path_prepend(out, step);
    }
done:
    pl_free(sorted);
    return st;
}

/* Operators that the inputs do not exercise: a Clip or Relu that never clips. A fault there cannot
 * show, and random data often misses it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "flows/analyze/analyze_int.h"
#include "ops/grad.h"

enum { FEW = 8, BLOCK = 1024 }; /* too few elements to judge a range; elements read at once */

typedef struct range {
    int64_t n, n_zero, n_negative, n_positive, n_low, n_high;
    double low, high; /* limits of the operator; NAN = none */
} range;

/* An attribute (Clip-6) or a constant input (Clip-11) of this name. */
static double limit_of(const pl_node *node, const char *name) {
    const pl_attr *attr = pl_node_attr(node, name);
    double limit = (double)NAN;
    if (attr != NULL) limit = (double)attr->f;
    for (uint32_t i = 0; i < node->n_in && node->def->in[i].name != NULL; i++) {
        const pl_tensor *t =
            strcmp(node->def->in[i].name, name) == 0 ? pl_g_known(node->in[i]) : NULL;
        if (t != NULL && t->n_elements == 1) limit = pl_tensor_get_f64(t, 0);
    }
    return fabs(limit) < 1e30 ? limit : (double)NAN; /* the largest number means no limit */
}

/* ---- what is missing, "" when nothing is; the operator's row says which of them asks ---- */

static void cut_off(const range *r, char *out, size_t n) {
    if (r->n_zero == r->n) snprintf(out, n, "returns only zeros");
    if (r->n_zero == 0) snprintf(out, n, "never clips");
}

static void two_sides(const range *r, char *out, size_t n) {
    if (r->n_negative == 0) snprintf(out, n, "never sees a negative number");
    if (r->n_positive == 0) snprintf(out, n, "never sees a positive number");
}

static void between(const range *r, char *out, size_t n) {
    const bool low = !isnan(r->low) && r->n_low == 0, high = !isnan(r->high) && r->n_high == 0;
    if (low && high) {
        snprintf(out, n, "never reaches its limits %.4g and %.4g", r->low, r->high);
    } else if (low || high) {
        snprintf(out, n, "never reaches its limit %.4g", low ? r->low : r->high);
    }
}

typedef void (*missing_fn)(const range *r, char *out, size_t n);

static const missing_fn kinds[] = { [PL_REACH_ANY] = NULL,
                                    [PL_REACH_CUT] = cut_off,
                                    [PL_REACH_SIGNS] = two_sides,
                                    [PL_REACH_UNIT] = between,
                                    [PL_REACH_LIMITS] = between };

static void count(range *r, const double *x, size_t n) {
    r->n += (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        r->n_zero += x[i] == 0;
        r->n_negative += x[i] < 0;
        r->n_positive += x[i] > 0;
        r->n_low += x[i] <= r->low;
        r->n_high += x[i] >= r->high;
    }
}

/* Stops as soon as nothing is missing, usually early. */
static void scan(const pl_tensor *t, missing_fn kind, range *r, char *missing, size_t n_missing) {
    double x[BLOCK];
    const size_t size = pl_dtype_bytes(t->dtype);
    for (int64_t at = 0; at < t->n_elements; at += BLOCK) {
        const size_t n = (size_t)(t->n_elements - at < BLOCK ? t->n_elements - at : BLOCK);
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * size, x, n);
        count(r, x, n);
        missing[0] = '\0';
        kind(r, missing, n_missing);
        if (missing[0] == '\0') return;
    }
}

pl_status pl_analysis_reach(pl_analysis *x, const pl_value *value, const pl_datum *d, pl_err *err) {
    const pl_node *node = value->producer;
    const bool generated =
        x->inputs->n_files == 0 && x->inputs->n_sets == 0 && x->inputs->n_tensors == 0;
    pl_tensor *dense = NULL;
    char missing[160] = "";
    if (!generated || node == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->n_elements < FEW ||
        !pl_dtype_is_float(d->tensor->dtype)) {
        return PL_OK;
    }
    const pl_reach reach = node->def == NULL ? PL_REACH_ANY : node->def->reach;
    if (kinds[reach] == NULL) return PL_OK;
    range r = { .low = 0, .high = 1 };
    if (reach == PL_REACH_LIMITS) {
        r.low = limit_of(node, "min");
        r.high = limit_of(node, "max");
    }
    PL_TRY(pl_tensor_contiguous(d->tensor, &dense, err));
    scan(dense, kinds[reach], &r, missing, sizeof(missing));
    pl_tensor_unref(dense);
    if (missing[0] == '\0') return PL_OK;
    if (x->n_unreached++ > 0) return PL_OK;
    x->unreached = pl_arena_printf(x->arena, "%s ('%s') %s", node->op, value->name, missing);
    return x->unreached == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_analysis_say_reach(pl_analysis *x, pl_err *err) {
    char more[60] = "";
    if (x->n_unreached == 0) return PL_OK;
    if (x->n_unreached > 1) snprintf(more, sizeof(more), " (and %zu more)", x->n_unreached - 1);
    return pl_analysis_note(x, err,
                            "random inputs do not exercise everything: %s%s; a fault there would "
                            "not show; use option 'range' or real inputs",
                            x->unreached, more);
}

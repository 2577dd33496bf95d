/* Operators whose interesting range the inputs do not reach: a Clip that never clips, a Relu that
 * never cuts off. A fault there cannot show, and random data often stays away. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "flows/analyze_int.h"

enum { FEW = 8, BLOCK = 1024 }; /* elements that say nothing about a range; read at once */

typedef struct range {
    int64_t n, n_zero, n_negative, n_positive, n_low, n_high;
    double low, high; /* limits of the operator; NAN = none */
} range;

static const pl_tensor *constant_of(const pl_node *node, uint32_t i) {
    const pl_value *value = i < node->n_in ? node->in[i] : NULL;
    if (value == NULL) return NULL;
    if (value->producer == NULL) return value->is_input ? NULL : value->init;
    if (strcmp(value->producer->op, "Constant") != 0) return NULL;
    const pl_attr *attr = pl_node_attr(value->producer, "value");
    return attr == NULL ? NULL : attr->tensor;
}

/* Clip-6 has attributes, Clip-11 inputs. */
static double limit_of(const pl_node *node, uint32_t i, const char *name) {
    const pl_tensor *t = constant_of(node, i);
    const pl_attr *attr = pl_node_attr(node, name);
    double limit = (double)NAN;
    if (attr != NULL) limit = (double)attr->f;
    if (t != NULL && t->n_elements == 1) limit = pl_tensor_get_f64(t, 0);
    return fabs(limit) < 1e30 ? limit : (double)NAN; /* the largest number is none */
}

/* ---- one row for each kind of operator: what is missing, "" when nothing is ---- */

static void cut_off(const range *r, char *out, size_t n) {
    if (r->n_zero == r->n) snprintf(out, n, "gives zeros only");
    if (r->n_zero == 0) snprintf(out, n, "never cuts off");
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

typedef struct row {
    const char *op;
    void (*missing)(const range *r, char *out, size_t n);
    double low, high; /* NAN: the node's own */
} row;

/* clang-format off */
static const row rows[] = {
    { "Relu",            cut_off,   0, 0 }, { "ThresholdedRelu", cut_off,   0, 0 },
    { "LeakyRelu",       two_sides, 0, 0 }, { "PRelu",           two_sides, 0, 0 },
    { "Elu",             two_sides, 0, 0 }, { "Celu",            two_sides, 0, 0 },
    { "Selu",            two_sides, 0, 0 }, { "HardSigmoid",     between,   0, 1 },
    { "Clip",            between,   0, 0 },
};
/* clang-format on */

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

/* Until nothing is missing any more: mostly that is soon. */
static void scan(const pl_tensor *t, const row *kind, range *r, char *missing, size_t n_missing) {
    double x[BLOCK];
    const size_t size = pl_dtype_bytes(t->dtype);
    for (int64_t at = 0; at < t->n_elements; at += BLOCK) {
        const size_t n = (size_t)(t->n_elements - at < BLOCK ? t->n_elements - at : BLOCK);
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * size, x, n);
        count(r, x, n);
        missing[0] = '\0';
        kind->missing(r, missing, n_missing);
        if (missing[0] == '\0') return;
    }
}

pl_status pl_analysis_reach(pl_analysis *x, const pl_value *value, const pl_datum *d, pl_err *err) {
    const pl_node *node = value->producer;
    const bool generated = x->inputs->n_files == 0 && x->inputs->n_sets == 0;
    pl_tensor *dense = NULL;
    char missing[160] = "";
    if (!generated || node == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->n_elements < FEW ||
        !pl_dtype_is_float(d->tensor->dtype)) {
        return PL_OK;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].op, node->op) != 0) continue;
        range r = { .low = rows[i].low, .high = rows[i].high };
        if (strcmp(node->op, "Clip") == 0) {
            r.low = limit_of(node, 1, "min");
            r.high = limit_of(node, 2, "max");
        }
        PL_TRY(pl_tensor_contiguous(d->tensor, &dense, err));
        scan(dense, &rows[i], &r, missing, sizeof(missing));
        pl_tensor_unref(dense);
    }
    if (missing[0] == '\0') return PL_OK;
    if (x->n_unreached++ > 0) return PL_OK;
    x->unreached =
        pl_arena_printf(x->arena, "%s that makes '%s' %s", node->op, value->name, missing);
    return x->unreached == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_analysis_say_reach(pl_analysis *x, pl_err *err) {
    char more[60] = "";
    if (x->n_unreached == 0) return PL_OK;
    if (x->n_unreached > 1) snprintf(more, sizeof(more), " (and %zu more)", x->n_unreached - 1);
    return pl_analysis_note(x, err,
                            "random inputs do not reach everything: %s%s; a fault there cannot "
                            "show: give --range or real --inputs",
                            x->unreached, more);
}

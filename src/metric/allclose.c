/* Element by element through double (int64 for integers): for tests, not for hot loops. */
#include "metric/allclose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

static bool close_f64(double got, double want, pl_tolerance tol) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= tol.atol + tol.rtol * fabs(want);
}

static pl_close_result floats_close(const pl_tensor *got, const pl_tensor *want, int64_t n,
                                    pl_tolerance tol, char *why, size_t n_why) {
    double a[BLOCK], b[BLOCK];
    const size_t size = pl_dtype_bytes(got->dtype);
    for (int64_t at = 0; at < n; at += BLOCK) {
        const size_t m = (size_t)(n - at < BLOCK ? n - at : BLOCK);
        pl_load_f64(got->dtype, (const char *)got->data + (size_t)at * size, a, m);
        pl_load_f64(want->dtype, (const char *)want->data + (size_t)at * size, b, m);
        for (size_t i = 0; i < m; i++) {
            if (close_f64(a[i], b[i], tol)) continue;
            snprintf(why, n_why, "element %lld is %.9g, expected %.9g",
                     (long long)at + (long long)i, a[i], b[i]);
            return PL_CLOSE_VALUES;
        }
    }
    return PL_CLOSE_SAME;
}

static pl_close_result ints_close(const pl_tensor *got, const pl_tensor *want, char *why,
                                  size_t n_why) {
    for (int64_t i = 0; i < got->n_elements; i++) {
        const int64_t a = pl_tensor_get_i64(got, i), b = pl_tensor_get_i64(want, i);
        if (a == b) continue;
        snprintf(why, n_why, "element %lld is %lld, expected %lld", (long long)i, (long long)a,
                 (long long)b);
        return PL_CLOSE_VALUES;
    }
    return PL_CLOSE_SAME;
}

static pl_close_result complex_close(const pl_tensor *got, const pl_tensor *want, pl_tolerance tol,
                                     char *why, size_t n_why) {
    pl_tensor a = *got, b = *want; /* pairs of floats */
    a.dtype = b.dtype = got->dtype == PL_C64 ? PL_F32 : PL_F64;
    return floats_close(&a, &b, got->n_elements * 2, tol, why, n_why);
}

static pl_close_result strings_close(const pl_tensor *got, const pl_tensor *want, char *why,
                                     size_t n_why) {
    const pl_string *a = got->data, *b = want->data;
    for (int64_t i = 0; i < got->n_elements; i++) {
        if (a[i].n_bytes == b[i].n_bytes &&
            (a[i].n_bytes == 0 || memcmp(a[i].data, b[i].data, a[i].n_bytes) == 0)) {
            continue;
        }
        snprintf(why, n_why, "element %lld is '%.*s', expected '%.*s'", (long long)i,
                 (int)(a[i].n_bytes < 100 ? a[i].n_bytes : 100), a[i].data,
                 (int)(b[i].n_bytes < 100 ? b[i].n_bytes : 100), b[i].data);
        return PL_CLOSE_VALUES;
    }
    return PL_CLOSE_SAME;
}

static pl_close_result tensors_close(const pl_tensor *got, const pl_tensor *want, pl_tolerance tol,
                                     char *why, size_t n_why) {
    char a[200], b[200];
    if (got->dtype != want->dtype || !pl_tensor_same_shape(got, want)) {
        snprintf(why, n_why, "is %s, expected %s", pl_tensor_describe(got, a, sizeof(a)),
                 pl_tensor_describe(want, b, sizeof(b)));
        return PL_CLOSE_STRUCTURE;
    }
    switch (pl_dtype_class_of(got->dtype)) {
    case PL_CLASS_FLOAT: return floats_close(got, want, got->n_elements, tol, why, n_why);
    case PL_CLASS_COMPLEX: return complex_close(got, want, tol, why, n_why);
    case PL_CLASS_STRING: return strings_close(got, want, why, n_why);
    case PL_CLASS_INT:
    case PL_CLASS_UINT:
    case PL_CLASS_BOOL: return ints_close(got, want, why, n_why);
    case PL_CLASS_NONE: break;
    }
    snprintf(why, n_why, "has no type");
    return PL_CLOSE_STRUCTURE;
}

pl_close_result pl_allclose(const pl_datum *got, const pl_datum *want, pl_tolerance tol, char *why,
                            size_t n_why) {
    char a[200], b[200];
    if (got->kind != want->kind || got->n_items != want->n_items) {
        snprintf(why, n_why, "is %s, expected %s", pl_datum_describe(got, a, sizeof(a)),
                 pl_datum_describe(want, b, sizeof(b)));
        return PL_CLOSE_STRUCTURE;
    }
    if (got->kind == PL_TYPE_TENSOR) {
        return tensors_close(got->tensor, want->tensor, tol, why, n_why);
    }
    pl_close_result worst = PL_CLOSE_SAME;
    for (size_t i = 0; i < got->n_items && worst == PL_CLOSE_SAME; i++) {
        char inner[300] = "";
        worst = pl_allclose(got->items[i], want->items[i], tol, inner, sizeof(inner));
        if (worst != PL_CLOSE_SAME) snprintf(why, n_why, "item %zu %s", i, inner);
    }
    return worst;
}

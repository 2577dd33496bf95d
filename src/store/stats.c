/* Statistics of a tensor, and their JSON. */
#include "store/stats.h"

#include <math.h>

enum { BLOCK = 512 };

pl_stats pl_stats_of(const pl_tensor *t) {
    pl_stats s = { .n_elements = t->n_elements,
                   .min = (double)INFINITY,
                   .max = (double)-INFINITY,
                   .mean = (double)NAN };
    const pl_dtype_class cls = pl_dtype_class_of(t->dtype);
    const size_t size = pl_dtype_bytes(t->dtype);
    const bool counts = cls != PL_CLASS_STRING && cls != PL_CLASS_COMPLEX;
    double sum = 0;
    int64_t n_finite = 0;
    for (int64_t at = 0; counts && at < t->n_elements; at += BLOCK) {
        double block[BLOCK];
        const int64_t n = t->n_elements - at < BLOCK ? t->n_elements - at : BLOCK;
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * size, block, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            const double x = block[i];
            s.n_nan += isnan(x) != 0;
            s.n_inf += isinf(x) != 0;
            s.n_zero += x == 0;
            if (!isfinite(x)) continue;
            n_finite++;
            sum += x;
            s.min = x < s.min ? x : s.min;
            s.max = x > s.max ? x : s.max;
        }
    }
    if (n_finite == 0) {
        s.min = s.max = (double)NAN;
    } else {
        s.mean = sum / (double)n_finite;
    }
    return s;
}

void pl_stats_put(pl_json *j, const pl_stats *s) {
    pl_json_object_begin(j);
    pl_json_put_int(j, "elements", s->n_elements);
    pl_json_put_int(j, "nan", s->n_nan);
    pl_json_put_int(j, "inf", s->n_inf);
    pl_json_put_int(j, "zero", s->n_zero);
    pl_json_put_double(j, "min", s->min);
    pl_json_put_double(j, "max", s->max);
    pl_json_put_double(j, "mean", s->mean);
    pl_json_object_end(j);
}

static bool get_count(const pl_json_value *value, const char *key, int64_t *out) {
    const pl_json_value *v = pl_json_find(value, key);
    if (v == NULL || v->kind != PL_JSON_NUMBER || !v->is_integer || v->integer < 0) return false;
    *out = v->integer;
    return true;
}

bool pl_stats_get(const pl_json_value *value, pl_stats *out) {
    return get_count(value, "elements", &out->n_elements) && get_count(value, "nan", &out->n_nan) &&
           get_count(value, "inf", &out->n_inf) && get_count(value, "zero", &out->n_zero) &&
           pl_json_number(pl_json_find(value, "min"), &out->min) &&
           pl_json_number(pl_json_find(value, "max"), &out->max) &&
           pl_json_number(pl_json_find(value, "mean"), &out->mean);
}

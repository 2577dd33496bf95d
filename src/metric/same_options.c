/* Options of the torch rule as text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/nearest.h"
#include "metric/metrics.h"
#include "metric/same.h"

#define OPTION(field, is_flag)                                                                     \
    { #field, offsetof(plumb_same_options, field), is_flag }
static const struct option {
    const char *key;
    size_t offset;
    bool is_flag;
} same_options[] = {
    OPTION(tol, false),
    OPTION(iou_threshold, false),
    OPTION(equal_nan, true),
    OPTION(exact_dtype, true),
    OPTION(ignore_non_fp, true),
    OPTION(cos_similarity, true),
    OPTION(use_larger_multiplier_for_smaller_tensor, true),
    OPTION(force_max_multiplier, true),
    OPTION(use_iou_for_bool, true),
    OPTION(relax_numpy_equality, true),
};

void pl_same_options_init(plumb_same_options *options) {
    *options = (plumb_same_options){ .size = sizeof(*options),
                                     .tol = 1e-3,
                                     .equal_nan = 1,
                                     .exact_dtype = 1,
                                     .iou_threshold = 0.99 };
}

static const struct option *find_option(const char *key, size_t n) {
    for (size_t i = 0; i < sizeof same_options / sizeof *same_options; i++) {
        const char *name = same_options[i].key;
        if (strlen(name) == n && memcmp(name, key, n) == 0) return &same_options[i];
    }
    return NULL;
}

/* A flag is 0, 1, true, false; a number is at least 0 and finite. */
static bool set_option(const struct option *o, const char *value, plumb_same_options *options) {
    char *field = (char *)options + o->offset, *end = NULL;
    if (o->is_flag) {
        const bool yes = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
        const int flag = yes ? 1 : 0;
        if (!yes && strcmp(value, "0") != 0 && strcmp(value, "false") != 0) return false;
        memcpy(field, &flag, sizeof flag);
        return true;
    }
    const double x = pl_strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(x) || x < 0) return false;
    memcpy(field, &x, sizeof x);
    return true;
}

static const char *key_at(const void *ctx, size_t i) {
    (void)ctx;
    return i < sizeof same_options / sizeof *same_options ? same_options[i].key : NULL;
}

static pl_status fail_key(const char *key, size_t n, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, key, n, key_at, NULL);
    const pl_status st = pl_fail(err, PL_E_USAGE, "same: no option '%.*s'%s",
                                 (int)(n > 100 ? 100 : n), key, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

pl_status pl_same_options_parse(const char *text, plumb_same_options *options, pl_err *err) {
    plumb_same_options made = *options;
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, ","), n_key = strcspn(at, "=,");
        char value[64];
        const struct option *o = find_option(at, n_key);
        if (o == NULL) return fail_key(at, n_key, err);
        if (n_key == n && o->is_flag) {
            snprintf(value, sizeof value, "1");
        } else {
            const size_t n_value = n > n_key ? n - n_key - 1 : 0;
            if (n_value >= sizeof value)
                return pl_fail(err, PL_E_USAGE, "same: %s: the value is too long", o->key);
            memcpy(value, at + n - n_value, n_value);
            value[n_value] = '\0';
        }
        if (!set_option(o, value, &made))
            return pl_fail(err, PL_E_USAGE, "same: %s: '%s' is not %s", o->key, value,
                           o->is_flag ? "0 or 1" : "a number of at least 0");
        at += n;
        if (*at == ',') at++;
    }
    *options = made;
    return PL_OK;
}

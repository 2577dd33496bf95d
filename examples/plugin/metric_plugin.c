/* A plugin with two metrics of its own. Build it against plumb.h, link with nothing:
 *
 *     cc -O2 -shared -fPIC -Iinclude examples/plugin/metric_plugin.c -o metric_plugin.so -lm
 *     plumb compare A B --plugin ./metric_plugin.so --metric worst_over_mean
 *
 * A metric is one row: a name, a direction, and a function of two tensors of the same shape, a
 * under test and r the reference. plumb prints it beside its own, sorts by it, and keeps it in the
 * session.
 */
#include <math.h>
#include <plumb.h>

/* f32 only, to stay small; NAN says "not defined here". */
static int get_floats(const plumb_host *host, const plumb_tensor *a, const plumb_tensor *r,
                      const float **x, const float **y, size_t *n) {
    if (host->dtype(a) != PLUMB_FLOAT || host->dtype(r) != PLUMB_FLOAT) return 0;
    *x = host->data(a);
    *y = host->data(r);
    *n = host->bytes(a) / sizeof(float);
    return 1;
}

/* The largest error over the mean error: 1 when all elements are off alike, large for an outlier.
 */
static plumb_status worst_over_mean(const plumb_host *host, const plumb_tensor *a,
                                    const plumb_tensor *r, double *out, plumb_error *err) {
    const float *x, *y;
    size_t n;
    double worst = 0, sum = 0;
    (void)err;
    *out = (double)NAN;
    if (!get_floats(host, a, r, &x, &y, &n)) return PLUMB_OK;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        worst = d > worst ? d : worst;
        sum += d;
    }
    *out = sum > 0 ? worst * (double)n / sum : 0;
    return PLUMB_OK;
}

/* Share of elements with the same sign. */
static plumb_status same_sign(const plumb_host *host, const plumb_tensor *a, const plumb_tensor *r,
                              double *out, plumb_error *err) {
    const float *x, *y;
    size_t n, same = 0;
    (void)err;
    *out = (double)NAN;
    if (!get_floats(host, a, r, &x, &y, &n)) return PLUMB_OK;
    for (size_t i = 0; i < n; i++)
        same += (x[i] < 0) == (y[i] < 0) && (x[i] > 0) == (y[i] > 0);
    *out = n > 0 ? (double)same / (double)n : 1;
    return PLUMB_OK;
}

static const plumb_metric rows[] = {
    { .abi = PLUMB_ABI,
      .n_bytes = sizeof(plumb_metric),
      .name = "worst_over_mean",
      .summary = "largest error over the mean error",
      .unit = "",
      .higher_is_better = 0,
      .value = worst_over_mean },
    { .abi = PLUMB_ABI,
      .n_bytes = sizeof(plumb_metric),
      .name = "same_sign",
      .summary = "share of elements with the same sign",
      .unit = "",
      .higher_is_better = 1,
      .value = same_sign },
};

PLUMB_API size_t plumb_metrics_v1(const plumb_host *host, const plumb_metric **metrics,
                                  size_t n_max);
PLUMB_API size_t plumb_metrics_v1(const plumb_host *host, const plumb_metric **metrics,
                                  size_t n_max) {
    const size_t n = sizeof(rows) / sizeof(rows[0]);
    (void)host;
    for (size_t i = 0; i < n && i < n_max; i++)
        metrics[i] = &rows[i];
    return n;
}

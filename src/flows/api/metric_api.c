/* Metrics and PyTorch's same() on tensors in memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "flows/api/options.h"
#include "metric/logits.h"
#include "metric/metrics.h"
#include "metric/same.h"

size_t plumb_metric_count(void) {
    return pl_n_metrics;
}

const char *plumb_metric_name(size_t i) {
    return i < pl_n_metrics ? pl_metrics[i].name : NULL;
}

plumb_status plumb_measure(const plumb_tensor *a, const plumb_tensor *r, double *values,
                           plumb_pair_class *pair_class, plumb_error *err) {
    pl_accumulators acc;
    PL_REQUIRE(a);
    PL_REQUIRE(r);
    PL_REQUIRE(pair_class);
    *pair_class = PLUMB_PAIR_STRUCTURAL;
    if (!pl_tensor_same_shape(pl_api_tensor(a), pl_api_tensor(r))) {
        for (size_t i = 0; values != NULL && i < pl_n_metrics; i++)
            values[i] = pl_metrics[i].direction == PL_HIGHER_IS_BETTER ? -(double)INFINITY
                                                                       : (double)INFINITY;
        return PLUMB_OK;
    }
    PL_TRY(pl_accumulate(NULL, pl_api_tensor(a), pl_api_tensor(r), &acc, err));
    *pair_class = (plumb_pair_class)pl_accumulators_class(&acc);
    for (size_t i = 0; values != NULL && i < pl_n_metrics; i++)
        values[i] = pl_metrics[i].value(&acc);
    return PLUMB_OK;
}

size_t plumb_logit_metric_count(void) {
    return PL_N_LOGIT_METRICS;
}

const char *plumb_logit_metric_name(size_t i) {
    return i < PL_N_LOGIT_METRICS ? pl_logit_metrics[i].name : NULL;
}

plumb_status plumb_measure_logits(const plumb_tensor *a, const plumb_tensor *r,
                                  const int64_t *tokens, size_t n_tokens, double *values,
                                  plumb_error *err) {
    double own[PL_N_LOGIT_METRICS];
    PL_REQUIRE(a);
    PL_REQUIRE(r);
    PL_REQUIRE(values);
    PL_TRY(pl_measure_logits(pl_api_tensor(a), pl_api_tensor(r), tokens, n_tokens, own, err));
    memcpy(values, own, sizeof(own));
    return PLUMB_OK;
}

plumb_status plumb_same_options_parse(const char *text, plumb_same_options *options,
                                      plumb_error *err) {
    plumb_same_options own;
    PL_REQUIRE(text);
    PL_REQUIRE(options);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_SAME, options, &own, err));
    PL_TRY(pl_same_options_parse(text, &own, err));
    const size_t size = options->size;
    memcpy(options, &own, size < sizeof(own) ? size : sizeof(own));
    options->size = size;
    return PLUMB_OK;
}

plumb_status plumb_same(const plumb_tensor *ref, const plumb_tensor *res, const plumb_tensor *fp64,
                        const plumb_same_options *options, plumb_same_result *result,
                        plumb_error *err) {
    pl_same_result r;
    plumb_same_options own;
    PL_REQUIRE(ref);
    PL_REQUIRE(res);
    PL_REQUIRE(result);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_SAME, options, &own, err));
    PL_TRY(pl_same_tensor(pl_api_tensor(ref), pl_api_tensor(res),
                          fp64 == NULL ? NULL : pl_api_tensor(fp64), &own, &r, err));
    plumb_same_result x = { .same = r.verdict == PL_SAME_YES  ? 1
                                    : r.verdict == PL_SAME_NO ? 0
                                                              : -1,
                            .rule = pl_same_rule_name(r.rule),
                            .ref_error = r.ref_error,
                            .res_error = r.res_error,
                            .multiplier = r.multiplier };
    (void)snprintf(x.why, sizeof x.why, "%s", r.why);
    if (pl_struct_fill(result, &x, sizeof(x))) return PLUMB_OK;
    return pl_fail(err, PL_E_USAGE, "plumb_same_result.size is not set");
}

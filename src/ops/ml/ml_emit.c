/* Emission of the element-wise operators of ai.onnx.ml, in double as in ml.c. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "ops/emit.h"
#include "ops/ml/ml_rules.h"

/* A list of floats as a constant along the last dim; a single one applies to all. */
static pl_ref features(pl_emit *c, const float *list, size_t n, double otherwise) {
    if (n == 0) return pl_emit_constant(c, PL_F64, otherwise);
    double *values = pl_calloc(n, sizeof(*values));
    if (values == NULL) return -1;
    for (size_t i = 0; i < n; i++)
        values[i] = (double)list[i];
    const pl_ref x = pl_emit_numbers(c, PL_F64, values, (int64_t)n);
    pl_free(values);
    return n == 1 ? pl_emit_scalar(c, x) : x;
}

static bool one_each(const pl_emit *c, size_t n) {
    const int rank = pl_emit_rank(c, 0);
    return n <= 1 || (rank > 0 && (int64_t)n == pl_emit_dim(c, 0, rank - 1));
}

pl_status pl_emit_binarizer(pl_emit *c) {
    char expr[100];
    snprintf(expr, sizeof(expr), "(double)$0 > %a", pl_attr_float(c->node, "threshold"));
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, pl_emit_in(c, 0)));
}

pl_status pl_emit_imputer(pl_emit *c) {
    char expr[160], number[64];
    size_t n = 0;
    const float *list = pl_attr_floats(c->node, "imputed_value_floats", &n);
    const double old = pl_attr_float(c->node, "replaced_value_float");
    if (!pl_emit_is_float(c->in[0]->dtype)) return pl_emit_decline(c, "Imputer of integers");
    if (n == 0 || !one_each(c, n)) return pl_emit_decline(c, "unsupported imputed values");
    snprintf(expr, sizeof(expr), isnan(old) ? "$0 != $0 ? $1 : $0" : "(double)$0 == %s ? $1 : $0",
             pl_emit_number(old, number) + 4);
    return pl_emit_out(
        c, 0, pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), features(c, list, n, 0)));
}

pl_status pl_emit_scaler(pl_emit *c) {
    size_t n_offset = 0, n_scale = 0;
    const float *offset = pl_attr_floats(c->node, "offset", &n_offset);
    const float *scale = pl_attr_floats(c->node, "scale", &n_scale);
    if (!one_each(c, n_offset) || !one_each(c, n_scale)) {
        return pl_emit_decline(c, "unsupported scales or offsets");
    }
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "((double)$0 - $1) * $2", pl_emit_in(c, 0),
                                    features(c, offset, n_offset, 0),
                                    features(c, scale, n_scale, 1)));
}

pl_status pl_emit_normalizer(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    const bool max = pl_attr_string_is(c->node, "norm", "MAX");
    const bool two = pl_attr_string_is(c->node, "norm", "L2");
    if (!max && !two && !pl_attr_string_is(c->node, "norm", "L1")) {
        return pl_emit_decline(c, "norm");
    }
    if (rank < 1 || rank > 2) return pl_emit_decline(c, "more than two dims");
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref part =
        pl_emit_map1(c, PL_F64, two ? "(double)$0 * (double)$0" : "__builtin_fabs((double)$0)", x);
    pl_ref norm =
        pl_emit_reduce(c, max ? PL_FOLD_PEAK : PL_FOLD_SUM, PL_F64, part, 1u << (rank - 1));
    if (two) norm = pl_emit_map1(c, PL_F64, "__builtin_sqrt($0)", norm);
    return pl_emit_out(
        c, 0, pl_emit_map2(c, c->out[0]->dtype, "$1 == 0 ? (double)$0 : (double)$0 / $1", x, norm));
}

/* ai.onnx.ml ArrayFeatureExtractor: columns of the last dim. */
pl_status pl_emit_array_features(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX], rows = 1;
    const int r = pl_emit_rank(c, 0);
    if (r < 1) return pl_emit_decline(c, "a scalar");
    const int64_t columns = pl_emit_dim(c, 0, r - 1), n = pl_emit_elements(c->in[1]);
    for (int d = 0; d + 1 < r; d++)
        rows *= pl_emit_dim(c, 0, d);
    const pl_ref index = pl_emit_along(c, pl_emit_in(c, 1), 2, 1);
    char expr[80];
    snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", (long long)columns - 1);
    pl_ref at = pl_emit_add_part(c, -1, pl_emit_map1(c, PL_I64, expr, index), 1);
    at = pl_emit_add_part(c, at, pl_emit_iota(c, 2, 0, rows), columns);
    const int64_t seen[2] = { rows, n };
    const pl_ref y = pl_emit_load(c, pl_emit_in(c, 0), pl_emit_expand(c, at, 2, seen));
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
}

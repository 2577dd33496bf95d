/* "Is res the same as ref?": PyTorch's same(), decision by decision (torch/_dynamo/utils.py), and
 * plumb's own, stricter rule.
 *
 * The torch rule: allclose in the arithmetic of the type (which broadcasts and never looks at
 * shapes), then the RMSE of both against an fp64 run, with a multiplier that depends on size and
 * type. Where PyTorch raises an exception the verdict is PL_SAME_RAISES, which is not "same". The
 * plumb rule: types and shapes, then the positions of NaN and Inf, then every element within its
 * bound, so that one outlier in a large tensor is not averaged away; the RMSE of finite elements is
 * reported. Sequences and optionals are walked; `path` says where the first difference is:
 * "[2][0]". */
#ifndef PL_SAME_H
#define PL_SAME_H

#include <plumb.h>

#include "base/threads.h"
#include "tensor/datum.h"

typedef enum pl_same_verdict {
    PL_SAME_YES,
    PL_SAME_NO,
    PL_SAME_RAISES, /* PyTorch would raise: types that cannot be compared, shapes that do not fit */
} pl_same_verdict;

/* Which rule decided. */
typedef enum pl_same_rule {
    PL_RULE_NONE, /* nothing to compare: empty sequence */
    PL_RULE_DTYPE,
    PL_RULE_STRUCTURE, /* kind, length, keys, shape */
    PL_RULE_NON_FP,    /* ignore_non_fp accepted it */
    PL_RULE_EQUALITY,  /* strings, None */
    PL_RULE_BOOL,
    PL_RULE_IOU,
    PL_RULE_COSINE,
    PL_RULE_ALLCLOSE,
    PL_RULE_NAN_RESCUE,
    PL_RULE_RMSE,
    PL_RULE_BOTH_NAN,  /* both RMSE are NaN and equal_nan */
    PL_RULE_NONFINITE, /* plumb: masks differ */
    PL_RULE_BOUND,     /* plumb: element against its bound */
    PL_RULE_COUNT
} pl_same_rule;
const char *pl_same_rule_name(pl_same_rule rule);

typedef struct pl_same_result {
    pl_same_verdict verdict;
    pl_same_rule rule;
    double ref_error, res_error, multiplier; /* RMSE rule; res_error also in the plumb rule */
    double worst;                            /* plumb: largest |d| / bound */
    int64_t index;                           /* plumb: of the worst, or of the first mismatch; -1 */
    char path[128];                          /* "" for the root */
    char why[256];                           /* one line; "" when same */
} pl_same_result;

void pl_same_options_init(plumb_same_options *options); /* as PyTorch's repro flows: tol 1e-3 … */
/* Overrides options by "tol=1e-3,equal_nan=0,…"; PL_E_USAGE names an invalid key. */
pl_status pl_same_options_parse(const char *text, plumb_same_options *options, pl_err *err);

/* fp64 may be NULL: then ref is used, as in PyTorch. Only memory and usage errors fail. */
pl_status pl_same(const pl_datum *ref, const pl_datum *res, const pl_datum *fp64,
                  const plumb_same_options *options, pl_same_result *out, pl_err *err);
pl_status pl_same_tensor(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                         const plumb_same_options *options, pl_same_result *out, pl_err *err);

/* An entry of a dictionary; names are visited in sorted order. fp64 or its items may be NULL.
 * Different sets of names raise. */
typedef struct pl_same_entry {
    const char *name;
    const pl_datum *value;
} pl_same_entry;
pl_status pl_same_dict(const pl_same_entry *ref, size_t n_ref, const pl_same_entry *res,
                       size_t n_res, const pl_same_entry *fp64, size_t n_fp64,
                       const plumb_same_options *options, pl_same_result *out, pl_err *err);

/* ---- the plumb rule ---- */
typedef struct pl_plumb_rule {
    double rtol, atol; /* |res - ref| <= atol + rtol * |ref| */
    /* Or bounds from the caller for elements begin .. begin + n in C order; NULL = use the
     * tolerances. */
    void (*bound)(void *ctx, int64_t begin, size_t n, double *out);
    void *ctx;
} pl_plumb_rule;
pl_status pl_same_plumb(const pl_tensor *ref, const pl_tensor *res, const pl_plumb_rule *rule,
                        pl_same_result *out, pl_err *err);
/* Sequences and optionals by the tolerances; bounds do not apply. */
pl_status pl_same_plumb_datum(const pl_datum *ref, const pl_datum *res, const pl_plumb_rule *rule,
                              pl_same_result *out, pl_err *err);

#endif

/* Precision advice: what the operators of an fp16, bf16 or int8 model lose, and the smallest set of
 * them that must compute in float32 for the outputs to meet their limit. Made by
 * flows/analyze/advise.c; part of a session. */
#ifndef PL_ADVICE_H
#define PL_ADVICE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

/* X(NAME, "name"): the worst that happens to the result of an operator. */
#define PL_LOSS_MAP(X)                                                                             \
    X(NONE, "rounding")                                                                            \
    X(SENSITIVE, "sensitive")                                                                      \
    X(CANCELLATION, "cancellation")                                                                \
    X(UNDERFLOW, "underflow")                                                                      \
    X(OVERFLOW, "overflow")
typedef enum pl_loss {
#define X(NAME, text) PL_LOSS_##NAME,
    PL_LOSS_MAP(X)
#undef X
        PL_LOSS_COUNT
} pl_loss;
const char *pl_loss_name(pl_loss loss);

typedef struct pl_advice_row { /* of one node */
    const char *node, *op, *value, *module;
    pl_loss loss;
    bool raise;       /* part of the advice */
    int64_t n;        /* elements of its result */
    int64_t n_over;   /* above the largest number of the type, or not finite where fp64 is */
    int64_t n_under;  /* not zero, but zero in the type */
    double largest;   /* largest magnitude in fp64 */
    double condition; /* relative error of the result for one of its inputs; NAN = not known */
    double local;     /* relative rms error when only this node computes in the low type */
    double effect;    /* the same at the outputs; NAN = not measured */
} pl_advice_row;

typedef struct pl_advice {
    const char *precision; /* "fp16", "bf16", "int8"; "" = the model has none to raise */
    const char *limit;     /* the limit for the outputs, in words */
    double before, after;  /* worst output: rms of its error relative to its size; NAN */
    const char *reason;    /* one line: the result */
    pl_advice_row *rows;   /* in the order of the advice: the worst first */
    size_t n_rows;
    size_t n_nodes;    /* nodes that compute in the low type */
    size_t n_raised;   /* 0 with `met`: nothing has to be raised */
    size_t n_queries;  /* models that were run */
    bool met;          /* verified by a run: outputs meet the limit with these nodes raised */
    bool one_minimal;  /* verified by runs: without any one of them they do not */
    const char *model; /* file that the raised model was written to; "" = none */
    /* of layers of a quantised model */
    bool unsigned_weights;          /* int8 weights as uint8: no product is clipped at 16 bits */
    const char *by;                 /* what decides: a metric, "top1"; "" = the limit alone */
    double top1_before, top1_after; /* NAN */
    int64_t n_held;                 /* samples or rows held back for validation */
    double held_before, held_after; /* like before and after, on those; NAN */
} pl_advice;
void pl_advice_init(pl_advice *advice); /* "" and NAN */

/* The rows, at most `limit` (0 = all) and every one to raise; how many were left out. */
size_t pl_advice_put_text(const pl_advice *advice, size_t limit, pl_buf *out);
/* Where the mixed-precision model was written, when it was. */
void pl_advice_put_model(const pl_advice *advice, pl_buf *out);
void pl_advice_put_json(const pl_advice *advice, pl_json *j); /* an object */

#endif

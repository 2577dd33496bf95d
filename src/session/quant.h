/* The cost of quantisation, layer by layer, measured at the outputs. Made by
 * flows/analyze/quant_table.c; part of a session. */
#ifndef PL_QUANT_H
#define PL_QUANT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

typedef struct pl_quant_row { /* one layer; NAN = not measured */
    const char *node, *op, *value, *module;
    double alone;      /* error of the outputs when only this layer is quantised */
    double share;      /* share of its square in the sum over all layers */
    double cumulative; /* of this row and those above it */
    double kept;       /* error of the outputs when only this layer is kept in float */
    double gain;       /* improvement of the metric by that; negative = worse */
    double top1_gain;  /* improvement of top-1 agreement; NAN = not a classifier */
    const char *kind;  /* a mistake: "wrong scale", …; "" = normal noise */
    const char *evidence;
    bool keep; /* advice: keep in float */
} pl_quant_row;

typedef struct pl_quantisation {
    const char *metric, *unit; /* of `value` and `gain` */
    double error;              /* rms of the outputs' error relative to their size */
    double value, top1;
    double limit;       /* limit of `error`, by effective precision or tolerance */
    bool float_weights; /* false: no float model, so the rounding of weights is not visible */
    const char *note;   /* why there are no rows; "" or one line */
    pl_quant_row *rows; /* by share, largest first */
    size_t n_rows;
} pl_quantisation;

/* limit 0 = all; `more` says how to see all (or NULL). */
void pl_quant_put_text(const pl_quantisation *q, size_t limit, const char *more, pl_buf *out);
void pl_quant_put_md(const pl_quantisation *q, size_t limit, pl_buf *out);
void pl_quant_put_json(const pl_quantisation *q, pl_json *j); /* an object */

#endif

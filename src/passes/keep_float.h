/* Mixed precision: chosen values of a quantised model are computed as its float model computes
 * them, with the float model's weights; the rest stays quantised.
 *
 * It works by pairs of values and not by patterns of nodes, so QDQ, QOperator and dynamic models,
 * fused operators and weight-only quantisation all work the same way. Nothing is rounded between
 * two kept layers. Codes that a kept layer reads are dequantised; codes that others read from it
 * are quantised again. */
#ifndef PL_KEEP_FLOAT_H
#define PL_KEEP_FLOAT_H

#include "graph/graph.h"

typedef struct pl_keep_float {
    const pl_model *floats;         /* resolved */
    const char *const *counterpart; /* by value id of `floats`: name in the model; NULL = none */
    const bool *keep;               /* by value id of `floats`; these have a counterpart */
} pl_keep_float;

/* In place; the model is resolved and inferred again. */
pl_status pl_model_keep_float(pl_model *model, const pl_keep_float *job, pl_err *err);

/* The scale and zero point of a value that holds codes; false when they are not known. *zero is
 * NULL when there is none. */
bool pl_codes_parameters(const pl_value *codes, pl_value **scale, pl_value **zero);
/* Does the node quantise, dequantise, or compute on codes? */
bool pl_node_is_quantised(const pl_node *node);

#endif

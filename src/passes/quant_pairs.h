/* QuantizeLinear and the DequantizeLinear that reads it: a pair that rounds a float value to the
 * codes of an integer type. Quantised models in QDQ form have one at every value between operators.
 */
#ifndef PL_QUANT_PAIRS_H
#define PL_QUANT_PAIRS_H

#include "passes/changes.h"

bool pl_node_is_quantize(const pl_node *node);   /* QuantizeLinear of ai.onnx or com.microsoft */
bool pl_node_is_dequantize(const pl_node *node); /* DequantizeLinear */
/* The value itself, or the one it copies through Identity and casts to the same type. */
const pl_value *pl_value_behind(const pl_value *value);
/* The value before the pair that makes this one; NULL when none does, or it changes the type. */
pl_value *pl_quant_pair_source(const pl_value *value);
/* Bypasses the pairs around the nodes of the main graph for which raise[index] is true: their
 * inputs and outputs are floats that were not rounded. Constants stored as codes stay. In place. */
pl_status pl_model_bypass_pairs(pl_model *model, const bool *raise, pl_changes *changes,
                                pl_err *err);

#endif

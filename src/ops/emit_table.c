/* Which operator has which emission rule.
 *
 * Part of the operator table: a row whose emit column is PL_EMIT_TODO is looked up here. One line
 * is all that most rules need, for every version of the operator alike; a row may still name its
 * own. */
#include <string.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

static const struct {
    const char *name;
    pl_emit_fn rule;
} table[] = {
    { "Abs", pl_emit_abs },
    { "Acos", pl_emit_acos },
    { "Acosh", pl_emit_acosh },
    { "Asin", pl_emit_asin },
    { "Asinh", pl_emit_asinh },
    { "Atan", pl_emit_atan },
    { "Atanh", pl_emit_atanh },
    { "BitwiseNot", pl_emit_bitwise_not },
    { "Ceil", pl_emit_ceil },
    { "Cos", pl_emit_cos },
    { "Cosh", pl_emit_cosh },
    { "Erf", pl_emit_erf },
    { "Exp", pl_emit_exp },
    { "Floor", pl_emit_floor },
    { "IsInf", pl_emit_is_inf },
    { "IsNaN", pl_emit_is_nan },
    { "Log", pl_emit_log },
    { "Neg", pl_emit_neg },
    { "Not", pl_emit_not },
    { "Reciprocal", pl_emit_reciprocal },
    { "Round", pl_emit_round },
    { "Sign", pl_emit_sign },
    { "Sin", pl_emit_sin },
    { "Sinh", pl_emit_sinh },
    { "Sqrt", pl_emit_sqrt },
    { "Tan", pl_emit_tan },
    { "Tanh", pl_emit_tanh },
    { "Add", pl_emit_add },
    { "Sub", pl_emit_sub },
    { "Mul", pl_emit_mul },
    { "Div", pl_emit_div },
    { "Max", pl_emit_max },
    { "Min", pl_emit_min },
    { "Sum", pl_emit_sum },
    { "Mean", pl_emit_mean },
    { "Pow", pl_emit_pow },
    { "PRelu", pl_emit_prelu },
    { "Less", pl_emit_less },
    { "LessOrEqual", pl_emit_less_equal },
    { "Greater", pl_emit_greater },
    { "GreaterOrEqual", pl_emit_greater_equal },
    { "Equal", pl_emit_equal },
    { "And", pl_emit_and },
    { "Or", pl_emit_or },
    { "Xor", pl_emit_xor },
    { "Where", pl_emit_where },
    { "Cast", pl_emit_cast },
    { "CastLike", pl_emit_cast },
    { "Clip", pl_emit_clip },
    { "Relu", pl_emit_relu },
    { "LeakyRelu", pl_emit_leaky_relu },
    { "ThresholdedRelu", pl_emit_thresholded_relu },
    { "Sigmoid", pl_emit_sigmoid },
    { "HardSigmoid", pl_emit_hard_sigmoid },
    { "HardSwish", pl_emit_hard_swish },
    { "Elu", pl_emit_elu },
    { "Celu", pl_emit_celu },
    { "Selu", pl_emit_selu },
    { "Softplus", pl_emit_softplus },
    { "Softsign", pl_emit_softsign },
    { "Gelu", pl_emit_gelu },
    { "Mish", pl_emit_mish },
    { "Swish", pl_emit_swish },
    { "Softmax", pl_emit_softmax },
    { "LogSoftmax", pl_emit_log_softmax },
    { "LayerNormalization", pl_emit_layer_norm },
    { "RMSNormalization", pl_emit_rms_norm },
    { "InstanceNormalization", pl_emit_instance_norm },
    { "BatchNormalization", pl_emit_batch_norm },
    { "ReduceSum", pl_emit_reduce_sum },
    { "ReduceMean", pl_emit_reduce_mean },
    { "ReduceMax", pl_emit_reduce_max },
    { "ReduceMin", pl_emit_reduce_min },
    { "ReduceL1", pl_emit_reduce_l1 },
    { "GlobalAveragePool", pl_emit_global_average_pool },
    { "GlobalMaxPool", pl_emit_global_max_pool },
    { "Reshape", pl_emit_same_elements },
    { "Flatten", pl_emit_same_elements },
    { "Squeeze", pl_emit_same_elements },
    { "Unsqueeze", pl_emit_same_elements },
    { "Expand", pl_emit_expand_rule },
    { "Transpose", pl_emit_transpose_rule },
    { "Slice", pl_emit_slice_rule },
    { "Split", pl_emit_split_rule },
    { "Concat", pl_emit_concat_rule },
    { "Dropout", pl_emit_dropout },
    { "Identity", pl_emit_identity },
    { "Shape", pl_emit_types_only },
    { "Size", pl_emit_types_only },
    { "MatMul", pl_emit_matmul },
    { "Gemm", pl_emit_gemm_rule },
    { "Conv", pl_emit_conv_rule },
};

pl_emit_fn pl_emit_rule_of(const pl_op_def *row) {
    if (row->emit != PL_EMIT_TODO || row->domain != NULL) return row->emit;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].name, row->name) == 0) return table[i].rule;
    return PL_EMIT_TODO;
}

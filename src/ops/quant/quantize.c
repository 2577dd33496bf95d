/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. The loops are in quant_loops.c. */
#include "ops/quant/qlinear_rules.h"
#include "ops/quant/quant_loops.h"
#include "ops/quant/quantize_rules.h"

extern const pl_op_def pl_ops_quant[];

/* ---- DynamicQuantizeLinear ---- */

static pl_status dynamic_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(pl_infer_set(c, 0, PL_U8, rank, rank < 0 ? NULL : c->in[0]->dims));
    PL_TRY(pl_infer_set(c, 1, pl_infer_dtype_of(c, 0), 0, NULL));
    return pl_infer_set(c, 2, PL_U8, 0, NULL);
}

/* ---- rows ---- */

#define Q_PORTS(zero)                                                                              \
    .in = PL_PORTS({ "x", PL_T_FLOAT | PL_T(PL_I32), 0 },                                          \
                   { "y_scale", PL_T_FLOAT | PL_T(PL_I32) | PL_T(PL_F8E8M0), 0 },                  \
                   { "y_zero_point", zero, PL_PORT_OPTIONAL }),                                    \
    .out = PL_PORTS({ "y", PL_T_QUANT, 0 }), .infer = pl_quantize_infer, .eval = pl_quantize_eval, \
    .grad = PL_GRAD_ZERO, .bound = pl_quantize_bound, .autocast = PL_AMP_KEEP,                     \
    .flags = PL_OP_QUANTIZE
#define DQ_PORTS                                                                                   \
    .in = PL_PORTS({ "x", PL_T_QUANT | PL_T(PL_I32), 0 },                                          \
                   { "x_scale", PL_T_FLOAT | PL_T(PL_F8E8M0), 0 },                                 \
                   { "x_zero_point", PL_T_QUANT | PL_T(PL_I32), PL_PORT_OPTIONAL }),               \
    .out = PL_PORTS({ "y", PL_T_FLOAT, 0 }), .infer = pl_dequantize_infer,                         \
    .eval = pl_dequantize_eval, .grad = pl_grad_dequantize, .bound = pl_dequantize_bound,          \
    .autocast = PL_AMP_KEEP, .flags = PL_OP_DEQUANTIZE

/* clang-format off */
const pl_op_def pl_ops_quant[] = {
    { .name = "DequantizeLinear", .since = 10, .until = 12, DQ_PORTS, .emit = pl_emit_dequantize,
      .samples = PL_SAMPLES({ "(uint8[2,3] x) => (y) <float s = {0.5}, uint8 z = {3}> { y = DequantizeLinear(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "DequantizeLinear", .since = 13, .until = 20, DQ_PORTS, .attrs = PL_ATTRS(PL_A_INT("axis", 1)), .emit = pl_emit_dequantize,
      .samples = PL_SAMPLES({ "(int8[2,3] x) => (y) <float[2] s = {0.5, 0.25}, int8[2] z = {3, -3}> { y = DequantizeLinear<axis=0>(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(int8[2,3] x, float[3] s, int8[3] z) => (y) { y = DequantizeLinear(x, s, z) }", "s=0.1:1", 0 },
                            { "(uint8[2,3] x, float s) => (y) { y = DequantizeLinear(x, s) }", "s=0.1:1", 0 }) },
    { .name = "DequantizeLinear", .since = 21, DQ_PORTS,
      .attrs = PL_ATTRS(PL_A_INT("axis", 1), PL_A_INT("block_size", 0), PL_A_INT("output_dtype", 0)), .emit = pl_emit_dequantize,
      .samples = PL_SAMPLES({ "(int8[2,4] x) => (y) <float[2,2] s = {0.5, 0.25, 0.1, 0.2}> { y = DequantizeLinear<axis=1, block_size=2>(x, s) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "DynamicQuantizeLinear", .since = 11, .flags = PL_OP_FINDS_SCALE, .in = PL_PORTS({ "x", PL_T(PL_F32) | PL_T(PL_F64), 0 }),
      .out = PL_PORTS({ "y", PL_T(PL_U8), 0 }, { "y_scale", PL_T(PL_F32), 0 }, { "y_zero_point", PL_T(PL_U8), 0 }),
      .infer = dynamic_infer, .eval = pl_dynamic_quantize_eval, .grad = PL_GRAD_ZERO, .bound = pl_dynamic_quantize_bound, .emit = pl_emit_dynamic_quantize, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QuantizeLinear", .since = 10, .until = 12, Q_PORTS(PL_T_QUANT), .emit = pl_emit_quantize,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <float s = {0.1}, uint8 z = {128}> { y = QuantizeLinear(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QuantizeLinear", .since = 13, .until = 18, Q_PORTS(PL_T_QUANT), .attrs = PL_ATTRS(PL_A_INT("axis", 1)), .emit = pl_emit_quantize,
      .samples = PL_SAMPLES({ "(float[2,3,2] x) => (y) <float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {0, 1, -1}> { y = QuantizeLinear(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QuantizeLinear", .since = 19, .until = 20, Q_PORTS(PL_T_QUANT), .attrs = PL_ATTRS(PL_A_INT("axis", 1), PL_A_INT("saturate", 1)), .emit = pl_emit_quantize,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {0, 1, -1}> { y = QuantizeLinear<axis=-1>(x, s, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QuantizeLinear", .since = 21, Q_PORTS(PL_T_QUANT),
      .attrs = PL_ATTRS(PL_A_INT("axis", 1), PL_A_INT("saturate", 1), PL_A_INT("block_size", 0), PL_A_INT("output_dtype", 0), PL_A_INT("precision", 0)), .emit = pl_emit_quantize,
      .samples = PL_SAMPLES({ "(float[2,4] x) => (y) <float[2,2] s = {0.5, 0.25, 0.1, 0.2}> { y = QuantizeLinear<block_size=2, output_dtype=5>(x, s) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

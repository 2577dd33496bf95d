/* Emission of functions of one input: one C expression each, with the functions of jit's prelude.
 * Semantics: the kernels in unary.c. */
#include "ops/emit.h"
#include "ops/math/unary_rules.h"

/* ---- one input ---- */

#define UNARY(name, floats, integers)                                                              \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return pl_emit_unary(c, floats, integers);                                                 \
    }
#define LIBM(name) UNARY(name, "px_" #name "_$S($0)", NULL)

LIBM(acos)
LIBM(acosh)
LIBM(asin)
LIBM(asinh)
LIBM(atan)
LIBM(atanh)
LIBM(ceil)
LIBM(cos)
LIBM(cosh)
LIBM(erf)
LIBM(exp)
LIBM(floor)
LIBM(log)
LIBM(sin)
LIBM(sinh)
LIBM(sqrt)
LIBM(tan)
LIBM(tanh)
UNARY(round, "px_rint_$S($0)", NULL)
UNARY(reciprocal, "1 / $0", NULL)
UNARY(abs, "px_abs_$S($0)", "$0 < 0 ? 0u - (uint64_t)$0 : $0")
UNARY(neg, "-$0", "0u - (uint64_t)$0")
UNARY(sign, "$0 != $0 ? $0 : ($T)(($0 > 0) - ($0 < 0))", "($0 > 0) - ($0 < 0)")
UNARY(is_nan, "$0 != $0", NULL)
UNARY(not, NULL, "$0 == 0")
UNARY(bitwise_not, NULL, "~$0")

pl_status pl_emit_is_inf(pl_emit *c) {
    const bool positive = pl_attr_int(c->node, "detect_positive") != 0;
    const bool negative = pl_attr_int(c->node, "detect_negative") != 0;
    return pl_emit_unary(c,
                         positive && negative ? "$0 - $0 != $0 - $0 && $0 == $0"
                         : positive           ? "$0 - $0 != $0 - $0 && $0 > 0"
                         : negative           ? "$0 - $0 != $0 - $0 && $0 < 0"
                                              : "0",
                         NULL);
}

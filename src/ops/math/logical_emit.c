/* Emission of comparisons, logic, bits and Where: one C expression each. */
#include "ops/emit.h"
#include "ops/math/logical_rules.h"

#define BINARY(name, floats, integers)                                                             \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return pl_emit_binary(c, floats, integers);                                                \
    }
BINARY(less, "$0 < $1", "$0 < $1")
BINARY(less_equal, "$0 <= $1", "$0 <= $1")
BINARY(greater, "$0 > $1", "$0 > $1")
BINARY(greater_equal, "$0 >= $1", "$0 >= $1")
BINARY(equal, "$0 == $1", "$0 == $1")
BINARY(and, NULL, "$0 & $1")
BINARY(or, NULL, "$0 | $1")
BINARY(xor, NULL, "$0 ^ $1")
BINARY(bit_and, NULL, "$0 & $1")
BINARY(bit_or, NULL, "$0 | $1")
BINARY(bit_xor, NULL, "$0 ^ $1")

pl_status pl_emit_where(pl_emit *c) {
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "$0 ? $1 : $2", pl_emit_in(c, 0),
                                    pl_emit_in(c, 1), pl_emit_in(c, 2)));
}

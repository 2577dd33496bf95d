/* Emission of casts. */
#include "ops/emit.h"
#include "ops/tensor/cast_rules.h"

/* As cast_block in cast.c: integers via int64, floats truncate via double. */
pl_status pl_emit_cast(pl_emit *c) {
    const pl_dtype from = c->in[0]->dtype, to = c->out[0]->dtype;
    const char *expr = "$0";
    if (pl_dtype_is_integer(to) && pl_emit_is_float(from)) expr = "px_trunc_$S($0)";
    if (to == PL_BOOL) expr = "$0 != 0";
    return pl_emit_out(c, 0, pl_emit_map1(c, to, expr, pl_emit_in(c, 0)));
}

/* BitCast-26: the same bits; 16-bit floats have no C type of their own. */
pl_status pl_emit_bit_cast(pl_emit *c) {
    const pl_dtype from = c->in[0]->dtype, to = c->out[0]->dtype;
    const pl_dtype odd[] = { PL_F16, PL_BF16, PL_BOOL };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (from == odd[i] || to == odd[i]) return pl_emit_decline(c, "bits of a half or a bool");
    if (pl_dtype_bytes(from) != pl_dtype_bytes(to)) return pl_emit_decline(c, "different sizes");
    return pl_emit_out(c, 0,
                       pl_emit_map1(c, to, "({ $T r; __builtin_memcpy(&r, &$0, sizeof(r)); r; })",
                                    pl_emit_in(c, 0)));
}

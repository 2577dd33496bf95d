/* Emission of com.microsoft RotaryEmbedding. */
#include "ops/lib/emit_rotary.h"
#include "ops/microsoft/ms_attention_rules.h"

/* com.microsoft RotaryEmbedding: positions (batch, len), or one offset for all. */
pl_status pl_emit_ms_rotary(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    const int64_t dim = pl_attr_int(c->node, "rotary_embedding_dim");
    const int64_t last = pl_emit_dim(c, 0, rank - 1);
    pl_emit_rotary_sides r = { .batch = pl_emit_dim(c, 0, 0),
                               .len = pl_emit_dim(c, 0, rank - 2),
                               .interleaved = pl_attr_int(c->node, "interleaved") != 0 };
    r.size = rank == 4 ? last
             : dim > 0 ? last / pl_attr_int(c->node, "num_heads")
                       : 2 * pl_emit_dim(c, 2, 1);
    r.heads = rank == 4 ? pl_emit_dim(c, 0, 1) : last / r.size;
    r.dim = dim > 0 ? dim : r.size;
    const int64_t dims[] = { r.batch, 1, r.len, 1 };
    const bool offset = pl_emit_elements(c->in[1]) == 1 && pl_emit_rank(c, 1) < 2;
    const pl_ref position =
        offset ? pl_emit_map2(c, PL_I64, "$0 + $1", pl_emit_scalar(c, pl_emit_in(c, 1)),
                              pl_emit_iota(c, 4, 2, r.len))
               : pl_emit_reshape(c, pl_emit_in(c, 1), 4, dims);
    r.cos = pl_emit_cache_rows(c, 2, position, r.dim / 2, pl_emit_cache_limit(c, 2, 3));
    r.sin = pl_emit_cache_rows(c, 3, position, r.dim / 2, pl_emit_cache_limit(c, 2, 3));
    return pl_emit_rotate(c, &r);
}

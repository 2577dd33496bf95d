/* Rotary embeddings in emission rules. */
#ifndef PL_EMIT_ROTARY_H
#define PL_EMIT_ROTARY_H

#include "ops/emit.h"

typedef struct pl_emit_rotary_sides {
    int64_t batch, heads, len, size, dim;
    pl_ref cos, sin; /* (batch or 1, 1, len, dim / 2) */
    bool interleaved;
} pl_emit_rotary_sides;
pl_status pl_emit_rotate(pl_emit *c, const pl_emit_rotary_sides *r);
/* Rows of a cache (rows, columns) at positions (batch or 1, 1, len, 1). */
pl_ref pl_emit_cache_rows(pl_emit *c, int i, pl_ref position, int64_t half, int64_t limit);
int64_t pl_emit_cache_limit(const pl_emit *c, int a, int b);

#endif

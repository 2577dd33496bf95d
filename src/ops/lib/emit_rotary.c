/* Rotary embeddings in emission rules. */
#include "ops/lib/emit_rotary.h"

#include <stdio.h>

static pl_ref part(pl_emit *c, pl_ref x, const pl_emit_rotary_sides *r, int64_t start, int64_t step,
                   int64_t n) {
    const int64_t starts[] = { 0, 0, 0, start }, steps[] = { 1, 1, 1, step };
    const int64_t dims[] = { r->batch, r->heads, r->len, n };
    return pl_emit_slice(c, x, starts, steps, dims);
}

pl_status pl_emit_rotate(pl_emit *c, const pl_emit_rotary_sides *r) {
    static const int perm[] = { 0, 2, 1, 3 };
    const bool flat = pl_emit_rank(c, 0) == 3;
    const int64_t half = r->dim / 2, split[] = { r->batch, r->len, r->heads, r->size };
    const pl_dtype dtype = c->out[0]->dtype;
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_ref x = pl_emit_in(c, 0), pieces[3];
    int n = 2;
    if (flat) x = pl_emit_transpose(c, pl_emit_reshape(c, x, 4, split), perm);
    const pl_ref a = part(c, x, r, 0, r->interleaved ? 2 : 1, half);
    const pl_ref b = part(c, x, r, r->interleaved ? 1 : half, r->interleaved ? 2 : 1, half);
    const pl_ref args[] = { a, b, r->cos, r->sin };
    pieces[0] = pl_emit_map(c, dtype, "$0 * $2 - $1 * $3", 4, args);
    pieces[1] = pl_emit_map(c, dtype, "$1 * $2 + $0 * $3", 4, args);
    if (pieces[0] < 0 || pieces[1] < 0) return pl_emit_decline(c, "too many dims");
    if (r->interleaved) { /* pairs are adjacent elements */
        const int64_t pair[] = { r->batch, r->heads, r->len, half, 1 };
        const int64_t joined[] = { r->batch, r->heads, r->len, r->dim };
        for (int i = 0; i < 2; i++)
            pieces[i] = pl_emit_reshape(c, pieces[i], 5, pair);
        pieces[0] = pl_emit_reshape(c, c->builder->concat(c, 4, 2, pieces), 4, joined);
        n = 1;
    }
    if (r->dim < r->size) pieces[n++] = part(c, x, r, r->dim, 1, r->size - r->dim);
    for (int i = 0; i < n; i++)
        if (pieces[i] < 0) return pl_emit_decline(c, "too many dims");
    pl_ref y = n == 1 ? pieces[0] : c->builder->concat(c, 3, n, pieces);
    pl_emit_out_dims(c, 0, dims);
    if (flat) y = pl_emit_reshape(c, pl_emit_transpose(c, y, perm), 3, dims);
    return pl_emit_out(c, 0, y);
}

pl_ref pl_emit_cache_rows(pl_emit *c, int i, pl_ref position, int64_t half, int64_t limit) {
    char expr[160];
    const int64_t columns = pl_emit_dim(c, i, 1);
    snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F) * %lld + $1", (long long)limit - 1,
             (long long)columns);
    const pl_ref at = pl_emit_map2(c, PL_I64, expr, position, pl_emit_iota(c, 4, 3, half));
    return pl_emit_load(c, pl_emit_in(c, i), at);
}

int64_t pl_emit_cache_limit(const pl_emit *c, int a, int b) {
    const int64_t x = pl_emit_dim(c, a, 0), y = pl_emit_dim(c, b, 0);
    return x < y ? x : y;
}

/* Contents of small tensors, element by element. */
#include "ops/lib/content_map.h"

enum { INPUTS_MAX = 3 };

pl_status pl_content_map(pl_infer *c, int n_in, pl_content_fn fn, int op) {
    const pl_content *in[INPUTS_MAX];
    size_t n = 1;
    int rank = 0;
    if (c->concrete || n_in > INPUTS_MAX) return PL_OK;
    for (int i = 0; i < n_in; i++) {
        in[i] = pl_content_of(c, i);
        if (in[i] == NULL) return PL_OK;
        if (n != 1 && in[i]->n != 1 && in[i]->n != n) return PL_OK;
        if (in[i]->n != 1) n = in[i]->n;
        if (in[i]->rank > rank) rank = in[i]->rank;
    }
    pl_dim *dims = pl_arena_array(c->arena, n, sizeof(*dims));
    bool *known = pl_arena_array(c->arena, n, sizeof(*known));
    pl_content *out = pl_arena_alloc(c->arena, sizeof(*out));
    if (dims == NULL || known == NULL || out == NULL) return pl_fail_memory(c->err, n);
    for (size_t k = 0; k < n; k++) {
        pl_element e[INPUTS_MAX];
        for (int i = 0; i < n_in; i++) {
            const size_t at = in[i]->n == 1 ? 0 : k;
            e[i] = (pl_element){ in[i]->dims[at], in[i]->known[at] };
        }
        const pl_element r = fn(op, e);
        dims[k] = r.dim;
        known[k] = r.known;
    }
    *out = (pl_content){ .rank = rank, .n = n, .dims = dims, .known = known };
    c->out_content[0] = out;
    return PL_OK;
}

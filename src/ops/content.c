/* Contents of small tensors, element by element. */
#include "ops/content.h"

enum { CONTENT_MAX = 1024, INPUTS_MAX = 3 };

static bool is_shape_type(pl_dtype dtype) {
    return dtype == PL_I64 || dtype == PL_I32 || dtype == PL_BOOL;
}

/* Content of an input, whether it is a tensor or partly symbolic. */
static bool content_of(pl_infer *c, int i, pl_content *out) {
    if (i >= c->n_in || !is_shape_type(pl_infer_dtype_of(c, i))) return false;
    if (c->in_content[i] != NULL) {
        *out = *c->in_content[i];
        return out->n <= CONTENT_MAX;
    }
    const pl_tensor *t = c->in_tensor[i];
    if (t == NULL || t->rank > 1 || t->n_elements > CONTENT_MAX) return false;
    const size_t n = (size_t)t->n_elements;
    int64_t ints[CONTENT_MAX];
    pl_dim *dims = pl_arena_array(c->arena, n, sizeof(*dims));
    bool *known = pl_arena_array(c->arena, n, sizeof(*known));
    if (dims == NULL || known == NULL) return false;
    pl_load_i64(t->dtype, t->data, ints, n);
    for (size_t k = 0; k < n; k++) {
        dims[k] = (pl_dim){ ints[k], NULL };
        known[k] = true;
    }
    *out = (pl_content){ .rank = t->rank, .n = n, .dims = dims, .known = known };
    return true;
}

pl_status pl_content_map(pl_infer *c, int n_in, pl_content_fn fn, int op) {
    pl_content in[INPUTS_MAX];
    size_t n = 1;
    int rank = 0;
    if (c->concrete || n_in > INPUTS_MAX) return PL_OK;
    for (int i = 0; i < n_in; i++) {
        if (!content_of(c, i, &in[i])) return PL_OK;
        if (n != 1 && in[i].n != 1 && in[i].n != n) return PL_OK;
        if (in[i].n != 1) n = in[i].n;
        if (in[i].rank > rank) rank = in[i].rank;
    }
    pl_dim *dims = pl_arena_array(c->arena, n, sizeof(*dims));
    bool *known = pl_arena_array(c->arena, n, sizeof(*known));
    pl_content *out = pl_arena_alloc(c->arena, sizeof(*out));
    if (dims == NULL || known == NULL || out == NULL) return pl_fail_memory(c->err, n);
    for (size_t k = 0; k < n; k++) {
        pl_element e[INPUTS_MAX];
        for (int i = 0; i < n_in; i++) {
            const size_t at = in[i].n == 1 ? 0 : k;
            e[i] = (pl_element){ in[i].dims[at], in[i].known[at] };
        }
        const pl_element r = fn(op, e);
        dims[k] = r.dim;
        known[k] = r.known;
    }
    *out = (pl_content){ .rank = rank, .n = n, .dims = dims, .known = known };
    c->out_content[0] = out;
    return PL_OK;
}

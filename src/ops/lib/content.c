/* Contents of small integer tensors, and arithmetic on them for shape rules. */
#include "ops/lib/content.h"

#include "base/size.h"

static const pl_content *content_of_tensor(pl_infer *c, const pl_tensor *t) {
    if ((!pl_dtype_is_integer(t->dtype) && t->dtype != PL_BOOL) || t->rank > 1 ||
        t->n_elements > PL_CONTENT_MAX)
        return NULL;
    const size_t n = (size_t)t->n_elements;
    pl_content *content = pl_arena_alloc(c->arena, sizeof(*content));
    pl_dim *dims = pl_arena_array(c->arena, n, sizeof(*dims));
    bool *known = pl_arena_array(c->arena, n, sizeof(*known));
    if (content == NULL || dims == NULL || known == NULL) return NULL;
    for (size_t i = 0; i < n; i++) {
        dims[i] = pl_dim_of(pl_tensor_get_i64(t, (int64_t)i));
        known[i] = true;
    }
    *content = (pl_content){ t->rank, n, dims, known };
    return content;
}

const pl_content *pl_content_of(pl_infer *c, int i) {
    if (!pl_infer_has(c, i)) return NULL;
    if (c->in_tensor[i] != NULL) return content_of_tensor(c, c->in_tensor[i]);
    return c->in_content[i];
}

pl_status pl_content_set(pl_infer *c, int output, int rank, size_t n, const pl_dim *dims,
                         const bool *known) {
    if (c->concrete || output >= c->n_out || n > PL_CONTENT_MAX) return PL_OK;
    pl_content *content = pl_arena_alloc(c->arena, sizeof(*content));
    pl_dim *own_dims = pl_arena_array(c->arena, n, sizeof(*own_dims));
    bool *own_known = pl_arena_array(c->arena, n, sizeof(*own_known));
    if (content == NULL || own_dims == NULL || own_known == NULL) {
        return pl_fail_memory(c->err, sizeof(*content));
    }
    for (size_t i = 0; i < n; i++) {
        own_dims[i] = dims[i];
        own_known[i] = known[i];
    }
    *content = (pl_content){ rank, n, own_dims, own_known };
    c->out_content[output] = content;
    return PL_OK;
}

pl_status pl_content_pass(pl_infer *c, int rank) {
    if (c->concrete || rank < 0 || rank > 1) return PL_OK;
    const pl_content *content = pl_content_of(c, 0);
    if (content == NULL || (rank == 0 && content->n != 1)) return PL_OK;
    return pl_content_set(c, 0, rank, content->n, content->dims, content->known);
}

pl_status pl_dims_multiply(const pl_infer *c, const pl_dim *dims, int begin, int end, pl_dim *out) {
    int64_t product = 1;
    int n_open = 0;
    pl_dim open = PL_DIM_UNKNOWN;
    for (int d = begin; d < end; d++) {
        if (!pl_dim_known(dims[d])) {
            open = dims[d];
            n_open++;
        } else if (dims[d].value == 0) {
            *out = pl_dim_of(0);
            return PL_OK;
        }
    }
    for (int d = begin; d < end; d++) {
        if (pl_dim_known(dims[d]) && !pl_i64_mul(product, dims[d].value, &product)) {
            return pl_infer_fail(c, "the product of dims %d to %d does not fit in 63 bits", begin,
                                 end - 1);
        }
    }
    *out = PL_DIM_UNKNOWN;
    if (n_open == 0) *out = pl_dim_of(product);
    if (n_open == 1 && product == 1) *out = open;
    return PL_OK;
}

static pl_status axes_add(const pl_infer *c, int64_t axis, int rank, bool unique, pl_axes *out) {
    int d = 0;
    PL_TRY(pl_infer_axis(c, axis, rank, &d));
    for (size_t k = 0; k < out->n; k++) {
        if (out->axis[k] != d) continue;
        return unique ? pl_infer_fail(c, "axis %d appears twice", d) : PL_OK;
    }
    out->axis[out->n++] = d; /* at most rank different ones */
    return PL_OK;
}

pl_status pl_axes_read(pl_infer *c, const char *attr, int i, int rank, bool unique, pl_axes *out) {
    *out = (pl_axes){ .known = true };
    size_t n = 0;
    const int64_t *axes = attr == NULL ? NULL : pl_attr_ints(c->node, attr, &n);
    if (axes != NULL || (attr != NULL && pl_node_attr(c->node, attr) != NULL)) {
        out->present = true;
        for (size_t k = 0; axes != NULL && k < n; k++)
            PL_TRY(axes_add(c, axes[k], rank, unique, out));
        return PL_OK;
    }
    if (i < 0 || !pl_infer_has(c, i)) return PL_OK;
    if (pl_infer_rank(c, i) > 1) {
        return pl_infer_fail(c, "input %d (axes) has rank %d, expected 1", i, pl_infer_rank(c, i));
    }
    out->present = true;
    const pl_content *content = pl_content_of(c, i);
    out->known = content != NULL;
    for (size_t k = 0; content != NULL && k < content->n; k++) {
        if (!content->known[k]) {
            out->known = false;
            return PL_OK;
        }
        PL_TRY(axes_add(c, content->dims[k].value, rank, unique, out));
    }
    if (!out->known && c->concrete) {
        return pl_infer_fail(c, "input %d (axes) is not a list of at most %d integers", i,
                             PL_CONTENT_MAX);
    }
    return PL_OK;
}

pl_status pl_attr_dtype(const pl_infer *c, const char *name, pl_dtype otherwise, pl_dtype *out) {
    *out = otherwise;
    if (pl_node_attr(c->node, name) == NULL) return PL_OK;
    const int64_t number = pl_attr_int(c->node, name);
    if (!pl_dtype_valid(number)) {
        return pl_infer_fail(c, "attribute '%s' is %lld, which is not an element type", name,
                             (long long)number);
    }
    *out = pl_infer_dtype(c, (pl_dtype)number);
    return PL_OK;
}

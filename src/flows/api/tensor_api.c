/* plumb_tensor: pl_tensor under a public name. */
#include <string.h>

#include "flows/api/options.h"

static pl_status check(plumb_dtype dtype, int rank, const int64_t *dims, const void *data,
                       size_t n_bytes, pl_err *err) {
    int64_t n = 0;
    if (!pl_dtype_valid((int64_t)dtype))
        return pl_fail(err, PL_E_USAGE, "unknown element type %d", (int)dtype);
    if (rank < 0 || rank > PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "rank is %d, expected 0 to %d", rank, (int)PL_RANK_MAX);
    if (rank > 0) PL_REQUIRE(dims);
    if (n_bytes > 0) PL_REQUIRE(data);
    if (!pl_dims_product(rank, dims, &n))
        return pl_fail(err, PL_E_USAGE, "a dim is negative, or there are too many elements");
    const size_t size = pl_dtype_bytes((pl_dtype)dtype);
    if (n_bytes % size != 0 || n_bytes / size != (size_t)n)
        return pl_fail(err, PL_E_USAGE,
                       "tensor data has %zu bytes, but its shape has %lld elements of %zu bytes",
                       n_bytes, (long long)n, size);
    return PL_OK;
}

static pl_status copy_strings(pl_tensor *t, const plumb_string *data, pl_err *err) {
    for (int64_t i = 0; i < t->n_elements; i++) {
        if (data[i].data == NULL && data[i].n_bytes > 0)
            return pl_fail(err, PL_E_USAGE, "string %lld is NULL", (long long)i);
        PL_TRY(pl_tensor_set_string(t, i, data[i].n_bytes == 0 ? "" : data[i].data, data[i].n_bytes,
                                    err));
    }
    return PL_OK;
}

plumb_status plumb_tensor_new(plumb_dtype dtype, int rank, const int64_t *dims, const void *data,
                              size_t n_bytes, plumb_tensor **out, plumb_error *err) {
    pl_tensor *t = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_TRY(check(dtype, rank, dims, data, n_bytes, err));
    PL_TRY(pl_tensor_new((pl_dtype)dtype, rank, dims, &t, err));
    pl_status st = PL_OK;
    if (dtype == PLUMB_STRING) {
        st = copy_strings(t, data, err);
    } else if (n_bytes > 0) {
        memcpy(t->data, data, n_bytes);
    }
    if (st == PL_OK) {
        *out = (plumb_tensor *)t;
    } else {
        pl_tensor_unref(t);
    }
    return st;
}

plumb_status plumb_tensor_wrap(plumb_dtype dtype, int rank, const int64_t *dims, const void *data,
                               size_t n_bytes, void (*release)(void *ctx), void *ctx,
                               plumb_tensor **out, plumb_error *err) {
    pl_tensor *t = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    if (dtype == PLUMB_STRING)
        return pl_fail(err, PL_E_UNSUPPORTED, "strings cannot be wrapped: use plumb_tensor_new");
    PL_TRY(check(dtype, rank, dims, data, n_bytes, err));
    PL_TRY(pl_tensor_borrow((pl_dtype)dtype, rank, dims, data, release, ctx, &t, err));
    *out = (plumb_tensor *)t;
    return PL_OK;
}

plumb_tensor *plumb_tensor_ref(const plumb_tensor *tensor) {
    return tensor == NULL ? NULL : (plumb_tensor *)pl_tensor_ref(pl_api_tensor(tensor));
}

void plumb_tensor_free(plumb_tensor *tensor) {
    pl_tensor_unref(pl_api_tensor(tensor));
}

plumb_dtype plumb_tensor_dtype(const plumb_tensor *t) {
    return t == NULL ? (plumb_dtype)0 : (plumb_dtype)pl_api_tensor(t)->dtype;
}

int plumb_tensor_rank(const plumb_tensor *t) {
    return t == NULL ? 0 : pl_api_tensor(t)->rank;
}

const int64_t *plumb_tensor_dims(const plumb_tensor *t) {
    return t == NULL ? NULL : pl_api_tensor(t)->dims;
}

int64_t plumb_tensor_elements(const plumb_tensor *t) {
    return t == NULL ? 0 : pl_api_tensor(t)->n_elements;
}

const void *plumb_tensor_data(const plumb_tensor *t) {
    return t == NULL ? NULL : pl_api_tensor(t)->data;
}

size_t plumb_tensor_bytes(const plumb_tensor *t) {
    return t == NULL ? 0 : pl_tensor_bytes(pl_api_tensor(t));
}

const char *plumb_dtype_name(plumb_dtype dtype) {
    return pl_dtype_valid((int64_t)dtype) ? pl_dtype_name((pl_dtype)dtype) : "";
}

size_t plumb_dtype_bytes(plumb_dtype dtype) {
    return pl_dtype_valid((int64_t)dtype) ? pl_dtype_bytes((pl_dtype)dtype) : 0;
}

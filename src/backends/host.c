/* plumb_host: the functions that plumb offers to backends. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"

static plumb_kind host_kind(const plumb_datum *d) {
    switch (pl_datum_of(d)->kind) {
    case PL_TYPE_SEQUENCE: return PLUMB_SEQUENCE;
    case PL_TYPE_OPTIONAL: return PLUMB_OPTIONAL;
    default: return PLUMB_TENSOR;
    }
}

static const pl_tensor *tensor_of(const plumb_tensor *t) {
    return (const pl_tensor *)t;
}

static const plumb_tensor *host_tensor(const plumb_datum *d) {
    return (const plumb_tensor *)pl_datum_of(d)->tensor;
}

static size_t host_count(const plumb_datum *d) {
    return pl_datum_of(d)->n_items;
}

static const plumb_datum *host_item(const plumb_datum *d, size_t i) {
    return i < pl_datum_of(d)->n_items ? pl_datum_public(pl_datum_of(d)->items[i]) : NULL;
}

static plumb_dtype host_dtype(const plumb_tensor *t) {
    return (plumb_dtype)tensor_of(t)->dtype;
}

static int host_rank(const plumb_tensor *t) {
    return tensor_of(t)->rank;
}

static const int64_t *host_dims(const plumb_tensor *t) {
    return tensor_of(t)->dims;
}

static const void *host_data(const plumb_tensor *t) {
    return tensor_of(t)->data;
}

static size_t host_bytes(const plumb_tensor *t) {
    return pl_tensor_bytes(tensor_of(t));
}

static pl_status fill(pl_tensor *t, const void *data, size_t n_bytes, pl_err *err) {
    if (n_bytes != pl_tensor_bytes(t)) {
        char text[200];
        return pl_fail(err, PL_E_BACKEND, "got %zu bytes for %s, expected %zu", n_bytes,
                       pl_tensor_describe(t, text, sizeof(text)), pl_tensor_bytes(t));
    }
    if (data == NULL && n_bytes > 0) return pl_fail(err, PL_E_BACKEND, "no data given (NULL)");
    if (t->dtype != PL_STRING) {
        if (n_bytes > 0) memcpy(t->data, data, n_bytes);
        return PL_OK;
    }
    if (data == NULL) return PL_OK; /* no elements, then */
    for (int64_t i = 0; i < t->n_elements; i++) {
        const plumb_string *s = (const plumb_string *)data + i;
        PL_TRY(pl_tensor_set_string(t, i, s->data, s->n_bytes, err));
    }
    return PL_OK;
}

static plumb_status host_new_tensor(plumb_dtype dtype, int rank, const int64_t *dims,
                                    const void *data, size_t n_bytes, plumb_datum **out,
                                    plumb_error *error) {
    pl_err *err = error;
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    if (!pl_dtype_valid((int64_t)dtype)) {
        return pl_fail(err, PL_E_BACKEND, "unknown element type %d", (int)dtype);
    }
    if (rank < 0 || rank > PL_RANK_MAX) {
        return pl_fail(err, PL_E_BACKEND, "rank %d, expected 0 to %d", rank, PL_RANK_MAX);
    }
    pl_status st = pl_tensor_new((pl_dtype)dtype, rank, dims, &t, err);
    if (st == PL_OK) st = fill(t, data, n_bytes, err);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    st = pl_datum_of_tensor_take(t, &d, err);
    if (st == PL_OK) *out = pl_datum_public(d);
    return st;
}

static plumb_status host_new_sequence(plumb_dtype of, plumb_datum *const *items, size_t n_items,
                                      plumb_datum **out, plumb_error *error) {
    pl_datum *d = NULL;
    pl_datum *const *inner = (pl_datum *const *)items;
    const pl_type_kind kind =
        n_items > 0 && inner[0]->kind == PL_TYPE_SEQUENCE ? PL_TYPE_SEQUENCE : PL_TYPE_TENSOR;
    const pl_status st = pl_datum_new_sequence(kind, (pl_dtype)of, inner, n_items, &d, error);
    if (st == PL_OK) *out = pl_datum_public(d);
    return st;
}

static plumb_status host_new_optional(plumb_dtype of, plumb_datum *item, plumb_datum **out,
                                      plumb_error *error) {
    pl_datum *d = NULL, *inner = (pl_datum *)item;
    const pl_type_kind kind =
        inner != NULL && inner->kind == PL_TYPE_SEQUENCE ? PL_TYPE_SEQUENCE : PL_TYPE_TENSOR;
    const pl_status st = pl_datum_new_optional(kind, (pl_dtype)of, inner, &d, error);
    if (st == PL_OK) *out = pl_datum_public(d);
    return st;
}

static plumb_datum *host_ref(const plumb_datum *d) {
    return pl_datum_public(pl_datum_ref(pl_datum_of(d)));
}

static void host_unref(plumb_datum *d) {
    pl_datum_unref((pl_datum *)d);
}

__attribute__((format(printf, 3, 4))) static plumb_status
host_fail(plumb_error *error, plumb_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pl_vfail(error, status, format, args);
    va_end(args);
    return status;
}

static const plumb_host host = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_host),
    .kind = host_kind,
    .tensor = host_tensor,
    .count = host_count,
    .item = host_item,
    .dtype = host_dtype,
    .rank = host_rank,
    .dims = host_dims,
    .data = host_data,
    .bytes = host_bytes,
    .new_tensor = host_new_tensor,
    .new_sequence = host_new_sequence,
    .new_optional = host_new_optional,
    .ref = host_ref,
    .unref = host_unref,
    .fail = host_fail,
};

const plumb_host *plumb_host_get(void) {
    return &host;
}

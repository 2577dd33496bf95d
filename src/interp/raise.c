/* Converts float data to double and back. */
#include "interp/raise.h"

#include "base/alloc.h"
#include "tensor/tensor_cast.h"

bool pl_dtype_is_raised(pl_dtype dtype) {
    return dtype == PL_F32 || dtype == PL_F16 || dtype == PL_BF16;
}

pl_dtype pl_value_dtype(const pl_value *value, pl_dtype otherwise) {
    const pl_type *type = value->type;
    const bool known = type != NULL && type->kind == PL_TYPE_TENSOR && type->dtype != PL_UNDEFINED;
    return known ? type->dtype : otherwise;
}

pl_status pl_datum_raise(pl_pool *pool, const pl_datum *d, pl_datum **out, pl_err *err) {
    if (d->kind == PL_TYPE_TENSOR) {
        if (!pl_dtype_is_raised(d->tensor->dtype)) {
            *out = pl_datum_ref(d);
            return PL_OK;
        }
        pl_tensor *raised = NULL;
        PL_TRY(pl_tensor_cast_on(pool, d->tensor, PL_F64, &raised, err));
        return pl_datum_of_tensor_take(raised, out, err);
    }
    pl_datum **items = pl_calloc(d->n_items + 1, sizeof(pl_datum *));
    if (items == NULL) return pl_fail_memory(err, d->n_items);
    pl_status st = PL_OK;
    for (size_t i = 0; i < d->n_items && st == PL_OK; i++) {
        st = pl_datum_raise(pool, d->items[i], &items[i], err);
    }
    const pl_dtype dtype = pl_dtype_is_raised(d->elem_dtype) ? PL_F64 : d->elem_dtype;
    if (st == PL_OK && d->kind == PL_TYPE_SEQUENCE) {
        st = pl_datum_new_sequence(d->elem_kind, dtype, items, d->n_items, out, err);
    } else if (st == PL_OK) {
        st = pl_datum_new_optional(d->elem_kind, dtype, items[0], out, err);
    }
    for (size_t i = 0; i < d->n_items; i++)
        pl_datum_unref(items[i]);
    pl_free(items);
    return st;
}

pl_status pl_datum_lower(pl_dtype dtype, pl_datum **arg, pl_err *err) {
    if (*arg == NULL || (*arg)->kind != PL_TYPE_TENSOR || (*arg)->tensor->dtype != PL_F64) {
        return PL_OK;
    }
    pl_tensor *lowered = NULL;
    PL_TRY(pl_tensor_cast((*arg)->tensor, dtype, &lowered, err));
    pl_datum_unref(*arg);
    *arg = NULL;
    return pl_datum_of_tensor_take(lowered, arg, err);
}

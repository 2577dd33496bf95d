/* Data on edges: counting references of tensors, sequences and optionals. */
#include "tensor/datum.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/size.h"

static pl_datum *datum_new(pl_type_kind kind, pl_err *err) {
    pl_datum *d = pl_calloc(1, sizeof *d);
    if (!d) {
        pl_fail_memory(err, sizeof *d);
        return NULL;
    }
    d->refs = 1;
    d->kind = kind;
    return d;
}

pl_status pl_datum_of_tensor_take(pl_tensor *t, pl_datum **out, pl_err *err) {
    pl_datum *d = datum_new(PL_TYPE_TENSOR, err);
    if (!d) {
        pl_tensor_unref(t);
        return PL_E_MEMORY;
    }
    d->tensor = t;
    d->elem_dtype = t->dtype;
    *out = d;
    return PL_OK;
}

static pl_status datum_new_list(pl_type_kind kind, pl_type_kind elem_kind, pl_dtype elem_dtype,
                                pl_datum *const *items, size_t n_items, pl_datum **out,
                                pl_err *err) {
    pl_datum *d = datum_new(kind, err);
    if (!d) return PL_E_MEMORY;
    d->elem_kind = elem_kind;
    d->elem_dtype = elem_dtype;
    if (n_items > 0) {
        d->items = pl_calloc(n_items, sizeof(pl_datum *));
        if (!d->items) {
            pl_free(d);
            return pl_fail(err, PL_E_MEMORY, "out of memory for a sequence of %zu items", n_items);
        }
    }
    for (size_t i = 0; i < n_items; i++)
        d->items[i] = pl_datum_ref(items[i]);
    d->n_items = n_items;
    *out = d;
    return PL_OK;
}

pl_status pl_datum_new_sequence(pl_type_kind elem_kind, pl_dtype elem_dtype, pl_datum *const *items,
                                size_t n_items, pl_datum **out, pl_err *err) {
    return datum_new_list(PL_TYPE_SEQUENCE, elem_kind, elem_dtype, items, n_items, out, err);
}

pl_status pl_datum_of_map_take(pl_tensor *keys, pl_tensor *values, pl_datum **out, pl_err *err) {
    pl_datum *pair[2] = { NULL, NULL };
    pl_status st = pl_datum_of_tensor_take(keys, &pair[0], err);
    if (st == PL_OK) {
        st = pl_datum_of_tensor_take(values, &pair[1], err);
    } else {
        pl_tensor_unref(values);
    }
    if (st == PL_OK) st = pl_datum_new_sequence(PL_TYPE_TENSOR, PL_UNDEFINED, pair, 2, out, err);
    pl_datum_unref(pair[0]);
    pl_datum_unref(pair[1]);
    return st;
}

pl_status pl_datum_new_optional(pl_type_kind elem_kind, pl_dtype elem_dtype, pl_datum *item,
                                pl_datum **out, pl_err *err) {
    return datum_new_list(PL_TYPE_OPTIONAL, elem_kind, elem_dtype, &item, item ? 1 : 0, out, err);
}

pl_datum *pl_datum_ref(const pl_datum *d) {
    pl_datum *m = (pl_datum *)(uintptr_t)d;
    __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

void pl_datum_unref(pl_datum *d) {
    if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (size_t i = 0; i < d->n_items; i++)
        pl_datum_unref(d->items[i]);
    pl_free(d->items);
    pl_tensor_unref(d->tensor);
    pl_free(d);
}

size_t pl_datum_bytes(const pl_datum *d) {
    if (d->kind == PL_TYPE_TENSOR) return pl_tensor_bytes(d->tensor);
    size_t total = 0;
    for (size_t i = 0; i < d->n_items; i++)
        if (!pl_size_add(total, pl_datum_bytes(d->items[i]), &total)) return SIZE_MAX;
    return total;
}

const char *pl_datum_describe(const pl_datum *d, char *out, size_t n_out) {
    if (n_out == 0) return "";
    if (d->kind == PL_TYPE_TENSOR) return pl_tensor_describe(d->tensor, out, n_out);
    const char *elem = d->elem_dtype == PL_UNDEFINED ? "?" : pl_dtype_name(d->elem_dtype);
    const bool nested = d->elem_kind == PL_TYPE_SEQUENCE;
    const char *open = nested ? "seq(" : "", *close = nested ? ")" : "";
    if (d->kind == PL_TYPE_SEQUENCE) {
        snprintf(out, n_out, "seq(%s%s%s) of %zu", open, elem, close, d->n_items);
    } else if (d->n_items == 0) {
        snprintf(out, n_out, "optional(%s%s%s), empty", open, elem, close);
    } else {
        char inner[256];
        snprintf(out, n_out, "optional(%s)", pl_datum_describe(d->items[0], inner, sizeof inner));
    }
    return out;
}

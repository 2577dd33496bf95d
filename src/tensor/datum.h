/* Data of a value at run time: a tensor, a sequence, or an optional. Ref-counted and immutable once
 * published, like tensors. */
#ifndef PL_DATUM_H
#define PL_DATUM_H

#include "tensor/tensor.h"
#include "tensor/type.h"

typedef struct pl_datum {
    int refs;                /* atomic */
    pl_type_kind kind;       /* PL_TYPE_TENSOR, PL_TYPE_SEQUENCE, PL_TYPE_OPTIONAL */
    pl_tensor *tensor;       /* TENSOR */
    struct pl_datum **items; /* SEQUENCE: n_items; OPTIONAL: 0 or 1 */
    size_t n_items;
    pl_dtype elem_dtype;    /* SEQUENCE, OPTIONAL: of the tensors inside; PL_UNDEFINED if unknown */
    pl_type_kind elem_kind; /* SEQUENCE, OPTIONAL: TENSOR or SEQUENCE */
} pl_datum;

/* _take: the argument's reference moves into the result, also on failure. */
pl_status pl_datum_of_tensor_take(pl_tensor *t, pl_datum **out, pl_err *err);
/* Items are borrowed and referenced. */
pl_status pl_datum_new_sequence(pl_type_kind elem_kind, pl_dtype elem_dtype, pl_datum *const *items,
                                size_t n_items, pl_datum **out, pl_err *err);
/* A map, as two tensors of one length: keys and values. */
pl_status pl_datum_of_map_take(pl_tensor *keys, pl_tensor *values, pl_datum **out, pl_err *err);
/* item == NULL: the empty optional. */
pl_status pl_datum_new_optional(pl_type_kind elem_kind, pl_dtype elem_dtype, pl_datum *item,
                                pl_datum **out, pl_err *err);
pl_datum *pl_datum_ref(const pl_datum *d);
void pl_datum_unref(pl_datum *d); /* NULL is fine */
/* Bytes of all tensors inside. */
size_t pl_datum_bytes(const pl_datum *d);
const char *pl_datum_describe(const pl_datum *d, char *out, size_t n_out);

#endif

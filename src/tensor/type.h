/* Types of values: element type and shape, known, symbolic or unknown. Types are allocated in an
 * arena and immutable once attached to a value. */
#ifndef PL_TYPE_H
#define PL_TYPE_H

#include "base/arena.h"
#include "base/buf.h"
#include "tensor/dtype.h"

typedef enum pl_type_kind {
    PL_TYPE_NONE = 0, /* not known */
    PL_TYPE_TENSOR,
    PL_TYPE_SEQUENCE,
    PL_TYPE_OPTIONAL,
    PL_TYPE_MAP,
    PL_TYPE_SPARSE
} pl_type_kind;

/* A dim: known (value >= 0), symbolic (value -1, name set) or unknown (value -1, name NULL).
 * Equal names mean equal sizes within one model. */
typedef struct pl_dim {
    int64_t value;
    const char *name;
} pl_dim;

typedef struct pl_type {
    pl_type_kind kind;
    pl_dtype dtype;             /* TENSOR, SPARSE; MAP: of the key */
    bool has_rank;              /* TENSOR */
    int rank;                   /* TENSOR, when has_rank */
    const pl_dim *dims;         /* TENSOR, rank of them */
    const struct pl_type *elem; /* SEQUENCE, OPTIONAL, MAP: of the items (NULL = not known) */
} pl_type;

#define PL_DIM_UNKNOWN ((pl_dim){ -1, NULL })
static inline pl_dim pl_dim_of(int64_t value) {
    return (pl_dim){ value, NULL };
}
static inline bool pl_dim_known(pl_dim d) {
    return d.value >= 0;
}
bool pl_dim_equal(pl_dim a, pl_dim b); /* both known and equal, or the same symbol */

/* NULL when out of memory. dims are copied; names are borrowed. */
pl_type *pl_type_tensor(pl_arena *arena, pl_dtype dtype, int rank, const pl_dim *dims);
pl_type *pl_type_tensor_unranked(pl_arena *arena, pl_dtype dtype);
pl_type *pl_type_of(pl_arena *arena, pl_type_kind kind, const pl_type *elem);
bool pl_type_is_concrete(const pl_type *type); /* a tensor with every dim known */
bool pl_type_equal(const pl_type *a, const pl_type *b);
/* "float[N,3,224,224]", "seq(int64[?])", "optional(float)"; NULL prints "?". */
void pl_type_print(pl_buf *buf, const pl_type *type);

#endif

/* Symbolic contents in shape rules: integers and bools of rank 0 or 1, each element known, a symbol
 * or unknown. For operators that work on shapes element by element. */
#ifndef PL_CONTENT_MAP_H
#define PL_CONTENT_MAP_H

#include "ops/lib/content.h"

typedef struct pl_element {
    pl_dim dim; /* the symbol, or the value where known (it may be negative) */
    bool known;
} pl_element;

#define PL_ELEMENT_UNKNOWN ((pl_element){ PL_DIM_UNKNOWN, false })
static inline pl_element pl_element_of(int64_t value) {
    return (pl_element){ { value, NULL }, true };
}

/* out[k] = fn(op, in[0][k], …, in[n_in-1][k]) with broadcasting becomes the content of output 0.
 * Does nothing when an input's content is not known, is long, or in a run (c->concrete). n_in <= 3.
 */
typedef pl_element (*pl_content_fn)(int op, const pl_element *in);
pl_status pl_content_map(pl_infer *c, int n_in, pl_content_fn fn, int op);

#endif

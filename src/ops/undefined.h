/* Elements of its outputs that an operator leaves undefined: padded rows of a ragged batch, places
 * of a cache beyond its length. Two correct runtimes may have anything there. The rule is in the
 * row, beside the kernel; interp/dont_care.h finds what follows from these elements. */
#ifndef PL_OP_UNDEFINED_H
#define PL_OP_UNDEFINED_H

#include "ops/op.h"
#include "tensor/ranges.h"

typedef struct pl_undefined {
    const pl_node *node;
    int n_in, n_out;
    const pl_tensor *const *in;  /* NULL = left out, or (for `may`) not known */
    const pl_tensor *const *out; /* NULL = not wanted; for `may` not known */
    pl_ranges *of;               /* of each output, to fill, in order; NULL for `may` */
    pl_err *err;
} pl_undefined;

struct pl_undefined_rule {
    /* May there be such elements? Asked first: inputs with PL_PORT_LAST, PL_PORT_TOTAL or
     * PL_PORT_OFFSETS are known, and those of the model. */
    bool (*may)(const pl_undefined *c);
    pl_status (*mark)(pl_undefined *c);
};

#endif

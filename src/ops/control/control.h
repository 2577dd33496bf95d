/* Shared by the kernels, error bounds and gradients of control flow. */
#ifndef PL_CONTROL_H
#define PL_CONTROL_H

#include "ops/bound.h"
#include "ops/op.h"

/* Scan-8 has a batch axis in front of everything and sequence lengths as input 0; from Scan-9 on
 * the axes are free. */
bool pl_scan_has_batch(const pl_node *node);
typedef struct pl_scan_layout {
    pl_graph *body;
    size_t first;                            /* input that is the first state */
    size_t n_states, n_in, n_out;            /* states; scan inputs and outputs */
    const int64_t *in_axes, *out_axes;       /* NULL = all 0 */
    const int64_t *in_reverse, *out_reverse; /* NULL = all forward */
} pl_scan_layout;
/* Returns what is wrong with the attributes (and in `*name` which one), or NULL. */
const char *pl_scan_read(pl_scan_layout *s, const pl_node *node, size_t n_in, const char **name);

/* Rank of the iteration number (input 0) and of the condition (input 1) that a Loop gives to its
 * body: 1 where the body declares [1], as converters do and ONNX Runtime honours, else 0. */
int pl_loop_rank(const pl_graph *body, size_t i);
/* A tensor of one element. */
pl_status pl_loop_number(pl_dtype dtype, int rank, int64_t value, pl_datum **out, pl_err *err);

#endif

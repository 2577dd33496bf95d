/* The tensors of a state: smaller and simpler ones. */
#ifndef PL_MINI_DATA_H
#define PL_MINI_DATA_H

#include "flows/minify/search/mini_state.h"

/* A tensor of a state: an input's data, or a weight. */
typedef struct pl_slot {
    pl_value *value;
    size_t input; /* index; SIZE_MAX = a weight */
} pl_slot;
pl_status pl_mini_slots(const pl_mini_state *state, pl_slot **out, size_t *n_out, pl_err *err);
/* NULL when there is no tensor. */
pl_tensor *pl_slot_tensor(const pl_mini_state *state, const pl_slot *slot);
/* Takes the tensor; an input also gets its type. */
pl_status pl_slot_set_take(pl_mini_state *state, const pl_slot *slot, pl_tensor *t, pl_err *err);
/* `count` entries of an axis from `begin` on; contiguous. */
pl_status pl_mini_slice(const pl_tensor *t, int axis, int64_t begin, int64_t count, pl_tensor **out,
                        pl_err *err);
typedef enum pl_simple {
    PL_SIMPLE_ONE,
    PL_SIMPLE_ZERO,
    PL_SIMPLE_FIRST,
    PL_SIMPLE_ROUND
} pl_simple;
/* The same shape with simpler elements; *out NULL when nothing would change. */
pl_status pl_mini_simplify(const pl_tensor *t, pl_simple how, pl_tensor **out, pl_err *err);
/* Inputs or weights, all at once and one by one, by the four rules above and with zeros. */
pl_status pl_mini_simplify_slots(pl_mini *m, const pl_mini_state *from, bool weights,
                                 pl_mini_state **out, pl_err *err);

#endif

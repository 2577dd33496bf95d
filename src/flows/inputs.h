/* Inputs of a run: read from files, or generated. */
#ifndef PL_INPUTS_H
#define PL_INPUTS_H

#include <plumb.h>

#include "graph/graph.h"
#include "tensor/datum.h"

/* Fills in[i] for every input of the main graph that has no default (or is given). Generated values
 * depend only on seed, input number and element number. Operators must be resolved. in[] holds
 * references also on failure: release them. */
pl_status pl_inputs_make(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                         pl_err *err);
/* Generates those that are still NULL; rejects options that contradict the others. */
pl_status pl_inputs_make_missing(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                                 pl_err *err);

/* An error for a dim "NAME=N" that no input has. */
pl_status pl_inputs_check_dims(const pl_graph *graph, const char *const *dims, size_t n_dims,
                               pl_err *err);
/* Its two halves: those that are given, the rest stays NULL; one that is generated. */
pl_status pl_inputs_given(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                          pl_err *err);
pl_status pl_inputs_generate(const pl_model *model, const plumb_inputs *source, size_t i,
                             pl_datum **out, pl_err *err);

/* Has one of them no elements? */
bool pl_inputs_starve(const pl_graph *graph, pl_datum *const *in);

/* Several samples: each set is one, and so is each test_data_set_N in a folder. Without sets there
 * is one sample. The array and its strings are in the arena; the rest is shared with `source`. */
pl_status pl_inputs_samples(const plumb_inputs *source, pl_arena *arena, plumb_inputs **out,
                            size_t *n_out, pl_err *err);

/* "NAME=N" pairs as a map from symbol to int64_t. */
typedef struct pl_dim_map {
    pl_strmap map;
    pl_arena *arena;
} pl_dim_map;
pl_status pl_dim_map_init(pl_dim_map *map, const char *const *dims, size_t n_dims, pl_err *err);
void pl_dim_map_release(pl_dim_map *map);

/* Index in `from` (inputs or outputs of another model) that matches to[i]: the same name; else, if
 * the counts agree and neither name occurs on the other side, the same position. SIZE_MAX =
 * none. */
size_t pl_ports_match(pl_value *const *to, size_t n_to, size_t i, pl_value *const *from,
                      size_t n_from);

/* A tensor for an input of another model, a new reference: floats are converted to the type that
 * the input declares (a model in fp16 against its source in fp32). */
pl_status pl_input_as(const pl_value *input, pl_datum *d, pl_datum **out, pl_err *err);

#endif

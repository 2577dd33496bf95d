/* Choosing what is recorded, and the names of bodies: shared by flows that record. */
#ifndef PL_RECORD_H
#define PL_RECORD_H

#include <regex.h>

#include "graph/graph.h"

/* Lists as in plumb_record_options. */
typedef struct pl_record_filter {
    regex_t *names;
    size_t n_names;
    const char *const *ops;
    size_t n_ops;
    const char *const *modules;
    size_t n_modules;
} pl_record_filter;

pl_status pl_record_filter_init(pl_record_filter *filter, const char *const *names, size_t n_names,
                                pl_err *err);
void pl_record_filter_release(pl_record_filter *filter);
/* node == NULL: an input of the model, which no list of ops or modules fits. */
bool pl_record_filter_fits(const pl_record_filter *filter, const char *value, const pl_node *node,
                           const char *module);

/* "LOOP/body" for a value inside the body of the node that produces LOOP; "" for the main graph.
 * The text lives in the arena; NULL when out of memory. */
const char *pl_record_graph_path(const pl_graph *graph, pl_arena *arena);

#endif

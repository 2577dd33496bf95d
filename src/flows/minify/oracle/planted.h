/* Injected faults that follow their node: KIND@OP:N counts nodes of one type, and the number
 * changes when nodes before it are removed. */
#ifndef PL_PLANTED_H
#define PL_PLANTED_H

#include "graph/graph.h"

enum { PL_PLANTED_MAX = 8 };

typedef struct pl_planted {
    struct {
        char op[64];
        char *value; /* output of the node; NULL = all nodes of the type */
    } faults[PL_PLANTED_MAX];
    size_t n_faults;
} pl_planted;

/* Finds the nodes of the original that the spec refers to. */
pl_status pl_planted_find(pl_planted *p, const char *spec, const pl_graph *graph, pl_err *err);
/* The spec with the numbers of these nodes in a candidate; without faults whose node is gone. */
pl_status pl_planted_spec(const pl_planted *p, const char *spec, const pl_graph *graph, pl_buf *out,
                          pl_err *err);
void pl_planted_release(pl_planted *p);

/* A line for each fault of the spec that has no node in the graph; none for other backends. */
void pl_planted_misses(const char *spec, const pl_graph *graph, pl_buf *out);

#endif

/* A run of which some elements mean nothing (interp/dont_care.h): what the hook sees has zeros
 * there, and outputs that have such elements need not be those of the plain run bit by bit. */
#ifndef PL_HIDING_H
#define PL_HIDING_H

#include "backends/backend.h"
#include "interp/dont_care.h"

typedef struct pl_hiding {
    plumb_run_args args; /* to run with, in place of the caller's */
    plumb_hook hook;
    const plumb_hook *given;
    const plumb_datum **plain;
    const pl_graph *graph;
    const pl_dont_care *found;
} pl_hiding;

/* Everything is borrowed; the object must stay where it is. */
pl_status pl_hiding_init(pl_hiding *h, const pl_graph *graph, const pl_dont_care *found,
                         const plumb_run_args *args, pl_err *err);
void pl_hiding_release(pl_hiding *h);

#endif

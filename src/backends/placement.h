/* Where the nodes of a model run, for a backend that splits it over several places (the execution
 * providers of ONNX Runtime). Nodes that the first place cannot run fall back to the next. */
#ifndef PL_PLACEMENT_H
#define PL_PLACEMENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_read.h"

enum { PL_PLACE_NAMES_MAX = 64 };

typedef struct pl_place_op {
    const char *op;
    size_t n_nodes;
} pl_place_op;

typedef struct pl_place {
    const char *name; /* "WebGpu", "CPU" */
    size_t n_nodes;
    pl_place_op *ops; /* by count, largest first; then by name */
    size_t n_ops;
    const char **nodes; /* names of the first PL_PLACE_NAMES_MAX */
    size_t n_names;
} pl_place;

typedef struct pl_placement { /* owned by the arena it was read into */
    pl_place *places;         /* in order of appearance, CPU last; none = one place, or unknown */
    size_t n_places;
} pl_placement;

/* Parses the lines "PLACE\tOP\tNODE\n" of a backend; any other line is an error. */
pl_status pl_placement_parse(const char *text, pl_arena *arena, pl_placement *out, pl_err *err);
/* "WebGpu 12 nodes; CPU 1 node (Loop)": operators are listed for places that nodes fell back to. ""
 * if unknown. */
void pl_placement_put_text(const pl_placement *placement, pl_buf *out);
/* [{"place", "nodes", "ops": {}, "names": []}] */
void pl_placement_put_json(const pl_placement *placement, const char *key, pl_json *j);
/* Reads that JSON; NULL means none. The input is untrusted. */
pl_status pl_placement_read_json(const pl_json_value *list, pl_arena *arena, pl_placement *out,
                                 pl_err *err);
pl_status pl_placement_copy(const pl_placement *from, pl_arena *arena, pl_placement *out);

#endif

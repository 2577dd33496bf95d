/* A readable list of what a pass did to a model. */
#ifndef PL_CHANGES_H
#define PL_CHANGES_H

#include "base/json.h"
#include "graph/graph.h"

typedef enum pl_change_kind {
    PL_CHANGE_EVAL,    /* training behaviour switched off */
    PL_CHANGE_CAST,    /* a Cast was inserted */
    PL_CHANGE_CONVERT, /* a constant was converted */
    PL_CHANGE_DROP,    /* a Cast of the model became redundant */
    PL_CHANGE_STAY     /* an operator does not support the type and keeps its own */
} pl_change_kind;

typedef struct pl_change { /* strings live with the model */
    pl_change_kind kind;
    const char *value; /* affected value */
    const char *node;  /* affected node; "" when it has no name */
    const char *op;
    pl_dtype from, to; /* casts and conversions; PL_UNDEFINED else */
    const char *what;  /* one line; "" when the rest is enough */
} pl_change;

typedef struct pl_changes {
    pl_change *items;
    size_t n, capacity;
} pl_changes;
#define PL_CHANGES_INIT                                                                            \
    { NULL, 0, 0 }

/* `changes` may be NULL: then nothing is recorded. */
pl_status pl_changes_add(pl_changes *changes, const pl_change *change, pl_err *err);
void pl_changes_release(pl_changes *changes);
size_t pl_changes_count(const pl_changes *changes, pl_change_kind kind);
/* One line each, and a count at the end. */
void pl_changes_print(const pl_changes *changes, pl_buf *out);
void pl_changes_put_json(const pl_changes *changes, pl_json *j); /* an array */

#endif

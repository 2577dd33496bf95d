/* Copying parts of one model into another; internal to src/graph. */
#ifndef PL_COPY_INT_H
#define PL_COPY_INT_H

#include "graph/graph.h"

typedef struct pl_copier {
    pl_model *to;
    pl_value **values; /* by id in the source model -> its copy; NULL: not copied */
    int depth;
    pl_err *err;
} pl_copier;

/* An empty model with the header (versions, opsets, metadata, functions) of `from`. */
pl_status pl_copier_init(pl_copier *c, const pl_model *from, pl_err *err);
void pl_copier_release(pl_copier *c); /* frees c->to unless the caller has taken it (NULL) */
pl_status pl_copy_text(pl_copier *c, const char *s, const char **out);
/* Name, type and doc; not the tensor, producer or flags. */
pl_status pl_copy_value(pl_copier *c, const pl_value *from, pl_graph *to);
pl_status pl_copy_init(pl_copier *c, const pl_value *from);
/* Its inputs must have been copied. Outputs that were not copied become NULL. */
pl_status pl_copy_node(pl_copier *c, const pl_node *from, pl_graph *to);

#endif

/* Which experts a token is sent to: operators that choose (TopK, MoE) on both sides of a session.
 * One other expert is an error of its own size, however small the rounding was that caused it. */
#ifndef PL_ROUTING_H
#define PL_ROUTING_H

#include "base/json.h"
#include "base/json_read.h"
#include "graph/graph.h"
#include "session/session.h"

typedef struct pl_route {
    const char *node, *op, *value;
    int64_t rows, same; /* places where a set is chosen; those with the same set on both sides */
} pl_route;

typedef struct pl_routing {
    pl_route *of; /* in the order of the model */
    size_t n;
    int64_t rows, same;
    const char *output; /* whose errors follow; "" when every set is the same */
    double error;       /* of A from the reference, relative rms */
    double alone;       /* of the reference when it takes A's sets */
    double without;     /* of A's model when it takes the reference's; NAN: one model */
} pl_routing;

/* Does this value hold a choice? `scores`: they are those that the operator behind it chooses k
 * from; else indices along `axis`. */
typedef struct pl_choice {
    const pl_node *node; /* that chooses; NULL = it holds none */
    bool scores;
    int axis;
    int64_t k;
} pl_choice;
pl_choice pl_choice_of(const pl_graph *graph, const pl_value *value, bool routers);
/* Does any operator choose by scores? If not, the operators behind a value need not be asked. */
bool pl_graph_has_routers(const pl_graph *graph);
/* Counts the places with the same set. False when the two cannot be compared. */
bool pl_choice_agree(const pl_choice *c, const pl_tensor *a, const pl_tensor *b, int64_t *rows,
                     int64_t *same);

/* "routing: 38 of 40 choices of experts are the same…" with a line feed; nothing without routes. */
void pl_routing_put_text(const pl_routing *r, pl_buf *out);
void pl_routing_put_json(const pl_routing *r, pl_json *j); /* "routing"; nothing for NULL */
pl_status pl_routing_take(pl_session *s, const pl_json_value *v, pl_err *err);

#endif

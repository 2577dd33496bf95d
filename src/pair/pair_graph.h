/* The graph of one side in the one form that pairing and tracing walk, whether it comes from a
 * model or from a recording's JSON.
 *
 * Everything is an index. Bodies of If, Loop and Scan are flattened into it: the inputs of a body
 * come from a node of their own that has the owner's inputs, and the owner has the body's outputs
 * as further inputs, so that the whole stays acyclic and in topological order. */
#ifndef PL_PAIR_GRAPH_H
#define PL_PAIR_GRAPH_H

#include "ops/op.h"
#include "pair/pair.h"

#define PL_PAIR_NONE UINT32_MAX

enum { PL_PAIR_SIDES = 2 };

enum pl_pg_value_flag {
    PL_PG_CONST = 1 << 0,  /* initializer, or output of a Constant node */
    PL_PG_INPUT = 1 << 1,  /* of the model */
    PL_PG_OUTPUT = 1 << 2, /* of the model */
    PL_PG_FIXED = 1 << 3,  /* depends on constants only */
    PL_PG_CODES = 1 << 4,  /* integers that represent the reals of `root` */
    PL_PG_SCALE = 1 << 5,  /* of a quantisation that is done at run time */
};

typedef struct pl_pg_value {
    const char *name;
    uint32_t producer, slot; /* PL_PAIR_NONE for constants and inputs */
    uint32_t root;           /* the value that it is a view of; else itself */
    uint32_t real;           /* … and through quantisation; else `root` */
    uint32_t first_item;     /* of the side, or PL_PAIR_NONE; more by pl_pair_state.next_item */
    uint32_t io;             /* position among inputs or outputs */
    unsigned flags;
    uint64_t content, shape; /* of a constant: hashes of its bytes and of its dims */
} pl_pg_value;

enum pl_pg_node_flag {
    PL_PG_VIEW = 1 << 0,
    PL_PG_COMMUTATIVE = 1 << 1,
    PL_PG_QUANT = 1 << 2, /* only changes the number format */
    PL_PG_BODY = 1 << 3,  /* represents the inputs of a body */
    PL_PG_RANDOM = 1 << 4,
};

typedef struct pl_pg_node {
    const char *op, *domain, *module;
    uint64_t label;           /* op, domain, attributes */
    uint64_t plain;           /* … of the op whose quantised form it is */
    const signed char *slots; /* of that op's inputs, ended by -1; NULL = all */
    const pl_op_def *row;     /* by name, also if the domain differs; NULL = none */
    uint32_t in, n_in;        /* into graph->in; PL_PAIR_NONE where omitted */
    uint32_t n_own_in;        /* the rest are outputs of bodies */
    uint32_t out, n_out;
    unsigned flags;
} pl_pg_node;

typedef struct pl_pg_use {
    uint32_t node, slot;
} pl_pg_use;

typedef struct pl_pair_graph {
    pl_pg_value *values;
    uint32_t n_values;
    pl_pg_node *nodes; /* topological order */
    uint32_t n_nodes;
    uint32_t *edges; /* of `in` and `out` */
    uint32_t n_edges;
    pl_pg_use *uses; /* of value v: use_at[v] to use_at[v + 1] */
    uint32_t *use_at;
    size_t values_capacity, nodes_capacity, edges_capacity;
    pl_strmap by_path; /* "path\nname", or "name" in the main graph -> value + 1 */
    pl_strmap ops;     /* cache of operator-table lookups by kind of node */
    uint32_t *by_id;   /* from a model: pl_value.id -> value */
    size_t n_by_id;
    pl_arena *arena; /* names, keys, scratch of the builders */
} pl_pair_graph;

/* The graph of a side; empty when it has none. */
pl_status pl_pair_graph_init(pl_pair_graph *graph, const pl_pair_side *side, pl_err *err);
void pl_pair_graph_release(pl_pair_graph *graph);
uint32_t pl_pair_graph_find(const pl_pair_graph *graph, const char *path, const char *name);

#endif

/* The IR: a model, its graphs, nodes, values and attributes.
 *
 * Everything in a model is allocated in its arena and freed with it; tensors are ref-counted and
 * shared. Values are the key: a name is unique in its graph, node names may be empty or repeated. A
 * body (attribute graph of If, Loop, Scan) refers to values of the graphs around it by pointer:
 * `value->graph` tells whose it is. Omitted optional inputs and outputs are NULL. After reading,
 * nodes are in topological order and functions are inlined. Not thread-safe while it is edited; any
 * number of threads may read it. */
#ifndef PL_GRAPH_H
#define PL_GRAPH_H

#include "base/arena.h"
#include "base/strmap.h"
#include "base/wire.h"
#include "tensor/tensor.h"
#include "tensor/type.h"

typedef struct pl_model pl_model;
typedef struct pl_graph pl_graph;
typedef struct pl_node pl_node;
typedef struct pl_value pl_value;
struct pl_op_def; /* a row of the operator table, src/ops/op.h */

/* AttributeProto.AttributeType */
typedef enum pl_attr_type {
    PL_ATTR_NONE = 0,
    PL_ATTR_FLOAT = 1,
    PL_ATTR_INT = 2,
    PL_ATTR_STRING = 3,
    PL_ATTR_TENSOR = 4,
    PL_ATTR_GRAPH = 5,
    PL_ATTR_FLOATS = 6,
    PL_ATTR_INTS = 7,
    PL_ATTR_STRINGS = 8,
    PL_ATTR_TENSORS = 9,
    PL_ATTR_GRAPHS = 10,
    PL_ATTR_SPARSE_TENSOR = 11, /* stored as a dense tensor */
    PL_ATTR_TYPE_PROTO = 13
} pl_attr_type;

typedef struct pl_attr {
    const char *name;
    pl_attr_type type;
    float f;
    int64_t i;
    pl_string s;
    pl_tensor *tensor; /* owned reference, released with the model */
    pl_graph *graph;
    const pl_type *type_proto;
    size_t n; /* of the lists */
    const float *floats;
    const int64_t *ints;
    const pl_string *strings;
    pl_tensor **tensors;
    pl_graph **graphs;
} pl_attr;

typedef struct pl_prop { /* metadata_props entry */
    const char *key, *value;
} pl_prop;

struct pl_value {
    const char *name; /* never NULL; unique in its graph */
    pl_graph *graph;
    pl_node *producer; /* NULL for inputs and initializers */
    uint32_t producer_slot;
    uint32_t id;         /* unique in the model: index of per-value tables, < model->n_values */
    const pl_type *type; /* declared or inferred; NULL = not known */
    pl_tensor *init;     /* initializer, or the default of an input; owned reference */
    const char *doc;     /* doc string of an initializer that is not an input */
    /* The type bytes from the file, with denotations, which pl_type cannot hold; written back as
     * long as the type is `spelt_type`. */
    pl_bytes spelt;
    const pl_type *spelt_type;
    bool is_input, is_output;
};

struct pl_node {
    const char *op;     /* "Conv" */
    const char *domain; /* "" for ai.onnx */
    const char *name;   /* "" when it has none */
    const char *doc;    /* "" */
    const char *overload;
    pl_value **in, **out;
    pl_attr *attrs;
    const pl_prop *props;
    uint32_t n_in, n_out, n_attrs, n_props;
    int opset;                   /* version of `domain` that the model (or function) imports */
    uint32_t index;              /* position in graph->nodes */
    pl_graph *graph;             /* the graph that contains it */
    const char *function;        /* "domain.name" path of inlined functions it came from, or NULL */
    const struct pl_op_def *def; /* set by pl_ops_resolve; NULL before, or when unknown */
};

struct pl_graph {
    pl_model *model;
    pl_graph *parent; /* graph around this body; NULL for the main graph */
    pl_node *owner;   /* node whose attribute this body is; NULL for the main graph */
    uint32_t id;      /* unique in the model, < model->n_graphs */
    const char *name;
    const char *doc;
    pl_node **nodes; /* topological order */
    size_t n_nodes, nodes_capacity;
    pl_value **inputs; /* in order; callers may omit those with ->init */
    size_t n_inputs, inputs_capacity;
    pl_value **outputs;
    size_t n_outputs, outputs_capacity;
    pl_value **values; /* all values of this graph, in order of creation */
    size_t n_values, values_capacity;
    pl_strmap by_name; /* name -> pl_value of this graph only */
    const pl_prop *props;
    size_t n_props;
    pl_bytes kept; /* fields that plumb does not read, as in the file; written back */
};

typedef struct pl_opset {
    const char *domain; /* "" for ai.onnx */
    int version;
} pl_opset;

typedef struct pl_function { /* a model-local function, as it stands in the file */
    const char *domain, *name, *overload;
    pl_bytes bytes; /* its FunctionProto */
} pl_function;

struct pl_model {
    pl_arena *arena;
    const char *path; /* "" when it was not read from a file */
    int64_t ir_version;
    const char *producer_name, *producer_version, *domain, *doc;
    int64_t model_version;
    pl_opset *opsets;
    size_t n_opsets;
    const pl_prop *props;
    size_t n_props;
    pl_function *functions;
    size_t n_functions;
    pl_bytes kept; /* like pl_graph.kept */
    pl_graph *graph;
    bool referring;     /* its file names weights in other files, as only plumb reads it */
    const char *absent; /* why its weights are zeros, to be looked at only; NULL = they are there */
    uint32_t n_values;  /* ids given out so far, in all graphs */
    uint32_t n_graphs;
    pl_strmap strings; /* interned */
};

/* ---- building ---- */
pl_status pl_model_new(pl_model **out, pl_err *err); /* with an empty main graph */
void pl_model_free(pl_model *model);                 /* NULL is fine */
/* Version of a domain that the model imports; 0 when it does not. "ai.onnx" is "". */
int pl_model_opset(const pl_model *model, const char *domain);
pl_status pl_model_set_opset(pl_model *model, const char *domain, int version, pl_err *err);
/* A copy of s (n bytes) that lives as long as the model; equal strings share one copy, so interned
 * strings may be compared by pointer. NULL when out of memory. */
const char *pl_model_intern(pl_model *model, const char *s, size_t n);

pl_status pl_graph_new(pl_model *model, pl_graph *parent, const char *name, pl_graph **out,
                       pl_err *err);
/* A new value; PL_E_INVALID when the name is taken in this graph. The name is copied. */
pl_status pl_graph_add_value(pl_graph *graph, const char *name, pl_value **out, pl_err *err);
pl_status pl_graph_add_value_n(pl_graph *graph, const char *name, size_t n_name, pl_value **out,
                               pl_err *err); /* NUL bytes in the name are PL_E_FORMAT */
/* A new value with an unused name: `base`, or base_1, base_2, … */
pl_status pl_graph_add_fresh_value(pl_graph *graph, const char *base, pl_value **out, pl_err *err);
pl_status pl_graph_add_input(pl_graph *graph, pl_value *value, pl_err *err);
pl_status pl_graph_add_output(pl_graph *graph, pl_value *value, pl_err *err);
/* Appends a node with room for n_in inputs and n_out outputs, all NULL. The opset is the model's.
 */
pl_status pl_graph_add_node(pl_graph *graph, const char *op, const char *domain, size_t n_in,
                            size_t n_out, pl_node **out, pl_err *err);
void pl_node_set_output(pl_node *node, uint32_t slot, pl_value *value); /* sets value->producer */
/* The model keeps a reference of its own. */
pl_status pl_value_set_init(pl_value *value, pl_tensor *tensor, pl_err *err);
/* Appends an attribute (caller fills it); NULL when out of memory. */
pl_attr *pl_node_add_attr(pl_node *node, const char *name, pl_attr_type type);
/* The model keeps a reference to t until it is freed. Consumes the caller's reference. */
pl_status pl_model_keep_tensor_take(pl_model *model, pl_tensor *t, pl_err *err);

/* ---- questions ---- */
pl_value *pl_graph_find(const pl_graph *graph, const char *name);          /* this graph only */
pl_value *pl_graph_find_in_scope(const pl_graph *graph, const char *name); /* and around it */
const pl_attr *pl_node_attr(const pl_node *node, const char *name);        /* NULL when absent */
/* "node 'conv1' (Conv) that produces 'y'": for messages; into a caller's buffer. */
const char *pl_node_describe(const pl_node *node, char *out, size_t n_out);
/* By its attributes: so has a node of an operator that plumb does not know, and one that is not
 * resolved. What its row says of them is pl_node_bodies (ops/op.h). */
bool pl_node_has_body(const pl_node *node);
/* Calls fn for each body of the node, in attribute order; stops at the first failure. */
typedef pl_status (*pl_body_fn)(void *ctx, pl_graph *body, pl_err *err);
pl_status pl_node_each_body(const pl_node *node, pl_body_fn fn, void *ctx, pl_err *err);
size_t pl_model_count_nodes(const pl_model *model); /* bodies included */
bool pl_domain_is_onnx(const char *domain);         /* "" or "ai.onnx" */

/* ---- checking (verify.c) ---- */
enum { PL_GRAPH_DEPTH_MAX = 64 };    /* nesting of bodies and of function calls */
enum { PL_MODEL_OPSETS_MAX = 1000 }; /* domains; searched linearly */
/* Structure only: every used value exists and is visible, one producer each, no cycle, outputs
 * exist. Sorts nodes topologically (stable) when they are not. Linear in nodes and edges. */
pl_status pl_graph_sort(pl_graph *graph, pl_err *err);
pl_status pl_model_verify(pl_model *model, pl_err *err);

/* ---- origin (origin.c) ---- */
typedef struct pl_origin {
    const char *module; /* "encoder.layers.0.linear", "" when unknown */
    const char *file;   /* source file, "" when unknown */
    int line;           /* 0 when unknown */
    const char *code;   /* the source line or the innermost user frame's function, "" */
} pl_origin;
/* From metadata_props (pkg.torch.onnx.*), doc_string stack traces and scope-style names, in that
 * order. Strings live in the arena. */
pl_status pl_node_origin(const pl_node *node, pl_arena *arena, pl_origin *out, pl_err *err);

#endif

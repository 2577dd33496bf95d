/* What the files of the text parser share; internal to src/graph.
 *
 * Names are resolved at the end (`refs`), so nodes may stand in any order and bodies may use values
 * that the graphs around them define later. A function is kept as a place in the text and parsed
 * again for each call, with a frame that maps its names to the caller's. */
#ifndef PL_TEXT_INT_H
#define PL_TEXT_INT_H

#include "graph/graph.h"
#include "graph/text/text_lex.h"

enum {
    PL_TEXT_TYPE_DEPTH_MAX = 8,      /* seq(optional(…)); as in files */
    PL_TEXT_INLINE_MAX = 1000 * 1000 /* calls and nodes that inlining may make: no explosion */
};

typedef enum pl_text_ref_kind { PL_TEXT_USE, PL_TEXT_OUTPUT, PL_TEXT_TYPE } pl_text_ref_kind;

typedef struct pl_text_ref { /* a name to look up when everything has been read */
    pl_text_ref_kind kind;
    pl_graph *graph;
    const char *name;
    size_t at;
    pl_value **slot;     /* USE */
    const pl_type *type; /* OUTPUT, TYPE; may be NULL */
} pl_text_ref;

typedef struct pl_text_id { /* a name in the text; "" = omitted */
    const char *name;
    size_t at;
} pl_text_id;

typedef struct pl_text_ids {
    pl_text_id *items; /* heap */
    size_t n, capacity;
} pl_text_ids;

typedef struct pl_text_attr_list {
    pl_attr *items; /* heap; what they point to is in the model's arena */
    size_t n, capacity;
} pl_text_attr_list;

typedef struct pl_text_function {
    const char *domain, *name, *overload, *key;
    pl_opset *opsets;
    size_t n_opsets;
    pl_text_ids inputs, outputs, attrs; /* attrs: those without default */
    pl_text_attr_list defaults;
    size_t at, body_at; /* of its name; of its value infos or node list */
    size_t body_bytes;
} pl_text_function;

typedef struct pl_text_frame { /* one call that is being inlined */
    const pl_text_function *function;
    const struct pl_text_frame *caller;
    pl_strmap names;    /* the function's name -> the caller's */
    pl_strmap attrs;    /* name -> pl_attr of the call, or the function's default */
    const char *prefix; /* "call/" */
    const char *path;   /* node->function */
} pl_text_frame;

typedef struct pl_text_parser {
    pl_lex lex;
    pl_model *model;
    pl_err *err;
    bool graph_only; /* pl_model_parse_graph: unknown domains are imported as version 1 */
    pl_text_frame *frame;
    int depth;
    pl_text_ref *refs;
    size_t n_refs, refs_capacity;
    pl_text_function **functions;
    size_t n_functions, functions_capacity;
    pl_strmap function_by_key;
    pl_strmap taken;                 /* names that inlining must not make again */
    pl_strmap prefixes;              /* of calls so far -> how many calls have it */
    size_t n_inlined, inlined_bytes; /* calls and nodes; text and names */
} pl_text_parser;

/* text_data.c: types, constants, strings */
bool pl_text_next_is_type(pl_text_parser *p);
bool pl_text_is_type_word(const char *s, size_t n);
pl_status pl_text_parse_type(pl_text_parser *p, const pl_type **out);
pl_status pl_text_parse_tensor(pl_text_parser *p, const pl_type *type, pl_tensor **out);
pl_status pl_text_parse_int(pl_text_parser *p, int64_t *out);
pl_status pl_text_parse_cstring(pl_text_parser *p, const char **out);
pl_status pl_text_intern(pl_text_parser *p, pl_string s, const char **out);
/* The list with room for one more item of `size` bytes; doubles. */
pl_status pl_text_reserve(pl_text_parser *p, void *items, size_t n, size_t *capacity, size_t size);

/* text_attr.c */
pl_status pl_text_parse_attr(pl_text_parser *p, const char *name, pl_graph *graph,
                             pl_text_attr_list *out);
pl_status pl_text_parse_attrs(pl_text_parser *p, pl_graph *graph, pl_text_attr_list *out);

/* text_parse.c */
pl_status pl_text_parse_opsets(pl_text_parser *p, pl_opset **out, size_t *n_out);
pl_status pl_text_parse_body(pl_text_parser *p, const char *name, pl_graph *parent, pl_graph **out);
pl_status pl_text_parse_value_infos(pl_text_parser *p, pl_graph *graph);
pl_status pl_text_parse_nodes(pl_text_parser *p, pl_graph *graph);
pl_status pl_text_add_node(pl_text_parser *p, pl_graph *graph, const char *op, const char *domain,
                           const pl_text_ids *in, const pl_text_ids *out, pl_node **node);

/* text_inline.c */
/* Reads all functions (they stand behind the main graph) and comes back to where it started; *end
 * is where the main graph must end. */
pl_status pl_text_parse_functions(pl_text_parser *p, size_t *end);
void pl_text_release_functions(pl_text_parser *p);
/* *out is NULL when there is no such function. */
pl_status pl_text_find_function(pl_text_parser *p, const char *domain, const char *name,
                                const char *overload, const pl_text_function **out);
/* Text and names that inlining has made; PL_E_LIMIT when they outgrow the text. */
pl_status pl_text_count_inlined(pl_text_parser *p, size_t at, size_t n_bytes);
/* The caller's name for a name of the function that is being inlined; itself outside of one. */
pl_status pl_text_map_name(pl_text_parser *p, const pl_graph *graph, const char **name);
/* An attribute of the call, by @name; NULL when neither the call nor a default has it. */
const pl_attr *pl_text_frame_attr(const pl_text_parser *p, const char *name);
pl_status pl_text_inline_call(pl_text_parser *p, const pl_text_function *function, pl_graph *graph,
                              const char *node_name, const pl_text_ids *in, const pl_text_ids *out,
                              const pl_text_attr_list *attrs, size_t at);

#endif

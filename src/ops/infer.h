/* Shape and type rules: what a rule sees and what it sets.
 *
 * A rule is called in two settings. For `plumb info` types may be unknown or symbolic and contents
 * are known only for constants and for shape arithmetic. For a run (c->concrete) every input type
 * is complete and the content of every input is available. A rule sets what it knows and leaves the
 * rest unknown; contradictions are errors that name the node. */
#ifndef PL_INFER_H
#define PL_INFER_H

#include "ops/op.h"

/* Content of a small integer tensor (rank 0 or 1) as dims: each known, symbolic or unknown.
 * Negative known values do occur (-1 in Reshape): `dims[i].value` is meaningful when `known[i]`. */
typedef struct pl_content {
    int rank; /* 0 or 1 */
    size_t n;
    const pl_dim *dims; /* symbols; value where known */
    const bool *known;
} pl_content;

struct pl_infer {
    const pl_node *node;
    pl_arena *arena; /* for types, dims, contents */
    int n_in, n_out;
    const pl_type *const *in;            /* NULL = left out; kind NONE = not known */
    const pl_tensor *const *in_tensor;   /* content when known, else NULL */
    const pl_content *const *in_content; /* symbolic content when known, else NULL */
    const pl_type **out;                 /* to set; NULL = not known */
    const pl_content **out_content;      /* to set when known; optional */
    bool concrete;
    bool fp64;     /* gold: float types become F64, see pl_infer_dtype */
    bool narrow_b; /* input 1 of PL_OP_NARROW_B may have fewer bits than input 0 */
    /* Types of a body's outputs, given those of its inputs; NULL while not available. */
    pl_status (*infer_body)(pl_infer *c, pl_graph *body, const pl_type *const *in, size_t n_in,
                            const pl_type **out);
    void *driver;
    pl_err *err;
};

/* ---- asking ---- */
bool pl_infer_has(const pl_infer *c, int i);          /* input i is given */
pl_dtype pl_infer_dtype_of(const pl_infer *c, int i); /* PL_UNDEFINED when not known or left out */
/* -1 when not known or left out. */
int pl_infer_rank(const pl_infer *c, int i);
pl_dim pl_infer_dim(const pl_infer *c, int i, int axis); /* unknown when not known */
/* Integers of a constant input (any int type, rank 0 or 1) in the arena; NULL when not known. */
const int64_t *pl_infer_ints(pl_infer *c, int i, size_t *n);
/* Attribute dtype as this run uses it: float, double, float16, bfloat16 become F64 under gold. */
pl_dtype pl_infer_dtype(const pl_infer *c, pl_dtype dtype);
/* axis in [-rank, rank) made non-negative; else an error naming the node. `extra` widens the range
 * (Unsqueeze, Flatten: 1). */
pl_status pl_infer_axis(const pl_infer *c, int64_t axis, int rank, int *out);

/* ---- setting ---- */
pl_status pl_infer_set(pl_infer *c, int i, pl_dtype dtype, int rank, const pl_dim *dims);
pl_status pl_infer_set_unranked(pl_infer *c, int i, pl_dtype dtype);
pl_status pl_infer_set_type(pl_infer *c, int i, const pl_type *type);
pl_status pl_infer_set_like(pl_infer *c, int i, int input); /* dtype and shape of an input */
pl_status pl_infer_fail(const pl_infer *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* numpy broadcasting of two dims; error names the node. */
pl_status pl_infer_broadcast_dim(const pl_infer *c, pl_dim a, pl_dim b, pl_dim *out);
/* Broadcast of inputs first..last (inclusive) into out (PL_RANK_MAX); *rank = -1 when not known. */
pl_status pl_infer_broadcast_inputs(pl_infer *c, int first, int last, int *rank, pl_dim *out);
/* Merges two types of one value: known facts win; contradiction is an error. */
pl_status pl_infer_merge(pl_infer *c, const pl_type *a, const pl_type *b, const pl_type **out);

/* ---- rules shared by many operators ---- */
pl_status pl_infer_same_as_first(pl_infer *c); /* all outputs like input 0 */
pl_status pl_infer_broadcast(pl_infer *c);     /* broadcast of all inputs, dtype of input 0 */
pl_status pl_infer_broadcast_bool(pl_infer *c);

/* ---- the driver (infer_graph.c) ---- */
typedef struct pl_infer_options {
    const pl_strmap *dims; /* symbol -> int64_t *, as bound by the caller; NULL = none */
    bool strict;   /* declared and inferred types that contradict are errors, not warnings */
    bool defaults; /* inputs with a default keep it: before IR version 4 those are constants */
} pl_infer_options;
/* Fills value->type for the whole model, bodies too. pl_ops_resolve must have run. Linear. */
pl_status pl_model_infer(pl_model *model, const pl_infer_options *options, pl_err *err);

#endif

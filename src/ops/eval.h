/* Kernels: what a kernel sees and what it fills.
 *
 * Inputs are contiguous tensors (or sequences, optionals), borrowed. Outputs whose types the shape
 * rule gave are allocated before the call, contiguous and uninitialised, unless the row says
 * PL_OP_OWN_OUT. Data may have any alignment: use the pl_f32 … types of dtype.h. Kernels split
 * parallel work by blocks of outputs, so that results never depend on the number of threads. */
#ifndef PL_EVAL_H
#define PL_EVAL_H

#include "ops/op.h"

struct pl_eval {
    const pl_node *node;
    int n_in, n_out;
    pl_datum *const *in;            /* NULL = left out */
    pl_datum **out;                 /* owned by the caller of the kernel */
    const pl_type *const *out_type; /* from the shape rule; NULL = not known */
    const bool *wanted;             /* per output: does the node name it? */
    const bool *in_constant;        /* per input: the same tensor in every run (a weight) */
    pl_pool *pool;
    const struct pl_provider *kernels; /* library that computes products; NULL = the default */
    pl_arena *scratch;                 /* reset after the node */
    bool fp64;                         /* run in fp64 (gold) */
    bool naive;     /* sums in index order with one accumulator of the type itself: the longest
                     * chain of roundings a correct runtime may have (blame's reference) */
    bool unrounded; /* for error bounds: quantised results before rounding, in steps, without zero
                     * point and limits, as double */
    bool magnitudes_b; /* for error bounds: PL_OP_NARROW_B takes |input 1| */
    bool otherwise;    /* where ONNX is ambiguous, take the other reading (PL_OP_OPEN) */
    uint64_t seed;     /* of this run; for random operators without a seed attribute */
    /* State that the node keeps between runs of one plan (packed weights, primitives). NULL at
     * first; state_free is called at the end. Both pointers are NULL when no state can be kept. */
    void **state;
    void (**state_free)(void *);
    /* Runs a body; inputs are borrowed, outputs are new references. */
    pl_status (*run_body)(pl_eval *c, pl_graph *body, pl_datum *const *in, size_t n_in,
                          pl_datum **out, size_t n_out);
    void *runner;
    pl_err *err;
};

/* ---- inputs ---- */
const pl_tensor *pl_in(const pl_eval *c, int i); /* NULL when left out or not a tensor */
const pl_datum *pl_in_datum(const pl_eval *c, int i);
static inline bool pl_has(const pl_eval *c, int i) {
    return i < c->n_in && c->in[i] != NULL;
}
/* Integers of an input (any int type) in scratch; NULL and *n = 0 when left out. */
const int64_t *pl_in_ints(pl_eval *c, int i, size_t *n);
/* First element of an input, or `otherwise` when it is left out. */
int64_t pl_in_int(const pl_eval *c, int i, int64_t otherwise);
double pl_in_float(const pl_eval *c, int i, double otherwise);
/* The whole input as contiguous f32/f64 (conversion in scratch when it has another type). NULL when
 * out of memory. */
const pl_f32 *pl_in_f32(pl_eval *c, int i);
const pl_f64 *pl_in_f64(pl_eval *c, int i);

/* ---- outputs ---- */
pl_tensor *pl_out(const pl_eval *c, int i); /* allocated already; NULL when not wanted */
static inline bool pl_wants(const pl_eval *c, int i) {
    return i < c->n_out && c->wanted[i];
}
/* For PL_OP_OWN_OUT. _take consumes the reference, also on failure; a NULL is passed on as failure.
 */
pl_status pl_out_set_take(pl_eval *c, int i, pl_tensor *t);
pl_status pl_out_set_datum_take(pl_eval *c, int i, pl_datum *d);
pl_status pl_out_new(pl_eval *c, int i, pl_dtype dtype, int rank, const int64_t *dims,
                     pl_tensor **out);
/* Every element is the same; of the type and shape that the shape rule found. */
pl_status pl_out_new_filled(pl_eval *c, int i, const void *element, pl_tensor **out);
/* Output i is input k with the dims of out_type (a view). */
pl_status pl_out_view(pl_eval *c, int i, int k);
pl_dtype pl_eval_dtype(const pl_eval *c, pl_dtype dtype); /* as pl_infer_dtype */

void *pl_scratch(pl_eval *c, size_t count, size_t size);     /* NULL when out of memory */
void *pl_scratch_raw(pl_eval *c, size_t count, size_t size); /* not zeroed when it is large */
/* pl_load_f32 and pl_store_f32 by the CPU's instructions for halves: the same bits. */
void pl_eval_load_f32(pl_dtype dtype, const void *from, float *to, size_t n);
void pl_eval_store_f32(pl_dtype dtype, const float *from, void *to, size_t n);
pl_status pl_eval_fail(const pl_eval *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
pl_status pl_eval_memory(const pl_eval *c);
pl_status pl_eval_unsupported(const pl_eval *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For kernels without a loop for this type: an error that names op and type. */
pl_status pl_eval_no_type(const pl_eval *c, pl_dtype dtype);

/* Calls the kernel of one node on data: infer, allocate, eval, check. The interpreter and constant
 * folding use it. out[] receives new references (NULL where not wanted). */
typedef struct pl_eval_setup {
    pl_pool *pool;
    const struct pl_provider *kernels;
    pl_arena *scratch;
    bool fp64, naive, unrounded, otherwise;
    bool magnitudes_b;
    bool narrow_b; /* PL_OP_NARROW_B may get weights in their own type */
    uint64_t seed;
    const bool *in_constant; /* NULL = none */
    void **state;
    void (**state_free)(void *);
    pl_status (*run_body)(pl_eval *c, pl_graph *body, pl_datum *const *in, size_t n_in,
                          pl_datum **out, size_t n_out);
    void *runner;
} pl_eval_setup;
pl_status pl_eval_node(const pl_node *node, pl_datum *const *in, pl_datum **out,
                       const pl_eval_setup *setup, pl_err *err);

#endif

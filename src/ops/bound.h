/* Error bounds: what a rule sees and what it sets.
 *
 * A segment of the model is replayed in fp64 and a bound travels along: for every element, how far
 * a correct implementation in the model's own precision may be from the fp64 answer. A rule is in
 * the same folder as its kernel. From the replayed inputs and outputs of the node and the bounds of
 * the inputs it sets the bounds of the outputs. Bounds are f64 tensors of the shape of their value
 * (for a sequence: one number for all in it); NULL means exact. They are in units of the value; for
 * integers, in codes. docs/blame.md has the theory (Wilkinson's running error analysis), the
 * constants and why dot products add in quadrature. */
#ifndef PL_BOUND_H
#define PL_BOUND_H

#include "ops/arithmetic.h"
#include "ops/eval.h"

struct pl_bound {
    const pl_node *node;
    int n_in, n_out;
    pl_datum *const *in;    /* as replayed: floats as f64, the rest as it is; NULL = left out */
    pl_datum *const *out;   /* result of the fp64 kernel; NULL = not wanted */
    pl_tensor *const *e_in; /* NULL = exact */
    pl_tensor **e_out;      /* to set, new references; all NULL (exact) at first */
    const pl_dtype *in_native, *out_native; /* the model's types; PL_UNDEFINED = not a tensor */
    double u;          /* unit roundoff of the node's own float type: 2^-24 for f32; 0 when none */
    double u_acc;      /* unit roundoff of the type it accumulates in: at most 2^-24 */
    bool magnitudes_b; /* for the next pl_b_apply: pl_eval.magnitudes_b */
    bool otherwise;    /* whether `out` was computed with pl_eval.otherwise */
    double tiny;       /* below this runtimes may flush to zero: 2^-126 for f32, 2^-24 for f16 */
    /* Are all elements of input i, and of everything before it in the segment, representable in the
     * model's own type? Then nothing was rounded and rounding rules give no slack. */
    bool (*exact)(pl_bound *c, int i);
    /* Control flow: replays a body with bounds. Inputs are borrowed, outputs new references. */
    pl_status (*run_body)(pl_bound *c, pl_graph *body, pl_datum *const *in, pl_tensor *const *e_in,
                          size_t n_in, pl_datum **out, pl_tensor **e_out, size_t n_out);
    void *runner;
    const pl_arithmetic *arithmetic; /* the precision profile; NULL = rounding only */
    double p[4]; /* a rule's own numbers (attributes), for its element function */
    pl_pool *pool;
    pl_arena *scratch; /* reset after the node */
    pl_err *err;
};

/* ---- asking ---- */
const pl_tensor *pl_b_in(const pl_bound *c, int i);  /* NULL when left out or not a tensor */
const pl_tensor *pl_b_out(const pl_bound *c, int i); /* NULL when not wanted or not a tensor */
/* Contiguous f64 elements (converted into scratch when the tensor has another type). NULL when left
 * out, or out of memory (then c->err is set). pl_b_e: NULL = exact. */
const double *pl_b_x(pl_bound *c, int i);
const double *pl_b_y(pl_bound *c, int i);
const double *pl_b_e(const pl_bound *c, int i);
bool pl_b_any_error(const pl_bound *c);        /* some input is not exact */
double pl_b_largest(const pl_bound *c, int i); /* bound of input i; 0 when exact */
/* Rounding of a result y in the node's own type; nothing for zeros and integers. */
static inline double pl_b_round(const pl_bound *c, double y) {
    return c->u > 0 && y != 0 ? c->u * (y < 0 ? -y : y) + c->tiny : 0;
}
/* The same where the stored type is narrower than the computed one (fp16 computes in float), else
 * 0. */
static inline double pl_b_stored(const pl_bound *c, double y) {
    return c->u > c->u_acc ? pl_b_round(c, y) : 0;
}
/* What a function at argument x may add to the bound of its result y, by the precision profile. */
static inline double pl_b_maths(const pl_bound *c, pl_maths fn, double x, double y) {
    if (c->arithmetic == NULL || c->u == 0) return 0;
    return pl_arithmetic_error(c->arithmetic, fn, c->u_acc, x, y);
}
/* c(K) of a sum of K terms: min(K + 1, 2 + sqrt(K)/2). */
double pl_b_chain(double k);
/* What a correct implementation may be off by at any element of this value, however small that is:
 * of PL_OP_NEAR_ONE, also behind operators that only move elements. 0 for all others. `dtype` is
 * its type, where the model's types are not known; else PL_UNDEFINED. */
double pl_value_absolute_error(const pl_value *value, pl_dtype dtype);
/* Error of a sum of k terms in units of roundoff. y >= 0 is the sum, s the sum of the absolute
 * terms. A runtime may add in any order, at worst in one chain. Each rounding errs by up to u of
 * the partial sum, with random sign, so the errors add in quadrature. If the terms have one sign,
 * partial sums grow to |y|, and sqrt(k)/2 |y| is four standard deviations. If they cancel, partial
 * sums stay below s for any k. One more unit is the final rounding. For few terms k + 1 roundings
 * is the smaller limit. */
double pl_b_sum_error(double k, double s, double y);

/* ---- setting ---- */
/* A zeroed bound for output i; *e is its data, NULL when the output is not wanted. */
pl_status pl_b_new(pl_bound *c, int i, double **e);
pl_status pl_b_fill(pl_bound *c, int i, double value); /* the same for all elements */
/* Consumes e, whose shape must be that of output i (else PL_E_INTERNAL). */
pl_status pl_b_set_take(pl_bound *c, int i, pl_tensor *e);

/* Calls the rule of the node. A NaN bound (0 * unlimited) becomes unlimited. */
pl_status pl_b_rule(pl_bound *c);

/* ---- ready-made rules ---- */
/* One element of an element-wise operator: x[k], e[k] of each input k (broadcast; 0 where left out
 * or exact), y the result. Returns the bound. */
typedef double (*pl_b_element)(const pl_bound *c, const double *x, const double *e, double y);
/* Output 0 = fn of broadcast inputs (at most 32, else as without a rule); in blocks, threaded. */
pl_status pl_b_each(pl_bound *c, pl_b_element fn);
/* The same with input 1 reshaped to `dims` first: broadcasting before opset 7. */
pl_status pl_b_each_as(pl_bound *c, int rank, const int64_t *dims, pl_b_element fn);
/* For operators that only move elements: runs the kernel on the bounds of the data inputs (input 0
 * and those whose port says PL_PORT_SAME). PL_BOUND_EXACT does this when some input is not
 * exact. */
pl_status pl_b_move(pl_bound *c);
/* The answer does not depend on the elements: Shape, Size, the length of a sequence. */
pl_status pl_b_untouched(pl_bound *c);
/* No rule: 4u max|y| and the largest bound of the inputs. Counted by the caller. */
pl_status pl_b_unknown(pl_bound *c);

/* ---- the node's own kernel on other data ---- */
/* Runs the node's kernel with x[i] for input i (NULL keeps the input) and floats in `precision`
 * (PL_F64, or PL_F32 where a sum of absolute values needs no more). *out: output `slot` as f64. */
pl_status pl_b_apply(pl_bound *c, pl_tensor *const *x, pl_dtype precision, int slot,
                     pl_tensor **out);
/* Output 0 of a quantising operator before it is rounded: in steps, without zero point and limits.
 */
pl_status pl_b_steps(pl_bound *c, pl_tensor *const *x, pl_tensor **out);
/* Another ai.onnx operator on f64 tensors (NULL = left out), with the attributes of this node: what
 * a quantised operator is made of. No more inputs than the node has. */
pl_status pl_b_call(pl_bound *c, const char *op, int opset, pl_tensor *const *x, int n_in,
                    pl_tensor **out);
typedef double (*pl_b_map_fn)(double x);
/* fn of every element, as a new f64 tensor: |x|, x^2, sqrt. */
pl_status pl_b_map(pl_bound *c, const pl_tensor *x, pl_b_map_fn fn, pl_tensor **out);
double pl_b_abs(double x);
double pl_b_square(double x);

#endif

/* Error bounds shared by operators of neural networks: dot products, normalised rows, and operators
 * expanded into simpler ones. Formulas and constants: docs/blame.md. */
#ifndef PL_BOUND_NN_H
#define PL_BOUND_NN_H

#include "ops/bound.h"

/* ---- dot products ---- */
/* Output 0 = alpha * (sums of k products of the factors) + beta * bias, as the node's own kernel
 * computes it. The local error is u c(k) S, where S is the same sums of absolute values; inherited
 * errors add in quadrature. */
typedef struct pl_b_dot {
    int n_factors;
    int factor[PL_RANK_MAX]; /* indices of the inputs that are multiplied */
    int bias;                /* index of the input that is added; -1 = none */
    double alpha, beta;
    double k; /* length of the longest sum */
} pl_b_dot;
pl_status pl_b_dot_rule(pl_bound *c, const pl_b_dot *dot);
/* The usual case: the product of inputs a and b. */
pl_status pl_b_product_rule(pl_bound *c, int a, int b, int bias, double k);

/* The node's own kernel with input i replaced: a new f64 tensor of output 0. */
pl_status pl_b_apply_one(pl_bound *c, int i, pl_tensor *x, pl_dtype precision, pl_tensor **out);
/* Largest finite magnitude of n numbers; x may be NULL (0). */
double pl_b_peak(const double *x, int64_t n);
/* Largest of n bounds, unlimited ones too; e may be NULL (0). */
double pl_b_worst(const double *e, int64_t n);
/* Largest minus smallest of n finite numbers: the most a sample can change when its position
 * moves. */
double pl_b_range(const double *x, int64_t n);

/* Adds the rounding of a result stored in low precision: u|y| and half a subnormal step. Adds
 * nothing for types that accumulate in their own precision; their local error includes it. */
void pl_b_add_stored(const pl_bound *c, const double *y, double *e, int64_t n);

/* ---- normalised rows ---- */
/* y = (x - mean) / sqrt(var + epsilon) * scale + bias over rows of n; rms: without the mean. scale,
 * bias and their errors have one number for each element of x, or are NULL. */
typedef struct pl_b_norm {
    int64_t rows, n;
    bool rms;
    double epsilon;
    const double *x, *ex, *y;
    const double *scale, *e_scale, *bias, *e_bias;
    double *e;                  /* of y; may be NULL */
    double *e_mean, *e_inverse; /* one for each row, or NULL */
} pl_b_norm;
void pl_b_norm_rule(const pl_bound *c, const pl_b_norm *norm);
/* Broadcasts data (of the shape of t) to the dims of `like`, in scratch. NULL for NULL. */
pl_status pl_b_spread(pl_bound *c, const pl_tensor *t, const double *data, const pl_tensor *like,
                      const double **out);

/* ---- operators expanded into others ---- */
/* A value in a program: x as replayed (floats as f64), its bound (NULL = exact) and its type in the
 * model. Owns its tensors. */
typedef struct pl_b_term {
    pl_tensor *x, *e;
    pl_dtype native;
} pl_b_term;
void pl_b_term_release(pl_b_term *term);

/* A graph in ONNX text (opset 17 and com.microsoft 1), run in fp64 with the bounds of its own
 * operators. A node whose first output is called attrs_… gets the attributes of the rule's node.
 * Floats have the type of that node. If it has no float output, integers count as that type:
 * nothing is rounded, and errors add up in full. */
typedef struct pl_b_program pl_b_program;
pl_status pl_b_program_new(pl_bound *c, const char *text, pl_b_program **out);
void pl_b_program_free(pl_b_program *program); /* NULL is fine */
/* in[k] is input k of the graph (x NULL: use the initializer of the graph); out[k] are new. */
pl_status pl_b_program_run(pl_bound *c, pl_b_program *program, const pl_b_term *in, size_t n_in,
                           pl_b_term *out, size_t n_out);
/* A term of input i of the node; codes become f64 so that any operator takes them. x NULL when it
 * is left out. */
pl_status pl_b_term_of_input(pl_bound *c, int i, pl_b_term *out);
/* The whole node: inputs i0, i1, … of the graph are those of the node, outputs o0, o1, … too. */
pl_status pl_b_expand(pl_bound *c, const char *text);

#endif

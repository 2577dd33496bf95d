/* Gradient rules: what a rule sees and what it sets.
 *
 * A rule is in the same folder as its kernel. Given dL/d(output) as values of the graph, it appends
 * nodes that compute dL/d(input) and stores the results in dx. It writes ONNX operators only, so
 * that any backend can run the result. Types of the node's inputs and outputs are known (inference
 * has run); where a rule needs a rank or a dim that is not known, it fails and names the value.
 *
 * Rules are formulas, so the builder is made for formulas: a function gives the value of its node,
 * and a failure is remembered in c->st and stops every later one (which then gives NULL), until the
 * rule ends with `return c->st`. tanh:
 *     pl_value *y = c->node->out[0];
 *     c->dx[0] = pl_g_mul(c, c->dy[0], pl_g_sub(c, pl_g_number(c, y, 1), pl_g_mul(c, y, y)));
 *     return c->st;
 * New nodes have the model's opset, 9 or later; the helpers write axes as attribute or input as it
 * asks. Types of new values come from the shape rules of their operators. */
#ifndef PL_GRAD_H
#define PL_GRAD_H

#include <string.h>

#include "ops/op.h"

struct pl_grad {
    pl_graph *graph; /* where new nodes go */
    const pl_node *node;
    pl_value *const *dy; /* per output; NULL = zero */
    pl_value **dx;       /* per input, to set; NULL = zero or not differentiable */
    const bool *wanted;  /* per input: dx is needed */
    pl_status st;        /* first failure of the builder */
    pl_err *err;
};

/* ---- nodes ---- */
/* One node with one output. Inputs may be NULL = left out; attributes are copied (strings and ints
 * too; a tensor is given away). */
pl_value *pl_g_op(pl_grad *c, const char *op, pl_value *const *in, size_t n_in,
                  const pl_attr *attrs, size_t n_attrs);
/* One node with n_out outputs; on entry out[i] is NULL where it is not wanted, any other pointer
 * (PL_G_WANTED) where it is. */
pl_status pl_g_ops(pl_grad *c, const char *op, const char *domain, pl_value *const *in, size_t n_in,
                   const pl_attr *attrs, size_t n_attrs, pl_value **out, size_t n_out);
#define PL_G_WANTED ((pl_value *)1)
pl_value *pl_g1(pl_grad *c, const char *op, pl_value *x);
pl_value *pl_g2(pl_grad *c, const char *op, pl_value *x, pl_value *y);
pl_value *pl_g3(pl_grad *c, const char *op, pl_value *x, pl_value *y, pl_value *z);
/* One input, one attribute. */
pl_value *pl_g1_int(pl_grad *c, const char *op, pl_value *x, const char *name, int64_t i);
pl_value *pl_g1_ints(pl_grad *c, const char *op, pl_value *x, const char *name, const int64_t *ints,
                     size_t n);
static inline pl_value *pl_g_add(pl_grad *c, pl_value *x, pl_value *y) {
    return pl_g2(c, "Add", x, y);
}
static inline pl_value *pl_g_sub(pl_grad *c, pl_value *x, pl_value *y) {
    return pl_g2(c, "Sub", x, y);
}
static inline pl_value *pl_g_mul(pl_grad *c, pl_value *x, pl_value *y) {
    return pl_g2(c, "Mul", x, y);
}
static inline pl_value *pl_g_div(pl_grad *c, pl_value *x, pl_value *y) {
    return pl_g2(c, "Div", x, y);
}
static inline pl_value *pl_g_neg(pl_grad *c, pl_value *x) {
    return pl_g1(c, "Neg", x);
}
/* Attributes of pl_g_op. */
#define PL_G_INT(name_, value_) ((pl_attr){ .name = name_, .type = PL_ATTR_INT, .i = value_ })
#define PL_G_FLOAT(name_, value_)                                                                  \
    ((pl_attr){ .name = name_, .type = PL_ATTR_FLOAT, .f = (float)(value_) })
#define PL_G_INTS(name_, ints_, n_)                                                                \
    ((pl_attr){ .name = name_, .type = PL_ATTR_INTS, .ints = ints_, .n = n_ })
#define PL_G_STRING(name_, text_)                                                                  \
    ((pl_attr){ .name = name_, .type = PL_ATTR_STRING, .s = { text_, strlen(text_) } })

/* ---- constants ---- */
/* One number (rank 0) of the type of `like`, a float or an integer. */
pl_value *pl_g_number(pl_grad *c, const pl_value *like, double number);
pl_value *pl_g_number_of(pl_grad *c, pl_dtype dtype, double number);
pl_value *pl_g_ints(pl_grad *c, const int64_t *ints, size_t n); /* int64, rank 1 */
pl_value *pl_g_int(pl_grad *c, int64_t number);                 /* int64, rank 0 */
pl_value *pl_g_tensor_take(pl_grad *c, pl_tensor *t);           /* NULL is a failure */

/* The value when it is known before the run: an initializer, or the tensor of a Constant node. NULL
 * otherwise. Borrowed. */
const pl_tensor *pl_g_known(const pl_value *x);
/* The same as integers; also the lists of Constant nodes. False when the value is left out, not
 * known, not of integers or longer than `max`. */
bool pl_g_known_ints(const pl_value *x, int64_t *out, size_t max, size_t *n);

/* ---- shapes ---- */
/* Rank of a value; -1 and a failure that names it when it is not known. */
int pl_g_rank(pl_grad *c, const pl_value *x);
bool pl_g_is_concrete(const pl_value *x); /* every dim is known */
/* Size along an axis; a failure when it is not known. */
int64_t pl_g_dim(pl_grad *c, const pl_value *x, int axis);
bool pl_g_is_float(const pl_value *x);         /* true when the type is unknown */
pl_value *pl_g_shape(pl_grad *c, pl_value *x); /* a constant when it is known */
pl_value *pl_g_size(pl_grad *c, pl_value *x,
                    const pl_value *like); /* element count, of the type of `like` */
pl_value *pl_g_reshape(pl_grad *c, pl_value *x, const int64_t *dims,
                       size_t n); /* 0 and -1 as in ONNX Reshape */
pl_value *pl_g_reshape_like(pl_grad *c, pl_value *x, pl_value *like);
pl_value *pl_g_expand_like(pl_grad *c, pl_value *x, pl_value *like);
pl_value *pl_g_zeros_like(pl_grad *c, pl_value *like);
pl_value *pl_g_transpose(pl_grad *c, pl_value *x, const int64_t *perm, size_t n);
pl_value *pl_g_unsqueeze(pl_grad *c, pl_value *x, const int64_t *axes, size_t n);
pl_value *pl_g_squeeze(pl_grad *c, pl_value *x, const int64_t *axes, size_t n);
pl_value *pl_g_concat(pl_grad *c, pl_value *const *x, size_t n, int64_t axis);
/* start to end along each axis, steps of 1. */
pl_value *pl_g_slice(pl_grad *c, pl_value *x, const int64_t *starts, const int64_t *ends,
                     const int64_t *axes, size_t n);
pl_value *pl_g_cast(pl_grad *c, pl_value *x, pl_dtype to); /* x itself when it has this type */
pl_value *pl_g_cast_like(pl_grad *c, pl_value *x, const pl_value *like);
/* float16 and bfloat16 become float: kernels compute image coordinates in float. */
pl_value *pl_g_widened(pl_grad *c, pl_value *x);

/* ---- sums ---- */
/* op: ReduceSum, ReduceMax, … n = 0: over all axes. */
pl_value *pl_g_reduce(pl_grad *c, const char *op, pl_value *x, const int64_t *axes, size_t n,
                      bool keepdims);
/* g divided by the number of elements of x averaged into each element of y. */
pl_value *pl_g_shared(pl_grad *c, pl_value *g, pl_value *x, pl_value *y);
/* Sums g over the axes that broadcasting repeated, to the shape of x. */
pl_value *pl_g_unbroadcast(pl_grad *c, pl_value *g, pl_value *x);

/* ---- masks ---- */
/* g where the condition holds, else 0. */
pl_value *pl_g_keep(pl_grad *c, pl_value *condition, pl_value *g);
pl_value *pl_g_select(pl_grad *c, pl_value *condition, pl_value *x, pl_value *y);
pl_value *pl_g_equal(pl_grad *c, pl_value *x, pl_value *y);   /* floats in any opset */
pl_value *pl_g_above(pl_grad *c, pl_value *x, double number); /* x > number */
pl_value *pl_g_below(pl_grad *c, pl_value *x, double number);

/* ---- failing ---- */
pl_status pl_g_fail(pl_grad *c, const char *format, ...) /* PL_E_UNSUPPORTED, names the node */
    __attribute__((format(printf, 2, 3)));
int pl_g_opset(const pl_grad *c); /* of ai.onnx in the model */
/* Calls the rule of the node. If all outputs that have a gradient are known to be empty, the
 * gradients are zeros and the rule is not called. */
pl_status pl_g_rule(pl_grad *c);
/* dx[i] = g brought to the shape of input i, when it is wanted. */
pl_status pl_g_give(pl_grad *c, int i, pl_value *g);

/* ---- rules that rows of several families name ---- */
pl_status
pl_grad_view(pl_grad *c); /* for operators that reshape their input or wrap it in an optional */
/* Never called: the backward pass (src/passes) differentiates the branches of If itself, replaces
 * Loop, Scan and FlexAttention first, and splits sequences. Calling these is an error. */
pl_status pl_grad_branches(pl_grad *c);
pl_status pl_grad_unrolled(pl_grad *c);
pl_status pl_grad_apart(pl_grad *c);

#endif

/* Activations that ONNX Runtime fuses behind Conv and Gemm (com.microsoft FusedConv, FusedGemm). */
#ifndef PL_FUSED_H
#define PL_FUSED_H

#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/grad.h"
#include "ops/infer.h"

typedef struct pl_fused {
    void (*f32)(const struct pl_fused *f, pl_f32 *y, size_t n); /* NULL: no activation */
    void (*f64)(const struct pl_fused *f, pl_f64 *y, size_t n);
    double a, b;
} pl_fused;

/* By the attribute "activation"; params are in its order (alpha, beta / min, max). An unknown name
 * is PL_E_UNSUPPORTED. */
pl_status pl_fused_read(const pl_node *node, const double *params, size_t n_params, pl_fused *out,
                        pl_err *err);
/* In place over n values, in parallel. */
void pl_fused_apply_f32(pl_pool *pool, const pl_fused *f, pl_f32 *y, int64_t n);
void pl_fused_apply_f64(pl_pool *pool, const pl_fused *f, pl_f64 *y, int64_t n);

/* The two parameters of the node's activation, or its defaults. */
pl_status pl_fused_params(const pl_node *node, double params[2], pl_err *err);

/* The node in ONNX text for its bound: `op` of `inputs` with the node's attributes, plus the input
 * `add` (or NULL), then the activation. NULL when out of memory. */
const char *pl_fused_expand(pl_bound *c, const char *op, const char *inputs, const char *add);

/* Output 0 = the activation of y. */
pl_status pl_fused_emit(pl_emit *c, pl_ref y);

/* For gradients: the activation of x, and `op` applied to the first inputs with those attributes of
 * the node that it has. */
pl_value *pl_fused_grad_activate(pl_grad *c, pl_value *x);
pl_value *pl_fused_grad_plain(pl_grad *c, const char *op, size_t n_in, const char *const *names,
                              size_t n_names);

#endif

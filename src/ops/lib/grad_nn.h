/* Helpers for gradient rules of neural-network operators, on top of the builder of grad.h.
 *
 * Composite operators are expanded into simple ones, whose gradients give that of the whole
 * (pl_g_expanded). */
#ifndef PL_GRAD_NN_H
#define PL_GRAD_NN_H

#include "ops/grad.h"
#include "ops/lib/window.h"

/* ---- operators expanded into others ---- */
/* Nodes that are appended from here on belong to the expansion. */
size_t pl_g_mark(const pl_grad *c);
/* y[k] is output k of the node, computed by the nodes since `mark` (NULL: it has no gradient).
 * Differentiates those nodes backwards and sets dx of all wanted inputs. */
pl_status pl_g_expanded(pl_grad *c, size_t mark, pl_value *const *y);

/* ---- small things ---- */
pl_value *pl_g_scaled(pl_grad *c, pl_value *x, double factor); /* x itself for factor 1 */
pl_value *pl_g_plus(pl_grad *c, pl_value *x, double number);
/* Swaps the last two axes of x. */
pl_value *pl_g_swap_last(pl_grad *c, pl_value *x);
/* A constant that the caller fills through `data`; pl_g_table_value makes it a value. */
typedef struct pl_g_table {
    double *data;
    int rank;
    int64_t dims[PL_RANK_MAX], n;
} pl_g_table;
bool pl_g_table_new(pl_grad *c, pl_g_table *t, int rank, const int64_t *dims);
pl_value *pl_g_table_value(pl_grad *c, pl_g_table *t, pl_dtype dtype); /* frees the data */
/* A vector with one element per channel, reshaped to [C, 1, …] for an x of this rank. */
pl_value *pl_g_channels(pl_grad *c, pl_value *x, int rank);
/* An activation by the name of its operator ("Relu", "Affine", "ScaledTanh", …, "" = none). */
pl_value *pl_g_activate(pl_grad *c, const char *name, double alpha, double beta, pl_value *x);
/* Elements from..to-1 along an axis. */
pl_value *pl_g_cut(pl_grad *c, pl_value *x, int64_t axis, int64_t from, int64_t to);

/* ---- rotary embeddings ---- */
/* Rotates the first 2 * half elements of each head of x, (batch, heads, len, size) or (batch, len,
 * heads * size), by cos and sin (batch or 1, len, half or more). */
pl_value *pl_g_turned(pl_grad *c, pl_value *x, pl_value *cos, pl_value *sin, int64_t size,
                      int64_t half);

#endif

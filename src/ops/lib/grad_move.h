/* Shared by the gradients of operators that move elements: shapes, slices, pads, gathers, scatters.
 * Where an element is read more than once, its gradients are added. */
#ifndef PL_GRAD_MOVE_H
#define PL_GRAD_MOVE_H

#include "ops/grad.h"

/* Pads with zeros, or crops where negative: one number before and behind for every axis. */
pl_value *pl_g_pad(pl_grad *c, pl_value *x, const int64_t *before, const int64_t *behind, int rank);
/* 0, 1, 2, … in the shape of x: moving these shows which element went where. */
pl_value *pl_g_positions(pl_grad *c, pl_value *x);
/* One-hot rows along a new last axis. */
pl_value *pl_g_one_hot(pl_grad *c, pl_value *indices, int64_t n, pl_dtype dtype);
/* dL/dx when element i of g belongs to element positions[i] of x. Equal positions add up unless
 * `unique`. */
pl_value *pl_g_put_back(pl_grad *c, pl_value *x, pl_value *positions, pl_value *g, bool unique);
/* The node's attribute, or the row's default, for another node of the same operator. */
pl_attr pl_g_same_int(const pl_grad *c, const char *name);

#endif

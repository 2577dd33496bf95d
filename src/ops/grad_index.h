/* Gradient rules of operators that move elements: shapes, slices, pads, gathers, scatters. Where
 * the same element is read more than once, its gradients are added. */
#ifndef PL_GRAD_INDEX_H
#define PL_GRAD_INDEX_H

#include "ops/grad.h"

/* ---- rules: grad_move.c ---- */
pl_status pl_grad_view(pl_grad *c); /* Reshape, Squeeze, Unsqueeze, Flatten, Identity, Optional */
pl_status pl_grad_expand(pl_grad *c);
pl_status pl_grad_tile(pl_grad *c);
pl_status pl_grad_concat(pl_grad *c);
pl_status pl_grad_split(pl_grad *c);
pl_status pl_grad_transpose(pl_grad *c);
pl_status pl_grad_trilu(pl_grad *c);
pl_status pl_grad_depth_to_space(pl_grad *c);
pl_status pl_grad_space_to_depth(pl_grad *c);
pl_status pl_grad_reverse_sequence(pl_grad *c);
pl_status pl_grad_center_crop_pad(pl_grad *c);
pl_status pl_grad_slice(pl_grad *c); /* grad_slice.c */
pl_status pl_grad_pad(pl_grad *c);   /* grad_slice.c */

/* ---- rules: grad_index.c ---- */
pl_status pl_grad_gather(pl_grad *c);
pl_status pl_grad_gather_elements(pl_grad *c);
pl_status pl_grad_gather_nd(pl_grad *c);
pl_status pl_grad_compress(pl_grad *c);
pl_status pl_grad_one_hot(pl_grad *c);
pl_status pl_grad_scatter_elements(pl_grad *c);
pl_status pl_grad_scatter_nd(pl_grad *c);
pl_status pl_grad_tensor_scatter(pl_grad *c);

/* ---- helpers ---- */
/* Zeros around (or cut off, when negative): one number before and behind for every axis. */
pl_value *pl_g_pad(pl_grad *c, pl_value *x, const int64_t *before, const int64_t *behind, int rank);
/* 0, 1, 2, … in the shape of x: which element stands where after an operator moved them. */
pl_value *pl_g_positions(pl_grad *c, pl_value *x);
/* Rows of 0 and a single 1 at the index, along a new last axis. */
pl_value *pl_g_one_hot(pl_grad *c, pl_value *indices, int64_t n, pl_dtype dtype);
/* dL/dx when element i of g belongs to element positions[i] of x. Equal positions add up unless
 * `unique`. */
pl_value *pl_g_put_back(pl_grad *c, pl_value *x, pl_value *positions, pl_value *g, bool unique);
/* An attribute that the node has, as it is, else the row's default: for a node of the same kind. */
pl_attr pl_g_same_int(const pl_grad *c, const char *name);

#endif

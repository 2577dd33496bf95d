/* Gradients of RemovePadding and RestorePadding: rows go back to where they came from. */
#include "ops/grad.h"
#include "ops/microsoft/ms_padding_rules.h"

/* The first offsets, one for each row of `rows`. */
static pl_value *first_offsets(pl_grad *c, pl_value *offsets, pl_value *rows) {
    pl_value *flat = pl_g_cast(c, pl_g_reshape(c, offsets, (int64_t[]){ -1 }, 1), PL_I64);
    pl_value *n =
        pl_g_slice(c, pl_g_shape(c, rows), (int64_t[]){ 0 }, (int64_t[]){ 1 }, (int64_t[]){ 0 }, 1);
    if (pl_g_opset(c) < 11 && c->st == PL_OK) pl_g_fail(c, "requires opset 11");
    return pl_g3(c, "Slice", flat, pl_g_ints(c, (int64_t[]){ 0 }, 1), n);
}

static pl_value *as_rows(pl_grad *c, pl_value *x, int64_t n) {
    return pl_g_reshape(c, x, (int64_t[]){ -1, n }, 2);
}

pl_status pl_restore_padding_grad(pl_grad *c) {
    const pl_node *node = c->node;
    if (c->dy[0] == NULL) return PL_OK;
    const int64_t n = pl_g_dim(c, node->in[0], 1);
    c->dx[0] =
        pl_g2(c, "Gather", as_rows(c, c->dy[0], n), first_offsets(c, node->in[1], node->in[0]));
    return c->st;
}

pl_status pl_remove_padding_grad(pl_grad *c) {
    const pl_node *node = c->node;
    if (c->dy[0] == NULL) return PL_OK;
    if (node->n_out < 2 || node->out[1] == NULL)
        return pl_g_fail(c, "needs token_offset, which the node does not output");
    const int64_t n = pl_g_dim(c, node->in[0], 2), last = 1;
    pl_value *at = pl_g_unsqueeze(c, first_offsets(c, node->out[1], c->dy[0]), &last, 1);
    pl_value *zeros = as_rows(c, pl_g_zeros_like(c, node->in[0]), n);
    c->dx[0] = pl_g_reshape_like(c, pl_g3(c, "ScatterND", zeros, at, c->dy[0]), node->in[0]);
    return c->st;
}

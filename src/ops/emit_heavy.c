/* Emission of matrix products and convolutions: calls of src/kernels, on views where they can. */
#include <stdio.h>

#include "ops/convolve.h"
#include "ops/emit.h"
#include "ops/emit_rules.h"

static bool is_wide(pl_dtype d) {
    return d == PL_F32 || d == PL_F64;
}

static pl_ref swap_last(pl_emit *c, pl_ref x, int rank) {
    int perm[PL_EMIT_RANK_MAX];
    for (int d = 0; d < rank; d++)
        perm[d] = d;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return pl_emit_transpose(c, x, perm);
}

/* A vector is a row on the left and a column on the right. */
static pl_ref as_matrix(pl_emit *c, int i) {
    if (pl_emit_rank(c, i) >= 2) return pl_emit_in(c, i);
    int64_t dims[2] = { 1, 1 };
    dims[i == 0 ? 1 : 0] = pl_emit_dim(c, i, 0);
    return pl_emit_reshape(c, pl_emit_in(c, i), 2, dims);
}

pl_status pl_emit_matmul(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    if (!is_wide(c->in[0]->dtype)) return pl_emit_decline(c, "products of this type");
    if (pl_emit_rank(c, 0) < 1 || pl_emit_rank(c, 1) < 1) return pl_emit_decline(c, "a scalar");
    const pl_emit_gemm gemm = { as_matrix(c, 0), as_matrix(c, 1), 1 };
    pl_ref y = c->builder->gemm(c, &gemm);
    for (int d = 0; d < c->out[0]->rank; d++)
        dims[d] = c->out[0]->dims[d].value;
    if (pl_emit_rank(c, 0) == 1 || pl_emit_rank(c, 1) == 1) {
        y = pl_emit_reshape(c, y, c->out[0]->rank, dims);
    }
    return pl_emit_out(c, 0, y);
}

pl_status pl_emit_gemm_rule(pl_emit *c) {
    char number[64], expr[120];
    const double beta = pl_attr_float(c->node, "beta");
    if (!is_wide(c->in[0]->dtype)) return pl_emit_decline(c, "products of this type");
    pl_ref a = pl_emit_in(c, 0), b = pl_emit_in(c, 1);
    if (pl_attr_int(c->node, "transA") != 0) a = swap_last(c, a, 2);
    if (pl_attr_int(c->node, "transB") != 0) b = swap_last(c, b, 2);
    const pl_emit_gemm gemm = { a, b, pl_attr_float(c->node, "alpha") };
    pl_ref y = c->builder->gemm(c, &gemm);
    if (pl_emit_has(c, 2) && beta != 0) {
        snprintf(expr, sizeof(expr), "$0 + %s * $1", pl_emit_number(beta, number));
        y = pl_emit_map2(c, c->out[0]->dtype, beta == 1 ? "$0 + $1" : expr, y, pl_emit_in(c, 2));
    }
    return pl_emit_out(c, 0, y);
}

pl_status pl_emit_conv_rule(pl_emit *c) {
    pl_window win = { 0 };
    const int n = pl_emit_rank(c, 0) - 2;
    if (!is_wide(c->in[0]->dtype)) return pl_emit_decline(c, "convolutions of this type");
    if (n < 1 || n > 3) return pl_emit_decline(c, "more than three spatial dims");
    if (pl_window_read(c->node, n, &win, NULL) != PL_OK) return pl_emit_decline(c, "attributes");
    for (int d = 0; d < n; d++) {
        if (!win.has_kernel) win.kernel[d] = pl_emit_dim(c, 1, 2 + d);
        if (win.kernel[d] != pl_emit_dim(c, 1, 2 + d)) return pl_emit_decline(c, "kernel_shape");
    }
    win.has_kernel = true;
    for (int d = 0; d < n; d++) {
        if (pl_window_place(c->node, &win, d, pl_emit_dim(c, 0, 2 + d), NULL) != PL_OK) {
            return pl_emit_decline(c, "attributes");
        }
    }
    pl_emit_conv conv = { .x = pl_emit_in(c, 0), .w = pl_emit_in(c, 1), .bias = -1 };
    if (pl_emit_has(c, 2)) conv.bias = pl_emit_in(c, 2);
    conv.shape = (pl_conv_shape){ .n_spatial = n,
                                  .batch = pl_emit_dim(c, 0, 0),
                                  .c_in = pl_emit_dim(c, 0, 1),
                                  .c_out = pl_emit_dim(c, 1, 0),
                                  .groups = pl_attr_int(c->node, "group") };
    for (int d = 0; d < n; d++) {
        conv.shape.in[d] = win.in[d];
        conv.shape.out[d] = win.out[d];
        conv.shape.kernel[d] = win.kernel[d];
        conv.shape.stride[d] = win.stride[d];
        conv.shape.dilation[d] = win.dilation[d];
        conv.shape.pad_begin[d] = win.pad_begin[d];
    }
    return pl_emit_out(c, 0, c->builder->conv(c, &conv));
}

/* Emission of matrix products and convolutions: calls of src/kernels, on views where they can. */
#include <stdio.h>

#include "ops/convolve.h"
#include "ops/emit.h"
#include "ops/emit_rules.h"
#include "ops/fused.h"

/* An operand in the type that products are computed in; weights are converted at once. */
static pl_ref wide(pl_emit *c, int i) {
    if (!pl_emit_has(c, i)) return -1;
    return pl_emit_convert(c, pl_emit_in(c, i), pl_emit_compute(c->in[i]->dtype));
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
static pl_ref as_matrix(pl_emit *c, int i, pl_ref x) {
    if (pl_emit_rank(c, i) >= 2) return x;
    int64_t dims[2] = { 1, 1 };
    dims[i == 0 ? 1 : 0] = pl_emit_dim(c, i, 0);
    return pl_emit_reshape(c, x, 2, dims);
}

/* In the shape of output 0 (vectors lose their dim of 1). */
static pl_status out_product(pl_emit *c, pl_ref y) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
}

/* Integers wrap: a sum of products in 64 bits over a dim of its own. */
static pl_ref integer_product(pl_emit *c, pl_ref a, pl_ref b) {
    int64_t da[PL_EMIT_RANK_MAX], db[PL_EMIT_RANK_MAX];
    pl_dtype dtype;
    if (a < 0 || b < 0) return -1;
    const int ra = c->builder->dims(c, a, da, &dtype), rb = c->builder->dims(c, b, db, &dtype);
    if (ra >= PL_EMIT_RANK_MAX || rb >= PL_EMIT_RANK_MAX) return -1;
    b = swap_last(c, b, rb);
    da[ra] = da[ra - 1];
    da[ra - 1] = 1; /* (…, m, 1, k) */
    const int64_t n = db[rb - 1], k = db[rb - 2];
    db[rb - 2] = 1;
    db[rb - 1] = n;
    db[rb] = k; /* (…, 1, n, k) */
    const pl_ref x = pl_emit_reshape(c, a, ra + 1, da), y = pl_emit_reshape(c, b, rb + 1, db);
    const pl_ref p = pl_emit_map2(c, PL_U64, "(uint64_t)$0 * (uint64_t)$1", x, y);
    const int rank = (ra > rb ? ra : rb) + 1;
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_U64, p, 1u << (rank - 1));
    if (sum < 0) return -1;
    (void)c->builder->dims(c, sum, dims, &dtype);
    return pl_emit_reshape(c, sum, rank - 1, dims);
}

pl_status pl_emit_matmul(pl_emit *c) {
    if (pl_emit_rank(c, 0) < 1 || pl_emit_rank(c, 1) < 1) return pl_emit_decline(c, "a scalar");
    if (!pl_emit_is_float(c->in[0]->dtype)) {
        const pl_ref a = as_matrix(c, 0, pl_emit_in(c, 0)), b = as_matrix(c, 1, pl_emit_in(c, 1));
        return out_product(c, integer_product(c, a, b));
    }
    const pl_emit_gemm gemm = { as_matrix(c, 0, wide(c, 0)), as_matrix(c, 1, wide(c, 1)), 1 };
    return out_product(c, c->builder->gemm(c, &gemm));
}

/* ---- what follows a fused product: com.microsoft's attribute `activation` ---- */

static pl_status out_activated(pl_emit *c, pl_ref y) {
    static const struct {
        const char *name, *expr; /* # and @ are the two numbers */
    } rows[] = {
        { "Relu", "$0 < 0 ? 0 : $0" },
        { "LeakyRelu", "$0 < 0 ? # * $0 : $0" },
        { "Clip", "$0 < # ? # : $0 > @ ? @ : $0" },
        { "HardSigmoid", "px_unit_$S(# * $0 + @)" },
        { "Elu", "px_elu_$S($0, 1, #, 1)" },
        { "Softsign", "$0 / (1 + px_abs_$S($0))" },
        { "HardSwish", "$0 * px_unit_$S($0 / 6 + ($T)0.5)" },
        { "Tanh", "px_tanh_$S($0)" },
        { "Sigmoid", "px_sigmoid_$S($0)" },
        { "Softplus", "px_softplus_$S($0)" },
        { "Swish", "px_silu_$S($0)" },
    };
    double params[2] = { 0, 0 };
    char expr[300] = "", number[64];
    size_t n = 0;
    const char *form = NULL;
    if (pl_attr_string(c->node, "activation").n_bytes == 0) return pl_emit_out(c, 0, y);
    if (pl_fused_params(c->node, params, NULL) != PL_OK) return pl_emit_decline(c, "activation");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (pl_attr_string_is(c->node, "activation", rows[i].name)) form = rows[i].expr;
    if (form == NULL) return pl_emit_decline(c, "activation");
    for (; *form != '\0' && n + 64 < sizeof(expr); form++) {
        if (*form == '#' || *form == '@') {
            n += (size_t)snprintf(expr + n, sizeof(expr) - n, "%s",
                                  pl_emit_number(params[*form == '@'], number));
        } else {
            expr[n++] = *form;
            expr[n] = '\0';
        }
    }
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, y));
}

static pl_ref gemm_of(pl_emit *c) {
    char number[64], expr[120];
    const double beta = pl_attr_float(c->node, "beta");
    pl_ref a = wide(c, 0), b = wide(c, 1);
    if (pl_attr_int(c->node, "transA") != 0) a = swap_last(c, a, 2);
    if (pl_attr_int(c->node, "transB") != 0) b = swap_last(c, b, 2);
    const pl_emit_gemm gemm = { a, b, pl_attr_float(c->node, "alpha") };
    pl_ref y = c->builder->gemm(c, &gemm);
    if (pl_emit_has(c, 2) && beta != 0) {
        snprintf(expr, sizeof(expr), "$0 + %s * $1", pl_emit_number(beta, number));
        y = pl_emit_map2(c, pl_emit_compute(c->out[0]->dtype), beta == 1 ? "$0 + $1" : expr, y,
                         pl_emit_in(c, 2));
    }
    return y;
}

/* Gemm of integers: alpha and beta are floats, which the kernel truncates; rare. */
pl_status pl_emit_gemm_rule(pl_emit *c) {
    if (!pl_emit_is_float(c->in[0]->dtype)) return pl_emit_decline(c, "Gemm of integers");
    return pl_emit_out(c, 0, gemm_of(c));
}
pl_status pl_emit_fused_gemm(pl_emit *c) {
    if (!pl_emit_is_float(c->in[0]->dtype)) return pl_emit_decline(c, "Gemm of integers");
    return out_activated(c, gemm_of(c));
}

/* com.microsoft FusedMatMul and TransposeMatMul. */
pl_status pl_emit_fused_matmul(pl_emit *c) {
    pl_ref side[2];
    for (int i = 0; i < 2; i++) {
        const int rank = pl_emit_rank(c, i);
        const bool turn = pl_attr_int(c->node, i == 0 ? "transA" : "transB") != 0;
        const char *batch = i == 0 ? "transBatchA" : "transBatchB";
        if (pl_attr_int(c->node, batch) != 0) return pl_emit_decline(c, batch);
        if (rank < 1) return pl_emit_decline(c, "a scalar");
        side[i] = as_matrix(c, i, wide(c, i));
        if (turn && rank >= 2) side[i] = swap_last(c, side[i], rank);
    }
    const pl_emit_gemm gemm = { side[0], side[1], pl_attr_float(c->node, "alpha") };
    return out_product(c, c->builder->gemm(c, &gemm));
}

/* ---- convolutions ---- */

const char *pl_emit_conv_shape(pl_emit *c, int w, pl_conv_shape *out) {
    pl_window win = { 0 };
    const int n = pl_emit_rank(c, 0) - 2;
    if (n < 1 || n > 3) return "more than three spatial dims";
    if (pl_window_read(c->node, n, &win, NULL) != PL_OK) return "attributes";
    for (int d = 0; d < n; d++) {
        if (!win.has_kernel) win.kernel[d] = pl_emit_dim(c, w, 2 + d);
        if (win.kernel[d] != pl_emit_dim(c, w, 2 + d)) return "kernel_shape";
    }
    win.has_kernel = true;
    for (int d = 0; d < n; d++)
        if (pl_window_place(c->node, &win, d, pl_emit_dim(c, 0, 2 + d), NULL) != PL_OK) {
            return "attributes";
        }
    *out = (pl_conv_shape){ .n_spatial = n,
                            .batch = pl_emit_dim(c, 0, 0),
                            .c_in = pl_emit_dim(c, 0, 1),
                            .c_out = pl_emit_dim(c, w, 0),
                            .groups = pl_attr_int(c->node, "group"),
                            .by = c->kernels };
    for (int d = 0; d < n; d++) {
        out->in[d] = win.in[d];
        out->out[d] = win.out[d];
        out->kernel[d] = win.kernel[d];
        out->stride[d] = win.stride[d];
        out->dilation[d] = win.dilation[d];
        out->pad_begin[d] = win.pad_begin[d];
    }
    return NULL;
}

static const char *conv_of(pl_emit *c, pl_ref *y) {
    pl_emit_conv conv = { .x = wide(c, 0), .w = wide(c, 1), .bias = -1 };
    const char *wrong = pl_emit_conv_shape(c, 1, &conv.shape);
    if (wrong != NULL) return wrong;
    if (pl_emit_has(c, 2)) conv.bias = wide(c, 2);
    if (conv.x < 0 || conv.w < 0 || (pl_emit_has(c, 2) && conv.bias < 0)) return "no memory";
    *y = c->builder->conv(c, &conv);
    return NULL;
}

pl_status pl_emit_conv_rule(pl_emit *c) {
    pl_ref y = -1;
    const char *wrong = conv_of(c, &y);
    return wrong != NULL ? pl_emit_decline(c, wrong) : pl_emit_out(c, 0, y);
}

/* com.microsoft FusedConv: + Z, then the activation. */
pl_status pl_emit_fused_conv(pl_emit *c) {
    pl_ref y = -1;
    const char *wrong = conv_of(c, &y);
    if (wrong != NULL) return pl_emit_decline(c, wrong);
    if (pl_emit_has(c, 3)) {
        y = pl_emit_map2(c, pl_emit_compute(c->out[0]->dtype), "$0 + $1", y, pl_emit_in(c, 3));
    }
    return out_activated(c, y);
}

/* ---- transposed ---- */

typedef struct transposed {
    pl_conv_shape shape;
    bool bias, is_f64;
} transposed;

static pl_status run_transposed(const pl_emit_args *a, pl_err *err) {
    const transposed *q = a->params;
    const void *bias = q->bias ? a->in[2] : NULL;
    return q->is_f64
               ? pl_conv_transpose_f64(a->pool, &q->shape, a->in[0], a->in[1], bias, a->out, err)
               : pl_conv_transpose_f32(a->pool, &q->shape, a->in[0], a->in[1], bias, a->out, err);
}

/* The shape rule has placed the window; it is read once more on stand-ins for the tensors. */
static pl_status transposed_window(pl_emit *c, pl_window *win) {
    static const char nowhere[16];
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_tensor *t[2] = { NULL, NULL };
    pl_status st = PL_OK;
    for (int i = 0; i < 2 && st == PL_OK; i++) {
        pl_emit_in_dims(c, i, dims);
        st = pl_tensor_borrow(c->in[i]->dtype, c->in[i]->rank, dims, nowhere, NULL, NULL, &t[i],
                              NULL);
    }
    const pl_eval eval = { .node = c->node };
    if (st == PL_OK) st = pl_conv_transpose_window(&eval, t[0], t[1], win);
    pl_tensor_unref(t[0]);
    pl_tensor_unref(t[1]);
    return st;
}

pl_status pl_emit_conv_transpose(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_window win = { 0 };
    const int n = pl_emit_rank(c, 0) - 2;
    const pl_dtype dtype = pl_emit_compute(c->in[0]->dtype);
    transposed q = { .bias = pl_emit_has(c, 2), .is_f64 = dtype == PL_F64 };
    if (n < 1 || n > 3) return pl_emit_decline(c, "more than three spatial dims");
    if (transposed_window(c, &win) != PL_OK) return pl_emit_decline(c, "attributes");
    pl_emit_out_dims(c, 0, dims);
    q.shape = (pl_conv_shape){ .n_spatial = n,
                               .batch = pl_emit_dim(c, 0, 0),
                               .c_in = pl_emit_dim(c, 0, 1),
                               .c_out = dims[1],
                               .groups = pl_attr_int(c->node, "group"),
                               .by = c->kernels };
    for (int d = 0; d < n; d++) {
        q.shape.in[d] = win.in[d];
        q.shape.out[d] = win.out[d];
        q.shape.kernel[d] = win.kernel[d];
        q.shape.stride[d] = win.stride[d];
        q.shape.dilation[d] = win.dilation[d];
        q.shape.pad_begin[d] = win.pad_begin[d];
    }
    const pl_ref args[3] = { wide(c, 0), wide(c, 1), q.bias ? wide(c, 2) : -1 };
    const pl_emit_kernel kernel = { .what = "a transposed convolution",
                                    .run = run_transposed,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = dtype,
                                    .rank = n + 2,
                                    .dims = dims };
    return pl_emit_out(c, 0, pl_emit_kernel_call(c, &kernel, q.bias ? 3 : 2, args));
}

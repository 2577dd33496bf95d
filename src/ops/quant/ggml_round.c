/* plumb GgmlRound: what llama.cpp does to the activations of a product before it multiplies them
 * with stored weights. `compare --weights` puts it before such products; no other runtime has it.
 *
 * type  what           held against
 * F16   half precision; the bound allows for none: it depends on the CPU whether ggml rounds
 * BF16  the same with bfloat16
 * Q8_0  blocks of 32: codes of max|x| / 127, the scale in half precision (ggml-quants.c,
 *       quantize_row_q8_0); before weights of Q4_0, Q5_0, Q8_0, IQ4_NL, MXFP4
 * Q8_1  the same; the bound allows for the block's sum, which ggml stores in half precision, too
 * Q8_K  blocks of 256 with a float scale; before K-quants and IQ blocks
 *
 * The blocks run along the last axis. */
#include <math.h>

#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/infer.h"
#include "tensor/dtype.h"

extern const pl_op_def pl_ops_ggml_round[];

typedef struct form {
    const char *type;
    int64_t block; /* 1: no codes */
    bool half;     /* the scale, or an element */
    double slack;  /* of an element, relative to it */
} form;

/* Q8_1: sums of 32 codes whose scale was rounded; all elements of a block are off together. */
static const form forms[] = {
    { "F16", 1, true, 0x1p-11 },  { "BF16", 1, false, 0x1p-8 }, { "Q8_0", 32, true, 0 },
    { "Q8_1", 32, true, 0x1p-9 }, { "Q8_K", 256, false, 0 },
};

static const form *form_of(const pl_node *node) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (pl_attr_string_is(node, "type", forms[i].type)) return &forms[i];
    return NULL;
}

static pl_status ggml_round_infer(pl_infer *c) {
    const form *f = form_of(c->node);
    const int rank = pl_infer_rank(c, 0);
    if (f == NULL)
        return pl_infer_fail(c, "attribute 'type' is none of F16, BF16, Q8_0, Q8_1, Q8_K");
    if (rank >= 0 && f->block > 1) {
        const pl_dim last = rank > 0 ? pl_infer_dim(c, 0, rank - 1) : pl_dim_of(1);
        if (pl_dim_known(last) && last.value % f->block != 0)
            return pl_infer_fail(c, "the last axis has %lld elements, no multiple of %lld",
                                 (long long)last.value, (long long)f->block);
    }
    return pl_infer_same_as_first(c);
}

/* With the roundings of ggml, of which Q8_K has two. */
static double scale_of(const form *f, double most) {
    const float d = (float)most / 127.0F;
    if (f->half) return (double)pl_f16_to_f32(pl_f16_from_f32(d));
    return most > 0 ? (double)(1 / (127.0F / (float)most)) : 0;
}

static double round_one(const form *f, double x) {
    return f->half ? (double)pl_f16_to_f32(pl_f16_from_f64(x))
                   : (double)pl_bf16_to_f32(pl_bf16_from_f64(x));
}

/* A block with NaN or Inf stays. */
static void round_block(const form *f, const double *x, double *y) {
    double most = 0;
    for (int64_t i = 0; i < f->block; i++)
        most = fabs(x[i]) <= most ? most : fabs(x[i]);
    const double scale = scale_of(f, most);
    for (int64_t i = 0; i < f->block; i++)
        y[i] = isfinite(most) && most > 0 ? rint(x[i] * (127 / most)) * scale : x[i];
}

static pl_status ggml_round_eval(pl_eval *c) {
    enum { LARGEST = 256 };
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const form *f = form_of(c->node);
    if (f == NULL) return pl_eval_fail(c, "attribute 'type' is unknown");
    if (x->n_elements % f->block != 0) return pl_eval_fail(c, "input X is not whole blocks");
    const size_t size = pl_dtype_bytes(x->dtype);
    for (int64_t from = 0; from < x->n_elements; from += f->block) {
        double in[LARGEST], out[LARGEST];
        pl_load_f64(x->dtype, (const char *)x->data + (size_t)from * size, in, (size_t)f->block);
        if (f->block > 1)
            round_block(f, in, out);
        else
            out[0] = round_one(f, in[0]);
        pl_store_f64(y->dtype, out, (char *)y->data + (size_t)from * size, (size_t)f->block);
    }
    return PL_OK;
}

/* ---- error bound ---- */

/* How far the scale of the block may be off: a maximum at a tie of half precision. */
static double scale_error(const form *f, double most, double e_most, double u) {
    const double low = scale_of(f, fmax(0, most - e_most) * (1 - 2 * u));
    return fmax(scale_of(f, (most + e_most) * (1 + 2 * u)) - low, 2 * u * most / 127);
}

static void bound_block(const form *f, const double *x, const double *e, double u, double *out) {
    double most = 0, e_most = 0;
    for (int64_t i = 0; i < f->block; i++) {
        most = fmax(most, fabs(x[i]));
        e_most = fmax(e_most, e == NULL ? 0 : e[i]);
    }
    const double scale = scale_of(f, most), e_scale = scale_error(f, most, e_most, u);
    for (int64_t i = 0; i < f->block; i++) {
        const double code = most > 0 ? fabs(x[i]) * 127 / most : 0, rest = code - floor(code);
        const double off = (e == NULL ? 0 : e[i]) * 127 / fmax(most, 1e-300) +
                           code * (e_most / fmax(most, 1e-300) + 4 * u);
        out[i] = code * e_scale + f->slack * fabs(x[i]);
        if (fabs(rest - 0.5) <= off || off > 1) out[i] += scale * (1 + off);
    }
}

static pl_status ggml_round_bound(pl_bound *c) {
    const double *x = pl_b_x(c, 0), *e = pl_b_e(c, 0);
    const form *f = form_of(c->node);
    const pl_tensor *y = pl_b_out(c, 0);
    double *out = NULL;
    if (y == NULL || f == NULL) return PL_OK;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &out));
    for (int64_t i = 0; i < y->n_elements; i += f->block) {
        if (f->block == 1)
            out[i] = (e == NULL ? 0 : e[i]) + f->slack * fabs(x[i]) + c->tiny;
        else
            bound_block(f, x + i, e == NULL ? NULL : e + i, 0x1p-24, out + i);
    }
    return PL_OK;
}

/* ---- rows ---- */

/* clang-format off */
const pl_op_def pl_ops_ggml_round[] = {
    { .name = "GgmlRound", .domain = "plumb", .since = 1,
      .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("type", STRING)),
      .infer = ggml_round_infer, .eval = ggml_round_eval, .grad = PL_GRAD_ZERO, .bound = ggml_round_bound, PL_EMIT_BREAK("plumb's own, for llama.cpp's recordings"), .autocast = PL_AMP_KEEP, .flags = PL_OP_ROUNDS,
      .samples = PL_SAMPLES({ "(float[2,64] x) => (y) { y = plumb.GgmlRound<type=\"Q8_0\">(x) }", NULL, 0 },
                            { "(float[1,256] x) => (y) { y = plumb.GgmlRound<type=\"Q8_K\">(x) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

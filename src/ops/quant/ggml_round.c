/* plumb GgmlRound and GgmlHalf: what llama.cpp does to the activations of a product before it
 * multiplies them with stored weights. `compare --weights` puts it before such products; no other
 * runtime has it.
 *
 * type  what           held against
 * F16   half precision; the bound allows for none: it depends on the CPU whether ggml rounds
 * BF16  the same with bfloat16
 * CACHE half precision, which ggml has behind a rotation; the bound allows for both places, and for
 *       the weights of attention, which are rounded, too. F16 and CACHE are of GgmlHalf: what is
 *       behind it has the tolerance of half precision, behind GgmlRound that of 8 bits
 * Q8_0  blocks of 32: codes of max|x| / 127, the scale in half precision (ggml-quants.c,
 *       quantize_row_q8_0); before weights of Q4_0, Q5_0, Q8_0, IQ4_NL, MXFP4
 * Q8_1  the same, and behind the elements one more for each block, see below; before Q4_1, Q5_1
 * Q8_K  blocks of 256 with a float scale; before K-quants and IQ blocks
 *
 * The blocks run along the last axis.
 *
 * Q8_1: the weights of a block are m + d q. ggml adds up q times the codes, and m times the sum of
 * the block, half(float scale * sum of codes), whose error is not that of the elements, half(scale)
 * times a code each (quantize_row_q8_1, ggml_vec_dot_q4_1_q8_1). The element more is that sum less
 * the sum of the elements; the product has m in the row that meets it, which makes it ggml's. */
#include <math.h>

#include "base/alloc.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/infer.h"
#include "tensor/dtype.h"

extern const pl_op_def pl_ops_ggml_round[];

typedef struct form {
    const char *type;
    int64_t block; /* 1: no codes */
    bool half;     /* the scale, or an element */
    bool sums;     /* an element more for each block */
    double slack;  /* of an element, relative to it */
} form;

static const form forms[] = {
    { "F16", 1, true, false, 0x1p-11 },   { "BF16", 1, false, false, 0x1p-8 },
    { "CACHE", 1, true, false, 0x1p-10 }, { "Q8_0", 32, true, false, 0 },
    { "Q8_1", 32, true, true, 0 },        { "Q8_K", 256, false, false, 0 },
};

static const form *form_of(const pl_node *node) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (pl_attr_string_is(node, "type", forms[i].type)) return &forms[i];
    return NULL;
}

/* Elements behind one another for n elements before. */
static int64_t with_sums(const form *f, int64_t n) {
    return f->sums ? n + n / f->block : n;
}

static pl_status infer_sums(pl_infer *c, const form *f, int rank) {
    pl_dim dims[PL_RANK_MAX];
    if (rank < 1) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    for (int i = 0; i < rank; i++)
        dims[i] = pl_infer_dim(c, 0, i);
    pl_dim *last = &dims[rank - 1];
    *last = pl_dim_known(*last) ? pl_dim_of(with_sums(f, last->value)) : PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

static pl_status ggml_round_infer(pl_infer *c) {
    const form *f = form_of(c->node);
    const int rank = pl_infer_rank(c, 0);
    if (f == NULL)
        return pl_infer_fail(c, "attribute 'type' is none of F16, BF16, CACHE, Q8_0, Q8_1, Q8_K");
    if (rank >= 0 && f->block > 1) {
        const pl_dim last = rank > 0 ? pl_infer_dim(c, 0, rank - 1) : pl_dim_of(1);
        if (pl_dim_known(last) && last.value % f->block != 0)
            return pl_infer_fail(c, "the last axis has %lld elements, no multiple of %lld",
                                 (long long)last.value, (long long)f->block);
    }
    return f->sums ? infer_sums(c, f, rank) : pl_infer_same_as_first(c);
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

static double half_of(double x) {
    return (double)pl_f16_to_f32(pl_f16_from_f32((float)x));
}

/* What ggml's sum of the block has more than its elements; `codes` is their sum. */
static double more_of(double most, double codes) {
    const float d = (float)most / 127.0F;
    return half_of((double)(d * (float)codes)) - half_of((double)d) * codes;
}

/* A block with NaN or Inf stays. */
static void round_block(const form *f, const double *x, double *y, double *more) {
    double most = 0, codes = 0;
    for (int64_t i = 0; i < f->block; i++)
        most = fabs(x[i]) <= most ? most : fabs(x[i]);
    const double scale = scale_of(f, most);
    const bool has = isfinite(most) && most > 0;
    for (int64_t i = 0; i < f->block; i++) {
        const double code = has ? rint(x[i] * (127 / most)) : 0;
        y[i] = has ? code * scale : x[i];
        codes += code;
    }
    *more = f->sums && has ? more_of(most, codes) : 0;
}

/* A row of n elements: blocks, and what their sums have more. */
static void round_row(const form *f, const double *x, int64_t n, double *y) {
    double more = 0;
    for (int64_t i = 0; i < n; i += f->block) {
        if (f->block == 1) {
            y[i] = round_one(f, x[i]);
            continue;
        }
        round_block(f, x + i, y + i, &more);
        if (f->sums) y[n + i / f->block] = more;
    }
}

static pl_status ggml_round_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const form *f = form_of(c->node);
    if (f == NULL) return pl_eval_fail(c, "attribute 'type' is unknown");
    const int64_t n = x->rank == 0 ? 1 : x->dims[x->rank - 1];
    if (n % f->block != 0) return pl_eval_fail(c, "input X is not whole blocks");
    const size_t size = pl_dtype_bytes(x->dtype), n_in = (size_t)n;
    const size_t n_out = (size_t)with_sums(f, n);
    double *in = pl_calloc(n_in + n_out + 1, sizeof *in);
    if (in == NULL) return pl_fail_memory(c->err, (n_in + n_out) * sizeof *in);
    for (size_t row = 0; n > 0 && row < (size_t)x->n_elements / n_in; row++) {
        pl_load_f64(x->dtype, (const char *)x->data + row * n_in * size, in, n_in);
        round_row(f, in, n, in + n_in);
        pl_store_f64(y->dtype, in + n_in, (char *)y->data + row * n_out * size, n_out);
    }
    pl_free(in);
    return PL_OK;
}

/* ---- error bound ---- */

/* How far the scale of the block may be off: a maximum at a tie of half precision. */
static double scale_error(const form *f, double most, double e_most, double u) {
    const double low = scale_of(f, fmax(0, most - e_most) * (1 - 2 * u));
    return fmax(scale_of(f, (most + e_most) * (1 + 2 * u)) - low, 2 * u * most / 127);
}

/* How far ggml's sum of a block may be from the one computed here, less what its elements are off:
 * the scale on all codes; the last bit of the sum, where it can round the other way; and the
 * difference of the two scales, on as many codes as can be others. */
static double more_error(double most, double codes, double e_scale, double n_other, double u) {
    const double d = most / 127, s = d * codes;
    const double reach = d * n_other + 8 * u * fabs(s) + e_scale * fabs(codes);
    const double low = half_of(s - reach), high = half_of(s + reach);
    return e_scale * fabs(codes) + (high - low) + fabs(d - half_of(d)) * n_other + 4 * u * fabs(s);
}

static void bound_block(const form *f, const double *x, const double *e, double u, double *out,
                        double *more) {
    double most = 0, e_most = 0, codes = 0, n_other = 0;
    for (int64_t i = 0; i < f->block; i++) {
        most = fmax(most, fabs(x[i]));
        e_most = fmax(e_most, e == NULL ? 0 : e[i]);
    }
    const double scale = scale_of(f, most), e_scale = scale_error(f, most, e_most, u);
    for (int64_t i = 0; i < f->block; i++) {
        const double code = most > 0 ? fabs(x[i]) * 127 / most : 0, rest = code - floor(code);
        const double off = (e == NULL ? 0 : e[i]) * 127 / fmax(most, 1e-300) +
                           code * (e_most / fmax(most, 1e-300) + 4 * u);
        codes += copysign(rint(code), x[i]);
        out[i] = code * e_scale + f->slack * fabs(x[i]);
        if (fabs(rest - 0.5) > off && off <= 1) continue;
        out[i] += scale * (1 + off);
        n_other += 1 + off;
    }
    *more = f->sums ? more_error(most, codes, e_scale, n_other, u) : 0;
}

static void bound_row(const pl_bound *c, const form *f, const double *x, const double *e, int64_t n,
                      double *out) {
    double more = 0;
    for (int64_t i = 0; i < n; i += f->block) {
        if (f->block == 1) {
            out[i] = (e == NULL ? 0 : e[i]) + f->slack * fabs(x[i]) + c->tiny;
            continue;
        }
        bound_block(f, x + i, e == NULL ? NULL : e + i, 0x1p-24, out + i, &more);
        if (f->sums) out[n + i / f->block] = more;
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
    const int64_t n_out = y->rank == 0 ? 1 : y->dims[y->rank - 1];
    const int64_t n = f->sums ? n_out / (f->block + 1) * f->block : n_out;
    for (int64_t row = 0; n > 0 && row < y->n_elements / n_out; row++)
        bound_row(c, f, x + row * n, e == NULL ? NULL : e + row * n, n, out + row * n_out);
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
                            { "(float[1,256] x) => (y) { y = plumb.GgmlRound<type=\"Q8_K\">(x) }", NULL, 0 },
                            { "(float[2,64] x) => (y) { y = plumb.GgmlRound<type=\"Q8_1\">(x) }", NULL, 0 }) },
    { .name = "GgmlHalf", .domain = "plumb", .since = 1,
      .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("type", STRING)),
      .infer = ggml_round_infer, .eval = ggml_round_eval, .grad = PL_GRAD_ZERO, .bound = ggml_round_bound, PL_EMIT_BREAK("plumb's own, for llama.cpp's recordings"), .autocast = PL_AMP_KEEP, .flags = PL_OP_ROUNDS | PL_OP_HALVES,
      .samples = PL_SAMPLES({ "(float16[2,5] x) => (y) { y = plumb.GgmlHalf<type=\"F16\">(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float16[3] x) => (y) { y = plumb.GgmlHalf<type=\"CACHE\">(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

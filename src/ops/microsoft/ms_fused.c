/* ONNX Runtime's fused normalisations and Gelu kin (domain com.microsoft,
 * docs/ContribOperators.md).
 *
 * ONNX Runtime's graph optimiser creates them; they appear in models saved after optimisation and
 * in those of its transformer tools. Intermediate results inside a fused kernel are not rounded. */
#include <string.h>

#include "kernels/vmath.h"
#include "ops/lib/compute.h"
#include "ops/lib/elementwise.h"
#include "ops/lib/matmul.h"
#include "ops/lib/norm_rows.h"
#include "ops/lib/softmax_run.h"
#include "ops/microsoft/ms_fused_rules.h"

extern const pl_op_def pl_ops_ms_fused[];

enum { BLOCK = 512 };

/* ---- Gelu, FastGelu ---- */

PL_UNARY_VMATH(gelu, gelu_erf)
PL_UNARY_VMATH(fast_gelu, gelu_tanh)

/* fn(x + y), y a bias. */
#define BIASED(name, F, T, fn)                                                                     \
    static void name(const void *p, const pl_##F *x, size_t sx, const pl_##F *y, size_t sy,        \
                     pl_##F *z, size_t n) {                                                        \
        (void)p;                                                                                   \
        T t[BLOCK];                                                                                \
        for (size_t at = 0; at < n; at += BLOCK) {                                                 \
            const size_t m = n - at < BLOCK ? n - at : BLOCK;                                      \
            for (size_t i = 0; i < m; i++)                                                         \
                t[i] = x[(at + i) * sx] + y[(at + i) * sy];                                        \
            pl_vmath_get()->F.fn(t, z + at, m);                                                    \
        }                                                                                          \
    }
BIASED(bias_gelu_f32, f32, float, gelu_erf)
BIASED(bias_gelu_f64, f64, double, gelu_erf)
BIASED(bias_fast_gelu_f32, f32, float, gelu_tanh)
BIASED(bias_fast_gelu_f64, f64, double, gelu_tanh)

static pl_status gelu_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = gelu_f32, .f64 = gelu_f64 };
    return pl_eval_unary(c, &ops, NULL);
}

static pl_status fast_gelu_eval(pl_eval *c) {
    static const pl_unary_ops plain = { .f32 = fast_gelu_f32, .f64 = fast_gelu_f64 };
    static const pl_binary_ops biased = { .f32 = bias_fast_gelu_f32, .f64 = bias_fast_gelu_f64 };
    return pl_has(c, 1) ? pl_eval_binary(c, &biased, NULL) : pl_eval_unary(c, &plain, NULL);
}

static pl_status bias_gelu_eval(pl_eval *c) {
    static const pl_binary_ops ops = { .f32 = bias_gelu_f32, .f64 = bias_gelu_f64 };
    return pl_eval_binary(c, &ops, NULL);
}

/* The bias, when given, broadcasts to X. */
static pl_status biased_infer(pl_infer *c) {
    if (c->n_in > 1) PL_TRY(pl_norm_check_onto(c, 1, "bias"));
    return pl_infer_set_like(c, 0, 0);
}

/* ---- GemmFastGelu: FastGelu(X * W + bias) ---- */

static pl_status gemm_fast_gelu_infer(pl_infer *c) {
    PL_TRY(pl_matmul_infer(c, 0, 1, (pl_matmul_options){ 0 }, pl_infer_dtype_of(c, 0)));
    const int rank = pl_infer_rank(c, 1);
    if (rank < 0 || !pl_infer_has(c, 2)) return PL_OK;
    if (rank < 2) return pl_infer_fail(c, "W has rank %d, expected 2 or more with a bias", rank);
    return pl_norm_check_length(c, 2, pl_infer_dim(c, 1, rank - 1), "bias");
}

typedef struct gelu_job {
    int64_t n; /* of a row */
    void *y;
    const void *bias; /* NULL = none */
} gelu_job;

#define GELU_ROWS(F)                                                                               \
    static void gelu_rows_##F(void *ctx, int64_t begin, int64_t end) {                             \
        const gelu_job *j = ctx;                                                                   \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const size_t n = (size_t)j->n;                                                             \
        for (int64_t row = begin; row < end; row++) {                                              \
            pl_##F *y = (pl_##F *)j->y + (size_t)row * n;                                          \
            if (j->bias != NULL) v->add(y, j->bias, y, n);                                         \
            v->gelu_tanh(y, y, n);                                                                 \
        }                                                                                          \
    }
GELU_ROWS(f32)
GELU_ROWS(f64)

/* X * W into y, of doubles or floats. */
static pl_status product(pl_eval *c, const pl_matmul *p, void *y, bool is_f64) {
    pl_kept *kept = pl_kept_of(c, 1);
    if (is_f64) {
        return pl_gemm_f64(c->pool, &p->gemm, 1, pl_in(c, 0)->data, pl_in(c, 1)->data, 0, y,
                           pl_kept_gemm(kept), c->err);
    }
    const pl_f32 *x = pl_compute_in_f32(c, 0, NULL), *w = pl_compute_in_f32(c, 1, kept);
    if (x == NULL || w == NULL) return pl_eval_memory(c);
    if (c->naive) return pl_gemm_long_f32(c->pool, &p->gemm, 1, x, w, 0, y, c->err);
    return pl_gemm_f32(c->pool, &p->gemm, 1, x, w, 0, y, pl_kept_gemm(kept), c->err);
}

static pl_status gemm_fast_gelu_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    const bool is_f64 = y->dtype == PL_F64;
    pl_matmul p;
    PL_TRY(pl_matmul_plan(c, pl_in(c, 0), pl_in(c, 1), (pl_matmul_options){ 0 }, &p));
    if (y->n_elements == 0) return PL_OK;
    gelu_job j = { .n = p.n, .y = is_f64 ? y->data : pl_compute_out_f32(c, y) };
    if (pl_has(c, 2)) j.bias = pl_in_floats(c, 2, is_f64);
    if (j.y == NULL || (pl_has(c, 2) && j.bias == NULL)) return pl_eval_memory(c);
    if (p.k == 0) {
        memset(j.y, 0, (size_t)y->n_elements * (is_f64 ? sizeof(double) : sizeof(float)));
    } else {
        PL_TRY(product(c, &p, j.y, is_f64));
    }
    pl_pool_for(c->pool, y->n_elements / p.n, pl_rows_grain(p.n),
                is_f64 ? gelu_rows_f64 : gelu_rows_f32, &j);
    if (!is_f64) pl_compute_store(c, y, j.y);
    return PL_OK;
}

/* ---- sums of an input, a skip and a bias ---- */

typedef struct sum_job {
    int64_t n; /* of a row */
    const void *x, *skip, *bias;
    void *y;
} sum_job;

#define SUMS(F)                                                                                    \
    static void sum_##F(void *ctx, int64_t begin, int64_t end) {                                   \
        const sum_job *j = ctx;                                                                    \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const size_t n = (size_t)j->n;                                                             \
        for (int64_t row = begin; row < end; row++) {                                              \
            const size_t at = (size_t)row * n;                                                     \
            pl_##F *y = (pl_##F *)j->y + at;                                                       \
            const pl_##F *x = (const pl_##F *)j->x + at;                                           \
            if (j->skip != NULL) v->add(x, (const pl_##F *)j->skip + at, y, n);                    \
            if (j->bias != NULL) v->add(j->skip != NULL ? y : x, j->bias, y, n);                   \
            if (j->skip == NULL && j->bias == NULL) memcpy(y, x, n * sizeof(*x));                  \
        }                                                                                          \
    }
SUMS(f32)
SUMS(f64)

static void *floats_or_scratch(pl_eval *c, int i, int64_t n, bool is_f64) {
    void *out = pl_out(c, i) != NULL ? pl_out_floats(c, i, is_f64) : NULL;
    if (out != NULL) return out;
    return pl_scratch(c, (size_t)n + 1, is_f64 ? sizeof(double) : sizeof(float));
}

/* y = x + skip + bias; rows are those of the last dim. X is not empty. */
static pl_status add_rows(pl_eval *c, int skip_in, int bias_in, void *y, bool is_f64) {
    const pl_tensor *x = pl_in(c, 0);
    const int last = x->rank - 1;
    sum_job j = { .n = x->dims[last],
                  .x = pl_in_floats(c, 0, is_f64),
                  .skip = pl_norm_scale(c, skip_in, x, 0, true, is_f64),
                  .bias = pl_norm_scale(c, bias_in, x, last, false, is_f64),
                  .y = y };
    if (y == NULL || j.x == NULL || (pl_has(c, skip_in) && j.skip == NULL) ||
        (pl_has(c, bias_in) && j.bias == NULL)) {
        return pl_eval_memory(c);
    }
    pl_pool_for(c->pool, x->n_elements / j.n, pl_rows_grain(j.n), is_f64 ? sum_f64 : sum_f32, &j);
    return PL_OK;
}

/* BiasAdd: X + bias + skip. */
static pl_status bias_add_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    void *y = pl_out_floats(c, 0, is_f64);
    PL_TRY(add_rows(c, 2, 1, y, is_f64));
    pl_out_floats_done(c, 0, y, is_f64);
    return PL_OK;
}

static pl_status last_dim_infer(pl_infer *c, int i, const char *what) {
    const int rank = pl_infer_rank(c, 0);
    if (rank == 0) return pl_infer_fail(c, "input is a scalar");
    if (rank < 0 || !pl_infer_has(c, i)) return PL_OK;
    return pl_norm_check_length(c, i, pl_infer_dim(c, 0, rank - 1), what);
}

static pl_status bias_add_infer(pl_infer *c) {
    PL_TRY(last_dim_infer(c, 1, "bias"));
    PL_TRY(pl_norm_check_onto(c, 2, "skip"));
    return pl_infer_set_like(c, 0, 0);
}

/* BiasSplitGelu: with (left, right) = X + bias along the last dim, left * gelu(right). */
static pl_status bias_split_gelu_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dim dims[PL_RANK_MAX];
    PL_TRY(last_dim_infer(c, 1, "bias"));
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    memcpy(dims, c->in[0]->dims, (size_t)rank * sizeof(*dims));
    pl_dim *last = &dims[rank - 1];
    if (pl_dim_known(*last) && last->value % 2 != 0) {
        return pl_infer_fail(c, "the last dim is %lld, expected an even number",
                             (long long)last->value);
    }
    *last = pl_dim_known(*last) ? pl_dim_of(last->value / 2) : PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

static pl_status bias_split_gelu_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    void *sum = pl_scratch(c, (size_t)x->n_elements, is_f64 ? sizeof(double) : sizeof(float));
    void *y = pl_out_floats(c, 0, is_f64);
    PL_TRY(add_rows(c, c->n_in, 1, sum, is_f64));
    if (y == NULL) return pl_eval_memory(c);
    const size_t n = (size_t)x->dims[x->rank - 1], half = n / 2;
    const size_t rows = (size_t)x->n_elements / n;
    const pl_vmath *v = pl_vmath_get();
    for (size_t row = 0; row < rows; row++) {
        if (is_f64) {
            pl_f64 *s = (pl_f64 *)sum + row * n, *to = (pl_f64 *)y + row * half;
            v->f64.gelu_erf(s + half, s + half, half);
            v->f64.mul(s, s + half, to, half);
        } else {
            pl_f32 *s = (pl_f32 *)sum + row * n, *to = (pl_f32 *)y + row * half;
            v->f32.gelu_erf(s + half, s + half, half);
            v->f32.mul(s, s + half, to, half);
        }
    }
    pl_out_floats_done(c, 0, y, is_f64);
    return PL_OK;
}

/* BiasSoftmax: softmax of data + bias over the dims from `axis` on. The bias is broadcast by
 * numpy's rules in the forms that the fusion makes, with is_inner_broadcast or without. */
static pl_status bias_softmax_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    int axis = 0;
    if (rank >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    PL_TRY(pl_norm_check_onto(c, 1, "bias"));
    return pl_infer_set_like(c, 0, 0);
}

static pl_status bias_softmax_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    if (x->n_elements == 0) return PL_OK;
    void *y = pl_out_floats(c, 0, is_f64);
    PL_TRY(add_rows(c, 1, c->n_in, y, is_f64));
    pl_softmax_run(c->pool, pl_axis_view_of(x, axis, x->rank), y, y, is_f64);
    pl_out_floats_done(c, 0, y, is_f64);
    return PL_OK;
}

/* ---- SkipLayerNormalization, SkipSimplifiedLayerNormalization ---- */

enum { OUT_MEAN = 1, OUT_INVERSE, OUT_SUM };

static pl_status skip_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(pl_norm_check_onto(c, 1, "skip"));
    PL_TRY(last_dim_infer(c, 2, "gamma"));
    for (int i = 3; i < c->n_in; i++)
        PL_TRY(last_dim_infer(c, i, i == 3 ? "beta" : "bias"));
    PL_TRY(pl_infer_set_like(c, 0, 0));
    PL_TRY(pl_infer_set_like(c, OUT_SUM, 0));
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = d + 1 < rank ? c->in[0]->dims[d] : pl_dim_of(1);
    for (int i = OUT_MEAN; i <= OUT_INVERSE; i++)
        PL_TRY(pl_infer_set(c, i, pl_infer_dtype(c, PL_F32), rank, dims));
    return PL_OK;
}

/* Normalises the rows of `sum` into output 0. Indices of optional inputs and outputs are 0 when
 * there is none. */
static pl_status normalize_sum(pl_eval *c, int64_t n, int64_t rows, void *sum, bool rms, int gamma,
                               int beta, int mean_out, bool is_f64) {
    pl_norm norm = { .rows = rows,
                     .n = n,
                     .block = 1,
                     .period = 1,
                     .rms = rms,
                     .naive = c->naive && !is_f64,
                     .epsilon = pl_attr_float(c->node, "epsilon"),
                     .x = sum,
                     .scale = pl_in_floats(c, gamma, is_f64),
                     .bias = beta > 0 ? pl_in_floats(c, beta, is_f64) : NULL,
                     .y = floats_or_scratch(c, 0, n * rows, is_f64) };
    if (mean_out > 0) {
        norm.mean = pl_out_floats(c, mean_out, is_f64);
        norm.inverse = pl_out_floats(c, mean_out + 1, is_f64);
    }
    if (norm.scale == NULL || norm.y == NULL ||
        (beta > 0 && pl_has(c, beta) && norm.bias == NULL)) {
        return pl_eval_memory(c);
    }
    pl_norm_run(c->pool, &norm, is_f64);
    pl_out_floats_done(c, 0, norm.y, is_f64);
    if (mean_out > 0) {
        pl_out_floats_done(c, mean_out, norm.mean, is_f64);
        pl_out_floats_done(c, mean_out + 1, norm.inverse, is_f64);
    }
    return PL_OK;
}

static pl_status skip_norm(pl_eval *c, bool rms, int beta, int bias) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) {
        pl_norm_fill_nan(pl_out(c, OUT_MEAN));
        pl_norm_fill_nan(pl_out(c, OUT_INVERSE));
        return PL_OK;
    }
    void *sum = floats_or_scratch(c, OUT_SUM, x->n_elements, is_f64);
    PL_TRY(add_rows(c, 1, bias, sum, is_f64));
    const int64_t n = x->dims[x->rank - 1];
    PL_TRY(normalize_sum(c, n, x->n_elements / n, sum, rms, 2, beta, OUT_MEAN, is_f64));
    pl_out_floats_done(c, OUT_SUM, sum, is_f64);
    return PL_OK;
}

static pl_status skip_layer_norm_eval(pl_eval *c) {
    return skip_norm(c, false, 3, 4);
}
static pl_status skip_rms_norm_eval(pl_eval *c) {
    return skip_norm(c, true, 0, 3);
}

/* ---- EmbedLayerNormalization ---- */

enum {
    IN_IDS,
    IN_SEGMENTS,
    IN_WORD,
    IN_POSITION,
    IN_SEGMENT,
    IN_GAMMA,
    IN_BETA,
    IN_MASK,
    IN_POSITION_IDS
};

static pl_status embed_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, IN_WORD);
    static const int tables[] = { IN_WORD, IN_POSITION, IN_SEGMENT };
    const pl_dim hidden = pl_infer_dim(c, IN_WORD, 1);
    for (int k = 0; k < 3; k++) {
        const int rank = pl_infer_rank(c, tables[k]);
        const pl_dim width = pl_infer_dim(c, tables[k], 1);
        if (rank < 0) continue;
        if (rank != 2 ||
            (pl_dim_known(width) && pl_dim_known(hidden) && width.value != hidden.value)) {
            return pl_infer_fail(c, "input %d does not have the width of input %d", tables[k],
                                 IN_WORD);
        }
    }
    PL_TRY(pl_norm_check_length(c, IN_GAMMA, hidden, "gamma"));
    PL_TRY(pl_norm_check_length(c, IN_BETA, hidden, "beta"));
    const int rank = pl_infer_rank(c, IN_IDS);
    if (rank >= 0 && rank != 2) return pl_infer_fail(c, "input_ids has rank %d, expected 2", rank);
    const pl_dim batch = pl_infer_dim(c, IN_IDS, 0);
    const pl_dim dims[3] = { batch, pl_infer_dim(c, IN_IDS, 1), hidden };
    static const int ids[] = { IN_SEGMENTS, IN_MASK };
    for (int k = 0; k < 2; k++) {
        if (pl_infer_rank(c, ids[k]) < 0) continue;
        const pl_type *merged = NULL;
        PL_TRY(pl_infer_merge(c, pl_type_tensor(c->arena, PL_UNDEFINED, 2, dims), c->in[ids[k]],
                              &merged));
    }
    PL_TRY(pl_infer_set(c, 0, dtype, 3, dims));
    PL_TRY(pl_infer_set(c, 1, PL_I32, 1, &batch));
    return pl_infer_set(c, 2, dtype, 3, dims);
}

typedef struct table {
    const void *data; /* NULL = none */
    int64_t rows, n;
} table;

static pl_status table_of(pl_eval *c, int i, bool is_f64, table *out) {
    const pl_tensor *t = pl_in(c, i);
    *out = (table){ 0 };
    if (t == NULL) return PL_OK;
    *out = (table){ pl_in_floats(c, i, is_f64), t->dims[0], t->dims[1] };
    return out->data == NULL ? pl_eval_memory(c) : PL_OK;
}

static pl_status add_table_row(pl_eval *c, const table *t, int64_t id, void *row, bool is_f64) {
    if (id < 0 || id >= t->rows) {
        return pl_eval_fail(c, "id %lld is not in 0 to %lld", (long long)id,
                            (long long)t->rows - 1);
    }
    const size_t n = (size_t)t->n;
    if (is_f64) {
        pl_vmath_get()->f64.add(row, (const pl_f64 *)t->data + (size_t)id * n, row, n);
    } else {
        pl_vmath_get()->f32.add(row, (const pl_f32 *)t->data + (size_t)id * n, row, n);
    }
    return PL_OK;
}

/* Position of token i: its own id, or the id from a single row shared by all samples, or its
 * index. */
static int64_t position_of(const pl_eval *c, int64_t i, int64_t length) {
    const pl_tensor *t = pl_in(c, IN_POSITION_IDS);
    if (t == NULL) return i % length;
    return pl_tensor_get_i64(t, t->n_elements == length ? i % length : i);
}

static void count_mask(pl_eval *c) {
    const pl_tensor *mask = pl_in(c, IN_MASK);
    pl_tensor *out = pl_out(c, 1);
    for (int64_t b = 0; out != NULL && b < out->n_elements; b++) {
        int32_t n = 0;
        for (int64_t i = 0; mask != NULL && i < mask->dims[1]; i++)
            n += pl_tensor_get_i64(mask, b * mask->dims[1] + i) == 1;
        ((pl_i32 *)out->data)[b] = n;
    }
}

static pl_status embed_eval(pl_eval *c) {
    const pl_tensor *ids = pl_in(c, IN_IDS), *segments = pl_in(c, IN_SEGMENTS);
    const bool is_f64 = pl_in(c, IN_WORD)->dtype == PL_F64;
    const int64_t hidden = pl_in(c, IN_WORD)->dims[1], length = ids->dims[1];
    const pl_tensor *positions = pl_in(c, IN_POSITION_IDS);
    count_mask(c);
    if (ids->n_elements == 0 || hidden == 0) return PL_OK;
    if (positions != NULL && positions->n_elements != length &&
        positions->n_elements != ids->n_elements) {
        return pl_eval_fail(c, "position_ids has %lld elements", (long long)positions->n_elements);
    }
    const size_t bytes = is_f64 ? sizeof(double) : sizeof(float);
    const int64_t n = pl_out(c, 0)->n_elements;
    table word, position, segment;
    PL_TRY(table_of(c, IN_WORD, is_f64, &word));
    PL_TRY(table_of(c, IN_POSITION, is_f64, &position));
    PL_TRY(table_of(c, IN_SEGMENT, is_f64, &segment));
    char *sum = floats_or_scratch(c, 2, n, is_f64);
    if (sum == NULL) return pl_eval_memory(c);
    memset(sum, 0, (size_t)n * bytes);
    for (int64_t i = 0; i < ids->n_elements; i++) {
        char *row = sum + (size_t)(i * hidden) * bytes;
        PL_TRY(add_table_row(c, &word, pl_tensor_get_i64(ids, i), row, is_f64));
        PL_TRY(add_table_row(c, &position, position_of(c, i, length), row, is_f64));
        if (segments == NULL || segment.data == NULL) continue;
        PL_TRY(add_table_row(c, &segment, pl_tensor_get_i64(segments, i), row, is_f64));
    }
    PL_TRY(normalize_sum(c, hidden, ids->n_elements, sum, false, IN_GAMMA, IN_BETA, 0, is_f64));
    pl_out_floats_done(c, 2, sum, is_f64);
    return PL_OK;
}

/* ---- GroupNorm, SkipGroupNorm ---- */

static pl_status group_norm_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t groups = pl_attr_int(c->node, "groups");
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    if (rank >= 0 && rank < 3) return pl_infer_fail(c, "X has rank %d, expected 3 or more", rank);
    const pl_dim channels = pl_infer_dim(c, 0, last ? rank - 1 : 1);
    if (groups < 1 || (pl_dim_known(channels) && channels.value % groups != 0)) {
        return pl_infer_fail(c, "%lld channels cannot be split into %lld groups",
                             (long long)channels.value, (long long)groups);
    }
    PL_TRY(pl_norm_check_length(c, 1, channels, "gamma"));
    PL_TRY(pl_norm_check_length(c, 2, channels, "beta"));
    if (c->n_in > 4) PL_TRY(pl_norm_check_length(c, 4, channels, "bias"));
    PL_TRY(pl_infer_set_like(c, 1, 0));
    return pl_infer_set_like(c, 0, 0);
}

/* (outer, a, b) to (outer, b, a), elements of `bytes`. */
static void swap_axes(const char *from, char *to, int64_t outer, int64_t a, int64_t b,
                      size_t bytes) {
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < a; i++) {
            for (int64_t k = 0; k < b; k++) {
                memcpy(to + (size_t)((o * b + k) * a + i) * bytes,
                       from + (size_t)((o * a + i) * b + k) * bytes, bytes);
            }
        }
    }
}

/* X + skip + bias for SkipGroupNorm, where the skip may be (N, C) or (N, 1, 1, C). */
static pl_status add_group_skip(pl_eval *c, char *sum, int64_t channels, bool is_f64) {
    const pl_tensor *x = pl_in(c, 0), *skip = pl_in(c, 3), *bias = pl_in(c, 4);
    const int64_t n = x->n_elements, batch = x->dims[0];
    const void *px = pl_in_floats(c, 0, is_f64), *ps = pl_in_floats(c, 3, is_f64);
    const void *pb = bias == NULL ? NULL : pl_in_floats(c, 4, is_f64);
    if (px == NULL || ps == NULL || (bias != NULL && pb == NULL)) return pl_eval_memory(c);
    if (skip->n_elements != n && skip->n_elements != batch * channels) {
        return pl_eval_fail(c, "skip has %lld elements", (long long)skip->n_elements);
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % channels;
        const int64_t s = skip->n_elements == n ? i : i / (n / batch) * channels + k;
        if (is_f64) {
            const double b = pb == NULL ? 0 : ((const pl_f64 *)pb)[k];
            ((pl_f64 *)sum)[i] = ((const pl_f64 *)px)[i] + ((const pl_f64 *)ps)[s] + b;
        } else {
            const float b = pb == NULL ? 0 : ((const pl_f32 *)pb)[k];
            ((pl_f32 *)sum)[i] = ((const pl_f32 *)px)[i] + ((const pl_f32 *)ps)[s] + b;
        }
    }
    return PL_OK;
}

static pl_status run_group_norm(pl_eval *c, const char *x, bool is_f64) {
    const pl_tensor *t = pl_in(c, 0);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    const int64_t groups = pl_attr_int(c->node, "groups"), batch = t->dims[0];
    const int64_t channels = last ? t->dims[t->rank - 1] : t->dims[1];
    const int64_t inner = t->n_elements / batch / channels;
    const size_t n = (size_t)t->n_elements, bytes = is_f64 ? sizeof(double) : sizeof(float);
    char *planes = last ? pl_scratch(c, n, bytes) : NULL;
    char *y = floats_or_scratch(c, 0, t->n_elements, is_f64);
    if ((last && planes == NULL) || y == NULL) return pl_eval_memory(c);
    if (last) swap_axes(x, planes, batch, inner, channels, bytes);
    const pl_norm norm = { .rows = batch * groups,
                           .n = channels / groups * inner,
                           .block = inner,
                           .period = groups,
                           .naive = c->naive && !is_f64,
                           .epsilon = pl_attr_float(c->node, "epsilon"),
                           .x = last ? planes : x,
                           .scale = pl_in_floats(c, 1, is_f64),
                           .bias = pl_in_floats(c, 2, is_f64),
                           .y = last ? planes : y };
    if (norm.scale == NULL || norm.bias == NULL) return pl_eval_memory(c);
    pl_norm_run(c->pool, &norm, is_f64);
    if (last) swap_axes(planes, y, batch, channels, inner, bytes);
    if (pl_attr_int(c->node, "activation") == 1) {
        if (is_f64) {
            pl_vmath_get()->f64.silu((pl_f64 *)y, (pl_f64 *)y, n);
        } else {
            pl_vmath_get()->f32.silu((pl_f32 *)y, (pl_f32 *)y, n);
        }
    }
    pl_out_floats_done(c, 0, y, is_f64);
    return PL_OK;
}

static pl_status group_norm_eval(pl_eval *c) {
    const bool is_f64 = pl_in(c, 0)->dtype == PL_F64;
    if (pl_in(c, 0)->n_elements == 0) return PL_OK;
    const void *x = pl_in_floats(c, 0, is_f64);
    return x == NULL ? pl_eval_memory(c) : run_group_norm(c, x, is_f64);
}

static pl_status skip_group_norm_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    if (x->n_elements == 0) return PL_OK;
    if (pl_attr_int(c->node, "channels_last") == 0) {
        return pl_eval_unsupported(c, "channels_last=0"); /* not supported by ONNX Runtime either */
    }
    char *sum = floats_or_scratch(c, 1, x->n_elements, is_f64);
    if (sum == NULL) return pl_eval_memory(c);
    PL_TRY(add_group_skip(c, sum, x->dims[x->rank - 1], is_f64));
    PL_TRY(run_group_norm(c, sum, is_f64));
    pl_out_floats_done(c, 1, sum, is_f64);
    return PL_OK;
}

/* ---- rows ---- */

#define MS .domain = "com.microsoft", .since = 1
#define F PL_T_FLOAT
#define OPT PL_PORT_OPTIONAL
#define RULES(flags_, infer_fn, eval_fn, rule, amp)                                                \
    .flags = flags_, .infer = infer_fn, .eval = eval_fn, .grad = rule##_grad,                      \
    .bound = rule##_bound, .autocast = amp
#define NORM(infer_fn, eval_fn, rule) RULES(PL_OP_REDUCTION, infer_fn, eval_fn, rule, PL_AMP_FP32)
#define Y .out = PL_PORTS({ "Y", F, 0 })
#define IDS (PL_T_INDEX)
#define SKIP_OUT                                                                                   \
    .out = PL_PORTS({ "output", F, 0 }, { "mean", F, OPT }, { "inv_std_var", F, OPT },             \
                    { "input_skip_bias_sum", F, OPT }),                                            \
    .attrs = PL_ATTRS(PL_A_FLOAT("epsilon", 1e-12))
#define BIAS_DROPOUT_IN                                                                            \
    PL_PORTS({ "data", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME },                             \
             { "residual", F, PL_PORT_SAME | OPT }, { "ratio", F, OPT },                           \
             { "training_mode", PL_T_BOOL, OPT })
#define GROUP_ATTRS                                                                                \
    .attrs = PL_ATTRS(PL_A_REQUIRED("activation", INT), PL_A_INT("channels_last", 1),              \
                      PL_A_FLOAT("epsilon", 1e-5), PL_A_REQUIRED("groups", INT))

/* clang-format off */
const pl_op_def pl_ops_ms_fused[] = {
    { .name = "BiasAdd", MS, .in = PL_PORTS({ "X", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME }, { "skip", F, PL_PORT_SAME }), Y,
      RULES(PL_OP_ELEMENTWISE, bias_add_infer, bias_add_eval, pl_ms_bias_add, PL_AMP_WIDEST), .emit = pl_emit_bias_add,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] b, float[2,3,4] s) => (y) { y = com.microsoft.BiasAdd(x, b, s) }", NULL, 0 }) },
    { .name = "BiasDropout", MS, .in = BIAS_DROPOUT_IN, .out = PL_PORTS({ "output", F, 0 }, { "mask", PL_T_BOOL, OPT }), .attrs = PL_ATTRS(PL_A_INT("seed", 0)),
      RULES(PL_OP_RANDOM, pl_ms_bias_dropout_infer, pl_ms_bias_dropout_eval, pl_ms_bias_dropout, PL_AMP_WIDEST), .emit = pl_emit_bias_dropout,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] b, float[2,3,4] r) => (y, m) { y, m = com.microsoft.BiasDropout(x, b, r) }", NULL, 0 },
                            { "(float[2,3] x, float[2,3] b) => (y) { y = com.microsoft.BiasDropout(x, b) }", NULL, 0 },
                            { "(float16[2,3] x, float16[3] b, float16[2,3] r) => (y) { y = com.microsoft.BiasDropout(x, b, r) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[4,5] x, float[5] b, float[4,5] r) => (y, m) <float ratio = {0.25}, bool training = {1}> "
                              "{ y, m = com.microsoft.BiasDropout<seed=3>(x, b, r, ratio, training) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "BiasGelu", MS, .in = PL_PORTS({ "A", F, PL_PORT_SAME }, { "B", F, PL_PORT_SAME }), .out = PL_PORTS({ "C", F, 0 }),
      RULES(PL_OP_ELEMENTWISE, biased_infer, bias_gelu_eval, pl_ms_gelu, PL_AMP_WIDEST), .emit = pl_emit_bias_gelu,
      .samples = PL_SAMPLES({ "(float[2,3,4] a, float[4] b) => (c) { c = com.microsoft.BiasGelu(a, b) }", NULL, 0 }) },
    { .name = "BiasSoftmax", MS, .in = PL_PORTS({ "data", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME }), .out = PL_PORTS({ "output", F, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("axis", 1), PL_A_REQUIRED("is_inner_broadcast", INT)),
      RULES(PL_OP_REDUCTION, bias_softmax_infer, bias_softmax_eval, pl_ms_bias_softmax, PL_AMP_FP32), .emit = pl_emit_bias_softmax,
      .samples = PL_SAMPLES({ "(float[2,3,4,4] x, float[2,1,1,4] b) => (y) { y = com.microsoft.BiasSoftmax<axis=3, is_inner_broadcast=1>(x, b) }", NULL, 0 }) },
    { .name = "BiasSplitGelu", MS, .in = PL_PORTS({ "X", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME }), Y,
      RULES(0, bias_split_gelu_infer, bias_split_gelu_eval, pl_ms_bias_split_gelu, PL_AMP_WIDEST), .emit = pl_emit_bias_split_gelu,
      .samples = PL_SAMPLES({ "(float[2,3,8] x, float[8] b) => (y) { y = com.microsoft.BiasSplitGelu(x, b) }", NULL, 0 }) },
    { .name = "BitmaskBiasDropout", MS, .in = BIAS_DROPOUT_IN, .out = PL_PORTS({ "output", F, 0 }, { "mask", PL_T(PL_U32), OPT }), .attrs = PL_ATTRS(PL_A_INT("seed", 0)),
      RULES(PL_OP_RANDOM, pl_ms_bitmask_bias_dropout_infer, pl_ms_bias_dropout_eval, pl_ms_bias_dropout, PL_AMP_WIDEST), .emit = pl_emit_bias_dropout,
      .samples = PL_SAMPLES({ "(float[3,4,5] x, float[5] b, float[3,4,5] r) => (y, m) { y, m = com.microsoft.BitmaskBiasDropout(x, b, r) }", NULL, 0 }) },
    { .name = "BitmaskDropout", MS, .in = PL_PORTS({ "data", F, 0 }, { "ratio", F, OPT }, { "training_mode", PL_T_BOOL, OPT }),
      .out = PL_PORTS({ "output", F, 0 }, { "mask", PL_T(PL_U32), OPT }), .attrs = PL_ATTRS(PL_A_INT("seed", 0)),
      RULES(PL_OP_RANDOM, pl_ms_bitmask_dropout_infer, pl_ms_bitmask_dropout_eval, pl_ms_bitmask_dropout, PL_AMP_KEEP), .emit = pl_emit_bitmask_dropout,
      .samples = PL_SAMPLES({ "(float[5,7] x) => (y, m) { y, m = com.microsoft.BitmaskDropout(x) }", NULL, 0 },
                            { "(float[5,7] x) => (y, m) <float ratio = {0.25}, bool training = {1}> "
                              "{ y, m = com.microsoft.BitmaskDropout<seed=3>(x, ratio, training) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "EmbedLayerNormalization", MS,
      .in = PL_PORTS({ "input_ids", IDS, PL_PORT_ROWS_OF(2) }, { "segment_ids", IDS, OPT | PL_PORT_ROWS_OF(4) }, { "word_embedding", F, 0 }, { "position_embedding", F, 0 },
                     { "segment_embedding", F, OPT }, { "gamma", F, 0 }, { "beta", F, 0 }, { "mask", IDS, OPT | PL_PORT_MASK }, { "position_ids", IDS, OPT | PL_PORT_ROWS_OF(3) }),
      .out = PL_PORTS({ "output", F, 0 }, { "mask_index", PL_T(PL_I32), OPT }, { "embedding_sum", F, OPT }),
      .attrs = PL_ATTRS(PL_A_FLOAT("epsilon", 1e-12), PL_A_INT("mask_index_type", 0)), NORM(embed_infer, embed_eval, pl_ms_embed), PL_EMIT_BREAK("looks up three tables and counts a mask: a library routine"),
      .samples = PL_SAMPLES({ "(int32[2,3] ids, int32[2,3] seg, float[10,4] w, float[5,4] p, float[10,4] s, float[4] g, float[4] b, int32[2,3] m) "
                              "=> (y, i, e) { y, i, e = com.microsoft.EmbedLayerNormalization(ids, seg, w, p, s, g, b, m) }", "m=0:1", 0 }) },
    { .name = "FastGelu", MS, .in = PL_PORTS({ "X", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME | OPT }), Y,
      RULES(PL_OP_ELEMENTWISE, biased_infer, fast_gelu_eval, pl_ms_fast_gelu, PL_AMP_WIDEST), .emit = pl_emit_fast_gelu,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4] b) => (y) { y = com.microsoft.FastGelu(x, b) }", NULL, 0 },
                            { "(float[2,3,4] x) => (y) { y = com.microsoft.FastGelu(x) }", NULL, 0 }) },
    { .name = "Gelu", MS, .in = PL_PORTS({ "X", F, 0 }), Y, RULES(PL_OP_ELEMENTWISE, pl_infer_same_as_first, gelu_eval, pl_ms_gelu, PL_AMP_KEEP), .emit = pl_emit_bias_gelu,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = com.microsoft.Gelu(x) }", NULL, 0 }) },
    { .name = "GemmFastGelu", MS, .in = PL_PORTS({ "X", F, PL_PORT_SAME }, { "W", F, PL_PORT_SAME }, { "bias", F, PL_PORT_SAME | OPT }), Y,
      RULES(PL_OP_SUMS, gemm_fast_gelu_infer, gemm_fast_gelu_eval, pl_ms_gemm_fast_gelu, PL_AMP_LOW), .emit = pl_emit_gemm_fast_gelu,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[4,5] w, float[5] b) => (y) { y = com.microsoft.GemmFastGelu(x, w, b) }", NULL, 0 },
                            { "(float16[3,4] x, float16[4,2] w, float16[2] b) => (y) { y = com.microsoft.GemmFastGelu(x, w, b) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[4] x, float[2,4,3] w) => (y) { y = com.microsoft.GemmFastGelu(x, w) }", NULL, 0 }) },
    { .name = "GroupNorm", MS, .in = PL_PORTS({ "X", F, 0 }, { "gamma", F, 0 }, { "beta", F, 0 }), Y, GROUP_ATTRS,
      NORM(group_norm_infer, group_norm_eval, pl_ms_group_norm), .emit = pl_emit_ms_group_norm,
      .samples = PL_SAMPLES({ "(float[2,3,3,4] x, float[4] g, float[4] b) => (y) { y = com.microsoft.GroupNorm<activation=1, groups=2>(x, g, b) }", NULL, 0 },
                            { "(float[2,4,3,3] x, float[4] g, float[4] b) => (y) { y = com.microsoft.GroupNorm<activation=0, groups=2, channels_last=0>(x, g, b) }", NULL, 0 }) },
    { .name = "SkipGroupNorm", MS,
      .in = PL_PORTS({ "X", F, 0 }, { "gamma", F, 0 }, { "beta", F, 0 }, { "skip", F, 0 }, { "bias", F, OPT }),
      .out = PL_PORTS({ "Y", F, 0 }, { "S", F, OPT }), GROUP_ATTRS, NORM(group_norm_infer, skip_group_norm_eval, pl_ms_skip_group_norm), .emit = pl_emit_ms_skip_group_norm,
      .samples = PL_SAMPLES({ "(float[2,3,3,4] x, float[4] g, float[4] b, float[2,4] s, float[4] c) => (y, t) "
                              "{ y, t = com.microsoft.SkipGroupNorm<activation=1, groups=2>(x, g, b, s, c) }", NULL, 0 }) },
    { .name = "SkipLayerNormalization", MS,
      .in = PL_PORTS({ "input", F, PL_PORT_SAME }, { "skip", F, PL_PORT_SAME }, { "gamma", F, PL_PORT_SAME },
                     { "beta", F, PL_PORT_SAME | OPT }, { "bias", F, PL_PORT_SAME | OPT }), SKIP_OUT,
      NORM(skip_norm_infer, skip_layer_norm_eval, pl_ms_skip_layer_norm), .emit = pl_emit_skip_layer_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[2,3,4] s, float[4] g, float[4] b, float[4] c) => (y) "
                              "{ y = com.microsoft.SkipLayerNormalization<epsilon=0.00001>(x, s, g, b, c) }", NULL, 0 },
                            { "(float[2,3,4] x, float[1,3,4] s, float[4] g) => (y, m, i, t) "
                              "{ y, m, i, t = com.microsoft.SkipLayerNormalization(x, s, g) }", NULL, 0 }) },
    { .name = "SkipSimplifiedLayerNormalization", MS,
      .in = PL_PORTS({ "input", F, PL_PORT_SAME }, { "skip", F, PL_PORT_SAME }, { "gamma", F, PL_PORT_SAME },
                     { "bias", F, PL_PORT_SAME | OPT }), SKIP_OUT, NORM(skip_norm_infer, skip_rms_norm_eval, pl_ms_skip_rms_norm), .emit = pl_emit_skip_rms_norm,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[2,3,4] s, float[4] g) => (y, m, i, t) "
                              "{ y, m, i, t = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

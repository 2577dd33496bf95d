/* com.microsoft MatMulNBits: weights of 2, 4 or 8 bits in blocks along K, each with a scale and a
 * zero point. Weights of 4 bits are multiplied as they are stored (kernels/gemm/gemm_stored.h).
 * Others are unpacked: with few rows of A piece by piece, with many all of them for a matrix
 * product.
 *
 * accuracy_level 4 lets a runtime round A to int8. ONNX Runtime does so for weights of 4 and 8
 * bits, block by block with the scale max|a| / 127 (held against 1.27), and so does this kernel:
 * two runs then differ only where a code is at a tie. The other reading (pl_eval.otherwise) leaves
 * A as it is. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/gemm/gemm_stored.h"
#include "kernels/vmath.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/infer.h"
#include "ops/lib/compute.h"
#include "ops/quant/matmul_nbits_rules.h"

extern const pl_op_def pl_ops_matmul_nbits[];

enum { A, B, SCALES, ZEROS, G_IDX, BIAS };
enum { PIECE = 1024, FEW_ROWS = 4, COLUMNS = 1024 };

typedef struct layout {
    int64_t k, n, bits, block, n_blocks, blob; /* blob: bytes of one block */
    int64_t zero_bytes;                        /* of the packed zero points of one column */
} layout;

static pl_status layout_of(const pl_node *node, layout *l, pl_err *err) {
    l->k = pl_attr_int(node, "K");
    l->n = pl_attr_int(node, "N");
    l->bits = pl_attr_int(node, "bits");
    l->block = pl_attr_int(node, "block_size");
    const bool bits = l->bits == 2 || l->bits == 4 || l->bits == 8;
    if (!bits) return pl_node_fail(err, PL_E_UNSUPPORTED, node, "bits is %lld", (long long)l->bits);
    if (l->k < 1 || l->n < 1 || l->k > INT32_MAX || l->n > INT32_MAX || l->block < 16 ||
        l->block > (1 << 20) || (l->block & (l->block - 1)) != 0) {
        return pl_node_fail(err, PL_E_INVALID, node, "K is %lld, N %lld, block_size %lld",
                            (long long)l->k, (long long)l->n, (long long)l->block);
    }
    l->n_blocks = (l->k + l->block - 1) / l->block;
    l->blob = l->block * l->bits / 8;
    l->zero_bytes = (l->n_blocks * l->bits + 7) / 8;
    return PL_OK;
}

/* Input i must have this many elements, in any shape (older models flatten them). */
static pl_status check_count(const pl_infer *c, int i, int64_t expected) {
    const int rank = pl_infer_rank(c, i);
    int64_t n = 1;
    if (rank < 0) return PL_OK;
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = pl_infer_dim(c, i, d);
        if (!pl_dim_known(dim)) return PL_OK;
        if (!pl_i64_mul(n, dim.value, &n)) return pl_infer_fail(c, "input %d is too large", i);
    }
    if (n == expected) return PL_OK;
    return pl_infer_fail(c, "input %d has %lld elements, expected %lld", i, (long long)n,
                         (long long)expected);
}

static pl_status matmul_nbits_infer(pl_infer *c) {
    layout l = { 0 };
    pl_dim out[PL_RANK_MAX];
    const int rank = pl_infer_rank(c, A);
    PL_TRY(layout_of(c->node, &l, c->err));
    PL_TRY(check_count(c, B, l.n * l.n_blocks * l.blob));
    PL_TRY(check_count(c, SCALES, l.n * l.n_blocks));
    const bool packed = pl_infer_dtype_of(c, ZEROS) == PL_U8;
    PL_TRY(check_count(c, ZEROS, l.n * (packed ? l.zero_bytes : l.n_blocks)));
    PL_TRY(check_count(c, BIAS, l.n));
    if (pl_infer_rank(c, G_IDX) >= 0) { /* K, or padded to whole blocks */
        const pl_dim n = pl_infer_dim(c, G_IDX, 0);
        if (pl_infer_rank(c, G_IDX) != 1 || (pl_dim_known(n) && n.value < l.k)) {
            return pl_infer_fail(c, "g_idx does not have one index for each of %lld rows",
                                 (long long)l.k);
        }
    }
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, A));
    if (rank < 1) return pl_infer_fail(c, "input A is a scalar");
    const pl_dim k = pl_infer_dim(c, A, rank - 1);
    if (pl_dim_known(k) && k.value != l.k) {
        return pl_infer_fail(c, "rows of A have %lld elements, K is %lld", (long long)k.value,
                             (long long)l.k);
    }
    for (int d = 0; d < rank; d++)
        out[d] = pl_infer_dim(c, A, d);
    out[rank - 1] = pl_dim_of(l.n);
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, A), rank, out);
}

/* ---- weights ---- */

typedef struct weights {
    layout l;
    const pl_u8 *codes;
    const float *scales; /* in scratch; f64 under gold */
    const double *scales_f64;
    const pl_u8 *packed_zeros; /* or NULL */
    const double *zeros;       /* unpacked floats, or NULL */
    const int64_t *groups;     /* g_idx, or NULL */
} weights;

static int64_t code_at(const weights *w, const pl_u8 *bytes, int64_t i) {
    const int64_t per_byte = 8 / w->l.bits;
    return bytes[i / per_byte] >> (i % per_byte * w->l.bits) & ((1 << w->l.bits) - 1);
}

static double zero_of(const weights *w, int64_t column, int64_t group) {
    if (w->zeros != NULL) return w->zeros[column * w->l.n_blocks + group];
    if (w->packed_zeros == NULL) return (double)(1 << (w->l.bits - 1));
    return (double)code_at(w, w->packed_zeros + column * w->l.zero_bytes, group);
}

/* Elements [from, from + n) of a column, as T. Codes of 4 bits in order are looked up in a table of
 * the values of their block. */
#define UNPACK(name, T, scales_)                                                                   \
    static void name##_run(const pl_u8 *codes, int64_t k, int64_t n, T zero, T scale, T *out) {    \
        T values[16];                                                                              \
        for (int i = 0; i < 16; i++)                                                               \
            values[i] = ((T)i - zero) * scale;                                                     \
        for (int64_t i = 0; i < n; i++, k++)                                                       \
            out[i] = values[codes[k >> 1] >> (k & 1) * 4 & 15];                                    \
    }                                                                                              \
    static void name(const weights *w, int64_t column, int64_t from, int64_t n, T *out) {          \
        const pl_u8 *codes = w->codes + column * w->l.n_blocks * w->l.blob;                        \
        for (int64_t i = 0; i < n;) {                                                              \
            const int64_t k = from + i;                                                            \
            const int64_t group = w->groups != NULL ? w->groups[k] : k / w->l.block;               \
            const T scale = w->scales_[column * w->l.n_blocks + group];                            \
            const T zero = (T)zero_of(w, column, group);                                           \
            const int64_t same =                                                                   \
                w->groups != NULL ? 1 : pl_i64_min(n - i, w->l.block - k % w->l.block);            \
            if (w->l.bits == 4) name##_run(codes, k, same, zero, scale, out + i);                  \
            for (int64_t t = 0; w->l.bits != 4 && t < same; t++)                                   \
                out[i + t] = ((T)code_at(w, codes, k + t) - zero) * scale;                         \
            i += same;                                                                             \
        }                                                                                          \
    }
UNPACK(unpack_f32, float, scales)
UNPACK(unpack_f64, double, scales_f64)

static pl_status weights_of(pl_eval *c, weights *w) {
    const pl_tensor *scales = pl_in(c, SCALES), *zeros = pl_in(c, ZEROS);
    memset(w, 0, sizeof(*w));
    PL_TRY(layout_of(c->node, &w->l, c->err));
    w->codes = pl_in(c, B)->data;
    double *wide = pl_scratch(c, (size_t)scales->n_elements, sizeof(*wide));
    float *narrow = pl_scratch(c, (size_t)scales->n_elements, sizeof(*narrow));
    if (wide == NULL || narrow == NULL) return pl_eval_memory(c);
    pl_load_f64(scales->dtype, scales->data, wide, (size_t)scales->n_elements);
    pl_load_f32(scales->dtype, scales->data, narrow, (size_t)scales->n_elements);
    w->scales = narrow;
    w->scales_f64 = wide;
    if (zeros != NULL && zeros->dtype == PL_U8) w->packed_zeros = zeros->data;
    if (zeros != NULL && zeros->dtype != PL_U8) {
        double *z = pl_scratch(c, (size_t)zeros->n_elements, sizeof(*z));
        if (z == NULL) return pl_eval_memory(c);
        pl_load_f64(zeros->dtype, zeros->data, z, (size_t)zeros->n_elements);
        w->zeros = z;
    }
    if (!pl_has(c, G_IDX)) return PL_OK;
    size_t n = 0;
    w->groups = pl_in_ints(c, G_IDX, &n);
    if (w->groups == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < w->l.k; i++) {
        if (w->groups[i] < 0 || w->groups[i] >= w->l.n_blocks) {
            return pl_eval_fail(c, "g_idx[%lld] is %lld, expected 0 to %lld", (long long)i,
                                (long long)w->groups[i], (long long)w->l.n_blocks - 1);
        }
    }
    return PL_OK;
}

/* ---- A in 8 bits ---- */

static bool is_constant(const pl_value *value) {
    return (value->init != NULL && !value->is_input) ||
           pl_node_has_flag(value->producer, PL_OP_CONSTANT);
}

/* ONNX Runtime packs weights for products of int8 only if they are constant. */
static bool rounds_a(const pl_node *node, const layout *l, bool otherwise) {
    const bool grouped = node->n_in > G_IDX && node->in[G_IDX] != NULL;
    return pl_node_rounds_input(node) && l->bits >= 4 && !grouped && !otherwise &&
           node->in[B] != NULL && is_constant(node->in[B]) && node->in[SCALES] != NULL &&
           is_constant(node->in[SCALES]);
}

/* The rows of A, each block as codes times its scale. A block with NaN or Inf stays. */
#define ROUND_ROWS(name, T, rint_, fabs_)                                                          \
    static void name(const layout *l, int64_t n_rows, const T *a, T *out) {                        \
        for (int64_t at = 0; at < n_rows * l->k;) {                                                \
            const int64_t n = pl_i64_min(l->block, l->k - at % l->k);                              \
            T most = 0;                                                                            \
            for (int64_t i = at; i < at + n; i++)                                                  \
                most = fabs_(a[i]) <= most ? most : fabs_(a[i]);                                   \
            const T inverse = (T)127 / most, scale = most / (T)127;                                \
            const bool rounds = most > 0 && isfinite(most) && isfinite(inverse);                   \
            for (int64_t i = at; i < at + n; i++)                                                  \
                out[i] = rounds ? rint_(a[i] * inverse) * scale : a[i];                            \
            at += n;                                                                               \
        }                                                                                          \
    }
ROUND_ROWS(round_rows_f32, pl_f32, rintf, fabsf)
ROUND_ROWS(round_rows_f64, pl_f64, rint, fabs)

/* ---- products ---- */

typedef struct nbits_job {
    const weights *w;
    int64_t m;
    const pl_f32 *a;
    pl_f32 *y;
    void *all;     /* whole columns, f32 or f64 */
    int64_t first; /* of them (f64) */
} nbits_job;

static void few_rows(void *ctx, int64_t begin, int64_t end) {
    const nbits_job *j = ctx;
    const layout *l = &j->w->l;
    for (int64_t column = begin; column < end; column++) {
        double sums[FEW_ROWS] = { 0 };
        for (int64_t k = 0; k < l->k; k += PIECE) {
            float piece[PIECE];
            const int64_t n = pl_i64_min(PIECE, l->k - k);
            unpack_f32(j->w, column, k, n, piece);
            for (int64_t row = 0; row < j->m; row++)
                sums[row] += pl_vmath_get()->f32.dot(j->a + row * l->k + k, piece, (size_t)n);
        }
        for (int64_t row = 0; row < j->m; row++)
            j->y[row * l->n + column] = (float)sums[row];
    }
}

/* One accumulator in the order of K (pl_eval.naive). */
static void plain_columns(void *ctx, int64_t begin, int64_t end) {
    const nbits_job *j = ctx;
    const layout *l = &j->w->l;
    for (int64_t column = begin; column < end; column++) {
        for (int64_t row = 0; row < j->m; row++) {
            float sum = 0, piece[PIECE];
            for (int64_t k = 0; k < l->k; k += PIECE) {
                const int64_t n = pl_i64_min(PIECE, l->k - k);
                unpack_f32(j->w, column, k, n, piece);
                for (int64_t i = 0; i < n; i++)
                    sum += j->a[row * l->k + k + i] * piece[i];
            }
            j->y[row * l->n + column] = sum;
        }
    }
}

static void unpack_columns_f32(void *ctx, int64_t begin, int64_t end) {
    const nbits_job *j = ctx;
    const int64_t k = j->w->l.k;
    for (int64_t i = begin; i < end; i++)
        unpack_f32(j->w, i, 0, k, (float *)j->all + i * k);
}

static void unpack_columns_f64(void *ctx, int64_t begin, int64_t end) {
    const nbits_job *j = ctx;
    const int64_t k = j->w->l.k;
    for (int64_t i = begin; i < end; i++)
        unpack_f64(j->w, j->first + i, 0, k, (double *)j->all + i * k);
}

static pl_status product_f64(pl_eval *c, nbits_job *j, const pl_gemm_shape *g) {
    pl_tensor *y = pl_out(c, 0);
    pl_f64 *out = y->data;
    const int64_t most = pl_i64_min(g->n, COLUMNS);
    j->all = pl_scratch(c, (size_t)(most * g->k), sizeof(double));
    if (j->all == NULL) return pl_eval_memory(c);
    const pl_f64 *a = pl_in(c, A)->data;
    if (rounds_a(c->node, &j->w->l, c->otherwise)) {
        pl_f64 *rounded = pl_scratch(c, (size_t)(g->m * g->k), sizeof(*rounded));
        if (rounded == NULL) return pl_eval_memory(c);
        round_rows_f64(&j->w->l, g->m, a, rounded);
        a = rounded;
    }
    pl_gemm_shape part = *g; /* some columns at a time: all of them take 16 times the codes */
    part.ldc = g->n;
    for (j->first = 0; j->first < g->n; j->first += COLUMNS) {
        part.n = pl_i64_min(COLUMNS, g->n - j->first);
        pl_pool_for(c->pool, part.n, 4, unpack_columns_f64, j);
        PL_TRY(pl_gemm_f64(c->pool, &part, 1, a, j->all, 0, out + j->first, NULL, c->err));
    }
    if (!pl_has(c, BIAS)) return PL_OK;
    const pl_f64 *bias = pl_in_f64(c, BIAS);
    if (bias == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < y->n_elements; i++)
        out[i] += bias[i % g->n];
    return PL_OK;
}

/* Weights of 4 bits in whole blocks, without reordering: no copy of them is made. */
static bool stays_stored(const layout *l, pl_dtype zeros, bool grouped,
                         const struct pl_provider *by) {
    return !grouped && pl_gemm_is_own(by) && pl_stored_takes(l->bits, l->block, l->k) &&
           (zeros == PL_UNDEFINED || zeros == PL_U8);
}

static pl_stored stored_of(const layout *l, pl_dtype scale_dtype, const void *codes,
                           const void *scales, const void *zeros) {
    return (pl_stored){ .kind = PL_STORED_CODES,
                        .b = codes,
                        .block = l->block,
                        .n_blocks = l->n_blocks,
                        .scales = scales,
                        .scale_dtype = scale_dtype,
                        .zeros = zeros,
                        .zero_bytes = l->zero_bytes };
}

static pl_status stored_product(pl_pool *pool, const layout *l, const pl_stored *s, int64_t m,
                                bool rounds, const pl_f32 *a, pl_f32 *y, pl_err *err) {
    if (!rounds) return pl_gemm_stored_f32(pool, m, l->n, l->k, 1, a, l->k, s, y, err);
    bool done = false;
    PL_TRY(pl_gemm_stored_i8(pool, m, l->n, l->k, a, s, y, &done, err));
    if (done) return PL_OK;
    const size_t n_bytes = (size_t)(m * l->k) * sizeof(pl_f32);
    pl_f32 *rounded = pl_aligned_alloc(64, n_bytes);
    if (rounded == NULL) return pl_fail_memory(err, n_bytes);
    round_rows_f32(l, m, a, rounded);
    const pl_status st = pl_gemm_stored_f32(pool, m, l->n, l->k, 1, rounded, l->k, s, y, err);
    pl_free(rounded);
    return st;
}

static pl_status eval_stored(pl_eval *c, const layout *l, const nbits_job *j) {
    const pl_tensor *scales = pl_in(c, SCALES), *zeros = pl_in(c, ZEROS);
    const pl_stored s = stored_of(l, scales->dtype, pl_in(c, B)->data, scales->data,
                                  zeros == NULL ? NULL : zeros->data);
    return stored_product(c->pool, l, &s, j->m, rounds_a(c->node, l, c->otherwise), j->a, j->y,
                          c->err);
}

static pl_status add_bias(pl_eval *c, pl_f32 *y, int64_t n_elements, int64_t n) {
    if (!pl_has(c, BIAS)) return PL_OK;
    const pl_f32 *bias = pl_in_f32(c, BIAS);
    if (bias == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < n_elements; i++)
        y[i] += bias[i % n];
    return PL_OK;
}

static pl_dtype zeros_dtype(const pl_eval *c) {
    return pl_has(c, ZEROS) ? pl_in(c, ZEROS)->dtype : PL_UNDEFINED;
}

static pl_status matmul_nbits_eval(pl_eval *c) {
    const pl_tensor *a = pl_in(c, A);
    pl_tensor *y = pl_out(c, 0);
    weights w = { 0 };
    PL_TRY(layout_of(c->node, &w.l, c->err));
    const bool as_stored = y->dtype != PL_F64 && !c->naive &&
                           stays_stored(&w.l, zeros_dtype(c), pl_has(c, G_IDX), c->kernels);
    if (!as_stored) PL_TRY(weights_of(c, &w));
    if (y->n_elements == 0) return PL_OK;
    nbits_job job = { .w = &w, .m = a->n_elements / w.l.k };
    const pl_gemm_shape g = {
        .m = job.m, .n = w.l.n, .k = w.l.k, .trans_b = true, .batch = 1, .by = c->kernels
    };
    if (y->dtype == PL_F64) return product_f64(c, &job, &g);
    job.a = pl_compute_in_f32(c, A, NULL);
    job.y = pl_compute_out_f32(c, y);
    if (job.a == NULL || job.y == NULL) return pl_eval_memory(c);
    if (as_stored) {
        PL_TRY(eval_stored(c, &w.l, &job));
        PL_TRY(add_bias(c, job.y, y->n_elements, w.l.n));
        pl_compute_store(c, y, job.y);
        return PL_OK;
    }
    if (rounds_a(c->node, &w.l, c->otherwise)) {
        pl_f32 *rounded = pl_scratch(c, (size_t)(job.m * w.l.k), sizeof(*rounded));
        if (rounded == NULL) return pl_eval_memory(c);
        round_rows_f32(&w.l, job.m, job.a, rounded);
        job.a = rounded;
    }
    if (c->naive) {
        pl_pool_for(c->pool, w.l.n, 4, plain_columns, &job);
    } else if (job.m <= FEW_ROWS) {
        pl_pool_for(c->pool, w.l.n, 16, few_rows, &job);
    } else {
        job.all = pl_scratch(c, (size_t)(w.l.n * w.l.k), sizeof(float));
        if (job.all == NULL) return pl_eval_memory(c);
        pl_pool_for(c->pool, w.l.n, 4, unpack_columns_f32, &job);
        PL_TRY(pl_gemm_f32(c->pool, &g, 1, job.a, job.all, 0, job.y, NULL, c->err));
    }
    PL_TRY(add_bias(c, job.y, y->n_elements, w.l.n));
    pl_compute_store(c, y, job.y);
    return PL_OK;
}

/* ---- emission ---- */

typedef struct emitted {
    layout l;
    int64_t m;
    bool rounds, has_zeros;
    pl_dtype scale_dtype;
} emitted;

static pl_status run_emitted(const pl_emit_args *args, pl_err *err) {
    const emitted *e = args->params;
    const pl_stored s = stored_of(&e->l, e->scale_dtype, args->in[1], args->in[2],
                                  e->has_zeros ? args->in[3] : NULL);
    return stored_product(args->pool, &e->l, &s, e->m, e->rounds, args->in[0], args->out, err);
}

static pl_status emit_matmul_nbits(pl_emit *c) {
    emitted e = { .has_zeros = pl_emit_has(c, ZEROS), .scale_dtype = c->in[SCALES]->dtype };
    int64_t dims[PL_EMIT_RANK_MAX];
    PL_TRY(layout_of(c->node, &e.l, NULL));
    if (c->out[0] == NULL || pl_emit_compute(c->out[0]->dtype) != PL_F32 ||
        !stays_stored(&e.l, e.has_zeros ? c->in[ZEROS]->dtype : PL_UNDEFINED, pl_emit_has(c, G_IDX),
                      c->kernels)) {
        return pl_emit_decline(c, "weights that have to be unpacked");
    }
    e.m = pl_emit_elements(c->in[A]) / e.l.k;
    e.rounds = rounds_a(c->node, &e.l, false);
    pl_emit_out_dims(c, 0, dims);
    const pl_emit_kernel kernel = { .what = "a product with 4-bit weights",
                                    .run = run_emitted,
                                    .params = &e,
                                    .n_params = sizeof(e),
                                    .dtype = PL_F32,
                                    .rank = c->out[0]->rank,
                                    .dims = dims };
    const pl_ref args[4] = { pl_emit_wide(c, A), pl_emit_in(c, B), pl_emit_in(c, SCALES),
                             e.has_zeros ? pl_emit_in(c, ZEROS) : -1 };
    pl_ref y = pl_emit_kernel_call(c, &kernel, e.has_zeros ? 4 : 3, args);
    if (pl_emit_has(c, BIAS)) y = pl_emit_map2(c, PL_F32, "$0 + $1", y, pl_emit_in(c, BIAS));
    return pl_emit_out(c, 0, y);
}

/* ---- error bound ---- */

/* Error of an element that is rounded to a code of a block whose largest element `most` is off by
 * e_most: a whole step if the code is at a tie within the errors. */
static double code_error(double a, double e, double most, double e_most, double u) {
    const double code = fabs(a) * 127 / most, rest = code - floor(code);
    const double slack = e * 127 / most + code * (e_most / most + 4 * u);
    const double own = fabs(a) * (e_most / most + 2 * u);
    return fabs(rest - 0.5) <= slack ? own + most / 127 * (1 + slack) : own;
}

/* Squared error of a row of A. */
static void row_errors(const pl_bound *c, const layout *l, int64_t row, double *out) {
    const double *e = pl_b_e(c, A), *a = pl_b_in(c, A)->data;
    const bool codes = rounds_a(c->node, l, c->otherwise);
    for (int64_t from = row * l->k; from < (row + 1) * l->k; from += l->block) {
        const int64_t to = pl_i64_min(from + l->block, (row + 1) * l->k);
        double most = 0, e_most = 0;
        for (int64_t k = from; codes && k < to; k++) {
            most = fmax(most, fabs(a[k]));
            e_most = fmax(e_most, e == NULL ? 0 : e[k]);
        }
        for (int64_t k = from; k < to; k++) {
            double own = e == NULL ? 0 : e[k];
            if (most > 0 && isfinite(most)) own = code_error(a[k], own, most, e_most, c->u_acc);
            out[k] = own * own;
        }
    }
}

typedef struct nbits_bound { /* products of |a| and of squared errors with the columns */
    const weights *w;
    const double *a_abs, *squares; /* squares: NULL = none */
    int64_t m;
    double u_acc;
    double *out;
} nbits_bound;

static void bound_columns(void *ctx, int64_t begin, int64_t end) {
    const nbits_bound *j = ctx;
    const layout *l = &j->w->l;
    const double chain = pl_b_chain((double)l->k + 1);
    double (*const dot)(const pl_f64 *, const pl_f64 *, size_t) = pl_vmath_get()->f64.dot;
    for (int64_t column = begin; column < end; column++) {
        for (int64_t row = 0; row < j->m; row++)
            j->out[row * l->n + column] = 0;
        double piece[PIECE] = { 0 };
        for (int64_t k = 0; k < l->k; k += PIECE) {
            const int64_t n = pl_i64_min(PIECE, l->k - k);
            unpack_f64(j->w, column, k, n, piece);
            for (int64_t i = 0; i < n; i++)
                piece[i] = fabs(piece[i]);
            for (int64_t row = 0; row < j->m; row++)
                j->out[row * l->n + column] += j->u_acc * chain *
                                               dot((const pl_f64 *)j->a_abs + row * l->k + k,
                                                   (const pl_f64 *)piece, (size_t)n);
            if (j->squares == NULL) continue;
            for (int64_t i = 0; i < n; i++)
                piece[i] *= piece[i];
            for (int64_t row = 0; row < j->m; row++)
                j->out[row * l->n + column] += sqrt(dot((const pl_f64 *)j->squares + row * l->k + k,
                                                        (const pl_f64 *)piece, (size_t)n));
        }
    }
}

/* What the columns are multiplied with. Weights may be unpacked to a type below float. */
static pl_status bound_rows(pl_bound *c, const layout *l, nbits_bound *j) {
    const double *x = pl_b_x(c, A), low = c->u > c->u_acc ? c->u : 0;
    const int64_t n = j->m * l->k;
    double *a_abs = pl_arena_array(c->scratch, (size_t)n, sizeof(double)), *squares = NULL;
    if (x == NULL || a_abs == NULL) return pl_fail_memory(c->err, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        a_abs[i] = fabs(x[i]);
    j->a_abs = a_abs;
    const bool off = pl_b_e(c, A) != NULL || rounds_a(c->node, l, c->otherwise);
    if (!off && low == 0) return PL_OK;
    squares = pl_arena_array(c->scratch, (size_t)n, sizeof(double));
    if (squares == NULL) return pl_fail_memory(c->err, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        squares[i] = 0;
    for (int64_t row = 0; off && row < j->m; row++)
        row_errors(c, l, row, squares);
    for (int64_t i = 0; i < n; i++)
        squares[i] += low * x[i] * low * x[i];
    j->squares = squares;
    return PL_OK;
}

static pl_status matmul_nbits_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0), *a = pl_b_in(c, A), *bias = pl_b_in(c, BIAS);
    const double *v = pl_b_y(c, 0), *b = pl_b_x(c, BIAS), *eb = pl_b_e(c, BIAS);
    pl_eval as_eval = { .node = c->node,
                        .n_in = c->n_in,
                        .in = c->in,
                        .pool = c->pool,
                        .scratch = c->scratch,
                        .fp64 = true,
                        .err = c->err };
    weights w;
    if (y == NULL || y->n_elements == 0) return PL_OK;
    PL_TRY(weights_of(&as_eval, &w));
    nbits_bound j = { .w = &w, .m = a->n_elements / w.l.k, .u_acc = c->u_acc };
    if (v == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(bound_rows(c, &w.l, &j));
    PL_TRY(pl_b_new(c, 0, &j.out));
    pl_pool_for(c->pool, w.l.n, 4, bound_columns, &j);
    for (int64_t i = 0; i < y->n_elements; i++) {
        j.out[i] += c->u * fabs(v[i]);
        if (bias != NULL) j.out[i] += c->u * fabs(b[i % w.l.n]) + (eb ? eb[i % w.l.n] : 0);
    }
    return PL_OK;
}

/* ---- rows ---- */

/* clang-format off */
const pl_op_def pl_ops_matmul_nbits[] = {
    { .name = "MatMulNBits", .domain = "com.microsoft", .since = 1,
      .in = PL_PORTS({ "A", PL_T_FLOAT, 0 }, { "B", PL_T(PL_U8), 0 }, { "scales", PL_T_FLOAT, 0 }, { "zero_points", PL_T(PL_U8) | PL_T_FLOAT, PL_PORT_OPTIONAL },
                     { "g_idx", PL_T(PL_I32), PL_PORT_OPTIONAL }, { "bias", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("K", INT), PL_A_REQUIRED("N", INT), PL_A_INT("bits", 4), PL_A_REQUIRED("block_size", INT), PL_A_INT("accuracy_level", 0)),
      .infer = matmul_nbits_infer, .eval = matmul_nbits_eval, .grad = pl_grad_matmul_nbits, .bound = matmul_nbits_bound, .emit = emit_matmul_nbits, .autocast = PL_AMP_LOW, .flags = PL_OP_OPEN | PL_OP_LEVELS,
      .samples = PL_SAMPLES({ "(float[2,32] a, uint8[3,2,8] b, float[3,2] s) => (y) { y = com.microsoft.MatMulNBits<K=32, N=3, bits=4, block_size=16>(a, b, s) }", NULL, 0 },
                            { "(float[8,20] a, uint8[3,2,16] b, float[6] s, uint8[6] z, float[3] c) => (y) { y = com.microsoft.MatMulNBits<K=20, N=3, bits=8, block_size=16>(a, b, s, z, , c) }", NULL, 0 },
                            { "(float[3,20] a, uint8[3,2,8] b, float[6] s) => (y) { y = com.microsoft.MatMulNBits<K=20, N=3, bits=4, block_size=16, accuracy_level=4>(a, b, s) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

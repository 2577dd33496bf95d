/* com.microsoft GatherBlockQuantized: rows of a table whose codes are scaled in blocks (the
 * embedding of an int4 decoder). y = (code - zero point) * scale for the elements that Gather would
 * take.
 *
 * Codes are uint4 or int4, or uint8 that packs `bits` bits, low bits first, along the last axis:
 * then the output's last dim is 8 / bits times as long, zero points are packed the same way, and
 * default to the middle code (ONNX Runtime, gather_block_quantized.cc). An index out of range is an
 * error here, as for Gather; ONNX Runtime's CPU kernel gives zeros in later versions. */
#include <math.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/infer.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/indices.h"
#include "ops/quant/gather_block_quantized_rules.h"

extern const pl_op_def pl_ops_gather_block_quantized[];

enum { DATA, INDICES, SCALES, ZEROS };
enum { PIECE = 512 };

/* ---- shapes ---- */

static pl_status per_byte_of(pl_infer *c, int64_t *out) {
    const int64_t bits = pl_attr_int(c->node, "bits");
    const bool packed = pl_infer_dtype_of(c, DATA) == PL_U8;
    *out = 1;
    if (packed ? bits != 2 && bits != 4 && bits != 8 : bits != 4)
        return pl_infer_fail(c, "bits is %lld for codes of type %s", (long long)bits,
                             pl_dtype_name(pl_infer_dtype_of(c, DATA)));
    if (packed) *out = 8 / bits;
    return PL_OK;
}

/* Dim d of input i must be n, if both are known. */
static pl_status check_dim(pl_infer *c, int i, int d, pl_dim n, const char *what) {
    if (pl_infer_rank(c, i) < 0) return PL_OK;
    const pl_dim dim = pl_infer_dim(c, i, d);
    if (!pl_dim_known(dim) || !pl_dim_known(n) || dim.value == n.value) return PL_OK;
    return pl_infer_fail(c, "dim %d of the %s is %lld, expected %lld", d, what,
                         (long long)dim.value, (long long)n.value);
}

static pl_dim divided(pl_dim n, int64_t by) {
    return pl_dim_known(n) ? pl_dim_of((n.value + by - 1) / by) : PL_DIM_UNKNOWN;
}

static pl_status check_scales(pl_infer *c, int rank, int q_axis, int64_t per_byte) {
    const int64_t block = pl_attr_int(c->node, "block_size");
    for (int i = SCALES; i <= ZEROS; i++)
        if (pl_infer_rank(c, i) >= 0 && pl_infer_rank(c, i) != rank)
            return pl_infer_fail(c, "input %d has rank %d, the data %d", i, pl_infer_rank(c, i),
                                 rank);
    for (int d = 0; d < rank; d++) {
        pl_dim n = pl_infer_dim(c, DATA, d);
        if (d == q_axis) {
            if (pl_dim_known(n) && !pl_i64_mul(n.value, per_byte, &n.value))
                return pl_infer_fail(c, "the table is too large");
            n = divided(n, block);
        }
        PL_TRY(check_dim(c, SCALES, d, n, "scales"));
        PL_TRY(check_dim(c, ZEROS, d, d == q_axis ? divided(n, per_byte) : n, "zero points"));
    }
    return PL_OK;
}

static pl_status gather_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, DATA), rank_i = pl_infer_rank(c, INDICES);
    const pl_dtype dtype = pl_infer_dtype_of(c, SCALES);
    const int64_t block = pl_attr_int(c->node, "block_size");
    int axis = 0, q_axis = 0, n = 0;
    int64_t per_byte = 1;
    pl_dim dims[2 * PL_RANK_MAX];
    PL_TRY(per_byte_of(c, &per_byte));
    if (block < 16 || block > (1 << 20) || (block & (block - 1)) != 0)
        return pl_infer_fail(c, "block_size is %lld, expected a power of two from 16 on",
                             (long long)block);
    if (rank < 0 || rank_i < 0) return pl_infer_set_unranked(c, 0, dtype);
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "gather_axis"), rank, &axis));
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "quantize_axis"), rank, &q_axis));
    if (pl_infer_dtype_of(c, DATA) == PL_U8 && (axis != 0 || q_axis != rank - 1 || rank < 2))
        return pl_infer_fail(c, "packed codes need gather_axis 0 and the last quantize_axis");
    if (rank + rank_i - 1 > PL_RANK_MAX)
        return pl_infer_fail(c, "the output would have rank %d, the limit is %d", rank + rank_i - 1,
                             PL_RANK_MAX);
    PL_TRY(check_scales(c, rank, q_axis, per_byte));
    for (int d = 0; d < axis; d++)
        dims[n++] = pl_infer_dim(c, DATA, d);
    for (int d = 0; d < rank_i; d++)
        dims[n++] = pl_infer_dim(c, INDICES, d);
    for (int d = axis + 1; d < rank; d++)
        dims[n++] = pl_infer_dim(c, DATA, d);
    if (per_byte > 1 && n > 0 && pl_dim_known(dims[n - 1])) dims[n - 1].value *= per_byte;
    return pl_infer_set(c, 0, dtype, n, dims);
}

/* ---- elements ---- */

typedef struct table {
    const pl_u8 *codes, *zeros; /* zeros: NULL = none given */
    bool is_signed;
    int64_t bits, per_byte, middle; /* middle: the zero point when none is given */
    const double *scales;
    int64_t rows, inner; /* along the gather axis; elements of one row */
    int64_t q_dim, q_inner, blocks, block;
    const int64_t *indices;
    int64_t n_indices;
    pl_tensor *y;
} table;

static int64_t code_at(const table *t, const pl_u8 *codes, int64_t i) {
    if (t->is_signed) return (int8_t)codes[i];
    if (t->per_byte == 1) return codes[i];
    return codes[i / t->per_byte] >> (i % t->per_byte * t->bits) & ((1 << t->bits) - 1);
}

static double element(const table *t, int64_t i) {
    const int64_t outer = i / (t->q_dim * t->q_inner), z = i % t->q_inner;
    const int64_t b = i % (t->q_dim * t->q_inner) / t->q_inner / t->block;
    const int64_t at = (outer * t->blocks + b) * t->q_inner + z;
    int64_t zero = t->middle;
    if (t->zeros != NULL && t->per_byte == 1) {
        zero = code_at(t, t->zeros, at);
    } else if (t->zeros != NULL) { /* packed row by row; q_inner is 1 */
        const int64_t row = (t->blocks + t->per_byte - 1) / t->per_byte;
        zero = code_at(t, t->zeros + outer * row, b);
    }
    return (double)(code_at(t, t->codes, i) - zero) * t->scales[at];
}

/* A code of 8 bits times a scale of at most 24 is exact in double: rounded once. */
static void gather_rows(void *ctx, int64_t begin, int64_t end) {
    const table *t = ctx;
    const size_t size = pl_dtype_bytes(t->y->dtype);
    double piece[PIECE];
    for (int64_t k = begin; k < end; k++) {
        const int64_t from = (k / t->n_indices * t->rows + t->indices[k % t->n_indices]) * t->inner;
        for (int64_t i = 0; i < t->inner; i += PIECE) {
            const int64_t n = pl_i64_min(PIECE, t->inner - i);
            for (int64_t p = 0; p < n; p++)
                piece[p] = element(t, from + i + p);
            char *to = (char *)t->y->data + (size_t)(k * t->inner + i) * size;
            pl_store_f64(t->y->dtype, piece, to, (size_t)n);
        }
    }
}

static pl_status gather_eval(pl_eval *c) {
    const pl_tensor *data = pl_in(c, DATA), *zeros = pl_in(c, ZEROS);
    const int64_t given = pl_attr_int(c->node, "gather_axis");
    const int64_t given_q = pl_attr_int(c->node, "quantize_axis");
    const int axis = (int)(given < 0 ? given + data->rank : given);
    const int q_axis = (int)(given_q < 0 ? given_q + data->rank : given_q);
    int64_t *indices = NULL, outer = 1;
    table t = { .codes = data->data,
                .zeros = zeros == NULL ? NULL : zeros->data,
                .is_signed = data->dtype == PL_I4,
                .bits = pl_attr_int(c->node, "bits"),
                .per_byte = 1,
                .block = pl_attr_int(c->node, "block_size"),
                .rows = data->dims[axis],
                .inner = 1,
                .q_inner = 1,
                .n_indices = pl_in(c, INDICES)->n_elements,
                .y = pl_out(c, 0) };
    PL_TRY(pl_indices_read(c, pl_in(c, INDICES), t.rows, &indices));
    if (t.y->n_elements == 0) return PL_OK;
    if (data->dtype == PL_U8) {
        t.per_byte = 8 / t.bits;
        t.middle = INT64_C(1) << (t.bits - 1);
    }
    for (int d = 0; d < axis; d++)
        outer *= data->dims[d];
    for (int d = axis + 1; d < data->rank; d++)
        t.inner *= data->dims[d];
    for (int d = q_axis + 1; d < data->rank; d++)
        t.q_inner *= data->dims[d];
    t.inner *= t.per_byte;
    t.q_dim = data->dims[q_axis] * t.per_byte;
    t.blocks = (t.q_dim + t.block - 1) / t.block;
    t.scales = pl_in_f64(c, SCALES);
    t.indices = indices;
    if (t.scales == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, outer * t.n_indices, 1 + 4096 / t.inner, gather_rows, &t);
    return PL_OK;
}

/* ---- error bound ---- */

static pl_status gather_bound(pl_bound *c) {
    const double *y = pl_b_y(c, 0);
    const pl_tensor *out = pl_b_out(c, 0);
    pl_tensor *moved = NULL;
    double *e = NULL;
    if (out == NULL || out->n_elements == 0) return PL_OK;
    if (c->e_in[SCALES] != NULL) PL_TRY(pl_b_apply_one(c, SCALES, c->e_in[SCALES], PL_F64, &moved));
    pl_status st = y == NULL ? pl_fail_memory(c->err, 1) : pl_b_new(c, 0, &e);
    for (int64_t i = 0; st == PL_OK && e != NULL && i < out->n_elements; i++)
        e[i] = pl_b_round(c, y[i]) + (moved == NULL ? 0 : fabs(((const double *)moved->data)[i]));
    pl_tensor_unref(moved);
    return st;
}

/* clang-format off */
#define CODES (PL_T(PL_U8) | PL_T(PL_U4) | PL_T(PL_I4))
const pl_op_def pl_ops_gather_block_quantized[] = {
    { .name = "GatherBlockQuantized", .domain = "com.microsoft", .since = 1,
      .in = PL_PORTS({ "data", CODES, PL_PORT_SAME }, { "indices", PL_T_INDEX, PL_PORT_ROWS_OF(0) }, { "scales", PL_T_FLOAT, 0 }, { "zero_points", CODES, PL_PORT_OPTIONAL | PL_PORT_SAME }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("bits", 4), PL_A_INT("block_size", 128), PL_A_INT("gather_axis", 0), PL_A_INT("quantize_axis", 1)),
      .infer = gather_infer, .eval = gather_eval, .grad = pl_grad_gather_block_quantized, .bound = gather_bound, PL_EMIT_BREAK("unpacks codes by index: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(uint8[5,16] d, float[5,2] s) => (y) <int64[2,2] i = {0,4,-1,2}> { y = com.microsoft.GatherBlockQuantized<block_size=16>(d, i, s) }", NULL, 0 },
                            { "(uint8[4,40] d, float[4,3] s, uint8[4,3] z) => (y) <int32[3] i = {3,3,0}> { y = com.microsoft.GatherBlockQuantized<block_size=16, bits=8>(d, i, s, z) }", NULL, 0 },
                            { "(uint4[3,32,2] d, float[3,2,2] s) => (y) <int64[2] i = {1,0}> { y = com.microsoft.GatherBlockQuantized<block_size=16, gather_axis=2, quantize_axis=1>(d, i, s) }", "d=0:15", PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

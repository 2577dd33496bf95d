/* ONNX Runtime's dropouts (domain com.microsoft): Dropout(data + bias, ratio) + residual, and those
 * that pack the mask into bits, 32 to a number, the first one lowest.
 *
 * As in ai.onnx Dropout nothing is dropped unless training_mode asks for it, and the random numbers
 * depend on seed, node and element only. */
#include "base/rng.h"
#include "base/size.h"
#include "ops/lib/norm_rows.h"
#include "ops/microsoft/ms_fused_rules.h"

enum { IN_BIAS = 1, IN_RESIDUAL, IN_RATIO, IN_TRAINING };

/* The bias is a vector along the last dim or has the shape of the data. */
static pl_status bias_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank == 0) return pl_infer_fail(c, "data is a scalar");
    if (pl_infer_rank(c, IN_BIAS) == 1 && rank > 0) {
        PL_TRY(pl_norm_check_length(c, IN_BIAS, pl_infer_dim(c, 0, rank - 1), "bias"));
    }
    PL_TRY(pl_norm_check_onto(c, IN_BIAS, "bias"));
    if (pl_infer_has(c, IN_RESIDUAL)) PL_TRY(pl_norm_check_onto(c, IN_RESIDUAL, "residual"));
    return pl_infer_set_like(c, 0, 0);
}

pl_status pl_ms_bias_dropout_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(bias_infer(c));
    return pl_infer_set(c, 1, PL_BOOL, rank, rank < 0 ? NULL : c->in[0]->dims);
}

enum { BITS = 32 };

static pl_status bits_infer(pl_infer *c) {
    pl_dim words = pl_dim_of(1);
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) words = PL_DIM_UNKNOWN;
    for (int d = 0; d < rank && pl_dim_known(words); d++) {
        const pl_dim dim = pl_infer_dim(c, 0, d);
        int64_t n = 0;
        if (pl_dim_known(dim) && !pl_i64_mul(words.value, dim.value, &n))
            return pl_infer_fail(c, "data has too many elements");
        words = pl_dim_known(dim) ? pl_dim_of(n) : PL_DIM_UNKNOWN;
    }
    if (pl_dim_known(words)) words = pl_dim_of(words.value / BITS + (words.value % BITS != 0));
    return pl_infer_set(c, 1, PL_U32, 1, &words);
}

pl_status pl_ms_bitmask_bias_dropout_infer(pl_infer *c) {
    PL_TRY(bias_infer(c));
    return bits_infer(c);
}

pl_status pl_ms_bitmask_dropout_infer(pl_infer *c) {
    PL_TRY(pl_infer_set_like(c, 0, 0));
    return bits_infer(c);
}

typedef struct dropout_job {
    bool training;
    double ratio, scale;
    uint64_t seed, stream;
    const void *x, *bias, *residual; /* pl_f32 or pl_f64; bias and residual may be NULL */
    void *y;
    char *mask;   /* NULL = not wanted */
    pl_u32 *bits; /* the same, packed */
    int64_t n;
} dropout_job;

static bool keeps(const dropout_job *j, int64_t i) {
    return !j->training || pl_rng_uniform_at(j->seed, j->stream, (uint64_t)i) >= j->ratio;
}

#define DROPOUT(F, T)                                                                              \
    static void dropout_##F(void *ctx, int64_t begin, int64_t end) {                               \
        const dropout_job *j = ctx;                                                                \
        const pl_##F *x = j->x, *bias = j->bias, *residual = j->residual;                          \
        pl_##F *y = j->y;                                                                          \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const bool keep = keeps(j, i);                                                         \
            T v = bias == NULL ? x[i] : x[i] + bias[i];                                            \
            if (j->training) v = keep ? v * (T)j->scale : 0;                                       \
            y[i] = residual == NULL ? v : v + residual[i];                                         \
            if (j->mask != NULL) j->mask[i] = keep;                                                \
        }                                                                                          \
    }
DROPOUT(f32, float)
DROPOUT(f64, double)

/* Outside training every bit is set, those after the last element, too, as ONNX Runtime does. */
static void pack_range(void *ctx, int64_t begin, int64_t end) {
    const dropout_job *j = ctx;
    for (int64_t word = begin; word < end; word++) {
        uint32_t bits = j->training ? 0 : UINT32_MAX;
        for (int64_t i = word * BITS; j->training && i < j->n && i < (word + 1) * BITS; i++)
            bits |= (uint32_t)keeps(j, i) << (i % BITS);
        j->bits[word] = bits;
    }
}

static pl_status setup(const pl_eval *c, int ratio, int training, dropout_job *j) {
    j->ratio = pl_in_float(c, ratio, 0.5);
    j->training = pl_in_int(c, training, 0) != 0;
    if (j->training && !(j->ratio >= 0 && j->ratio < 1)) {
        return pl_eval_fail(c, "ratio is %g, expected 0 to below 1", j->ratio);
    }
    j->scale = j->training ? 1 / (1 - j->ratio) : 1;
    const bool seeded = pl_attr_has(c->node, "seed");
    j->seed = seeded ? (uint64_t)pl_attr_int(c->node, "seed") : c->seed;
    j->stream = seeded ? 0 : (uint64_t)c->node->index + 1;
    return PL_OK;
}

static pl_status dropout(pl_eval *c, dropout_job *j) {
    enum { GRAIN = 4096 };
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *mask = pl_out(c, 1);
    const bool is_f64 = x->dtype == PL_F64;
    j->n = x->n_elements;
    j->x = pl_in_floats(c, 0, is_f64);
    j->y = pl_out(c, 0) != NULL
               ? pl_out_floats(c, 0, is_f64)
               : pl_scratch(c, (size_t)j->n, is_f64 ? sizeof(double) : sizeof(float));
    if (mask != NULL && mask->dtype == PL_BOOL) j->mask = mask->data;
    if (mask != NULL && mask->dtype == PL_U32) j->bits = mask->data;
    if (j->x == NULL || j->y == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, j->n, GRAIN, is_f64 ? dropout_f64 : dropout_f32, j);
    if (mask != NULL && j->bits != NULL)
        pl_pool_for(c->pool, mask->n_elements, GRAIN / BITS, pack_range, j);
    pl_out_floats_done(c, 0, j->y, is_f64);
    return PL_OK;
}

pl_status pl_ms_bias_dropout_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    dropout_job j = { 0 };
    PL_TRY(setup(c, IN_RATIO, IN_TRAINING, &j));
    if (x->n_elements == 0) return PL_OK;
    j.bias = pl_norm_scale(c, IN_BIAS, x, 0, true, is_f64);
    j.residual = pl_norm_scale(c, IN_RESIDUAL, x, 0, true, is_f64);
    if (j.bias == NULL || (pl_has(c, IN_RESIDUAL) && j.residual == NULL)) return pl_eval_memory(c);
    return dropout(c, &j);
}

pl_status pl_ms_bitmask_dropout_eval(pl_eval *c) {
    dropout_job j = { 0 };
    PL_TRY(setup(c, 1, 2, &j));
    return pl_in(c, 0)->n_elements == 0 ? PL_OK : dropout(c, &j);
}

/* ONNX Runtime's fused dropouts (domain com.microsoft): Dropout(data + bias, ratio) + residual.
 *
 * As in ai.onnx Dropout nothing is dropped unless training_mode asks for it, and the random numbers
 * depend on seed, node and element only. */
#include "base/rng.h"
#include "ops/lib/norm_rows.h"
#include "ops/microsoft/ms_fused_rules.h"

enum { IN_BIAS = 1, IN_RESIDUAL, IN_RATIO, IN_TRAINING };

/* The bias is a vector along the last dim or has the shape of the data. */
pl_status pl_ms_bias_dropout_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank == 0) return pl_infer_fail(c, "data is a scalar");
    if (pl_infer_rank(c, IN_BIAS) == 1 && rank > 0) {
        PL_TRY(pl_norm_check_length(c, IN_BIAS, pl_infer_dim(c, 0, rank - 1), "bias"));
    }
    PL_TRY(pl_norm_check_onto(c, IN_BIAS, "bias"));
    if (pl_infer_has(c, IN_RESIDUAL)) PL_TRY(pl_norm_check_onto(c, IN_RESIDUAL, "residual"));
    PL_TRY(pl_infer_set_like(c, 0, 0));
    return pl_infer_set(c, 1, PL_BOOL, rank, rank < 0 ? NULL : c->in[0]->dims);
}

typedef struct dropout_job {
    bool training;
    double ratio, scale;
    uint64_t seed, stream;
    const void *x, *bias, *residual; /* pl_f32 or pl_f64; bias and residual may be NULL */
    void *y;
    char *mask; /* NULL = not wanted */
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

pl_status pl_ms_bias_dropout_eval(pl_eval *c) {
    enum { GRAIN = 4096 };
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    dropout_job j = { 0 };
    PL_TRY(setup(c, IN_RATIO, IN_TRAINING, &j));
    if (x->n_elements == 0) return PL_OK;
    j.x = pl_in_floats(c, 0, is_f64);
    j.bias = pl_norm_scale(c, IN_BIAS, x, 0, true, is_f64);
    j.residual = pl_norm_scale(c, IN_RESIDUAL, x, 0, true, is_f64);
    j.y = pl_out(c, 0) != NULL
              ? pl_out_floats(c, 0, is_f64)
              : pl_scratch(c, (size_t)x->n_elements, is_f64 ? sizeof(double) : sizeof(float));
    j.mask = pl_out(c, 1) != NULL ? pl_out(c, 1)->data : NULL;
    if (j.x == NULL || j.y == NULL || j.bias == NULL ||
        (pl_has(c, IN_RESIDUAL) && j.residual == NULL)) {
        return pl_eval_memory(c);
    }
    pl_pool_for(c->pool, x->n_elements, GRAIN, is_f64 ? dropout_f64 : dropout_f32, &j);
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

/* Conversions around f32 kernels, and state that a node keeps for a constant weight. */
#include "ops/lib/compute.h"

#include "base/alloc.h"

enum { UNIT = 16 * 1024 };                      /* elements of one piece of work */
enum { STAYS_HALF = 1 << 19, LARGE = 1 << 21 }; /* elements of a weight without kept copies */

typedef struct convert_job {
    pl_dtype dtype;
    size_t bytes;
    const char *from;
    char *to;
} convert_job;

static void load_range(void *ctx, int64_t begin, int64_t end) {
    const convert_job *j = ctx;
    pl_load_f32(j->dtype, j->from + (size_t)begin * j->bytes, (float *)(void *)j->to + begin,
                (size_t)(end - begin));
}

static void store_range(void *ctx, int64_t begin, int64_t end) {
    const convert_job *j = ctx;
    pl_store_f32(j->dtype, (const float *)(const void *)j->from + begin,
                 j->to + (size_t)begin * j->bytes, (size_t)(end - begin));
}

void pl_compute_load_f32(pl_pool *pool, pl_dtype dtype, const void *from, float *to, int64_t n) {
    convert_job job = { dtype, pl_dtype_bytes(dtype), from, (char *)to };
    pl_pool_for(pool, n, UNIT, load_range, &job);
}

void pl_compute_store_f32(pl_pool *pool, pl_dtype dtype, const float *from, void *to, int64_t n) {
    convert_job job = { dtype, pl_dtype_bytes(dtype), (const char *)from, to };
    pl_pool_for(pool, n, UNIT, store_range, &job);
}

static void kept_free(void *state) {
    pl_kept *kept = state;
    if (kept == NULL) return;
    pl_gemm_state_free(kept->gemm);
    pl_conv_state_free(kept->conv);
    pl_free(kept->f32);
    pl_free(kept);
}

pl_kept *pl_kept_of(pl_eval *c, int i) {
    if (c->state == NULL || c->state_free == NULL || c->in_constant == NULL || !c->in_constant[i]) {
        return NULL;
    }
    if (*c->state == NULL) {
        *c->state = pl_calloc(1, sizeof(pl_kept));
        if (*c->state == NULL) return NULL; /* kept state is optional */
        *c->state_free = kept_free;
        ((pl_kept *)*c->state)->large = pl_in(c, i) != NULL && pl_in(c, i)->n_elements >= LARGE;
    }
    return *c->state;
}

void pl_kept_forget(pl_kept *kept, const pl_eval *c, int i) {
    if (kept == NULL || kept->forgot || pl_gemm_state_bytes(kept->gemm) == 0) return;
    pl_tensor_forget(pl_in(c, i));
    kept->forgot = true;
}

const pl_f32 *pl_compute_in_f32(pl_eval *c, int i, pl_kept *kept) {
    const pl_tensor *t = pl_in(c, i);
    if (t->dtype == PL_F32) return t->data;
    if (kept != NULL && kept->f32 != NULL && kept->from == t->data) return kept->f32;
    float *copy = NULL;
    if (kept != NULL) {
        pl_free(kept->f32);
        kept->f32 = copy = pl_realloc_array(NULL, (size_t)t->n_elements + 1, sizeof(*copy));
        kept->from = t->data;
    }
    if (copy == NULL) copy = pl_scratch(c, (size_t)t->n_elements, sizeof(*copy));
    if (copy != NULL) pl_compute_load_f32(c->pool, t->dtype, t->data, copy, t->n_elements);
    return copy;
}

bool pl_compute_is_large_half(const pl_tensor *t) {
    return (t->dtype == PL_F16 || t->dtype == PL_BF16) && t->n_elements >= STAYS_HALF;
}

bool pl_compute_stays_half(const pl_eval *c, int i, const pl_gemm_shape *shape, pl_stored *out) {
    const pl_tensor *t = pl_in(c, i);
    if (!pl_compute_is_large_half(t) || c->naive || shape->batch != 1 || shape->trans_a ||
        !pl_gemm_is_own(shape->by)) {
        return false;
    }
    *out = (pl_stored){ .kind = t->dtype == PL_F16 ? PL_STORED_F16 : PL_STORED_BF16,
                        .b = t->data,
                        .trans_b = shape->trans_b,
                        .ldb = shape->ldb };
    if (out->ldb == 0) out->ldb = shape->trans_b ? shape->k : shape->n;
    return true;
}

pl_f32 *pl_compute_out_f32(pl_eval *c, pl_tensor *y) {
    if (y->dtype == PL_F32) return y->data;
    return pl_scratch(c, (size_t)y->n_elements, sizeof(float));
}

void pl_compute_store(pl_eval *c, pl_tensor *y, const pl_f32 *from) {
    if (y->dtype == PL_F32) return;
    pl_compute_store_f32(c->pool, y->dtype, (const float *)(const void *)from, y->data,
                         y->n_elements);
}

/* Shapes of matrix products, their plan for the GEMM kernels, and the products themselves. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/gemm/gemm_narrow.h"
#include "ops/lib/compute.h"
#include "ops/lib/matmul.h"

/* ---- shapes ---- */

/* An operand as a stack of matrices: the role of each axis of the tensor. */
typedef struct roles {
    int n_batch;
    int batch[PL_RANK_MAX]; /* axes, outermost first */
    int row, col;           /* -1: a vector has no such axis (size 1) */
} roles;

static roles roles_of(int rank, bool is_a, bool trans, bool trans_batch) {
    roles r = { 0 };
    if (rank == 1) {
        r.row = is_a ? -1 : 0;
        r.col = is_a ? 0 : -1;
        return r;
    }
    const int row = trans_batch && rank >= 3 ? 0 : rank - 2;
    for (int d = 0; d + 1 < rank; d++) {
        if (d != row) r.batch[r.n_batch++] = d;
    }
    r.row = trans ? rank - 1 : row;
    r.col = trans ? row : rank - 1;
    return r;
}

static pl_dim dim_of(const pl_type *t, int axis) {
    return axis < 0 ? pl_dim_of(1) : t->dims[axis];
}

pl_status pl_matmul_infer(pl_infer *c, int a, int b, pl_matmul_options options, pl_dtype dtype) {
    const pl_matmul_options o = options;
    const int rank_a = pl_infer_rank(c, a), rank_b = pl_infer_rank(c, b);
    if (rank_a == 0 || rank_b == 0) return pl_infer_fail(c, "an operand is a scalar");
    if (rank_a < 0 || rank_b < 0) return pl_infer_set_unranked(c, 0, dtype);
    const roles ra = roles_of(rank_a, true, o.trans_a, o.trans_batch_a);
    const roles rb = roles_of(rank_b, false, o.trans_b, o.trans_batch_b);
    const pl_dim ka = dim_of(c->in[a], ra.col), kb = dim_of(c->in[b], rb.row);
    if (pl_dim_known(ka) && pl_dim_known(kb) && ka.value != kb.value) {
        return pl_infer_fail(c, "the operands are summed over dims of %lld and %lld",
                             (long long)ka.value, (long long)kb.value);
    }
    pl_dim out[PL_RANK_MAX];
    const int n_batch = ra.n_batch > rb.n_batch ? ra.n_batch : rb.n_batch;
    for (int d = 0; d < n_batch; d++) {
        const int da = d - (n_batch - ra.n_batch), db = d - (n_batch - rb.n_batch);
        const pl_dim x = da < 0 ? pl_dim_of(1) : c->in[a]->dims[ra.batch[da]];
        const pl_dim y = db < 0 ? pl_dim_of(1) : c->in[b]->dims[rb.batch[db]];
        PL_TRY(pl_infer_broadcast_dim(c, x, y, &out[d]));
    }
    int rank = n_batch;
    if (rank_a > 1) out[rank++] = dim_of(c->in[a], ra.row);
    if (rank_b > 1) out[rank++] = dim_of(c->in[b], rb.col);
    return pl_infer_set(c, 0, dtype, rank, out);
}

/* ---- plans ---- */

static int64_t size_at(const pl_tensor *t, int axis) {
    return axis < 0 ? 1 : t->dims[axis];
}

/* Offsets of the operand's matrices for every item of the broadcast batch; or, where they are an
 * arithmetic progression, its step. */
static pl_status batch_offsets(pl_eval *c, const pl_matmul *p, const pl_tensor *t, const roles *r,
                               const int64_t **offsets, int64_t *stride) {
    *offsets = NULL;
    *stride = 0;
    if (p->batch <= 1) return PL_OK;
    int64_t *list = pl_scratch(c, (size_t)p->batch, sizeof(*list));
    if (list == NULL) return pl_eval_memory(c);
    int64_t index[PL_RANK_MAX] = { 0 };
    bool even = true;
    for (int64_t i = 0; i < p->batch; i++) {
        int64_t at = 0;
        for (int d = 0; d < r->n_batch; d++) {
            const int axis = r->batch[d], whole = p->n_batch_dims - r->n_batch + d;
            if (t->dims[axis] != 1) at += index[whole] * t->strides[axis];
        }
        list[i] = at;
        if (i > 0 && at != list[1] * i) even = false;
        for (int d = p->n_batch_dims - 1; d >= 0 && ++index[d] == p->batch_dims[d]; d--)
            index[d] = 0;
    }
    if (even) {
        *stride = list[1];
    } else {
        *offsets = list;
    }
    return PL_OK;
}

pl_status pl_matmul_plan(pl_eval *c, const pl_tensor *a, const pl_tensor *b,
                         pl_matmul_options options, pl_matmul *p) {
    const pl_matmul_options o = options;
    const roles ra = roles_of(a->rank, true, o.trans_a, o.trans_batch_a);
    const roles rb = roles_of(b->rank, false, o.trans_b, o.trans_batch_b);
    memset(p, 0, sizeof(*p));
    p->m = size_at(a, ra.row);
    p->k = size_at(a, ra.col);
    p->n = size_at(b, rb.col);
    p->batch = 1;
    p->n_batch_dims = ra.n_batch > rb.n_batch ? ra.n_batch : rb.n_batch;
    for (int d = 0; d < p->n_batch_dims; d++) {
        const int da = d - (p->n_batch_dims - ra.n_batch), db = d - (p->n_batch_dims - rb.n_batch);
        const int64_t x = da < 0 ? 1 : a->dims[ra.batch[da]];
        const int64_t y = db < 0 ? 1 : b->dims[rb.batch[db]];
        p->batch_dims[d] = x == 1 ? y : x;
        /* Overflow is possible only when the output is empty; otherwise it is allocated. */
        if (!pl_i64_mul(p->batch, p->batch_dims[d], &p->batch)) p->batch = 0;
    }
    pl_gemm_shape *g = &p->gemm;
    *g = (pl_gemm_shape){ .m = p->m, .n = p->n, .k = p->k, .batch = p->batch };
    g->by = c->kernels;
    g->trans_a = a->rank > 1 && o.trans_a;
    g->trans_b = b->rank > 1 && o.trans_b;
    if (a->rank > 1) g->lda = a->strides[g->trans_a ? ra.col : ra.row];
    if (b->rank > 1) g->ldb = b->strides[g->trans_b ? rb.col : rb.row];
    g->stride_c = p->m * p->n;
    if (pl_out(c, 0) != NULL && pl_out(c, 0)->n_elements == 0) return PL_OK;
    PL_TRY(batch_offsets(c, p, a, &ra, &g->offsets_a, &g->stride_a));
    PL_TRY(batch_offsets(c, p, b, &rb, &g->offsets_b, &g->stride_b));
    const bool same_b = g->offsets_b == NULL && g->stride_b == 0;
    const bool stacked = g->offsets_a == NULL && !g->trans_a && g->stride_a == p->m * g->lda;
    if (p->batch > 1 && same_b && stacked) { /* one tall product for all batches */
        g->m = p->batch * p->m;
        g->batch = 1;
        g->stride_a = g->stride_c = 0;
    }
    return PL_OK;
}

/* ---- integers ---- */

typedef struct ints_job {
    const pl_matmul *p;
    const uint64_t *a, *b;
    uint64_t *out;
} ints_job;

static void ints_rows(void *ctx, int64_t begin, int64_t end) {
    const ints_job *j = ctx;
    const pl_gemm_shape *g = &j->p->gemm;
    const int64_t a_row = g->trans_a ? 1 : g->lda, a_k = g->trans_a ? g->lda : 1;
    const int64_t b_k = g->trans_b ? 1 : g->ldb, b_col = g->trans_b ? g->ldb : 1;
    for (int64_t r = begin; r < end; r++) {
        const int64_t item = r / g->m, row = r % g->m;
        const uint64_t *a =
            j->a + row * a_row + (g->offsets_a != NULL ? g->offsets_a[item] : item * g->stride_a);
        const uint64_t *b = j->b + (g->offsets_b != NULL ? g->offsets_b[item] : item * g->stride_b);
        uint64_t *out = j->out + r * g->n;
        memset(out, 0, (size_t)g->n * sizeof(*out));
        for (int64_t k = 0; k < g->k; k++) {
            const uint64_t x = a[k * a_k];
            for (int64_t n = 0; n < g->n; n++)
                out[n] += x * b[k * b_k + n * b_col];
        }
    }
}

static uint64_t *as_u64(pl_eval *c, const pl_tensor *t) {
    int64_t *copy = pl_scratch(c, (size_t)t->n_elements, sizeof(*copy));
    if (copy != NULL) pl_load_i64(t->dtype, t->data, copy, (size_t)t->n_elements);
    return (uint64_t *)copy;
}

pl_status pl_matmul_ints(pl_eval *c, const pl_matmul *p, const pl_tensor *a, const pl_tensor *b,
                         uint64_t *out) {
    pl_matmul plan = *p;
    /* The plan leaves leading dims of vectors at 0: use contiguous ones. */
    if (plan.gemm.lda == 0) plan.gemm.lda = plan.gemm.trans_a ? p->m : p->k;
    if (plan.gemm.ldb == 0) plan.gemm.ldb = plan.gemm.trans_b ? p->k : p->n;
    ints_job job = { &plan, as_u64(c, a), as_u64(c, b), out };
    if (job.a == NULL || job.b == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, plan.gemm.batch * plan.gemm.m, 8, ints_rows, &job);
    return PL_OK;
}

/* ---- the product ---- */

static pl_status eval_ints(pl_eval *c, const pl_matmul *p, const pl_tensor *a, const pl_tensor *b,
                           double alpha) {
    pl_tensor *y = pl_out(c, 0);
    uint64_t *out = pl_scratch(c, (size_t)y->n_elements, sizeof(*out));
    if (out == NULL) return pl_eval_memory(c);
    PL_TRY(pl_matmul_ints(c, p, a, b, out));
    if (alpha != 1)
        return pl_eval_unsupported(c, "alpha is %g, which integers do not support", alpha);
    pl_store_i64(y->dtype, (const int64_t *)out, y->data, (size_t)y->n_elements);
    return PL_OK;
}

typedef struct magnitudes_job {
    const pl_f32 *x;
    pl_f32 *y;
} magnitudes_job;

static void magnitudes_range(void *ctx, int64_t begin, int64_t end) {
    const magnitudes_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        j->y[i] = fabsf(j->x[i]);
}

static const pl_f32 *magnitudes(pl_eval *c, const pl_f32 *x, int64_t n) {
    magnitudes_job job = { x, pl_scratch(c, (size_t)n, sizeof(pl_f32)) };
    if (job.y != NULL) pl_pool_for(c->pool, n, 1 << 14, magnitudes_range, &job);
    return job.y;
}

static pl_status eval_f64(pl_eval *c, const pl_matmul *p, int i_a, int i_b, double alpha) {
    const pl_tensor *a = pl_in(c, i_a), *b = pl_in(c, i_b);
    const pl_f64 *wide = b->data;
    pl_tensor *y = pl_out(c, 0);
    if (pl_gemm_narrow_takes(&p->gemm, b->dtype))
        return pl_gemm_narrow_f64(c->pool, &p->gemm, alpha, a->data, b->dtype, b->data, y->data,
                                  c->err);
    if (b->dtype != PL_F64) {
        double *copy = pl_scratch(c, (size_t)b->n_elements, sizeof(*copy));
        if (copy == NULL) return pl_eval_memory(c);
        pl_load_f64(b->dtype, b->data, copy, (size_t)b->n_elements);
        wide = copy;
    }
    return pl_gemm_f64(c->pool, &p->gemm, alpha, a->data, wide, 0, y->data,
                       pl_kept_gemm(pl_kept_of(c, i_b)), c->err);
}

pl_status pl_matmul_eval(pl_eval *c, int i_a, int i_b, pl_matmul_options options, double alpha) {
    const pl_tensor *a = pl_in(c, i_a), *b = pl_in(c, i_b);
    pl_tensor *y = pl_out(c, 0);
    pl_matmul p;
    PL_TRY(pl_matmul_plan(c, a, b, options, &p));
    if (y->n_elements == 0) return PL_OK;
    if (p.k == 0) {
        memset(y->data, 0, pl_tensor_bytes(y));
        return PL_OK;
    }
    if (!pl_dtype_is_float(y->dtype)) return eval_ints(c, &p, a, b, alpha);
    if (y->dtype == PL_F64) return eval_f64(c, &p, i_a, i_b, alpha);
    pl_kept *kept = pl_kept_of(c, i_b);
    pl_stored half = { 0 };
    const bool stays = pl_compute_stays_half(c, i_b, &p.gemm, &half);
    half.magnitudes = stays && c->magnitudes_b;
    const pl_f32 *fa = pl_compute_in_f32(c, i_a, NULL);
    const pl_f32 *fb = stays ? NULL : pl_compute_in_f32(c, i_b, kept);
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fb != NULL && c->magnitudes_b) fb = magnitudes(c, fb, b->n_elements);
    if (fa == NULL || (fb == NULL && !stays) || fy == NULL) return pl_eval_memory(c);
    if (stays) {
        const pl_gemm_shape *g = &p.gemm;
        PL_TRY(pl_gemm_stored_f32(c->pool, g->m, g->n, g->k, (float)alpha, fa,
                                  g->lda != 0 ? g->lda : g->k, &half, fy, c->err));
        pl_compute_store(c, y, fy);
        return PL_OK;
    }
    if (c->naive) {
        PL_TRY(pl_gemm_long_f32(c->pool, &p.gemm, (float)alpha, fa, fb, 0, fy, c->err));
        pl_compute_store(c, y, fy);
        return PL_OK;
    }
    PL_TRY(pl_gemm_f32(c->pool, &p.gemm, (float)alpha, fa, fb, 0, fy, pl_kept_gemm(kept), c->err));
    pl_kept_forget(kept, c, i_b);
    pl_compute_store(c, y, fy);
    return PL_OK;
}

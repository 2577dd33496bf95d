/* Products in double with a matrix B of a narrower float type, widened panel by panel in the cache:
 * a widened copy of B would be written and read again for each product. */
#include "kernels/gemm/gemm_narrow.h"

#include "base/size.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_int.h"
#include "kernels/provider.h"
#include "kernels/simd/stored_table.h"
#include "kernels/vmath.h"

typedef struct narrow {
    pl_dtype dtype;
    size_t n_bytes; /* of an element */
    const char *b;
    int64_t ldb;
    bool trans_b;
} narrow;

enum { ROW = 64, PIECE = 64 };

/* A full panel. */
static void pack(const narrow *s, int64_t k0, int64_t len, int64_t at, pl_f64 *to) {
    const pl_stored_table *t = PL_TABLE_OF(pl_cpu_isa(), pl_stored_table);
    const void *b = s->b + (size_t)(k0 * s->ldb + at) * s->n_bytes;
    if (s->dtype == PL_F32)
        t->pack_f32_f64(b, s->ldb, len, to);
    else
        (s->dtype == PL_F16 ? t->pack_f16_f64 : t->pack_bf16_f64)(b, s->ldb, len, to);
}

/* At most ROW elements. */
static void widen(const narrow *s, int64_t at, int64_t n, double *to) {
    const char *from = s->b + (size_t)at * s->n_bytes;
    pl_f32 half[ROW];
    const pl_f32 *wide = half;
    if (s->dtype == PL_F16) {
        pl_vmath_get()->f16_to_f32((const pl_u16 *)(const void *)from, half, (size_t)n);
    } else if (s->dtype == PL_BF16) {
        pl_vmath_get()->bf16_to_f32((const pl_u16 *)(const void *)from, half, (size_t)n);
    } else {
        wide = (const pl_f32 *)(const void *)from;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)wide[i];
}

/* pl_gemm_fill_f64 */
static void fill(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n, int64_t stride,
                 pl_f64 *to, const pl_f64 **base, const int64_t **taps) {
    const narrow *s = ctx;
    double row[ROW];
    (void)base;
    (void)taps;
    if (!s->trans_b && n == stride) {
        pack(s, k0, len, at, to);
        return;
    }
    for (int64_t k = 0; k < len && !s->trans_b; k++) {
        widen(s, (k0 + k) * s->ldb + at, n, row);
        for (int64_t j = 0; j < stride; j++)
            to[k * stride + j] = j < n ? row[j] : 0;
    }
    if (!s->trans_b) return;
    pl_f64 columns[PL_GEMM_NR_MAX * PIECE]; /* rows of B in memory, turned by pack_b */
    for (int64_t k = 0; k < len; k += PIECE) {
        const int64_t piece = pl_i64_min(PIECE, len - k);
        for (int64_t j = 0; j < n; j++) {
            widen(s, (at + j) * s->ldb + k0 + k, piece, row);
            for (int64_t i = 0; i < piece; i++)
                columns[j * PIECE + i] = row[i];
        }
        pl_gemm_table_get()->pack_b_f64(columns, 1, PIECE, piece, n, NULL, to + k * stride);
    }
}

static void fetch(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n) {
    const narrow *s = ctx;
    for (int64_t k = 0; k < len; k++) {
        const char *row = s->b + (size_t)((k0 + k) * s->ldb + at) * s->n_bytes;
        for (int64_t i = 0; i < n * (int64_t)s->n_bytes; i += 64)
            __builtin_prefetch(row + i, 0, 3);
    }
}

bool pl_gemm_narrow_takes(const pl_gemm_shape *shape, pl_dtype dtype) {
    const pl_provider *by = NULL;
    return (dtype == PL_F16 || dtype == PL_BF16 || dtype == PL_F32) && shape->batch == 1 &&
           pl_provider_of(shape->by, &by, NULL) == PL_OK && by->gemm_f64 == NULL;
}

pl_status pl_gemm_narrow_f64(pl_pool *pool, const pl_gemm_shape *shape, double alpha,
                             const pl_f64 *a, pl_dtype dtype, const void *b, pl_f64 *c,
                             pl_err *err) {
    pl_gemm_shape s;
    const size_t n_bytes = pl_dtype_bytes(dtype);
    PL_TRY(pl_gemm_check(shape, sizeof(double), n_bytes, sizeof(double), &s, err));
    const narrow from = {
        .dtype = dtype, .n_bytes = n_bytes, .b = b, .ldb = s.ldb, .trans_b = s.trans_b
    };
    const pl_gemm_job_f64 job = { .m = s.m,
                                  .n = s.n,
                                  .k = s.k,
                                  .a = a,
                                  .a_rs = s.trans_a ? 1 : s.lda,
                                  .a_cs = s.trans_a ? s.lda : 1,
                                  .b_fill = fill,
                                  .b_fetch = s.trans_b ? NULL : fetch,
                                  .fill_ctx = &from,
                                  .c = c,
                                  .ldc = s.ldc,
                                  .alpha = alpha };
    return pl_gemm_run_f64(pool, &job, err);
}

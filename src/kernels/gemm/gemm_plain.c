/* Plain products: the reference for tests of the fast ones. */
#include "base/size.h"
#include "kernels/gemm/gemm_int.h"

static const char *byte_of(const void *base, size_t bytes, int64_t offset) {
    return (const char *)base + offset * (int64_t)bytes;
}
static int64_t offset_of(const int64_t *table, int64_t stride, int64_t i) {
    return table != NULL ? table[i] : i * stride;
}
static int64_t at(bool trans, int64_t ld, int64_t row, int64_t col) {
    return trans ? col * ld + row : row * ld + col;
}

#define PLAIN(suffix, T, E)                                                                        \
    pl_status pl_gemm_plain_##suffix(const pl_gemm_shape *shape, T alpha, const E *a, const E *b,  \
                                     T beta, E *c, pl_err *err) {                                  \
        pl_gemm_shape s;                                                                           \
        PL_TRY(pl_gemm_check(shape, sizeof(T), sizeof(T), sizeof(T), &s, err));                    \
        for (int64_t q = 0; q < s.batch; q++) {                                                    \
            const E *pa = a + offset_of(s.offsets_a, s.stride_a, q);                               \
            const E *pb = b + offset_of(s.offsets_b, s.stride_b, q);                               \
            E *pc = c + q * s.stride_c;                                                            \
            for (int64_t i = 0; i < s.m; i++)                                                      \
                for (int64_t j = 0; j < s.n; j++) {                                                \
                    T sum = 0;                                                                     \
                    for (int64_t k = 0; k < s.k; k++)                                              \
                        sum += pa[at(s.trans_a, s.lda, i, k)] * pb[at(s.trans_b, s.ldb, k, j)];    \
                    E *y = pc + i * s.ldc + j;                                                     \
                    *y = beta == 0 ? alpha * sum : alpha * sum + beta * *y;                        \
                }                                                                                  \
        }                                                                                          \
        return PL_OK;                                                                              \
    }
PLAIN(f32, float, pl_f32)
PLAIN(f64, double, pl_f64)
#undef PLAIN

static int32_t value_i8(const void *p, bool is_signed) {
    return is_signed ? *(const int8_t *)p : *(const uint8_t *)p;
}
static int32_t zero_at(const pl_gemm_i8_zero *z, int64_t batch, int64_t i) {
    return z->value == NULL ? 0 : z->value[batch * z->stride + i * z->step];
}

pl_status pl_gemm_plain_i8(const pl_gemm_shape *shape, const void *a, bool a_signed,
                           pl_gemm_i8_zero a_zero, const void *b, bool b_signed,
                           pl_gemm_i8_zero b_zero, pl_i32 *c, pl_err *err) {
    pl_gemm_shape s;
    PL_TRY(pl_gemm_check(shape, 1, 1, 4, &s, err));
    for (int64_t q = 0; q < s.batch; q++) {
        const char *pa = byte_of(a, 1, offset_of(s.offsets_a, s.stride_a, q));
        const char *pb = byte_of(b, 1, offset_of(s.offsets_b, s.stride_b, q));
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++) {
                const int32_t za = zero_at(&a_zero, q, i), zb = zero_at(&b_zero, q, j);
                uint32_t sum = 0;
                for (int64_t k = 0; k < s.k; k++) {
                    const int32_t x = value_i8(pa + at(s.trans_a, s.lda, i, k), a_signed) - za;
                    const int32_t y = value_i8(pb + at(s.trans_b, s.ldb, k, j), b_signed) - zb;
                    sum += (uint32_t)(x * y);
                }
                c[q * s.stride_c + i * s.ldc + j] = (int32_t)sum;
            }
    }
    return PL_OK;
}

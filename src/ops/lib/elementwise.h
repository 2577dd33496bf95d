/* Loops for element-wise operators: broadcasting, types, threads — so that a row holds a formula.
 *
 * Arithmetic types: F64 computes in double; F32 in float; F16, BF16 and the float8 kinds compute in
 * float and are rounded once at the end, as hardware does; integers compute in int64 and wrap; U64
 * computes in uint64; bool in uint8. Work is done in blocks, so that loops vectorise. */
#ifndef PL_ELEMENTWISE_H
#define PL_ELEMENTWISE_H

#include "kernels/vmath.h"
#include "ops/eval.h"

/* Each formula works on a block of n contiguous elements. A member is NULL if the operator does not
 * support the type; using it is PL_E_UNSUPPORTED and names op and type. `p` is the operator's own
 * parameters (attributes read once). x and y may be the same block. */
typedef struct pl_unary_ops {
    void (*f32)(const void *p, const pl_f32 *x, pl_f32 *y, size_t n);
    void (*f64)(const void *p, const pl_f64 *x, pl_f64 *y, size_t n);
    void (*i64)(const void *p, const pl_i64 *x, pl_i64 *y, size_t n);
    void (*u64)(const void *p, const pl_u64 *x, pl_u64 *y, size_t n); /* NULL: use i64 */
    void (*b)(const void *p, const pl_u8 *x, pl_u8 *y, size_t n);     /* bool to bool */
    /* numeric to bool (IsNaN, IsInf): when set, output 0 is bool */
    void (*f64_b)(const void *p, const pl_f64 *x, pl_u8 *y, size_t n);
} pl_unary_ops;

pl_status pl_eval_unary(pl_eval *c, const pl_unary_ops *ops, const void *p);

typedef struct pl_binary_ops {
    /* Strides 0 or 1: sx == 0 means x[0] for the whole block. */
    void (*f32)(const void *p, const pl_f32 *x, size_t sx, const pl_f32 *y, size_t sy, pl_f32 *z,
                size_t n);
    void (*f64)(const void *p, const pl_f64 *x, size_t sx, const pl_f64 *y, size_t sy, pl_f64 *z,
                size_t n);
    void (*i64)(const void *p, const pl_i64 *x, size_t sx, const pl_i64 *y, size_t sy, pl_i64 *z,
                size_t n);
    void (*u64)(const void *p, const pl_u64 *x, size_t sx, const pl_u64 *y, size_t sy, pl_u64 *z,
                size_t n); /* NULL: use i64 */
    void (*b)(const void *p, const pl_u8 *x, size_t sx, const pl_u8 *y, size_t sy, pl_u8 *z,
              size_t n); /* bool, bool to bool */
    /* comparisons: result bool */
    void (*f64_b)(const void *p, const pl_f64 *x, size_t sx, const pl_f64 *y, size_t sy, pl_u8 *z,
                  size_t n);
    void (*f32_b)(const void *p, const pl_f32 *x, size_t sx, const pl_f32 *y, size_t sy, pl_u8 *z,
                  size_t n); /* NULL: use f64_b */
    void (*i64_b)(const void *p, const pl_i64 *x, size_t sx, const pl_i64 *y, size_t sy, pl_u8 *z,
                  size_t n);
    void (*u64_b)(const void *p, const pl_u64 *x, size_t sx, const pl_u64 *y, size_t sy, pl_u8 *z,
                  size_t n); /* NULL: use i64_b */
} pl_binary_ops;

/* out[o] = op(in[a], in[b]) with numpy broadcasting into the shape of output o. */
pl_status pl_eval_binary(pl_eval *c, const pl_binary_ops *ops, const void *p);
pl_status pl_eval_binary_on(pl_eval *c, const pl_binary_ops *ops, const void *p, const pl_tensor *x,
                            const pl_tensor *y, pl_tensor *z);

/* One formula for float and double: `x` is the element. Defines NAME_f32 and NAME_f64. */
#define PL_UNARY_PLAIN(name, EXPR_F32, EXPR_F64)                                                   \
    static void name##_f32(const void *p_, const pl_f32 *x_, pl_f32 *y_, size_t n_) {              \
        (void)p_;                                                                                  \
        for (size_t i_ = 0; i_ < n_; i_++) {                                                       \
            const float x = x_[i_];                                                                \
            y_[i_] = (EXPR_F32);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_f64(const void *p_, const pl_f64 *x_, pl_f64 *y_, size_t n_) {              \
        (void)p_;                                                                                  \
        for (size_t i_ = 0; i_ < n_; i_++) {                                                       \
            const double x = x_[i_];                                                               \
            y_[i_] = (EXPR_F64);                                                                   \
        }                                                                                          \
    }

/* A function of the vector maths, by its name in the table. Defines NAME_f32 and NAME_f64. */
#define PL_UNARY_VMATH(name, fn)                                                                   \
    static void name##_f32(const void *p, const pl_f32 *x, pl_f32 *y, size_t n) {                  \
        (void)p;                                                                                   \
        pl_vmath_get()->f32.fn(x, y, n);                                                           \
    }                                                                                              \
    static void name##_f64(const void *p, const pl_f64 *x, pl_f64 *y, size_t n) {                  \
        (void)p;                                                                                   \
        pl_vmath_get()->f64.fn(x, y, n);                                                           \
    }

/* Binary loops in the four stride patterns that occur, so that each vectorises. */
#define PL_BINARY_LOOP(fn, T, R, EXPR)                                                             \
    static void fn(const void *p_, const T *x_, size_t sx_, const T *y_, size_t sy_, R *z_,        \
                   size_t n_) {                                                                    \
        (void)p_;                                                                                  \
        if (sx_ == 1 && sy_ == 1) {                                                                \
            for (size_t i_ = 0; i_ < n_; i_++) {                                                   \
                const T x = x_[i_], y = y_[i_];                                                    \
                z_[i_] = (R)(EXPR);                                                                \
            }                                                                                      \
        } else if (sx_ == 1) {                                                                     \
            const T y = y_[0];                                                                     \
            for (size_t i_ = 0; i_ < n_; i_++) {                                                   \
                const T x = x_[i_];                                                                \
                z_[i_] = (R)(EXPR);                                                                \
            }                                                                                      \
        } else if (sy_ == 1) {                                                                     \
            const T x = x_[0];                                                                     \
            for (size_t i_ = 0; i_ < n_; i_++) {                                                   \
                const T y = y_[i_];                                                                \
                z_[i_] = (R)(EXPR);                                                                \
            }                                                                                      \
        } else {                                                                                   \
            const T x = x_[0], y = y_[0];                                                          \
            for (size_t i_ = 0; i_ < n_; i_++)                                                     \
                z_[i_] = (R)(EXPR);                                                                \
        }                                                                                          \
    }

/* ---- iteration over several tensors broadcast to one shape, for operators with their own loops
 * ---- */
enum { PL_BROADCAST_MAX = 8 };
typedef struct pl_broadcast {
    int n_tensors, rank;
    int64_t dims[PL_RANK_MAX];                      /* of the result, adjacent dims merged */
    int64_t strides[PL_BROADCAST_MAX][PL_RANK_MAX]; /* in elements, 0 where broadcast */
    int64_t n_outer;                                /* rows: product of all dims but the last */
    int64_t n_inner;                                /* length of a row */
} pl_broadcast;
/* Shapes must be compatible with dims (checked by the shape rule). */
void pl_broadcast_init(pl_broadcast *b, int rank, const int64_t *dims, int n_tensors,
                       const pl_tensor *const *tensors);
/* Element offset of row `outer` in tensor k; within the row the step is pl_broadcast_step. */
int64_t pl_broadcast_row(const pl_broadcast *b, int k, int64_t outer);
static inline int64_t pl_broadcast_step(const pl_broadcast *b, int k) {
    return b->rank == 0 ? 0 : b->strides[k][b->rank - 1];
}

#endif

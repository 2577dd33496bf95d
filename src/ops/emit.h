/* Emission: how an operator is described to the compiler (backends/jit).
 *
 * A rule builds its outputs from its inputs with references. A reference is a tensor-valued
 * expression: an input, a map of others by one C expression, a reduction, a view, the result of a
 * kernel. Types and shapes are all known (one plan is made for one set of shapes); the compiler
 * decides what is fused, what is stored in memory, and how the loops look.
 *
 * A rule that does not support a type or an attribute returns pl_emit_decline with the reason. The
 * node is then a graph break and runs on eager's kernel. Failures inside are sticky: a negative
 * reference passes through, and pl_emit_out reports it.
 *
 * Expressions. $0 … $7 are the arguments as C variables, $T is the C type of the result (float for
 * float16 and bfloat16, too), $S its suffix (f32, f64, i8 … u64, b); $F notes a failure. Constants
 * are written by pl_emit_number. A float16 or bfloat16 result is rounded where the map says that
 * type. */
#ifndef PL_EMIT_H
#define PL_EMIT_H

#include "kernels/conv/conv.h"
#include "ops/op.h"

typedef int pl_ref;
enum { PL_EMIT_RANK_MAX = 8, PL_EMIT_ARGS_MAX = 8 };

typedef enum pl_fold {
    PL_FOLD_SUM,
    PL_FOLD_PROD,
    PL_FOLD_MAX, /* NaN wins */
    PL_FOLD_MIN,
    PL_FOLD_PEAK /* maximum that may drop NaN; use it where NaN spreads otherwise */
} pl_fold;

/* A view: for each dim of the base its index as a sum over the indices of the view, plus a
 * constant. */
typedef struct pl_emit_index {
    int rows, cols;
    int64_t c[PL_EMIT_RANK_MAX][PL_EMIT_RANK_MAX];
    int64_t k[PL_EMIT_RANK_MAX];
} pl_emit_index;

typedef struct pl_emit_gemm { /* alpha * A * B, batched by broadcasting of the leading dims */
    pl_ref a, b;              /* (…, m, k) and (…, k, n), views allowed */
    double alpha;
} pl_emit_gemm;

typedef struct pl_emit_conv {
    pl_ref x, w, bias; /* bias may be -1 */
    pl_conv_shape shape;
} pl_emit_conv;

/* A kernel on whole tensors in memory: calls a function of src/kernels. */
typedef struct pl_emit_args {
    pl_pool *pool;
    const void *const *in;
    void *out;
    const void *params;
    const struct pl_provider *kernels; /* library that computes products */
} pl_emit_args;
typedef struct pl_emit_kernel {
    const char *what; /* description in a few words */
    pl_status (*run)(const pl_emit_args *args, pl_err *err);
    const void *params; /* copied */
    size_t n_params;
    pl_dtype dtype; /* of the result */
    int rank;
    const int64_t *dims;
} pl_emit_kernel;

/* Functions that the compiler provides. */
typedef struct pl_emit_builder {
    pl_ref (*in)(pl_emit *c, int i);
    pl_ref (*iota)(pl_emit *c, int rank, int axis, int64_t n);
    pl_ref (*load)(pl_emit *c, pl_ref x, pl_ref at);
    pl_ref (*tensor)(pl_emit *c, pl_tensor *take);
    pl_ref (*convert)(pl_emit *c, pl_ref x, pl_dtype dtype);
    pl_ref (*kernel)(pl_emit *c, const pl_emit_kernel *kernel, int n, const pl_ref *args);
    pl_ref (*map)(pl_emit *c, pl_dtype dtype, const char *expr, int n, const pl_ref *args);
    pl_ref (*reduce)(pl_emit *c, pl_fold fold, pl_dtype in, pl_ref x, unsigned axes);
    pl_ref (*view)(pl_emit *c, pl_ref x, int rank, const int64_t *dims, const pl_emit_index *at);
    pl_ref (*reshape)(pl_emit *c, pl_ref x, int rank, const int64_t *dims);
    pl_ref (*concat)(pl_emit *c, int axis, int n, const pl_ref *args);
    pl_ref (*gemm)(pl_emit *c, const pl_emit_gemm *gemm);
    pl_ref (*conv)(pl_emit *c, const pl_emit_conv *conv);
    void (*out)(pl_emit *c, int i, pl_ref x);
    /* Shape of a reference. */
    int (*dims)(pl_emit *c, pl_ref x, int64_t *dims, pl_dtype *dtype);
} pl_emit_builder;

struct pl_emit {
    const pl_node *node;
    int n_in, n_out;
    const pl_type *const *in;          /* concrete; NULL = left out */
    const pl_type *const *out;         /* concrete; NULL = not wanted */
    const pl_tensor *const *in_tensor; /* of constants, else NULL */
    const pl_emit_builder *builder;
    void *ctx;
    const struct pl_provider *kernels; /* library that computes products; NULL = the default */
    const char *reason;                /* set by pl_emit_decline */
    bool types_only;                   /* set by pl_emit_types_only */
};

/* ---- asking ---- */
static inline bool pl_emit_has(const pl_emit *c, int i) {
    return i < c->n_in && c->in[i] != NULL;
}
static inline bool pl_emit_wants(const pl_emit *c, int i) {
    return i < c->n_out && c->out[i] != NULL;
}
/* float16 and bfloat16 compute in float. */
pl_dtype pl_emit_compute(pl_dtype dtype);
bool pl_emit_is_float(pl_dtype dtype); /* F16, BF16, F32, F64 */
void pl_emit_in_dims(const pl_emit *c, int i, int64_t *dims);
void pl_emit_out_dims(const pl_emit *c, int i, int64_t *dims);
/* A bit for each axis from `first` on. */
unsigned pl_emit_axes_from(int first, int rank);
int pl_emit_rank(const pl_emit *c, int i);
int64_t pl_emit_dim(const pl_emit *c, int i, int axis);
int64_t pl_emit_elements(const pl_type *type);
/* Makes an axis that counts from the end non-negative. */
int pl_emit_axis(int64_t axis, int rank);
/* Integers of a constant input; false when it is not constant. At most PL_EMIT_RANK_MAX. */
bool pl_emit_ints(const pl_emit *c, int i, int64_t *out, size_t *n);

/* ---- building ---- */
pl_ref pl_emit_in(pl_emit *c, int i);
/* Arguments broadcast as in NumPy. */
pl_ref pl_emit_map(pl_emit *c, pl_dtype dtype, const char *expr, int n, const pl_ref *args);
pl_ref pl_emit_map1(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a);
pl_ref pl_emit_map2(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a, pl_ref b);
pl_ref pl_emit_map3(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a, pl_ref b, pl_ref d);
/* A constant of the rule's own: n numbers as a vector. */
pl_ref pl_emit_numbers(pl_emit *c, pl_dtype dtype, const double *values, int64_t n);
/* A number as a scalar. */
pl_ref pl_emit_constant(pl_emit *c, pl_dtype dtype, double value);
/* int64: 0, 1 … n - 1 along one axis of a tensor whose other dims are 1. */
pl_ref pl_emit_iota(pl_emit *c, int rank, int axis, int64_t n);
/* Elements of x at flat positions (int64); x is stored in memory for this. Positions must be in
 * range: computed from iota, or passed through pl_emit_checked. */
pl_ref pl_emit_load(pl_emit *c, pl_ref x, pl_ref at);
/* Indices (run-time data) into n elements; negative ones count from the end. An index out of range
 * fails the run with an error that names the node. */
pl_ref pl_emit_checked(pl_emit *c, pl_ref indices, int64_t n);
/* Converts elements to another type. Constants are converted at compile time. */
pl_ref pl_emit_convert(pl_emit *c, pl_ref x, pl_dtype dtype);
pl_ref pl_emit_kernel_call(pl_emit *c, const pl_emit_kernel *kernel, int n, const pl_ref *args);
/* Over the axes whose bits are set; they stay with size 1. `in` is the type of the accumulator and
 * of the result. */
pl_ref pl_emit_reduce(pl_emit *c, pl_fold fold, pl_dtype in, pl_ref x, unsigned axes);
/* A tensor of one element as a scalar. */
pl_ref pl_emit_scalar(pl_emit *c, pl_ref x);
/* A vector laid along dim `axis` of a tensor of `rank` dims; all other dims are 1. */
pl_ref pl_emit_along(pl_emit *c, pl_ref x, int rank, int axis);
pl_ref pl_emit_transpose(pl_emit *c, pl_ref x, const int *perm);
/* Fails unless the number of elements stays the same. */
pl_ref pl_emit_reshape(pl_emit *c, pl_ref x, int rank, const int64_t *dims);
pl_ref pl_emit_slice(pl_emit *c, pl_ref x, const int64_t *starts, const int64_t *steps,
                     const int64_t *dims);
pl_ref pl_emit_expand(pl_emit *c, pl_ref x, int rank, const int64_t *dims);
pl_status pl_emit_out(pl_emit *c, int i, pl_ref x);
pl_status pl_emit_decline(pl_emit *c, const char *reason); /* a static text */

/* A constant of type $T: exact, also when it is not finite. `out` has room for 64. */
const char *pl_emit_number(double value, char *out);

/* ---- along axes ---- */
/* Input i in the type that products are computed in; constants are converted at compile time. -1
 * when it is left out. */
pl_ref pl_emit_wide(pl_emit *c, int i);
/* Elements of input 0 along the axes whose bits are set. */
int64_t pl_emit_count(const pl_emit *c, unsigned axes);
/* int64: flat index of each element of input 0 within the axes whose bits are set. */
pl_ref pl_emit_position(pl_emit *c, unsigned axes);
/* First or last position of the largest or smallest element of input 0 along the axes. A NaN counts
 * as both. */
pl_ref pl_emit_extreme_at(pl_emit *c, unsigned axes, bool smallest, bool last);

/* ---- places: flat positions for pl_emit_load ---- */
/* sum + part * stride; a sum < 0 starts a new one. */
pl_ref pl_emit_add_part(pl_emit *c, pl_ref sum, pl_ref part, int64_t stride);
/* Strides of input i, contiguous. */
void pl_emit_strides(const pl_emit *c, int i, int64_t *strides);
/* Position in input 0 of the element whose index along each dim is at[d]. */
pl_ref pl_emit_place(pl_emit *c, const pl_ref *at);

/* ---- element-wise ---- */
/* Output 0 = `floats` or `integers` applied to input 0, by its type. NULL declines integers. */
pl_status pl_emit_unary(pl_emit *c, const char *floats, const char *integers);
/* The same for two inputs. */
pl_status pl_emit_binary(pl_emit *c, const char *floats, const char *integers);
/* Input 1, aligned for broadcasting. Before opset 7 the attribute axis says at which dim of input 0
 * it starts. */
pl_ref pl_emit_second(pl_emit *c);

/* ---- rules that rows of several families name ---- */
pl_status pl_emit_types_only(pl_emit *c); /* the outputs depend on types and shapes alone */
pl_status pl_emit_identity(pl_emit *c);
/* Declines: constant inputs are folded before emission, others leave the shape unknown. */
pl_status pl_emit_folds(pl_emit *c);

#endif

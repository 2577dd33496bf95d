/* Broadcasting, types, blocks and threads of element-wise operators. */
#include "ops/lib/elementwise.h"

#include <string.h>

enum {
    BLOCK = 1024,        /* elements converted at a time: three buffers stay in L1 */
    CHUNK = 8192,        /* elements of a row that one unit of work takes */
    SHORT_ROW = 64,      /* below this, operands are laid out in blocks first */
    UNIT_MIN = 16 * 1024 /* elements below which threads do not pay */
};

/* ---- unary ---- */

typedef struct unary_job {
    const pl_unary_ops *ops;
    const void *p;
    pl_dtype from, to;
    const char *x;
    char *y;
    size_t x_bytes, y_bytes;
} unary_job;

static void unary_float_block(const unary_job *j, const char *x, char *y, size_t n) {
    if (j->ops->f32 != NULL && j->from != PL_F64) {
        float buffer[BLOCK];
        pl_load_f32(j->from, x, buffer, n);
        j->ops->f32(j->p, buffer, buffer, n);
        pl_store_f32(j->to, buffer, y, n);
    } else {
        double buffer[BLOCK];
        pl_load_f64(j->from, x, buffer, n);
        j->ops->f64(j->p, buffer, buffer, n);
        pl_store_f64(j->to, buffer, y, n);
    }
}

static void unary_int_block(const unary_job *j, const char *x, char *y, size_t n) {
    int64_t buffer[BLOCK];
    pl_load_i64(j->from, x, buffer, n);
    if (j->from == PL_U64 && j->ops->u64 != NULL) {
        j->ops->u64(j->p, (const pl_u64 *)buffer, (pl_u64 *)buffer, n);
    } else {
        j->ops->i64(j->p, (const pl_i64 *)buffer, (pl_i64 *)buffer, n);
    }
    pl_store_i64(j->to, buffer, y, n);
}

static void unary_to_bool_block(const unary_job *j, const char *x, char *y, size_t n) {
    double buffer[BLOCK];
    pl_load_f64(j->from, x, buffer, n);
    j->ops->f64_b(j->p, buffer, (pl_u8 *)y, n);
}

static void unary_range(void *ctx, int64_t begin, int64_t end) {
    const unary_job *j = ctx;
    for (int64_t at = begin; at < end;) {
        const size_t n = (size_t)(end - at < BLOCK ? end - at : BLOCK);
        const char *x = j->x + (size_t)at * j->x_bytes;
        char *y = j->y + (size_t)at * j->y_bytes;
        if (j->ops->f64_b != NULL) {
            unary_to_bool_block(j, x, y, n);
        } else if (j->from == PL_BOOL) {
            j->ops->b(j->p, (const pl_u8 *)x, (pl_u8 *)y, n);
        } else if (pl_dtype_is_float(j->from)) {
            unary_float_block(j, x, y, n);
        } else {
            unary_int_block(j, x, y, n);
        }
        at += (int64_t)n;
    }
}

static void unary_range_f32(void *ctx, int64_t begin, int64_t end) {
    const unary_job *j = ctx;
    j->ops->f32(j->p, (const pl_f32 *)j->x + begin, (pl_f32 *)j->y + begin, (size_t)(end - begin));
}

static void unary_range_f64(void *ctx, int64_t begin, int64_t end) {
    const unary_job *j = ctx;
    j->ops->f64(j->p, (const pl_f64 *)j->x + begin, (pl_f64 *)j->y + begin, (size_t)(end - begin));
}

static bool unary_serves(const pl_unary_ops *ops, pl_dtype dtype) {
    if (ops->f64_b != NULL)
        return dtype != PL_STRING && pl_dtype_class_of(dtype) != PL_CLASS_COMPLEX;
    switch (pl_dtype_class_of(dtype)) {
    case PL_CLASS_FLOAT: return ops->f64 != NULL || (ops->f32 != NULL && dtype != PL_F64);
    case PL_CLASS_INT:
    case PL_CLASS_UINT: return ops->i64 != NULL;
    case PL_CLASS_BOOL: return ops->b != NULL;
    case PL_CLASS_NONE:
    case PL_CLASS_STRING:
    case PL_CLASS_COMPLEX: break;
    }
    return false;
}

pl_status pl_eval_unary(pl_eval *c, const pl_unary_ops *ops, const void *p) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (!unary_serves(ops, x->dtype)) return pl_eval_no_type(c, x->dtype);
    unary_job job = { .ops = ops,
                      .p = p,
                      .from = x->dtype,
                      .to = y->dtype,
                      .x = x->data,
                      .y = y->data,
                      .x_bytes = pl_dtype_bytes(x->dtype),
                      .y_bytes = pl_dtype_bytes(y->dtype) };
    pl_pool_fn fn = unary_range;
    if (ops->f64_b == NULL && x->dtype == PL_F32 && ops->f32 != NULL) fn = unary_range_f32;
    if (ops->f64_b == NULL && x->dtype == PL_F64 && ops->f64 != NULL) fn = unary_range_f64;
    pl_pool_for(c->pool, x->n_elements, UNIT_MIN, fn, &job);
    return PL_OK;
}

/* ---- broadcasting ---- */

static int64_t aligned_stride(const pl_tensor *t, int rank, int d) {
    const int own = d - (rank - t->rank);
    if (own < 0 || t->dims[own] == 1) return 0;
    return t->strides[own];
}

/* Dim d continues dim d-1 when every tensor steps through both as through one. */
static bool can_merge(const pl_broadcast *b, int d, int64_t inner) {
    for (int k = 0; k < b->n_tensors; k++) {
        if (b->strides[k][d - 1] != b->strides[k][d] * inner) return false;
    }
    return true;
}

void pl_broadcast_init(pl_broadcast *b, int rank, const int64_t *dims, int n_tensors,
                       const pl_tensor *const *tensors) {
    memset(b, 0, sizeof(*b));
    b->n_tensors = n_tensors;
    for (int d = 0; d < rank; d++) {
        if (dims[d] == 1) continue;
        const int at = b->rank;
        b->dims[at] = dims[d];
        for (int k = 0; k < n_tensors; k++)
            b->strides[k][at] = aligned_stride(tensors[k], rank, d);
        if (at > 0 && can_merge(b, at, dims[d])) {
            b->dims[at - 1] *= dims[d];
            for (int k = 0; k < n_tensors; k++)
                b->strides[k][at - 1] = b->strides[k][at];
        } else {
            b->rank++;
        }
    }
    b->n_inner = b->rank == 0 ? 1 : b->dims[b->rank - 1];
    b->n_outer = 1;
    for (int d = 0; d + 1 < b->rank; d++)
        b->n_outer *= b->dims[d];
}

int64_t pl_broadcast_row(const pl_broadcast *b, int k, int64_t outer) {
    int64_t offset = 0;
    for (int d = b->rank - 2; d >= 0; d--) {
        const int64_t at = outer % b->dims[d];
        outer /= b->dims[d];
        offset += at * b->strides[k][d];
    }
    return offset;
}

/* ---- binary ---- */

typedef struct binary_job {
    const pl_binary_ops *ops;
    const void *p;
    pl_dtype from, to;
    size_t from_bytes, to_bytes;
    const char *x, *y;
    char *z;
    pl_broadcast b;
    int64_t n_chunks; /* per row */
} binary_job;

static void binary_float_block(const binary_job *j, const char *x, size_t sx, const char *y,
                               size_t sy, char *z, size_t n) {
    const size_t nx = sx == 0 ? 1 : n, ny = sy == 0 ? 1 : n;
    if (j->ops->f32 != NULL && j->from != PL_F64) {
        float a[BLOCK], b[BLOCK], r[BLOCK];
        pl_load_f32(j->from, x, a, nx);
        pl_load_f32(j->from, y, b, ny);
        j->ops->f32(j->p, a, sx, b, sy, r, n);
        pl_store_f32(j->to, r, z, n);
    } else if (j->ops->f64 != NULL) {
        double a[BLOCK], b[BLOCK], r[BLOCK];
        pl_load_f64(j->from, x, a, nx);
        pl_load_f64(j->from, y, b, ny);
        j->ops->f64(j->p, a, sx, b, sy, r, n);
        pl_store_f64(j->to, r, z, n);
    }
}

static void binary_compare_block(const binary_job *j, const char *x, size_t sx, const char *y,
                                 size_t sy, char *z, size_t n) {
    const size_t nx = sx == 0 ? 1 : n, ny = sy == 0 ? 1 : n;
    if (pl_dtype_is_float(j->from)) {
        double a[BLOCK], b[BLOCK];
        pl_load_f64(j->from, x, a, nx);
        pl_load_f64(j->from, y, b, ny);
        j->ops->f64_b(j->p, a, sx, b, sy, (pl_u8 *)z, n);
        return;
    }
    int64_t a[BLOCK], b[BLOCK];
    pl_load_i64(j->from, x, a, nx);
    pl_load_i64(j->from, y, b, ny);
    if (j->from == PL_U64 && j->ops->u64_b != NULL) {
        j->ops->u64_b(j->p, (const pl_u64 *)a, sx, (const pl_u64 *)b, sy, (pl_u8 *)z, n);
    } else {
        j->ops->i64_b(j->p, (const pl_i64 *)a, sx, (const pl_i64 *)b, sy, (pl_u8 *)z, n);
    }
}

static void binary_int_block(const binary_job *j, const char *x, size_t sx, const char *y,
                             size_t sy, char *z, size_t n) {
    const size_t nx = sx == 0 ? 1 : n, ny = sy == 0 ? 1 : n;
    int64_t a[BLOCK], b[BLOCK], r[BLOCK];
    pl_load_i64(j->from, x, a, nx);
    pl_load_i64(j->from, y, b, ny);
    if (j->from == PL_U64 && j->ops->u64 != NULL) {
        j->ops->u64(j->p, (const pl_u64 *)a, sx, (const pl_u64 *)b, sy, (pl_u64 *)r, n);
    } else {
        j->ops->i64(j->p, (const pl_i64 *)a, sx, (const pl_i64 *)b, sy, (pl_i64 *)r, n);
    }
    pl_store_i64(j->to, r, z, n);
}

static bool is_comparison(const pl_binary_ops *ops) {
    return ops->f64_b != NULL || ops->i64_b != NULL;
}

static void binary_block(const binary_job *j, const char *x, size_t sx, const char *y, size_t sy,
                         char *z, size_t n) {
    const pl_binary_ops *ops = j->ops;
    if (j->from == PL_BOOL && ops->b != NULL) {
        ops->b(j->p, (const pl_u8 *)x, sx, (const pl_u8 *)y, sy, (pl_u8 *)z, n);
    } else if (is_comparison(ops)) {
        binary_compare_block(j, x, sx, y, sy, z, n);
    } else if (pl_dtype_is_float(j->from)) {
        binary_float_block(j, x, sx, y, sy, z, n);
    } else {
        binary_int_block(j, x, sx, y, sy, z, n);
    }
}

/* One stretch of a row, without conversion where the type computes in itself. */
static void binary_stretch(const binary_job *j, const char *x, size_t sx, const char *y, size_t sy,
                           char *z, size_t n) {
    const pl_binary_ops *ops = j->ops;
    if (j->from == PL_F32 && ops->f32 != NULL && j->to == PL_F32) {
        ops->f32(j->p, (const pl_f32 *)x, sx, (const pl_f32 *)y, sy, (pl_f32 *)z, n);
        return;
    }
    if (j->from == PL_F32 && ops->f32_b != NULL) {
        ops->f32_b(j->p, (const pl_f32 *)x, sx, (const pl_f32 *)y, sy, (pl_u8 *)z, n);
        return;
    }
    if (j->from == PL_F64 && ops->f64 != NULL && j->to == PL_F64) {
        ops->f64(j->p, (const pl_f64 *)x, sx, (const pl_f64 *)y, sy, (pl_f64 *)z, n);
        return;
    }
    for (size_t at = 0; at < n;) {
        const size_t m = n - at < BLOCK ? n - at : BLOCK;
        binary_block(j, x + at * sx * j->from_bytes, sx, y + at * sy * j->from_bytes, sy,
                     z + at * j->to_bytes, m);
        at += m;
    }
}

static void binary_units(void *ctx, int64_t begin, int64_t end) {
    const binary_job *j = ctx;
    const size_t sx = (size_t)pl_broadcast_step(&j->b, 0), sy = (size_t)pl_broadcast_step(&j->b, 1);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / j->n_chunks;
        const int64_t from = unit % j->n_chunks * CHUNK;
        const int64_t n = j->b.n_inner - from < CHUNK ? j->b.n_inner - from : CHUNK;
        const size_t ox = (size_t)(pl_broadcast_row(&j->b, 0, row)) + (size_t)from * sx;
        const size_t oy = (size_t)(pl_broadcast_row(&j->b, 1, row)) + (size_t)from * sy;
        const size_t oz = (size_t)(row * j->b.n_inner + from);
        binary_stretch(j, j->x + ox * j->from_bytes, sx, j->y + oy * j->from_bytes, sy,
                       j->z + oz * j->to_bytes, (size_t)n);
    }
}

/* ---- short rows: a call for each would cost more than its elements ---- */

typedef struct row_walk { /* offset of one operand, row after row */
    const pl_broadcast *b;
    int k;
    int64_t index[PL_RANK_MAX];
    int64_t offset;
} row_walk;

static void row_walk_start(row_walk *w, const pl_broadcast *b, int k, int64_t outer) {
    w->b = b;
    w->k = k;
    w->offset = pl_broadcast_row(b, k, outer);
    for (int d = b->rank - 2; d >= 0; d--) {
        w->index[d] = outer % b->dims[d];
        outer /= b->dims[d];
    }
}

static void row_walk_next(row_walk *w) {
    for (int d = w->b->rank - 2; d >= 0; d--) {
        const int64_t stride = w->b->strides[w->k][d];
        w->offset += stride;
        if (++w->index[d] < w->b->dims[d]) return;
        w->offset -= stride * w->b->dims[d];
        w->index[d] = 0;
    }
}

#define COPY_ROW(T)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
        ((T *)to)[i] = ((const T *)from)[i * step];                                                \
    }

static void copy_row(const char *from, int64_t step, char *to, int64_t n, size_t size) {
    switch (size) {
    case 1: COPY_ROW(pl_u8) return;
    case 2: COPY_ROW(pl_u16) return;
    case 4: COPY_ROW(pl_u32) return;
    default: COPY_ROW(pl_u64) return;
    }
}

/* Copies elements at..at+n of operand k, in the order of the result, to a contiguous block. */
static void lay_out(const binary_job *j, int k, int64_t at, int64_t n, char *to) {
    const char *from = k == 0 ? j->x : j->y;
    const int64_t step = pl_broadcast_step(&j->b, k), row = j->b.n_inner;
    const size_t size = j->from_bytes;
    row_walk walk;
    row_walk_start(&walk, &j->b, k, at / row);
    for (int64_t inner = at % row; n > 0; inner = 0) {
        const int64_t m = row - inner < n ? row - inner : n;
        copy_row(from + (size_t)(walk.offset + inner * step) * size, step, to, m, size);
        to += (size_t)m * size;
        n -= m;
        row_walk_next(&walk);
    }
}

static void binary_short_rows(void *ctx, int64_t begin, int64_t end) {
    const binary_job *j = ctx;
    char x[BLOCK * 8], y[BLOCK * 8];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = end - at < BLOCK ? end - at : BLOCK;
        lay_out(j, 0, at, n, x);
        lay_out(j, 1, at, n, y);
        binary_stretch(j, x, 1, y, 1, j->z + (size_t)at * j->to_bytes, (size_t)n);
    }
}

static bool binary_serves(const pl_binary_ops *ops, pl_dtype dtype) {
    switch (pl_dtype_class_of(dtype)) {
    case PL_CLASS_FLOAT:
        return ops->f64 != NULL || ops->f64_b != NULL || (ops->f32 != NULL && dtype != PL_F64);
    case PL_CLASS_INT:
    case PL_CLASS_UINT: return ops->i64 != NULL || ops->i64_b != NULL;
    case PL_CLASS_BOOL: return ops->b != NULL || ops->i64_b != NULL;
    case PL_CLASS_NONE:
    case PL_CLASS_STRING:
    case PL_CLASS_COMPLEX: break;
    }
    return false;
}

pl_status pl_eval_binary_on(pl_eval *c, const pl_binary_ops *ops, const void *p, const pl_tensor *x,
                            const pl_tensor *y, pl_tensor *z) {
    if (!binary_serves(ops, x->dtype)) return pl_eval_no_type(c, x->dtype);
    if (z->n_elements == 0) return PL_OK;
    binary_job job = { .ops = ops,
                       .p = p,
                       .from = x->dtype,
                       .to = z->dtype,
                       .from_bytes = pl_dtype_bytes(x->dtype),
                       .to_bytes = pl_dtype_bytes(z->dtype),
                       .x = x->data,
                       .y = y->data,
                       .z = z->data };
    pl_broadcast_init(&job.b, z->rank, z->dims, 2, (const pl_tensor *const[]){ x, y });
    if (job.b.n_inner < SHORT_ROW && job.b.n_outer > 1) {
        pl_pool_for(c->pool, z->n_elements, UNIT_MIN, binary_short_rows, &job);
        return PL_OK;
    }
    job.n_chunks = (job.b.n_inner + CHUNK - 1) / CHUNK;
    const int64_t per_unit = job.b.n_inner < CHUNK ? job.b.n_inner : CHUNK;
    const int64_t grain = UNIT_MIN / per_unit > 1 ? UNIT_MIN / per_unit : 1;
    pl_pool_for(c->pool, job.b.n_outer * job.n_chunks, grain, binary_units, &job);
    return PL_OK;
}

pl_status pl_eval_binary(pl_eval *c, const pl_binary_ops *ops, const void *p) {
    return pl_eval_binary_on(c, ops, p, pl_in(c, 0), pl_in(c, 1), pl_out(c, 0));
}

/* Operators that select elements by index or by condition. Only the element size matters. */
#include <math.h>
#include <string.h>

#include "base/repeat.h"
#include "base/size.h"
#include "ops/bound.h"
#include "ops/lib/content.h"
#include "ops/lib/indices.h"
#include "ops/lib/move.h"
#include "ops/tensor/index_rules.h"

extern const pl_op_def pl_ops_index[];

enum { GRAIN_BYTES = 64 * 1024 };

/* ---- copying blocks: Gather, GatherND, Compress ---- */

/* Block i of the target is block offsets[i % n] of slab i / n of the source; sizes in bytes. */
typedef struct block_job {
    const char *x;
    char *y;
    const int64_t *offsets; /* in elements */
    int64_t n, slab;        /* blocks in a slab; elements from slab to slab */
    int64_t size, bytes;    /* of an element, of a block */
} block_job;

static void blocks_range(void *ctx, int64_t begin, int64_t end) {
    const block_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t from = (i / j->n * j->slab + j->offsets[i % j->n]) * j->size;
        char *to = j->y + i * j->bytes;
        switch (j->bytes) {
        case 4: memcpy(to, j->x + from, 4); break;
        case 8: memcpy(to, j->x + from, 8); break;
        default: memcpy(to, j->x + from, (size_t)j->bytes); break;
        }
    }
}

static pl_status copy_blocks(pl_eval *c, const pl_tensor *x, pl_tensor *y, int64_t n_slabs,
                             int64_t slab, const int64_t *offsets, int64_t n) {
    if (y->n_elements == 0 || n == 0) return PL_OK;
    const int64_t size = (int64_t)pl_dtype_bytes(x->dtype);
    block_job j = { .x = x->data,
                    .y = y->data,
                    .offsets = offsets,
                    .n = n,
                    .slab = slab,
                    .size = size,
                    .bytes = y->n_elements / (n_slabs * n) * size };
    pl_pool_for(c->pool, n_slabs * n, pl_i64_max(1, GRAIN_BYTES / j.bytes), blocks_range, &j);
    return pl_own_strings(c, y);
}

/* ---- Gather ---- */

/* Gather of a shape: the selected dims, including symbols. */
static pl_status gather_content(pl_infer *c) {
    const pl_content *x = c->concrete ? NULL : pl_content_of(c, 0);
    const pl_content *at = x == NULL || x->rank != 1 ? NULL : pl_content_of(c, 1);
    pl_dim dims[PL_CONTENT_MAX];
    bool known[PL_CONTENT_MAX];
    if (at == NULL || at->n > PL_CONTENT_MAX) return PL_OK;
    for (size_t k = 0; k < at->n; k++) {
        dims[k] = PL_DIM_UNKNOWN;
        known[k] = false;
        if (!at->known[k]) continue;
        int64_t i = at->dims[k].value;
        const int64_t n = (int64_t)x->n;
        if (i < -n || i >= n) {
            return pl_infer_fail(c, "index %lld is outside %lld to %lld", (long long)i,
                                 (long long)-n, (long long)(n - 1));
        }
        if (i < 0) i += n;
        dims[k] = x->dims[i];
        known[k] = x->known[i];
    }
    return pl_content_set(c, 0, at->rank, at->n, dims, known);
}

static pl_status gather_infer(pl_infer *c) {
    const int r = pl_infer_rank(c, 0), q = pl_infer_rank(c, 1);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int axis = 0, n = 0;
    if (r >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), r, &axis));
    if (r < 0 || q < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (r + q - 1 > PL_RANK_MAX) {
        return pl_infer_fail(c, "the output would have rank %d, the limit is %d", r + q - 1,
                             PL_RANK_MAX);
    }
    pl_dim dims[2 * PL_RANK_MAX];
    for (int d = 0; d < axis; d++)
        dims[n++] = c->in[0]->dims[d];
    for (int d = 0; d < q; d++)
        dims[n++] = c->in[1]->dims[d];
    for (int d = axis + 1; d < r; d++)
        dims[n++] = c->in[0]->dims[d];
    PL_TRY(pl_infer_set(c, 0, dtype, n, dims));
    return gather_content(c);
}

static pl_status gather_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *indices = pl_in(c, 1);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    const int64_t n = indices->n_elements, inner = x->strides[axis], bound = x->dims[axis];
    pl_tensor *y = pl_out(c, 0);
    int64_t *offsets = NULL;
    PL_TRY(pl_indices_read(c, indices, bound, &offsets));
    if (y->n_elements == 0) return PL_OK;
    for (int64_t k = 0; k < n; k++)
        offsets[k] *= inner;
    return copy_blocks(c, x, y, x->n_elements / (inner * bound), inner * bound, offsets, n);
}

/* ---- GatherElements ---- */

static pl_status gather_elements_infer(pl_infer *c) {
    int axis = 0, rank = -1;
    PL_TRY(pl_along_infer(c, &axis, &rank));
    const bool known = pl_infer_rank(c, 1) >= 0;
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), known ? rank : -1,
                        known ? c->in[1]->dims : NULL);
}

typedef struct along_job {
    pl_along a;
    const int64_t *indices;
    const char *x;
    char *y;
    size_t size;
} along_job;

typedef struct pair {
    pl_u64 lo, hi;
} pair;

#define PICK(type)                                                                                 \
    do {                                                                                           \
        const type *from = (const type *)(const void *)j->x + base;                                \
        type *to = (type *)(void *)j->y + row * j->a.n;                                            \
        for (int64_t k = 0; k < j->a.n; k++)                                                       \
            to[k] = from[index[k] * j->a.axis_stride + k * j->a.step];                             \
    } while (0)

static void along_range(void *ctx, int64_t begin, int64_t end) {
    const along_job *j = ctx;
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = pl_along_base(&j->a, row);
        const int64_t *index = j->indices + row * j->a.n;
        switch (j->size) {
        case 1: PICK(pl_u8); break;
        case 2: PICK(pl_u16); break;
        case 4: PICK(pl_u32); break;
        case 8: PICK(pl_u64); break;
        default: PICK(pair); break;
        }
    }
}

static pl_status gather_elements_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *indices = pl_in(c, 1);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    pl_tensor *y = pl_out(c, 0);
    int64_t *list = NULL;
    PL_TRY(pl_indices_read(c, indices, x->dims[axis], &list));
    along_job j = { .indices = list, .x = x->data, .y = y->data, .size = pl_dtype_bytes(x->dtype) };
    pl_along_init(&j.a, x, indices, axis);
    if (j.a.n_rows == 0) return PL_OK;
    pl_pool_for(c->pool, j.a.n_rows, pl_i64_max(1, 8192 / j.a.n), along_range, &j);
    return pl_own_strings(c, y);
}

/* ---- GatherND ---- */

static pl_status gather_nd_infer(pl_infer *c) {
    const int r = pl_infer_rank(c, 0), q = pl_infer_rank(c, 1);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int64_t b = pl_attr_int(c->node, "batch_dims");
    if (r < 0 || q < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (r < 1 || q < 1) return pl_infer_fail(c, "data and indices must have rank 1 or more");
    if (b < 0 || b >= r || b >= q) {
        return pl_infer_fail(c, "batch_dims is %lld, the ranks are %d and %d", (long long)b, r, q);
    }
    for (int d = 0; d < b; d++) {
        const pl_dim x = c->in[0]->dims[d], i = c->in[1]->dims[d];
        if (!pl_dim_known(x) || !pl_dim_known(i) || x.value == i.value) continue;
        return pl_infer_fail(c, "batch dim %d is %lld in the data and %lld in the indices", d,
                             (long long)x.value, (long long)i.value);
    }
    const pl_dim width = c->in[1]->dims[q - 1];
    if (!pl_dim_known(width)) return pl_infer_set_unranked(c, 0, dtype);
    if (width.value < 1 || width.value > r - b) {
        return pl_infer_fail(c, "the last dim of the indices is %lld, expected 1 to %lld",
                             (long long)width.value, (long long)(r - b));
    }
    pl_dim dims[2 * PL_RANK_MAX];
    int n = 0;
    for (int d = 0; d < q - 1; d++)
        dims[n++] = c->in[1]->dims[d];
    for (int d = (int)(b + width.value); d < r; d++)
        dims[n++] = c->in[0]->dims[d];
    return pl_infer_set(c, 0, dtype, n, dims);
}

static pl_status gather_nd_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *indices = pl_in(c, 1);
    int64_t *offsets = NULL;
    PL_TRY(pl_tuple_offsets(c, x, indices, (int)pl_attr_int(c->node, "batch_dims"), &offsets));
    const int64_t n = indices->n_elements / indices->dims[indices->rank - 1];
    return copy_blocks(c, x, pl_out(c, 0), 1, 0, offsets, n);
}

/* ---- OneHot ---- */

static pl_status one_hot_depth(pl_infer *c, pl_dim *out) {
    const pl_tensor *t = c->in_tensor[1];
    *out = PL_DIM_UNKNOWN;
    if (t == NULL) {
        const pl_content *content = pl_content_of(c, 1);
        if (content != NULL && content->n == 1) *out = content->dims[0];
        return PL_OK;
    }
    if (t->n_elements != 1) return pl_infer_fail(c, "depth is not a single number");
    const double depth = pl_tensor_get_f64(t, 0);
    if (!(depth >= 0 && depth < 9.0e18)) return pl_infer_fail(c, "depth is %g", depth);
    *out = pl_dim_of(pl_dtype_is_float(t->dtype) ? (int64_t)depth : pl_tensor_get_i64(t, 0));
    return PL_OK;
}

static pl_status one_hot_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0), v = pl_infer_rank(c, 2);
    const pl_dim n_values = pl_infer_dim(c, 2, 0);
    pl_dim depth, dims[PL_RANK_MAX + 1];
    int axis = 0;
    if ((v >= 0 && v != 1) || (pl_dim_known(n_values) && n_values.value != 2)) {
        return pl_infer_fail(c, "values is not a pair");
    }
    PL_TRY(one_hot_depth(c, &depth));
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 2));
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank + 1, &axis));
    for (int d = 0, from = 0; d <= rank; d++)
        dims[d] = d == axis ? depth : c->in[0]->dims[from++];
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 2), rank + 1, dims);
}

/* OneHot-11: indices from -depth to depth-1; others set no element. OneHot-9 has no negative
 * indices. */
static pl_status one_hot_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *values = pl_in(c, 2);
    pl_tensor *y = pl_out(c, 0);
    const size_t size = pl_dtype_bytes(values->dtype);
    const char *off = values->data, *on = off + size;
    if (y->n_elements == 0) return PL_OK;
    int64_t axis = pl_attr_int(c->node, "axis");
    if (axis < 0) axis += y->rank;
    const int64_t depth = y->dims[axis], inner = y->strides[axis];
    int64_t *list = pl_scratch(c, (size_t)x->n_elements, sizeof(*list));
    if (list == NULL) return pl_eval_memory(c);
    pl_load_i64(x->dtype, x->data, list, (size_t)x->n_elements);
    pl_fill(y->data, off, size, (size_t)y->n_elements);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const bool wraps = list[i] < 0 && c->node->opset >= 11;
        const int64_t at = wraps ? list[i] + depth : list[i];
        if (at < 0 || at >= depth) continue;
        const int64_t to = (i / inner * depth + at) * inner + i % inner;
        memcpy((char *)y->data + (size_t)to * size, on, size);
    }
    return pl_own_strings(c, y);
}

/* ---- Compress ---- */

static int64_t count_true(const pl_tensor *condition, int64_t bound) {
    const pl_u8 *b = condition->data;
    int64_t n = 0;
    for (int64_t i = 0; i < pl_i64_min(bound, condition->n_elements); i++)
        n += b[i] != 0;
    return n;
}

static pl_status compress_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_tensor *condition = c->in_tensor[1];
    const bool flat = !pl_attr_has(c->node, "axis");
    int axis = 0;
    pl_dim dims[PL_RANK_MAX], whole = PL_DIM_UNKNOWN;
    if (pl_infer_rank(c, 1) >= 0 && pl_infer_rank(c, 1) != 1) {
        return pl_infer_fail(c, "the condition has rank %d, expected 1", pl_infer_rank(c, 1));
    }
    if (rank < 0 && !flat) return pl_infer_set_unranked(c, 0, dtype);
    if (!flat) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    for (int d = 0; !flat && d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    if (rank >= 0 && flat) PL_TRY(pl_dims_multiply(c, c->in[0]->dims, 0, rank, &whole));
    if (!flat) whole = dims[axis];
    dims[axis] = PL_DIM_UNKNOWN;
    if (condition != NULL && pl_dim_known(whole)) {
        const int64_t n = count_true(condition, whole.value);
        if (n != count_true(condition, INT64_MAX)) {
            return pl_infer_fail(c, "the condition selects an element beyond the %lld available",
                                 (long long)whole.value);
        }
        dims[axis] = pl_dim_of(n);
    }
    return pl_infer_set(c, 0, dtype, flat ? 1 : rank, dims);
}

static pl_status compress_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *condition = pl_in(c, 1);
    pl_tensor *y = pl_out(c, 0);
    const pl_u8 *b = condition->data;
    const bool flat = !pl_attr_has(c->node, "axis");
    int64_t axis = flat ? 0 : pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    if (y->n_elements == 0) return PL_OK;
    const int64_t inner = flat ? 1 : x->strides[axis];
    const int64_t bound = flat ? x->n_elements : x->dims[axis];
    int64_t *offsets = pl_scratch(c, (size_t)y->dims[axis], sizeof(*offsets)), n = 0;
    if (offsets == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < condition->n_elements && n < y->dims[axis]; i++) {
        if (b[i] != 0) offsets[n++] = i * inner;
    }
    return copy_blocks(c, x, y, x->n_elements / (inner * bound), inner * bound, offsets, n);
}

/* ---- NonZero ---- */

enum { TEST_BLOCK = 512 };

/* y[k] = element k is not zero (strings: not empty), for n <= TEST_BLOCK elements. */
static void test_block(const pl_tensor *x, int64_t from, pl_u8 *y, size_t n) {
    const char *at = (const char *)x->data + (size_t)from * pl_dtype_bytes(x->dtype);
    if (x->dtype == PL_STRING) {
        const pl_string *items = x->data;
        for (size_t k = 0; k < n; k++)
            y[k] = items[from + (int64_t)k].n_bytes != 0;
    } else if (pl_dtype_class_of(x->dtype) == PL_CLASS_COMPLEX) {
        const pl_dtype part = x->dtype == PL_C64 ? PL_F32 : PL_F64;
        double parts[2 * TEST_BLOCK];
        pl_load_f64(part, at, parts, 2 * n);
        for (size_t k = 0; k < n; k++)
            y[k] = parts[2 * k] != 0 || parts[2 * k + 1] != 0;
    } else if (pl_dtype_is_float(x->dtype)) {
        double values[TEST_BLOCK];
        pl_load_f64(x->dtype, at, values, n);
        for (size_t k = 0; k < n; k++)
            y[k] = values[k] != 0;
    } else {
        int64_t values[TEST_BLOCK];
        pl_load_i64(x->dtype, at, values, n);
        for (size_t k = 0; k < n; k++)
            y[k] = values[k] != 0;
    }
}

static int64_t count_nonzero(const pl_tensor *x) {
    int64_t n = 0;
    for (int64_t i = 0; i < x->n_elements; i += TEST_BLOCK) {
        pl_u8 set[TEST_BLOCK];
        const int64_t m = pl_i64_min(TEST_BLOCK, x->n_elements - i);
        test_block(x, i, set, (size_t)m);
        for (int64_t k = 0; k < m; k++)
            n += set[k];
    }
    return n;
}

/* One column for each non-zero element; a scalar gives a column without rows. */
static pl_status non_zero_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_tensor *x = c->in_tensor[0];
    const pl_dim dims[2] = { rank < 0 ? PL_DIM_UNKNOWN : pl_dim_of(rank),
                             x == NULL ? PL_DIM_UNKNOWN : pl_dim_of(count_nonzero(x)) };
    return pl_infer_set(c, 0, PL_I64, 2, dims);
}

static pl_status non_zero_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_i64 *out = y->data;
    int64_t n = 0;
    if (y->n_elements == 0) return PL_OK;
    for (int64_t i = 0; i < x->n_elements; i += TEST_BLOCK) {
        pl_u8 set[TEST_BLOCK];
        const int64_t m = pl_i64_min(TEST_BLOCK, x->n_elements - i);
        test_block(x, i, set, (size_t)m);
        for (int64_t k = 0; k < m; k++) {
            int64_t rest = i + k;
            for (int d = x->rank - 1; set[k] != 0 && d >= 0; d--) {
                out[d * y->dims[1] + n] = rest % x->dims[d];
                rest /= x->dims[d];
            }
            n += set[k];
        }
    }
    return PL_OK;
}

/* ---- error bounds ---- */

/* Which elements are zero is certain unless one is within its bound of zero. */
static pl_status non_zero_bound(pl_bound *c) {
    const double *x = pl_b_x(c, 0), *e = pl_b_e(c, 0);
    const pl_tensor *t = pl_b_in(c, 0);
    if (e == NULL || t->n_elements == 0) return PL_OK;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    for (int64_t i = 0; i < t->n_elements; i++)
        if (e[i] > 0 && fabs(x[i]) <= 8 * e[i]) return pl_b_fill(c, 0, HUGE_VAL);
    return PL_OK;
}

/* Where the index is uncertain, either value is possible. */
static pl_status one_hot_bound(pl_bound *c) {
    if (pl_b_largest(c, 0) > 0 || pl_b_largest(c, 1) > 0) return pl_b_fill(c, 0, HUGE_VAL);
    return pl_b_e(c, 2) == NULL ? PL_OK : pl_b_fill(c, 0, pl_b_largest(c, 2));
}

/* ---- rows ---- */

#define MOVES .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define NO_GRAD .grad = PL_GRAD_UNDEFINED, .autocast = PL_AMP_KEEP
#define OUT(name) .out = PL_PORTS({ name, PL_T_ANY, 0 })

/* clang-format off */
const pl_op_def pl_ops_index[] = {
    { .name = "Compress", .since = 9,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "condition", PL_T_BOOL, 0 }), OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0)), .infer = compress_infer, .eval = compress_eval, .grad = pl_grad_compress, MOVES, PL_EMIT_BREAK("its shape depends on data"),
      .samples = PL_SAMPLES(
          { "(float[2,3] x) => (y) <bool[3] keep = {1,0,1}> { y = Compress<axis=-1>(x, keep) }", NULL, 0 },
          { "(float[2,3] x) => (y) <bool[5] keep = {0,1,0,0,1}> { y = Compress(x, keep) }", NULL, 0 }) },
    { .name = "Gather", .since = 1, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { "indices", PL_T_INDEX, PL_PORT_INDEX }), OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0)), .infer = gather_infer, .eval = gather_eval, .grad = pl_grad_gather, MOVES, .emit = pl_emit_gather,
      .samples = PL_SAMPLES(
          { "(float[5,3] x) => (y) <int64[2,2] i = {0,4,-1,2}> { y = Gather(x, i) }", NULL, 0 },
          { "(float[2,3,4] x) => (y) <int32[2] i = {2,0}> { y = Gather<axis=1>(x, i) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64 i = {1}> { y = Gather<axis=-1>(x, i) }", NULL, 0 }) },
    { .name = "GatherElements", .since = 11, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { "indices", PL_T_INDEX, PL_PORT_INDEX }), OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0)), .infer = gather_elements_infer,
      .eval = gather_elements_eval, .grad = pl_grad_gather_elements, MOVES, .emit = pl_emit_gather_elements,
      .samples = PL_SAMPLES(
          { "(float[3,3] x) => (y) <int64[2,3] i = {1,2,0,-1,0,0}> { y = GatherElements(x, i) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64[2,2] i = {0,2,1,1}> { y = GatherElements<axis=1>(x, i) }", NULL, 0 }) },
    { .name = "GatherND", .since = 11, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { "indices", PL_T_I64, PL_PORT_TUPLE }), OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("batch_dims", 0)), .infer = gather_nd_infer, .eval = gather_nd_eval, .grad = pl_grad_gather_nd, MOVES, .emit = pl_emit_gather_nd,
      .samples = PL_SAMPLES(
          { "(float[2,3,4] x) => (y) <int64[3,2] i = {0,1,1,2,-1,0}> { y = GatherND(x, i) }", NULL, 0 },
          { "(float[2,3,4] x) => (y) <int64[2,1] i = {1,0}> { y = GatherND<batch_dims=1>(x, i) }", NULL, 0 }) },
    { .name = "NonZero", .since = 9, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "X", PL_T_ANY, 0 }), .out = PL_PORTS({ "Y", PL_T_I64, 0 }),
      .infer = non_zero_infer, .eval = non_zero_eval, .bound = non_zero_bound, NO_GRAD, PL_EMIT_BREAK("its shape depends on data"),
      .samples = PL_SAMPLES({ "(int64[3,4] x) => (y) { y = NonZero(x) }", "x=0:1", PL_SAMPLE_NO_GRAD }) },
    { .name = "OneHot", .since = 9,
      .in = PL_PORTS({ "indices", PL_T_NUMERIC, 0 }, { "depth", PL_T_NUMERIC, 0 }, { "values", PL_T_ANY, 0 }),
      OUT("output"), .attrs = PL_ATTRS(PL_A_INT("axis", -1)),
      .infer = one_hot_infer, .eval = one_hot_eval, .grad = pl_grad_one_hot, .bound = one_hot_bound,
      .emit = pl_emit_one_hot, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(int64[2,3] x) => (y) <int64 depth = {5}, float[2] v = {0,1}> { y = OneHot(x, depth, v) }", NULL, PL_SAMPLE_NO_GRAD },
          { "(int64[3] x) => (y) <int64 depth = {4}, float[2] v = {-1,2}> { y = OneHot<axis=0>(x, depth, v) }", NULL, PL_SAMPLE_NO_GRAD },
          { "(int64[3] x, float[2] v) => (y) <int64 depth = {4}> { y = OneHot<axis=0>(x, depth, v) }", "x=0:3", 0 }) },
    { 0 },
};
/* clang-format on */

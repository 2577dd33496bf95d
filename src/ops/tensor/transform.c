/* Operators that only move elements: Transpose, Concat, Split, Slice, Pad, …. The loops are in
 * move.c; Slice and CenterCropPad are in slice.c, Pad in pad.c. */
#include <string.h>

#include "base/repeat.h"
#include "base/size.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"
#include "ops/tensor/transform_rules.h"

extern const pl_op_def pl_ops_transform[];

/* ---- Transpose ---- */

static pl_status read_perm(const pl_infer *c, int rank, int *perm) {
    size_t n = 0;
    const int64_t *given = pl_attr_ints(c->node, "perm", &n);
    bool seen[PL_RANK_MAX] = { false };
    if (pl_node_attr(c->node, "perm") == NULL) {
        for (int d = 0; d < rank; d++)
            perm[d] = rank - 1 - d;
        return PL_OK;
    }
    if (n != (size_t)rank) {
        return pl_infer_fail(c, "perm has %zu elements, the input has rank %d", n, rank);
    }
    for (int d = 0; d < rank; d++) {
        PL_TRY(pl_infer_axis(c, given[d], rank, &perm[d]));
        if (seen[perm[d]]) return pl_infer_fail(c, "perm names axis %d twice", perm[d]);
        seen[perm[d]] = true;
    }
    return PL_OK;
}

static pl_status transpose_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    int perm[PL_RANK_MAX] = { 0 };
    pl_dim dims[PL_RANK_MAX];
    PL_TRY(read_perm(c, rank, perm));
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[perm[d]];
    PL_TRY(pl_infer_set(c, 0, dtype, rank, dims));
    return pl_content_pass(c, rank);
}

static pl_status transpose_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    size_t n = 0;
    const int64_t *perm = pl_attr_ints(c->node, "perm", &n);
    pl_move m = { .rank = x->rank };
    for (int d = 0; d < x->rank; d++) {
        const int64_t given = n == 0 ? x->rank - 1 - d : perm[d];
        m.dims[d] = y->dims[d];
        m.from[d] = x->strides[given < 0 ? given + x->rank : given];
        m.to[d] = y->strides[d];
    }
    PL_TRY(pl_move_tensor(c, &m, x, 0, y, 0));
    return pl_own_strings(c, y);
}

/* ---- Concat ---- */

static pl_status concat_merge(const pl_infer *c, int i, int axis, int rank, pl_dim *dims) {
    for (int d = 0; d < rank; d++) {
        const pl_dim dim = c->in[i]->dims[d];
        if (d == axis) {
            const bool known = pl_dim_known(dims[d]) && pl_dim_known(dim);
            int64_t sum = 0;
            if (known && !pl_i64_add(dims[d].value, dim.value, &sum)) {
                return pl_infer_fail(c, "the inputs together have too many elements");
            }
            /* A symbol plus 0 stays a symbol. */
            if (!known && pl_dim_known(dims[d]) && dims[d].value == 0) {
                dims[d] = dim;
            } else if (known) {
                dims[d] = pl_dim_of(sum);
            } else if (!pl_dim_known(dim) || dim.value != 0) {
                dims[d] = PL_DIM_UNKNOWN;
            }
        } else if (pl_dim_known(dims[d]) && pl_dim_known(dim)) {
            if (dims[d].value == dim.value) continue;
            return pl_infer_fail(
                c, "dim %d of input %d is %lld, expected %lld like the inputs before it", d, i,
                (long long)dim.value, (long long)dims[d].value);
        } else if (pl_dim_known(dim) || (dims[d].name == NULL && !pl_dim_known(dims[d]))) {
            dims[d] = dim;
        }
    }
    return PL_OK;
}

static pl_status concat_content(pl_infer *c) {
    pl_dim dims[PL_CONTENT_MAX];
    bool known[PL_CONTENT_MAX];
    size_t n = 0;
    bool any = false;
    if (c->concrete || pl_infer_rank(c, 0) != 1 || !pl_dtype_is_integer(pl_infer_dtype_of(c, 0))) {
        return PL_OK;
    }
    for (int i = 0; i < c->n_in; i++) {
        const pl_content *content = pl_content_of(c, i);
        const pl_dim length = pl_infer_dim(c, i, 0);
        if (content == NULL && !pl_dim_known(length)) return PL_OK;
        const int64_t more = content != NULL ? (int64_t)content->n : length.value;
        if (more > PL_CONTENT_MAX - (int64_t)n) return PL_OK;
        for (int64_t k = 0; k < more; k++, n++) {
            dims[n] = content != NULL ? content->dims[k] : PL_DIM_UNKNOWN;
            known[n] = content != NULL && content->known[k];
        }
        any = any || content != NULL;
    }
    return any ? pl_content_set(c, 0, 1, n, dims, known) : PL_OK;
}

static pl_status concat_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int rank = -1, axis = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int r = pl_infer_rank(c, i);
        if (c->concrete && r < 0) return pl_infer_fail(c, "input %d is left out", i);
        if (rank >= 0 && r >= 0 && r != rank) {
            return pl_infer_fail(c, "input %d has rank %d, expected %d like the inputs before it",
                                 i, r, rank);
        }
        if (r >= 0) rank = r;
    }
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = d == axis ? pl_dim_of(0) : PL_DIM_UNKNOWN;
    bool all = true;
    for (int i = 0; i < c->n_in; i++) {
        all = all && pl_infer_rank(c, i) >= 0;
        if (pl_infer_rank(c, i) >= 0) PL_TRY(concat_merge(c, i, axis, rank, dims));
    }
    if (!all) dims[axis] = PL_DIM_UNKNOWN;
    PL_TRY(pl_infer_set(c, 0, dtype, rank, dims));
    return concat_content(c);
}

static pl_status concat_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    int64_t axis = pl_attr_int(c->node, "axis"), at = 0;
    if (axis < 0) axis += y->rank;
    for (int i = 0; i < c->n_in; i++) {
        const pl_tensor *x = pl_in(c, i);
        pl_move m = { .rank = x->rank };
        for (int d = 0; d < x->rank; d++) {
            m.dims[d] = x->dims[d];
            m.from[d] = x->strides[d];
            m.to[d] = y->strides[d];
        }
        PL_TRY(pl_move_tensor(c, &m, x, 0, y, at * y->strides[axis]));
        at += x->dims[axis];
    }
    return pl_own_strings(c, y);
}

/* com.microsoft ConcatTraining: Concat, and the size of each input along the axis. */
static pl_status concat_training_infer(pl_infer *c) {
    const pl_dim n = pl_dim_of(c->n_in);
    PL_TRY(concat_infer(c));
    return pl_infer_set(c, 1, PL_I64, 1, &n);
}

static pl_status concat_training_eval(pl_eval *c) {
    pl_tensor *sizes = pl_out(c, 1);
    const int64_t axis = pl_attr_int(c->node, "axis");
    PL_TRY(concat_eval(c));
    for (int i = 0; sizes != NULL && i < c->n_in; i++) {
        const pl_tensor *x = pl_in(c, i);
        ((pl_i64 *)sizes->data)[i] = x->dims[axis < 0 ? axis + x->rank : axis];
    }
    return PL_OK;
}

/* ---- Split ---- */

/* Length of part i of n when no lengths are given. Split-18: parts of ceil(dim/n), the last one
 * shorter; before, n must divide the dim. */
static pl_status equal_part(const pl_infer *c, pl_dim dim, int64_t n, int64_t i, pl_dim *out) {
    *out = PL_DIM_UNKNOWN;
    if (n == 1) *out = dim;
    if (!pl_dim_known(dim)) return PL_OK;
    if (c->node->opset < 18 && dim.value % n != 0) {
        return pl_infer_fail(c, "%lld elements cannot be split into %lld equal parts",
                             (long long)dim.value, (long long)n);
    }
    const int64_t part = dim.value / n + (dim.value % n != 0);
    const int64_t done = part == 0 || i <= dim.value / part ? i * part : dim.value;
    *out = pl_dim_of(pl_i64_max(0, pl_i64_min(part, dim.value - done)));
    return PL_OK;
}

static pl_status split_count(const pl_infer *c, int64_t *out) {
    *out = c->n_out;
    if (pl_node_attr(c->node, "num_outputs") == NULL) return PL_OK;
    *out = pl_attr_int(c->node, "num_outputs");
    if (*out >= c->n_out && *out > 0) return PL_OK;
    return pl_infer_fail(c, "num_outputs is %lld, the node has %d outputs", (long long)*out,
                         c->n_out);
}

/* Lengths of the parts from the attribute or input; NULL when not given or unknown (*given tells
 * which). */
static pl_status split_lengths(pl_infer *c, pl_dim dim, const int64_t **out, bool *given) {
    size_t n = 0;
    const int64_t *parts = pl_attr_ints(c->node, "split", &n);
    *given = parts != NULL || pl_infer_has(c, 1);
    if (parts == NULL && pl_infer_has(c, 1)) parts = pl_infer_ints(c, 1, &n);
    *out = parts;
    if (parts == NULL) {
        return *given && c->concrete ? pl_infer_fail(c, "split is not a list of integers") : PL_OK;
    }
    if (n < (size_t)c->n_out) {
        return pl_infer_fail(c, "%zu parts for %d outputs", n, c->n_out);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i] < 0 || !pl_i64_add(sum, parts[i], &sum)) {
            return pl_infer_fail(c, "part %zu has length %lld", i, (long long)parts[i]);
        }
    }
    if (pl_dim_known(dim) && sum != dim.value) {
        return pl_infer_fail(c, "the parts add up to %lld elements, the axis has %lld",
                             (long long)sum, (long long)dim.value);
    }
    return PL_OK;
}

/* Split of a shape: each output gets its part of the content. */
static pl_status split_content(pl_infer *c, int i, pl_dim length, size_t *at) {
    const pl_content *x = c->concrete ? NULL : pl_content_of(c, 0);
    if (x == NULL || x->rank != 1 || !pl_dim_known(length)) return PL_OK;
    const size_t n = (size_t)length.value, from = *at;
    if (from > x->n || n > x->n - from) return PL_OK;
    *at += n;
    return pl_content_set(c, i, 1, n, x->dims + from, x->known + from);
}

static pl_status split_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int axis = 0;
    for (int i = 0; rank < 0 && i < c->n_out; i++)
        PL_TRY(pl_infer_set_unranked(c, i, dtype));
    if (rank < 0) return PL_OK;
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    const pl_dim whole = dims[axis];
    const int64_t *parts = NULL;
    bool given = false;
    int64_t n = 1;
    PL_TRY(split_lengths(c, whole, &parts, &given));
    PL_TRY(split_count(c, &n));
    size_t at = 0;
    for (int i = 0; i < c->n_out; i++) {
        dims[axis] = PL_DIM_UNKNOWN;
        if (parts != NULL) dims[axis] = pl_dim_of(parts[i]);
        if (!given) PL_TRY(equal_part(c, whole, n, i, &dims[axis]));
        PL_TRY(pl_infer_set(c, i, dtype, rank, dims));
        PL_TRY(split_content(c, i, dims[axis], &at));
    }
    return PL_OK;
}

static pl_status split_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    int64_t axis = pl_attr_int(c->node, "axis"), at = 0;
    if (axis < 0) axis += x->rank;
    for (int i = 0; i < c->n_out; i++) {
        const int64_t length = c->out_type[i]->dims[axis].value;
        pl_tensor *y = pl_out(c, i);
        pl_move m = { .rank = x->rank };
        for (int d = 0; y != NULL && d < x->rank; d++) {
            m.dims[d] = y->dims[d];
            m.from[d] = x->strides[d];
            m.to[d] = y->strides[d];
        }
        if (y != NULL) {
            PL_TRY(pl_move_tensor(c, &m, x, at * x->strides[axis], y, 0));
            PL_TRY(pl_own_strings(c, y));
        }
        at += length;
    }
    return PL_OK;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

static pl_status block_size(const pl_infer *c, int64_t *out) {
    *out = pl_attr_int(c->node, "blocksize");
    if (*out >= 1 && *out <= INT32_MAX) return PL_OK;
    return pl_infer_fail(c, "invalid blocksize %lld", (long long)*out);
}

static pl_status times(const pl_infer *c, pl_dim dim, int64_t factor, pl_dim *out) {
    *out = factor == 1 ? dim : PL_DIM_UNKNOWN;
    if (!pl_dim_known(dim)) return PL_OK;
    *out = pl_dim_of(0);
    if (pl_i64_mul(dim.value, factor, &out->value)) return PL_OK;
    return pl_infer_fail(c, "a dim does not fit in 63 bits");
}

static pl_status divided(const pl_infer *c, pl_dim dim, int64_t factor, pl_dim *out) {
    *out = factor == 1 ? dim : PL_DIM_UNKNOWN;
    if (!pl_dim_known(dim)) return PL_OK;
    *out = pl_dim_of(dim.value / factor);
    if (dim.value % factor == 0) return PL_OK;
    return pl_infer_fail(c, "dim %lld is not a multiple of %lld", (long long)dim.value,
                         (long long)factor);
}

static pl_status blocks_infer(pl_infer *c, bool to_space) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int64_t b = 1;
    PL_TRY(block_size(c, &b));
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank != 4) return pl_infer_fail(c, "the input has rank %d, expected 4", rank);
    const pl_dim *in = c->in[0]->dims;
    pl_dim dims[4] = { in[0] };
    PL_TRY(to_space ? divided(c, in[1], b * b, &dims[1]) : times(c, in[1], b * b, &dims[1]));
    PL_TRY(to_space ? times(c, in[2], b, &dims[2]) : divided(c, in[2], b, &dims[2]));
    PL_TRY(to_space ? times(c, in[3], b, &dims[3]) : divided(c, in[3], b, &dims[3]));
    return pl_infer_set(c, 0, dtype, 4, dims);
}

static pl_status depth_to_space_infer(pl_infer *c) {
    if (!pl_attr_string_is(c->node, "mode", "DCR") && !pl_attr_string_is(c->node, "mode", "CRD")) {
        return pl_infer_fail(c, "mode is neither DCR nor CRD");
    }
    return blocks_infer(c, true);
}

static pl_status space_to_depth_infer(pl_infer *c) {
    return blocks_infer(c, false);
}

/* Target [N, C, H, b, W, b]: the channel of the input is (b, b, C) in DCR, (C, b, b) in CRD. */
static pl_status depth_to_space_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const int64_t b = pl_attr_int(c->node, "blocksize");
    const bool crd = pl_attr_string_is(c->node, "mode", "CRD");
    const int64_t plane = x->strides[1], channels = y->dims[1];
    const int64_t deep = crd ? 1 : channels; /* planes between neighbouring positions in a block */
    const pl_move m = { .rank = 6,
                        .dims = { x->dims[0], channels, x->dims[2], b, x->dims[3], b },
                        .from = { x->strides[0], crd ? plane * b * b : plane, x->strides[2],
                                  plane * deep * b, x->strides[3], plane * deep },
                        .to = { y->strides[0], y->strides[1], y->strides[2] * b, y->strides[2], b,
                                1 } };
    PL_TRY(pl_move_tensor(c, &m, x, 0, y, 0));
    return pl_own_strings(c, y);
}

/* Target [N, b, b, C, H, W]. */
static pl_status space_to_depth_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const int64_t b = pl_attr_int(c->node, "blocksize"), channels = x->dims[1];
    const int64_t plane = y->strides[1];
    const pl_move m = {
        .rank = 6,
        .dims = { x->dims[0], b, b, channels, y->dims[2], y->dims[3] },
        .from = { x->strides[0], x->strides[2], 1, x->strides[1], x->strides[2] * b, b },
        .to = { y->strides[0], plane * channels * b, plane * channels, plane, y->strides[2], 1 }
    };
    PL_TRY(pl_move_tensor(c, &m, x, 0, y, 0));
    return pl_own_strings(c, y);
}

/* ---- ReverseSequence ---- */

static pl_status reverse_sequence_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t batch = pl_attr_int(c->node, "batch_axis"),
                  time = pl_attr_int(c->node, "time_axis");
    if (batch < 0 || batch > 1 || time != 1 - batch) {
        return pl_infer_fail(c, "batch_axis is %lld and time_axis %lld, expected 0 and 1",
                             (long long)batch, (long long)time);
    }
    if (rank >= 0 && rank < 2) return pl_infer_fail(c, "the input has rank %d, expected 2", rank);
    if (c->concrete &&
        (c->in_tensor[1]->rank != 1 || c->in_tensor[1]->dims[0] != c->in[0]->dims[batch].value)) {
        return pl_infer_fail(c, "sequence_lens must have one element for each of the batch");
    }
    return pl_infer_set_like(c, 0, 0);
}

static pl_status reverse_sequence_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const int batch = (int)pl_attr_int(c->node, "batch_axis"), time = 1 - batch;
    size_t n = 0;
    const int64_t *lengths = pl_in_ints(c, 1, &n);
    if (lengths == NULL) return pl_eval_memory(c);
    if (y->n_elements == 0) return PL_OK;
    const size_t run = (size_t)x->strides[1] * pl_dtype_bytes(x->dtype);
    for (int64_t b = 0; b < x->dims[batch]; b++) {
        if (lengths[b] < 0 || lengths[b] > x->dims[time]) {
            return pl_eval_fail(c, "sequence %lld has length %lld, the time axis %lld",
                                (long long)b, (long long)lengths[b], (long long)x->dims[time]);
        }
        for (int64_t t = 0; t < x->dims[time]; t++) {
            const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
            const int64_t at[2] = { batch == 0 ? b : t, batch == 0 ? t : b };
            const int64_t source[2] = { batch == 0 ? b : from, batch == 0 ? from : b };
            memcpy((char *)y->data + (size_t)(at[0] * x->dims[1] + at[1]) * run,
                   (const char *)x->data + (size_t)(source[0] * x->dims[1] + source[1]) * run, run);
        }
    }
    return pl_own_strings(c, y);
}

/* ---- Trilu, EyeLike ---- */

static pl_status trilu_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank >= 0 && rank < 2) return pl_infer_fail(c, "the input has rank %d, expected 2", rank);
    if (c->concrete && pl_infer_has(c, 1) && c->in_tensor[1]->n_elements != 1) {
        return pl_infer_fail(c, "k is not a single number");
    }
    return pl_infer_set_like(c, 0, 0);
}

typedef struct trilu_job {
    const char *x;
    char *y;
    int64_t rows, columns, k;
    size_t size;
    bool upper;
} trilu_job;

static void trilu_range(void *ctx, int64_t begin, int64_t end) {
    const trilu_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        /* Column where the kept part ends or starts; the lower part includes the diagonal, the
         * upper part starts with it. */
        const int64_t diagonal = i % j->rows + j->k + (j->upper ? 0 : 1);
        const int64_t at = pl_i64_min(pl_i64_max(diagonal, 0), j->columns);
        const size_t split = (size_t)at * j->size, all = (size_t)j->columns * j->size;
        const char *x = j->x + (size_t)i * all;
        char *y = j->y + (size_t)i * all;
        memset(j->upper ? y : y + split, 0, j->upper ? split : all - split);
        memcpy(j->upper ? y + split : y, j->upper ? x + split : x, j->upper ? all - split : split);
    }
}

static pl_status trilu_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    /* Diagonals beyond the matrix change nothing; clamped so that sums cannot overflow. */
    const int64_t k = pl_i64_min(pl_i64_max(pl_in_int(c, 1, 0), -rows - 1), columns + 1);
    trilu_job j = { .x = x->data,
                    .y = y->data,
                    .rows = rows,
                    .columns = columns,
                    .k = k,
                    .size = pl_dtype_bytes(x->dtype),
                    .upper = pl_attr_int(c->node, "upper") != 0 };
    pl_pool_for(c->pool, x->n_elements / columns, pl_i64_max(1, 16384 / columns), trilu_range, &j);
    return pl_own_strings(c, y);
}

static pl_status eye_like_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dtype dtype;
    PL_TRY(pl_attr_dtype(c, "dtype", pl_infer_dtype_of(c, 0), &dtype));
    if (dtype == PL_STRING) return pl_infer_fail(c, "strings have no identity matrix");
    if (rank >= 0 && rank != 2) return pl_infer_fail(c, "the input has rank %d, expected 2", rank);
    return pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims);
}

static pl_status eye_like_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    const int64_t k = pl_attr_int(c->node, "k");
    const int64_t rows = y->dims[0], columns = y->dims[1];
    const int64_t size = (int64_t)pl_dtype_bytes(y->dtype);
    const double one = 1;
    if (y->n_elements == 0) return PL_OK;
    const double zero = 0; /* F8E8M0 has no zero: the smallest value */
    char element[16];
    pl_store_f64(y->dtype, &zero, element, 1);
    pl_fill(y->data, element, (size_t)size, (size_t)y->n_elements);
    if (k >= columns || k <= -rows) return PL_OK;
    for (int64_t i = k < 0 ? -k : 0; i < rows && i + k < columns; i++) {
        pl_store_f64(y->dtype, &one, (char *)y->data + (i * columns + i + k) * size, 1);
    }
    return PL_OK;
}

/* ---- rows ---- */

#define MOVES .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define IN(name) .in = PL_PORTS({ name, PL_T_ANY, 0 })
#define OUT(name) .out = PL_PORTS({ name, PL_T_ANY, 0 })
#define CONCAT_TRAINING                                                                            \
    .name = "ConcatTraining", .domain = "com.microsoft",                                           \
    .in = PL_PORTS({ "inputs", PL_T_ANY, PL_PORT_VARIADIC | PL_PORT_SAME }),                       \
    .out = PL_PORTS({ "concat_result", PL_T_ANY, 0 },                                              \
                    { "per_input_length", PL_T_I64, PL_PORT_OPTIONAL }),                           \
    .infer = concat_training_infer, .eval = concat_training_eval, .grad = pl_grad_concat,          \
    .bound = PL_BOUND_EXACT, .emit = pl_emit_concat_training, .autocast = PL_AMP_WIDEST
#define CONCAT                                                                                     \
    .name = "Concat", .flags = PL_OP_SHAPE,                                                        \
    .in = PL_PORTS({ "inputs", PL_T_ANY, PL_PORT_VARIADIC | PL_PORT_SAME }), OUT("concat_result"), \
    .infer = concat_infer, .eval = concat_eval, .grad = pl_grad_concat, .bound = PL_BOUND_EXACT,   \
    .emit = pl_emit_concat_rule, .autocast = PL_AMP_WIDEST
#define SPLIT                                                                                      \
    .name = "Split", .flags = PL_OP_SHAPE,                                                         \
    .out = PL_PORTS({ "outputs", PL_T_ANY, PL_PORT_VARIADIC }), .infer = split_infer,              \
    .eval = split_eval, .grad = pl_grad_split, .emit = pl_emit_split_rule, MOVES
#define SPLIT_INPUT                                                                                \
    .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "split", PL_T_I64, PL_PORT_OPTIONAL })
#define SLICE                                                                                      \
    .flags = PL_OP_SHAPE, OUT("output"), .infer = pl_slice_infer, .eval = pl_slice_eval,           \
    .grad = pl_grad_slice, MOVES
#define PAD                                                                                        \
    OUT("output"), .name = "Pad", .infer = pl_pad_infer, .eval = pl_pad_eval, .grad = pl_grad_pad, \
                   .emit = pl_emit_pad, MOVES
#define PAD_MODE PL_A_STRING("mode", "constant")

/* clang-format off */
const pl_op_def pl_ops_transform[] = {
    { .name = "CenterCropPad", .since = 18,
      .in = PL_PORTS({ "input_data", PL_T_ANY, 0 }, { "shape", PL_T_INDEX, 0 }), OUT("output_data"),
      .attrs = PL_ATTRS(PL_A_LIST("axes", INTS)),
      .infer = pl_center_crop_pad_infer, .eval = pl_center_crop_pad_eval, .grad = pl_grad_center_crop_pad, MOVES, .emit = pl_emit_center_crop_pad,
      .samples = PL_SAMPLES(
          { "(float[5,4,3] x) => (y) <int64[3] s = {3,7,3}> { y = CenterCropPad(x, s) }", NULL, 0 },
          { "(float[5,4,3] x) => (y) <int64[1] s = {2}> { y = CenterCropPad<axes=[-1]>(x, s) }", NULL, 0 }) },
    { CONCAT_TRAINING, .since = 1, .attrs = PL_ATTRS(PL_A_REQUIRED("axis", INT)),
      .samples = PL_SAMPLES({ "(float[2,3] a, float[2,1] b) => (y, n) { y, n = com.microsoft.ConcatTraining<axis=1>(a, b) }", NULL, 0 },
                            { "(float[2,3] a, float[1,3] b) => (y) { y = com.microsoft.ConcatTraining<axis=-2>(a, b) }", NULL, 0 }) },
    { CONCAT, .since = 1, .until = 3, .attrs = PL_ATTRS(PL_A_INT("axis", 1)),
      .samples = PL_SAMPLES({ "(float[2,3] a, float[2,1] b) => (y) { y = Concat(a, b) }", NULL, 0 }) },
    { CONCAT, .since = 4, .attrs = PL_ATTRS(PL_A_REQUIRED("axis", INT)),
      .samples = PL_SAMPLES({ "(float[2,3] a, float[2,1] b) => (y) { y = Concat<axis=-1>(a, b) }", NULL, 0 },
                            { "(float[1,3] a, float[2,3] b, float[0,3] d) => (y) { y = Concat<axis=0>(a, b, d) }", NULL, 0 }) },
    { .name = "DepthToSpace", .since = 1, IN("input"), OUT("output"),
      .attrs = PL_ATTRS(PL_A_REQUIRED("blocksize", INT), PL_A_STRING("mode", "DCR")),
      .infer = depth_to_space_infer, .eval = depth_to_space_eval, .grad = pl_grad_depth_to_space, MOVES, .emit = pl_emit_depth_to_space,
      .samples = PL_SAMPLES(
          { "(float[1,8,2,3] x) => (y) { y = DepthToSpace<blocksize=2>(x) }", NULL, 0 },
          { "(float[1,8,2,3] x) => (y) { y = DepthToSpace<blocksize=2, mode=\"CRD\">(x) }", NULL, 0 }) },
    /* Experimental until opset 9; like Slice-10 without steps. */
    { .name = "DynamicSlice", .since = 1, .until = 10, SLICE,
      .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { "starts", PL_T_INDEX, 0 }, { "ends", PL_T_INDEX, 0 },
                     { "axes", PL_T_INDEX, PL_PORT_OPTIONAL | PL_PORT_AXES }), .emit = pl_emit_slice_rule,
      .samples = PL_SAMPLES({ "(float[4,5] x) => (y) <int64[1] s = {1}, int64[1] e = {-1}> { y = DynamicSlice(x, s, e) }", NULL, 0 }) },
    { .name = "EyeLike", .since = 9, .flags = PL_OP_SHAPE, IN("input"),
      .out = PL_PORTS({ "output", PL_T_ANY & ~PL_T_STRING, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("dtype", 0), PL_A_INT("k", 0)),
      .infer = eye_like_infer, .eval = eye_like_eval, .grad = PL_GRAD_ZERO, .bound = pl_b_untouched,
      .emit = pl_emit_types_only, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) { y = EyeLike<k=1>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(int32[3,3] x) => (y) { y = EyeLike<dtype=1, k=-2>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { PAD, .since = 1, .until = 1, IN("data"),
      .attrs = PL_ATTRS(PL_A_REQUIRED("paddings", INTS), PAD_MODE, PL_A_FLOAT("value", 0)),
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Pad<paddings=[0,1,2,0], value=1.5>(x) }", NULL, 0 }) },
    { PAD, .since = 2, .until = 10, IN("data"),
      .attrs = PL_ATTRS(PL_A_REQUIRED("pads", INTS), PAD_MODE, PL_A_FLOAT("value", 0)),
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Pad<pads=[0,1,2,0], value=1.5>(x) }", NULL, 0 },
                            { "(float[2,3] x) => (y) { y = Pad<pads=[1,2,1,2], mode=\"reflect\">(x) }", NULL, 0 }) },
    { PAD, .since = 11,
      .in = PL_PORTS({ "data", PL_T_ANY, PL_PORT_SAME }, { "pads", PL_T_I64, 0 },
                     { "constant_value", PL_T_ANY, PL_PORT_OPTIONAL | PL_PORT_SAME },
                     { "axes", PL_T_INDEX, PL_PORT_OPTIONAL | PL_PORT_AXES }),
      .attrs = PL_ATTRS(PAD_MODE),
      .samples = PL_SAMPLES(
          { "(float[2,3] x) => (y) <int64[4] p = {0,1,2,0}, float v = {1.5}> { y = Pad(x, p, v) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64[2] p = {-1,4}, int64[1] a = {-1}> { y = Pad<mode=\"edge\">(x, p, , a) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64[4] p = {1,2,1,2}> { y = Pad<mode=\"reflect\">(x, p) }", NULL, 0 },
          { "(float[2,3] x) => (y) <int64[4] p = {3,1,0,4}> { y = Pad<mode=\"wrap\">(x, p) }", NULL, 0 }) },
    { .name = "ReverseSequence", .since = 10,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "sequence_lens", PL_T_I64, PL_PORT_LENGTH }), OUT("Y"),
      .attrs = PL_ATTRS(PL_A_INT("batch_axis", 1), PL_A_INT("time_axis", 0)),
      .infer = reverse_sequence_infer, .eval = reverse_sequence_eval, .grad = pl_grad_reverse_sequence, MOVES, .emit = pl_emit_reverse_sequence,
      .samples = PL_SAMPLES(
          { "(float[4,3,2] x) => (y) <int64[3] n = {4,1,2}> { y = ReverseSequence(x, n) }", NULL, 0 },
          { "(float[3,4] x) => (y) <int64[3] n = {4,0,2}> { y = ReverseSequence<batch_axis=0, time_axis=1>(x, n) }", NULL, 0 }) },
    { .name = "Slice", .since = 1, .until = 9, SLICE, IN("data"),
      .attrs = PL_ATTRS(PL_A_LIST("axes", INTS), PL_A_REQUIRED("ends", INTS), PL_A_REQUIRED("starts", INTS)), .emit = pl_emit_slice_rule,
      .samples = PL_SAMPLES({ "(float[4,5] x) => (y) { y = Slice<axes=[0,1], starts=[1,-3], ends=[3,1000]>(x) }", NULL, 0 }) },
    { .name = "Slice", .since = 10, SLICE,
      .in = PL_PORTS({ "data", PL_T_ANY, 0 }, { "starts", PL_T_INDEX, 0 }, { "ends", PL_T_INDEX, 0 },
                     { "axes", PL_T_INDEX, PL_PORT_OPTIONAL | PL_PORT_AXES }, { "steps", PL_T_INDEX, PL_PORT_OPTIONAL | PL_PORT_POSITIVE }), .emit = pl_emit_slice_rule,
      .samples = PL_SAMPLES(
          { "(float[4,5] x) => (y) <int64[1] s = {1}, int64[1] e = {-1}> { y = Slice(x, s, e) }", NULL, 0 },
          { "(float[4,5] x) => (y) <int64[2] s = {-1,0}, int64[2] e = {-1000,5}, int64[2] a = {0,-1}, int64[2] t = {-1,2}> { y = Slice(x, s, e, a, t) }", NULL, 0 }) },
    { .name = "SpaceToDepth", .since = 1, IN("input"), OUT("output"),
      .attrs = PL_ATTRS(PL_A_REQUIRED("blocksize", INT)),
      .infer = space_to_depth_infer, .eval = space_to_depth_eval, .grad = pl_grad_space_to_depth, MOVES, .emit = pl_emit_space_to_depth,
      .samples = PL_SAMPLES({ "(float[1,2,4,6] x) => (y) { y = SpaceToDepth<blocksize=2>(x) }", NULL, 0 }) },
    { SPLIT, .since = 1, .until = 1, SPLIT_INPUT,
      .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_LIST("split", INTS)),
      .samples = PL_SAMPLES({ "(float[4,2] x) => (a, b) { a, b = Split<split=[1,3]>(x) }", NULL, 0 }) },
    { SPLIT, .since = 2, .until = 12, IN("input"),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_LIST("split", INTS)),
      .samples = PL_SAMPLES({ "(float[4,2] x) => (a, b) { a, b = Split<split=[1,3]>(x) }", NULL, 0 },
                            { "(float[2,6] x) => (a, b) { a, b = Split<axis=1>(x) }", NULL, 0 }) },
    { SPLIT, .since = 13, .until = 17, SPLIT_INPUT, .attrs = PL_ATTRS(PL_A_INT("axis", 0)),
      .samples = PL_SAMPLES({ "(float[2,6] x) => (a, b) <int64[2] s = {4,2}> { a, b = Split<axis=-1>(x, s) }", NULL, 0 }) },
    { SPLIT, .since = 18, SPLIT_INPUT, .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_INT("num_outputs", 0)),
      .samples = PL_SAMPLES({ "(float[2,6] x) => (a, b) <int64[2] s = {4,2}> { a, b = Split<axis=-1>(x, s) }", NULL, 0 },
                            { "(float[7] x) => (a, b, d) { a, b, d = Split<num_outputs=3>(x) }", NULL, 0 }) },
    { .name = "Transpose", .since = 1, .flags = PL_OP_SHAPE, IN("data"), OUT("transposed"),
      .attrs = PL_ATTRS(PL_A_LIST("perm", INTS)), .infer = transpose_infer, .eval = transpose_eval, .grad = pl_grad_transpose, MOVES, .emit = pl_emit_transpose_rule,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = Transpose(x) }", NULL, 0 },
                            { "(float[2,3,4,5] x) => (y) { y = Transpose<perm=[0,2,3,1]>(x) }", NULL, 0 }) },
    { .name = "Trilu", .since = 14,
      .in = PL_PORTS({ "input", PL_T_ANY, 0 }, { "k", PL_T_I64, PL_PORT_OPTIONAL }), OUT("output"),
      .attrs = PL_ATTRS(PL_A_INT("upper", 1)), .infer = trilu_infer, .eval = trilu_eval, .grad = pl_grad_trilu, MOVES, .emit = pl_emit_trilu,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) { y = Trilu(x) }", NULL, 0 },
                            { "(float[2,4,3] x) => (y) <int64 k = {-1}> { y = Trilu<upper=0>(x, k) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

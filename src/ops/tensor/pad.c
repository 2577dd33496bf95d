/* Pad: all modes by one index map per dim.
 *
 * map[d][i] is the input index of output index i of dim d, or -1 for the constant. Negative pads
 * crop first; the other modes then extend what is left. Trailing dims without padding are copied as
 * blocks. */
#include <string.h>

#include "base/repeat.h"
#include "base/size.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"
#include "ops/tensor/transform_rules.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

/* ---- shape ---- */

static bool mode_of(const pl_node *node, pad_mode *out) {
    static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
    for (int i = 0; i < 4; i++) {
        if (!pl_attr_string_is(node, "mode", names[i])) continue;
        *out = (pad_mode)i;
        return true;
    }
    return false;
}

/* The attribute's pads (opset 1: "paddings"), or NULL when they are an input. */
static const int64_t *attr_pads(const pl_node *node, size_t *n) {
    const int64_t *pads = pl_attr_ints(node, "pads", n);
    return pads != NULL ? pads : pl_attr_ints(node, "paddings", n);
}

static pl_status padded_dim(const pl_infer *c, int d, pl_dim dim, int64_t begin, int64_t end,
                            pl_dim *out) {
    int64_t n = 0;
    pad_mode mode = PAD_CONSTANT;
    (void)mode_of(c->node, &mode);
    *out = PL_DIM_UNKNOWN;
    if (begin == 0 && end == 0) *out = dim;
    if (!pl_dim_known(dim)) return PL_OK;
    if (begin < INT64_MIN / 4 || end < INT64_MIN / 4 || !pl_i64_add(dim.value, begin, &n) ||
        !pl_i64_add(n, end, &n) || n < 0) {
        return pl_infer_fail(c, "pads %lld and %lld on dim %d of %lld elements", (long long)begin,
                             (long long)end, d, (long long)dim.value);
    }
    /* What is left after cropping. The sums cannot overflow: the terms added to the dim are not
     * positive. */
    const int64_t left = dim.value + pl_i64_max(pl_i64_min(begin, 0), -dim.value) +
                         pl_i64_max(pl_i64_min(end, 0), -dim.value);
    if (mode != PAD_CONSTANT && n > 0 && left <= 0) {
        return pl_infer_fail(c, "dim %d has no elements to pad from", d);
    }
    *out = pl_dim_of(n);
    return PL_OK;
}

static pl_status pad_dims(pl_infer *c, int rank, pl_dim *dims) {
    pl_axes axes;
    PL_TRY(pl_axes_read(c, NULL, 3, rank, true, &axes));
    size_t n_attr = 0;
    const int64_t *attr = attr_pads(c->node, &n_attr);
    const pl_content *pads = attr != NULL ? NULL : pl_content_of(c, 1);
    const size_t n = axes.present ? axes.n : (size_t)rank;
    const size_t n_given = attr != NULL ? n_attr : pads != NULL ? pads->n : 2 * n;
    if (axes.known && n_given != 2 * n) {
        return pl_infer_fail(c, "%zu pads for %zu axes, expected two for each axis", n_given, n);
    }
    if (attr == NULL && pads == NULL && c->concrete && rank > 0) {
        return pl_infer_fail(c, "pads is not a list of integers");
    }
    for (int d = 0; d < rank; d++)
        dims[d] = axes.known ? c->in[0]->dims[d] : PL_DIM_UNKNOWN;
    for (size_t k = 0; axes.known && k < n; k++) {
        const int d = axes.present ? axes.axis[k] : (int)k;
        if (attr != NULL) {
            PL_TRY(padded_dim(c, d, dims[d], attr[k], attr[n + k], &dims[d]));
        } else if (pads != NULL && pads->known[k] && pads->known[n + k]) {
            PL_TRY(
                padded_dim(c, d, dims[d], pads->dims[k].value, pads->dims[n + k].value, &dims[d]));
        } else {
            dims[d] = PL_DIM_UNKNOWN;
        }
    }
    return PL_OK;
}

pl_status pl_pad_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    pad_mode mode;
    if (!mode_of(c->node, &mode)) {
        const pl_string s = pl_attr_string(c->node, "mode");
        return pl_infer_fail(c, "mode is '%.*s', expected constant, reflect, edge or wrap",
                             (int)pl_i64_min((int64_t)s.n_bytes, 40), s.data);
    }
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    pl_dim dims[PL_RANK_MAX];
    PL_TRY(pad_dims(c, rank, dims));
    return pl_infer_set(c, 0, dtype, rank, dims);
}

/* ---- index maps ---- */

static int64_t positive_mod(int64_t a, int64_t n) {
    const int64_t r = a % n;
    return r < 0 ? r + n : r;
}

/* Source of index i of the extended row of n elements. */
static int64_t source_of(pad_mode mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    switch (mode) {
    case PAD_EDGE: return i < 0 ? 0 : n - 1;
    case PAD_WRAP: return positive_mod(i, n);
    case PAD_REFLECT: { /* the ends are not repeated: period 2n-2 */
        if (n == 1) return 0;
        const int64_t r = positive_mod(i, 2 * n - 2);
        return r < n ? r : 2 * n - 2 - r;
    }
    case PAD_CONSTANT: break;
    }
    return -1;
}

typedef struct job {
    int rank; /* dims with maps; the last one is handled within a row */
    int64_t dims[PL_RANK_MAX];
    int64_t strides[PL_RANK_MAX]; /* of the input, in bytes */
    const int64_t *map[PL_RANK_MAX];
    int64_t run_begin, run_end; /* part of the last dim that is a plain copy */
    int64_t block;              /* bytes of one step of the last dim */
    size_t element;
    char constant[16];
    const char *x;
    char *y;
} job;

/* n steps of the last dim filled with the constant. */
static void fill_steps(const job *j, char *y, int64_t n) {
    pl_fill(y, j->constant, j->element, (size_t)(n * j->block) / j->element);
}

static void pad_ends(const job *j, const char *x, char *y, int64_t begin, int64_t end) {
    const int64_t *map = j->map[j->rank - 1];
    for (int64_t i = begin; i < end; i++) {
        if (map[i] < 0) {
            fill_steps(j, y + i * j->block, 1);
        } else {
            memcpy(y + i * j->block, x + map[i] * j->block, (size_t)j->block);
        }
    }
}

static void pad_row(const job *j, int64_t row) {
    const int last = j->rank - 1;
    const int64_t n = j->dims[last];
    char *y = j->y + row * n * j->block;
    int64_t offset = 0;
    for (int d = last - 1; d >= 0; d--) {
        const int64_t at = j->map[d][row % j->dims[d]];
        row /= j->dims[d];
        if (at < 0) {
            fill_steps(j, y, n);
            return;
        }
        offset += at * j->strides[d];
    }
    const char *x = j->x + offset;
    pad_ends(j, x, y, 0, j->run_begin);
    if (j->run_end > j->run_begin) {
        memcpy(y + j->run_begin * j->block, x + j->map[last][j->run_begin] * j->block,
               (size_t)((j->run_end - j->run_begin) * j->block));
    }
    pad_ends(j, x, y, j->run_end, n);
}

static void pad_range(void *ctx, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
        pad_row(ctx, row);
}

/* ---- running ---- */

/* pads[d] and pads[rank + d] of every dim. */
static pl_status pads_read(pl_eval *c, int64_t *pads) {
    const int rank = pl_in(c, 0)->rank;
    size_t n_pads = 0, n_axes = 0;
    const int64_t *given = attr_pads(c->node, &n_pads);
    if (given == NULL && pl_has(c, 1)) given = pl_in_ints(c, 1, &n_pads);
    const int64_t *axes = pl_in_ints(c, 3, &n_axes);
    if ((given == NULL && rank > 0) || (axes == NULL && pl_has(c, 3))) return pl_eval_memory(c);
    const size_t n = pl_has(c, 3) ? n_axes : (size_t)rank;
    for (int d = 0; d < 2 * rank; d++)
        pads[d] = 0;
    for (size_t k = 0; given != NULL && k < n; k++) {
        const int64_t axis = axes == NULL ? (int64_t)k : axes[k];
        const int64_t d = axis < 0 ? axis + rank : axis;
        pads[d] = given[k];
        pads[rank + d] = given[n + k];
    }
    return PL_OK;
}

static pl_status read_constant(pl_eval *c, job *j) {
    const pl_tensor *x = pl_in(c, 0), *value = pl_in(c, 2);
    memset(j->constant, 0, sizeof(j->constant));
    if (value != NULL) {
        if (value->n_elements != 1) return pl_eval_fail(c, "constant_value is not a single value");
        if (value->dtype != x->dtype) return pl_eval_fail(c, "constant_value has the wrong type");
        memcpy(j->constant, value->data, j->element);
    } else if (x->dtype != PL_STRING) {
        const double v = pl_attr_float(c->node, "value");
        pl_store_f64(x->dtype, &v, j->constant, 1);
    }
    return PL_OK;
}

static pl_status make_maps(pl_eval *c, const int64_t *pads, pad_mode mode, job *j) {
    const pl_tensor *x = pl_in(c, 0);
    for (int d = 0; d < j->rank; d++) {
        const int64_t begin = pads[d], end = pads[x->rank + d];
        const int64_t cropped = begin < 0 ? -begin : 0;
        const int64_t left = x->dims[d] - cropped - (end < 0 ? -end : 0);
        int64_t *map = pl_scratch(c, (size_t)j->dims[d], sizeof(*map));
        if (map == NULL) return pl_eval_memory(c);
        for (int64_t i = 0; i < j->dims[d]; i++) {
            /* Cropping more than the dim leaves only constants. */
            const int64_t from =
                left <= 0 ? -1 : source_of(mode, i - (begin > 0 ? begin : 0), left);
            map[i] = from < 0 ? -1 : from + cropped;
        }
        j->map[d] = map;
        j->strides[d] = x->strides[d] * (int64_t)j->element;
        if (d + 1 < j->rank) continue;
        j->run_begin = left <= 0 ? 0 : pl_i64_min(begin > 0 ? begin : 0, j->dims[d]);
        j->run_end = left <= 0 ? 0 : pl_i64_min(j->run_begin + left, j->dims[d]);
    }
    return PL_OK;
}

pl_status pl_pad_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    int64_t pads[2 * PL_RANK_MAX] = { 0 };
    PL_TRY(pads_read(c, pads));
    job j = { .rank = x->rank, .element = pl_dtype_bytes(x->dtype), .x = x->data, .y = y->data };
    j.block = (int64_t)j.element;
    pad_mode mode = PAD_CONSTANT;
    (void)mode_of(c->node, &mode);
    PL_TRY(read_constant(c, &j));
    while (j.rank > 1 && pads[j.rank - 1] == 0 && pads[x->rank + j.rank - 1] == 0) {
        j.block *= x->dims[--j.rank];
    }
    if (x->rank == 0) {
        memcpy(y->data, x->data, j.element);
        return pl_own_strings(c, y);
    }
    int64_t n_rows = 1;
    for (int d = 0; d < j.rank; d++) {
        j.dims[d] = y->dims[d];
        if (d + 1 < j.rank) n_rows *= y->dims[d];
    }
    PL_TRY(make_maps(c, pads, mode, &j));
    const int64_t row_bytes = j.dims[j.rank - 1] * j.block;
    pl_pool_for(c->pool, n_rows, pl_i64_max(1, 65536 / pl_i64_max(1, row_bytes)), pad_range, &j);
    return pl_own_strings(c, y);
}

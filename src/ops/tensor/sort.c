/* Operators that order elements: TopK and Unique.
 *
 * Numbers are compared through their sort keys (sort_key.h): NaN is largest and equal to itself, as
 * in NumPy. Equal elements keep their order. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/grad.h"
#include "ops/lib/content.h"
#include "ops/lib/float_io.h"
#include "ops/lib/move.h"
#include "ops/lib/sort_key.h"

extern const pl_op_def pl_ops_sort[];

/* ---- TopK ---- */

static pl_status top_k_count(pl_infer *c, pl_dim *out) {
    *out = PL_DIM_UNKNOWN;
    if (c->node->opset < 10) {
        *out = pl_dim_of(pl_attr_int(c->node, "k"));
        return out->value >= 0 ? PL_OK : pl_infer_fail(c, "k is %lld", (long long)out->value);
    }
    const pl_content *content = pl_content_of(c, 1);
    if (content == NULL || content->n != 1) {
        return c->concrete ? pl_infer_fail(c, "K is not a single number") : PL_OK;
    }
    if (content->known[0] && content->dims[0].value < 0) {
        return pl_infer_fail(c, "K is %lld", (long long)content->dims[0].value);
    }
    *out = content->dims[0];
    return PL_OK;
}

static pl_status top_k_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int axis = 0;
    pl_dim k, dims[PL_RANK_MAX];
    PL_TRY(top_k_count(c, &k));
    if (rank < 0) {
        PL_TRY(pl_infer_set_unranked(c, 0, dtype));
        return pl_infer_set_unranked(c, 1, PL_I64);
    }
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    if (pl_dim_known(k) && pl_dim_known(dims[axis]) && k.value > dims[axis].value) {
        return pl_infer_fail(c, "K is %lld, axis %d has %lld elements", (long long)k.value, axis,
                             (long long)dims[axis].value);
    }
    dims[axis] = k;
    PL_TRY(pl_infer_set(c, 0, dtype, rank, dims));
    return pl_infer_set(c, 1, PL_I64, rank, dims);
}

/* A heap with the worst entry on top; keys are such that larger is better. */
typedef pl_sort_entry entry;

typedef struct top_job {
    pl_dtype dtype;
    size_t size;
    const char *x;
    char *values;    /* NULL = not wanted */
    pl_i64 *indices; /* NULL = not wanted */
    int64_t n, k, inner;
    bool largest;
    int64_t grain;
    entry *heaps; /* k for each block of work */
} top_job;

enum { KEYS = 256 };

/* Keys of elements i to i+m-1 of the slice that begins at x. */
static void slice_keys(const top_job *j, const char *x, int64_t i, size_t m, uint64_t *keys) {
    if (j->inner == 1) {
        pl_sort_keys(j->dtype, x + (size_t)i * j->size, keys, m);
    } else {
        for (size_t k = 0; k < m; k++)
            pl_sort_keys(j->dtype, x + (size_t)((i + (int64_t)k) * j->inner) * j->size, &keys[k],
                         1);
    }
    for (size_t k = 0; !j->largest && k < m; k++)
        keys[k] = ~keys[k];
}

static void select_best(const top_job *j, const char *x, entry *heap) {
    uint64_t keys[KEYS];
    for (int64_t i = 0; i < j->n; i += KEYS) {
        const int64_t m = pl_i64_min(KEYS, j->n - i);
        slice_keys(j, x, i, (size_t)m, keys);
        for (int64_t s = 0; s < m; s++) {
            const entry e = { keys[s], i + s };
            if (e.at < j->k) {
                heap[e.at] = e;
                for (int64_t h = e.at == j->k - 1 ? j->k / 2 - 1 : -1; h >= 0; h--)
                    pl_sort_sift_down(heap, j->k, h);
            } else if (pl_sort_before(&heap[0], &e)) {
                heap[0] = e;
                pl_sort_sift_down(heap, j->k, 0);
            }
        }
    }
    for (int64_t n = j->k - 1; n > 0; n--) { /* moves the worst to the end, one by one */
        const entry worst = heap[0];
        heap[0] = heap[n];
        heap[n] = worst;
        pl_sort_sift_down(heap, n, 0);
    }
}

static void top_range(void *ctx, int64_t begin, int64_t end) {
    const top_job *j = ctx;
    entry *heap = j->heaps + begin / j->grain * j->k;
    for (int64_t s = begin; s < end; s++) {
        const int64_t outer = s / j->inner, in = s % j->inner;
        const char *x = j->x + (size_t)(outer * j->n * j->inner + in) * j->size;
        select_best(j, x, heap);
        for (int64_t i = 0; i < j->k; i++) {
            const int64_t to = (outer * j->k + i) * j->inner + in;
            if (j->indices != NULL) j->indices[to] = heap[i].at;
            if (j->values == NULL) continue;
            memcpy(j->values + (size_t)to * j->size, x + (size_t)(heap[i].at * j->inner) * j->size,
                   j->size);
        }
    }
}

/* sorted = 0 leaves the order undefined: sort anyway. */
static pl_status top_k_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *values = pl_out(c, 0), *indices = pl_out(c, 1);
    const pl_type *type = c->out_type[0];
    int64_t axis = pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    top_job j = { .dtype = x->dtype,
                  .size = pl_dtype_bytes(x->dtype),
                  .x = x->data,
                  .values = values == NULL ? NULL : values->data,
                  .indices = indices == NULL ? NULL : indices->data,
                  .n = x->dims[axis],
                  .k = type->dims[axis].value,
                  .inner = x->strides[axis],
                  .largest = c->node->opset < 11 || pl_attr_int(c->node, "largest") != 0 };
    if (x->n_elements == 0 || j.k == 0) return PL_OK;
    const int64_t n_slices = x->n_elements / j.n;
    /* At most 64 blocks, so that their heaps stay small. */
    j.grain = pl_i64_max(n_slices / 64 + 1, 4096 / j.n);
    const int64_t n_blocks = n_slices / j.grain + 1;
    j.heaps = pl_scratch(c, (size_t)n_blocks * (size_t)j.k, sizeof(entry));
    if (j.heaps == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, n_slices, j.grain, top_range, &j);
    return PL_OK;
}

/* ---- Unique ---- */

static pl_status unique_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_dim open = PL_DIM_UNKNOWN;
    pl_dim dims[PL_RANK_MAX] = { open }, whole = open;
    int axis = 0;
    if (!pl_attr_has(c->node, "axis")) {
        PL_TRY(pl_infer_set(c, 0, dtype, 1, &open));
        if (rank >= 0) PL_TRY(pl_dims_multiply(c, c->in[0]->dims, 0, rank, &whole));
    } else if (rank < 0) {
        PL_TRY(pl_infer_set_unranked(c, 0, dtype));
    } else {
        PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
        for (int d = 0; d < rank; d++)
            dims[d] = d == axis ? open : c->in[0]->dims[d];
        whole = c->in[0]->dims[axis];
        PL_TRY(pl_infer_set(c, 0, dtype, rank, dims));
    }
    PL_TRY(pl_infer_set(c, 1, PL_I64, 1, &open));
    PL_TRY(pl_infer_set(c, 2, PL_I64, 1, &whole));
    return pl_infer_set(c, 3, PL_I64, 1, &open);
}

/* Items are the elements, or the slices along the axis: element e of item i is at (e / inner * n +
 * i) * inner + e % inner. */
typedef struct items {
    const pl_tensor *x;
    int64_t n, inner, width; /* items; stride of the axis; elements of an item */
    const uint64_t *keys;    /* NULL: strings */
} items;

static int compare_strings(const pl_string *a, const pl_string *b) {
    const size_t n = pl_size_min(a->n_bytes, b->n_bytes);
    const int order = n == 0 ? 0 : memcmp(a->data, b->data, n);
    if (order != 0) return order;
    return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

static int compare(const items *s, int64_t a, int64_t b) {
    for (int64_t e = 0; e < s->width; e++) {
        const int64_t from = e / s->inner * s->n * s->inner + e % s->inner;
        const int64_t p = from + a * s->inner, q = from + b * s->inner;
        if (s->keys != NULL) {
            if (s->keys[p] != s->keys[q]) return s->keys[p] < s->keys[q] ? -1 : 1;
            continue;
        }
        const pl_string *strings = s->x->data;
        const int order = compare_strings(&strings[p], &strings[q]);
        if (order != 0) return order;
    }
    return 0;
}

/* Merge sort, stable, from short runs to long ones; `spare` is as long as `order`. */
static void sort_items(const items *s, int64_t *order, int64_t *spare) {
    int64_t *from = order, *to = spare;
    for (int64_t run = 1; run < s->n; run *= 2) {
        for (int64_t begin = 0; begin < s->n; begin += 2 * run) {
            const int64_t middle = pl_i64_min(begin + run, s->n);
            const int64_t end = pl_i64_min(begin + 2 * run, s->n);
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++) {
                const bool left = b >= end || (a < middle && compare(s, from[a], from[b]) <= 0);
                to[i] = left ? from[a++] : from[b++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order && s->n > 0) memcpy(order, from, (size_t)s->n * sizeof(*order));
}

typedef struct groups { /* groups of equal items */
    int64_t n;
    int64_t *first, *count; /* by group; first: the lowest item */
    int64_t *group;         /* by item */
} groups;

static bool groups_init(pl_eval *c, const items *s, groups *g) {
    const size_t n = (size_t)s->n;
    g->first = pl_scratch(c, n, sizeof(int64_t));
    g->count = pl_scratch(c, n, sizeof(int64_t));
    g->group = pl_scratch(c, n, sizeof(int64_t));
    return g->first != NULL && g->count != NULL && g->group != NULL;
}

/* order: the items sorted, ties by number. */
static void find_groups(const items *s, const int64_t *order, groups *g) {
    g->n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || compare(s, order[i - 1], order[i]) != 0) {
            g->count[g->n] = 0;
            g->first[g->n++] = order[i];
        }
        g->count[g->n - 1]++;
        g->group[order[i]] = g->n - 1;
    }
}

/* Renumbers the groups in the order of their first appearance. */
static void order_by_appearance(const items *s, groups *g, int64_t *number, int64_t *counts) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t old = g->group[i];
        if (g->first[old] == i) {
            number[old] = n;
            counts[n++] = g->count[old];
        }
        g->group[i] = number[old];
    }
    for (int64_t i = 0, k = 0; i < s->n; i++) {
        if (g->group[i] == k) g->first[k++] = i;
    }
    g->count = counts;
}

static pl_status write_ints(pl_eval *c, int output, const int64_t *list, int64_t n) {
    pl_tensor *t = NULL;
    if (!pl_wants(c, output)) return PL_OK;
    PL_TRY(pl_out_new(c, output, PL_I64, 1, &n, &t));
    if (n > 0) memcpy(t->data, list, (size_t)n * sizeof(*list));
    return PL_OK;
}

static pl_status write_values(pl_eval *c, const items *s, const groups *g, int axis, bool flat) {
    const pl_tensor *x = s->x;
    pl_tensor *y = NULL;
    int64_t dims[PL_RANK_MAX] = { g->n };
    if (!pl_wants(c, 0)) return PL_OK;
    for (int d = 0; !flat && d < x->rank; d++)
        dims[d] = d == axis ? g->n : x->dims[d];
    PL_TRY(pl_out_new(c, 0, x->dtype, flat ? 1 : x->rank, dims, &y));
    if (y->n_elements == 0) return PL_OK;
    const size_t size = pl_dtype_bytes(x->dtype), block = (size_t)s->inner * size;
    const int64_t n_outer = s->width / s->inner;
    for (int64_t o = 0; o < n_outer; o++) {
        for (int64_t k = 0; k < g->n; k++) {
            memcpy((char *)y->data + (size_t)(o * g->n + k) * block,
                   (const char *)x->data + (size_t)(o * s->n + g->first[k]) * block, block);
        }
    }
    return pl_own_strings(c, y);
}

static pl_status unique_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool flat = !pl_attr_has(c->node, "axis");
    int64_t axis = flat ? 0 : pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    items s = { .x = x, .n = flat ? x->n_elements : x->dims[axis], .inner = 1, .width = 1 };
    if (!flat && x->n_elements > 0) {
        s.inner = x->strides[axis];
        s.width = x->n_elements / s.n;
    } else if (!flat) { /* items without elements are all equal */
        s.width = 0;
    }
    const size_t n = (size_t)s.n;
    int64_t *order = pl_scratch(c, n, sizeof(*order)), *spare = pl_scratch(c, n, sizeof(*spare));
    groups g = { 0 };
    if (order == NULL || spare == NULL || !groups_init(c, &s, &g)) return pl_eval_memory(c);
    if (pl_dtype_class_of(x->dtype) == PL_CLASS_COMPLEX) return pl_eval_no_type(c, x->dtype);
    if (x->dtype != PL_STRING) {
        uint64_t *keys = pl_scratch(c, (size_t)x->n_elements, sizeof(*keys));
        if (keys == NULL) return pl_eval_memory(c);
        pl_sort_keys(x->dtype, x->data, keys, (size_t)x->n_elements);
        s.keys = keys;
    }
    for (int64_t i = 0; i < s.n; i++)
        order[i] = i;
    sort_items(&s, order, spare);
    find_groups(&s, order, &g);
    if (pl_attr_int(c->node, "sorted") == 0) order_by_appearance(&s, &g, order, spare);
    PL_TRY(write_values(c, &s, &g, (int)axis, flat));
    PL_TRY(write_ints(c, 1, g.first, g.n));
    PL_TRY(write_ints(c, 2, g.group, s.n));
    return write_ints(c, 3, g.count, g.n);
}

/* ---- error bounds ---- */

typedef struct top_slice { /* one slice of the input and its results */
    const double *x, *e, *values;
    int64_t n, k, step;
} top_slice;

/* The k-th largest value changes by at most the largest error of any element. An index is uncertain
 * where its value is that close to a neighbour in the order. */
static void top_bounds(const top_slice *s, double *values, double *indices) {
    double most = 0;
    for (int64_t i = 0; i < s->n; i++)
        most = fmax(most, s->e[i * s->step]);
    for (int64_t i = 0; values != NULL && i < s->k; i++)
        values[i * s->step] = most;
    if (indices == NULL || s->k == 0 || most == 0) return;
    /* Is there an element outside the k that is as good as the last one? */
    const double last = s->values[(s->k - 1) * s->step];
    int64_t n_near = 0, n_near_taken = 0;
    for (int64_t i = 0; i < s->n; i++)
        n_near += fabs(s->x[i * s->step] - last) <= 16 * most;
    for (int64_t i = 0; i < s->k; i++)
        n_near_taken += fabs(s->values[i * s->step] - last) <= 16 * most;
    const bool left_out = n_near > n_near_taken;
    for (int64_t i = 0; i < s->k; i++) {
        const double v = s->values[i * s->step];
        const bool before = i > 0 && fabs(s->values[(i - 1) * s->step] - v) <= 16 * most;
        const bool after =
            i + 1 < s->k ? fabs(s->values[(i + 1) * s->step] - v) <= 16 * most : left_out;
        if (before || after) indices[i * s->step] = (double)s->n;
    }
}

static pl_status top_k_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const pl_tensor *shaped = pl_b_out(c, 0) != NULL ? pl_b_out(c, 0) : pl_b_out(c, 1);
    double *values = NULL, *indices = NULL;
    if (c->e_in[0] == NULL || shaped == NULL || shaped->n_elements == 0) return PL_OK;
    int64_t axis = pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    const pl_axis_view v = pl_axis_view_of(x, (int)axis, (int)axis + 1);
    const int64_t k = shaped->dims[axis];
    PL_TRY(pl_b_new(c, 0, &values));
    PL_TRY(pl_b_new(c, 1, &indices));
    const double *data = pl_b_x(c, 0), *e = pl_b_e(c, 0), *y = pl_b_y(c, 0);
    if (data == NULL) return pl_fail_memory(c->err, 1);
    if (y == NULL) { /* indices only: no values to compare neighbours by */
        for (int64_t i = 0; indices != NULL && i < shaped->n_elements; i++)
            indices[i] = (double)v.n;
        return PL_OK;
    }
    for (int64_t s = 0; s < v.outer * v.inner; s++) {
        const int64_t from = s / v.inner * v.n * v.inner + s % v.inner;
        const int64_t to = s / v.inner * k * v.inner + s % v.inner;
        const top_slice slice = {
            .x = data + from, .e = e + from, .values = y + to, .n = v.n, .k = k, .step = v.inner
        };
        top_bounds(&slice, values == NULL ? NULL : values + to,
                   indices == NULL ? NULL : indices + to);
    }
    return PL_OK;
}

/* Inexact elements may be equal or not, which can change everything else. */
static pl_status unique_bound(pl_bound *c) {
    for (int i = 0; i < c->n_out && pl_b_any_error(c); i++) {
        const pl_tensor *y = pl_b_out(c, i);
        double *e = NULL;
        if (y == NULL || y->dtype == PL_STRING) continue;
        PL_TRY(pl_b_new(c, i, &e));
        for (int64_t k = 0; k < y->n_elements; k++)
            e[k] = HUGE_VAL;
    }
    return PL_OK;
}

/* ---- gradient ---- */

/* Scatters dy back to the selected elements. Without an indices output, TopK runs again. */
static pl_status top_k_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *indices = node->n_out > 1 ? node->out[1] : NULL;
    if (c->dy[0] == NULL) return PL_OK;
    if (indices == NULL) {
        pl_value *out[2] = { PL_G_WANTED, PL_G_WANTED };
        PL_TRY(pl_g_ops(c, "TopK", "", node->in, node->n_in, node->attrs, node->n_attrs, out, 2));
        indices = out[1];
    }
    const int rank = pl_g_rank(c, node->in[0]);
    int64_t axis = pl_attr_int(node, "axis");
    if (axis < 0) axis += rank;
    pl_value *const in[3] = { pl_g_zeros_like(c, node->in[0]), indices, c->dy[0] };
    c->dx[0] = pl_g_op(c, pl_g_opset(c) < 11 ? "Scatter" : "ScatterElements", in, 3,
                       &PL_G_INT("axis", axis), 1);
    return c->st;
}

/* ---- rows ---- */

#define TOP_K                                                                                      \
    .name = "TopK", .nan = PL_NAN_ANY,                                                             \
    .out = PL_PORTS({ "Values", PL_T_NUMERIC, 0 }, { "Indices", PL_T_I64, PL_PORT_OPTIONAL }),     \
    .infer = top_k_infer, .eval = top_k_eval, .grad = top_k_grad, .bound = top_k_bound,            \
    PL_EMIT_BREAK("sorts"), .autocast = PL_AMP_KEEP
#define TOP_K_IN .in = PL_PORTS({ "X", PL_T_NUMERIC, 0 }, { "K", PL_T_I64, PL_PORT_COUNT })

/* clang-format off */
const pl_op_def pl_ops_sort[] = {
    { TOP_K, .flags = PL_OP_PICKS, .since = 1, .until = 9, .in = PL_PORTS({ "X", PL_T_NUMERIC, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("axis", -1), PL_A_REQUIRED("k", INT)),
      .samples = PL_SAMPLES({ "(float[2,5] x) => (y, i) { y, i = TopK<k=3>(x) }", NULL, 0 }) },
    { TOP_K, .flags = PL_OP_PICKS, .since = 10, .until = 10, TOP_K_IN, .attrs = PL_ATTRS(PL_A_INT("axis", -1)),
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y, i) <int64[1] k = {2}> { y, i = TopK<axis=0>(x, k) }", NULL, 0 }) },
    { TOP_K, .flags = PL_OP_PICKS | PL_OP_ANY_ORDER, .since = 11, TOP_K_IN,
      .attrs = PL_ATTRS(PL_A_INT("axis", -1), PL_A_INT("largest", 1), PL_A_INT("sorted", 1)),
      .samples = PL_SAMPLES(
          { "(float[2,5] x) => (y, i) <int64[1] k = {3}> { y, i = TopK(x, k) }", NULL, 0 },
          { "(float[5,2] x) => (y) <int64[1] k = {3}> { y = TopK<axis=0>(x, k) }", NULL, 0 },
          { "(float[2,5] x) => (y, i) <int64[1] k = {2}> { y, i = TopK<largest=0, sorted=0>(x, k) }", NULL, 0 }) },
    { .name = "Unique", .since = 11, .flags = PL_OP_OWN_OUT | PL_OP_SHAPE,
      .in = PL_PORTS({ "X", PL_T_ANY, 0 }),
      .out = PL_PORTS({ "Y", PL_T_ANY, 0 }, { "indices", PL_T_I64, PL_PORT_OPTIONAL },
                      { "inverse_indices", PL_T_I64, PL_PORT_OPTIONAL }, { "counts", PL_T_I64, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_INT("sorted", 1)),
      .infer = unique_infer, .eval = unique_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = unique_bound, PL_EMIT_BREAK("its shape depends on data"), .autocast = PL_AMP_KEEP, .nan = PL_NAN_ANY,
      .samples = PL_SAMPLES(
          { "(int64[8] x) => (y, i, v, n) { y, i, v, n = Unique(x) }", "x=0:4", PL_SAMPLE_NO_GRAD },
          { "(int64[6,2] x) => (y) { y = Unique<axis=0, sorted=0>(x) }", "x=0:1", PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

/* com.microsoft quantised pools and means: QLinearAveragePool, NhwcMaxPool,
 * QLinearGlobalAveragePool, QLinearReduceMean. Layouts with channels last are transposed, pooled,
 * and transposed back. */
#include <string.h>

#include "ops/lib/move.h"
#include "ops/lib/pool_window.h"
#include "ops/quant/qlinear.h"
#include "ops/quant/qlinear_rules.h"

/* ---- windows ---- */

/* Spatial dim d of a tensor of this rank. */
static int axis_of(bool channels_last, int d) {
    return d + (channels_last ? 1 : 2);
}

static pl_status infer_windows(pl_infer *c, bool channels_last) {
    int n = 0;
    pl_window w = { 0 };
    pl_dim out[PL_RANK_MAX] = { { 0, NULL } };
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    PL_TRY(pl_window_rank(c, 0, &n));
    if (n < 0) return pl_infer_set_unranked(c, 0, dtype);
    PL_TRY(pl_window_read(c->node, n, &w, c->err));
    if (!w.has_kernel) return pl_infer_fail(c, "kernel_shape is missing");
    for (int d = 0; d < n + 2; d++)
        out[d] = pl_infer_dim(c, 0, d);
    for (int d = 0; d < n; d++) {
        pl_dim *slot = &out[axis_of(channels_last, d)];
        PL_TRY(pl_window_dim(c->node, &w, d, *slot, slot, c->err));
    }
    return pl_infer_set(c, 0, dtype, n + 2, out);
}

static pl_status place_windows(const pl_eval *c, const pl_tensor *x, bool channels_last,
                               pl_window *w) {
    PL_TRY(pl_window_read(c->node, x->rank - 2, w, c->err));
    for (int d = 0; d < w->n; d++) {
        PL_TRY(pl_window_place(c->node, w, d, x->dims[axis_of(channels_last, d)], c->err));
    }
    return PL_OK;
}

/* (N, rows, columns) to (N, columns, rows): elements of `size` bytes. */
static void swap_inner(pl_pool *pool, size_t size, const void *from, void *to, int64_t n,
                       int64_t rows, int64_t columns) {
    const pl_move m = { .rank = 3,
                        .dims = { n, columns, rows },
                        .from = { rows * columns, 1, columns },
                        .to = { rows * columns, rows, 1 } };
    pl_move_run(pool, &m, size, from, to);
}

pl_status pl_qlinear_pool_infer(pl_infer *c) {
    PL_TRY(pl_qparam_check(c, 0, 1, 2));
    PL_TRY(pl_qparam_check(c, 0, 3, 4));
    return infer_windows(c, pl_attr_int(c->node, "channels_last") != 0);
}

pl_status pl_nhwc_max_pool_infer(pl_infer *c) {
    return infer_windows(c, true);
}

/* Pools one layout; x is (N, C, spatial) bytes, y has the same layout in its own type. */
typedef pl_status (*pool_bytes_fn)(pl_eval *c, const pl_window *w, int64_t planes, const pl_u8 *x,
                                   void *y, int64_t n_x, int64_t n_y);

static pl_status pool_turned(pl_eval *c, bool channels_last, pool_bytes_fn fn) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_window w = { 0 };
    PL_TRY(place_windows(c, x, channels_last, &w));
    if (y->n_elements == 0) return PL_OK;
    if (x->n_elements == 0) return pl_eval_fail(c, "planes of the input have no elements");
    const int64_t batch = x->dims[0], channels = x->dims[channels_last ? x->rank - 1 : 1];
    if (!channels_last) {
        return fn(c, &w, batch * channels, x->data, y->data, x->n_elements, y->n_elements);
    }
    pl_u8 *turned = pl_scratch(c, (size_t)x->n_elements, 1);
    const size_t size = pl_dtype_bytes(y->dtype);
    void *out = pl_scratch(c, (size_t)y->n_elements, size);
    if (turned == NULL || out == NULL) return pl_eval_memory(c);
    swap_inner(c->pool, 1, x->data, turned, batch, x->n_elements / (batch * channels), channels);
    PL_TRY(fn(c, &w, batch * channels, turned, out, x->n_elements, y->n_elements));
    swap_inner(c->pool, size, out, y->data, batch, channels, y->n_elements / (batch * channels));
    return PL_OK;
}

static pl_status average_bytes(pl_eval *c, const pl_window *w, int64_t planes, const pl_u8 *x,
                               void *y, int64_t n_x, int64_t n_y) {
    const pl_dtype dtype = pl_in(c, 0)->dtype;
    const pl_qparam in = pl_qparam_of(c, 1, 2), out = pl_qparam_of(c, 3, 4);
    const pl_pool_rule rule = { .kind = PL_POOL_AVERAGE,
                                .count_include_pad =
                                    pl_attr_int(c->node, "count_include_pad") != 0 };
    double *fx = pl_scratch(c, (size_t)n_x, sizeof(*fx));
    double *fy = pl_scratch(c, (size_t)n_y, sizeof(*fy));
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    pl_load_f64(dtype, x, fx, (size_t)n_x);
    for (int64_t i = 0; i < n_x; i++)
        fx[i] -= in.zero; /* so padding is zero */
    pl_pool_any(c->pool, w, &rule, planes, fx, fy, NULL);
    const pl_quant_target target = pl_quant_target_of(pl_out(c, 0)->dtype, out.scale, out.zero);
    for (int64_t i = 0; i < n_y; i++)
        fy[i] = fy[i] * in.scale / out.scale;
    pl_quant_store_f64(&target, fy, y, (size_t)n_y);
    return PL_OK;
}

pl_status pl_qlinear_average_pool_eval(pl_eval *c) {
    return pool_turned(c, pl_attr_int(c->node, "channels_last") != 0, average_bytes);
}

static pl_status max_bytes(pl_eval *c, const pl_window *w, int64_t planes, const pl_u8 *x, void *y,
                           int64_t n_x, int64_t n_y) {
    const pl_pool_rule rule = { .kind = PL_POOL_MAX };
    const pl_dtype dtype = pl_in(c, 0)->dtype;
    double *fx = pl_scratch(c, (size_t)n_x, sizeof(*fx));
    double *fy = pl_scratch(c, (size_t)n_y, sizeof(*fy));
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    pl_load_f64(dtype, x, fx, (size_t)n_x);
    pl_pool_any(c->pool, w, &rule, planes, fx, fy, NULL);
    const pl_quant_target target = pl_quant_target_of(dtype, 1, 0); /* -inf: the lowest */
    pl_quant_store_f64(&target, fy, y, (size_t)n_y);
    return PL_OK;
}

pl_status pl_nhwc_max_pool_eval(pl_eval *c) {
    return pool_turned(c, true, max_bytes);
}

/* ---- means ---- */

pl_status pl_qlinear_global_pool_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    pl_dim out[PL_RANK_MAX] = { { 0, NULL } };
    PL_TRY(pl_qparam_check(c, 0, 1, 2));
    PL_TRY(pl_qparam_check(c, 0, 3, 4));
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    if (rank < 3) return pl_infer_fail(c, "the input has rank %d, expected 3 or more", rank);
    for (int d = 0; d < rank; d++) {
        const bool keeps = d == 0 || d == (last ? rank - 1 : 1);
        out[d] = keeps ? pl_infer_dim(c, 0, d) : pl_dim_of(1);
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, out);
}

/* y[k] = mean of x over the dims where step is 0. The sums are integers and exact. */
static pl_status means(pl_eval *c, const int64_t *step) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_qparam in = pl_qparam_of(c, 1, 2), out = pl_qparam_of(c, 3, 4);
    if (y->n_elements == 0) return PL_OK;
    if (x->n_elements == 0) return pl_eval_fail(c, "the mean of an empty set");
    int64_t *sums = pl_scratch(c, (size_t)y->n_elements, sizeof(*sums));
    double *v = pl_scratch(c, (size_t)y->n_elements, sizeof(*v));
    if (sums == NULL || v == NULL) return pl_eval_memory(c);
    memset(sums, 0, (size_t)y->n_elements * sizeof(*sums));
    int64_t index[PL_RANK_MAX] = { 0 }, to = 0;
    for (int64_t i = 0; i < x->n_elements; i++) {
        sums[to] += pl_tensor_get_i64(x, i);
        for (int d = x->rank - 1; d >= 0; d--) {
            to += step[d];
            if (++index[d] < x->dims[d]) break;
            to -= step[d] * x->dims[d];
            index[d] = 0;
        }
    }
    const int64_t each = x->n_elements / y->n_elements;
    const double n = (double)each;
    for (int64_t i = 0; i < y->n_elements; i++) {
        v[i] = ((double)sums[i] / n - in.zero) * in.scale / out.scale;
    }
    const pl_quant_target target = pl_quant_target_of(y->dtype, out.scale, out.zero);
    pl_quant_store_f64(&target, v, y->data, (size_t)y->n_elements);
    return PL_OK;
}

pl_status pl_qlinear_global_pool_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const int channel = pl_attr_int(c->node, "channels_last") != 0 ? x->rank - 1 : 1;
    int64_t step[PL_RANK_MAX] = { 0 };
    step[0] = x->dims[channel];
    step[channel] = 1;
    return means(c, step);
}

static pl_status read_axes(const pl_node *node, int rank, bool *reduced, pl_err *err) {
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(node, "axes", &n);
    for (int d = 0; d < rank; d++)
        reduced[d] = n == 0;
    for (size_t i = 0; i < n; i++) {
        if (axes[i] < -rank || axes[i] >= rank) {
            return pl_node_fail(err, PL_E_INVALID, node, "axes[%zu] is %lld, expected %d to %d", i,
                                (long long)axes[i], -rank, rank - 1);
        }
        reduced[axes[i] < 0 ? axes[i] + rank : axes[i]] = true;
    }
    return PL_OK;
}

pl_status pl_qlinear_reduce_mean_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    bool reduced[PL_RANK_MAX] = { false };
    pl_dim out[PL_RANK_MAX] = { { 0, NULL } };
    int n = 0;
    PL_TRY(pl_qparam_check(c, 0, 1, 2));
    PL_TRY(pl_qparam_check(c, 0, 3, 4));
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    PL_TRY(read_axes(c->node, rank, reduced, c->err));
    for (int d = 0; d < rank; d++) {
        if (!reduced[d]) out[n++] = pl_infer_dim(c, 0, d);
        if (reduced[d] && pl_attr_int(c->node, "keepdims") != 0) out[n++] = pl_dim_of(1);
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), n, out);
}

pl_status pl_qlinear_reduce_mean_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    bool reduced[PL_RANK_MAX] = { false };
    int64_t step[PL_RANK_MAX] = { 0 }, size = 1;
    PL_TRY(read_axes(c->node, x->rank, reduced, c->err));
    if (pl_out(c, 0)->n_elements == 0) return PL_OK;
    for (int d = x->rank - 1; d >= 0; d--) {
        if (reduced[d]) continue;
        step[d] = size;
        size *= x->dims[d];
    }
    return means(c, step);
}

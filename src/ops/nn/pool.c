/* Pooling: maximum, average and Lp norm, over windows and over whole planes; MaxUnpool. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/vmath.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/compute.h"
#include "ops/lib/pool_window.h"
#include "ops/nn/pool_rules.h"

extern const pl_op_def pl_ops_pool[];

/* ---- shapes ---- */

static pl_status pool_infer(pl_infer *c) {
    int n = 0;
    pl_window w = { 0 };
    pl_dim out[PL_RANK_MAX];
    PL_TRY(pl_window_rank(c, 0, &n));
    if (n < 0) {
        PL_TRY(pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0)));
        return pl_infer_set_unranked(c, 1, PL_I64);
    }
    PL_TRY(pl_window_read(c->node, n, &w, c->err));
    if (!w.has_kernel) return pl_infer_fail(c, "kernel_shape is missing");
    for (int d = 0; d < n; d++) {
        PL_TRY(pl_window_dim(c->node, &w, d, pl_infer_dim(c, 0, d + 2), &out[d + 2], c->err));
    }
    out[0] = pl_infer_dim(c, 0, 0);
    out[1] = pl_infer_dim(c, 0, 1);
    PL_TRY(pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), n + 2, out));
    return pl_infer_set(c, 1, PL_I64, n + 2, out);
}

static pl_status global_pool_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dim out[PL_RANK_MAX];
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    if (rank < 2) return pl_infer_fail(c, "the input has rank %d, expected 2 or more", rank);
    for (int d = 0; d < rank; d++)
        out[d] = d < 2 ? pl_infer_dim(c, 0, d) : pl_dim_of(1);
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, out);
}

/* ---- windows ---- */

/* In double: for more than three spatial dims, LpPool, and types without a kernel. */
static pl_status pool_general(pl_eval *c, const pl_window *w, const pl_pool_rule *rule) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0), *indices = pl_out(c, 1);
    const pl_tensor *like = y != NULL ? y : indices;
    const pl_f64 *fx = pl_in_f64(c, 0);
    double *fy = pl_scratch(c, (size_t)like->n_elements, sizeof(*fy));
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    pl_pool_any(c->pool, w, rule, x->dims[0] * x->dims[1], fx, fy,
                indices == NULL ? NULL : indices->data);
    if (y != NULL) pl_store_f64(y->dtype, fy, y->data, (size_t)y->n_elements);
    return PL_OK;
}

static pl_status max_pool_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0), *indices = pl_out(c, 1);
    const pl_pool_rule rule = { .kind = PL_POOL_MAX,
                                .column_major = pl_attr_int(c->node, "storage_order") != 0 };
    pl_window w = { 0 };
    PL_TRY(pl_pool_window(c, x, &w));
    if ((y != NULL ? y : indices)->n_elements == 0) return PL_OK;
    if (w.n > 3 || x->n_elements == 0 || y == NULL) return pool_general(c, &w, &rule);
    const pl_pooling_shape s = pl_pooling_shape_of(&w, x);
    pl_i64 *at = indices == NULL ? NULL : indices->data;
    switch ((int)x->dtype) {
    case PL_F64:
        return pl_max_pool_f64(c->pool, &s, x->data, y->data, at, rule.column_major, c->err);
    case PL_I8: return pl_max_pool_i8(c->pool, &s, x->data, y->data, at, rule.column_major, c->err);
    case PL_U8: return pl_max_pool_u8(c->pool, &s, x->data, y->data, at, rule.column_major, c->err);
    default: break;
    }
    const pl_f32 *fx = pl_compute_in_f32(c, 0, NULL);
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    PL_TRY(pl_max_pool_f32(c->pool, &s, fx, fy, at, rule.column_major, c->err));
    pl_compute_store(c, y, fy);
    return PL_OK;
}

/* One float accumulator, in index order (pl_eval.naive). */
static pl_status average_naive(pl_eval *c, const pl_window *w, bool count_pad) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_f32 *fx = pl_compute_in_f32(c, 0, NULL);
    pl_f32 *fy = pl_compute_out_f32(c, y);
    const int64_t cells = pl_window_cells(w), n = x->n_elements / (x->dims[0] * x->dims[1]);
    int64_t cell[PL_RANK_MAX] = { 0 };
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < y->n_elements; i++) {
        int64_t tap[PL_RANK_MAX] = { 0 }, at = 0, inside = 0, counted = 1;
        float sum = 0;
        for (int d = 0; d < w->n; d++) { /* ceil_mode: cells beyond the padding do not count */
            int64_t first = 0, last = 0;
            pl_window_taps_in(w, d, cell[d], -w->pad_begin[d], w->in[d] + w->pad_end[d], &first,
                              &last);
            counted *= last - first;
        }
        do {
            if (!pl_window_at(w, cell, tap, &at)) continue;
            sum += fx[i / cells * n + at];
            inside++;
        } while (pl_window_next(w->n, w->kernel, tap));
        fy[i] = sum / (float)(count_pad ? counted : inside);
        (void)pl_window_next(w->n, w->out, cell);
        if ((i + 1) % cells == 0) memset(cell, 0, sizeof(cell));
    }
    pl_compute_store(c, y, fy);
    return PL_OK;
}

static pl_status average_pool_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_pool_rule rule = { .kind = PL_POOL_AVERAGE,
                                .count_include_pad =
                                    pl_attr_int(c->node, "count_include_pad") != 0 };
    pl_window w = { 0 };
    PL_TRY(pl_pool_window(c, x, &w));
    if (y->n_elements == 0) return PL_OK;
    if (w.n > 3 || x->n_elements == 0) return pool_general(c, &w, &rule);
    if (c->naive && y->dtype != PL_F64) return average_naive(c, &w, rule.count_include_pad);
    const pl_pooling_shape s = pl_pooling_shape_of(&w, x);
    if (y->dtype == PL_F64) {
        return pl_average_pool_f64(c->pool, &s, x->data, y->data, rule.count_include_pad, c->err);
    }
    const pl_f32 *fx = pl_compute_in_f32(c, 0, NULL);
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fx == NULL || fy == NULL) return pl_eval_memory(c);
    PL_TRY(pl_average_pool_f32(c->pool, &s, fx, fy, rule.count_include_pad, c->err));
    pl_compute_store(c, y, fy);
    return PL_OK;
}

/* LpPool-1 and GlobalLpPool-1 had a float p, later versions an integer. */
static double p_of(const pl_node *node) {
    return node->def->until == 1 ? pl_attr_float(node, "p") : (double)pl_attr_int(node, "p");
}

static pl_status check_p(const pl_infer *c) {
    const double p = p_of(c->node);
    return p > 0 ? PL_OK : pl_infer_fail(c, "p is %g, expected more than 0", p);
}

static pl_status lp_pool_infer(pl_infer *c) {
    PL_TRY(check_p(c));
    return pool_infer(c);
}

static pl_status lp_pool_eval(pl_eval *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_LP, .p = p_of(c->node) };
    pl_window w = { 0 };
    PL_TRY(pl_pool_window(c, pl_in(c, 0), &w));
    if (pl_out(c, 0)->n_elements == 0) return PL_OK;
    return pool_general(c, &w, &rule);
}

/* ---- whole planes ---- */

typedef struct global_job {
    const pl_pool_rule *rule;
    const pl_tensor *x;
    pl_tensor *y;
    int64_t n; /* elements of a plane */
    bool naive;
} global_job;

enum { BLOCK = 1024 };

static double reduce_block(const pl_pool_rule *rule, const double *v, size_t n) {
    const pl_vmath_f64 *m = &pl_vmath_get()->f64;
    if (rule->kind == PL_POOL_MAX) return m->reduce_max(v, n);
    if (rule->kind == PL_POOL_AVERAGE) return m->sum(v, n);
    if (rule->p == 1) return m->sum_abs(v, n);
    if (rule->p == 2) return m->sum_sq(v, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow(fabs(v[i]), rule->p);
    return sum;
}

/* One accumulator of the type itself, in index order. */
static double chain_plane(const global_job *j, const char *x) {
    const size_t bytes = pl_dtype_bytes(j->x->dtype);
    float sum = 0;
    for (int64_t i = 0; i < j->n; i++) {
        float v = 0;
        pl_load_f32(j->x->dtype, x + (size_t)i * bytes, &v, 1);
        sum += v;
    }
    return (double)sum;
}

static double reduce_plane(const global_job *j, const char *x) {
    const pl_vmath_f32 *m = &pl_vmath_get()->f32;
    if (j->naive && j->rule->kind == PL_POOL_AVERAGE && j->x->dtype != PL_F64)
        return chain_plane(j, x);
    if (j->x->dtype == PL_F32 && j->rule->kind == PL_POOL_AVERAGE) {
        return m->sum((const pl_f32 *)x, (size_t)j->n);
    }
    if (j->x->dtype == PL_F32 && j->rule->kind == PL_POOL_MAX) {
        return (double)m->reduce_max((const pl_f32 *)x, (size_t)j->n);
    }
    const size_t bytes = pl_dtype_bytes(j->x->dtype);
    double v[BLOCK], sum = j->rule->kind == PL_POOL_MAX ? -HUGE_VAL : 0;
    for (int64_t at = 0; at < j->n; at += BLOCK) {
        const size_t n = (size_t)pl_i64_min(j->n - at, BLOCK);
        pl_load_f64(j->x->dtype, x + (size_t)at * bytes, v, n);
        const double part = reduce_block(j->rule, v, n);
        if (j->rule->kind != PL_POOL_MAX) {
            sum += part;
        } else if (part > sum || isnan(part)) {
            sum = part;
        }
    }
    return sum;
}

static void global_planes(void *ctx, int64_t begin, int64_t end) {
    const global_job *j = ctx;
    for (int64_t p = begin; p < end; p++) {
        const char *x = (const char *)j->x->data + (size_t)(p * j->n) * pl_dtype_bytes(j->x->dtype);
        double v = reduce_plane(j, x);
        if (j->rule->kind == PL_POOL_AVERAGE) v /= (double)j->n;
        if (j->rule->kind == PL_POOL_LP && j->rule->p != 1) {
            v = j->rule->p == 2 ? sqrt(v) : pow(v, 1 / j->rule->p);
        }
        pl_store_f64(j->y->dtype, &v, (char *)j->y->data + (size_t)p * pl_dtype_bytes(j->y->dtype),
                     1);
    }
}

static pl_status global_eval(pl_eval *c, const pl_pool_rule *rule) {
    global_job job = { rule, pl_in(c, 0), pl_out(c, 0), 0, c->naive };
    if (job.y->n_elements == 0) return PL_OK;
    job.n = job.x->n_elements / job.y->n_elements;
    if (job.n == 0) return pl_eval_fail(c, "planes of the input have no elements");
    pl_pool_for(c->pool, job.y->n_elements, pl_i64_max(1, 16384 / job.n), global_planes, &job);
    return PL_OK;
}

static pl_status global_average_eval(pl_eval *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_AVERAGE };
    return global_eval(c, &rule);
}

static pl_status global_max_eval(pl_eval *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_MAX };
    return global_eval(c, &rule);
}

static pl_status global_lp_infer(pl_infer *c) {
    PL_TRY(check_p(c));
    return global_pool_infer(c);
}

static pl_status global_lp_eval(pl_eval *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_LP, .p = p_of(c->node) };
    return global_eval(c, &rule);
}

/* ---- MaxUnpool ---- */

/* Size of the input of the original MaxPool, when output_shape is not given. */
static pl_status unpooled(const pl_node *node, const pl_window *w, int d, int64_t in, int64_t *out,
                          pl_err *err) {
    int64_t size = 0;
    if (!pl_i64_mul(in - 1, w->stride[d], &size) || !pl_i64_add(size, w->kernel[d], &size) ||
        (size -= w->pad_begin[d] + w->pad_end[d]) < 0) {
        return pl_node_fail(err, PL_E_INVALID, node, "spatial dim %d of the output would be %lld",
                            d, (long long)size);
    }
    *out = size;
    return PL_OK;
}

static pl_status unpool_given_shape(pl_infer *c, int rank) {
    size_t n = 0;
    pl_dim out[PL_RANK_MAX] = { { 0, NULL } };
    const int64_t *shape = pl_infer_ints(c, 2, &n);
    if (shape == NULL) return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), -1, NULL);
    if (n != (size_t)rank) {
        return pl_infer_fail(c, "output_shape has %zu elements, expected %d", n, rank);
    }
    for (int d = 0; d < rank; d++) {
        const pl_dim in = pl_infer_dim(c, 0, d);
        if (shape[d] < 0 || (d < 2 && pl_dim_known(in) && in.value != shape[d])) {
            return pl_infer_fail(c, "output_shape[%d] is %lld", d, (long long)shape[d]);
        }
        out[d] = pl_dim_of(shape[d]);
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, out);
}

static pl_status max_unpool_infer(pl_infer *c) {
    int n = 0;
    pl_window w = { 0 };
    pl_dim out[PL_RANK_MAX] = { { 0, NULL } };
    PL_TRY(pl_window_rank(c, 0, &n));
    if (n < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    if (pl_infer_rank(c, 1) >= 0 && pl_infer_rank(c, 1) != n + 2) {
        return pl_infer_fail(c, "X and I have different ranks");
    }
    PL_TRY(pl_window_read(c->node, n, &w, c->err));
    for (int d = 0; d < n + 2; d++) {
        const pl_dim x = pl_infer_dim(c, 0, d), i = pl_infer_dim(c, 1, d);
        if (pl_dim_known(x) && pl_dim_known(i) && x.value != i.value) {
            return pl_infer_fail(c, "dim %d of X is %lld, of I %lld", d, (long long)x.value,
                                 (long long)i.value);
        }
        out[d] = d < 2 ? x : PL_DIM_UNKNOWN;
        int64_t size = 0;
        if (d < 2 || !pl_dim_known(x)) continue;
        PL_TRY(unpooled(c->node, &w, d - 2, x.value, &size, c->err));
        out[d] = pl_dim_of(size);
    }
    if (pl_infer_has(c, 2)) return unpool_given_shape(c, n + 2);
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), n + 2, out);
}

/* Indices refer to the input of the original MaxPool; a larger output_shape adds cells at the end
 * (see the MaxUnpool-9 test with output_shape). */
static pl_status max_unpool_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *at = pl_in(c, 1);
    pl_tensor *y = pl_out(c, 0);
    const size_t bytes = pl_dtype_bytes(x->dtype);
    pl_window w = { 0 };
    int64_t own[PL_RANK_MAX] = { 0 }, total = 0;
    PL_TRY(pl_window_read(c->node, x->rank - 2, &w, c->err));
    for (int d = 0; d < x->rank; d++) {
        own[d] = x->dims[d];
        if (d >= 2) PL_TRY(unpooled(c->node, &w, d - 2, x->dims[d], &own[d], c->err));
    }
    if (!pl_dims_product(x->rank, own, &total)) return pl_eval_fail(c, "the output is too large");
    memset(y->data, 0, pl_tensor_bytes(y));
    for (int64_t i = 0; i < x->n_elements; i++) {
        int64_t index = pl_tensor_get_i64(at, i), to = 0, step = 1;
        if (index < 0 || index >= total) {
            return pl_eval_fail(c, "index %lld is outside an output of %lld elements",
                                (long long)index, (long long)total);
        }
        bool inside = true;
        for (int d = x->rank - 1; d >= 0; d--) {
            const int64_t size = pl_i64_max(1, own[d]), digit = index % size;
            index /= size;
            if (digit >= y->dims[d]) inside = false;
            to += digit * step;
            step *= y->dims[d];
        }
        if (!inside) return pl_eval_fail(c, "output_shape cuts off an element of X");
        memcpy((char *)y->data + (size_t)to * bytes, (const char *)x->data + (size_t)i * bytes,
               bytes);
    }
    return PL_OK;
}

/* ---- bounds ---- */

/* u c(K) times the same average of absolute values; inherited errors of a mean add in quadrature.
 * counts: the number of elements averaged, one for each cell of a plane, or the same for all. */
static pl_status average_rule(pl_bound *c, double longest, const double *counts, int64_t cells) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *py = pl_b_y(c, 0), factor = c->u_acc * pl_b_chain(longest);
    pl_tensor *x[1] = { NULL }, *s = NULL, *inherited = NULL;
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (py == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_map(c, pl_b_in(c, 0), pl_b_abs, &x[0]));
    pl_status st = pl_b_apply(c, x, c->u > 0x1p-40 ? PL_F32 : PL_F64, 0, &s);
    pl_tensor_unref(x[0]);
    x[0] = NULL;
    if (st == PL_OK && c->e_in[0] != NULL) st = pl_b_map(c, c->e_in[0], pl_b_square, &x[0]);
    if (st == PL_OK && x[0] != NULL) st = pl_b_apply(c, x, PL_F64, 0, &inherited);
    for (int64_t i = 0; st == PL_OK && i < y->n_elements; i++) {
        e[i] = factor * ((const double *)s->data)[i] + pl_b_maths(c, PL_MATHS_DIV, 1, py[i]);
        if (inherited == NULL) continue;
        const double n = counts == NULL ? longest : counts[i % cells];
        e[i] += sqrt(((const double *)inherited->data)[i] / fmax(n, 1));
    }
    if (st == PL_OK) pl_b_add_stored(c, py, e, y->n_elements);
    pl_tensor_unref(x[0]);
    pl_tensor_unref(s);
    pl_tensor_unref(inherited);
    return st;
}

static pl_status average_pool_bound(pl_bound *c) {
    const pl_eval eval = { .node = c->node, .n_in = c->n_in, .in = c->in, .err = c->err };
    const pl_tensor *x = pl_b_in(c, 0);
    pl_window w = { 0 };
    PL_TRY(pl_pool_window(&eval, x, &w));
    const int64_t cells = pl_window_cells(&w);
    double *counts = pl_arena_array(c->scratch, (size_t)cells, sizeof(*counts));
    int64_t cell[PL_RANK_MAX] = { 0 };
    if (counts == NULL) return pl_fail_memory(c->err, (size_t)cells);
    for (int64_t i = 0; i < cells; i++) {
        counts[i] = 1;
        for (int d = 0; d < w.n; d++) {
            int64_t first = 0, last = 0;
            pl_window_taps_in(&w, d, cell[d], 0, w.in[d], &first, &last);
            counts[i] *= (double)(last - first);
        }
        (void)pl_window_next(w.n, w.out, cell);
    }
    return average_rule(c, (double)pl_window_taps(&w), counts, cells);
}

static pl_status global_average_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    if (y == NULL || y->n_elements == 0) return pl_b_move(c);
    const int64_t n = x->n_elements / y->n_elements;
    return average_rule(c, (double)n, NULL, 1);
}

/* A norm changes by at most the norm of the errors. Its own rounding is that of the sum of powers,
 * divided by p because of the root. */
static pl_status lp_rule(pl_bound *c, double longest) {
    const double p = p_of(c->node);
    const double *py = pl_b_y(c, 0);
    const pl_tensor *y = pl_b_out(c, 0);
    pl_tensor *x[1] = { c->e_in[0] }, *inherited = NULL;
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (py == NULL) return pl_fail_memory(c->err, 1);
    if (x[0] != NULL) PL_TRY(pl_b_apply(c, x, PL_F64, 0, &inherited));
    const double own = c->u_acc * ((pl_b_chain(longest) + 2) / p + 2);
    for (int64_t i = 0; i < y->n_elements; i++) {
        e[i] = own * fabs(py[i]);
        if (inherited != NULL) e[i] += ((const double *)inherited->data)[i];
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    pl_tensor_unref(inherited);
    return PL_OK;
}

static pl_status lp_pool_bound(pl_bound *c) {
    const pl_eval eval = { .node = c->node, .n_in = c->n_in, .in = c->in, .err = c->err };
    pl_window w = { 0 };
    PL_TRY(pl_pool_window(&eval, pl_b_in(c, 0), &w));
    return lp_rule(c, (double)pl_window_taps(&w));
}

static pl_status global_lp_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    const int64_t n = y == NULL || y->n_elements == 0 ? 1 : x->n_elements / y->n_elements;
    return lp_rule(c, (double)n);
}

/* The maximum moves by at most the largest error in its window. If there is any error, another
 * element may be the maximum, so the index is unbounded. */
static pl_status max_pool_bound(pl_bound *c) {
    double *e = NULL;
    if (c->e_in[0] == NULL) return PL_OK;
    PL_TRY(pl_b_move(c));
    if (pl_b_out(c, 1) == NULL) return PL_OK;
    PL_TRY(pl_b_new(c, 1, &e));
    const double *of_y = c->e_out[0] == NULL ? NULL : c->e_out[0]->data;
    for (int64_t i = 0; i < c->e_out[1]->n_elements; i++)
        e[i] = of_y == NULL || of_y[i] > 0 ? HUGE_VAL : 0;
    return PL_OK;
}

/* ---- rows ---- */

#define WINDOW_ATTRS                                                                               \
    PL_A_STRING("auto_pad", "NOTSET"), PL_A_REQUIRED("kernel_shape", INTS),                        \
        PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)
#define NEWER_ATTRS PL_A_INT("ceil_mode", 0), PL_A_LIST("dilations", INTS)
#define T_MAX (PL_T_FLOAT | PL_T(PL_I8) | PL_T(PL_U8))
#define X_TO_Y(types) .in = PL_PORTS({ "X", types, 0 }), .out = PL_PORTS({ "Y", types, 0 })

/* clang-format off */
const pl_op_def pl_ops_pool[] = {
    { .name = "AveragePool", .since = 1, .until = 6, X_TO_Y(PL_T_FLOAT), .attrs = PL_ATTRS(WINDOW_ATTRS),
      .infer = pool_infer, .eval = average_pool_eval, .grad = pl_average_pool_grad, .bound = average_pool_bound, .emit = pl_emit_average_pool, .autocast = PL_AMP_KEEP, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[1,2,5] x) => (y) { y = AveragePool<kernel_shape=[2]>(x) }", NULL, 0 }) },
    { .name = "AveragePool", .since = 7, X_TO_Y(PL_T_FLOAT), .attrs = PL_ATTRS(WINDOW_ATTRS, NEWER_ATTRS, PL_A_INT("count_include_pad", 0)),
      .infer = pool_infer, .eval = average_pool_eval, .grad = pl_average_pool_grad, .bound = average_pool_bound, .emit = pl_emit_average_pool, .autocast = PL_AMP_KEEP, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[1,2,5,5] x) => (y) { y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], count_include_pad=1>(x) }", NULL, 0 },
                            { "(float[1,2,6] x) => (y) { y = AveragePool<kernel_shape=[2], strides=[4], ceil_mode=1>(x) }", NULL, 0 },
                            { "(float[1,2,6,5] x) => (y) { y = AveragePool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,2]>(x) }", NULL, 0 },
                            { "(float[1,1,4,4,3] x) => (y) { y = AveragePool<kernel_shape=[2,2,2], auto_pad=\"SAME_UPPER\">(x) }", NULL, 0 }) },
    { .name = "GlobalAveragePool", .since = 1, .flags = PL_OP_REDUCTION, X_TO_Y(PL_T_FLOAT), .infer = global_pool_infer, .eval = global_average_eval,
      .grad = pl_global_average_grad, .bound = global_average_bound, .emit = pl_emit_global_average_pool, .autocast = PL_AMP_KEEP, .samples = PL_SAMPLES({ "(float[2,3,4,5] x) => (y) { y = GlobalAveragePool(x) }", NULL, 0 }) },
    { .name = "GlobalLpPool", .since = 1, .until = 1, .flags = PL_OP_REDUCTION, X_TO_Y(PL_T_FLOAT), .attrs = PL_ATTRS(PL_A_FLOAT("p", 2)),
      .infer = global_lp_infer, .eval = global_lp_eval, .grad = pl_global_lp_grad, .bound = global_lp_bound, .emit = pl_emit_global_lp_pool, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = GlobalLpPool<p=3.0>(x) }", NULL, 0 }) },
    { .name = "GlobalLpPool", .since = 2, .flags = PL_OP_REDUCTION, X_TO_Y(PL_T_FLOAT), .attrs = PL_ATTRS(PL_A_INT("p", 2)),
      .infer = global_lp_infer, .eval = global_lp_eval, .grad = pl_global_lp_grad, .bound = global_lp_bound, .emit = pl_emit_global_lp_pool, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = GlobalLpPool(x) }", NULL, 0 }) },
    { .name = "GlobalMaxPool", .since = 1, .flags = PL_OP_REDUCTION, X_TO_Y(PL_T_FLOAT), .infer = global_pool_infer, .eval = global_max_eval,
      .grad = pl_global_max_grad, .bound = PL_BOUND_EXACT, .emit = pl_emit_global_max_pool, .autocast = PL_AMP_KEEP, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3,4,5] x) => (y) { y = GlobalMaxPool(x) }", NULL, 0 }) },
    { .name = "LpPool", .since = 1, .until = 1, X_TO_Y(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_STRING("auto_pad", "NOTSET"), PL_A_LIST("kernel_shape", INTS), PL_A_FLOAT("p", 2), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)),
      .infer = lp_pool_infer, .eval = lp_pool_eval, .grad = pl_lp_pool_grad, .bound = lp_pool_bound, .emit = pl_emit_lp_pool, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[1,2,5] x) => (y) { y = LpPool<kernel_shape=[2], p=2.0>(x) }", NULL, 0 }) },
    { .name = "LpPool", .since = 2, X_TO_Y(PL_T_FLOAT), .attrs = PL_ATTRS(WINDOW_ATTRS, NEWER_ATTRS, PL_A_INT("p", 2)),
      .infer = lp_pool_infer, .eval = lp_pool_eval, .grad = pl_lp_pool_grad, .bound = lp_pool_bound, .emit = pl_emit_lp_pool, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[1,2,5,5] x) => (y) { y = LpPool<kernel_shape=[3,2], pads=[1,0,1,0], p=3>(x) }", NULL, 0 }) },
    { .name = "MaxPool", .since = 1, .until = 7, X_TO_Y(T_MAX), .attrs = PL_ATTRS(WINDOW_ATTRS),
      .infer = pool_infer, .eval = max_pool_eval, .grad = pl_max_pool_grad, .bound = max_pool_bound, .emit = pl_emit_max_pool, .autocast = PL_AMP_KEEP, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[1,2,5] x) => (y) { y = MaxPool<kernel_shape=[2]>(x) }", NULL, 0 }) },
    { .name = "MaxPool", .since = 8, .in = PL_PORTS({ "X", T_MAX, 0 }), .out = PL_PORTS({ "Y", T_MAX, 0 }, { "Indices", PL_T_I64, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(WINDOW_ATTRS, NEWER_ATTRS, PL_A_INT("storage_order", 0)),
      .infer = pool_infer, .eval = max_pool_eval, .grad = pl_max_pool_grad, .bound = max_pool_bound, .emit = pl_emit_max_pool, .autocast = PL_AMP_KEEP, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[1,2,5,5] x) => (y) { y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], ceil_mode=1>(x) }", NULL, 0 },
                            { "(float[2,1,3,4,4] x) => (y) { y = MaxPool<kernel_shape=[2,2,3], strides=[1,1,1]>(x) }", NULL, 0 },
                            { "(float[1,2,7,7] x) => (y) { y = MaxPool<kernel_shape=[2,2], dilations=[2,3], strides=[1,2]>(x) }", NULL, 0 },
                            { "(float[1,2,5,5] x) => (y, i) { y, i = MaxPool<kernel_shape=[2,2], dilations=[2,1], storage_order=1>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(uint8[1,1,4,4] x) => (y) { y = MaxPool<kernel_shape=[2,2], auto_pad=\"SAME_UPPER\">(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "MaxUnpool", .since = 9, .in = PL_PORTS({ "X", PL_T_FLOAT, 0 }, { "I", PL_T_I64, 0 }, { "output_shape", PL_T_I64, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(PL_A_REQUIRED("kernel_shape", INTS), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)),
      .infer = max_unpool_infer, .eval = max_unpool_eval, .grad = pl_max_unpool_grad, .bound = PL_BOUND_EXACT, PL_EMIT_BREAK("write positions depend on data"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[1,1,2,2] x) => (y) <int64[1,1,2,2] i = {5, 7, 13, 15}> { y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

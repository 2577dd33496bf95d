/* Resize and Upsample. Interpolation works axis by axis, the axis that shrinks most first; nearest
 * copies elements of any type, row by row. Coordinates and weights are in resize_coords.c. */
#include "ops/image/resize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/repeat.h"
#include "base/size.h"
#include "ops/emit.h"
#include "ops/image/resize_rules.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/content.h"
#include "ops/lib/grad_nn.h"
#include "ops/lib/move.h"

extern const pl_op_def pl_ops_resize[];

/* ---- shapes ---- */

/* Scales of the node, from attributes (Upsample-1 and -7) or an input; NULL and *n = 0 when there
 * are none. */
typedef struct scales {
    double list[PL_RANK_MAX];
    size_t n;
    bool given;
} scales;

static const char *scales_from(const pl_node *node, const pl_tensor *t, int rank, scales *out) {
    size_t n = 0;
    const float *list = pl_attr_floats(node, "scales", &n);
    *out = (scales){ .given = true };
    if (pl_attr_has(node, "height_scale") || pl_attr_has(node, "width_scale")) {
        if (rank != 4) return "the input does not have rank 4";
        const double both[4] = { 1, 1, pl_attr_float(node, "height_scale"),
                                 pl_attr_float(node, "width_scale") };
        memcpy(out->list, both, sizeof(both));
        out->n = 4;
        return NULL;
    }
    if (t != NULL) n = (size_t)t->n_elements;
    if (n > PL_RANK_MAX) return "too many scales";
    for (size_t k = 0; k < n; k++)
        out->list[k] = t != NULL ? pl_tensor_get_f64(t, (int64_t)k) : (double)list[k];
    out->n = n;
    out->given = n > 0;
    return NULL;
}

/* Index of an input, which moved in Resize-11; -1 = the version has none. */
static int roi_input(const pl_node *node) {
    return node->def->since >= 11 ? 1 : -1;
}
static int scales_input(const pl_node *node) {
    return node->def->since >= 11 ? 2 : 1;
}
static int sizes_input(const pl_node *node) {
    return node->def->since >= 11 ? 3 : -1;
}

/* Output dims by scales. An unknown input dim stays as it is when its scale is 1. */
static pl_status infer_by_scales(pl_infer *c, const pl_resize *r, const scales *s, int rank) {
    pl_dim dims[PL_RANK_MAX];
    pl_resize_axis axes[PL_RANK_MAX] = { { 0 } };
    for (int d = 0; d < rank; d++) {
        dims[d] = c->in[0]->dims[d];
        axes[d].n_in = axes[d].n_out = pl_dim_known(dims[d]) ? dims[d].value : 0;
        axes[d].scale = 1;
    }
    const char *wrong = pl_resize_by_scales(r, s->list, s->n, axes);
    if (wrong != NULL) return pl_infer_fail(c, "%s", wrong);
    for (int d = 0; d < rank; d++) {
        if (pl_dim_known(dims[d])) {
            dims[d] = pl_dim_of(axes[d].n_out);
        } else if (axes[d].scale != 1) {
            dims[d] = PL_DIM_UNKNOWN;
        }
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

/* Output dims by `sizes`, whose elements are each known, symbolic or unknown. */
static pl_status infer_by_sizes(pl_infer *c, const pl_resize *r, const pl_content *sizes,
                                int rank) {
    pl_dim dims[PL_RANK_MAX];
    pl_resize_axis axes[PL_RANK_MAX] = { { 0 } };
    int64_t list[PL_CONTENT_MAX];
    bool known = true;
    if (sizes->n != (size_t)r->n_axes) {
        return pl_infer_fail(c, "%zu sizes for %d axes", sizes->n, r->n_axes);
    }
    for (int d = 0; d < rank; d++) {
        dims[d] = c->in[0]->dims[d];
        axes[d].n_in = axes[d].n_out = pl_dim_known(dims[d]) ? dims[d].value : 1;
    }
    for (int k = 0; k < r->n_axes; k++) {
        const int d = r->axes[k];
        list[k] = sizes->known[k] ? sizes->dims[k].value : 1;
        known = known && sizes->known[k] && (r->policy == 's' || pl_dim_known(dims[d]));
    }
    const char *wrong = pl_resize_by_sizes(r, list, sizes->n, axes);
    if (wrong != NULL && known) return pl_infer_fail(c, "%s", wrong);
    for (int k = 0; k < r->n_axes; k++) {
        const int d = r->axes[k];
        if (r->policy == 's') {
            dims[d] = sizes->known[k] ? pl_dim_of(axes[d].n_out) : sizes->dims[k];
        } else {
            dims[d] = known ? pl_dim_of(axes[d].n_out) : PL_DIM_UNKNOWN;
        }
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

static pl_status infer_open(pl_infer *c, const pl_resize *r, int rank) {
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    for (int k = 0; k < r->n_axes; k++)
        dims[r->axes[k]] = PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

/* An empty tensor means left out (the only way in Resize-11). */
static bool is_given(const pl_infer *c, int i) {
    if (i < 0 || !pl_infer_has(c, i)) return false;
    const pl_dim n = pl_infer_dim(c, i, 0);
    return !(pl_infer_rank(c, i) == 1 && pl_dim_known(n) && n.value == 0);
}

static pl_status resize_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0), at = scales_input(c->node), to = sizes_input(c->node);
    pl_resize r;
    scales s = { .given = false };
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    const char *wrong = pl_resize_read(c->node, rank, &r);
    if (wrong != NULL) return pl_infer_fail(c, "%s", wrong);
    if (is_given(c, to)) {
        const pl_content *sizes = pl_content_of(c, to);
        if (sizes != NULL) return infer_by_sizes(c, &r, sizes, rank);
        return c->concrete ? pl_infer_fail(c, "sizes is not a list of integers")
                           : infer_open(c, &r, rank);
    }
    const pl_tensor *t = is_given(c, at) ? c->in_tensor[at] : NULL;
    if (t == NULL && is_given(c, at)) return infer_open(c, &r, rank);
    wrong = scales_from(c->node, t, rank, &s);
    if (wrong == NULL && !s.given) wrong = "neither scales nor sizes are given";
    if (wrong != NULL) return pl_infer_fail(c, "%s", wrong);
    return infer_by_scales(c, &r, &s, rank);
}

/* ---- what the kernel does along each axis ---- */

typedef struct plan {
    pl_resize r;
    int rank;
    pl_resize_axis axes[PL_RANK_MAX];
    pl_taps taps[PL_RANK_MAX];
} plan;

static const char *plan_sizes(pl_eval *c, const pl_tensor *x, plan *p) {
    const int at = scales_input(c->node), to = sizes_input(c->node);
    size_t n = 0;
    const char *wrong = pl_resize_read(c->node, x->rank, &p->r);
    if (wrong != NULL) return wrong;
    for (int d = 0; d < x->rank; d++) {
        p->axes[d] = (pl_resize_axis){ .n_in = x->dims[d], .n_out = x->dims[d], .scale = 1 };
    }
    const int64_t *sizes = to < 0 ? NULL : pl_in_ints(c, to, &n);
    if (sizes != NULL && n > 0) {
        wrong = pl_resize_by_sizes(&p->r, sizes, n, p->axes);
    } else {
        scales s;
        wrong = scales_from(c->node, pl_in(c, at), x->rank, &s);
        if (wrong == NULL) wrong = pl_resize_by_scales(&p->r, s.list, s.n, p->axes);
    }
    if (wrong != NULL) return wrong;
    const int roi = roi_input(c->node);
    return pl_resize_set_roi(&p->r, roi < 0 ? NULL : pl_in(c, roi), x->rank, p->axes);
}

static pl_status plan_init(pl_eval *c, const pl_tensor *x, plan *p) {
    p->rank = x->rank;
    const char *wrong = plan_sizes(c, x, p);
    if (wrong != NULL) return pl_eval_fail(c, "%s", wrong);
    for (int d = 0; d < x->rank; d++) {
        if (!pl_resize_taps(c, &p->r, &p->axes[d], &p->taps[d])) return pl_eval_memory(c);
    }
    return PL_OK;
}

/* ---- nearest ---- */

typedef struct nearest_job {
    const plan *p;
    int last;           /* the last axis that changes */
    int64_t unit, size; /* bytes copied at once; bytes of an element */
    int64_t x_strides[PL_RANK_MAX];
    const char *x;
    char *y;
} nearest_job;

typedef struct pair {
    pl_u64 lo, hi;
} pair;

#define PICK(type)                                                                                 \
    for (int64_t k = 0; k < n; k++)                                                                \
    ((type *)(void *)to)[k] = ((const type *)(const void *)from)[at[k]]

static void pick_row(const char *from, char *to, const int64_t *at, int64_t n, int64_t unit) {
    switch (unit) {
    case 1: PICK(pl_u8); return;
    case 2: PICK(pl_u16); return;
    case 4: PICK(pl_u32); return;
    case 8: PICK(pl_u64); return;
    case 16: PICK(pair); return;
    default:
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k * unit, from + at[k] * unit, (size_t)unit);
        return;
    }
}

static void nearest_range(void *ctx, int64_t begin, int64_t end) {
    const nearest_job *j = ctx;
    const int64_t n = j->p->axes[j->last].n_out, bytes = n * j->unit;
    int64_t before = -1;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, from = 0;
        for (int d = j->last - 1; d >= 0; d--) {
            const int64_t i = rest % j->p->axes[d].n_out;
            const pl_taps *t = &j->p->taps[d];
            from += (t->identity ? i : t->at[i]) * j->x_strides[d];
            rest /= j->p->axes[d].n_out;
        }
        char *to = j->y + row * bytes;
        if (from == before) { /* enlarged: same as the row above */
            memcpy(to, to - bytes, (size_t)bytes);
        } else {
            pick_row(j->x + from * j->size, to, j->p->taps[j->last].at, n, j->unit);
        }
        before = from;
    }
}

static pl_status nearest(pl_eval *c, const plan *p, const pl_tensor *x, pl_tensor *y) {
    int last = p->rank - 1;
    while (last >= 0 && p->taps[last].identity)
        last--;
    if (last < 0) {
        pl_tensor_copy_into(x, y->data);
        return pl_own_strings(c, y);
    }
    const int64_t size = (int64_t)pl_dtype_bytes(x->dtype);
    nearest_job j = { .p = p,
                      .last = last,
                      .size = size,
                      .unit = x->strides[last] * size,
                      .x = x->data,
                      .y = y->data };
    for (int d = 0; d < x->rank; d++)
        j.x_strides[d] = x->strides[d];
    const int64_t row = p->axes[last].n_out * j.unit;
    const int64_t n_rows = y->n_elements * size / row;
    pl_pool_for(c->pool, n_rows, pl_i64_max(1, 64 * 1024 / row), nearest_range, &j);
    return pl_own_strings(c, y);
}

/* ---- interpolation along one axis ---- */

typedef struct pass {
    int64_t n_in, n_out, inner; /* [outer, n_in, inner] to [outer, n_out, inner] */
    int n;
    const int64_t *at;
    const void *w; /* of the type of the data */
    const void *x;
    void *y;
} pass;

#define PASS(T, E)                                                                                 \
    static void row_##T(const pass *p, const T *x, T *y, int64_t j) {                              \
        const E *w = (const E *)p->w + j * p->n;                                                   \
        const int64_t *at = p->at + j * p->n;                                                      \
        const T *a = x + at[0] * p->inner;                                                         \
        if (p->n == 2) {                                                                           \
            const T *b = x + at[1] * p->inner;                                                     \
            for (int64_t k = 0; k < p->inner; k++)                                                 \
                y[k] = w[0] * a[k] + w[1] * b[k];                                                  \
            return;                                                                                \
        }                                                                                          \
        for (int64_t k = 0; k < p->inner; k++)                                                     \
            y[k] = w[0] * a[k];                                                                    \
        for (int t = 1; t < p->n; t++) {                                                           \
            const T *b = x + at[t] * p->inner;                                                     \
            if (w[t] == 0) continue;                                                               \
            for (int64_t k = 0; k < p->inner; k++)                                                 \
                y[k] += w[t] * b[k];                                                               \
        }                                                                                          \
    }                                                                                              \
    static void rows_##T(void *ctx, int64_t begin, int64_t end) {                                  \
        const pass *p = ctx;                                                                       \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const int64_t outer = i / p->n_out;                                                    \
            row_##T(p, (const T *)p->x + outer * p->n_in * p->inner, (T *)p->y + i * p->inner,     \
                    i % p->n_out);                                                                 \
        }                                                                                          \
    }                                                                                              \
    static void lines_##T(void *ctx, int64_t begin, int64_t end) { /* inner is 1 */                \
        const pass *p = ctx;                                                                       \
        const E *w = p->w;                                                                         \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const T *x = (const T *)p->x + i * p->n_in;                                            \
            T *y = (T *)p->y + i * p->n_out;                                                       \
            for (int64_t j = 0; p->n == 2 && j < p->n_out; j++)                                    \
                y[j] = w[2 * j] * x[p->at[2 * j]] + w[2 * j + 1] * x[p->at[2 * j + 1]];            \
            for (int64_t j = 0; p->n != 2 && j < p->n_out; j++) {                                  \
                E sum = 0;                                                                         \
                for (int64_t t = j * p->n; t < (j + 1) * p->n; t++)                                \
                    sum += w[t] * x[p->at[t]];                                                     \
                y[j] = sum;                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
PASS(pl_f32, float)
PASS(pl_f64, double)

static pl_status run_pass(pl_eval *c, pass *p, const pl_taps *t, bool wide, int64_t outer) {
    const int64_t total = p->n_out * t->n;
    p->n = t->n;
    p->at = t->at;
    p->w = t->w;
    if (!wide) {
        float *w = pl_scratch(c, (size_t)total, sizeof(*w));
        if (w == NULL) return pl_eval_memory(c);
        for (int64_t i = 0; i < total; i++)
            w[i] = (float)t->w[i];
        p->w = w;
    }
    if (p->inner == 1) {
        pl_pool_for(c->pool, outer, pl_i64_max(1, 8192 / p->n_out),
                    wide ? lines_pl_f64 : lines_pl_f32, p);
    } else {
        pl_pool_for(c->pool, outer * p->n_out, pl_i64_max(1, 8192 / p->inner),
                    wide ? rows_pl_f64 : rows_pl_f32, p);
    }
    return PL_OK;
}

/* ---- interpolation ---- */

/* The axes that change, the one that shrinks most first; of equals the last. */
static int order_axes(const plan *p, int *order) {
    int n = 0;
    for (int d = p->rank - 1; d >= 0; d--) {
        if (p->taps[d].identity) continue;
        int at = n++;
        const double ratio = (double)p->axes[d].n_out / (double)p->axes[d].n_in;
        for (; at > 0; at--) {
            const pl_resize_axis *other = &p->axes[order[at - 1]];
            if ((double)other->n_out / (double)other->n_in <= ratio) break;
            order[at] = order[at - 1];
        }
        order[at] = d;
    }
    return n;
}

static pl_status interpolate(pl_eval *c, const plan *p, const pl_tensor *x, pl_tensor *y,
                             bool wide) {
    const void *from = wide ? (const void *)pl_in_f64(c, 0) : (const void *)pl_in_f32(c, 0);
    const bool direct = y->dtype == (wide ? PL_F64 : PL_F32);
    int64_t dims[PL_RANK_MAX];
    int order[PL_RANK_MAX];
    const int n = order_axes(p, order);
    if (from == NULL) return pl_eval_memory(c);
    for (int d = 0; d < x->rank; d++)
        dims[d] = x->dims[d];
    for (int k = 0; k < n; k++) {
        const int axis = order[k];
        int64_t outer = 1, inner = 1;
        for (int d = 0; d < x->rank; d++) {
            if (d < axis) outer *= dims[d];
            if (d > axis) inner *= dims[d];
        }
        dims[axis] = p->axes[axis].n_out;
        void *to = y->data;
        if (k + 1 < n || !direct) {
            int64_t total = 0;
            if (!pl_dims_product(x->rank, dims, &total)) return pl_eval_memory(c);
            to = pl_scratch(c, (size_t)total, wide ? sizeof(double) : sizeof(float));
            if (to == NULL) return pl_eval_memory(c);
        }
        pass step = {
            .n_in = p->axes[axis].n_in, .n_out = dims[axis], .inner = inner, .x = from, .y = to
        };
        PL_TRY(run_pass(c, &step, &p->taps[axis], wide, outer));
        from = to;
    }
    if (n == 0) {
        pl_tensor_copy_into(x, y->data);
    } else if (!direct && wide) {
        pl_store_f64(y->dtype, from, y->data, (size_t)y->n_elements);
    } else if (!direct) {
        pl_store_f32(y->dtype, from, y->data, (size_t)y->n_elements);
    }
    return PL_OK;
}

/* tf_crop_and_resize: fills outputs that lie outside along any axis. */
static pl_status fill_outside(pl_eval *c, const plan *p, pl_tensor *y) {
    const size_t size = pl_dtype_bytes(y->dtype);
    char value[16];
    if (p->r.coordinates != PL_RESIZE_CROP) return PL_OK;
    if (y->dtype == PL_STRING) return pl_eval_no_type(c, y->dtype);
    pl_store_f64(y->dtype, &p->r.extrapolation, value, 1);
    for (int d = 0; d < p->rank; d++) {
        if (p->taps[d].outside == NULL) continue;
        const int64_t inner = y->strides[d], n = y->dims[d];
        for (int64_t i = 0; i < y->n_elements / inner; i++) {
            if (!p->taps[d].outside[i % n]) continue;
            pl_fill((char *)y->data + (size_t)(i * inner) * size, value, size, (size_t)inner);
        }
    }
    return PL_OK;
}

static pl_status resize_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_dtype_class class = pl_dtype_class_of(x->dtype);
    plan *p = pl_scratch(c, 1, sizeof(*p));
    if (p == NULL) return pl_eval_memory(c);
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(plan_init(c, x, p));
    for (int d = 0; d < x->rank; d++) {
        if (y->dims[d] != p->axes[d].n_out) {
            return pl_fail(c->err, PL_E_INTERNAL, "%s: the shape rule and the kernel disagree",
                           c->node->op);
        }
    }
    if (p->r.mode == PL_RESIZE_NEAREST) {
        PL_TRY(nearest(c, p, x, y));
    } else if (class == PL_CLASS_STRING || class == PL_CLASS_COMPLEX) {
        return pl_eval_no_type(c, x->dtype);
    } else {
        /* Integers are truncated at the end: in float, 57 would often become 56.999996 and then
         * 56. */
        const bool wide = x->dtype == PL_F64 || class != PL_CLASS_FLOAT;
        PL_TRY(interpolate(c, p, x, y, wide));
    }
    return fill_outside(c, p, y);
}

/* ---- bound ---- */

/* Interpolates x in double with the weights or their absolute values. */
static pl_status interpolate_f64(pl_bound *c, const plan *p, pl_tensor *x, bool magnitude,
                                 pl_tensor **out) {
    pl_datum *in[1] = { NULL };
    plan own = *p;
    pl_eval eval = {
        .node = c->node, .n_in = 1, .in = in, .pool = c->pool, .scratch = c->scratch, .err = c->err
    };
    for (int d = 0; d < p->rank && magnitude; d++) {
        const pl_taps *t = &p->taps[d];
        if (t->identity || t->w == NULL) continue;
        const int64_t n = t->n * p->axes[d].n_out;
        own.taps[d].w = pl_arena_array(c->scratch, (size_t)n, sizeof(double));
        if (own.taps[d].w == NULL) return pl_fail_memory(c->err, (size_t)n);
        for (int64_t i = 0; i < n; i++)
            own.taps[d].w[i] = fabs(t->w[i]);
    }
    const pl_tensor *y = pl_b_out(c, 0);
    PL_TRY(pl_tensor_new(PL_F64, y->rank, y->dims, out, c->err));
    PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(x), &in[0], c->err));
    const pl_status st = interpolate(&eval, &own, x, *out, true);
    pl_datum_unref(in[0]);
    return st;
}

/* Results are truncated to integers: how far can the integer move when the value moves by the
 * slack? */
static pl_status cut_codes(pl_bound *c, const plan *p, double *e) {
    const double *y = pl_b_y(c, 0);
    pl_tensor *x = NULL, *exact = NULL;
    PL_TRY(pl_tensor_cast(pl_b_in(c, 0), PL_F64, &x, c->err));
    pl_status st = interpolate_f64(c, p, x, false, &exact);
    const double *v = exact == NULL ? NULL : exact->data;
    for (int64_t i = 0; v != NULL && y != NULL && st == PL_OK && i < exact->n_elements; i++) {
        const double slack = 8 * e[i];
        e[i] = fmax(fabs(trunc(v[i] + slack) - y[i]), fabs(trunc(v[i] - slack) - y[i]));
    }
    pl_tensor_unref(x);
    pl_tensor_unref(exact);
    return st;
}

/* 4u times the sum of absolute values, plus u L range / 4 for coordinates computed in float, where
 * L is the longest output side. A cubic is up to 1.5 times as steep along each axis. Its weights
 * are polynomials whose terms cancel, so the error of a small weight is u of a large one. */
static pl_status interpolation_bound(pl_bound *c, const plan *p) {
    const pl_tensor *y = pl_b_out(c, 0), *t = pl_b_in(c, 0);
    const double *px = pl_b_x(c, 0), *py = pl_b_y(c, 0);
    pl_tensor *x = NULL, *s = NULL, *inherited = NULL;
    double *e = NULL, side = 0, axes = 0;
    const bool is_float = pl_dtype_is_float(c->out_native[0]);
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    for (int d = 0; d < p->rank; d++) {
        if (p->taps[d].identity) continue;
        side = fmax(side, (double)p->axes[d].n_out);
        axes++;
    }
    const double u = is_float ? c->u_acc : 0x1p-24;
    double place = fmax(c->u_acc, 0x1p-24) * side * pl_b_range(px, t->n_elements) / 4;
    if (p->r.mode == PL_RESIZE_CUBIC)
        place = axes * (1.5 * place + u * pl_b_peak(px, t->n_elements));
    PL_TRY(pl_b_new(c, 0, &e));
    PL_TRY(pl_b_map(c, t, pl_b_abs, &x));
    pl_status st = interpolate_f64(c, p, x, true, &s);
    if (st == PL_OK && c->e_in[0] != NULL) st = interpolate_f64(c, p, c->e_in[0], true, &inherited);
    for (int64_t i = 0; st == PL_OK && i < y->n_elements; i++) {
        e[i] = 4 * u * ((const double *)s->data)[i] + place;
        if (inherited != NULL) e[i] += ((const double *)inherited->data)[i];
    }
    if (st == PL_OK && is_float) pl_b_add_stored(c, py, e, y->n_elements);
    if (st == PL_OK && !is_float) st = cut_codes(c, p, e);
    pl_tensor_unref(x);
    pl_tensor_unref(s);
    pl_tensor_unref(inherited);
    return st;
}

static pl_status resize_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    pl_eval eval = { .node = c->node,
                     .n_in = c->n_in,
                     .in = c->in,
                     .pool = c->pool,
                     .scratch = c->scratch,
                     .err = c->err };
    plan *p = pl_arena_alloc(c->scratch, sizeof(*p));
    if (p == NULL) return pl_fail_memory(c->err, sizeof(*p));
    if (y == NULL || y->n_elements == 0) return PL_OK;
    PL_TRY(plan_init(&eval, x, p));
    if (p->r.mode != PL_RESIZE_NEAREST) {
        bool same = true;
        for (int d = 0; d < p->rank; d++)
            same = same && p->taps[d].identity;
        if (!same) return interpolation_bound(c, p);
    }
    if (c->e_in[0] == NULL) return PL_OK;
    return pl_b_apply_one(c, 0, c->e_in[0], PL_F64, &c->e_out[0]);
}

/* ---- gradient ---- */

/* The interpolation along one axis as a matrix (n_out, n_in). */
static pl_value *axis_matrix(pl_grad *c, const plan *p, int d) {
    const pl_taps *t = &p->taps[d];
    const int64_t n_in = p->axes[d].n_in, n_out = p->axes[d].n_out;
    pl_g_table m;
    if (!pl_g_table_new(c, &m, 2, (const int64_t[]){ n_out, n_in })) return NULL;
    for (int64_t j = 0; j < n_out; j++) {
        for (int k = 0; k < t->n; k++) {
            const double w = t->w == NULL ? 1 : t->w[j * t->n + k];
            if (t->outside == NULL || !t->outside[j]) m.data[j * n_in + t->at[j * t->n + k]] += w;
        }
    }
    return pl_g_table_value(c, &m, c->node->in[0]->type->dtype);
}

/* Multiplies g along axis d by the matrix: from outputs back to inputs. */
static pl_value *axis_back(pl_grad *c, pl_value *g, int rank, int d, pl_value *m) {
    int64_t perm[PL_RANK_MAX];
    for (int i = 0; i < rank; i++)
        perm[i] = i == d ? rank - 1 : i == rank - 1 ? d : i;
    if (d == rank - 1) return pl_g2(c, "MatMul", g, m);
    g = pl_g2(c, "MatMul", pl_g_transpose(c, g, perm, (size_t)rank), m);
    return pl_g_transpose(c, g, perm, (size_t)rank);
}

/* Plans from constants, as the kernel does from its inputs; of x only the shape is needed. */
static bool plan_of_types(pl_grad *c, pl_arena *arena, plan *p) {
    const pl_node *node = c->node;
    pl_tensor x = { .rank = pl_g_rank(c, node->in[0]) };
    pl_datum data[4] = { { .refs = 0 } };
    pl_datum *in[4] = { NULL };
    for (int d = 0; d < x.rank; d++)
        x.dims[d] = pl_g_dim(c, node->in[0], d);
    for (uint32_t i = 1; i < node->n_in && i < 4; i++) {
        const pl_tensor *known = pl_g_known(node->in[i]);
        if (node->in[i] == NULL) continue;
        if (known == NULL) {
            (void)pl_g_fail(c, "needs '%s' to be a constant", node->in[i]->name);
            return false;
        }
        data[i] = (pl_datum){ .kind = PL_TYPE_TENSOR, .tensor = (pl_tensor *)(uintptr_t)known };
        in[i] = &data[i];
    }
    pl_eval eval = {
        .node = node, .n_in = (int)node->n_in, .in = in, .scratch = arena, .err = c->err
    };
    if (c->st == PL_OK) c->st = plan_init(&eval, &x, p);
    return c->st == PL_OK;
}

static pl_status resize_grad(pl_grad *c) {
    pl_arena *arena = pl_arena_new();
    plan *p = arena == NULL ? NULL : pl_arena_alloc(arena, sizeof(*p));
    pl_value *g = c->dy[0];
    if (p == NULL) {
        c->st = pl_fail_memory(c->err, sizeof(*p));
    } else if (plan_of_types(c, arena, p)) {
        for (int d = 0; d < p->rank && c->st == PL_OK; d++)
            if (!p->taps[d].identity) g = axis_back(c, g, p->rank, d, axis_matrix(c, p, d));
        c->dx[0] = g;
    }
    pl_arena_free(arena);
    return c->st;
}

/* ---- emission: the taps become constants ---- */

/* Flat position: the sum over d of at[d] * stride. Dim `own` uses the positions in `at`. */
static pl_ref places(pl_emit *c, int rank, const int64_t *from, const int64_t *to, int own,
                     pl_ref at) {
    int64_t stride = 1;
    pl_ref sum = -1;
    for (int d = rank - 1; d >= 0; d--) {
        char expr[80];
        const pl_ref i = d == own ? at : pl_emit_iota(c, rank, d, to[d]);
        snprintf(expr, sizeof(expr), sum < 0 ? "$0 * %lld" : "$1 + $0 * %lld", (long long)stride);
        sum = sum < 0 ? pl_emit_map1(c, PL_I64, expr, i) : pl_emit_map2(c, PL_I64, expr, i, sum);
        stride *= from[d];
    }
    return sum;
}

/* Interpolates along one axis: the sum of its taps. */
static pl_ref emit_pass(pl_emit *c, pl_arena *arena, const plan *p, int axis, pl_ref x,
                        int64_t *dims, pl_dtype wide) {
    const pl_taps *t = &p->taps[axis];
    const int64_t n_out = p->axes[axis].n_out;
    int64_t from[PL_RANK_MAX];
    double *numbers = pl_arena_array(arena, (size_t)n_out, sizeof(double));
    pl_ref sum = -1;
    int64_t inner = 1;
    for (int d = axis + 1; d < p->rank; d++)
        inner *= dims[d];
    if (numbers == NULL) return -1;
    memcpy(from, dims, (size_t)p->rank * sizeof(*from));
    dims[axis] = n_out;
    for (int k = 0; k < t->n; k++) {
        for (int64_t j = 0; j < n_out; j++)
            numbers[j] = (double)t->at[j * t->n + k];
        const pl_ref table = pl_emit_numbers(c, PL_I64, numbers, n_out);
        const pl_ref at = pl_emit_along(c, table, p->rank, axis);
        pl_ref v = pl_emit_load(c, x, places(c, p->rank, from, dims, axis, at));
        if (t->w == NULL) return v;
        for (int64_t j = 0; j < n_out; j++)
            numbers[j] = t->w[j * t->n + k];
        const pl_ref w = pl_emit_along(c, pl_emit_numbers(c, wide, numbers, n_out), p->rank, axis);
        /* With more than two taps the kernel skips rows of weight 0, so that their NaN does not
         * spread. */
        const bool skips = k > 0 && t->n > 2 && inner > 1;
        v = pl_emit_map2(c, wide, skips ? "$0 == 0 ? 0 : $0 * $1" : "$0 * $1", w, v);
        sum = sum < 0 ? v : pl_emit_map2(c, wide, "$0 + $1", sum, v);
    }
    return sum;
}

static pl_ref emit_outside(pl_emit *c, pl_arena *arena, const plan *p, pl_ref y) {
    const pl_dtype dtype = c->out[0]->dtype;
    const double beyond = p->r.extrapolation;
    for (int d = 0; d < p->rank; d++) {
        const int64_t n = p->axes[d].n_out;
        if (p->taps[d].outside == NULL) continue;
        double *flags = pl_arena_array(arena, (size_t)n, sizeof(double));
        if (flags == NULL) return -1;
        for (int64_t j = 0; j < n; j++)
            flags[j] = p->taps[d].outside[j];
        const pl_ref out = pl_emit_along(c, pl_emit_numbers(c, PL_U8, flags, n), p->rank, d);
        /* As a tensor, so that it is converted to an integer as in the kernel. */
        const pl_ref value = pl_emit_scalar(c, pl_emit_numbers(c, dtype, &beyond, 1));
        y = pl_emit_map3(c, dtype, "$1 ? $2 : $0", y, out, value);
    }
    return y;
}

static pl_ref emit_resized(pl_emit *c, pl_arena *arena, const plan *p) {
    const pl_dtype dtype = c->in[0]->dtype;
    const bool nearest_only = p->r.mode == PL_RESIZE_NEAREST;
    const bool wide = dtype == PL_F64 || !pl_emit_is_float(dtype);
    int64_t dims[PL_RANK_MAX];
    int order[PL_RANK_MAX];
    const int n = order_axes(p, order);
    pl_ref x = pl_emit_in(c, 0);
    pl_emit_in_dims(c, 0, dims);
    for (int k = 0; k < n; k++)
        x = emit_pass(c, arena, p, order[k], x, dims, wide ? PL_F64 : PL_F32);
    const char *cut = dtype == PL_BOOL ? "$0 != 0" : "px_trunc_$S($0)";
    const bool cuts = n > 0 && !nearest_only && !pl_emit_is_float(dtype);
    if (!nearest_only) x = pl_emit_map1(c, dtype, cuts ? cut : "$0", x);
    return emit_outside(c, arena, p, x);
}

static pl_status resize_emit(pl_emit *c) {
    static const char nowhere[16];
    pl_err ignored = PL_ERR_INIT;
    pl_datum *in[4] = { NULL };
    pl_tensor *x = NULL;
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_status st = PL_OK;
    if (c->n_in > 4) return pl_emit_decline(c, "too many inputs");
    for (int i = 1; i < c->n_in; i++)
        if (pl_emit_has(c, i) && c->in_tensor[i] == NULL) {
            return pl_emit_decline(c, "scales or sizes are not constant");
        }
    pl_arena *arena = pl_arena_new();
    plan *p = arena == NULL ? NULL : pl_arena_alloc(arena, sizeof(*p));
    pl_emit_in_dims(c, 0, dims);
    if (p == NULL) st = PL_E_MEMORY;
    if (st == PL_OK) {
        memset(p, 0, sizeof(*p));
        st = pl_tensor_borrow(c->in[0]->dtype, c->in[0]->rank, dims, nowhere, NULL, NULL, &x, NULL);
    }
    for (int i = 0; st == PL_OK && i < c->n_in; i++) {
        const pl_tensor *t = i == 0 ? x : c->in_tensor[i];
        if (t != NULL) st = pl_datum_of_tensor_take(pl_tensor_ref(t), &in[i], NULL);
    }
    pl_eval eval = {
        .node = c->node, .n_in = c->n_in, .in = in, .scratch = arena, .err = &ignored
    };
    if (st == PL_OK) st = x == NULL ? PL_E_MEMORY : plan_init(&eval, x, p);
    const pl_ref y = st == PL_OK ? emit_resized(c, arena, p) : -1;
    for (int i = 0; i < c->n_in; i++)
        pl_datum_unref(in[i]);
    pl_tensor_unref(x);
    pl_arena_free(arena);
    return st == PL_OK ? pl_emit_out(c, 0, y) : pl_emit_decline(c, "scales or sizes");
}

/* ---- rows ---- */

#define ROW                                                                                        \
    .out = PL_PORTS({ "Y", PL_T_ANY, 0 }), .infer = resize_infer, .eval = resize_eval,             \
    .grad = resize_grad, .bound = resize_bound, .emit = resize_emit, .autocast = PL_AMP_FP32
#define MODE PL_A_STRING("mode", "nearest")
#define X_SCALES .in = PL_PORTS({ "X", PL_T_ANY, 0 }, { "scales", PL_T(PL_F32), 0 })
#define RESIZE                                                                                     \
    .name = "Resize", ROW,                                                                         \
    .in = PL_PORTS({ "X", PL_T_ANY, 0 }, { "roi", PL_T_FLOAT, PL_PORT_OPTIONAL },                  \
                   { "scales", PL_T(PL_F32), PL_PORT_OPTIONAL },                                   \
                   { "sizes", PL_T_I64, PL_PORT_OPTIONAL | PL_PORT_POSITIVE })
#define ATTRS_11                                                                                   \
    MODE, PL_A_STRING("coordinate_transformation_mode", "half_pixel"),                             \
        PL_A_FLOAT("cubic_coeff_a", -0.75), PL_A_INT("exclude_outside", 0),                        \
        PL_A_FLOAT("extrapolation_value", 0), PL_A_STRING("nearest_mode", "round_prefer_floor")

/* clang-format off */
const pl_op_def pl_ops_resize[] = {
    { .name = "Resize", .since = 10, .until = 10, ROW, X_SCALES, .attrs = PL_ATTRS(MODE),
      .samples = PL_SAMPLES(
          { "(float[1,1,2,4] x) => (y) <float[4] s = {1,1,0.6,0.6}> { y = Resize(x, s) }", NULL, 0 },
          { "(float[1,1,2,2] x) => (y) <float[4] s = {1,1,2,2}> { y = Resize<mode=\"linear\">(x, s) }", NULL, 0 }) },
    { RESIZE, .since = 11, .until = 17, .attrs = PL_ATTRS(ATTRS_11),
      .samples = PL_SAMPLES(
          { "(float[1,1,2,2] x) => (y) <float[0] r = {}, float[4] s = {1,1,2,3}> { y = Resize<mode=\"cubic\">(x, r, s) }", NULL, 0 },
          { "(float[1,1,4,4] x) => (y) <float[8] r = {0,0,0.4,0.6,1,1,0.6,1.8}, int64[4] z = {1,1,3,3}> { y = Resize<mode=\"linear\", coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=10.0>(x, r, , z) }", NULL, 0 }) },
    { RESIZE, .since = 18,
      .attrs = PL_ATTRS(ATTRS_11, PL_A_INT("antialias", 0), PL_A_LIST("axes", INTS),
                        PL_A_STRING("keep_aspect_ratio_policy", "stretch")),
      .samples = PL_SAMPLES(
          { "(float[1,1,4,4] x) => (y) <float[4] s = {1,1,0.6,0.6}> { y = Resize<mode=\"linear\", antialias=1>(x, , s) }", NULL, 0 },
          { "(float[1,2,2,4] x) => (y) <int64[2] z = {7,8}> { y = Resize<axes=[2,3], keep_aspect_ratio_policy=\"not_larger\">(x, , , z) }", NULL, 0 },
          { "(float[1,1,5,6] x) => (y) <int64[4] z = {1,1,3,9}> { y = Resize<mode=\"cubic\", coordinate_transformation_mode=\"align_corners\", exclude_outside=1>(x, , , z) }", NULL, 0 },
          { "(float[1,1,5,6] x) => (y) <float[4] s = {1,1,0.5,2.5}> { y = Resize<mode=\"nearest\", nearest_mode=\"ceil\", coordinate_transformation_mode=\"asymmetric\">(x, , s) }", NULL, 0 },
          { "(float[1,2,4,4] x) => (y) <float[2] s = {1.5,0.75}> { y = Resize<mode=\"linear\", axes=[3,2], coordinate_transformation_mode=\"half_pixel_symmetric\">(x, , s) }", NULL, 0 }) },
    { .name = "Upsample", .since = 1, .until = 6, ROW, .in = PL_PORTS({ "X", PL_T_ANY, 0 }),
      .attrs = PL_ATTRS(MODE, PL_A_REQUIRED("height_scale", FLOAT), PL_A_REQUIRED("width_scale", FLOAT)),
      .samples = PL_SAMPLES({ "(float[1,1,2,2] x) => (y) { y = Upsample<height_scale=2.0, width_scale=3.0, mode=\"bilinear\">(x) }", NULL, 0 }) },
    { .name = "Upsample", .since = 7, .until = 8, .next = pl_next_upsample, ROW, .in = PL_PORTS({ "X", PL_T_ANY, 0 }),
      .attrs = PL_ATTRS(MODE, PL_A_REQUIRED("scales", FLOATS)),
      .samples = PL_SAMPLES({ "(float[1,1,2,2] x) => (y) { y = Upsample<scales=[1.0,1.0,2.0,3.0]>(x) }", NULL, 0 }) },
    { .name = "Upsample", .since = 9, ROW, X_SCALES, .attrs = PL_ATTRS(MODE),
      .samples = PL_SAMPLES({ "(float[1,1,2,2] x) => (y) <float[4] s = {1,1,2,3}> { y = Upsample(x, s) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

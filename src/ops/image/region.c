/* Regions of images: NonMaxSuppression, RoiAlign, MaxRoiPool. */
#include <math.h>

#include "base/size.h"
#include "ops/image/region_grad.h"
#include "ops/image/region_rules.h"
#include "ops/infer.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/grad_nn.h"
#include "ops/lib/sort_key.h"

extern const pl_op_def pl_ops_region[];

static pl_status expect_rank(const pl_infer *c, int i, int rank) {
    const int r = pl_infer_rank(c, i);
    if (r < 0 || r == rank) return PL_OK;
    return pl_infer_fail(c, "input %d has rank %d, expected %d", i, r, rank);
}

static pl_status expect_dim(const pl_infer *c, int i, int axis, int64_t value) {
    const pl_dim dim = pl_infer_dim(c, i, axis);
    if (!pl_dim_known(dim) || dim.value == value) return PL_OK;
    return pl_infer_fail(c, "dim %d of input %d is %lld, expected %lld", axis, i,
                         (long long)dim.value, (long long)value);
}

/* Dim `axis` of input i must equal dim `other` of input k. */
static pl_status expect_same(const pl_infer *c, int i, int axis, int k, int other) {
    const pl_dim dim = pl_infer_dim(c, k, other);
    return pl_dim_known(dim) ? expect_dim(c, i, axis, dim.value) : PL_OK;
}

/* ---- NonMaxSuppression ---- */

static pl_status nms_infer(pl_infer *c) {
    const pl_dim dims[2] = { PL_DIM_UNKNOWN, pl_dim_of(3) };
    PL_TRY(expect_rank(c, 0, 3));
    PL_TRY(expect_rank(c, 1, 3));
    PL_TRY(expect_dim(c, 0, 2, 4));
    PL_TRY(expect_same(c, 1, 0, 0, 0));
    PL_TRY(expect_same(c, 1, 2, 0, 1));
    for (int i = 2; i < c->n_in; i++) {
        const pl_tensor *t = c->in_tensor[i];
        if (t == NULL || t->n_elements <= 1) continue;
        return pl_infer_fail(c, "input %d is not a single number", i);
    }
    return pl_infer_set(c, 0, PL_I64, 2, dims);
}

typedef struct nms_job {
    const pl_tensor *scores;
    const void *box_data; /* f32, or f64 */
    bool wide, center, has_threshold;
    double iou, threshold;
    int64_t n_classes, n_boxes, limit; /* limit: boxes to select for each class */
    int64_t grain;
    pl_sort_entry *heaps; /* n_boxes entries for each block of work */
    int64_t *selected;    /* limit entries for each batch and class */
    int64_t *n_selected;
} nms_job;

/* Two boxes [y1, x1, y2, x2] (any two opposite corners) or [x, y, width, height] around a centre:
 * is their intersection over union above the threshold? Arithmetic in the type of the boxes. */
#define OVERLAP(fn, T, MIN, MAX)                                                                   \
    static bool fn(const nms_job *j, const T *a, const T *b) {                                     \
        T lo[2][2], hi[2][2], area[2], both = 1;                                                   \
        for (int k = 0; k < 2; k++) {                                                              \
            const T *box = k == 0 ? a : b;                                                         \
            for (int d = 0; d < 2; d++) {                                                          \
                const T half = box[2 + d] / 2;                                                     \
                lo[k][d] = j->center ? box[d] - half : MIN(box[d], box[2 + d]);                    \
                hi[k][d] = j->center ? box[d] + half : MAX(box[d], box[2 + d]);                    \
            }                                                                                      \
            area[k] = (hi[k][0] - lo[k][0]) * (hi[k][1] - lo[k][1]);                               \
        }                                                                                          \
        for (int d = 0; d < 2; d++) {                                                              \
            const T side = MIN(hi[0][d], hi[1][d]) - MAX(lo[0][d], lo[1][d]);                      \
            if (!(side > 0)) return false;                                                         \
            both *= side;                                                                          \
        }                                                                                          \
        const T either = area[0] + area[1] - both;                                                 \
        if (!(area[0] > 0 && area[1] > 0 && either > 0)) return false;                             \
        return both / either > (T)j->iou;                                                          \
    }
OVERLAP(overlap_f32, float, fminf, fmaxf)
OVERLAP(overlap_f64, double, fmin, fmax)

static bool overlaps(const nms_job *j, int64_t batch, int64_t a, int64_t b) {
    const int64_t p = (batch * j->n_boxes + a) * 4, q = (batch * j->n_boxes + b) * 4;
    if (j->wide) {
        double u[4], v[4];
        const pl_f64 *boxes = j->box_data;
        for (int k = 0; k < 4; k++) {
            u[k] = boxes[p + k];
            v[k] = boxes[q + k];
        }
        return overlap_f64(j, u, v);
    }
    float u[4], v[4];
    const pl_f32 *boxes = j->box_data;
    for (int k = 0; k < 4; k++) {
        u[k] = boxes[p + k];
        v[k] = boxes[q + k];
    }
    return overlap_f32(j, u, v);
}

/* Puts the candidates of one class into a heap with the best on top: the heap has the smallest key
 * and, among equals, the largest index on top, so keys are inverted and indices negated. */
static int64_t nms_candidates(const nms_job *j, int64_t class, pl_sort_entry *heap) {
    enum { BLOCK = 256 };
    const size_t size = pl_dtype_bytes(j->scores->dtype);
    int64_t n = 0;
    for (int64_t i = 0; i < j->n_boxes; i += BLOCK) {
        const size_t m = (size_t)pl_i64_min(BLOCK, j->n_boxes - i);
        const char *from = (const char *)j->scores->data + (size_t)(class * j->n_boxes + i) * size;
        uint64_t keys[BLOCK];
        double scores[BLOCK];
        pl_sort_keys(j->scores->dtype, from, keys, m);
        pl_load_f64(j->scores->dtype, from, scores, m);
        for (size_t k = 0; k < m; k++) {
            if (j->has_threshold && !(scores[k] > j->threshold)) continue;
            heap[n++] = (pl_sort_entry){ ~keys[k], -(i + (int64_t)k) };
        }
    }
    for (int64_t h = n / 2 - 1; h >= 0; h--)
        pl_sort_sift_down(heap, n, h);
    return n;
}

static void nms_range(void *ctx, int64_t begin, int64_t end) {
    const nms_job *j = ctx;
    pl_sort_entry *heap = j->heaps + begin / j->grain * j->n_boxes;
    for (int64_t class = begin; class < end; class ++) {
        int64_t *selected = j->selected + class * j->limit, n = 0;
        int64_t left = nms_candidates(j, class, heap);
        while (left > 0 && n < j->limit) {
            const int64_t box = -heap[0].at;
            heap[0] = heap[--left];
            if (left > 0) pl_sort_sift_down(heap, left, 0);
            bool keep = true;
            for (int64_t k = 0; keep && k < n; k++)
                keep = !overlaps(j, class / j->n_classes, selected[k], box);
            if (keep) selected[n++] = box;
        }
        j->n_selected[class] = n;
    }
}

static pl_status nms_write(pl_eval *c, const nms_job *j, int64_t n_all) {
    int64_t total = 0, at = 0;
    pl_tensor *y = NULL;
    for (int64_t i = 0; i < n_all; i++)
        total += j->n_selected[i];
    PL_TRY(pl_out_new(c, 0, PL_I64, 2, (const int64_t[]){ total, 3 }, &y));
    pl_i64 *out = y->data;
    for (int64_t i = 0; i < n_all; i++) {
        for (int64_t k = 0; k < j->n_selected[i]; k++) {
            out[at++] = i / j->n_classes;
            out[at++] = i % j->n_classes;
            out[at++] = j->selected[i * j->limit + k];
        }
    }
    return PL_OK;
}

static pl_status nms_eval(pl_eval *c) {
    const pl_tensor *boxes = pl_in(c, 0), *scores = pl_in(c, 1);
    nms_job j = { .scores = scores,
                  .wide = boxes->dtype == PL_F64,
                  .center = pl_attr_int(c->node, "center_point_box") != 0,
                  .iou = pl_in_float(c, 3, 0),
                  .has_threshold = pl_has(c, 4) && pl_in(c, 4)->n_elements > 0,
                  .threshold = pl_in_float(c, 4, 0),
                  .n_classes = scores->dims[1],
                  .n_boxes = scores->dims[2] };
    if (!pl_wants(c, 0)) return PL_OK;
    j.limit = pl_i64_max(0, pl_i64_min(pl_in_int(c, 2, 0), j.n_boxes));
    if (scores->n_elements == 0 || j.limit == 0) return nms_write(c, &j, 0);
    const int64_t n_all = scores->dims[0] * j.n_classes;
    j.box_data = j.wide ? (const void *)pl_in_f64(c, 0) : (const void *)pl_in_f32(c, 0);
    j.grain = n_all / 64 + 1; /* at most 64 blocks, so that their heaps stay small */
    const int64_t n_blocks = n_all / j.grain + 1;
    j.heaps = pl_scratch(c, (size_t)n_blocks * (size_t)j.n_boxes, sizeof(*j.heaps));
    j.selected = pl_scratch(c, (size_t)n_all * (size_t)j.limit, sizeof(*j.selected));
    j.n_selected = pl_scratch(c, (size_t)n_all, sizeof(*j.n_selected));
    if (j.box_data == NULL || j.heaps == NULL || j.selected == NULL || j.n_selected == NULL) {
        return pl_eval_memory(c);
    }
    pl_pool_for(c->pool, n_all, j.grain, nms_range, &j);
    return nms_write(c, &j, n_all);
}

/* ---- RoiAlign ---- */

static pl_status roi_align_infer(pl_infer *c) {
    const int64_t height = pl_attr_int(c->node, "output_height");
    const int64_t width = pl_attr_int(c->node, "output_width");
    PL_TRY(expect_rank(c, 0, 4));
    PL_TRY(expect_rank(c, 1, 2));
    PL_TRY(expect_rank(c, 2, 1));
    PL_TRY(expect_dim(c, 1, 1, 4));
    PL_TRY(expect_same(c, 1, 0, 2, 0));
    if (height < 1 || width < 1) {
        return pl_infer_fail(c, "the output is %lld by %lld", (long long)height, (long long)width);
    }
    if (!pl_attr_string_is(c->node, "mode", "avg") && !pl_attr_string_is(c->node, "mode", "max")) {
        return pl_infer_fail(c, "mode is neither avg nor max");
    }
    if (c->node->opset >= 16 &&
        !pl_attr_string_is(c->node, "coordinate_transformation_mode", "half_pixel") &&
        !pl_attr_string_is(c->node, "coordinate_transformation_mode", "output_half_pixel")) {
        return pl_infer_fail(c, "coordinate_transformation_mode is neither half_pixel nor "
                                "output_half_pixel");
    }
    pl_dim n = pl_infer_dim(c, 1, 0);
    if (!pl_dim_known(n) && n.name == NULL) n = pl_infer_dim(c, 2, 0);
    const pl_dim dims[4] = { n, pl_infer_dim(c, 0, 1), pl_dim_of(height), pl_dim_of(width) };
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 4, dims);
}

typedef struct roi_sample { /* one coordinate between two cells of the input */
    int64_t low, high;
    double w_low, w_high; /* both 0: outside */
} roi_sample;

typedef struct roi_axis {      /* rows, or columns */
    int64_t n_in, n_out, grid; /* grid: samples for each output */
    double start, size;
    roi_sample *samples; /* n_out * grid */
} roi_axis;

typedef struct roi_job {
    roi_axis y, x;
    const void *in; /* the batch item, f32 or f64 */
    bool wide, max;
    pl_dtype dtype;
    char *out; /* of this region */
} roi_job;

static void roi_samples(roi_axis *a) {
    const double bin = a->size / (double)a->n_out;
    for (int64_t i = 0; i < a->n_out * a->grid; i++) {
        const int64_t output = i / a->grid, step = i % a->grid;
        double at = a->start + (double)output * bin + ((double)step + 0.5) * bin / (double)a->grid;
        roi_sample *s = &a->samples[i];
        *s = (roi_sample){ 0, 0, 0, 0 };
        if (a->n_in == 0 || !(at >= -1 && at <= (double)a->n_in)) continue;
        if (at < 0) at = 0;
        s->low = pl_i64_min((int64_t)at, a->n_in - 1);
        s->high = pl_i64_min(s->low + 1, a->n_in - 1);
        s->w_high = s->low == a->n_in - 1 ? 0 : at - (double)s->low;
        s->w_low = 1 - s->w_high;
    }
}

/* In mode max RoiAlign takes the largest of the weighted corners, not of the interpolated sums. */
#define BIN(fn, T)                                                                                 \
    static double fn(const roi_job *j, const T *in, int64_t oy, int64_t ox) {                      \
        double sum = 0, best = 0;                                                                  \
        bool any = false;                                                                          \
        for (int64_t iy = 0; iy < j->y.grid; iy++) {                                               \
            const roi_sample *y = &j->y.samples[oy * j->y.grid + iy];                              \
            const T *low = in + y->low * j->x.n_in, *high = in + y->high * j->x.n_in;              \
            for (int64_t ix = 0; ix < j->x.grid; ix++) {                                           \
                const roi_sample *x = &j->x.samples[ox * j->x.grid + ix];                          \
                const double a = y->w_low * x->w_low * (double)low[x->low];                        \
                const double b = y->w_low * x->w_high * (double)low[x->high];                      \
                const double p = y->w_high * x->w_low * (double)high[x->low];                      \
                const double q = y->w_high * x->w_high * (double)high[x->high];                    \
                const double most = fmax(fmax(a, b), fmax(p, q));                                  \
                sum += a + b + p + q;                                                              \
                best = any ? fmax(best, most) : most;                                              \
                any = true;                                                                        \
            }                                                                                      \
        }                                                                                          \
        const int64_t n = pl_i64_max(1, j->y.grid * j->x.grid);                                    \
        return j->max ? best : sum / (double)n;                                                    \
    }
BIN(bin_f32, pl_f32)
BIN(bin_f64, pl_f64)

static void roi_range(void *ctx, int64_t begin, int64_t end) {
    const roi_job *j = ctx;
    const int64_t plane = j->y.n_in * j->x.n_in, n = j->y.n_out * j->x.n_out;
    const size_t size = pl_dtype_bytes(j->dtype);
    for (int64_t i = begin * n; i < end * n; i++) {
        const int64_t channel = i / n, oy = i % n / j->x.n_out, ox = i % j->x.n_out;
        const double v = j->wide ? bin_f64(j, (const pl_f64 *)j->in + channel * plane, oy, ox)
                                 : bin_f32(j, (const pl_f32 *)j->in + channel * plane, oy, ox);
        pl_store_f64(j->dtype, &v, j->out + (size_t)i * size, 1);
    }
}

/* Sides and grid of region r. RoiAlign-16: with half_pixel the region may be empty, without it is
 * at least one cell. */
static pl_status roi_read(const pl_eval *c, int64_t r, roi_axis *a, bool is_x) {
    const pl_tensor *rois = pl_in(c, 1);
    const double scale = pl_attr_float(c->node, "spatial_scale");
    const int64_t ratio = pl_attr_int(c->node, "sampling_ratio");
    const bool half = c->node->opset >= 16 &&
                      pl_attr_string_is(c->node, "coordinate_transformation_mode", "half_pixel");
    const double offset = half ? 0.5 : 0;
    const double from = pl_tensor_get_f64(rois, r * 4 + (is_x ? 0 : 1)) * scale - offset;
    const double to = pl_tensor_get_f64(rois, r * 4 + (is_x ? 2 : 3)) * scale - offset;
    a->start = from;
    a->size = half ? to - from : fmax(to - from, 1);
    const double grid = ratio > 0 ? (double)ratio : ceil(a->size / (double)a->n_out);
    if (!isfinite(a->size) || grid * (double)a->n_out > 1 << 20) {
        return pl_eval_fail(c, "region %lld spans %g to %g", (long long)r, from, to);
    }
    a->grid = grid < 0 ? 0 : (int64_t)grid;
    return PL_OK;
}

static pl_status roi_check(const pl_eval *c, roi_job *j, int64_t *most) {
    const pl_tensor *x = pl_in(c, 0), *batch = pl_in(c, 2);
    for (int64_t r = 0; r < batch->n_elements; r++) {
        const int64_t b = pl_tensor_get_i64(batch, r);
        if (b < 0 || b >= x->dims[0]) {
            return pl_eval_fail(c, "batch index %lld (region %lld) is outside 0 to %lld",
                                (long long)b, (long long)r, (long long)(x->dims[0] - 1));
        }
        PL_TRY(roi_read(c, r, &j->y, false));
        PL_TRY(roi_read(c, r, &j->x, true));
        most[0] = pl_i64_max(most[0], j->y.grid * j->y.n_out);
        most[1] = pl_i64_max(most[1], j->x.grid * j->x.n_out);
        if (most[0] * most[1] > (int64_t)1 << 28) {
            return pl_eval_fail(c, "region %lld has too many samples", (long long)r);
        }
    }
    return PL_OK;
}

static pl_status roi_align_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *batch = pl_in(c, 2);
    pl_tensor *out = pl_out(c, 0);
    int64_t most[2] = { 0, 0 };
    if (out->n_elements == 0) return PL_OK;
    roi_job j = { .wide = x->dtype == PL_F64,
                  .max = pl_attr_string_is(c->node, "mode", "max"),
                  .dtype = x->dtype };
    j.y = (roi_axis){ .n_in = x->dims[2], .n_out = out->dims[2] };
    j.x = (roi_axis){ .n_in = x->dims[3], .n_out = out->dims[3] };
    if (j.y.n_in == 0 || j.x.n_in == 0) return pl_eval_fail(c, "the images are empty");
    PL_TRY(roi_check(c, &j, most));
    const void *data = j.wide ? (const void *)pl_in_f64(c, 0) : (const void *)pl_in_f32(c, 0);
    j.y.samples = pl_scratch(c, (size_t)most[0], sizeof(roi_sample));
    j.x.samples = pl_scratch(c, (size_t)most[1], sizeof(roi_sample));
    if (data == NULL || j.y.samples == NULL || j.x.samples == NULL) return pl_eval_memory(c);
    const int64_t item = x->strides[0], n = out->dims[2] * out->dims[3];
    for (int64_t r = 0; r < batch->n_elements; r++) {
        PL_TRY(roi_read(c, r, &j.y, false));
        PL_TRY(roi_read(c, r, &j.x, true));
        roi_samples(&j.y);
        roi_samples(&j.x);
        const int64_t at = pl_tensor_get_i64(batch, r) * item;
        j.in = (const char *)data + (size_t)at * (j.wide ? sizeof(double) : sizeof(float));
        j.out = (char *)out->data + (size_t)(r * out->strides[0]) * pl_dtype_bytes(x->dtype);
        const int64_t each = n * pl_i64_max(1, j.y.grid * j.x.grid);
        pl_pool_for(c->pool, out->dims[1], pl_i64_max(1, 8192 / each), roi_range, &j);
    }
    return PL_OK;
}

/* ---- MaxRoiPool ---- */

static pl_status max_roi_infer(pl_infer *c) {
    size_t n = 0;
    const int64_t *shape = pl_attr_ints(c->node, "pooled_shape", &n);
    PL_TRY(expect_rank(c, 0, 4));
    PL_TRY(expect_rank(c, 1, 2));
    PL_TRY(expect_dim(c, 1, 1, 5));
    if (n != 2 || shape[0] < 1 || shape[1] < 1) {
        return pl_infer_fail(c, "pooled_shape is not two positive numbers");
    }
    const pl_dim dims[4] = { pl_infer_dim(c, 1, 0), pl_infer_dim(c, 0, 1), pl_dim_of(shape[0]),
                             pl_dim_of(shape[1]) };
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 4, dims);
}

typedef struct pool_axis { /* cells of the input that output i covers: exact, in integers */
    int64_t start, size, n_out, n_in;
} pool_axis;

static int64_t cell(const pool_axis *a, int64_t i, bool up) {
    const int64_t at = i * a->size, whole = at / a->n_out;
    const int64_t place = a->start + whole + (up && at % a->n_out != 0 ? 1 : 0);
    return pl_i64_max(0, pl_i64_min(place, a->n_in));
}

static pl_status pool_axis_read(const pl_eval *c, int64_t r, pool_axis *a, bool is_x) {
    const pl_tensor *rois = pl_in(c, 1);
    const double scale = pl_attr_float(c->node, "spatial_scale");
    const double from = round(pl_tensor_get_f64(rois, r * 5 + (is_x ? 1 : 2)) * scale);
    const double to = round(pl_tensor_get_f64(rois, r * 5 + (is_x ? 3 : 4)) * scale);
    const double limit = 1 << 30;
    if (!(fabs(from) < limit && fabs(to) < limit) || a->n_out > 1 << 30) {
        return pl_eval_fail(c, "region %lld spans %g to %g", (long long)r, from, to);
    }
    a->start = (int64_t)from;
    a->size = pl_i64_max(1, (int64_t)(to - from) + 1);
    return PL_OK;
}

/* The largest element of a bin; 0 when it covers none. */
static double pool_bin(const pl_f64 *plane, const pool_axis *y, const pool_axis *x, int64_t i,
                       int64_t k) {
    const int64_t y1 = cell(y, i + 1, true), x1 = cell(x, k + 1, true);
    double best = 0;
    bool any = false;
    for (int64_t row = cell(y, i, false); row < y1; row++) {
        for (int64_t column = cell(x, k, false); column < x1; column++) {
            const double v = plane[row * x->n_in + column];
            if (!any || v > best || v != v) best = v;
            any = true;
        }
    }
    return best;
}

static pl_status max_roi_eval(pl_eval *c) {
    const pl_tensor *in = pl_in(c, 0), *rois = pl_in(c, 1);
    pl_tensor *out = pl_out(c, 0);
    const size_t size = pl_dtype_bytes(out->dtype);
    if (out->n_elements == 0) return PL_OK;
    const pl_f64 *data = pl_in_f64(c, 0);
    if (data == NULL) return pl_eval_memory(c);
    char *to = out->data;
    for (int64_t r = 0; r < rois->dims[0]; r++) {
        pool_axis y = { .n_out = out->dims[2], .n_in = in->dims[2] };
        pool_axis x = { .n_out = out->dims[3], .n_in = in->dims[3] };
        const double batch = pl_tensor_get_f64(rois, r * 5);
        if (!(batch >= 0 && batch < (double)in->dims[0])) {
            return pl_eval_fail(c, "batch index %g (region %lld) is outside 0 to %lld", batch,
                                (long long)r, (long long)(in->dims[0] - 1));
        }
        PL_TRY(pool_axis_read(c, r, &y, false));
        PL_TRY(pool_axis_read(c, r, &x, true));
        for (int64_t i = 0; i < out->dims[1] * y.n_out * x.n_out; i++, to += size) {
            const int64_t channel = i / (y.n_out * x.n_out);
            const pl_f64 *plane = data + ((int64_t)batch * in->dims[1] + channel) * y.n_in * x.n_in;
            const double v = pool_bin(plane, &y, &x, i / x.n_out % y.n_out, i % x.n_out);
            pl_store_f64(out->dtype, &v, to, 1);
        }
    }
    return PL_OK;
}

/* ---- RoiAlign: gradient ---- */

/* Weights of the cells that one region reads, as a matrix: a row per output (oy, ox), a column per
 * cell. */
static void roi_weights(const roi_job *j, double *m) {
    const double n = (double)pl_i64_max(1, j->y.grid * j->x.grid);
    for (int64_t o = 0; o < j->y.n_out * j->x.n_out; o++) {
        double *row = m + o * j->y.n_in * j->x.n_in;
        for (int64_t iy = 0; iy < j->y.grid; iy++) {
            const roi_sample *y = &j->y.samples[o / j->x.n_out * j->y.grid + iy];
            for (int64_t ix = 0; ix < j->x.grid; ix++) {
                const roi_sample *x = &j->x.samples[o % j->x.n_out * j->x.grid + ix];
                row[y->low * j->x.n_in + x->low] += y->w_low * x->w_low / n;
                row[y->low * j->x.n_in + x->high] += y->w_low * x->w_high / n;
                row[y->high * j->x.n_in + x->low] += y->w_high * x->w_low / n;
                row[y->high * j->x.n_in + x->high] += y->w_high * x->w_high / n;
            }
        }
    }
}

/* For each output of one region, the `each` corners to take the maximum of: cells and weights.
 * Missing corners repeat the first. */
static void roi_corners(const roi_job *j, int64_t each, double *cells, double *weights) {
    for (int64_t i = 0; i < j->y.n_out * j->x.n_out * each; i++) {
        const int64_t o = i / each, n = 4 * j->y.grid * j->x.grid;
        const int64_t k = i % each < n ? i % each : 0, s = k / 4;
        if (n == 0) continue;
        const roi_sample *y = &j->y.samples[o / j->x.n_out * j->y.grid + s / j->x.grid];
        const roi_sample *x = &j->x.samples[o % j->x.n_out * j->x.grid + s % j->x.grid];
        const bool down = (k & 2) != 0, right = (k & 1) != 0;
        cells[i] = (double)((down ? y->high : y->low) * j->x.n_in + (right ? x->high : x->low));
        weights[i] = (down ? y->w_high : y->w_low) * (right ? x->w_high : x->w_low);
    }
}

typedef struct roi_plan { /* regions that are known before the run */
    pl_grad *c;
    pl_arena *arena;
    const pl_tensor *rois, *batch;
    roi_job j;
    int64_t n, n_images, n_cells, n_outputs; /* regions, images, cells and outputs of a plane */
} roi_plan;

static bool roi_plan_open(roi_plan *p, pl_grad *c) {
    const pl_node *node = c->node;
    *p = (roi_plan){ .c = c, .rois = pl_g_known(node->in[1]), .batch = pl_g_known(node->in[2]) };
    p->n = p->batch->n_elements;
    p->n_images = pl_g_dim(c, node->in[0], 0);
    p->j.y.n_in = pl_g_dim(c, node->in[0], 2);
    p->j.x.n_in = pl_g_dim(c, node->in[0], 3);
    p->j.y.n_out = pl_attr_int(node, "output_height");
    p->j.x.n_out = pl_attr_int(node, "output_width");
    p->arena = pl_arena_new();
    if (p->arena == NULL && c->st == PL_OK) c->st = pl_fail_memory(c->err, 1);
    if (c->st == PL_OK && (!pl_i64_mul(p->j.y.n_in, p->j.x.n_in, &p->n_cells) ||
                           !pl_i64_mul(p->j.y.n_out, p->j.x.n_out, &p->n_outputs)))
        (void)pl_g_fail(c, "needs a constant that is too large");
    for (int64_t r = 0; r < p->n && c->st == PL_OK; r++) {
        const int64_t b = pl_tensor_get_i64(p->batch, r);
        if (b >= 0 && b < p->n_images) continue;
        c->st = pl_node_fail(c->err, PL_E_INVALID, node, "batch index %lld is outside 0 to %lld",
                             (long long)b, (long long)(p->n_images - 1));
    }
    return c->st == PL_OK;
}

/* Grid and samples of region r. */
static bool roi_plan_at(roi_plan *p, int64_t r) {
    pl_datum data = { .kind = PL_TYPE_TENSOR, .tensor = (pl_tensor *)(uintptr_t)p->rois };
    pl_datum *in[3] = { NULL, &data, NULL };
    const pl_eval eval = { .node = p->c->node, .n_in = 3, .in = in, .err = p->c->err };
    roi_axis *axes[2] = { &p->j.y, &p->j.x };
    for (int d = 0; d < 2 && p->c->st == PL_OK; d++) {
        roi_axis *a = axes[d];
        p->c->st = roi_read(&eval, r, a, d == 1);
        if (p->c->st != PL_OK) break;
        a->samples = pl_arena_array(p->arena, (size_t)(a->grid * a->n_out), sizeof(roi_sample));
        if (a->samples == NULL) p->c->st = pl_fail_memory(p->c->err, 1);
        if (p->c->st == PL_OK) roi_samples(a);
    }
    return p->c->st == PL_OK;
}

/* Matrices of all regions, (regions, outputs, cells), and which image each region reads, (N,
 * regions). */
static pl_value *roi_average(roi_plan *p) {
    pl_grad *c = p->c;
    pl_value *x = c->node->in[0];
    pl_g_table weights = { .data = NULL }, images = { .data = NULL };
    const int64_t cells = p->n_cells, outputs = p->n_outputs;
    if (!pl_g_table_new(c, &images, 2, (const int64_t[]){ p->n_images, p->n })) return NULL;
    if (pl_g_table_new(c, &weights, 3, (const int64_t[]){ p->n, outputs, cells })) {
        for (int64_t r = 0; r < p->n && roi_plan_at(p, r); r++) {
            if (cells > 0) roi_weights(&p->j, weights.data + r * outputs * cells);
            images.data[pl_tensor_get_i64(p->batch, r) * p->n + r] = 1;
        }
    }
    const pl_dtype dtype = x->type->dtype;
    pl_value *m = pl_g_table_value(c, &weights, dtype), *pick = pl_g_table_value(c, &images, dtype);
    pl_value *g = pl_g_reshape(c, c->dy[0], (const int64_t[]){ 0, 0, -1 }, 3);
    g = pl_g2(c, "MatMul", g, m); /* regions, channels, cells */
    g = pl_g_reshape(c, g, (const int64_t[]){ 0, -1 }, 2);
    return pl_g_reshape_like(c, pl_g2(c, "MatMul", pick, g), x);
}

/* The same for mode max: the tables for pl_roi_gather_grad. */
static pl_status roi_largest(roi_plan *p) {
    pl_grad *c = p->c;
    pl_g_table cells = { .data = NULL }, weights = { .data = NULL };
    const int64_t outputs = p->n_outputs;
    int64_t each = 1;
    for (int64_t r = 0; r < p->n && roi_plan_at(p, r); r++)
        each = pl_i64_max(each, 4 * p->j.y.grid * p->j.x.grid);
    const int64_t dims[4] = { p->n, 1, outputs, each };
    if (pl_g_table_new(c, &cells, 4, dims) && pl_g_table_new(c, &weights, 4, dims)) {
        for (int64_t r = 0; r < p->n && roi_plan_at(p, r); r++) {
            const int64_t at = r * outputs * each;
            roi_corners(&p->j, each, cells.data + at, weights.data + at);
        }
    }
    pl_value *at = pl_g_table_value(c, &cells, PL_I64);
    pl_value *w = pl_g_table_value(c, &weights, c->node->in[0]->type->dtype);
    return pl_roi_gather_grad(c, at, w, true);
}

/* Regions have no gradient, as in PyTorch. */
static pl_status roi_align_grad(pl_grad *c) {
    roi_plan p;
    if (pl_g_known(c->node->in[1]) == NULL || pl_g_known(c->node->in[2]) == NULL)
        return pl_roi_align_open_grad(c);
    if (roi_plan_open(&p, c)) {
        if (pl_attr_string_is(c->node, "mode", "max")) {
            c->st = roi_largest(&p);
        } else {
            c->dx[0] = roi_average(&p);
        }
    }
    pl_arena_free(p.arena);
    return c->st;
}

/* ---- bounds ---- */

/* Range (largest - smallest) of the input plane that output plane i (region, channel) reads. */
static double plane_range(pl_bound *c, int64_t i, const double *px) {
    const pl_tensor *x = pl_b_in(c, 0);
    const int64_t n = x->dims[2] * x->dims[3], channel = i % x->dims[1];
    const int64_t batch = pl_tensor_get_i64(pl_b_in(c, 2), i / x->dims[1]);
    return pl_b_range(px + (batch * x->dims[1] + channel) * n, n);
}

/* Weights and sums as usual. In addition the rounding of a coordinate moves the sample along the
 * slope of the plane. */
static pl_status roi_align_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0), *rois = pl_b_in(c, 1);
    const double *px = pl_b_x(c, 0), *py = pl_b_y(c, 0), *pr = pl_b_x(c, 1);
    pl_tensor *t = NULL, *s = NULL, *inherited = NULL;
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL || pr == NULL) return pl_fail_memory(c->err, 1);
    const double scale = fabs(pl_attr_float(c->node, "spatial_scale"));
    const double side = fmax((double)x->dims[2], (double)x->dims[3]);
    const double reach = fmin(side, scale * pl_b_peak(pr, rois->n_elements)) + 1;
    const double off = c->u_acc * reach + scale * pl_b_worst(pl_b_e(c, 1), rois->n_elements);
    const int64_t ratio = pl_attr_int(c->node, "sampling_ratio");
    const double k = ratio > 0 ? 4 * (double)(ratio * ratio)
                               : 4 * ceil(side / (double)y->dims[2] * side / (double)y->dims[3]);
    PL_TRY(pl_b_map(c, x, pl_b_abs, &t));
    pl_status st = pl_b_apply_one(c, 0, t, c->u > 0x1p-40 ? PL_F32 : PL_F64, &s);
    if (st == PL_OK && c->e_in[0] != NULL)
        st = pl_b_apply_one(c, 0, c->e_in[0], PL_F64, &inherited);
    const int64_t cells = y->dims[2] * y->dims[3];
    for (int64_t p = 0; st == PL_OK && p < y->n_elements / cells; p++) {
        const double place = off * plane_range(c, p, px);
        for (int64_t i = p * cells; i < (p + 1) * cells; i++) {
            e[i] = c->u_acc * (pl_b_chain(k) + 2) * fabs(((const double *)s->data)[i]) + place;
            if (inherited != NULL) e[i] += ((const double *)inherited->data)[i];
        }
    }
    if (st == PL_OK) pl_b_add_stored(c, py, e, y->n_elements);
    pl_tensor_unref(t);
    pl_tensor_unref(s);
    pl_tensor_unref(inherited);
    return st;
}

/* Copies elements of X. If the regions are inexact, any element may be picked. */
static pl_status max_roi_bound(pl_bound *c) {
    const double *px = pl_b_x(c, 0);
    if (c->e_in[0] != NULL) PL_TRY(pl_b_apply_one(c, 0, c->e_in[0], PL_F64, &c->e_out[0]));
    if (c->e_in[1] == NULL) return PL_OK;
    if (px == NULL) return pl_fail_memory(c->err, 1);
    double *e = c->e_out[0] == NULL ? NULL : c->e_out[0]->data;
    if (e == NULL) PL_TRY(pl_b_new(c, 0, &e));
    const double range = pl_b_range(px, pl_b_in(c, 0)->n_elements);
    for (int64_t i = 0; e != NULL && i < c->e_out[0]->n_elements; i++)
        e[i] += range;
    return PL_OK;
}

/* ---- rows ---- */

#define ROI_ALIGN                                                                                  \
    .name = "RoiAlign",                                                                            \
    .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "rois", PL_T_FLOAT, PL_PORT_SAME },        \
                   { "batch_indices", PL_T_I64, PL_PORT_ROWS_OF(0) }),                             \
    .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .infer = roi_align_infer, .eval = roi_align_eval,     \
    .grad = roi_align_grad, .bound = roi_align_bound,                                              \
    PL_EMIT_BREAK("window positions depend on data: a library routine"), .autocast = PL_AMP_FP32,  \
    .nan = PL_NAN_EITHER
#define ROI_ATTRS                                                                                  \
    PL_A_STRING("mode", "avg"), PL_A_INT("output_height", 1), PL_A_INT("output_width", 1),         \
        PL_A_INT("sampling_ratio", 0), PL_A_FLOAT("spatial_scale", 1)
#define ROIS "<float[2,4] r = {0,0,3,3,1,2,4.5,5}, int64[2] b = {0,1}>"

/* clang-format off */
const pl_op_def pl_ops_region[] = {
    { .name = "MaxRoiPool", .since = 1,
      .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "rois", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("pooled_shape", INTS), PL_A_FLOAT("spatial_scale", 1)),
      .infer = max_roi_infer, .eval = max_roi_eval, .grad = pl_max_roi_pool_grad, .bound = max_roi_bound,
      PL_EMIT_BREAK("window positions depend on data: a library routine"), .autocast = PL_AMP_KEEP, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3,6,6] x) => (y) <float[2,5] r = {0,0,0,3,3,1,1,2,5,5}> { y = MaxRoiPool<pooled_shape=[2,3]>(x, r) }", NULL, 0 }) },
    { .name = "NonMaxSuppression", .since = 10, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS({ "boxes", PL_T(PL_F32), 0 }, { "scores", PL_T(PL_F32), 0 },
                     { "max_output_boxes_per_class", PL_T_I64, PL_PORT_OPTIONAL },
                     { "iou_threshold", PL_T(PL_F32), PL_PORT_OPTIONAL },
                     { "score_threshold", PL_T(PL_F32), PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "selected_indices", PL_T_I64, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("center_point_box", 0)),
      .infer = nms_infer, .eval = nms_eval, .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT,
      PL_EMIT_BREAK("its shape depends on data"), .autocast = PL_AMP_FP32, .nan = PL_NAN_ANY,
      .samples = PL_SAMPLES(
          { "(float[1,6,4] boxes, float[1,2,6] scores) => (y) <int64[1] n = {3}, float[1] iou = {0.5}, float[1] s = {0.1}> { y = NonMaxSuppression(boxes, scores, n, iou, s) }",
            "boxes=0:1 scores=0:1", PL_SAMPLE_NO_GRAD },
          { "(float[1,6,4] boxes, float[1,2,6] scores) => (y) <int64[1] n = {3}> { y = NonMaxSuppression<center_point_box=1>(boxes, scores, n) }",
            "boxes=0:1 scores=0:1", PL_SAMPLE_NO_GRAD }) },
    { ROI_ALIGN, .since = 10, .until = 15, .attrs = PL_ATTRS(ROI_ATTRS),
      .samples = PL_SAMPLES({ "(float[2,3,6,6] x) => (y) " ROIS " { y = RoiAlign<output_height=2, output_width=3, sampling_ratio=2>(x, r, b) }", NULL, 0 },
          { "(float[2,3,6,6] x) => (y) " ROIS " { y = RoiAlign<output_height=2, output_width=3, mode=\"max\">(x, r, b) }", NULL, 0 }) },
    { ROI_ALIGN, .since = 16,
      .attrs = PL_ATTRS(PL_A_STRING("coordinate_transformation_mode", "half_pixel"), ROI_ATTRS),
      .samples = PL_SAMPLES(
          { "(float[2,3,6,6] x) => (y) " ROIS " { y = RoiAlign<output_height=2, output_width=2>(x, r, b) }", NULL, 0 },
          { "(float[2,3,6,6] x) => (y) " ROIS " { y = RoiAlign<mode=\"max\", coordinate_transformation_mode=\"output_half_pixel\">(x, r, b) }", NULL, 0 },
          { "(float[2,2,6,7] x, int64[3,4] r, int64[3] b) => (y) { f = Cast<to=1>(r) y = RoiAlign<output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.75>(x, f, b) }",
            "r=0:8 b=0:1", 0 },
          { "(float[2,2,6,7] x, int64[3,4] r, int64[3] b) => (y) { f = Cast<to=1>(r) y = RoiAlign<mode=\"max\", output_height=2, output_width=2, sampling_ratio=3>(x, f, b) }",
            "r=0:8 b=0:1", 0 }) },
    { 0 },
};
/* clang-format on */

/* ONNX GridSample-16, -20, -22 in any number of dims.
 *
 * For each point of the grid the taps (offset into the image, weight) are computed once and then
 * applied to every channel. Where the text of the specification is ambiguous this follows its
 * reference implementation: coordinates are computed in the grid's precision, a coordinate outside
 * the image is clamped (border) or mirrored (reflection) as a whole before its neighbours are, and
 * "nearest" rounds half to even. For a cubic with a border there is another reading
 * (pl_eval.otherwise): clamp each neighbour instead of the coordinate, as PyTorch does, which the
 * specification refers to. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"
#include "ops/image/image_rules.h"
#include "ops/infer.h"

typedef enum grid_mode { MODE_NEAREST = 1, MODE_LINEAR = 2, MODE_CUBIC = 4 } grid_mode; /* taps */
typedef enum grid_padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } grid_padding;

enum { TAPS_MAX = 4, SPATIAL_MAX = PL_RANK_MAX - 2, BATCH = 64 };

typedef struct grid_job {
    grid_mode mode;
    grid_padding padding;
    bool align_corners;
    bool by_taps; /* cubic with a border: clamp each tap, not the coordinate (PyTorch) */
    int n_axes;
    int64_t dims[SPATIAL_MAX]; /* of the image, without N and C */
    int64_t strides[SPATIAL_MAX];
    int64_t channels, image, points; /* image: elements of one channel; points: of one grid */
    const pl_tensor *grid;
    const void *x;
    void *y;
    pl_dtype type; /* F32, F64, or any for nearest */
    size_t size;   /* of an element, for nearest */
} grid_job;

/* ---- the shape rule ---- */

static pl_status grid_mode_of(const pl_node *node, grid_mode *out) {
    const struct {
        const char *name;
        grid_mode mode;
    } names[] = { { "linear", MODE_LINEAR },
                  { "bilinear", MODE_LINEAR },
                  { "cubic", MODE_CUBIC },
                  { "bicubic", MODE_CUBIC },
                  { "nearest", MODE_NEAREST } };
    if (!pl_attr_has(node, "mode")) {
        *out = MODE_LINEAR;
        return PL_OK;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!pl_attr_string_is(node, "mode", names[i].name)) continue;
        *out = names[i].mode;
        return PL_OK;
    }
    return PL_E_INVALID;
}

static pl_status grid_padding_of(const pl_node *node, grid_padding *out) {
    if (pl_attr_string_is(node, "padding_mode", "zeros"))
        *out = PAD_ZEROS;
    else if (pl_attr_string_is(node, "padding_mode", "border"))
        *out = PAD_BORDER;
    else if (pl_attr_string_is(node, "padding_mode", "reflection"))
        *out = PAD_REFLECTION;
    else
        return PL_E_INVALID;
    return PL_OK;
}

static pl_status check_grid(pl_infer *c, int rank) {
    const int grid_rank = pl_infer_rank(c, 1);
    if (rank < 3) return pl_infer_fail(c, "X has rank %d, expected 3 or more", rank);
    if (grid_rank >= 0 && grid_rank != rank) {
        return pl_infer_fail(c, "grid has rank %d, expected %d like X", grid_rank, rank);
    }
    const pl_dim axes = pl_infer_dim(c, 1, rank - 1);
    if (pl_dim_known(axes) && axes.value != rank - 2) {
        return pl_infer_fail(c, "the last dim of grid is %lld, expected %d", (long long)axes.value,
                             rank - 2);
    }
    const pl_dim n = pl_infer_dim(c, 0, 0), grid_n = pl_infer_dim(c, 1, 0);
    if (pl_dim_known(n) && pl_dim_known(grid_n) && n.value != grid_n.value) {
        return pl_infer_fail(c, "X has %lld images and grid %lld", (long long)n.value,
                             (long long)grid_n.value);
    }
    return PL_OK;
}

pl_status pl_grid_sample_infer(pl_infer *c) {
    grid_mode mode = MODE_LINEAR;
    grid_padding padding = PAD_ZEROS;
    if (grid_mode_of(c->node, &mode) != PL_OK) return pl_infer_fail(c, "unknown mode");
    if (grid_padding_of(c->node, &padding) != PL_OK) {
        return pl_infer_fail(c, "unknown padding_mode");
    }
    const int rank = pl_infer_rank(c, 0) >= 0 ? pl_infer_rank(c, 0) : pl_infer_rank(c, 1);
    if (rank < 0) return pl_infer_set_unranked(c, 0, pl_infer_dtype_of(c, 0));
    PL_TRY(check_grid(c, rank));
    pl_dim dims[PL_RANK_MAX] = { pl_infer_dim(c, 0, 0), pl_infer_dim(c, 0, 1) };
    for (int d = 2; d < rank; d++)
        dims[d] = pl_infer_dim(c, 1, d - 1);
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), rank, dims);
}

/* ---- from a normalised coordinate to taps ---- */

typedef struct axis_taps {
    int64_t index[TAPS_MAX]; /* -1: padding with zeros */
    double weight[TAPS_MAX];
} axis_taps;

static double coordinate(const grid_job *job, double n, int64_t dim) {
    if (job->grid->dtype == PL_F64) {
        const double d = (double)dim;
        return job->align_corners ? (n + 1) / 2 * (d - 1) : ((n + 1) * d - 1) / 2;
    }
    const float f = (float)n, d = (float)dim;
    return (double)(job->align_corners ? (f + 1) / 2 * (d - 1) : ((f + 1) * d - 1) / 2);
}

/* Mirrors x at the borders until it lies within; both infinities end on the lower border. */
static double reflect(double x, double low, double high) {
    const double range = high - low;
    if (x >= low && x <= high) return x;
    if (range <= 0 || !isfinite(x)) return low;
    const double over = x < low ? low - x : x - high;
    const double times = trunc(over / range), rest = over - times * range;
    const bool back = fmod(times, 2) == 0; /* reflected an odd number of times */
    return (x < low) == back ? low + rest : high - rest;
}

static int64_t clamp_index(double x, int64_t dim) {
    if (!(x > 0)) return 0;
    return x >= (double)(dim - 1) ? dim - 1 : (int64_t)x;
}

/* Index of the pixel at integer position `at` after padding; -1 = zero. */
static int64_t pixel(const grid_job *job, double at, int64_t dim) {
    const double low = job->align_corners ? 0 : -0.5, high = (double)dim - 1 - low;
    switch (job->padding) {
    case PAD_ZEROS: return at >= 0 && at < (double)dim ? (int64_t)at : -1;
    case PAD_BORDER: return clamp_index(at, dim);
    default: return clamp_index(reflect(at, low, high), dim);
    }
}

static void cubic_weights(double t, double *w) {
    const double a = -0.75; /* the constant of Keys' kernel in PyTorch */
    const double before = t + 1, after = 2 - t, rest = 1 - t;
    w[0] = ((a * before - 5 * a) * before + 8 * a) * before - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * rest - (a + 3)) * rest * rest + 1;
    w[3] = ((a * after - 5 * a) * after + 8 * a) * after - 4 * a;
}

static void find_taps(const grid_job *job, double n, int64_t dim, axis_taps *taps) {
    double x = coordinate(job, n, dim);
    if (job->mode == MODE_NEAREST) x = rint(x);
    const double low = job->align_corners ? 0 : -0.5, high = (double)dim - 1 - low;
    if (isnan(x)) x = job->padding == PAD_ZEROS ? -TAPS_MAX : 0; /* as in PyTorch */
    if (x < low || x > high) {
        if (job->padding == PAD_BORDER && !job->by_taps) x = x < 0 ? 0 : (double)(dim - 1);
        if (job->padding == PAD_REFLECTION) x = reflect(x, low, high);
        /* Farther out every tap reads the same (zeros, or the border pixel), and infinity cannot be
         * floored to an index. */
        if (job->padding == PAD_ZEROS || job->by_taps)
            x = fmin(fmax(x, -TAPS_MAX), (double)(dim + TAPS_MAX));
    }
    const double at = floor(x), t = x - at;
    taps->weight[0] = 1;
    double first = at;
    if (job->mode == MODE_LINEAR) {
        taps->weight[0] = 1 - t;
        taps->weight[1] = t;
    } else if (job->mode == MODE_CUBIC) {
        cubic_weights(t, taps->weight);
        first = at - 1;
    }
    for (int k = 0; k < (int)job->mode; k++)
        taps->index[k] = pixel(job, first + k, dim);
}

/* ---- applying them ---- */

typedef struct tap_batch {
    int64_t offset[BATCH];
    double weight[BATCH];
    int n;
} tap_batch;

static void apply_f32(const grid_job *job, const tap_batch *b, int64_t from, int64_t to) {
    const pl_f32 *x = job->x;
    pl_f32 *y = job->y;
    for (int64_t c = 0; c < job->channels; c++) {
        double sum = (double)y[to + c * job->points];
        for (int k = 0; k < b->n; k++) {
            sum += b->weight[k] * (double)x[from + c * job->image + b->offset[k]];
        }
        y[to + c * job->points] = (float)sum;
    }
}

static void apply_f64(const grid_job *job, const tap_batch *b, int64_t from, int64_t to) {
    const pl_f64 *x = job->x;
    pl_f64 *y = job->y;
    for (int64_t c = 0; c < job->channels; c++) {
        double sum = y[to + c * job->points];
        for (int k = 0; k < b->n; k++) {
            sum += b->weight[k] * x[from + c * job->image + b->offset[k]];
        }
        y[to + c * job->points] = sum;
    }
}

/* Loops over every combination of one tap per axis, in batches: an N-dim cubic has 4^N. */
static void interpolate(const grid_job *job, const axis_taps *taps, int64_t from, int64_t to) {
    tap_batch batch = { .n = 0 };
    int pick[SPATIAL_MAX] = { 0 };
    for (;;) {
        int64_t offset = 0;
        double weight = 1;
        bool inside = true;
        for (int d = 0; d < job->n_axes; d++) {
            const int64_t index = taps[d].index[pick[d]];
            inside = inside && index >= 0;
            offset += index * job->strides[d];
            weight *= taps[d].weight[pick[d]];
        }
        if (inside) {
            batch.offset[batch.n] = offset;
            batch.weight[batch.n++] = weight;
        }
        int d = job->n_axes - 1;
        while (d >= 0 && ++pick[d] == (int)job->mode)
            pick[d--] = 0;
        if (batch.n == BATCH || (d < 0 && batch.n > 0)) {
            (job->type == PL_F64 ? apply_f64 : apply_f32)(job, &batch, from, to);
            batch.n = 0;
        }
        if (d < 0) return;
    }
}

static void copy_nearest(const grid_job *job, const axis_taps *taps, int64_t from, int64_t to) {
    int64_t offset = 0;
    for (int d = 0; d < job->n_axes; d++) {
        if (taps[d].index[0] < 0) return; /* the output was zeroed */
        offset += taps[d].index[0] * job->strides[d];
    }
    const char *x = job->x;
    char *y = job->y;
    for (int64_t c = 0; c < job->channels; c++) {
        memcpy(y + (size_t)(to + c * job->points) * job->size,
               x + (size_t)(from + c * job->image + offset) * job->size, job->size);
    }
}

static void sample_points(void *ctx, int64_t begin, int64_t end) {
    const grid_job *job = ctx;
    axis_taps taps[SPATIAL_MAX];
    double place[SPATIAL_MAX];
    const size_t step = pl_dtype_bytes(job->grid->dtype) * (size_t)job->n_axes;
    for (int64_t p = begin; p < end; p++) {
        pl_load_f64(job->grid->dtype, (const char *)job->grid->data + (size_t)p * step, place,
                    (size_t)job->n_axes);
        /* The grid lists x before y. */
        for (int d = 0; d < job->n_axes; d++) {
            find_taps(job, place[job->n_axes - 1 - d], job->dims[d], &taps[d]);
        }
        const int64_t n = p / job->points;
        const int64_t from = n * job->channels * job->image;
        const int64_t to = n * job->channels * job->points + p % job->points;
        (job->mode == MODE_NEAREST ? copy_nearest : interpolate)(job, taps, from, to);
    }
}

/* ---- the kernel ---- */

static pl_status sample_strings(pl_eval *c, grid_job *job) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_string *picked = pl_scratch(c, (size_t)y->n_elements, sizeof(*picked));
    if (picked == NULL) return pl_eval_memory(c);
    job->x = x->data;
    job->y = picked;
    sample_points(job, 0, y->dims[0] * job->points);
    for (int64_t i = 0; i < y->n_elements; i++) {
        const char *text = picked[i].data == NULL ? "" : picked[i].data;
        PL_TRY(pl_tensor_set_string(y, i, text, picked[i].n_bytes, c->err));
    }
    return PL_OK;
}

/* Linear and cubic: float and double directly, other types are converted to and from one of
 * them. */
static pl_status sample_numbers(pl_eval *c, grid_job *job) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_dtype_class class = pl_dtype_class_of(x->dtype);
    if (class == PL_CLASS_STRING || class == PL_CLASS_COMPLEX) return pl_eval_no_type(c, x->dtype);
    const bool narrow = class == PL_CLASS_FLOAT && x->dtype != PL_F64;
    const size_t n = (size_t)y->n_elements;
    job->type = narrow ? PL_F32 : PL_F64;
    job->x = narrow ? (const void *)pl_in_f32(c, 0) : (const void *)pl_in_f64(c, 0);
    job->y = y->dtype == job->type ? y->data : pl_scratch(c, n, pl_dtype_bytes(job->type));
    if (job->x == NULL || job->y == NULL) return pl_eval_memory(c);
    memset(job->y, 0, n * pl_dtype_bytes(job->type));
    const int64_t grain = pl_i64_max(1, 4096 / pl_i64_max(1, job->channels));
    pl_pool_for(c->pool, y->dims[0] * job->points, grain, sample_points, job);
    if (y->dtype == job->type) return PL_OK;
    if (narrow) pl_store_f32(y->dtype, job->y, y->data, n);
    if (!narrow) pl_store_f64(y->dtype, job->y, y->data, n);
    return PL_OK;
}

pl_status pl_grid_sample_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *grid = pl_in(c, 1);
    pl_tensor *y = pl_out(c, 0);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    grid_job job = { .n_axes = x->rank - 2,
                     .align_corners = pl_attr_int(c->node, "align_corners") != 0,
                     .channels = x->dims[1],
                     .image = 1,
                     .points = 1,
                     .grid = grid,
                     .size = pl_dtype_bytes(x->dtype) };
    (void)grid_mode_of(c->node, &job.mode); /* checked by the shape rule */
    (void)grid_padding_of(c->node, &job.padding);
    job.by_taps = c->otherwise && job.mode == MODE_CUBIC && job.padding == PAD_BORDER;
    for (int d = job.n_axes - 1; d >= 0; d--) {
        job.dims[d] = x->dims[d + 2];
        if (job.dims[d] == 0) return pl_eval_fail(c, "X has no pixel to sample");
        job.strides[d] = job.image;
        job.image *= job.dims[d];
        job.points *= y->dims[d + 2];
    }
    if (job.mode != MODE_NEAREST) return sample_numbers(c, &job);
    if (x->dtype == PL_STRING) return sample_strings(c, &job);
    job.x = x->data;
    job.y = y->data;
    memset(job.y, 0, pl_tensor_bytes(y));
    const int64_t grain = pl_i64_max(1, 8192 / pl_i64_max(1, job.channels));
    pl_pool_for(c->pool, y->dims[0] * job.points, grain, sample_points, &job);
    return PL_OK;
}

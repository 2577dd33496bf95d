/* Family "image": sampling by a grid, AffineGrid, ImageScaler, decoding image files. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "ops/emit.h"
#include "ops/image/image_decode.h"
#include "ops/image/image_rules.h"
#include "ops/infer.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/float_io.h"
#include "ops/lib/grad_nn.h"

extern const pl_op_def pl_ops_image[];

/* ---- AffineGrid-20 ---- */

/* theta is (N, 2, 3) for images and (N, 3, 4) for volumes: *axes 2 or 3, 0 when not known. */
static pl_status affine_axes(pl_infer *c, int *axes) {
    *axes = 0;
    if (pl_infer_rank(c, 0) < 0) return PL_OK;
    if (pl_infer_rank(c, 0) != 3) {
        return pl_infer_fail(c, "theta has rank %d, expected 3", pl_infer_rank(c, 0));
    }
    const pl_dim rows = pl_infer_dim(c, 0, 1), columns = pl_infer_dim(c, 0, 2);
    if (!pl_dim_known(rows) || !pl_dim_known(columns)) return PL_OK;
    if ((rows.value != 2 && rows.value != 3) || columns.value != rows.value + 1) {
        return pl_infer_fail(c, "theta is N x %lld x %lld, expected N x 2 x 3 or N x 3 x 4",
                             (long long)rows.value, (long long)columns.value);
    }
    *axes = (int)rows.value;
    return PL_OK;
}

static pl_status affine_grid_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    int axes = 0;
    PL_TRY(affine_axes(c, &axes));
    size_t n = 0;
    const int64_t *size = pl_infer_ints(c, 1, &n);
    if (size == NULL) {
        if (c->concrete) return pl_infer_fail(c, "size is not a vector");
        const pl_dim unknown = PL_DIM_UNKNOWN;
        const pl_dim dims[5] = { pl_infer_dim(c, 0, 0), unknown, unknown,
                                 axes == 2 ? pl_dim_of(2) : unknown, pl_dim_of(3) };
        return pl_infer_set(c, 0, dtype, axes == 0 ? -1 : axes + 2, dims);
    }
    if ((n != 4 && n != 5) || (axes != 0 && n != (size_t)axes + 2)) {
        return pl_infer_fail(c, "size has %zu numbers, expected %d", n, axes == 3 ? 5 : 4);
    }
    pl_dim dims[5];
    for (size_t d = 0; d < n; d++) {
        if (size[d] < 0) return pl_infer_fail(c, "size contains %lld", (long long)size[d]);
        if (d != 1) dims[d > 1 ? d - 1 : 0] = pl_dim_of(size[d]);
    }
    dims[n - 1] = pl_dim_of((int64_t)n - 2);
    const pl_dim batch = pl_infer_dim(c, 0, 0);
    if (pl_dim_known(batch) && batch.value != size[0]) {
        return pl_infer_fail(c, "theta has %lld matrices, size says %lld", (long long)batch.value,
                             (long long)size[0]);
    }
    return pl_infer_set(c, 0, dtype, (int)n, dims);
}

typedef struct affine_job {
    const pl_f64 *theta;
    double *y;
    int axes;
    bool align_corners;
    int64_t dims[3]; /* z y x, or y x */
    int64_t points;
} affine_job;

/* Where pixel i of n lies in [-1, 1]: at its centre, or with the outermost ones on the border. */
static double normalised(const affine_job *job, int64_t i, int64_t n) {
    if (!job->align_corners) return (2 * (double)i + 1) / (double)n - 1;
    return n == 1 ? 0 : 2 * (double)i / (double)(n - 1) - 1; /* n == 1: as in PyTorch */
}

static void affine_points(void *ctx, int64_t begin, int64_t end) {
    const affine_job *job = ctx;
    const int columns = job->axes + 1;
    for (int64_t p = begin; p < end; p++) {
        double at[4] = { 0 }; /* x, y, z, 1 */
        int64_t rest = p % job->points;
        for (int d = job->axes - 1; d >= 0; d--) {
            at[job->axes - 1 - d] = normalised(job, rest % job->dims[d], job->dims[d]);
            rest /= job->dims[d];
        }
        at[job->axes] = 1;
        const pl_f64 *theta = job->theta + p / job->points * job->axes * columns;
        for (int r = 0; r < job->axes; r++) {
            double sum = 0;
            for (int k = 0; k < columns; k++)
                sum += theta[r * columns + k] * at[k];
            job->y[p * job->axes + r] = sum;
        }
    }
}

static pl_status affine_grid_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    affine_job job = { .theta = pl_in_f64(c, 0),
                       .axes = y->rank - 2,
                       .align_corners = pl_attr_int(c->node, "align_corners") != 0,
                       .points = 1 };
    job.y = y->dtype == PL_F64 ? y->data : pl_scratch(c, (size_t)y->n_elements, sizeof(double));
    if (job.theta == NULL || job.y == NULL) return pl_eval_memory(c);
    for (int d = 0; d < job.axes; d++) {
        job.dims[d] = y->dims[d + 1];
        job.points *= job.dims[d];
    }
    pl_pool_for(c->pool, y->dims[0] * job.points, 4096, affine_points, &job);
    if (y->dtype != PL_F64) pl_store_f64(y->dtype, job.y, y->data, (size_t)y->n_elements);
    return PL_OK;
}

/* ---- ImageDecoder-20 ---- */

typedef enum pixel_format { PIXEL_NONE, PIXEL_RGB, PIXEL_BGR, PIXEL_GREY } pixel_format;

static pixel_format pixel_format_of(const pl_node *node) {
    if (!pl_attr_has(node, "pixel_format")) return PIXEL_RGB;
    if (pl_attr_string_is(node, "pixel_format", "RGB")) return PIXEL_RGB;
    if (pl_attr_string_is(node, "pixel_format", "BGR")) return PIXEL_BGR;
    if (pl_attr_string_is(node, "pixel_format", "Grayscale")) return PIXEL_GREY;
    return PIXEL_NONE;
}

static pl_status image_decoder_infer(pl_infer *c) {
    const pixel_format format = pixel_format_of(c->node);
    if (format == PIXEL_NONE) {
        return pl_infer_fail(c, "pixel_format is not RGB, BGR or Grayscale");
    }
    const int rank = pl_infer_rank(c, 0);
    if (rank >= 0 && rank != 1) {
        return pl_infer_fail(c, "encoded_stream has rank %d, expected 1", rank);
    }
    const pl_dim dims[3] = { PL_DIM_UNKNOWN, PL_DIM_UNKNOWN,
                             pl_dim_of(format == PIXEL_GREY ? 1 : 3) };
    return pl_infer_set(c, 0, PL_U8, 3, dims);
}

/* Converts one pixel (1 or 3 samples) to the format that the node asks for. */
static void put_pixel(const uint8_t *from, int channels, pixel_format format, uint8_t *to) {
    const uint32_t r = from[0], g = channels == 3 ? from[1] : r, b = channels == 3 ? from[2] : r;
    if (format == PIXEL_GREY) {
        /* ITU-R 601 in 16-bit fixed point as in Pillow, which made ONNX's test data. */
        const uint32_t grey = (19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16;
        to[0] = (uint8_t)(channels == 1 ? r : grey);
        return;
    }
    to[0] = (uint8_t)(format == PIXEL_BGR ? b : r);
    to[1] = (uint8_t)g;
    to[2] = (uint8_t)(format == PIXEL_BGR ? r : b);
}

static pl_status image_decoder_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const pixel_format format = pixel_format_of(c->node);
    const int64_t channels = format == PIXEL_GREY ? 1 : 3;
    pl_image image = PL_IMAGE_INIT;
    pl_err local = PL_ERR_INIT;
    pl_tensor *y = NULL;
    pl_status st = pl_image_decode((pl_bytes){ x->data, (size_t)x->n_elements },
                                   PL_IMAGE_PIXELS_MAX, &image, &local);
    /* "If it can't decode for any reason (e.g. corrupted encoded stream, invalid format), it will
     * return an empty matrix": that covers faults of the file. Others are errors. */
    if (st == PL_E_UNSUPPORTED) return pl_eval_unsupported(c, "%s", local.message);
    if (st == PL_E_MEMORY) return pl_eval_memory(c);
    if (st != PL_OK && st != PL_E_FORMAT) return pl_eval_fail(c, "%s", local.message);
    const int64_t dims[3] = { image.height, image.width, channels };
    PL_TRY_GOTO(done, st, pl_out_new(c, 0, PL_U8, 3, dims, &y));
    uint8_t *to = y->data;
    for (size_t i = 0; i < (size_t)image.width * image.height; i++) {
        put_pixel(image.pixels + i * (size_t)image.channels, image.channels, format,
                  to + i * (size_t)channels);
    }
done:
    pl_image_release(&image);
    return st;
}

/* ---- bounds ---- */

/* Coordinates are in [-1, 1], so a sum of products is at most the sum of |theta|. */
static pl_status affine_grid_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *theta = pl_b_x(c, 0), *et = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (theta == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    const int axes = y->rank - 2, columns = axes + 1;
    const int64_t points = y->n_elements / y->dims[0] / axes;
    for (int64_t i = 0; i < y->n_elements; i++) {
        const int64_t row = i / axes / points * axes + i % axes;
        double sum = 0, inherited = 0;
        for (int64_t k = row * columns; k < (row + 1) * columns; k++) {
            sum += fabs(theta[k]);
            if (et != NULL) inherited += et[k];
        }
        e[i] = c->u_acc * (pl_b_chain((double)columns) + 2) * sum + inherited;
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    return PL_OK;
}

/* How far the result moves when the coordinates of one axis move by their error, in both
 * directions. */
static pl_status probe_axis(pl_bound *c, int64_t axis, double *e) {
    const pl_tensor *grid = pl_b_in(c, 1);
    const double *g = pl_b_x(c, 1), *eg = pl_b_e(c, 1), *y = pl_b_y(c, 0);
    const int64_t axes = grid->dims[grid->rank - 1];
    pl_status st = PL_OK;
    double *most = pl_arena_array(c->scratch, (size_t)pl_b_out(c, 0)->n_elements, sizeof(double));
    if (g == NULL || y == NULL || most == NULL) return pl_fail_memory(c->err, 1);
    for (int side = -1; side <= 1 && st == PL_OK; side += 2) {
        pl_tensor *moved = NULL, *result = NULL;
        PL_TRY(pl_tensor_new(PL_F64, grid->rank, grid->dims, &moved, c->err));
        double *to = moved->data;
        for (int64_t i = 0; i < grid->n_elements; i++) {
            const double off = 4 * c->u_acc * (fabs(g[i]) + 1) + (eg == NULL ? 0 : eg[i]);
            to[i] = g[i] + (i % axes == axis ? side * off : 0);
        }
        st = pl_b_apply_one(c, 1, moved, PL_F64, &result);
        const double *r = result == NULL ? NULL : result->data;
        for (int64_t i = 0; st == PL_OK && result != NULL && i < result->n_elements; i++)
            most[i] = fmax(most[i], fabs(r[i] - y[i]));
        pl_tensor_unref(moved);
        pl_tensor_unref(result);
    }
    for (int64_t i = 0; st == PL_OK && i < pl_b_out(c, 0)->n_elements; i++)
        e[i] += most[i];
    return st;
}

static pl_status grid_sample_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    const double *px = pl_b_x(c, 0), *py = pl_b_y(c, 0), *ex = pl_b_e(c, 0);
    const bool cubic = pl_attr_string_is(c->node, "mode", "cubic") ||
                       pl_attr_string_is(c->node, "mode", "bicubic");
    const bool nearest = pl_attr_string_is(c->node, "mode", "nearest");
    double *e = NULL;
    if (y == NULL || y->n_elements == 0) return PL_OK;
    if (!pl_dtype_is_float(c->out_native[0])) return pl_b_unknown(c);
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &e));
    /* Weights sum to 1; those of a cubic, in absolute value, to at most 1.5 along an axis. */
    const int64_t planes = x->dims[0] * x->dims[1];
    const double weight = cubic ? pow(1.5, x->rank - 2) : 1;
    const double own = nearest ? 0 : c->u_acc * (pl_b_chain(cubic ? 16 : 8) + 2);
    for (int64_t p = 0; p < planes; p++) {
        const int64_t n = x->n_elements / planes, m = y->n_elements / planes;
        const double most = pl_b_peak(px + p * n, n);
        const double inherited = ex == NULL ? 0 : pl_b_worst(ex + p * n, n);
        for (int64_t i = p * m; i < (p + 1) * m; i++)
            e[i] = weight * (own * most + inherited);
    }
    if (!nearest) pl_b_add_stored(c, py, e, y->n_elements);
    for (int64_t axis = 0; axis < x->rank - 2; axis++)
        PL_TRY(probe_axis(c, axis, e));
    return PL_OK;
}

/* ---- ImageScaler-1: scale * x + bias[channel]. Experimental until opset 9; converters used it
 * ---- */

static pl_status image_scaler_infer(pl_infer *c) {
    size_t n = 0;
    const int rank = pl_infer_rank(c, 0);
    (void)pl_attr_floats(c->node, "bias", &n);
    if (rank < 0) return pl_infer_set_like(c, 0, 0);
    if (rank != 4) return pl_infer_fail(c, "input has rank %d, expected 4", rank);
    const pl_dim channels = pl_infer_dim(c, 0, 1);
    if (pl_dim_known(channels) && channels.value != (int64_t)n) {
        return pl_infer_fail(c, "bias has %zu values, expected %lld, one for each channel", n,
                             (long long)channels.value);
    }
    return pl_infer_set_like(c, 0, 0);
}

typedef struct scaler_job {
    const void *x; /* pl_f32 or pl_f64 */
    void *y;
    const float *bias;
    double scale;
    int64_t channels, n; /* elements of a plane */
} scaler_job;

#define SCALE_PLANES(F, T)                                                                         \
    static void scale_planes_##F(void *ctx, int64_t begin, int64_t end) {                          \
        const scaler_job *j = ctx;                                                                 \
        for (int64_t p = begin; p < end; p++) {                                                    \
            const pl_##F *x = (const pl_##F *)j->x + p * j->n;                                     \
            pl_##F *y = (pl_##F *)j->y + p * j->n;                                                 \
            const T scale = (T)j->scale, bias = (T)j->bias[p % j->channels];                       \
            for (int64_t i = 0; i < j->n; i++)                                                     \
                y[i] = x[i] * scale + bias;                                                        \
        }                                                                                          \
    }
SCALE_PLANES(f32, float)
SCALE_PLANES(f64, double)

static pl_status image_scaler_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool is_f64 = x->dtype == PL_F64;
    size_t n = 0;
    if (x->n_elements == 0) return PL_OK;
    scaler_job j = { .x = pl_in_floats(c, 0, is_f64),
                     .y = pl_out_floats(c, 0, is_f64),
                     .bias = pl_attr_floats(c->node, "bias", &n),
                     .scale = pl_attr_float(c->node, "scale"),
                     .channels = x->dims[1],
                     .n = x->dims[2] * x->dims[3] };
    if (j.x == NULL || j.y == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, x->dims[0] * x->dims[1], pl_rows_grain(j.n),
                is_f64 ? scale_planes_f64 : scale_planes_f32, &j);
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

static pl_status image_scaler_grad(pl_grad *c) {
    c->dx[0] = pl_g_scaled(c, c->dy[0], pl_attr_float(c->node, "scale"));
    return c->st;
}

/* The product and the sum are rounded. */
static double scaler_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double scale = pl_attr_float(c->node, "scale");
    return pl_b_round(c, scale * x[0]) + pl_b_round(c, y) + (e[0] == 0 ? 0 : fabs(scale) * e[0]);
}
static pl_status image_scaler_bound(pl_bound *c) {
    return pl_b_each(c, scaler_element);
}

static pl_status image_scaler_emit(pl_emit *c) {
    char expr[100], number[64];
    size_t n = 0;
    const float *bias = pl_attr_floats(c->node, "bias", &n);
    double *values = pl_calloc(n + 1, sizeof(*values));
    if (values == NULL) return pl_emit_decline(c, "no memory");
    for (size_t i = 0; i < n; i++)
        values[i] = (double)bias[i];
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const pl_ref list = pl_emit_numbers(c, wide, values, (int64_t)n);
    pl_free(values);
    snprintf(expr, sizeof(expr), "$0 * %s + $1",
             pl_emit_number(pl_attr_float(c->node, "scale"), number));
    return pl_emit_out(
        c, 0,
        pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), pl_emit_along(c, list, 3, 0)));
}

/* ---- rows ---- */

/* A PNM file: 2 x 1 pixels, red and white. */
#define PNM_FILE                                                                                   \
    "<uint8[17] x = {80, 54, 10, 50, 32, 49, 10, 50, 53, 53, 10, 255, 0, 0, 255, 255, 255}>"

#define GRID_SAMPLE(since_, until_, mode_, samples_)                                               \
    {                                                                                              \
        .name = "GridSample", .since = since_, .until = until_, .flags = PL_OP_OPEN,               \
        .in = PL_PORTS({ "X", PL_T_ANY, 0 }, { "grid", PL_T_FLOAT, 0 }),                           \
        .out = PL_PORTS({ "Y", PL_T_ANY, 0 }),                                                     \
        .attrs = PL_ATTRS(PL_A_INT("align_corners", 0), PL_A_STRING("mode", mode_),                \
                          PL_A_STRING("padding_mode", "zeros")),                                   \
        .infer = pl_grid_sample_infer, .eval = pl_grid_sample_eval, .grad = pl_grid_sample_grad,   \
        .bound = grid_sample_bound,                                                                \
        PL_EMIT_BREAK("sample positions depend on data: a library routine"),                       \
        .autocast = PL_AMP_FP32, .samples = samples_                                               \
    }

/* clang-format off */
const pl_op_def pl_ops_image[] = {
    { .name = "AffineGrid", .since = 20,
      .in = PL_PORTS({ "theta", PL_T_FLOAT, 0 }, { "size", PL_T_I64, 0 }),
      .out = PL_PORTS({ "grid", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("align_corners", 0)),
      .infer = affine_grid_infer, .eval = affine_grid_eval, .grad = pl_affine_grid_grad, .bound = affine_grid_bound, PL_EMIT_BREAK("a grid of coordinates: a library routine"), .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES(
          { "(float[2,2,3] t) => (y) <int64[4] size = {2, 3, 4, 5}> { y = AffineGrid(t, size) }", NULL, 0 },
          { "(float[1,3,4] t) => (y) <int64[5] size = {1, 1, 2, 3, 4}> { y = AffineGrid<align_corners=1>(t, size) }", NULL, 0 }) },
    GRID_SAMPLE(20, 0, "linear", PL_SAMPLES(
          { "(float[1,2,4,5] x, float[1,3,3,2] g) => (y) { y = GridSample(x, g) }", "g=-1.2:1.2", 0 },
          { "(float[1,2,4,5] x, float[1,3,3,2] g) => (y) { y = GridSample<mode=\"cubic\", padding_mode=\"border\">(x, g) }", "g=-1.2:1.2", 0 },
          { "(float[1,1,3,4,5] x, float[1,2,2,2,3] g) => (y) { y = GridSample<mode=\"nearest\", padding_mode=\"reflection\">(x, g) }", "g=-1.2:1.2", PL_SAMPLE_NO_GRAD },
          { "(float[1,2,3,4,5] x, float[1,2,2,2,3] g) => (y) { y = GridSample(x, g) }", "g=-1.2:1.2", 0 })),
    GRID_SAMPLE(16, 19, "bilinear", PL_SAMPLES(
          { "(float[1,2,4,5] x, float[1,3,3,2] g) => (y) { y = GridSample<mode=\"bicubic\", align_corners=1>(x, g) }", "g=-1.2:1.2", 0 },
                            { "(float[1,2,4,5] x, float[1,3,3,2] g) => (y) { y = GridSample<padding_mode=\"reflection\">(x, g) }", "g=-2.5:2.5", 0 },
                            { "(float[2,1,4,5] x, float[2,3,2,2] g) => (y) { y = GridSample<padding_mode=\"border\", align_corners=1>(x, g) }", "g=-1.3:1.3", 0 })),
    { .name = "ImageDecoder", .since = 20, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS({ "encoded_stream", PL_T(PL_U8), 0 }), .out = PL_PORTS({ "image", PL_T(PL_U8), 0 }),
      .attrs = PL_ATTRS(PL_A_STRING("pixel_format", "RGB")),
      .infer = image_decoder_infer, .eval = image_decoder_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = PL_BOUND_EXACT, PL_EMIT_BREAK("decodes a file"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "() => (y) " PNM_FILE " { y = ImageDecoder<pixel_format=\"Grayscale\">(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "ImageScaler", .since = 1, .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("bias", FLOATS), PL_A_FLOAT("scale", 1)),
      .infer = image_scaler_infer, .eval = image_scaler_eval, .grad = image_scaler_grad, .bound = image_scaler_bound, .emit = image_scaler_emit, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(float[2,3,4,5] x) => (y) { y = ImageScaler<bias=[-1.0, 0.5, 2.0], scale=0.25>(x) }", NULL, 0 },
          { "(float16[1,1,2,3] x) => (y) { y = ImageScaler<bias=[0.5]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

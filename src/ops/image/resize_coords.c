/* Sizes, coordinates and weights of Resize. Formulas: ONNX Resize-19. */
#include <math.h>

#include "base/size.h"
#include "ops/image/resize.h"
#include "ops/op.h"

/* ---- attributes ---- */

static bool choose(const pl_node *node, const char *attr, const char *const *names, int n,
                   int *out) {
    for (int k = 0; k < n; k++) {
        *out = k;
        if (pl_attr_string_is(node, attr, names[k])) return true;
    }
    return false;
}

static const char *read_axes(const pl_node *node, int rank, pl_resize *out) {
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(node, "axes", &n);
    bool seen[PL_RANK_MAX] = { false };
    out->n_axes = rank;
    for (int d = 0; d < rank; d++)
        out->axes[d] = d;
    if (axes == NULL || n == 0) return NULL;
    if (n > (size_t)rank) return "more axes than dims";
    out->n_axes = (int)n;
    for (size_t k = 0; k < n; k++) {
        if (axes[k] < -rank || axes[k] >= rank) return "an axis is outside the rank of the input";
        out->axes[k] = (int)(axes[k] < 0 ? axes[k] + rank : axes[k]);
        if (seen[out->axes[k]]) return "an axis appears twice";
        seen[out->axes[k]] = true;
    }
    return NULL;
}

const char *pl_resize_read(const pl_node *node, int rank, pl_resize *out) {
    static const char *const MODES[] = { "nearest", "linear", "cubic", "bilinear" };
    static const char *const COORDINATES[] = { "half_pixel",          "half_pixel_symmetric",
                                               "pytorch_half_pixel",  "align_corners",
                                               "asymmetric",          "tf_crop_and_resize",
                                               "tf_half_pixel_for_nn" };
    static const char *const NEAREST[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil" };
    static const char *const POLICIES[] = { "stretch", "not_larger", "not_smaller" };
    int at = 0;
    *out = (pl_resize){ .coordinates = PL_RESIZE_ASYMMETRIC,
                        .nearest = PL_RESIZE_SIMPLE,
                        .cubic_a = -0.75,
                        .policy = 's' };
    const char *wrong = read_axes(node, rank, out);
    if (wrong != NULL) return wrong;
    if (!choose(node, "mode", MODES, 4, &at)) return "mode is not nearest, linear or cubic";
    out->mode = at == 3 ? PL_RESIZE_LINEAR : (pl_resize_mode)at;
    if (node->def->since < 11) return NULL; /* Upsample and Resize-10 have no further attributes */
    if (!choose(node, "coordinate_transformation_mode", COORDINATES, 7, &at)) {
        return "unknown coordinate_transformation_mode";
    }
    out->coordinates = (pl_resize_coordinates)at;
    if (!choose(node, "nearest_mode", NEAREST, 4, &at)) return "unknown nearest_mode";
    out->nearest = (pl_resize_nearest)at;
    out->exclude_outside = pl_attr_int(node, "exclude_outside") != 0;
    out->cubic_a = pl_attr_float(node, "cubic_coeff_a");
    out->extrapolation = pl_attr_float(node, "extrapolation_value");
    if (node->def->since < 18) return NULL;
    out->antialias = pl_attr_int(node, "antialias") != 0 && out->mode != PL_RESIZE_NEAREST;
    if (!choose(node, "keep_aspect_ratio_policy", POLICIES, 3, &at)) {
        return "unknown keep_aspect_ratio_policy";
    }
    out->policy = "slm"[at];
    return NULL;
}

/* ---- sizes ---- */

/* Resize-19: floor(n_in * scale). In float, like the scales and other runtimes: 10 * 0.7f is 7. */
const char *pl_resize_by_scales(const pl_resize *r, const double *scales, size_t n,
                                pl_resize_axis *axes) {
    if (n != (size_t)r->n_axes) return "expected one scale per axis";
    for (int k = 0; k < r->n_axes; k++) {
        pl_resize_axis *a = &axes[r->axes[k]];
        const float scale = (float)scales[k];
        if (!(scale > 0) || !isfinite(scale)) return "a scale is not positive";
        const float size = floorf((float)a->n_in * scale);
        if (size > 9.0e18f) return "an output dim does not fit in 63 bits";
        a->scale = (double)scale;
        a->n_out = (int64_t)size;
        if (scale == 1.0f) a->n_out = a->n_in; /* also where n_in is not exact in float */
    }
    return NULL;
}

const char *pl_resize_by_sizes(const pl_resize *r, const int64_t *sizes, size_t n,
                               pl_resize_axis *axes) {
    double common = r->policy == 'l' ? HUGE_VAL : 0;
    if (n != (size_t)r->n_axes) return "expected one size per axis";
    for (int k = 0; k < r->n_axes; k++) {
        pl_resize_axis *a = &axes[r->axes[k]];
        if (sizes[k] < 0) return "a size is negative";
        if (a->n_in == 0 && (sizes[k] > 0 || r->policy != 's')) {
            return "an axis without elements cannot be enlarged";
        }
        a->n_out = sizes[k];
        a->scale = a->n_in == 0 ? 1 : (double)sizes[k] / (double)a->n_in;
        common = r->policy == 'l' ? fmin(common, a->scale) : fmax(common, a->scale);
    }
    if (r->policy == 's') return NULL;
    for (int k = 0; k < r->n_axes; k++) {
        pl_resize_axis *a = &axes[r->axes[k]];
        const double size = floor(common * (double)a->n_in + 0.5);
        if (size > 9.0e18) return "an output dim does not fit in 63 bits";
        a->n_out = (int64_t)size;
        a->scale = common;
    }
    return NULL;
}

const char *pl_resize_set_roi(const pl_resize *r, const pl_tensor *roi, int rank,
                              pl_resize_axis *axes) {
    for (int d = 0; d < rank; d++) {
        axes[d].start = 0;
        axes[d].end = 1;
    }
    if (r->coordinates != PL_RESIZE_CROP) return NULL;
    if (roi == NULL || roi->n_elements != 2 * (int64_t)r->n_axes) {
        return "expected two numbers per axis in roi";
    }
    for (int k = 0; k < r->n_axes; k++) {
        axes[r->axes[k]].start = pl_tensor_get_f64(roi, k);
        axes[r->axes[k]].end = pl_tensor_get_f64(roi, r->n_axes + k);
    }
    return NULL;
}

/* ---- coordinates ---- */

/* Input coordinate of output j. `width` is the output length before rounding. */
static double source_of(const pl_resize *r, const pl_resize_axis *a, int64_t j) {
    const double x = (double)j, n_in = (double)a->n_in, n_out = (double)a->n_out;
    const double width = a->scale * n_in;
    switch (r->coordinates) {
    case PL_RESIZE_HALF_PIXEL: return (x + 0.5) / a->scale - 0.5;
    case PL_RESIZE_HALF_PIXEL_SYMMETRIC:
        return n_in / 2 * (1 - n_out / width) + (x + 0.5) / a->scale - 0.5;
    case PL_RESIZE_PYTORCH_HALF_PIXEL: return a->n_out > 1 ? (x + 0.5) / a->scale - 0.5 : 0;
    case PL_RESIZE_ALIGN_CORNERS: return a->n_out > 1 ? x * (n_in - 1) / (width - 1) : 0;
    case PL_RESIZE_ASYMMETRIC: return x / a->scale;
    case PL_RESIZE_HALF_PIXEL_FOR_NN: return (x + 0.5) / a->scale;
    case PL_RESIZE_CROP: break;
    }
    if (a->n_out <= 1) return 0.5 * (a->start + a->end) * (n_in - 1);
    return a->start * (n_in - 1) + x * (a->end - a->start) * (n_in - 1) / (width - 1);
}

/* Snaps coordinates that differ from a half or an integer only by the rounding of a float scale:
 * with a scale of 1.7f, output 17 reads input 10 and not one slightly below it. */
static double snap(double x) {
    const double near = rint(2 * x) / 2;
    return fabs(x - near) <= 0x1p-22 * fmax(1, fabs(x)) ? near : x;
}

static int64_t clamp(double x, int64_t n_in) {
    if (!(x > 0)) return 0;
    return x >= (double)(n_in - 1) ? n_in - 1 : (int64_t)x;
}

static double pick_nearest(const pl_resize *r, const pl_resize_axis *a, double place) {
    const double x = snap(place);
    switch (r->nearest) {
    case PL_RESIZE_ROUND_PREFER_FLOOR: return ceil(x - 0.5);
    case PL_RESIZE_ROUND_PREFER_CEIL: return floor(x + 0.5);
    case PL_RESIZE_FLOOR: return floor(x);
    case PL_RESIZE_CEIL: return ceil(x);
    case PL_RESIZE_SIMPLE: return a->scale < 1 ? ceil(x) : floor(x);
    }
    return x;
}

/* ---- weights ---- */

static double cubic_weight(double x, double a) {
    const double d = fabs(x);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    return 0;
}

/* Stretch of the kernel (antialias, smaller outputs) and its reach in input cells. */
static double kernel_scale(const pl_resize *r, const pl_resize_axis *a) {
    return r->antialias && a->scale < 1 ? a->scale : 1;
}

static int64_t kernel_reach(const pl_resize *r, const pl_resize_axis *a) {
    const double radius = r->mode == PL_RESIZE_CUBIC ? 2 : 1;
    return (int64_t)fmin(ceil(radius / kernel_scale(r, a)), 1 << 28);
}

static void normalise(double *w, int n) {
    double sum = 0;
    for (int t = 0; t < n; t++)
        sum += w[t];
    for (int t = 0; sum != 0 && t < n; t++)
        w[t] /= sum;
}

static void weigh(const pl_resize *r, const pl_resize_axis *a, double x, int n, int64_t *at,
                  double *w) {
    const int before = n / 2 - 1; /* taps left of the one at floor(x) */
    const double scale = kernel_scale(r, a), base = floor(x) - before;
    for (int t = 0; t < n; t++) {
        const double place = base + t, d = (place - x) * scale;
        const bool outside = place < 0 || place > (double)(a->n_in - 1);
        w[t] = r->mode == PL_RESIZE_CUBIC ? cubic_weight(d, r->cubic_a) : fmax(0, 1 - fabs(d));
        if (r->exclude_outside && outside) w[t] = 0;
        at[t] = clamp(place, a->n_in);
    }
    if (r->exclude_outside || r->antialias) normalise(w, n);
}

bool pl_resize_taps(pl_eval *c, const pl_resize *r, const pl_resize_axis *a, pl_taps *out) {
    const bool nearest = r->mode == PL_RESIZE_NEAREST, crop = r->coordinates == PL_RESIZE_CROP;
    *out = (pl_taps){ .n = 1, .identity = true };
    const bool shifts = crop || r->coordinates == PL_RESIZE_HALF_PIXEL_FOR_NN;
    if (!shifts && a->n_in == a->n_out && a->scale == 1) return true;
    /* Taps beyond the axis are clamped to the edge; the limit only keeps 2 * reach in range. */
    if (!nearest) out->n = (int)(2 * pl_i64_min(kernel_reach(r, a), 1 << 28));
    const size_t n = (size_t)out->n, n_out = (size_t)a->n_out;
    size_t total = 0;
    if (!pl_size_mul(n, n_out, &total)) return false;
    out->at = pl_scratch(c, total, sizeof(*out->at));
    out->w = nearest ? NULL : pl_scratch(c, total, sizeof(*out->w));
    out->outside = crop ? pl_scratch(c, n_out, sizeof(bool)) : NULL;
    if (out->at == NULL || (!nearest && out->w == NULL) || (crop && out->outside == NULL)) {
        return false;
    }
    out->identity = a->n_in == a->n_out;
    for (size_t j = 0; j < n_out; j++) {
        const double x = source_of(r, a, (int64_t)j);
        if (nearest) {
            out->at[j] = clamp(pick_nearest(r, a, x), a->n_in);
        } else {
            weigh(r, a, isfinite(x) ? x : 0, out->n, out->at + j * n, out->w + j * n);
        }
        if (crop) out->outside[j] = !(x >= 0 && x <= (double)(a->n_in - 1));
        const bool same = nearest ? out->at[j] == (int64_t)j : x == (double)j;
        out->identity = out->identity && same && (!crop || !out->outside[j]);
    }
    return true;
}

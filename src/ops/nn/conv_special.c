/* Relatives of convolution: DeformConv, CausalConvWithState, Col2Im. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/convolve.h"
#include "ops/nn/conv_special_rules.h"

extern const pl_op_def pl_ops_conv_special[];

/* Dim d of input i must be `expected`, if both are known. */
static pl_status check_dim(const pl_infer *c, int i, int d, pl_dim expected) {
    const pl_dim found = pl_infer_dim(c, i, d);
    if (!pl_dim_known(found) || !pl_dim_known(expected) || found.value == expected.value) {
        return PL_OK;
    }
    return pl_infer_fail(c, "dim %d of input %d is %lld, expected %lld", d, i,
                         (long long)found.value, (long long)expected.value);
}

/* ---- DeformConv ---- */

enum { X, W, OFFSET, BIAS, MASK };

/* (N, channels, output cells…), channels = taps * offset_group * times. */
static pl_status check_per_tap(const pl_infer *c, int i, const pl_type *out, int64_t times) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0 || out == NULL || !out->has_rank) return PL_OK;
    if (rank != out->rank) return pl_infer_fail(c, "input %d has rank %d", i, rank);
    int64_t channels = times;
    bool known = pl_i64_mul(channels, pl_attr_int(c->node, "offset_group"), &channels);
    for (int d = 2; d < rank && known; d++) {
        const pl_dim size = pl_infer_dim(c, W, d);
        known = pl_dim_known(size) && pl_i64_mul(channels, size.value, &channels);
    }
    if (c->concrete && !known) return pl_infer_fail(c, "too many offsets");
    PL_TRY(check_dim(c, i, 0, out->dims[0]));
    PL_TRY(check_dim(c, i, 1, known ? pl_dim_of(channels) : PL_DIM_UNKNOWN));
    for (int d = 2; d < rank; d++)
        PL_TRY(check_dim(c, i, d, out->dims[d]));
    return PL_OK;
}

static pl_status deform_conv_infer(pl_infer *c) {
    const int64_t offset_group = pl_attr_int(c->node, "offset_group");
    const pl_dim c_in = pl_infer_dim(c, X, 1);
    if (offset_group < 1 || (pl_dim_known(c_in) && c_in.value % offset_group != 0)) {
        return pl_infer_fail(c, "invalid offset_group %lld", (long long)offset_group);
    }
    PL_TRY(pl_conv_infer_shape(c, X, W, pl_infer_dtype_of(c, X)));
    PL_TRY(pl_conv_check_bias(c, BIAS, pl_infer_dim(c, W, 0)));
    const int rank = pl_infer_rank(c, X);
    const pl_type *out = c->n_out > 0 ? c->out[0] : NULL;
    PL_TRY(check_per_tap(c, OFFSET, out, rank - 2));
    return check_per_tap(c, MASK, out, 1);
}

typedef struct deform_job {
    const pl_window *w;
    int64_t n_in, n_out, n_taps, each, per_offset_group, first_channel;
    const pl_f64 *x, *offset, *mask; /* of this batch item; mask may be NULL */
    double *columns;                 /* (each * n_taps, n_out) */
} deform_job;

/* x at a point between cells: linear in each dim, zero outside. */
static double sample(const pl_window *w, const pl_f64 *x, const double *point) {
    int64_t low[PL_RANK_MAX];
    double part[PL_RANK_MAX], sum = 0;
    for (int d = 0; d < w->n; d++) {
        if (!(point[d] > -1 && point[d] < (double)w->in[d])) return 0;
        const double floor_ = floor(point[d]);
        low[d] = (int64_t)floor_;
        part[d] = point[d] - floor_;
    }
    for (unsigned corner = 0; corner < 1u << w->n; corner++) {
        double weight = 1;
        int64_t at = 0;
        bool inside = true;
        for (int d = 0; d < w->n; d++) {
            const bool up = (corner >> d & 1) != 0;
            const int64_t i = low[d] + up;
            inside = inside && i >= 0 && i < w->in[d];
            weight *= up ? part[d] : 1 - part[d];
            at = at * w->in[d] + i;
        }
        if (inside) sum += weight * x[at];
    }
    return sum;
}

/* The columns of one input channel: every tap at every output cell. */
static void deform_channels(void *ctx, int64_t begin, int64_t end) {
    const deform_job *j = ctx;
    const pl_window *w = j->w;
    for (int64_t ch = begin; ch < end; ch++) {
        const int64_t channel = j->first_channel + ch, group = channel / j->per_offset_group;
        const pl_f64 *x = j->x + channel * j->n_in;
        int64_t tap[PL_RANK_MAX] = { 0 };
        for (int64_t t = 0; t < j->n_taps; t++) {
            const pl_f64 *offset = j->offset + (group * j->n_taps + t) * w->n * j->n_out;
            const pl_f64 *mask =
                j->mask == NULL ? NULL : j->mask + (group * j->n_taps + t) * j->n_out;
            double *out = j->columns + (ch * j->n_taps + t) * j->n_out;
            int64_t cell[PL_RANK_MAX] = { 0 };
            for (int64_t o = 0; o < j->n_out; o++) {
                double point[PL_RANK_MAX];
                for (int d = 0; d < w->n; d++) {
                    point[d] = (double)(cell[d] * w->stride[d] - w->pad_begin[d] +
                                        tap[d] * w->dilation[d]) +
                               offset[d * j->n_out + o];
                }
                out[o] = sample(w, x, point) * (mask == NULL ? 1 : mask[o]);
                (void)pl_window_next(w->n, w->out, cell);
            }
            (void)pl_window_next(w->n, w->kernel, tap);
        }
    }
}

static pl_status deform_conv_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, X), *w = pl_in(c, W);
    pl_tensor *y = pl_out(c, 0);
    const int64_t groups = pl_attr_int(c->node, "group"), c_out = w->dims[0];
    pl_window win = { 0 };
    PL_TRY(pl_conv_window(c, x, w, &win));
    if (y->n_elements == 0) return PL_OK;
    const bool bias = pl_has(c, BIAS), masked = pl_has(c, MASK);
    const pl_f64 *fx = pl_in_f64(c, X), *fw = pl_in_f64(c, W), *fo = pl_in_f64(c, OFFSET);
    const pl_f64 *fb = bias ? pl_in_f64(c, BIAS) : NULL, *fm = masked ? pl_in_f64(c, MASK) : NULL;
    double *fy = pl_scratch(c, (size_t)y->n_elements, sizeof(*fy));
    deform_job job = { .w = &win,
                       .n_out = pl_window_cells(&win),
                       .n_taps = pl_window_taps(&win),
                       .each = x->dims[1] / groups,
                       .n_in = 1,
                       .per_offset_group = x->dims[1] / pl_attr_int(c->node, "offset_group") };
    for (int d = 0; d < win.n; d++)
        job.n_in *= win.in[d];
    int64_t n_columns = 0;
    if (!pl_i64_mul(job.each * job.n_taps, job.n_out, &n_columns)) return pl_eval_memory(c);
    job.columns = pl_scratch(c, (size_t)n_columns, sizeof(double));
    if (fx == NULL || fw == NULL || fo == NULL || (bias && fb == NULL) || (masked && fm == NULL) ||
        fy == NULL || job.columns == NULL) {
        return pl_eval_memory(c);
    }
    const int64_t per_group = c_out / groups;
    const pl_gemm_shape g = {
        .m = per_group, .n = job.n_out, .k = job.each * job.n_taps, .batch = 1, .by = c->kernels
    };
    for (int64_t i = 0; i < c_out * x->dims[0]; i++) { /* planes start with their bias */
        for (int64_t o = 0; o < job.n_out; o++)
            fy[i * job.n_out + o] = bias ? fb[i % c_out] : 0;
    }
    for (int64_t i = 0; i < x->dims[0] * groups; i++) {
        const int64_t item = i / groups, group = i % groups;
        job.x = fx + item * x->dims[1] * job.n_in;
        job.offset = fo + item * pl_in(c, OFFSET)->dims[1] * job.n_out;
        job.mask = masked ? fm + item * pl_in(c, MASK)->dims[1] * job.n_out : NULL;
        job.first_channel = group * job.each;
        pl_pool_for(c->pool, job.each, 1, deform_channels, &job);
        PL_TRY(pl_gemm_f64(c->pool, &g, 1, fw + group * per_group * g.k, job.columns, 1,
                           fy + (item * c_out + group * per_group) * job.n_out, NULL, c->err));
    }
    pl_store_f64(y->dtype, fy, y->data, (size_t)y->n_elements);
    return PL_OK;
}

/* ---- CausalConvWithState ---- */

enum { INPUT, WEIGHT, CAUSAL_BIAS, PAST };

static pl_status causal_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, INPUT);
    static const struct {
        int input, rank;
    } ranks[] = { { INPUT, 3 }, { WEIGHT, 3 }, { CAUSAL_BIAS, 1 }, { PAST, 3 } };
    for (int i = 0; i < 4; i++) {
        const int rank = pl_infer_rank(c, ranks[i].input);
        if (rank >= 0 && rank != ranks[i].rank) {
            return pl_infer_fail(c, "input %d has rank %d, expected %d", ranks[i].input, rank,
                                 ranks[i].rank);
        }
    }
    const pl_node *node = c->node;
    if (!pl_attr_string_is(node, "activation", "none") &&
        !pl_attr_string_is(node, "activation", "silu") &&
        !pl_attr_string_is(node, "activation", "swish") &&
        !pl_attr_string_is(node, "activation", "")) {
        return pl_infer_fail(c, "activation is not 'none', 'silu' or 'swish'");
    }
    if (pl_attr_has(node, "ndim") && pl_attr_int(node, "ndim") != 1) {
        return pl_node_fail(c->err, PL_E_UNSUPPORTED, node, "ndim %lld",
                            (long long)pl_attr_int(node, "ndim"));
    }
    const pl_dim batch = pl_infer_dim(c, INPUT, 0), channels = pl_infer_dim(c, INPUT, 1);
    const pl_dim k = pl_infer_dim(c, WEIGHT, 2);
    if (pl_dim_known(k) && k.value < 1) return pl_infer_fail(c, "the kernel is empty");
    const pl_dim state = pl_dim_known(k) ? pl_dim_of(k.value - 1) : pl_infer_dim(c, PAST, 2);
    PL_TRY(check_dim(c, WEIGHT, 0, channels));
    PL_TRY(check_dim(c, WEIGHT, 1, pl_dim_of(1)));
    PL_TRY(check_dim(c, CAUSAL_BIAS, 0, channels));
    PL_TRY(check_dim(c, PAST, 0, batch));
    PL_TRY(check_dim(c, PAST, 1, channels));
    PL_TRY(check_dim(c, PAST, 2, state));
    PL_TRY(pl_infer_set(c, 0, dtype, 3, (pl_dim[]){ batch, channels, pl_infer_dim(c, INPUT, 2) }));
    return pl_infer_set(c, 1, dtype, 3, (pl_dim[]){ batch, channels, state });
}

typedef struct causal_job {
    const pl_f64 *x, *w, *bias, *past;
    double *y, *present; /* NULL = not wanted */
    int64_t channels, length, k;
    bool silu;
} causal_job;

/* Element i of the row that consists of past_state (or zeros) and then the input. */
static double padded_at(const causal_job *j, int64_t row, int64_t i) {
    if (i >= j->k - 1) return j->x[row * j->length + i - (j->k - 1)];
    return j->past == NULL ? 0 : j->past[row * (j->k - 1) + i];
}

static void causal_rows(void *ctx, int64_t begin, int64_t end) {
    const causal_job *j = ctx;
    for (int64_t row = begin; row < end; row++) {
        const pl_f64 *w = j->w + row % j->channels * j->k;
        for (int64_t i = 0; j->y != NULL && i < j->length; i++) {
            double sum = j->bias == NULL ? 0 : j->bias[row % j->channels];
            for (int64_t t = 0; t < j->k; t++)
                sum += w[t] * padded_at(j, row, i + t);
            j->y[row * j->length + i] = j->silu ? sum / (1 + exp(-sum)) : sum;
        }
        for (int64_t i = 0; j->present != NULL && i < j->k - 1; i++) {
            j->present[row * (j->k - 1) + i] = padded_at(j, row, j->length + i);
        }
    }
}

static pl_status causal_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, INPUT);
    pl_tensor *y = pl_out(c, 0), *present = pl_out(c, 1);
    causal_job job = { .x = pl_in_f64(c, INPUT),
                       .w = pl_in_f64(c, WEIGHT),
                       .bias = pl_has(c, CAUSAL_BIAS) ? pl_in_f64(c, CAUSAL_BIAS) : NULL,
                       .past = pl_has(c, PAST) ? pl_in_f64(c, PAST) : NULL,
                       .channels = x->dims[1],
                       .length = x->dims[2],
                       .k = pl_in(c, WEIGHT)->dims[2],
                       .silu = pl_attr_string_is(c->node, "activation", "silu") ||
                               pl_attr_string_is(c->node, "activation", "swish") };
    if (y != NULL) job.y = pl_scratch(c, (size_t)y->n_elements, sizeof(double));
    if (present != NULL) job.present = pl_scratch(c, (size_t)present->n_elements, sizeof(double));
    if (job.x == NULL || job.w == NULL || (pl_has(c, CAUSAL_BIAS) && job.bias == NULL) ||
        (pl_has(c, PAST) && job.past == NULL) || (y != NULL && job.y == NULL) ||
        (present != NULL && job.present == NULL)) {
        return pl_eval_memory(c);
    }
    const bool nothing = x->n_elements == 0 && (present == NULL || present->n_elements == 0);
    if (!nothing) pl_pool_for(c->pool, x->dims[0] * x->dims[1], 8, causal_rows, &job);
    if (y != NULL) pl_store_f64(y->dtype, job.y, y->data, (size_t)y->n_elements);
    if (present != NULL) {
        pl_store_f64(present->dtype, job.present, present->data, (size_t)present->n_elements);
    }
    return PL_OK;
}

/* ---- Col2Im ---- */

/* The window of the blocks over the image, from the two shape inputs. */
static pl_status col2im_window(const pl_node *node, const int64_t *image, size_t n_image,
                               const int64_t *block, size_t n_block, pl_window *w, pl_err *err) {
    if (n_image != n_block || n_image < 1) {
        return pl_node_fail(err, PL_E_INVALID, node,
                            "image_shape has %zu elements, block_shape %zu", n_image, n_block);
    }
    if (n_image > PL_RANK_MAX - 2) return pl_node_fail(err, PL_E_LIMIT, node, "too many dims");
    PL_TRY(pl_window_read(node, (int)n_image, w, err));
    for (int d = 0; d < w->n; d++) {
        if (block[d] < 1 || block[d] > INT32_MAX || image[d] < 0) {
            return pl_node_fail(err, PL_E_INVALID, node, "block %lld in an image of %lld",
                                (long long)block[d], (long long)image[d]);
        }
        w->kernel[d] = block[d];
        PL_TRY(pl_window_place(node, w, d, image[d], err));
    }
    return PL_OK;
}

static pl_status col2im_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int rank = pl_infer_rank(c, 0);
    size_t n_image = 0, n_block = 0;
    const int64_t *image = pl_infer_ints(c, 1, &n_image), *block = pl_infer_ints(c, 2, &n_block);
    if (rank >= 0 && rank != 3) return pl_infer_fail(c, "the input has rank %d, expected 3", rank);
    if (image == NULL || block == NULL) {
        if (c->concrete) return pl_infer_fail(c, "image_shape and block_shape are not lists");
        return pl_infer_set_unranked(c, 0, dtype);
    }
    pl_window w = { 0 };
    pl_dim out[PL_RANK_MAX];
    PL_TRY(col2im_window(c->node, image, n_image, block, n_block, &w, c->err));
    int64_t taps = 1, cells = 1;
    for (int d = 0; d < w.n; d++) {
        if (!pl_i64_mul(taps, w.kernel[d], &taps) || !pl_i64_mul(cells, w.out[d], &cells)) {
            return pl_infer_fail(c, "the blocks have too many elements");
        }
        out[d + 2] = pl_dim_of(image[d]);
    }
    const pl_dim rows = pl_infer_dim(c, 0, 1);
    if (pl_dim_known(rows) && rows.value % taps != 0) {
        return pl_infer_fail(c, "%lld rows are not divisible by blocks of %lld",
                             (long long)rows.value, (long long)taps);
    }
    PL_TRY(check_dim(c, 0, 2, pl_dim_of(cells)));
    out[0] = pl_infer_dim(c, 0, 0);
    out[1] = pl_dim_known(rows) ? pl_dim_of(rows.value / taps) : PL_DIM_UNKNOWN;
    return pl_infer_set(c, 0, dtype, w.n + 2, out);
}

typedef struct col2im_job {
    const pl_window *w;
    int64_t n_in, n_out, n_taps;
    const pl_f64 *x;
    double *y;
} col2im_job;

static void col2im_planes(void *ctx, int64_t begin, int64_t end) {
    const col2im_job *j = ctx;
    for (int64_t p = begin; p < end; p++) {
        double *y = j->y + p * j->n_in;
        const pl_f64 *x = j->x + p * j->n_taps * j->n_out;
        int64_t tap[PL_RANK_MAX] = { 0 };
        memset(y, 0, (size_t)j->n_in * sizeof(*y));
        for (int64_t t = 0; t < j->n_taps; t++) {
            int64_t cell[PL_RANK_MAX] = { 0 }, at = 0;
            for (int64_t o = 0; o < j->n_out; o++) {
                if (pl_window_at(j->w, cell, tap, &at)) y[at] += x[t * j->n_out + o];
                (void)pl_window_next(j->w->n, j->w->out, cell);
            }
            (void)pl_window_next(j->w->n, j->w->kernel, tap);
        }
    }
}

static pl_status col2im_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    size_t n_image = 0, n_block = 0;
    const int64_t *image = pl_in_ints(c, 1, &n_image), *block = pl_in_ints(c, 2, &n_block);
    if (image == NULL || block == NULL) return pl_eval_memory(c);
    pl_window w = { 0 };
    PL_TRY(col2im_window(c->node, image, n_image, block, n_block, &w, c->err));
    if (y->n_elements == 0) return PL_OK;
    col2im_job job = { .w = &w,
                       .n_in = 1,
                       .n_out = pl_window_cells(&w),
                       .n_taps = pl_window_taps(&w),
                       .x = pl_in_f64(c, 0),
                       .y = pl_scratch(c, (size_t)y->n_elements, sizeof(double)) };
    for (int d = 0; d < w.n; d++)
        job.n_in *= w.in[d];
    if (job.x == NULL || job.y == NULL) return pl_eval_memory(c);
    pl_pool_for(c->pool, y->dims[0] * y->dims[1], 1, col2im_planes, &job);
    pl_store_f64(y->dtype, job.y, y->data, (size_t)y->n_elements);
    return PL_OK;
}

/* ---- bounds ---- */

/* Bound of the product, plus the errors of the sample positions: rounding of the coordinate and
 * errors of the offsets move a sample along at most the steepest slope of X. */
static pl_status deform_conv_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, X), *w = pl_b_in(c, W), *y = pl_b_out(c, 0);
    const double *px = pl_b_x(c, X), *pw = pl_b_x(c, W), *po = pl_b_x(c, OFFSET);
    pl_b_dot dot = { .n_factors = 2, .factor = { X, W }, .bias = BIAS, .alpha = 1, .beta = 1 };
    if (pl_b_in(c, MASK) != NULL) dot.factor[dot.n_factors++] = MASK;
    if (y == NULL) return PL_OK;
    if (px == NULL || pw == NULL || po == NULL) return pl_fail_memory(c->err, 1);
    const int64_t each = w->dims[0] == 0 ? 0 : w->n_elements / w->dims[0];
    dot.k = 4 * (double)each + (pl_b_in(c, BIAS) != NULL);
    PL_TRY(pl_b_dot_rule(c, &dot));
    double side = 0, *e = c->e_out[0]->data;
    for (int d = 2; d < x->rank; d++)
        side = fmax(side, (double)x->dims[d]);
    const int64_t n_offsets = pl_b_in(c, OFFSET)->n_elements;
    const double place = c->u_acc * (side + pl_b_peak(po, n_offsets)) +
                         (pl_b_e(c, OFFSET) == NULL ? 0 : pl_b_worst(pl_b_e(c, OFFSET), n_offsets));
    const double mask =
        pl_b_in(c, MASK) == NULL ? 1 : pl_b_peak(pl_b_x(c, MASK), pl_b_in(c, MASK)->n_elements);
    const double slope = place * pl_b_range(px, x->n_elements) * mask;
    const int64_t cells = y->n_elements == 0 ? 1 : y->n_elements / (y->dims[0] * y->dims[1]);
    for (int64_t i = 0; i < y->n_elements; i++) {
        const double *row = pw + i / cells % y->dims[1] * each;
        double sum = 0;
        for (int64_t k = 0; k < each; k++)
            sum += row[k] * row[k];
        e[i] += slope * sqrt(sum);
    }
    return PL_OK;
}

static pl_status causal_bound(pl_bound *c) {
    const bool silu = pl_attr_string_is(c->node, "activation", "silu") ||
                      pl_attr_string_is(c->node, "activation", "swish");
    const int64_t k = pl_b_in(c, WEIGHT)->dims[2];
    const bool bias = pl_b_in(c, CAUSAL_BIAS) != NULL, past = pl_b_in(c, PAST) != NULL;
    const char *text = pl_arena_printf(
        c->scratch,
        "(i0, i1%s%s) => (o0, o1) <int64[6] p = {0, 0, %lld, 0, 0, 0}, int64[1] axis = {2}, "
        "int64[1] first = {%lld}, int64[1] end = {9223372036854775807}> "
        "{ x = %s y = Conv<group=%lld>(x, i1%s) %s o1 = Slice(x, first, end, axis) }",
        bias ? ", i2" : "", past ? ", i3" : "", (long long)(k - 1),
        (long long)pl_b_in(c, INPUT)->dims[2], past ? "Concat<axis=2>(i3, i0)" : "Pad(i0, p)",
        (long long)pl_b_in(c, INPUT)->dims[1], bias ? ", i2" : "",
        silu ? "s = Sigmoid(y) o0 = Mul(y, s)" : "o0 = Identity(y)");
    return pl_b_expand(c, text);
}

/* Sums of overlapping blocks: each tap contributes at most once. */
static pl_status col2im_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    pl_b_dot dot = { .n_factors = 1, .factor = { 0 }, .bias = -1, .alpha = 1, .k = 1 };
    if (y != NULL && y->dims[1] > 0) dot.k = (double)x->dims[1] / (double)y->dims[1];
    return pl_b_dot_rule(c, &dot);
}

/* ---- rows ---- */

#define CAUSAL_PORTS                                                                               \
    .in = PL_PORTS({ "input", PL_T_FLOAT, PL_PORT_SAME }, { "weight", PL_T_FLOAT, PL_PORT_SAME },  \
                   { "bias", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL },                        \
                   { "past_state", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }),                 \
    .out =                                                                                         \
        PL_PORTS({ "output", PL_T_FLOAT, 0 }, { "present_state", PL_T_FLOAT, PL_PORT_OPTIONAL }),  \
    .infer = causal_infer, .eval = causal_eval, .grad = pl_causal_conv_grad, .bound = causal_bound

/* clang-format off */
const pl_op_def pl_ops_conv_special[] = {
    { .name = "CausalConvWithState", .since = 27, CAUSAL_PORTS, .attrs = PL_ATTRS(PL_A_STRING("activation", "none")), .autocast = PL_AMP_LOW, PL_EMIT_BREAK("carries state: a library routine"),
      .samples = PL_SAMPLES({ "(float[2,3,5] x, float[3,1,3] w, float[3] b, float[2,3,2] p) => (y, s) { y, s = CausalConvWithState<activation=\"silu\">(x, w, b, p) }", NULL, 0 },
                            { "(float[1,2,2] x, float[2,1,4] w) => (y, s) { y, s = CausalConvWithState(x, w) }", NULL, 0 }) },
    { .name = "CausalConvWithState", .domain = "com.microsoft", .since = 1, CAUSAL_PORTS,
      .attrs = PL_ATTRS(PL_A_STRING("activation", "none"), PL_A_INT("ndim", 1)), .autocast = PL_AMP_LOW, PL_EMIT_BREAK("carries state: a library routine"),
      .samples = PL_SAMPLES({ "(float[2,3,5] x, float[3,1,3] w) => (y, s) { y, s = com.microsoft.CausalConvWithState<activation=\"swish\">(x, w) }", NULL, 0 }) },
    { .name = "Col2Im", .since = 18, .in = PL_PORTS({ "input", PL_T_NUMERIC, 0 }, { "image_shape", PL_T_I64, 0 }, { "block_shape", PL_T_I64, 0 }),
      .out = PL_PORTS({ "output", PL_T_NUMERIC, 0 }), .attrs = PL_ATTRS(PL_A_LIST("dilations", INTS), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)),
      .infer = col2im_infer, .eval = col2im_eval, .grad = pl_col2im_grad, .bound = col2im_bound, PL_EMIT_BREAK("adds to overlapping positions: a library routine"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[1,4,9] x) => (y) <int64[2] image = {4, 4}, int64[2] block = {2, 2}> { y = Col2Im(x, image, block) }", NULL, 0 }) },
    { .name = "DeformConv", .since = 19,
      .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "W", PL_T_FLOAT, PL_PORT_SAME }, { "offset", PL_T_FLOAT, PL_PORT_SAME },
                     { "B", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }, { "mask", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("dilations", INTS), PL_A_INT("group", 1), PL_A_LIST("kernel_shape", INTS), PL_A_INT("offset_group", 1),
                        PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)),
      .infer = deform_conv_infer, .eval = deform_conv_eval, .grad = pl_deform_conv_grad, .bound = deform_conv_bound, PL_EMIT_BREAK("sample positions depend on data: a library routine"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES({ "(float[1,2,4,4] x, float[2,2,2,2] w, float[1,8,3,3] o, float[2] b, float[1,4,3,3] m) => (y) { y = DeformConv(x, w, o, b, m) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

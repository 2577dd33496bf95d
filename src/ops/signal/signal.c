/* Family "signal": Fourier transforms. All types compute in double and are rounded once: the sums
 * are long, and double costs little compared with the memory traffic. */
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/size.h"
#include "ops/infer.h"
#include "ops/lib/bound_nn.h"
#include "ops/signal/fft.h"
#include "ops/signal/signal_rules.h"

extern const pl_op_def pl_ops_signal[];

/* ---- what a DFT node asks for ---- */

enum { DFT_AXIS_SINCE = 20 }; /* the axis became an input */

static bool is_irfft(const pl_node *node) {
    return pl_attr_int(node, "inverse") != 0 && pl_attr_int(node, "onesided") != 0;
}

/* The single number of an input; *known is false when its content is unknown. */
static pl_status scalar_input(pl_infer *c, int i, int64_t *out, bool *known) {
    const char *name = c->node->def->in[i].name;
    size_t n = 0;
    const int64_t *given = pl_infer_ints(c, i, &n);
    *known = given != NULL;
    if (given == NULL && !c->concrete) return PL_OK;
    if (given == NULL || n != 1) return pl_infer_fail(c, "%s is not a single number", name);
    *out = given[0];
    return PL_OK;
}

static pl_status positive_input(pl_infer *c, int i, int64_t *out, bool *known) {
    PL_TRY(scalar_input(c, i, out, known));
    if (!*known || *out > 0) return PL_OK;
    return pl_infer_fail(c, "%s is %lld, expected a positive number", c->node->def->in[i].name,
                         (long long)*out);
}

/* The axis; *known is false when it comes from an input with unknown content. */
static pl_status dft_axis(pl_infer *c, int rank, int *axis, bool *known) {
    int64_t wanted = c->node->opset < DFT_AXIS_SINCE ? pl_attr_int(c->node, "axis") : -2;
    *known = true;
    if (c->node->opset >= DFT_AXIS_SINCE && pl_infer_has(c, 2)) {
        PL_TRY(scalar_input(c, 2, &wanted, known));
        if (!*known) return PL_OK;
    }
    PL_TRY(pl_infer_axis(c, wanted, rank, axis));
    if (*axis == rank - 1) {
        return pl_infer_fail(c, "axis is %lld, which holds the real and imaginary parts",
                             (long long)wanted);
    }
    return PL_OK;
}

/* Length of the transform: dft_length, or the size of the input's axis. */
static pl_status dft_length(pl_infer *c, int axis, pl_dim *out) {
    const pl_dim given = pl_infer_dim(c, 0, axis);
    *out = given;
    if (pl_infer_has(c, 1)) {
        int64_t length = 0;
        bool known = false;
        PL_TRY(positive_input(c, 1, &length, &known));
        *out = known ? pl_dim_of(length) : PL_DIM_UNKNOWN;
    } else if (is_irfft(c->node)) {
        *out = PL_DIM_UNKNOWN;
        if (!pl_dim_known(given)) return PL_OK;
        if (given.value > INT64_MAX / 2) return pl_infer_fail(c, "axis is too long");
        *out = pl_dim_of(given.value < 2 ? 1 : 2 * (given.value - 1));
    }
    if (pl_dim_known(*out) && out->value == 0) {
        return pl_infer_fail(c, "the transformed axis is empty");
    }
    return PL_OK;
}

static pl_status dft_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank < 2) return pl_infer_fail(c, "input has rank %d, expected 2 or more", rank);
    const pl_dim parts = pl_infer_dim(c, 0, rank - 1);
    if (pl_dim_known(parts) && parts.value != 1 && parts.value != 2) {
        return pl_infer_fail(c, "the last dim is %lld, expected 1 (real) or 2 (complex)",
                             (long long)parts.value);
    }
    pl_dim dims[PL_RANK_MAX];
    int axis = 0;
    bool known = false;
    PL_TRY(dft_axis(c, rank, &axis, &known));
    for (int d = 0; d < rank; d++)
        dims[d] = known ? c->in[0]->dims[d] : PL_DIM_UNKNOWN;
    const bool inverse = is_irfft(c->node);
    if (known) {
        PL_TRY(dft_length(c, axis, &dims[axis]));
        if (pl_attr_int(c->node, "onesided") != 0 && !inverse) {
            dims[axis] =
                pl_dim_known(dims[axis]) ? pl_dim_of(dims[axis].value / 2 + 1) : PL_DIM_UNKNOWN;
        }
    }
    dims[rank - 1] = pl_dim_of(inverse ? 1 : 2);
    return pl_infer_set(c, 0, dtype, rank, dims);
}

/* ---- rows through a plan ---- */

/* One job transforms `n_rows` rows; row r is read by `load` and written by `store`. */
typedef struct fft_job {
    const pl_fft *plan;
    size_t n; /* length of the transform */
    bool inverse, hermitian;
    const pl_f64 *x;
    double *y;
    size_t in_n, in_parts, in_step;    /* of a row: elements, numbers in one, numbers between two */
    size_t out_n, out_parts, out_step; /* same for the output */
    size_t inner;                      /* number of interleaved rows */
    const pl_f64 *window;              /* STFT: in_n factors; NULL = ones */
    size_t frames, hop;                /* STFT: rows per signal, numbers between row starts */
    size_t signal;                     /* STFT: numbers in one signal */
    atomic_bool no_memory;
} fft_job;

static void load_row(const fft_job *job, const pl_f64 *from, pl_cplx *row) {
    for (size_t i = 0; i < job->n; i++)
        row[i] = (pl_cplx){ 0, 0 };
    for (size_t i = 0; i < job->in_n; i++) {
        const double w = job->window == NULL ? 1 : job->window[i];
        row[i].re = from[i * job->in_step] * w;
        row[i].im = job->in_parts == 2 ? from[i * job->in_step + 1] * w : 0;
    }
    if (!job->hermitian) return;
    /* Fills in the other half of the spectrum of a real signal; DC and Nyquist are taken as
     * real. */
    row[0].im = 0;
    if (job->n % 2 == 0) row[job->n / 2].im = 0;
    for (size_t k = job->n / 2 + 1; k < job->n; k++) {
        row[k] = (pl_cplx){ row[job->n - k].re, -row[job->n - k].im };
    }
}

static void store_row(const fft_job *job, const pl_cplx *row, double *to) {
    const double scale = job->inverse ? 1 / (double)job->n : 1;
    for (size_t i = 0; i < job->out_n; i++) {
        to[i * job->out_step] = row[i].re * scale;
        if (job->out_parts == 2) {
            to[i * job->out_step + 1] = row[i].im * scale;
        }
    }
}

static void fft_block(void *ctx, int64_t begin, int64_t end) {
    fft_job *job = ctx;
    size_t bytes = 0;
    pl_cplx *row = NULL;
    if (pl_size_add(job->n, pl_fft_work(job->plan), &bytes) &&
        pl_size_mul(bytes, sizeof(*row), &bytes)) {
        row = pl_malloc(bytes);
    }
    if (row == NULL) {
        atomic_store(&job->no_memory, true);
        return;
    }
    for (size_t r = (size_t)begin; r < (size_t)end; r++) {
        const size_t outer = r / job->inner, inner = r % job->inner;
        /* STFT: outer counts the frames of all signals, inner is 1. */
        const size_t from =
            job->frames > 0
                ? outer / job->frames * job->signal + outer % job->frames * job->hop
                : outer * job->inner * job->in_parts * job->signal + inner * job->in_parts;
        load_row(job, job->x + from, row);
        pl_fft_run(job->plan, job->inverse, row, row + job->n);
        store_row(job, row,
                  job->y + outer * job->inner * job->out_parts * job->out_n +
                      inner * job->out_parts);
    }
    pl_free(row);
}

static pl_status run_rows(pl_eval *c, fft_job *job, size_t n_rows) {
    pl_tensor *out = pl_out(c, 0);
    job->plan = pl_fft_plan(c->scratch, job->n);
    job->y =
        out->dtype == PL_F64 ? out->data : pl_scratch(c, (size_t)out->n_elements, sizeof(double));
    if (job->plan == NULL || job->y == NULL) return pl_eval_memory(c);
    enum { BLOCK = 16 * 1024 };
    const int64_t grain = job->n < BLOCK ? (int64_t)(BLOCK / job->n) : 1;
    pl_pool_for(c->pool, (int64_t)n_rows, grain, fft_block, job);
    if (atomic_load(&job->no_memory)) return pl_eval_memory(c);
    if (out->dtype != PL_F64) {
        pl_store_f64(out->dtype, job->y, out->data, (size_t)out->n_elements);
    }
    return PL_OK;
}

static pl_status dft_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const pl_tensor *y = pl_out(c, 0);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    const int64_t wanted =
        c->node->opset < DFT_AXIS_SINCE ? pl_attr_int(c->node, "axis") : pl_in_int(c, 2, -2);
    const int axis = (int)(wanted < 0 ? wanted + x->rank : wanted);
    const bool inverse = pl_attr_int(c->node, "inverse") != 0;
    const bool hermitian = is_irfft(c->node);
    const int64_t axis_dim = x->dims[axis];
    const int64_t implied = !hermitian ? axis_dim : axis_dim < 2 ? 1 : 2 * (axis_dim - 1);
    const int64_t length = pl_in_int(c, 1, implied);
    size_t outer = 1, inner = 1;
    for (int d = 0; d < x->rank - 1; d++) {
        if (d != axis) *(d < axis ? &outer : &inner) *= (size_t)x->dims[d];
    }
    const size_t used = (size_t)(hermitian ? length / 2 + 1 : length);
    fft_job job = { .n = (size_t)length,
                    .inverse = inverse,
                    .hermitian = hermitian,
                    .x = pl_in_f64(c, 0),
                    .in_n = pl_size_min((size_t)axis_dim, used),
                    .in_parts = (size_t)x->dims[x->rank - 1],
                    .out_n = (size_t)y->dims[axis],
                    .out_parts = (size_t)y->dims[x->rank - 1],
                    .inner = inner,
                    .signal = (size_t)axis_dim };
    job.in_step = inner * job.in_parts;
    job.out_step = inner * job.out_parts;
    if (job.x == NULL) return pl_eval_memory(c);
    return run_rows(c, &job, outer * inner);
}

/* ---- STFT ---- */

/* ONNX STFT-17: frame_length, else the size of the window; with neither, ONNX's reference takes the
 * whole signal. */
static pl_status frame_length(pl_infer *c, int64_t *out, bool *known) {
    if (pl_infer_has(c, 3)) return positive_input(c, 3, out, known);
    const pl_dim size = pl_infer_has(c, 2) ? pl_infer_dim(c, 2, 0) : pl_infer_dim(c, 0, 1);
    *known = pl_dim_known(size);
    if (!*known) return PL_OK;
    if (size.value < 1) return pl_infer_fail(c, "the frame is empty");
    *out = size.value;
    return PL_OK;
}

static pl_status stft_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    int64_t step = 0, length = 0;
    bool step_known = false, length_known = false;
    if (rank >= 0 && rank != 2 && rank != 3) {
        return pl_infer_fail(c, "signal has rank %d, expected 2 or 3", rank);
    }
    const pl_dim parts = pl_infer_dim(c, 0, 2);
    if (pl_dim_known(parts) && parts.value != 1 && parts.value != 2) {
        return pl_infer_fail(c, "the last dim of signal is %lld, expected 1 or 2",
                             (long long)parts.value);
    }
    if (pl_infer_rank(c, 2) >= 0 && pl_infer_rank(c, 2) != 1) {
        return pl_infer_fail(c, "window has rank %d, expected 1", pl_infer_rank(c, 2));
    }
    PL_TRY(positive_input(c, 1, &step, &step_known));
    PL_TRY(frame_length(c, &length, &length_known));
    const pl_dim samples = pl_infer_dim(c, 0, 1);
    pl_dim dims[4] = { pl_infer_dim(c, 0, 0), PL_DIM_UNKNOWN, PL_DIM_UNKNOWN, pl_dim_of(2) };
    if (length_known) {
        dims[2] = pl_dim_of(pl_attr_int(c->node, "onesided") != 0 ? length / 2 + 1 : length);
    }
    if (length_known && step_known && pl_dim_known(samples)) {
        if (samples.value < length) {
            return pl_infer_fail(c, "a frame of %lld is longer than the signal of %lld",
                                 (long long)length, (long long)samples.value);
        }
        dims[1] = pl_dim_of((samples.value - length) / step + 1);
    }
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 4, dims);
}

static pl_status stft_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *window = pl_in(c, 2), *y = pl_out(c, 0);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    const int64_t whole = window != NULL ? window->n_elements : x->dims[1];
    const int64_t length = pl_in_int(c, 3, whole);
    const size_t parts = x->rank == 3 ? (size_t)x->dims[2] : 1;
    fft_job job = { .n = (size_t)length,
                    .x = pl_in_f64(c, 0),
                    .in_n = (size_t)length,
                    .in_parts = parts,
                    .in_step = parts,
                    .out_n = (size_t)y->dims[2],
                    .out_parts = 2,
                    .out_step = 2,
                    .inner = 1,
                    .frames = (size_t)y->dims[1],
                    .signal = (size_t)x->dims[1] * parts };
    /* A single frame starts at 0, so the step is unused and may be huge. */
    job.hop = y->dims[1] > 1 ? (size_t)pl_in_int(c, 1, 1) * parts : 0;
    if (window != NULL) {
        job.window = pl_in_f64(c, 2);
        if (job.window == NULL) return pl_eval_memory(c);
        job.in_n = pl_size_min(job.in_n, (size_t)window->n_elements);
    }
    if (job.x == NULL) return pl_eval_memory(c);
    return run_rows(c, &job, (size_t)(y->dims[0] * y->dims[1]));
}

/* ---- bounds ---- */

/* A fast transform errs by u log n times the norm of the row in every element. Lengths that are not
 * powers of two use a chirp whose angles, pi k^2 / n in float, err by u n (ONNX Runtime 1.27: 3.8 u
 * n at n = 400, 4.4 u n at 37). */
static double transform_error(const pl_bound *c, int64_t n) {
    const double chirp = n > 0 && (n & (n - 1)) == 0 ? 0 : 4 * (double)n;
    return c->u_acc * (8 * (1 + log2(fmax((double)n, 1))) + chirp);
}

typedef struct row_norm { /* norm of the transformed row, and of its errors */
    double x, e;
} row_norm;

static row_norm norm_of(const fft_job *job, const double *x, const double *e, size_t at) {
    row_norm r = { 0, 0 };
    for (size_t i = 0; i < job->in_n; i++) {
        const double w = job->window == NULL ? 1 : job->window[i];
        for (size_t part = 0; part < job->in_parts; part++) {
            const size_t k = at + i * job->in_step + part;
            r.x += x[k] * x[k] * w * w;
            if (e != NULL) r.e += e[k] * e[k] * w * w;
        }
    }
    /* The missing half mirrors the other, so the squares count twice. */
    const double mirror = job->hermitian ? sqrt(2) : 1;
    return (row_norm){ mirror * sqrt(r.x), mirror * sqrt(r.e) };
}

static pl_status dft_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0), *given = pl_b_in(c, 1);
    const double *px = pl_b_x(c, 0), *ex = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    int64_t axis = c->node->opset < DFT_AXIS_SINCE ? pl_attr_int(c->node, "axis") : -2;
    if (c->node->opset >= DFT_AXIS_SINCE && pl_b_in(c, 2) != NULL)
        axis = pl_tensor_get_i64(pl_b_in(c, 2), 0);
    if (axis < 0) axis += x->rank;
    const bool inverse = pl_attr_int(c->node, "inverse") != 0, irfft = is_irfft(c->node);
    const int64_t n = given != NULL ? pl_tensor_get_i64(given, 0)
                      : irfft       ? y->dims[axis]
                                    : x->dims[axis];
    const int64_t parts = x->dims[x->rank - 1], out_parts = y->dims[y->rank - 1];
    const int64_t step = x->strides[axis], out_step = y->strides[axis];
    const fft_job job = { .in_n = (size_t)pl_i64_min(x->dims[axis], irfft ? n / 2 + 1 : n),
                          .in_parts = (size_t)parts,
                          .in_step = (size_t)step,
                          .hermitian = irfft };
    const double own = transform_error(c, n), scale = inverse ? 1 / (double)n : 1;
    /* An empty row padded to dft_length is exactly zero. */
    const int64_t n_rows = x->n_elements == 0 ? 0 : x->n_elements / x->dims[axis] / parts;
    const int64_t inner = n_rows == 0 ? 1 : step / parts;
    for (int64_t row = 0; row < n_rows; row++) {
        const int64_t o = row / inner, i = row % inner;
        const size_t at = (size_t)(o * x->dims[axis] * step + i * parts);
        const row_norm r = norm_of(&job, px, ex, at);
        for (int64_t k = 0; k < y->dims[axis] * out_parts; k++) {
            const int64_t to =
                (o * y->dims[axis] + k / out_parts) * out_step + i * out_parts + k % out_parts;
            e[to] = scale * (own * r.x + r.e);
        }
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    return PL_OK;
}

static pl_status stft_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0), *window = pl_b_in(c, 2);
    const double *px = pl_b_x(c, 0), *ex = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    const double *w = window == NULL ? NULL : pl_b_x(c, 2), *ew = pl_b_e(c, 2);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL || (window != NULL && w == NULL)) return pl_fail_memory(c->err, 1);
    const int64_t parts = x->rank == 3 ? x->dims[2] : 1;
    const int64_t whole = window != NULL ? window->n_elements : x->dims[1];
    const int64_t n = pl_b_in(c, 3) != NULL ? pl_tensor_get_i64(pl_b_in(c, 3), 0) : whole;
    fft_job job = { .in_n = (size_t)pl_i64_min(n, window != NULL ? whole : n),
                    .in_parts = (size_t)parts,
                    .in_step = (size_t)parts,
                    .window = w };
    const int64_t hop = y->dims[1] > 1 ? pl_tensor_get_i64(pl_b_in(c, 1), 0) * parts : 0;
    const int64_t each = y->dims[2] * y->dims[3];
    const double own = transform_error(c, n) + 2 * c->u_acc;
    for (int64_t row = 0; row < y->dims[0] * y->dims[1]; row++) {
        const int64_t b = row / y->dims[1], f = row % y->dims[1];
        const size_t at = (size_t)(b * x->dims[1] * parts + f * hop);
        const row_norm r = norm_of(&job, px, ex, at);
        double from_window = 0;
        if (ew != NULL) {
            job.window = ew;
            from_window = norm_of(&job, px, NULL, at).x;
            job.window = w;
        }
        for (int64_t k = row * each; k < (row + 1) * each; k++)
            e[k] = own * r.x + r.e + from_window;
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    return PL_OK;
}

/* ---- rows ---- */

/* clang-format off */
const pl_op_def pl_ops_signal[] = {
    { .name = "DFT", .since = 20, .flags = PL_OP_TRANSFORM,
      .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }, { "dft_length", PL_T_INDEX, PL_PORT_OPTIONAL },
                     { "axis", PL_T_INDEX, PL_PORT_OPTIONAL | PL_PORT_AXES }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("inverse", 0), PL_A_INT("onesided", 0)),
      .infer = dft_infer, .eval = dft_eval, .grad = pl_dft_grad, .bound = dft_bound, PL_EMIT_BREAK("a Fourier transform: a library routine"), .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES(
          { "(float[2,10,2] x) => (y) { y = DFT(x) }", NULL, 0 },
          { "(float[2,7,3,1] x) => (y) <int64 n = {8}, int64 axis = {1}> { y = DFT<onesided=1>(x, n, axis) }", NULL, 0 },
          { "(float[2,5,2] x) => (y) { y = DFT<inverse=1, onesided=1>(x) }", NULL, 0 }) },
    { .name = "DFT", .since = 17, .until = 19, .flags = PL_OP_TRANSFORM,
      .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }, { "dft_length", PL_T_INDEX, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("axis", 1), PL_A_INT("inverse", 0), PL_A_INT("onesided", 0)),
      .infer = dft_infer, .eval = dft_eval, .grad = pl_dft_grad, .bound = dft_bound, PL_EMIT_BREAK("a Fourier transform: a library routine"), .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES(
          { "(float[2,37,1] x) => (y) { y = DFT<axis=1>(x) }", NULL, 0 },
          { "(float[2,3,12,2] x) => (y) { y = DFT<axis=2, inverse=1>(x) }", NULL, 0 }) },
    { .name = "STFT", .since = 17, .flags = PL_OP_TRANSFORM,
      .in = PL_PORTS({ "signal", PL_T_FLOAT, PL_PORT_SAME }, { "frame_step", PL_T_INDEX, 0 },
                     { "window", PL_T_FLOAT, PL_PORT_OPTIONAL | PL_PORT_SAME },
                     { "frame_length", PL_T_INDEX, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("onesided", 1)),
      .infer = stft_infer, .eval = stft_eval, .grad = pl_stft_grad, .bound = stft_bound, PL_EMIT_BREAK("a Fourier transform: a library routine"), .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES(
          { "(float[2,64,1] x, float[16] w) => (y) <int64 step = {8}> { y = STFT(x, step, w) }", NULL, 0 },
          { "(float[1,40,2] x) => (y) <int64 step = {5}, int64 length = {12}> { y = STFT<onesided=0>(x, step, , length) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

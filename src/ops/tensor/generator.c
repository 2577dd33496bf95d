/* Operators that generate tensors: constants, ranges, random numbers, windows.
 *
 * Random numbers depend only on (seed, node, index): on the attribute `seed` if it is given, else
 * on the run's seed and the node's output. Two nodes differ, and threads do not matter. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/size.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/grad.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"

extern const pl_op_def pl_ops_generator[];

static const double PI = 3.14159265358979323846;

/* ---- Constant ---- */

typedef enum constant_kind {
    VALUE,
    SPARSE_VALUE,
    VALUE_INT,
    VALUE_INTS,
    VALUE_FLOAT,
    VALUE_FLOATS,
    VALUE_STRING,
    VALUE_STRINGS,
    N_KINDS
} constant_kind;

static const char *const kind_names[N_KINDS] = { "value",        "sparse_value", "value_int",
                                                 "value_ints",   "value_float",  "value_floats",
                                                 "value_string", "value_strings" };

static pl_status kind_of(const pl_infer *c, constant_kind *out) {
    int n = 0;
    for (int k = 0; k < N_KINDS; k++) {
        if (pl_node_attr(c->node, kind_names[k]) == NULL) continue;
        *out = (constant_kind)k;
        n++;
    }
    return n == 1 ? PL_OK : pl_infer_fail(c, "%d value attributes given, expected 1", n);
}

static pl_status set_tensor_type(pl_infer *c, const pl_tensor *t) {
    pl_dim dims[PL_RANK_MAX];
    if (t == NULL) return pl_infer_fail(c, "the value has no tensor");
    for (int d = 0; d < t->rank; d++)
        dims[d] = pl_dim_of(t->dims[d]);
    return pl_infer_set(c, 0, pl_infer_dtype(c, t->dtype), t->rank, dims);
}

static pl_status constant_infer(pl_infer *c) {
    constant_kind kind = VALUE;
    PL_TRY(kind_of(c, &kind));
    const pl_attr *attr = pl_node_attr(c->node, kind_names[kind]);
    const pl_dim n = pl_dim_of((int64_t)attr->n);
    switch (kind) {
    case VALUE_INT: return pl_infer_set(c, 0, PL_I64, 0, NULL);
    case VALUE_INTS: return pl_infer_set(c, 0, PL_I64, 1, &n);
    case VALUE_FLOAT: return pl_infer_set(c, 0, pl_infer_dtype(c, PL_F32), 0, NULL);
    case VALUE_FLOATS: return pl_infer_set(c, 0, pl_infer_dtype(c, PL_F32), 1, &n);
    case VALUE_STRING: return pl_infer_set(c, 0, PL_STRING, 0, NULL);
    case VALUE_STRINGS: return pl_infer_set(c, 0, PL_STRING, 1, &n);
    case VALUE:
    case SPARSE_VALUE:
    case N_KINDS: break;
    }
    return set_tensor_type(c, attr->tensor);
}

/* The attribute's tensor itself; converted to double for gold. */
static pl_status constant_tensor(pl_eval *c, const pl_tensor *t) {
    const pl_dtype dtype = pl_eval_dtype(c, t->dtype);
    if (dtype == t->dtype && pl_tensor_is_contiguous(t))
        return pl_out_set_take(c, 0, pl_tensor_ref(t));
    pl_tensor *raised = NULL;
    PL_TRY(pl_tensor_new(dtype, t->rank, t->dims, &raised, c->err));
    pl_load_f64(t->dtype, t->data, raised->data, (size_t)t->n_elements);
    return pl_out_set_take(c, 0, raised);
}

static pl_status constant_list(pl_eval *c, const pl_attr *attr) {
    const pl_type *type = c->out_type[0];
    const bool scalar = type->rank == 0;
    const size_t n = scalar ? 1 : attr->n;
    const int64_t dims[1] = { (int64_t)n };
    pl_tensor *y = NULL;
    if (!pl_wants(c, 0)) return PL_OK;
    PL_TRY(pl_out_new(c, 0, type->dtype, type->rank, dims, &y));
    if (type->dtype == PL_I64) {
        pl_store_i64(PL_I64, scalar ? &attr->i : attr->ints, y->data, n);
    } else if (type->dtype != PL_STRING) {
        pl_store_f32(type->dtype, scalar ? &attr->f : attr->floats, y->data, n);
    }
    for (size_t i = 0; type->dtype == PL_STRING && i < n; i++) {
        const pl_string s = scalar ? attr->s : attr->strings[i];
        PL_TRY(pl_tensor_set_string(y, (int64_t)i, s.data, s.n_bytes, c->err));
    }
    return PL_OK;
}

static pl_status constant_eval(pl_eval *c) {
    for (int k = 0; k < N_KINDS; k++) {
        const pl_attr *attr = pl_node_attr(c->node, kind_names[k]);
        if (attr == NULL) continue;
        return k <= SPARSE_VALUE ? constant_tensor(c, attr->tensor) : constant_list(c, attr);
    }
    return pl_eval_fail(c, "no value");
}

/* ---- ConstantOfShape ---- */

static pl_status set_shape_of_content(pl_infer *c, pl_dtype dtype, int input) {
    const pl_content *shape = pl_content_of(c, input);
    pl_dim dims[PL_RANK_MAX];
    if (shape == NULL && c->concrete)
        return pl_infer_fail(c, "the shape is not a list of integers");
    if (shape == NULL) return pl_infer_set_unranked(c, 0, dtype);
    if (shape->n > PL_RANK_MAX) return pl_infer_set(c, 0, dtype, (int)shape->n, NULL);
    for (size_t d = 0; d < shape->n; d++) {
        dims[d] = shape->dims[d];
        if (!shape->known[d]) dims[d].value = -1;
        if (shape->known[d] && dims[d].value < 0) {
            return pl_infer_fail(c, "dim %zu of the shape is %lld", d, (long long)dims[d].value);
        }
    }
    return pl_infer_set(c, 0, dtype, (int)shape->n, dims);
}

static pl_status constant_of_shape_infer(pl_infer *c) {
    const pl_tensor *value = pl_attr_tensor(c->node, "value");
    if (value != NULL && value->n_elements != 1) {
        return pl_infer_fail(c, "value has %lld elements, expected 1",
                             (long long)value->n_elements);
    }
    return set_shape_of_content(c, pl_infer_dtype(c, value != NULL ? value->dtype : PL_F32), 0);
}

static pl_status constant_of_shape_eval(pl_eval *c) {
    const pl_tensor *value = pl_attr_tensor(c->node, "value");
    const pl_type *type = c->out_type[0];
    pl_tensor *y = NULL;
    char element[16] = { 0 };
    if (value != NULL && value->dtype == type->dtype) {
        memcpy(element, value->data, pl_dtype_bytes(type->dtype));
    } else if (value != NULL) {
        pl_load_f64(value->dtype, value->data, (double *)(void *)element, 1);
    }
    PL_TRY(pl_out_new_filled(c, 0, element, &y));
    return pl_own_strings(c, y);
}

/* ---- Range ---- */

/* ceil((limit - start) / delta), at least 0. */
static bool range_count(const pl_tensor *start, const pl_tensor *limit, const pl_tensor *delta,
                        int64_t *out) {
    *out = 0;
    if (pl_dtype_is_float(start->dtype)) {
        const double from = pl_tensor_get_f64(start, 0), to = pl_tensor_get_f64(limit, 0);
        const double n = ceil((to - from) / pl_tensor_get_f64(delta, 0));
        if (!(n < 0x1p62)) return false; /* also false for NaN */
        if (n > 0) *out = (int64_t)n;
        return true;
    }
    const int64_t from = pl_tensor_get_i64(start, 0), to = pl_tensor_get_i64(limit, 0);
    const int64_t step = pl_tensor_get_i64(delta, 0);
    if (step == 0) return false;
    if (step > 0 ? to <= from : to >= from) return true;
    const uint64_t distance =
        step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    const uint64_t pace = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t n = (distance - 1) / pace + 1;
    *out = (int64_t)n;
    return n <= INT64_MAX;
}

static pl_status range_infer(pl_infer *c) {
    pl_dim n = PL_DIM_UNKNOWN;
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_tensor *const *in = c->in_tensor;
    if (in[0] != NULL && in[1] != NULL && in[2] != NULL) {
        for (int i = 0; i < 3; i++) {
            if (in[i]->n_elements != 1)
                return pl_infer_fail(c, "input %d is not a single number", i);
        }
        n.value = 0;
        if (!range_count(in[0], in[1], in[2], &n.value)) {
            return pl_infer_fail(c, "start, limit and delta do not give a finite range");
        }
        return pl_infer_set(c, 0, dtype, 1, &n);
    }
    /* 0 to N by 1 has N elements. */
    const pl_content *limit = pl_content_of(c, 1);
    const bool plain = in[0] != NULL && in[2] != NULL && pl_dtype_is_integer(dtype) &&
                       in[0]->n_elements == 1 && in[2]->n_elements == 1 &&
                       pl_tensor_get_i64(in[0], 0) == 0 && pl_tensor_get_i64(in[2], 0) == 1;
    if (plain && limit != NULL && limit->n == 1 && !limit->known[0]) {
        n = (pl_dim){ -1, limit->dims[0].name };
    }
    return pl_infer_set(c, 0, dtype, 1, &n);
}

/* start + i * delta by repeated addition in float, as some runtimes do. */
static void range_naive(float start, float delta, pl_tensor *y) {
    const size_t size = pl_dtype_bytes(y->dtype);
    for (int64_t i = 0; i < y->n_elements; i++, start += delta)
        pl_store_f32(y->dtype, &start, (char *)y->data + (size_t)i * size, 1);
}

static pl_status range_eval(pl_eval *c) {
    const pl_tensor *start = pl_in(c, 0), *delta = pl_in(c, 2);
    pl_tensor *y = pl_out(c, 0);
    if (c->naive && pl_dtype_is_float(y->dtype) && y->dtype != PL_F64) {
        range_naive((float)pl_tensor_get_f64(start, 0), (float)pl_tensor_get_f64(delta, 0), y);
        return PL_OK;
    }
    const size_t size = pl_dtype_bytes(y->dtype);
    const bool is_float = pl_dtype_is_float(y->dtype);
    const double f = is_float ? pl_tensor_get_f64(start, 0) : 0;
    const double df = is_float ? pl_tensor_get_f64(delta, 0) : 0;
    const uint64_t u = is_float ? 0 : (uint64_t)pl_tensor_get_i64(start, 0);
    const uint64_t du = is_float ? 0 : (uint64_t)pl_tensor_get_i64(delta, 0);
    for (int64_t at = 0; at < y->n_elements; at += 256) {
        const int64_t n = pl_i64_min(256, y->n_elements - at);
        double floats[256];
        int64_t ints[256];
        for (int64_t i = 0; i < n; i++) {
            floats[i] = f + (double)(at + i) * df;
            ints[i] = (int64_t)(u + (uint64_t)(at + i) * du);
        }
        char *to = (char *)y->data + (size_t)at * size;
        if (is_float) pl_store_f64(y->dtype, floats, to, (size_t)n);
        if (!is_float) pl_store_i64(y->dtype, ints, to, (size_t)n);
    }
    return PL_OK;
}

/* ---- random numbers ---- */

static uint64_t seed_of(const pl_eval *c, uint64_t *stream) {
    *stream = 0;
    if (pl_node_attr(c->node, "seed") != NULL) {
        const float seed = (float)pl_attr_float(c->node, "seed");
        uint32_t bits;
        memcpy(&bits, &seed, sizeof(bits));
        return bits;
    }
    /* The id of the output is unique in the model, bodies included; 0 is for nodes with a seed. */
    if (c->node->n_out > 0 && c->node->out[0] != NULL) *stream = (uint64_t)c->node->out[0]->id + 1;
    return c->seed;
}

typedef struct random_job {
    uint64_t seed, stream;
    pl_dtype dtype;
    size_t size;
    char *y;
    double scale, shift; /* y = r * scale + shift */
    bool normal;
} random_job;

static void random_range(void *ctx, int64_t begin, int64_t end) {
    const random_job *j = ctx;
    for (int64_t at = begin; at < end; at += 256) {
        const int64_t n = pl_i64_min(256, end - at);
        double block[256];
        for (int64_t i = 0; i < n; i++) {
            const uint64_t index = (uint64_t)(at + i);
            const double r = j->normal ? pl_rng_normal_at(j->seed, j->stream, index)
                                       : pl_rng_uniform_at(j->seed, j->stream, index);
            block[i] = r * j->scale + j->shift;
        }
        pl_store_f64(j->dtype, block, j->y + (size_t)at * j->size, (size_t)n);
    }
}

static pl_status random_fill(pl_eval *c, bool normal, double scale, double shift) {
    pl_tensor *y = pl_out(c, 0);
    random_job j = { .dtype = y->dtype,
                     .size = pl_dtype_bytes(y->dtype),
                     .y = y->data,
                     .scale = scale,
                     .shift = shift,
                     .normal = normal };
    j.seed = seed_of(c, &j.stream);
    pl_pool_for(c->pool, y->n_elements, 4096, random_range, &j);
    return PL_OK;
}

static pl_status random_normal_eval(pl_eval *c) {
    return random_fill(c, true, pl_attr_float(c->node, "scale"), pl_attr_float(c->node, "mean"));
}

static pl_status random_uniform_eval(pl_eval *c) {
    const double low = pl_attr_float(c->node, "low");
    return random_fill(c, false, pl_attr_float(c->node, "high") - low, low);
}

static pl_status random_dtype(const pl_infer *c, pl_dtype otherwise, uint32_t allowed,
                              pl_dtype *out) {
    PL_TRY(pl_attr_dtype(c, "dtype", otherwise, out));
    if (*out == PL_UNDEFINED || (allowed & PL_T(*out)) != 0) return PL_OK;
    return pl_infer_fail(c, "random numbers of type %s are not supported", pl_dtype_name(*out));
}

static pl_status random_infer(pl_infer *c) {
    size_t n = 0;
    const int64_t *shape = pl_attr_ints(c->node, "shape", &n);
    pl_dim dims[PL_RANK_MAX];
    pl_dtype dtype;
    PL_TRY(random_dtype(c, pl_infer_dtype(c, PL_F32), PL_T_FLOAT, &dtype));
    for (size_t d = 0; d < n && d < PL_RANK_MAX; d++) {
        if (shape[d] < 0) return pl_infer_fail(c, "dim %zu is %lld", d, (long long)shape[d]);
        dims[d] = pl_dim_of(shape[d]);
    }
    return pl_infer_set(c, 0, dtype, (int)pl_size_min(n, PL_RANK_MAX + 1), dims);
}

static pl_status random_like_infer(pl_infer *c) {
    pl_dtype dtype;
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(random_dtype(c, pl_infer_dtype_of(c, 0), PL_T_FLOAT, &dtype));
    return pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims);
}

static pl_status bernoulli_infer(pl_infer *c) {
    pl_dtype dtype;
    const int rank = pl_infer_rank(c, 0);
    PL_TRY(random_dtype(c, pl_infer_dtype_of(c, 0), PL_T_NUMERIC | PL_T_BOOL, &dtype));
    return pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims);
}

static pl_status bernoulli_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    uint64_t stream;
    const uint64_t seed = seed_of(c, &stream);
    const size_t size = pl_dtype_bytes(y->dtype);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double p = pl_tensor_get_f64(x, i);
        const int64_t hit = pl_rng_uniform_at(seed, stream, (uint64_t)i) < p;
        pl_store_i64(y->dtype, &hit, (char *)y->data + (size_t)i * size, 1);
    }
    return PL_OK;
}

static pl_status multinomial_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t samples = pl_attr_int(c->node, "sample_size");
    pl_dtype dtype;
    PL_TRY(random_dtype(c, PL_I32, PL_T_INDEX, &dtype));
    if (samples < 0) return pl_infer_fail(c, "invalid sample_size %lld", (long long)samples);
    if (rank >= 0 && rank != 2) return pl_infer_fail(c, "the input has rank %d, expected 2", rank);
    const pl_dim dims[2] = { pl_infer_dim(c, 0, 0), pl_dim_of(samples) };
    if (c->concrete && samples > 0 && c->in[0]->dims[1].value == 0 && dims[0].value > 0) {
        return pl_infer_fail(c, "there are no classes to draw from");
    }
    return pl_infer_set(c, 0, dtype, 2, dims);
}

/* Running sums of exp(x - max): unnormalised probabilities. False when they are not finite. */
static bool class_sums(const pl_f64 *x, double *sums, int64_t n) {
    double top = -(double)INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++)
        top = x[k] > top ? x[k] : top;
    for (int64_t k = 0; k < n; k++) {
        sum += exp(x[k] - top);
        sums[k] = sum;
    }
    return isfinite(sum);
}

static pl_status multinomial_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    const pl_f64 *x = pl_in_f64(c, 0);
    const int64_t classes = pl_in(c, 0)->dims[1], samples = y->dims[1];
    double *sums = pl_scratch(c, (size_t)classes, sizeof(*sums));
    if (x == NULL || sums == NULL) return pl_eval_memory(c);
    uint64_t stream;
    const uint64_t seed = seed_of(c, &stream);
    const int64_t size = (int64_t)pl_dtype_bytes(y->dtype);
    for (int64_t b = 0; y->n_elements > 0 && b < y->dims[0]; b++) {
        if (!class_sums(x + b * classes, sums, classes)) {
            return pl_eval_fail(c, "row %lld holds no log-probabilities", (long long)b);
        }
        for (int64_t s = 0; s < samples; s++) {
            const int64_t at = b * samples + s;
            const double r = pl_rng_uniform_at(seed, stream, (uint64_t)at) * sums[classes - 1];
            int64_t low = 0, high = classes - 1; /* the first class whose sum is above r */
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (sums[middle] > r) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            pl_store_i64(y->dtype, &low, (char *)y->data + at * size, 1);
        }
    }
    return PL_OK;
}

/* ---- windows ---- */

static pl_status single_int(const pl_infer *c, int i, const char *name, int64_t *out) {
    const pl_tensor *t = c->in_tensor[i];
    if (t->n_elements != 1) return pl_infer_fail(c, "%s is not a single number", name);
    *out = pl_tensor_get_i64(t, 0);
    return *out >= 0 ? PL_OK : pl_infer_fail(c, "%s is %lld", name, (long long)*out);
}

static pl_status output_dtype(const pl_infer *c, pl_dtype *out) {
    PL_TRY(pl_attr_dtype(c, "output_datatype", pl_infer_dtype(c, PL_F32), out));
    if ((PL_T_NUMERIC & PL_T(*out)) != 0) return PL_OK;
    return pl_infer_fail(c, "output_datatype is %s, expected a number", pl_dtype_name(*out));
}

static pl_status window_infer(pl_infer *c) {
    pl_dtype dtype;
    pl_dim n = PL_DIM_UNKNOWN;
    PL_TRY(output_dtype(c, &dtype));
    if (c->in_tensor[0] != NULL) PL_TRY(single_int(c, 0, "size", &n.value));
    return pl_infer_set(c, 0, dtype, 1, &n);
}

/* a - b cos(t) + d cos(2t), t = 2 pi i / N; N is one less when the window is symmetric. */
static pl_status window_eval(pl_eval *c, double a, double b, double d) {
    pl_tensor *y = pl_out(c, 0);
    const bool periodic = pl_attr_int(c->node, "periodic") != 0;
    const double n = (double)(y->n_elements - (periodic ? 0 : 1));
    const size_t size = pl_dtype_bytes(y->dtype);
    for (int64_t i = 0; i < y->n_elements; i++) {
        const double t = 2 * PI * (double)i / n;
        const double w = a - b * cos(t) + d * cos(2 * t);
        pl_store_f64(y->dtype, &w, (char *)y->data + (size_t)i * size, 1);
    }
    return PL_OK;
}

static pl_status hann_eval(pl_eval *c) {
    return window_eval(c, 0.5, 0.5, 0);
}
static pl_status hamming_eval(pl_eval *c) {
    return window_eval(c, 25.0 / 46.0, 21.0 / 46.0, 0);
}
static pl_status blackman_eval(pl_eval *c) {
    return window_eval(c, 0.42, 0.5, 0.08);
}

/* ---- MelWeightMatrix ---- */

static pl_status mel_infer(pl_infer *c) {
    pl_dtype dtype;
    pl_dim dims[2] = { PL_DIM_UNKNOWN, PL_DIM_UNKNOWN };
    PL_TRY(output_dtype(c, &dtype));
    for (int i = 2; c->concrete && i < 5; i++) {
        if (c->in_tensor[i]->n_elements != 1)
            return pl_infer_fail(c, "input %d is not a number", i);
    }
    if (c->in_tensor[1] != NULL) {
        PL_TRY(single_int(c, 1, "dft_length", &dims[0].value));
        dims[0].value = dims[0].value / 2 + 1;
    }
    if (c->in_tensor[0] != NULL) PL_TRY(single_int(c, 0, "num_mel_bins", &dims[1].value));
    return pl_infer_set(c, 0, dtype, 2, dims);
}

/* Spectrogram bin of mel point i; -1 when it is outside the spectrogram. */
static int64_t mel_bin(const pl_eval *c, double low, double step, int64_t i, int64_t n_spectrum) {
    const double mel = low + (double)i * step;
    const double hertz = 700 * (pow(10, mel / 2595) - 1);
    const double bin = floor((pl_in_float(c, 1, 0) + 1) * hertz / pl_in_float(c, 2, 1));
    return bin >= 0 && bin < (double)n_spectrum ? (int64_t)bin : -1;
}

static void mel_put(pl_tensor *y, int64_t row, int64_t column, double w) {
    const int64_t at = row * y->dims[1] + column;
    pl_store_f64(y->dtype, &w, (char *)y->data + at * (int64_t)pl_dtype_bytes(y->dtype), 1);
}

static pl_status mel_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    const int64_t n_bins = y->dims[1];
    const double low = 2595 * log10(1 + pl_in_float(c, 3, 0) / 700);
    const double high = 2595 * log10(1 + pl_in_float(c, 4, 0) / 700);
    const double step = (high - low) / (double)(n_bins + 2);
    memset(y->data, 0, pl_tensor_bytes(y));
    for (int64_t i = 0; i < n_bins; i++) {
        const int64_t left = mel_bin(c, low, step, i, y->dims[0]);
        const int64_t centre = mel_bin(c, low, step, i + 1, y->dims[0]);
        const int64_t right = mel_bin(c, low, step, i + 2, y->dims[0]);
        if (left < 0 || centre < left || right < centre) {
            return pl_eval_fail(c, "mel bin %lld lies outside the spectrogram", (long long)i);
        }
        if (centre == left) mel_put(y, centre, i, 1);
        for (int64_t j = left; centre > left && j <= centre; j++) {
            mel_put(y, j, i, (double)(j - left) / (double)(centre - left));
        }
        for (int64_t j = centre; j < right; j++) {
            mel_put(y, j, i, (double)(right - j) / (double)(right - centre));
        }
    }
    return PL_OK;
}

/* ---- error bounds ---- */

/* Random operators are never replayed: no runtime draws the same numbers. */
static pl_status random_bound(pl_bound *c) {
    return pl_b_unknown(c);
}

/* Adds p[0], an absolute error, to the rounding of the result. */
static double absolute_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)x, (void)e;
    return pl_b_round(c, y) + c->p[0];
}
static pl_status fill_absolute(pl_bound *c, double factor) {
    pl_bound own = *c;
    own.n_in = 0; /* inputs are sizes and do not broadcast to the output */
    const bool is_float = pl_dtype_is_float(c->out_native[0]);
    own.p[0] = is_float ? factor * (c->u < 0x1p-24 ? c->u : 0x1p-24) : 1;
    return pl_b_each(&own, absolute_element);
}
/* Cosine of an angle that is itself rounded a few times: 2 pi times 3u, plus a few roundings. */
static pl_status window_bound(pl_bound *c) {
    return fill_absolute(c, 24);
}
/* Linear ramps between integer bins. */
static pl_status mel_bound(pl_bound *c) {
    return fill_absolute(c, 4);
}

static double range_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double count = x[2] == 0 ? 0 : (y - x[0]) / x[2];
    const double own = c->u > 0 ? pl_b_round(c, y) + c->u * fabs(y - x[0]) : 0;
    return own + e[0] + count * e[2];
}
static pl_status range_bound(pl_bound *c) {
    return pl_b_each(c, range_element);
}

/* y_i = start + i delta; the number of elements is constant. */
static pl_status range_grad(pl_grad *c) {
    pl_value *start = c->node->in[0], *delta = c->node->in[2];
    if (c->wanted[0]) {
        pl_value *sum = pl_g_reduce(c, "ReduceSum", c->dy[0], NULL, 0, false);
        c->dx[0] = pl_g_reshape_like(c, sum, start);
    }
    if (!c->wanted[2]) return c->st;
    pl_value *index = pl_g_div(c, pl_g_sub(c, c->node->out[0], start), delta);
    pl_value *sum = pl_g_reduce(c, "ReduceSum", pl_g_mul(c, c->dy[0], index), NULL, 0, false);
    c->dx[2] = pl_g_reshape_like(c, sum, delta);
    return c->st;
}

/* ---- rows ---- */

#define EXACT .grad = PL_GRAD_ZERO, .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP
#define COMPUTED(bound_, grad_) .grad = grad_, .bound = bound_, .autocast = PL_AMP_KEEP
#define RANDOM .grad = PL_GRAD_UNDEFINED, .bound = random_bound, .autocast = PL_AMP_KEEP
#define OUT(types) .out = PL_PORTS({ "output", types, 0 })
#define WINDOW(name_, fn)                                                                          \
    {                                                                                              \
        .name = name_, .since = 17, .in = PL_PORTS({ "size", PL_T_INDEX, 0 }), OUT(PL_T_NUMERIC),  \
        .attrs = PL_ATTRS(PL_A_INT("output_datatype", 1), PL_A_INT("periodic", 1)),                \
        .infer = window_infer, .eval = fn, COMPUTED(window_bound, PL_GRAD_ZERO),                   \
        .emit = pl_emit_folds,                                                                     \
        .samples = PL_SAMPLES(                                                                     \
            { "() => (y) <int32 n = {10}> { y = " name_ "(n) }", NULL, PL_SAMPLE_NO_GRAD },        \
            { "() => (y) <int64 n = {7}> { y = " name_ "<periodic=0>(n) }", NULL,                  \
              PL_SAMPLE_NO_GRAD })                                                                 \
    }
#define SEED PL_A_FLOAT("seed", 0)

/* clang-format off */
const pl_op_def pl_ops_generator[] = {
    { .name = "Bernoulli", .since = 15, .flags = PL_OP_RANDOM,
      .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), OUT(PL_T_NUMERIC | PL_T_BOOL),
      .attrs = PL_ATTRS(PL_A_INT("dtype", 0), SEED), .infer = bernoulli_infer, .eval = bernoulli_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "(float[4,5] x) => (y) { y = Bernoulli<seed=1.0, dtype=9>(x) }", "x=0:1", PL_SAMPLE_NO_GRAD }) },
    WINDOW("BlackmanWindow", blackman_eval),
    { .name = "Constant", .since = 1, .flags = PL_OP_OWN_OUT | PL_OP_SHAPE | PL_OP_CONSTANT, .in = PL_NO_PORTS, OUT(PL_T_ANY),
      .attrs = PL_ATTRS(PL_A_LIST("value", TENSOR), PL_A_LIST("sparse_value", SPARSE_TENSOR),
                        PL_A_LIST("value_int", INT), PL_A_LIST("value_ints", INTS),
                        PL_A_LIST("value_float", FLOAT), PL_A_LIST("value_floats", FLOATS),
                        PL_A_LIST("value_string", STRING), PL_A_LIST("value_strings", STRINGS)),
      .infer = constant_infer, .eval = constant_eval, EXACT, .emit = pl_emit_folds,
      .samples = PL_SAMPLES({ "() => (y) { y = Constant<value = float[2] {1.5, -2}>() }", NULL, PL_SAMPLE_NO_GRAD },
                            { "() => (y) { y = Constant<value_ints = [1,2,3]>() }", NULL, PL_SAMPLE_NO_GRAD },
                            { "() => (y) { y = Constant<value_float = 0.5>() }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "ConstantOfShape", .since = 9, .flags = PL_OP_SHAPE | PL_OP_OWN_OUT,
      .in = PL_PORTS({ "input", PL_T_I64, 0 }), OUT(PL_T_ANY), .attrs = PL_ATTRS(PL_A_LIST("value", TENSOR)),
      .infer = constant_of_shape_infer, .eval = constant_of_shape_eval, EXACT, .emit = pl_emit_folds,
      .samples = PL_SAMPLES({ "() => (y) <int64[2] s = {2,3}> { y = ConstantOfShape<value = int32[1] {7}>(s) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "() => (y) <int64[1] s = {0}> { y = ConstantOfShape(s) }", NULL, PL_SAMPLE_NO_GRAD }) },
    WINDOW("HammingWindow", hamming_eval),
    WINDOW("HannWindow", hann_eval),
    { .name = "MelWeightMatrix", .since = 17,
      .in = PL_PORTS({ "num_mel_bins", PL_T_INDEX, 0 }, { "dft_length", PL_T_INDEX, 0 }, { "sample_rate", PL_T_INDEX, 0 },
                     { "lower_edge_hertz", PL_T_FLOAT, 0 }, { "upper_edge_hertz", PL_T_FLOAT, 0 }),
      OUT(PL_T_NUMERIC), .attrs = PL_ATTRS(PL_A_INT("output_datatype", 1)),
      .infer = mel_infer, .eval = mel_eval, COMPUTED(mel_bound, PL_GRAD_ZERO), .emit = pl_emit_folds,
      .samples = PL_SAMPLES({ "() => (y) <int32 m = {8}, int32 d = {16}, int32 r = {8192}, float l = {0}, float u = {4096}> { y = MelWeightMatrix(m, d, r, l, u) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Multinomial", .since = 7, .flags = PL_OP_RANDOM,
      .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), OUT(PL_T_INDEX),
      .attrs = PL_ATTRS(PL_A_INT("dtype", PL_I32), PL_A_INT("sample_size", 1), SEED),
      .infer = multinomial_infer, .eval = multinomial_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "(float[2,5] x) => (y) { y = Multinomial<sample_size=4, seed=3.0>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "RandomNormal", .since = 1, .flags = PL_OP_RANDOM, .in = PL_NO_PORTS, OUT(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_INT("dtype", PL_F32), PL_A_FLOAT("mean", 0), PL_A_FLOAT("scale", 1), SEED, PL_A_REQUIRED("shape", INTS)),
      .infer = random_infer, .eval = random_normal_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "() => (y) { y = RandomNormal<shape=[3,4], mean=1.0, seed=2.0>() }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "RandomNormalLike", .since = 1, .flags = PL_OP_RANDOM, .in = PL_PORTS({ "input", PL_T_ANY, 0 }), OUT(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_INT("dtype", 0), PL_A_FLOAT("mean", 0), PL_A_FLOAT("scale", 1), SEED),
      .infer = random_like_infer, .eval = random_normal_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) { y = RandomNormalLike<seed=2.0>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "RandomUniform", .since = 1, .flags = PL_OP_RANDOM, .in = PL_NO_PORTS, OUT(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_INT("dtype", PL_F32), PL_A_FLOAT("high", 1), PL_A_FLOAT("low", 0), SEED, PL_A_REQUIRED("shape", INTS)),
      .infer = random_infer, .eval = random_uniform_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "() => (y) { y = RandomUniform<shape=[3,4], low=-1.0, seed=2.0>() }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "RandomUniformLike", .since = 1, .flags = PL_OP_RANDOM, .in = PL_PORTS({ "input", PL_T_ANY, 0 }), OUT(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_INT("dtype", 0), PL_A_FLOAT("high", 1), PL_A_FLOAT("low", 0), SEED),
      .infer = random_like_infer, .eval = random_uniform_eval, RANDOM, PL_EMIT_BREAK("random numbers must come in eager's order"),
      .samples = PL_SAMPLES({ "(int32[3,4] x) => (y) { y = RandomUniformLike<dtype=11, seed=2.0>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Range", .since = 11, .flags = PL_OP_SHAPE,
      .in = PL_PORTS({ "start", PL_T_FLOAT | PL_T_SIGNED, PL_PORT_SAME }, { "limit", PL_T_FLOAT | PL_T_SIGNED, PL_PORT_SAME },
                     { "delta", PL_T_FLOAT | PL_T_SIGNED, PL_PORT_SAME }),
      OUT(PL_T_FLOAT | PL_T_SIGNED), .attrs = PL_ATTRS(PL_A_INT("stash_type", 1)),
      .infer = range_infer, .eval = range_eval, COMPUTED(range_bound, range_grad), .emit = pl_emit_folds,
      .samples = PL_SAMPLES({ "() => (y) <float a = {1}, float b = {5}, float d = {1.5}> { y = Range(a, b, d) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float a, float d) => (y) <float b = {5}> { y = Range(a, b, d) }", "a=0:0.1 d=0.9:1", 0 },
                            { "() => (y) <int64 a = {10}, int64 b = {4}, int64 d = {-2}> { y = Range(a, b, d) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */

/* Convolutions against a scatter-form truth in long double, within the bound of a dot product. The
 * instruction set is that of PLUMB_CPU, the provider that of PLUMB_KERNELS: tests/run runs it for
 * each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel_rig.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static double float_unit(void) {
    return (double)(float)unit();
}

static int64_t count(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= d[i];
    return p;
}

/* A random shape that has at least one output. */
static pl_conv_shape random_shape(bool depthwise) {
    pl_conv_shape s = { .n_spatial = (int)pick(1, 3), .batch = pick(1, 2), .groups = 1 };
    s.groups = depthwise ? pick(1, 9) : (mix() % 3 ? 1 : pick(1, 3));
    s.c_in = s.groups * (depthwise ? 1 : pick(1, 9));
    s.c_out = s.groups * pick(1, depthwise ? 2 : 20);
    for (int i = 0; i < s.n_spatial; i++) {
        do {
            s.in[i] = pick(1, s.n_spatial == 3 ? 8 : 40);
            s.kernel[i] = pick(1, s.n_spatial == 3 ? 3 : 5);
            s.stride[i] = mix() % 2 ? 1 : pick(1, 3);
            s.dilation[i] = mix() % 3 ? 1 : pick(1, 3);
            s.pad_begin[i] = pick(mix() % 5 ? 0 : -1, 3);
            const int64_t end = pick(0, 3);
            s.out[i] = (s.in[i] + s.pad_begin[i] + end - (s.kernel[i] - 1) * s.dilation[i] - 1) /
                           s.stride[i] +
                       1;
        } while (s.out[i] < 1);
    }
    return s;
}

/* For each input cell and tap, the output cell it belongs to, if any (-1). forward: in -> out
 * through o * stride = i + pad - tap * dilation; transposed: o = i * stride - pad + tap * dilation.
 */
static int64_t target(const pl_conv_shape *s, bool transposed, int64_t cell, int64_t tap) {
    int64_t at = 0, scale = 1;
    for (int d = s->n_spatial - 1; d >= 0; d--) {
        const int64_t i = cell % s->in[d], k = tap % s->kernel[d];
        cell /= s->in[d];
        tap /= s->kernel[d];
        int64_t o;
        if (transposed) {
            o = i * s->stride[d] - s->pad_begin[d] + k * s->dilation[d];
        } else {
            const int64_t v = i + s->pad_begin[d] - k * s->dilation[d];
            if (v < 0 || v % s->stride[d]) return -1;
            o = v / s->stride[d];
        }
        if (o < 0 || o >= s->out[d]) return -1;
        at += o * scale;
        scale *= s->out[d];
    }
    return at;
}

typedef struct rig {
    pl_conv_shape s;
    int64_t in, out, taps, ci, co; /* cells, taps, channels per group */
    int64_t nx, nw, ny;
    double *x, *w, *bias;
    long double *want, *mag;
} rig;

static rig rig_new(pl_conv_shape s, bool transposed, bool with_bias) {
    rig r = { .s = s };
    r.in = count(s.in, s.n_spatial);
    r.out = count(s.out, s.n_spatial);
    r.taps = count(s.kernel, s.n_spatial);
    r.ci = s.c_in / s.groups;
    r.co = s.c_out / s.groups;
    r.nx = s.batch * s.c_in * r.in;
    r.nw = s.c_out * r.ci * r.taps;
    r.ny = s.batch * s.c_out * r.out;
    r.x = malloc((size_t)(r.nx + 1) * 8);
    r.w = malloc((size_t)(r.nw + 1) * 8);
    r.bias = malloc((size_t)(s.c_out + 1) * 8);
    r.want = calloc((size_t)(r.ny + 1), sizeof *r.want);
    r.mag = calloc((size_t)(r.ny + 1), sizeof *r.mag);
    for (int64_t i = 0; i < r.nx; i++)
        r.x[i] = float_unit();
    for (int64_t i = 0; i < r.nw; i++)
        r.w[i] = float_unit();
    for (int64_t i = 0; i < s.c_out; i++)
        r.bias[i] = with_bias ? float_unit() : 0;
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t g = 0; g < s.groups; g++)
            for (int64_t ci = 0; ci < r.ci; ci++)
                for (int64_t co = 0; co < r.co; co++)
                    for (int64_t i = 0; i < r.in; i++)
                        for (int64_t t = 0; t < r.taps; t++) {
                            const int64_t o = target(&s, transposed, i, t);
                            if (o < 0) continue;
                            const int64_t at = ((b * s.groups + g) * r.co + co) * r.out + o;
                            const int64_t wi = transposed
                                                   ? ((g * r.ci + ci) * r.co + co) * r.taps + t
                                                   : ((g * r.co + co) * r.ci + ci) * r.taps + t;
                            const long double v =
                                (long double)r.x[((b * s.groups + g) * r.ci + ci) * r.in + i] *
                                (long double)r.w[wi];
                            r.want[at] += v;
                            r.mag[at] += fabsl(v);
                        }
    for (int64_t i = 0; i < r.ny; i++) {
        const long double v = (long double)r.bias[i / r.out % s.c_out];
        r.want[i] += v;
        r.mag[i] += fabsl(v);
    }
    return r;
}
static void rig_free(rig *r) {
    free(r->x);
    free(r->w);
    free(r->bias);
    free(r->want);
    free(r->mag);
}

#define CHECK(T, E, suffix, eps)                                                                   \
    static void check_##suffix(pl_conv_shape s, bool transposed, bool with_bias) {                 \
        rig r = rig_new(s, transposed, with_bias);                                                 \
        char *bytes = malloc((size_t)(r.nx + r.nw + s.c_out + 4 * r.ny + 4) * sizeof(T) + 4);      \
        E *x = (E *)(bytes + 1), *w = x + r.nx, *bias = w + r.nw, *y[4];                           \
        for (int i = 0; i < 4; i++)                                                                \
            y[i] = bias + s.c_out + i * r.ny + i; /* one guard element behind each */              \
        for (int64_t i = 0; i < r.nx; i++)                                                         \
            x[i] = (T)r.x[i];                                                                      \
        for (int64_t i = 0; i < r.nw; i++)                                                         \
            w[i] = (T)r.w[i];                                                                      \
        for (int64_t i = 0; i < s.c_out; i++)                                                      \
            bias[i] = (T)r.bias[i];                                                                \
        for (int i = 0; i < 4; i++)                                                                \
            y[i][r.ny] = 77;                                                                       \
        const E *b = with_bias ? bias : NULL;                                                      \
        pl_err err = PL_ERR_INIT;                                                                  \
        if (transposed) {                                                                          \
            assert_int_equal(pl_conv_transpose_##suffix(NULL, &s, x, w, b, y[0], &err), 0);        \
            assert_int_equal(pl_conv_transpose_##suffix(pool, &s, x, w, b, y[1], &err), 0);        \
            assert_int_equal(pl_conv_transpose_##suffix(pool, &s, x, w, b, y[2], &err), 0);        \
            assert_int_equal(pl_conv_transpose_plain_##suffix(&s, x, w, b, y[3], &err), 0);        \
        } else {                                                                                   \
            pl_conv_state *st = NULL;                                                              \
            assert_int_equal(pl_conv_##suffix(NULL, &s, x, w, b, y[0], NULL, &err), 0);            \
            assert_int_equal(pl_conv_##suffix(pool, &s, x, w, b, y[1], &st, &err), 0);             \
            assert_int_equal(pl_conv_##suffix(pool, &s, x, w, b, y[2], &st, &err), 0);             \
            assert_int_equal(pl_conv_plain_##suffix(&s, x, w, b, y[3], &err), 0);                  \
            pl_conv_state_free(st);                                                                \
        }                                                                                          \
        assert_memory_equal(y[0], y[1], (size_t)r.ny * sizeof(T)); /* threads, cache */            \
        assert_memory_equal(y[0], y[2], (size_t)r.ny * sizeof(T));                                 \
        for (int64_t i = 0; i < r.ny; i++)                                                         \
            for (int v = 0; v < 4; v += 3) {                                                       \
                const long double tol = ((long double)(r.ci * r.taps) + 4) * eps * r.mag[i];       \
                if (!(fabsl((long double)y[v][i] - r.want[i]) <= tol))                             \
                    fail_msg("%s %d-d b%d ci%d co%d g%d in %d,%d k %d,%d s %d,%d d %d,%d p %d,%d " \
                             "out %d,%d at %d: %g, not %Lg",                                       \
                             v ? "plain" : "fast", s.n_spatial, (int)s.batch, (int)s.c_in,         \
                             (int)s.c_out, (int)s.groups, (int)s.in[0], (int)s.in[1],              \
                             (int)s.kernel[0], (int)s.kernel[1], (int)s.stride[0],                 \
                             (int)s.stride[1], (int)s.dilation[0], (int)s.dilation[1],             \
                             (int)s.pad_begin[0], (int)s.pad_begin[1], (int)s.out[0],              \
                             (int)s.out[1], (int)i, (double)y[v][i], r.want[i]);                   \
            }                                                                                      \
        for (int i = 0; i < 4; i++)                                                                \
            assert_true(y[i][r.ny] == 77);                                                         \
        free(bytes);                                                                               \
        rig_free(&r);                                                                              \
    }
CHECK(float, pl_f32, f32, 0x1p-24L)
CHECK(double, pl_f64, f64, 0x1p-53L)

static void test_conv__random_shapes_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 400; i++) {
        const pl_conv_shape s = random_shape(false);
        check_f32(s, false, i & 1);
        if (i % 4 == 0) check_f64(s, false, i & 2);
    }
}

static void test_conv__random_depthwise_shapes_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 400; i++) {
        const pl_conv_shape s = random_shape(true);
        check_f32(s, false, i & 1);
        if (i % 4 == 0) check_f64(s, false, i & 2);
    }
}

/* The forms that read the planes themselves: every border, ragged vectors, padding of all sorts. */
static void test_conv__square_depthwise_planes_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 120; i++) {
        pl_conv_shape s = { .n_spatial = 2, .batch = 1, .c_in = 3, .c_out = 3, .groups = 3 };
        const int64_t kernel = i % 2 ? 5 : 3, stride = i % 4 < 2 ? 1 : 2;
        for (int d = 0; d < 2; d++) {
            s.kernel[d] = kernel;
            s.stride[d] = stride;
            s.dilation[d] = 1;
            s.pad_begin[d] = pick(i % 5 ? 0 : -1, kernel - 1);
            s.out[d] = pick(7, d == 0 ? 16 : 50);
            s.in[d] = (s.out[d] - 1) * stride + kernel - s.pad_begin[d] - pick(0, 3);
        }
        check_f32(s, false, i & 1);
        if (i % 3 == 0) check_f64(s, false, i & 1);
    }
}

static void test_conv__shapes_of_real_models_are_right(void **state) {
    (void)state;
    const pl_conv_shape shapes[] = {
        { 2, 1, 16, 24, 1, { 14, 14 }, { 14, 14 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 2, 60, 70, 1, { 7, 7 }, { 7, 7 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 3, 16, 1, { 32, 32 }, { 16, 16 }, { 7, 7 }, { 2, 2 }, { 1, 1 }, { 3, 3 }, NULL },
        { 2, 2, 3, 24, 1, { 35, 40 }, { 18, 20 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 4, 40, 1, { 20, 67 }, { 9, 33 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 1, 8, 1, { 9, 33 }, { 6, 18 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 2, 2 }, NULL },
        { 2, 1, 40, 90, 1, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 2, 48, 66, 2, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 2, 50, 200, 1, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 2, 30, 600, 2, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 50, 70, 1, { 7, 7 }, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 300, 48, 1, { 14, 14 }, { 14, 14 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 400, 36, 1, { 7, 7 }, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 8, 9, 1, { 15, 15 }, { 8, 8 }, { 1, 1 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 3, 20, 1, { 32, 32 }, { 2, 2 }, { 16, 16 }, { 16, 16 }, { 1, 1 }, { 0, 0 }, NULL },
        { 2, 1, 40, 40, 40, { 28, 28 }, { 14, 14 }, { 5, 5 }, { 2, 2 }, { 1, 1 }, { 2, 2 }, NULL },
        { 2, 1, 40, 40, 40, { 7, 7 }, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 32, 32, 8, { 14, 14 }, { 14, 14 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 1, 1, 80, 16, 1, { 200 }, { 100 }, { 3 }, { 2 }, { 1 }, { 1 }, NULL },
        { 3,
          1,
          3,
          8,
          1,
          { 6, 12, 12 },
          { 6, 6, 6 },
          { 3, 3, 3 },
          { 1, 2, 2 },
          { 1, 1, 1 },
          { 1, 1, 1 },
          NULL },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_f32(shapes[i], false, true);
        check_f64(shapes[i], false, false);
    }
}

/* One output of one input, which may be of padding alone; no channels, no input at all. */
static void test_conv__single_outputs_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        pl_conv_shape s = { .n_spatial = (int)pick(1, 3), .batch = pick(1, 2), .groups = 1 };
        s.groups = pick(1, 2);
        s.c_in = s.groups * (i % 10 ? pick(7, 20) : 0);
        s.c_out = s.groups * pick(1, 20);
        for (int d = 0; d < s.n_spatial; d++) {
            s.in[d] = i % 9 ? 1 : pick(0, 2);
            s.out[d] = 1;
            s.kernel[d] = i % 4 ? 1 : pick(1, 3);
            s.stride[d] = pick(1, 3);
            s.dilation[d] = pick(1, 2);
            s.pad_begin[d] = i % 2 ? 0 : pick(-1, 2);
        }
        check_f32(s, false, i & 1);
        if (i % 4 == 0) check_f64(s, false, i & 2);
    }
    const pl_conv_shape stem = { 2,         2,        0,        8,        1,        { 9, 33 },
                                 { 4, 16 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, NULL };
    check_f32(stem, false, true);
}

/* The next panel may belong to another thread: no vector may run over the end of this one. */
static void test_conv__a_filled_panel_ends_where_it_ends(void **state) {
    (void)state;
    float staged[400], to[700];
    int64_t taps[20];
    for (int i = 0; i < 400; i++)
        staged[i] = (float)i;
    for (int i = 0; i < 20; i++)
        taps[i] = 7 * i;
    for (int64_t rows = 1; rows <= 32; rows++)
        for (int64_t n_taps = 1; n_taps <= 20; n_taps++)
            for (int64_t first = 1; first <= rows; first++) { /* two runs, or one */
                const pl_conv_run runs[2] = { { 0, first }, { 50, rows - first } };
                for (int i = 0; i < 700; i++)
                    to[i] = -1;
                pl_conv_table_get()->fill_f32(staged, taps, n_taps, runs, first < rows ? 2 : 1,
                                              rows, rows, rows, to);
                for (int64_t i = 0; i < n_taps * rows; i++) {
                    const int64_t j = i % rows;
                    assert_true(to[i] == staged[7 * (i / rows) + (j < first ? j : 50 + j - first)]);
                }
                for (int64_t i = n_taps * rows; i < 700; i++)
                    assert_true(to[i] == -1);
            }
}

/* Panels are filled by several threads at once: many rounds, so that they meet at every border. */
static void test_conv__threads_do_not_touch_each_other(void **state) {
    (void)state;
    const pl_conv_shape shapes[] = {
        { 2, 1, 50, 70, 1, { 7, 7 }, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 30, 64, 1, { 5, 5 }, { 5, 5 }, { 1, 2 }, { 1, 1 }, { 1, 1 }, { 0, 1 }, NULL },
        { 2, 1, 20, 40, 1, { 13, 13 }, { 7, 7 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 32, 96, 1, { 28, 28 }, { 28, 28 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 64, 64, 64, { 14, 14 }, { 14, 14 }, { 5, 5 }, { 1, 1 }, { 1, 1 }, { 2, 2 }, NULL },
    };
    float *x = malloc(100000 * sizeof *x), *w = malloc(100000 * sizeof *w);
    float *one = malloc(100000 * sizeof *one), *many = malloc(100000 * sizeof *many);
    for (int i = 0; i < 100000; i++) {
        x[i] = (float)unit();
        w[i] = (float)unit();
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const pl_conv_shape *s = &shapes[i];
        const size_t n = (size_t)(s->c_out * s->out[0] * s->out[1]) * sizeof *one;
        pl_conv_state *st = NULL;
        assert_int_equal(pl_conv_f32(NULL, s, x, w, NULL, one, NULL, NULL), 0);
        for (int round = 0; round < 100; round++) {
            assert_int_equal(pl_conv_f32(pool, s, x, w, NULL, many, &st, NULL), 0);
            assert_memory_equal(one, many, n);
        }
        pl_conv_state_free(st);
    }
    free(x);
    free(w);
    free(one);
    free(many);
}

static pl_conv_shape point_shape(int64_t batch, int64_t c_in, int64_t c_out, int64_t groups,
                                 int64_t side) {
    const pl_conv_shape s = { 2,        batch,          c_in,           c_out,
                              groups,   { side, side }, { side, side }, { 1, 1 },
                              { 1, 1 }, { 1, 1 },       { 0, 0 },       &pl_provider_own };
    return s;
}

/* A factor for each channel, multiplied on the way, gives the bits of a product made first. */
static void test_conv__factors_of_channels_are_those_of_a_product(void **state) {
    (void)state;
    enum { N = 200000 };
    const pl_conv_shape shapes[] = {
        point_shape(1, 40, 16, 1, 20),  point_shape(2, 90, 120, 1, 11),
        point_shape(1, 64, 500, 1, 6),  point_shape(2, 60, 96, 2, 7),
        point_shape(1, 300, 40, 1, 14), point_shape(1, 96, 32, 1, 7),
    };
    float *x = malloc(N * sizeof *x), *w = malloc(N * sizeof *w), *made = malloc(N * sizeof *made);
    float *want = malloc(N * sizeof *want), *got = malloc(N * sizeof *got), factor[600];
    for (int i = 0; i < N; i++) {
        x[i] = (float)unit();
        w[i] = (float)unit();
    }
    for (int i = 0; i < 600; i++)
        factor[i] = (float)unit();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const pl_conv_shape *s = &shapes[i];
        const int64_t side = s->in[0] * s->in[1];
        for (int64_t k = 0; k < s->batch * s->c_in * side; k++)
            made[k] = x[k] * factor[k / side];
        assert_true(pl_conv_takes_factor_f32(s));
        assert_int_equal(pl_conv_f32(NULL, s, made, w, factor, want, NULL, NULL), 0);
        const size_t bytes = (size_t)(s->batch * s->c_out * side) * sizeof *want;
        for (int threads = 0; threads < 2; threads++) {
            memset(got, 0, bytes);
            assert_int_equal(pl_conv_factor_f32(threads ? pool : NULL, s, x, factor, w, factor, got,
                                                NULL, NULL, NULL),
                             0);
            assert_memory_equal(want, got, bytes);
        }
    }
    pl_conv_shape wide = point_shape(1, 8, 8, 1, 5);
    wide.kernel[0] = 2;
    assert_false(pl_conv_takes_factor_f32(&wide));
    assert_int_equal(pl_conv_factor_f32(NULL, &wide, x, factor, w, NULL, got, NULL, NULL, NULL),
                     PL_E_INVALID);
    free(x);
    free(w);
    free(made);
    free(want);
    free(got);
}

static void test_conv__huge_dilation_and_padding_stay_small(void **state) {
    (void)state;
    /* Staging these would need gigabytes: the direct way must take them. */
    const pl_conv_shape s = { 2,
                              1,
                              2,
                              3,
                              1,
                              { 5, 5 },
                              { 5, 5 },
                              { 3, 3 },
                              { 1, 1 },
                              { 100000000, 100000000 },
                              { 100000000, 100000000 },
                              NULL };
    check_f32(s, false, true);
}

static double odd_number(void) {
    static const double odd[] = { INFINITY, -INFINITY, NAN };
    return odd[mix() % 3];
}

/* Input cell that output cell `at` reads with a tap; -1 is padding. */
static int64_t source(const pl_conv_shape *s, int64_t at, int64_t tap) {
    int64_t cell = 0, scale = 1;
    for (int d = s->n_spatial - 1; d >= 0; d--) {
        const int64_t i =
            at % s->out[d] * s->stride[d] - s->pad_begin[d] + tap % s->kernel[d] * s->dilation[d];
        at /= s->out[d];
        tap /= s->kernel[d];
        if (i < 0 || i >= s->in[d]) return -1;
        cell += i * scale;
        scale *= s->in[d];
    }
    return cell;
}

static bool same_kind(double a, double b) {
    return isnan(a) ? isnan(b) : isinf(a) ? a == b : isfinite(b);
}

/* Inf and NaN here and there, in the weights or in the input: padding is zeros, 0 times Inf is NaN,
 * whatever way the shape takes, with one thread and with many, packed before or not. */
static void check_odd(pl_conv_shape s, bool in_weights) {
    rig r = rig_new(s, false, true);
    float *x = malloc((size_t)(r.nx + r.nw + s.c_out + 4 * r.ny) * sizeof *x);
    float *w = x + r.nx, *bias = w + r.nw, *y[4];
    double *dx = malloc((size_t)(r.nx + r.nw + s.c_out + r.ny) * sizeof *dx);
    double *dw = dx + r.nx, *db = dw + r.nw, *dy = db + s.c_out;
    pl_conv_state *st = NULL;
    for (int i = 0; i < 4; i++)
        y[i] = bias + s.c_out + i * r.ny;
    for (int i = 0; i < 3; i++)
        *(in_weights ? &r.w[pick(0, r.nw - 1)] : &r.x[pick(0, r.nx - 1)]) = odd_number();
    for (int64_t i = 0; i < r.nx; i++)
        x[i] = (float)(dx[i] = r.x[i]);
    for (int64_t i = 0; i < r.nw; i++)
        w[i] = (float)(dw[i] = r.w[i]);
    for (int64_t i = 0; i < s.c_out; i++)
        bias[i] = (float)(db[i] = r.bias[i]);
    assert_int_equal(pl_conv_plain_f32(&s, x, w, bias, y[3], NULL), 0);
    /* The long sums are the plain ones, to the bit. */
    assert_int_equal(pl_conv_long_f32(pool, &s, x, w, bias, y[0], NULL), 0);
    for (int64_t i = 0; i < r.ny; i++)
        assert_true(memcmp(&y[0][i], &y[3][i], 4) == 0 || (isnan(y[0][i]) && isnan(y[3][i])));
    assert_int_equal(pl_conv_f32(NULL, &s, x, w, bias, y[0], NULL, NULL), 0);
    assert_int_equal(pl_conv_f32(pool, &s, x, w, bias, y[1], &st, NULL), 0);
    assert_int_equal(pl_conv_f32(pool, &s, x, w, bias, y[2], &st, NULL), 0);
    assert_int_equal(pl_conv_f64(pool, &s, dx, dw, db, dy, NULL, NULL), 0);
    for (int64_t i = 0; i < r.ny; i++) {
        const int64_t channel = i / r.out % s.c_out, item = i / r.out / s.c_out;
        double want = r.bias[channel];
        for (int64_t k = 0; k < r.ci * r.taps; k++) {
            const int64_t cell = source(&s, i % r.out, k % r.taps);
            const int64_t plane = item * s.c_in + channel / r.co * r.ci + k / r.taps;
            want += (cell < 0 ? 0 : r.x[plane * r.in + cell]) * r.w[channel * r.ci * r.taps + k];
        }
        for (int v = 0; v < 5; v++) {
            const double got = v < 4 ? (double)y[v][i] : dy[i];
            if (same_kind(got, want)) continue;
            fail_msg("form %d, %d-d ci%d co%d g%d in %d,%d k %d,%d s %d,%d p %d,%d out %d,%d at "
                     "%d: %g, not %g",
                     v, s.n_spatial, (int)s.c_in, (int)s.c_out, (int)s.groups, (int)s.in[0],
                     (int)s.in[1], (int)s.kernel[0], (int)s.kernel[1], (int)s.stride[0],
                     (int)s.stride[1], (int)s.pad_begin[0], (int)s.pad_begin[1], (int)s.out[0],
                     (int)s.out[1], (int)i, got, want);
        }
    }
    pl_conv_state_free(st);
    free(x);
    free(dx);
    rig_free(&r);
}

static void test_conv__padding_is_zeros_for_infinite_weights_too(void **state) {
    (void)state;
    const pl_conv_shape shapes[] = {
        { 2, 1, 3, 16, 1, { 35, 35 }, { 18, 18 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 6, 6, 6, { 20, 20 }, { 20, 20 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 6, 6, 6, { 20, 20 }, { 10, 10 }, { 5, 5 }, { 2, 2 }, { 1, 1 }, { 2, 2 }, NULL },
        { 2, 1, 50, 70, 1, { 7, 7 }, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 16, 24, 1, { 14, 14 }, { 14, 14 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 8, 8, 1, { 6, 6 }, { 8, 8 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 2, 3, 1, { 5, 5 }, { 5, 5 }, { 3, 3 }, { 1, 1 }, { 900, 900 }, { 900, 900 }, NULL },
    };
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
        check_odd(shapes[i / 2], i % 2 == 0);
    for (int i = 0; i < 100; i++)
        check_odd(random_shape(i % 4 == 0), i % 2 == 0);
}

static void test_conv__transposed_random_shapes_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++) {
        pl_conv_shape s = random_shape(i % 5 == 0);
        for (int d = 0; d < s.n_spatial; d++) {
            if (s.in[d] > 12) s.in[d] = pick(1, 12);
            s.out[d] = (s.in[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1 -
                       s.pad_begin[d] - pick(0, 1) + pick(0, 2);
            if (s.out[d] < 1) s.out[d] = 1;
        }
        check_f32(s, true, i & 1);
        if (i % 4 == 0) check_f64(s, true, i & 2);
    }
}

static void test_conv__integers_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        const pl_conv_shape s = random_shape(i % 4 == 0);
        const int64_t nx = s.batch * s.c_in * count(s.in, s.n_spatial);
        const int64_t nw = s.c_out * (s.c_in / s.groups) * count(s.kernel, s.n_spatial);
        const int64_t ny = s.batch * s.c_out * count(s.out, s.n_spatial);
        uint8_t *x = malloc((size_t)(nx + nw) + 1), *w = x + nx;
        pl_i32 *y = malloc((size_t)ny * 8), *p = y + ny, zero[64];
        for (int64_t j = 0; j < nx + nw; j++)
            x[j] = (uint8_t)mix();
        const bool xs = i & 1, ws = i & 2;
        for (int j = 0; j < 64; j++)
            zero[j] = (int32_t)pick(ws ? -128 : 0, ws ? 127 : 255);
        const int32_t xz = (int32_t)pick(xs ? -128 : 0, xs ? 127 : 255);
        const pl_gemm_i8_zero wz = { i % 3 ? zero : NULL, i % 3 == 1, 0 };
        assert_int_equal(pl_conv_i8(pool, &s, x, xs, xz, w, ws, wz, y, NULL), 0);
        assert_int_equal(pl_conv_plain_i8(&s, x, xs, xz, w, ws, wz, p, NULL), 0);
        assert_memory_equal(y, p, (size_t)ny * 4);
        free(x);
        free(y);
    }
}

static void test_conv__plain_integers_follow_the_definition(void **state) {
    (void)state;
    const uint8_t x[4] = { 1, 2, 3, 250 }, w[2] = { 10, 200 };
    const pl_i32 wz = 100;
    pl_i32 y[3];
    const pl_conv_shape s = { 1, 1, 1, 1, 1, { 4 }, { 3 }, { 2 }, { 2 }, { 1 }, { 1 }, NULL };
    const pl_gemm_i8_zero z = { &wz, 0, 0 };
    assert_int_equal(pl_conv_plain_i8(&s, x, false, 2, w, false, z, y, NULL), 0);
    assert_int_equal(y[0], -100);              /* pad, (1-2) * 100 */
    assert_int_equal(y[1], 0 * -90 + 1 * 100); /* 2 and 3 */
    assert_int_equal(y[2], 248 * -90);         /* 250, pad */
}

static void test_conv__bad_shapes_are_refused(void **state) {
    (void)state;
    float v[64] = { 0 };
    pl_err err = PL_ERR_INIT;
    const pl_conv_shape good = { 1, 1, 2, 2, 2, { 4 }, { 4 }, { 1 }, { 1 }, { 1 }, { 0 }, NULL };
    assert_int_equal(pl_conv_f32(NULL, &good, v, v, NULL, v + 32, NULL, &err), PL_OK);
    pl_conv_shape s = good;
    s.groups = 3;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_INVALID);
    s = good;
    s.stride[0] = 0;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_INVALID);
    s = good;
    s.n_spatial = 4;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_UNSUPPORTED);
    s = good;
    s.in[0] = INT64_MAX / 2;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_LIMIT);
    s = good;
    s.pad_begin[0] = INT64_MIN;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_LIMIT);
    s = good;
    s.batch = (int64_t)1 << 60;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, v, NULL, &err), PL_E_INVALID);
    s = good;
    s.batch = 0;
    assert_int_equal(pl_conv_f32(NULL, &s, v, v, NULL, NULL, NULL, &err), PL_OK);
}

static void test_conv__running_out_of_memory_is_an_error(void **state) {
    (void)state;
    float *v = calloc(100000, sizeof *v);
    const pl_conv_shape shapes[] = {
        { 2, 1, 16, 24, 1, { 14, 14 }, { 14, 14 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
        { 2, 1, 16, 16, 16, { 14, 14 }, { 14, 14 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, NULL },
    };
    for (int k = 0; k < 2; k++) {
        pl_status r = PL_E_MEMORY;
        for (long n = 0; r != PL_OK; n++) {
            pl_conv_state *st = NULL;
            pl_err err = PL_ERR_INIT;
            pl_alloc_fail_after(n);
            r = pl_conv_f32(NULL, &shapes[k], v, v + 4000, NULL, v + 20000, &st, &err);
            pl_alloc_fail_after(-1);
            assert_true(r == PL_OK || r == PL_E_MEMORY);
            assert_true(n < 20);
            pl_conv_state_free(st);
        }
    }
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv__random_shapes_are_right),
        cmocka_unit_test(test_conv__random_depthwise_shapes_are_right),
        cmocka_unit_test(test_conv__square_depthwise_planes_are_right),
        cmocka_unit_test(test_conv__shapes_of_real_models_are_right),
        cmocka_unit_test(test_conv__single_outputs_are_right),
        cmocka_unit_test(test_conv__a_filled_panel_ends_where_it_ends),
        cmocka_unit_test(test_conv__threads_do_not_touch_each_other),
        cmocka_unit_test(test_conv__factors_of_channels_are_those_of_a_product),
        cmocka_unit_test(test_conv__huge_dilation_and_padding_stay_small),
        cmocka_unit_test(test_conv__padding_is_zeros_for_infinite_weights_too),
        cmocka_unit_test(test_conv__transposed_random_shapes_are_right),
        cmocka_unit_test(test_conv__integers_are_exact),
        cmocka_unit_test(test_conv__plain_integers_follow_the_definition),
        cmocka_unit_test(test_conv__bad_shapes_are_refused),
        cmocka_unit_test(test_conv__running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, pool_set_up, pool_tear_down);
}

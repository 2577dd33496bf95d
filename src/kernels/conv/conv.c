/* Shared by all convolutions: checks, the layout of staged input, the cache. */
#include "kernels/conv/conv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/cpu.h"

const pl_conv_table *pl_conv_table_get(void) {
    return PL_TABLE_OF(pl_cpu_isa(), pl_conv_table);
}

enum { DIM_LIMIT = 1 << 30 }; /* so that out * stride + kernel * dilation + pad cannot overflow */
#define COUNT_LIMIT ((int64_t)1 << 46)

static pl_status product(const char *name, const int64_t *dims, int n, int64_t start, int64_t *out,
                         pl_err *err) {
    int64_t p = start;
    for (int i = 0; i < n; i++)
        if (!pl_i64_mul(p, dims[i], &p) || p > COUNT_LIMIT)
            return pl_fail(err, PL_E_INVALID, "convolution: %s has too many elements", name);
    *out = p;
    return PL_OK;
}

static pl_status check_dim(const pl_conv_shape *s, int i, pl_err *err) {
    if (s->in[i] < 0 || s->out[i] < 0 || s->kernel[i] < 1 || s->stride[i] < 1 || s->dilation[i] < 1)
        return pl_fail(
            err, PL_E_INVALID,
            "convolution: dim %d has in %lld, out %lld, kernel %lld, stride %lld, dilation %lld", i,
            (long long)s->in[i], (long long)s->out[i], (long long)s->kernel[i],
            (long long)s->stride[i], (long long)s->dilation[i]);
    if (s->in[i] > DIM_LIMIT || s->out[i] > DIM_LIMIT || s->kernel[i] > DIM_LIMIT ||
        s->stride[i] > DIM_LIMIT || s->dilation[i] > DIM_LIMIT || s->pad_begin[i] > DIM_LIMIT ||
        s->pad_begin[i] < -DIM_LIMIT)
        return pl_fail(err, PL_E_LIMIT, "convolution: dim %d exceeds %d", i, (int)DIM_LIMIT);
    return PL_OK;
}

pl_status pl_conv_geo_of(const pl_conv_shape *s, pl_conv_geo *out, pl_err *err) {
    if (s->n_spatial < 1 || s->n_spatial > 3)
        return pl_fail(err, PL_E_UNSUPPORTED, "convolution: %d spatial dims, expected 1 to 3",
                       s->n_spatial);
    if (s->batch < 0 || s->c_in < 0 || s->c_out < 0 || s->groups < 1 || s->c_in % s->groups != 0 ||
        s->c_out % s->groups != 0)
        return pl_fail(err, PL_E_INVALID,
                       "convolution: batch %lld, %lld channels in, %lld out do not fit %lld groups",
                       (long long)s->batch, (long long)s->c_in, (long long)s->c_out,
                       (long long)s->groups);
    pl_conv_geo g = { .batch = s->batch, .groups = s->groups };
    g.ci = s->c_in / s->groups;
    g.co = s->c_out / s->groups;
    const int lead = 3 - s->n_spatial;
    for (int i = 0; i < 3; i++) {
        const int j = i - lead;
        if (j >= 0) PL_TRY(check_dim(s, j, err));
        g.in[i] = j < 0 ? 1 : s->in[j];
        g.out[i] = j < 0 ? 1 : s->out[j];
        g.kernel[i] = j < 0 ? 1 : s->kernel[j];
        g.stride[i] = j < 0 ? 1 : s->stride[j];
        g.dilation[i] = j < 0 ? 1 : s->dilation[j];
        g.pad[i] = j < 0 ? 0 : s->pad_begin[j];
    }
    int64_t unused, channels = 0;
    const int64_t start = pl_i64_max(s->batch, 1);
    PL_TRY(product("the kernel", g.kernel, 3, 1, &g.n_taps, err));
    PL_TRY(product("the input", g.in, 3, 1, &g.n_in, err));
    PL_TRY(product("the output", g.out, 3, 1, &g.n_out, err));
    PL_TRY(product("the input", &s->c_in, 1, start, &channels, err));
    PL_TRY(product("the input", g.in, 3, channels, &unused, err));
    PL_TRY(product("the output", &s->c_out, 1, start, &channels, err));
    PL_TRY(product("the output", g.out, 3, channels, &unused, err));
    PL_TRY(product("the weight", &g.n_taps, 1, g.ci, &channels, err));
    PL_TRY(product("the weight", &s->c_out, 1, pl_i64_max(channels, 1), &unused, err));
    *out = g;
    return PL_OK;
}

pl_conv_stage pl_conv_stage_of(const pl_conv_geo *g) {
    pl_conv_stage s;
    int64_t reach[3];
    for (int i = 0; i < 3; i++)
        reach[i] = (g->out[i] - 1) * g->stride[i] + (g->kernel[i] - 1) * g->dilation[i] + 1;
    s.depth = reach[0];
    s.height = reach[1];
    s.width = reach[2];
    s.phase = pl_div_up(reach[2], g->stride[2]);
    s.pitch = s.phase * g->stride[2];
    int64_t rows;
    s.fits = pl_i64_mul(s.depth, s.height, &rows) && pl_i64_mul(rows, s.pitch, &s.plane) &&
             s.plane / 8 <= g->n_in + g->n_out + 512;
    s.plane = s.fits ? s.plane + 16 : 0; /* vectors may read beyond the end of a plane */
    return s;
}

int64_t pl_conv_stage_tap(const pl_conv_geo *g, const pl_conv_stage *s, int64_t tap) {
    const int64_t x = tap % g->kernel[2] * g->dilation[2];
    const int64_t y = tap / g->kernel[2] % g->kernel[1] * g->dilation[1];
    const int64_t z = tap / g->kernel[2] / g->kernel[1] * g->dilation[0];
    return (z * s->height + y) * s->pitch + x % g->stride[2] * s->phase + x / g->stride[2];
}

/* Does any tap read position `at` of a staged dim? */
static bool is_read(int64_t at, int64_t stride, int64_t kernel, int64_t dilation) {
    if (stride == 1 || kernel > 64) return true;
    for (int64_t k = 0; k < kernel; k++)
        if (at % stride == k * dilation % stride) return true;
    return false;
}

pl_status pl_conv_plan_make(pl_conv_state *state, const pl_conv_stage *stage, pl_err *err) {
    const pl_conv_geo *g = &state->geo;
    const int64_t n_rows = stage->depth * stage->height, step = g->stride[2];
    int64_t *data = pl_calloc((size_t)(n_rows + 3 * step), sizeof *data);
    if (data == NULL) return pl_fail_memory(err, (size_t)(n_rows + 3 * step) * sizeof *data);
    int64_t *from = data + n_rows, *lo = from + step, *hi = lo + step;
    for (int64_t r = 0; r < n_rows; r++) {
        const int64_t z = r / stage->height, y = r % stage->height;
        const int64_t iz = z - g->pad[0], iy = y - g->pad[1];
        const bool inside = iz >= 0 && iz < g->in[0] && iy >= 0 && iy < g->in[1];
        data[r] = -1;
        if (inside && is_read(z, g->stride[0], g->kernel[0], g->dilation[0]) &&
            is_read(y, g->stride[1], g->kernel[1], g->dilation[1]))
            data[r] = iz * g->in[1] + iy;
    }
    for (int64_t f = 0; f < step; f++) { /* phases that no tap reads stay empty */
        if (!is_read(f, step, g->kernel[2], g->dilation[2])) continue;
        pl_conv_span(f - g->pad[2], step, g->in[2], stage->phase, &lo[f], &hi[f]);
        from[f] = lo[f] * step + f - g->pad[2];
    }
    state->plan_data = data;
    state->plan = (pl_conv_plan){ data, from, lo, hi, n_rows, step, stage->phase, g->in[2] };
    return PL_OK;
}

void pl_conv_state_free(pl_conv_state *state) {
    if (state == NULL) return;
    if (state->library != NULL) state->library_free(state->library);
    if (!state->moved) pl_free(state->packed);
    pl_free(state->taps);
    pl_free(state->plan_data);
    pl_free(state);
}

size_t pl_conv_state_bytes(const pl_conv_state *state) {
    return state == NULL ? 0 : state->n_bytes;
}

void pl_conv_state_move(pl_conv_state *state, void *to) {
    memcpy(to, state->packed, state->n_bytes);
    if (!state->moved) pl_free(state->packed);
    state->packed = to;
    state->moved = true;
}

/* Convolution by Winograd's F(2x2, 3x3): 16 products of transformed tiles instead of 36.
 *
 * Results differ by rounding from the other algorithms, so eager never uses it; the compiler does,
 * and reports it. A few rows of tiles at a time are transformed into packed panels, multiplied and
 * transformed back, so that they stay in the cache. */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/cpu.h"
#include "kernels/provider.h"
#include "kernels/simd/winograd_table.h"

enum { ROW_TILES_MAX = 255, K_MAX = PL_GEMM_KC, LINE = 16, FINITE_GRAIN = 65536 };
/* Of a block: it lies in the L2 cache and a part of L3. With less, the weights are read too often
 * (resnet18 on a Xeon with 1 MB of L2: 38.0 ms with 0.75 MB, 31.2 with 1 MB, 31.6 with 4 MB). */
enum { SCRATCH_BYTES = 2 << 20 };

static const pl_winograd_table *table_get(void) {
    return PL_TABLE_OF(pl_cpu_isa(), pl_winograd_table);
}

bool pl_conv_is_finite_f32(const pl_f32 *x, int64_t n) {
    return table_get()->is_finite(x, n);
}

bool pl_conv_winograd_fits(const pl_conv_shape *s) {
    const pl_provider *by;
    if (pl_provider_of(s->by, &by, NULL) != PL_OK || by != &pl_provider_own) return false;
    if (s->n_spatial != 2 || s->groups != 1 || s->c_in < 32 || s->c_in > K_MAX || s->c_out < 32) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilation[i] != 1) return false;
        if (s->pad_begin[i] < 0 || s->pad_begin[i] > 1 || s->out[i] < 14) return false;
        if (s->out[i] > 2 * ROW_TILES_MAX || s->in[i] > 4 * ROW_TILES_MAX) return false;
    }
    return true;
}

typedef struct job {
    const pl_winograd_table *t;
    const pl_conv_shape *s;
    const pl_f32 *x, *bias;
    const float *packed;
    pl_f32 *y;
    int64_t tiles_x, tiles_y, pitch;
    int64_t row0, rows, tiles, panels, nr, item;
    int64_t size_v, size_m; /* floats of one of the 16 matrices */
    float *v, *m;           /* 16 of each: packed panels of the input, and products */
    pl_pool *pool;          /* shares the work on one block; NULL: blocks run in parallel */
    int64_t block, blocks;  /* rows of tiles in a block, blocks of an item */
    pl_slots slots;         /* scratch for v and m, one for each running block */
    int64_t slot_size;
    float *scratch;
    const pl_epilogue *after;
} job;

/* One input row with its padding, split into even and odd columns. */
static void split_row(const job *j, const pl_f32 *plane, int64_t row, float *to) {
    const pl_conv_shape *s = j->s;
    const int64_t pad = s->pad_begin[1], in = s->in[1];
    memset(to, 0, (size_t)(2 * j->pitch) * sizeof(float));
    if (row < 0 || row >= s->in[0]) return;
    const pl_f32 *from = plane + row * in;
    for (int phase = 0; phase < 2; phase++) {
        const int64_t first = phase >= pad ? 0 : 1; /* index of the first column inside the input */
        float *out = to + phase * j->pitch;
        for (int64_t i = first; i < j->pitch && 2 * i + phase - pad < in; i++)
            out[i] = from[2 * i + phase - pad];
    }
}

/* Stores tiles t … t + n of a row in the panels of the 16 matrices, at row k of each. */
static void store_panels(const job *j, float *const z[16], int64_t t, int64_t n, int64_t k) {
    const int64_t nr = j->nr, depth = j->s->c_in, size = j->size_v;
    for (int64_t done = 0; done < n;) {
        const int64_t panel = (t + done) / nr, at = (t + done) % nr;
        const int64_t len = pl_i64_min(n - done, nr - at);
        for (int i = 0; i < 16; i++)
            memcpy(j->v + i * size + (panel * depth + k) * nr + at, z[i] + done,
                   (size_t)len * sizeof(float));
        done += len;
    }
}

static pl_winograd_rows rows_of(const job *j) {
    const pl_conv_shape *s = j->s;
    return (pl_winograd_rows){ .in_h = s->in[0],
                               .in_w = s->in[1],
                               .pad_y = s->pad_begin[0],
                               .pad_x = s->pad_begin[1],
                               .out_h = s->out[0],
                               .out_w = s->out[1],
                               .tiles_x = j->tiles_x,
                               .row0 = j->row0,
                               .rows = j->rows,
                               .nr = j->nr,
                               .depth = s->c_in,
                               .size_v = j->size_v,
                               .size_m = j->size_m };
}

static void input_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const pl_winograd_rows g = rows_of(j);
    for (int64_t c = begin; j->t->input_rows != NULL && c < end; c++)
        j->t->input_rows(&g, j->x + (j->item * j->s->c_in + c) * g.in_h * g.in_w, c, j->v);
    if (j->t->input_rows != NULL) return;
    float split[4][2 * (ROW_TILES_MAX + 1)], z[16][ROW_TILES_MAX + 1];
    float *out[16];
    for (int i = 0; i < 16; i++)
        out[i] = z[i];
    for (int64_t c = begin; c < end; c++) {
        const pl_f32 *plane = j->x + (j->item * j->s->c_in + c) * j->s->in[0] * j->s->in[1];
        const int64_t top = 2 * j->row0 - j->s->pad_begin[0];
        for (int64_t r = 0; r < 2; r++)
            split_row(j, plane, top + r, split[r]);
        for (int64_t ty = 0; ty < j->rows; ty++) {
            split_row(j, plane, top + 2 * ty + 2, split[(2 * ty + 2) % 4]);
            split_row(j, plane, top + 2 * ty + 3, split[(2 * ty + 3) % 4]);
            const float *const rows[4] = { split[2 * ty % 4], split[(2 * ty + 1) % 4],
                                           split[(2 * ty + 2) % 4], split[(2 * ty + 3) % 4] };
            j->t->input(rows, j->pitch, j->tiles_x, out);
            store_panels(j, out, ty * j->tiles_x, j->tiles_x, c);
        }
    }
}

static void product_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t k = j->s->c_in, m = j->s->c_out;
    for (int64_t i = begin; i < end; i++) {
        pl_gemm_job_f32 g = { .m = m, .n = j->tiles, .k = k, .ldc = j->tiles, .alpha = 1 };
        g.a_packed = j->packed + i * m * k;
        g.b_packed = j->v + i * j->size_v;
        g.c = j->m + i * j->size_m;
        (void)pl_gemm_run_f32(NULL, &g, NULL); /* cannot fail: all is packed */
    }
}

static void output_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t out_x = j->s->out[1], out_y = j->s->out[0], n = out_x * out_y;
    const pl_winograd_rows g = rows_of(j);
    float pair[2][2 * (ROW_TILES_MAX + 1)];
    for (int64_t c = begin; c < end; c++) {
        pl_f32 *plane = j->y + (j->item * j->s->c_out + c) * n;
        const float bias = j->bias == NULL ? 0 : j->bias[c];
        if (j->t->output_rows != NULL) j->t->output_rows(&g, j->m + c * j->tiles, bias, plane);
        for (int64_t ty = 0; j->t->output_rows == NULL && ty < j->rows; ty++) {
            const float *m[16];
            for (int i = 0; i < 16; i++)
                m[i] = j->m + i * j->size_m + c * j->tiles + ty * j->tiles_x;
            j->t->output(m, j->tiles_x, bias, pair[0], pair[1]);
            const int64_t row = 2 * (j->row0 + ty);
            memcpy(plane + row * out_x, pair[0], (size_t)out_x * sizeof(float));
            if (row + 1 < out_y)
                memcpy(plane + (row + 1) * out_x, pair[1], (size_t)out_x * sizeof(float));
        }
        const int64_t first = 2 * j->row0 * out_x, last = 2 * (j->row0 + j->rows) * out_x;
        if (j->after != NULL) {
            j->after->fn(j->after->ctx, j->item * j->s->c_out + c, j->item * j->s->c_out + c + 1,
                         first, pl_i64_min(last, n));
        }
    }
}

/* G g G^T, in double and rounded once. */
static void transform_weight(const pl_f32 *g, float *to, int64_t stride) {
    static const double G[4][3] = {
        { 1, 0, 0 }, { 0.5, 0.5, 0.5 }, { 0.5, -0.5, 0.5 }, { 0, 0, 1 }
    };
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            double sum = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    sum += G[r][a] * (double)g[3 * a + b] * G[c][b];
            to[(4 * r + c) * stride] = (float)sum;
        }
}

static pl_status pack_weights(pl_pool *pool, const pl_conv_shape *s, const pl_f32 *w,
                              pl_conv_state *st, pl_err *err) {
    const int64_t one = s->c_out * s->c_in;
    float *plain = pl_aligned_alloc(64, (size_t)(16 * one) * sizeof(float));
    st->n_bytes = (size_t)(16 * one) * sizeof(float);
    st->packed = pl_large_alloc(st->n_bytes);
    if (plain == NULL || st->packed == NULL) {
        pl_free(plain);
        return pl_fail_memory(err, (size_t)(16 * one) * sizeof(float));
    }
    for (int64_t i = 0; i < one; i++)
        transform_weight(w + 9 * i, plain + i, one);
    for (int i = 0; i < 16; i++) {
        const pl_gemm_job_f32 g = {
            .m = s->c_out, .k = s->c_in, .a = plain + i * one, .a_rs = s->c_in, .a_cs = 1
        };
        pl_gemm_pack_a_f32(pool, &g, (float *)st->packed + i * one);
    }
    pl_free(plain);
    return PL_OK;
}

/* Zeroes the unused columns of the last panel, which is read as a whole. */
static void clear_rest(const job *j) {
    const int64_t used = j->tiles % j->nr;
    if (used == 0) return;
    for (int64_t i = 0; i < 16; i++)
        for (int64_t k = 0; k < j->s->c_in; k++) {
            float *row = j->v + i * j->size_v + ((j->panels - 1) * j->s->c_in + k) * j->nr;
            memset(row + used, 0, (size_t)(j->nr - used) * sizeof(float));
        }
}

static void block_range(void *ctx, int64_t begin, int64_t end) {
    job *all = ctx;
    const int slot = pl_slots_take(&all->slots);
    for (int64_t i = begin; i < end; i++) {
        job j = *all;
        j.v = all->scratch + slot * all->slot_size;
        j.m = j.v + 16 * j.size_v;
        j.item = i / j.blocks;
        j.row0 = i % j.blocks * j.block;
        j.rows = pl_i64_min(j.block, j.tiles_y - j.row0);
        j.tiles = j.rows * j.tiles_x;
        j.panels = pl_div_up(j.tiles, j.nr);
        clear_rest(&j);
        pl_pool_for(j.pool, j.s->c_in, 4, input_range, &j);
        pl_pool_for(j.pool, 16, 1, product_range, &j);
        pl_pool_for(j.pool, j.s->c_out, 4, output_range, &j);
    }
    pl_slots_give(&all->slots, slot);
}

typedef struct finite_job {
    const pl_f32 *x;
    int64_t plane;
    atomic_bool found; /* Inf or NaN found */
} finite_job;

static void finite_range(void *ctx, int64_t begin, int64_t end) {
    finite_job *j = ctx;
    if (!pl_conv_is_finite_f32(j->x + begin * j->plane, (end - begin) * j->plane))
        atomic_store(&j->found, true);
}

static bool is_finite_input(pl_pool *pool, const pl_conv_shape *s, const pl_f32 *x) {
    finite_job j = { .x = x, .plane = s->in[0] * s->in[1] };
    atomic_init(&j.found, false);
    const int64_t grain = pl_i64_max(1, FINITE_GRAIN / pl_i64_max(1, j.plane));
    pl_pool_for(pool, s->batch * s->c_in, grain, finite_range, &j);
    return !atomic_load(&j.found);
}

static pl_status state_ensure(pl_pool *pool, const pl_conv_shape *s, const pl_f32 *w,
                              pl_conv_state **slot, pl_err *err) {
    if (*slot != NULL && (*slot)->w == w) return PL_OK;
    pl_conv_state_free(*slot);
    *slot = NULL;
    pl_conv_state *st = pl_calloc(1, sizeof *st);
    if (st == NULL) return pl_fail_memory(err, sizeof *st);
    st->w = w;
    st->elem_bytes = sizeof(float);
    const pl_status r = pack_weights(pool, s, w, st, err);
    if (r != PL_OK) {
        pl_conv_state_free(st);
        return r;
    }
    *slot = st;
    return PL_OK;
}

pl_status pl_conv_winograd_prepare_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *w,
                                       pl_conv_state **state, pl_err *err) {
    if (!pl_conv_winograd_fits(shape)) {
        return pl_fail(err, PL_E_INVALID, "convolution: no Winograd form for this shape");
    }
    if (!pl_conv_is_finite_f32(w, 9 * shape->c_in * shape->c_out))
        return pl_conv_prepare_f32(pool, shape, w, state, err);
    return state_ensure(pool, shape, w, state, err);
}

/* Half panels of columns that all blocks of so many rows of tiles compute: a last panel that is at
 * most half full costs half. */
static int64_t half_panels(const job *j, int64_t rows) {
    const int64_t half = j->nr / 2, blocks = pl_div_up(j->tiles_y, rows);
    const int64_t last = j->tiles_y - (blocks - 1) * rows;
    return (blocks - 1) * pl_div_up(rows * j->tiles_x, half) + pl_div_up(last * j->tiles_x, half);
}

/* Rows of tiles in a block: of those whose scratch fits in the cache, what computes the fewest
 * columns that are thrown away. */
static int64_t block_rows(const job *j) {
    int64_t best = 1;
    for (int64_t rows = 2; rows <= j->tiles_y; rows++) {
        const int64_t tiles = rows * j->tiles_x, padded = pl_div_up(tiles, j->nr) * j->nr;
        const int64_t floats = 16 * (j->s->c_in * padded + j->s->c_out * tiles);
        if (floats * (int64_t)sizeof(float) > SCRATCH_BYTES) break;
        if (half_panels(j, rows) <= half_panels(j, best)) best = rows;
    }
    return best;
}

pl_status pl_conv_winograd_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                               const pl_f32 *w, const pl_f32 *bias, pl_f32 *y,
                               pl_conv_state **state, const pl_epilogue *after, pl_err *err) {
    if (!pl_conv_winograd_fits(shape)) {
        return pl_fail(err, PL_E_INVALID, "convolution: no Winograd form for this shape");
    }
    if (*state == NULL || (*state)->w != w)
        PL_TRY(pl_conv_winograd_prepare_f32(pool, shape, w, state, err));
    if (*state == NULL || (*state)->geo.n_taps > 0) /* state of pl_conv_f32: w is not finite */
        return pl_conv_after_f32(pool, shape, x, w, bias, y, state, after, err);
    if (!is_finite_input(pool, shape, x))
        return pl_conv_after_f32(pool, shape, x, w, bias, y, NULL, after, err);
    job j = { .t = table_get(), .s = shape, .x = x, .bias = bias, .y = y, .after = after };
    j.packed = (*state)->packed;
    j.tiles_x = pl_div_up(shape->out[1], 2);
    j.tiles_y = pl_div_up(shape->out[0], 2);
    j.pitch = j.tiles_x + 1;
    j.nr = pl_gemm_table_get()->nr_f32;
    const int64_t rows = block_rows(&j);
    const int64_t panels = pl_div_up(rows * j.tiles_x, j.nr);
    /* One extra cache line, so that the 16 matrices do not map to the same L1 sets. */
    j.size_v = panels * shape->c_in * j.nr + LINE;
    j.size_m = pl_div_up(shape->c_out * rows * j.tiles_x, LINE) * LINE + LINE;
    j.block = rows;
    j.blocks = pl_div_up(j.tiles_y, rows);
    const int threads = pl_pool_threads(pool);
    const bool beside =
        shape->batch * j.blocks >= threads && threads > 1 && shape->batch * j.blocks % threads == 0;
    j.slot_size = 16 * (j.size_v + j.size_m);
    const int slots = pl_slots_init(&j.slots, beside ? threads : 1);
    const size_t bytes = (size_t)(j.slot_size * slots) * sizeof(float);
    j.scratch = pl_aligned_alloc(64, bytes);
    if (j.scratch == NULL) return pl_fail_memory(err, bytes);
    j.pool = beside ? NULL : pool;
    pl_pool_for(beside ? pool : NULL, shape->batch * j.blocks, 1, block_range, &j);
    pl_free(j.scratch);
    return PL_OK;
}

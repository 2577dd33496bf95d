/* Splits the tensors into blocks, runs them on the pool, and combines the results.
 *
 * The floor of the relative sum depends on max|r|, which is known only at the end. Blocks run with
 * a guess from a sample; a thread that used another floor than the final one runs again. The floor
 * is a power of two, so this is rare: it takes an outlier larger than everything sampled, in
 * another binade. Chunks of blocks limit the memory for partial results. */
#include "metric/accumulate.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "metric/accumulate_part.h"
#include "metric/accumulate_plain.h"
#include "metric/metric_block.h"

enum {
    /* Powers of two: groups and chunks of any size are subtrees of one pairwise tree. */
    GROUP_BLOCKS = 16, /* per thread at a time, so that hardware prefetch works */
    GROUP = GROUP_BLOCKS * PL_METRIC_BLOCK,
    GROUPS_MIN = 8, /* below this, every block alone, so that all threads have work */
    CHUNK_BLOCKS = 1024,
    CHUNK = CHUNK_BLOCKS * PL_METRIC_BLOCK,
    PARTS_MAX = 128, /* CHUNK / GROUP, or GROUPS_MIN * GROUP_BLOCKS in the last chunk */
    SAMPLED_BLOCKS = 4,
    RUN = 512,
};

typedef struct pass {
    pl_dtype type_a, type_r, coarse;
    const char *a, *r;
    size_t size_a, size_r;
    int64_t n;
    pl_metric_block_fn fast; /* NULL = plain */
    double floor;
    int64_t begin, group; /* first element of the chunk; elements per thread at a time */
    pl_accumulators *parts;
} pass;

void pl_accumulators_init(pl_accumulators *acc) {
    memset(acc, 0, sizeof *acc);
    acc->max_abs_index = acc->nonfinite_index = acc->mismatch_index = -1;
}

/* ---- merging ---- */
/* Brings both to the larger scale, unless its sum is empty. */
static double common_scale(int64_t *scale, int64_t other, bool have, bool have_other,
                           double *factor_other) {
    *factor_other = 1;
    if (*scale == other || !have_other) return 1;
    if (!have || other > *scale) {
        const double down = have ? exp2((double)(*scale - other)) : 1;
        *scale = other;
        return down;
    }
    *factor_other = exp2((double)(other - *scale));
    return 1;
}

static void merge_sums(pl_accumulators *acc, const pl_accumulators *more) {
    double g;
    double f = common_scale(&acc->d_scale, more->d_scale, acc->sum_abs > 0, more->sum_abs > 0, &g);
    acc->sum_abs = acc->sum_abs * f + more->sum_abs * g;
    acc->sum_sq = acc->sum_sq * f * f + more->sum_sq * g * g;
    f = common_scale(&acc->v_scale, more->v_scale, acc->max_a > 0 || acc->max_r > 0,
                     more->max_a > 0 || more->max_r > 0, &g);
    acc->sum_rr = acc->sum_rr * f * f + more->sum_rr * g * g;
    acc->sum_aa = acc->sum_aa * f * f + more->sum_aa * g * g;
    acc->sum_ar = acc->sum_ar * f * f + more->sum_ar * g * g;
    acc->sum_rel += more->sum_rel;
}

static void merge_first(int64_t *index, int64_t other, int64_t offset) {
    if (other >= 0 && (*index < 0 || other + offset < *index)) *index = other + offset;
}

void pl_accumulators_merge(pl_accumulators *acc, const pl_accumulators *more, int64_t offset) {
    merge_sums(acc, more);
    const int64_t at = more->max_abs_index < 0 ? -1 : more->max_abs_index + offset;
    if (at >= 0 && (acc->max_abs_index < 0 || more->max_abs > acc->max_abs ||
                    (more->max_abs == acc->max_abs && at < acc->max_abs_index))) {
        acc->max_abs = more->max_abs;
        acc->max_abs_index = at;
        acc->max_abs_a = more->max_abs_a;
        acc->max_abs_r = more->max_abs_r;
    }
    merge_first(&acc->nonfinite_index, more->nonfinite_index, offset);
    merge_first(&acc->mismatch_index, more->mismatch_index, offset);
    acc->n += more->n;
    acc->n_finite += more->n_finite;
    acc->n_mismatch += more->n_mismatch;
    acc->n_both_nan += more->n_both_nan;
    acc->n_both_inf += more->n_both_inf;
    acc->n_nan_a += more->n_nan_a;
    acc->n_nan_r += more->n_nan_r;
    acc->n_inf_a += more->n_inf_a;
    acc->n_inf_r += more->n_inf_r;
    acc->n_inf_sign += more->n_inf_sign;
    acc->n_excluded += more->n_excluded;
    acc->n_subnormal += more->n_subnormal;
    acc->n_flushed += more->n_flushed;
    if (more->max_ulp > acc->max_ulp) acc->max_ulp = more->max_ulp;
    acc->max_a = fmax(acc->max_a, more->max_a);
    acc->max_r = fmax(acc->max_r, more->max_r);
    acc->floor = fmax(acc->floor, more->floor);
}

static void merge_tree(pl_accumulators *parts, size_t n) {
    for (size_t step = 1; step < n; step *= 2)
        for (size_t i = 0; i + step < n; i += 2 * step)
            pl_accumulators_merge(&parts[i], &parts[i + step], 0);
}

/* ---- the floor ---- */
static double eps_of(pl_dtype t) {
    if (pl_dtype_is_float(t)) return 2 * pl_dtype_unit_roundoff(t);
    return t == PL_C64 ? 0x1p-23 : t == PL_C128 ? 0x1p-52 : 0;
}

static double floor_for(pl_dtype coarse, double max_r) {
    if (max_r == 0) return 0;
    int exponent;
    frexp(max_r, &exponent);
    return ldexp(eps_of(coarse), exponent - 1);
}

/* Max |r| of the finite elements of a block. */
static double block_max(const pass *p, int64_t begin, int64_t end) {
    double x[RUN], max = 0;
    pl_metric_block block;
    memset(&block, 0, sizeof block);
    const char *r = p->r + (size_t)begin * p->size_r;
    if (p->fast != NULL && p->fast(r, r, (size_t)(end - begin), 0, &block)) return block.max_r;
    for (int64_t at = begin; at < end; at += RUN) {
        const size_t m = (size_t)(end - at < RUN ? end - at : RUN);
        pl_load_f64(p->type_r, p->r + (size_t)at * p->size_r, x, m); /* complex: Re */
        for (size_t i = 0; i < m; i++) {
            const double v = fabs(x[i]);
            max = v > max && v <= 0x1.fffffffffffffp1023 ? v : max;
        }
    }
    return max;
}

static double sample_max(const pass *p) {
    double max = 0;
    if (eps_of(p->coarse) == 0) return 0;
    const int64_t n_blocks = p->n / PL_METRIC_BLOCK + 1;
    const int64_t n_sampled = n_blocks < SAMPLED_BLOCKS ? n_blocks : SAMPLED_BLOCKS;
    for (int64_t k = 0; k < n_sampled; k++) {
        const int64_t begin = k * (n_blocks / n_sampled) * PL_METRIC_BLOCK;
        const int64_t end = p->n - begin < PL_METRIC_BLOCK ? p->n : begin + PL_METRIC_BLOCK;
        max = fmax(max, block_max(p, begin, end));
    }
    return max;
}

/* ---- blocks and chunks ---- */
static void take_block(const pl_metric_block *b, int64_t n, double floor, pl_accumulators *out) {
    pl_accumulators_init(out);
    out->n = out->n_finite = n;
    out->floor = floor;
    out->sum_sq = b->sum_sq;
    out->sum_abs = b->sum_abs;
    out->sum_rel = b->sum_rel;
    out->sum_rr = b->sum_rr;
    out->sum_aa = b->sum_aa;
    out->sum_ar = b->sum_ar;
    out->max_abs = b->max_abs;
    out->max_a = b->max_a;
    out->max_r = b->max_r;
    out->n_excluded = b->n_excluded;
    out->n_mismatch = b->n_mismatch;
    out->n_subnormal = b->n_subnormal;
    out->n_flushed = b->n_flushed;
    out->max_ulp = b->max_ulp;
    out->max_abs_index = 0; /* resolve_indices finds the position in the block */
    out->mismatch_index = b->n_mismatch > 0 ? 0 : -1;
}

static void run_block(const pass *p, int64_t at, size_t n, pl_accumulators *out) {
    const char *a = p->a + (size_t)at * p->size_a, *r = p->r + (size_t)at * p->size_r;
    pl_metric_block block;
    memset(&block, 0, sizeof block);
    if (p->fast != NULL && p->fast(a, r, n, p->floor, &block)) {
        take_block(&block, (int64_t)n, p->floor, out);
    } else {
        pl_accumulate_plain(p->type_a, a, p->type_r, r, n, p->coarse, p->floor, out);
    }
    /* The vector path may have rounded d to f32. Round the others, too: then the first of equal
     * blocks has the maximum, and resolve_max_abs finds its digits. */
    if (p->fast != NULL && p->type_r != PL_F64 && out->max_abs <= (double)FLT_MAX)
        out->max_abs = (double)(float)out->max_abs;
    if (out->max_abs_index >= 0) out->max_abs_index += at;
    if (out->nonfinite_index >= 0) out->nonfinite_index += at;
    if (out->mismatch_index >= 0) out->mismatch_index += at;
}

static int64_t group_for(int64_t n) {
    return n >= GROUPS_MIN * GROUP ? GROUP : PL_METRIC_BLOCK;
}

static void run_group(void *ctx, int64_t begin, int64_t end) {
    const pass *p = ctx;
    pl_accumulators blocks[GROUP_BLOCKS];
    size_t n_blocks = 0;
    for (int64_t at = begin; at < end; at += PL_METRIC_BLOCK) {
        const int64_t n = end - at < PL_METRIC_BLOCK ? end - at : PL_METRIC_BLOCK;
        run_block(p, p->begin + at, (size_t)n, &blocks[n_blocks++]);
    }
    merge_tree(blocks, n_blocks);
    p->parts[begin / p->group] = blocks[0];
}

static void run_chunk(pl_pool *pool, pass *p, int64_t chunk, pl_accumulators *out) {
    p->begin = chunk * CHUNK;
    const int64_t n = p->n - p->begin < CHUNK ? p->n - p->begin : CHUNK;
    p->group = group_for(n);
    pl_pool_for(pool, n, p->group, run_group, p);
    merge_tree(p->parts, (size_t)((n - 1) / p->group + 1));
    *out = p->parts[0];
}

static void run_all(pl_pool *pool, pass *p, pl_accumulators *chunks, int64_t n_chunks) {
    const double guess = sample_max(p);
    double max_r = 0;
    for (int64_t i = 0; i < n_chunks; i++) {
        p->floor = floor_for(p->coarse, fmax(guess, max_r));
        run_chunk(pool, p, i, &chunks[i]);
        max_r = fmax(max_r, chunks[i].max_r);
    }
    p->floor = floor_for(p->coarse, max_r);
    for (int64_t i = 0; i < n_chunks; i++)
        if (chunks[i].floor != p->floor) run_chunk(pool, p, i, &chunks[i]);
    merge_tree(chunks, (size_t)n_chunks);
}

/* The vector path only knows in which block the largest |d| and the first mismatch are. */
static size_t load_run(const pass *p, int64_t at, int64_t end, double x[RUN], double y[RUN]) {
    const size_t m = (size_t)(end - at < RUN ? end - at : RUN);
    pl_load_f64(p->type_a, p->a + (size_t)at * p->size_a, x, m);
    pl_load_f64(p->type_r, p->r + (size_t)at * p->size_r, y, m);
    return m;
}

static void resolve_max_abs(const pass *p, int64_t begin, int64_t end, pl_accumulators *out) {
    double x[RUN], y[RUN], top = -1;
    for (int64_t at = begin; at < end; at += RUN) {
        const size_t m = load_run(p, at, end, x, y);
        for (size_t i = 0; i < m; i++) {
            const double e = fabs(x[i] - y[i]);
            if (!(e > top) || !isfinite(x[i]) || !isfinite(y[i])) continue;
            out->max_abs = top = e; /* was rounded to f32 unless f64 */
            out->max_abs_index = at + (int64_t)i;
            out->max_abs_a = x[i];
            out->max_abs_r = y[i];
        }
    }
}

static int64_t first_mismatch(const pass *p, int64_t begin, int64_t end) {
    double x[RUN], y[RUN];
    for (int64_t at = begin; at < end; at += RUN) {
        const size_t m = load_run(p, at, end, x, y);
        for (size_t i = 0; i < m; i++)
            if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i]))) return at + (int64_t)i;
    }
    return begin;
}

static void resolve_indices(const pass *p, pl_accumulators *out) {
    const int64_t starts[2] = { out->max_abs_index, out->mismatch_index };
    int64_t ends[2];
    if (p->fast == NULL) return;
    for (int i = 0; i < 2; i++) {
        ends[i] = (starts[i] / PL_METRIC_BLOCK + 1) * PL_METRIC_BLOCK;
        ends[i] = ends[i] < p->n ? ends[i] : p->n;
    }
    if (starts[0] >= 0) resolve_max_abs(p, starts[0], ends[0], out);
    if (starts[1] >= 0) out->mismatch_index = first_mismatch(p, starts[1], ends[1]);
}

/* ---- types ---- */
static int significant_bits(pl_dtype t) {
    const pl_dtype_class c = pl_dtype_class_of(t);
    if (c == PL_CLASS_COMPLEX) return t == PL_C64 ? 24 : 53;
    if (c == PL_CLASS_FLOAT) return (int)lrint(-log2(pl_dtype_unit_roundoff(t)));
    return c == PL_CLASS_BOOL ? 1 : (int)pl_dtype_bits(t);
}

pl_dtype pl_dtype_coarser(pl_dtype a, pl_dtype b) {
    const bool fa = pl_dtype_is_float(a) || pl_dtype_class_of(a) == PL_CLASS_COMPLEX;
    const bool fb = pl_dtype_is_float(b) || pl_dtype_class_of(b) == PL_CLASS_COMPLEX;
    if (fa != fb) return fa ? b : a;
    return significant_bits(a) <= significant_bits(b) ? a : b;
}

static pl_metric_block_fn fast_for(pl_dtype a, pl_dtype r) {
    const pl_metric_kernels *k = pl_metric_kernels_get();
    if (a != r || k == NULL) return NULL;
    switch (a) {
    case PL_F32: return k->f32;
    case PL_F64: return k->f64;
    case PL_F16: return k->f16;
    case PL_BF16: return k->bf16;
    case PL_I8:
    case PL_I4:
    case PL_I2: return k->i8;
    case PL_U8:
    case PL_U4:
    case PL_U2: return k->u8;
    default: return NULL;
    }
}

static pl_status check_pair(const pl_tensor *a, const pl_tensor *r, pl_err *err) {
    char x[200], y[200];
    if (!pl_tensor_same_shape(a, r)) {
        return pl_fail(err, PL_E_INVALID, "%s and %s have different shapes",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    }
    if ((a->dtype == PL_STRING) != (r->dtype == PL_STRING)) {
        return pl_fail(err, PL_E_INVALID, "%s cannot be measured against %s",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    }
    return PL_OK;
}

/* Views are copied; the copies live as long as the pass. */
typedef struct operands {
    pl_tensor *a, *r;
} operands;

static pl_status pass_init(pass *p, operands *o, const pl_tensor *a, const pl_tensor *r,
                           pl_err *err) {
    PL_TRY(pl_tensor_contiguous(a, &o->a, err));
    PL_TRY(pl_tensor_contiguous(r, &o->r, err));
    *p = (pass){ .type_a = a->dtype,
                 .type_r = r->dtype,
                 .coarse = pl_dtype_coarser(a->dtype, r->dtype),
                 .a = o->a->data,
                 .r = o->r->data,
                 .size_a = pl_dtype_bytes(a->dtype),
                 .size_r = pl_dtype_bytes(r->dtype),
                 .n = a->n_elements,
                 .fast = fast_for(a->dtype, r->dtype) };
    const int64_t n_parts = p->n > CHUNK ? PARTS_MAX : (p->n - 1) / group_for(p->n) + 1;
    p->parts = pl_calloc((size_t)n_parts, sizeof *p->parts);
    return p->parts == NULL ? pl_fail_memory(err, (size_t)n_parts * sizeof *p->parts) : PL_OK;
}

static void pass_release(pass *p, operands *o) {
    pl_free(p->parts);
    pl_tensor_unref(o->a);
    pl_tensor_unref(o->r);
}

pl_status pl_accumulate(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, pl_accumulators *out,
                        pl_err *err) {
    pass p = { .n = 0 };
    operands o = { NULL, NULL };
    PL_TRY(check_pair(a, r, err));
    pl_accumulators_init(out);
    if (a->n_elements == 0) return PL_OK;
    const int64_t n_chunks = pl_accumulate_n_parts(a->n_elements);
    pl_accumulators *chunks = pl_calloc((size_t)n_chunks, sizeof *chunks);
    pl_status st = chunks == NULL ? pl_fail_memory(err, (size_t)n_chunks * sizeof *chunks) : PL_OK;
    if (st == PL_OK) st = pass_init(&p, &o, a, r, err);
    if (st == PL_OK) {
        run_all(pool, &p, chunks, n_chunks);
        *out = chunks[0];
        resolve_indices(&p, out);
    }
    pass_release(&p, &o);
    pl_free(chunks);
    return st;
}

/* ---- parts ---- */

int64_t pl_accumulate_n_parts(int64_t n_elements) {
    return n_elements == 0 ? 0 : (n_elements - 1) / CHUNK + 1;
}

pl_status pl_accumulate_parts(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, double floor,
                              int64_t first, int64_t n, pl_accumulators *out, pl_err *err) {
    pass p = { .n = 0 };
    operands o = { NULL, NULL };
    PL_TRY(check_pair(a, r, err));
    if (n <= 0 || first < 0 || first + n > pl_accumulate_n_parts(a->n_elements))
        return pl_fail(err, PL_E_INVALID, "parts %lld to %lld of a tensor", (long long)first,
                       (long long)(first + n));
    const pl_status st = pass_init(&p, &o, a, r, err);
    if (st == PL_OK) {
        p.floor = floor >= 0 ? floor : floor_for(p.coarse, sample_max(&p));
        for (int64_t i = 0; i < n; i++)
            run_chunk(pool, &p, first + i, &out[i]);
    }
    pass_release(&p, &o);
    return st;
}

pl_status pl_accumulate_join(const pl_tensor *a, const pl_tensor *r, pl_accumulators *parts,
                             double *again, pl_accumulators *out, pl_err *err) {
    pass p = { .n = 0 };
    operands o = { NULL, NULL };
    double max_r = 0;
    *again = -1;
    PL_TRY(check_pair(a, r, err));
    pl_accumulators_init(out);
    const int64_t n = pl_accumulate_n_parts(a->n_elements);
    if (n == 0) return PL_OK;
    for (int64_t i = 0; i < n; i++)
        max_r = fmax(max_r, parts[i].max_r);
    const double floor = floor_for(pl_dtype_coarser(a->dtype, r->dtype), max_r);
    for (int64_t i = 0; i < n; i++)
        if (parts[i].floor != floor) *again = floor;
    if (*again >= 0) return PL_OK;
    const pl_status st = pass_init(&p, &o, a, r, err);
    if (st == PL_OK) {
        merge_tree(parts, (size_t)n);
        *out = parts[0];
        resolve_indices(&p, out);
    }
    pass_release(&p, &o);
    return st;
}

/* Measuring a recorded value against its replay, in blocks. */
#include "blame/local_error.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { BLOCK = 8192 };

typedef struct partial { /* of one block; combined in order */
    double q, sum_sq, sum_dd, max_abs;
    int64_t worst, n_bad;
    int64_t n_limit, limit_at;
    bool nonfinite;
} partial;

typedef struct measure {
    const pl_tensor *a, *d;
    const pl_f64 *bound;
    pl_dtype native;
    double u, tiny, most;    /* most: largest finite number of the type */
    bool is_float, few_bits; /* few: of 8 bits or less */
    partial *partials;
} measure;

static double largest_of(pl_dtype dtype) {
    switch (dtype) {
    case PL_F16: return 65504;
    case PL_BF16: return 0x1.fep127;
    case PL_F64: return DBL_MAX;
    default: return (double)FLT_MAX;
    }
}

static double tiny_of(pl_dtype dtype) {
    if (dtype == PL_F16) return 0x1p-24;
    return dtype == PL_F64 ? 0x1p-1022 : 0x1p-126;
}

double pl_local_scale(double d, double bound, pl_dtype native) {
    if (!pl_dtype_is_float(native)) return bound;
    return fmax(bound, pl_dtype_unit_roundoff(native) * fabs(d)) + tiny_of(native);
}

/* May a value on the way have left the range of the type? A bound is at least the rounding of the
 * largest intermediate value. In fp16 long sums have such bounds anyway. */
static bool may_overflow(const measure *m, double bound) {
    return m->native != PL_F16 && !(bound < m->u * m->most);
}

/* One side is not finite. Fine if both are the same, or the value is at the limit of the type, or
 * an intermediate value may be beyond it: that explains what A cannot compute, and not a number
 * where fp64, with its wide range, has none (0 / 0, the mean of nothing). The bound of an Inf, a
 * share of it, says nothing. */
static bool nonfinite_agree(const measure *m, double a, double d, double bound) {
    if (isnan(d)) return isnan(a);
    if (isinf(d)) return a == d || (fabs(a) >= m->most * (1 - 4 * m->u) && (a > 0) == (d > 0));
    if (may_overflow(m, bound)) return true;
    if (isnan(a)) return false;
    const double reach = fabs(d) + 4 * fmax(bound, m->u * fabs(d));
    if (isinf(a)) return (a > 0) == (d > 0) && reach >= m->most;
    return fabs(a) >= m->most * (1 - 4 * m->u) && (a > 0) == (d > 0);
}

/* A correctly rounded result of few bits is off by half a step, which is u |d| at most. Only what
 * the inputs had before may be counted several times: four steps would be a quarter of the value.
 */
static double q_of_few_bits(const measure *m, double d, double bound, double off) {
    const double own = m->u * fabs(d);
    return PL_Q_CULPRIT * off / (own + PL_Q_CULPRIT * fmax(bound - own, 0) + m->tiny);
}

static void measure_one(const measure *m, int64_t i, double a, double d, double off, partial *p) {
    const double bound = m->bound == NULL ? 0 : m->bound[i];
    double q = 0;
    if (!isfinite(a) || !isfinite(d)) {
        if (nonfinite_agree(m, a, d, bound)) {
            if (isinf(d) && isfinite(a) && p->n_limit++ == 0) p->limit_at = i;
            return;
        }
        p->nonfinite = true;
        q = (double)INFINITY;
    } else {
        p->sum_sq += off * off;
        p->sum_dd += d * d;
        p->max_abs = fmax(p->max_abs, off);
        if (m->few_bits) {
            q = isnan(bound) ? 0 : q_of_few_bits(m, d, bound, off);
        } else if (m->is_float) {
            /* A NaN bound counts as unlimited. */
            const double scale = fmax(bound, m->u * fabs(d)) + m->tiny;
            q = isnan(scale) ? 0 : off / scale;
        } else if (off > bound) {
            q = PL_Q_CULPRIT * off / fmax(bound, 0.5);
        }
    }
    if (q > PL_Q_CULPRIT) p->n_bad++;
    if (q > p->q || p->worst < 0) {
        p->q = q;
        p->worst = i;
    }
}

enum { CHUNK = 512, LANES = 8 };

/* A whole chunk of finite floats at once; false when some are not, and nothing was done. */
static bool measure_chunk(const measure *m, int64_t at, const double *a, const double *d,
                          partial *p) {
    double q[CHUNK], sum_sq[LANES] = { 0 }, sum_dd[LANES] = { 0 }, most[LANES] = { 0 };
    double worst[LANES] = { 0 };
    const pl_f64 *bound = m->bound == NULL ? NULL : m->bound + at;
    const double u = m->u, tiny = m->tiny;
    for (int i = 0; i < CHUNK; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const double off = fabs(a[i + l] - d[i + l]), own = u * fabs(d[i + l]);
            const double given = bound == NULL ? 0 : bound[i + l];
            const double scale = (given > own ? given : own) + tiny;
            sum_sq[l] += off * off;
            sum_dd[l] += d[i + l] * d[i + l];
            most[l] = off > most[l] ? off : most[l];
            q[i + l] = off / scale;
            worst[l] = q[i + l] > worst[l] ? q[i + l] : worst[l];
        }
    double sq = 0, dd = 0, max_abs = 0, max_q = 0;
    for (int l = 0; l < LANES; l++) {
        sq += sum_sq[l];
        dd += sum_dd[l];
        max_abs = most[l] > max_abs ? most[l] : max_abs;
        max_q = worst[l] > max_q ? worst[l] : max_q;
    }
    if (!isfinite(sq) || !isfinite(dd)) return false;
    p->sum_sq += sq;
    p->sum_dd += dd;
    p->max_abs = fmax(p->max_abs, max_abs);
    for (int i = 0; max_q > PL_Q_CULPRIT && i < CHUNK; i++)
        p->n_bad += q[i] > PL_Q_CULPRIT;
    if (max_q <= p->q && p->worst >= 0) return true;
    int first = 0;
    while (first < CHUNK && q[first] != max_q)
        first++;
    p->q = max_q;
    p->worst = at + first;
    return true;
}

/* Integers of 64 bits need not fit into a double; their difference does, or is far off anyway. */
static double wide_difference(const measure *m, int64_t i) {
    if (m->native == PL_U64) {
        const uint64_t x = ((const pl_u64 *)m->a->data)[i], y = ((const pl_u64 *)m->d->data)[i];
        return (double)(x > y ? x - y : y - x);
    }
    const int64_t x = ((const pl_i64 *)m->a->data)[i], y = ((const pl_i64 *)m->d->data)[i];
    return (double)(x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x);
}

static void measure_block(void *ctx, int64_t begin, int64_t end) {
    const measure *m = ctx;
    partial *p = &m->partials[begin / BLOCK];
    double a[CHUNK], d[CHUNK];
    const size_t a_size = pl_dtype_bytes(m->a->dtype), d_size = pl_dtype_bytes(m->d->dtype);
    const bool wide = (m->native == PL_I64 || m->native == PL_U64) && m->a->dtype == m->native &&
                      m->d->dtype == m->native;
    *p = (partial){ .worst = -1 };
    for (int64_t at = begin; at < end; at += CHUNK) {
        const size_t n = (size_t)(end - at < CHUNK ? end - at : CHUNK);
        pl_load_f64(m->a->dtype, (const char *)m->a->data + (size_t)at * a_size, a, n);
        pl_load_f64(m->d->dtype, (const char *)m->d->data + (size_t)at * d_size, d, n);
        if (n == CHUNK && m->is_float && !m->few_bits && measure_chunk(m, at, a, d, p)) continue;
        for (size_t i = 0; i < n; i++)
            measure_one(m, at + (int64_t)i, a[i], d[i],
                        wide ? wide_difference(m, at + (int64_t)i) : fabs(a[i] - d[i]), p);
    }
}

static pl_status measure_strings(const pl_tensor *a, const pl_tensor *d, pl_local_error *out) {
    const pl_string *x = a->data, *y = d->data;
    for (int64_t i = 0; i < a->n_elements; i++) {
        if (x[i].n_bytes == y[i].n_bytes &&
            (x[i].n_bytes == 0 || memcmp(x[i].data, y[i].data, x[i].n_bytes) == 0))
            continue;
        if (out->worst < 0) out->worst = i;
        out->n_bad++;
        out->q = (double)INFINITY;
    }
    return PL_OK;
}

static bool comparable(const pl_tensor *a, const pl_tensor *d) {
    if ((a->dtype == PL_STRING) != (d->dtype == PL_STRING)) return false;
    if (pl_dtype_class_of(a->dtype) == PL_CLASS_COMPLEX) return false;
    return pl_tensor_same_shape(a, d);
}

pl_status pl_local_error_measure(pl_pool *pool, const pl_tensor *a, const pl_tensor *d,
                                 const pl_tensor *bound, pl_dtype native, pl_local_error *out,
                                 pl_err *err) {
    *out = (pl_local_error){ .kind = PL_LOCAL_SHAPE, .worst = -1, .n = a->n_elements };
    if (!comparable(a, d) || (bound != NULL && !pl_tensor_same_shape(bound, d))) {
        out->q = (double)INFINITY;
        return PL_OK;
    }
    out->kind = PL_LOCAL_MEASURED;
    if (a->dtype == PL_STRING) return measure_strings(a, d, out);
    if (a->n_elements == 0) return PL_OK;
    const size_t n_blocks = (size_t)((a->n_elements + BLOCK - 1) / BLOCK);
    measure m = { .a = a,
                  .d = d,
                  .bound = bound == NULL ? NULL : bound->data,
                  .native = native,
                  .u = pl_dtype_is_float(native) ? pl_dtype_unit_roundoff(native) : 0,
                  .tiny = tiny_of(native),
                  .most = largest_of(native),
                  .is_float = pl_dtype_is_float(native),
                  .few_bits = pl_dtype_is_float(native) && pl_dtype_bits(native) <= 8 };
    m.partials = pl_calloc(n_blocks, sizeof(partial));
    if (m.partials == NULL) return pl_fail_memory(err, n_blocks);
    pl_pool_for(pool, a->n_elements, BLOCK, measure_block, &m);
    double sum_sq = 0, sum_dd = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        const partial *p = &m.partials[i];
        sum_sq += p->sum_sq;
        sum_dd += p->sum_dd;
        out->max_abs = fmax(out->max_abs, p->max_abs);
        out->n_bad += p->n_bad;
        if (p->nonfinite) out->kind = PL_LOCAL_NONFINITE;
        if (p->n_limit > 0 && out->n_limit == 0) out->limit_at = p->limit_at;
        out->n_limit += p->n_limit;
        if (p->worst >= 0 && (out->worst < 0 || p->q > out->q)) {
            out->q = p->q;
            out->worst = p->worst;
        }
    }
    out->rms = sqrt(sum_sq / (double)a->n_elements);
    out->rms_d = sqrt(sum_dd / (double)a->n_elements);
    pl_free(m.partials);
    return PL_OK;
}

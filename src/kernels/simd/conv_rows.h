/* Rows of convolution and pooling for one element type. No guard: conv_table.c includes it twice
 * with T element, E its unaligned form, V vector, VN its lanes, VLOAD, VSTORE, VSET, MAC, VMAX,
 * F(name). */

/* Vectors run over the end of what they write; what comes next in memory is written afterwards. */
static void F(stage)(const pl_conv_plan *plan, const E *x, const E *x_end, E *to) {
    const int64_t step = plan->step, phase = plan->phase;
    for (int64_t r = 0; r < plan->n_rows; r++)
        for (int64_t f = 0; f < step; f++, to += phase) {
            if (plan->rows[r] < 0 || plan->hi[f] <= plan->lo[f]) {
                for (int64_t i = 0; i < phase; i += VN)
                    VSTORE(to + i, VSET(0));
                continue;
            }
            const E *from = x + plan->rows[r] * plan->in + plan->from[f];
            const int64_t lo = plan->lo[f], n = plan->hi[f] - lo;
            for (int64_t i = 0; i < lo; i += VN)
                VSTORE(to + i, VSET(0));
            E *at = to + lo;
            if (step > 2 || x_end - from < (n + VN) * step) {
                for (int64_t i = 0; i < n; i++)
                    at[i] = from[i * step];
            } else if (step == 1) {
                for (int64_t i = 0; i < n; i += VN)
                    VSTORE(at + i, VLOAD(from + i));
            } else {
                for (int64_t i = 0; i < n; i += VN)
                    VSTORE(at + i, F(even)(VLOAD(from + 2 * i), VLOAD(from + 2 * i + VN)));
            }
            for (int64_t i = lo + n; i < phase; i += VN)
                VSTORE(to + i, VSET(0));
        }
}

/* Vectors run over the end of a row by less than VN: that must stay within the panel, for another
 * thread may be filling the next one. */
static void F(fill)(const E *staged, const int64_t *taps, int64_t n_taps, const pl_conv_run *runs,
                    int64_t n_runs, int64_t cols, int64_t width, int64_t stride, E *to) {
    const int64_t n_fast = n_taps - 1 - (VN + stride - 1) / stride;
    for (int64_t p = 0; p < n_taps; p++, to += stride) {
        const E *from = staged + taps[p];
        E *at = to;
        for (int64_t r = 0; r < n_runs; r++) {
            const E *run = from + runs[r].from;
            if (p < n_fast)
                for (int64_t i = 0; i < runs[r].n; i += VN)
                    VSTORE(at + i, VLOAD(run + i));
            else
                for (int64_t i = 0; i < runs[r].n; i++)
                    at[i] = run[i];
            at += runs[r].n;
        }
        for (int64_t j = cols; j < width; j++)
            to[j] = 0;
    }
}

static void F(depthwise)(const E *staged, const int64_t *taps, const E *w, int64_t n_taps, E bias,
                         int64_t n, E *y) {
    int64_t i = 0;
    for (; i + 4 * VN <= n; i += 4 * VN) {
        V a = VSET(0), b = a, c = a, d = a;
        for (int64_t t = 0; t < n_taps; t++) {
            const E *p = staged + taps[t] + i;
            const V wt = VSET(w[t]);
            a = MAC(wt, VLOAD(p), a);
            b = MAC(wt, VLOAD(p + VN), b);
            c = MAC(wt, VLOAD(p + 2 * VN), c);
            d = MAC(wt, VLOAD(p + 3 * VN), d);
        }
        VSTORE(y + i, a + bias);
        VSTORE(y + i + VN, b + bias);
        VSTORE(y + i + 2 * VN, c + bias);
        VSTORE(y + i + 3 * VN, d + bias);
    }
    for (; i < n; i += VN) {
        V a = VSET(0);
        for (int64_t t = 0; t < n_taps; t++)
            a = MAC(VSET(w[t]), VLOAD(staged + taps[t] + i), a);
        VSTORE(y + i, a + bias);
    }
}

/* Four rows at a time: each weight is loaded once for four vectors, and four sums run beside each
 * other. Rows beyond the last repeat it. */
#define DEPTHWISE_ROWS(name, V, VN, LOAD, SET, MAC, STORE)                                         \
    static void name(const E *staged, int64_t step, const int64_t *taps, const E *w,               \
                     int64_t n_taps, E bias, int64_t rows, int64_t n, E *y) {                      \
        for (int64_t r = 0; r < rows; r += 4) {                                                    \
            const int64_t r1 = r + 1 < rows ? r + 1 : r, r2 = r + 2 < rows ? r + 2 : r1;           \
            const int64_t r3 = r + 3 < rows ? r + 3 : r2;                                          \
            for (int64_t i = 0; i < n; i += VN) {                                                  \
                const int64_t m = n - i < VN ? n - i : VN;                                         \
                const E *at = staged + r * step + i;                                               \
                const int64_t s1 = (r1 - r) * step, s2 = (r2 - r) * step, s3 = (r3 - r) * step;    \
                V a = SET(0), b = a, c = a, d = a;                                                 \
                for (int64_t t = 0; t < n_taps; t++) {                                             \
                    const E *p = at + taps[t];                                                     \
                    const V wt = SET(w[t]);                                                        \
                    a = MAC(wt, LOAD(p), a);                                                       \
                    b = MAC(wt, LOAD(p + s1), b);                                                  \
                    c = MAC(wt, LOAD(p + s2), c);                                                  \
                    d = MAC(wt, LOAD(p + s3), d);                                                  \
                }                                                                                  \
                STORE(y + r * n + i, a + bias, m);                                                 \
                STORE(y + r1 * n + i, b + bias, m);                                                \
                STORE(y + r2 * n + i, c + bias, m);                                                \
                STORE(y + r3 * n + i, d + bias, m);                                                \
            }                                                                                      \
        }                                                                                          \
    }
DEPTHWISE_ROWS(F(depthwise_wide), V, VN, VLOAD, VSET, MAC, F(store_n))
#if PL_SIMD_AVX512
DEPTHWISE_ROWS(F(depthwise_half), F(half), VN / 2, F(half_load), F(half_set), F(half_mac),
               F(half_store_n))
#endif
#undef DEPTHWISE_ROWS

static void F(depthwise_rows)(const E *staged, int64_t step, const int64_t *taps, const E *w,
                              int64_t n_taps, E bias, int64_t rows, int64_t n, E *y) {
#if PL_SIMD_AVX512
    if (n % VN != 0 && n % VN <= VN / 2 &&
        n < 2 * VN) { /* half vectors waste less and split less */
        F(depthwise_half)(staged, step, taps, w, n_taps, bias, rows, n, y);
        return;
    }
#endif
    F(depthwise_wide)(staged, step, taps, w, n_taps, bias, rows, n, y);
}

static void F(transpose)(const E *x, int64_t rows, int64_t cols, const E *bias, E *y) {
    for (int64_t c = 0; c < cols; c++) {
        const T b = bias == NULL ? 0 : bias[c];
        for (int64_t r = 0; r < rows; r++)
            y[c * rows + r] = bias == NULL ? x[r * cols + c] : x[r * cols + c] + b;
    }
}

static inline T F(max2)(T a, T b) {
    return b > a || b != b ? b : a; /* a NaN in a stays: nothing is greater */
}
static void F(max_row)(const E *x, int64_t step, int64_t n, E *acc) {
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            acc[i] = F(max2)(acc[i], x[i]);
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            acc[i] = F(max2)(acc[i], x[2 * i]);
    else
        for (int64_t i = 0; i < n; i++)
            acc[i] = F(max2)(acc[i], x[i * step]);
}
static void F(sum_row)(const E *x, int64_t step, int64_t n, double *acc) {
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            acc[i] += (double)x[i];
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            acc[i] += (double)x[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            acc[i] += (double)x[i * step];
}
static void F(scatter)(const E *x, int64_t step, int64_t n, E *y) {
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i];
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            y[2 * i] += x[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i * step] += x[i];
}

/* Rows of convolution and pooling for one element type. No guard: conv_table.c includes it twice
 * with T element, E its unaligned form, V vector, VN its lanes, VLOAD, VSTORE, VSET, MAC, VMAX,
 * F(name). */

static void F(fill)(const E *staged, const int64_t *taps, int64_t n_taps, const pl_conv_run *runs,
                    int64_t n_runs, int64_t cols, E *to) {
    enum { NR = 2 * VN };
    if (n_runs == 1 && cols == NR) {
        const E *from = staged + runs[0].from;
        for (int64_t p = 0; p < n_taps; p++, to += NR) {
            VSTORE(to, VLOAD(from + taps[p]));
            VSTORE(to + VN, VLOAD(from + taps[p] + VN));
        }
        return;
    }
    for (int64_t p = 0; p < n_taps; p++, to += NR) {
        const E *from = staged + taps[p];
        E *at = to;
        for (int64_t r = 0; r < n_runs; r++) { /* what runs over is overwritten by the next */
            for (int64_t i = 0; i < runs[r].n; i += VN)
                VSTORE(at + i, VLOAD(from + runs[r].from + i));
            at += runs[r].n;
        }
        for (int64_t j = cols; j < NR; j++)
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

static void F(gather)(const E *x, int64_t step, int64_t n, E *to) {
    if (step == 1)
        memcpy(to, x, (size_t)n * sizeof(T));
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            to[i] = x[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = x[i * step];
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

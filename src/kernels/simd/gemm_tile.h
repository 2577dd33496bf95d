/* Tiles, packing and dot products for one element type. No guard: gemm_table.c includes it twice
 * with T element, E its unaligned form, V vector, VN its lanes, VLOAD, VSTORE, VSET, MAC, F(name),
 * TILE. */

/* Everything but the plain full tile: edges, alpha, beta. acc may be changed. */
static void F(finish)(const TILE *t, T *acc, int64_t stride) {
    const int64_t n = t->cols;
    for (int64_t i = 0; i < t->rows; i++, acc += stride) {
        E *c = t->c + i * t->ldc;
        if (t->alpha != 1)
            for (int64_t j = 0; j < n; j++)
                acc[j] *= t->alpha;
        if (t->beta == 1)
            for (int64_t j = 0; j < n; j++)
                acc[j] += c[j];
        else if (t->beta != 0)
            for (int64_t j = 0; j < n; j++)
                acc[j] += t->beta * c[j];
        if (t->bias != NULL) {
            const T bias = t->bias[i];
            for (int64_t j = 0; j < n; j++)
                acc[j] += bias;
        }
        memcpy(c, acc, (size_t)n * sizeof(T));
    }
}

/* rows and nv are constants in every instance, so that the accumulators live in registers. */
static inline __attribute__((always_inline)) void F(tile_of)(const TILE *t, const int rows,
                                                             const int nv, const bool taps) {
    V acc[ACC_MAX];
    const E *a = t->a, *row = t->b;
    const int64_t ldb = t->ldb, *tap = t->taps;
    PL_UNROLL
    for (int i = 0; i < rows * nv; i++)
        acc[i] = VSET(0);
    for (int64_t k = t->k; k > 0; k--) {
        V bv[2];
        const E *b = taps ? t->b + *tap++ : row;
        PL_UNROLL
        for (int j = 0; j < nv; j++)
            bv[j] = VLOAD(b + j * VN);
        PL_UNROLL
        for (int i = 0; i < rows; i++) {
            const V av = VSET(a[i]);
            PL_UNROLL
            for (int j = 0; j < nv; j++) {
                acc[i * nv + j] = MAC(av, bv[j], acc[i * nv + j]);
            }
        }
        a += rows;
        row += ldb;
    }
    E *c = t->c;
    if (t->cols == nv * VN && t->alpha == 1 && (t->beta == 0 || t->beta == 1)) {
        const int64_t ldc = t->ldc;
        if (t->beta == 1) {
            PL_UNROLL
            for (int i = 0; i < rows * nv; i++)
                acc[i] = VLOAD(c + (i / nv) * ldc + (i % nv) * VN) + acc[i];
        }
        if (t->bias != NULL) {
            PL_UNROLL
            for (int i = 0; i < rows * nv; i++)
                acc[i] = acc[i] + VSET(t->bias[i / nv]);
        }
        PL_UNROLL
        for (int i = 0; i < rows * nv; i++)
            VSTORE(c + (i / nv) * ldc + (i % nv) * VN, acc[i]);
        return;
    }
    T buf[ACC_MAX * VN];
    PL_UNROLL
    for (int i = 0; i < rows * nv; i++)
        VSTORE(buf + i * VN, acc[i]);
    F(finish)(t, buf, nv * VN);
}

#define ROWS(n)                                                                                    \
    static void F(tile_##n##_1)(const TILE *t) {                                                   \
        F(tile_of)(t, n, 1, false);                                                                \
    }                                                                                              \
    static void F(tile_##n##_2)(const TILE *t) {                                                   \
        F(tile_of)(t, n, 2, false);                                                                \
    }                                                                                              \
    static void F(taps_##n)(const TILE *t) {                                                       \
        F(tile_of)(t, n, 2, true);                                                                 \
    }
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
#if MR > 4
ROWS(5)
ROWS(6)
#endif
#if MR > 6
ROWS(7)
ROWS(8)
ROWS(9)
ROWS(10)
ROWS(11)
ROWS(12)
ROWS(13)
ROWS(14)
#endif
#undef ROWS
static void F(tile)(const TILE *t) {
#define ROWS(n)                                                                                    \
    { F(tile_##n##_1), F(tile_##n##_2), F(taps_##n) }
    static void (*const by_shape[MR][3])(const TILE *) = {
        ROWS(1),
        ROWS(2),
        ROWS(3),
        ROWS(4),
#if MR > 4
        ROWS(5),
        ROWS(6),
#endif
#if MR > 6
        ROWS(7),
        ROWS(8),
        ROWS(9),
        ROWS(10),
        ROWS(11),
        ROWS(12),
        ROWS(13),
        ROWS(14),
#endif
    };
#undef ROWS
    by_shape[t->rows - 1][t->taps != NULL ? 2 : t->cols > VN](t);
}

/* to[p * ld_to + i] = from[i * ld_from + p], in small blocks of 16-byte vectors. */
static void F(transpose)(const E *from, int64_t ld_from, int64_t rows, int64_t k, E *to,
                         int64_t ld_to) {
    enum { W = 16 / sizeof(T) };
    int64_t i = 0;
    for (; i + W <= rows; i += W) {
        const E *row = from + i * ld_from;
        int64_t p = 0;
        for (; p + W <= k; p += W) {
            F(block) v[W];
            PL_UNROLL
            for (int q = 0; q < W; q++)
                memcpy(&v[q], row + q * ld_from + p, sizeof v[q]);
            F(transpose_block)(v);
            PL_UNROLL
            for (int q = 0; q < W; q++)
                memcpy(to + (p + q) * ld_to + i, &v[q], sizeof v[q]);
        }
        for (; p < k; p++)
            for (int q = 0; q < W; q++)
                to[p * ld_to + i + q] = row[q * ld_from + p];
    }
    for (; i < rows; i++)
        for (int64_t p = 0; p < k; p++)
            to[p * ld_to + i] = from[i * ld_from + p];
}

static void F(pack_a)(const E *a, int64_t rs, int64_t cs, int64_t rows, int64_t k, E *to) {
    if (cs == 1) {
        F(transpose)(a, rs, rows, k, to, rows);
    } else if (rs == 1) {
        /* Whole vectors run over the end of a row into the next, which is written afterwards. */
        int64_t p = 0;
        for (; rows <= 2 * VN && (p + 1) * rows + 2 * VN <= k * rows && p + 1 < k; p++) {
            if (rows > VN && cs >= 2 * VN) {
                VSTORE(to + p * rows, VLOAD(a + p * cs));
                VSTORE(to + p * rows + VN, VLOAD(a + p * cs + VN));
            } else if (rows <= VN && cs >= VN) {
                VSTORE(to + p * rows, VLOAD(a + p * cs));
            } else {
                break;
            }
        }
        for (; p < k; p++)
            memcpy(to + p * rows, a + p * cs, (size_t)rows * sizeof(T));
    } else {
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < rows; i++)
                to[p * rows + i] = a[i * rs + p * cs];
    }
}

static void F(pack_b)(const E *b, int64_t rs, int64_t cs, int64_t k, int64_t cols, E *to) {
    enum { NR = 2 * VN };
    if (cs == 1 && cols == NR) {
        for (int64_t p = 0; p < k; p++) {
            VSTORE(to + p * NR, VLOAD(b + p * rs));
            VSTORE(to + p * NR + VN, VLOAD(b + p * rs + VN));
        }
        return;
    }
    if (cols < NR) memset(to, 0, (size_t)(k * NR) * sizeof(T));
    if (rs == 1) {
        F(transpose)(b, cs, cols, k, to, NR);
    } else if (cs == 1) {
        for (int64_t p = 0; p < k; p++)
            memcpy(to + p * NR, b + p * rs, (size_t)cols * sizeof(T));
    } else {
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < cols; j++)
                to[p * NR + j] = b[p * rs + j * cs];
    }
}

/* Four rows of b at a time, two vectors along k: eight chains hide the latency. */
static inline __attribute__((always_inline)) void F(dots_of)(const E *a, const E *b, int64_t ldb,
                                                             const int rows, int64_t k, E *y) {
    V acc[8];
    int64_t p = 0;
    PL_UNROLL
    for (int i = 0; i < 8; i++)
        acc[i] = VSET(0);
    for (; p + 2 * VN <= k; p += 2 * VN) {
        const V a0 = VLOAD(a + p), a1 = VLOAD(a + p + VN);
        PL_UNROLL
        for (int i = 0; i < rows; i++) {
            acc[2 * i] = MAC(a0, VLOAD(b + i * ldb + p), acc[2 * i]);
            acc[2 * i + 1] = MAC(a1, VLOAD(b + i * ldb + p + VN), acc[2 * i + 1]);
        }
    }
    for (int i = 0; i < rows; i++) {
        T lane[VN];
        VSTORE(lane, acc[2 * i] + acc[2 * i + 1]);
        for (int half = VN / 2; half >= 1; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] += lane[j + half];
        T s = lane[0];
        for (int64_t q = p; q < k; q++)
            s += a[q] * b[i * ldb + q];
        y[i] = s;
    }
}
static void F(dots)(const E *a, const E *b, int64_t ldb, int64_t n, int64_t k, E *y) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        F(dots_of)(a, b + j * ldb, ldb, 4, k, y + j);
    for (; j < n; j++)
        F(dots_of)(a, b + j * ldb, ldb, 1, k, y + j);
}

/* y[j] += sum of rows a[p] * b[p][j], eight rows of b at a time so that y is touched seldom. */
static inline __attribute__((always_inline)) void F(row_of)(const E *a, const E *b, int64_t ldb,
                                                            int64_t n, const int rows, E *y) {
    int64_t j = 0;
    for (; j + VN <= n; j += VN) {
        V acc = VLOAD(y + j);
        PL_UNROLL
        for (int i = 0; i < rows; i++)
            acc = MAC(VSET(a[i]), VLOAD(b + i * ldb + j), acc);
        VSTORE(y + j, acc);
    }
    for (; j < n; j++) {
        T acc = y[j];
        for (int i = 0; i < rows; i++)
            acc += a[i] * b[i * ldb + j];
        y[j] = acc;
    }
}
static void F(row)(const E *a, const E *b, int64_t ldb, int64_t n, int64_t k, E *y) {
    int64_t p = 0;
    memset(y, 0, (size_t)n * sizeof(T));
    for (; p + 8 <= k; p += 8)
        F(row_of)(a + p, b + p * ldb, ldb, n, 8, y);
    for (; p < k; p++)
        F(row_of)(a + p, b + p * ldb, ldb, n, 1, y);
}

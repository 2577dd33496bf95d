/* GB/s of the metric pass beside a plain read of both arrays, in the same process, rounds
 * interleaved, the best of each counts. bench_metric [MB per array] [threads]; default 256 and 1.
 * Build: cc -O2 -Isrc bench/metric/bench_metric.c build/libplumb.a -lm -ldl -lpthread -lz
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "metric/metrics.h"

enum { ROUNDS = 7, GRAIN = 1 << 16 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A plain read: xor of all words, eight sums so that only memory counts. */
typedef struct reader {
    const char *a, *r;
    uint64_t sink;
} reader;
static void read_block(void *ctx, int64_t begin, int64_t end) {
    reader *c = ctx;
    typedef uint64_t __attribute__((vector_size(64), aligned(1), may_alias)) words;
    words x = { 0 }, y = { 0 };
    for (int64_t i = begin; i + 128 <= end; i += 128) {
        x ^= *(const words *)(c->a + i) ^ *(const words *)(c->r + i);
        y ^= *(const words *)(c->a + i + 64) ^ *(const words *)(c->r + i + 64);
        __builtin_prefetch(c->a + i + 4096);
        __builtin_prefetch(c->r + i + 4096);
        __builtin_prefetch(c->a + i + 4160);
        __builtin_prefetch(c->r + i + 4160);
    }
    x ^= y;
    __atomic_fetch_xor(&c->sink, x[0] ^ x[3] ^ x[7], __ATOMIC_RELAXED);
}

int main(int argc, char **argv) {
    const size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20;
    pl_pool *pool = pl_pool_new(argc > 2 ? atoi(argv[2]) : 1);
    static const pl_dtype types[] = { PL_F32, PL_F64, PL_F16, PL_BF16, PL_I8 };
    char *a = aligned_alloc(4096, bytes), *r = aligned_alloc(4096, bytes);
    printf("%-10s %8s %8s %8s   two arrays of %zu MB, %d threads\n", "", "read", "metrics", "ratio",
           bytes >> 20, pl_pool_threads(pool));
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const int64_t n = (int64_t)(bytes / pl_dtype_bytes(types[k]));
        uint64_t seed = 1;
        for (int64_t i = 0; i < n; i++) { /* roughly normal; the error some ulps */
            double v = 0;
            for (int j = 0; j < 4; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                v += (double)(int32_t)(seed >> 32) * 0x1p-31;
            }
            const double w = v * (1 + (double)(seed & 7) * 0x1p-10);
            const double x = types[k] == PL_I8 ? v * 30 : v, y = types[k] == PL_I8 ? w * 30 : w;
            pl_store_f64(types[k], &x, r + (size_t)i * pl_dtype_bytes(types[k]), 1);
            pl_store_f64(types[k], &y, a + (size_t)i * pl_dtype_bytes(types[k]), 1);
        }
        pl_tensor *ta = NULL, *tr = NULL;
        if (pl_tensor_borrow(types[k], 1, &n, a, NULL, NULL, &ta, NULL) != PL_OK ||
            pl_tensor_borrow(types[k], 1, &n, r, NULL, NULL, &tr, NULL) != PL_OK) {
            return 1;
        }
        double best[2] = { 1e9, 1e9 };
        pl_accumulators acc;
        reader c = { a, r, 0 };
        for (int round = 0; round < ROUNDS; round++)
            for (int what = 0; what < 2; what++) {
                const double t0 = now();
                if (what == 0) {
                    pl_pool_for(pool, (int64_t)bytes, GRAIN, read_block, &c);
                } else if (pl_accumulate(pool, ta, tr, &acc, NULL) != PL_OK) {
                    return 1;
                }
                const double t = now() - t0;
                if (t < best[what]) best[what] = t;
            }
        const double gb = 2e-9 * (double)bytes;
        printf("%-10s %8.2f %8.2f %8.3f   psnr %.2f%s\n", pl_dtype_name(types[k]), gb / best[0],
               gb / best[1], best[0] / best[1], pl_metric_find("psnr")->value(&acc),
               c.sink == 42 ? "." : "");
        pl_tensor_unref(ta);
        pl_tensor_unref(tr);
    }
    free(a);
    free(r);
    pl_pool_free(pool);
    return 0;
}

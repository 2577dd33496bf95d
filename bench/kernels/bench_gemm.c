/* GF/s of the own products beside dnnl_sgemm and OpenBLAS, one thread (or argv[1] for ours),
 * weights packed in a state ("own+") or not ("own"). Rounds are interleaved; the best of each
 * counts. The libraries are opened by name here: this program is not part of plumb. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef int (*dnnl_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                       const float *, int64_t, float, float *, int64_t);
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *,
                         int, float, float *, int);
typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *,
                         int, double, double *, int);

int main(int argc, char **argv) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW), *dnnl = dlopen("libdnnl.so.2", RTLD_NOW);
    sgemm_fn sgemm = blas ? (sgemm_fn)dlsym(blas, "cblas_sgemm") : NULL;
    dgemm_fn dgemm = blas ? (dgemm_fn)dlsym(blas, "cblas_dgemm") : NULL;
    dnnl_fn dsgemm = dnnl ? (dnnl_fn)dlsym(dnnl, "dnnl_sgemm") : NULL;
    pl_pool *pool = argc > 1 && atoi(argv[1]) > 1 ? pl_pool_new(atoi(argv[1])) : NULL;
    static const int shapes[][5] = {
        { 197, 768, 768, 0, 0 },  { 197, 768, 2304, 0, 0 }, { 197, 768, 3072, 0, 0 },
        { 197, 3072, 768, 0, 0 }, { 197, 768, 768, 0, 1 },  { 1024, 1024, 1024, 0, 0 },
        { 20, 64, 256, 0, 0 },    { 20, 64, 64, 0, 0 },     { 20, 16, 20, 0, 1 },
        { 197, 64, 197, 0, 1 },   { 197, 197, 64, 0, 0 },   { 8, 8, 8, 0, 0 },
        { 1, 768, 3072, 0, 0 },   { 1, 768, 3072, 0, 1 },   { 4, 1280, 1000, 0, 1 },
        { 64, 576, 3136, 0, 0 },  { 512, 4608, 49, 0, 0 },  { 96, 16, 12544, 0, 0 },
        { 512, 2048, 512, 1, 0 },
    };
    printf("%s, cpu %s\n%-24s %8s %8s %8s %8s | %8s %8s   (GF/s)\n", pl_cpu_name(),
           pl_isa_name(pl_cpu_isa()), "m k n ta tb", "own", "own+", "dnnl", "openblas", "own64",
           "blas64");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int m = shapes[i][0], k = shapes[i][1], n = shapes[i][2], ta = shapes[i][3],
                  tb = shapes[i][4];
        float *a = aligned_alloc(64, (size_t)(m * k + 64) / 16 * 64),
              *b = aligned_alloc(64, (size_t)(k * n + 64) / 16 * 64);
        float *c = aligned_alloc(64, (size_t)(m * n + 64) / 16 * 64);
        double *ad = malloc((size_t)(m * k) * 8), *bd = malloc((size_t)(k * n) * 8),
               *cd = malloc((size_t)(m * n) * 8);
        for (int j = 0; j < m * k; j++)
            ad[j] = a[j] = (float)(j % 17) - 8;
        for (int j = 0; j < k * n; j++)
            bd[j] = b[j] = (float)(j % 13) - 6;
        const double flops = 2.0 * m * k * n;
        const int lda = ta ? m : k, ldb = tb ? k : n;
        const int reps = (int)(3e6 / flops) + 1;
        double best[6] = { 1e9, 1e9, 1e9, 1e9, 1e9, 1e9 };
        pl_gemm_state *st = NULL;
        const pl_gemm_shape s = {
            .m = m, .n = n, .k = k, .trans_a = ta, .trans_b = tb, .batch = 1
        };
        const int rounds = flops > 1e9 ? 6 : 25;
        for (int r = 0; r < rounds; r++)
            for (int w = 0; w < 6; w++) {
                double t0 = now();
                for (int q = -1; q < reps;
                     q++) { /* the first is not counted: it warms the caches */
                    if (q == 0) t0 = now();
                    if (w == 0) pl_gemm_f32(pool, &s, 1, a, b, 0, c, NULL, NULL);
                    if (w == 1) pl_gemm_f32(pool, &s, 1, a, b, 0, c, &st, NULL);
                    if (w == 2 && dsgemm)
                        dsgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, 0, c, n);
                    if (w == 3 && sgemm)
                        sgemm(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, 1, a, lda, b, ldb, 0, c,
                              n);
                    if (w == 4) pl_gemm_f64(pool, &s, 1, ad, bd, 0, cd, NULL, NULL);
                    if (w == 5 && dgemm)
                        dgemm(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, 1, ad, lda, bd, ldb, 0,
                              cd, n);
                }
                const double t = (now() - t0) / reps;
                if (t < best[w]) best[w] = t;
            }
        char name[40];
        snprintf(name, sizeof name, "%d %d %d %d %d", m, k, n, ta, tb);
        printf("%-24s", name);
        for (int w = 0; w < 6; w++)
            printf(" %8.1f%s", flops / best[w] * 1e-9, w == 3 ? " |" : "");
        printf("\n");
        pl_gemm_state_free(st);
        free(a), free(b), free(c), free(ad), free(bd), free(cd);
    }
    pl_pool_free(pool);
    return 0;
}

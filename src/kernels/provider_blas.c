/* OpenBLAS as a provider: cblas_sgemm and cblas_dgemm, one thread per call. No header is needed:
 * the CBLAS interface has not changed since 1998. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "kernels/cpu.h"
#include "kernels/provider.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* enums of cblas.h */

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
typedef void (*dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                         const double *a, int lda, const double *b, int ldb, double beta, double *c,
                         int ldc);

static pthread_once_t lib_once = PTHREAD_ONCE_INIT;
/* Written once under lib_once, read-only afterwards. */
static struct {
    sgemm_fn sgemm;
    dgemm_fn dgemm;
    void (*set_threads)(int);
    const char *(*corename)(void), *(*config)(void);
    char version[96];
    pl_status status;
    pl_err err;
} lib;
static const pl_symbol symbols[] = { { "cblas_sgemm", &lib.sgemm },
                                     { "cblas_dgemm", &lib.dgemm },
                                     { "openblas_set_num_threads", &lib.set_threads },
                                     { "openblas_get_corename", &lib.corename },
                                     { "openblas_get_config", &lib.config } };
static pl_library library =
    PL_LIBRARY("OpenBLAS", "libopenblas0-pthread", symbols, "libopenblas.so.0", "libopenblas.so");

/* A setting for OpenBLAS, which reads the environment only while it is loaded. It is undone
 * afterwards, because programs that plumb starts must not inherit it. */
typedef struct wish {
    const char *name;
    char *before;
    bool set;
} wish;

static void wish_set(wish *w, const char *value, bool overwrite) {
    const char *before = getenv(w->name);
    if (value == NULL || (before != NULL && !overwrite)) return;
    if (before != NULL && (w->before = pl_strdup(before)) == NULL) return;
    w->set = setenv(w->name, value, 1) == 0;
}
static void wish_undo(wish *w) {
    if (w->set && w->before == NULL) unsetenv(w->name);
    if (w->set && w->before != NULL) setenv(w->name, w->before, 1);
    pl_free(w->before);
}

/* OpenBLAS 0.3.21 takes a CPU that it does not know, also inside some virtual machines, for a
 * Prescott (SSE3), at a quarter of the speed and with different digits. So we choose the core from
 * the CPU's features, unless the user has. */
static const char *core_type(void) {
    if (pl_cpu_isa() == PL_ISA_AVX512) return "SkylakeX";
    if (pl_cpu_isa() == PL_ISA_AVX2) return "Haswell";
    return pl_cpu_has(PL_ISA_AVX2) ? "Prescott" : NULL;
}

static pl_status lib_load(pl_err *err) {
    wish core = { .name = "OPENBLAS_CORETYPE" }, threads = { .name = "OPENBLAS_NUM_THREADS" };
    wish_set(&core, core_type(), false);
    wish_set(&threads, "1", true);
    const pl_status st = pl_library_open(&library, err);
    wish_undo(&threads);
    wish_undo(&core);
    return st;
}

static void lib_open(void) {
    if (lib_load(&lib.err) != PL_OK) {
        lib.status = PL_E_NOT_FOUND;
        return;
    }
    lib.set_threads(1);
    const char *words = lib.config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH …" */
    const size_t first = strcspn(words, " ");
    const size_t n = words[first] == '\0' ? first : first + 1 + strcspn(words + first + 1, " ");
    snprintf(lib.version, sizeof lib.version, "%.*s %s", (int)(n < 60 ? n : 60), words,
             lib.corename());
}

static pl_status blas_open(pl_err *err) {
    pthread_once(&lib_once, lib_open);
    return lib.status == PL_OK ? PL_OK : pl_fail(err, lib.status, "%s", lib.err.message);
}
static const char *blas_version(void) {
    return lib.version;
}

/* OpenBLAS has 32-bit integers. */
static bool fits(const pl_product *p) {
    return p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX && p->lda <= INT_MAX &&
           p->ldb <= INT_MAX && p->ldc <= INT_MAX;
}

#define GEMM(suffix, T, call)                                                                      \
    static pl_status blas_gemm_##suffix(const pl_product *p, T alpha, const T *a, const T *b,      \
                                        T beta, T *c) {                                            \
        if (!fits(p)) return PL_E_LIMIT;                                                           \
        lib.call(ROW_MAJOR, p->trans_a ? TRANS : NO_TRANS, p->trans_b ? TRANS : NO_TRANS,          \
                 (int)p->m, (int)p->n, (int)p->k, alpha, a, (int)p->lda, b, (int)p->ldb, beta, c,  \
                 (int)p->ldc);                                                                     \
        return PL_OK;                                                                              \
    }
GEMM(f32, float, sgemm)
GEMM(f64, double, dgemm)
#undef GEMM

const pl_provider pl_provider_blas = {
    .name = "blas",
    .serves = "products in f32 and f64, convolutions as products of columns",
    .open = blas_open,
    .version = blas_version,
    .gemm_f32 = blas_gemm_f32,
    .gemm_f64 = blas_gemm_f64,
};

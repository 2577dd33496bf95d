/* The table of providers, the default, and the plain loops as a provider. */
#include "kernels/provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plain ---- */

#define PLAIN(suffix, T, E)                                                                        \
    static pl_status plain_gemm_##suffix(const pl_product *p, T alpha, const T *a, const T *b,     \
                                         T beta, T *c) {                                           \
        const pl_gemm_shape s = { .m = p->m,                                                       \
                                  .n = p->n,                                                       \
                                  .k = p->k,                                                       \
                                  .trans_a = p->trans_a,                                           \
                                  .trans_b = p->trans_b,                                           \
                                  .lda = p->lda,                                                   \
                                  .ldb = p->ldb,                                                   \
                                  .ldc = p->ldc,                                                   \
                                  .batch = 1 };                                                    \
        return pl_gemm_plain_##suffix(&s, alpha, a, b, beta, c, NULL);                             \
    }                                                                                              \
    static pl_status plain_conv_##suffix(pl_pool *pool, const pl_conv_shape *shape, const E *x,    \
                                         const E *w, const E *bias, E *y, pl_conv_state **state,   \
                                         bool *served, pl_err *err) {                              \
        (void)pool;                                                                                \
        (void)state;                                                                               \
        *served = true;                                                                            \
        return pl_conv_plain_##suffix(shape, x, w, bias, y, err);                                  \
    }
PLAIN(f32, float, pl_f32)
PLAIN(f64, double, pl_f64)
#undef PLAIN

static pl_status plain_gemm_i8(const pl_product_i8 *p, bool *served, pl_err *err) {
    *served = true;
    return pl_gemm_plain_i8(p->shape, p->a, p->a_signed, p->a_zero, p->b, p->b_signed, p->b_zero,
                            p->c, err);
}

const pl_provider pl_provider_plain = {
    .name = "plain",
    .serves = "the plain loops for every product and convolution",
    .gemm_f32 = plain_gemm_f32,
    .gemm_f64 = plain_gemm_f64,
    .gemm_i8 = plain_gemm_i8,
    .conv_f32 = plain_conv_f32,
    .conv_f64 = plain_conv_f64,
    .conv_transpose_f32 = pl_conv_transpose_plain_f32,
    .conv_transpose_f64 = pl_conv_transpose_plain_f64,
};

/* ---- the table ---- */

const pl_provider pl_provider_own = { .name = "own", .serves = "plumb's own kernels" };

const pl_provider *const pl_provider_rows[] = { &pl_provider_own,      &pl_provider_plain,
                                                &pl_provider_blas,     &pl_provider_onednn,
                                                &pl_provider_saturate, NULL };

pl_status pl_provider_find(const char *name, const pl_provider **out, pl_err *err) {
    if (name == NULL) return pl_provider_of(NULL, out, err);
    for (size_t i = 0; pl_provider_rows[i] != NULL; i++) {
        const pl_provider *row = pl_provider_rows[i];
        if (strcmp(row->name, name) != 0) continue;
        if (row->open != NULL) PL_TRY(row->open(err));
        *out = row;
        return PL_OK;
    }
    return pl_fail(err, PL_E_USAGE, "unknown kernels '%s', expected %s", name, PL_PROVIDER_NAMES);
}

/* ---- the default of the process ---- */

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
/* Written once under default_once, read-only afterwards. */
static struct {
    const pl_provider *row;
    pl_status status;
    pl_err err;
} standard;

static void default_read(void) {
    const char *wish = getenv("PLUMB_KERNELS");
    standard.row = &pl_provider_own;
    if (wish == NULL || wish[0] == '\0') return;
    standard.status = pl_provider_find(wish, &standard.row, &standard.err);
    if (standard.status != PL_OK)
        (void)pl_err_wrap(&standard.err, standard.status, "PLUMB_KERNELS in the environment");
}

pl_status pl_provider_of(const pl_provider *by, const pl_provider **out, pl_err *err) {
    *out = by;
    if (by != NULL) return PL_OK;
    pthread_once(&default_once, default_read);
    *out = standard.row;
    if (standard.status == PL_OK) return PL_OK;
    return pl_fail(err, standard.status, "%s", standard.err.message);
}

size_t pl_provider_describe(const pl_provider *by, char *out, size_t n_bytes) {
    const int n = by->version == NULL ? snprintf(out, n_bytes, "%s", by->name)
                                      : snprintf(out, n_bytes, "%s (%s)", by->name, by->version());
    return n < 0 ? 0 : (size_t)n;
}

void pl_provider_version(const pl_provider *by, char *out, size_t n_bytes) {
    char text[100];
    pl_provider_describe(by, text, sizeof text);
    snprintf(out, n_bytes, "%s%s%s", PLUMB_VERSION, by == &pl_provider_own ? "" : " ",
             by == &pl_provider_own ? "" : text);
}

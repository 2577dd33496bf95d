/* Measures the worst error of every f32 map over all floats (or every step-th), for each
 * instruction set of this CPU, against double and long double libm. usage: ulp_vmath [step]
 * [function] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vmath.h"

static double ref_exp(double x) {
    return exp(x);
}
static double ref_sigmoid(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double ref_silu(double x) {
    return x * ref_sigmoid(x);
}
static double ref_gelu_erf(double x) {
    return (double)(0.5L * (long double)x *
                    erfcl(-(long double)x * 0.707106781186547524400844362L));
}
static double ref_gelu_tanh(double x) {
    return (double)((long double)x / (1 + expl(-1.595769121605730711759783L * (long double)x *
                                               (1 + 0.044715L * (long double)x * (long double)x))));
}
static double ref_softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

typedef struct row {
    const char *name;
    size_t off;
    double (*ref)(double);
} row;
#define ROW(n, r)                                                                                  \
    { #n, offsetof(pl_vmath_f32, n), r }
static const row rows[] = {
    ROW(exp, ref_exp),
    ROW(log, log),
    ROW(tanh, tanh),
    ROW(erf, erf),
    ROW(sigmoid, ref_sigmoid),
    ROW(silu, ref_silu),
    ROW(gelu_erf, ref_gelu_erf),
    ROW(gelu_tanh, ref_gelu_tanh),
    ROW(softplus, ref_softplus),
};

/* In units of the last place of the float nearest to the truth. */
static double ulp_error(float y, double ref) {
    const float r = (float)ref;
    if (isnan(ref)) return isnan(y) ? 0 : INFINITY;
    if (isinf(r) || isinf(y)) {
        if (y == r) return 0;
        return isinf(r) && y == copysignf(0x1.fffffep127f, r) ? 1 : INFINITY;
    }
    int e;
    frexp(ref, &e);
    if (e < -125) e = -125;
    return fabs((double)y - ref) / ldexp(1.0, e - 24);
}

int main(int argc, char **argv) {
    const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    enum { BLOCK = 4096 };
    static float x[BLOCK], y[PL_ISA_COUNT][BLOCK];
    typedef void (*map)(const pl_f32 *, pl_f32 *, size_t);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double worst[PL_ISA_COUNT] = { 0 };
        float at[PL_ISA_COUNT] = { 0 };
        uint64_t differ = 0, base_differ = 0;
        if (argc > 2 && strcmp(argv[2], rows[r].name) != 0) continue;
        for (uint64_t u = 0; u <= UINT32_MAX;) {
            size_t n = 0;
            for (; n < BLOCK && u <= UINT32_MAX; n++, u += step) {
                const uint32_t bits = (uint32_t)u;
                memcpy(&x[n], &bits, 4);
            }
            for (int isa = 0; isa < PL_ISA_COUNT && pl_cpu_has((pl_isa)isa); isa++) {
                map f;
                memcpy(&f, (const char *)&pl_vmath_of((pl_isa)isa)->f32 + rows[r].off, sizeof f);
                f(x, y[isa], n);
            }
            for (size_t i = 0; i < n; i++) {
                const double ref = rows[r].ref((double)x[i]);
                for (int isa = 0; isa < PL_ISA_COUNT && pl_cpu_has((pl_isa)isa); isa++) {
                    const double e = ulp_error(y[isa][i], ref);
                    if (!(e <= worst[isa])) {
                        worst[isa] = e;
                        at[isa] = x[i];
                    }
                }
                if (!isnan(x[i]) && memcmp(&y[1][i], &y[2][i], 4)) differ++;
                if (!isnan(x[i]) && memcmp(&y[0][i], &y[1][i], 4)) base_differ++;
            }
        }
        printf("%-10s", rows[r].name);
        for (int isa = 0; isa < PL_ISA_COUNT && pl_cpu_has((pl_isa)isa); isa++)
            printf("  %s %.3f at %a (%g)", pl_isa_name((pl_isa)isa), worst[isa], (double)at[isa],
                   (double)at[isa]);
        printf("  avx2!=avx512: %llu  base!=avx2: %llu\n", (unsigned long long)differ,
               (unsigned long long)base_differ);
        fflush(stdout);
    }
    return 0;
}

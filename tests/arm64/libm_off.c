/* Functions of doubles of libm, each off by 1e-5 of its result: what depends on them changes. For
 * LD_PRELOAD (tests/arm64/run). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

#define OFF(name, parameters, arguments)                                                           \
    double name parameters {                                                                       \
        static double(*next) parameters;                                                           \
        if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, #name);                               \
        return next arguments * (1 + 1e-5);                                                        \
    }
#define ONE(name) OFF(name, (double x), (x))
#define TWO(name) OFF(name, (double x, double y), (x, y))

ONE(acos)
ONE(acosh)
ONE(asin)
ONE(asinh)
ONE(atan)
ONE(atanh)
ONE(cos)
ONE(cosh)
ONE(erf)
ONE(erfc)
ONE(exp)
ONE(exp2)
ONE(expm1)
ONE(log)
ONE(log10)
ONE(log1p)
ONE(log2)
ONE(sin)
ONE(sinh)
ONE(tan)
ONE(tanh)
TWO(atan2)
TWO(hypot)
TWO(pow)

void sincos(double x, double *s, double *c) {
    *s = sin(x);
    *c = cos(x);
}

/* Power series after a reduction of the argument; lengths are such that what is left out is below
 * 2^-53 of the result. No libm but fabs, sqrt, rint and copysign, which are exact or correctly
 * rounded. */
#include "kernels/soft.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fefa3800p-1 /* 42 bits: products with exponents are exact */
#define LN2_LOW 0x1.ef35793c76730p-45
#define PI_2 0x1.921fb54442d18p+0
#define PI_2_HIGH 0x1.921fb54400000p+0 /* 33 bits */
#define PI_2_LOW 0x1.0b4611a626331p-34

/* ---- exponentials ---- */

static double power_of_two(int64_t n) { /* -1022 … 1023 */
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* 1/k! */
static const double over[] = { 1,
                               1,
                               1.0 / 2,
                               1.0 / 6,
                               1.0 / 24,
                               1.0 / 120,
                               1.0 / 720,
                               1.0 / 5040,
                               1.0 / 40320,
                               1.0 / 362880,
                               1.0 / 3628800,
                               1.0 / 39916800,
                               1.0 / 479001600,
                               1.0 / 6227020800,
                               1.0 / 87178291200,
                               1.0 / 1307674368000,
                               1.0 / 20922789888000,
                               1.0 / 355687428096000 };

/* (e^r - 1) / r for |r| <= 0.35. */
static double exp_series(double r) {
    double p = over[14];
    for (int k = 13; k >= 1; k--)
        p = p * r + over[k];
    return p;
}

/* Floats overflow at 89 and vanish at -104. */
double pl_soft_exp(double x) {
    if (x != x) return x;
    if (x < -200) return 0;
    if (x > 200) return (double)INFINITY;
    const double n = rint(x * 0x1.71547652b82fep+0), r = (x - n * LN2_HIGH) - n * LN2_LOW;
    return (1 + r * exp_series(r)) * power_of_two((int64_t)n);
}

double pl_soft_expm1(double x) {
    return fabs(x) <= 0.35 ? x * exp_series(x) : pl_soft_exp(x) - 1;
}

/* Up to infinity: e^x and e^-x overflow double long after float. */
double pl_soft_sinh(double x) {
    const double a = fabs(x);
    if (a > 0.35) return copysign((pl_soft_exp(a) - pl_soft_exp(-a)) / 2, x);
    const double s = x * x; /* x + x^3/3! + x^5/5! … */
    double p = over[15];
    for (int k = 13; k >= 1; k -= 2)
        p = p * s + over[k];
    return x * p;
}

double pl_soft_cosh(double x) {
    return (pl_soft_exp(x) + pl_soft_exp(-x)) / 2;
}

double pl_soft_tanh(double x) {
    if (fabs(x) > 20) return copysign(1, x);
    const double e = pl_soft_expm1(x + x);
    return e / (e + 2);
}

/* ---- logarithms ---- */

/* 2 atanh(s) for |s| <= 0.172: 2 s (1 + s^2/3 + s^4/5 …). */
static double log_series(double s) {
    const double q = s * s;
    double p = 0;
    for (int k = 21; k >= 1; k -= 2)
        p = p * q + 1.0 / k;
    return 2 * s * p;
}

double pl_soft_log(double x) {
    if (x == 0) return -(double)INFINITY;
    if (!(x > 0)) return x != x ? x : (double)NAN;
    if (isinf(x)) return x;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t at = bits - 0x3fe6a09e667f3bcdu; /* sqrt(1/2): m in [sqrt(1/2), sqrt(2)) */
    const int64_t e = (int64_t)at >> 52;
    const uint64_t m_bits = bits - ((uint64_t)e << 52);
    double m;
    memcpy(&m, &m_bits, sizeof m);
    return (double)e * LN2_HIGH + ((double)e * LN2_LOW + log_series((m - 1) / (m + 1)));
}

double pl_soft_log1p(double x) {
    return fabs(x) <= 0.4 ? log_series(x / (2 + x)) : pl_soft_log(1 + x);
}

double pl_soft_asinh(double x) {
    const double a = fabs(x);
    if (isinf(x)) return x;
    return copysign(pl_soft_log1p(a + x * x / (1 + sqrt(1 + x * x))), x);
}

double pl_soft_acosh(double x) {
    const double t = x - 1;
    if (x < 1) return (double)NAN;
    if (x > 0x1p60) return isinf(x) ? x : pl_soft_log(x + x);
    return pl_soft_log1p(t + sqrt(t * (x + 1)));
}

double pl_soft_atanh(double x) {
    return copysign(pl_soft_log1p(2 * fabs(x) / (1 - fabs(x))) / 2, x);
}

/* ---- powers ---- */

double pl_soft_pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    /* Zeros, infinities and NaN: libm's answers are exact there. */
    if (x == 0 || !isfinite(x) || !isfinite(y)) return pow(x, y);
    const bool whole = y == rint(y);
    if (x < 0 && !whole) return (double)NAN;
    const bool odd = whole && fabs(y) < 0x1p53 && (int64_t)y % 2 != 0;
    const double r = pl_soft_exp(y * pl_soft_log(fabs(x)));
    return x < 0 && odd ? -r : r;
}

/* ---- circular functions ---- */

static double sin_series(double r) { /* |r| <= pi/4 */
    const double s = r * r;
    double p = over[17];
    for (int k = 15; k >= 1; k -= 2)
        p = over[k] - s * p;
    return r * p;
}
static double cos_series(double r) {
    const double s = r * r;
    double p = over[16];
    for (int k = 14; k >= 0; k -= 2)
        p = over[k] - s * p;
    return p;
}

/* x = m 2^e is multiplied by the bits of 2/pi that matter modulo 4: those before only add multiples
 * of 4 (Payne and Hanek, "Radian reduction for trigonometric functions"). */
static int reduce_large(double x, double *r) {
    static const uint32_t two_over_pi[] = { 0,          0xa2f9836e, 0x4e441529,
                                            0xfc2757d1, 0xf534ddc0, 0xdb629599,
                                            0x3c439041, 0xfe5163ab, 0xdebbc561 };
    int e;
    const uint64_t m = (uint64_t)(frexp(fabs(x), &e) * 0x1p24); /* a float has 24 bits */
    const int first = e - 24 + 30, shift = first % 32;
    uint64_t word[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t high = two_over_pi[first / 32 + i], low = two_over_pi[first / 32 + i + 1];
        word[i] = (high << 32 | low) >> (32 - shift) & 0xffffffffu;
    }
    const uint64_t p2 = word[2] * m, p1 = word[1] * m + (p2 >> 32), p0 = word[0] * m + (p1 >> 32);
    const uint64_t top = p0 << 32 | (p1 & 0xffffffffu); /* two whole bits, then the fraction */
    const int64_t fraction = (int64_t)(top << 2 | (p2 & 0xffffffffu) >> 30);
    const int n = (int)(top >> 62) + (fraction < 0);
    *r = (double)fraction * 0x1p-64 * PI_2;
    if (x >= 0) return n & 3;
    *r = -*r;
    return -n & 3;
}

/* x = n pi/2 + r; the quadrant is n modulo 4. */
static int reduce(double x, double *r) {
    if (fabs(x) >= 0x1p20) return reduce_large(x, r);
    *r = x; /* also -0 */
    if (fabs(x) <= PI_2 / 2) return 0;
    const double n = rint(x * (1 / PI_2));
    *r = (x - n * PI_2_HIGH) - n * PI_2_LOW;
    return (int)n & 3;
}

/* The sine of x + quarter pi/2. */
static double sine(double x, int quarter) {
    double r;
    if (!isfinite(x)) return (double)NAN;
    const int n = reduce(x, &r) + quarter;
    const double y = n & 1 ? cos_series(r) : sin_series(r);
    return n & 2 ? -y : y;
}

double pl_soft_sin(double x) {
    return sine(x, 0);
}
double pl_soft_cos(double x) {
    return sine(x, 1);
}
double pl_soft_tan(double x) {
    double r;
    if (!isfinite(x)) return (double)NAN;
    return reduce(x, &r) & 1 ? -cos_series(r) / sin_series(r) : sin_series(r) / cos_series(r);
}

/* Two halvings of the angle, then t - t^3/3 + t^5/5 … for t <= tan(pi/16). */
double pl_soft_atan(double x) {
    const double a = fabs(x);
    double t = a > 1 ? 1 / a : a, p = 0;
    t = t / (1 + sqrt(1 + t * t));
    t = t / (1 + sqrt(1 + t * t));
    const double s = t * t;
    for (int k = 23; k >= 1; k -= 2)
        p = 1.0 / k - s * p;
    const double y = 4 * t * p;
    return copysign(a > 1 ? PI_2 - y : y, x);
}

double pl_soft_asin(double x) {
    return pl_soft_atan(x / sqrt((1 - x) * (1 + x)));
}
double pl_soft_acos(double x) {
    return 2 * pl_soft_atan(sqrt((1 - x) / (1 + x)));
}

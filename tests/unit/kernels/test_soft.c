/* Functions of floats by double arithmetic, against long double libm: rounded to float they are
 * nearly always correct. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/soft.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

typedef struct row {
    const char *name;
    double (*soft)(double);
    long double (*truth)(long double);
} row;
#define ROW(name)                                                                                  \
    { #name, pl_soft_##name, name##l }
static const row rows[] = { ROW(exp),  ROW(expm1), ROW(log),   ROW(log1p), ROW(sin),  ROW(cos),
                            ROW(tan),  ROW(asin),  ROW(acos),  ROW(atan),  ROW(sinh), ROW(cosh),
                            ROW(tanh), ROW(asinh), ROW(acosh), ROW(atanh) };
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static float of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* |y - truth| in units of the last place of float. */
static double ulps(float y, long double truth) {
    if (isnan(truth)) return isnan(y) ? 0 : (double)INFINITY;
    if (isinf(y))
        return truth * (y > 0 ? 1 : -1) >= (long double)FLT_MAX * (1 + 0x1p-25L) ? 0
                                                                                 : (double)INFINITY;
    int e;
    frexpl(truth, &e);
    return (double)fabsl((long double)y - truth) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void test_soft__floats_are_rounded_correctly(void **state) {
    (void)state;
    for (int r = 0; r < N_ROWS; r++)
        for (uint64_t u = 0; u < UINT64_C(0x100000000);
             u += 65521) { /* all exponents, both signs */
            const float x = of_bits((uint32_t)u);
            const long double truth = rows[r].truth((long double)x);
            const float y = (float)rows[r].soft((double)x);
            if (!(ulps(y, truth) <= 0.5 + 0x1p-20))
                fail_msg("%s(%a) = %a, not %La", rows[r].name, (double)x, (double)y, truth);
            if (!isnan(truth) && !signbit(y) != !signbit(truth))
                fail_msg("%s(%a): the sign", rows[r].name, (double)x);
        }
}

/* Where the argument is near a multiple of pi/2 much of it cancels: 2^k pi/2 rounded, and 16367173
 * * 2^72, the float whose sine is smallest (Muller, "Elementary Functions", table of worst cases).
 */
static void test_soft__large_angles_keep_their_digits(void **state) {
    (void)state;
    for (int i = 0; i < 240; i++) {
        const float x = i < 120    ? (float)ldexp(1.5707963267948966, i)
                        : i == 120 ? 0x1.f37b0ap95f
                                   : (float)ldexp(1.0 + i / 240.0, i - 120);
        for (int r = 0; r < N_ROWS; r++) {
            if (strcmp(rows[r].name, "sin") != 0 && strcmp(rows[r].name, "cos") != 0 &&
                strcmp(rows[r].name, "tan") != 0)
                continue;
            const long double truth = rows[r].truth((long double)x);
            const float y = (float)rows[r].soft((double)x);
            if (!(ulps(y, truth) <= 0.5 + 0x1p-10))
                fail_msg("%s(%a) = %a, not %La", rows[r].name, (double)x, (double)y, truth);
        }
    }
}

static void test_soft__special_values(void **state) {
    (void)state;
    const float x[] = {
        0.0f, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, FLT_MAX, -FLT_MAX
    };
    for (int r = 0; r < N_ROWS; r++)
        for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++) {
            const float truth = (float)rows[r].truth((long double)x[i]),
                        y = (float)rows[r].soft((double)x[i]);
            if (isnan(truth) ? !isnan(y) : memcmp(&y, &truth, sizeof y) != 0)
                fail_msg("%s(%a) = %a, not %a", rows[r].name, (double)x[i], (double)y,
                         (double)truth);
        }
}

static void test_soft__powers(void **state) {
    (void)state;
    uint64_t s = 1;
    for (int i = 0; i < 200000; i++) {
        s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        float x = of_bits((uint32_t)(s >> 32)), y = (float)((double)(int64_t)s * 0x1p-58);
        if (i % 3 == 0) y = (float)(int64_t)y;
        if (i % 4 == 0) x = (float)((double)(s >> 40) * 0x1p-22);
        const long double truth = powl((long double)x, (long double)y);
        const float z = (float)pl_soft_pow((double)x, (double)y);
        if (!(ulps(z, truth) <= 0.5 + 0x1p-16))
            fail_msg("pow(%a, %a) = %a, not %La", (double)x, (double)y, (double)z, truth);
    }
    const float v[] = { 0.0f, -0.0f, 1,        -1,        2,   -2,      0.5f,      -0.5f,
                        3,    -3,    INFINITY, -INFINITY, NAN, FLT_MAX, -0x1p-149f };
    enum { N = sizeof(v) / sizeof(v[0]) };
    for (int i = 0; i < N * N; i++) {
        const float x = v[i / N], y = v[i % N], z = (float)pl_soft_pow((double)x, (double)y),
                    truth = powf(x, y);
        if (isnan(truth) ? !isnan(z) : memcmp(&z, &truth, sizeof z) != 0)
            fail_msg("pow(%a, %a) = %a, not %a", (double)x, (double)y, (double)z, (double)truth);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soft__floats_are_rounded_correctly),
        cmocka_unit_test(test_soft__large_angles_keep_their_digits),
        cmocka_unit_test(test_soft__special_values),
        cmocka_unit_test(test_soft__powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

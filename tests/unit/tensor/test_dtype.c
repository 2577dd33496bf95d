/* Element types: names, exhaustive conversions of the small floats, rounding, wrapping. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"

static const pl_dtype small_floats[] = { PL_F8E4M3FN,   PL_F8E4M3FNUZ, PL_F8E5M2,
                                         PL_F8E5M2FNUZ, PL_F8E8M0,     PL_F4E2M1 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_dtype__names_round_trip(void **state) {
    (void)state;
    for (int i = 1; i < PL_DTYPE_COUNT; i++) {
        const char *name = pl_dtype_name((pl_dtype)i);
        assert_int_equal(pl_dtype_by_name(name, strlen(name)), i);
        assert_true(pl_dtype_bytes((pl_dtype)i) > 0);
        assert_true(pl_dtype_valid(i));
    }
    assert_int_equal(pl_dtype_by_name("float3", 6), PL_UNDEFINED);
    assert_int_equal(pl_dtype_by_name("float16", 5), PL_F32);
    assert_string_equal(pl_dtype_name((pl_dtype)99), "undefined");
    assert_string_equal(pl_dtype_name((pl_dtype)-1), "undefined");
    assert_false(pl_dtype_valid(0));
    assert_false(pl_dtype_valid(27));
    assert_false(pl_dtype_valid(INT64_MIN));
}

static void test_dtype__knows_integer_ranges(void **state) {
    (void)state;
    assert_true(pl_dtype_int_min(PL_I64) == INT64_MIN && pl_dtype_int_max(PL_I64) == INT64_MAX);
    assert_true(pl_dtype_int_max(PL_U64) == INT64_MAX && pl_dtype_int_min(PL_U64) == 0);
    assert_true(pl_dtype_int_max(PL_U32) == UINT32_MAX && pl_dtype_int_max(PL_I32) == INT32_MAX);
    assert_int_equal(pl_dtype_int_min(PL_I4), -8);
    assert_int_equal(pl_dtype_int_max(PL_I4), 7);
    assert_int_equal(pl_dtype_int_max(PL_U4), 15);
    assert_int_equal(pl_dtype_int_min(PL_I2), -2);
    assert_int_equal(pl_dtype_int_max(PL_I2), 1);
    assert_int_equal(pl_dtype_int_max(PL_U2), 3);
    assert_int_equal(pl_dtype_int_min(PL_I8), -128);
}

static void test_dtype__unit_roundoff_is_half_the_gap_above_one(void **state) {
    (void)state;
    assert_true(pl_dtype_unit_roundoff(PL_F32) == 0x1p-24);
    assert_true(pl_dtype_unit_roundoff(PL_F64) == 0x1p-53);
    assert_true(pl_dtype_unit_roundoff(PL_F16) == 0x1p-11);
    assert_true(pl_dtype_unit_roundoff(PL_BF16) == 0x1p-8);
    assert_true(pl_dtype_unit_roundoff(PL_F8E4M3FN) == 0x1p-4);
    assert_true(pl_dtype_unit_roundoff(PL_F8E5M2FNUZ) == 0x1p-3);
    assert_true(pl_dtype_unit_roundoff(PL_I32) == 0.0);
}

static void test_f16__all_codes_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = pl_f16_to_f32((uint16_t)h);
        if (isnan(x)) {
            assert_true((h & 0x7FFF) > 0x7C00);
            continue;
        }
        assert_int_equal(pl_f16_from_f32(x), h);
        assert_int_equal(pl_f16_from_f64((double)x), h);
    }
    assert_true(pl_f16_to_f32(0x3C00) == 1.0f);
    assert_true(pl_f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(pl_f16_to_f32(0x7BFF) == 65504.0f);
    assert_true(isinf(pl_f16_to_f32(0xFC00)) && pl_f16_to_f32(0xFC00) < 0);
}

static void test_bf16__all_codes_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = pl_bf16_to_f32((uint16_t)h);
        if (isnan(x)) {
            assert_true((h & 0x7FFF) > 0x7F80);
            continue;
        }
        assert_int_equal(bits_of(x), h << 16);
        assert_int_equal(pl_bf16_from_f32(x), h);
    }
}

/* Between two neighbours the result is the nearer one, and the even one in the middle. */
static void test_f16__rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        const double low = (double)pl_f16_to_f32((uint16_t)h);
        const double high = (double)pl_f16_to_f32((uint16_t)(h + 1));
        const double middle = (low + high) / 2;
        const uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(pl_f16_from_f64(middle), even);
        assert_int_equal(pl_f16_from_f64(nextafter(middle, 0.0)), h);
        assert_int_equal(pl_f16_from_f64(nextafter(middle, HUGE_VAL)), h + 1);
        assert_int_equal(pl_f16_from_f64(-middle), even | 0x8000);
        assert_int_equal(pl_f16_from_f32((float)middle), even);
    }
    assert_int_equal(pl_f16_from_f64(65520.0), 0x7C00);
    assert_int_equal(pl_f16_from_f64(65519.999), 0x7BFF);
    assert_int_equal(pl_f16_from_f64(-1e300), 0xFC00);
    assert_int_equal(pl_f16_from_f64(1e-300), 0);
    assert_int_equal(pl_f16_from_f64(-1e-320), 0x8000);
    assert_int_equal(pl_f16_from_f64((double)NAN) & 0x7FFF, 0x7E00);
}

static void test_bf16__rounds_a_double_once(void **state) {
    (void)state;
    /* 1 + 2^-8 is a tie and goes to even (1); a bit more must go up, although float drops it. */
    assert_int_equal(pl_bf16_from_f64(1.0 + 0x1p-8), 0x3F80);
    assert_int_equal(pl_bf16_from_f64(1.0 + 0x1p-8 + 0x1p-40), 0x3F81);
    assert_int_equal(pl_bf16_from_f32((float)(1.0 + 0x1p-8 + 0x1p-40)), 0x3F80);
    assert_int_equal(pl_f16_from_f64(1.0 + 0x1p-11 + 0x1p-40), 0x3C01);
    assert_int_equal(pl_bf16_from_f64(0x1p-133), 0x0001);
    assert_int_equal(pl_bf16_from_f64(0x1p-134), 0x0000);
    assert_int_equal(pl_bf16_from_f64(0x1.8p-134), 0x0001);
    assert_int_equal(pl_bf16_from_f64(3.4e38), 0x7F80);
}

/* The strips must agree with the scalar truth for every code and for many floats. */
static void test_blocks__agree_with_the_scalars(void **state) {
    (void)state;
    static uint16_t codes[65536 + 5];
    static float values[65536 + 5];
    for (uint32_t i = 0; i < 65536 + 5; i++)
        codes[i] = (uint16_t)i;
    for (size_t n = 0; n < 40; n++) { /* every tail length */
        memset(values, 0xAB, sizeof values);
        pl_load_f32(PL_F16, codes + 0x3C00, values, n);
        for (size_t i = 0; i < n; i++)
            assert_true(values[i] == pl_f16_to_f32((uint16_t)(0x3C00 + i)));
        assert_int_equal(bits_of(values[n]), 0xABABABABu);
    }
    pl_load_f32(PL_F16, codes, values, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        const float want = pl_f16_to_f32((uint16_t)i);
        assert_true(isnan(want) ? isnan(values[i]) : bits_of(values[i]) == bits_of(want));
    }
    pl_load_f32(PL_BF16, codes, values, 65536);
    for (uint32_t i = 0; i < 65536; i++)
        assert_int_equal(bits_of(values[i]), i << 16);
}

static void test_blocks__narrow_like_the_scalars(void **state) {
    (void)state;
    uint32_t seed = 1;
    float x[64];
    uint16_t got[64];
    for (int round = 0; round < 40000; round++) {
        for (int i = 0; i < 64; i++) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t bits = seed;
            if (round % 4 == 1) bits = (bits & 0x87FFFFFFu) | 0x38000000u; /* around 2^-15..1 */
            if (round % 4 == 2) bits &= 0xFFFFE000u | (round % 8 == 2 ? 0x1000u : 0u); /* ties */
            if (round % 4 == 3) bits = (bits & 0x8FFFF000u) | 0x30000000u;
            x[i] = float_of(bits);
        }
        pl_store_f32(PL_F16, x, got, 64);
        for (int i = 0; i < 64; i++)
            assert_int_equal(got[i], pl_f16_from_f32(x[i]));
        pl_store_f32(PL_BF16, x, got, 64);
        for (int i = 0; i < 64; i++)
            assert_int_equal(got[i], pl_bf16_from_f32(x[i]));
    }
}

/* Values from the definition of each format, ONNX "Float stored in 8 bits". */
static void test_f8__decodes_landmarks(void **state) {
    (void)state;
    assert_true(pl_f8_to_f32(PL_F8E4M3FN, 0x7E) == 448.0f);
    assert_true(pl_f8_to_f32(PL_F8E4M3FN, 0x01) == 0x1p-9f);
    assert_true(isnan(pl_f8_to_f32(PL_F8E4M3FN, 0x7F)) && isnan(pl_f8_to_f32(PL_F8E4M3FN, 0xFF)));
    assert_true(pl_f8_to_f32(PL_F8E4M3FNUZ, 0x7F) == 240.0f);
    assert_true(pl_f8_to_f32(PL_F8E4M3FNUZ, 0x01) == 0x1p-10f);
    assert_true(isnan(pl_f8_to_f32(PL_F8E4M3FNUZ, 0x80)));
    assert_true(pl_f8_to_f32(PL_F8E5M2, 0x7B) == 57344.0f);
    assert_true(isinf(pl_f8_to_f32(PL_F8E5M2, 0x7C)) && isnan(pl_f8_to_f32(PL_F8E5M2, 0x7D)));
    assert_true(pl_f8_to_f32(PL_F8E5M2, 0x01) == 0x1p-16f);
    assert_true(pl_f8_to_f32(PL_F8E5M2FNUZ, 0x7F) == 57344.0f);
    assert_true(pl_f8_to_f32(PL_F8E5M2FNUZ, 0x01) == 0x1p-17f);
    assert_true(isnan(pl_f8_to_f32(PL_F8E5M2FNUZ, 0x80)));
    assert_true(pl_f8_to_f32(PL_F8E8M0, 0x7F) == 1.0f);
    assert_true(pl_f8_to_f32(PL_F8E8M0, 0x00) == 0x1p-127f);
    assert_true(pl_f8_to_f32(PL_F8E8M0, 0xFE) == 0x1p127f && isnan(pl_f8_to_f32(PL_F8E8M0, 0xFF)));
    const float e2m1[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    for (uint8_t i = 0; i < 8; i++) {
        assert_true(pl_f8_to_f32(PL_F4E2M1, i) == e2m1[i]);
        assert_true(pl_f8_to_f32(PL_F4E2M1, i | 8) == -e2m1[i]);
    }
}

static void test_f8__all_codes_round_trip(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof small_floats / sizeof *small_floats; k++) {
        const pl_dtype dtype = small_floats[k];
        for (int code = 0; code < (dtype == PL_F4E2M1 ? 16 : 256); code++) {
            const double x = (double)pl_f8_to_f32(dtype, (uint8_t)code);
            for (int saturate = 0; saturate < 2; saturate++) {
                const uint8_t got = pl_f8_from_f64(dtype, x, saturate != 0, 'u');
                if (isnan(x))
                    assert_true(isnan(pl_f8_to_f32(dtype, got)));
                else if (isinf(x) && saturate)
                    assert_int_equal(got, code < 0x80 ? 0x7B : 0xFB);
                else
                    assert_int_equal(got, code);
            }
        }
    }
}

static void test_f8__rounds_to_nearest_even(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof small_floats / sizeof *small_floats; k++) {
        const pl_dtype dtype = small_floats[k];
        if (dtype == PL_F8E8M0) continue;
        const int top = dtype == PL_F4E2M1 ? 7 : 0x7F;
        for (int code = 0; code < top; code++) {
            const double low = (double)pl_f8_to_f32(dtype, (uint8_t)code);
            const double high = (double)pl_f8_to_f32(dtype, (uint8_t)(code + 1));
            if (!isfinite(high)) break;
            const double middle = (low + high) / 2;
            assert_int_equal(pl_f8_from_f64(dtype, middle, true, 'u'), code + (code & 1));
            assert_int_equal(pl_f8_from_f64(dtype, nextafter(middle, 0), true, 'u'), code);
            assert_int_equal(pl_f8_from_f64(dtype, nextafter(middle, 1e9), true, 'u'), code + 1);
        }
    }
}

/* The two tables of ONNX Cast-19. */
static void test_f8__overflows_as_onnx_cast_says(void **state) {
    (void)state;
    /* clang-format off */
    static const struct { pl_dtype dtype; double x; uint8_t saturated, plain; } rows[] = {
        { PL_F8E4M3FN, HUGE_VAL, 0x7E, 0x7F },   { PL_F8E4M3FN, -HUGE_VAL, 0xFE, 0xFF },
        { PL_F8E4M3FN, 1e6, 0x7E, 0x7F },        { PL_F8E4M3FN, -1e6, 0xFE, 0xFF },
        { PL_F8E4M3FN, 464.0, 0x7E, 0x7E },      { PL_F8E4M3FN, 464.1, 0x7E, 0x7F },
        { PL_F8E4M3FN, -0.0, 0x80, 0x80 },       { PL_F8E4M3FN, (double)NAN, 0x7F, 0x7F },
        { PL_F8E4M3FNUZ, HUGE_VAL, 0x7F, 0x80 }, { PL_F8E4M3FNUZ, -HUGE_VAL, 0xFF, 0x80 },
        { PL_F8E4M3FNUZ, 1e6, 0x7F, 0x80 },      { PL_F8E4M3FNUZ, -1e6, 0xFF, 0x80 },
        { PL_F8E4M3FNUZ, -0.0, 0x00, 0x00 },     { PL_F8E4M3FNUZ, (double)NAN, 0x80, 0x80 },
        { PL_F8E4M3FNUZ, -1e-9, 0x00, 0x00 },
        { PL_F8E5M2, HUGE_VAL, 0x7B, 0x7C },     { PL_F8E5M2, -HUGE_VAL, 0xFB, 0xFC },
        { PL_F8E5M2, 1e6, 0x7B, 0x7C },          { PL_F8E5M2, -1e6, 0xFB, 0xFC },
        { PL_F8E5M2, -0.0, 0x80, 0x80 },         { PL_F8E5M2, (double)NAN, 0x7E, 0x7E },
        { PL_F8E5M2FNUZ, HUGE_VAL, 0x7F, 0x80 }, { PL_F8E5M2FNUZ, -1e6, 0xFF, 0x80 },
        { PL_F8E5M2FNUZ, -0.0, 0x00, 0x00 },     { PL_F8E5M2FNUZ, (double)NAN, 0x80, 0x80 },
        { PL_F4E2M1, HUGE_VAL, 0x7, 0x7 },       { PL_F4E2M1, -1e6, 0xF, 0xF },
        { PL_F4E2M1, 5.0, 0x6, 0x6 },            { PL_F4E2M1, 0.25, 0x0, 0x0 },
        { PL_F4E2M1, -3.5, 0xE, 0xE },           { PL_F4E2M1, (double)NAN, 0x8, 0x8 },
        { PL_F8E8M0, HUGE_VAL, 0xFE, 0xFF },     { PL_F8E8M0, 0.0, 0x00, 0xFF },
        { PL_F8E8M0, 1e300, 0xFE, 0xFF },        { PL_F8E8M0, 1e-300, 0x00, 0xFF },
        { PL_F8E8M0, (double)NAN, 0xFF, 0xFF },          { PL_F8E8M0, 1.1, 0x80, 0x80 },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pl_f8_from_f64(rows[i].dtype, rows[i].x, true, 'u'), rows[i].saturated);
        assert_int_equal(pl_f8_from_f64(rows[i].dtype, rows[i].x, false, 'u'), rows[i].plain);
    }
}

static void test_e8m0__rounds_by_mode(void **state) {
    (void)state;
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 1.25, true, 'u'), 0x80);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 1.25, true, 'd'), 0x7F);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 1.25, true, 'n'), 0x7F);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 1.5, true, 'n'), 0x80);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 1.0, true, 'u'), 0x7F);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 0x1.8p127, true, 'n'), 0xFE);
    assert_int_equal(pl_f8_from_f64(PL_F8E8M0, 0x1.8p126, true, 'u'), 0xFE);
}

static void test_store__truncates_and_wraps(void **state) {
    (void)state;
    const double x[6] = { -9.9, 200.5, 1e30, (double)NAN, -HUGE_VAL, 17.0 };
    int8_t i4[6], i8[6];
    uint8_t u4[6], u2[6], b[6];
    int32_t i32[6];
    uint64_t u64[6];
    pl_store_f64(PL_I4, x, i4, 6);
    assert_int_equal(i4[0], 7); /* -9 = 0b…10111 */
    assert_int_equal(i4[1], -8);
    assert_int_equal(i4[2], -8);
    assert_int_equal(i4[3], -8);
    assert_int_equal(i4[5], 1);
    pl_store_f64(PL_U4, x, u4, 6);
    assert_int_equal(u4[0], 7);
    assert_int_equal(u4[4], 0);
    pl_store_f64(PL_U2, x, u2, 6);
    assert_int_equal(u2[0], 3);
    pl_store_f64(PL_I8, x, i8, 6);
    assert_int_equal(i8[1], -56);
    assert_int_equal(i8[3], -128);
    pl_store_f64(PL_I32, x, i32, 6);
    assert_int_equal(i32[0], -9);
    assert_int_equal(i32[2], INT32_MIN);
    pl_store_f64(PL_BOOL, x, b, 6);
    assert_int_equal(b[3], 1);
    const double big = 0x1.8p63;
    pl_store_f64(PL_U64, &big, u64, 1);
    assert_true(u64[0] == 0xC000000000000000u);
}

static void test_store__integers_round_once(void **state) {
    (void)state;
    /* 2^60 + 2^52 is half a bfloat16 step above 2^60; one more must go up. Double cannot see it. */
    const int64_t tie = ((int64_t)1 << 60) + ((int64_t)1 << 52), above = tie + 1, below = -above;
    uint16_t h;
    pl_store_i64(PL_BF16, &tie, &h, 1);
    assert_int_equal(h, 0x5D80);
    pl_store_i64(PL_BF16, &above, &h, 1);
    assert_int_equal(h, 0x5D81);
    pl_store_i64(PL_BF16, &below, &h, 1);
    assert_int_equal(h, 0xDD81);
    const uint64_t most = UINT64_MAX;
    float f;
    pl_store_u64(PL_F32, &most, &f, 1);
    assert_true(f == 0x1p64f);
    pl_store_u64(PL_BF16, &most, &h, 1);
    assert_int_equal(h, 0x5F80);
    const int64_t lowest = INT64_MIN;
    pl_store_i64(PL_F32, &lowest, &f, 1);
    assert_true(f == -0x1p63f);
    pl_store_i64(PL_BF16, &lowest, &h, 1);
    assert_int_equal(h, 0xDF00);
}

/* Every type holds 1 and gives it back through each of the three doors. */
static void test_load__one_is_one_in_every_type(void **state) {
    (void)state;
    for (int k = 1; k < PL_DTYPE_COUNT; k++) {
        const pl_dtype dtype = (pl_dtype)k;
        if (dtype == PL_STRING) continue;
        for (size_t n = 0; n <= 600; n += 200) {
            char *memory = malloc(600 * 16 + 1);
            char *at = memory + 1; /* deliberately misaligned */
            double *d = malloc(600 * sizeof *d);
            float *f = malloc(600 * sizeof *f);
            int64_t *q = malloc(600 * sizeof *q);
            for (size_t i = 0; i < 600; i++)
                d[i] = 1.0;
            pl_store_f64(dtype, d, at, n);
            pl_load_f32(dtype, at, f, n);
            pl_store_f32(dtype, f, at, n);
            pl_load_i64(dtype, at, q, n);
            pl_store_i64(dtype, q, at, n);
            memset(d, 0, 600 * sizeof *d);
            pl_load_f64(dtype, at, d, n);
            for (size_t i = 0; i < n; i++)
                assert_true(d[i] == 1.0 && f[i] == 1.0f && q[i] == 1);
            free(memory);
            free(d);
            free(f);
            free(q);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype__names_round_trip),
        cmocka_unit_test(test_dtype__knows_integer_ranges),
        cmocka_unit_test(test_dtype__unit_roundoff_is_half_the_gap_above_one),
        cmocka_unit_test(test_f16__all_codes_round_trip),
        cmocka_unit_test(test_bf16__all_codes_round_trip),
        cmocka_unit_test(test_f16__rounds_to_nearest_even),
        cmocka_unit_test(test_bf16__rounds_a_double_once),
        cmocka_unit_test(test_blocks__agree_with_the_scalars),
        cmocka_unit_test(test_blocks__narrow_like_the_scalars),
        cmocka_unit_test(test_f8__decodes_landmarks),
        cmocka_unit_test(test_f8__all_codes_round_trip),
        cmocka_unit_test(test_f8__rounds_to_nearest_even),
        cmocka_unit_test(test_f8__overflows_as_onnx_cast_says),
        cmocka_unit_test(test_e8m0__rounds_by_mode),
        cmocka_unit_test(test_store__truncates_and_wraps),
        cmocka_unit_test(test_store__integers_round_once),
        cmocka_unit_test(test_load__one_is_one_in_every_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

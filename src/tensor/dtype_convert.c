/* Blocks of elements between any type and float, double or int64.
 *
 * float16 and bfloat16 are branch-free loops over uint32 lanes in strips of constant length, which
 * gcc and clang vectorise at -O2; the other types go element by element. Tests compare the strips
 * bit for bit with the scalar routines of dtype.c. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "tensor/dtype.h"

enum { STRIP = 16 };

static uint32_t f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a when mask is all ones, b when it is zero. */
static uint32_t select_bits(uint32_t mask, uint32_t a, uint32_t b) {
    return b ^ ((a ^ b) & mask);
}

/* -(condition) on signed operands, because SSE2 compares only signed lanes. */
static uint32_t mask_less(uint32_t a, uint32_t b) {
    return (uint32_t) - (int32_t)((int32_t)a < (int32_t)b);
}

/* ---- float16 ---- */

/* Subnormals are a small integer times 2^-24, exact in float. */
static float f16_lane_to_f32(uint32_t h) {
    const uint32_t magnitude = h & 0x7FFF;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = (magnitude << 13) | 0x7F800000u;
    const uint32_t tiny = f32_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t out = select_bits(mask_less(magnitude, 0x0400), tiny, normal);
    out = select_bits(mask_less(0x7BFF, magnitude), special, out);
    return f32_of(out | ((h & 0x8000) << 16));
}

/* Below 2^-14 the addition of 0.5 makes the FPU round to multiples of 2^-24, ties to even. */
static uint32_t f16_lane_from_f32(float x) {
    const uint32_t bits = f32_bits(x);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t rebased = magnitude - (112u << 23);
    const uint32_t normal = (rebased + 0x0FFF + ((rebased >> 13) & 1)) >> 13;
    const uint32_t tiny = f32_bits(f32_of(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t out = select_bits(mask_less(magnitude, 0x38800000), tiny, normal);
    out = select_bits(mask_less(0x477FFFFF, magnitude), 0x7C00, out);
    out = select_bits(mask_less(0x7F800000, magnitude), 0x7E00, out);
    return out | ((bits >> 16) & 0x8000);
}

static uint32_t bf16_lane_from_f32(float x) {
    const uint32_t bits = f32_bits(x);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = 0x7FC0 | ((bits >> 16) & 0x8000);
    return select_bits(mask_less(0x7F800000, bits & 0x7FFFFFFF), nan, rounded);
}

/* One strip at a time; the rest of a block goes through a padded strip, so that there is one code
 * path and the constant trip count lets the compiler use vectors. */
#define STRIP_LOOP(from_type, to_type, expression)                                                 \
    for (; n >= STRIP; n -= STRIP, from += STRIP, to += STRIP)                                     \
        for (size_t i = 0; i < STRIP; i++)                                                         \
            to[i] = (to_type)(expression);                                                         \
    for (size_t i = 0; i < n; i++)                                                                 \
    to[i] = (to_type)(expression)

static void f16_to_f32_block(const pl_u16 *restrict from, float *restrict to, size_t n) {
    STRIP_LOOP(pl_u16, float, f16_lane_to_f32(from[i]));
}

static void f16_from_f32_block(const float *restrict from, pl_u16 *restrict to, size_t n) {
    STRIP_LOOP(float, uint16_t, f16_lane_from_f32(from[i]));
}

static void bf16_to_f32_block(const pl_u16 *restrict from, float *restrict to, size_t n) {
    STRIP_LOOP(pl_u16, float, f32_of((uint32_t)from[i] << 16));
}

static void bf16_from_f32_block(const float *restrict from, pl_u16 *restrict to, size_t n) {
    STRIP_LOOP(float, uint16_t, bf16_lane_from_f32(from[i]));
}
#undef STRIP_LOOP

/* ---- load ---- */

/* Types of at most eight bits: for long blocks a table pays off. */
static void f8_to_f32_block(pl_dtype dtype, const uint8_t *from, float *to, size_t n) {
    const uint8_t mask = dtype == PL_F4E2M1 ? 0x0F : 0xFF;
    if (n < 512) {
        for (size_t i = 0; i < n; i++)
            to[i] = pl_f8_to_f32(dtype, from[i] & mask);
        return;
    }
    float table[256];
    for (int i = 0; i < 256; i++)
        table[i] = pl_f8_to_f32(dtype, (uint8_t)i & mask);
    for (size_t i = 0; i < n; i++)
        to[i] = table[from[i]];
}

#define LOAD_LOOP(elem, expression)                                                                \
    do {                                                                                           \
        const elem *p = from;                                                                      \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (expression);                                                                  \
    } while (0)

/* Complex elements load as their real part: ONNX has no conversion from complex. */
void pl_load_f32(pl_dtype dtype, const void *from, float *to, size_t n) {
    switch ((int)dtype) {
    case PL_F32:
        if (n > 0) memcpy(to, from, n * sizeof *to);
        return;
    case PL_F16: f16_to_f32_block(from, to, n); return;
    case PL_BF16: bf16_to_f32_block(from, to, n); return;
    case PL_F64: LOAD_LOOP(pl_f64, (float)p[i]); return;
    case PL_I64: LOAD_LOOP(pl_i64, (float)p[i]); return;
    case PL_U64: LOAD_LOOP(pl_u64, (float)p[i]); return;
    case PL_I32: LOAD_LOOP(pl_i32, (float)p[i]); return;
    case PL_U32: LOAD_LOOP(pl_u32, (float)p[i]); return;
    case PL_I16: LOAD_LOOP(pl_i16, (float)p[i]); return;
    case PL_U16: LOAD_LOOP(pl_u16, (float)p[i]); return;
    case PL_I8:
    case PL_I4:
    case PL_I2: LOAD_LOOP(pl_i8, (float)p[i]); return;
    case PL_U8:
    case PL_U4:
    case PL_U2: LOAD_LOOP(pl_u8, (float)p[i]); return;
    case PL_BOOL: LOAD_LOOP(pl_u8, p[i] ? 1.0f : 0.0f); return;
    case PL_C64: LOAD_LOOP(pl_f32, p[2 * i]); return;
    case PL_C128: LOAD_LOOP(pl_f64, (float)p[2 * i]); return;
    case PL_F8E4M3FN:
    case PL_F8E4M3FNUZ:
    case PL_F8E5M2:
    case PL_F8E5M2FNUZ:
    case PL_F8E8M0:
    case PL_F4E2M1: f8_to_f32_block(dtype, from, to, n); return;
    default:
        for (size_t i = 0; i < n; i++)
            to[i] = NAN;
    }
}

/* The narrow types go through float, which holds them all exactly. */
static void load_f64_via_f32(pl_dtype dtype, const void *from, double *to, size_t n) {
    const char *at = from;
    float block[256];
    while (n > 0) {
        const size_t m = pl_size_min(n, 256);
        pl_load_f32(dtype, at, block, m);
        for (size_t i = 0; i < m; i++)
            to[i] = (double)block[i];
        at += m * pl_dtype_bytes(dtype);
        to += m;
        n -= m;
    }
}

void pl_load_f64(pl_dtype dtype, const void *from, double *to, size_t n) {
    switch ((int)dtype) {
    case PL_F64:
        if (n > 0) memcpy(to, from, n * sizeof *to);
        return;
    case PL_F32: LOAD_LOOP(pl_f32, (double)p[i]); return;
    case PL_I64: LOAD_LOOP(pl_i64, (double)p[i]); return;
    case PL_U64: LOAD_LOOP(pl_u64, (double)p[i]); return;
    case PL_I32: LOAD_LOOP(pl_i32, (double)p[i]); return;
    case PL_U32: LOAD_LOOP(pl_u32, (double)p[i]); return;
    case PL_C128: LOAD_LOOP(pl_f64, p[2 * i]); return;
    default: load_f64_via_f32(dtype, from, to, n); return;
    }
}

/* ---- to integers ---- */

/* Keeps the low bits of the sub-byte types; the wider ones wrap by the C conversion, which gcc and
 * clang define as modulo. */
static int64_t wrap_small(pl_dtype dtype, int64_t x) {
    switch ((int)dtype) {
    case PL_I4: return ((x & 15) ^ 8) - 8;
    case PL_U4: return x & 15;
    case PL_I2: return ((x & 3) ^ 2) - 2;
    case PL_U2: return x & 3;
    default: return x;
    }
}

/* The comparison is written so that NaN takes the last branch. */
static int64_t truncate(double x, int64_t otherwise) {
    return x > -0x1p63 && x < 0x1p63 ? (int64_t)x : otherwise;
}

static uint64_t truncate_u64(double x) {
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)truncate(x, 0);
}

void pl_load_i64(pl_dtype dtype, const void *from, int64_t *to, size_t n) {
    switch ((int)dtype) {
    case PL_I64:
    case PL_U64:
        if (n > 0) memcpy(to, from, n * sizeof *to);
        return;
    case PL_I32: LOAD_LOOP(pl_i32, p[i]); return;
    case PL_U32: LOAD_LOOP(pl_u32, p[i]); return;
    case PL_I16: LOAD_LOOP(pl_i16, p[i]); return;
    case PL_U16: LOAD_LOOP(pl_u16, p[i]); return;
    case PL_I8:
    case PL_I4:
    case PL_I2: LOAD_LOOP(pl_i8, p[i]); return;
    case PL_U8:
    case PL_U4:
    case PL_U2: LOAD_LOOP(pl_u8, p[i]); return;
    case PL_BOOL: LOAD_LOOP(pl_u8, p[i] != 0); return;
    default: break;
    }
    const char *at = from;
    double block[256];
    while (n > 0) {
        const size_t m = pl_size_min(n, 256);
        pl_load_f64(dtype, at, block, m);
        for (size_t i = 0; i < m; i++)
            to[i] = truncate(block[i], INT64_MIN);
        at += m * pl_dtype_bytes(dtype);
        to += m;
        n -= m;
    }
}
#undef LOAD_LOOP

/* ---- store ---- */

#define STORE_LOOP(elem, expression)                                                               \
    do {                                                                                           \
        elem *p = to;                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            p[i] = (expression);                                                                   \
    } while (0)

/* Sub-byte integers and float8 from doubles. */
static void store_f64_small(pl_dtype dtype, const double *from, void *to, size_t n) {
    const int64_t lowest = pl_dtype_int_min(dtype);
    switch ((int)dtype) {
    case PL_I4:
    case PL_I2: STORE_LOOP(pl_i8, (int8_t)wrap_small(dtype, truncate(from[i], lowest))); return;
    case PL_U4:
    case PL_U2: STORE_LOOP(pl_u8, (uint8_t)wrap_small(dtype, truncate(from[i], 0))); return;
    case PL_F8E4M3FN:
    case PL_F8E4M3FNUZ:
    case PL_F8E5M2:
    case PL_F8E5M2FNUZ:
    case PL_F8E8M0:
    case PL_F4E2M1: STORE_LOOP(pl_u8, pl_f8_from_f64(dtype, from[i], true, 'u')); return;
    default: return;
    }
}

void pl_store_f64(pl_dtype dtype, const double *from, void *to, size_t n) {
    switch ((int)dtype) {
    case PL_F64:
        if (n > 0) memcpy(to, from, n * sizeof *from);
        return;
    case PL_F32: STORE_LOOP(pl_f32, (float)from[i]); return;
    case PL_F16: STORE_LOOP(pl_u16, pl_f16_from_f64(from[i])); return;
    case PL_BF16: STORE_LOOP(pl_u16, pl_bf16_from_f64(from[i])); return;
    case PL_I64: STORE_LOOP(pl_i64, truncate(from[i], INT64_MIN)); return;
    case PL_U64: STORE_LOOP(pl_u64, truncate_u64(from[i])); return;
    case PL_I32: STORE_LOOP(pl_i32, (int32_t)truncate(from[i], INT32_MIN)); return;
    case PL_U32: STORE_LOOP(pl_u32, (uint32_t)truncate(from[i], 0)); return;
    case PL_I16: STORE_LOOP(pl_i16, (int16_t)truncate(from[i], INT16_MIN)); return;
    case PL_U16: STORE_LOOP(pl_u16, (uint16_t)truncate(from[i], 0)); return;
    case PL_I8: STORE_LOOP(pl_i8, (int8_t)truncate(from[i], INT8_MIN)); return;
    case PL_U8: STORE_LOOP(pl_u8, (uint8_t)truncate(from[i], 0)); return;
    case PL_BOOL: STORE_LOOP(pl_u8, from[i] != 0.0); return;
    case PL_C64:
        for (size_t i = 0; i < n; i++) {
            ((pl_f32 *)to)[2 * i] = (float)from[i];
            ((pl_f32 *)to)[2 * i + 1] = 0.0f;
        }
        return;
    case PL_C128:
        for (size_t i = 0; i < n; i++) {
            ((pl_f64 *)to)[2 * i] = from[i];
            ((pl_f64 *)to)[2 * i + 1] = 0.0;
        }
        return;
    default: store_f64_small(dtype, from, to, n); return;
    }
}

void pl_store_f32(pl_dtype dtype, const float *from, void *to, size_t n) {
    switch ((int)dtype) {
    case PL_F32:
        if (n > 0) memcpy(to, from, n * sizeof *from);
        return;
    case PL_F16: f16_from_f32_block(from, to, n); return;
    case PL_BF16: bf16_from_f32_block(from, to, n); return;
    case PL_F64: STORE_LOOP(pl_f64, (double)from[i]); return;
    case PL_BOOL: STORE_LOOP(pl_u8, from[i] != 0.0f); return;
    default: break;
    }
    char *at = to;
    double block[256];
    while (n > 0) {
        const size_t m = pl_size_min(n, 256);
        for (size_t i = 0; i < m; i++)
            block[i] = (double)from[i];
        pl_store_f64(dtype, block, at, m);
        at += m * pl_dtype_bytes(dtype);
        from += m;
        n -= m;
    }
}

/* Converts an integer to a double that rounds to any type of at most 51 bits like the integer
 * itself: bits that do not fit are or-ed into the last one (round to odd), so that the second
 * rounding sees no false tie. */
static double f64_for_rounding(uint64_t a) {
    if (a >> 53) a = (a & ~(uint64_t)0x7FF) | ((a & 0x7FF) != 0 ? 0x800 : 0);
    return (double)a;
}

static void store_integer_as_float(pl_dtype dtype, const uint64_t *from, bool is_signed, void *to,
                                   size_t n) {
    char *at = to;
    double block[256];
    while (n > 0) {
        const size_t m = pl_size_min(n, 256);
        for (size_t i = 0; i < m; i++) {
            const bool negative = is_signed && from[i] >> 63;
            const uint64_t a = negative ? -from[i] : from[i];
            const double x = dtype == PL_C128 ? (double)a : f64_for_rounding(a);
            block[i] = negative ? -x : x;
        }
        pl_store_f64(dtype, block, at, m);
        at += m * pl_dtype_bytes(dtype);
        from += m;
        n -= m;
    }
}

void pl_store_i64(pl_dtype dtype, const int64_t *from, void *to, size_t n) {
    switch ((int)dtype) {
    case PL_I64:
    case PL_U64:
        if (n > 0) memcpy(to, from, n * sizeof *from);
        return;
    case PL_I32:
    case PL_U32: STORE_LOOP(pl_u32, (uint32_t)from[i]); return;
    case PL_I16:
    case PL_U16: STORE_LOOP(pl_u16, (uint16_t)from[i]); return;
    case PL_I8:
    case PL_U8:
    case PL_I4:
    case PL_U4:
    case PL_I2:
    case PL_U2: STORE_LOOP(pl_u8, (uint8_t)wrap_small(dtype, from[i])); return;
    case PL_BOOL: STORE_LOOP(pl_u8, from[i] != 0); return;
    case PL_F64: STORE_LOOP(pl_f64, (double)from[i]); return;
    case PL_F32: STORE_LOOP(pl_f32, (float)from[i]); return;
    default: store_integer_as_float(dtype, (const uint64_t *)from, true, to, n); return;
    }
}

void pl_store_u64(pl_dtype dtype, const uint64_t *from, void *to, size_t n) {
    const pl_dtype_class cls = pl_dtype_class_of(dtype);
    if (dtype == PL_F32)
        STORE_LOOP(pl_f32, (float)from[i]);
    else if (dtype == PL_F64)
        STORE_LOOP(pl_f64, (double)from[i]);
    else if (cls == PL_CLASS_FLOAT || cls == PL_CLASS_COMPLEX)
        store_integer_as_float(dtype, from, false, to, n);
    else
        pl_store_i64(dtype, (const int64_t *)from, to, n);
}

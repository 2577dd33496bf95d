/* The table of element types, and conversion of single elements between the small floats and float.
 *
 * All narrow floats share one rounding routine that works on the bits of a double, so that every
 * conversion rounds exactly once (a double that goes through float first may round twice). */
#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    const char *safetensors;
    const char *npy;
    size_t n_bytes;
    unsigned bits;
    pl_dtype_class cls;
} dtype_row;

static const dtype_row dtype_rows[PL_DTYPE_COUNT] = {
    [PL_UNDEFINED] = { "undefined", "", "", 0, 0, PL_CLASS_NONE },
#define X(name, onnx, text, bits, bytes, cls, st, npy)                                             \
    [PL_##name] = { text, st, npy, bytes, bits, PL_CLASS_##cls },
#include "tensor/dtype.def"
#undef X
};

static const dtype_row *row_of(pl_dtype dtype) {
    const int i = (int)dtype;
    return &dtype_rows[i > 0 && i < PL_DTYPE_COUNT ? i : 0];
}

bool pl_dtype_valid(int64_t onnx_number) {
    return onnx_number > 0 && onnx_number < PL_DTYPE_COUNT;
}

const char *pl_dtype_name(pl_dtype dtype) {
    return row_of(dtype)->name;
}

pl_dtype pl_dtype_by_name(const char *name, size_t n) {
    for (int i = 1; i < PL_DTYPE_COUNT; i++) {
        const char *have = dtype_rows[i].name;
        if (strlen(have) == n && memcmp(have, name, n) == 0) return (pl_dtype)i;
    }
    return PL_UNDEFINED;
}

size_t pl_dtype_bytes(pl_dtype dtype) {
    return row_of(dtype)->n_bytes;
}

unsigned pl_dtype_bits(pl_dtype dtype) {
    return row_of(dtype)->bits;
}

pl_dtype_class pl_dtype_class_of(pl_dtype dtype) {
    return row_of(dtype)->cls;
}

const char *pl_dtype_safetensors(pl_dtype dtype) {
    return row_of(dtype)->safetensors;
}

const char *pl_dtype_npy(pl_dtype dtype) {
    return row_of(dtype)->npy;
}

int64_t pl_dtype_int_min(pl_dtype dtype) {
    if (row_of(dtype)->cls != PL_CLASS_INT) return 0;
    const unsigned bits = row_of(dtype)->bits;
    return bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
}

int64_t pl_dtype_int_max(pl_dtype dtype) {
    const dtype_row *row = row_of(dtype);
    if (row->cls == PL_CLASS_BOOL) return 1;
    if (row->cls != PL_CLASS_INT && row->cls != PL_CLASS_UINT) return 0;
    if (row->bits == 64) return INT64_MAX;
    return ((int64_t)1 << (row->cls == PL_CLASS_INT ? row->bits - 1 : row->bits)) - 1;
}

/* ---- the small floats ---- */

/* Layout of a float type: magnitude bits are exponent then mantissa; `max` is the largest finite
 * magnitude, `inf` the result of an overflow when not saturated, `nan` the canonical NaN. The FNUZ
 * types have one NaN, 0x80, and no negative zero. */
typedef struct small_float {
    int n_mantissa;
    int bias;
    uint32_t sign;
    uint32_t max, inf, nan;
    bool unsigned_zero;
} small_float;

/* clang-format off */
static const small_float float16    = { 10,  15, 0x8000, 0x7BFF, 0x7C00, 0x7E00, false };
static const small_float bfloat16   = {  7, 127, 0x8000, 0x7F7F, 0x7F80, 0x7FC0, false };
static const small_float e4m3fn     = {  3,   7,   0x80,   0x7E,   0x7F,   0x7F, false };
static const small_float e4m3fnuz   = {  3,   8,   0x80,   0x7F,   0x80,   0x80, true  };
static const small_float e5m2       = {  2,  15,   0x80,   0x7B,   0x7C,   0x7E, false };
static const small_float e5m2fnuz   = {  2,  16,   0x80,   0x7F,   0x80,   0x80, true  };
/* No infinity and no NaN: everything saturates. A NaN becomes -0 as in ONNX's test vectors
 * (test_cast_FLOAT_to_FLOAT4E2M1); the prose of ONNX's float4 note says 6. */
static const small_float e2m1       = {  1,   1,   0x08,   0x07,   0x07,   0x08, false };
/* clang-format on */

static const small_float *small_float_of(pl_dtype dtype) {
    switch ((int)dtype) {
    case PL_F16: return &float16;
    case PL_BF16: return &bfloat16;
    case PL_F8E4M3FN: return &e4m3fn;
    case PL_F8E4M3FNUZ: return &e4m3fnuz;
    case PL_F8E5M2: return &e5m2;
    case PL_F8E5M2FNUZ: return &e5m2fnuz;
    case PL_F4E2M1: return &e2m1;
    default: return NULL;
    }
}

static const uint64_t F64_MANTISSA = ((uint64_t)1 << 52) - 1;

/* Rounds a finite positive double to nearest even; the result may exceed the type's largest
 * magnitude, since a carry runs into the exponent as in all IEEE formats. */
static uint32_t round_magnitude(uint64_t bits, const small_float *to) {
    const int exponent = (int)(bits >> 52);
    if (exponent == 0) return 0; /* below 2^-1022: every target is coarser */
    const uint64_t significand = (bits & F64_MANTISSA) | (F64_MANTISSA + 1);
    const int target = exponent - 1023 + to->bias;
    int shift = 52 - to->n_mantissa;
    uint32_t base = 0;
    if (target >= 1) {
        base = ((uint32_t)target - 1) << to->n_mantissa; /* the implicit bit adds the last 1 */
    } else {
        shift += 1 - target;
        if (shift > 54) return 0;
    }
    uint32_t magnitude = base + (uint32_t)(significand >> shift);
    const uint64_t rest = significand & (((uint64_t)1 << shift) - 1);
    const uint64_t half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (magnitude & 1))) magnitude++;
    return magnitude;
}

static uint32_t small_float_from_f64(const small_float *to, double x, bool saturate) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 63 ? to->sign : 0;
    bits &= INT64_MAX;
    const uint64_t infinity = (uint64_t)0x7FF << 52;
    if (bits > infinity) return to->nan | (to->nan == to->sign ? 0 : sign);
    const uint32_t magnitude = bits == infinity ? UINT32_MAX : round_magnitude(bits, to);
    if (magnitude > to->max) {
        if (saturate) return sign | to->max;
        return to->inf | (to->inf == to->sign ? 0 : sign);
    }
    return magnitude == 0 && to->unsigned_zero ? 0 : sign | magnitude;
}

static float small_float_to_f32(const small_float *from, uint32_t bits) {
    const float sign = bits & from->sign ? -1.0f : 1.0f;
    const uint32_t magnitude = bits & (from->sign - 1);
    if (from->unsigned_zero) {
        if (bits == from->nan) return copysignf(NAN, -1.0f); /* NaN has the code of -0 */
    } else if (from->inf == from->nan) {
        if (magnitude == from->nan) return copysignf(NAN, sign);
    } else if (from->inf > from->max && magnitude >= from->inf) {
        return copysignf(magnitude == from->inf ? INFINITY : NAN, sign);
    }
    const uint32_t exponent = magnitude >> from->n_mantissa;
    uint32_t significand = magnitude & ((1u << from->n_mantissa) - 1);
    if (exponent > 0) significand += 1u << from->n_mantissa;
    const int scale = (exponent > 0 ? (int)exponent : 1) - from->bias - from->n_mantissa;
    return sign * ((float)significand * ldexpf(1.0f, scale));
}

float pl_f16_to_f32(uint16_t bits) {
    return small_float_to_f32(&float16, bits);
}

uint16_t pl_f16_from_f32(float x) {
    return (uint16_t)small_float_from_f64(&float16, (double)x, false);
}

uint16_t pl_f16_from_f64(double x) {
    return (uint16_t)small_float_from_f64(&float16, x, false);
}

float pl_bf16_to_f32(uint16_t bits) {
    return small_float_to_f32(&bfloat16, bits);
}

uint16_t pl_bf16_from_f32(float x) {
    return (uint16_t)small_float_from_f64(&bfloat16, (double)x, false);
}

uint16_t pl_bf16_from_f64(double x) {
    return (uint16_t)small_float_from_f64(&bfloat16, x, false);
}

static float e8m0_to_f32(uint8_t bits) {
    const uint32_t wide = bits == 0xFF ? 0x7FC00000u
                          : bits == 0  ? 0x00400000u
                                       : (uint32_t)bits << 23;
    float out;
    memcpy(&out, &wide, sizeof out);
    return out;
}

/* ONNX Cast-24, table for FLOAT8E8M0: zero, infinity and values outside [2^-127, 2^127] go to the
 * nearest end when saturated, to NaN when not. Negative values are unspecified; the sign is
 * dropped, as in ONNX's reference. Ties of 'n' go up. */
static uint8_t e8m0_from_f64(double x, bool saturate, char mode) {
    const double a = fabs(x);
    if (isnan(a)) return 0xFF;
    if (a > 0x1p127) return saturate ? 0xFE : 0xFF;
    if (a < 0x1p-127) return saturate ? 0x00 : 0xFF;
    uint64_t bits;
    memcpy(&bits, &a, sizeof bits);
    const int exponent = (int)(bits >> 52) - 1023 + 127;
    const uint64_t fraction = bits & F64_MANTISSA;
    bool up = false;
    if (mode == 'n')
        up = fraction >= ((uint64_t)1 << 51);
    else if (mode != 'd')
        up = fraction != 0;
    return (uint8_t)(exponent + (up ? 1 : 0));
}

float pl_f8_to_f32(pl_dtype dtype, uint8_t bits) {
    if (dtype == PL_F8E8M0) return e8m0_to_f32(bits);
    const small_float *from = small_float_of(dtype);
    return from ? small_float_to_f32(from, bits) : NAN;
}

uint8_t pl_f8_from_f64(pl_dtype dtype, double x, bool saturate, char mode) {
    if (dtype == PL_F8E8M0) return e8m0_from_f64(x, saturate, mode);
    const small_float *to = small_float_of(dtype);
    if (!to) return 0;
    return (uint8_t)small_float_from_f64(to, x, saturate);
}

double pl_dtype_unit_roundoff(pl_dtype dtype) {
    if (dtype == PL_F32) return 0x1p-24;
    if (dtype == PL_F64) return 0x1p-53;
    if (dtype == PL_F8E8M0) return 0x1p-1;
    const small_float *f = small_float_of(dtype);
    return f ? ldexp(1.0, -1 - f->n_mantissa) : 0.0;
}

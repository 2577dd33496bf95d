/* Element types and the conversions between them.
 *
 * Sub-byte integers are stored in memory as one int8 (I4, I2) or uint8 (U4, U2, F4E2M1) per
 * element. Rounding to a narrower float is to nearest, ties to even; overflow follows the type (F16
 * and BF16 to infinity; float8 as ONNX Cast with saturate=1 unless told otherwise). */
#ifndef PL_DTYPE_H
#define PL_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_string { /* bytes of a string element; need not be NUL-terminated */
    const char *data;
    size_t n_bytes;
} pl_string;

typedef enum pl_dtype {
    PL_UNDEFINED = 0,
#define X(name, onnx, text, bits, bytes, cls, st, npy) PL_##name = onnx,
#include "tensor/dtype.def"
#undef X
    PL_DTYPE_COUNT
} pl_dtype;

typedef enum pl_dtype_class {
    PL_CLASS_NONE = 0,
    PL_CLASS_FLOAT,
    PL_CLASS_INT,
    PL_CLASS_UINT,
    PL_CLASS_BOOL,
    PL_CLASS_STRING,
    PL_CLASS_COMPLEX
} pl_dtype_class;

/* Tensor data may have any alignment (weights are used straight from the mapped file), so kernels
 * read and write it only through these types. They cost nothing on x86 and still vectorise. */
#define PL_ELEMENT __attribute__((aligned(1), may_alias))
typedef float PL_ELEMENT pl_f32;
typedef double PL_ELEMENT pl_f64;
typedef int8_t PL_ELEMENT pl_i8;
typedef uint8_t PL_ELEMENT pl_u8;
typedef int16_t PL_ELEMENT pl_i16;
typedef uint16_t PL_ELEMENT pl_u16;
typedef int32_t PL_ELEMENT pl_i32;
typedef uint32_t PL_ELEMENT pl_u32;
typedef int64_t PL_ELEMENT pl_i64;
typedef uint64_t PL_ELEMENT pl_u64;

bool pl_dtype_valid(int64_t onnx_number);
const char *pl_dtype_name(pl_dtype dtype); /* "float", "bfloat16", …; "undefined" */
pl_dtype pl_dtype_by_name(const char *name, size_t n);
size_t pl_dtype_bytes(pl_dtype dtype);  /* of one element in memory */
unsigned pl_dtype_bits(pl_dtype dtype); /* of one element in a file; 0 for strings */
pl_dtype_class pl_dtype_class_of(pl_dtype dtype);
const char *pl_dtype_safetensors(pl_dtype dtype); /* "" when the format has none */
const char *pl_dtype_npy(pl_dtype dtype);
static inline bool pl_dtype_is_float(pl_dtype d) {
    return pl_dtype_class_of(d) == PL_CLASS_FLOAT;
}
static inline bool pl_dtype_is_integer(pl_dtype d) {
    const pl_dtype_class c = pl_dtype_class_of(d);
    return c == PL_CLASS_INT || c == PL_CLASS_UINT;
}
/* Range of an integer type (U64's maximum does not fit: it is INT64_MAX here). */
int64_t pl_dtype_int_min(pl_dtype dtype);
int64_t pl_dtype_int_max(pl_dtype dtype);
/* Unit roundoff of a float type: 2^-24 for F32, 2^-11 for F16, 2^-8 for BF16, … */
double pl_dtype_unit_roundoff(pl_dtype dtype);

/* One element; the reference for tests of the block conversions below. */
float pl_f16_to_f32(uint16_t bits);
uint16_t pl_f16_from_f32(float x);
uint16_t pl_f16_from_f64(double x); /* rounded once, not through float */
float pl_bf16_to_f32(uint16_t bits);
uint16_t pl_bf16_from_f32(float x);
uint16_t pl_bf16_from_f64(double x);
/* F8E4M3FN … F8E8M0, F4E2M1. saturate as in ONNX Cast-19; F8E8M0 rounds up/nearest/down by `mode`
 * of ONNX Cast-24 ('u','n','d'), which the others ignore. */
float pl_f8_to_f32(pl_dtype dtype, uint8_t bits);
uint8_t pl_f8_from_f64(pl_dtype dtype, double x, bool saturate, char mode);

/* Blocks of n contiguous elements, any numeric or bool type, no overlap.
 * Loads are exact where the target can hold the value. Stores: to_float types round to nearest
 * even; to integers from float truncate towards zero and wrap modulo 2^bits (values outside 64 bits
 * and NaN give the type's minimum, as x86 does); to bool is "not zero". A complex element loads as
 * its real part and is stored with a zero imaginary part. */
void pl_load_f32(pl_dtype dtype, const void *from, float *to, size_t n);
void pl_load_f64(pl_dtype dtype, const void *from, double *to, size_t n);
void pl_load_i64(pl_dtype dtype, const void *from, int64_t *to, size_t n); /* U64 bits kept */
void pl_store_f32(pl_dtype dtype, const float *from, void *to, size_t n);
void pl_store_f64(pl_dtype dtype, const double *from, void *to, size_t n);
void pl_store_i64(pl_dtype dtype, const int64_t *from, void *to, size_t n);
void pl_store_u64(pl_dtype dtype, const uint64_t *from, void *to, size_t n);

#endif

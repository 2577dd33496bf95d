/* Blocks of GGUF tensors to floats, and the table of types.
 *
 * A block is a scale (and often a minimum) in half precision and the integers that it scales. The
 * products and sums are single float operations in the order of llama.cpp: with -ffp-contract=off
 * the bits are the same. Offsets in a block are those of ggml-common.h. */
#include <string.h>

#include "base/le.h"
#include "tensor/file/gguf.h"

static float half_at(const uint8_t *p) {
    return pl_f16_to_f32((uint16_t)pl_le16(p));
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* ---- 32 elements, one scale ---- */

static void expand_q4_0(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        const int low = b[2 + i] & 15, high = b[2 + i] >> 4;
        to[i] = (float)(low - 8) * d;
        to[i + 16] = (float)(high - 8) * d;
    }
}

static void expand_q4_1(const uint8_t *b, float *to) {
    const float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++) {
        const int low = b[4 + i] & 15, high = b[4 + i] >> 4;
        to[i] = (float)low * d + m;
        to[i + 16] = (float)high * d + m;
    }
}

/* The fifth bits of all 32 elements are in one word. */
static int fifth(uint32_t word, int i) {
    return (int)(word >> i & 1) << 4;
}

static void expand_q5_0(const uint8_t *b, float *to) {
    const float d = half_at(b);
    const uint32_t word = pl_le32(b + 2);
    for (int i = 0; i < 16; i++) {
        const int low = (b[6 + i] & 15) | fifth(word, i);
        const int high = (b[6 + i] >> 4) | fifth(word, i + 16);
        to[i] = (float)(low - 16) * d;
        to[i + 16] = (float)(high - 16) * d;
    }
}

static void expand_q5_1(const uint8_t *b, float *to) {
    const float d = half_at(b), m = half_at(b + 2);
    const uint32_t word = pl_le32(b + 4);
    for (int i = 0; i < 16; i++) {
        const int low = (b[8 + i] & 15) | fifth(word, i);
        const int high = (b[8 + i] >> 4) | fifth(word, i + 16);
        to[i] = (float)low * d + m;
        to[i + 16] = (float)high * d + m;
    }
}

static void expand_q8_0(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 32; i++)
        to[i] = (float)(int8_t)b[2 + i] * d;
}

/* After the scale comes the scaled sum of the elements, used by dot products. */
static void expand_q8_1(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 32; i++)
        to[i] = (float)(int8_t)b[4 + i] * d;
}

static void expand_q1_0(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 128; i++)
        to[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

static void expand_q2_0(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 64; i++)
        to[i] = (float)((b[2 + i / 4] >> (2 * (i % 4)) & 3) - 1) * d;
}

/* ---- 256 elements, a scale for each 16 or 32 of them ---- */

/* Scale and minimum j of 8, six bits each in twelve bytes. */
static void scale_and_min(const uint8_t *packed, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        *min = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
}

static void expand_q2_k(const uint8_t *b, float *to) {
    const float d = half_at(b + 80), min = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        const int scales = b[i / 16], shift = 2 * (i % 128 / 32);
        const int q = b[16 + 32 * (i / 128) + i % 32] >> shift & 3;
        const float dl = d * (float)(scales & 15), ml = min * (float)(scales >> 4);
        to[i] = dl * (float)q - ml;
    }
}

static void expand_q3_k(const uint8_t *b, float *to) {
    const float d = half_at(b + 108);
    const uint8_t *packed = b + 96;
    for (int i = 0; i < 256; i++) {
        const int g = i / 16, shift = 2 * (i % 128 / 32);
        const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
        const int scale = low | (packed[8 + g % 4] >> (2 * (g / 4)) & 3) << 4;
        const int q = b[32 + 32 * (i / 128) + i % 32] >> shift & 3;
        const int high = b[i % 32] >> (i / 32) & 1;
        const float dl = d * (float)(scale - 32);
        to[i] = dl * (float)(q - (high ? 0 : 4));
    }
}

static void expand_q4_k(const uint8_t *b, float *to) {
    const float d = half_at(b), min = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        int scale, m;
        scale_and_min(b + 4, g, &scale, &m);
        const float dl = d * (float)scale, ml = min * (float)m;
        for (int i = 0; i < 32; i++) {
            const int q = b[16 + 32 * (g / 2) + i] >> (4 * (g % 2)) & 15;
            to[32 * g + i] = dl * (float)q - ml;
        }
    }
}

static void expand_q5_k(const uint8_t *b, float *to) {
    const float d = half_at(b), min = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        int scale, m;
        scale_and_min(b + 4, g, &scale, &m);
        const float dl = d * (float)scale, ml = min * (float)m;
        for (int i = 0; i < 32; i++) {
            const int low = b[48 + 32 * (g / 2) + i] >> (4 * (g % 2)) & 15;
            const int high = b[16 + i] >> g & 1;
            to[32 * g + i] = dl * (float)(low + 16 * high) - ml;
        }
    }
}

static void expand_q6_k(const uint8_t *b, float *to) {
    const float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
        const int low = b[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2)) & 15;
        const int high = b[128 + 32 * half + l] >> (2 * quarter) & 3;
        const int scale = (int8_t)b[192 + i / 16];
        to[i] = d * (float)scale * (float)((low | high << 4) - 32);
    }
}

static void expand_q8_k(const uint8_t *b, float *to) {
    const float d = float_of(pl_le32(b));
    for (int i = 0; i < 256; i++)
        to[i] = d * (float)(int8_t)b[4 + i];
}

/* ---- indices into sixteen values ---- */

static const int8_t iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113 };
/* Twice the values of float4e2m1. */
static const int8_t fp4_values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void expand_iq4_nl(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        to[i] = d * (float)iq4_values[b[2 + i] & 15];
        to[i + 16] = d * (float)iq4_values[b[2 + i] >> 4];
    }
}

static void expand_iq4_xs(const uint8_t *b, float *to) {
    const float d = half_at(b);
    const uint32_t high = pl_le16(b + 2);
    for (int g = 0; g < 8; g++) {
        const int low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
        const float dl = d * (float)((low | (int)(high >> (2 * g) & 3) << 4) - 32);
        const uint8_t *q = b + 8 + 16 * g;
        for (int i = 0; i < 16; i++) {
            to[32 * g + i] = dl * (float)iq4_values[q[i] & 15];
            to[32 * g + i + 16] = dl * (float)iq4_values[q[i] >> 4];
        }
    }
}

/* The scale is a power of two, halved because the values are doubled; 2^-128 and 2^-127 are
 * subnormal. */
static void expand_mxfp4(const uint8_t *b, float *to) {
    const uint32_t e = b[0];
    const float d = float_of(e < 2 ? UINT32_C(0x00200000) << e : (e - 1) << 23);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)fp4_values[b[1 + i] & 15] * d;
        to[i + 16] = (float)fp4_values[b[1 + i] >> 4] * d;
    }
}

/* The scale of 16 elements is a float8e4m3 without a sign, in which 127 is zero and 255, with the
 * sign bit that is not read, 480; halved, as above. */
static void expand_nvfp4(const uint8_t *b, float *to) {
    for (int g = 0; g < 4; g++) {
        const uint8_t *q = b + 4 + 8 * g;
        const float top = b[g] == 127 ? 0 : 480;
        const uint8_t code = b[g] & 127;
        const float d = (code == 127 ? top : pl_f8_to_f32(PL_F8E4M3FN, code)) * 0.5f;
        for (int i = 0; i < 8; i++) {
            to[16 * g + i] = (float)fp4_values[q[i] & 15] * d;
            to[16 * g + i + 8] = (float)fp4_values[q[i] >> 4] * d;
        }
    }
}

/* ---- ternary ---- */

/* Digit n of five base-3 digits that are kept as a fraction of 256. */
static float digit_of(uint8_t byte, int n, float d) {
    static const uint8_t powers[5] = { 1, 3, 9, 27, 81 };
    const uint8_t q = (uint8_t)(byte * powers[n]);
    return (float)((q * 3 >> 8) - 1) * d;
}

static void expand_tq1_0(const uint8_t *b, float *to) {
    const float d = half_at(b + 52);
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < 32; i++)
            to[32 * n + i] = digit_of(b[i], n, d);
        for (int i = 0; i < 16; i++)
            to[160 + 16 * n + i] = digit_of(b[32 + i], n, d);
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++)
            to[240 + 4 * n + i] = digit_of(b[48 + i], n, d);
}

static void expand_tq2_0(const uint8_t *b, float *to) {
    const float d = half_at(b + 64);
    for (int i = 0; i < 256; i++) {
        const int q = b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
        to[i] = (float)(q - 1) * d;
    }
}

/* ---- code books (IQ1, IQ2, IQ3) ---- */

#include "tensor/file/gguf_codebooks.inc"

/* Seven signs of eight; the last makes their number even. */
static unsigned signs_of(uint32_t code) {
    unsigned parity = code & 127;
    parity ^= parity >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (code & 127) | (parity & 1) << 7;
}

static void put_signed(const uint8_t *values, unsigned row, int n, int bits, float scale,
                       unsigned signs, float *to) {
    for (int i = 0; i < n; i++)
        to[i] = scale * (float)values[row >> (bits * i) & ((1U << bits) - 1)] *
                (signs >> i & 1 ? -1.0F : 1.0F);
}

static const uint8_t iq2_values[4] = { 8, 25, 43, 0 };

static void expand_iq2_xxs(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 2 + 8 * g;
        const uint32_t word = pl_le32(q + 4);
        const float db = d * (0.5F + (float)(word >> 28)) * 0.25F;
        for (int k = 0; k < 4; k++)
            put_signed(iq2_values, iq2_xxs_book[q[k]], 8, 2, db, signs_of(word >> 7 * k),
                       to + 32 * g + 8 * k);
    }
}

static void expand_iq2_xs(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 32; i++) {
        const unsigned q = (unsigned)pl_le16(b + 2 + 2 * i), scale = b[66 + i / 4] >> (i & 2) * 2;
        const float db = d * (0.5F + (float)(scale & 15)) * 0.25F;
        put_signed(iq2_values, iq2_xs_book[q & 511], 8, 2, db, signs_of(q >> 9), to + 8 * i);
    }
}

static void expand_iq2_s(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 32; i++) {
        const unsigned high = b[66 + i / 4] >> i % 4 * 2 & 3, scale = b[74 + i / 4] >> (i & 2) * 2;
        const float db = d * (0.5F + (float)(scale & 15)) * 0.25F;
        put_signed(iq2_values, iq2_s_book[b[2 + i] | high << 8], 8, 2, db, b[34 + i], to + 8 * i);
    }
}

static void expand_iq3_xxs(const uint8_t *b, float *to) {
    static const uint8_t values[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    const float d = half_at(b);
    for (int g = 0; g < 8; g++) {
        const uint32_t word = pl_le32(b + 66 + 4 * g);
        const float db = d * (0.5F + (float)(word >> 28)) * 0.5F;
        for (int k = 0; k < 8; k++)
            put_signed(values, iq3_xxs_book[b[2 + 8 * g + k]], 4, 3, db,
                       signs_of(word >> k / 2 * 7) >> k % 2 * 4, to + 32 * g + 4 * k);
    }
}

static void expand_iq3_s(const uint8_t *b, float *to) {
    static const uint8_t values[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    const float d = half_at(b);
    for (int i = 0; i < 64; i++) {
        const unsigned high = b[66 + i / 8] >> i % 8 & 1;
        const int scale = b[106 + i / 16] >> (i / 8 % 2 * 4) & 15;
        put_signed(values, iq3_s_book[b[2 + i] | high << 8], 4, 3, d * (float)(1 + 2 * scale),
                   b[74 + i / 2] >> i % 2 * 4, to + 4 * i);
    }
}

/* Ternary values and a shift that all eight share. */
static void put_shifted(unsigned row, float scale, float shift, float *to) {
    for (int i = 0; i < 8; i++)
        to[i] = scale * ((float)((int)(row >> 2 * i & 3) - 1) + shift);
}

static void expand_iq1_s(const uint8_t *b, float *to) {
    const float d = half_at(b);
    for (int i = 0; i < 32; i++) {
        const unsigned h = (unsigned)pl_le16(b + 34 + 2 * (i / 4));
        const unsigned row = iq1_book[b[2 + i] | (h >> i % 4 * 3 & 7) << 8];
        put_shifted(row, d * (float)(2 * (h >> 12 & 7) + 1), h & 0x8000 ? -0.125F : 0.125F,
                    to + 8 * i);
    }
}

/* The scale of all is in the upper bits of the four words of scales. */
static void expand_iq1_m(const uint8_t *b, float *to) {
    unsigned words[4], all = 0;
    for (int i = 0; i < 4; i++) {
        words[i] = (unsigned)pl_le16(b + 48 + 2 * i);
        all |= words[i] >> 12 << 4 * i;
    }
    const float d = pl_f16_to_f32((uint16_t)all);
    for (int i = 0; i < 32; i++) {
        const unsigned h = b[32 + i / 2] >> i % 2 * 4;
        const unsigned scale = words[i / 8] >> (i / 2 % 4 * 3) & 7;
        put_shifted(iq1_book[b[i] | (h & 7) << 8], d * (float)(2 * scale + 1),
                    h & 8 ? -0.125F : 0.125F, to + 8 * i);
    }
}

/* ---- the table ---- */

static const pl_gguf_type types[] = {
#define X(number, name, block, n_bytes, dtype, expand)                                             \
    { name, number, block, n_bytes, dtype, expand },
#include "tensor/file/gguf_types.def"
#undef X
};

const pl_gguf_type *pl_gguf_type_at(size_t i) {
    return i < sizeof types / sizeof *types ? &types[i] : NULL;
}

const pl_gguf_type *pl_gguf_type_of(uint32_t number) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}

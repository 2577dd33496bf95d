/* The maths of floats in emitted code, once for both kinds of value: one float, around which the
 * compiler vectorises, and a vector of 16, 8 or 4 (jit_lanes.c, jit_maths_avx2.c,
 * jit_maths_neon.c). Polynomials are those of src/kernels/simd/vfun_f32.h; tests compare the two.
 * $T is the type, $S its suffix, $I and $U integers of the same width. A loop is emitted in one
 * kind for all of its elements. */
#include <string.h>

#include "backends/jit/jit_print.h"

/* clang-format off */
static const char *const of_float[] = {
    "#define px_u_f32 px_u\n",
    "#define px_f_f32 px_f\n",
    "#define px_all_f32(c) (c)\n",
    "#define px_down_f32(x) -__builtin_fabsf(x)\n",
    "PX float px_of_i_f32(int32_t i) { return (float)i; }\n",
    "PX float px_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }\n",
    "PX float px_lt_f32(float a, float b, float x, float y) { return a < b ? x : y; }\n",
    "PX float px_eq_f32(float a, float b, float x, float y) { return a == b ? x : y; }\n",
    "PX float px_sign_f32(float a, float b) { return __builtin_copysignf(a, b); }\n",
    "#define px_signed_f32 px_sign_f32\n",
    "PX float px_relu_f32(float x) { return px_max_f32(x, 0); }\n",
    /* NaN in x is kept. */
    "PX float px_least_f32(float low, float x) { return x < low ? low : x; }\n",
    "PX float px_most_f32(float high, float x) { return high < x ? high : x; }\n",
    /* n is an integer, or NaN, which cannot be converted: so reads the low bits of the sum
     * instead. */
    "PX float px_scale_f32(float x, float n) {\n",
    "    const int32_t i = (int32_t)(px_u(n + 0x1.8p23f) - 0x4b400000u), half = i >> 1;\n",
    "    return x * px_f((uint32_t)(half + 127) << 23) * px_f((uint32_t)(i - half + 127) << 23);\n",
    "}\n",
    NULL,
};

/* Without <immintrin.h>, which costs gcc 124 ms. pv_max and pv_min give the second operand where
 * one is NaN or both are zero. */
static const char *const of_sixteen[] = {
    "typedef float pv __attribute__((vector_size(64)));\n",
    "typedef int32_t pvi __attribute__((vector_size(64)));\n",
    "typedef uint32_t pvu __attribute__((vector_size(64)));\n",
    "typedef uint16_t pm;\n",
    "typedef int16_t pvh __attribute__((vector_size(32)));\n",
    "typedef int16_t pvh_at __attribute__((vector_size(32), aligned(1), may_alias));\n",
    "#define PV(x) ((x) - (pv){ 0 })\n",
    "#ifdef __clang__\n",
    "#include <immintrin.h>\n",
    "#define pv_fma(a, b, c) _mm512_fmadd_ps(a, b, c)\n",
    "#define pv_max(a, b) _mm512_max_ps(a, b)\n",
    "#define pv_min(a, b) _mm512_min_ps(a, b)\n",
    "#define px_scale_v(a, b) _mm512_scalef_ps(a, b)\n",
    "#define px_sqrt_v(a) _mm512_sqrt_ps(PV(a))\n",
    "#define pv_round(a, how) _mm512_roundscale_ps(PV(a), how)\n",
    "#define pv_cmp(a, b, how) _mm512_cmp_ps_mask(a, b, how)\n",
    "#define pv_pick(k, a, b) _mm512_mask_blend_ps(k, b, a)\n",
    "#define pv_lookup(t, i) _mm512_permutexvar_ps((__m512i)(i), t)\n",
    "#define pv_rsqrt(a) _mm512_rsqrt14_ps(a)\n",
    "#define pv_halved(a) ((pv)_mm512_subs_epu16((__m512i)(a), _mm512_set1_epi32(0x800000)))\n",
    "#define pv_of_h(h) _mm512_cvtph_ps((__m256i)(h))\n",
    "#define pv_h_of(v) ((pvh)_mm512_cvtps_ph(v, 0))\n",
    "#define pv_load(at) _mm512_loadu_ps(at)\n",
    "#define pv_load_some(at, k) _mm512_maskz_loadu_ps(k, at)\n",
    "#define pv_store(at, v) _mm512_storeu_ps(at, v)\n",
    "#define pv_store_some(at, k, n, v) _mm512_mask_storeu_ps(at, k, v)\n",
    "#define pv_turn(v, n) __builtin_shufflevector(v, v, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, \\\n",
    "    n + 7, n + 8, n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15)\n",
    "#else\n",
    "typedef float pv_at __attribute__((vector_size(64), aligned(1), may_alias));\n",
    "#define pv_fma(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (pm)-1, 4)\n",
    "#define pv_max(a, b) __builtin_ia32_maxps512_mask(a, b, (pv){ 0 }, (pm)-1, 4)\n",
    "#define pv_min(a, b) __builtin_ia32_minps512_mask(a, b, (pv){ 0 }, (pm)-1, 4)\n",
    "#define px_scale_v(a, b) __builtin_ia32_scalefps512_mask(a, b, (pv){ 0 }, (pm)-1, 4)\n",
    "#define px_sqrt_v(a) __builtin_ia32_sqrtps512_mask(PV(a), (pv){ 0 }, (pm)-1, 4)\n",
    "#define pv_round(a, how) __builtin_ia32_rndscaleps_mask(PV(a), how, (pv){ 0 }, (pm)-1, 4)\n",
    "#define pv_cmp(a, b, how) __builtin_ia32_cmpps512_mask(a, b, how, (pm)-1, 4)\n",
    "#define pv_pick(k, a, b) __builtin_ia32_blendmps_512_mask(b, a, k)\n",
    "#define pv_lookup(t, i) __builtin_ia32_permvarsf512_mask(t, i, (pv){ 0 }, (pm)-1)\n",
    "typedef int16_t pvs __attribute__((vector_size(64)));\n",
    "#define pv_rsqrt(a) __builtin_ia32_rsqrt14ps512_mask(a, (pv){ 0 }, (pm)-1)\n",
    "#define pv_halved(a) ((pv)__builtin_ia32_psubusw512_mask((pvs)(a), (pvs)(0x800000 + (pvi){ 0 }), (pvs){ 0 }, -1))\n",
    "#define pv_of_h(h) __builtin_ia32_vcvtph2ps512_mask(h, (pv){ 0 }, (pm)-1, 4)\n",
    "#define pv_h_of(v) __builtin_ia32_vcvtps2ph512_mask(v, 0, (pvh){ 0 }, (pm)-1)\n",
    "#define pv_load(at) (*(const pv_at *)(at))\n",
    "#define pv_load_some(at, k) __builtin_ia32_loadups512_mask((const float *)(at), (pv){ 0 }, k)\n",
    "#define pv_store(at, v) (*(pv_at *)(at) = (v))\n",
    "#define pv_store_some(at, k, n, v) __builtin_ia32_storeups512_mask((float *)(at), v, k)\n",
    "#define pv_turn(v, n) __builtin_shuffle(v, (pvi){ n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, \\\n",
    "    n + 7, n + 8, n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15 } & 15)\n",
    "#endif\n",
    "#define pv_rest(n) ((pm)((1u << (n)) - 1))\n",
    "#define pm_any(k) ((k) != 0)\n",
    "#define PV_HALVE(op, a) a = op(a, pv_turn(a, 8)); a = op(a, pv_turn(a, 4));\n",
    NULL,
};

/* Halves in vectors on x86-64: rounded to nearest even, as px_f16_of does. */
static const char *const of_halves[] = {
    "#define pv_load_f16(at) pv_of_h(*(const pvh_at *)(at))\n",
    "#define pv_store_f16(at, v) (*(pvh_at *)(at) = pv_h_of(PV(v)))\n",
    "#define px_round_f16_v(x) pv_of_h(pv_h_of(PV(x)))\n",
    "PX pv pv_load_f16_some(const pu16 *at, int64_t n) {\n",
    "    pvh h = { 0 };\n",
    "    for (int64_t i = 0; i < n; i++) h[i] = (int16_t)at[i];\n",
    "    return pv_of_h(h);\n",
    "}\n",
    "PX void pv_store_f16_some(pu16 *at, int64_t n, pv v) {\n",
    "    const pvh h = pv_h_of(v);\n",
    "    for (int64_t i = 0; i < n; i++) at[i] = (uint16_t)h[i];\n",
    "}\n",
    NULL,
};

static const char *const of_lanes[] = {
    "#define PV_EACH(n) _Pragma(\"GCC unroll 8\") for (int u = 0; u < n; u++)\n",
    "#define pv_nan(a) pv_cmp(a, a, 3)\n",
    /* reduces all lanes to one number, in a fixed order */
    "#define PV_ALL(name, op) \\\n",
    "    PX float pv_##name##_all(pv a) { \\\n",
    "        PV_HALVE(op, a) \\\n",
    "        a = op(a, pv_turn(a, 2)); \\\n",
    "        return op(a, pv_turn(a, 1))[0]; \\\n",
    "    } \\\n",
    "    PX float pv_##name##_four(const pv *a) { return pv_##name##_all(op(op(a[0], a[1]), op(a[2], a[3]))); }\n",
    "#define pv_add(a, b) ((a) + (b))\n",
    "#define pv_mul(a, b) ((a) * (b))\n",
    "PV_ALL(add, pv_add) PV_ALL(mul, pv_mul) PV_ALL(max, pv_max) PV_ALL(min, pv_min)\n",
    "#define px_u_v(x) ((pvu)(x))\n",
    "#define px_f_v(u) ((pv)(u))\n",
    "#define pv_ahead(p, n) __builtin_prefetch((const void *)((uintptr_t)(p) + 4 * (uintptr_t)(n)))\n",
    "#define pv_ahead_to_write(p, n) __builtin_prefetch((const void *)((uintptr_t)(p) + 4 * (uintptr_t)(n)), 1)\n",
    "#define px_all_v(c) PV(c)\n",
    "#define px_down_v(x) ((pv)((pvu)(x) | 0x80000000u))\n",
    "#define px_of_i_v(i) __builtin_convertvector(i, pv)\n",
    "#define px_fma_v(a, b, c) pv_fma(PV(a), PV(b), PV(c))\n",
    "#define px_lt_v(a, b, x, y) pv_pick(pv_cmp(PV(a), PV(b), 17), PV(x), PV(y))\n",
    "#define px_eq_v(a, b, x, y) pv_pick(pv_cmp(PV(a), PV(b), 0), PV(x), PV(y))\n",
    "#define px_abs_v(x) ((pv)((pvu)PV(x) & 0x7fffffffu))\n",
    "#define px_sign_v(a, b) ((pv)(((pvu)(a) & 0x7fffffffu) | ((pvu)(b) & 0x80000000u)))\n",
    /* for a that is not negative */
    "#define px_signed_v(a, b) ((pv)((pvu)(a) | ((pvu)(b) & 0x80000000u)))\n",
    "#define px_least_v(low, x) pv_max(PV(low), x)\n",
    "#define px_most_v(high, x) pv_min(PV(high), x)\n",
    "#define px_floor_v(x) pv_round(x, 9)\n",
    "#define px_ceil_v(x) pv_round(x, 10)\n",
    "#define px_rint_v(x) pv_round(x, 8)\n",
    "PX pv pv_larger(pv a, pv b) { return pv_pick(pv_nan(a), a, pv_max(a, b)); }\n",
    "PX pv pv_smaller(pv a, pv b) { return pv_pick(pv_nan(a), a, pv_min(a, b)); }\n",
    /* -0 becomes 0. */
    "#define px_relu_v(x) (px_ramp_v(x) + 0.0f)\n",
    "#define px_ramp_v(x) pv_max(PV(0.0f), PV(x))\n",
    /* A constant that is neither zero nor NaN: one instruction. */
    "#define PV_PLAIN(b) (__builtin_constant_p(b) && ((b) < 0 || (b) > 0))\n",
    "PX pv pv_larger_1(pv a, float b) { return PV_PLAIN(b) ? pv_max(PV(b), a) : pv_larger(a, PV(b)); }\n",
    "PX pv pv_smaller_1(pv a, float b) { return PV_PLAIN(b) ? pv_min(PV(b), a) : pv_smaller(a, PV(b)); }\n",
    "#define px_max_v(a, b) _Generic((b), pv: pv_larger, default: pv_larger_1)(PV(a), b)\n",
    "#define px_min_v(a, b) _Generic((b), pv: pv_smaller, default: pv_smaller_1)(PV(a), b)\n",
    NULL,
};

static const char *const of_both[] = {
    "PX $T px_unit_$S($T x) { return px_most_$S(1.0f, px_least_$S(0.0f, x)); }\n",
    /* exp = p * 2^n */
    "typedef struct { $T p, lo, n; } px_exp2_$S;\n",
    "PX $T px_exp_rest_$S($T x, $T n) { return px_fma_$S(n, -0x1.7f7d1cp-20f, px_fma_$S(n, -0x1.62e4p-1f, x)); }\n",
    /* e^r - 1 */
    "PX $T px_exp_poly_$S($T r) {\n",
    "    $T p = px_fma_$S(0.0013813926f, r, 0.008369042f);\n",
    "    p = px_fma_$S(p, r, 0.04166842f);\n",
    "    p = px_fma_$S(p, r, 0.16666518f);\n",
    "    p = px_fma_$S(p, r, 0.49999994f);\n",
    "    return px_fma_$S(p, r * r, r);\n",
    "}\n",
    "PX px_exp2_$S px_exp_parts_$S($T x) {\n",
    "    x = px_most_$S(89.0f, px_least_$S(-170.0f, x));\n",
    "    const $T n = px_fma_$S(x, 0x1.715476p0f, 0x1.8p23f) - 0x1.8p23f;\n",
    "    const $T p = px_exp_poly_$S(px_exp_rest_$S(x, n)), one = p + 1.0f;\n",
    "    return (px_exp2_$S){ one, p - (one - 1.0f), n };\n",
    "}\n",
    NULL,
};

/* 2^n. magic = 1.5 * 2^23 + bias: the low bits of the sum are n + bias, which shifted are 2^n. */
static const char *const exp_of_float[] = {
    "PX float px_exp_magic(float x, float magic) {\n",
    "    const float z = px_fma_f32(x, 0x1.715476p0f, magic);\n",
    "    return (px_exp_poly_f32(px_exp_rest_f32(x, z - magic)) + 1.0f) * px_f(px_u(z) << 23);\n",
    "}\n",
    /* Two factors, 2^(n/2) and the rest, so that overflow and underflow round once. */
    "PX float px_exp_f32(float x) {\n",
    "    const float t = px_most_f32(89.0f, px_least_f32(-104.0f, x)), z = px_fma_f32(t, 0x1.715476p0f, 0x1.8p23f);\n",
    "    const float p = px_exp_poly_f32(px_exp_rest_f32(t, z - 0x1.8p23f)) + 1.0f;\n",
    "    const uint32_t half = ((px_u(z) << 22) + 0x3f800000u) & 0xff800000u;\n",
    "    return p * px_f(half) * px_f((px_u(z) << 23) + 0x7f000000u - half);\n",
    "}\n",
    /* For |x| below 87: one factor. */
    "PX float px_exp_mid_f32(float x) { return px_exp_magic(x, 12583039.0f); }\n",
    /* 2^64 e^x for x up to 0; px_exp_share is e^x times any power of two, the same for all x. */
    "PX float px_exp_share_f32(float x) { return px_exp_magic(px_least_f32(-104.0f, x), 12583103.0f); }\n",
    "PX float px_exp_down_f32(float x) { return px_exp_share_f32(x) * 0x1p-64f; }\n",
    "PX float px_sigmoid_f32(float x) {\n",
    "    const float e = px_exp_down_f32(px_down_f32(x));\n",
    "    return px_lt_f32(x, 0.0f, e, 1.0f) / (1.0f + e);\n",
    "}\n",
    NULL,
};
/* n in sixteenths, whose lowest four bits choose from a table; vscalefps takes the floor. Half as
 * many products as the polynomial, 1.09 ulp. r is the rest with one product, which is enough in the
 * terms of second order; to the first one the other product is added beside them. */
static const char *const exp_of_sixteen[] = {
    "PX pv pv_sixteenths(void) {\n",
    "    return (pv){ 0x1p0f, 0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f, 0x1.306fe0p0f, 0x1.3dea64p0f, 0x1.4bfdaep0f, 0x1.5ab07ep0f,\n",
    "                 0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f, 0x1.ae89fap0f, 0x1.c199bep0f, 0x1.d5818ep0f, 0x1.ea4afap0f };\n",
    "}\n",
    "PX pv pv_exp_less_one(pv n, pv x) {\n",
    "    const pv r = px_fma_v(n, -0x1.62e43p-1f, x);\n",
    "    return px_fma_v(px_fma_v(r, 0x1.5555p-3f, 0.5f), r * r, px_fma_v(n, 0x1.05c61p-29f, r));\n",
    "}\n",
    /* In three parts (jit_pipeline.c). */
    "#define pv_share_power(x) px_fma_v(x, 0x1.715476p0f, 0x1.8p19f)\n",
    "#define pv_share_rest(x, z) pv_exp_less_one((z) - 0x1.8p19f, x)\n",
    "PX pv pv_exp_end(pv r, pv z) {\n",
    "    const pv p = pv_lookup(pv_sixteenths(), (pvi)z);\n",
    "    return px_scale_v(px_fma_v(p, r, p), z - 0x1.8p19f);\n",
    "}\n",
    "PX pv px_exp_mid_v(pv x) {\n",
    "    const pv z = pv_share_power(x);\n",
    "    return pv_exp_end(pv_share_rest(x, z), z);\n",
    "}\n",
    "PX pv px_exp_v(pv x) { return px_exp_mid_v(px_most_v(89.0f, px_least_v(-104.0f, x))); }\n",
    "PX pv px_exp_down_v(pv x) { return px_exp_mid_v(px_least_v(-104.0f, x)); }\n",
    "#define px_exp_share_v px_exp_down_v\n",
    /* 2^-64 e^-x for x in [-130, 40]: adds the bits of z to the exponent, which is cheaper than
     * vscalefps. */
    "PX pv pv_far_power(pv x) { return px_fma_v(x, -0x1.715476p0f, 0x1.8p19f); }\n",
    "PX pv pv_far_rest(pv x, pv z) { return pv_exp_less_one(z - 0x1.8p19f, -x); }\n",
    "PX pv pv_far_end(pv r, pv z) {\n",
    "    const pvi i = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };\n",
    "    const pv p = (pv)((pvi)pv_lookup((pv)((pvi)pv_sixteenths() - (i << 19) - (64 << 23)), (pvi)z) + ((pvi)z << 19));\n",
    "    return px_fma_v(p, r, p);\n",
    "}\n",
    "PX pv pv_exp_far(pv x) {\n",
    "    const pv z = pv_far_power(x);\n",
    "    return pv_far_end(pv_far_rest(x, z), z);\n",
    "}\n",
    /* 1 / (1 + e^-x), numerator and denominator times 2^-64, so that nothing overflows before the
     * quotient is 0. */
    "PX pv px_sigmoid_v(pv x) { return 0x1p-64f / (pv_exp_far(px_most_v(40.0f, px_least_v(-105.0f, x))) + 0x1p-64f); }\n",
    "PX pv px_one_exp_less_v(pv x) {\n",
    "    return px_fma_v(pv_exp_far(px_most_v(40.0f, px_least_v(-100.0f, x))), 0x1p64f, 1.0f);\n",
    "}\n",
    "#define px_one_exp_v(x) px_one_exp_less_v(-(x))\n",
    /* a / sqrt(f): 14 bits and one Newton step. pv_halved keeps 0 and makes infinity finite, so
     * that the correction is not NaN where y is 0 or infinite. */
    "PX pv pv_root(pv f) {\n",
    "    const pv y = pv_rsqrt(f), h = pv_halved(y), e = px_fma_v(-(px_most_v(0x1.fffffep127f, f) * h), h, 0.25f);\n",
    "    return px_fma_v(y + y, e, y);\n",
    "}\n",
    "#define pv_by_root(a, y) (PV(a) * (y))\n",
    "#define px_over_root_v(a, f) pv_by_root(a, pv_root(f))\n",
    NULL,
};

static const char *const more_of_both[] = {
    /* e^x - 1 for |x| below 87 */
    "PX $T px_exp_less_one_$S($T x) {\n",
    "    const $T z = px_fma_$S(x, 0x1.715476p0f, 12583039.0f), t = px_f_$S(px_u_$S(z) << 23);\n",
    "    return px_fma_$S(px_exp_poly_$S(px_exp_rest_$S(x, z - 12583039.0f)), t, t - 1.0f);\n",
    "}\n",
    "PX $T px_log_poly_$S($T f, $T k) {\n",
    "    $T q = px_fma_$S(-0.07634497f, f, 0.12761576f);\n",
    "    q = px_fma_$S(q, f, -0.13160183f);\n",
    "    q = px_fma_$S(q, f, 0.14201757f);\n",
    "    q = px_fma_$S(q, f, -0.16623357f);\n",
    "    q = px_fma_$S(q, f, 0.20001227f);\n",
    "    q = px_fma_$S(q, f, -0.2500082f);\n",
    "    q = px_fma_$S(q, f, 0.3333333f);\n",
    "    const $T s = f * f, r = px_fma_$S(s * f, q, k * 0x1.7f7d1cp-20f);\n",
    "    return px_fma_$S(k, 0x1.62e4p-1f, px_fma_$S(s, -0.5f, r) + f);\n",
    "}\n",
    "PX $T px_log_$S($T x) {\n",
    "    const $T m0 = px_lt_$S(x, 0x1p-126f, x * 0x1p23f, x), k0 = px_lt_$S(x, 0x1p-126f, -23.0f, 0.0f);\n",
    "    const $I e = ($I)(px_u_$S(m0) - 0x3f3504f3u) >> 23;\n",
    "    const $T m = px_f_$S(px_u_$S(m0) - (($U)e << 23));\n",
    "    $T r = px_log_poly_$S(m - 1.0f, k0 + px_of_i_$S(e));\n",
    "    r = px_lt_$S(x, __builtin_inff(), r, x);\n",
    "    r = px_lt_$S(x, 0.0f, __builtin_nanf(\"\"), r);\n",
    "    return px_eq_$S(x, 0.0f, -__builtin_inff(), r);\n",
    "}\n",
    /* With e = e^2|x| - 1: no branch for small x, and one division. The reduction with one product
     * leaves an error of 2.8e-9 of 2|x| in e + 1, which is 2.8e-9 in the quotient. */
    "PX $T px_tanh_power_$S($T x) {\n",
    "    const $T c = px_most_$S(10.0f, px_abs_$S(x));\n",
    "    return px_fma_$S(c + c, 0x1.715476p0f, 12583039.0f);\n",
    "}\n",
    "PX $T px_tanh_rest_$S($T x, $T z) {\n",
    "    const $T c = px_most_$S(10.0f, px_abs_$S(x));\n",
    "    return px_fma_$S(z - 12583039.0f, -0x1.62e43p-1f, c + c);\n",
    "}\n",
    "PX $T px_tanh_end_$S($T r, $T z) {\n",
    "    const $T t = px_f_$S(px_u_$S(z) << 23);\n",
    "    return px_fma_$S(px_exp_poly_$S(r), t, t - 1.0f);\n",
    "}\n",
    "PX $T px_tanh_$S($T x) {\n",
    "    const $T z = px_tanh_power_$S(x), e = px_tanh_end_$S(px_tanh_rest_$S(x, z), z);\n",
    "    return px_signed_$S(e / (e + 2.0f), x);\n",
    "}\n",
    "PX $T px_erf_$S($T x) {\n",
    "    const $T a = px_abs_$S(x), s = x * x, c = px_most_$S(4.0f, a);\n",
    "    $T q = px_fma_$S(-0.00059537677f, s, 0.0049859467f);\n",
    "    q = px_fma_$S(q, s, -0.026761726f);\n",
    "    q = px_fma_$S(q, s, 0.112816826f);\n",
    "    q = px_fma_$S(q, s, -0.3761248f);\n",
    "    q = px_fma_$S(q, s, 0.12837915f);\n",
    "    $T r = px_fma_$S(-1.1231308e-05f, c, 0.0003228039f);\n",
    "    r = px_fma_$S(r, c, -0.0036424594f);\n",
    "    r = px_fma_$S(r, c, 0.023762064f);\n",
    "    r = px_fma_$S(r, c, -0.106236875f);\n",
    "    r = px_fma_$S(r, c, -0.6351513f);\n",
    "    r = px_fma_$S(r, c, -1.1286485f);\n",
    "    const $T large = 1.0f - px_exp_mid_$S(r * c);\n",
    "    return px_lt_$S(a, 0.92f, px_fma_$S(q, x, x), px_signed_$S(large, x));\n",
    "}\n",
    "PX $T px_logistic_$S($T num, $T v, $T lo) {\n",
    "    const px_exp2_$S e = px_exp_parts_$S(px_down_$S(v));\n",
    "    const $T p_lo = px_fma_$S(e.p, px_lt_$S(v, 0.0f, lo, -lo), e.lo), hi = num * e.p;\n",
    "    const $T top = px_lt_$S(v, 0.0f, hi, num);\n",
    "    const $T top_lo = px_lt_$S(v, 0.0f, px_fma_$S(num, p_lo, px_fma_$S(num, e.p, -hi)), 0.0f);\n",
    "    const $T f = px_scale_$S(e.p, e.n), d = 1.0f + f, d_lo = f - (d - 1.0f), r = 1.0f / d;\n",
    "    const $T q = top * r;\n",
    "    const $T rest = px_fma_$S(-q, d, top) + px_fma_$S(-q, d_lo, top_lo);\n",
    "    return px_scale_$S(px_fma_$S(rest, r, q), px_lt_$S(v, 0.0f, e.n, 0.0f));\n",
    "}\n",
    "PX $T px_hold_$S($T x) { return px_most_$S(0x1.fffffep127f, px_least_$S(-200.0f, x)); }\n",
    "PX $T px_at_inf_$S($T x, $T y) {\n",
    "    const $T a = px_abs_$S(x);\n",
    "    return px_lt_$S(a, __builtin_inff(), px_sign_$S(y, x), x + a);\n",
    "}\n",
    "PX $T px_silu_$S($T x) { return px_at_inf_$S(x, px_logistic_$S(px_hold_$S(x), x, px_all_$S(0.0f))); }\n",
    "PX $T px_gelu_$S($T x) {\n",
    "    const $T a = px_abs_$S(x), t = px_most_$S(16.0f, a), s = t * t, s_lo = px_fma_$S(t, t, -s);\n",
    "    const px_exp2_$S e = px_exp_parts_$S(-0.5f * s);\n",
    "    const $T d = t + 5.0f, d_lo = t - (d - 5.0f), inv = 1.0f / d;\n",
    "    const $T inv_lo = px_fma_$S(-inv, d, 1.0f) - inv * d_lo;\n",
    "    const $T u = px_fma_$S(-10.0f * inv, inv_lo, px_fma_$S(-10.0f, inv, 1.0f));\n",
    "    $T g = px_fma_$S(9.203706e-05f, u, 0.00062077126f);\n",
    "    g = px_fma_$S(g, u, -0.00086988835f);\n",
    "    g = px_fma_$S(g, u, -0.0030527546f);\n",
    "    g = px_fma_$S(g, u, 0.020805456f);\n",
    "    g = px_fma_$S(g, u, -0.06910501f);\n",
    "    g = px_fma_$S(g, u, 0.16501993f);\n",
    "    g = px_fma_$S(g, u, -0.31353432f);\n",
    "    g = px_fma_$S(g, u, 0.49530563f);\n",
    "    g = px_fma_$S(g, u, -0.6653825f);\n",
    "    g = px_fma_$S(g, u, 0.76919305f);\n",
    "    const $T p = px_fma_$S(e.p, inv_lo - 0.5f * s_lo, e.lo), c = t * (g * inv);\n",
    "    const $T h = px_scale_$S(px_fma_$S(c, e.p, c * p), e.n);\n",
    "    $T q = px_fma_$S(0.00010140816f, s, -0.001179323f);\n",
    "    q = px_fma_$S(q, s, 0.009971508f);\n",
    "    q = px_fma_$S(q, s, -0.06649016f);\n",
    "    q = px_fma_$S(q, s, 0.39894226f);\n",
    "    const $T small = px_fma_$S(s, q, 0.5f * x), y = px_lt_$S(0.0f, x, x - h, -h);\n",
    "    return px_at_inf_$S(x, px_lt_$S(a, 0.75f, small, y));\n",
    "}\n",
    "PX $T px_gelu_tanh_$S($T x) {\n",
    "    const $T t = px_most_$S(12.0f, px_least_$S(-12.0f, x)), s = t * t, s_lo = px_fma_$S(t, t, -s);\n",
    "    const $T m = 0x1.2444f2p-4f * s, w = 0x1.988454p+0f + m, m1 = w - 0x1.988454p+0f;\n",
    "    $T w_lo = (0x1.988454p+0f - (w - m1)) + (m - m1);\n",
    "    w_lo += px_fma_$S(0x1.2444f2p-4f, s, -m) + (px_fma_$S(0x1.2444f2p-4f, s_lo, 0x1.49b16ap-29f * s) + -0x1.857936p-25f);\n",
    "    const $T v = t * w, v_lo = px_fma_$S(t, w_lo, px_fma_$S(t, w, -v));\n",
    "    return px_at_inf_$S(x, px_logistic_$S(px_hold_$S(x), v, v_lo));\n",
    "}\n",
    "PX $T px_softplus_$S($T x) {\n",
    "    const $T e = px_exp_down_$S(px_down_$S(x));\n",
    "    const $T f = px_lt_$S(0.41421356f, e, px_fma_$S(e, 0.5f, -0.5f), e);\n",
    "    const $T r = px_log_poly_$S(f, px_lt_$S(0.41421356f, e, 1.0f, 0.0f));\n",
    "    return px_lt_$S(0.0f, x, x + r, r);\n",
    "}\n",
    "PX $T px_elu_$S($T x, float width, float below, float above) {\n",
    "    const $T e = px_exp_less_one_$S(px_least_$S(-80.0f, px_lt_$S(x, 0.0f, x, 0.0f) / width));\n",
    "    return px_lt_$S(x, 0.0f, below * e, above * x);\n",
    "}\n",
    "PX $T px_mish_$S($T x) {\n",
    "    const $T w = px_exp_$S(x), t = w * (w + 2.0f);\n",
    "    return px_lt_$S(20.0f, x, x, x * (t / (t + 2.0f)));\n",
    "}\n",
    NULL,
};

static const struct kind {
    const char *type, *suffix, *integer, *bits;
} kinds[] = { { "float", "f32", "int32_t", "uint32_t" }, { "pv", "v", "pvi", "pvu" } };
/* clang-format on */

static void put_lines(pl_buf *out, const char *const *lines, const struct kind *kind) {
    for (; *lines != NULL; lines++)
        for (const char *at = *lines; *at != '\0'; at++) {
            if (*at != '$') {
                pl_buf_putc(out, *at);
                continue;
            }
            at++;
            pl_buf_puts(out, *at == 'T'   ? kind->type
                             : *at == 'S' ? kind->suffix
                             : *at == 'I' ? kind->integer
                                          : kind->bits);
        }
}

void jit_put_maths(pl_buf *out, int lanes) {
    const struct kind *kind = &kinds[lanes > 1];
    if (lanes > 1) {
        put_lines(out,
                  lanes == 16  ? of_sixteen
                  : lanes == 8 ? jit_lanes_avx2
                               : jit_lanes_neon,
                  kind);
    }
    put_lines(out, lanes > 1 ? of_lanes : of_float, kind);
    if (lanes >= 8) put_lines(out, of_halves, kind);
    put_lines(out, of_both, kind);
    put_lines(out, lanes == 16 ? exp_of_sixteen : lanes > 1 ? jit_exp_avx2 : exp_of_float, kind);
    put_lines(out, more_of_both, kind);
}

/* Functions available for vectors, by the part of the name before $S. */
bool jit_maths_has(const char *name, size_t n) {
    static const char *const names[] = {
        "abs",     "ceil",      "elu",      "erf",  "exp",  "exp_down", "exp_share", "floor",
        "gelu",    "gelu_tanh", "log",      "max",  "min",  "mish",     "relu",      "rint",
        "sigmoid", "silu",      "softplus", "sqrt", "tanh", "unit",
    };
    if (n < 4 || strncmp(name, "px_", 3) != 0 || name[n - 1] != '_') return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n - 4 && strncmp(names[i], name + 3, n - 4) == 0) return true;
    return false;
}

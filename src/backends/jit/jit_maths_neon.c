/* Prelude of emitted code on vectors of 4 floats (NEON), in place of the forms for 8 lanes; exp and
 * what follows it are those of jit_maths_avx2.c, so the bits are the same. */
#include "backends/jit/jit_print.h"

/* clang-format off */
/* <arm_neon.h> costs gcc 110 ms: it is included only where the compiler has not these names. A mask
 * is a vector; stores take a number of lanes. pv_max and pv_min give the second operand where one
 * is NaN or both are zero, unlike fmax. */
const char *const jit_lanes_neon[] = {
    "typedef float pv __attribute__((vector_size(16)));\n",
    "typedef int32_t pvi __attribute__((vector_size(16)));\n",
    "typedef uint32_t pvu __attribute__((vector_size(16)));\n",
    "typedef float pv_at __attribute__((vector_size(16), aligned(1), may_alias));\n",
    "typedef pvi pm;\n",
    "#define PV(x) ((x) - (pv){ 0 })\n",
    "#ifdef __clang__\n",
    "#define PV_HAS_NAMES 0\n",
    "#define pv_turn(v, n) __builtin_shufflevector(v, v, n, (n + 1) & 3, (n + 2) & 3, (n + 3) & 3)\n",
    "#else\n",
    "#define PV_HAS_NAMES (__has_builtin(__builtin_aarch64_fmav4sf) && __has_builtin(__builtin_aarch64_rintv4sf))\n",
    "#define pv_turn(v, n) __builtin_shuffle(v, (pvi){ n, n + 1, n + 2, n + 3 } & 3)\n",
    "#endif\n",
    "#if PV_HAS_NAMES\n",
    "#define pv_fma(a, b, c) __builtin_aarch64_fmav4sf(a, b, c)\n",
    "#define px_sqrt_v(a) __builtin_aarch64_sqrtv4sf(PV(a))\n",
    "#define pv_round(a, how) (how == 9 ? __builtin_aarch64_floorv4sf(PV(a)) : \\\n",
    "    how == 10 ? __builtin_aarch64_ceilv4sf(PV(a)) : __builtin_aarch64_rintv4sf(PV(a)))\n",
    "#else\n",
    "#include <arm_neon.h>\n",
    "#define pv_fma(a, b, c) ((pv)vfmaq_f32(c, a, b))\n",
    "#define px_sqrt_v(a) ((pv)vsqrtq_f32(PV(a)))\n",
    "#define pv_round(a, how) ((pv)(how == 9 ? vrndmq_f32(PV(a)) : how == 10 ? vrndpq_f32(PV(a)) : vrndnq_f32(PV(a))))\n",
    "#endif\n",
    "PX pv pv_pick(pm k, pv a, pv b) { return (pv)((k & (pvi)a) | (~k & (pvi)b)); }\n",
    /* 17: a < b, 0: a == b, 3: one is NaN */
    "PX pm pv_cmp(pv a, pv b, int how) { return how == 17 ? a < b : how == 0 ? a == b : ~((a == a) & (b == b)); }\n",
    "PX pv pv_max(pv a, pv b) { return pv_pick(a > b, a, b); }\n",
    "PX pv pv_min(pv a, pv b) { return pv_pick(a < b, a, b); }\n",
    "#define pm_any(k) (((k)[0] | (k)[1] | (k)[2] | (k)[3]) != 0)\n",
    "#define pv_load(at) (*(const pv_at *)(at))\n",
    "#define pv_store(at, v) (*(pv_at *)(at) = (v))\n",
    "PX pv pv_load_n(const pf32 *at, pm k) {\n",
    "    return (pv){ k[0] ? at[0] : 0, k[1] ? at[1] : 0, k[2] ? at[2] : 0, 0 };\n",
    "}\n",
    "PX void pv_store_n(pf32 *at, int64_t n, pv v) {\n",
    "    if (n > 0) at[0] = v[0];\n",
    "    if (n > 1) at[1] = v[1];\n",
    "    if (n > 2) at[2] = v[2];\n",
    "}\n",
    "#define pv_load_some(at, k) pv_load_n(at, k)\n", /* of a rest: never all four */
    "#define pv_store_some(at, k, n, v) pv_store_n(at, n, v)\n",
    "#define pv_rest(n) ((pvi){ 0, 1, 2, 3 } < (int32_t)(n))\n",
    "#define PV_HALVE(op, a)\n",
    /* n is a whole number or NaN */
    "PX pv px_scale_v(pv x, pv n) {\n",
    "    const pvi i = (pvi)((pvu)(n + 0x1.8p23f) - 0x4b400000u), half = i >> 1;\n",
    "    return x * (pv)((pvu)(half + 127) << 23) * (pv)((pvu)(i - half + 127) << 23);\n",
    "}\n",
    NULL,
};
/* clang-format on */

/* Which instruction set our own kernels use, detected once for the whole process.
 *
 * PLUMB_CPU=base|avx2|avx512, on ARM64 base|neon, in the environment limits it. It can only lower
 * it: a set that the CPU or the operating system does not support is never used. Thread-safe. */
#ifndef PL_CPU_H
#define PL_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum pl_isa {
    PL_ISA_BASE = 0, /* x86-64 baseline (SSE2), or plain C elsewhere */
    PL_ISA_AVX2,     /* AVX2, FMA, F16C */
    PL_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL, and all of AVX2 */
    PL_ISA_NEON,     /* ARM64: fused products; base has none */
    PL_ISA_COUNT
} pl_isa;

/* NAME_base, NAME_avx2, NAME_avx512 or NAME_neon: the version compiled for an instruction set. */
#if defined(__x86_64__)
#define PL_TABLE_OF(isa, name)                                                                     \
    ((isa) == PL_ISA_AVX512 ? &name##_avx512 : (isa) == PL_ISA_AVX2 ? &name##_avx2 : &name##_base)
#elif defined(__aarch64__)
#define PL_TABLE_OF(isa, name) ((isa) == PL_ISA_NEON ? &name##_neon : &name##_base)
#else
#define PL_TABLE_OF(isa, name) ((void)(isa), &name##_base)
#endif

pl_isa pl_cpu_isa(void);           /* the one in use */
pl_isa pl_cpu_isa_max(void);       /* the best that the machine supports, ignoring PLUMB_CPU */
bool pl_cpu_has(pl_isa isa);       /* does the machine support it? */
bool pl_cpu_multiplies_bf16(void); /* AVX-512 is in use, and the CPU has AVX512_BF16 */
const char *pl_isa_name(pl_isa isa);
/* CPU features that change the results of runtimes, ignoring PLUMB_CPU. X(NAME, "name"); the bit is
 * the position in the list, so it is valid only between processes of one build. */
#define PL_CPU_FEATURE_MAP(X)                                                                      \
    X(X86_64, "x86-64")                                                                            \
    X(ARM64, "arm64")                                                                              \
    X(FMA, "fma") /* fused multiply-add: rounded once */                                           \
    X(AVX2, "avx2")                                                                                \
    X(AVX512, "avx512")                                                                            \
    X(VNNI, "vnni") /* u8 x s8 summed in 32 bits; without it in 16, saturated */                   \
    X(BF16, "bf16") /* products of bfloat16 */                                                     \
    X(FP16, "fp16") /* arithmetic in float16 */                                                    \
    X(AMX_INT8, "amx-int8")                                                                        \
    X(AMX_BF16, "amx-bf16")                                                                        \
    X(DOTPROD, "dotprod")                                                                          \
    X(I8MM, "i8mm")                                                                                \
    X(SVE, "sve")                                                                                  \
    X(SME, "sme") /* products by blocks: other orders of sums */
typedef enum pl_cpu_feature {
#define X(NAME, text) PL_CPU_##NAME,
    PL_CPU_FEATURE_MAP(X)
#undef X
        PL_CPU_FEATURE_COUNT
} pl_cpu_feature;
uint64_t pl_cpu_features(void); /* bit PL_CPU_… */
/* "x86-64 fma avx2 vnni"; "" for 0. Returns out. */
const char *pl_cpu_features_text(uint64_t features, char *out, size_t n_out);
/* Does such a text contain the word? */
bool pl_cpu_text_has(const char *features, const char *word);
enum { PL_CPU_TEXT = 128 };    /* room for all of them */
const char *pl_cpu_name(void); /* brand string, "AMD EPYC …"; "unknown CPU" */

#endif

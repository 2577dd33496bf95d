/* Detects the CPU once. */
#include "kernels/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

typedef struct cpu_info {
    pl_isa max, used;
    bool bf16;
    uint64_t features;
    char name[49];
} cpu_info;

static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;
static cpu_info cpu; /* written once under cpu_once, read-only afterwards */

static const char *const isa_names[PL_ISA_COUNT] = { "base", "avx2", "avx512", "neon" };

#if defined(__x86_64__)
static void cpu_read_name(void) {
    unsigned r[12] = { 0 }, top = 0, b, c, d;
    if (!__get_cpuid(0x80000000u, &top, &b, &c, &d) || top < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    const char *from = (const char *)r;
    size_t n = strnlen(from, sizeof r), skip = 0;
    while (skip < n && from[skip] == ' ')
        skip++;
    while (n > skip && from[n - 1] == ' ')
        n--;
    if (n == skip) return;
    memcpy(cpu.name, from + skip, n - skip);
    cpu.name[n - skip] = 0;
}

static void add_feature(bool yes, pl_cpu_feature f) {
    if (yes) cpu.features |= UINT64_C(1) << f;
}

/* After cpu.max: registers that the system does not save count as missing. */
static void cpu_read_features(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool wide = cpu.max >= PL_ISA_AVX2, widest = cpu.max >= PL_ISA_AVX512;
    add_feature(true, PL_CPU_X86_64);
    add_feature(__builtin_cpu_supports("fma"), PL_CPU_FMA);
    add_feature(wide, PL_CPU_AVX2);
    add_feature(widest, PL_CPU_AVX512);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    const unsigned more = a;
    add_feature(widest && (c >> 11 & 1), PL_CPU_VNNI);
    add_feature(widest && (d >> 23 & 1), PL_CPU_FP16);
    add_feature(d >> 24 & d >> 25 & 1, PL_CPU_AMX_INT8);
    add_feature(d >> 24 & d >> 22 & 1, PL_CPU_AMX_BF16);
    if (more == 0 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return;
    add_feature(wide && (a >> 4 & 1), PL_CPU_VNNI); /* AVX-VNNI, without AVX-512 */
    add_feature(widest && (a >> 5 & 1), PL_CPU_BF16);
}

static void cpu_read_x86(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __builtin_cpu_init(); /* checks that the system saves the wide registers */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C)) cpu.max = PL_ISA_AVX2;
    }
    if (cpu.max == PL_ISA_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        cpu.max = PL_ISA_AVX512;
    cpu.bf16 = cpu.max == PL_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
    cpu_read_features();
    cpu_read_name();
}
#elif defined(__aarch64__) && defined(__linux__)
/* Bits of Linux' AT_HWCAP and AT_HWCAP2 (arch/arm64/include/uapi/asm/hwcap.h). */
static void cpu_read_arm(void) {
    cpu.max = PL_ISA_NEON;
    const unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    const struct {
        bool yes;
        pl_cpu_feature feature;
    } rows[] = {
        { true, PL_CPU_ARM64 },         { true, PL_CPU_FMA },
        { one >> 10 & 1, PL_CPU_FP16 }, { one >> 20 & 1, PL_CPU_DOTPROD },
        { one >> 22 & 1, PL_CPU_SVE },  { two >> 13 & 1, PL_CPU_I8MM },
        { two >> 14 & 1, PL_CPU_BF16 }, { two >> 23 & 1, PL_CPU_SME },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].yes) cpu.features |= UINT64_C(1) << rows[i].feature;
}
#endif

/* Of cpu.max; NEON is no step between the others. */
static bool has(pl_isa isa) {
    if (isa == PL_ISA_NEON || cpu.max == PL_ISA_NEON) return isa == PL_ISA_BASE || isa == cpu.max;
    return isa <= cpu.max;
}

static void cpu_read(void) {
    strcpy(cpu.name, "unknown CPU");
#if defined(__x86_64__)
    cpu_read_x86();
#elif defined(__aarch64__) && defined(__linux__)
    cpu_read_arm();
#endif
    cpu.used = cpu.max;
    const char *wish = getenv("PLUMB_CPU");
    for (int i = 0; wish != NULL && i < PL_ISA_COUNT; i++)
        if (strcmp(wish, isa_names[i]) == 0 && has((pl_isa)i)) cpu.used = (pl_isa)i;
}

static const cpu_info *cpu_get(void) {
    pthread_once(&cpu_once, cpu_read);
    return &cpu;
}

pl_isa pl_cpu_isa(void) {
    return cpu_get()->used;
}
pl_isa pl_cpu_isa_max(void) {
    return cpu_get()->max;
}
bool pl_cpu_has(pl_isa isa) {
    return (unsigned)isa < PL_ISA_COUNT && (cpu_get(), has(isa));
}
bool pl_cpu_multiplies_bf16(void) {
    return cpu_get()->bf16 && cpu_get()->used == PL_ISA_AVX512;
}
const char *pl_isa_name(pl_isa isa) {
    return (unsigned)isa < PL_ISA_COUNT ? isa_names[isa] : "unknown";
}
const char *pl_cpu_name(void) {
    return cpu_get()->name;
}

uint64_t pl_cpu_features(void) {
    return cpu_get()->features;
}

const char *pl_cpu_features_text(uint64_t features, char *out, size_t n_out) {
    static const char *const names[PL_CPU_FEATURE_COUNT] = {
#define X(NAME, text) text,
        PL_CPU_FEATURE_MAP(X)
#undef X
    };
    size_t n = 0;
    if (n_out > 0) out[0] = '\0';
    for (int i = 0; i < PL_CPU_FEATURE_COUNT && n < n_out; i++) {
        if ((features >> i & 1) == 0) continue;
        const int k = snprintf(out + n, n_out - n, "%s%s", n > 0 ? " " : "", names[i]);
        n += k > 0 ? (size_t)k : 0;
    }
    return out;
}

bool pl_cpu_text_has(const char *features, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = features; *at != '\0'; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, word, n) == 0) return true;
        at += length;
    }
    return false;
}

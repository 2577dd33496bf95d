/* Detects the CPU once. */
#include "kernels/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct cpu_info {
    pl_isa max, used;
    bool bf16;
    char name[49];
} cpu_info;

static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;
static cpu_info cpu; /* written once under cpu_once, read-only afterwards */

static const char *const isa_names[PL_ISA_COUNT] = { "base", "avx2", "avx512" };

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
    cpu_read_name();
}
#endif

static void cpu_read(void) {
    strcpy(cpu.name, "unknown CPU");
#if defined(__x86_64__)
    cpu_read_x86();
#endif
    cpu.used = cpu.max;
    const char *wish = getenv("PLUMB_CPU");
    for (int i = 0; wish != NULL && i < PL_ISA_COUNT; i++)
        if (strcmp(wish, isa_names[i]) == 0 && (pl_isa)i < cpu.max) cpu.used = (pl_isa)i;
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
bool pl_cpu_multiplies_bf16(void) {
    return cpu_get()->bf16 && cpu_get()->used == PL_ISA_AVX512;
}
const char *pl_isa_name(pl_isa isa) {
    return (unsigned)isa < PL_ISA_COUNT ? isa_names[isa] : "unknown";
}
const char *pl_cpu_name(void) {
    return cpu_get()->name;
}

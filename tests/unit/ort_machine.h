/* What ONNX Runtime's CPU kernels do on this machine, and which library is for it. */
#ifndef PL_ORT_MACHINE_H
#define PL_ORT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu.h"

/* Its builds for ARM64 have no convolutions on blocks of channels (NCHWc). */
static inline bool ort_has_blocks(void) {
    return (pl_cpu_features() >> PL_CPU_ARM64 & 1) == 0;
}

/* On ARM64 CPUs with float16 arithmetic, convolutions, pools and Softmax of float16 stay in it. */
static inline bool ort_has_float16(void) {
    const uint64_t needs = UINT64_C(1) << PL_CPU_ARM64 | UINT64_C(1) << PL_CPU_FP16;
    return (pl_cpu_features() & needs) == needs;
}

/* Whether an ELF file is for the kind of machine that this program is for (e_machine). */
static inline bool is_for_this_machine(const char *path) {
    const char *const paths[] = { path, "/proc/self/exe" };
    char head[2][20];
    for (size_t i = 0; i < 2; i++) {
        FILE *f = fopen(paths[i], "rb");
        const size_t n = f == NULL ? 0 : fread(head[i], 1, sizeof(head[i]), f);
        if (f != NULL) (void)fclose(f);
        if (n < sizeof(head[i])) return false;
    }
    return memcmp(head[0] + 18, head[1] + 18, 2) == 0;
}

/* The library that tools/fetch-ort put into `cache`; false = none for this machine. */
static inline bool find_ort(char *out, size_t n_out, const char *cache, const char *version) {
    static const char *const endings[] = { "", "-arm64" }; /* the second: of a cross build */
    for (size_t i = 0; i < 2; i++) {
        snprintf(out, n_out, "%s/ort-%s%s/libonnxruntime.so.1", cache, version, endings[i]);
        if (is_for_this_machine(out)) return true;
    }
    return false;
}

#endif

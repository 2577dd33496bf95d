/* Which instruction set the own kernels use, found once and the same for the whole process.
 *
 * PLUMB_CPU=base|avx2|avx512 in the environment holds it down (it never raises it: a set that the
 * CPU or the operating system lacks is not used). Thread-safe. */
#ifndef PL_CPU_H
#define PL_CPU_H

#include <stdbool.h>

typedef enum pl_isa {
    PL_ISA_BASE = 0, /* x86-64 as in 2003 (SSE2), or plain C elsewhere */
    PL_ISA_AVX2,     /* AVX2, FMA, F16C */
    PL_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL, and all of AVX2 */
    PL_ISA_COUNT
} pl_isa;

/* NAME_base, NAME_avx2 or NAME_avx512: what was compiled for an instruction set. */
#if defined(__x86_64__)
#define PL_TABLE_OF(isa, name)                                                                     \
    ((isa) == PL_ISA_AVX512 ? &name##_avx512 : (isa) == PL_ISA_AVX2 ? &name##_avx2 : &name##_base)
#else
#define PL_TABLE_OF(isa, name) ((void)(isa), &name##_base)
#endif

pl_isa pl_cpu_isa(void);           /* the one in use */
pl_isa pl_cpu_isa_max(void);       /* what the machine offers, PLUMB_CPU left aside */
bool pl_cpu_multiplies_bf16(void); /* AVX-512 is in use, and there is AVX512_BF16 */
const char *pl_isa_name(pl_isa isa);
const char *pl_cpu_name(void); /* brand string, "AMD EPYC …"; "unknown CPU" */

#endif

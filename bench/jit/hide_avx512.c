/* Preloaded into ONNX Runtime's process, whose library has ud2 in place of cpuid (run.py --avx2): answers as a CPU
 * without AVX-512, VNNI, AMX and what follows them would. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

static void answer(int sig, siginfo_t *info, void *context) {
    (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (at[0] != 0x0f || at[1] != 0x0b) {
        signal(sig, SIG_DFL);
        return;
    }
    const unsigned leaf = (unsigned)r[REG_RAX], sub = (unsigned)r[REG_RCX];
    __cpuid_count(leaf, sub, a, b, c, d);
    if (leaf == 7 && sub == 0) {
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
    } else if (leaf == 7 && sub == 1) {
        a = 0;
    }
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigaction(SIGILL, &action, 0);
}

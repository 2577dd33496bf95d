/* Preloaded into programs that have ud2 in place of cpuid (hidden.py): answers as a CPU without
 * AVX-512, VNNI, AMX and what follows them would. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

/* A thread that starts with every signal blocked may be the first to ask. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    static int (*next)(int, const sigset_t *, sigset_t *);
    sigset_t open;
    if (next == NULL)
        next = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "pthread_sigmask");
    if (set != NULL && how != SIG_UNBLOCK) {
        open = *set;
        sigdelset(&open, SIGILL);
        set = &open;
    }
    return next(how, set, old);
}

/* Python's faulthandler would take the signal. */
static int really(int sig, const struct sigaction *action, struct sigaction *old) {
    static int (*next)(int, const struct sigaction *, struct sigaction *);
    if (next == NULL)
        next = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT,
                                                                                 "sigaction");
    return next(sig, action, old);
}
int sigaction(int sig, const struct sigaction *action, struct sigaction *old) {
    return really(sig, sig == SIGILL ? NULL : action, old);
}

/* So would cmocka, in each test. */
void (*signal(int sig, void (*handler)(int)))(int) {
    static void (*(*next)(int, void (*)(int)))(int);
    if (next == NULL) next = (void (*(*)(int, void (*)(int)))(int))dlsym(RTLD_NEXT, "signal");
    return sig == SIGILL ? SIG_DFL : next(sig, handler);
}

static void answer(int sig, siginfo_t *info, void *context) {
    (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (at[0] != 0x0f || at[1] != 0x0b) {
        const struct sigaction plain = { .sa_handler = SIG_DFL };
        really(sig, &plain, NULL);
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
    really(SIGILL, &action, NULL);
}

/* The SIGBUS handler and the list of mappings that it may repair.
 *
 * A handler may not take locks, so the list only ever grows: a slot is pushed once and used again
 * after its mapping is gone. All fields that the handler reads are atomic. */
#include "base/file_fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

typedef struct watched {
    _Atomic(uintptr_t) begin, end; /* begin 0 = unused */
    atomic_bool taken;             /* has a mapping, or an unreported fault */
    atomic_bool shrank;
    char path[256];
    struct watched *next;
} watched;

static _Atomic(watched *) all;
static uintptr_t page_bytes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static watched *find(uintptr_t at) {
    for (watched *w = atomic_load(&all); w != NULL; w = w->next) {
        const uintptr_t begin = atomic_load(&w->begin);
        if (begin != 0 && at >= begin && at < atomic_load(&w->end)) return w;
    }
    return NULL;
}

/* Makes only system calls. mmap is one, though POSIX does not list it as async-signal-safe. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    const uintptr_t at = (uintptr_t)info->si_addr;
    watched *w = find(at);
    void *page = (void *)(at & ~(page_bytes - 1)); // NOLINT(performance-no-int-to-ptr)
    if (w != NULL && mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                          0) != MAP_FAILED) {
        atomic_store(&w->shrank, true);
        return;
    }
    signal(signal_number, SIG_DFL); /* not ours: the access is repeated and ends the process */
}

static void install(void) {
    struct sigaction old,
        own = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER };
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0) return;
    if (old.sa_handler == SIG_DFL) sigaction(SIGBUS, &own, NULL);
}

static watched *free_slot(void) {
    for (watched *w = atomic_load(&all); w != NULL; w = w->next) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&w->taken, &expected, true)) return w;
    }
    watched *w = pl_calloc(1, sizeof *w);
    if (w == NULL) return NULL;
    atomic_store(&w->taken, true);
    w->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &w->next, w)) {
    }
    return w;
}

void pl_file_fault_watch(const char *path, const void *data, size_t n_bytes) {
    pthread_once(&once, install);
    watched *w = free_slot();
    if (w == NULL) return;
    snprintf(w->path, sizeof w->path, "%s", path);
    atomic_store(&w->end, (uintptr_t)data + n_bytes);
    atomic_store(&w->begin, (uintptr_t)data);
}

void pl_file_fault_unwatch(const void *data) {
    watched *w = find((uintptr_t)data);
    if (w == NULL) return;
    atomic_store(&w->begin, 0);
    if (!atomic_load(&w->shrank)) atomic_store(&w->taken, false);
}

pl_status pl_file_fault_check(pl_err *err) {
    for (watched *w = atomic_load(&all); w != NULL; w = w->next) {
        if (!atomic_load(&w->shrank)) continue;
        const pl_status st =
            pl_fail(err, PL_E_IO, "'%s' was truncated while plumb was reading it", w->path);
        if (atomic_load(&w->begin) == 0) {
            atomic_store(&w->shrank, false);
            atomic_store(&w->taken, false);
        }
        return st;
    }
    return PL_OK;
}

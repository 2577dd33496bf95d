/* The SIGBUS handler and the list of mappings that it may repair.
 *
 * A handler may not take locks, so the list only ever grows: a slot is pushed once and used again
 * after its mapping is gone. All fields that the handler reads are atomic. A folder of a stranger
 * may have 100,000 files: only the handler walks the list. */
#include "base/file_fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

struct pl_file_watch {
    _Atomic(uintptr_t) begin, end; /* begin 0 = unused */
    atomic_bool shrank;
    char path[256];
    struct pl_file_watch *next, *next_free;
};
typedef struct pl_file_watch watched;

static _Atomic(watched *) all;
static atomic_uint n_faults; /* not reported yet */
static watched *unused;      /* slots without a mapping and without an unreported fault */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of `unused` */
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
        if (!atomic_exchange(&w->shrank, true)) atomic_fetch_add(&n_faults, 1);
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

static watched *take_slot(void) {
    pthread_mutex_lock(&mutex);
    watched *w = unused;
    if (w != NULL) unused = w->next_free;
    pthread_mutex_unlock(&mutex);
    if (w != NULL) return w;
    w = pl_calloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &w->next, w)) {
    }
    return w;
}

static void give_back(watched *w) {
    pthread_mutex_lock(&mutex);
    w->next_free = unused;
    unused = w;
    pthread_mutex_unlock(&mutex);
}

pl_file_watch *pl_file_fault_watch(const char *path, const void *data, size_t n_bytes) {
    pthread_once(&once, install);
    watched *w = take_slot();
    if (w == NULL) return NULL;
    snprintf(w->path, sizeof w->path, "%s", path);
    atomic_store(&w->end, (uintptr_t)data + n_bytes);
    atomic_store(&w->begin, (uintptr_t)data);
    return w;
}

void pl_file_fault_unwatch(pl_file_watch *w) {
    if (w == NULL) return;
    atomic_store(&w->begin, 0);
    if (!atomic_load(&w->shrank)) give_back(w);
}

pl_status pl_file_fault_check(pl_err *err) {
    if (atomic_load(&n_faults) == 0) return PL_OK;
    for (watched *w = atomic_load(&all); w != NULL; w = w->next) {
        if (!atomic_load(&w->shrank)) continue;
        const pl_status st =
            pl_fail(err, PL_E_IO, "'%s' was truncated while plumb was reading it", w->path);
        if (atomic_load(&w->begin) == 0 && atomic_exchange(&w->shrank, false)) {
            atomic_fetch_sub(&n_faults, 1);
            give_back(w);
        }
        return st;
    }
    return PL_OK;
}

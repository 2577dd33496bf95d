/* LD_PRELOAD: makes the N-th call of a class fail, in the processes of one program.
 *
 * FAULT_FILE     two 64-bit counters, shared by all processes: calls seen, faults made
 * FAULT_PROGRAM  whose calls count (the program's short name)
 * FAULT_CLASS    alloc, or a comma-separated list of the names below, or `io` for all of those
 * FAULT_AT       first call that fails, from 1; 0: none, only count
 * FAULT_EVERY    0: that one only; K: every K-th from then on
 * FAULT_KIND     an errno name (ENOMEM, EIO, ENOSPC, EINTR, EMFILE), or `short`
 * FAULT_TRACE    a file to which the stack of each fault is appended (addr2line -e PROGRAM -f
 * OFFSET) FAULT_CLOCK    seconds added to the real-time clock; `back`: it goes backwards from call
 * to call
 *
 * Calls inside the C library (stdio) are not seen; /dev/full is for those. */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef struct counters {
    uint64_t seen, made;
} counters;

static counters *shared;
static const char *classes, *trace_file;
static uint64_t fault_at, fault_every;
static int fault_errno; /* 0 = short */
static bool on, all_io;
static int64_t clock_offset;
static bool clock_back;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int errno_of(const char *name) {
    static const struct {
        const char *name;
        int value;
    } known[] = { { "ENOMEM", ENOMEM }, { "EIO", EIO },       { "ENOSPC", ENOSPC },
                  { "EINTR", EINTR },   { "EMFILE", EMFILE }, { "EACCES", EACCES },
                  { "EROFS", EROFS },   { "EAGAIN", EAGAIN } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].value;
    return 0;
}

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

__attribute__((constructor)) static void start(void) {
    const char *clock = getenv("FAULT_CLOCK");
    if (clock != NULL) {
        clock_back = strcmp(clock, "back") == 0;
        clock_offset = clock_back ? 0 : strtoll(clock, NULL, 10);
    }
    const char *file = getenv("FAULT_FILE"), *program = getenv("FAULT_PROGRAM");
    classes = getenv("FAULT_CLASS");
    trace_file = getenv("FAULT_TRACE");
    if (file == NULL || classes == NULL || program == NULL) return;
    if (strcmp(program_invocation_short_name, program) != 0) return;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *at = (void *)syscall(SYS_mmap, NULL, sizeof(counters), PROT_READ | PROT_WRITE, MAP_SHARED,
                               fd, 0);
    syscall(SYS_close, fd);
    if (at == MAP_FAILED) return;
    shared = at;
    fault_at = number("FAULT_AT");
    fault_every = number("FAULT_EVERY");
    const char *kind = getenv("FAULT_KIND");
    fault_errno = kind == NULL ? EIO : errno_of(kind);
    all_io = strcmp(classes, "io") == 0;
    on = true;
}

static bool wanted(const char *name) {
    if (!on) return false;
    if (all_io) return strcmp(name, "alloc") != 0;
    const size_t n = strlen(name);
    for (const char *at = classes; (at = strstr(at, name)) != NULL; at += n)
        if ((at == classes || at[-1] == ',') && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

static void trace(void) {
    void *frames[32];
    on = false; /* backtrace allocates */
    const int fd =
        (int)syscall(SYS_openat, AT_FDCWD, trace_file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    backtrace_symbols_fd(frames, backtrace(frames, 32), fd);
    syscall(SYS_close, fd);
    on = true;
}

/* True: this call is to fail. */
static bool strikes(const char *name) {
    if (!wanted(name)) return false;
    const uint64_t n = __atomic_add_fetch(&shared->seen, 1, __ATOMIC_RELAXED);
    if (fault_at == 0 || n < fault_at) return false;
    if (n != fault_at && (fault_every == 0 || (n - fault_at) % fault_every != 0)) return false;
    __atomic_add_fetch(&shared->made, 1, __ATOMIC_RELAXED);
    if (trace_file != NULL) trace();
    return true;
}

/* ---- memory ---- */

static bool no_memory(void) {
    if (!strikes("alloc")) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) {
    return no_memory() ? NULL : __libc_malloc(n);
}
void *calloc(size_t a, size_t b) {
    return no_memory() ? NULL : __libc_calloc(a, b);
}
void *realloc(void *p, size_t n) {
    return no_memory() ? NULL : __libc_realloc(p, n);
}
void *memalign(size_t alignment, size_t n) {
    return no_memory() ? NULL : __libc_memalign(alignment, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
    return memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *p = memalign(alignment, n);
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}

/* ---- files ---- */

/* Fails with the errno, or makes *n_bytes short and goes on. */
static bool broken(const char *name, size_t *n_bytes) {
    if (!strikes(name)) return false;
    if (fault_errno == 0) {
        if (n_bytes != NULL && *n_bytes > 1) *n_bytes = *n_bytes / 2;
        return false;
    }
    errno = fault_errno;
    return true;
}

ssize_t read(int fd, void *data, size_t n) {
    return broken("read", &n) ? -1 : syscall(SYS_read, fd, data, n);
}
ssize_t write(int fd, const void *data, size_t n) {
    return broken("write", &n) ? -1 : syscall(SYS_write, fd, data, n);
}
ssize_t pread64(int fd, void *data, size_t n, off64_t at) {
    return broken("pread", &n) ? -1 : syscall(SYS_pread64, fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    return broken("pwrite", &n) ? -1 : syscall(SYS_pwrite64, fd, data, n, at);
}
ssize_t writev(int fd, const struct iovec *v, int n) {
    return broken("writev", NULL) ? -1 : syscall(SYS_writev, fd, v, n);
}
static int open_at(int dir, const char *path, int flags, mode_t mode) {
    const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    if (fault_errno == ENOSPC && !makes) return (int)syscall(SYS_openat, dir, path, flags, mode);
    return broken("open", NULL) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}
#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) {                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode = va_arg(args, mode_t);                                                               \
        va_end(args);                                                                              \
    }
int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int openat64(int dir, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(dir, path, flags, mode);
}
int fsync(int fd) {
    return broken("fsync", NULL) ? -1 : (int)syscall(SYS_fsync, fd);
}
int syncfs(int fd) {
    return broken("fsync", NULL) ? -1 : (int)syscall(SYS_syncfs, fd);
}
int ftruncate64(int fd, off64_t n) {
    return broken("ftruncate", NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}
int rename(const char *from, const char *to) {
    return broken("rename", NULL) ? -1 : (int)syscall(SYS_rename, from, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    return broken("rename", NULL) ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}
int link(const char *from, const char *to) {
    return broken("link", NULL) ? -1 : (int)syscall(SYS_link, from, to);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    return broken("link", NULL) ? -1 : (int)syscall(SYS_linkat, a, from, b, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    return broken("mkdir", NULL) ? -1 : (int)syscall(SYS_mkdir, path, mode);
}
int fstat64(int fd, struct stat64 *info) {
    return broken("fstat", NULL) ? -1 : (int)syscall(SYS_newfstatat, fd, "", info, AT_EMPTY_PATH);
}
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t offset) {
    if (broken("mmap", NULL)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
int memfd_create(const char *name, unsigned flags) {
    return broken("memfd", NULL) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}
int pipe2(int fds[2], int flags) {
    return broken("pipe", NULL) ? -1 : (int)syscall(SYS_pipe2, fds, flags);
}
int socketpair(int domain, int type, int protocol, int fds[2]) {
    return broken("pipe", NULL) ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}
ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
    return broken("recvmsg", NULL) ? -1 : syscall(SYS_recvmsg, fd, m, flags);
}
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    return broken("sendmsg", NULL) ? -1 : syscall(SYS_sendmsg, fd, m, flags);
}

/* ---- clocks ---- */

static void shift(struct timespec *t) {
    if (clock_back) clock_offset = __atomic_sub_fetch(&clock_offset, 7, __ATOMIC_RELAXED);
    t->tv_sec += clock_offset;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    const int r = (int)syscall(SYS_clock_gettime, id, t);
    if (r == 0 && id == CLOCK_REALTIME) shift(t);
    return r;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out != NULL) *out = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){ t.tv_sec, t.tv_nsec / 1000 };
    return 0;
}

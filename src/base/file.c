/* Mapped reads and atomic writes. file_fault.h handles mapped files that another program
 * truncates. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/door_int.h"
#include "base/file_fault.h"

enum {
    WRITER_BUFFER_BYTES = 1 << 20,
    STREAM_CHUNK_BYTES = 64 << 10,
    WRITER_WAIT_MS = 5000,
};

pl_status pl_fail_errno(pl_err *err, int error, const char *doing, const char *path) {
    /* "create" never reports PL_E_NOT_FOUND: a missing parent is an I/O error. */
    const bool misses = (error == ENOENT || error == ENOTDIR) && strncmp(doing, "create", 6) != 0;
    const pl_status st = misses ? PL_E_NOT_FOUND : error == ENOMEM ? PL_E_MEMORY : PL_E_IO;
    if (err == NULL) return st; /* strerror is not allowed in signal handlers */
    return pl_fail(err, st, "cannot %s '%s': %s", doing, path, strerror(error));
}

int pl_fd_open(const char *path, int flags, mode_t mode) {
    int fd;
    do
        fd = open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

bool pl_sync_fd(int fd) {
    int r;
    do
        r = fsync(fd);
    while (r != 0 && errno == EINTR);
    return r == 0 || errno == EINVAL || errno == EROFS;
}

pl_status pl_sync_dir(const char *path, pl_err *err) {
    pl_status st = PL_OK;
    const int fd = pl_fd_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 && errno == EACCES) return PL_OK;
    if (fd < 0) return pl_fail_errno(err, errno, "open the folder", path);
    if (!pl_sync_fd(fd)) st = pl_fail_errno(err, errno, "sync", path);
    close(fd);
    return st;
}

/* ---- reading ---- */

static ssize_t read_some(int fd, void *data, size_t n_bytes) {
    ssize_t n;
    do
        n = read(fd, data, n_bytes);
    while (n < 0 && errno == EINTR);
    return n;
}

static pl_status read_stream(int fd, pl_file_map *map, pl_err *err) {
    pl_status st = PL_OK;
    pl_buf buf = PL_BUF_INIT;
    char *chunk = pl_malloc(STREAM_CHUNK_BYTES);
    if (chunk == NULL) return pl_fail_memory(err, STREAM_CHUNK_BYTES);
    for (;;) {
        const ssize_t n = read_some(fd, chunk, STREAM_CHUNK_BYTES);
        if (n < 0) {
            st = pl_fail_errno(err, errno, "read", map->path);
            goto done;
        }
        if (n == 0) break;
        if ((uint64_t)buf.n_bytes + (uint64_t)n > PL_FILE_STREAM_MAX) {
            st = pl_fail(err, PL_E_LIMIT, "'%s' is larger than %" PRIu64 " bytes", map->path,
                         (uint64_t)PL_FILE_STREAM_MAX);
            goto done;
        }
        pl_buf_append(&buf, chunk, (size_t)n);
        if (!pl_buf_ok(&buf)) break;
    }
    map->n_bytes = buf.n_bytes;
    map->heap = true;
    map->data = (const uint8_t *)pl_buf_take(&buf);
    if (map->data == NULL) st = pl_fail_memory(err, map->n_bytes);
done:
    pl_buf_release(&buf);
    pl_free(chunk);
    return st;
}

const char *pl_kind_of_mode(mode_t mode) {
    return S_ISDIR(mode)    ? "a folder"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a device"
           : S_ISBLK(mode)  ? "a device"
                            : "not a regular file";
}

pl_status pl_check_regular(const struct stat *info, const char *path, pl_err *err) {
    if (S_ISREG(info->st_mode)) return PL_OK;
    return pl_fail(err, PL_E_INVALID, "'%s' is %s, expected a file", path,
                   pl_kind_of_mode(info->st_mode));
}

#define PIPEFS_MAGIC 0x50495045 /* linux/magic.h: anonymous pipes; their other end is open */

/* A named pipe may have no writer; reading it would block for ever. */
static pl_status await_writer(int fd, const struct stat *info, const char *path, pl_err *err) {
    struct statfs system;
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    int n = 1;
    if (S_ISFIFO(info->st_mode) && fstatfs(fd, &system) == 0 && system.f_type != PIPEFS_MAGIC) {
        do
            n = poll(&wait, 1, WRITER_WAIT_MS);
        while (n < 0 && errno == EINTR);
    }
    if (n == 0)
        return pl_fail(err, PL_E_IO, "timed out: nothing was written to pipe '%s' for %d s", path,
                       WRITER_WAIT_MS / 1000);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return PL_OK;
}

static pl_status map_fd(int fd, bool streams, pl_file_map *map, pl_err *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return pl_fail_errno(err, errno, "look at", map->path);
    if (!streams || S_ISDIR(info.st_mode) || S_ISBLK(info.st_mode))
        PL_TRY(pl_check_regular(&info, map->path, err));
    if (!S_ISREG(info.st_mode)) PL_TRY(await_writer(fd, &info, map->path, err));
    /* Files in /proc report a size of 0 but are not empty. */
    if (!S_ISREG(info.st_mode) || info.st_size <= 0) return read_stream(fd, map, err);
    if ((uintmax_t)info.st_size > (uintmax_t)PTRDIFF_MAX)
        return pl_fail(err, PL_E_LIMIT, "'%s' is too large to map", map->path);
    const size_t n_bytes = (size_t)info.st_size;
    void *data = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        if (errno == ENODEV) return read_stream(fd, map, err);
        return pl_fail_errno(err, errno, "map", map->path);
    }
    map->data = data;
    map->n_bytes = n_bytes;
    map->watch = pl_file_fault_watch(map->path, data, n_bytes);
    return PL_OK;
}

static void map_free(pl_file_map *map) {
    if (map->data != NULL) {
        void *data = (void *)(uintptr_t)map->data; /* const is only for readers */
        if (map->heap) {
            pl_free(data);
        } else {
            pl_file_fault_unwatch(map->watch);
            munmap(data, map->n_bytes);
        }
    }
    pl_free(map->path);
    pl_free(map);
}

pl_status pl_map_of_fd(int fd, const char *path, bool streams, pl_file_map **out, pl_err *err) {
    pl_file_map *map = pl_calloc(1, sizeof *map);
    if (map == NULL) return pl_fail_memory(err, sizeof *map);
    map->refs = 1;
    map->path = pl_strdup(path);
    const pl_status st =
        map->path == NULL ? pl_fail_memory(err, strlen(path) + 1) : map_fd(fd, streams, map, err);
    if (st == PL_OK) {
        *out = map;
    } else {
        map_free(map);
    }
    return st;
}

static pl_status open_and_map(const char *path, bool streams, pl_file_map **out, pl_err *err) {
    const int fd = pl_fd_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0 && errno == ENXIO)
        return pl_fail(err, PL_E_INVALID, "'%s' is a socket, expected a file", path);
    if (fd < 0) return pl_fail_errno(err, errno, "open", path);
    const pl_status st = pl_map_of_fd(fd, path, streams, out, err);
    close(fd);
    return st;
}

pl_status pl_file_map_open(const char *path, pl_file_map **out, pl_err *err) {
    return open_and_map(path, true, out, err);
}

pl_status pl_file_map_open_regular(const char *path, pl_file_map **out, pl_err *err) {
    return open_and_map(path, false, out, err);
}

pl_file_map *pl_file_map_ref(pl_file_map *map) {
    __atomic_fetch_add(&map->refs, 1, __ATOMIC_RELAXED);
    return map;
}

void pl_file_map_unref(pl_file_map *map) {
    if (map == NULL) return;
    if (__atomic_sub_fetch(&map->refs, 1, __ATOMIC_ACQ_REL) == 0) map_free(map);
}

void pl_file_map_forget(const pl_file_map *map, const void *data, size_t n_bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = (size_t)((const uint8_t *)data - map->data), to = from + n_bytes;
    const size_t first = (from + page - 1) / page * page, end = to / page * page;
    if (map->heap || end <= first || to > map->n_bytes) return; /* heap memory would be lost */
    (void)madvise((void *)(uintptr_t)(map->data + first), end - first, MADV_DONTNEED);
}

/* Bits of an entry of /proc/PID/pagemap (Linux, admin-guide/mm/pagemap): in memory or swapped out,
 * and file-backed. A page that is neither in memory nor swapped was never touched; a private copy
 * is not file-backed. */
#define PAGE_THERE (UINT64_C(3) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61)

bool pl_file_map_untouched(const void *data, size_t n_bytes) {
    uint64_t entries[1024];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), start = (size_t)(uintptr_t)data;
    if (n_bytes == 0) return true;
    const size_t last = (start + n_bytes - 1) / page;
    const int fd = pl_fd_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    bool untouched = fd >= 0;
    for (size_t at = start / page; untouched && at <= last;) {
        const size_t n = last - at + 1 < 1024 ? last - at + 1 : 1024;
        const ssize_t got =
            pread(fd, entries, n * sizeof entries[0], (off_t)(at * sizeof *entries));
        untouched = got == (ssize_t)(n * sizeof entries[0]);
        for (size_t i = 0; untouched && i < n; i++)
            untouched = (entries[i] & PAGE_THERE) == 0 || (entries[i] & PAGE_OF_FILE) != 0;
        at += n;
    }
    if (fd >= 0) close(fd);
    return untouched;
}

/* ---- writing ---- */

struct pl_file_writer {
    pl_new_file file;
    char *path; /* for messages */
    uint64_t n_appended;
    size_t n_buffered;
    pl_status failed; /* keeps the first failure */
    char buffer[WRITER_BUFFER_BYTES];
};

void pl_file_writer_abort_take(pl_file_writer *w) {
    if (w == NULL) return;
    pl_new_file_discard(&w->file);
    pl_free(w->path);
    pl_free(w);
}

static pl_status writer_new(const char *path, pl_file_writer **out, pl_err *err) {
    pl_file_writer *w = pl_malloc(sizeof *w);
    if (w == NULL) return pl_fail_memory(err, sizeof *w);
    memset(w, 0, offsetof(pl_file_writer, buffer)); /* do not clear the 1 MiB buffer */
    w->file = (pl_new_file)PL_NEW_FILE_INIT;
    w->path = pl_strdup(path);
    if (w->path == NULL) {
        pl_free(w);
        return pl_fail_memory(err, strlen(path) + 1);
    }
    *out = w;
    return PL_OK;
}

pl_status pl_file_writer_open(const char *path, pl_file_writer **out, pl_err *err) {
    pl_file_writer *w = NULL;
    PL_TRY(writer_new(path, &w, err));
    const pl_status st = pl_new_file_open(path, O_WRONLY, false, &w->file, err);
    if (st == PL_OK) {
        *out = w;
    } else {
        pl_file_writer_abort_take(w);
    }
    return st;
}

pl_status pl_file_writer_open_at(int dir_fd, const char *last, const char *shown,
                                 pl_file_writer **out, pl_err *err) {
    pl_file_writer *w = NULL;
    PL_TRY(writer_new(shown, &w, err));
    const pl_status st =
        pl_new_file_open_at(dir_fd, last, shown, O_WRONLY, true, true, &w->file, err);
    if (st == PL_OK) {
        *out = w;
    } else {
        pl_file_writer_abort_take(w);
    }
    return st;
}

static pl_status write_all(pl_file_writer *w, const char *data, size_t n_bytes, pl_err *err) {
    while (n_bytes > 0) {
        const ssize_t n = write(w->file.fd, data, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->failed = pl_fail_errno(err, n < 0 ? errno : EIO, "write", w->path);
            return w->failed;
        }
        data += n;
        n_bytes -= (size_t)n;
    }
    return PL_OK;
}

static pl_status writer_flush(pl_file_writer *w, pl_err *err) {
    const size_t n_bytes = w->n_buffered;
    w->n_buffered = 0;
    return write_all(w, w->buffer, n_bytes, err);
}

pl_status pl_file_writer_append(pl_file_writer *w, const void *data, size_t n_bytes, pl_err *err) {
    if (w->failed != PL_OK)
        return pl_fail(err, w->failed, "an earlier write to '%s' failed", w->path);
    if (n_bytes == 0) return PL_OK;
    if (n_bytes > sizeof w->buffer - w->n_buffered) PL_TRY(writer_flush(w, err));
    if (n_bytes >= sizeof w->buffer) {
        PL_TRY(write_all(w, data, n_bytes, err));
    } else {
        memcpy(w->buffer + w->n_buffered, data, n_bytes);
        w->n_buffered += n_bytes;
    }
    w->n_appended += n_bytes;
    return PL_OK;
}

uint64_t pl_file_writer_offset(const pl_file_writer *w) {
    return w->n_appended;
}

pl_status pl_file_writer_commit_take(pl_file_writer *w, pl_err *err) {
    pl_status st = w->failed;
    if (st != PL_OK) {
        pl_fail(err, st, "an earlier write to '%s' failed", w->path);
    } else {
        st = writer_flush(w, err);
    }
    if (st == PL_OK) st = pl_new_file_publish(&w->file, w->path, err);
    pl_file_writer_abort_take(w); /* a published file stays */
    return st;
}

pl_status pl_file_write(const char *path, const void *data, size_t n_bytes, pl_err *err) {
    pl_file_writer *w = NULL;
    PL_TRY(pl_file_writer_open(path, &w, err));
    const pl_status st = pl_file_writer_append(w, data, n_bytes, err);
    if (st != PL_OK) {
        pl_file_writer_abort_take(w);
        return st;
    }
    return pl_file_writer_commit_take(w, err);
}

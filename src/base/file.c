/* Mapped reads and atomic writes.
 *
 * A mapped file that another program truncates raises SIGBUS on access; nothing portable prevents
 * that, so plumb's own files are only ever replaced by rename. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

enum {
    WRITER_BUFFER_BYTES = 1 << 20,
    STREAM_CHUNK_BYTES = 64 << 10,
};

pl_status pl_fail_errno(pl_err *err, int error, const char *doing, const char *path) {
    const pl_status st = error == ENOENT || error == ENOTDIR ? PL_E_NOT_FOUND
                         : error == ENOMEM                   ? PL_E_MEMORY
                                                             : PL_E_IO;
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
            st = pl_fail(err, PL_E_LIMIT, "'%s' gives more than %" PRIu64 " bytes", map->path,
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

static pl_status map_fd(int fd, pl_file_map *map, pl_err *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return pl_fail_errno(err, errno, "look at", map->path);
    if (S_ISDIR(info.st_mode))
        return pl_fail(err, PL_E_INVALID, "'%s' is a folder, a file is wanted", map->path);
    /* Files below /proc say that they are empty and are not. */
    if (!S_ISREG(info.st_mode) || info.st_size <= 0) return read_stream(fd, map, err);
    if ((uintmax_t)info.st_size > (uintmax_t)PTRDIFF_MAX)
        return pl_fail(err, PL_E_LIMIT, "'%s' is too large to be mapped", map->path);
    const size_t n_bytes = (size_t)info.st_size;
    void *data = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        if (errno == ENODEV) return read_stream(fd, map, err);
        return pl_fail_errno(err, errno, "map", map->path);
    }
    map->data = data;
    map->n_bytes = n_bytes;
    return PL_OK;
}

static void map_free(pl_file_map *map) {
    if (map->data != NULL) {
        void *data = (void *)(uintptr_t)map->data; /* const is for the readers */
        if (map->heap) {
            pl_free(data);
        } else {
            munmap(data, map->n_bytes);
        }
    }
    pl_free(map->path);
    pl_free(map);
}

pl_status pl_file_map_open(const char *path, pl_file_map **out, pl_err *err) {
    pl_file_map *map = pl_calloc(1, sizeof *map);
    if (map == NULL) return pl_fail_memory(err, sizeof *map);
    pl_status st = PL_OK;
    int fd = -1;
    map->refs = 1;
    map->path = pl_strdup(path);
    if (map->path == NULL) {
        st = pl_fail_memory(err, strlen(path) + 1);
        goto done;
    }
    fd = pl_fd_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
    if (fd < 0) {
        st = pl_fail_errno(err, errno, "open", path);
        goto done;
    }
    PL_TRY_GOTO(done, st, map_fd(fd, map, err));
    *out = map;
    map = NULL;
done:
    if (fd >= 0) close(fd);
    if (map != NULL) map_free(map);
    return st;
}

pl_file_map *pl_file_map_ref(pl_file_map *map) {
    __atomic_fetch_add(&map->refs, 1, __ATOMIC_RELAXED);
    return map;
}

void pl_file_map_unref(pl_file_map *map) {
    if (map == NULL) return;
    if (__atomic_sub_fetch(&map->refs, 1, __ATOMIC_ACQ_REL) == 0) map_free(map);
}

/* Of an entry of /proc/PID/pagemap (Linux, admin-guide/mm/pagemap): in memory or swapped out, and
 * of a file. A page that is none of the first two was never touched; a private copy is not of a
 * file. */
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
    int fd;
    char *path;      /* the name in the end, symlinks resolved */
    char *temporary; /* NULL: written in place (a pipe or device) */
    uint64_t n_appended;
    size_t n_buffered;
    pl_status failed; /* the first failure stays */
    char buffer[WRITER_BUFFER_BYTES];
};

static void writer_free(pl_file_writer *w) {
    if (w->fd >= 0) close(w->fd);
    pl_free(w->path);
    pl_free(w->temporary);
    pl_free(w);
}

void pl_file_writer_abort_take(pl_file_writer *w) {
    if (w == NULL) return;
    if (w->temporary != NULL) unlink(w->temporary);
    writer_free(w);
}

/* A pipe or device is written as it is: renaming over /dev/null would replace the device. */
static pl_status in_place_open(pl_file_writer *w, pl_err *err) {
    w->fd = pl_fd_open(w->path, O_WRONLY | O_CLOEXEC | O_NOCTTY, 0);
    return w->fd < 0 ? pl_fail_errno(err, errno, "open", w->path) : PL_OK;
}

/* An existing file keeps its mode, and a symlink to it stays a symlink. */
static pl_status existing_open(pl_file_writer *w, const struct stat *info, pl_err *err) {
    if (S_ISDIR(info->st_mode))
        return pl_fail(err, PL_E_INVALID, "'%s' is a folder, a file is wanted", w->path);
    if (!S_ISREG(info->st_mode)) return in_place_open(w, err);
    char *real = realpath(w->path, NULL);
    if (real != NULL) {
        char *copy = pl_strdup(real);
        free(real);
        if (copy == NULL) return pl_fail_memory(err, 0);
        pl_free(w->path);
        w->path = copy;
    }
    PL_TRY(pl_file_temporary(w->path, O_WRONLY, 0600, &w->fd, &w->temporary, err));
    if (fchmod(w->fd, info->st_mode & 0777) != 0)
        return pl_fail_errno(err, errno, "set the mode of", w->temporary);
    return PL_OK;
}

pl_status pl_file_writer_open(const char *path, pl_file_writer **out, pl_err *err) {
    if (pl_path_basename(path)[0] == '\0')
        return pl_fail(err, PL_E_INVALID, "'%s' does not name a file", path);
    pl_file_writer *w = pl_malloc(sizeof *w);
    if (w == NULL) return pl_fail_memory(err, sizeof *w);
    memset(w, 0, offsetof(pl_file_writer, buffer)); /* not the MiB */
    w->fd = -1;
    w->path = pl_strdup(path);
    pl_status st = PL_OK;
    struct stat info;
    if (w->path == NULL) {
        st = pl_fail_memory(err, strlen(path) + 1);
    } else if (stat(path, &info) == 0) {
        st = existing_open(w, &info, err);
    } else {
        st = pl_file_temporary(path, O_WRONLY, 0666, &w->fd, &w->temporary, err);
    }
    if (st != PL_OK) {
        pl_file_writer_abort_take(w);
        return st;
    }
    *out = w;
    return PL_OK;
}

static pl_status write_all(pl_file_writer *w, const char *data, size_t n_bytes, pl_err *err) {
    while (n_bytes > 0) {
        const ssize_t n = write(w->fd, data, n_bytes);
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

static pl_status sync_dir_of(const char *path, pl_err *err) {
    char *dir = pl_path_dirname(path);
    if (dir == NULL) return pl_fail_memory(err, 0);
    const pl_status st = pl_sync_dir(dir, err);
    pl_free(dir);
    return st;
}

pl_status pl_file_writer_commit_take(pl_file_writer *w, pl_err *err) {
    pl_status st = w->failed;
    if (st != PL_OK) {
        pl_fail(err, st, "an earlier write to '%s' failed", w->path);
        goto abort;
    }
    PL_TRY_GOTO(abort, st, writer_flush(w, err));
    if (!pl_sync_fd(w->fd)) {
        st = pl_fail_errno(err, errno, "sync", w->path);
        goto abort;
    }
    if (w->temporary != NULL) {
        if (rename(w->temporary, w->path) != 0) {
            st = pl_fail_errno(err, errno, "rename to", w->path);
            goto abort;
        }
        pl_free(w->temporary);
        w->temporary = NULL;
        st = sync_dir_of(w->path, err);
    }
    const int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && errno != EINTR && st == PL_OK)
        st = pl_fail_errno(err, errno, "close", w->path);
    writer_free(w);
    return st;
abort:
    pl_file_writer_abort_take(w);
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

/* Outfiles: an unnamed file (O_TMPFILE) that is linked in place when it is whole. */
#include "store/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"

enum {
    COPY_BYTES = 1 << 20,
    /* Written data is handed to the disk in steps of this size, so that the sync at the end finds
     * little left to do. */
    WRITEBACK_BYTES = 32 << 20
};

struct pl_outfile {
    char *path, *dir;
    char *temporary; /* NULL: unnamed */
    int fd;
    uint64_t n_unflushed; /* atomic */
};

pl_status pl_write_all(int fd, uint64_t at, const void *data, size_t n_bytes, const char *path,
                       pl_err *err) {
    const char *from = data;
    while (n_bytes > 0) {
        const ssize_t n = pwrite(fd, from, n_bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return pl_fail_errno(err, n < 0 ? errno : EIO, "write", path);
        from += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return PL_OK;
}

/* ---- life cycle ---- */

static void file_free(pl_outfile *f) {
    if (f->fd >= 0) close(f->fd);
    pl_free(f->temporary);
    pl_free(f->path);
    pl_free(f->dir);
    pl_free(f);
}

static pl_status open_named(pl_outfile *f, pl_err *err) {
    return pl_file_temporary(f->path, O_RDWR, 0666, &f->fd, &f->temporary, err);
}

static pl_status open_file(pl_outfile *f, pl_outfile_kind kind, pl_err *err) {
    if (kind == PL_OUTFILE_NAMED) return open_named(f, err);
    f->fd = pl_fd_open(f->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (f->fd >= 0) return PL_OK;
    /* Kernels and file systems without O_TMPFILE see the attempt to write to a folder. */
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) return open_named(f, err);
    return pl_fail_errno(err, errno, "create", f->path);
}

pl_status pl_outfile_open(const char *path, pl_outfile_kind kind, pl_outfile **out, pl_err *err) {
    if (pl_path_basename(path)[0] == '\0') {
        return pl_fail(err, PL_E_INVALID, "'%s' does not name a file", path);
    }
    if (pl_path_exists(path)) {
        return pl_fail(err, PL_E_EXISTS, "'%s' exists already; it is not overwritten", path);
    }
    pl_outfile *f = pl_calloc(1, sizeof *f);
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    f->fd = -1;
    f->path = pl_strdup(path);
    f->dir = pl_path_dirname(path);
    pl_status st = f->path == NULL || f->dir == NULL ? pl_fail_memory(err, strlen(path))
                                                     : open_file(f, kind, err);
    if (st != PL_OK) {
        file_free(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

void pl_outfile_discard_take(pl_outfile *f) {
    if (f == NULL) return;
    if (f->temporary != NULL) unlink(f->temporary);
    file_free(f);
}

/* ---- writing ---- */

pl_status pl_outfile_write(pl_outfile *f, uint64_t at, const void *data, size_t n_bytes,
                           pl_err *err) {
    PL_TRY(pl_write_all(f->fd, at, data, n_bytes, f->path, err));
    const uint64_t n = __atomic_add_fetch(&f->n_unflushed, n_bytes, __ATOMIC_RELAXED);
    if (n >= WRITEBACK_BYTES) {
        __atomic_store_n(&f->n_unflushed, 0, __ATOMIC_RELAXED);
        (void)sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a hint */
    }
    return PL_OK;
}

pl_status pl_outfile_copy(pl_outfile *to, uint64_t to_at, pl_outfile *from, uint64_t from_at,
                          uint64_t n_bytes, pl_err *err) {
    char *block = pl_malloc(COPY_BYTES);
    if (block == NULL) return pl_fail_memory(err, COPY_BYTES);
    pl_status st = PL_OK;
    while (n_bytes > 0 && st == PL_OK) {
        const size_t want = n_bytes < COPY_BYTES ? (size_t)n_bytes : COPY_BYTES;
        const ssize_t n = pread(from->fd, block, want, (off_t)from_at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            st = pl_fail_errno(err, n < 0 ? errno : EIO, "read back", from->path);
            break;
        }
        st = pl_outfile_write(to, to_at, block, (size_t)n, err);
        to_at += (uint64_t)n;
        from_at += (uint64_t)n;
        n_bytes -= (uint64_t)n;
    }
    pl_free(block);
    return st;
}

/* ---- publishing ---- */

/* Gives the file its name; fails with EEXIST instead of replacing. */
static int give_name(const pl_outfile *f) {
    if (f->temporary == NULL) {
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
        return linkat(AT_FDCWD, self, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW);
    }
    if (renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    if (link(f->temporary, f->path) != 0) return -1;
    unlink(f->temporary);
    return 0;
}

pl_status pl_outfile_publish_take(pl_outfile *f, pl_err *err) {
    pl_status st = PL_OK;
    if (!pl_sync_fd(f->fd)) {
        st = pl_fail_errno(err, errno, "sync", f->path);
        goto done;
    }
    if (give_name(f) != 0) {
        st = errno == EEXIST
                 ? pl_fail(err, PL_E_EXISTS, "'%s' exists already; it is not overwritten", f->path)
                 : pl_fail_errno(err, errno, "name", f->path);
        goto done;
    }
    pl_free(f->temporary);
    f->temporary = NULL;
    st = pl_sync_dir(f->dir, err);
done:
    pl_outfile_discard_take(f);
    return st;
}

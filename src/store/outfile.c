/* Outfiles: an unnamed file (O_TMPFILE) that gets its name when it is complete. */
#include "store/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/size.h"

enum {
    COPY_BYTES = 1 << 20,
    /* Starts writing data back in steps of this size, so that the final sync has little left to
     * do. */
    WRITEBACK_BYTES = 32 << 20
};

struct pl_outfile {
    char *path;
    pl_new_file file;
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

pl_status pl_outfile_open(const char *path, pl_outfile_kind kind, pl_outfile **out, pl_err *err) {
    if (pl_path_is_dir(path)) return pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    pl_outfile *f = pl_calloc(1, sizeof *f);
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    f->file = (pl_new_file)PL_NEW_FILE_INIT;
    f->path = pl_strdup(path);
    pl_status st = f->path == NULL
                       ? pl_fail_memory(err, strlen(path))
                       : pl_new_file_open(path, O_RDWR, kind == PL_OUTFILE_NAMED, &f->file, err);
    if (st == PL_OK && f->file.in_place) /* random-access writes */
        st = pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    if (st != PL_OK) {
        pl_outfile_discard_take(f);
        return st;
    }
    *out = f;
    return PL_OK;
}

void pl_outfile_discard_take(pl_outfile *f) {
    if (f == NULL) return;
    pl_new_file_discard(&f->file);
    pl_free(f->path);
    pl_free(f);
}

/* ---- writing ---- */

pl_status pl_outfile_write(pl_outfile *f, uint64_t at, const void *data, size_t n_bytes,
                           pl_err *err) {
    PL_TRY(pl_write_all(f->file.fd, at, data, n_bytes, f->path, err));
    const uint64_t n = __atomic_add_fetch(&f->n_unflushed, n_bytes, __ATOMIC_RELAXED);
    if (n >= WRITEBACK_BYTES) {
        __atomic_store_n(&f->n_unflushed, 0, __ATOMIC_RELAXED);
        (void)sync_file_range(f->file.fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a hint */
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
        const ssize_t n = pread(from->file.fd, block, want, (off_t)from_at);
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

pl_status pl_outfile_publish_take(pl_outfile *f, pl_err *err) {
    const pl_status st = pl_new_file_publish(&f->file, f->path, err);
    pl_outfile_discard_take(f);
    return st;
}

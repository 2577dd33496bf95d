/* Writing ZIP: stored entries, ZIP64 fields where a number needs them. */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tensor/file/zip.h"

enum { ZIP_VERSION = 20, ZIP64_VERSION = 45, DATE_1980 = 0x21, FLAG_UTF8 = 0x800, UNIX = 3 };

struct pl_zip_writer {
    pl_file_writer *file;
    pl_buf directory;
    uint64_t n_entries, n_left; /* bytes of the open entry still to come */
    bool executable;            /* for entries that follow */
};

static void put_le(pl_buf *buf, uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++)
        pl_buf_putc(buf, (char)(uint8_t)(value >> (8 * i)));
}

static uint64_t capped(uint64_t value) {
    return value < UINT32_MAX ? value : UINT32_MAX;
}

pl_status pl_zip_writer_open(const char *path, pl_zip_writer **out, pl_err *err) {
    pl_zip_writer *w = pl_calloc(1, sizeof *w);
    if (!w) return pl_fail_memory(err, sizeof *w);
    const pl_status st = pl_file_writer_open(path, &w->file, err);
    if (st != PL_OK) {
        pl_free(w);
        return st;
    }
    *out = w;
    return PL_OK;
}

static pl_status append_buf(pl_zip_writer *w, pl_buf *buf, pl_err *err) {
    const pl_status st = pl_buf_ok(buf) && pl_buf_ok(&w->directory)
                             ? pl_file_writer_append(w->file, pl_buf_str(buf), buf->n_bytes, err)
                             : pl_fail_memory(err, buf->n_bytes);
    pl_buf_release(buf);
    return st;
}

/* The fields common to local and central headers: from the required version to the extra length. */
static void put_common(pl_buf *buf, const char *name, bool wide, uint64_t n_bytes, uint32_t crc,
                       size_t n_extra) {
    put_le(buf, wide ? ZIP64_VERSION : ZIP_VERSION, 2);
    put_le(buf, FLAG_UTF8, 2);
    put_le(buf, 0, 2); /* stored */
    put_le(buf, 0, 2); /* time */
    put_le(buf, DATE_1980, 2);
    put_le(buf, crc, 4);
    put_le(buf, wide ? UINT32_MAX : n_bytes, 4);
    put_le(buf, wide ? UINT32_MAX : n_bytes, 4);
    put_le(buf, strlen(name), 2);
    put_le(buf, n_extra, 2);
}

void pl_zip_writer_set_executable(pl_zip_writer *w, bool executable) {
    w->executable = executable;
}

pl_status pl_zip_writer_begin(pl_zip_writer *w, const char *name, uint64_t n_bytes, uint32_t crc,
                              pl_err *err) {
    const uint64_t offset = pl_file_writer_offset(w->file);
    const bool wide = n_bytes >= UINT32_MAX, far = offset >= UINT32_MAX;
    const size_t n_name = strlen(name);
    if (w->n_left > 0)
        return pl_fail(err, PL_E_INTERNAL, "the zip entry before '%.200s' is incomplete", name);
    if (n_name > UINT16_MAX) return pl_fail(err, PL_E_LIMIT, "zip entry name of %zu bytes", n_name);
    pl_buf local = PL_BUF_INIT, *dir = &w->directory;
    pl_buf_append(&local, "PK\3\4", 4);
    put_common(&local, name, wide, n_bytes, crc, wide ? 20 : 0);
    pl_buf_append(&local, name, n_name);
    if (wide) {
        put_le(&local, 1, 2);
        put_le(&local, 16, 2);
        put_le(&local, n_bytes, 8);
        put_le(&local, n_bytes, 8);
    }
    const uint64_t n_wide = (wide ? 16u : 0u) + (far ? 8u : 0u);
    pl_buf_append(dir, "PK\1\2", 4);
    put_le(dir, ZIP64_VERSION | UNIX << 8, 2);
    put_common(dir, name, wide, n_bytes, crc, n_wide ? (size_t)n_wide + 4 : 0);
    put_le(dir, 0, 6); /* comment, disk, internal attributes */
    put_le(dir, (uint64_t)(w->executable ? 0100755 : 0100644) << 16, 4);
    put_le(dir, capped(offset), 4);
    pl_buf_append(dir, name, n_name);
    if (n_wide) {
        put_le(dir, 1, 2);
        put_le(dir, n_wide, 2);
        if (wide) put_le(dir, n_bytes, 8);
        if (wide) put_le(dir, n_bytes, 8);
        if (far) put_le(dir, offset, 8);
    }
    w->n_entries++;
    w->n_left = n_bytes;
    return append_buf(w, &local, err);
}

pl_status pl_zip_writer_append(pl_zip_writer *w, const void *data, size_t n_bytes, pl_err *err) {
    if (n_bytes > w->n_left)
        return pl_fail(err, PL_E_INTERNAL, "a zip entry is longer than announced");
    w->n_left -= n_bytes;
    return n_bytes > 0 ? pl_file_writer_append(w->file, data, n_bytes, err) : PL_OK;
}

static void put_end(pl_zip_writer *w, pl_buf *end, uint64_t offset) {
    const uint64_t n_dir = w->directory.n_bytes;
    const bool wide = offset >= UINT32_MAX || n_dir >= UINT32_MAX || w->n_entries >= UINT16_MAX;
    if (wide) {
        pl_buf_append(end, "PK\6\6", 4);
        put_le(end, 44, 8);
        put_le(end, ZIP64_VERSION, 2);
        put_le(end, ZIP64_VERSION, 2);
        put_le(end, 0, 8); /* disks */
        put_le(end, w->n_entries, 8);
        put_le(end, w->n_entries, 8);
        put_le(end, n_dir, 8);
        put_le(end, offset, 8);
        pl_buf_append(end, "PK\6\7", 4);
        put_le(end, 0, 4);
        put_le(end, offset + n_dir, 8);
        put_le(end, 1, 4);
    }
    const uint64_t n = w->n_entries < UINT16_MAX ? w->n_entries : UINT16_MAX;
    pl_buf_append(end, "PK\5\6", 4);
    put_le(end, 0, 4);
    put_le(end, n, 2);
    put_le(end, n, 2);
    put_le(end, wide ? UINT32_MAX : n_dir, 4);
    put_le(end, wide ? UINT32_MAX : offset, 4);
    put_le(end, 0, 2);
}

pl_status pl_zip_writer_commit_take(pl_zip_writer *w, pl_err *err) {
    pl_status st = PL_OK;
    pl_buf end = PL_BUF_INIT;
    if (w->n_left > 0) {
        st = pl_fail(err, PL_E_INTERNAL, "the last zip entry is incomplete");
        goto done;
    }
    const uint64_t offset = pl_file_writer_offset(w->file);
    put_end(w, &end, offset);
    if (w->directory.n_bytes > 0)
        PL_TRY_GOTO(done, st,
                    pl_file_writer_append(w->file, w->directory.data, w->directory.n_bytes, err));
    PL_TRY_GOTO(done, st, append_buf(w, &end, err));
    st = pl_file_writer_commit_take(w->file, err);
    w->file = NULL;
done:
    pl_buf_release(&end);
    pl_zip_writer_abort_take(w);
    return st;
}

void pl_zip_writer_abort_take(pl_zip_writer *w) {
    if (!w) return;
    pl_file_writer_abort_take(w->file);
    pl_buf_release(&w->directory);
    pl_free(w);
}

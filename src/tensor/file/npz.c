/* npz on top of zip and npy. */
#include "tensor/file/npz.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/strmap.h"
#include "tensor/file/zip.h"

static const char npy_suffix[] = ".npy";
enum { N_SUFFIX = sizeof npy_suffix - 1 };

/* The name of an entry without its suffix. Caller frees. */
static pl_status entry_name(const pl_zip_entry *e, char **out, pl_err *err) {
    const size_t n = e->name.n_bytes;
    const char *s = (const char *)e->name.data;
    if (n < N_SUFFIX || memcmp(s + n - N_SUFFIX, npy_suffix, N_SUFFIX) != 0)
        return pl_fail(err, PL_E_UNSUPPORTED, "npz entry '%.*s' is not an .npy file",
                       (int)pl_size_min(n, 200), s);
    if (memchr(s, '\0', n)) return pl_fail(err, PL_E_FORMAT, "npz entry with a NUL in its name");
    *out = pl_strndup(s, n - N_SUFFIX);
    return *out ? PL_OK : pl_fail_memory(err, n);
}

/* Inflated bytes are freed at the end of this call, so the tensor copies them. */
static pl_status read_entry(const pl_zip_entry *e, const char *name, pl_file_map *map,
                            pl_npz_visit visit_take, void *ctx, pl_err *err) {
    pl_bytes npy;
    void *owned = NULL;
    pl_tensor *t = NULL;
    pl_status st = pl_zip_read(e, &npy, &owned, err);
    if (st == PL_OK) st = pl_npy_read(npy, owned ? NULL : map, &t, err);
    pl_free(owned);
    if (st != PL_OK) return pl_err_wrap(err, st, "'%.200s'", name);
    return visit_take(ctx, name, t, err);
}

pl_status pl_npz_read(pl_bytes bytes, pl_file_map *map, pl_npz_visit visit_take, void *ctx,
                      pl_err *err) {
    pl_status st = PL_OK;
    pl_zip zip = { NULL, 0 };
    pl_strmap seen = PL_STRMAP_INIT;
    char **names = NULL;
    PL_TRY(pl_zip_open(bytes, &zip, err));
    names = pl_calloc(zip.n_entries + 1, sizeof *names);
    if (!names) {
        st = pl_fail_memory(err, (zip.n_entries + 1) * sizeof *names);
        goto done;
    }
    for (size_t i = 0; i < zip.n_entries; i++) {
        PL_TRY_GOTO(done, st, entry_name(&zip.entries[i], &names[i], err));
        if (pl_strmap_has(&seen, names[i])) {
            st = pl_fail(err, PL_E_FORMAT, "npz has two entries named '%.200s'", names[i]);
            goto done;
        }
        if (pl_strmap_put(&seen, names[i], &zip.entries[i]) != 0) {
            st = pl_fail_memory(err, sizeof(pl_strmap_entry));
            goto done;
        }
        PL_TRY_GOTO(done, st, read_entry(&zip.entries[i], names[i], map, visit_take, ctx, err));
    }
done:
    for (size_t i = 0; names && i < zip.n_entries; i++)
        pl_free(names[i]);
    pl_free(names);
    pl_strmap_release(&seen);
    pl_zip_release(&zip);
    return st;
}

/* ---- writing ---- */

static pl_status write_entry(pl_zip_writer *w, const char *name, const pl_tensor *t, pl_err *err) {
    pl_status st = PL_OK;
    pl_buf header = PL_BUF_INIT, path = PL_BUF_INIT;
    pl_tensor *c = NULL;
    PL_TRY_GOTO(done, st, pl_npy_put_header(&header, t, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(t, &c, err));
    pl_buf_puts(&path, name);
    pl_buf_puts(&path, npy_suffix);
    if (!pl_buf_ok(&path)) {
        st = pl_fail_memory(err, strlen(name));
        goto done;
    }
    /* npy stores every type it supports as in memory. */
    const size_t n_data = pl_tensor_bytes(c);
    uint32_t crc = pl_crc32(0, header.data, header.n_bytes);
    if (n_data > 0) crc = pl_crc32(crc, c->data, n_data);
    PL_TRY_GOTO(done, st,
                pl_zip_writer_begin(w, pl_buf_str(&path), header.n_bytes + n_data, crc, err));
    PL_TRY_GOTO(done, st, pl_zip_writer_append(w, header.data, header.n_bytes, err));
    st = pl_zip_writer_append(w, c->data, n_data, err);
done:
    pl_tensor_unref(c);
    pl_buf_release(&header);
    pl_buf_release(&path);
    return st;
}

static pl_status check_names(const char *const *names, size_t n, pl_err *err) {
    pl_strmap seen = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        if (pl_strmap_has(&seen, names[i]))
            st = pl_fail(err, PL_E_INVALID, "two tensors are named '%.200s'", names[i]);
        else if (pl_strmap_put(&seen, names[i], &seen) != 0)
            st = pl_fail_memory(err, sizeof(pl_strmap_entry));
    }
    pl_strmap_release(&seen);
    return st;
}

pl_status pl_npz_write(const char *path, const char *const *names, const pl_tensor *const *tensors,
                       size_t n, pl_err *err) {
    pl_zip_writer *w = NULL;
    PL_TRY(check_names(names, n, err));
    PL_TRY(pl_zip_writer_open(path, &w, err));
    for (size_t i = 0; i < n; i++) {
        const pl_status st = write_entry(w, names[i], tensors[i], err);
        if (st != PL_OK) {
            pl_zip_writer_abort_take(w);
            return pl_err_wrap(err, st, "'%.200s'", names[i]);
        }
    }
    return pl_zip_writer_commit_take(w, err);
}

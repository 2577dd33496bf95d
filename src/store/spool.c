/* The spool: an array of entries, in memory or in one unnamed file. */
#include "store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "store/outfile.h"

typedef struct entry {
    pl_datum *datum; /* in memory; NULL = in the file */
    uint64_t offset;
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX];
    size_t n_bytes;
} entry;

struct pl_spool {
    uint64_t memory, held, total, end;
    char *dir;
    int fd; /* -1 = not yet */
    entry *entries;
    size_t n, capacity;
};

pl_status pl_spool_new(uint64_t memory, const char *dir, pl_spool **out, pl_err *err) {
    if (dir == NULL) dir = pl_dir_for_temporaries();
    pl_spool *s = pl_calloc(1, sizeof(*s));
    if (s == NULL) return pl_fail_memory(err, sizeof(*s));
    s->memory = memory;
    s->fd = -1;
    s->dir = pl_strdup(dir);
    if (s->dir == NULL) {
        pl_spool_free(s);
        return pl_fail_memory(err, 1);
    }
    *out = s;
    return PL_OK;
}

void pl_spool_free(pl_spool *s) {
    if (s == NULL) return;
    for (size_t i = 0; i < s->n; i++)
        pl_datum_unref(s->entries[i].datum);
    if (s->fd >= 0) close(s->fd);
    pl_free(s->entries);
    pl_free(s->dir);
    pl_free(s);
}

static pl_status open_file(pl_spool *s, pl_err *err) {
    if (s->fd >= 0) return PL_OK;
    s->fd = pl_fd_open(s->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0) return PL_OK;
    char *path = pl_path_join(s->dir, "plumb-spool-XXXXXX"); /* no O_TMPFILE on this file system */
    if (path == NULL) return pl_fail_memory(err, 1);
    s->fd = mkostemp(path, O_CLOEXEC);
    const int error = errno;
    if (s->fd >= 0) unlink(path);
    pl_free(path);
    return s->fd >= 0 ? PL_OK : pl_fail_errno(err, error, "create a temporary file in", s->dir);
}

static pl_status put_file(pl_spool *s, const pl_tensor *t, entry *e, pl_err *err) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    pl_tensor *dense = NULL;
    PL_TRY(open_file(s, err));
    PL_TRY(pl_tensor_contiguous(t, &dense, err));
    e->dtype = t->dtype;
    e->rank = t->rank;
    memcpy(e->dims, t->dims, sizeof(e->dims));
    e->n_bytes = pl_tensor_bytes(t);
    e->offset = s->end;
    pl_status st = pl_write_all(s->fd, e->offset, dense->data, e->n_bytes, s->dir, err);
    if (st != PL_OK) st = pl_err_wrap(err, st, "temporary file of intermediate values");
    pl_tensor_unref(dense);
    s->end += (e->n_bytes + page - 1) / page * page;
    return st;
}

pl_status pl_spool_put(pl_spool *s, const pl_datum *datum, size_t *id, pl_err *err) {
    if (!PL_ARRAY_ROOM(s->entries, s->n, &s->capacity)) return pl_fail_memory(err, s->n);
    entry e = { .datum = NULL };
    const uint64_t n_bytes = pl_datum_bytes(datum);
    const bool tensor = datum->kind == PL_TYPE_TENSOR && datum->tensor->dtype != PL_STRING;
    if (tensor && pl_tensor_is_filled(datum->tensor)) { /* takes no memory */
        e.datum = pl_datum_ref(datum);
    } else if (!tensor || n_bytes == 0 || s->held + n_bytes <= s->memory) {
        e.datum = pl_datum_ref(datum);
        s->held += n_bytes;
    } else {
        PL_TRY(put_file(s, datum->tensor, &e, err));
    }
    s->total += n_bytes;
    *id = s->n;
    s->entries[s->n++] = e;
    return PL_OK;
}

typedef struct mapping {
    void *data;
    size_t n_bytes;
} mapping;

static void unmap(void *ctx) {
    mapping *m = ctx;
    munmap(m->data, m->n_bytes);
    pl_free(m);
}

pl_status pl_spool_get(const pl_spool *s, size_t id, pl_datum **out, pl_err *err) {
    if (id >= s->n) return pl_fail(err, PL_E_INTERNAL, "spool: no entry %zu of %zu", id, s->n);
    const entry *e = &s->entries[id];
    if (e->datum != NULL) {
        *out = pl_datum_ref(e->datum);
        return PL_OK;
    }
    mapping *m = pl_calloc(1, sizeof(*m));
    if (m == NULL) return pl_fail_memory(err, sizeof(*m));
    m->n_bytes = e->n_bytes;
    m->data = mmap(NULL, e->n_bytes, PROT_READ, MAP_SHARED, s->fd, (off_t)e->offset);
    if (m->data == MAP_FAILED) {
        pl_free(m);
        return pl_fail_errno(err, errno, "map a temporary file in", s->dir);
    }
    pl_tensor *t = NULL;
    const pl_status st = pl_tensor_borrow(e->dtype, e->rank, e->dims, m->data, unmap, m, &t, err);
    if (st != PL_OK) {
        unmap(m);
        return st;
    }
    return pl_datum_of_tensor_take(t, out, err);
}

uint64_t pl_spool_bytes(const pl_spool *s) {
    return s->total;
}

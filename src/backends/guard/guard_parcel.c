/* Writing and reading parcels. */
#include "backends/guard/guard_parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "base/wire.h"

enum {
    FILLED_MIN = 8 << 20,
    ALIGNMENT = 64,
    HEAD_BYTES = 16,
    DEPTH_MAX = 8,
    SEALS = F_SEAL_SHRINK | F_SEAL_WRITE
};

static const char magic[8] = { 'p', 'l', 'u', 'm', 'b', 'b', 'l', 'b' };

static size_t aligned(size_t n) {
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- writing ---- */

static pl_status write_at(int fd, const void *data, size_t n_bytes, size_t offset, pl_err *err) {
    const char *at = data;
    while (n_bytes > 0) {
        const ssize_t n = pwrite(fd, at, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return pl_fail_errno(err, n < 0 ? errno : ENOSPC, "write", "shared memory");
        at += n;
        offset += (size_t)n;
        n_bytes -= (size_t)n;
    }
    return PL_OK;
}

static pl_status open_memory(int *fd, pl_err *err) {
    *fd = memfd_create("plumb", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return *fd < 0 ? pl_fail_errno(err, errno, "make", "shared memory") : PL_OK;
}

static pl_status seal(int *fd, pl_status st, pl_err *err) {
    if (st == PL_OK && fcntl(*fd, F_ADD_SEALS, SEALS | F_SEAL_GROW) != 0) {
        st = pl_fail_errno(err, errno, "seal", "shared memory");
    }
    if (st != PL_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

pl_status pl_parcel_write_bytes(const void *data, size_t n_bytes, int *fd, pl_err *err) {
    PL_TRY(open_memory(fd, err));
    return seal(fd, write_at(*fd, data, n_bytes, 0, err), err);
}

/* Lengths, then bytes. */
static void put_strings(pl_buf *buf, const pl_tensor *t) {
    const pl_string *s = t->data;
    for (int64_t i = 0; i < t->n_elements; i++) {
        const uint64_t n = s[i].n_bytes;
        pl_buf_append(buf, &n, sizeof(n));
    }
    for (int64_t i = 0; i < t->n_elements; i++)
        pl_buf_append(buf, s[i].data, s[i].n_bytes);
}

typedef struct writer {
    int fd;
    size_t base;   /* where data starts; 0 while measuring the description */
    size_t offset; /* next free byte of data */
    pl_err *err;
} writer;

/* Large and one number throughout, as weights that a model makes: one element is sent. */
static bool is_one_number(const pl_tensor *t) {
    const size_t size = pl_dtype_bytes(t->dtype), n_bytes = pl_tensor_bytes(t);
    const char *at = t->data;
    return t->dtype != PL_STRING && n_bytes >= FILLED_MIN &&
           memcmp(at, at + size, n_bytes - size) == 0;
}

static pl_status put_data(writer *w, const pl_tensor *t, bool one, size_t *n_bytes) {
    pl_buf strings = PL_BUF_INIT;
    const void *data = t->data;
    *n_bytes = one ? pl_dtype_bytes(t->dtype) : pl_tensor_bytes(t);
    if (t->dtype == PL_STRING) {
        put_strings(&strings, t);
        if (!pl_buf_ok(&strings)) return pl_fail_memory(w->err, *n_bytes);
        data = strings.data;
        *n_bytes = strings.n_bytes;
    }
    const pl_status st =
        w->base == 0 ? PL_OK : write_at(w->fd, data, *n_bytes, w->base + w->offset, w->err);
    pl_buf_release(&strings);
    return st;
}

/* Describes one entry; with w->base set also writes its data. */
static pl_status put_entry(writer *w, pl_buf *buf, uint32_t field, const char *name,
                           const pl_datum *d) {
    pl_buf entry = PL_BUF_INIT;
    pl_tensor *t = NULL;
    pl_status st = PL_OK;
    pl_wire_put_string(&entry, 1, name);
    pl_wire_put_int(&entry, 2, d == NULL ? 0 : (int64_t)d->kind);
    if (d != NULL && d->kind == PL_TYPE_TENSOR) {
        size_t n_bytes = 0;
        PL_TRY_GOTO(done, st, pl_tensor_contiguous(d->tensor, &t, w->err));
        const bool one = is_one_number(t);
        PL_TRY_GOTO(done, st, put_data(w, t, one, &n_bytes));
        pl_wire_put_int(&entry, 3, t->dtype);
        for (int i = 0; i < t->rank; i++)
            pl_wire_put_int(&entry, 4, t->dims[i]);
        pl_wire_put_int(&entry, 5, (int64_t)w->offset);
        pl_wire_put_int(&entry, 6, (int64_t)n_bytes);
        if (one) pl_wire_put_int(&entry, 9, 1);
        w->offset += aligned(n_bytes);
    } else if (d != NULL) {
        pl_wire_put_int(&entry, 3, d->elem_dtype);
        pl_wire_put_int(&entry, 8, d->elem_kind);
        for (size_t i = 0; i < d->n_items && st == PL_OK; i++) {
            st = put_entry(w, &entry, 7, "", d->items[i]);
        }
    }
    if (!pl_buf_ok(&entry)) buf->failed = true;
    pl_wire_put_bytes(buf, field, pl_buf_str(&entry), entry.n_bytes);
done:
    pl_tensor_unref(t);
    pl_buf_release(&entry);
    return st;
}

static pl_status put_all(writer *w, const pl_parcel_item *items, size_t n_items, pl_buf *meta) {
    for (size_t i = 0; i < n_items; i++) {
        PL_TRY(put_entry(w, meta, 1, items[i].name, items[i].datum));
    }
    return pl_buf_ok(meta) ? PL_OK : pl_fail_memory(w->err, meta->n_bytes);
}

pl_status pl_parcel_write(const pl_parcel_item *items, size_t n_items, int *fd, pl_err *err) {
    pl_buf meta = PL_BUF_INIT, again = PL_BUF_INIT;
    writer w = { .fd = -1, .err = err };
    pl_status st = PL_OK;
    *fd = -1;
    PL_TRY_GOTO(done, st, put_all(&w, items, n_items, &meta));
    PL_TRY_GOTO(done, st, open_memory(fd, err));
    const uint64_t n_meta = meta.n_bytes;
    const size_t base = aligned(HEAD_BYTES + meta.n_bytes);
    if (ftruncate(*fd, (off_t)(base + w.offset)) != 0) {
        st = pl_fail_errno(err, errno, "size", "shared memory");
        goto done;
    }
    PL_TRY_GOTO(done, st, write_at(*fd, magic, sizeof(magic), 0, err));
    PL_TRY_GOTO(done, st, write_at(*fd, &n_meta, sizeof(n_meta), sizeof(magic), err));
    PL_TRY_GOTO(done, st, write_at(*fd, meta.data, meta.n_bytes, HEAD_BYTES, err));
    w = (writer){ .fd = *fd, .base = base, .err = err };
    PL_TRY_GOTO(done, st, put_all(&w, items, n_items, &again));
done:
    pl_buf_release(&meta);
    pl_buf_release(&again);
    return seal(fd, st, err);
}

/* ---- reading ---- */

typedef struct mapping {
    uint8_t *data;
    size_t n_bytes;
    int refs;
} mapping;

typedef struct reader {
    mapping *map;
    const uint8_t *data; /* where the data starts */
    size_t n_data;
    pl_err *err;
} reader;

static void mapping_unref(void *ctx) {
    mapping *m = ctx;
    if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    munmap(m->data, m->n_bytes);
    pl_free(m);
}

static pl_status mapping_open(int fd, bool writable, mapping **out, pl_err *err) {
    struct stat info;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        return pl_fail(err, PL_E_BACKEND, "the child sent shared memory that is not sealed");
    }
    if (fstat(fd, &info) != 0) return pl_fail_errno(err, errno, "look at", "shared memory");
    if (info.st_size < HEAD_BYTES) {
        return pl_fail(err, PL_E_BACKEND, "the child sent shared memory that is too short");
    }
    mapping *m = pl_calloc(1, sizeof(*m));
    if (m == NULL) return pl_fail_memory(err, sizeof(*m));
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ | (writable ? PROT_WRITE : 0),
                      MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        pl_free(m);
        return pl_fail_errno(err, errno, "map", "shared memory");
    }
    *m = (mapping){ .data = data, .n_bytes = (size_t)info.st_size, .refs = 1 };
    *out = m;
    return PL_OK;
}

static pl_status garbage(const reader *r, const char *what) {
    return pl_fail(r->err, PL_E_BACKEND, "the child sent invalid data: %s", what);
}

typedef struct entry {
    pl_bytes name;
    uint64_t kind, dtype, offset, n_bytes, elem_kind, one_number;
    int64_t dims[PL_RANK_MAX];
    int rank;
    size_t n_items;
} entry;

static pl_status read_entry(const reader *r, pl_bytes bytes, entry *e) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *e = (entry){ 0 };
    while (pl_wire_next(&wire, &f)) {
        switch (f.number) {
        case 1: e->name = f.bytes; break;
        case 2: e->kind = f.integer; break;
        case 3: e->dtype = f.integer; break;
        case 4:
            if (e->rank >= PL_RANK_MAX) return garbage(r, "rank above the limit");
            e->dims[e->rank++] = (int64_t)f.integer;
            break;
        case 5: e->offset = f.integer; break;
        case 6: e->n_bytes = f.integer; break;
        case 7: e->n_items++; break;
        case 8: e->elem_kind = f.integer; break;
        case 9: e->one_number = f.integer; break;
        default: return garbage(r, "an unknown field");
        }
    }
    return wire.bad ? garbage(r, "an invalid description") : PL_OK;
}

static pl_status read_strings(const reader *r, const uint8_t *data, size_t n_bytes, pl_tensor *t) {
    const size_t n = (size_t)t->n_elements;
    size_t at = 0;
    if (!pl_size_mul(n, sizeof(uint64_t), &at) || at > n_bytes) {
        return garbage(r, "a string tensor that is too short");
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        memcpy(&length, data + i * sizeof(length), sizeof(length));
        if (length > n_bytes - at) return garbage(r, "a string that is too long");
        PL_TRY(
            pl_tensor_set_string(t, (int64_t)i, (const char *)data + at, (size_t)length, r->err));
        at += (size_t)length;
    }
    return PL_OK;
}

static pl_status read_tensor(const reader *r, const entry *e, pl_datum **out) {
    int64_t n_elements = 0;
    size_t n_bytes = 0;
    pl_tensor *t = NULL;
    if (e->dtype > INT32_MAX || !pl_dtype_valid((int64_t)e->dtype)) {
        return garbage(r, "an element type that does not exist");
    }
    const pl_dtype dtype = (pl_dtype)e->dtype;
    if (!pl_dims_product(e->rank, e->dims, &n_elements) ||
        !pl_size_mul((size_t)n_elements, pl_dtype_bytes(dtype), &n_bytes)) {
        return garbage(r, "a shape that is negative or too large");
    }
    if (e->offset > r->n_data || e->n_bytes > r->n_data - e->offset || e->offset % ALIGNMENT != 0) {
        return garbage(r, "a tensor outside its memory");
    }
    const uint8_t *data = r->data + e->offset;
    if (dtype == PL_STRING) {
        if ((uint64_t)n_elements > e->n_bytes / sizeof(uint64_t)) {
            return garbage(r, "a string tensor that is too short");
        }
        PL_TRY(pl_tensor_new(dtype, e->rank, e->dims, &t, r->err));
        const pl_status st = read_strings(r, data, (size_t)e->n_bytes, t);
        if (st != PL_OK) {
            pl_tensor_unref(t);
            return st;
        }
    } else if (e->one_number != 0) {
        if (n_bytes < FILLED_MIN || e->n_bytes != pl_dtype_bytes(dtype))
            return garbage(r, "a repeated element of another size");
        PL_TRY(pl_tensor_new_filled(dtype, e->rank, e->dims, data, &t, r->err));
    } else {
        if (n_bytes != e->n_bytes) return garbage(r, "a tensor whose size and shape disagree");
        __atomic_add_fetch(&r->map->refs, 1, __ATOMIC_RELAXED);
        const pl_status st =
            pl_tensor_borrow(dtype, e->rank, e->dims, data, mapping_unref, r->map, &t, r->err);
        if (st != PL_OK) {
            mapping_unref(r->map);
            return st;
        }
    }
    return pl_datum_of_tensor_take(t, out, r->err);
}

static pl_status read_datum(const reader *r, pl_bytes bytes, int depth, entry *e, pl_datum **out);

static pl_status read_list(const reader *r, pl_bytes bytes, const entry *e, int depth,
                           pl_datum **out) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    size_t n = 0;
    pl_status st = PL_OK;
    const bool valid =
        e->dtype <= INT32_MAX && (e->dtype == 0 || pl_dtype_valid((int64_t)e->dtype));
    const bool sequence = e->elem_kind == PL_TYPE_SEQUENCE;
    if (!valid || (!sequence && e->elem_kind != PL_TYPE_TENSOR && e->elem_kind != PL_TYPE_NONE)) {
        return garbage(r, "a list of an unknown type");
    }
    if (depth >= DEPTH_MAX) return garbage(r, "lists nested too deeply");
    if (e->kind == PL_TYPE_OPTIONAL && e->n_items > 1)
        return garbage(r, "an optional with several items");
    pl_datum **items = pl_calloc(e->n_items + 1, sizeof(pl_datum *));
    if (items == NULL) return pl_fail_memory(r->err, e->n_items);
    while (st == PL_OK && pl_wire_next(&wire, &f)) {
        entry inner;
        if (f.number != 7) continue;
        st = f.type == 2 ? read_datum(r, f.bytes, depth + 1, &inner, &items[n])
                         : garbage(r, "an item that is not a message");
        if (st == PL_OK && items[n++] == NULL) st = garbage(r, "an empty item");
    }
    if (st == PL_OK) {
        st = e->kind == PL_TYPE_SEQUENCE
                 ? pl_datum_new_sequence((pl_type_kind)e->elem_kind, (pl_dtype)e->dtype, items, n,
                                         out, r->err)
                 : pl_datum_new_optional((pl_type_kind)e->elem_kind, (pl_dtype)e->dtype,
                                         n > 0 ? items[0] : NULL, out, r->err);
    }
    for (size_t i = 0; i < e->n_items; i++)
        pl_datum_unref(items[i]);
    pl_free(items);
    return st;
}

static pl_status read_datum(const reader *r, pl_bytes bytes, int depth, entry *e, pl_datum **out) {
    PL_TRY(read_entry(r, bytes, e));
    *out = NULL;
    switch (e->kind) {
    case 0: return PL_OK;
    case PL_TYPE_TENSOR: return read_tensor(r, e, out);
    case PL_TYPE_SEQUENCE:
    case PL_TYPE_OPTIONAL: return read_list(r, bytes, e, depth, out);
    default: return garbage(r, "an unknown kind of value");
    }
}

static pl_status read_items(const reader *r, pl_bytes meta, pl_parcel *out) {
    pl_wire wire = pl_wire_of(meta);
    pl_wire_field f;
    size_t n = 0;
    while (pl_wire_next(&wire, &f))
        n++;
    if (wire.bad) return garbage(r, "an invalid description");
    out->items = pl_calloc(n + 1, sizeof(*out->items));
    if (out->items == NULL) return pl_fail_memory(r->err, n);
    wire = pl_wire_of(meta);
    while (pl_wire_next(&wire, &f)) {
        pl_parcel_item *item = &out->items[out->n_items++];
        entry e;
        if (f.number != 1 || f.type != 2) return garbage(r, "an unknown field");
        PL_TRY(read_datum(r, f.bytes, 0, &e, &item->datum));
        if (e.name.n_bytes > 0 && memchr(e.name.data, 0, e.name.n_bytes) != NULL) {
            return garbage(r, "a name with a NUL byte");
        }
        item->name = pl_strndup((const char *)e.name.data, e.name.n_bytes);
        if (item->name == NULL) return pl_fail_memory(r->err, e.name.n_bytes);
    }
    return PL_OK;
}

pl_status pl_parcel_read(int fd, bool writable, pl_parcel *out, pl_err *err) {
    reader r = { .err = err };
    uint64_t n_meta = 0;
    *out = (pl_parcel){ 0 };
    PL_TRY(mapping_open(fd, writable, &r.map, err));
    if (r.map == NULL) return pl_fail(err, PL_E_INTERNAL, "a parcel was not mapped");
    pl_status st = PL_OK;
    memcpy(&n_meta, r.map->data + sizeof(magic), sizeof(n_meta));
    if (memcmp(r.map->data, magic, sizeof(magic)) != 0 || n_meta > r.map->n_bytes - HEAD_BYTES) {
        st = garbage(&r, "no parcel");
    } else {
        const size_t base = pl_size_min(aligned(HEAD_BYTES + (size_t)n_meta), r.map->n_bytes);
        r.data = r.map->data + base;
        r.n_data = r.map->n_bytes - base;
        const pl_bytes meta = { r.map->data + HEAD_BYTES, (size_t)n_meta };
        st = read_items(&r, meta, out);
    }
    mapping_unref(r.map);
    if (st != PL_OK) pl_parcel_release(out);
    return st;
}

void pl_parcel_release(pl_parcel *parcel) {
    for (size_t i = 0; i < parcel->n_items; i++) {
        pl_free(parcel->items[i].name);
        pl_datum_unref(parcel->items[i].datum);
    }
    pl_free(parcel->items);
    *parcel = (pl_parcel){ 0 };
}

/* Files of torch.save on top of zip and pickle. */
#include "tensor/file/pt.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"
#include "base/strmap.h"
#include "tensor/file/pickle.h"
#include "tensor/file/pickle_numpy.h"
#include "tensor/file/zip.h"

enum {
    DEPTH_MAX = 64,
    TENSORS_MAX = 1 << 20,
    VISITS_MIN = 1000, /* more only in a longer stream: shared containers may be nested */
    NAME_MAX_BYTES = 4096
};
#define COPIES_MIN ((size_t)1 << 29) /* of strided views; more only for a larger file */

typedef pl_pickle_value value;

typedef struct reader {
    pl_bytes bytes;
    pl_file_map *map;
    pl_zip zip;
    pl_arena *arena;
    pl_strmap entries;  /* path in the archive without its top folder -> pl_zip_entry */
    pl_strmap storages; /* key -> pl_tensor of bytes, owned */
    pl_strmap names;    /* names used so far */
    pl_buf path;        /* path of the current value */
    size_t n_tensors, n_visits, n_copied;
    size_t visits_max; /* a value takes at least a byte of the stream */
    int n_settings;    /* Namespaces around what is walked */
    pl_npz_visit visit_take;
    void *ctx;
    pl_err *err;
} reader;

/* ---- names ---- */

typedef struct type_name {
    const char *name;
    pl_dtype dtype;
} type_name;

/* clang-format off */
static const type_name types[] = {
    { "torch.FloatStorage", PL_F32 },         { "torch.DoubleStorage", PL_F64 },
    { "torch.HalfStorage", PL_F16 },          { "torch.BFloat16Storage", PL_BF16 },
    { "torch.LongStorage", PL_I64 },          { "torch.IntStorage", PL_I32 },
    { "torch.ShortStorage", PL_I16 },         { "torch.CharStorage", PL_I8 },
    { "torch.ByteStorage", PL_U8 },           { "torch.BoolStorage", PL_BOOL },
    { "torch.ComplexFloatStorage", PL_C64 },  { "torch.ComplexDoubleStorage", PL_C128 },
    { "torch.QUInt8Storage", PL_U8 },         { "torch.QInt8Storage", PL_I8 },
    { "torch.QInt32Storage", PL_I32 },
    { "torch.float32", PL_F32 },              { "torch.float64", PL_F64 },
    { "torch.float16", PL_F16 },              { "torch.bfloat16", PL_BF16 },
    { "torch.int64", PL_I64 },                { "torch.int32", PL_I32 },
    { "torch.int16", PL_I16 },                { "torch.int8", PL_I8 },
    { "torch.uint8", PL_U8 },                 { "torch.uint16", PL_U16 },
    { "torch.uint32", PL_U32 },               { "torch.uint64", PL_U64 },
    { "torch.bool", PL_BOOL },                { "torch.complex64", PL_C64 },
    { "torch.complex128", PL_C128 },          { "torch.float8_e4m3fn", PL_F8E4M3FN },
    { "torch.float8_e5m2", PL_F8E5M2 },       { "torch.float8_e4m3fnuz", PL_F8E4M3FNUZ },
    { "torch.float8_e5m2fnuz", PL_F8E5M2FNUZ }, { "torch.float8_e8m0fnu", PL_F8E8M0 },
};
/* clang-format on */

static bool is(const value *v, const char *text) {
    return (v->kind == PL_PICKLE_TEXT || v->kind == PL_PICKLE_GLOBAL) &&
           v->text.n_bytes == strlen(text) && memcmp(v->text.data, text, v->text.n_bytes) == 0;
}

/* Type of a storage class or torch.dtype; PL_UNDEFINED when it is neither. */
static pl_dtype type_of(const value *v) {
    for (size_t i = 0; v->kind == PL_PICKLE_GLOBAL && i < sizeof types / sizeof *types; i++)
        if (is(v, types[i].name)) return types[i].dtype;
    return PL_UNDEFINED;
}

static const char *here(reader *r) {
    return r->path.n_bytes == 0 ? "the file" : pl_buf_str(&r->path);
}

static pl_status fail(reader *r, const char *what) {
    return pl_fail(r->err, PL_E_FORMAT, "%.200s: %s", here(r), what);
}

static pl_status refuse(reader *r, const value *callable) {
    return pl_fail(r->err, PL_E_UNSUPPORTED,
                   "%.200s is a Python object of type '%.*s'; only tensors, containers and numbers "
                   "are supported",
                   here(r), (int)pl_size_min(callable->text.n_bytes, 200),
                   (const char *)callable->text.data);
}

/* ---- storages ---- */

static const pl_zip_entry *find_entry(const reader *r, const char *name) {
    return pl_strmap_get(&r->entries, name);
}

/* The bytes of a storage as a tensor; read once. */
static pl_status open_storage(reader *r, const value *key, pl_tensor **out) {
    char name[64];
    if (key->kind != PL_PICKLE_TEXT || key->text.n_bytes > 32)
        return fail(r, "bad key of a storage");
    snprintf(name, sizeof name, "data/%.*s", (int)key->text.n_bytes, (const char *)key->text.data);
    *out = pl_strmap_get(&r->storages, name);
    if (*out != NULL) return PL_OK;
    const pl_zip_entry *e = find_entry(r, name);
    if (e == NULL)
        return pl_fail(r->err, PL_E_FORMAT, "%.200s: the archive has no entry '%s'", here(r), name);
    pl_bytes bytes;
    void *owned = NULL;
    PL_TRY(pl_zip_read(e, &bytes, &owned, r->err));
    const int64_t n = (int64_t)bytes.n_bytes;
    pl_tensor *t = NULL;
    pl_status st;
    if (owned == NULL && r->map != NULL) {
        st = pl_tensor_from_map(PL_U8, 1, &n, r->map, bytes.data, &t, r->err);
    } else {
        st = pl_tensor_new(PL_U8, 1, &n, &t, r->err);
        if (st == PL_OK && n > 0) memcpy(t->data, bytes.data, bytes.n_bytes);
    }
    pl_free(owned);
    const char *copy = st == PL_OK ? pl_arena_strdup(r->arena, name) : NULL;
    if (st == PL_OK && (copy == NULL || pl_strmap_put(&r->storages, copy, t) != 0)) {
        pl_tensor_unref(t);
        st = pl_fail_memory(r->err, sizeof(pl_strmap_entry));
    }
    if (st == PL_OK) *out = t;
    return st;
}

/* ---- tensors ---- */

typedef struct layout {
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX], offset;
} layout;

static bool is_int(const value *v) {
    return v->kind == PL_PICKLE_INT;
}

/* torch.Size is a call with a tuple. */
static const value *tuple_of(const value *v) {
    if (v->kind == PL_PICKLE_CALL && is(v->callable, "torch.Size") && v->args->n_items == 1)
        v = v->args->items[0];
    return v->kind == PL_PICKLE_TUPLE || v->kind == PL_PICKLE_LIST ? v : NULL;
}

static pl_status read_layout(reader *r, const value *offset, const value *size, const value *stride,
                             layout *out) {
    const value *dims = tuple_of(size), *strides = tuple_of(stride);
    if (dims == NULL || strides == NULL || !is_int(offset) || offset->integer < 0 ||
        dims->n_items != strides->n_items)
        return fail(r, "bad shape of a tensor");
    if (dims->n_items > PL_RANK_MAX)
        return pl_fail(r->err, PL_E_LIMIT, "%.200s: %zu dims, expected at most %d", here(r),
                       dims->n_items, PL_RANK_MAX);
    out->offset = offset->integer;
    out->rank = (int)dims->n_items;
    for (int i = 0; i < out->rank; i++) {
        if (!is_int(dims->items[i]) || !is_int(strides->items[i]) || dims->items[i]->integer < 0 ||
            strides->items[i]->integer < 0)
            return fail(r, "bad shape of a tensor");
        out->dims[i] = dims->items[i]->integer;
        out->strides[i] = strides->items[i]->integer;
    }
    return PL_OK;
}

/* Is the last element inside the storage? */
static bool fits(const layout *l, int64_t n_storage) {
    int64_t last = l->offset, n = 0;
    if (!pl_dims_product(l->rank, l->dims, &n)) return false;
    if (n == 0) return l->offset <= n_storage;
    for (int i = 0; i < l->rank; i++) {
        int64_t step;
        if (!pl_i64_mul(l->dims[i] - 1, l->strides[i], &step) || !pl_i64_add(last, step, &last))
            return false;
    }
    return last < n_storage;
}

/* Makes strided and expanded views dense. The total is limited, since a few bytes may claim any
 * size. */
static pl_status make_dense_take(reader *r, pl_tensor *t, pl_tensor **out) {
    pl_status st = PL_OK;
    if (!pl_tensor_is_contiguous(t)) {
        const size_t limit = COPIES_MIN > 4 * r->bytes.n_bytes ? COPIES_MIN : 4 * r->bytes.n_bytes;
        const size_t n = pl_tensor_bytes(t);
        if (n > limit - r->n_copied)
            st = pl_fail(r->err, PL_E_LIMIT,
                         "%.200s: a view of %zu bytes; the views of a file are limited to %zu",
                         here(r), n, limit);
        else
            r->n_copied += n;
    }
    if (st == PL_OK) st = pl_tensor_contiguous(t, out, r->err);
    pl_tensor_unref(t);
    return st;
}

static void drop_bytes(void *bytes) {
    pl_tensor_unref(bytes);
}

/* storage: the persistent identity ("storage", class, key, device, number of elements). */
static pl_status view_storage(reader *r, const value *storage, layout *l, pl_tensor **out) {
    const value *id = storage->kind == PL_PICKLE_PERSISTENT ? storage->args : NULL;
    if (id == NULL || id->kind != PL_PICKLE_TUPLE || id->n_items < 5 ||
        !is(id->items[0], "storage"))
        return fail(r, "a tensor without a storage");
    if (l->dtype == PL_UNDEFINED) l->dtype = type_of(id->items[1]);
    if (l->dtype == PL_UNDEFINED) return refuse(r, id->items[1]);
    pl_tensor *bytes = NULL, *flat = NULL, *view = NULL;
    PL_TRY(open_storage(r, id->items[2], &bytes));
    const int64_t size = (int64_t)pl_dtype_bytes(l->dtype), n = bytes->n_elements / size;
    if (!fits(l, n))
        return pl_fail(r->err, PL_E_FORMAT,
                       "%.200s: the tensor extends beyond its storage of %lld elements", here(r),
                       (long long)n);
    /* The same memory with the tensor's element type; keeps the bytes alive. */
    pl_tensor *kept = pl_tensor_ref(bytes);
    pl_status st = pl_tensor_borrow(l->dtype, 1, &n, bytes->data, drop_bytes, kept, &flat, r->err);
    if (st != PL_OK) {
        pl_tensor_unref(kept);
        return st;
    }
    st = pl_tensor_view(flat, l->rank, l->dims, l->strides, l->offset, &view, r->err);
    pl_tensor_unref(flat);
    return st == PL_OK ? make_dense_take(r, view, out) : st;
}

/* False for conjugated and negated views, which torch saves as metadata. */
static bool is_plain(const value *metadata) {
    for (size_t i = 0; metadata->kind == PL_PICKLE_DICT && i + 1 < metadata->n_items; i += 2)
        if (metadata->items[i + 1]->kind == PL_PICKLE_BOOL && metadata->items[i + 1]->integer != 0)
            return false;
    return true;
}

static pl_status rebuild(reader *r, const value *v, pl_tensor **out) {
    const value *f = v->callable, *args = v->args;
    const bool v1 = is(f, "torch._utils._rebuild_tensor"),
               v3 = is(f, "torch._utils._rebuild_tensor_v3");
    layout l = { .dtype = PL_UNDEFINED };
    if (args->n_items < (v1 ? 4u : v3 ? 7u : 6u)) return fail(r, "bad description of a tensor");
    PL_TRY(read_layout(r, args->items[1], args->items[2], args->items[3], &l));
    const size_t i_metadata = v3 ? 7 : 6;
    const bool is_quantised = is(f, "torch._utils._rebuild_qtensor");
    if (!v1 && !is_quantised && args->n_items > i_metadata && !is_plain(args->items[i_metadata]))
        return pl_fail(r->err, PL_E_UNSUPPORTED,
                       "%.200s is a conjugated or negated view; save it with resolve_conj()",
                       here(r));
    if (v3) {
        l.dtype = type_of(args->items[6]);
        if (l.dtype == PL_UNDEFINED) return refuse(r, args->items[6]);
    }
    return view_storage(r, args->items[0], &l, out);
}

static bool makes_tensor(const value *f) {
    return is(f, "torch._utils._rebuild_tensor_v2") || is(f, "torch._utils._rebuild_tensor_v3") ||
           is(f, "torch._utils._rebuild_tensor") || is(f, "torch._utils._rebuild_qtensor");
}

static bool wraps_tensor(const value *f) {
    return is(f, "torch._utils._rebuild_parameter") ||
           is(f, "torch._utils._rebuild_parameter_with_state");
}

/* ---- walking ---- */

static pl_status walk(reader *r, const value *v, int depth);

/* Passes the tensor to the visitor, which takes it. */
static pl_status give_take(reader *r, pl_tensor *t) {
    const char *name = pl_arena_strdup(r->arena, pl_buf_str(&r->path));
    pl_status st = PL_OK;
    if (name == NULL)
        st = pl_fail_memory(r->err, r->path.n_bytes);
    else if (++r->n_tensors > TENSORS_MAX)
        st = pl_fail(r->err, PL_E_LIMIT, "more than %d tensors", TENSORS_MAX);
    else if (pl_strmap_has(&r->names, name))
        st = pl_fail(r->err, PL_E_FORMAT, "two tensors are named '%.200s'", name);
    else if (pl_strmap_put(&r->names, name, r) != 0)
        st = pl_fail_memory(r->err, sizeof(pl_strmap_entry));
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    return r->visit_take(r->ctx, name, t, r->err);
}

static pl_status give_number(reader *r, const value *v) {
    const pl_dtype dtype = v->kind == PL_PICKLE_FLOAT ? PL_F64
                           : v->kind == PL_PICKLE_INT ? PL_I64
                                                      : PL_BOOL;
    const uint8_t truth = v->integer != 0;
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(dtype, 0, NULL, &t, r->err));
    if (dtype == PL_F64)
        memcpy(t->data, &v->number, sizeof v->number);
    else if (dtype == PL_I64)
        memcpy(t->data, &v->integer, sizeof v->integer);
    else
        memcpy(t->data, &truth, 1);
    return give_take(r, t);
}

/* Walks a part with its name appended to the path. */
static pl_status walk_part(reader *r, const value *part, const char *name, size_t n, int depth) {
    const size_t before = r->path.n_bytes;
    if (before + n + 1 > NAME_MAX_BYTES)
        return pl_fail(r->err, PL_E_LIMIT, "a name is longer than %d bytes", NAME_MAX_BYTES);
    if (memchr(name, '\0', n) != NULL) return fail(r, "a key with a NUL in it");
    if (before > 0) pl_buf_putc(&r->path, '.');
    pl_buf_append(&r->path, name, n);
    if (!pl_buf_ok(&r->path)) return pl_fail_memory(r->err, before + n);
    PL_TRY(walk(r, part, depth + 1));
    r->path.n_bytes = before;
    if (r->path.data != NULL) r->path.data[before] = '\0';
    return PL_OK;
}

static pl_status walk_list(reader *r, const value *v, int depth) {
    char name[24];
    for (size_t i = 0; i < v->n_items; i++) {
        const int n = snprintf(name, sizeof name, "%zu", i);
        PL_TRY(walk_part(r, v->items[i], name, (size_t)n, depth));
    }
    return PL_OK;
}

static pl_status walk_dict(reader *r, const value *v, int depth) {
    char number[24];
    for (size_t i = 0; i + 1 < v->n_items; i += 2) {
        const value *key = v->items[i];
        const char *name = (const char *)key->text.data;
        size_t n = key->text.n_bytes;
        if (key->kind == PL_PICKLE_INT) {
            n = (size_t)snprintf(number, sizeof number, "%lld", (long long)key->integer);
            name = number;
        } else if (key->kind != PL_PICKLE_TEXT) {
            return pl_fail(r->err, PL_E_UNSUPPORTED,
                           "%.200s: a key that is neither a string nor an integer", here(r));
        }
        PL_TRY(walk_part(r, v->items[i + 1], name == NULL ? "" : name, n, depth));
    }
    return PL_OK;
}

/* OrderedDict() and OrderedDict([[key, value], …]): the items follow the call, or are in it. */
static pl_status walk_ordered(reader *r, const value *v, int depth) {
    if (v->args->n_items > 0) {
        const value *rows = v->args->items[0];
        for (size_t i = 0; i < rows->n_items; i++) {
            const value *row = rows->items[i];
            if (row->n_items != 2 || row->items[0]->kind != PL_PICKLE_TEXT)
                return fail(r, "bad items of an OrderedDict");
            const pl_bytes key = row->items[0]->text;
            PL_TRY(walk_part(r, row->items[1], (const char *)key.data, key.n_bytes, depth));
        }
    }
    return walk_dict(r, v, depth);
}

/* Text, numbers and containers of them: nothing that plumb would have to compare. */
static bool is_plain_data(reader *r, const value *v, int depth) {
    if (v == NULL) return true;
    if (depth > DEPTH_MAX || ++r->n_visits > r->visits_max || v->kind == PL_PICKLE_CALL ||
        v->kind == PL_PICKLE_PERSISTENT)
        return false;
    for (size_t i = 0; i < v->n_items; i++)
        if (!is_plain_data(r, v->items[i], depth + 1)) return false;
    return true;
}

/* Megatron keeps its command line in a checkpoint, as an argparse.Namespace. Its numbers and
 * tensors are read; an enum or a path in it is a setting, as a text is. */
static pl_status walk_settings(reader *r, const value *v, int depth) {
    if (v->state == NULL) return PL_OK;
    if (v->state->kind != PL_PICKLE_DICT || v->args->n_items > 0)
        return fail(r, "bad attributes of a Namespace");
    r->n_settings++;
    PL_TRY(walk_dict(r, v->state, depth));
    r->n_settings--;
    return PL_OK;
}

static bool is_setting(reader *r, const value *v) {
    return r->n_settings > 0 && v->n_items == 0 && is_plain_data(r, v->args, 0) &&
           is_plain_data(r, v->state, 0);
}

static pl_status walk_numpy(reader *r, const value *v) {
    pl_tensor *t = NULL;
    pl_err why = PL_ERR_INIT;
    const pl_status st = pl_pickle_numpy(v, &t, &why);
    if (st != PL_OK) return pl_fail(r->err, st, "%.200s: %s", here(r), why.message);
    return give_take(r, t);
}

static pl_status walk_call(reader *r, const value *v, int depth) {
    const value *f = v->callable;
    if (makes_tensor(f)) {
        pl_tensor *t = NULL;
        PL_TRY(rebuild(r, v, &t));
        return give_take(r, t);
    }
    if (wraps_tensor(f) && v->args->n_items > 0) return walk(r, v->args->items[0], depth + 1);
    if (is(f, "collections.OrderedDict") && (v->n_items == 0 || v->is_dict))
        return walk_ordered(r, v, depth);
    if (is(f, "torch.Size") && v->args->n_items == 1) return walk(r, v->args->items[0], depth + 1);
    if (is(f, "torch.device")) return PL_OK;
    if (pl_pickle_is_numpy(v)) return walk_numpy(r, v);
    if (is(f, "argparse.Namespace") || is(f, "types.SimpleNamespace"))
        return walk_settings(r, v, depth);
    return is_setting(r, v) ? PL_OK : refuse(r, f);
}

static pl_status walk(reader *r, const value *v, int depth) {
    if (depth > DEPTH_MAX)
        return pl_fail(r->err, PL_E_LIMIT, "%.200s: nested deeper than %d", here(r), DEPTH_MAX);
    if (++r->n_visits > r->visits_max)
        return pl_fail(
            r->err, PL_E_LIMIT,
            "more than %zu values, which is more than data.pkl has bytes: containers are "
            "nested in each other again and again",
            r->visits_max);
    switch (v->kind) {
    case PL_PICKLE_NONE:
    case PL_PICKLE_TEXT: return PL_OK;
    case PL_PICKLE_BOOL:
    case PL_PICKLE_INT:
    case PL_PICKLE_FLOAT: return give_number(r, v);
    case PL_PICKLE_TUPLE:
    case PL_PICKLE_LIST: return walk_list(r, v, depth);
    case PL_PICKLE_DICT: return walk_dict(r, v, depth);
    case PL_PICKLE_CALL: return walk_call(r, v, depth);
    case PL_PICKLE_GLOBAL:
        return type_of(v) != PL_UNDEFINED || r->n_settings > 0 ? PL_OK : refuse(r, v);
    case PL_PICKLE_PERSISTENT: return fail(r, "a storage without a tensor");
    }
    return fail(r, "unknown value");
}

/* ---- the archive ---- */

/* The part of "archive/data/0" after the first '/'. */
static pl_bytes inner_name(pl_bytes name) {
    const uint8_t *slash = memchr(name.data, '/', name.n_bytes);
    if (slash == NULL) return name;
    const size_t skip = (size_t)(slash - name.data) + 1;
    return (pl_bytes){ name.data + skip, name.n_bytes - skip };
}

static pl_status list_entries(reader *r) {
    for (size_t i = 0; i < r->zip.n_entries; i++) {
        const pl_bytes name = inner_name(r->zip.entries[i].name);
        char *copy = pl_arena_strndup(r->arena, (const char *)name.data, name.n_bytes);
        if (copy == NULL || pl_strmap_put(&r->entries, copy, &r->zip.entries[i]) != 0)
            return pl_fail_memory(r->err, name.n_bytes);
        if (name.n_bytes >= 5 && memcmp(name.data, "code/", 5) == 0)
            return pl_fail(r->err, PL_E_UNSUPPORTED,
                           "a TorchScript program (torch.jit.save); save its state_dict() with "
                           "torch.save");
    }
    return PL_OK;
}

static pl_status check_byte_order(reader *r) {
    const pl_zip_entry *e = find_entry(r, "byteorder");
    pl_bytes bytes;
    void *owned = NULL;
    if (e == NULL) return PL_OK;
    PL_TRY(pl_zip_read(e, &bytes, &owned, r->err));
    const bool is_big = bytes.n_bytes == 3 && memcmp(bytes.data, "big", 3) == 0;
    pl_free(owned);
    return is_big ? pl_fail(r->err, PL_E_UNSUPPORTED,
                            "saved on a big-endian machine, which is not supported")
                  : PL_OK;
}

static pl_status read_archive(reader *r) {
    pl_bytes stream;
    void *owned = NULL;
    const value *top = NULL;
    PL_TRY(list_entries(r));
    PL_TRY(check_byte_order(r));
    const pl_zip_entry *e = find_entry(r, "data.pkl");
    if (e == NULL) return pl_fail(r->err, PL_E_FORMAT, "the archive has no data.pkl");
    if (e->n_bytes > PL_PICKLE_BYTES_MAX)
        return pl_fail(r->err, PL_E_LIMIT, "data.pkl has %llu bytes, expected at most %d",
                       (unsigned long long)e->n_bytes, PL_PICKLE_BYTES_MAX);
    PL_TRY(pl_zip_read(e, &stream, &owned, r->err));
    r->visits_max = stream.n_bytes > VISITS_MIN ? stream.n_bytes : VISITS_MIN;
    pl_status st = pl_pickle_read(stream, r->arena, &top, r->err);
    if (st == PL_OK) st = walk(r, top, 0);
    pl_free(owned);
    return st;
}

/* torch.save before 1.6 wrote a pickle of its magic number, before 0.1.10 a tar archive. */
static bool is_legacy(pl_bytes b) {
    static const uint8_t magic[] = { 0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46 };
    return b.n_bytes >= sizeof magic && memcmp(b.data, magic, sizeof magic) == 0;
}

static bool is_tar(pl_bytes b) {
    return b.n_bytes >= 512 && memcmp(b.data + 257, "ustar", 5) == 0;
}

bool pl_pt_sniff(pl_bytes b) {
    if (is_legacy(b) || is_tar(b)) return true;
    if (!pl_zip_sniff(b.data, b.n_bytes)) return false;
    pl_zip zip;
    if (pl_zip_open(b, &zip, NULL) != PL_OK) return false;
    bool found = false;
    for (size_t i = 0; i < zip.n_entries && !found; i++) {
        const pl_bytes name = inner_name(zip.entries[i].name);
        found = name.n_bytes == 8 && memcmp(name.data, "data.pkl", 8) == 0;
    }
    pl_zip_release(&zip);
    return found;
}

static void release_storages(pl_strmap *storages) {
    for (size_t i = 0; i < storages->n_entries; i++)
        pl_tensor_unref(storages->entries[i].value);
    pl_strmap_release(storages);
}

pl_status pl_pt_read(pl_bytes bytes, pl_file_map *map, pl_npz_visit visit_take, void *ctx,
                     pl_err *err) {
    reader r = { .bytes = bytes,
                 .map = map,
                 .entries = PL_STRMAP_INIT,
                 .storages = PL_STRMAP_INIT,
                 .names = PL_STRMAP_INIT,
                 .path = PL_BUF_INIT,
                 .visit_take = visit_take,
                 .ctx = ctx,
                 .err = err };
    if (is_legacy(bytes) || is_tar(bytes))
        return pl_fail(
            err, PL_E_UNSUPPORTED,
            "saved by torch before 1.6 (%s); load it and save it again with a newer torch",
            is_tar(bytes) ? "a tar archive" : "not a zip archive");
    PL_TRY(pl_zip_open(bytes, &r.zip, err));
    r.arena = pl_arena_new();
    const pl_status st = r.arena == NULL ? pl_fail_memory(err, 1) : read_archive(&r);
    pl_buf_release(&r.path);
    pl_strmap_release(&r.names);
    pl_strmap_release(&r.entries);
    release_storages(&r.storages);
    pl_arena_free(r.arena);
    pl_zip_release(&r.zip);
    return st;
}

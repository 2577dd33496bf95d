/* Tensors: storage, views, copies, casts.
 *
 * Storage is aligned to 64 bytes (a cache line, and the widest vector). Bytes of strings are
 * in an arena beside the array of pl_string, so that a tensor owns all its bytes. */
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/blocks.h"
#include "base/repeat.h"
#include "base/size.h"
#include "tensor/tensor_cast.h"

enum { CAST_BLOCK = 1024, LARGE = 256 << 20 };

struct pl_storage {
    int refs;
    void *heap;              /* owned memory, or NULL */
    size_t n_block;          /* asked for from pl_block_alloc; 0 = heap is of pl_malloc */
    size_t n_repeated;       /* bytes of heap from pl_repeat_alloc, or 0 */
    pl_file_map *map;        /* kept alive, or NULL */
    void (*release)(void *); /* of borrowed memory, or NULL */
    void *release_ctx;
    pl_arena *strings; /* bytes of the string elements; made when first needed */
};

/* ---- dims ---- */

bool pl_dims_product(int rank, const int64_t *dims, int64_t *out) {
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        if (dims[i] == 0) empty = true;
    }
    int64_t n = 1;
    for (int i = 0; i < rank && !empty; i++)
        if (!pl_i64_mul(n, dims[i], &n)) return false;
    *out = empty ? 0 : n;
    return true;
}

void pl_dims_strides(int rank, const int64_t *dims, int64_t *strides) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        /* Only dims that no tensor has can overflow here. */
        if (!pl_i64_mul(stride, pl_i64_max(dims[i], 1), &stride)) stride = 0;
    }
}

const char *pl_dims_describe(int rank, const int64_t *dims, char *out, size_t n_out) {
    if (n_out == 0) return "";
    size_t at = 0;
    out[0] = '\0';
    for (int i = -1; i <= rank; i++) {
        int n;
        if (i < 0)
            n = snprintf(out + at, n_out - at, "[");
        else if (i == rank)
            n = snprintf(out + at, n_out - at, "]");
        else
            n = snprintf(out + at, n_out - at, "%s%" PRId64, i > 0 ? "," : "", dims[i]);
        if (n < 0 || (size_t)n >= n_out - at) break;
        at += (size_t)n;
    }
    return out;
}

/* Checks common to all constructors; fills dims and C-order strides. */
static pl_status tensor_shape(pl_tensor *t, pl_dtype dtype, int rank, const int64_t *dims,
                              pl_err *err) {
    char text[256];
    if (dtype <= PL_UNDEFINED || dtype >= PL_DTYPE_COUNT)
        return pl_fail(err, PL_E_INVALID, "tensor with undefined element type %d", (int)dtype);
    if (rank < 0 || rank > PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "tensor of rank %d; at most %d is supported", rank,
                       PL_RANK_MAX);
    int64_t n, n_bytes = (int64_t)pl_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return pl_fail(err, PL_E_INVALID, "negative dim in shape %s",
                           pl_dims_describe(rank, dims, text, sizeof text));
    /* Empty tensors, too, as in NumPy: nothing that multiplies dims can overflow then. */
    bool fits = pl_dims_product(rank, dims, &n);
    for (int i = 0; i < rank && fits; i++)
        fits = pl_i64_mul(n_bytes, pl_i64_max(dims[i], 1), &n_bytes);
    if (!fits)
        return pl_fail(err, PL_E_LIMIT, "%s tensor of shape %s is larger than 2^63 bytes",
                       pl_dtype_name(dtype), pl_dims_describe(rank, dims, text, sizeof text));
    t->dtype = dtype;
    t->rank = rank;
    t->n_elements = n;
    for (int i = 0; i < rank; i++)
        t->dims[i] = dims[i];
    pl_dims_strides(rank, dims, t->strides);
    return PL_OK;
}

/* ---- storage ---- */

static void storage_unref(pl_storage *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    pl_arena_free(s->strings);
    if (s->n_repeated > 0)
        pl_repeat_free(s->heap, s->n_repeated);
    else if (s->n_block > 0)
        pl_block_free(s->heap, s->n_block);
    else
        pl_free(s->heap);
    pl_file_map_unref(s->map);
    if (s->release) s->release(s->release_ctx);
    pl_free(s);
}

/* A tensor with its shape, one reference, and a new empty storage. */
static pl_status tensor_shell(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                              pl_err *err) {
    pl_tensor *t = pl_calloc(1, sizeof *t);
    if (!t) return pl_fail_memory(err, sizeof *t);
    const pl_status st = tensor_shape(t, dtype, rank, dims, err);
    if (st != PL_OK) {
        pl_free(t);
        return st;
    }
    t->refs = 1;
    t->storage = pl_calloc(1, sizeof *t->storage);
    if (!t->storage) {
        pl_free(t);
        return pl_fail_memory(err, sizeof *t->storage);
    }
    t->storage->refs = 1;
    *out = t;
    return PL_OK;
}

static pl_status tensor_new(pl_dtype dtype, int rank, const int64_t *dims, bool lasting,
                            pl_tensor **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(tensor_shell(dtype, rank, dims, &t, err));
    const size_t n_bytes = pl_tensor_bytes(t);
    const bool holds = n_bytes < LARGE || pl_memory_holds(n_bytes);
    if (!lasting) t->storage->n_block = n_bytes > 0 ? n_bytes : 1;
    if (holds)
        t->storage->heap = lasting ? pl_large_alloc(n_bytes) : pl_block_alloc(t->storage->n_block);
    if (!t->storage->heap) {
        pl_tensor_unref(t);
        return pl_fail_memory(err, n_bytes);
    }
    t->data = t->storage->heap;
    if (dtype == PL_STRING) memset(t->data, 0, n_bytes);
    *out = t;
    return PL_OK;
}

pl_status pl_tensor_new(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                        pl_err *err) {
    return tensor_new(dtype, rank, dims, false, out, err);
}

pl_status pl_tensor_new_lasting(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                                pl_err *err) {
    return tensor_new(dtype, rank, dims, true, out, err);
}

bool pl_tensor_is_sole(const pl_tensor *t) {
    return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1 &&
           __atomic_load_n(&t->storage->refs, __ATOMIC_ACQUIRE) == 1;
}

pl_status pl_tensor_new_zero(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                             pl_err *err) {
    PL_TRY(pl_tensor_new(dtype, rank, dims, out, err));
    memset((*out)->data, 0, pl_tensor_bytes(*out));
    return PL_OK;
}

pl_status pl_tensor_new_filled(pl_dtype dtype, int rank, const int64_t *dims, const void *element,
                               pl_tensor **out, pl_err *err) {
    pl_tensor *t = NULL;
    const size_t size = pl_dtype_bytes(dtype);
    PL_TRY(tensor_shell(dtype, rank, dims, &t, err));
    const size_t n = (size_t)t->n_elements;
    if (pl_tensor_bytes(t) < LARGE || pl_memory_holds(pl_tensor_bytes(t)))
        t->data = t->storage->heap = pl_repeat_alloc(element, size, n);
    if (t->data != NULL) {
        t->storage->n_repeated = n * size;
        *out = t;
        return PL_OK;
    }
    pl_tensor_unref(t);
    PL_TRY(pl_tensor_new(dtype, rank, dims, out, err));
    pl_fill((*out)->data, element, size, n);
    return PL_OK;
}

pl_status pl_tensor_from_map(pl_dtype dtype, int rank, const int64_t *dims, pl_file_map *map,
                             const void *data, pl_tensor **out, pl_err *err) {
    pl_tensor *t = NULL;
    if (dtype == PL_STRING || pl_dtype_bits(dtype) % 8 != 0)
        return pl_fail(err, PL_E_INTERNAL, "%s elements cannot be mapped from a file",
                       pl_dtype_name(dtype));
    PL_TRY(tensor_shell(dtype, rank, dims, &t, err));
    t->storage->map = pl_file_map_ref(map);
    t->data = (void *)(uintptr_t)data;
    *out = t;
    return PL_OK;
}

bool pl_tensor_is_mapped(const pl_tensor *t) {
    return t->storage->map != NULL && !t->storage->map->heap && pl_tensor_is_contiguous(t);
}

void pl_tensor_forget(const pl_tensor *t) {
    if (pl_tensor_is_mapped(t)) pl_file_map_forget(t->storage->map, t->data, pl_tensor_bytes(t));
}

const pl_file_map *pl_tensor_mapping(const pl_tensor *t) {
    return t->storage->map;
}

bool pl_tensor_is_filled(const pl_tensor *t) {
    const size_t size = pl_dtype_bytes(t->dtype), n_bytes = pl_tensor_bytes(t);
    const char *at = t->data;
    /* A kernel may have written to it since. */
    return t->storage->n_repeated > 0 && n_bytes > size && pl_tensor_is_contiguous(t) &&
           memcmp(at, at + size, n_bytes - size) == 0;
}

pl_status pl_tensor_borrow(pl_dtype dtype, int rank, const int64_t *dims, const void *data,
                           void (*release)(void *), void *ctx, pl_tensor **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(tensor_shell(dtype, rank, dims, &t, err));
    t->storage->release = release;
    t->storage->release_ctx = ctx;
    t->data = (void *)(uintptr_t)data;
    *out = t;
    return PL_OK;
}

/* ---- views ---- */

static pl_storage *storage_ref(pl_storage *s) {
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

pl_status pl_tensor_view(const pl_tensor *t, int rank, const int64_t *dims, const int64_t *strides,
                         int64_t offset_elements, pl_tensor **out, pl_err *err) {
    pl_tensor *v = pl_calloc(1, sizeof *v);
    if (!v) return pl_fail_memory(err, sizeof *v);
    const pl_status st = tensor_shape(v, t->dtype, rank, dims, err);
    if (st != PL_OK) {
        pl_free(v);
        return st;
    }
    if (rank > 0) memcpy(v->strides, strides, (size_t)rank * sizeof *strides);
    v->refs = 1;
    v->data = (char *)t->data + offset_elements * (int64_t)pl_dtype_bytes(t->dtype);
    v->storage = storage_ref(t->storage);
    *out = v;
    return PL_OK;
}

pl_status pl_tensor_reshape(const pl_tensor *t, int rank, const int64_t *dims, pl_tensor **out,
                            pl_err *err) {
    char from[256], to[256];
    if (!pl_tensor_is_contiguous(t))
        return pl_fail(err, PL_E_INTERNAL, "cannot reshape the strided view %s",
                       pl_tensor_describe(t, from, sizeof from));
    pl_tensor *v = pl_calloc(1, sizeof *v);
    if (!v) return pl_fail_memory(err, sizeof *v);
    pl_status st = tensor_shape(v, t->dtype, rank, dims, err);
    if (st == PL_OK && v->n_elements != t->n_elements)
        st = pl_fail(err, PL_E_INVALID, "cannot reshape %s to %s: the element counts differ",
                     pl_tensor_describe(t, from, sizeof from),
                     pl_dims_describe(rank, dims, to, sizeof to));
    if (st != PL_OK) {
        pl_free(v);
        return st;
    }
    v->refs = 1;
    v->data = t->data;
    v->storage = storage_ref(t->storage);
    *out = v;
    return PL_OK;
}

pl_tensor *pl_tensor_ref(const pl_tensor *t) {
    pl_tensor *m = (pl_tensor *)(uintptr_t)t;
    __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

void pl_tensor_unref(pl_tensor *t) {
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    storage_unref(t->storage);
    pl_free(t);
}

/* ---- copies ---- */

/* Gathers elements that are a stride apart. */
static void gather(const char *from, int64_t stride, size_t size, char *to, int64_t n) {
    const int64_t step = stride * (int64_t)size;
#define GATHER(type)                                                                               \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)(void *)to)[i] = *(const type *)(const void *)(from + i * step)
    if (size == 1)
        GATHER(pl_u8);
    else if (size == 2)
        GATHER(pl_u16);
    else if (size == 4)
        GATHER(pl_u32);
    else if (size == 8)
        GATHER(pl_u64);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * (int64_t)size, from + i * step, size);
#undef GATHER
}

/* Drops dims of 1 and merges dims that are contiguous in memory, so that the innermost run is as
 * long as possible. Returns the new rank. */
static int collapse(const pl_tensor *t, int64_t *dims, int64_t *strides) {
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] == 1) continue;
        if (rank > 0 && strides[rank - 1] == t->strides[i] * t->dims[i]) {
            dims[rank - 1] *= t->dims[i];
            strides[rank - 1] = t->strides[i];
        } else {
            dims[rank] = t->dims[i];
            strides[rank++] = t->strides[i];
        }
    }
    return rank;
}

void pl_tensor_copy_into(const pl_tensor *t, void *to) {
    const size_t size = pl_dtype_bytes(t->dtype);
    if (t->n_elements == 0) return;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX], index[PL_RANK_MAX] = { 0 };
    const int rank = collapse(t, dims, strides);
    const int64_t run = rank > 0 ? dims[rank - 1] : 1;
    const int64_t run_stride = rank > 0 ? strides[rank - 1] : 1;
    const char *from = t->data;
    char *at = to;
    for (;;) {
        if (run_stride == 1)
            memcpy(at, from, (size_t)run * size);
        else
            gather(from, run_stride, size, at, run);
        at += run * (int64_t)size;
        int i = rank - 2;
        for (; i >= 0; i--) { /* the next outer index; an odometer */
            from += strides[i] * (int64_t)size;
            if (++index[i] < dims[i]) break;
            from -= strides[i] * dims[i] * (int64_t)size;
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

/* Copies the bytes of the strings into a new tensor. */
static pl_status own_strings(pl_tensor *t, pl_err *err) {
    const pl_string *items = t->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        PL_TRY(pl_tensor_set_string(t, i, items[i].data, items[i].n_bytes, err));
    return PL_OK;
}

pl_status pl_tensor_copy(const pl_tensor *t, pl_tensor **out, pl_err *err) {
    pl_tensor *c;
    PL_TRY(pl_tensor_new(t->dtype, t->rank, t->dims, &c, err));
    pl_tensor_copy_into(t, c->data);
    if (t->dtype == PL_STRING) {
        const pl_status st = own_strings(c, err);
        if (st != PL_OK) {
            pl_tensor_unref(c);
            return st;
        }
    }
    *out = c;
    return PL_OK;
}

pl_status pl_tensor_contiguous(const pl_tensor *t, pl_tensor **out, pl_err *err) {
    if (!pl_tensor_is_contiguous(t)) return pl_tensor_copy(t, out, err);
    *out = pl_tensor_ref(t);
    return PL_OK;
}

/* ---- casts ---- */

/* Intermediate types: int64 for integers and bool; float for float16 and narrower, which is the
 * fast way between them; else double. */
static void cast_block(pl_dtype from_dtype, const char *from, pl_dtype to_dtype, char *to,
                       size_t n) {
    union {
        double f64[CAST_BLOCK];
        float f32[CAST_BLOCK];
        int64_t i64[CAST_BLOCK];
        uint64_t u64[CAST_BLOCK];
    } block;
    const bool from_float = pl_dtype_is_float(from_dtype), to_float = pl_dtype_is_float(to_dtype);
    if (from_dtype == PL_U64) {
        memcpy(block.u64, from, n * sizeof *block.u64);
        pl_store_u64(to_dtype, block.u64, to, n);
    } else if (!from_float) {
        pl_load_i64(from_dtype, from, block.i64, n);
        pl_store_i64(to_dtype, block.i64, to, n);
    } else if (from_dtype != PL_F64 && to_float) {
        pl_load_f32(from_dtype, from, block.f32, n);
        pl_store_f32(to_dtype, block.f32, to, n);
    } else {
        pl_load_f64(from_dtype, from, block.f64, n);
        pl_store_f64(to_dtype, block.f64, to, n);
    }
}

/* Strings to numbers are up to the operator; complex is not supported. */
static pl_status cast_check(pl_dtype from, pl_dtype to, pl_err *err) {
    const bool to_complex = pl_dtype_class_of(to) == PL_CLASS_COMPLEX;
    if (!pl_dtype_valid((int64_t)to) || from == PL_STRING || to == PL_STRING ||
        (pl_dtype_class_of(from) == PL_CLASS_COMPLEX && !to_complex))
        return pl_fail(err, PL_E_UNSUPPORTED, "cannot convert %s to %s", pl_dtype_name(from),
                       pl_dtype_name(to));
    return PL_OK;
}

typedef struct cast_job {
    pl_dtype from_dtype, to_dtype;
    const char *from;
    char *to;
} cast_job;

static void cast_range(void *ctx, int64_t begin, int64_t end) {
    const cast_job *j = ctx;
    const size_t from_bytes = pl_dtype_bytes(j->from_dtype), to_bytes = pl_dtype_bytes(j->to_dtype);
    for (size_t at = (size_t)begin; at < (size_t)end; at += CAST_BLOCK) {
        const size_t m = pl_size_min((size_t)end - at, CAST_BLOCK);
        cast_block(j->from_dtype, j->from + at * from_bytes, j->to_dtype, j->to + at * to_bytes, m);
    }
}

pl_status pl_tensor_cast(const pl_tensor *t, pl_dtype dtype, pl_tensor **out, pl_err *err) {
    return pl_tensor_cast_on(NULL, t, dtype, out, err);
}

pl_status pl_tensor_cast_on(pl_pool *pool, const pl_tensor *t, pl_dtype dtype, pl_tensor **out,
                            pl_err *err) {
    if (dtype == t->dtype) return pl_tensor_copy(t, out, err);
    PL_TRY(cast_check(t->dtype, dtype, err));
    pl_status st = PL_OK;
    pl_tensor *c = NULL, *source = NULL;
    if (pl_tensor_is_filled(t) && pl_dtype_class_of(t->dtype) != PL_CLASS_COMPLEX &&
        pl_dtype_class_of(dtype) != PL_CLASS_COMPLEX) {
        uint64_t element[2] = { 0 };
        cast_block(t->dtype, t->data, dtype, (char *)element, 1);
        return pl_tensor_new_filled(dtype, t->rank, t->dims, element, out, err);
    }
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(t, &source, err));
    PL_TRY_GOTO(done, st, pl_tensor_new(dtype, t->rank, t->dims, &c, err));
    pl_dtype from_dtype = t->dtype, to_dtype = dtype;
    size_t n = (size_t)t->n_elements;
    if (pl_dtype_class_of(from_dtype) == PL_CLASS_COMPLEX) { /* pairs of floats */
        from_dtype = from_dtype == PL_C64 ? PL_F32 : PL_F64;
        to_dtype = to_dtype == PL_C64 ? PL_F32 : PL_F64;
        n *= 2;
    }
    cast_job job = { from_dtype, to_dtype, source->data, c->data };
    pl_pool_for(pool, (int64_t)n, 32 * CAST_BLOCK, cast_range, &job);
    *out = c;
done:
    pl_tensor_unref(source);
    return st;
}

/* ---- elements ---- */

pl_status pl_tensor_set_string(pl_tensor *t, int64_t i, const char *data, size_t n, pl_err *err) {
    pl_string *item = (pl_string *)t->data + i;
    *item = (pl_string){ "", 0 };
    if (n == 0) return PL_OK;
    pl_storage *s = t->storage;
    if (!s->strings) s->strings = pl_arena_new();
    char *copy = s->strings ? pl_arena_strndup(s->strings, data, n) : NULL;
    if (!copy) return pl_fail_memory(err, n);
    *item = (pl_string){ copy, n };
    return PL_OK;
}

double pl_tensor_get_f64(const pl_tensor *t, int64_t i) {
    double x;
    pl_load_f64(t->dtype, (const char *)t->data + i * (int64_t)pl_dtype_bytes(t->dtype), &x, 1);
    return x;
}

int64_t pl_tensor_get_i64(const pl_tensor *t, int64_t i) {
    int64_t x;
    pl_load_i64(t->dtype, (const char *)t->data + i * (int64_t)pl_dtype_bytes(t->dtype), &x, 1);
    return x;
}

/* ---- questions ---- */

bool pl_tensor_is_contiguous(const pl_tensor *t) {
    if (t->n_elements == 0) return true;
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] != 1 && t->strides[i] != stride) return false;
        stride *= t->dims[i];
    }
    return true;
}

size_t pl_tensor_bytes(const pl_tensor *t) {
    return (size_t)t->n_elements * pl_dtype_bytes(t->dtype);
}

bool pl_tensor_same_shape(const pl_tensor *a, const pl_tensor *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool pl_tensor_identical(const pl_tensor *a, const pl_tensor *b) {
    if (a->dtype != b->dtype || !pl_tensor_same_shape(a, b)) return false;
    if (a->n_elements == 0) return true;
    if (a->dtype != PL_STRING) return memcmp(a->data, b->data, pl_tensor_bytes(a)) == 0;
    const pl_string *x = a->data, *y = b->data;
    for (int64_t i = 0; i < a->n_elements; i++) {
        if (x[i].n_bytes != y[i].n_bytes) return false;
        if (x[i].n_bytes > 0 && memcmp(x[i].data, y[i].data, x[i].n_bytes) != 0) return false;
    }
    return true;
}

const char *pl_tensor_describe(const pl_tensor *t, char *out, size_t n_out) {
    char dims[PL_RANK_MAX * 21 + 3];
    if (n_out == 0) return "";
    snprintf(out, n_out, "%s%s", pl_dtype_name(t->dtype),
             pl_dims_describe(t->rank, t->dims, dims, sizeof dims));
    return out;
}

double pl_tensor_max_abs(const pl_tensor *t) {
    double largest = 0;
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double x = fabs(pl_tensor_get_f64(t, i));
        if (isfinite(x) && x > largest) largest = x;
    }
    return largest;
}

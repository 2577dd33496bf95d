/* numpy's arrays and numbers in a pickle: checkpoints keep random states and scores in them. */
#include "tensor/file/pickle_numpy.h"

#include <string.h>

#include "base/size.h"

typedef pl_pickle_value value;

static bool is(const value *v, const char *text) {
    return (v->kind == PL_PICKLE_TEXT || v->kind == PL_PICKLE_GLOBAL) &&
           v->text.n_bytes == strlen(text) && memcmp(v->text.data, text, v->text.n_bytes) == 0;
}

/* numpy 2 has renamed its modules. */
static bool is_array(const value *f) {
    return is(f, "numpy.core.multiarray._reconstruct") ||
           is(f, "numpy._core.multiarray._reconstruct");
}

static bool is_scalar(const value *f) {
    return is(f, "numpy.core.multiarray.scalar") || is(f, "numpy._core.multiarray.scalar");
}

static bool is_stream(const value *f) {
    return is(f, "_io.BytesIO") || is(f, "io.BytesIO");
}

bool pl_pickle_is_numpy(const value *v) {
    return v->kind == PL_PICKLE_CALL &&
           (is_array(v->callable) || is_scalar(v->callable) || is_stream(v->callable));
}

static bool is_tuple(const value *v, size_t n_min) {
    return v != NULL && v->kind == PL_PICKLE_TUPLE && v->n_items >= n_min;
}

/* The characters U+0000 to U+00FF of a UTF-8 text as bytes; their number, SIZE_MAX for a text that
 * has others. out may be NULL. */
static size_t latin1(pl_bytes text, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < text.n_bytes; i++) {
        uint8_t c = text.data[i];
        if (c >= 0x80) {
            if ((c != 0xC2 && c != 0xC3) || i + 1 == text.n_bytes ||
                (text.data[i + 1] & 0xC0) != 0x80)
                return SIZE_MAX;
            c = (uint8_t)(c << 6 | (text.data[++i] & 0x3F));
        }
        if (out != NULL) out[n] = c;
        n++;
    }
    return n;
}

/* Bytes as a tensor: as they are, or, before protocol 3, as _codecs.encode(text, 'latin1') or
 * bytes(). */
static pl_status read_bytes(const value *v, pl_tensor **out, pl_err *err) {
    const bool is_text = v->kind == PL_PICKLE_CALL && is(v->callable, "_codecs.encode") &&
                         is_tuple(v->args, 2) && v->args->items[0]->kind == PL_PICKLE_TEXT &&
                         is(v->args->items[1], "latin1");
    const bool is_empty =
        v->kind == PL_PICKLE_CALL && v->args->n_items == 0 &&
        (is(v->callable, "__builtin__.bytes") || is(v->callable, "builtins.bytes"));
    if (v->kind != PL_PICKLE_TEXT && !is_text && !is_empty)
        return pl_fail(err, PL_E_FORMAT, "an array without its bytes");
    const pl_bytes text = is_text ? v->args->items[0]->text : v->text;
    const size_t n = is_text ? latin1(text, NULL) : text.n_bytes;
    if (n == SIZE_MAX) return pl_fail(err, PL_E_FORMAT, "an array with bad bytes");
    const int64_t n_elements = (int64_t)n;
    PL_TRY(pl_tensor_new(PL_U8, 1, &n_elements, out, err));
    if (is_text)
        latin1(text, (*out)->data);
    else if (n > 0)
        memcpy((*out)->data, text.data, n);
    return PL_OK;
}

/* numpy.dtype('f4', …) and what BUILD gives it: (3, '<', …). */
static pl_status read_type(const value *v, pl_dtype *out, pl_err *err) {
    static const struct {
        const char *name;
        pl_dtype dtype;
    } types[] = { { "f4", PL_F32 }, { "f8", PL_F64 },  { "f2", PL_F16 }, { "i1", PL_I8 },
                  { "i2", PL_I16 }, { "i4", PL_I32 },  { "i8", PL_I64 }, { "u1", PL_U8 },
                  { "u2", PL_U16 }, { "u4", PL_U32 },  { "u8", PL_U64 }, { "b1", PL_BOOL },
                  { "c8", PL_C64 }, { "c16", PL_C128 } };
    if (v->kind != PL_PICKLE_CALL || !is(v->callable, "numpy.dtype") || !is_tuple(v->args, 1) ||
        v->args->items[0]->kind != PL_PICKLE_TEXT)
        return pl_fail(err, PL_E_FORMAT, "an array without its type");
    if (is_tuple(v->state, 2) && is(v->state->items[1], ">"))
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "a numpy array saved on a big-endian machine, which is not supported");
    const value *name = v->args->items[0];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!is(name, types[i].name)) continue;
        *out = types[i].dtype;
        return PL_OK;
    }
    return pl_fail(err, PL_E_UNSUPPORTED, "numpy type '%.*s' is not supported",
                   (int)pl_size_min(name->text.n_bytes, 40), (const char *)name->text.data);
}

static pl_status read_dims(const value *v, int64_t *dims, int *rank, pl_err *err) {
    if (!is_tuple(v, 0)) return pl_fail(err, PL_E_FORMAT, "an array without its shape");
    if (v->n_items > PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "%zu dims, expected at most %d", v->n_items, PL_RANK_MAX);
    *rank = (int)v->n_items;
    for (int i = 0; i < *rank; i++) {
        if (v->items[i]->kind != PL_PICKLE_INT || v->items[i]->integer < 0)
            return pl_fail(err, PL_E_FORMAT, "bad shape of an array");
        dims[i] = v->items[i]->integer;
    }
    return PL_OK;
}

/* Copies the bytes; in Fortran's order the first dim runs fastest. */
static pl_status fill(const pl_tensor *bytes, pl_dtype dtype, int rank, const int64_t *dims,
                      bool is_fortran, pl_tensor **out, pl_err *err) {
    int64_t n = 0, n_bytes = 0, turned[PL_RANK_MAX], strides[PL_RANK_MAX], step = 1;
    if (!pl_dims_product(rank, dims, &n) ||
        !pl_i64_mul(n, (int64_t)pl_dtype_bytes(dtype), &n_bytes) || n_bytes != bytes->n_elements)
        return pl_fail(err, PL_E_FORMAT, "the bytes of an array do not fit its shape");
    for (int i = 0; i < rank; i++) {
        turned[i] = is_fortran ? dims[rank - 1 - i] : dims[i];
        strides[i] = step;
        if (!pl_i64_mul(step, dims[i], &step)) step = 0; /* only where another dim is 0 */
    }
    pl_tensor *t = NULL, *view = NULL;
    PL_TRY(pl_tensor_new(dtype, rank, turned, &t, err));
    if (n_bytes > 0) memcpy(t->data, bytes->data, (size_t)n_bytes);
    if (!is_fortran) {
        *out = t;
        return PL_OK;
    }
    pl_status st = pl_tensor_view(t, rank, dims, strides, 0, &view, err);
    if (st == PL_OK) st = pl_tensor_contiguous(view, out, err);
    pl_tensor_unref(view);
    pl_tensor_unref(t);
    return st;
}

pl_status pl_pickle_numpy(const value *v, pl_tensor **out, pl_err *err) {
    const bool scalar = is_scalar(v->callable), stream = is_stream(v->callable);
    const value *parts = scalar ? v->args : v->state; /* an array: version, shape, type, order */
    int64_t dims[PL_RANK_MAX];
    int rank = 0;
    pl_dtype dtype = PL_U8;
    if (!is_tuple(parts, scalar ? 2 : stream ? 1 : 5))
        return pl_fail(err, PL_E_FORMAT, "an array without its parts");
    if (stream) return read_bytes(parts->items[0], out, err);
    if (!scalar) PL_TRY(read_dims(parts->items[1], dims, &rank, err));
    PL_TRY(read_type(parts->items[scalar ? 0 : 2], &dtype, err));
    const bool is_fortran = !scalar && parts->items[3]->integer != 0;
    pl_tensor *bytes = NULL;
    PL_TRY(read_bytes(parts->items[scalar ? 1 : 4], &bytes, err));
    const pl_status st = fill(bytes, dtype, rank, dims, is_fortran, out, err);
    pl_tensor_unref(bytes);
    return st;
}

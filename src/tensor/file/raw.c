/* Raw element bytes: sizes, packing of sub-byte types, zero-copy where possible. */
#include "tensor/file/raw.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little-endian and are used in place: big-endian machines need swaps here"
#endif

bool pl_raw_size(pl_dtype dtype, int64_t n_elements, size_t *out) {
    const unsigned bits = pl_dtype_bits(dtype);
    if (n_elements < 0 || bits == 0) return false;
    if (bits >= 8) return pl_size_mul((size_t)n_elements, bits / 8, out);
    const size_t per_byte = 8 / bits;
    *out = (size_t)n_elements / per_byte + ((size_t)n_elements % per_byte != 0);
    return true;
}

void pl_raw_unpack(pl_dtype dtype, const uint8_t *from, void *to, int64_t n_elements) {
    const unsigned bits = pl_dtype_bits(dtype);
    const unsigned per_byte = 8 / bits, mask = (1u << bits) - 1;
    const unsigned sign = pl_dtype_class_of(dtype) == PL_CLASS_INT ? 1u << (bits - 1) : 0;
    uint8_t *out = to;
    for (int64_t i = 0; i < n_elements; i++) {
        const unsigned byte = from[i / per_byte];
        const unsigned code = byte >> (bits * (unsigned)(i % per_byte)) & mask;
        out[i] = (uint8_t)((code ^ sign) - sign);
    }
}

void pl_raw_pack(pl_dtype dtype, const void *from, uint8_t *to, int64_t n_elements) {
    const unsigned bits = pl_dtype_bits(dtype);
    const unsigned per_byte = 8 / bits, mask = (1u << bits) - 1;
    const uint8_t *in = from;
    for (int64_t i = 0; i < n_elements; i++) {
        const unsigned shift = bits * (unsigned)(i % per_byte);
        const unsigned code = (in[i] & mask) << shift;
        to[i / per_byte] = (uint8_t)(shift == 0 ? code : to[i / per_byte] | code);
    }
}

static bool inside_map(const pl_file_map *map, pl_bytes raw) {
    if (!map) return false;
    const uintptr_t from = (uintptr_t)map->data, at = (uintptr_t)raw.data;
    return at >= from && at - from <= map->n_bytes && raw.n_bytes <= map->n_bytes - (at - from);
}

pl_status pl_tensor_from_raw(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes raw,
                             pl_file_map *map, pl_tensor **out, pl_err *err) {
    char text[256];
    int64_t n;
    size_t want;
    if (dtype == PL_STRING || !pl_dtype_valid((int64_t)dtype))
        return pl_fail(err, PL_E_FORMAT, "raw bytes cannot hold elements of type %s",
                       pl_dtype_name(dtype));
    if (rank < 0 || rank > PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "tensor of rank %d; at most %d is supported", rank,
                       PL_RANK_MAX);
    /* Checked before allocating: dims from a file may ask for any amount. */
    if (!pl_dims_product(rank, dims, &n) || !pl_raw_size(dtype, n, &want) || want != raw.n_bytes)
        return pl_fail(err, PL_E_FORMAT, "%zu bytes of data do not match a tensor %s%s",
                       raw.n_bytes, pl_dtype_name(dtype),
                       pl_dims_describe(rank, dims, text, sizeof text));
    const bool packed = pl_dtype_bits(dtype) < 8;
    if (!packed && inside_map(map, raw))
        return pl_tensor_from_map(dtype, rank, dims, map, raw.data, out, err);
    PL_TRY(pl_tensor_new(dtype, rank, dims, out, err));
    if (packed)
        pl_raw_unpack(dtype, raw.data, (*out)->data, n);
    else if (raw.n_bytes > 0)
        memcpy((*out)->data, raw.data, raw.n_bytes);
    return PL_OK;
}

/* A byte must not hold a value that the type does not have. */
static pl_status check_small(pl_dtype dtype, pl_bytes dense, pl_err *err) {
    const bool is_signed = pl_dtype_class_of(dtype) == PL_CLASS_INT;
    const unsigned bits = pl_dtype_bits(dtype), half = is_signed ? 1u << (bits - 1) : 0;
    for (size_t i = 0; i < dense.n_bytes; i++)
        if ((uint8_t)(dense.data[i] + half) >> bits)
            return pl_fail(err, PL_E_FORMAT, "byte %zu is not a valid %s", i, pl_dtype_name(dtype));
    return PL_OK;
}

pl_status pl_tensor_from_dense(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes dense,
                               pl_file_map *map, pl_tensor **out, pl_err *err) {
    int64_t n;
    size_t want;
    char text[200];
    if (!pl_dims_product(rank, dims, &n) || !pl_size_mul((size_t)n, pl_dtype_bytes(dtype), &want) ||
        want != dense.n_bytes)
        return pl_fail(err, PL_E_FORMAT, "%zu bytes, but its shape is %s%s", dense.n_bytes,
                       pl_dtype_name(dtype), pl_dims_describe(rank, dims, text, sizeof text));
    if (pl_dtype_bits(dtype) >= 8)
        return pl_tensor_from_map(dtype, rank, dims, map, dense.data, out, err);
    PL_TRY(check_small(dtype, dense, err));
    PL_TRY(pl_tensor_new(dtype, rank, dims, out, err));
    if (dense.n_bytes > 0) memcpy((*out)->data, dense.data, dense.n_bytes);
    return PL_OK;
}

void pl_tensor_put_raw(pl_buf *buf, const pl_tensor *t) {
    pl_tensor *c = NULL;
    uint8_t *packed = NULL;
    size_t n_bytes;
    if (!pl_raw_size(t->dtype, t->n_elements, &n_bytes) ||
        pl_tensor_contiguous(t, &c, NULL) != PL_OK) {
        buf->failed = true;
    } else if (pl_dtype_bits(t->dtype) >= 8) {
        pl_buf_append(buf, c->data, n_bytes);
    } else if (n_bytes > 0) {
        packed = pl_malloc(n_bytes);
        if (packed) {
            pl_raw_pack(t->dtype, c->data, packed, t->n_elements);
            pl_buf_append(buf, packed, n_bytes);
        } else {
            buf->failed = true;
        }
    }
    pl_free(packed);
    pl_tensor_unref(c);
}

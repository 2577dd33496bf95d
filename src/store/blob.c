/* Blobs: names for bytes, and tensors to and from bytes. */
#include "store/blob.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "tensor/file/raw.h"

/* ---- names ---- */

void pl_blob_name(const pl_blob *blob, char out[PL_BLOB_NAME_MAX]) {
    char hex[PL_HASH128_HEX];
    pl_hash128_hex(blob->hash, hex);
    snprintf(out, PL_BLOB_NAME_MAX, "%s-%" PRIu64 "-%s", pl_dtype_name(blob->dtype), blob->n_bytes,
             hex);
}

static bool parse_hex64(const char *hex, uint64_t *out) {
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        const char c = hex[i];
        if (c >= '0' && c <= '9') {
            v = v << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    *out = v;
    return true;
}

bool pl_hash128_parse(const char *hex, pl_hash128 *out) {
    return strlen(hex) == 32 && parse_hex64(hex, &out->high) && parse_hex64(hex + 16, &out->low);
}

bool pl_blob_parse(const char *name, pl_blob *out) {
    const char *dash = strchr(name, '-');
    const char *last = strrchr(name, '-');
    char again[PL_BLOB_NAME_MAX];
    pl_blob blob = { 0 };
    if (dash == NULL || dash == last) return false;
    blob.dtype = pl_dtype_by_name(name, (size_t)(dash - name));
    if (blob.dtype == PL_UNDEFINED || !pl_hash128_parse(last + 1, &blob.hash)) return false;
    blob.n_bytes = strtoull(dash + 1, NULL, 10);
    /* Only one spelling: no sign, no leading zero, no overflow. */
    pl_blob_name(&blob, again);
    if (strcmp(again, name) != 0) return false;
    *out = blob;
    return true;
}

bool pl_blob_equal(const pl_blob *a, const pl_blob *b) {
    return a->dtype == b->dtype && a->n_bytes == b->n_bytes && a->hash.low == b->hash.low &&
           a->hash.high == b->hash.high;
}

/* ---- bytes ---- */

static void put_strings(pl_buf *buf, const pl_tensor *t) {
    const pl_string *strings = t->data;
    for (int64_t i = 0; i < t->n_elements; i++) {
        uint8_t length[8];
        pl_le64_put(length, strings[i].n_bytes);
        pl_buf_append(buf, length, sizeof length);
        pl_buf_append(buf, strings[i].data, strings[i].n_bytes);
    }
}

pl_status pl_dense_init(pl_dense *d, const pl_tensor *t, pl_err *err) {
    *d = (pl_dense){ .strings = PL_BUF_INIT };
    PL_TRY(pl_tensor_contiguous(t, &d->owner, err));
    if (t->dtype != PL_STRING) {
        d->data = d->owner->data;
        d->n_bytes = pl_tensor_bytes(d->owner);
        return PL_OK;
    }
    put_strings(&d->strings, d->owner);
    d->data = pl_buf_str(&d->strings);
    d->n_bytes = d->strings.n_bytes;
    if (pl_buf_ok(&d->strings)) return PL_OK;
    pl_dense_release(d);
    return pl_fail_memory(err, pl_tensor_bytes(t));
}

void pl_dense_release(pl_dense *d) {
    pl_tensor_unref(d->owner);
    pl_buf_release(&d->strings);
    *d = (pl_dense){ .strings = PL_BUF_INIT };
}

pl_blob pl_dense_blob(const pl_dense *d, pl_dtype dtype) {
    return (pl_blob){ dtype, d->n_bytes, pl_hash128_of(d->data, d->n_bytes) };
}

pl_status pl_dense_probe(const pl_dense *d, pl_hash128 *out, pl_err *err) {
    const size_t n_whole = (d->n_bytes + PL_PROBE_BYTES - 1) / PL_PROBE_BYTES;
    const size_t n = n_whole < PL_PROBE_BLOCKS ? n_whole : PL_PROBE_BLOCKS;
    const uint64_t n_bytes = d->n_bytes;
    pl_hasher *h = pl_hasher_new();
    if (h == NULL) return pl_fail_memory(err, 1);
    pl_hasher_update(h, &n_bytes, sizeof n_bytes);
    for (size_t i = 0; i < n; i++) {
        /* Includes the first and the last block; i * (n_whole - 1) is below 2^64. */
        const size_t block = n < 2 ? 0 : i * (n_whole - 1) / (n - 1);
        const size_t begin = block * PL_PROBE_BYTES, left = d->n_bytes - begin;
        pl_hasher_update(h, (const char *)d->data + begin,
                         left < PL_PROBE_BYTES ? left : PL_PROBE_BYTES);
    }
    *out = pl_hasher_digest(h);
    pl_hasher_free(h);
    return PL_OK;
}

/* ---- reading ---- */

static pl_status restore_strings(int rank, const int64_t *dims, pl_bytes bytes, pl_tensor **out,
                                 pl_err *err) {
    int64_t n;
    if (!pl_dims_product(rank, dims, &n) || (uint64_t)n > bytes.n_bytes / 8) {
        return pl_fail(err, PL_E_FORMAT, "%zu bytes are too few for the strings of its shape",
                       bytes.n_bytes);
    }
    pl_tensor *t = NULL;
    pl_status st = PL_OK;
    size_t at = 0;
    PL_TRY(pl_tensor_new(PL_STRING, rank, dims, &t, err));
    for (int64_t i = 0; i < n && st == PL_OK; i++) {
        const uint64_t left = bytes.n_bytes - at;
        const uint64_t length = left < 8 ? UINT64_MAX : pl_le64(bytes.data + at);
        if (left < 8 || length > left - 8) {
            st = pl_fail(err, PL_E_FORMAT, "string %" PRId64 " ends after the data", i);
            break;
        }
        st = pl_tensor_set_string(t, i, (const char *)bytes.data + at + 8, (size_t)length, err);
        at += 8 + (size_t)length;
    }
    if (st == PL_OK && at != bytes.n_bytes) {
        st = pl_fail(err, PL_E_FORMAT, "%zu bytes after the last string", bytes.n_bytes - at);
    }
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    *out = t;
    return PL_OK;
}

pl_status pl_dense_restore(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes bytes,
                           pl_file_map *map, pl_tensor **out, pl_err *err) {
    if (rank < 0 || rank > PL_RANK_MAX) return pl_fail(err, PL_E_LIMIT, "rank %d", rank);
    if (dtype == PL_STRING) return restore_strings(rank, dims, bytes, out, err);
    return pl_tensor_from_dense(dtype, rank, dims, bytes, map, out, err);
}

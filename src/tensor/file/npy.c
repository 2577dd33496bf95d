/* Reading and writing npy. The header is the text of a Python dict with three keys; only that form
 * is accepted; nothing is evaluated. */
#include "tensor/file/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "base/size.h"
#include "base/utf8.h"
#include "tensor/file/raw.h"

static const char npy_magic[6] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

typedef struct npy_header {
    char descr[24];
    bool has_descr, has_order, has_shape;
    bool fortran;
    int rank;
    int64_t dims[PL_RANK_MAX];
    /* from descr */
    pl_dtype dtype;
    bool swap;
    char kind;        /* 'U' and 'S' differ in how their elements are read */
    size_t item_size; /* bytes of one element */
} npy_header;

typedef struct cursor {
    const char *at, *end;
    pl_err *err;
} cursor;

bool pl_npy_sniff(const void *data, size_t n_bytes) {
    return n_bytes >= sizeof npy_magic && memcmp(data, npy_magic, sizeof npy_magic) == 0;
}

/* ---- header text ---- */

static pl_status fail_header(cursor *c, const char *what) {
    return pl_fail(c->err, PL_E_FORMAT, "npy header: %s", what);
}

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool take(cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    const size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

/* A quoted string without escapes. */
static bool take_string(cursor *c, pl_bytes *out) {
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char quote = *c->at++, *start = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\')
        c->at++;
    if (c->at == c->end || *c->at != quote) return false;
    *out = (pl_bytes){ (const uint8_t *)start, (size_t)(c->at - start) };
    c->at++;
    return true;
}

static pl_status read_descr(cursor *c, npy_header *h) {
    pl_bytes text;
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return pl_fail(c->err, PL_E_UNSUPPORTED, "structured npy elements are not supported");
    if (!take_string(c, &text)) return fail_header(c, "'descr' is not a string");
    if (text.n_bytes >= sizeof h->descr) return fail_header(c, "'descr' is too long");
    memcpy(h->descr, text.data, text.n_bytes);
    h->descr[text.n_bytes] = '\0';
    h->has_descr = true;
    return PL_OK;
}

static pl_status read_dim(cursor *c, npy_header *h) {
    int64_t value = 0;
    const char *start = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!pl_i64_mul(value, 10, &value) || !pl_i64_add(value, *c->at - '0', &value))
            return pl_fail(c->err, PL_E_LIMIT, "npy header: a dim does not fit in 63 bits");
    if (c->at == start) return fail_header(c, "'shape' is not a tuple of integers");
    if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2 */
    if (h->rank == PL_RANK_MAX)
        return pl_fail(c->err, PL_E_LIMIT, "npy: more than %d dims", PL_RANK_MAX);
    h->dims[h->rank++] = value;
    return PL_OK;
}

static pl_status read_shape(cursor *c, npy_header *h) {
    if (!take(c, '(')) return fail_header(c, "'shape' is not a tuple");
    h->has_shape = true;
    while (!take(c, ')')) {
        PL_TRY(read_dim(c, h));
        if (take(c, ',')) continue;
        if (!take(c, ')')) return fail_header(c, "'shape' is not a tuple of integers");
        break;
    }
    return PL_OK;
}

static pl_status read_entry(cursor *c, npy_header *h) {
    pl_bytes key;
    if (!take_string(c, &key) || !take(c, ':')) return fail_header(c, "expected a key and ':'");
    const struct {
        const char *name;
        bool *seen;
    } keys[] = { { "descr", &h->has_descr },
                 { "fortran_order", &h->has_order },
                 { "shape", &h->has_shape } };
    for (int i = 0; i < 3; i++) {
        if (key.n_bytes != strlen(keys[i].name) || memcmp(key.data, keys[i].name, key.n_bytes) != 0)
            continue;
        if (*keys[i].seen) return fail_header(c, "duplicate key");
        if (i == 0) return read_descr(c, h);
        if (i == 2) return read_shape(c, h);
        h->has_order = true;
        h->fortran = take_word(c, "True");
        if (!h->fortran && !take_word(c, "False")) return fail_header(c, "invalid 'fortran_order'");
        return PL_OK;
    }
    return fail_header(c, "unknown key");
}

static pl_status read_dict(cursor *c, npy_header *h) {
    if (!take(c, '{')) return fail_header(c, "expected '{'");
    while (!take(c, '}')) {
        PL_TRY(read_entry(c, h));
        if (take(c, ',')) continue;
        if (!take(c, '}')) return fail_header(c, "expected ',' or '}'");
        break;
    }
    skip_space(c);
    if (c->at < c->end) return fail_header(c, "text after the dict");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return fail_header(c, "descr, fortran_order or shape is missing");
    return PL_OK;
}

/* ---- element type ---- */

static pl_status fail_descr(const npy_header *h, pl_err *err) {
    return pl_fail(err, PL_E_UNSUPPORTED, "npy elements of type '%s' are not supported", h->descr);
}

static pl_status parse_descr(npy_header *h, pl_err *err) {
    const char *p = h->descr;
    char order = '=';
    if (*p && strchr("<>|=", *p)) order = *p++;
    h->kind = *p ? *p++ : '\0';
    size_t size = 0;
    const char *digits = p;
    for (; *p >= '0' && *p <= '9'; p++) {
        size = size * 10 + (size_t)(*p - '0');
        if (size > INT32_MAX) return fail_descr(h, err);
    }
    if (h->kind == '?' && *p == '\0') { /* an old spelling of b1 */
        h->kind = 'b';
        size = 1;
    } else if (p == digits || *p != '\0') {
        return fail_descr(h, err);
    }
    h->item_size = size;
    h->swap = order == '>' && (size > 1 || h->kind == 'U'); /* U1 has four bytes */
    if (h->kind == 'U' || h->kind == 'S') {
        h->dtype = PL_STRING;
        if (h->kind == 'U') h->item_size *= 4;
        return PL_OK;
    }
    for (int i = 1; i < PL_DTYPE_COUNT; i++) {
        const char *npy = pl_dtype_npy((pl_dtype)i);
        if (*npy && npy[1] == h->kind && pl_dtype_bytes((pl_dtype)i) == size &&
            pl_dtype_bits((pl_dtype)i) == 8 * size) {
            h->dtype = (pl_dtype)i;
            return PL_OK;
        }
    }
    return fail_descr(h, err);
}

/* Reads the header and finds the start of the data. */
static pl_status read_header(pl_bytes bytes, npy_header *h, pl_bytes *data, pl_err *err) {
    if (!pl_npy_sniff(bytes.data, bytes.n_bytes) || bytes.n_bytes < 10)
        return pl_fail(err, PL_E_FORMAT, "not an npy file, or truncated");
    const uint8_t *p = bytes.data;
    const unsigned major = p[6];
    if (major < 1 || major > 3 || p[7] != 0)
        return pl_fail(err, PL_E_UNSUPPORTED, "unsupported npy version %u.%u", major, p[7]);
    const size_t n_prefix = major == 1 ? 10 : 12;
    if (bytes.n_bytes < n_prefix) return pl_fail(err, PL_E_FORMAT, "npy header is truncated");
    const size_t n_text = major == 1 ? pl_le16(p + 8) : pl_le32(p + 8);
    if (n_text > bytes.n_bytes - n_prefix)
        return pl_fail(err, PL_E_FORMAT, "npy header of %zu bytes in a file of %zu", n_text,
                       bytes.n_bytes);
    const char *text = (const char *)p + n_prefix;
    cursor c = { text, text + n_text, err };
    PL_TRY(read_dict(&c, h));
    PL_TRY(parse_descr(h, err));
    *data = (pl_bytes){ p + n_prefix + n_text, bytes.n_bytes - n_prefix - n_text };
    return PL_OK;
}

/* ---- elements ---- */

static void swap_bytes(uint8_t *data, size_t n_items, size_t size) {
    for (size_t i = 0; i < n_items; i++, data += size)
        for (size_t j = 0; j < size / 2; j++) {
            const uint8_t byte = data[j];
            data[j] = data[size - 1 - j];
            data[size - 1 - j] = byte;
        }
}

/* One 'U' element: UTF-32 without its trailing NULs, appended as UTF-8. */
static bool put_utf32(pl_buf *buf, const uint8_t *at, size_t n_units, bool swap) {
    while (n_units > 0 && memcmp(at + 4 * (n_units - 1), "\0\0\0\0", 4) == 0)
        n_units--;
    for (size_t i = 0; i < n_units; i++, at += 4) {
        const uint32_t c = swap ? __builtin_bswap32(pl_le32(at)) : pl_le32(at);
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
        char bytes[4];
        pl_buf_append(buf, bytes, pl_utf8_put(c, bytes));
    }
    return true;
}

static pl_status fill_strings(const npy_header *h, const uint8_t *at, pl_tensor *t, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_status st = PL_OK;
    for (int64_t i = 0; i < t->n_elements && st == PL_OK; i++, at += h->item_size) {
        size_t n = h->item_size;
        if (h->kind == 'S') {
            while (n > 0 && at[n - 1] == 0)
                n--;
            st = pl_tensor_set_string(t, i, (const char *)at, n, err);
            continue;
        }
        pl_buf_reset(&text);
        if (!put_utf32(&text, at, n / 4, h->swap))
            st = pl_fail(err, PL_E_FORMAT, "npy element %" PRId64 " is not Unicode", i);
        else if (!pl_buf_ok(&text))
            st = pl_fail_memory(err, text.n_bytes);
        else
            st = pl_tensor_set_string(t, i, pl_buf_str(&text), text.n_bytes, err);
    }
    pl_buf_release(&text);
    return st;
}

/* In the order of the file: `dims` is the shape, reversed for Fortran order. */
static pl_status read_elements(const npy_header *h, const int64_t *dims, pl_bytes data,
                               pl_file_map *map, pl_tensor **out, pl_err *err) {
    int64_t n;
    size_t want;
    char text[256];
    if (!pl_dims_product(h->rank, dims, &n) || !pl_size_mul((size_t)n, h->item_size, &want))
        return pl_fail(err, PL_E_LIMIT, "npy shape %s is too large",
                       pl_dims_describe(h->rank, h->dims, text, sizeof text));
    if (want != data.n_bytes)
        return pl_fail(err, PL_E_FORMAT, "npy shape %s of '%s' needs %zu bytes, the file has %zu",
                       pl_dims_describe(h->rank, h->dims, text, sizeof text), h->descr, want,
                       data.n_bytes);
    if (h->dtype != PL_STRING && !h->swap)
        return pl_tensor_from_raw(h->dtype, h->rank, dims, data, map, out, err);
    if (h->item_size == 0 && n > 0) /* else a tiny file could ask for any number of strings */
        return pl_fail(err, PL_E_UNSUPPORTED, "npy elements of type '%s' have size 0", h->descr);
    pl_tensor *t = NULL;
    pl_status st = PL_OK;
    PL_TRY(pl_tensor_new(h->dtype, h->rank, dims, &t, err));
    if (h->dtype == PL_STRING) {
        st = fill_strings(h, data.data, t, err);
    } else if (want > 0) {
        const size_t part = h->kind == 'c' ? h->item_size / 2 : h->item_size;
        memcpy(t->data, data.data, want);
        if (part > 0) swap_bytes(t->data, want / part, part);
    }
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    *out = t;
    return PL_OK;
}

pl_status pl_npy_read(pl_bytes bytes, pl_file_map *map, pl_tensor **out, pl_err *err) {
    npy_header h = { 0 };
    pl_bytes data;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    PL_TRY(read_header(bytes, &h, &data, err));
    if (!h.fortran || h.rank < 2) return read_elements(&h, h.dims, data, map, out, err);
    for (int i = 0; i < h.rank; i++)
        dims[i] = h.dims[h.rank - 1 - i];
    pl_tensor *reversed = NULL, *view = NULL;
    PL_TRY(read_elements(&h, dims, data, map, &reversed, err));
    for (int i = 0; i < h.rank; i++)
        strides[i] = reversed->strides[h.rank - 1 - i];
    pl_status st = pl_tensor_view(reversed, h.rank, h.dims, strides, 0, &view, err);
    if (st == PL_OK) st = pl_tensor_copy(view, out, err);
    pl_tensor_unref(view);
    pl_tensor_unref(reversed);
    return st;
}

/* ---- writing ---- */

pl_status pl_npy_put_header(pl_buf *buf, const pl_tensor *t, pl_err *err) {
    const char *descr = pl_dtype_npy(t->dtype);
    if (!*descr)
        return pl_fail(err, PL_E_UNSUPPORTED, "npy has no element type for %s; write %s instead",
                       pl_dtype_name(t->dtype),
                       t->dtype == PL_STRING ? ".pb" : ".safetensors or .pb");
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->rank; i++)
        pl_buf_printf(&text, "%s%" PRId64 "%s", i > 0 ? " " : "", t->dims[i],
                      i + 1 < t->rank || t->rank == 1 ? "," : "");
    pl_buf_puts(&text, "), }");
    while ((10 + text.n_bytes + 1) % 64 != 0 && pl_buf_ok(&text))
        pl_buf_putc(&text, ' ');
    pl_buf_putc(&text, '\n');
    if (!pl_buf_ok(&text)) buf->failed = true;
    pl_buf_append(buf, npy_magic, sizeof npy_magic);
    const uint8_t head[4] = { 1, 0, (uint8_t)text.n_bytes, (uint8_t)(text.n_bytes >> 8) };
    pl_buf_append(buf, head, sizeof head);
    pl_buf_append(buf, pl_buf_str(&text), text.n_bytes);
    pl_buf_release(&text);
    return pl_buf_ok(buf) ? PL_OK : pl_fail_memory(err, buf->n_bytes);
}

pl_status pl_npy_write(pl_buf *buf, const pl_tensor *t, pl_err *err) {
    PL_TRY(pl_npy_put_header(buf, t, err));
    pl_tensor_put_raw(buf, t);
    return pl_buf_ok(buf) ? PL_OK : pl_fail_memory(err, buf->n_bytes + pl_tensor_bytes(t));
}

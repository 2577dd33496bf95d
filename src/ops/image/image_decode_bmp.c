/* Windows bitmaps: OS/2 and all Windows headers; 1, 4, 8, 16, 24 and 32 bits; RLE and bit masks.
 * Written by hand: Debian has no small C library that only reads bitmaps. */
#include "ops/image/image_decode.h"

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40 };
enum { BI_RGB = 0, BI_RLE8 = 1, BI_RLE4 = 2, BI_BITFIELDS = 3, BI_ALPHABITFIELDS = 6 };

typedef struct bmp {
    pl_bytes bytes;
    uint64_t width, height;
    bool top_down;
    uint32_t bits, compression, offset;
    uint32_t mask[3];
    size_t palette, n_palette, palette_step; /* blue, green, red */
} bmp;

static uint32_t get16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static uint32_t get32(const uint8_t *p) {
    return get16(p) | get16(p + 2) << 16;
}

static bool read_core_header(bmp *b, const uint8_t *h) {
    b->width = get16(h + 4);
    b->height = get16(h + 6);
    b->bits = get16(h + 10);
    b->palette_step = 3;
    return b->width > 0 && b->height > 0;
}

static bool read_info_header(bmp *b, const uint8_t *h) {
    const int32_t width = (int32_t)get32(h + 4), height = (int32_t)get32(h + 8);
    if (width <= 0 || height == 0) return false;
    b->top_down = height < 0;
    b->width = (uint64_t)width;
    b->height = (uint64_t)(b->top_down ? -(int64_t)height : height);
    b->bits = get16(h + 14);
    b->compression = get32(h + 16);
    b->n_palette = get32(h + 32);
    b->palette_step = 4;
    return true;
}

static bool read_masks(bmp *b, uint32_t header) {
    if (b->compression == BI_RGB) {
        const bool five = b->bits == 16;
        b->mask[0] = five ? 0x7c00 : 0xff0000;
        b->mask[1] = five ? 0x03e0 : 0x00ff00;
        b->mask[2] = five ? 0x001f : 0x0000ff;
        return true;
    }
    if (b->compression != BI_BITFIELDS && b->compression != BI_ALPHABITFIELDS) return true;
    /* The masks are at the same position, after the old header and inside the newer ones. */
    if (b->bytes.n_bytes < FILE_HEADER + INFO_HEADER + 12) return false;
    for (int i = 0; i < 3; i++) {
        b->mask[i] = get32(b->bytes.data + FILE_HEADER + INFO_HEADER + 4 * i);
    }
    if (header == INFO_HEADER) b->palette += b->compression == BI_BITFIELDS ? 12 : 16;
    return true;
}

static bool read_header(bmp *b) {
    if (b->bytes.n_bytes < FILE_HEADER + CORE_HEADER) return false;
    const uint8_t *data = b->bytes.data;
    const uint32_t header = get32(data + FILE_HEADER);
    b->offset = get32(data + 10);
    if (header > b->bytes.n_bytes - FILE_HEADER) return false;
    b->palette = FILE_HEADER + (size_t)header;
    if (header == CORE_HEADER) {
        if (!read_core_header(b, data + FILE_HEADER)) return false;
    } else if (header < INFO_HEADER || !read_info_header(b, data + FILE_HEADER)) {
        return false;
    }
    if (!read_masks(b, header)) return false;
    const uint32_t bits = b->bits;
    if (bits <= 8) {
        const size_t full = (size_t)1 << bits;
        if (b->n_palette == 0 || b->n_palette > full) b->n_palette = full;
    }
    return bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
}

static void put_palette(const bmp *b, uint32_t index, uint8_t *rgb) {
    const size_t at = b->palette + index * b->palette_step;
    if (index >= b->n_palette || at + 3 > b->bytes.n_bytes) return; /* stays black */
    for (int i = 0; i < 3; i++)
        rgb[i] = b->bytes.data[at + 2 - (size_t)i];
}

static uint8_t field(uint32_t value, uint32_t mask) {
    if (mask == 0) return 0;
    const int shift = __builtin_ctz(mask);
    const uint32_t max = mask >> shift;
    return (uint8_t)((uint64_t)((value & mask) >> shift) * 255 / max);
}

static void put_pixel(const bmp *b, const uint8_t *row, size_t x, uint8_t *rgb) {
    if (b->bits <= 8) {
        const size_t per_byte = 8 / b->bits;
        const uint32_t shift = (uint32_t)(per_byte - 1 - x % per_byte) * b->bits;
        put_palette(b, (uint32_t)row[x / per_byte] >> shift & ((1u << b->bits) - 1), rgb);
    } else if (b->bits == 24) {
        for (int i = 0; i < 3; i++)
            rgb[i] = row[3 * x + 2 - (size_t)i];
    } else {
        const uint32_t value = b->bits == 16 ? get16(row + 2 * x) : get32(row + 4 * x);
        for (int i = 0; i < 3; i++)
            rgb[i] = field(value, b->mask[i]);
    }
}

static uint8_t *row_of(const bmp *b, const pl_image *out, size_t y) {
    const size_t line = b->top_down ? y : out->height - 1 - y;
    return out->pixels + line * out->width * 3;
}

static pl_status decode_plain(const bmp *b, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const uint64_t row = (b->width * b->bits + 31) / 32 * 4;
    /* The last row's padding may be missing. */
    const uint64_t least = (b->width * b->bits + 7) / 8;
    const uint64_t there = b->bytes.n_bytes - b->offset;
    if (least > there || (b->height - 1) > (there - least) / row) {
        return pl_fail(err, PL_E_FORMAT, "BMP: truncated");
    }
    PL_TRY(pl_image_alloc(out, b->width, b->height, 3, max_pixels, err));
    for (size_t y = 0; y < out->height; y++) {
        const uint8_t *from = b->bytes.data + b->offset + y * row;
        uint8_t *to = row_of(b, out, y);
        for (size_t x = 0; x < out->width; x++)
            put_pixel(b, from, x, to + 3 * x);
    }
    return PL_OK;
}

/* ---- run-length coding ---- */

typedef struct rle {
    const bmp *b;
    pl_image *out;
    size_t x, y, at;
} rle;

static void rle_put(rle *r, uint32_t index) {
    if (r->x < r->out->width && r->y < r->out->height) {
        put_palette(r->b, index, row_of(r->b, r->out, r->y) + 3 * r->x);
    }
    r->x++;
}

/* Decodes one pair of bytes; false at the end of the picture or of the data. */
static bool rle_step(rle *r) {
    const pl_bytes bytes = r->b->bytes;
    const bool four = r->b->compression == BI_RLE4;
    if (bytes.n_bytes - r->at < 2 || r->y >= r->out->height) return false;
    const uint32_t count = bytes.data[r->at], value = bytes.data[r->at + 1];
    r->at += 2;
    if (count > 0) {
        for (uint32_t i = 0; i < count; i++) {
            rle_put(r, !four ? value : i % 2 == 0 ? value >> 4 : value & 15);
        }
    } else if (value == 0) { /* end of line */
        r->x = 0;
        r->y++;
    } else if (value == 1) {
        return false;
    } else if (value == 2) { /* move */
        if (bytes.n_bytes - r->at < 2) return false;
        r->x += bytes.data[r->at];
        r->y += bytes.data[r->at + 1];
        r->at += 2;
    } else { /* literal, padded to 16 bits */
        const size_t n = four ? ((size_t)value + 1) / 2 : value;
        if (bytes.n_bytes - r->at < n) return false;
        for (uint32_t i = 0; i < value; i++) {
            const uint32_t byte = bytes.data[r->at + (four ? i / 2 : i)];
            rle_put(r, !four ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
        }
        r->at += n;
        if (n % 2 == 1 && r->at < bytes.n_bytes) r->at++;
    }
    return true;
}

static pl_status decode_rle(const bmp *b, uint64_t max_pixels, pl_image *out, pl_err *err) {
    PL_TRY(pl_image_alloc(out, b->width, b->height, 3, max_pixels, err));
    for (size_t i = 0; i < (size_t)out->width * out->height; i++) {
        put_palette(b, 0, out->pixels + 3 * i); /* skipped pixels have colour 0 */
    }
    rle r = { b, out, 0, 0, b->offset };
    while (rle_step(&r)) {
    }
    return PL_OK;
}

pl_status pl_image_decode_bmp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    bmp b = { .bytes = bytes };
    if (!read_header(&b) || b.offset >= bytes.n_bytes) {
        return pl_fail(err, PL_E_FORMAT, "BMP: bad header");
    }
    switch (b.compression) {
    case BI_RGB: return decode_plain(&b, max_pixels, out, err);
    case BI_RLE8:
    case BI_RLE4:
        if (b.bits != (b.compression == BI_RLE8 ? 8 : 4)) break;
        return decode_rle(&b, max_pixels, out, err);
    case BI_BITFIELDS:
    case BI_ALPHABITFIELDS:
        if (b.bits != 16 && b.bits != 32) break;
        return decode_plain(&b, max_pixels, out, err);
    default: return pl_fail(err, PL_E_UNSUPPORTED, "BMP: compression %u", b.compression);
    }
    return pl_fail(err, PL_E_FORMAT, "BMP: %u bits with compression %u are not supported", b.bits,
                   b.compression);
}

/* Netpbm: P1 to P6, plain and raw, up to 16 bits. Samples are scaled to 0..255, half to even as
 * Pillow does. PAM (P7) is not among the formats of ONNX ImageDecoder-20. */
#include <math.h>

#include "ops/image/image_decode.h"

typedef struct pnm {
    pl_bytes bytes;
    size_t at;
    uint64_t width, height, max;
    uint64_t depth; /* samples of a pixel */
    bool plain, bitmap;
} pnm;

static bool is_space(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(pnm *p) {
    for (; p->at < p->bytes.n_bytes; p->at++) {
        const uint8_t c = p->bytes.data[p->at];
        if (c == '#') {
            while (p->at < p->bytes.n_bytes && p->bytes.data[p->at] != '\n')
                p->at++;
            if (p->at == p->bytes.n_bytes) return;
        } else if (!is_space(c)) {
            return;
        }
    }
}

static bool read_number(pnm *p, uint64_t *out) {
    uint64_t value = 0;
    skip_space(p);
    const size_t begin = p->at;
    for (; p->at < p->bytes.n_bytes; p->at++) {
        const uint8_t c = p->bytes.data[p->at];
        if (c < '0' || c > '9') break;
        value = value * 10 + (uint64_t)(c - '0');
        if (value > UINT32_MAX) return false;
    }
    *out = value;
    return p->at > begin;
}

static bool read_bit(pnm *p, uint64_t *out) { /* plain bitmaps need no space between digits */
    skip_space(p);
    if (p->at >= p->bytes.n_bytes) return false;
    const uint8_t c = p->bytes.data[p->at++];
    *out = (uint64_t)(c == '1');
    return c == '0' || c == '1';
}

static bool read_header(pnm *p) {
    const char kind = (char)p->bytes.data[1];
    p->at = 2;
    p->max = 1;
    p->plain = kind <= '3';
    p->bitmap = kind == '1' || kind == '4';
    p->depth = kind == '3' || kind == '6' ? 3 : 1;
    if (!read_number(p, &p->width) || !read_number(p, &p->height)) return false;
    if (!p->bitmap && !read_number(p, &p->max)) return false;
    if (p->plain) return true;
    /* Exactly one whitespace byte before the samples. */
    return p->at < p->bytes.n_bytes && is_space(p->bytes.data[p->at++]);
}

static bool next_sample(pnm *p, uint64_t *out) {
    if (p->plain) return p->bitmap ? read_bit(p, out) : read_number(p, out);
    const size_t n = p->max > 255 ? 2 : 1;
    if (p->bytes.n_bytes - p->at < n) return false;
    const uint8_t *s = p->bytes.data + p->at;
    *out = n == 2 ? (uint64_t)s[0] << 8 | s[1] : s[0];
    p->at += n;
    return true;
}

static uint8_t to_byte(const pnm *p, uint64_t sample) {
    if (p->max == 255) return (uint8_t)(sample > 255 ? 255 : sample);
    const double scaled = rint((double)sample / (double)p->max * 255);
    return (uint8_t)(scaled > 255 ? 255 : scaled);
}

static bool read_packed_bits(pnm *p, pl_image *out) {
    const size_t row = ((size_t)out->width + 7) / 8;
    if (p->bytes.n_bytes - p->at < row * out->height) return false;
    for (size_t y = 0; y < out->height; y++) {
        const uint8_t *from = p->bytes.data + p->at + y * row;
        for (size_t x = 0; x < out->width; x++) {
            const bool black = (from[x / 8] >> (7 - x % 8) & 1) != 0;
            out->pixels[y * out->width + x] = black ? 0 : 255;
        }
    }
    return true;
}

static bool read_samples(pnm *p, pl_image *out) {
    const size_t n_pixels = (size_t)out->width * out->height;
    for (size_t i = 0; i < n_pixels; i++) {
        for (uint64_t s = 0; s < p->depth; s++) {
            uint64_t sample = 0;
            if (!next_sample(p, &sample)) return false;
            if (p->bitmap) sample = 1 - sample; /* 1 is black */
            out->pixels[i * p->depth + s] = to_byte(p, sample);
        }
    }
    return true;
}

pl_status pl_image_decode_pnm(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    pnm p = { .bytes = bytes };
    if (!read_header(&p) || p.max == 0 || p.max > 65535) {
        return pl_fail(err, PL_E_FORMAT, "PNM: bad header");
    }
    /* PNM is uncompressed: reject sizes that the file cannot hold before allocating. */
    const uint64_t bits = p.bitmap && !p.plain ? 1 : 8;
    if (p.height > 0 && p.width > (uint64_t)bytes.n_bytes * 8 / bits / p.height) {
        return pl_fail(err, PL_E_FORMAT, "PNM: truncated");
    }
    PL_TRY(pl_image_alloc(out, p.width, p.height, (int)p.depth, max_pixels, err));
    const bool ok = p.bitmap && !p.plain ? read_packed_bits(&p, out) : read_samples(&p, out);
    return ok ? PL_OK : pl_fail(err, PL_E_FORMAT, "PNM: truncated or not a number");
}

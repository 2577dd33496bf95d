/* Image files to pixels: JPEG, PNG, TIFF, WebP and JPEG 2000 through their libraries, which are
 * loaded on first use (base/library.h); BMP and PNM have decoders here. The format is detected from
 * the content.
 *
 * The bytes are untrusted: sizes are checked against a limit before memory is allocated, a
 * library's errors come back as a status, and nothing is printed. Alpha is dropped; 16 bits become
 * 8. */
#ifndef PL_IMAGE_DECODE_H
#define PL_IMAGE_DECODE_H

#include <stdint.h>

#include "base/status.h"
#include "base/wire.h"

typedef struct pl_image {
    uint32_t width, height;
    int channels;    /* 1 grey, 3 RGB */
    uint8_t *pixels; /* height * width * channels, rows from the top; pl_free */
} pl_image;

#define PL_IMAGE_INIT                                                                              \
    { 0, 0, 0, NULL }

/* The limit at which Pillow refuses a decompression bomb. */
#define PL_IMAGE_PIXELS_MAX UINT64_C(178956970)

/* PL_E_FORMAT: not an image, or a damaged one. PL_E_UNSUPPORTED: the library was
 * missing at build time or is missing now, or a rare variant of the format. PL_E_LIMIT: more than
 * max_pixels. */
pl_status pl_image_decode(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
void pl_image_release(pl_image *image);

/* ---- for the decoders ---- */
/* Checks the size, then allocates zeroed pixels. */
pl_status pl_image_alloc(pl_image *image, uint64_t width, uint64_t height, int channels,
                         uint64_t max_pixels, pl_err *err);
typedef pl_status (*pl_image_decoder)(pl_bytes bytes, uint64_t max_pixels, pl_image *out,
                                      pl_err *err);
pl_status pl_image_decode_bmp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_pnm(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_jpeg(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_png(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_tiff(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_webp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);
pl_status pl_image_decode_jp2(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err);

#endif

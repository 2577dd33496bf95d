/* Detects the format of an image file and allocates the pixels. */
#include "ops/image/image_decode.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

typedef struct signature {
    const char *bytes;
    size_t at, n;
    pl_image_decoder decode;
} signature;

static const signature signatures[] = {
    { "\xff\xd8\xff", 0, 3, pl_image_decode_jpeg },
    { "\x89PNG\r\n\x1a\n", 0, 8, pl_image_decode_png },
    { "BM", 0, 2, pl_image_decode_bmp },
    { "II*\0", 0, 4, pl_image_decode_tiff },
    { "MM\0*", 0, 4, pl_image_decode_tiff },
    { "II+\0", 0, 4, pl_image_decode_tiff }, /* BigTIFF */
    { "MM\0+", 0, 4, pl_image_decode_tiff },
    { "WEBP", 8, 4, pl_image_decode_webp },
    { "\0\0\0\x0cjP  \r\n\x87\n", 0, 12, pl_image_decode_jp2 },
    { "\xff\x4f\xff\x51", 0, 4, pl_image_decode_jp2 }, /* a bare codestream */
};

static pl_image_decoder find_decoder(pl_bytes bytes) {
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        const signature *s = &signatures[i];
        if (bytes.n_bytes < s->at + s->n) continue;
        if (memcmp(bytes.data + s->at, s->bytes, s->n) == 0) return s->decode;
    }
    const bool is_pnm =
        bytes.n_bytes > 2 && bytes.data[0] == 'P' && bytes.data[1] >= '1' && bytes.data[1] <= '6';
    return is_pnm ? pl_image_decode_pnm : NULL;
}

pl_status pl_image_decode(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    *out = (pl_image)PL_IMAGE_INIT;
    const pl_image_decoder decode = find_decoder(bytes);
    if (decode == NULL) return pl_fail(err, PL_E_FORMAT, "unknown image format");
    const pl_status st = decode(bytes, max_pixels, out, err);
    if (st != PL_OK) pl_image_release(out);
    return st;
}

pl_status pl_image_alloc(pl_image *image, uint64_t width, uint64_t height, int channels,
                         uint64_t max_pixels, pl_err *err) {
    if (width == 0 || height == 0) return pl_fail(err, PL_E_FORMAT, "the image is empty");
    if (width > UINT32_MAX || height > UINT32_MAX || width > max_pixels / height) {
        return pl_fail(err, PL_E_LIMIT, "the image has %llu x %llu pixels, the limit is %llu",
                       (unsigned long long)width, (unsigned long long)height,
                       (unsigned long long)max_pixels);
    }
    size_t n = 0;
    if (!pl_size_mul((size_t)(width * height), (size_t)channels, &n)) {
        return pl_fail_memory(err, SIZE_MAX);
    }
    uint8_t *pixels = pl_calloc(n, 1);
    if (pixels == NULL) return pl_fail_memory(err, n);
    *image = (pl_image){ (uint32_t)width, (uint32_t)height, channels, pixels };
    return PL_OK;
}

void pl_image_release(pl_image *image) {
    pl_free(image->pixels);
    *image = (pl_image)PL_IMAGE_INIT;
}

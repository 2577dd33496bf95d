/* WebP through libwebp. Animations need another library (libwebpdemux): they are unsupported. */
#include "ops/image_decode.h"

#ifdef HAVE_LIBWEBP

#include <webp/decode.h>

pl_status pl_image_decode_webp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(bytes.data, bytes.n_bytes, &features) != VP8_STATUS_OK ||
        features.width <= 0 || features.height <= 0) {
        return pl_fail(err, PL_E_FORMAT, "WebP: bad header");
    }
    if (features.has_animation) return pl_fail(err, PL_E_UNSUPPORTED, "WebP: an animation");
    PL_TRY(pl_image_alloc(out, (uint64_t)features.width, (uint64_t)features.height, 3, max_pixels,
                          err));
    const size_t stride = (size_t)out->width * 3;
    /* Sides are at most 16384 (14 bits), so that stride fits. */
    if (WebPDecodeRGBInto(bytes.data, bytes.n_bytes, out->pixels, stride * out->height,
                          (int)stride) == NULL) {
        return pl_fail(err, PL_E_FORMAT, "WebP: damaged");
    }
    return PL_OK;
}

#else

pl_status pl_image_decode_webp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    (void)bytes, (void)max_pixels, (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "WebP: plumb was built without libwebp");
}

#endif

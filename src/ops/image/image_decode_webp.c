/* WebP through libwebp. Animations need another library (libwebpdemux): they are unsupported. */
#include "ops/image/image_decode.h"

#ifdef PL_SONAME_WEBP

#include <webp/decode.h>

#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(WebPGetFeaturesInternal)                                                                     \
    X(WebPDecodeRGBInto)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library = PL_LIBRARY("libwebp", "libwebp7", symbols, PL_SONAME_WEBP);

pl_status pl_image_decode_webp(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK) return pl_err_wrap(err, opened, "WebP");
    WebPBitstreamFeatures features;
    /* WebPGetFeatures is an inline function that calls this one. */
    if (lib.WebPGetFeaturesInternal(bytes.data, bytes.n_bytes, &features,
                                    WEBP_DECODER_ABI_VERSION) != VP8_STATUS_OK ||
        features.width <= 0 || features.height <= 0) {
        return pl_fail(err, PL_E_FORMAT, "WebP: bad header");
    }
    if (features.has_animation)
        return pl_fail(err, PL_E_UNSUPPORTED, "WebP: animations are not supported");
    PL_TRY(pl_image_alloc(out, (uint64_t)features.width, (uint64_t)features.height, 3, max_pixels,
                          err));
    const size_t stride = (size_t)out->width * 3;
    /* Sides are at most 16384 (14 bits), so that stride fits. */
    if (lib.WebPDecodeRGBInto(bytes.data, bytes.n_bytes, out->pixels, stride * out->height,
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

/* Fuzz target: any bytes as an image file, in all formats. */
#include <stdlib.h>

#include "ops/image/image_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    pl_err err = PL_ERR_INIT;
    pl_image image = PL_IMAGE_INIT;
    if (pl_image_decode((pl_bytes){ data, n }, 1 << 20, &image, &err) == PL_OK) {
        const size_t n_bytes = (size_t)image.width * image.height * (size_t)image.channels;
        volatile uint8_t sink = 0; /* every byte must be there */
        for (size_t i = 0; i < n_bytes; i++)
            sink = (uint8_t)(sink ^ image.pixels[i]);
        if (n_bytes == 0) abort();
    }
    pl_image_release(&image);
    return 0;
}

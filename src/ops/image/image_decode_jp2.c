/* JPEG 2000, files (JP2) and bare codestreams, through OpenJPEG. */
#include "ops/image/image_decode.h"

#ifdef PL_SONAME_OPENJP2

#include <openjpeg.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(opj_stream_default_create)                                                                   \
    X(opj_stream_set_user_data)                                                                    \
    X(opj_stream_set_user_data_length)                                                             \
    X(opj_stream_set_read_function)                                                                \
    X(opj_stream_set_skip_function)                                                                \
    X(opj_stream_set_seek_function)                                                                \
    X(opj_set_default_decoder_parameters)                                                          \
    X(opj_set_info_handler)                                                                        \
    X(opj_set_warning_handler)                                                                     \
    X(opj_set_error_handler)                                                                       \
    X(opj_setup_decoder)                                                                           \
    X(opj_read_header)                                                                             \
    X(opj_decode)                                                                                  \
    X(opj_end_decompress)                                                                          \
    X(opj_create_decompress)                                                                       \
    X(opj_image_destroy)                                                                           \
    X(opj_stream_destroy)                                                                          \
    X(opj_destroy_codec)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library = PL_LIBRARY("OpenJPEG", "libopenjp2-7", symbols, PL_SONAME_OPENJP2);

typedef struct jp2_job {
    pl_bytes bytes;
    size_t at;
    char message[160];
} jp2_job;

static void on_error(const char *message, void *ctx) {
    jp2_job *job = ctx;
    if (job->message[0] != 0) return;
    (void)snprintf(job->message, sizeof(job->message), "%s", message);
    job->message[strcspn(job->message, "\n")] = 0;
}

static void on_message(const char *message, void *ctx) {
    (void)message, (void)ctx;
}

static OPJ_SIZE_T on_read(void *to, OPJ_SIZE_T n, void *ctx) {
    jp2_job *job = ctx;
    const size_t there = job->bytes.n_bytes - job->at;
    if (there == 0) return (OPJ_SIZE_T)-1;
    if (n > there) n = there;
    memcpy(to, job->bytes.data + job->at, n);
    job->at += n;
    return n;
}

static OPJ_OFF_T on_skip(OPJ_OFF_T n, void *ctx) {
    jp2_job *job = ctx;
    if (n < 0) return -1;
    const size_t there = job->bytes.n_bytes - job->at;
    const size_t take = (uint64_t)n < there ? (size_t)n : there;
    job->at += take;
    return (OPJ_OFF_T)take;
}

static OPJ_BOOL on_seek(OPJ_OFF_T at, void *ctx) {
    jp2_job *job = ctx;
    if (at < 0 || (uint64_t)at > job->bytes.n_bytes) return OPJ_FALSE;
    job->at = (size_t)at;
    return OPJ_TRUE;
}

static opj_stream_t *open_stream(jp2_job *job) {
    opj_stream_t *stream = lib.opj_stream_default_create(OPJ_TRUE);
    if (stream == NULL) return NULL;
    lib.opj_stream_set_user_data(stream, job, NULL);
    lib.opj_stream_set_user_data_length(stream, job->bytes.n_bytes);
    lib.opj_stream_set_read_function(stream, on_read);
    lib.opj_stream_set_skip_function(stream, on_skip);
    lib.opj_stream_set_seek_function(stream, on_seek);
    return stream;
}

/* ---- components to pixels ---- */

/* The 8-bit sample of component k at pixel (x, y) of the whole image. */
static int sample(const opj_image_t *image, uint32_t k, uint32_t x, uint32_t y) {
    const opj_image_comp_t *c = &image->comps[k];
    uint32_t cx = x / c->dx, cy = y / c->dy;
    if (cx >= c->w) cx = c->w - 1;
    if (cy >= c->h) cy = c->h - 1;
    int64_t v = c->data[(size_t)cy * c->w + cx];
    if (c->sgnd) v += (int64_t)1 << (c->prec - 1);
    /* As Pillow: the upper 8 bits, rounded; fewer bits are shifted up. */
    v = c->prec > 8 ? (v + ((int64_t)1 << (c->prec - 9))) >> (c->prec - 8) : v << (8 - c->prec);
    return v < 0 ? 0 : v > 255 ? 255 : (int)v;
}

static uint8_t to_byte(double v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5);
}

static void ycc_to_rgb(uint8_t *p) { /* ITU-R 601, as in JFIF */
    const double y = p[0], cb = p[1] - 128.0, cr = p[2] - 128.0;
    p[0] = to_byte(y + 1.402 * cr);
    p[1] = to_byte(y - 0.344136 * cb - 0.714136 * cr);
    p[2] = to_byte(y + 1.772 * cb);
}

static pl_status check_components(const opj_image_t *image, pl_err *err) {
    for (uint32_t k = 0; k < image->numcomps; k++) {
        const opj_image_comp_t *c = &image->comps[k];
        if (c->dx == 0 || c->dy == 0 || c->prec == 0 || c->prec > 31) {
            return pl_fail(err, PL_E_FORMAT, "JPEG 2000: bad component");
        }
    }
    return PL_OK;
}

static pl_status copy_pixels(const opj_image_t *image, pl_image *out, pl_err *err) {
    PL_TRY(check_components(image, err));
    for (int k = 0; k < out->channels; k++) {
        const opj_image_comp_t *c = &image->comps[k];
        if (c->data == NULL || c->w == 0 || c->h == 0) {
            return pl_fail(err, PL_E_FORMAT, "JPEG 2000: a component is missing");
        }
    }
    const bool ycc = out->channels == 3 && image->color_space == OPJ_CLRSPC_SYCC;
    uint8_t *to = out->pixels;
    for (uint32_t y = 0; y < out->height; y++) {
        for (uint32_t x = 0; x < out->width; x++, to += out->channels) {
            for (int k = 0; k < out->channels; k++) {
                to[k] = (uint8_t)sample(image, (uint32_t)k, x, y);
            }
            if (ycc) ycc_to_rgb(to);
        }
    }
    return PL_OK;
}

/* ---- decoding ---- */

static pl_status decode(jp2_job *job, opj_codec_t *codec, opj_stream_t *stream, opj_image_t **image,
                        uint64_t max_pixels, pl_image *out, pl_err *err) {
    opj_dparameters_t parameters;
    lib.opj_set_default_decoder_parameters(&parameters);
    (void)lib.opj_set_info_handler(codec, on_message, job);
    (void)lib.opj_set_warning_handler(codec, on_message, job);
    (void)lib.opj_set_error_handler(codec, on_error, job);
    if (!lib.opj_setup_decoder(codec, &parameters) || !lib.opj_read_header(stream, codec, image)) {
        return pl_fail(err, PL_E_FORMAT, "JPEG 2000: %s", job->message);
    }
    const opj_image_t *head = *image;
    if (head->x1 <= head->x0 || head->y1 <= head->y0 || head->numcomps == 0) {
        return pl_fail(err, PL_E_FORMAT, "JPEG 2000: the image is empty");
    }
    /* OpenJPEG itself holds four bytes for each sample of each component. */
    PL_TRY(check_components(head, err));
    if (head->numcomps > 4) {
        return pl_fail(err, PL_E_UNSUPPORTED, "JPEG 2000: %u components", head->numcomps);
    }
    const uint64_t width = head->x1 - head->x0, height = head->y1 - head->y0;
    if (height > max_pixels / width) {
        return pl_fail(err, PL_E_LIMIT, "JPEG 2000: %llu x %llu pixels are above the limit",
                       (unsigned long long)width, (unsigned long long)height);
    }
    if (!lib.opj_decode(codec, stream, *image) || !lib.opj_end_decompress(codec, stream)) {
        return pl_fail(err, PL_E_FORMAT, "JPEG 2000: %s", job->message);
    }
    /* A palette turns one component into three. */
    const int channels = (*image)->numcomps < 3 ? 1 : 3;
    PL_TRY(pl_image_alloc(out, width, height, channels, max_pixels, err));
    return copy_pixels(*image, out, err);
}

pl_status pl_image_decode_jp2(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK) return pl_err_wrap(err, opened, "JPEG 2000");
    jp2_job job = { .bytes = bytes };
    opj_codec_t *codec =
        lib.opj_create_decompress(bytes.data[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = open_stream(&job);
    opj_image_t *image = NULL;
    pl_status st = PL_OK;
    if (codec == NULL || stream == NULL) {
        st = pl_fail_memory(err, 0);
    } else {
        st = decode(&job, codec, stream, &image, max_pixels, out, err);
    }
    lib.opj_image_destroy(image);
    if (stream != NULL) lib.opj_stream_destroy(stream);
    if (codec != NULL) lib.opj_destroy_codec(codec);
    return st;
}

#else

pl_status pl_image_decode_jp2(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    (void)bytes, (void)max_pixels, (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "JPEG 2000: plumb was built without OpenJPEG");
}

#endif

/* TIFF through libtiff, first image of the file. Plain 8-bit grey and RGB are read as they are; the
 * many other kinds go through libtiff's own conversion to RGBA. */
#include "ops/image/image_decode.h"

#ifdef PL_SONAME_TIFF

#include <stdio.h>
#include <string.h>
#include <tiffio.h>

#include "base/alloc.h"
#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(TIFFGetFieldDefaulted)                                                                       \
    X(TIFFGetField)                                                                                \
    X(TIFFIsTiled)                                                                                 \
    X(TIFFScanlineSize)                                                                            \
    X(TIFFReadScanline)                                                                            \
    X(TIFFReadRGBAImageOriented)                                                                   \
    X(TIFFOpenOptionsAlloc)                                                                        \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                          \
    X(TIFFOpenOptionsSetWarningHandlerExtR)                                                        \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                         \
    X(TIFFClientOpenExt)                                                                           \
    X(TIFFOpenOptionsFree)                                                                         \
    X(TIFFClose)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library = PL_LIBRARY("libtiff", "libtiff6", symbols, PL_SONAME_TIFF);

typedef struct tiff_job {
    pl_bytes bytes;
    uint64_t at;
    char message[160];
} tiff_job;

static int on_error(TIFF *tif, void *ctx, const char *module, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
static int on_error(TIFF *tif, void *ctx, const char *module, const char *format, va_list args) {
    tiff_job *job = ctx;
    (void)tif, (void)module;
    if (job->message[0] == 0) (void)vsnprintf(job->message, sizeof(job->message), format, args);
    return 1; /* handled: nothing is printed */
}

/* libtiff only warns about a tag beyond the end of the file and then guesses. */
static int on_warning(TIFF *tif, void *ctx, const char *module, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
static int on_warning(TIFF *tif, void *ctx, const char *module, const char *format, va_list args) {
    return strncmp(format, "IO error", 8) == 0 ? on_error(tif, ctx, module, format, args) : 1;
}

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t n) {
    tiff_job *job = handle;
    if (n <= 0 || job->at >= job->bytes.n_bytes) return 0;
    const uint64_t there = job->bytes.n_bytes - job->at;
    const size_t take = (uint64_t)n < there ? (size_t)n : (size_t)there;
    memcpy(to, job->bytes.data + job->at, take);
    job->at += take;
    return (tmsize_t)take;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t n) {
    (void)handle, (void)from, (void)n;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
    tiff_job *job = handle;
    if (whence == SEEK_CUR) offset += job->at;
    if (whence == SEEK_END) offset += job->bytes.n_bytes;
    job->at = offset; /* a read beyond the end returns nothing */
    return offset;
}

static int on_close(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle) {
    const tiff_job *job = handle;
    return job->bytes.n_bytes;
}

/* Samples of a pixel when the rows can be used as they are, else 0. */
static int plain_samples(TIFF *tif) {
    uint16_t bits = 1, samples = 1, planar = PLANARCONFIG_CONTIG, photometric = 0, format = 1;
    uint16_t orientation = ORIENTATION_TOPLEFT;
    (void)lib.TIFFGetFieldDefaulted(tif, TIFFTAG_BITSPERSAMPLE, &bits);
    (void)lib.TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLESPERPIXEL, &samples);
    (void)lib.TIFFGetFieldDefaulted(tif, TIFFTAG_PLANARCONFIG, &planar);
    (void)lib.TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLEFORMAT, &format);
    (void)lib.TIFFGetFieldDefaulted(tif, TIFFTAG_ORIENTATION, &orientation);
    if (lib.TIFFGetField(tif, TIFFTAG_PHOTOMETRIC, &photometric) != 1) return 0;
    const bool colour = photometric == PHOTOMETRIC_RGB && (samples == 3 || samples == 4);
    const bool grey = photometric == PHOTOMETRIC_MINISBLACK && (samples == 1 || samples == 2);
    const bool plain = bits == 8 && format == SAMPLEFORMAT_UINT && planar == PLANARCONFIG_CONTIG &&
                       orientation == ORIENTATION_TOPLEFT && lib.TIFFIsTiled(tif) == 0;
    return plain && (colour || grey) ? samples : 0;
}

static pl_status read_plain(TIFF *tif, int samples, pl_image *out, pl_err *err) {
    const size_t row = (size_t)out->width * (size_t)samples;
    const tmsize_t line = lib.TIFFScanlineSize(tif);
    if (line <= 0 || (size_t)line != row) return pl_fail(err, PL_E_FORMAT, "TIFF: bad row size");
    uint8_t *buf = pl_malloc(row);
    if (buf == NULL) return pl_fail_memory(err, row);
    pl_status st = PL_OK;
    for (uint32_t y = 0; y < out->height && st == PL_OK; y++) {
        if (lib.TIFFReadScanline(tif, buf, y, 0) != 1) {
            st = pl_fail(err, PL_E_FORMAT, "TIFF: row %u cannot be read", y);
        }
        uint8_t *to = out->pixels + (size_t)y * out->width * (size_t)out->channels;
        for (size_t x = 0; x < out->width; x++) {
            memcpy(to + x * (size_t)out->channels, buf + x * (size_t)samples,
                   (size_t)out->channels);
        }
    }
    pl_free(buf);
    return st;
}

static pl_status read_any(TIFF *tif, pl_image *out, pl_err *err) {
    const size_t n = (size_t)out->width * out->height;
    uint32_t *raster = pl_calloc(n, sizeof(*raster));
    if (raster == NULL) return pl_fail_memory(err, n * sizeof(*raster));
    const int ok =
        lib.TIFFReadRGBAImageOriented(tif, out->width, out->height, raster, ORIENTATION_TOPLEFT, 1);
    for (size_t i = 0; i < n && ok == 1; i++) {
        out->pixels[3 * i] = (uint8_t)TIFFGetR(raster[i]);
        out->pixels[3 * i + 1] = (uint8_t)TIFFGetG(raster[i]);
        out->pixels[3 * i + 2] = (uint8_t)TIFFGetB(raster[i]);
    }
    pl_free(raster);
    return ok == 1 ? PL_OK : pl_fail(err, PL_E_FORMAT, "TIFF: cannot be read");
}

static pl_status decode(TIFF *tif, uint64_t max_pixels, pl_image *out, pl_err *err) {
    uint32_t width = 0, height = 0;
    if (lib.TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &width) != 1 ||
        lib.TIFFGetField(tif, TIFFTAG_IMAGELENGTH, &height) != 1) {
        return pl_fail(err, PL_E_FORMAT, "TIFF: no size");
    }
    const int samples = plain_samples(tif);
    const int channels = samples == 1 || samples == 2 ? 1 : 3;
    PL_TRY(pl_image_alloc(out, width, height, channels, max_pixels, err));
    return samples > 0 ? read_plain(tif, samples, out, err) : read_any(tif, out, err);
}

pl_status pl_image_decode_tiff(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK) return pl_err_wrap(err, opened, "TIFF");
    tiff_job job = { .bytes = bytes };
    TIFFOpenOptions *options = lib.TIFFOpenOptionsAlloc();
    if (options == NULL) return pl_fail_memory(err, 0);
    lib.TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, &job);
    lib.TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, &job);
    lib.TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)1 << 30);
    TIFF *tif = lib.TIFFClientOpenExt("image", "rm", &job, on_read, on_write, on_seek, on_close,
                                      on_size, NULL, NULL, options);
    lib.TIFFOpenOptionsFree(options);
    if (tif == NULL) {
        return pl_fail(err, PL_E_FORMAT, "TIFF: %s", job.message[0] ? job.message : "bad header");
    }
    pl_status st = decode(tif, max_pixels, out, err);
    lib.TIFFClose(tif);
    /* Some paths of libtiff fill missing data with zeros and continue. */
    if (st == PL_OK && job.message[0] != 0) st = pl_fail(err, PL_E_FORMAT, "TIFF: %s", job.message);
    return st;
}

#else

pl_status pl_image_decode_tiff(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    (void)bytes, (void)max_pixels, (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "TIFF: plumb was built without libtiff 4.5 or newer");
}

#endif

/* JPEG through libjpeg with its defaults, accurate integer DCT and "fancy" upsampling, as ONNX
 * ImageDecoder-20 requires. A truncated file is an error, as in Pillow. */
#include "ops/image/image_decode.h"

#ifdef PL_SONAME_JPEG

#include <setjmp.h>
#include <stdio.h>
/* jpeglib.h needs FILE. */
#include <jerror.h>
#include <jpeglib.h>

#include "base/alloc.h"
#include "base/library.h"

/* lib.jpeg_create_decompress is a macro that expands to lib.jpeg_CreateDecompress. */
#define CALLS(X)                                                                                   \
    X(jpeg_CreateDecompress)                                                                       \
    X(jpeg_mem_src)                                                                                \
    X(jpeg_read_header)                                                                            \
    X(jpeg_start_decompress)                                                                       \
    X(jpeg_read_scanlines)                                                                         \
    X(jpeg_finish_decompress)                                                                      \
    X(jpeg_std_error)                                                                              \
    X(jpeg_destroy_decompress)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library = PL_LIBRARY("libjpeg", "libjpeg62-turbo", symbols, PL_SONAME_JPEG);

enum { SCANS_MAX = 500 }; /* a progressive file can ask for unlimited work */

typedef struct jpeg_job {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    pl_bytes bytes;
    uint64_t max_pixels;
    pl_image *out;
    uint8_t *row; /* CMYK only */
    pl_status status;
    pl_err *err;
} jpeg_job;

static void on_error(j_common_ptr info) {
    jpeg_job *job = info->client_data;
    info->err->format_message(info, job->message);
    longjmp(job->back, 1);
}

static void on_message(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) on_error(info);
}

static void on_progress(j_common_ptr info) {
    jpeg_job *job = info->client_data;
    if (job->info.input_scan_number > SCANS_MAX) {
        (void)snprintf(job->message, sizeof(job->message), "more than %d scans", SCANS_MAX);
        longjmp(job->back, 1);
    }
}

/* As Pillow: Adobe writes CMYK inverted. */
static void cmyk_to_rgb(const jpeg_job *job, const uint8_t *from, uint8_t *to, size_t n) {
    const bool inverted = job->info.saw_Adobe_marker != 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t flip = inverted ? 255 : 0;
        const uint32_t white = 255 - (from[4 * i + 3] ^ flip);
        for (size_t s = 0; s < 3; s++) {
            const uint32_t product = (from[4 * i + s] ^ flip) * white + 128;
            to[3 * i + s] = (uint8_t)(white - ((product >> 8) + product) / 256);
        }
    }
}

static void decode(jpeg_job *job) {
    struct jpeg_decompress_struct *info = &job->info;
    lib.jpeg_create_decompress(info);
    info->client_data = job;
    info->progress = &job->progress;
    job->progress.progress_monitor = on_progress;
    lib.jpeg_mem_src(info, job->bytes.data, (unsigned long)job->bytes.n_bytes);
    (void)lib.jpeg_read_header(info, TRUE);
    const bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    const bool grey = info->jpeg_color_space == JCS_GRAYSCALE;
    info->out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    job->status = pl_image_alloc(job->out, info->image_width, info->image_height, grey ? 1 : 3,
                                 job->max_pixels, job->err);
    if (job->status != PL_OK) return;
    const size_t width = info->image_width;
    if (cmyk) {
        job->row = pl_malloc(width * 4);
        if (job->row == NULL) {
            job->status = pl_fail_memory(job->err, width * 4);
            return;
        }
    }
    (void)lib.jpeg_start_decompress(info);
    while (info->output_scanline < info->output_height) {
        uint8_t *to =
            job->out->pixels + (size_t)info->output_scanline * width * (size_t)job->out->channels;
        JSAMPROW rows[1] = { cmyk ? job->row : to };
        (void)lib.jpeg_read_scanlines(info, rows, 1);
        if (cmyk) cmyk_to_rgb(job, job->row, to, width);
    }
    (void)lib.jpeg_finish_decompress(info);
}

pl_status pl_image_decode_jpeg(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK) return pl_err_wrap(err, opened, "JPEG");
    /* On the heap: longjmp may clobber locals that live in registers. */
    jpeg_job *job = pl_calloc(1, sizeof(*job));
    if (job == NULL) return pl_fail_memory(err, sizeof(*job));
    job->bytes = bytes;
    job->max_pixels = max_pixels;
    job->out = out;
    job->err = err;
    job->info.err = lib.jpeg_std_error(&job->errors);
    job->info.client_data = job;
    job->errors.error_exit = on_error;
    job->errors.emit_message = on_message;
    if (setjmp(job->back) == 0) {
        decode(job);
    } else {
        job->status = pl_fail(err, PL_E_FORMAT, "JPEG: %s", job->message);
    }
    lib.jpeg_destroy_decompress(&job->info);
    const pl_status st = job->status;
    pl_free(job->row);
    pl_free(job);
    return st;
}

#else

pl_status pl_image_decode_jpeg(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    (void)bytes, (void)max_pixels, (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "JPEG: plumb was built without libjpeg");
}

#endif

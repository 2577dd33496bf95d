/* PNG through libpng: palettes and small samples expanded, 16 bits cut to 8, alpha dropped. */
#include "ops/image/image_decode.h"

#ifdef PL_SONAME_PNG

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(png_get_error_ptr)                                                                           \
    X(png_get_io_ptr)                                                                              \
    X(png_error)                                                                                   \
    X(png_get_color_type)                                                                          \
    X(png_set_palette_to_rgb)                                                                      \
    X(png_set_expand_gray_1_2_4_to_8)                                                              \
    X(png_set_strip_16)                                                                            \
    X(png_set_strip_alpha)                                                                         \
    X(png_set_interlace_handling)                                                                  \
    X(png_read_update_info)                                                                        \
    X(png_set_read_fn)                                                                             \
    X(png_set_user_limits)                                                                         \
    X(png_set_chunk_cache_max)                                                                     \
    X(png_set_chunk_malloc_max)                                                                    \
    X(png_read_info)                                                                               \
    X(png_get_image_width)                                                                         \
    X(png_get_image_height)                                                                        \
    X(png_get_rowbytes)                                                                            \
    X(png_read_image)                                                                              \
    X(png_read_end)                                                                                \
    X(png_create_read_struct)                                                                      \
    X(png_create_info_struct)                                                                      \
    X(png_destroy_read_struct)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library = PL_LIBRARY("libpng", "libpng16-16", symbols, PL_SONAME_PNG);

typedef struct png_job {
    png_structp png;
    png_infop info;
    jmp_buf back;
    char message[128];
    pl_bytes bytes;
    size_t at;
    uint64_t max_pixels;
    pl_image *out;
    png_bytep *rows;
    pl_status status;
    pl_err *err;
} png_job;

static void on_error(png_structp png, png_const_charp message) {
    png_job *job = lib.png_get_error_ptr(png);
    (void)snprintf(job->message, sizeof(job->message), "%s", message);
    longjmp(job->back, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep to, size_t n) {
    png_job *job = lib.png_get_io_ptr(png);
    if (job->bytes.n_bytes - job->at < n) lib.png_error(png, "truncated");
    memcpy(to, job->bytes.data + job->at, n);
    job->at += n;
}

static void set_transforms(png_job *job) {
    const int colour = lib.png_get_color_type(job->png, job->info);
    if (colour == PNG_COLOR_TYPE_PALETTE) lib.png_set_palette_to_rgb(job->png);
    if ((colour & PNG_COLOR_MASK_COLOR) == 0) lib.png_set_expand_gray_1_2_4_to_8(job->png);
    lib.png_set_strip_16(job->png);
    lib.png_set_strip_alpha(job->png);
    (void)lib.png_set_interlace_handling(job->png);
    lib.png_read_update_info(job->png, job->info);
}

static void decode(png_job *job) {
    lib.png_set_read_fn(job->png, job, on_read);
    lib.png_set_user_limits(job->png, 0x7fffffff, 0x7fffffff);
    lib.png_set_chunk_cache_max(job->png, 128);
    lib.png_set_chunk_malloc_max(job->png, 8 * 1024 * 1024);
    lib.png_read_info(job->png, job->info);
    const png_uint_32 width = lib.png_get_image_width(job->png, job->info);
    const png_uint_32 height = lib.png_get_image_height(job->png, job->info);
    const bool grey = (lib.png_get_color_type(job->png, job->info) & PNG_COLOR_MASK_COLOR) == 0;
    job->status = pl_image_alloc(job->out, width, height, grey ? 1 : 3, job->max_pixels, job->err);
    if (job->status != PL_OK) return;
    set_transforms(job);
    const size_t row = (size_t)width * (size_t)job->out->channels;
    if (lib.png_get_rowbytes(job->png, job->info) != row)
        lib.png_error(job->png, "unexpected row size");
    job->rows = pl_malloc(height * sizeof(*job->rows));
    if (job->rows == NULL) {
        job->status = pl_fail_memory(job->err, height * sizeof(*job->rows));
        return;
    }
    for (size_t y = 0; y < height; y++)
        job->rows[y] = job->out->pixels + y * row;
    lib.png_read_image(job->png, job->rows);
    lib.png_read_end(job->png, NULL);
}

pl_status pl_image_decode_png(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK) return pl_err_wrap(err, opened, "PNG");
    /* On the heap: longjmp may clobber locals that live in registers. */
    png_job *job = pl_calloc(1, sizeof(*job));
    if (job == NULL) return pl_fail_memory(err, sizeof(*job));
    job->bytes = bytes;
    job->max_pixels = max_pixels;
    job->out = out;
    job->err = err;
    if (setjmp(job->back) == 0) {
        job->png = lib.png_create_read_struct(PNG_LIBPNG_VER_STRING, job, on_error, on_warning);
        job->info = job->png == NULL ? NULL : lib.png_create_info_struct(job->png);
        if (job->info == NULL) {
            job->status = pl_fail_memory(err, 0);
        } else {
            decode(job);
        }
    } else {
        job->status = pl_fail(err, PL_E_FORMAT, "PNG: %s", job->message);
    }
    if (job->png != NULL) lib.png_destroy_read_struct(&job->png, &job->info, NULL);
    const pl_status st = job->status;
    pl_free(job->rows);
    pl_free(job);
    return st;
}

#else

pl_status pl_image_decode_png(pl_bytes bytes, uint64_t max_pixels, pl_image *out, pl_err *err) {
    (void)bytes, (void)max_pixels, (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "PNG: plumb was built without libpng");
}

#endif

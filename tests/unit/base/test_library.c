/* Libraries that are opened at run time: the C library's own maths stands for any of them. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/library.h"
#include "ops/image/image_decode.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

#define CALLS(X)                                                                                   \
    X(ldexp)                                                                                       \
    X(hypot)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };

static void clear(void) {
    memset(&lib, 0, sizeof lib);
}

static void test_library__fills_the_slots_once(void **state) {
    (void)state;
    pl_library library = PL_LIBRARY("libm", "libc6", symbols, "libm.so.6");
    pl_err err = PL_ERR_INIT;
    clear();
    assert_int_equal(pl_library_open(&library, &err), PL_OK);
    void *handle = library.handle;
    assert_non_null(handle);
    assert_true(lib.ldexp(3, 2) == 12 && lib.hypot(3, 4) == 5);
    assert_int_equal(pl_library_open(&library, &err), PL_OK);
    assert_ptr_equal(library.handle, handle);
}

static void test_library__a_second_soname_will_do(void **state) {
    (void)state;
    pl_library library = PL_LIBRARY("libm", "libc6", symbols, "libplumb-none.so.9", "libm.so.6");
    clear();
    assert_int_equal(pl_library_open(&library, NULL), PL_OK);
    assert_true(lib.ldexp(1, 3) == 8);
}

/* The message names the library, its file and how to get it; nothing crashes, now or later. */
static void test_library__one_that_is_missing_is_named(void **state) {
    (void)state;
    pl_library library = PL_LIBRARY("libnone", "libnone9", symbols, "libplumb-none.so.9");
    clear();
    for (int i = 0; i < 2; i++) {
        pl_err err = PL_ERR_INIT;
        assert_int_equal(pl_library_open(&library, &err), PL_E_UNSUPPORTED);
        assert_int_equal(err.status, PL_E_UNSUPPORTED);
        const char *said =
            "libnone not found (libplumb-none.so.9; on Debian: apt-get install libnone9): ";
        assert_memory_equal(err.message, said, strlen(said));
        assert_non_null(strstr(err.message, "cannot open shared object file"));
        assert_null(library.handle);
    }
    assert_int_equal(pl_library_open(&library, NULL), PL_E_UNSUPPORTED);
    assert_null(lib.ldexp);
}

static void test_library__a_missing_function_is_named(void **state) {
    (void)state;
    const pl_symbol wrong[] = { { "ldexp", &lib.ldexp }, { "plumb_none", &lib.hypot } };
    pl_library library = PL_LIBRARY("libm", "libc6", wrong, "libm.so.6");
    pl_err err = PL_ERR_INIT;
    clear();
    assert_int_equal(pl_library_open(&library, &err), PL_E_UNSUPPORTED);
    assert_string_equal(err.message,
                        "libm (libm.so.6; Debian package libc6) has no symbol plumb_none");
    assert_null(library.handle);
    assert_null(lib.hypot);
}

static void *open_and_call(void *ctx) {
    const bool ok = pl_library_open(ctx, NULL) == PL_OK && lib.hypot(6, 8) == 10;
    return ok ? ctx : NULL;
}

static void test_library__threads_may_come_together(void **state) {
    (void)state;
    enum { THREADS = 8 };
    pl_library library = PL_LIBRARY("libm", "libc6", symbols, "libm.so.6");
    pthread_t threads[THREADS];
    clear();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_call, &library), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &library);
    }
}

/* What this build was made for is here, and each decoder finds every function it calls: the bytes
 * are a signature and nothing more, so that a decoder gets as far as the library's own complaint.
 */
static void test_library__image_libraries_are_whole(void **state) {
    (void)state;
    static const struct {
        const char *format, *bytes;
        size_t n;
    } rows[] = {
#ifdef PL_SONAME_PNG
        { "PNG", "\x89PNG\r\n\x1a\n", 8 },
#endif
#ifdef PL_SONAME_JPEG
        { "JPEG", "\xff\xd8\xff\xe0", 4 },
#endif
#ifdef PL_SONAME_TIFF
        { "TIFF", "II*\0", 4 },
#endif
#ifdef PL_SONAME_WEBP
        { "WebP", "RIFF\0\0\0\0WEBP", 12 },
#endif
#ifdef PL_SONAME_OPENJP2
        { "JPEG 2000", "\xff\x4f\xff\x51", 4 },
#endif
        { "BMP", "BM", 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pl_bytes bytes = { (const uint8_t *)rows[i].bytes, rows[i].n };
        pl_image image = PL_IMAGE_INIT;
        pl_err err = PL_ERR_INIT;
        assert_int_equal(pl_image_decode(bytes, 100, &image, &err), PL_E_FORMAT);
        assert_memory_equal(err.message, rows[i].format, strlen(rows[i].format));
        pl_image_release(&image);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library__fills_the_slots_once),
        cmocka_unit_test(test_library__a_second_soname_will_do),
        cmocka_unit_test(test_library__one_that_is_missing_is_named),
        cmocka_unit_test(test_library__a_missing_function_is_named),
        cmocka_unit_test(test_library__threads_may_come_together),
        cmocka_unit_test(test_library__image_libraries_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

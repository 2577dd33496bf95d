/* Memory in which one element repeats. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/repeat.h"

static const size_t MB = (size_t)1 << 20;

static void test_fill__writes_every_element_and_no_more(void **state) {
    (void)state;
    const char element[17] = "0123456789abcdef";
    for (size_t size = 1; size <= 16; size *= 2) {
        for (size_t n = 0; n < 40; n++) {
            char got[16 * 40 + 1];
            memset(got, '#', sizeof(got));
            pl_fill(got, element, size, n);
            for (size_t i = 0; i < n; i++)
                assert_memory_equal(got + i * size, element, size);
            assert_int_equal(got[n * size], '#');
        }
    }
}

static void test_repeat__has_every_element(void **state) {
    (void)state;
    const uint64_t element = 0x0123456789abcdef;
    const size_t sizes[] = { 8 * MB, 8 * MB + 8, 33 * MB, 100 * MB + 40 };
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        const size_t n = sizes[k] / sizeof(element);
        const uint64_t *p = pl_repeat_alloc(&element, sizeof(element), n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        uint64_t other = 0;
        for (size_t i = 0; i < n; i++)
            other |= p[i] ^ element;
        assert_int_equal(other, 0);
        pl_repeat_free((void *)(uintptr_t)p, n * sizeof(element));
    }
    pl_repeat_free(NULL, 0);
}

static void test_repeat__leaves_small_and_absurd_ones_to_the_caller(void **state) {
    (void)state;
    const uint32_t element = 7;
    assert_null(pl_repeat_alloc(&element, sizeof(element), 0));
    assert_null(pl_repeat_alloc(&element, sizeof(element), 1000));
    assert_null(pl_repeat_alloc(&element, sizeof(element), SIZE_MAX / 8));
    assert_null(pl_repeat_alloc(&element, sizeof(element), SIZE_MAX));
}

/* All chunks are one file: what is written to one of them must not show in the others. */
static void test_repeat__writes_stay_where_they_are(void **state) {
    (void)state;
    const uint32_t element = 7;
    const size_t n = 32 * MB / sizeof(element);
    uint32_t *a = pl_repeat_alloc(&element, sizeof(element), n);
    assert_non_null(a);
    a[5] = 9;
    size_t n_other = 0;
    for (size_t i = 0; i < n; i++)
        n_other += a[i] != element;
    assert_int_equal(n_other, 1);
    pl_repeat_free(a, n * sizeof(element));
}

static void test_repeat__takes_little_memory(void **state) {
    (void)state;
    const uint64_t element = 3;
    const size_t n = 4096 * MB / sizeof(element);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t *p = pl_repeat_alloc(&element, sizeof(element), n);
    if (p == NULL) skip(); /* a limit on address space */
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 * 1024);
    assert_int_equal(p[n - 1], element);
    pl_repeat_free(p, n * sizeof(element));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill__writes_every_element_and_no_more),
        cmocka_unit_test(test_repeat__has_every_element),
        cmocka_unit_test(test_repeat__leaves_small_and_absurd_ones_to_the_caller),
        cmocka_unit_test(test_repeat__writes_stay_where_they_are),
        cmocka_unit_test(test_repeat__takes_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

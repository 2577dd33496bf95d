/* The heap and its fault injection. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"

static void test_alloc__gives_usable_memory(void **state) {
    (void)state;
    char *p = pl_malloc(10);
    assert_non_null(p);
    memset(p, 1, 10);
    p = pl_realloc(p, 1000);
    assert_non_null(p);
    assert_int_equal(p[9], 1);
    p = pl_realloc_array(p, 10, 1000);
    assert_non_null(p);
    memset(p, 2, 10000);
    pl_free(p);
    pl_free(NULL);
}

static void test_alloc__gives_a_pointer_for_zero_bytes(void **state) {
    (void)state;
    void *p[] = { pl_malloc(0), pl_calloc(0, 8), pl_calloc(8, 0), pl_realloc(NULL, 0),
                  pl_aligned_alloc(64, 0) };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        assert_non_null(p[i]);
        pl_free(p[i]);
    }
    void *q = pl_malloc(8);
    q = pl_realloc(q, 0); /* not a free */
    assert_non_null(q);
    pl_free(q);
}

static void test_calloc__gives_zeros(void **state) {
    (void)state;
    unsigned char *p = pl_calloc(100, 7);
    assert_non_null(p);
    for (int i = 0; i < 700; i++)
        assert_int_equal(p[i], 0);
    pl_free(p);
}

static void test_alloc__refuses_impossible_sizes(void **state) {
    (void)state;
    volatile size_t huge = SIZE_MAX;
    assert_null(pl_malloc(huge));
    assert_null(pl_malloc((size_t)PTRDIFF_MAX + 1));
    assert_null(pl_calloc(huge / 2, 3));
    assert_null(pl_calloc(huge, 1));
    assert_null(pl_aligned_alloc(64, huge));
    assert_null(pl_strndup("", huge));
    char *p = pl_malloc(4);
    strcpy(p, "abc");
    assert_null(pl_realloc(p, huge));
    assert_null(pl_realloc_array(p, huge / 2, 4));
    assert_string_equal(p, "abc"); /* still ours */
    pl_free(p);
}

static void test_aligned_alloc__aligns(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        char *p = pl_aligned_alloc(alignment, 33);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignment, 0);
        memset(p, 0, 33);
        pl_free(p);
    }
}

static void test_strdup__copies(void **state) {
    (void)state;
    char *a = pl_strdup("plumb"), *b = pl_strndup("a\0b", 3), *c = pl_strndup(NULL, 0);
    assert_string_equal(a, "plumb");
    assert_memory_equal(b, "a\0b", 4);
    assert_string_equal(c, "");
    pl_free(a);
    pl_free(b);
    pl_free(c);
}

static void test_fail_after__fails_the_later_ones_until_switched_off(void **state) {
    (void)state;
    pl_alloc_fail_after(2);
    char *a = pl_malloc(1), *b = pl_calloc(1, 1);
    void *lost[] = { pl_malloc(1), pl_calloc(1, 1), pl_aligned_alloc(16, 1), pl_strdup("x") };
    assert_null(pl_realloc(a, 100));
    pl_alloc_fail_after(-1);
    assert_non_null(a);
    assert_non_null(b);
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        assert_null(lost[i]);
    void *c = pl_malloc(1);
    assert_non_null(c);
    pl_free(a);
    pl_free(b);
    pl_free(c);
}

static void *count_successes(void *arg) {
    (void)arg;
    uintptr_t n = 0;
    for (int i = 0; i < 1000; i++) {
        void *p = pl_malloc(1);
        if (p != NULL) n++;
        pl_free(p);
    }
    return (void *)n;
}

static void test_fail_after__counts_exactly_across_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    uintptr_t total = 0;
    pl_alloc_fail_after(1500);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_successes, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(threads[i], &n);
        total += (uintptr_t)n;
    }
    pl_alloc_fail_after(-1);
    assert_int_equal(total, 1500);
}

static void test_large_alloc__gives_usable_memory(void **state) {
    (void)state;
    const size_t sizes[] = { 0, 1, 100, (size_t)2 << 20, ((size_t)5 << 20) + 3 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *p = pl_large_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, sizes[i]);
        pl_free(p);
    }
    assert_null(pl_large_alloc(SIZE_MAX));
    assert_null(pl_large_alloc((size_t)PTRDIFF_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc__gives_usable_memory),
        cmocka_unit_test(test_alloc__gives_a_pointer_for_zero_bytes),
        cmocka_unit_test(test_calloc__gives_zeros),
        cmocka_unit_test(test_alloc__refuses_impossible_sizes),
        cmocka_unit_test(test_aligned_alloc__aligns),
        cmocka_unit_test(test_large_alloc__gives_usable_memory),
        cmocka_unit_test(test_strdup__copies),
        cmocka_unit_test(test_fail_after__fails_the_later_ones_until_switched_off),
        cmocka_unit_test(test_fail_after__counts_exactly_across_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

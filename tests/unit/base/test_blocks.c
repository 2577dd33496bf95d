/* Memory of tensors that is used again. */
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
#include "base/blocks.h"

static const size_t MB = (size_t)1 << 20;

/* A sanitized build keeps nothing, so that it sees every use of freed memory. */
static bool keeps(void) {
    pl_blocks_keep();
    pl_block_free(pl_block_alloc(16 * MB), 16 * MB);
    const bool kept = pl_blocks_kept() > 0;
    pl_blocks_release();
    return kept;
}

static void test_blocks__are_aligned_and_whole(void **state) {
    (void)state;
    const size_t sizes[] = { 1, 1000, 8 * MB - 1, 8 * MB, 8 * MB + 1, 33 * MB, 100 * MB + 7 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char *p = pl_block_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        p[0] = 1;
        p[sizes[i] - 1] = 2;
        pl_block_free(p, sizes[i]);
    }
    pl_block_free(NULL, 0);
}

static void test_blocks__keep_nothing_unasked(void **state) {
    (void)state;
    pl_block_free(pl_block_alloc(16 * MB), 16 * MB);
    assert_int_equal(pl_blocks_kept(), 0);
}

static void test_blocks__come_back_for_the_same_size(void **state) {
    (void)state;
    if (!keeps()) skip();
    pl_blocks_keep();
    char *p = pl_block_alloc(20 * MB);
    pl_block_free(p, 20 * MB);
    assert_true(pl_blocks_kept() >= 20 * MB);
    assert_ptr_equal(pl_block_alloc(20 * MB - 5), p); /* the same class */
    assert_int_equal(pl_blocks_kept(), 0);
    char *q = pl_block_alloc(20 * MB); /* p is in use */
    assert_ptr_not_equal(p, q);
    pl_block_free(p, 20 * MB - 5);
    pl_block_free(q, 20 * MB);
    pl_blocks_release();
    assert_int_equal(pl_blocks_kept(), 0);
}

static void test_blocks__keep_a_quarter_more_than_was_in_use(void **state) {
    (void)state;
    if (!keeps()) skip();
    void *p[40];
    pl_blocks_keep();
    for (int i = 0; i < 40; i++)
        p[i] = pl_block_alloc(8 * MB);
    for (int i = 0; i < 40; i++) {
        pl_block_free(p[i], 8 * MB);
        const size_t in_use = (size_t)(39 - i) * 8 * MB;
        assert_true(pl_blocks_kept() <=
                    (320 * MB + 80 * MB > in_use + 64 * MB ? 400 * MB - in_use : 64 * MB));
    }
    assert_true(pl_blocks_kept() >= 32 * 8 * MB); /* as many as there are slots */
    void *large = pl_block_alloc(1024 * MB);      /* never touched: only addresses */
    assert_true(pl_blocks_kept() <= 256 * MB);    /* a quarter of what is in use */
    pl_block_free(large, 1024 * MB);
    assert_true(pl_blocks_kept() <= 1280 * MB);
    pl_blocks_release();
    assert_int_equal(pl_blocks_kept(), 0);
}

static void test_blocks__fail_as_other_allocations_do(void **state) {
    (void)state;
    assert_null(pl_block_alloc(SIZE_MAX));
    assert_null(pl_block_alloc((size_t)PTRDIFF_MAX));
    pl_alloc_fail_after(0);
    void *small = pl_block_alloc(10), *large = pl_block_alloc(16 * MB);
    pl_alloc_fail_after(-1);
    assert_null(small);
    assert_null(large);
}

static void *churn(void *ctx) {
    unsigned seed = *(unsigned *)ctx;
    for (int i = 0; i < 500; i++) {
        seed = seed * 1664525u + 1013904223u;
        const size_t n = 8 * MB + (seed >> 24) * (MB / 8);
        unsigned *p = pl_block_alloc(n);
        if (p == NULL) return ctx;
        *p = seed;
        p[n / sizeof(*p) - 1] = seed;
        if (*p != seed || p[n / sizeof(*p) - 1] != seed) return ctx;
        pl_block_free(p, n);
    }
    return NULL;
}

static void test_blocks__belong_to_one_thread_at_a_time(void **state) {
    (void)state;
    pthread_t threads[4];
    unsigned seeds[4] = { 1, 2, 3, 4 };
    pl_blocks_keep();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = &seeds[i];
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    pl_blocks_release();
    assert_int_equal(pl_blocks_kept(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks__are_aligned_and_whole),
        cmocka_unit_test(test_blocks__keep_nothing_unasked),
        cmocka_unit_test(test_blocks__come_back_for_the_same_size),
        cmocka_unit_test(test_blocks__keep_a_quarter_more_than_was_in_use),
        cmocka_unit_test(test_blocks__fail_as_other_allocations_do),
        cmocka_unit_test(test_blocks__belong_to_one_thread_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

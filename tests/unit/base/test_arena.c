/* Arenas: alignment, zeroing, growth, cleanups, failures. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

static void assert_zero(const void *p, size_t n) {
    const unsigned char *u = p;
    for (size_t i = 0; i < n; i++)
        if (u[i] != 0) fail_msg("byte %zu of %zu is %d", i, n, u[i]);
}

static void test_arena__gives_zeroed_aligned_distinct_memory(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    char *last = NULL;
    for (size_t n = 0; n < 3000; n++) {
        char *p = pl_arena_alloc(arena, n % 97);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_ptr_not_equal(p, last);
        assert_zero(p, n % 97);
        memset(p, 0xAB, n % 97);
        last = p;
    }
    pl_arena_free(arena);
}

static void test_arena__keeps_objects_stable_and_apart(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static unsigned char *objects[COUNT];
    static size_t sizes[COUNT];
    pl_arena *arena = pl_arena_new();
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = (i * 7919) % 300 + (i % 100 == 0 ? 5000 : 0) + (i % 500 == 0 ? 400000 : 0);
        objects[i] = pl_arena_alloc(arena, sizes[i]);
        assert_non_null(objects[i]);
        assert_zero(objects[i], sizes[i]);
        memset(objects[i], (int)(i & 0xFF), sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (objects[i][k] != (unsigned char)(i & 0xFF)) fail_msg("object %zu", i);
    pl_arena_free(arena);
}

static void test_arena__wastes_little(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    for (int i = 0; i < 1000000; i++)
        assert_non_null(pl_arena_alloc(arena, 32));
    assert_in_range(pl_arena_bytes(arena), 32000000, 35000000);
    pl_arena_reset(arena);
    assert_true(pl_arena_bytes(arena) < 2u << 20);
    pl_arena_free(arena);
}

static void test_arena__big_objects_do_not_waste_the_current_block(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    char *a = pl_arena_alloc(arena, 16);
    const size_t before = pl_arena_bytes(arena);
    assert_non_null(pl_arena_alloc(arena, 10 << 20));
    assert_true(pl_arena_bytes(arena) - before < (10 << 20) + 1024);
    assert_ptr_equal(pl_arena_alloc(arena, 16), a + 16);
    pl_arena_free(arena);
}

static void test_arena_reset__zeroes_what_was_used(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    pl_arena_reset(arena); /* empty */
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 3000; i++) {
            const size_t n = (i * 31) % 200 + (i == 1500 && round == 1 ? 3u << 20 : 0);
            char *p = pl_arena_alloc(arena, n);
            assert_zero(p, n);
            memset(p, 0xCD, n);
        }
        pl_arena_reset(arena);
    }
    assert_true(pl_arena_bytes(arena) >= 3u << 20); /* the largest block stays */
    const size_t held = pl_arena_bytes(arena);
    assert_non_null(pl_arena_alloc(arena, 2u << 20));
    assert_int_equal(pl_arena_bytes(arena), held); /* and is used */
    pl_arena_free(arena);
}

static void test_arena_raw__is_zeroed_when_it_is_used_again(void **state) {
    (void)state;
    const size_t n = 3u << 20;
    pl_arena *arena = pl_arena_new();
    assert_non_null(pl_arena_alloc(arena, 8));
    char *small = pl_arena_raw(arena, 10, 10), *large = pl_arena_raw(arena, n, 1);
    assert_non_null(small);
    assert_non_null(large);
    assert_int_equal((uintptr_t)large % 16, 0);
    memset(large, 0xCD, n);
    assert_true(pl_arena_bytes(arena) >= n);
    pl_arena_reset(arena);
    for (size_t i = 0; i < n; i += 4096)
        assert_zero(pl_arena_alloc(arena, 4096), 4096);
    assert_null(pl_arena_raw(arena, SIZE_MAX / 2, 3));
    pl_arena_free(arena);
}

static int order[4], n_order;

static void note(void *object) {
    order[n_order++] = *(int *)object;
}

static void test_arena_defer__runs_in_reverse_once(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    n_order = 0;
    for (int i = 0; i < 3; i++) {
        int *p = pl_arena_alloc(arena, sizeof *p);
        *p = i;
        assert_int_equal(pl_arena_defer(arena, note, p), 0);
    }
    pl_arena_reset(arena);
    assert_int_equal(n_order, 3);
    assert_true(order[0] == 2 && order[1] == 1 && order[2] == 0);
    pl_arena_free(arena);
    assert_int_equal(n_order, 3);
}

static void test_arena__copies_and_formats_strings(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_string_equal(pl_arena_strdup(arena, "plumb"), "plumb");
    assert_string_equal(pl_arena_strndup(arena, "plumb", 2), "pl");
    assert_string_equal(pl_arena_strndup(arena, NULL, 0), "");
    assert_string_equal(pl_arena_printf(arena, "%s_%d", "node", 42), "node_42");
    char *wide = pl_arena_printf(arena, "%10000d", 1);
    assert_int_equal(strlen(wide), 10000);
    pl_arena_free(arena);
}

static void test_arena__refuses_overflow(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_null(pl_arena_alloc(arena, SIZE_MAX));
    assert_null(pl_arena_alloc(arena, SIZE_MAX - 20));
    assert_null(pl_arena_array(arena, SIZE_MAX / 2, 3));
    assert_null(pl_arena_strndup(arena, "", SIZE_MAX));
    assert_non_null(pl_arena_array(arena, 0, 8));
    assert_non_null(pl_arena_alloc(arena, 8)); /* still works */
    pl_arena_free(arena);
}

static void test_arena__survives_each_failing_allocation(void **state) {
    (void)state;
    int failures = 0;
    for (long n = 0; n < 100; n++) {
        pl_alloc_fail_after(n);
        pl_arena *arena = pl_arena_new();
        bool ok = arena != NULL;
        static int object = 9;
        n_order = 0;
        int deferred = 0;
        for (int i = 0; ok && i < 3; i++) {
            ok = pl_arena_alloc(arena, 3000) != NULL && pl_arena_alloc(arena, 100000) != NULL &&
                 pl_arena_printf(arena, "%5000d", 1) != NULL;
            if (ok && pl_arena_defer(arena, note, &object) == 0) deferred++;
        }
        pl_alloc_fail_after(-1);
        pl_arena_free(arena);
        assert_int_equal(n_order, deferred);
        if (ok && deferred == 3) break;
        failures++;
    }
    assert_in_range(failures, 4, 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena__gives_zeroed_aligned_distinct_memory),
        cmocka_unit_test(test_arena__keeps_objects_stable_and_apart),
        cmocka_unit_test(test_arena__wastes_little),
        cmocka_unit_test(test_arena__big_objects_do_not_waste_the_current_block),
        cmocka_unit_test(test_arena_reset__zeroes_what_was_used),
        cmocka_unit_test(test_arena_raw__is_zeroed_when_it_is_used_again),
        cmocka_unit_test(test_arena_defer__runs_in_reverse_once),
        cmocka_unit_test(test_arena__copies_and_formats_strings),
        cmocka_unit_test(test_arena__refuses_overflow),
        cmocka_unit_test(test_arena__survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

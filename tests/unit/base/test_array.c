/* Growable arrays. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/alloc.h"
#include "base/array.h"

typedef struct wide {
    double x[40];
} wide;

static void test_array__grows_and_keeps(void **state) {
    int *items = NULL;
    size_t n = 0, capacity = 0;
    (void)state;
    for (int i = 0; i < 10000; i++) {
        assert_true(PL_ARRAY_ROOM(items, n, &capacity));
        items[n++] = i;
    }
    for (int i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    assert_true(capacity < 2 * n + 64);
    pl_free(items);
}

static void test_array__takes_any_size(void **state) {
    wide *items = NULL;
    size_t n = 0, capacity = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(PL_ARRAY_ROOM(items, n, &capacity));
        items[n++].x[39] = i;
    }
    for (int i = 0; i < 100; i++)
        assert_true(items[i].x[39] >= i && items[i].x[39] <= i);
    pl_free(items);
}

static void test_array__makes_room_for_many(void **state) {
    int *items = NULL;
    size_t capacity = 0;
    (void)state;
    assert_null(items);
    assert_true(PL_ARRAY_ROOM_FOR(items, (size_t)1000, &capacity));
    assert_true(capacity >= 1000 && capacity < 2048);
    items[999] = 1;
    assert_false(PL_ARRAY_ROOM_FOR(items, SIZE_MAX / 2, &capacity));
    assert_int_equal(items[999], 1);
    pl_free(items);
}

static void test_array__stays_whole_without_memory(void **state) {
    int *items = NULL;
    size_t n = 0, capacity = 0;
    (void)state;
    while (n == 0 || n < capacity) {
        assert_true(PL_ARRAY_ROOM(items, n, &capacity));
        items[n++] = 7;
    }
    const size_t before = capacity;
    pl_alloc_fail_after(0);
    assert_false(PL_ARRAY_ROOM(items, n, &capacity));
    pl_alloc_fail_after(-1);
    assert_int_equal(capacity, before);
    assert_int_equal(items[n - 1], 7);
    size_t huge = SIZE_MAX / 2 + 1;
    assert_false(pl_array_grow(&items, &huge, sizeof *items));
    pl_free(items);
}

static void test_arena_array__leaves_old_pointers_valid(void **state) {
    const char **items = NULL;
    size_t n = 0, capacity = 0;
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_true(PL_ARENA_ROOM(arena, items, n, &capacity));
    items[n++] = "first";
    const char **old = items;
    for (int i = 0; i < 1000; i++) {
        assert_true(PL_ARENA_ROOM(arena, items, n, &capacity));
        items[n++] = "more";
    }
    assert_true(old != items);
    assert_string_equal(old[0], "first");
    assert_string_equal(items[0], "first");
    assert_string_equal(items[1000], "more");
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array__grows_and_keeps),
        cmocka_unit_test(test_array__takes_any_size),
        cmocka_unit_test(test_array__makes_room_for_many),
        cmocka_unit_test(test_array__stays_whole_without_memory),
        cmocka_unit_test(test_arena_array__leaves_old_pointers_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

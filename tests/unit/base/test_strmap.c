/* The string map. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strmap.h"

static void test_strmap__is_empty_at_first(void **state) {
    (void)state;
    pl_strmap map = PL_STRMAP_INIT;
    assert_null(pl_strmap_get(&map, "a"));
    assert_null(pl_strmap_get_n(&map, NULL, 0));
    assert_false(pl_strmap_has(&map, ""));
    pl_strmap_release(&map);
}

static void test_strmap__adds_replaces_and_keeps_order(void **state) {
    (void)state;
    pl_strmap map = PL_STRMAP_INIT;
    int a = 1, b = 2;
    assert_int_equal(pl_strmap_put(&map, "x", &a), 0);
    assert_int_equal(pl_strmap_put(&map, "y", &a), 0);
    assert_int_equal(pl_strmap_put(&map, "x", &b), 0);
    assert_int_equal(pl_strmap_put(&map, "none", NULL), 0);
    assert_int_equal(map.n_entries, 3);
    assert_string_equal(map.entries[0].key, "x");
    assert_string_equal(map.entries[1].key, "y");
    assert_ptr_equal(pl_strmap_get(&map, "x"), &b);
    assert_ptr_equal(pl_strmap_get(&map, "y"), &a);
    assert_null(pl_strmap_get(&map, "none"));
    assert_true(pl_strmap_has(&map, "none"));
    assert_false(pl_strmap_has(&map, "no"));
    pl_strmap_release(&map);
}

static void test_strmap__compares_all_bytes_of_a_key(void **state) {
    (void)state;
    pl_strmap map = PL_STRMAP_INIT;
    int a, b, c, d;
    assert_int_equal(pl_strmap_put_n(&map, "k\0one", 5, &a), 0);
    assert_int_equal(pl_strmap_put_n(&map, "k\0two", 5, &b), 0);
    assert_int_equal(pl_strmap_put_n(&map, "k", 1, &c), 0);
    assert_int_equal(pl_strmap_put_n(&map, NULL, 0, &d), 0);
    assert_ptr_equal(pl_strmap_get_n(&map, "k\0one", 5), &a);
    assert_ptr_equal(pl_strmap_get_n(&map, "k\0two", 5), &b);
    assert_ptr_equal(pl_strmap_get(&map, "k"), &c);
    assert_ptr_equal(pl_strmap_get(&map, ""), &d);
    assert_int_equal(map.n_entries, 4);
    pl_strmap_release(&map);
}

static void test_strmap__holds_many_keys(void **state) {
    (void)state;
    enum { COUNT = 300000 };
    static char keys[COUNT][16];
    pl_strmap map = PL_STRMAP_INIT;
    for (int i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "value_%d", i);
        if (pl_strmap_put(&map, keys[i], keys[i]) != 0) fail();
    }
    assert_int_equal(map.n_entries, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char key[16];
        snprintf(key, sizeof key, "value_%d", i);
        if (pl_strmap_get(&map, key) != keys[i]) fail_msg("%s", key);
        if (map.entries[i].key != keys[i]) fail_msg("order at %d", i);
        key[0] = 'V';
        if (pl_strmap_has(&map, key)) fail_msg("%s", key);
    }
    pl_strmap_release(&map);
}

static void test_strmap__changes_nothing_when_out_of_memory(void **state) {
    (void)state;
    static char keys[200][8];
    pl_strmap map = PL_STRMAP_INIT;
    int failures = 0;
    for (int i = 0; i < 200; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        pl_alloc_fail_after(0);
        int r = pl_strmap_put(&map, keys[i], keys[i]);
        pl_alloc_fail_after(1); /* the second allocation of a growth fails */
        if (r != 0) r = pl_strmap_put(&map, keys[i], keys[i]);
        pl_alloc_fail_after(-1);
        if (r != 0) {
            failures++;
            assert_int_equal(map.n_entries, i);
            assert_false(pl_strmap_has(&map, keys[i]));
            assert_int_equal(pl_strmap_put(&map, keys[i], keys[i]), 0);
        }
        for (int k = 0; k <= i; k++)
            assert_ptr_equal(pl_strmap_get(&map, keys[k]), keys[k]);
    }
    assert_true(failures > 0);
    pl_strmap_release(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strmap__is_empty_at_first),
        cmocka_unit_test(test_strmap__adds_replaces_and_keeps_order),
        cmocka_unit_test(test_strmap__compares_all_bytes_of_a_key),
        cmocka_unit_test(test_strmap__holds_many_keys),
        cmocka_unit_test(test_strmap__changes_nothing_when_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

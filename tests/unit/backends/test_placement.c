/* Where nodes run: lines of a backend, which is not believed, to text and JSON and back. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "backends/placement.h"

static pl_placement parse(const char *text, pl_arena *arena) {
    pl_placement p = { 0 };
    pl_err err = PL_ERR_INIT;
    if (pl_placement_parse(text, arena, &p, &err) != PL_OK) fail_msg("%s", err.message);
    return p;
}

static void test_placement__counts_and_puts_the_cpu_last(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    pl_buf out = PL_BUF_INIT;
    const pl_placement p =
        parse("CPU\tLoop\tl\nGpu\tConv\tc1\nGpu\tConv\tc2\nCPU\tIf\tif\nCPU\tIf\t\n", arena);
    pl_placement_put_text(&p, &out);
    assert_string_equal(pl_buf_str(&out), "Gpu 2 nodes; CPU 3 nodes (If 2, Loop)");
    pl_buf_release(&out);
    pl_arena_free(arena);
}

static void test_placement__of_nothing_is_nothing(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_int_equal(parse("", arena).n_places, 0);
    pl_arena_free(arena);
}

static void test_placement__refuses_what_is_no_line(void **state) {
    (void)state;
    static const char *const bad[] = { "x\n", "a\tb\n", "\tConv\tn\n", "Gpu\t\tn\n" };
    pl_arena *arena = pl_arena_new();
    pl_placement p;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pl_placement_parse(bad[i], arena, &p, NULL), PL_E_BACKEND);
    pl_arena_free(arena);
}

static void test_placement__survives_json(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new(), *other = pl_arena_new();
    pl_buf json = PL_BUF_INIT, out = PL_BUF_INIT;
    pl_json j;
    const pl_json_value *root = NULL;
    pl_placement back, copy;
    const pl_placement p = parse("Gpu\tConv\t\"c\"\nCPU\tIf\tb\n", arena);
    pl_json_init(&j, &json, false);
    pl_json_object_begin(&j);
    pl_placement_put_json(&p, "placement", &j);
    pl_json_object_end(&j);
    assert_int_equal(pl_json_read(pl_buf_str(&json), json.n_bytes, arena, &root, NULL), PL_OK);
    assert_int_equal(pl_placement_read_json(pl_json_find(root, "placement"), arena, &back, NULL),
                     PL_OK);
    assert_int_equal(pl_placement_copy(&back, other, &copy), PL_OK);
    pl_arena_free(arena);
    pl_placement_put_text(&copy, &out);
    assert_string_equal(pl_buf_str(&out), "Gpu 1 node; CPU 1 node (If)");
    assert_string_equal(copy.places[0].nodes[0], "\"c\"");
    pl_buf_release(&json);
    pl_buf_release(&out);
    pl_arena_free(other);
}

static void test_placement__believes_no_json(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[1]",
        "[{\"place\":1}]",
        "[{\"place\":\"a\",\"nodes\":-1,\"ops\":{},\"names\":[]}]",
        "[{\"place\":\"a\",\"nodes\":1,\"ops\":{\"x\":\"y\"},\"names\":[]}]",
        "[{\"place\":\"a\",\"nodes\":1,\"ops\":{},\"names\":[2]}]",
    };
    pl_arena *arena = pl_arena_new();
    pl_placement p;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const pl_json_value *root = NULL;
        assert_int_equal(pl_json_read(bad[i], strlen(bad[i]), arena, &root, NULL), PL_OK);
        assert_int_equal(pl_placement_read_json(root, arena, &p, NULL), PL_E_FORMAT);
    }
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement__counts_and_puts_the_cpu_last),
        cmocka_unit_test(test_placement__of_nothing_is_nothing),
        cmocka_unit_test(test_placement__refuses_what_is_no_line),
        cmocka_unit_test(test_placement__survives_json),
        cmocka_unit_test(test_placement__believes_no_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

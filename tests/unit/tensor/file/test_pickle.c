/* The pickle reader on streams by hand: every prefix, opcodes that nobody writes, odd stacks. Files
 * of torch itself are in tests/python/test_pt.py. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "tensor/file/pickle.h"

static pl_status read_bytes(pl_arena *arena, const char *data, size_t n,
                            const pl_pickle_value **out, pl_err *err) {
    return pl_pickle_read((pl_bytes){ (const uint8_t *)data, n }, arena, out, err);
}

/* pickle.dumps({"a": [1, 2.5, True, None], "b": (-3,)}, 2), Python 3.11 */
static const char sample[] =
    "\x80\x02}q\x00(X\x01\x00\x00\x00"
    "aq\x01]q\x02(K\x01G@\x04\x00\x00\x00\x00\x00\x00\x88NeX\x01\x00\x00\x00"
    "bq\x03J\xfd\xff\xff\xff\x85q\x04u.";

static void test_pickle__nested_containers(void **state) {
    pl_arena *arena = pl_arena_new();
    const pl_pickle_value *v = NULL;
    (void)state;
    assert_int_equal(read_bytes(arena, sample, sizeof sample - 1, &v, NULL), PL_OK);
    assert_int_equal(v->kind, PL_PICKLE_DICT);
    assert_int_equal(v->n_items, 4);
    const pl_pickle_value *list = v->items[1], *tuple = v->items[3];
    assert_int_equal(list->kind, PL_PICKLE_LIST);
    assert_int_equal(list->n_items, 4);
    assert_int_equal(list->items[0]->integer, 1);
    assert_true(list->items[1]->number == 2.5);
    assert_int_equal(list->items[2]->kind, PL_PICKLE_BOOL);
    assert_int_equal(list->items[3]->kind, PL_PICKLE_NONE);
    assert_int_equal(tuple->items[0]->integer, -3);
    pl_arena_free(arena);
}

static void test_pickle__every_prefix_is_refused(void **state) {
    (void)state;
    for (size_t n = 0; n + 1 < sizeof sample; n++) {
        pl_arena *arena = pl_arena_new();
        const pl_pickle_value *v = NULL;
        assert_int_equal(read_bytes(arena, sample, n, &v, NULL), PL_E_FORMAT);
        assert_null(v);
        pl_arena_free(arena);
    }
}

static void expect(const char *data, size_t n, pl_status status, const char *words) {
    pl_arena *arena = pl_arena_new();
    const pl_pickle_value *v = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(read_bytes(arena, data, n, &v, &err), status);
    assert_non_null(strstr(err.message, words));
    pl_arena_free(arena);
}
#define EXPECT(data, status, words) expect(data, sizeof(data) - 1, status, words)

static void test_pickle__refuses_odd_streams(void **state) {
    (void)state;
    EXPECT("\x80\x02i.", PL_E_UNSUPPORTED, "opcode 0x69"); /* INST of protocol 0 */
    EXPECT("\x80\x02.", PL_E_FORMAT, "expected exactly one value");
    EXPECT("\x80\x02NN.", PL_E_FORMAT, "expected exactly one value");
    EXPECT("\x80\x02(N.", PL_E_FORMAT, "expected exactly one value"); /* an open mark */
    EXPECT("\x80\x02(e.", PL_E_FORMAT, "items without a container");
    EXPECT("\x80\x02]Ns.", PL_E_FORMAT, "items without a container");
    EXPECT("\x80\x02}(Nu.", PL_E_FORMAT, "items without a container"); /* a key alone */
    EXPECT("\x80\x02t.", PL_E_FORMAT, "a mark is missing");
    EXPECT("\x80\x02N(\x85.", PL_E_FORMAT, "the stack is empty"); /* not below the mark */
    EXPECT("\x80\x02h\x05.", PL_E_FORMAT, "was not set");
    EXPECT("\x80\x02Nr\xff\xff\xff\x7f.", PL_E_FORMAT, "an index out of range");
    EXPECT("\x80\x02NNR.", PL_E_FORMAT, "not a function");
    EXPECT("\x80\x02X\xff\xff\xff\xff", PL_E_FORMAT, "truncated");
    EXPECT("\x80\x02\x8e\xff\xff\xff\xff\xff\xff\xff\xff", PL_E_FORMAT, "truncated");
    EXPECT("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", PL_E_UNSUPPORTED, "9 bytes");
}

static void test_pickle__calls_are_values(void **state) {
    static const char data[] = "\x80\x02"
                               "cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.";
    pl_arena *arena = pl_arena_new();
    const pl_pickle_value *v = NULL;
    (void)state;
    assert_int_equal(read_bytes(arena, data, sizeof data - 1, &v, NULL), PL_OK);
    assert_int_equal(v->kind, PL_PICKLE_CALL);
    assert_int_equal(v->callable->text.n_bytes, strlen("posix.system"));
    assert_memory_equal(v->callable->text.data, "posix.system", v->callable->text.n_bytes);
    assert_memory_equal(v->args->items[0]->text.data, "ls", 2);
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle__nested_containers),
        cmocka_unit_test(test_pickle__every_prefix_is_refused),
        cmocka_unit_test(test_pickle__refuses_odd_streams),
        cmocka_unit_test(test_pickle__calls_are_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

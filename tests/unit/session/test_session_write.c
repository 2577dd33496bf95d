/* The session folder: whole or not there, tensors in its store only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "session/session_write.h"
#include "store/store.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
#include "fresh_dir.h"
/* clang-format on */

static pl_session *small_session(void) {
    pl_session *s = NULL;
    assert_int_equal(pl_session_new(&s, NULL), PL_OK);
    s->points = pl_arena_alloc(s->arena, sizeof *s->points);
    s->n_points = 1;
    pl_sync_point_init(s->points);
    s->points->value = "x";
    return s;
}

static void put_one(pl_session_folder *f, pl_session *s) {
    static const float x[] = { 1, 2, 3 };
    const int64_t n = 3;
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_borrow(PL_F32, 1, &n, x, NULL, NULL, &t, NULL), PL_OK);
    s->points->a =
        (pl_side){ .present = true, .dtype = PL_F32, .rank = 1, .dims = { 3 }, .strides = { 1 } };
    assert_int_equal(pl_session_folder_put(f, "a", "x", t, s->arena, &s->points->a.blob, NULL),
                     PL_OK);
    pl_tensor_unref(t);
}

static void test_session_folder__is_whole(void **state) {
    pl_session_folder *f = NULL;
    pl_session *s = small_session(), *back = NULL;
    const char *path = in_dir("deep/down/s");
    char *stores = NULL;
    pl_store *store = NULL;
    pl_store_index index;
    pl_tensor *t = NULL;
    (void)state;
    assert_int_equal(pl_session_folder_new(path, &f, NULL), PL_OK);
    assert_false(pl_path_exists(path));
    put_one(f, s);
    assert_int_equal(pl_session_folder_commit_take(f, s, NULL), PL_OK);
    assert_int_equal(pl_session_open(path, &back, NULL), PL_OK);
    assert_string_equal(back->points->a.blob, s->points->a.blob);
    stores = pl_path_join(path, "store");
    assert_int_equal(pl_store_open(stores, PL_STORE_READ, &store, NULL), PL_OK);
    assert_int_equal(pl_store_index_read(store, "a", &index, NULL), PL_OK);
    assert_int_equal(index.n_entries, 1);
    assert_int_equal(
        pl_store_get(store, &index.entries[0].blob, 1, index.entries[0].dims, &t, NULL), PL_OK);
    assert_true(pl_tensor_get_f64(t, 2) == 3);
    pl_tensor_unref(t);
    pl_store_index_release(&index);
    pl_store_close(store);
    pl_session_free(s);
    pl_session_free(back);
    pl_free(stores);
}

static void test_session_folder__never_overwrites(void **state) {
    pl_session_folder *first = NULL, *second = NULL;
    pl_session *s = small_session();
    const char *path = in_dir("s");
    (void)state;
    assert_int_equal(pl_session_folder_new(path, &first, NULL), PL_OK);
    assert_int_equal(pl_session_folder_new(path, &second, NULL), PL_OK);
    assert_int_equal(pl_session_folder_commit_take(first, s, NULL), PL_OK);
    assert_int_equal(pl_session_folder_commit_take(second, s, NULL), PL_E_EXISTS);
    assert_int_equal(pl_session_folder_new(path, &first, NULL), PL_E_EXISTS);
    assert_int_equal(n_names(), 1); /* no temporaries */
    pl_session_free(s);
}

static void test_session_folder__abort_leaves_nothing(void **state) {
    pl_session_folder *f = NULL;
    pl_session *s = small_session();
    const char *path = in_dir("s/");
    (void)state;
    assert_int_equal(pl_session_folder_new(path, &f, NULL), PL_OK);
    put_one(f, s);
    pl_session_folder_abort_take(f);
    assert_int_equal(n_names(), 0);
    pl_session_free(s);
}

static void test_session_folder__says_where_it_cannot_be(void **state) {
    pl_session_folder *f = NULL;
    pl_err err = PL_ERR_INIT;
    (void)state;
    assert_int_equal(pl_session_folder_new("/proc/none/s", &f, &err), PL_E_IO);
    assert_non_null(strstr(err.message, "/proc/none"));
    assert_int_equal(pl_session_folder_new("", &f, &err), PL_E_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_session_folder__is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_session_folder__never_overwrites, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_session_folder__abort_leaves_nothing, set_up,
                                        tear_down),
        cmocka_unit_test(test_session_folder__says_where_it_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

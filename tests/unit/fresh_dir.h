/* A fresh folder for each test, or for all tests of a program: set_up and tear_down go into
 * cmocka_unit_test_setup_teardown, or into cmocka_run_group_tests. Include cmocka.h first. */
#ifndef PL_TEST_FRESH_DIR_H
#define PL_TEST_FRESH_DIR_H

#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"

static char *dir;

static inline int set_up(void **state) {
    (void)state;
    return pl_dir_temporary(&dir, NULL) == PL_OK ? 0 : -1;
}

static inline int tear_down(void **state) {
    (void)state;
    const pl_status st = pl_dir_remove(dir, NULL);
    pl_free(dir);
    return st == PL_OK ? 0 : -1;
}

static inline char *in_dir(const char *name) {
    static char paths[4][512];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static inline size_t n_names(void) {
    pl_dir_list list;
    assert_int_equal(pl_dir_list_read(dir, &list, NULL), PL_OK);
    const size_t n = list.n_names;
    pl_dir_list_free(&list);
    return n;
}

#endif

/* Mapped files that shrink. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_fault.h"

enum { N_BYTES = 5 * 65536 };

static pl_file_map *map_of_ones(char *path, size_t n_path) {
    static char ones[N_BYTES];
    pl_file_map *map = NULL;
    snprintf(path, n_path, "/tmp/plumb-fault-%ld", (long)getpid());
    memset(ones, 1, sizeof ones);
    (void)unlink(path); /* files are never replaced */
    assert_int_equal(pl_file_write(path, ones, sizeof ones, NULL), PL_OK);
    assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
    return map;
}

static unsigned sum(const pl_file_map *map) {
    unsigned s = 0;
    for (size_t i = 0; i < map->n_bytes; i++)
        s += map->data[i];
    return s;
}

static void test_file_fault__is_an_error_and_no_signal(void **state) {
    char path[100];
    pl_err err = PL_ERR_INIT;
    (void)state;
    signal(SIGBUS, SIG_DFL); /* cmocka has its own handler, which ours would leave alone */
    pl_file_map *map = map_of_ones(path, sizeof path);
    assert_int_equal(sum(map), N_BYTES);
    assert_int_equal(pl_file_fault_check(&err), PL_OK);
    assert_int_equal(truncate(path, 65536), 0);
    assert_int_equal(sum(map), 65536); /* the rest reads as zeros */
    assert_int_equal(pl_file_fault_check(&err), PL_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "truncated"));
    assert_int_equal(pl_file_fault_check(&err), PL_E_IO); /* as long as it is mapped */
    pl_file_map_unref(map);
    assert_int_equal(pl_file_fault_check(&err), PL_E_IO); /* and once more */
    assert_int_equal(pl_file_fault_check(&err), PL_OK);
    unlink(path);
}

static void test_file_fault__slots_are_used_again(void **state) {
    char path[100];
    (void)state;
    for (int i = 0; i < 100; i++) {
        pl_file_map *map = map_of_ones(path, sizeof path);
        assert_int_equal(sum(map), N_BYTES);
        pl_file_map_unref(map);
    }
    assert_int_equal(pl_file_fault_check(NULL), PL_OK);
    unlink(path);
}

/* A SIGBUS that no mapped file explains must not be swallowed. */
static void test_file_fault__leaves_other_faults_alone(void **state) {
    char path[100];
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        pl_file_map_unref(map_of_ones(path, sizeof path));
        raise(SIGBUS);
        raise(SIGBUS);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    snprintf(path, sizeof path, "/tmp/plumb-fault-%ld", (long)child);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* The first, for its child must be the one that maps a file first. */
        cmocka_unit_test(test_file_fault__leaves_other_faults_alone),
        cmocka_unit_test(test_file_fault__is_an_error_and_no_signal),
        cmocka_unit_test(test_file_fault__slots_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

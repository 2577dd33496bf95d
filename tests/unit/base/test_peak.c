/* The peak of several processes: what they share counts once, what they have of their own each
 * time. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/peak.h"
#include "base/process.h"

enum { MB = 1 << 20, SHARED = 96, OWN = 48 };

static void touch(volatile char *p, size_t n) {
    for (size_t i = 0; i < n; i += 1024)
        p[i] = (char)(i / 1024 + 1);
}

static void test_peak__counts_shared_pages_once(void **state) {
    (void)state;
    pl_peak *peak = pl_peak_start();
    if (peak == NULL) skip();
    char *both = malloc((size_t)SHARED * MB);
    assert_non_null(both);
    touch(both, (size_t)SHARED * MB);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *own = malloc((size_t)OWN * MB);
        if (own == NULL) _exit(1);
        touch(own, (size_t)OWN * MB);
        const unsigned left = sleep(2);
        _exit(left == 0 && own[1024] + both[1024] == 4 ? 0 : 2);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(both);
    const int64_t found = pl_peak_stop(peak), twice = pl_process_peak_bytes();
    assert_true(found >= (int64_t)(SHARED + OWN) * MB);
    assert_true(found <= twice - (int64_t)(SHARED - 16) * MB);
}

static void test_peak__answers_when_nothing_looks(void **state) {
    (void)state;
    assert_true(pl_peak_stop(NULL) == pl_process_peak_bytes());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak__counts_shared_pages_once),
        cmocka_unit_test(test_peak__answers_when_nothing_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

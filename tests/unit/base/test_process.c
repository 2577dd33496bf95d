/* Child processes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/process.h"

static pl_process_result result;
static int n_fds_before;

static int count_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static int set_up(void **state) {
    (void)state;
    n_fds_before = count_fds();
    return 0;
}

/* After every test: no descriptor and no zombie may be left. */
static int tear_down(void **state) {
    (void)state;
    pl_process_result_release(&result);
    if (count_fds() != n_fds_before) return -1;
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_shell(const char *script, const pl_process_options *options) {
    const char *argv[] = { "sh", "-c", script, NULL };
    pl_err err = PL_ERR_INIT;
    if (pl_process_run(argv, options, &result, &err) != PL_OK) fail_msg("%s", err.message);
}

static void test_process__returns_code_and_both_streams(void **state) {
    (void)state;
    run_shell("echo out; echo err >&2; exit 7", NULL);
    assert_int_equal(result.signal, 0);
    assert_int_equal(result.exit_code, 7);
    assert_false(result.timed_out);
    assert_string_equal(pl_buf_str(&result.out), "out\n");
    assert_string_equal(pl_buf_str(&result.err), "err\n");
}

static void test_process__passes_arguments_unchanged(void **state) {
    (void)state;
    const char *argv[] = { "printf", "%s|", "a b", "", "$HOME", "'\"*", NULL };
    assert_int_equal(pl_process_run(argv, NULL, &result, NULL), PL_OK);
    assert_string_equal(pl_buf_str(&result.out), "a b||$HOME|'\"*|");
}

static void test_process__reports_the_signal(void **state) {
    (void)state;
    run_shell("kill -SEGV $$", NULL);
    assert_int_equal(result.signal, SIGSEGV);
    assert_false(result.timed_out);
}

static void test_process__reads_nothing_from_us(void **state) {
    (void)state;
    run_shell("cat; echo end", NULL);
    assert_string_equal(pl_buf_str(&result.out), "end\n");
}

static void test_process__names_a_program_that_is_missing(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    const char *argv[] = { "no-such-program-plumb", NULL };
    const char *none[] = { NULL };
    assert_int_equal(pl_process_run(argv, NULL, &result, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no-such-program-plumb"));
    const char *data[] = { "/etc/passwd", NULL };
    assert_int_equal(pl_process_run(data, NULL, &result, &err), PL_E_IO);
    assert_int_equal(pl_process_run(none, NULL, &result, &err), PL_E_INVALID);
}

static void test_process__uses_folder_and_environment(void **state) {
    (void)state;
    const char *env[] = { "ONLY=this", NULL };
    run_shell("pwd; echo $ONLY-$HOME", &(pl_process_options){ .dir = "/", .env = env });
    assert_string_equal(pl_buf_str(&result.out), "/\nthis-\n");
    pl_process_result_release(&result);
    pl_err err = PL_ERR_INIT;
    const char *argv[] = { "true", NULL };
    const pl_process_options nowhere = { .dir = "/no/such/folder" };
    assert_int_equal(pl_process_run(argv, &nowhere, &result, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/no/such/folder"));
}

static void test_process__keeps_the_tail_of_much_output(void **state) {
    (void)state;
    run_shell("i=0; while [ $i -lt 20000 ]; do echo $i; echo e$i >&2; i=$((i+1)); done",
              &(pl_process_options){ .max_output_bytes = 100 });
    assert_int_equal(result.out.n_bytes, 100);
    assert_string_equal(result.out.data + 100 - 12, "19998\n19999\n");
    assert_int_equal(result.err.n_bytes, 100);
    assert_string_equal(result.err.data + 100 - 7, "e19999\n");
}

static void test_process__keeps_all_of_moderate_output(void **state) {
    (void)state;
    run_shell("head -c 900000 /dev/zero | tr '\\0' x; echo end", NULL);
    assert_int_equal(result.out.n_bytes, 900004);
    assert_string_equal(result.out.data + 900000, "end\n");
}

/* True when the process is gone or dead; a zombie whose new parent does not reap is dead too. */
static bool is_dead(long pid) {
    char path[64], state_letter = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return true;
    if (fscanf(f, "%*d %*s %c", &state_letter) != 1) state_letter = 'Z';
    fclose(f);
    return state_letter == 'Z' || state_letter == 'X';
}

static void test_process__kills_the_whole_group_on_time_out(void **state) {
    (void)state;
    const double begin = now();
    run_shell("sleep 1000 & echo $!; echo before; wait",
              &(pl_process_options){ .timeout_seconds = 0.3 });
    const double seconds = now() - begin;
    assert_true(result.timed_out);
    assert_int_equal(result.signal, SIGKILL);
    assert_true(seconds >= 0.3 && seconds < 10);
    assert_non_null(strstr(pl_buf_str(&result.out), "before"));
    const long pid = strtol(pl_buf_str(&result.out), NULL, 10);
    assert_true(pid > 1);
    for (int i = 0; i < 100 && !is_dead(pid); i++)
        usleep(20000);
    assert_true(is_dead(pid));
}

static void test_process__times_out_a_child_that_closed_its_streams(void **state) {
    (void)state;
    const double begin = now();
    run_shell("exec >&- 2>&-; sleep 1000", &(pl_process_options){ .timeout_seconds = 0.2 });
    assert_true(result.timed_out);
    assert_true(now() - begin < 10);
}

static void test_process__is_not_held_by_a_descendant(void **state) {
    (void)state;
    const double begin = now();
    run_shell("sleep 20 & echo $!", NULL);
    assert_true(now() - begin < 10);
    assert_int_equal(result.exit_code, 0);
    const long pid = strtol(pl_buf_str(&result.out), NULL, 10);
    assert_false(is_dead(pid)); /* left alone: only a time-out kills */
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
}

static void test_process__gives_the_child_default_signals(void **state) {
    (void)state;
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &before);
    run_shell("kill -PIPE $$; echo alive", NULL);
    assert_int_equal(result.signal, SIGPIPE);
    pl_process_result_release(&result);
    run_shell("kill -TERM $$; echo alive", NULL);
    assert_int_equal(result.signal, SIGTERM);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, old);
}

static void test_process__works_with_closed_standard_streams(void **state) {
    (void)state;
    int saved[3];
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        close(i);
    }
    const char *argv[] = { "sh", "-c", "echo out; echo err >&2; cat", NULL };
    const pl_status st = pl_process_run(argv, NULL, &result, NULL);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_int_equal(st, PL_OK);
    assert_string_equal(pl_buf_str(&result.out), "out\n");
    assert_string_equal(pl_buf_str(&result.err), "err\n");
}

static void test_process__survives_a_failing_allocation(void **state) {
    (void)state;
    const char *argv[] = { "sh", "-c", "echo out; sleep 1000", NULL };
    const double begin = now();
    pl_alloc_fail_after(0);
    const pl_status st = pl_process_run(argv, NULL, &result, NULL);
    pl_alloc_fail_after(-1);
    assert_int_equal(st, PL_E_MEMORY);
    assert_true(now() - begin < 100); /* the child was killed, not waited for */
}

static void test_process__leaks_nothing_over_many_runs(void **state) {
    (void)state;
    const char *argv[] = { "true", NULL };
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pl_process_run(argv, NULL, &result, NULL), PL_OK);
        assert_int_equal(result.exit_code, 0);
        pl_process_result_release(&result);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_process__returns_code_and_both_streams, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__passes_arguments_unchanged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__reports_the_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_process__reads_nothing_from_us, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_process__names_a_program_that_is_missing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__uses_folder_and_environment, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__keeps_the_tail_of_much_output, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__keeps_all_of_moderate_output, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__kills_the_whole_group_on_time_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__times_out_a_child_that_closed_its_streams,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_process__is_not_held_by_a_descendant, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__gives_the_child_default_signals, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__works_with_closed_standard_streams, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__survives_a_failing_allocation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_process__leaks_nothing_over_many_runs, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

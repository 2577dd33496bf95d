/* The progress bar, on a pseudo-terminal. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/bar.c" /* the program has no library of its own */

static int terminal, screen; /* the bar writes to the first, the test reads from the second */

static int set_up(void **state) {
    (void)state;
    screen = posix_openpt(O_RDWR | O_NOCTTY);
    if (screen < 0 || grantpt(screen) != 0 || unlockpt(screen) != 0) return -1;
    terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
    return terminal < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    close(terminal);
    close(screen);
    return 0;
}

static void columns(unsigned short n) {
    struct winsize size = { .ws_row = 24, .ws_col = n };
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

static const char *shown(void) {
    static char text[4096];
    size_t n = 0;
    struct pollfd p = { screen, POLLIN, 0 };
    while (poll(&p, 1, 50) > 0) {
        const ssize_t got = read(screen, text + n, sizeof text - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    text[n] = '\0';
    return text;
}

static void wait_ms(long ms) {
    const struct timespec t = { 0, ms * 1000000 };
    nanosleep(&t, NULL);
}

static void test_bar__draws_phase_bar_and_percentage(void **state) {
    (void)state;
    columns(80);
    pl_bar *bar = pl_bar_new(terminal);
    const plumb_progress progress = pl_bar_callback(bar);
    progress.update(progress.ctx, "running", 0, 100);
    assert_string_equal(shown(), "\r"
                                 "running  [--------------------]  0 %\x1b[K");
    wait_ms(120);
    progress.update(progress.ctx, "running", 50, 100);
    const char *text = shown();
    assert_non_null(strstr(text, "running  [##########----------]  50 %  "));
    assert_non_null(strstr(text, " s left\x1b[K"));
    wait_ms(120);
    progress.update(progress.ctx, "running", 100, 100);
    assert_string_equal(shown(), "\r"
                                 "running  [####################]  100 %\x1b[K");
    pl_bar_clear(bar);
    assert_string_equal(shown(), "\r\x1b[K");
    pl_bar_clear(bar); /* nothing left to clear */
    assert_string_equal(shown(), "");
    pl_bar_free(bar);
    assert_string_equal(shown(), "");
}

static void test_bar__estimates_from_this_phase_only(void **state) {
    (void)state;
    columns(80);
    pl_bar *bar = pl_bar_new(terminal);
    const plumb_progress progress = pl_bar_callback(bar);
    progress.update(progress.ctx, "one", 0, 100);
    wait_ms(120);
    progress.update(progress.ctx, "one", 1, 100001); /* 0.12 s for one: some 12,000 s left */
    assert_non_null(strstr(shown(), " h "));
    wait_ms(120);
    progress.update(progress.ctx, "two", 10, 100); /* nothing done in this phase yet */
    assert_null(strstr(shown(), "left"));
    pl_bar_free(bar);
}

static void test_bar__redraws_ten_times_a_second(void **state) {
    (void)state;
    columns(80);
    pl_bar *bar = pl_bar_new(terminal);
    const plumb_progress progress = pl_bar_callback(bar);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 20000; i++)
        progress.update(progress.ctx, i % 2 == 0 ? "a" : "b", i, 20000);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    int drawn = 0;
    for (const char *s = shown(); *s != '\0'; s++)
        drawn += *s == '\r';
    assert_in_range(drawn, 1, (uintmax_t)(1 + 10 * seconds));
    pl_bar_free(bar);
}

static void test_bar__cuts_the_line_between_characters(void **state) {
    (void)state;
    columns(20);
    pl_bar *bar = pl_bar_new(terminal);
    const plumb_progress progress = pl_bar_callback(bar);
    progress.update(progress.ctx, "a?[2J?\xC3\xA4 with a long name", 1, 2);
    assert_string_equal(shown(), "\r"
                                 "a?[2J?\xC3\xA4 with a long\x1b[K"); /* 19 columns */
    pl_bar_free(bar);
}

static void test_bar__counts_without_a_total(void **state) {
    (void)state;
    columns(80);
    pl_bar *bar = pl_bar_new(terminal);
    const plumb_progress progress = pl_bar_callback(bar);
    progress.update(progress.ctx, "reading", 1234, 0);
    assert_string_equal(shown(), "\r"
                                 "reading  1234\x1b[K");
    wait_ms(120);
    progress.update(progress.ctx, "reading", 500, 100); /* more than all */
    assert_non_null(strstr(shown(), "  100 %"));
    wait_ms(120);
    progress.update(progress.ctx, "reading", -5, 100);
    assert_non_null(strstr(shown(), "  0 %"));
    pl_bar_free(bar);
}

static void test_bar__is_silent_off_a_terminal(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pl_bar *bar = pl_bar_new(ends[1]);
    const plumb_progress progress = pl_bar_callback(bar);
    progress.update(progress.ctx, "x", 1, 2);
    pl_bar_clear(bar);
    pl_bar_free(bar);
    close(ends[1]);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 0);
    close(ends[0]);
    pl_bar_free(NULL);
}

static void test_bar__says_a_line_off_a_terminal(void **state) {
    (void)state;
    int ends[2];
    char text[300] = "";
    assert_int_equal(pipe(ends), 0);
    pl_bar *bar = pl_bar_new(ends[1]);
    const plumb_progress p = pl_bar_callback(bar);
    bar->say_ns = 1000000;
    (void)p.update(p.ctx, "minify: 3 nodes", 1, 0); /* it has only begun */
    wait_ms(5);
    (void)p.update(p.ctx, "minify: 3 nodes", 7, 0);
    pl_bar_free(bar);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_string_equal(text, "minify: 3 nodes  7  (0 s so far)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bar__draws_phase_bar_and_percentage, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_bar__estimates_from_this_phase_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_bar__redraws_ten_times_a_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bar__cuts_the_line_between_characters, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_bar__counts_without_a_total, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bar__is_silent_off_a_terminal, set_up, tear_down),
        cmocka_unit_test(test_bar__says_a_line_off_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

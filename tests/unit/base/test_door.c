/* Held folders: no link, pipe, device or ".." leads out or waits, with openat2 and without. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/door.h"
#include "base/door_int.h"
#include "fresh_dir.h"

static pl_dir *held;

static int hold(void **state) {
    if (set_up(state) != 0) return -1;
    if (mkdir(in_dir("in"), 0755) != 0 || mkdir(in_dir("in/sub"), 0755) != 0) return -1;
    if (pl_file_write(in_dir("secret"), "secret", 6, NULL) != PL_OK) return -1;
    if (pl_file_write(in_dir("in/file"), "file", 4, NULL) != PL_OK) return -1;
    if (pl_file_write(in_dir("in/sub/deep"), "deep", 4, NULL) != PL_OK) return -1;
    if (symlink("../secret", in_dir("in/out")) != 0) return -1;
    if (symlink("file", in_dir("in/inside")) != 0) return -1;
    if (symlink("..", in_dir("in/up")) != 0) return -1;
    if (mkfifo(in_dir("in/pipe"), 0600) != 0) return -1;
    return pl_dir_open(in_dir("in"), &held, NULL) == PL_OK ? 0 : -1;
}

static int let_go(void **state) {
    pl_door_without_openat2(false);
    pl_dir_close(held);
    held = NULL;
    return tear_down(state);
}

static void expect_map(const pl_dir *from, const char *name, pl_status status, const char *text) {
    pl_file_map *map = NULL;
    pl_err err = PL_ERR_INIT;
    const pl_status st = pl_dir_map(from, name, &map, &err);
    if (st != status) fail_msg("%s: status %d: %s", name, (int)st, err.message);
    if (st == PL_OK) {
        assert_int_equal(map->n_bytes, strlen(text));
        assert_memory_equal(map->data, text, map->n_bytes);
    }
    pl_file_map_unref(map);
}

static void look(void) {
    expect_map(held, "file", PL_OK, "file");
    expect_map(held, "sub/deep", PL_OK, "deep");
    expect_map(held, "none", PL_E_NOT_FOUND, "");
    static const char *const bad[] = { "out",        "inside",    "up/secret",
                                       "up/in/file", "../secret", "/etc/passwd",
                                       "pipe",       "sub",       "sub/../../secret" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_map(held, bad[i], PL_E_INVALID, "");
    assert_int_equal(pl_dir_look(held, "file", NULL), PL_KIND_FILE);
    assert_int_equal(pl_dir_look(held, "sub", NULL), PL_KIND_FOLDER);
    assert_int_not_equal(pl_dir_look(held, "out", NULL), PL_KIND_FILE);
    assert_int_equal(pl_dir_look(held, "pipe", NULL), PL_KIND_OTHER);
    assert_int_equal(pl_dir_look(held, "none", NULL), PL_KIND_NONE);
}

static void test_door__opens_beneath_only(void **state) {
    (void)state;
    look();
    pl_door_without_openat2(true);
    look();
}

static void test_door__refuses_sockets(void **state) {
    (void)state;
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", in_dir("in/socket"));
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    expect_map(held, "socket", PL_E_INVALID, "");
    close(fd);
}

/* Linux before 5.6 and qemu 7.2 have none: then no link is followed. */
static bool has_openat2(void) {
    const struct open_how how = { .flags = O_PATH };
    const long fd = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
    if (fd >= 0) close((int)fd);
    return fd >= 0 || errno != ENOSYS;
}

static void test_door__lenient_follows_links_that_stay_inside(void **state) {
    (void)state;
    pl_dir *lenient = NULL;
    assert_int_equal(pl_dir_open_lenient(in_dir("in"), &lenient, NULL), PL_OK);
    expect_map(lenient, "inside", has_openat2() ? PL_OK : PL_E_INVALID, "file");
    expect_map(lenient, "out", PL_E_INVALID, "");
    expect_map(lenient, "up/secret", PL_E_INVALID, "");
    expect_map(lenient, "/etc/passwd", PL_E_INVALID, "");
    pl_dir_close(lenient);
}

static void test_door__writes_over_its_own_only(void **state) {
    (void)state;
    pl_file_map *map = NULL;
    assert_int_equal(pl_dir_write(held, "file", "new", 3, NULL), PL_OK);
    expect_map(held, "file", PL_OK, "new");
    assert_int_equal(pl_dir_write(held, "fresh", "x", 1, NULL), PL_OK);
    assert_int_equal(pl_dir_write(held, "out", "x", 1, NULL), PL_E_INVALID);
    assert_int_equal(pl_dir_write(held, "up/secret", "x", 1, NULL), PL_E_INVALID);
    assert_int_equal(pl_dir_write(held, "../secret", "x", 1, NULL), PL_E_INVALID);
    assert_int_equal(pl_dir_write(held, "pipe", "x", 1, NULL), PL_E_INVALID);
    assert_int_equal(pl_dir_unlink(held, "up/secret", NULL), PL_E_INVALID);
    assert_int_equal(pl_dir_unlink(held, "out", NULL), PL_OK); /* the link, not what it names */
    assert_int_equal(pl_file_map_open(in_dir("secret"), &map, NULL), PL_OK);
    assert_memory_equal(map->data, "secret", 6);
    pl_file_map_unref(map);
}

/* ---- what is not finished ---- */

/* In a child that dies: 0 by the handler's call, 1 without. */
static void die_in_the_middle(bool abandon) {
    const pid_t pid = fork();
    if (pid == 0) {
        char *staged = NULL;
        pl_file_writer *w = NULL;
        if (pl_dir_stage(in_dir("session"), &staged, NULL) != PL_OK) _exit(3);
        char *inner = pl_path_join(staged, "f");
        if (pl_file_write(inner, "x", 1, NULL) != PL_OK) _exit(4);
        if (pl_file_writer_open_in(held, "own", &w, NULL) != PL_OK) _exit(5);
        if (abandon) pl_door_abandon();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static size_t n_temporaries(const char *path) {
    pl_dir_list list = { NULL, 0 };
    size_t n = 0;
    assert_int_equal(pl_dir_list_read(path, &list, NULL), PL_OK);
    for (size_t i = 0; i < list.n_names; i++)
        n += pl_is_temporary_name(list.names[i]);
    pl_dir_list_free(&list);
    return n;
}

static void test_door__abandon_removes_what_is_not_finished(void **state) {
    (void)state;
    die_in_the_middle(true);
    assert_int_equal(n_temporaries(dir), 0);
    assert_int_equal(n_temporaries(in_dir("in")), 0);
}

static void test_door__the_next_start_removes_what_a_dead_process_left(void **state) {
    (void)state;
    char *staged = NULL, *other = NULL;
    assert_int_equal(mkdir(in_dir(".mine.plumb-no-1"), 0755), 0); /* no name of ours */
    die_in_the_middle(false);
    assert_int_equal(n_temporaries(dir), 1);
    assert_int_equal(pl_dir_stage(in_dir("one"), &staged, NULL), PL_OK);
    assert_int_equal(n_temporaries(dir), 1); /* ours; that of the dead is gone */
    assert_int_equal(pl_dir_stage(in_dir("two"), &other, NULL), PL_OK);
    assert_int_equal(n_temporaries(dir), 2); /* that of the living stays */
    assert_true(pl_path_is_dir(in_dir(".mine.plumb-no-1")));
    assert_int_equal(pl_dir_publish(staged, in_dir("one"), NULL), PL_OK);
    assert_int_equal(pl_dir_remove(other, NULL), PL_OK);
    pl_free(staged);
    pl_free(other);
}

static void test_door__private_folders_are_no_links(void **state) {
    (void)state;
    pl_dir *own = NULL;
    assert_int_equal(pl_dir_open_private(in_dir("cache/jit"), &own, NULL), PL_OK);
    pl_dir_close(own);
    assert_int_equal(symlink("cache", in_dir("linked")), 0);
    assert_int_equal(pl_dir_open_private(in_dir("linked"), &own, NULL), PL_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_door__opens_beneath_only, hold, let_go),
        cmocka_unit_test_setup_teardown(test_door__refuses_sockets, hold, let_go),
        cmocka_unit_test_setup_teardown(test_door__lenient_follows_links_that_stay_inside, hold,
                                        let_go),
        cmocka_unit_test_setup_teardown(test_door__writes_over_its_own_only, hold, let_go),
        cmocka_unit_test_setup_teardown(test_door__abandon_removes_what_is_not_finished, hold,
                                        let_go),
        cmocka_unit_test_setup_teardown(test_door__the_next_start_removes_what_a_dead_process_left,
                                        hold, let_go),
        cmocka_unit_test_setup_teardown(test_door__private_folders_are_no_links, hold, let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

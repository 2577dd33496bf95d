/* Paths and folders. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fresh_dir.h"

static void assert_owned(char *got, const char *want) {
    assert_non_null(got);
    assert_string_equal(got, want);
    pl_free(got);
}

static void test_path_join__puts_one_slash(void **state) {
    (void)state;
    assert_owned(pl_path_join("a", "b"), "a/b");
    assert_owned(pl_path_join("a/", "b"), "a/b");
    assert_owned(pl_path_join("/", "b"), "/b");
    assert_owned(pl_path_join("", "b"), "b");
    assert_owned(pl_path_join("a", "/b"), "/b");
    assert_owned(pl_path_join("a", ""), "a/");
}

static void test_path_dirname__is_what_posix_says(void **state) {
    (void)state;
    assert_owned(pl_path_dirname("a"), ".");
    assert_owned(pl_path_dirname(""), ".");
    assert_owned(pl_path_dirname("a/b"), "a");
    assert_owned(pl_path_dirname("a/b/c"), "a/b");
    assert_owned(pl_path_dirname("a//b"), "a");
    assert_owned(pl_path_dirname("a/b/"), "a");
    assert_owned(pl_path_dirname("/a"), "/");
    assert_owned(pl_path_dirname("/"), "/");
}

static void test_path_basename__is_after_the_last_slash(void **state) {
    (void)state;
    assert_string_equal(pl_path_basename("a/b.c"), "b.c");
    assert_string_equal(pl_path_basename("b.c"), "b.c");
    assert_string_equal(pl_path_basename("a/"), "");
}

static void test_path_has_suffix__compares_the_end(void **state) {
    (void)state;
    assert_true(pl_path_has_suffix("m.onnx", ".onnx"));
    assert_true(pl_path_has_suffix("m.onnx", ""));
    assert_false(pl_path_has_suffix("m.onnx.txt", ".onnx"));
    assert_false(pl_path_has_suffix("x", ".onnx"));
}

static void test_path_make_dirs__makes_all_of_them(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_path_make_dirs(in_dir("a/b//c/"), NULL), PL_OK);
    assert_true(pl_path_is_dir(in_dir("a/b/c")));
    assert_int_equal(pl_path_make_dirs(in_dir("a/b"), NULL), PL_OK); /* there already */
    assert_int_equal(pl_path_make_dirs("/", NULL), PL_OK);
    assert_int_equal(pl_file_write(in_dir("file"), "x", 1, NULL), PL_OK);
    assert_int_equal(pl_path_make_dirs(in_dir("file"), &err), PL_E_EXISTS);
    assert_int_equal(pl_path_make_dirs(in_dir("file/x"), &err), PL_E_EXISTS);
    assert_non_null(strstr(err.message, "file"));
    assert_int_equal(pl_path_make_dirs("", &err), PL_E_INVALID);
    assert_false(pl_path_is_dir(in_dir("file")));
    assert_true(pl_path_exists(in_dir("file")));
}

static pl_status resolve(const char *folder, const char *name, pl_err *err) {
    char *out = NULL;
    const pl_status st = pl_path_resolve_inside(folder, name, &out, err);
    assert_true((st == PL_OK) == (out != NULL));
    pl_free(out);
    return st;
}

static void test_path_resolve_inside__keeps_names_inside(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    char *out = NULL;
    assert_int_equal(pl_path_make_dirs(in_dir("in/sub"), NULL), PL_OK);
    assert_int_equal(pl_path_make_dirs(in_dir("inner"), NULL), PL_OK);
    assert_int_equal(pl_file_write(in_dir("in/w.bin"), "x", 1, NULL), PL_OK);
    assert_int_equal(pl_file_write(in_dir("inner/secret"), "x", 1, NULL), PL_OK);
    assert_int_equal(symlink("../inner/secret", in_dir("in/leak")), 0);
    assert_int_equal(symlink("w.bin", in_dir("in/fine")), 0);
    assert_int_equal(symlink(dir, in_dir("in/up")), 0);

    assert_int_equal(resolve(in_dir("in"), "w.bin", NULL), PL_OK);
    assert_int_equal(resolve(in_dir("in"), "./sub/../w.bin", NULL), PL_OK);
    assert_int_equal(resolve(in_dir("in"), "sub", NULL), PL_OK);
    assert_int_equal(resolve("/", "tmp", NULL), PL_OK);
    assert_int_equal(pl_path_resolve_inside(in_dir("in"), "fine", &out, NULL), PL_OK);
    assert_true(pl_path_has_suffix(out, "/in/w.bin")); /* symlinks followed */
    pl_free(out);

    assert_int_equal(resolve(in_dir("in"), "../inner/secret", &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "../inner/secret"));
    assert_int_equal(resolve(in_dir("in"), "leak", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), "up/inner/secret", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), "..", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), ".", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), "", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), "/etc/passwd", NULL), PL_E_INVALID);
    assert_int_equal(resolve(in_dir("in"), "no.bin", &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no.bin"));
    assert_int_equal(resolve(in_dir("nowhere"), "x", &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "nowhere"));
}

static void test_path_resolve_inside__takes_the_current_folder(void **state) {
    (void)state;
    char *before = getcwd(NULL, 0);
    assert_int_equal(pl_file_write(in_dir("w.bin"), "x", 1, NULL), PL_OK);
    assert_int_equal(chdir(dir), 0);
    const pl_status dot = resolve(".", "w.bin", NULL), empty = resolve("", "w.bin", NULL);
    assert_int_equal(chdir(before), 0);
    free(before);
    assert_int_equal(dot, PL_OK);
    assert_int_equal(empty, PL_OK);
}

static void test_dir_list__is_sorted_and_whole(void **state) {
    (void)state;
    pl_dir_list list;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(n_names(), 0);
    const char *names[] = { "b", "a", "B", ".hidden", "a0", "\xC3\xA4" };
    for (int i = 0; i < 6; i++)
        assert_int_equal(pl_file_write(in_dir(names[i]), "", 0, NULL), PL_OK);
    assert_int_equal(pl_dir_list_read(dir, &list, NULL), PL_OK);
    const char *want[] = { ".hidden", "B", "a", "a0", "b", "\xC3\xA4" };
    assert_int_equal(list.n_names, 6);
    for (int i = 0; i < 6; i++)
        assert_string_equal(list.names[i], want[i]);
    pl_dir_list_free(&list);
    pl_dir_list_free(&list); /* empty now */
    assert_int_equal(pl_dir_list_read(in_dir("none"), &list, &err), PL_E_NOT_FOUND);
    assert_int_equal(pl_dir_list_read(in_dir("a"), &list, &err), PL_E_NOT_FOUND);
}

static void test_dir_remove__does_not_follow_symlinks(void **state) {
    (void)state;
    assert_int_equal(pl_path_make_dirs(in_dir("gone/x/y"), NULL), PL_OK);
    assert_int_equal(pl_path_make_dirs(in_dir("kept"), NULL), PL_OK);
    assert_int_equal(pl_file_write(in_dir("kept/f"), "", 0, NULL), PL_OK);
    assert_int_equal(pl_file_write(in_dir("gone/x/f"), "", 0, NULL), PL_OK);
    assert_int_equal(symlink("../../kept", in_dir("gone/x/link")), 0);
    assert_int_equal(symlink("nowhere", in_dir("gone/dangling")), 0);
    assert_int_equal(symlink("kept", in_dir("link")), 0);
    assert_int_equal(pl_dir_remove(in_dir("gone"), NULL), PL_OK);
    assert_false(pl_path_exists(in_dir("gone")));
    assert_true(pl_path_exists(in_dir("kept/f")));
    assert_true(pl_dir_remove(in_dir("link"), NULL) != PL_OK); /* itself a symlink */
    assert_true(pl_path_exists(in_dir("kept/f")));
    assert_int_equal(pl_dir_remove(in_dir("none"), NULL), PL_E_NOT_FOUND);
    assert_true(pl_dir_remove(in_dir("kept/f"), NULL) != PL_OK);
}

static void test_dir_temporary__is_private_and_new(void **state) {
    (void)state;
    char *a = NULL, *b = NULL;
    struct stat info;
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    assert_int_equal(pl_dir_temporary(&a, NULL), PL_OK);
    assert_int_equal(pl_dir_temporary(&b, NULL), PL_OK);
    assert_string_not_equal(a, b);
    assert_true(strncmp(a, dir, strlen(dir)) == 0);
    assert_int_equal(stat(a, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    pl_free(a);
    pl_free(b);
    pl_err err = PL_ERR_INIT;
    assert_int_equal(setenv("TMPDIR", in_dir("none"), 1), 0);
    assert_int_equal(pl_dir_temporary(&a, &err), PL_E_IO);
    unsetenv("TMPDIR");
}

/* Another process that starts removes folders that nobody has locked: also one that was made just
 * now and is not locked yet. */
static void sweep_for_ever(const char *where) {
    for (;;) {
        DIR *stream = opendir(where);
        const struct dirent *entry;
        while (stream != NULL && (entry = readdir(stream)) != NULL) {
            if (strncmp(entry->d_name, "plumb-tmp.", 10) != 0) continue;
            const int fd = openat(dirfd(stream), entry->d_name, O_RDONLY | O_CLOEXEC);
            if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                (void)unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
            if (fd >= 0) close(fd);
        }
        if (stream != NULL) closedir(stream);
    }
}

static void test_dir_temporary__outlives_sweeps_of_others(void **state) {
    enum { N = 2000 };
    (void)state;
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    const pid_t pid = fork();
    if (pid == 0) sweep_for_ever(dir);
    size_t n_kept = 0;
    for (int i = 0; i < N; i++) {
        char *path = NULL;
        if (pl_dir_temporary(&path, NULL) != PL_OK) continue;
        n_kept += pl_path_is_dir(path);
        pl_dir_remove(path, NULL);
        pl_free(path);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unsetenv("TMPDIR");
    assert_int_equal(n_kept, N);
}

static void test_path__survives_each_failing_allocation(void **state) {
    (void)state;
    int failures = 0;
    assert_int_equal(pl_file_write(in_dir("f"), "", 0, NULL), PL_OK);
    for (long n = 0;; n++) {
        char *real = NULL, *temporary = NULL;
        pl_dir_list list = { NULL, 0 };
        pl_alloc_fail_after(n);
        pl_status st = pl_path_make_dirs(in_dir("d/e"), NULL);
        if (st == PL_OK) st = pl_path_resolve_inside(dir, "f", &real, NULL);
        if (st == PL_OK) st = pl_dir_list_read(dir, &list, NULL);
        if (st == PL_OK) st = pl_dir_temporary(&temporary, NULL);
        pl_alloc_fail_after(-1);
        pl_free(real);
        pl_dir_list_free(&list);
        if (temporary != NULL) pl_dir_remove(temporary, NULL);
        pl_free(temporary);
        if (st == PL_OK) break;
        assert_int_equal(st, PL_E_MEMORY);
        failures++;
    }
    assert_in_range(failures, 7, 30);
}

static void test_dir_stage__appears_whole_or_not_at_all(void **state) {
    (void)state;
    char *staged = NULL;
    pl_err err = PL_ERR_INIT;
    const mode_t before = umask(027);
    assert_int_equal(pl_dir_stage(in_dir("deep/out"), &staged, &err), PL_OK);
    struct stat info;
    assert_int_equal(umask(before), 027);
    assert_int_equal(stat(staged, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0750); /* as any other folder */
    assert_false(pl_path_exists(in_dir("deep/out")));
    char *file = pl_path_join(staged, "f");
    assert_int_equal(pl_file_write(file, "x", 1, &err), PL_OK);
    pl_free(file);
    assert_int_equal(pl_dir_publish(staged, in_dir("deep/out"), &err), PL_OK);
    assert_true(pl_path_exists(in_dir("deep/out/f")));
    assert_false(pl_path_exists(staged));
    pl_free(staged);
    assert_int_equal(pl_dir_stage(in_dir("deep/out"), &staged, &err), PL_OK);
    assert_int_equal(pl_dir_publish(staged, in_dir("deep/out"), &err), PL_E_EXISTS);
    assert_non_null(strstr(err.message, "already exists"));
    assert_int_equal(pl_dir_remove(staged, &err), PL_OK);
    assert_true(pl_path_exists(in_dir("deep/out/f")));
    pl_free(staged);
}

static void test_dir_remove__needs_no_memory(void **state) {
    (void)state;
    assert_int_equal(pl_path_make_dirs(in_dir("full/a/b"), NULL), PL_OK);
    for (int i = 0; i < 300; i++) { /* more than one read of the folder */
        char name[80];
        snprintf(name, sizeof name, "full/a/a-name-that-takes-some-room-%d", i);
        assert_int_equal(pl_file_write(in_dir(name), "x", 1, NULL), PL_OK);
    }
    char *path = pl_strdup(in_dir("full"));
    pl_alloc_fail_after(0);
    const pl_status st = pl_dir_remove(path, NULL);
    pl_alloc_fail_after(-1);
    assert_int_equal(st, PL_OK);
    assert_false(pl_path_exists(path));
    pl_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_path_join__puts_one_slash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_dirname__is_what_posix_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_basename__is_after_the_last_slash, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_path_has_suffix__compares_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_make_dirs__makes_all_of_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_resolve_inside__keeps_names_inside, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_path_resolve_inside__takes_the_current_folder, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_dir_list__is_sorted_and_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dir_remove__does_not_follow_symlinks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_dir_temporary__is_private_and_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dir_temporary__outlives_sweeps_of_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_dir_stage__appears_whole_or_not_at_all, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_dir_remove__needs_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path__survives_each_failing_allocation, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The guard's cgroup, on an imitation: a folder with the files that the kernel would make. What the
 * kernel does with them is not tested here. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/guard/cgroup.h"
#include "base/alloc.h"
#include "base/file.h"

static char root[64];

static void make(const char *folder, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", root, folder);
    assert_int_equal(pl_path_make_dirs(path, NULL), PL_OK);
    snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* What the guard wrote. */
static const char *written(const char *folder, const char *name) {
    static char text[100];
    char path[300];
    snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void expect_found(const char *self, const char *folder) {
    char want[200];
    char *found = pl_cgroup_find(root, self);
    snprintf(want, sizeof(want), "%s/%s", root, folder);
    if (found == NULL) fail_msg("nothing found for '%s'", self);
    assert_string_equal(found, want);
    pl_free(found);
}

static void expect_none(const char *self) {
    char *found = pl_cgroup_find(root, self);
    if (found != NULL) fail_msg("'%s' found for '%s'", found, self);
}

static int begin(void **state) {
    (void)state;
    snprintf(root, sizeof(root), "/tmp/plumb-cgroup-XXXXXX");
    if (mkdtemp(root) == NULL) return 1;
    make("user/app", "cgroup.subtree_control", "cpu memory pids\n");
    make("user/app", "cgroup.procs", "");
    make("user/app/shell", "cgroup.subtree_control", "\n");
    make("user/app/shell", "cgroup.procs", "");
    make("user/app/shell/deeper", "cgroup.subtree_control", "");
    make("user/half", "cgroup.subtree_control", "memory\n");
    make("user/half", "cgroup.procs", "");
    make("user/words", "cgroup.subtree_control", "memory_recursiveprot pids\n");
    make("user/words", "cgroup.procs", "");
    make("user/alien", "cgroup.subtree_control", "memory pids");
    return 0;
}

static int end(void **state) {
    (void)state;
    return pl_dir_remove(root, NULL) != PL_OK;
}

static void test_cgroup__is_made_in_the_own_group_or_the_one_above(void **state) {
    (void)state;
    expect_found("0::/user/app\n", "user/app");
    expect_found("0::/user/app/shell\n", "user/app");
    expect_found("4:memory:/x\n0::/user/app/shell\n", "user/app");
    expect_none("0::/user/app/shell/deeper\n"); /* two above: somebody else's */
}

static void test_cgroup__needs_both_controllers_and_the_right_to_move(void **state) {
    (void)state;
    expect_none("0::/user/half\n");
    expect_none("0::/user/words\n");
    expect_none("0::/user/alien\n"); /* without cgroup.procs */
    expect_none("0::/user/none\n");
    expect_none("0::/\n");
    expect_none("0::/../user/app\n");
    expect_none("4:memory:/user/app\n"); /* version 1 */
    expect_none("");
}

static char *prepare_group(char folder[64]) {
    static const char *const files[] = { "cgroup.procs", "memory.max", "pids.max" };
    char path[200];
    snprintf(folder, 64, "user/app/plumb-guard-%ld", (long)getpid());
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        make(folder, files[i], "");
    make(folder, "memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 3\noom_group_kill 0\n");
    snprintf(path, sizeof(path), "%s/user/app", root);
    return pl_strdup(path);
}

static void test_cgroup__limits_memory_and_processes(void **state) {
    char folder[64];
    pl_cgroup group;
    (void)state;
    char *parent = prepare_group(folder);
    assert_true(pl_cgroup_open(parent, &group));
    pl_cgroup_limit(&group, 2, 0);
    assert_string_equal(written(folder, "memory.max"), "max");
    assert_string_equal(written(folder, "pids.max"), "2048");
    pl_cgroup_limit(&group, 3, UINT64_C(1) << 30);
    assert_string_equal(written(folder, "memory.max"), "1275068416"); /* 1 GiB, an eighth, 64 MiB */
    assert_string_equal(written(folder, "pids.max"), "3072");
    assert_int_equal(pl_cgroup_count_killed(&group), 3);
    const pid_t pid = fork();
    if (pid == 0) _exit(pl_cgroup_enter(&group) ? 0 : 1);
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(written(folder, "cgroup.procs"), "0"); /* who writes is meant */
    pl_cgroup_close(&group);
    assert_null(group.path);
    pl_free(parent);
}

static void test_cgroup__that_cannot_be_limited_is_not_kept(void **state) {
    char parent[100], left[200];
    pl_cgroup group;
    (void)state;
    make("bare", "cgroup.procs", "");
    snprintf(parent, sizeof(parent), "%s/bare", root);
    assert_false(pl_cgroup_open(parent, &group)); /* the new folder has no memory.max */
    snprintf(left, sizeof(left), "%s/plumb-guard-%ld", parent, (long)getpid());
    assert_false(pl_path_exists(left));
    snprintf(parent, sizeof(parent), "%s/absent", root);
    assert_false(pl_cgroup_open(parent, &group));
}

static void test_cgroup__groups_of_dead_guards_are_removed(void **state) {
    char parent[100], path[200], dead[64], alive[64];
    pl_cgroup group;
    (void)state;
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    make("swept", "cgroup.procs", "");
    snprintf(dead, sizeof(dead), "plumb-guard-%ld", (long)pid);
    snprintf(alive, sizeof(alive), "plumb-guard-%ld", (long)getppid());
    const char *const names[] = { dead, alive, "plumb-guard-x", "other" };
    snprintf(parent, sizeof(parent), "%s/swept", root);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", parent, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)pl_cgroup_open(parent, &group);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", parent, names[i]);
        assert_int_equal(pl_path_exists(path), i != 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroup__is_made_in_the_own_group_or_the_one_above),
        cmocka_unit_test(test_cgroup__needs_both_controllers_and_the_right_to_move),
        cmocka_unit_test(test_cgroup__limits_memory_and_processes),
        cmocka_unit_test(test_cgroup__that_cannot_be_limited_is_not_kept),
        cmocka_unit_test(test_cgroup__groups_of_dead_guards_are_removed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

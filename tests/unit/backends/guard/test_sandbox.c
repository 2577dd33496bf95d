/* The sandbox: what a plugin reaches for beyond its own is refused and named, and nothing else is.
 * A kernel without Landlock or seccomp skips. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/guard/sandbox.h"
#include "graph/text/text.h"

static char plugin_dir[512]; /* of this program: the plugins lie beside it */
static char secret_dir[64], secret[96];

typedef struct answer {
    pl_status status;
    int signal;
    char message[1024];
    char sandbox[64];
} answer;

static pl_datum *make_input(void) {
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    const int64_t dims[] = { 3 };
    assert_int_equal(pl_tensor_new(PL_F32, 1, dims, &t, NULL), PL_OK);
    memset(t->data, 0, 3 * sizeof(float));
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

/* `model` is where the model is said to come from; NULL = from memory. */
static answer ask(const char *what, int sandbox, const char *model_file) {
    static const char text[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                               "g (float[3] x) => (float[3] y) { y = Relu(x) }\n";
    const pl_backend_options options = { .guarded = true,
                                         .timeout_seconds = 20,
                                         .sandbox = sandbox,
                                         .readable = &model_file,
                                         .n_readable = 1 };
    answer a = { .status = PL_OK };
    char spec[700];
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_datum *in[1] = { make_input() }, *out[1] = { NULL };
    snprintf(spec, sizeof(spec), "plugin:%s/prying_plugin.so,what=%s", plugin_dir, what);
    assert_int_equal(pl_model_parse(text, sizeof(text) - 1, "test", &model, &err), PL_OK);
    a.status = pl_backend_open(spec, &options, &backend, &err);
    if (a.status == PL_OK) a.status = pl_program_new(backend, model, NULL, &program, &err);
    if (a.status == PL_OK) a.status = pl_program_run(program, in, out, &err);
    if (backend != NULL) {
        a.signal = pl_backend_failure(backend)->signal;
        snprintf(a.sandbox, sizeof(a.sandbox), "%s", pl_backend_sandbox(backend));
    }
    snprintf(a.message, sizeof(a.message), "%s", a.status == PL_OK ? "" : err.message);
    pl_datum_unref(in[0]);
    pl_datum_unref(out[0]);
    pl_program_free(program);
    pl_backend_close(backend);
    pl_model_free(model);
    return a;
}

static void expect(const answer *a, const char *part) {
    if (strstr(a->message, part) == NULL) fail_msg("'%s' not in '%s'", part, a->message);
}

static bool available(void) {
    char why[120];
    return pl_sandbox_available(why, sizeof(why));
}

static void test_sandbox__files_outside_cannot_be_read_or_written(void **state) {
    (void)state;
    if (!available()) skip();
    const answer read = ask("read", PLUMB_SANDBOX_ON, NULL);
    expect(&read, "read: Permission denied");
    assert_int_equal(strncmp(read.sandbox, "on", 2), 0); /* or "on, with cgroup" */
    const answer write = ask("write", PLUMB_SANDBOX_ON, NULL);
    expect(&write, "write: Permission denied");
}

static void test_sandbox__the_models_folder_can_be_read_but_not_written(void **state) {
    char model[160];
    (void)state;
    if (!available()) skip();
    snprintf(model, sizeof(model), "%s/model.onnx", secret_dir);
    const answer read = ask("read", PLUMB_SANDBOX_ON, model);
    expect(&read, "read: got through");
    const answer write = ask("write", PLUMB_SANDBOX_ON, model);
    expect(&write, "write: Permission denied");
}

static void test_sandbox__connections_and_processes_are_stopped_and_named(void **state) {
    static const char *const cases[][2] = { { "socket", "open a network connection" },
                                            { "fork", "start a process" },
                                            { "exec", "start a program" } };
    (void)state;
    if (!available()) skip();
    for (size_t i = 0; i < 3; i++) {
        const answer a = ask(cases[i][0], PLUMB_SANDBOX_ON, NULL);
        assert_int_equal(a.status, PL_E_BACKEND);
        assert_int_equal(a.signal, SIGSYS);
        expect(&a, "stopped by the sandbox in run");
        expect(&a, cases[i][1]);
    }
}

/* What Landlock has no right for: modes, owners, times, attributes; and what root could use to get
 * round it: a device node of its own, typing into the user's terminal. */
static void test_sandbox__metadata_devices_and_terminals_are_out_of_reach(void **state) {
    static const char *const cases[][2] = {
        { "chmod", "Operation not permitted" },      { "chown", "Operation not permitted" },
        { "touch", "Operation not permitted" },      { "xattr", "Operation not permitted" },
        { "type", "type: Operation not permitted" }, { "terminal", "Permission denied" },
    };
    (void)state;
    if (!available()) skip();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const answer a = ask(cases[i][0], PLUMB_SANDBOX_ON, NULL);
        expect(&a, cases[i][1]);
    }
    const answer node = ask("node", PLUMB_SANDBOX_ON, NULL); /* for others than root in any case */
    if (strstr(node.message, "got through") != NULL) fail_msg("%s", node.message);
}

static void test_sandbox__threads_work(void **state) {
    (void)state;
    const answer a = ask("thread", PLUMB_SANDBOX_ON, NULL);
    if (a.status != PL_OK) fail_msg("%s", a.message);
}

static void test_sandbox__off_lifts_it(void **state) {
    static const char *const cases[] = { "read", "write", "socket", "fork", "chmod", "touch" };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const answer a = ask(cases[i], PLUMB_SANDBOX_OFF, NULL);
        expect(&a, "got through");
        assert_string_equal(a.sandbox, "off");
    }
}

static void test_sandbox__required_is_on_or_an_error(void **state) {
    (void)state;
    const answer a = ask("read", PLUMB_SANDBOX_REQUIRE, NULL);
    expect(&a, available() ? "Permission denied" : "the sandbox is required");
}

/* A wrapper that loses the guard's arguments: what is shown is what the guard has done, and a
 * required sandbox is an error before the plugin is loaded. */
static void test_sandbox__a_guard_that_was_not_asked_says_so(void **state) {
    (void)state;
    char wrapper[600], text[700];
    snprintf(wrapper, sizeof(wrapper), "%s/wrapper", secret_dir);
    snprintf(text, sizeof(text), "#!/bin/sh\nexec '%s/plumb-guard'\n", plugin_dir);
    FILE *f = fopen(wrapper, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    assert_int_equal(chmod(wrapper, 0700), 0);
    setenv("PLUMB_GUARD", wrapper, 1);
    const answer on = ask("thread", PLUMB_SANDBOX_ON, NULL);
    const answer required = ask("thread", PLUMB_SANDBOX_REQUIRE, NULL);
    unsetenv("PLUMB_GUARD");
    assert_int_equal(unlink(wrapper), 0);
    assert_int_equal(on.status, PL_OK);
    assert_string_equal(on.sandbox, available() ? "none: plumb-guard did not set it up"
                                                : "none: this kernel cannot");
    expect(&required, "the sandbox is required");
    assert_int_equal(required.status, PL_E_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox__files_outside_cannot_be_read_or_written),
        cmocka_unit_test(test_sandbox__the_models_folder_can_be_read_but_not_written),
        cmocka_unit_test(test_sandbox__connections_and_processes_are_stopped_and_named),
        cmocka_unit_test(test_sandbox__metadata_devices_and_terminals_are_out_of_reach),
        cmocka_unit_test(test_sandbox__threads_work),
        cmocka_unit_test(test_sandbox__off_lifts_it),
        cmocka_unit_test(test_sandbox__a_guard_that_was_not_asked_says_so),
        cmocka_unit_test(test_sandbox__required_is_on_or_an_error),
    };
    const ssize_t n = readlink("/proc/self/exe", plugin_dir, sizeof(plugin_dir) - 1);
    if (n < 0) return 1;
    plugin_dir[n] = '\0';
    *strrchr(plugin_dir, '/') = '\0';
    snprintf(secret_dir, sizeof(secret_dir), "/tmp/plumb-secret-XXXXXX");
    if (mkdtemp(secret_dir) == NULL) return 1;
    snprintf(secret, sizeof(secret), "%s/key", secret_dir);
    FILE *file = fopen(secret, "w");
    if (file == NULL) return 1;
    fclose(file);
    setenv("PLUMB_TEST_SECRET", secret, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(secret);
    rmdir(secret_dir);
    return failed;
}

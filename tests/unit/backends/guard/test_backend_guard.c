/* The guard: whatever a backend does, plumb lives, says what happened, and leaks nothing. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/guard/guard_parcel.h"
#include "graph/text/text.h"
#include "sanitized.h"

static const char model_text[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                 "g (float[3] x) => (float[3] y) { y = Relu(x) }\n";

typedef struct query {
    pl_model *model;
    pl_backend *backend;
    pl_program *program;
    pl_datum *in[1], *out[1];
    pl_err err;
    pl_failure failure;
    pl_status status;
} query;

static char plugin_dir[512]; /* of this program: the plugins lie beside it */

static void make_input(query *q) {
    pl_tensor *t = NULL;
    const int64_t dims[] = { 3 };
    const float values[] = { -1, 0, 2 };
    assert_int_equal(pl_tensor_new(PL_F32, 1, dims, &t, NULL), PL_OK);
    memcpy(t->data, values, sizeof(values));
    assert_int_equal(pl_datum_of_tensor_take(t, &q->in[0], NULL), PL_OK);
}

/* Opens, compiles and runs as far as it goes. */
static void query_run(query *q, const char *plugin, const char *options, double timeout,
                      uint64_t memory_limit) {
    char spec[700];
    const pl_backend_options guarded = { .guarded = true,
                                         .timeout_seconds = timeout,
                                         .memory_limit = memory_limit };
    *q = (query){ .err = PL_ERR_INIT };
    snprintf(spec, sizeof(spec), "plugin:%s/%s.so%s", plugin_dir, plugin, options);
    assert_int_equal(pl_model_parse(model_text, sizeof(model_text) - 1, "test", &q->model, &q->err),
                     PL_OK);
    make_input(q);
    q->status = pl_backend_open(spec, &guarded, &q->backend, &q->err);
    if (q->status == PL_OK) {
        q->status = pl_program_new(q->backend, q->model, NULL, &q->program, &q->err);
    }
    if (q->status == PL_OK) q->status = pl_program_run(q->program, q->in, q->out, &q->err);
    if (q->backend != NULL) q->failure = *pl_backend_failure(q->backend);
}

static void query_release(query *q) {
    pl_datum_unref(q->in[0]);
    pl_datum_unref(q->out[0]);
    pl_program_free(q->program);
    pl_backend_close(q->backend);
    pl_model_free(q->model);
}

static void expect_text(const query *q, const char *part) {
    if (strstr(q->err.message, part) == NULL) fail_msg("'%s' not in: %s", part, q->err.message);
}

static void test_guard__passes_good_results(void **state) {
    query q;
    (void)state;
    query_run(&q, "relu_plugin", "", 10, 0);
    if (q.status != PL_OK) fail_msg("%s", q.err.message);
    const float *y = q.out[0]->tensor->data;
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 2);
    assert_string_equal(pl_backend_version(q.backend), "1.0");
    query_release(&q);
}

static void test_guard__tells_crash_abort_and_exit(void **state) {
    static const struct {
        const char *options;
        int signal, exit_code;
    } cases[] = {
        { ",fault=crash", SIGSEGV, 0 },    { ",fault=abort", SIGABRT, 0 },
        { ",fault=exit", 0, 7 },           { ",fault=crash,where=compile", SIGSEGV, 0 },
        { ",fault=unmapped", SIGSEGV, 0 }, { ",fault=pointer", SIGSEGV, 0 },
    };
    (void)state;
    if (SANITIZED) skip(); /* the sanitizer turns a fault of the child into its own exit */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        query q;
        query_run(&q, "faulty_plugin", cases[i].options, 10, 0);
        assert_int_equal(q.status, PL_E_BACKEND);
        assert_true(q.failure.happened);
        assert_int_equal(q.failure.signal, cases[i].signal);
        assert_int_equal(q.failure.exit_code, cases[i].exit_code);
        if (strstr(cases[i].options, "unmapped") == NULL &&
            strstr(cases[i].options, "pointer") == NULL) {
            assert_non_null(strstr(q.failure.stderr_tail, "about to"));
            expect_text(&q, "last output: about to");
        }
        query_release(&q);
    }
}

static void test_guard__tells_a_crash_while_opening(void **state) {
    query q;
    (void)state;
    query_run(&q, "faulty_plugin", ",fault=abort,where=open", 10, 0);
    assert_int_equal(q.status, PL_E_BACKEND);
    expect_text(&q, "signal 6");
    query_release(&q);
}

static void test_guard__ends_a_hang_at_the_time_out(void **state) {
    query q;
    struct timespec a, b;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &a);
    query_run(&q, "faulty_plugin", ",fault=hang", 0.3, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_int_equal(q.status, PL_E_TIMEOUT);
    assert_true(q.failure.timed_out);
    assert_true(b.tv_sec - a.tv_sec < 5);
    query_release(&q);
}

static void test_guard__ends_what_eats_memory(void **state) {
    query q;
    (void)state;
    query_run(&q, "faulty_plugin", ",fault=memory", 60, 200u << 20);
    assert_int_equal(q.status, PL_E_BACKEND);
    assert_true(q.failure.out_of_memory);
    expect_text(&q, "more than 200 MB");
    query_release(&q);
}

static void test_guard__names_bad_results(void **state) {
    static const struct {
        const char *options, *part;
    } cases[] = {
        { ",fault=error", "no luck today" },
        { ",fault=nothing", "returned nothing for output 'y'" },
        { ",fault=extra", "returned more than 1 output" },
        { ",fault=shape", "returned output 'y' as float[5], but the model declares float[3]" },
        { ",fault=dtype", "returned output 'y' as int32[3], but the model declares float[3]" },
        { ",fault=null", "no data given" },
        { ",fault=short", "got 8 bytes for float[5], expected 20" },
        { ",fault=input", "modified its inputs" },
        { ",fault=model", "modified the model while it compiled" },
        { ",fault=late-model", "modified the model while it ran" },
        { ",fault=garbage", "sent an invalid message" },
        { ",fault=close", "closed its connection to plumb in run" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        query q;
        query_run(&q, "faulty_plugin", cases[i].options, 10, 0);
        assert_int_equal(q.status, PL_E_BACKEND);
        expect_text(&q, cases[i].part);
        query_release(&q);
    }
}

static void test_guard__asks_what_is_supported(void **state) {
    query q;
    pl_backend *b = NULL;
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 10 };
    (void)state;
    query_run(&q, "relu_plugin", "", 10, 0); /* its first child serves a program now */
    assert_int_equal(pl_backend_supports(q.backend, "", "Relu", 17), 1);
    assert_int_equal(pl_backend_supports(q.backend, "", "Tanh", 17), 0);
    assert_int_equal(pl_backend_supports(q.backend, "other", "Relu", 1), 0);
    query_release(&q);
    query_run(&q, "faulty_plugin", "", 10, 0); /* leaves the slot empty */
    assert_int_equal(pl_backend_supports(q.backend, "", "Relu", 17), -1);
    query_release(&q);
    assert_int_equal(pl_backend_open("eager", &guarded, &b, NULL), PL_OK);
    assert_int_equal(pl_backend_supports(b, "", "Relu", 17), 1);
    assert_int_equal(pl_backend_supports(b, "", "Nonsense", 17), 0);
    pl_backend_close(b);
}

static void test_guard__synchronize_finds_a_late_fault(void **state) {
    query q;
    (void)state;
    query_run(&q, "faulty_plugin", ",fault=late", 10, 0);
    assert_int_equal(q.status, PL_E_BACKEND);
    expect_text(&q, "the device was lost");
    query_release(&q);
}

static size_t count_fds(void) {
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static size_t count_children(pid_t pid) {
    char path[64], text[4096];
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    while (fscanf(f, "%4095s", text) == 1)
        n++;
    fclose(f);
    return n;
}

static void test_guard__survives_1000_crashes(void **state) {
    query q;
    char spec[700];
    pl_backend *b = NULL;
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 10 };
    (void)state;
    if (SANITIZED) skip(); /* the sanitizer turns a fault of the child into its own exit */
    query_run(&q, "relu_plugin", "", 10, 0);
    snprintf(spec, sizeof(spec), "plugin:%s/faulty_plugin.so,fault=abort", plugin_dir);
    assert_int_equal(pl_backend_open(spec, &guarded, &b, NULL), PL_OK);
    const size_t before = count_fds();
    for (int i = 0; i < 1000; i++) {
        pl_program *p = NULL;
        pl_datum *out[1] = { NULL };
        assert_int_equal(pl_program_new(b, q.model, NULL, &p, NULL), PL_OK);
        assert_int_equal(pl_program_run(p, q.in, out, NULL), PL_E_BACKEND);
        assert_int_equal(pl_backend_failure(b)->signal, SIGABRT);
        pl_program_free(p);
    }
    assert_true(count_fds() <= before); /* the probe's socket is gone */
    pl_backend_close(b);
    query_release(&q);
    assert_int_equal(count_children(getpid()), 0);
}

/* Entries of a folder, without . and .. */
static size_t count_entries(const char *path) {
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 2;
}

/* A child is killed when it is not wanted any more, and then cleans nothing up itself. */
static void test_guard__leaves_no_files(void **state) {
    char folder[] = "/tmp/plumb-test-XXXXXX", before[600];
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 10 };
    const char *tmp = getenv("TMPDIR");
    query q;
    pl_backend *b = NULL;
    pl_program *p = NULL;
    pl_datum *out[1] = { NULL };
    (void)state;
    query_run(&q, "relu_plugin", "", 10, 0); /* for its model and input */
    snprintf(before, sizeof(before), "%s", tmp == NULL ? "" : tmp);
    assert_non_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    assert_int_equal(pl_backend_open("cmd:/bin/true", &guarded, &b, NULL), PL_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pl_program_new(b, q.model, NULL, &p, NULL), PL_OK);
        assert_int_equal(pl_program_run(p, q.in, out, NULL), PL_E_BACKEND); /* left no output */
        pl_program_free(p);
    }
    assert_int_equal(count_entries(folder), 1); /* the guard's */
    pl_backend_close(b);
    assert_int_equal(count_entries(folder), 0);
    if (tmp == NULL) {
        unsetenv("TMPDIR");
    } else {
        setenv("TMPDIR", before, 1);
    }
    assert_int_equal(rmdir(folder), 0);
    query_release(&q);
}

/* A daemon may have closed its standard streams: their numbers are then given to other things. */
static void test_guard__needs_no_standard_streams(void **state) {
    (void)state;
    if (SANITIZED) skip(); /* the sanitizer turns a fault of the child into its own exit */
    for (int closed = 1; closed < 8; closed++) {
        int status = 0;
        const pid_t pid = fork();
        if (pid == 0) {
            query q;
            for (int fd = 0; fd < 3; fd++)
                if ((closed >> fd & 1) != 0) close(fd);
            query_run(&q, "relu_plugin", "", 10, 0);
            const int first = q.status == PL_OK ? 0 : 1;
            query_run(&q, "faulty_plugin", ",fault=abort", 10, 0);
            _exit(first + (strstr(q.failure.stderr_tail, "about to") != NULL ? 0 : 2));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0) fail_msg("streams %d closed: %d", closed, WEXITSTATUS(status));
    }
}

static void test_parcel__carries_everything(void **state) {
    pl_tensor *t = NULL;
    pl_datum *strings = NULL, *list = NULL, *none = NULL;
    pl_parcel parcel;
    int fd = -1;
    const int64_t dims[] = { 2 };
    char a[] = "a", empty[] = "", b[] = "b", c[] = "c";
    (void)state;
    assert_int_equal(pl_tensor_new(PL_STRING, 1, dims, &t, NULL), PL_OK);
    assert_int_equal(pl_tensor_set_string(t, 1, "x\0y", 3, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(t, &strings, NULL), PL_OK);
    pl_datum *two[] = { strings, strings };
    assert_int_equal(pl_datum_new_sequence(PL_TYPE_TENSOR, PL_STRING, two, 2, &list, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_TENSOR, PL_F32, NULL, &none, NULL), PL_OK);
    const pl_parcel_item items[] = { { a, strings }, { empty, NULL }, { b, list }, { c, none } };
    assert_int_equal(pl_parcel_write(items, 4, &fd, NULL), PL_OK);
    assert_int_equal(pl_parcel_read(fd, false, &parcel, NULL), PL_OK);
    assert_int_equal(parcel.n_items, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(parcel.items[i].name, items[i].name);
        assert_true(pl_datum_identical(parcel.items[i].datum, items[i].datum));
    }
    pl_parcel_release(&parcel);
    close(fd);
    pl_datum_unref(strings);
    pl_datum_unref(list);
    pl_datum_unref(none);
}

/* Weights of one number travel as one element. */
static void test_parcel__sends_one_number_once(void **state) {
    const int64_t dims[] = { 3 << 20 }, few[] = { 3 };
    static const float seven = 7;
    pl_tensor *t = NULL, *almost = NULL;
    pl_datum *d[2] = { NULL };
    char a[] = "a", b[] = "b";
    pl_parcel parcel;
    int fd = -1;
    (void)state;
    assert_int_equal(pl_tensor_new_filled(PL_F32, 1, dims, &seven, &t, NULL), PL_OK);
    assert_int_equal(pl_tensor_copy(t, &almost, NULL), PL_OK);
    ((float *)almost->data)[dims[0] - 1] = 8;
    assert_int_equal(pl_datum_of_tensor_take(t, &d[0], NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(almost, &d[1], NULL), PL_OK);
    for (int i = 0; i < 2; i++) {
        struct stat info;
        const pl_parcel_item items[] = { { i == 0 ? a : b, d[i] } };
        assert_int_equal(pl_parcel_write(items, 1, &fd, NULL), PL_OK);
        assert_int_equal(fstat(fd, &info), 0);
        assert_int_equal(info.st_size < 4096, i == 0);
        assert_int_equal(pl_parcel_read(fd, false, &parcel, NULL), PL_OK);
        assert_true(pl_datum_identical(parcel.items[0].datum, d[i]));
        pl_parcel_release(&parcel);
        close(fd);
        pl_datum_unref(d[i]);
    }
    /* Declared for a small tensor, or with another number of bytes: refused. */
    assert_int_equal(pl_tensor_new_zero(PL_F32, 1, few, &t, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(t, &d[0], NULL), PL_OK);
    const pl_parcel_item items[] = { { a, d[0] } };
    assert_int_equal(pl_parcel_write(items, 1, &fd, NULL), PL_OK);
    char bytes[512];
    const ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    close(fd);
    pl_datum_unref(d[0]);
    /* field 6 (12 bytes) becomes field 9 */
    char *at = memmem(bytes, (size_t)n, "\x30\x0c", 2);
    assert_non_null(at);
    *at = 0x48;
    assert_int_equal(pl_parcel_write_bytes(bytes, (size_t)n, &fd, NULL), PL_OK);
    assert_int_equal(pl_parcel_read(fd, false, &parcel, NULL), PL_E_BACKEND);
    close(fd);
}

/* Every byte of a parcel flipped in turn: an answer or an error, never a crash. */
static void test_parcel__survives_flipped_bytes(void **state) {
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    const int64_t dims[] = { 2, 2 };
    char bytes[512], name[] = "value";
    int fd = -1;
    (void)state;
    assert_int_equal(pl_tensor_new_zero(PL_F32, 2, dims, &t, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    const pl_parcel_item items[] = { { name, d } };
    assert_int_equal(pl_parcel_write(items, 1, &fd, NULL), PL_OK);
    const ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    close(fd);
    pl_datum_unref(d);
    assert_true(n > 64);
    for (ssize_t i = 0; i < n; i++) {
        pl_parcel parcel;
        bytes[i] = (char)(bytes[i] ^ 0x7f);
        assert_int_equal(pl_parcel_write_bytes(bytes, (size_t)n, &fd, NULL), PL_OK);
        if (pl_parcel_read(fd, false, &parcel, NULL) == PL_OK) pl_parcel_release(&parcel);
        close(fd);
        bytes[i] = (char)(bytes[i] ^ 0x7f);
    }
}

int main(void) {
    const ssize_t n = readlink("/proc/self/exe", plugin_dir, sizeof(plugin_dir) - 1);
    if (n <= 0) return 1;
    plugin_dir[n] = '\0';
    *strrchr(plugin_dir, '/') = '\0';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__passes_good_results),
        cmocka_unit_test(test_guard__tells_crash_abort_and_exit),
        cmocka_unit_test(test_guard__tells_a_crash_while_opening),
        cmocka_unit_test(test_guard__ends_a_hang_at_the_time_out),
        cmocka_unit_test(test_guard__ends_what_eats_memory),
        cmocka_unit_test(test_guard__names_bad_results),
        cmocka_unit_test(test_guard__asks_what_is_supported),
        cmocka_unit_test(test_guard__synchronize_finds_a_late_fault),
        cmocka_unit_test(test_guard__survives_1000_crashes),
        cmocka_unit_test(test_guard__leaves_no_files),
        cmocka_unit_test(test_guard__needs_no_standard_streams),
        cmocka_unit_test(test_parcel__carries_everything),
        cmocka_unit_test(test_parcel__sends_one_number_once),
        cmocka_unit_test(test_parcel__survives_flipped_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

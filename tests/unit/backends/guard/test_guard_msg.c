/* Messages of the guard: fields by name, and nothing believed that is no message. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/guard/guard_msg.h"

static void open_pair(int ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_pair(const int ends[2]) {
    close(ends[0]);
    close(ends[1]);
}

static void test_guard_msg__carries_fields_and_descriptors(void **state) {
    int ends[2];
    pl_guard_msg m, got;
    (void)state;
    open_pair(ends);
    pl_guard_msg_init(&m, PL_MSG_COMPILE);
    m.compile.seed = UINT64_MAX;
    m.compile.n_inputs = 3;
    assert_true(PL_GUARD_SET(m.compile.path, "a/model.onnx"));
    m.fds[0] = ends[0];
    assert_int_equal(pl_guard_send(ends[0], &m, 0), 0);
    assert_int_equal(pl_guard_receive(ends[1], &got, 0), 0);
    assert_int_equal(got.type, PL_MSG_COMPILE);
    assert_true(got.compile.seed == UINT64_MAX);
    assert_int_equal(got.compile.n_inputs, 3);
    assert_int_equal(got.compile.threads, 0);
    assert_string_equal(got.compile.path, "a/model.onnx");
    assert_true(got.fds[0] >= 0 && got.fds[0] != ends[0]);
    assert_int_equal(got.fds[1], -1);
    pl_guard_msg_close(&got);
    close_pair(ends);
}

/* Every type at its own length, and at no other. */
static void test_guard_msg__refuses_other_lengths(void **state) {
    int ends[2];
    char bytes[sizeof(pl_guard_msg) + 64] = { 0 };
    (void)state;
    open_pair(ends);
    for (uint64_t type = 0; type < PL_MSG_TYPES + 3; type++) {
        pl_guard_msg m, got;
        size_t n_right = 0, n_taken = 0;
        memcpy(bytes, &type, sizeof(type));
        if (type > PL_MSG_NONE && type < PL_MSG_TYPES) {
            pl_guard_msg_init(&m, (pl_guard_type)type);
            assert_int_equal(pl_guard_send(ends[0], &m, 0), 0);
            n_right = (size_t)recv(ends[1], bytes + 8, sizeof(bytes) - 8, MSG_PEEK | MSG_TRUNC);
            assert_int_equal(pl_guard_receive(ends[1], &got, 0), 0);
            assert_int_equal(got.type, type);
            memcpy(bytes, &type, sizeof(type));
        }
        for (size_t n = 1; n <= sizeof(bytes); n += n < 80 ? 1 : 61) {
            if (n == n_right) continue;
            assert_int_equal(send(ends[0], bytes, n, 0), (ssize_t)n);
            n_taken += pl_guard_receive(ends[1], &got, 0) == 0;
            assert_int_equal(got.type, PL_MSG_NONE);
        }
        assert_int_equal(n_taken, 0);
    }
    close_pair(ends);
}

static void test_guard_msg__ends_every_text(void **state) {
    int ends[2];
    pl_guard_msg m, got;
    (void)state;
    open_pair(ends);
    pl_guard_msg_init(&m, PL_MSG_OPENED);
    memset(m.opened.version, 'v', sizeof(m.opened.version));
    memset(m.opened.modes, 'm', sizeof(m.opened.modes));
    assert_int_equal(pl_guard_send(ends[0], &m, 0), 0);
    assert_int_equal(pl_guard_receive(ends[1], &got, 0), 0);
    assert_int_equal(strlen(got.opened.version), sizeof(got.opened.version) - 1);
    assert_int_equal(strlen(got.opened.modes), sizeof(got.opened.modes) - 1);
    close_pair(ends);
}

static void test_guard_msg__says_when_a_text_does_not_fit(void **state) {
    char field[4];
    (void)state;
    assert_true(PL_GUARD_SET(field, "abc"));
    assert_string_equal(field, "abc");
    assert_false(PL_GUARD_SET(field, "abcd"));
    assert_string_equal(field, "abc");
}

static void test_guard_msg__ends_with_the_socket(void **state) {
    int ends[2];
    pl_guard_msg got;
    (void)state;
    open_pair(ends);
    assert_int_equal(pl_guard_receive(ends[1], &got, MSG_DONTWAIT), EAGAIN);
    close(ends[0]);
    assert_int_equal(pl_guard_receive(ends[1], &got, 0), ECONNRESET);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_msg__carries_fields_and_descriptors),
        cmocka_unit_test(test_guard_msg__refuses_other_lengths),
        cmocka_unit_test(test_guard_msg__ends_every_text),
        cmocka_unit_test(test_guard_msg__says_when_a_text_does_not_fit),
        cmocka_unit_test(test_guard_msg__ends_with_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

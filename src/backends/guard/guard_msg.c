/* Sending and receiving guard messages. */
#include "backends/guard/guard_msg.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = offsetof(pl_guard_msg, fork), RECORD_MAX = offsetof(pl_guard_msg, fds) };

/* Bytes of a record, its head included; 0 = no such type. */
static size_t record_bytes(uint64_t type) {
    static const size_t sizes[PL_MSG_TYPES] = {
#define PL_MSG(TYPE, member, fields) [PL_MSG_##TYPE] = HEAD_BYTES + sizeof(pl_msg_##member),
#include "backends/guard/guard_msg.def"
#undef PL_MSG
    };
    return type < PL_MSG_TYPES ? sizes[type] : 0;
}

/* Messages come from another process: make sure that each text is terminated. */
#define NUMBER(name)
#define TEXT(name, n_bytes) body->name[(n_bytes)-1] = '\0';
#define PL_MSG(TYPE, member, fields)                                                               \
    static void end_texts_of_##member(pl_msg_##member *body) {                                     \
        (void)body;                                                                                \
        fields                                                                                     \
    }
#include "backends/guard/guard_msg.def"
#undef PL_MSG
#undef NUMBER
#undef TEXT

static void end_texts(pl_guard_msg *msg) {
    switch (msg->type) {
#define PL_MSG(TYPE, member, fields)                                                               \
    case PL_MSG_##TYPE:                                                                            \
        end_texts_of_##member(&msg->member);                                                       \
        return;
#include "backends/guard/guard_msg.def"
#undef PL_MSG
    default: return;
    }
}

void pl_guard_msg_init(pl_guard_msg *msg, pl_guard_type type) {
    memset(msg, 0, HEAD_BYTES + (type == PL_MSG_NONE ? 0 : record_bytes(type) - HEAD_BYTES));
    msg->type = type;
    for (size_t i = 0; i < PL_GUARD_FDS; i++)
        msg->fds[i] = -1;
}

bool pl_guard_set(char *field, size_t n_field, const char *text) {
    const size_t n = strlen(text), n_kept = n < n_field ? n : n_field - 1;
    memcpy(field, text, n_kept);
    field[n_kept] = '\0';
    return n_kept == n;
}

typedef union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PL_GUARD_FDS * sizeof(int))];
} control;

int pl_guard_send(int socket, const pl_guard_msg *msg, int flags) {
    control c;
    struct iovec part = { (void *)(uintptr_t)msg, record_bytes(msg->type) };
    struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };
    size_t n = 0;
    while (n < PL_GUARD_FDS && msg->fds[n] >= 0)
        n++;
    if (n > 0) {
        memset(&c, 0, sizeof(c));
        head.msg_control = c.bytes;
        head.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&head);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(cmsg), msg->fds, n * sizeof(int));
    }
    for (;;) {
        if (sendmsg(socket, &head, MSG_NOSIGNAL | flags) >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

/* Everything that came is either kept in msg->fds or closed. */
static void take_fds(struct msghdr *head, pl_guard_msg *msg) {
    size_t n_kept = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c != NULL; c = CMSG_NXTHDR(head, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (n_kept < PL_GUARD_FDS) {
                msg->fds[n_kept++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

int pl_guard_receive(int socket, pl_guard_msg *msg, int flags) {
    control c;
    struct iovec part = { msg, RECORD_MAX };
    struct msghdr head = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)
    };
    pl_guard_msg_init(msg, PL_MSG_NONE);
    ssize_t n;
    do
        n = recvmsg(socket, &head, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno;
    if (n == 0) return ECONNRESET;
    take_fds(&head, msg);
    if (n < HEAD_BYTES || (size_t)n != record_bytes(msg->type) ||
        (head.msg_flags & MSG_TRUNC) != 0) {
        pl_guard_msg_close(msg);
        msg->type = PL_MSG_NONE;
        return EPROTO;
    }
    end_texts(msg);
    return 0;
}

void pl_guard_msg_close(pl_guard_msg *msg) {
    for (size_t i = 0; i < PL_GUARD_FDS; i++) {
        if (msg->fds[i] >= 0) close(msg->fds[i]);
        msg->fds[i] = -1;
    }
}

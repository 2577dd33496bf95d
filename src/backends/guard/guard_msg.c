/* Sending and receiving guard messages. */
#include "backends/guard/guard_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORD_BYTES = offsetof(pl_guard_msg, fds) };

typedef union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PL_GUARD_FDS * sizeof(int))];
} control;

int pl_guard_send(int socket, const pl_guard_msg *msg, int flags) {
    control c;
    pl_guard_msg copy = *msg;
    struct iovec part = { &copy, RECORD_BYTES };
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
    struct iovec part = { msg, RECORD_BYTES };
    struct msghdr head = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes)
    };
    *msg = PL_GUARD_MSG(PL_MSG_NONE);
    ssize_t n;
    do
        n = recvmsg(socket, &head, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno;
    if (n == 0) return ECONNRESET;
    take_fds(&head, msg);
    msg->text[PL_GUARD_TEXT - 1] = '\0';
    if (n != RECORD_BYTES || msg->type >= PL_MSG_TYPES || (head.msg_flags & MSG_TRUNC) != 0) {
        pl_guard_msg_close(msg);
        return EPROTO;
    }
    return 0;
}

void pl_guard_msg_close(pl_guard_msg *msg) {
    for (size_t i = 0; i < PL_GUARD_FDS; i++) {
        if (msg->fds[i] >= 0) close(msg->fds[i]);
        msg->fds[i] = -1;
    }
}

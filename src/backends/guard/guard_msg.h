/* Messages between plumb, plumb-guard and its children: one fixed record over a SOCK_SEQPACKET
 * socket, with up to two file descriptors. Bulk goes into memfds (guard_parcel.h). */
#ifndef PL_GUARD_MSG_H
#define PL_GUARD_MSG_H

#include <stdint.h>

#include "base/status.h"

typedef enum pl_guard_type {
    PL_MSG_NONE,
    /* plumb to guard */
    PL_MSG_FORK,    /* number: id, memory limit; fd: the child's end */
    PL_MSG_KILL,    /* number: id, 1 = tell the end */
    PL_MSG_PRELOAD, /* text: spec that a child has opened without harm and without threads */
    /* guard to plumb */
    PL_MSG_ENDED, /* number: id, signal, exit code, 1 = memory limit; text: tail of stderr */
    /* plumb to child */
    PL_MSG_OPEN,     /* text: spec */
    PL_MSG_COMPILE,  /* number: seed, threads, any_shape, record, has path, n_inputs; text: path;
                        fds: the model, a parcel with the names of inputs and outputs */
    PL_MSG_RUN,      /* number: n_in, recording, mode, limit of values held, has plain, has names,
                        limit of the guard;
                        fd: a parcel with inputs, then plain outputs, then wanted names */
    PL_MSG_EXECUTED, /* the graph that runs, please */
    PL_MSG_SUPPORTS, /* text: operator, NUL, domain; number: opset. Answer in number */
    /* child to plumb */
    PL_MSG_REPLY, /* status; text: message, or version; fd: a parcel; to OPEN: number of threads,
                     features of the CPU */
    PL_MSG_VALUE, /* fd: a parcel with one value, then the names of what it stands for; number: 1 =
                     those count, also when there are none */
    PL_MSG_TYPES
} pl_guard_type;

enum { PL_GUARD_NUMBERS = 8, PL_GUARD_TEXT = 4096, PL_GUARD_FDS = 2 };

typedef struct pl_guard_msg {
    uint32_t type;
    int32_t status;
    uint64_t number[PL_GUARD_NUMBERS];
    char text[PL_GUARD_TEXT];
    int fds[PL_GUARD_FDS]; /* -1 = none; not part of the record: they travel beside it */
} pl_guard_msg;

#define PL_GUARD_MSG(type_)                                                                        \
    (pl_guard_msg) {                                                                               \
        .type = (type_), .fds = { -1, -1 }                                                         \
    }

/* 0, or an errno. The descriptors stay the caller's. */
int pl_guard_send(int socket, const pl_guard_msg *msg, int flags);
/* 0; ECONNRESET at the end; EAGAIN; or another errno. Descriptors become the caller's. */
int pl_guard_receive(int socket, pl_guard_msg *msg, int flags);
void pl_guard_msg_close(pl_guard_msg *msg); /* its descriptors */

#endif

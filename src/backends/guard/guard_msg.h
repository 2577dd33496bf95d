/* Messages between plumb, plumb-guard and its children (guard_msg.def): one record with named
 * fields over a SOCK_SEQPACKET socket, with up to two file descriptors. Bulk goes into memfds
 * (guard_parcel.h). */
#ifndef PL_GUARD_MSG_H
#define PL_GUARD_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum pl_guard_type {
    PL_MSG_NONE,
#define PL_MSG(TYPE, member, fields) PL_MSG_##TYPE,
#include "backends/guard/guard_msg.def"
#undef PL_MSG
    PL_MSG_TYPES
} pl_guard_type;

enum { PL_GUARD_FDS = 2 };

/* How later recordings treat values that a recording had before. Told to be REMEMBERed, the child
 * keeps their hashes; then, in a recording that COMPAREs, values with the same bits come without
 * data: seen->datum is NULL. */
typedef enum pl_again { PL_AGAIN_NONE, PL_AGAIN_REMEMBER, PL_AGAIN_COMPARE } pl_again;

#define NUMBER(name) uint64_t name;
#define TEXT(name, n_bytes) char name[n_bytes];
#define PL_MSG(TYPE, member, fields)                                                               \
    typedef struct pl_msg_##member {                                                               \
        fields                                                                                     \
    } pl_msg_##member;
#include "backends/guard/guard_msg.def"
#undef PL_MSG
#undef NUMBER
#undef TEXT

typedef struct pl_guard_msg {
    uint64_t type;
    union { /* the member for `type` */
#define PL_MSG(TYPE, member, fields) pl_msg_##member member;
#include "backends/guard/guard_msg.def"
#undef PL_MSG
    };
    int fds[PL_GUARD_FDS]; /* -1 = none; not part of the record: they travel beside it */
} pl_guard_msg;

/* All fields 0 and "". */
void pl_guard_msg_init(pl_guard_msg *msg, pl_guard_type type);
/* 0, or an errno. The caller keeps the descriptors. */
int pl_guard_send(int socket, const pl_guard_msg *msg, int flags);
/* 0; ECONNRESET at the end; EAGAIN; EPROTO if it is not a valid message; or another errno. The
 * caller owns the descriptors. Every text is terminated. */
int pl_guard_receive(int socket, pl_guard_msg *msg, int flags);
void pl_guard_msg_close(pl_guard_msg *msg); /* its descriptors */
/* Copies into a TEXT field; false if it does not fit. */
#define PL_GUARD_SET(field, text) pl_guard_set(field, sizeof(field), text)
bool pl_guard_set(char *field, size_t n_field, const char *text);

#endif

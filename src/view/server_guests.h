/* Private to src/view: the connections of a server, and which of them may stay.
 *
 * A guest is trusted while a request with the token is being answered. Thread-safe. */
#ifndef PL_SERVER_GUESTS_H
#define PL_SERVER_GUESTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Sockets that the daemon may have at once: guests, closing ones, and some spare. */
enum { PL_GUESTS_SOCKETS = 160 };

typedef struct pl_guest pl_guest;
typedef struct pl_guests {
    pthread_mutex_t mutex;
    pthread_t thread;
    pl_guest *first, *last;
    size_t n;
    bool watched, closing;
} pl_guests;

bool pl_guests_init(pl_guests *all); /* false: cannot create a thread */
void pl_guests_release(pl_guests *all);
/* May one more connect? May disconnect another one for it. */
bool pl_guests_admit(pl_guests *all);
pl_guest *pl_guests_enter(pl_guests *all, int fd); /* NULL = out of memory */
void pl_guests_leave(pl_guests *all, pl_guest *g);
void pl_guests_trust(pl_guests *all, pl_guest *g, bool trusted);

#endif

/* Connections. A client that has not sent a complete request with the token within a few seconds is
 * disconnected, sooner when others are waiting: idle clients cannot exhaust the slots. */
#include "view/server_guests.h"

#include <stdint.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { GUESTS_MAX = 96, GUESTS_LEAVING = 32, HEAD_MS = 10000, LOOK_MS = 500 };

struct pl_guest {
    int fd;
    int64_t since; /* ms: connected, or last request done */
    bool trusted;  /* a request is being answered */
    bool cut;
    pl_guest *previous, *next;
};

/* Its thread sees the end of input; the socket stays open until that thread ends. */
static void cut(pl_guest *g) {
    g->cut = true;
    (void)shutdown(g->fd, SHUT_RDWR);
}

static void *look(void *ctx) {
    pl_guests *all = ctx;
    const struct timespec pause = { 0, LOOK_MS * 1000000L };
    for (;;) {
        pthread_mutex_lock(&all->mutex);
        const bool closing = all->closing;
        const int64_t oldest = pl_clock_ms() - HEAD_MS;
        for (pl_guest *g = all->first; g != NULL && !closing; g = g->next)
            if (!g->trusted && !g->cut && g->since < oldest) cut(g);
        pthread_mutex_unlock(&all->mutex);
        if (closing) return NULL;
        nanosleep(&pause, NULL);
    }
}

bool pl_guests_init(pl_guests *all) {
    pthread_mutex_init(&all->mutex, NULL);
    all->watched = pthread_create(&all->thread, NULL, look, all) == 0;
    return all->watched;
}

void pl_guests_release(pl_guests *all) {
    if (!all->watched) return;
    pthread_mutex_lock(&all->mutex);
    all->closing = true;
    pthread_mutex_unlock(&all->mutex);
    pthread_join(all->thread, NULL);
    pthread_mutex_destroy(&all->mutex);
    all->watched = false;
}

bool pl_guests_admit(pl_guests *all) {
    pthread_mutex_lock(&all->mutex);
    pl_guest *oldest = NULL;
    for (pl_guest *g = all->first; g != NULL; g = g->next) /* oldest first */
        if (!g->trusted && !g->cut && (oldest == NULL || g->since < oldest->since)) oldest = g;
    bool admitted = all->n < GUESTS_MAX;
    if (!admitted && oldest != NULL) {
        cut(oldest);
        admitted = all->n < GUESTS_MAX + GUESTS_LEAVING;
    }
    pthread_mutex_unlock(&all->mutex);
    return admitted;
}

pl_guest *pl_guests_enter(pl_guests *all, int fd) {
    pl_guest *g = pl_calloc(1, sizeof *g);
    if (g == NULL) return NULL;
    g->fd = fd;
    g->since = pl_clock_ms();
    pthread_mutex_lock(&all->mutex);
    g->previous = all->last;
    if (all->last != NULL) {
        all->last->next = g;
    } else {
        all->first = g;
    }
    all->last = g;
    all->n++;
    pthread_mutex_unlock(&all->mutex);
    return g;
}

void pl_guests_leave(pl_guests *all, pl_guest *g) {
    if (g == NULL) return;
    pthread_mutex_lock(&all->mutex);
    if (g->previous != NULL) {
        g->previous->next = g->next;
    } else {
        all->first = g->next;
    }
    if (g->next != NULL) {
        g->next->previous = g->previous;
    } else {
        all->last = g->previous;
    }
    all->n--;
    pthread_mutex_unlock(&all->mutex);
    pl_free(g);
}

void pl_guests_trust(pl_guests *all, pl_guest *g, bool trusted) {
    if (g == NULL) return;
    pthread_mutex_lock(&all->mutex);
    g->trusted = trusted;
    g->since = pl_clock_ms();
    pthread_mutex_unlock(&all->mutex);
}

#include "flows/corpus/hand.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flows/corpus/journal.h"
#include "flows/corpus/task.h"

enum { FIELDS_MAX = 4, LOOK_MS = 1000, NAP_NS = 1000000 };

typedef enum place_state { PLACE_IDLE, PLACE_READY, PLACE_FINISHED } place_state;

typedef struct hand_work hand_work;
typedef struct place { /* a thread, with the task that it has */
    hand_work *all;
    pl_spawner *spawner;
    pthread_t thread;
    bool started;
    place_state state;
    char *key, *request;
    pl_task_state task;
    pl_status st;
    pl_err err;
} place;

struct hand_work {
    pl_ranks *ranks;
    const pl_hand_job *job;
    pl_dir *dir;
    pl_journal journal;
    char foreman_part[100];
    place *places;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_int stopped;
    int64_t looked_ms;
    bool ended;     /* the foreman said so */
    bool abandoned; /* the foreman died */
    bool broken;    /* other ranks died */
};

/* ---- threads ---- */

static int is_stopped(void *ctx, const char *phase, int64_t done, int64_t total) {
    (void)phase;
    (void)done;
    (void)total;
    return atomic_load(&((hand_work *)ctx)->stopped);
}

static void *work(void *ctx) {
    place *p = ctx;
    hand_work *h = p->all;
    const pl_progress progress = { is_stopped, h };
    const pl_task_place at = { h->job->program, h->job->timeout, &h->journal, p->spawner,
                               &progress };
    pthread_mutex_lock(&h->mutex);
    for (;;) {
        while (p->state != PLACE_READY && !atomic_load(&h->stopped))
            pthread_cond_wait(&h->changed, &h->mutex);
        if (p->state != PLACE_READY || atomic_load(&h->stopped)) break;
        pthread_mutex_unlock(&h->mutex);
        const pl_status st = pl_task_run(&at, p->key, p->request, &p->task, &p->err);
        pthread_mutex_lock(&h->mutex);
        p->st = st;
        p->state = PLACE_FINISHED;
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

static pl_status start_threads(hand_work *h, pl_err *err) {
    h->places = pl_calloc(h->job->n_spawners + 1, sizeof *h->places);
    if (h->places == NULL) return pl_fail_memory(err, sizeof *h->places);
    for (size_t i = 0; i < h->job->n_spawners; i++) {
        place *p = &h->places[i];
        *p = (place){ .all = h, .spawner = h->job->spawners[i], .err = PL_ERR_INIT };
        p->started = pthread_create(&p->thread, NULL, work, p) == 0;
        if (!p->started) return pl_fail(err, PL_E_MEMORY, "cannot create a thread");
    }
    return PL_OK;
}

static void stop_threads(hand_work *h) {
    pthread_mutex_lock(&h->mutex);
    atomic_store(&h->stopped, 1);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    for (size_t i = 0; h->places != NULL && i < h->job->n_spawners; i++) {
        if (h->places[i].started) pthread_join(h->places[i].thread, NULL);
        pl_free(h->places[i].key);
        pl_free(h->places[i].request);
        pl_free(h->places[i].task.text);
    }
    pl_free(h->places);
}

/* ---- messages ---- */

static pl_status say(hand_work *h, pl_crew_message what, const char *const *fields, size_t n,
                     pl_err *err) {
    pl_buf message = PL_BUF_INIT;
    pl_buf_putc(&message, (char)what);
    for (size_t i = 0; i < n; i++)
        pl_buf_append(&message, fields[i], strlen(fields[i]) + 1);
    const pl_status st = pl_ranks_send(h->ranks, 0, &message, h->job->progress, err);
    pl_buf_release(&message);
    return st;
}

static void say_failed(hand_work *h, const char *key, pl_status st, const pl_err *why) {
    char number[16];
    (void)snprintf(number, sizeof number, "%d", (int)st);
    const char *const fields[] = { key, number, why->message };
    (void)say(h, PL_SAY_FAILED, fields, 3, NULL);
}

static bool split(const pl_buf *message, const char *fields[FIELDS_MAX], size_t wanted) {
    const char *at = message->data + 1, *end = message->data + message->n_bytes;
    for (size_t i = 0; i < wanted; i++) {
        const char *stop = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (stop == NULL) return false;
        fields[i] = at;
        at = stop + 1;
    }
    return true;
}

static pl_status open_journal(hand_work *h, const pl_buf *message, pl_err *err) {
    const char *fields[FIELDS_MAX];
    char places[24];
    if (h->dir != NULL || !split(message, fields, 4))
        return pl_fail(err, PL_E_INTERNAL, "rank 0 sent an unknown message");
    (void)snprintf(h->foreman_part, sizeof h->foreman_part, "%s", fields[2]);
    PL_TRY(pl_dir_open(fields[0], &h->dir, err));
    PL_TRY(pl_journal_open(h->dir, fields[1], fields[3][0] != '\0', &h->journal, err));
    PL_TRY(pl_task_note_open(&h->journal, err));
    PL_TRY(start_threads(h, err));
    (void)snprintf(places, sizeof places, "%zu", h->job->n_spawners);
    const char *const answer[] = { places };
    return say(h, PL_SAY_OPENED, answer, 1, err);
}

static pl_status take_task(hand_work *h, const pl_buf *message, pl_err *err) {
    const char *fields[FIELDS_MAX];
    pl_status st = PL_OK;
    if (h->places == NULL || !split(message, fields, 4))
        return pl_fail(err, PL_E_INTERNAL, "rank 0 sent an unknown message");
    pthread_mutex_lock(&h->mutex);
    place *p = h->places;
    while (p < h->places + h->job->n_spawners && p->state != PLACE_IDLE)
        p++;
    if (p == h->places + h->job->n_spawners) {
        st = pl_fail(err, PL_E_INTERNAL, "rank 0 sent too many tasks");
    } else {
        p->key = pl_strdup(fields[0]);
        p->request = pl_strdup(fields[1]);
        p->task = (pl_task_state){ .text = fields[3][0] == '\0' ? NULL : pl_strdup(fields[3]),
                                   .n_steps = (unsigned)strtoul(fields[2], NULL, 10) };
        if (p->key == NULL || p->request == NULL ||
            (p->task.text == NULL && fields[3][0] != '\0')) {
            st = pl_fail_memory(err, message->n_bytes);
        } else {
            p->state = PLACE_READY;
            pthread_cond_broadcast(&h->changed);
        }
    }
    pthread_mutex_unlock(&h->mutex);
    return st;
}

/* Reports a finished task. */
static pl_status report(hand_work *h, place *p, pl_err *err) {
    char steps[16], ms[24];
    const char *const fields[] = { p->key, steps, ms, p->task.text == NULL ? "" : p->task.text };
    pl_status st = p->st;
    (void)snprintf(steps, sizeof steps, "%u", p->task.n_steps);
    (void)snprintf(ms, sizeof ms, "%.0f", p->task.seconds * 1e3);
    if (st == PL_OK) {
        st = say(h, PL_SAY_DONE, fields, 4, err);
    } else {
        if (err != NULL) *err = p->err;
        say_failed(h, p->key, st, &p->err);
    }
    pl_free(p->key);
    pl_free(p->request);
    pl_free(p->task.text);
    p->task = (pl_task_state){ 0 };
    p->key = p->request = NULL;
    p->state = PLACE_IDLE;
    return st;
}

static pl_status report_all(hand_work *h, pl_err *err) {
    pl_status st = PL_OK;
    pthread_mutex_lock(&h->mutex);
    for (size_t i = 0; h->places != NULL && st == PL_OK && i < h->job->n_spawners; i++)
        if (h->places[i].state == PLACE_FINISHED) st = report(h, &h->places[i], err);
    pthread_mutex_unlock(&h->mutex);
    return st;
}

/* ---- the loop ---- */

static pl_status hear(hand_work *h, pl_err *err) {
    pl_buf message = PL_BUF_INIT;
    pl_status st = PL_OK;
    int from = 0;
    for (bool got = true; got && !h->ended && st == PL_OK;) {
        st = pl_ranks_poll(h->ranks, &from, &message, &got, err);
        if (st != PL_OK || !got || message.n_bytes == 0) continue;
        const char what = message.data[0];
        if (what == PL_SAY_OPEN || what == PL_SAY_TASK)
            st = what == PL_SAY_OPEN ? open_journal(h, &message, err) : take_task(h, &message, err);
        if (what == PL_SAY_OPEN && st != PL_OK) say_failed(h, "", st, err);
        if (what != PL_SAY_END) continue;
        h->ended = true;
        h->broken = message.n_bytes > 2; /* not just the NUL */
    }
    pl_buf_release(&message);
    return st;
}

/* What rank 0 had in flight when it died. */
static pl_status look_for_foreman(hand_work *h, pl_err *err) {
    pl_buf keys = PL_BUF_INIT;
    if (h->dir == NULL || !pl_journal_is_left(h->dir, h->foreman_part)) return PL_OK;
    h->abandoned = true;
    pl_journal_put_unfinished(h->dir, h->foreman_part, &keys);
    (void)pl_fail(err, PL_E_IO, "rank 0 died while it worked on %s; option 'resume' does the rest",
                  keys.n_bytes > 0 ? pl_buf_str(&keys) : "no item");
    pl_buf_release(&keys);
    return PL_E_IO;
}

static pl_status work_on(hand_work *h, pl_err *err) {
    const struct timespec nap = { 0, NAP_NS };
    while (!h->ended) {
        PL_TRY(hear(h, err));
        PL_TRY(report_all(h, err));
        const pl_status st = pl_progress_poll(h->job->progress, err);
        const int64_t now = pl_clock_ms();
        if (st != PL_OK || now - h->looked_ms >= LOOK_MS) {
            h->looked_ms = now;
            PL_TRY(look_for_foreman(h, err));
        }
        PL_TRY(st);
        if (!h->ended) nanosleep(&nap, NULL);
    }
    return PL_OK;
}

/* Tasks in flight are noted as stopped, unless all was done. */
static bool is_idle(const hand_work *h) {
    for (size_t i = 0; h->places != NULL && i < h->job->n_spawners; i++)
        if (h->places[i].state == PLACE_READY) return false;
    return true;
}

pl_status pl_hand_work(pl_ranks *ranks, const pl_hand_job *job, bool *alone, pl_err *err) {
    hand_work h = { .ranks = ranks, .job = job, .journal = { .fd = -1 } };
    pl_err trouble = PL_ERR_INIT;
    pthread_mutex_init(&h.mutex, NULL);
    pthread_cond_init(&h.changed, NULL);
    const pl_status st = work_on(&h, &trouble);
    if (st != PL_OK) (void)pl_fail(err, st, "rank %d: %s", pl_ranks_rank(ranks), trouble.message);
    pthread_mutex_lock(&h.mutex);
    const bool idle = is_idle(&h);
    pthread_mutex_unlock(&h.mutex);
    stop_threads(&h);
    if (!idle || st != PL_OK) (void)pl_task_note_stop(&h.journal);
    *alone = st == PL_E_CANCELLED || h.abandoned || h.broken;
    pl_journal_close(&h.journal);
    pl_dir_close(h.dir);
    pthread_cond_destroy(&h.changed);
    pthread_mutex_destroy(&h.mutex);
    return st;
}

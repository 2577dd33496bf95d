#include "flows/corpus/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flows/corpus/schedule.h"
#include "flows/corpus/task.h"

/* How often the calling thread looks: for progress, and for messages of other ranks. */
enum { POLL_MS = 100, POLL_RANKS_MS = 2 };

typedef struct shared {
    pl_crew *crew;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pl_schedule plan;             /* of tasks; a worker is a thread */
    pl_task_state *states;        /* of tasks */
    size_t n_running, n_started;  /* threads */
    uint64_t done_cost, all_cost; /* progress: the longest items come first */
    atomic_int cancelled;
    pl_status st; /* the first failure */
    pl_err err;
} shared;

static int is_cancelled(void *ctx, const char *phase, int64_t done, int64_t total) {
    (void)phase;
    (void)done;
    (void)total;
    return atomic_load(&((shared *)ctx)->cancelled);
}

static pl_status put_request(const pl_crew *crew, size_t i, pl_buf *out, pl_err *err) {
    crew->request(crew->ctx, i, out);
    return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, out->n_bytes);
}

static pl_status run_task(shared *s, size_t i, pl_spawner *spawner, pl_err *err) {
    pl_crew *crew = s->crew;
    const pl_progress progress = { is_cancelled, s };
    const pl_task_place at = { crew->program, crew->timeout, crew->journal, spawner, &progress };
    pl_buf request = PL_BUF_INIT;
    pl_status st = put_request(crew, i, &request, err);
    if (st == PL_OK)
        st = pl_task_run(&at, crew->key(crew->ctx, i), pl_buf_str(&request), &s->states[i], err);
    pl_buf_release(&request);
    return st;
}

static uint64_t microseconds(double seconds) {
    return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e6) + 1 : 1;
}

/* ---- this rank ---- */

/* The first failure counts; the rest is cancelled. The caller has the mutex. */
static void fail(shared *s, pl_status st, const pl_err *err) {
    if (s->st == PL_OK && !atomic_load(&s->cancelled)) {
        s->st = st;
        s->err = *err;
    }
    atomic_store(&s->cancelled, 1);
}

static uint64_t cost_of(const pl_crew *crew, size_t i) {
    return crew->cost == NULL ? 1 : crew->cost(crew->ctx, i);
}

static bool plan(shared *s, size_t n_workers) {
    const pl_crew *crew = s->crew;
    uint64_t *costs = pl_calloc(crew->n_tasks + 1, sizeof *costs);
    size_t *families = pl_calloc(crew->n_tasks + 1, sizeof *families);
    bool ok = costs != NULL && families != NULL;
    for (size_t i = 0; ok && i < crew->n_tasks; i++) {
        costs[i] = cost_of(crew, i);
        families[i] = crew->family == NULL ? i : crew->family(crew->ctx, i);
        s->all_cost += costs[i];
    }
    ok = ok && pl_schedule_init(&s->plan, costs, crew->family == NULL ? NULL : families,
                                crew->n_tasks, n_workers, 0);
    s->states = pl_calloc(crew->n_tasks + 1, sizeof *s->states);
    ok = ok && s->states != NULL;
    for (size_t i = 0; ok && crew->so_far != NULL && i < crew->n_tasks; i++)
        ok = crew->so_far(crew->ctx, i, &s->states[i]);
    for (size_t i = 0; ok && i < crew->n_tasks; i++) {
        if (crew->is_known != NULL && crew->is_known(crew->ctx, i))
            pl_schedule_know(&s->plan, i, cost_of(crew, i));
        if (s->states[i].text != NULL)
            pl_schedule_begin_at(&s->plan, i, s->states[i].n_steps,
                                 microseconds(s->states[i].seconds));
    }
    pl_free(costs);
    pl_free(families);
    return ok;
}

static void release(shared *s) {
    for (size_t i = 0; s->states != NULL && i < s->crew->n_tasks; i++)
        pl_free(s->states[i].text);
    pl_free(s->states);
    pl_schedule_release(&s->plan);
}

static void *work(void *ctx) {
    shared *s = ctx;
    pthread_mutex_lock(&s->mutex);
    const size_t worker = s->n_started++;
    pthread_mutex_unlock(&s->mutex);
    pl_spawner *spawner = s->crew->spawners == NULL ? NULL : s->crew->spawners[worker];
    for (;;) {
        pl_err err = PL_ERR_INIT;
        pthread_mutex_lock(&s->mutex);
        const size_t i =
            atomic_load(&s->cancelled) ? PL_SCHEDULE_NONE : pl_schedule_next(&s->plan, worker);
        const bool over = i == PL_SCHEDULE_NONE;
        if (over) {
            s->n_running--;
            pthread_cond_signal(&s->changed);
        }
        pthread_mutex_unlock(&s->mutex);
        if (over) return NULL;
        const pl_status st = run_task(s, i, spawner, &err);
        pthread_mutex_lock(&s->mutex);
        if (st == PL_OK) {
            const pl_task_state *now = &s->states[i];
            (void)pl_schedule_done(&s->plan, worker, microseconds(now->seconds), now->text != NULL);
            if (now->text == NULL) s->done_cost += cost_of(s->crew, i);
        } else {
            fail(s, st, &err);
        }
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->mutex);
    }
}

/* ---- other ranks ---- */

static void take_report(void *ctx, size_t i, pl_task_state *now) {
    shared *s = ctx;
    pl_free(s->states[i].text);
    s->states[i] = *now;
    pl_schedule_took(&s->plan, i, microseconds(now->seconds), now->text != NULL);
    if (now->text == NULL) s->done_cost += cost_of(s->crew, i);
}

/* Hands out tasks to idle ranks and takes their reports. The caller has the mutex: messages are
 * small. */
static pl_status deal(shared *s, pl_err *err) {
    pl_crew *crew = s->crew;
    PL_TRY(pl_foreman_listen(crew->foreman, take_report, s, err));
    s->plan.n_sharing = s->plan.n_workers + pl_foreman_places(crew->foreman);
    while (pl_foreman_has_idle(crew->foreman)) {
        pl_buf request = PL_BUF_INIT;
        const size_t i = pl_schedule_give(&s->plan);
        if (i == PL_SCHEDULE_NONE) break;
        pl_status st = put_request(crew, i, &request, err);
        if (st == PL_OK)
            st = pl_foreman_give(crew->foreman, i, crew->key(crew->ctx, i), pl_buf_str(&request),
                                 &s->states[i], err);
        pl_buf_release(&request);
        PL_TRY(st);
    }
    return PL_OK;
}

static bool is_busy(const shared *s) {
    const pl_foreman *f = s->crew->foreman;
    return s->n_running > 0 || (f != NULL && !atomic_load(&s->cancelled) && pl_foreman_busy(f) > 0);
}

/* ---- all of them ---- */

static void wait_a_moment(shared *s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (s->crew->foreman == NULL ? POLL_MS : POLL_RANKS_MS) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_cond_timedwait(&s->changed, &s->mutex, &until);
}

/* Called from the calling thread, at least ten times a second. */
static void follow(shared *s) {
    pl_crew *crew = s->crew;
    pthread_mutex_lock(&s->mutex);
    while (is_busy(s)) {
        pl_err err = PL_ERR_INIT;
        wait_a_moment(s);
        pl_status st = PL_OK;
        if (crew->foreman != NULL && !atomic_load(&s->cancelled)) st = deal(s, &err);
        const uint64_t done = s->done_cost;
        pthread_mutex_unlock(&s->mutex);
        if (st == PL_OK)
            st = pl_progress_step(crew->progress, crew->phase, (int64_t)done, (int64_t)s->all_cost,
                                  &err);
        pthread_mutex_lock(&s->mutex);
        if (st != PL_OK) fail(s, st, &err);
    }
    pthread_mutex_unlock(&s->mutex);
}

pl_status pl_crew_run(pl_crew *crew, pl_err *err) {
    shared s = { .crew = crew, .st = PL_OK };
    const size_t wanted = crew->jobs < 1 ? 1 : (size_t)crew->jobs;
    const size_t n = wanted < crew->n_tasks ? wanted : crew->n_tasks;
    pthread_t *threads = pl_calloc(n + 1, sizeof *threads);
    size_t n_threads = 0;
    if (threads == NULL || !plan(&s, n)) {
        release(&s);
        pl_free(threads);
        return pl_fail_memory(err, n);
    }
    pthread_mutex_init(&s.mutex, NULL);
    pthread_cond_init(&s.changed, NULL);
    s.n_running = n;
    while (n_threads < n && pthread_create(&threads[n_threads], NULL, work, &s) == 0)
        n_threads++;
    pthread_mutex_lock(&s.mutex);
    s.n_running -= n - n_threads;
    if (n_threads == 0 && n > 0) s.st = pl_fail(&s.err, PL_E_MEMORY, "cannot create a thread");
    pthread_mutex_unlock(&s.mutex);
    follow(&s);
    for (size_t i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.mutex);
    release(&s);
    pl_free(threads);
    if (crew->foreman != NULL) s.st = pl_foreman_account(crew->foreman, s.st, &s.err);
    if (s.st == PL_OK) return PL_OK;
    (void)pl_task_note_stop(crew->journal);
    if (err != NULL) *err = s.err;
    return s.st;
}

pl_status pl_crew_program(const char *given, char *out, size_t n_out, pl_err *err) {
    if (given != NULL) {
        (void)snprintf(out, n_out, "%s", given);
        return PL_OK;
    }
    const ssize_t n = readlink("/proc/self/exe", out, n_out - 1);
    if (n <= 0) return pl_fail(err, PL_E_IO, "cannot find the running program");
    out[n] = '\0';
    if (strcmp(pl_path_basename(out), "plumb") != 0) (void)snprintf(out, n_out, "plumb");
    return PL_OK;
}

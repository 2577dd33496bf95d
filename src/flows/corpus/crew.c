#include "flows/corpus/crew.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/process.h"
#include "flows/corpus/corpus.h"
#include "flows/corpus/schedule.h"

enum { POLL_MS = 100, RESULT_MAX = 1 << 20 };

typedef struct shared {
    pl_crew *crew;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pl_schedule plan; /* of tasks; a worker is a thread */
    size_t n_workers; /* that have begun */
    size_t n_running;
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

/* ---- one task ---- */

static void put_plain(pl_json *j, pl_item_status status, const char *reason) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "status", pl_item_status_name(status));
    pl_json_put_string(j, "reason", reason);
    pl_json_object_end(j);
}

/* The last line that is not empty, without its newline. */
static void last_line(const pl_buf *text, const char **out, size_t *n) {
    const char *s = pl_buf_str(text);
    size_t end = text->n_bytes;
    while (end > 0 && (s[end - 1] == '\n' || s[end - 1] == '\r'))
        end--;
    size_t begin = end;
    while (begin > 0 && s[begin - 1] != '\n')
        begin--;
    *out = s + begin;
    *n = end - begin;
}

static bool is_result(const char *line, size_t n) {
    const pl_json_value *v = NULL;
    pl_arena *arena = pl_arena_new();
    const bool yes = arena != NULL && pl_json_read(line, n, arena, &v, NULL) == PL_OK &&
                     pl_json_find(v, "status") != NULL;
    pl_arena_free(arena);
    return yes;
}

/* The output of the process as the value of "result". */
static void put_result(const pl_crew *crew, const pl_process_result *r, pl_buf *out) {
    char why[600];
    const char *line;
    size_t n;
    pl_json j;
    pl_json_init(&j, out, false);
    last_line(&r->out, &line, &n);
    if (r->timed_out) {
        (void)snprintf(why, sizeof why, "took longer than %g s", crew->timeout);
        put_plain(&j, PL_ITEM_TIMEOUT, why);
    } else if (r->signal == 0 && r->exit_code == 0 && is_result(line, n)) {
        pl_buf_append(out, line, n);
    } else {
        const char *said;
        size_t n_said;
        last_line(&r->err, &said, &n_said);
        if (r->signal != 0) {
            (void)snprintf(why, sizeof why, "plumb's own process ended by signal %d", r->signal);
        } else {
            (void)snprintf(why, sizeof why, "plumb's own process ended with exit code %d: %.*s",
                           r->exit_code, (int)(n_said > 400 ? 400 : n_said), said);
        }
        put_plain(&j, PL_ITEM_TROUBLE, why);
    }
}

static pl_status note_start(pl_crew *crew, const char *key, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", "start");
    pl_json_put_string(&j, "key", key);
    pl_json_object_end(&j);
    const pl_status st = pl_journal_append(crew->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

static pl_status note_done(pl_crew *crew, const char *key, double seconds,
                           const pl_process_result *r, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", "done");
    pl_json_put_string(&j, "key", key);
    pl_json_put_double(&j, "seconds", seconds);
    pl_json_key(&j, "result");
    put_result(crew, r, &line);
    pl_buf_putc(&line, '}');
    const pl_status st = pl_journal_append(crew->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

static pl_status run_task(shared *s, size_t i, pl_err *err) {
    pl_crew *crew = s->crew;
    const char *key = crew->key(crew->ctx, i);
    const pl_progress progress = { is_cancelled, s };
    const pl_process_options options = { .timeout_seconds = crew->timeout,
                                         .max_output_bytes = RESULT_MAX,
                                         .progress = &progress };
    pl_process_result r = { .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    pl_buf request = PL_BUF_INIT;
    pl_status st = PL_OK;
    crew->request(crew->ctx, i, &request);
    if (!pl_buf_ok(&request)) st = pl_fail_memory(err, request.n_bytes);
    const char *const argv[] = { crew->program, "corpus", "--worker", pl_buf_str(&request), NULL };
    const int64_t begin = pl_clock_ms();
    if (st == PL_OK) st = note_start(crew, key, err);
    if (st == PL_OK) st = pl_process_run(argv, &options, &r, err);
    if (st == PL_OK) st = note_done(crew, key, (double)(pl_clock_ms() - begin) / 1e3, &r, err);
    pl_process_result_release(&r);
    pl_buf_release(&request);
    return st;
}

/* ---- all of them ---- */

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
    pl_free(costs);
    pl_free(families);
    return ok;
}

static void *work(void *ctx) {
    shared *s = ctx;
    pthread_mutex_lock(&s->mutex);
    const size_t worker = s->n_workers++;
    pthread_mutex_unlock(&s->mutex);
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
        const int64_t begin = pl_clock_ms();
        const pl_status st = run_task(s, i, &err);
        const int64_t ms = pl_clock_ms() - begin;
        pthread_mutex_lock(&s->mutex);
        if (st == PL_OK) {
            (void)pl_schedule_done(&s->plan, worker, (uint64_t)ms * 1000);
            s->done_cost += cost_of(s->crew, i);
        } else {
            if (s->st == PL_OK && !atomic_load(&s->cancelled)) {
                s->st = st;
                s->err = err;
            }
            atomic_store(&s->cancelled, 1);
        }
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->mutex);
    }
}

/* Called from the calling thread, about ten times a second. */
static void follow(shared *s) {
    pl_crew *crew = s->crew;
    pthread_mutex_lock(&s->mutex);
    while (s->n_running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += POLL_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        (void)pthread_cond_timedwait(&s->changed, &s->mutex, &until);
        const uint64_t done = s->done_cost;
        pthread_mutex_unlock(&s->mutex);
        pl_err err = PL_ERR_INIT;
        const pl_status st = pl_progress_step(crew->progress, crew->phase, (int64_t)done,
                                              (int64_t)s->all_cost, &err);
        pthread_mutex_lock(&s->mutex);
        if (st != PL_OK && s->st == PL_OK) {
            s->st = st;
            s->err = err;
            atomic_store(&s->cancelled, 1);
        }
    }
    pthread_mutex_unlock(&s->mutex);
}

static pl_status note_stop(pl_crew *crew) {
    pl_buf line = PL_BUF_INIT;
    pl_buf_puts(&line, "{\"t\":\"stop\"}");
    const pl_status st = pl_journal_append(crew->journal, &line, NULL);
    pl_buf_release(&line);
    return st;
}

pl_status pl_crew_run(pl_crew *crew, pl_err *err) {
    shared s = { .crew = crew, .st = PL_OK };
    const size_t wanted = crew->jobs < 1 ? 1 : (size_t)crew->jobs;
    const size_t n = wanted < crew->n_tasks ? wanted : crew->n_tasks;
    pthread_t *threads = pl_calloc(n + 1, sizeof *threads);
    size_t n_threads = 0;
    if (threads == NULL || !plan(&s, n)) {
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
    pl_schedule_release(&s.plan);
    pl_free(threads);
    if (s.st == PL_OK) return PL_OK;
    (void)note_stop(crew);
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

/* Speculation: while one query runs, forks of this process run the queries that may come next.
 *
 * A scout assumes the answer to the current query (and perhaps some more: its path), continues
 * exactly as this process would, runs the first query after its path, reports and exits. So
 * strategies run ahead without knowing it, and nothing is shared that could race. Answers are used
 * in the order of the plain search and by the candidate's key, so the result is the same for any
 * number of jobs. Scouts on a wrong path are killed.
 *
 * A fork has only the thread that called it. The pool's threads are idle between queries; if the
 * host program has threads of its own, there are no scouts. */
#include "flows/minify/search/mini_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/guard/guard_child.h"
#include "base/alloc.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_write.h"

enum { JOBS_MAX = 32, STEPS_MAX = 16, PATHS_MAX = 4 * JOBS_MAX };
#define WORTH_SECONDS 0.005 /* shorter queries are not worth a fork */
#define WORTH_FORKS 4.0

typedef struct path { /* assumed answers; bit i: the i-th query fails */
    uint32_t answers;
    int n_steps;
} path;

typedef struct scout {
    pid_t pid;
    int fd; /* its report */
    path way;
} scout;

struct pl_ahead {
    pl_mini *m;
    int jobs;
    scout scouts[JOBS_MAX];
    int n_scouts;
    double rate;         /* share of queries that fail, recent ones weighted more */
    double seconds;      /* time of a query */
    double fork_seconds; /* time to fork a scout */
    size_t n_sent, n_used;
    bool is_scout; /* this process is a scout */
    path way;
    int fd;
};

pl_status pl_ahead_new(pl_mini *m, int jobs, pl_ahead **out, pl_err *err) {
    pl_ahead *a = pl_calloc(1, sizeof(*a));
    if (a == NULL) return pl_fail_memory(err, sizeof(*a));
    a->m = m;
    a->jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
    a->rate = 0.4;
    a->fd = -1;
    *out = a;
    return PL_OK;
}

bool pl_ahead_is_scout(const pl_ahead *a) {
    return a != NULL && a->is_scout;
}

void pl_ahead_counts(const pl_ahead *a, size_t *n_sent, size_t *n_used) {
    *n_sent = a == NULL ? 0 : a->n_sent;
    *n_used = a == NULL ? 0 : a->n_used;
}

/* ---- ending scouts ---- */

/* The zombie keeps its group id, so that everything it started is killed with it. */
static void end_scout(pl_ahead *a, int i) {
    const scout s = a->scouts[i];
    kill(-s.pid, SIGKILL);
    while (waitpid(s.pid, NULL, 0) < 0 && errno == EINTR) {
    }
    close(s.fd);
    a->scouts[i] = a->scouts[--a->n_scouts];
}

void pl_ahead_stop(pl_ahead *a) {
    if (a == NULL || a->is_scout) return;
    while (a->n_scouts > 0)
        end_scout(a, a->n_scouts - 1);
    a->jobs = 1;
}

void pl_ahead_free(pl_ahead *a) {
    pl_ahead_stop(a);
    pl_free(a);
}

/* ---- choosing candidates ---- */

static bool is_taken(const pl_ahead *a, path p) {
    for (int i = 0; i < a->n_scouts; i++)
        if (a->scouts[i].way.n_steps == p.n_steps && a->scouts[i].way.answers == p.answers)
            return true;
    return false;
}

static path step(path p, bool fails) {
    p.answers |= (uint32_t)fails << p.n_steps;
    p.n_steps++;
    return p;
}

/* The most likely path without a scout; false = none is left. Best first: a path is never more
 * likely than its prefix. */
static bool next_path(const pl_ahead *a, path *out) {
    path open[PATHS_MAX];
    double likely[PATHS_MAX];
    int n = 0;
    const double p_fails = a->rate;
    const path start = { 0, 0 };
    for (int k = 0; k < 2; k++) {
        open[n] = step(start, k != 0);
        likely[n++] = k != 0 ? p_fails : 1 - p_fails;
    }
    while (n > 0 && n + 2 < PATHS_MAX) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (likely[i] > likely[best]) best = i;
        const path p = open[best];
        const double x = likely[best];
        open[best] = open[--n];
        likely[best] = likely[n];
        if (!is_taken(a, p)) {
            *out = p;
            return true;
        }
        for (int k = 0; k < 2 && p.n_steps < STEPS_MAX; k++) {
            open[n] = step(p, k != 0);
            likely[n++] = x * (k != 0 ? p_fails : 1 - p_fails);
        }
    }
    return false;
}

/* ---- sending them ---- */

static void become_scout(pl_ahead *a, pid_t parent, path way, int fd) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    a->is_scout = true;
    a->way = way;
    a->fd = fd;
    /* If it is killed, its temporary files are inside the run's folder and get removed. */
    setenv("TMPDIR", a->m->work, 1);
    a->m->pool = pl_pool_new(1); /* fork does not copy threads; NULL works, too */
    a->m->accuracy.pool = a->m->pool;
    pl_oracle *o = a->m->oracle;
    pl_mini_weights_forked(o->weights);
    if (o->row->forked != NULL) o->row->forked(o);
}

static void send_one(pl_ahead *a, path way) {
    int ends[2];
    const pid_t parent = getpid();
    const double since = pl_api_seconds();
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become_scout(a, parent, way, ends[1]);
        return;
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    setpgid(pid, pid);
    const double took = pl_api_seconds() - since;
    a->fork_seconds = a->n_sent == 0 ? took : 0.8 * a->fork_seconds + 0.2 * took;
    a->scouts[a->n_scouts++] = (scout){ pid, ends[0], way };
    a->n_sent++;
}

static bool may_send(const pl_ahead *a) {
    if (a == NULL || a->is_scout || a->jobs < 2) return false;
    if (a->seconds < WORTH_SECONDS || a->seconds < WORTH_FORKS * a->fork_seconds) return false;
    const uint64_t n_threads = pl_guard_count_threads();
    return n_threads > 0 && n_threads <= (uint64_t)pl_pool_threads(a->m->pool);
}

/* The scout whose assumptions were all right, which is at the current query. */
static int find_arrived(const pl_ahead *a) {
    for (int i = 0; i < a->n_scouts; i++)
        if (a->scouts[i].way.n_steps == 0) return i;
    return -1;
}

void pl_ahead_send(pl_ahead *a, bool *fails) {
    if (!may_send(a)) return;
    /* The current query is run by a scout that has arrived, or by this process. */
    const int n_wanted = find_arrived(a) >= 0 ? a->jobs : a->jobs - 1;
    while (a->n_scouts < n_wanted) {
        path p;
        const int n_before = a->n_scouts;
        if (!next_path(a, &p)) return;
        send_one(a, p);
        if (a->is_scout) {
            *fails = (p.answers & 1) != 0;
            a->way = (path){ p.answers >> 1, p.n_steps - 1 };
            return;
        }
        if (a->n_scouts == n_before) return; /* cannot fork */
    }
}

void pl_ahead_send_again(pl_ahead *a) {
    const path none = { 0, 0 };
    if (may_send(a) && find_arrived(a) < 0 && a->n_scouts < a->jobs - 1) send_one(a, none);
}

/* ---- the child process ---- */

bool pl_ahead_assume(pl_ahead *a, bool *fails) {
    if (a->way.n_steps == 0) return false;
    *fails = (a->way.answers & 1) != 0;
    a->way = (path){ a->way.answers >> 1, a->way.n_steps - 1 };
    return true;
}

void pl_ahead_report(pl_ahead *a, const pl_report *report) {
    const char *from = (const char *)report;
    size_t n = report == NULL ? 0 : sizeof(*report);
    while (n > 0) {
        const ssize_t done = write(a->fd, from, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        from += done;
        n -= (size_t)done;
    }
    _exit(0); /* nothing to clean up in a scout */
}

/* ---- results of the children ---- */

static bool read_report(int fd, pl_report *out) {
    char *to = (char *)out;
    size_t n = sizeof(*out);
    while (n > 0) {
        const ssize_t done = read(fd, to, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        to += done;
        n -= (size_t)done;
    }
    return true;
}

bool pl_ahead_receive(pl_ahead *a, pl_hash128 key, pl_report *out) {
    const int i = a == NULL || a->is_scout ? -1 : find_arrived(a);
    if (i < 0) return false;
    const bool got = read_report(a->scouts[i].fd, out);
    end_scout(a, i);
    const bool fits = got && pl_hash128_equal(out->key, key);
    a->n_used += fits;
    return fits;
}

void pl_ahead_settle(pl_ahead *a, bool fails, double seconds) {
    if (a == NULL || a->is_scout) return;
    a->rate = 0.75 * a->rate + (fails ? 0.25 : 0);
    if (seconds > 0) a->seconds = a->seconds <= 0 ? seconds : 0.6 * a->seconds + 0.4 * seconds;
    for (int i = a->n_scouts - 1; i >= 0; i--) {
        path *p = &a->scouts[i].way;
        if (p->n_steps == 0 || ((p->answers & 1) != 0) != fails) {
            end_scout(a, i);
        } else {
            *p = (path){ p->answers >> 1, p->n_steps - 1 };
        }
    }
}

void pl_ahead_recall(pl_ahead *a) {
    if (a != NULL && a->is_scout) pl_ahead_report(a, NULL);
    while (a != NULL && a->n_scouts > 0)
        end_scout(a, a->n_scouts - 1);
}

void pl_ahead_settle_again(pl_ahead *a, bool fails) {
    if (!fails) pl_ahead_recall(a);
}

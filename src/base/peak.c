#include "base/peak.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/process.h"

/* What is shared (smaps_rollup) takes a walk through all pages of a process: it is read only when
 * what is resident could make a new peak, and then not again for LEAST_REST times as long. */
enum { LOOK_MS = 10, LEAST_REST = 50, PROCESSES_MAX = 64 };

struct pl_peak {
    pthread_t thread;
    pthread_mutex_t mutex;
    bool stop;
    int64_t best; /* of the thread until it is joined */
};

typedef struct tree {
    int pids[PROCESSES_MAX];
    size_t n;
} tree;

/* Children of one thread of a process; they are of the thread that made them. */
static void add_children(tree *t, const char *pid, const char *task) {
    char path[96];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%s/task/%s/children", pid, task);
    FILE *f = fopen(path, "re");
    if (f == NULL) return;
    while (t->n < PROCESSES_MAX && fscanf(f, "%9d", &child) == 1)
        t->pids[t->n++] = child;
    (void)fclose(f);
}

static void add_below(tree *t, const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) return;
    for (const struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks))
        if (e->d_name[0] != '.' && strlen(e->d_name) < 12) add_children(t, pid, e->d_name);
    (void)closedir(tasks);
}

static void look_around(tree *t) {
    char pid[16];
    t->pids[0] = (int)getpid();
    t->n = 1;
    for (size_t i = 0; i < t->n; i++) {
        snprintf(pid, sizeof pid, "%d", t->pids[i]);
        add_below(t, pid);
    }
}

/* 0 when it has ended. */
static int64_t resident_of(int pid) {
    char path[48];
    long long all = 0, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    if (fscanf(f, "%18lld %18lld", &all, &pages) != 2) pages = 0;
    (void)fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

typedef struct pages {
    int64_t own, shared; /* bytes that no other process maps, and that some other maps */
} pages;

static pages pages_of(int pid) {
    static const char own[] = "Private_", shared[] = "Shared_";
    char path[48], line[160];
    pages of = { 0, 0 };
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL) return of;
    while (fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL) continue;
        const int64_t n = (int64_t)strtoll(colon + 1, NULL, 10) * 1024;
        if (strncmp(line, own, sizeof own - 1) == 0 && strncmp(line, "Private_H", 9) != 0)
            of.own += n;
        if (strncmp(line, shared, sizeof shared - 1) == 0 && strncmp(line, "Shared_H", 8) != 0)
            of.shared += n;
    }
    (void)fclose(f);
    return of;
}

/* What is shared is, nearly all, the same: the model, and the program's own text. */
static int64_t together(const tree *t) {
    int64_t own = 0, shared = 0;
    for (size_t i = 0; i < t->n; i++) {
        const pages of = pages_of(t->pids[i]);
        own += of.own;
        shared = of.shared > shared ? of.shared : shared;
    }
    return own + shared;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool stopped(pl_peak *p) {
    pthread_mutex_lock(&p->mutex);
    const bool stop = p->stop;
    pthread_mutex_unlock(&p->mutex);
    return stop;
}

static void *look(void *ctx) {
    pl_peak *p = ctx;
    const struct timespec pause = { 0, LOOK_MS * 1000000L };
    double rest_until = 0;
    for (; !stopped(p); nanosleep(&pause, NULL)) {
        int64_t resident = 0;
        tree t;
        if (seconds() < rest_until) continue;
        look_around(&t);
        for (size_t i = 0; i < t.n; i++)
            resident += resident_of(t.pids[i]);
        if (resident <= p->best) continue;
        const double begun = seconds();
        const int64_t all = together(&t);
        rest_until = seconds() + LEAST_REST * (seconds() - begun);
        if (all > p->best) p->best = all;
    }
    return NULL;
}

/* Signals are for the threads of the caller. */
static bool start_thread(pl_peak *p) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    const int error = pthread_create(&p->thread, NULL, look, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

pl_peak *pl_peak_start(void) {
    if (pages_of((int)getpid()).own == 0) return NULL;
    pl_peak *p = pl_calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    pthread_mutex_init(&p->mutex, NULL);
    if (start_thread(p)) return p;
    pthread_mutex_destroy(&p->mutex);
    pl_free(p);
    return NULL;
}

static int64_t alone(int who) {
    struct rusage usage;
    return getrusage(who, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

int64_t pl_peak_stop(pl_peak *p) {
    const int64_t most = pl_process_peak_bytes();
    if (p == NULL) return most;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    int64_t best = p->best;
    pthread_mutex_destroy(&p->mutex);
    pl_free(p);
    const int64_t self = alone(RUSAGE_SELF), child = alone(RUSAGE_CHILDREN);
    if (best < self) best = self;
    if (best < child) best = child;
    return best < most ? best : most;
}

#include "base/ranks/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

enum { ARGS_MAX = 16, TEXT_MAX = 64 << 20, POLL_MS = 50 };

struct pl_spawner {
    int fd;
    pid_t pid;
};

/* Both ends are the same program on the same machine. */
typedef struct request {
    double timeout;
    uint64_t max_output, n_args, n_bytes; /* of the arguments, each with its NUL */
} request;
typedef struct answer {
    int32_t status, exit_code, signal, timed_out;
    double cpu_seconds;
    uint64_t n_out, n_err; /* err has the message when status is not PL_OK */
} answer;

/* ---- bytes ---- */

static bool put(int fd, const void *data, size_t n) {
    for (const char *at = data; n > 0;) {
        const ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

static bool get(int fd, void *data, size_t n) {
    for (char *at = data; n > 0;) {
        const ssize_t k = recv(fd, at, n, 0);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

static bool get_text(int fd, uint64_t n, pl_buf *out) {
    char chunk[4096];
    if (n > TEXT_MAX) return false;
    while (n > 0) {
        const size_t k = n < sizeof chunk ? (size_t)n : sizeof chunk;
        if (!get(fd, chunk, k)) return false;
        pl_buf_append(out, chunk, k);
        n -= k;
    }
    return pl_buf_ok(out);
}

/* ---- starting ---- */

static bool is_of_launcher(const char *variable) {
    static const char *const prefixes[] = {
        "OMPI_", "PMIX_", "PMI_", "PMI2_", "HYDI_", "MPI_LOCAL"
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* What runs below would otherwise take itself for a rank of the job. Entries are borrowed. */
static char **plain_env(void) {
    size_t n = 0, k = 0;
    while (environ[n] != NULL)
        n++;
    char **env = pl_calloc(n + 1, sizeof *env);
    for (size_t i = 0; env != NULL && i < n; i++)
        if (!is_of_launcher(environ[i])) env[k++] = environ[i];
    return env;
}

static int spawn(const char *const *argv, int fd, pid_t *pid) {
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    sigset_t none;
    char **env = plain_env();
    if (env == NULL) return ENOMEM;
    int error = posix_spawnattr_init(&attr);
    if (error == 0 && (error = posix_spawn_file_actions_init(&actions)) != 0)
        posix_spawnattr_destroy(&attr);
    if (error != 0) {
        pl_free(env);
        return error;
    }
    sigemptyset(&none);
    /* Its own group: a launcher's signal to ours must not end the program before we note it. */
    error = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    if (error == 0) error = posix_spawnattr_setpgroup(&attr, 0);
    if (error == 0) error = posix_spawnattr_setsigmask(&attr, &none);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, fd, 0);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawnp(pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    pl_free(env);
    return error;
}

pl_status pl_spawner_start(const char *const *argv, pl_spawner **out, pl_err *err) {
    int ends[2];
    pl_spawner *s = pl_calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) return pl_fail_memory(err, sizeof *s);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        pl_free(s);
        return pl_fail(err, PL_E_IO, "cannot open a socket to '%s': %s", argv[0], strerror(errno));
    }
    const int error = spawn(argv, ends[1], &s->pid);
    (void)close(ends[1]);
    s->fd = ends[0];
    if (error == 0) {
        *out = s;
        return PL_OK;
    }
    (void)close(s->fd);
    pl_free(s);
    return pl_fail(err, PL_E_IO, "cannot start '%s': %s", argv[0], strerror(error));
}

void pl_spawner_stop(pl_spawner *s) {
    if (s == NULL) return;
    (void)close(s->fd);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    pl_free(s);
}

pid_t pl_spawner_pid(const pl_spawner *s) {
    return s->pid;
}

/* ---- asking ---- */

static bool ask(pl_spawner *s, const char *const *argv, const pl_process_options *o) {
    pl_buf args = PL_BUF_INIT;
    request q = { .timeout = o->timeout_seconds, .max_output = o->max_output_bytes };
    for (; argv[q.n_args] != NULL; q.n_args++)
        pl_buf_append(&args, argv[q.n_args], strlen(argv[q.n_args]) + 1);
    q.n_bytes = args.n_bytes;
    const bool sent =
        pl_buf_ok(&args) && put(s->fd, &q, sizeof q) && put(s->fd, args.data, args.n_bytes);
    pl_buf_release(&args);
    return sent;
}

pl_status pl_spawner_run(pl_spawner *s, const char *const *argv, const pl_process_options *options,
                         pl_process_result *out, pl_err *err) {
    answer a = { .status = PL_OK };
    *out = (pl_process_result){ .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    if (!ask(s, argv, options))
        return pl_fail(err, PL_E_IO, "the process that starts programs has ended");
    for (pl_status st = PL_OK;;) {
        struct pollfd fd = { s->fd, POLLIN, 0 };
        const int n = poll(&fd, 1, POLL_MS);
        if (n > 0) break;
        if (st == PL_OK && (st = pl_progress_poll(options->progress, err)) != PL_OK)
            (void)shutdown(s->fd, SHUT_WR); /* it kills the program and answers */
    }
    PL_TRY(pl_progress_poll(options->progress, err));
    if (!get(s->fd, &a, sizeof a) || !get_text(s->fd, a.n_out, &out->out) ||
        !get_text(s->fd, a.n_err, &out->err))
        return pl_fail(err, PL_E_IO, "the process that starts programs has ended");
    if (a.status != PL_OK) return pl_fail(err, (pl_status)a.status, "%s", pl_buf_str(&out->err));
    out->exit_code = a.exit_code;
    out->signal = a.signal;
    out->timed_out = a.timed_out != 0;
    out->cpu_seconds = a.cpu_seconds;
    return PL_OK;
}

/* ---- answering ---- */

/* Bytes while a program runs, or the end: the other side wants it to stop. */
static int is_unwanted(void *ctx, const char *phase, int64_t done, int64_t total) {
    struct pollfd fd = { *(const int *)ctx, POLLIN, 0 };
    (void)phase;
    (void)done;
    (void)total;
    return poll(&fd, 1, 0) > 0;
}

static bool read_args(int fd, const request *q, pl_buf *text, const char *argv[ARGS_MAX + 1]) {
    if (q->n_args == 0 || q->n_args > ARGS_MAX || !get_text(fd, q->n_bytes, text)) return false;
    const char *at = text->data, *end = text->data + text->n_bytes;
    for (uint64_t i = 0; i < q->n_args; i++) {
        if (at >= end) return false;
        argv[i] = at;
        at += strlen(at) + 1;
    }
    return true;
}

static bool serve_one(int fd, const request *q) {
    const char *argv[ARGS_MAX + 1] = { NULL };
    pl_buf text = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    pl_process_result r = { .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    const pl_progress progress = { is_unwanted, &fd };
    const pl_process_options options = { .timeout_seconds = q->timeout,
                                         .max_output_bytes = (size_t)q->max_output,
                                         .progress = &progress };
    bool ok = read_args(fd, q, &text, argv);
    if (ok) {
        answer a = { .status = (int32_t)pl_process_run(argv, &options, &r, &err) };
        if (a.status != PL_OK) {
            pl_buf_reset(&r.out);
            pl_buf_reset(&r.err);
            pl_buf_puts(&r.err, err.message);
        }
        a.exit_code = r.exit_code;
        a.signal = r.signal;
        a.timed_out = r.timed_out;
        a.cpu_seconds = r.cpu_seconds;
        a.n_out = r.out.n_bytes;
        a.n_err = r.err.n_bytes;
        ok = put(fd, &a, sizeof a) && put(fd, pl_buf_str(&r.out), r.out.n_bytes) &&
             put(fd, pl_buf_str(&r.err), r.err.n_bytes);
    }
    pl_process_result_release(&r);
    pl_buf_release(&text);
    return ok;
}

pl_status pl_spawner_serve(int fd, pl_err *err) {
    request q;
    (void)err;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (get(fd, &q, sizeof q) && serve_one(fd, &q)) {
    }
    return PL_OK;
}

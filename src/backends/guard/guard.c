/* Our end of plumb-guard: starting it, asking it for children, and talking to them. */
#include "backends/guard/guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/guard/guard_msg.h"
#include "backends/guard/guard_parcel.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

enum {
    CONTROL = 3,
    END_WAIT_MS = 5000,
    ASK_MS = 100,
    CLOSED_WAIT_MS = 1000, /* wait for the exit of a child that closed its socket */
};

struct pl_guard {
    pid_t pid;
    int control;
    uint64_t next_id;
    bool must_confine; /* children refuse to open a backend outside a sandbox */
    char *preload;     /* spec to open in the guard; NULL = none, or done */
    pl_guard_child
        *children; /* alive; the guard may report the end of one while we wait for another */
};

typedef struct pl_mapped { /* from a child's sealed memfd; NULL = none */
    void *data;
    size_t n_bytes;
} pl_mapped;

struct pl_guard_child {
    pl_guard *guard;
    pl_guard_child *next;
    uint64_t id, memory_limit;
    double timeout_seconds;
    const pl_progress *progress; /* polled while waiting; NULL = none */
    char *spec;
    int socket;
    pl_again again;     /* of the next runs */
    uint64_t n_threads; /* after opening the backend */
    bool ended;
    pl_msg_ended end; /* valid when ended */
    pl_mapped executed, places;
};

/* ---- starting ---- */

/* A static build (make static) is one file: called plumb-guard, plumb is its own guard. */
#ifdef PL_STATIC
enum { ONE_FILE = 1 };
#else
enum { ONE_FILE = 0 };
#endif

static bool try_path(const char *dir, const char *name, char *out, size_t n_out) {
    snprintf(out, n_out, "%s/%s", dir, name);
    return access(out, X_OK) == 0;
}

static bool find_around(const char *file, char *out, size_t n_out) {
    char *dir = pl_path_dirname(file);
    const bool found = dir != NULL && (try_path(dir, "plumb-guard", out, n_out) ||
                                       try_path(dir, "../libexec/plumb-guard", out, n_out) ||
                                       try_path(dir, "../../libexec/plumb-guard", out, n_out));
    pl_free(dir);
    return found;
}

static pl_status find_program(char *out, size_t n_out, pl_err *err) {
    char exe[PATH_MAX];
    Dl_info info;
    const char *named = getenv("PLUMB_GUARD");
    if (named != NULL && named[0] != '\0') {
        snprintf(out, n_out, "%s", named);
        if (access(out, X_OK) == 0) return PL_OK;
        return pl_fail(err, PL_E_NOT_FOUND, "PLUMB_GUARD is '%s', which is not executable", named);
    }
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n > 0) {
        exe[n] = '\0';
        if (find_around(exe, out, n_out)) return PL_OK;
        if (ONE_FILE) {
            snprintf(out, n_out, "%s", exe);
            return PL_OK;
        }
    }
    /* /proc may not be mounted; the kernel also passes the path in the auxiliary vector. */
    const char *called = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
    if (n <= 0 && called != NULL && find_around(called, out, n_out)) return PL_OK;
    /* Inside another program: look around the library. */
    if (dladdr(&pl_backend_rows, &info) != 0 && info.dli_fname != NULL &&
        find_around(info.dli_fname, out, n_out)) {
        return PL_OK;
    }
    return pl_fail(
        err, PL_E_NOT_FOUND,
        "plumb-guard not found beside this program or library; set PLUMB_GUARD to its path");
}

/* Our environment with another TMPDIR. Only the last entry is allocated; the others are
 * borrowed. */
static char **make_env(const char *tmp_dir) {
    size_t n = 0, k = 0;
    while (environ[n] != NULL)
        n++;
    char **env = pl_calloc(n + 2, sizeof(char *));
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text, "TMPDIR=%s", tmp_dir);
    char *entry = pl_buf_take(&text);
    if (env == NULL || entry == NULL) {
        pl_free(env);
        pl_free(entry);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) env[k++] = environ[i];
    env[k] = entry;
    return env;
}

static void free_env(char **env) {
    size_t n = 0;
    while (env != NULL && env[n] != NULL)
        n++;
    if (n > 0) pl_free(env[n - 1]);
    pl_free(env);
}

/* Returns an errno. */
static int spawn_guard(const char *program, char **argv, const char *tmp_dir, int control,
                       pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = posix_spawnattr_init(&attr);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0); /* a Ctrl-C is plumb's to handle */
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, control, CONTROL);
    char **env = tmp_dir == NULL ? NULL : make_env(tmp_dir);
    if (tmp_dir != NULL && env == NULL) error = ENOMEM;
    if (error == 0) {
        error = posix_spawn(pid, program, &actions, &attr, argv, env == NULL ? environ : env);
    }
    free_env(env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return error;
}

static pl_status open_pair(int ends[2], pl_err *err) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) return PL_OK;
    ends[0] = ends[1] = -1;
    return pl_fail_errno(err, errno, "open a socket to", "plumb-guard");
}

/* Libraries lie beside the guard, and ONNX Runtime in a .cache around it (ort_api.c). */
static pl_status add_own_folders(const char *program, pl_confinement *c, pl_err *err) {
    static const char *const around[] = { "", "/.cache", "/../.cache", "/../../.cache" };
    char path[PATH_MAX + 96];
    char *folder = pl_path_dirname(program);
    pl_status st = folder == NULL ? pl_fail_memory(err, 1) : PL_OK;
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]) && st == PL_OK; i++) {
        snprintf(path, sizeof(path), "%s%s", folder, around[i]);
        st = pl_confinement_add(c, "--read", path, err);
    }
    pl_free(folder);
    return st;
}

/* Program name, then the arguments of the sandbox. */
static char **make_argv(char *name, const pl_confinement *confinement) {
    char **argv = pl_calloc(confinement->n_args + 2, sizeof(char *));
    if (argv == NULL) return NULL;
    argv[0] = name;
    for (size_t i = 0; i < confinement->n_args; i++)
        argv[i + 1] = confinement->args[i];
    return argv;
}

pl_status pl_guard_start(const char *tmp_dir, pl_confinement *confinement, pl_guard **out,
                         pl_err *err) {
    char program[PATH_MAX + 64], name[PATH_MAX + 64];
    int ends[2];
    PL_TRY(find_program(program, sizeof(program), err));
    if (confinement->n_args > 0) PL_TRY(add_own_folders(program, confinement, err));
    pl_guard *g = pl_calloc(1, sizeof(*g));
    if (g == NULL) return pl_fail_memory(err, sizeof(*g));
    pl_status st = open_pair(ends, err);
    /* dup2 onto itself would leave close-on-exec set, and a descriptor 0 or 1 would be replaced by
     * /dev/null before the dup2. */
    if (st == PL_OK && ends[1] <= CONTROL) {
        const int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, CONTROL + 1);
        close(ends[1]);
        ends[1] = moved;
        if (moved < 0) st = pl_fail_errno(err, errno, "open a socket to", "plumb-guard");
    }
    snprintf(name, sizeof(name), "%s", ONE_FILE ? "plumb-guard" : program);
    char **argv = make_argv(name, confinement);
    if (st == PL_OK) {
        const int error =
            argv == NULL ? ENOMEM : spawn_guard(program, argv, tmp_dir, ends[1], &g->pid);
        if (error != 0) st = pl_fail_errno(err, error, "start", program);
    }
    pl_free(argv);
    if (ends[1] >= 0) close(ends[1]);
    g->control = ends[0];
    g->must_confine = confinement->required;
    if (st != PL_OK) {
        if (ends[0] >= 0) close(ends[0]);
        pl_free(g);
        return st;
    }
    *out = g;
    return PL_OK;
}

/* False if the guard is still running: a child stuck in a driver, say, cannot be killed. */
static bool wait_for_guard(const pl_guard *g) {
    const int64_t deadline = pl_clock_ms() + END_WAIT_MS;
    for (;;) {
        pl_guard_msg m;
        struct pollfd fd = { g->control, POLLIN, 0 };
        const int64_t left = deadline - pl_clock_ms();
        if (left <= 0) return false;
        if (poll(&fd, 1, (int)left) <= 0) continue;
        if (pl_guard_receive(g->control, &m, MSG_DONTWAIT) == ECONNRESET) return true;
        pl_guard_msg_close(&m);
    }
}

void pl_guard_stop(pl_guard *g) {
    if (g == NULL) return;
    shutdown(g->control, SHUT_WR); /* tells it to end everything */
    if (!wait_for_guard(g)) kill(g->pid, SIGKILL);
    close(g->control);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    pl_free(g->preload);
    pl_free(g);
}

void pl_guard_abandon(pl_guard *g) {
    if (g != NULL) close(g->control);
}

void pl_guard_preload(pl_guard *g, const pl_guard_child *c) {
    if (c->n_threads != 1) return; /* forking a process with threads is unsafe */
    pl_free(g->preload);
    g->preload = pl_strdup(c->spec);
}

/* Sent only with the second child: many sessions need just one. */
static void send_preload(pl_guard *g) {
    pl_guard_msg m;
    if (g->preload == NULL) return;
    pl_guard_msg_init(&m, PL_MSG_PRELOAD);
    if (PL_GUARD_SET(m.preload.spec, g->preload)) pl_guard_send(g->control, &m, 0);
    pl_free(g->preload);
    g->preload = NULL;
}

/* ---- children ---- */

pl_status pl_guard_child_new(pl_guard *g, const char *spec, double timeout_seconds,
                             uint64_t memory_limit, pl_guard_child **out, pl_err *err) {
    int ends[2] = { -1, -1 };
    if (strlen(spec) >= sizeof(((pl_msg_open *)0)->spec))
        return pl_fail(err, PL_E_LIMIT, "the spec is too long");
    pl_guard_child *c = pl_calloc(1, sizeof(*c));
    char *copy = pl_strdup(spec);
    pl_status st =
        c == NULL || copy == NULL ? pl_fail_memory(err, sizeof(*c)) : open_pair(ends, err);
    if (st == PL_OK) {
        send_preload(g);
        pl_guard_msg m;
        pl_guard_msg_init(&m, PL_MSG_FORK);
        m.fork = (pl_msg_fork){ .id = ++g->next_id, .memory_limit = memory_limit };
        m.fds[0] = ends[1];
        const int error = pl_guard_send(g->control, &m, 0);
        if (error != 0) st = pl_fail_errno(err, error, "talk to", "plumb-guard");
    }
    if (ends[1] >= 0) close(ends[1]);
    if (st != PL_OK) {
        if (ends[0] >= 0) close(ends[0]);
        pl_free(c);
        pl_free(copy);
        return st;
    }
    *c = (pl_guard_child){ .guard = g,
                           .next = g->children,
                           .id = g->next_id,
                           .memory_limit = memory_limit,
                           .timeout_seconds = timeout_seconds,
                           .spec = copy,
                           .socket = ends[0] };
    g->children = c;
    *out = c;
    return PL_OK;
}

void pl_guard_child_watch(pl_guard_child *c, const pl_progress *progress) {
    c->progress = progress;
}

void pl_guard_child_set_timeout(pl_guard_child *child, double seconds) {
    child->timeout_seconds = seconds;
}

void pl_guard_child_again(pl_guard_child *c, pl_again again) {
    c->again = again;
}

static void send_kill(pl_guard_child *c, bool tell) {
    pl_guard_msg m;
    pl_guard_msg_init(&m, PL_MSG_KILL);
    m.kill = (pl_msg_kill){ .id = c->id, .tell_end = tell };
    pl_guard_send(c->guard->control, &m, 0);
}

void pl_guard_child_free(pl_guard_child *c) {
    if (c == NULL) return;
    for (pl_guard_child **at = &c->guard->children; *at != NULL; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    if (!c->ended) send_kill(c, false); /* first, so that its exit is not reported */
    close(c->socket);
    if (c->executed.data != NULL) munmap(c->executed.data, c->executed.n_bytes);
    if (c->places.data != NULL) munmap(c->places.data, c->places.n_bytes);
    pl_free(c->spec);
    pl_free(c);
}

/* Reads one exit report from the guard and stores it in its child. False: the guard is gone. */
static bool take_end(pl_guard *g, int flags) {
    pl_guard_msg m;
    const int error = pl_guard_receive(g->control, &m, flags);
    if (error == EAGAIN) return true;
    if (error != 0) return false;
    pl_guard_msg_close(&m);
    if (m.type != PL_MSG_ENDED) return true;
    for (pl_guard_child *c = g->children; c != NULL; c = c->next) {
        if (c->id != m.ended.id) continue;
        c->ended = true;
        c->end = m.ended;
    }
    return true;
}

bool pl_guard_child_alive(const pl_guard_child *c) {
    struct pollfd fd = { c->guard->control, POLLIN, 0 };
    while (!c->ended && poll(&fd, 1, 0) > 0 && take_end(c->guard, MSG_DONTWAIT)) {
    }
    return !c->ended;
}

/* Waits for the guard to report the exit of a child that is dead or killed. */
static bool wait_for_end(pl_guard_child *c, int64_t wait_ms) {
    const int64_t deadline = pl_clock_ms() + wait_ms;
    while (!c->ended) {
        const int64_t left = deadline - pl_clock_ms();
        struct pollfd fd = { c->guard->control, POLLIN, 0 };
        if (left <= 0) return false;
        if (poll(&fd, 1, (int)left) < 0 && errno != EINTR) return false;
        if (fd.revents != 0 && !take_end(c->guard, MSG_DONTWAIT)) return false;
    }
    return true;
}

/* The last line that is not blank. */
static const char *last_line(const char *tail, char *out, size_t n_out) {
    const char *end = tail + strlen(tail);
    while (end > tail && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    const char *start = end;
    while (start > tail && start[-1] != '\n')
        start--;
    snprintf(out, n_out, "%.*s", (int)(end - start), start);
    return out;
}

static pl_status describe_end(const pl_guard_child *c, const char *doing, bool timed_out,
                              pl_failure *failure, pl_err *err) {
    const int signal_number = (int)c->end.signal, exit_code = (int)c->end.exit_code;
    char line[300];
    pl_failure f = { .happened = true,
                     .timed_out = timed_out,
                     .out_of_memory = c->end.over_memory != 0,
                     .signal = signal_number,
                     .exit_code = exit_code };
    snprintf(f.stderr_tail, sizeof(f.stderr_tail), "%.511s", c->end.stderr_tail);
    if (failure != NULL) *failure = f;
    last_line(c->end.stderr_tail, line, sizeof(line));
    const char *said = line[0] == '\0' ? "" : "; last output: ";
    if (timed_out) {
        return pl_fail(err, PL_E_TIMEOUT, "backend '%s' timed out after %g s in %s%s%s", c->spec,
                       c->timeout_seconds, doing, said, line);
    }
    if (f.out_of_memory) {
        return pl_fail(err, PL_E_BACKEND, "backend '%s' used more than %llu MB in %s%s%s", c->spec,
                       (unsigned long long)(c->memory_limit >> 20), doing, said, line);
    }
    if (signal_number == SIGSYS) {
        /* With its signals blocked (fork of glibc 2.41) a process cannot say what it tried. */
        const bool told = strstr(c->end.stderr_tail, "sandbox: it tried to ") != NULL;
        return pl_fail(err, PL_E_BACKEND,
                       "backend '%s' was stopped by the sandbox in %s%s%s%s; if you trust it, run "
                       "it without the sandbox",
                       c->spec, doing, said, line,
                       told ? "" : "; it tried most likely to start a process (fork)");
    }
    if (signal_number != 0) {
        return pl_fail(err, PL_E_BACKEND, "backend '%s' crashed (signal %d, %s) in %s%s%s", c->spec,
                       signal_number, strsignal(signal_number), doing, said, line);
    }
    return pl_fail(err, PL_E_BACKEND, "backend '%s' exited with code %d in %s%s%s", c->spec,
                   exit_code, doing, said, line);
}

static pl_status child_failed(pl_guard_child *c, const char *doing, bool timed_out,
                              pl_failure *failure, pl_err *err) {
    /* A backend that closes all descriptors cuts itself off from plumb and keeps running. */
    const bool cut_off = !timed_out && !wait_for_end(c, CLOSED_WAIT_MS);
    if (timed_out || cut_off) send_kill(c, true);
    const bool ended = wait_for_end(c, END_WAIT_MS);
    if (ended && !cut_off) return describe_end(c, doing, timed_out, failure, err);
    if (failure != NULL) *failure = (pl_failure){ .happened = true, .timed_out = timed_out };
    if (!ended) {
        return pl_fail(err, PL_E_BACKEND, "plumb-guard died; backend '%s' was in %s", c->spec,
                       doing);
    }
    return pl_fail(err, PL_E_BACKEND, "backend '%s' closed its connection to plumb in %s", c->spec,
                   doing);
}

/* How long to wait before polling again for cancellation. */
static int poll_ms(const pl_guard_child *c, int64_t left) {
    const int64_t most = c->progress != NULL ? ASK_MS : 3600000;
    return (int)(left > most ? most : left);
}

/* Ends the child if the user cancelled. */
static pl_status check_wish(pl_guard_child *c, pl_err *err) {
    const pl_status st = pl_progress_poll(c->progress, err);
    if (st == PL_OK) return PL_OK;
    send_kill(c, true);
    (void)wait_for_end(c, END_WAIT_MS);
    return st;
}

/* Waits for the child's next message. */
static pl_status receive(pl_guard_child *c, const char *doing, int64_t deadline, pl_guard_msg *out,
                         pl_failure *failure, pl_err *err) {
    pl_guard_msg_init(out, PL_MSG_NONE); /* no answer yet */
    for (;;) {
        struct pollfd fds[2] = { { c->socket, POLLIN, 0 },
                                 { c->guard->control, c->ended ? 0 : POLLIN, 0 } };
        const int64_t left = deadline - pl_clock_ms();
        if (left <= 0) return child_failed(c, doing, true, failure, err);
        if (poll(fds, 2, poll_ms(c, left)) <= 0) {
            PL_TRY(check_wish(c, err));
            continue;
        }
        /* The guard also reports exits of other children. Read them at once: it must never
         * block. */
        if ((fds[1].revents & POLLIN) != 0) take_end(c->guard, MSG_DONTWAIT);
        if (fds[0].revents == 0) {
            if ((fds[1].revents & POLLHUP) == 0) continue;
            return child_failed(c, doing, false, failure, err);
        }
        const int error = pl_guard_receive(c->socket, out, MSG_DONTWAIT);
        if (error == EAGAIN) continue;
        if (error == 0) return PL_OK;
        if (error != ECONNRESET) { /* not a valid message */
            send_kill(c, true);
            wait_for_end(c, END_WAIT_MS);
            return pl_fail(err, PL_E_BACKEND, "backend '%s' sent an invalid message in %s", c->spec,
                           doing);
        }
        return child_failed(c, doing, false, failure, err);
    }
}

static int64_t deadline_of(const pl_guard_child *c) {
    if (!(c->timeout_seconds > 0) || c->timeout_seconds > 1e9) return INT64_MAX;
    return pl_clock_ms() + (int64_t)(1000 * c->timeout_seconds) + 1;
}

static pl_status send_request(pl_guard_child *c, const char *doing, const pl_guard_msg *m,
                              pl_failure *failure, pl_err *err) {
    if (c->ended) return describe_end(c, doing, false, failure, err);
    if (pl_guard_send(c->socket, m, 0) == 0) return PL_OK;
    return child_failed(c, doing, false, failure, err);
}

/* The child is not trusted: accept only the expected reply or a failure. */
static pl_status reply_status(const pl_guard_child *c, const pl_guard_msg *m,
                              pl_guard_type expected, pl_err *err) {
    if (m->type == expected) return PL_OK;
    if (m->type != PL_MSG_FAILED || m->failed.status == PL_OK ||
        m->failed.status >= PL_STATUS_COUNT) {
        return pl_fail(err, PL_E_BACKEND, "backend '%s' sent an invalid message", c->spec);
    }
    return pl_fail(err, (pl_status)m->failed.status, "%.900s", m->failed.message);
}

/* ---- requests ---- */

static pl_status ask(pl_guard_child *c, const char *doing, const pl_guard_msg *request,
                     pl_guard_type expected, pl_guard_msg *reply, pl_failure *failure,
                     pl_err *err) {
    PL_TRY(send_request(c, doing, request, failure, err));
    PL_TRY(receive(c, doing, deadline_of(c), reply, failure, err));
    const pl_status st = reply_status(c, reply, expected, err);
    if (st != PL_OK) pl_guard_msg_close(reply);
    return st;
}

pl_status pl_guard_child_open(pl_guard_child *c, pl_guard_opened *out, pl_failure *failure,
                              pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_OPEN);
    (void)PL_GUARD_SET(m.open.spec, c->spec); /* checked in pl_guard_child_new */
    m.open.must_confine = c->guard->must_confine;
    PL_TRY(ask(c, "open", &m, PL_MSG_OPENED, &reply, failure, err));
    pl_guard_msg_close(&reply);
    c->n_threads = reply.opened.n_threads;
    out->cpu = reply.opened.cpu;
    out->confined = reply.opened.confined == 1;
    out->limited = reply.opened.limited == 1;
    snprintf(out->version, sizeof(out->version), "%s", reply.opened.version);
    snprintf(out->device, sizeof(out->device), "%s", reply.opened.device);
    snprintf(out->modes, sizeof(out->modes), "%s", reply.opened.modes);
    return PL_OK;
}

pl_status pl_guard_child_supports(pl_guard_child *c, const char *domain, const char *op, int opset,
                                  int *answer, pl_failure *failure, pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_SUPPORTS);
    m.supports.opset = (uint64_t)opset;
    if (!PL_GUARD_SET(m.supports.op, op) || !PL_GUARD_SET(m.supports.domain, domain))
        return pl_fail(err, PL_E_LIMIT, "the name of an operator is too long");
    PL_TRY(ask(c, "supports", &m, PL_MSG_SUPPORTED, &reply, failure, err));
    pl_guard_msg_close(&reply);
    *answer = reply.supported.answer == 0 ? 0 : reply.supported.answer == 1 ? 1 : -1;
    return PL_OK;
}

static pl_status write_names(const plumb_source *s, int *fd, pl_err *err) {
    const size_t n = s->n_inputs + s->n_outputs;
    pl_parcel_item *items = pl_calloc(n + 1, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++) {
        const char *name = i < s->n_inputs ? s->inputs[i] : s->outputs[i - s->n_inputs];
        items[i].name = (char *)(uintptr_t)name;
    }
    const pl_status st = pl_parcel_write(items, n, fd, err);
    pl_free(items);
    return st;
}

static pl_status open_model(const plumb_source *s, int *fd, pl_err *err) {
    if (s->path == NULL) return pl_parcel_write_bytes(s->onnx, s->n_onnx, fd, err);
    *fd = pl_fd_open(s->path, O_RDONLY | O_CLOEXEC, 0);
    return *fd < 0 ? pl_fail_errno(err, errno, "open", s->path) : PL_OK;
}

pl_status pl_guard_child_compile(pl_guard_child *c, const plumb_source *s, size_t *n_hooks,
                                 pl_failure *failure, pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_COMPILE);
    if (!PL_GUARD_SET(m.compile.path, s->path == NULL ? "" : s->path))
        return pl_fail(err, PL_E_LIMIT, "a path is too long");
    m.compile.seed = s->seed;
    m.compile.threads = (uint64_t)s->threads;
    m.compile.any_shape = (uint64_t)s->any_shape;
    m.compile.record = (uint64_t)s->record;
    m.compile.has_path = s->path != NULL;
    m.compile.n_inputs = s->n_inputs;
    pl_status st = open_model(s, &m.fds[0], err);
    if (st == PL_OK) st = write_names(s, &m.fds[1], err);
    if (st == PL_OK) st = ask(c, "compile", &m, PL_MSG_COMPILED, &reply, failure, err);
    pl_guard_msg_close(&m);
    PL_TRY(st);
    pl_guard_msg_close(&reply);
    *n_hooks = (size_t)reply.compiled.n_hooks;
    return PL_OK;
}

static pl_status write_inputs(const plumb_run_args *args, pl_guard_msg *m, pl_err *err) {
    const plumb_hook *hook = args->hook;
    const size_t n_plain = hook != NULL && args->plain != NULL ? args->n_out : 0;
    const size_t n_names = hook != NULL && hook->names != NULL ? hook->n_names : 0;
    const size_t n = args->n_in + n_plain + n_names;
    static char none[] = "";
    pl_parcel_item *items = pl_calloc(n + 1, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        items[i].name = none;
    for (size_t i = 0; i < args->n_in; i++)
        items[i].datum = (pl_datum *)(uintptr_t)args->in[i];
    for (size_t i = 0; i < n_plain; i++)
        items[args->n_in + i].datum = (pl_datum *)(uintptr_t)args->plain[i];
    for (size_t i = 0; i < n_names; i++)
        items[args->n_in + n_plain + i].name = (char *)(uintptr_t)hook->names[i];
    m->run.n_in = args->n_in;
    m->run.recording = hook != NULL;
    m->run.mode = args->mode;
    m->run.value_limit = args->memory_limit;
    m->run.has_plain = n_plain > 0;
    m->run.has_names = hook != NULL && hook->names != NULL;
    const pl_status st = pl_parcel_write(items, n, &m->fds[0], err);
    pl_free(items);
    return st;
}

static pl_status show_value(const pl_guard_child *c, const plumb_run_args *args, pl_guard_msg *m,
                            pl_err *err) {
    pl_parcel parcel = { 0 };
    const bool maps = m->value.maps != 0;
    pl_status st = pl_parcel_read(m->fds[0], false, &parcel, err);
    pl_guard_msg_close(m);
    PL_TRY(st);
    const size_t n = parcel.n_items;
    const char **names = pl_calloc(n + 1, sizeof(char *));
    const bool same = m->value.same != 0 && c->again == PL_AGAIN_COMPARE;
    if (n < 1 || (parcel.items[0].datum == NULL) != same || args->hook == NULL) {
        st = pl_fail(err, PL_E_BACKEND, "backend '%s' sent an invalid value", c->spec);
    } else if (names == NULL) {
        st = pl_fail_memory(err, n);
    } else {
        for (size_t i = 1; i < n; i++)
            names[i - 1] = parcel.items[i].name;
        const plumb_seen seen = { .name = parcel.items[0].name,
                                  .datum = same ? NULL : pl_datum_public(parcel.items[0].datum),
                                  .stands_for = maps ? names : NULL,
                                  .n_stands_for = n - 1 };
        st = args->hook->value(args->hook->ctx, &seen, err);
    }
    pl_free(names);
    pl_parcel_release(&parcel);
    return st;
}

static pl_status take_outputs(const pl_guard_child *c, const plumb_run_args *args,
                              const pl_guard_msg *m, pl_err *err) {
    pl_parcel parcel = { 0 };
    PL_TRY(pl_parcel_read(m->fds[0], false, &parcel, err));
    if (parcel.n_items != args->n_out) {
        const size_t n = parcel.n_items;
        pl_parcel_release(&parcel);
        return pl_fail(err, PL_E_BACKEND, "backend '%s' returned %zu outputs, expected %zu",
                       c->spec, n, args->n_out);
    }
    for (size_t i = 0; i < args->n_out; i++) {
        args->out[i] = pl_datum_public(parcel.items[i].datum);
        parcel.items[i].datum = NULL;
    }
    pl_parcel_release(&parcel);
    if (args->record != NULL) {
        *args->record = (plumb_record_info){ .n_values = (size_t)m->ran.n_values,
                                             .n_seen = (size_t)m->ran.n_seen,
                                             .n_hidden = (size_t)m->ran.n_hidden,
                                             .n_disturbed = (size_t)m->ran.n_disturbed,
                                             .n_runs = (size_t)m->ran.n_runs,
                                             .differs = m->ran.differs != 0 };
    }
    return PL_OK;
}

pl_status pl_guard_child_run(pl_guard_child *c, const plumb_run_args *args, pl_run_times *times,
                             pl_failure *failure, pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_RUN);
    m.run.guard_limit = c->memory_limit;
    m.run.again = args->hook == NULL ? PL_AGAIN_NONE : c->again;
    pl_status st = write_inputs(args, &m, err);
    if (st == PL_OK) st = send_request(c, "run", &m, failure, err);
    pl_guard_msg_close(&m);
    PL_TRY(st);
    const int64_t deadline = deadline_of(c);
    for (;;) {
        PL_TRY(receive(c, "run", deadline, &reply, failure, err));
        if (reply.type != PL_MSG_VALUE) break;
        st = show_value(c, args, &reply, err);
        if (st != PL_OK) { /* do not read the rest */
            send_kill(c, true);
            wait_for_end(c, END_WAIT_MS);
            return st;
        }
    }
    st = reply_status(c, &reply, PL_MSG_RAN, err);
    if (st == PL_OK) *times = (pl_run_times){ reply.ran.submit_ns, reply.ran.wait_ns };
    if (st == PL_OK) st = take_outputs(c, args, &reply, err);
    pl_guard_msg_close(&reply);
    return st;
}

/* Maps the bytes that came with a reply. They must be sealed, so that the child cannot shrink
 * them. */
static pl_status map_reply(const pl_guard_child *c, const pl_guard_msg *reply, const char *what,
                           pl_mapped *out, pl_err *err) {
    struct stat info;
    const int fd = reply->fds[0];
    const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &info) != 0 || info.st_size <= 0)
        return pl_fail(err, PL_E_BACKEND, "backend '%s' sent an invalid %s", c->spec, what);
    if (out->data != NULL) munmap(out->data, out->n_bytes);
    out->n_bytes = (size_t)info.st_size;
    out->data = mmap(NULL, out->n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (out->data != MAP_FAILED) return PL_OK;
    out->data = NULL;
    return pl_fail_memory(err, out->n_bytes);
}

pl_status pl_guard_child_executed(pl_guard_child *c, pl_bytes *onnx, pl_failure *failure,
                                  pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_TELL_GRAPH);
    PL_TRY(ask(c, "returning its graph", &m, PL_MSG_GRAPH, &reply, failure, err));
    const pl_status st = map_reply(c, &reply, "graph", &c->executed, err);
    if (st == PL_OK) *onnx = (pl_bytes){ c->executed.data, c->executed.n_bytes };
    pl_guard_msg_close(&reply);
    return st;
}

pl_status pl_guard_child_placement(pl_guard_child *c, const char **text, pl_failure *failure,
                                   pl_err *err) {
    pl_guard_msg m, reply;
    pl_guard_msg_init(&m, PL_MSG_TELL_PLACES);
    PL_TRY(ask(c, "telling where its nodes run", &m, PL_MSG_PLACES, &reply, failure, err));
    pl_status st = map_reply(c, &reply, "placement", &c->places, err);
    pl_guard_msg_close(&reply);
    PL_TRY(st);
    const char *bytes = c->places.data;
    if (bytes[c->places.n_bytes - 1] != '\0')
        return pl_fail(err, PL_E_BACKEND, "backend '%s' sent an invalid placement", c->spec);
    *text = bytes;
    return PL_OK;
}

/* Child processes. posix_spawn and not fork: the caller may have threads and gigabytes mapped.
 *
 * The child leads its own process group, so that a time-out ends its descendants too. A descendant
 * that outlives the child may keep the pipes open. Once the child has ended, we read for a moment
 * more and then close them. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum {
    OUTPUT_DEFAULT_BYTES = 1 << 20,
    READ_BYTES = 16 << 10,
    CHECK_MS = 20,    /* how often to look whether the child ended while its pipes stay open */
    GRACE_MS = 200,   /* for output of descendants after the child's end */
    DRAIN_READS = 64, /* more than a pipe holds */
    SLOTS = 64,       /* children at a time that a signal handler can end */
};

/* Groups that pl_process_run waits for. Global because a signal handler can reach nothing else; by
 * owner, so that a forked process does not end its parent's children. */
static struct {
    pid_t group; /* atomic; 0 = free, -1 = being filled */
    pid_t owner;
} running[SLOTS];

static int running_add(pid_t group) {
    for (int i = 0; i < SLOTS; i++) {
        pid_t expected = 0;
        if (!__atomic_compare_exchange_n(&running[i].group, &expected, -1, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        running[i].owner = getpid();
        __atomic_store_n(&running[i].group, group, __ATOMIC_RELEASE);
        return i;
    }
    return -1;
}

static void running_remove(int slot) {
    if (slot >= 0) __atomic_store_n(&running[slot].group, 0, __ATOMIC_RELEASE);
}

void pl_process_abandon(void) {
    const pid_t self = getpid();
    for (int i = 0; i < SLOTS; i++) {
        const pid_t group = __atomic_load_n(&running[i].group, __ATOMIC_ACQUIRE);
        if (group > 0 && running[i].owner == self) kill(-group, SIGKILL);
    }
}

typedef struct stream {
    int fd; /* our end; -1 at its end */
    size_t max_bytes;
    pl_buf *buf;
} stream;

typedef struct child {
    pid_t pid;
    bool ended; /* a zombie that we have not reaped yet: its pid cannot be reused */
    bool killed;
    bool in_our_group;
    int slot;            /* in `running`; -1 = none */
    int64_t deadline_ms; /* INT64_MAX = none */
    int64_t grace_end_ms;
    stream streams[2];
} child;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Both ends close-on-exec and above 2: dup2 onto 0..2 in the child must not hit another pipe when
 * our own standard streams are closed. */
static int pipe_open(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i] > 2) continue;
        const int fd = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
        const int error = errno;
        close_fd(&ends[i]);
        ends[i] = fd;
        if (fd < 0) {
            errno = error;
            return -1;
        }
    }
    return 0;
}

static int spawn_attributes(posix_spawnattr_t *attr, bool in_our_group) {
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* a host that ignores it would pass that on to the child */
    sigaddset(&defaults, SIGXFSZ);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    sigaddset(&defaults, SIGCHLD);
    const int group = in_our_group ? 0 : POSIX_SPAWN_SETPGROUP;
    int error = posix_spawnattr_setflags(
        attr, (short)(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    if (error == 0) error = posix_spawnattr_setpgroup(attr, 0);
    if (error == 0) error = posix_spawnattr_setsigmask(attr, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(attr, &defaults);
    return error;
}

static int spawn_actions(posix_spawn_file_actions_t *actions, const char *dir, int out, int err) {
    int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_adddup2(actions, out, 1);
    if (error == 0) error = posix_spawn_file_actions_adddup2(actions, err, 2);
    if (error == 0 && dir != NULL) error = posix_spawn_file_actions_addchdir_np(actions, dir);
    return error;
}

/* Returns an errno. */
static int spawn(const char *const *argv, const pl_process_options *options, int out, int err,
                 pid_t *pid) {
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    int error = posix_spawnattr_init(&attr);
    if (error != 0) return error;
    error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        posix_spawnattr_destroy(&attr);
        return error;
    }
    error = spawn_attributes(&attr, options->in_our_group);
    if (error == 0) error = spawn_actions(&actions, options->dir, out, err);
    /* posix_spawn takes char *const * for historical reasons but does not modify them. */
    char *const *args = (char *const *)(uintptr_t)argv;
    char *const *env = options->env == NULL ? environ : (char *const *)(uintptr_t)options->env;
    if (error == 0) error = posix_spawnp(pid, args[0], &actions, &attr, args, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return error;
}

/* Drops the oldest bytes once there is twice the limit: amortised, each byte moves at most once. */
static void keep_tail(pl_buf *buf, size_t max_bytes, bool final) {
    const size_t limit = final || max_bytes > SIZE_MAX / 2 ? max_bytes : 2 * max_bytes;
    if (buf->data == NULL || buf->n_bytes <= limit) return;
    memmove(buf->data, buf->data + buf->n_bytes - max_bytes, max_bytes);
    buf->n_bytes = max_bytes;
    buf->data[max_bytes] = '\0';
}

/* False if there was nothing to read. */
static bool stream_read(stream *s) {
    char chunk[READ_BYTES];
    if (s->fd < 0) return false;
    const ssize_t n = read(s->fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) {
        close_fd(&s->fd);
        return false;
    }
    pl_buf_append(s->buf, chunk, (size_t)n);
    keep_tail(s->buf, s->max_bytes, false);
    return true;
}

/* All that the child itself wrote is in the pipe by now; read what is left. */
static void stream_drain_close(stream *s) {
    for (int i = 0; i < DRAIN_READS && stream_read(s); i++) {
    }
    close_fd(&s->fd);
}

/* Checks without reaping: while the zombie exists, its group id cannot be reused. */
static void check_ended(child *c) {
    siginfo_t info = { 0 };
    if (c->ended) return;
    const int r = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if ((r == 0 && info.si_pid == c->pid) || (r != 0 && errno == ECHILD)) {
        c->ended = true;
        c->grace_end_ms = pl_clock_ms() + GRACE_MS;
    }
}

static void kill_group(child *c) {
    kill(c->in_our_group ? c->pid : -c->pid, SIGKILL);
    c->killed = true;
}

static int wait_ms(const child *c, int64_t now) {
    const int64_t end = c->ended ? c->grace_end_ms : c->deadline_ms;
    if (end <= now) return 0;
    /* No pipe left to wait on: poll more often. */
    const int64_t step = c->streams[0].fd < 0 && c->streams[1].fd < 0 ? 2 : CHECK_MS;
    return (int)(end - now < step ? end - now : step);
}

/* Reads until the child has ended and its pipes are empty, or the time is up. */
static pl_status child_follow(child *c, const pl_progress *progress, bool *timed_out, pl_err *err) {
    pl_status st = PL_OK;
    for (;;) {
        const bool reading = c->streams[0].fd >= 0 || c->streams[1].fd >= 0;
        check_ended(c);
        const int64_t now = pl_clock_ms();
        if (c->ended && (!reading || now >= c->grace_end_ms)) break;
        if (!c->ended && !c->killed && now >= c->deadline_ms) {
            *timed_out = true;
            kill_group(c);
            c->deadline_ms = INT64_MAX;
        }
        if (!pl_buf_ok(c->streams[0].buf) || !pl_buf_ok(c->streams[1].buf)) {
            if (!c->killed) kill_group(c);
        }
        if (st == PL_OK && (st = pl_progress_poll(progress, err)) != PL_OK) kill_group(c);
        struct pollfd fds[2] = { { c->streams[0].fd, POLLIN, 0 }, { c->streams[1].fd, POLLIN, 0 } };
        if (poll(fds, 2, wait_ms(c, now)) <= 0) continue;
        for (int i = 0; i < 2; i++) {
            if (fds[i].revents != 0) stream_read(&c->streams[i]);
        }
    }
    return st;
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static pl_status child_reap(const child *c, const char *name, pl_process_result *out, pl_err *err) {
    int status = 0;
    pid_t r;
    struct rusage used = { 0 };
    do
        r = wait4(c->pid, &status, 0, &used);
    while (r < 0 && errno == EINTR);
    if (r < 0) return pl_fail_errno(err, errno, "wait for", name);
    out->cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    if (WIFSIGNALED(status)) {
        out->signal = WTERMSIG(status);
    } else {
        out->exit_code = WEXITSTATUS(status);
    }
    return PL_OK;
}

/* Signals wait until a handler can find the child. */
static int child_start(child *c, const char *const *argv, const pl_process_options *options,
                       int out, int err) {
    sigset_t all, before;
    sigfillset(&all);
    const bool held = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    const int error = spawn(argv, options, out, err, &c->pid);
    if (error == 0 && !c->in_our_group) c->slot = running_add(c->pid);
    if (held) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int64_t deadline_from(double seconds) {
    if (!(seconds > 0) || seconds > 1e9) return INT64_MAX;
    return pl_clock_ms() + (int64_t)(seconds * 1000) + 1;
}

pl_status pl_process_run(const char *const *argv, const pl_process_options *options,
                         pl_process_result *out, pl_err *err) {
    static const pl_process_options defaults = { 0 };
    if (options == NULL) options = &defaults;
    *out = (pl_process_result){ .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    if (argv[0] == NULL) return pl_fail(err, PL_E_INVALID, "no program to run");
    if (options->dir != NULL && !pl_path_is_dir(options->dir))
        return pl_fail(err, PL_E_NOT_FOUND, "cannot run '%s' in '%s': no such directory", argv[0],
                       options->dir);
    const size_t max =
        options->max_output_bytes == 0 ? OUTPUT_DEFAULT_BYTES : options->max_output_bytes;
    int pipes[2][2] = { { -1, -1 }, { -1, -1 } };
    pl_status st = PL_OK;
    child c = { .deadline_ms = deadline_from(options->timeout_seconds),
                .slot = -1,
                .in_our_group = options->in_our_group };

    if (pipe_open(pipes[0]) != 0 || pipe_open(pipes[1]) != 0) {
        st = pl_fail_errno(err, errno, "open a pipe for", argv[0]);
        goto done;
    }
    const int error = child_start(&c, argv, options, pipes[0][1], pipes[1][1]);
    if (error != 0) {
        st = pl_fail_errno(err, error, "start", argv[0]);
        goto done;
    }
    close_fd(&pipes[0][1]);
    close_fd(&pipes[1][1]);
    fcntl(pipes[0][0], F_SETFL, O_NONBLOCK);
    fcntl(pipes[1][0], F_SETFL, O_NONBLOCK);
    c.streams[0] = (stream){ pipes[0][0], max, &out->out };
    c.streams[1] = (stream){ pipes[1][0], max, &out->err };
    pipes[0][0] = pipes[1][0] = -1;
    st = child_follow(&c, options->progress, &out->timed_out, err);
    stream_drain_close(&c.streams[0]);
    stream_drain_close(&c.streams[1]);
    running_remove(c.slot); /* before its number can be another's */
    const pl_status reaped = child_reap(&c, argv[0], out, st == PL_OK ? err : NULL);
    PL_TRY_GOTO(done, st, st == PL_OK ? reaped : st);
    keep_tail(&out->out, max, true);
    keep_tail(&out->err, max, true);
    if (!pl_buf_ok(&out->out) || !pl_buf_ok(&out->err)) st = pl_fail_memory(err, max);
done:
    for (int i = 0; i < 4; i++)
        close_fd(&pipes[i / 2][i % 2]);
    return st;
}

void pl_process_result_release(pl_process_result *result) {
    pl_buf_release(&result->out);
    pl_buf_release(&result->err);
}

/* ---- memory ---- */

static int64_t peak_of(int who) {
    struct rusage usage;
    return getrusage(who, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

int64_t pl_process_peak_bytes(void) {
    return peak_of(RUSAGE_SELF) + peak_of(RUSAGE_CHILDREN);
}

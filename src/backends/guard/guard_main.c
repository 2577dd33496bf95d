/* plumb-guard: forks one child per program under test and watches it. It never computes, so it has
 * no threads and stays fit to fork. The one backend it opens itself is ONNX Runtime, which is slow
 * to start, and only after a child has done so without harm and without starting a thread. Later
 * children inherit it.
 *
 * Descriptor 3 is the socket to plumb; when it closes, the guard and all children end. Each child
 * leads its own session, writes stdout and stderr into a pipe whose tail is kept, and dumps no
 * core. Orphans of a child (programs that it started) are reparented to the guard, their subreaper,
 * and killed. Memory: the resident private and shared-memory pages of the child and its descendants
 * are read from /proc every few milliseconds (address-space limits would break runtimes that
 * reserve more than they use, and sanitizers). Each child has a folder of its own as TMPDIR, since
 * a killed process cannot clean up; the guard clears it. With --confine the guard confines itself
 * to the files it was given (sandbox.h), and children to fewer system calls and, where this user
 * may make one, to a cgroup. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "backends/guard/cgroup.h"
#include "backends/guard/guard_child.h"
#include "backends/guard/guard_msg.h"
#include "backends/guard/guard_proc.h"
#include "backends/guard/sandbox.h"
#include "base/alloc.h"
#include "base/blocks.h"
#include "base/file.h"
#include "plumb.h"

enum {
    CONTROL = 3,
    MAX_CHILDREN = 256,
    TAIL_BYTES = 500,
    MEMORY_CHECK_MS = 5,
    NOT_STARTED = 127 << 8, /* wait status of an exit with 127 */
};

typedef struct child {
    pid_t pid; /* 0 = free */
    uint64_t id, memory_limit;
    int pipe;
    bool quiet, over_limit;
    bool ended; /* dead, but plumb's socket was full: still to be reported */
    int status; /* wait status, when ended */
    char tail[TAIL_BYTES + 1];
    size_t n_tail;
} child;

typedef struct guard {
    child children[MAX_CHILDREN];
    int signals;
    pl_sandbox sandbox;
    bool confined;
    pl_cgroup group;    /* of all children */
    char *group_parent; /* NULL = no group */
    uint64_t n_killed;  /* there, for want of memory */
    pl_backend *warm;   /* NULL = none */
    char *tmp;          /* holds the children's folders; NULL = could not be created */
    bool done;
} guard;

/* A crash of the backend must look like one in builds with sanitizers too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:"
           "detect_leaks=0:allocator_may_return_null=1";
}

static void kill_child(const child *c) {
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
}

static void check_memory(guard *g) {
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        child *c = &g->children[i];
        if (c->pid == 0 || c->ended || c->memory_limit == 0 || c->over_limit) continue;
        if (pl_proc_tree_memory(c->pid) <= c->memory_limit) continue;
        c->over_limit = true;
        kill_child(c);
    }
}

/* Programs that a dead child had started are ours now. */
static void kill_orphan(void *ctx, pid_t pid) {
    const guard *g = ctx;
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        if (g->children[i].pid == pid) return;
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

/* ---- cgroup ---- */

static void open_group(guard *g) {
    g->group_parent = pl_cgroup_find_own();
    if (g->group_parent == NULL || pl_cgroup_open(g->group_parent, &g->group)) return;
    pl_free(g->group_parent);
    g->group_parent = NULL;
}

/* One group for all children, `more` of them soon: each has its own limit in check_memory. */
static void limit_group(const guard *g, const pl_msg_fork *more) {
    size_t n = 1;
    uint64_t sum = more->memory_limit;
    bool unlimited = sum == 0;
    if (g->group.path == NULL) return;
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        const child *c = &g->children[i];
        if (c->pid == 0 || c->ended) continue;
        n++;
        unlimited = unlimited || c->memory_limit == 0 || sum > UINT64_MAX - c->memory_limit;
        sum += c->memory_limit;
    }
    pl_cgroup_limit(&g->group, n, unlimited ? 0 : sum);
}

/* Whether the kernel ended a child because of the group's limit. */
static bool killed_by_group(guard *g, int status) {
    if (g->group.path == NULL || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return false;
    const uint64_t n = pl_cgroup_count_killed(&g->group);
    const bool more = n > g->n_killed;
    g->n_killed = n;
    return more;
}

/* ---- children ---- */

static void read_tail(child *c) {
    char chunk[4096];
    for (;;) {
        const ssize_t n = read(c->pipe, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) {
            close(c->pipe);
            c->pipe = -1;
        }
        if (n <= 0) return;
        const size_t add = (size_t)n < TAIL_BYTES ? (size_t)n : TAIL_BYTES;
        const size_t keep = c->n_tail + add <= TAIL_BYTES ? c->n_tail : TAIL_BYTES - add;
        memmove(c->tail, c->tail + c->n_tail - keep, keep);
        memcpy(c->tail + keep, chunk + (size_t)n - add, add);
        c->n_tail = keep + add;
    }
}

/* ---- temporary folders of children ---- */

/* Named by slot and reused, because creating a folder costs a fifth of a query. The caller frees
 * it; NULL if there is no folder. */
static char *folder_of(const guard *g, const child *c) {
    char name[32];
    snprintf(name, sizeof(name), "%td", c - g->children);
    return g->tmp == NULL ? NULL : pl_path_join(g->tmp, name);
}

static void enter_folder(const guard *g, const child *c) {
    char *folder = folder_of(g, c);
    if (folder != NULL && (mkdir(folder, 0700) == 0 || errno == EEXIST)) {
        setenv("TMPDIR", folder, 1);
    }
    pl_free(folder);
}

/* Files that a descendant writes later are removed when the guard ends. */
static void clear_folder(const guard *g, const child *c) {
    pl_dir_list left = { 0 };
    char *folder = folder_of(g, c);
    if (folder != NULL && pl_dir_list_read(folder, &left, NULL) == PL_OK && left.n_names > 0) {
        pl_dir_remove(folder, NULL);
    }
    pl_dir_list_free(&left);
    pl_free(folder);
}

/* A requested sandbox must never be dropped silently. */
static void cannot_confine(void) {
    fprintf(stderr, "plumb-guard: cannot set up the sandbox: %s\n", strerror(errno));
    _exit(4);
}

static void run_child(guard *g, const child *c, int socket, int pipe_end) {
    sigset_t none;
    const struct rlimit no_core = { 0, 0 };
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    setrlimit(RLIMIT_CORE, &no_core);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(pipe_end, 1);
    dup2(pipe_end, 2);
    /* Closes descriptors of the guard and of other children. */
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        if (g->children[i].pid != 0 && g->children[i].pipe >= 0) close(g->children[i].pipe);
    }
    close(g->signals);
    close(CONTROL);
    close(pipe_end);
    enter_folder(g, c);
    const bool limited = g->group.path != NULL && pl_cgroup_enter(&g->group);
    if (g->confined && !pl_sandbox_calls(&g->sandbox)) cannot_confine();
    _exit(pl_guard_child_serve(socket, g->warm, g->confined, limited));
}

/* False when the socket is full. Never blocks: plumb may itself be waiting for the guard. */
static bool tell_end(uint64_t id, int status, bool memory, const char *tail) {
    pl_guard_msg m;
    pl_guard_msg_init(&m, PL_MSG_ENDED);
    m.ended.id = id;
    m.ended.signal = WIFSIGNALED(status) ? (uint64_t)WTERMSIG(status) : 0;
    m.ended.exit_code = WIFEXITED(status) ? (uint64_t)WEXITSTATUS(status) : 0;
    m.ended.over_memory = memory;
    (void)PL_GUARD_SET(m.ended.stderr_tail, tail);
    return pl_guard_send(CONTROL, &m, MSG_DONTWAIT) != EAGAIN;
}

static child *free_slot(guard *g) {
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        if (g->children[i].pid == 0) return &g->children[i];
    }
    return NULL;
}

static void start_child(guard *g, const pl_guard_msg *m) {
    int ends[2] = { -1, -1 };
    child *c = free_slot(g);
    if (c == NULL || m->fds[0] < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        tell_end(m->fork.id, NOT_STARTED, false, "plumb-guard: too many children");
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    limit_group(g, &m->fork);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_child(g, c, m->fds[0], ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        tell_end(m->fork.id, NOT_STARTED, false, "plumb-guard: cannot fork");
        return;
    }
    *c = (child){
        .pid = pid, .id = m->fork.id, .memory_limit = m->fork.memory_limit, .pipe = ends[0]
    };
}

static void stop_child(guard *g, const pl_guard_msg *m) {
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        child *c = &g->children[i];
        if (c->pid == 0 || c->id != m->kill.id) continue;
        c->quiet = m->kill.tell_end == 0;
        if (!c->ended) kill_child(c);
        return;
    }
}

/* Sends pending reports. True when the slot is free again. */
static bool finish_child(child *c) {
    if (!c->quiet && !tell_end(c->id, c->status, c->over_limit, c->tail)) return false;
    *c = (child){ .pid = 0 };
    return true;
}

static void child_ended(guard *g, pid_t pid, int status) {
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        child *c = &g->children[i];
        if (c->pid != pid || c->ended) continue;
        kill(-pid, SIGKILL); /* the rest of its session */
        if (c->pipe >= 0) read_tail(c);
        if (c->pipe >= 0) close(c->pipe);
        c->pipe = -1;
        c->tail[c->n_tail] = '\0';
        c->ended = true;
        c->status = status;
        if (!c->quiet && killed_by_group(g, status)) c->over_limit = true;
        finish_child(c);
        clear_folder(g, c);
        return;
    }
}

static void reap(guard *g) {
    struct signalfd_siginfo info;
    while (read(g->signals, &info, sizeof(info)) > 0) {
    }
    for (;;) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) break;
        child_ended(g, pid, status);
    }
    pl_proc_each_child(getpid(), kill_orphan, g);
}

/* ---- a backend for children to inherit ---- */

enum { TRIAL_SECONDS = 20 };

/* A child tries it first: it may crash, hang or start threads, which the guard must not. */
static pl_backend *open_warm(const char *spec) {
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(TRIAL_SECONDS);
        dup2(1, 2); /* discard its output */
        _exit(pl_backend_preload(spec) != NULL && pl_guard_count_threads() == 1 ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && status == 0 ? pl_backend_preload(spec) : NULL;
}

/* ---- the loop ---- */

static void serve_control(guard *g) {
    pl_guard_msg m;
    const int error = pl_guard_receive(CONTROL, &m, MSG_DONTWAIT);
    if (error == EAGAIN) return;
    if (error != 0) {
        g->done = true;
        return;
    }
    if (m.type == PL_MSG_FORK) start_child(g, &m);
    if (m.type == PL_MSG_KILL) stop_child(g, &m);
    if (m.type == PL_MSG_PRELOAD && g->warm == NULL) g->warm = open_warm(m.preload.spec);
    pl_guard_msg_close(&m);
}

static void loop_once(guard *g) {
    struct pollfd fds[MAX_CHILDREN + 2];
    child *owners[MAX_CHILDREN + 2];
    nfds_t n = 0;
    int wait_ms = -1;
    fds[n++] = (struct pollfd){ CONTROL, POLLIN, 0 };
    fds[n++] = (struct pollfd){ g->signals, POLLIN, 0 };
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        child *c = &g->children[i];
        if (c->pid == 0) continue;
        if (c->ended && !finish_child(c)) fds[0].events |= POLLOUT;
        if (c->pid != 0 && !c->ended && c->memory_limit != 0) wait_ms = MEMORY_CHECK_MS;
        if (c->pid == 0 || c->pipe < 0) continue;
        owners[n] = c;
        fds[n++] = (struct pollfd){ c->pipe, POLLIN, 0 };
    }
    if (poll(fds, n, wait_ms) < 0 && errno != EINTR) {
        g->done = true;
        return;
    }
    for (nfds_t i = 2; i < n; i++) {
        if (fds[i].revents != 0) read_tail(owners[i]);
    }
    if (wait_ms >= 0) check_memory(g);
    if (fds[1].revents != 0) reap(g);
    if ((fds[0].revents & ~POLLOUT) != 0) serve_control(g);
}

static void end_all(guard *g) {
    for (size_t i = 0; i < MAX_CHILDREN; i++) {
        if (g->children[i].pid != 0 && !g->children[i].ended) kill_child(&g->children[i]);
    }
    /* Killing a child leaves its orphans to us, so look again after each. */
    for (;;) {
        int status;
        pl_proc_each_child(getpid(), kill_orphan, g);
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) break;
        for (size_t i = 0; i < MAX_CHILDREN; i++) {
            if (g->children[i].pid == pid) g->children[i].pid = 0;
        }
    }
    if (g->tmp != NULL) pl_dir_remove(g->tmp, NULL);
    pl_free(g->tmp);
    pl_cgroup_close(&g->group);
    pl_free(g->group_parent);
}

/* If a standard stream were closed, the next descriptor would take its number, and children would
 * write to it. */
static void fill_standard_streams(void) {
    for (int fd = 0; fd < CONTROL; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);
}

/* --confine, --programs, --read PATH, --write PATH. False: unknown argument. */
static bool read_arguments(guard *g, int n, char **args) {
    pl_sandbox *s = &g->sandbox;
    const char **paths = pl_calloc((size_t)n + 8, 2 * sizeof(char *));
    if (paths == NULL) return false;
    const char **writable = paths + n + 8;
    for (int i = 1; i < n; i++) {
        const bool has_value = i + 1 < n;
        if (strcmp(args[i], "--confine") == 0) {
            g->confined = true;
        } else if (strcmp(args[i], "--programs") == 0) {
            s->programs = true;
        } else if (strcmp(args[i], "--read") == 0 && has_value) {
            paths[s->n_readable++] = args[++i];
        } else if (strcmp(args[i], "--write") == 0 && has_value) {
            writable[s->n_writable++] = args[++i];
        } else {
            return false;
        }
    }
    s->readable = paths;
    s->writable = writable;
    if (g->tmp != NULL) {
        writable[s->n_writable++] = g->tmp;
        s->parent = pl_path_dirname(g->tmp);
    }
    return true;
}

int plumb_guard_main(int n_args, char **args) {
    static guard g;
    sigset_t mask;
    if (fcntl(CONTROL, F_GETFD) < 0) {
        fprintf(stderr, "plumb-guard is started by plumb, not by hand\n");
        return 2;
    }
    fcntl(CONTROL, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, CONTROL + 1, ~0U, 0); /* musl has no function for it */
    fill_standard_streams();
    pl_alloc_keep_freed(); /* children inherit it: a backend is as fast here as in plumb itself */
    pl_blocks_keep();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    g.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g.signals < 0) return 4;
    if (pl_dir_temporary(&g.tmp, NULL) != PL_OK) g.tmp = NULL;
    if (!read_arguments(&g, n_args, args)) return 2;
    if (g.confined) open_group(&g);
    g.sandbox.groups = g.group_parent;
    if (g.confined && !pl_sandbox_files(&g.sandbox)) cannot_confine();
    while (!g.done)
        loop_once(&g);
    end_all(&g);
    return 0;
}

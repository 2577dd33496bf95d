/* A comparison started in the page: `plumb analyze` or `plumb compare` as a separate process, so
 * that it can be cancelled at any time and cannot crash the server. Its progress arrives as lines
 * ("\x1ephase\tdone\ttotal") among what it prints on stderr (PLUMB_PROGRESS=lines, src/cli). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/spec.h"
#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "flows/compare/compare_side.h"
#include "view/server_int.h"

extern char **environ;

enum { ARGS_MAX = 96, LINE_MAX_BYTES = 1024, MESSAGE_MAX = 600 };

struct pl_server_job {
    pl_server *server;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t version; /* of the fields below; 0 = nothing yet */
    bool running, started, cancelled;
    pid_t pid;
    char phase[128], message[MESSAGE_MAX];
    int64_t done, total;
    int exit_code;
    bool fresh;      /* a session was made and is shown */
    bool recordings; /* of compare: neither side is a model */
    char *argv[ARGS_MAX];
    size_t n_args;
    char *output;
    char *notes; /* notes of the session that it repeats; NULL = none */
    const char *command;
};

static void job_free(pl_server_job *job) {
    for (size_t i = 0; i < job->n_args; i++)
        pl_free(job->argv[i]);
    pl_free(job->output);
    pl_free(job->notes);
    pthread_mutex_destroy(&job->mutex);
    pthread_cond_destroy(&job->changed);
    pl_free(job);
}

static void touch(pl_server_job *job) { /* the mutex must be held */
    job->version++;
    pthread_cond_broadcast(&job->changed);
}

/* ---- what was asked for ---- */

static pl_status add_arg(pl_server_job *job, const char *text, pl_err *err) {
    if (job->n_args + 1 >= ARGS_MAX) return pl_fail(err, PL_E_LIMIT, "too many options");
    char *copy = pl_strdup(text);
    if (copy == NULL) return pl_fail_memory(err, strlen(text));
    job->argv[job->n_args++] = copy;
    return PL_OK;
}

/* Every value is the argument of an option (--key=value), so none can become an option itself. */
static pl_status add_option(pl_server_job *job, const char *key, const char *value, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text, "--%s=%s", key, value);
    const pl_status st =
        pl_buf_ok(&text) ? add_arg(job, pl_buf_str(&text), err) : pl_fail_memory(err, 1);
    pl_buf_release(&text);
    return st;
}

pl_status pl_job_check_spec(const char *text, pl_err *err) {
    if (!pl_spec_is_foreign(text)) return PL_OK;
    return pl_fail(
        err, PL_E_UNSUPPORTED,
        "'%.80s' runs programs or writes files; start this comparison with plumb analyze", text);
}

static bool makes_session(const pl_server_job *job) {
    return strcmp(job->command, "minify") != 0;
}

enum { OF_ANALYZE = 1, OF_COMPARE = 2, OF_MINIFY = 4, OF_ALL = 7 };

static const struct {
    const char *key;
    int commands;
} job_options[] = {
    { "backend", OF_ALL },
    { "seed", OF_ALL },
    { "fill", OF_ALL },
    { "inputs", OF_ALL },
    { "timeout", OF_ALL },
    { "function", OF_ANALYZE | OF_MINIFY },
    { "from", OF_ANALYZE | OF_MINIFY },
    { "to", OF_ANALYZE | OF_MINIFY },
    { "metric", OF_ANALYZE | OF_COMPARE },
    { "profile", OF_ANALYZE | OF_COMPARE },
    { "reference", OF_ANALYZE },
    { "reference-model", OF_ANALYZE },
};

static int command_bit(const pl_server_job *job) {
    return strcmp(job->command, "analyze") == 0   ? OF_ANALYZE
           : strcmp(job->command, "compare") == 0 ? OF_COMPARE
                                                  : OF_MINIFY;
}

/* NULL when missing or empty. */
static pl_status read_text(const pl_json_value *root, const char *key, const char **out,
                           pl_err *err) {
    const pl_json_value *v = pl_json_find(root, key);
    *out = NULL;
    if (v == NULL || v->kind == PL_JSON_NULL) return PL_OK;
    if (v->kind != PL_JSON_STRING || strlen(v->string) != v->n_string)
        return pl_fail(err, PL_E_FORMAT, "'%s' is not a string", key);
    PL_TRY(pl_job_check_spec(v->string, err));
    if (*v->string != '\0') *out = v->string;
    return PL_OK;
}

/* Options that may be given several times: a list of texts. */
static const char *const job_lists[] = { "input", "dim" };

static pl_status add_lists(pl_server_job *job, const pl_json_value *root, pl_err *err) {
    for (size_t i = 0; i < sizeof job_lists / sizeof *job_lists; i++) {
        const pl_json_value *list = pl_json_find(root, job_lists[i]);
        if (list == NULL || list->kind == PL_JSON_NULL) continue;
        if (list->kind != PL_JSON_ARRAY)
            return pl_fail(err, PL_E_FORMAT, "'%s' is not a list", job_lists[i]);
        for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
            if (v->kind != PL_JSON_STRING || strlen(v->string) != v->n_string)
                return pl_fail(err, PL_E_FORMAT, "'%s' is not a list of strings", job_lists[i]);
            PL_TRY(add_option(job, job_lists[i], v->string, err));
        }
    }
    return PL_OK;
}

/* The page's form always names a backend and how inputs are made. Two recordings need neither, and
 * compare would refuse them. */
static bool is_for_models(const char *key) {
    static const char *const keys[] = { "backend", "fill", "inputs" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static pl_status add_options(pl_server_job *job, const pl_json_value *root, pl_err *err) {
    for (size_t i = 0; i < sizeof job_options / sizeof *job_options; i++) {
        const char *text = NULL;
        if ((job_options[i].commands & command_bit(job)) == 0) continue;
        if (job->recordings && is_for_models(job_options[i].key)) continue;
        PL_TRY(read_text(root, job_options[i].key, &text, err));
        if (text != NULL) PL_TRY(add_option(job, job_options[i].key, text, err));
    }
    return PL_OK;
}

static pl_status add_path(pl_server_job *job, const char *path, const char *what, pl_err *err) {
    if (path == NULL || *path == '\0') return pl_fail(err, PL_E_USAGE, "which %s?", what);
    if (*path == '-') return pl_fail(err, PL_E_USAGE, "'%s' is no %s", path, what);
    return add_arg(job, path, err);
}

static bool is_file(const char *path) {
    return path != NULL && pl_path_exists(path);
}

/* The pairs and accepted divergences of the shown session, which this one repeats. A map is useful
 * only if B is not the model of A. */
static pl_status add_notes(pl_server_job *job, const pl_json_value *root, pl_err *err) {
    const char *keep = NULL, *reference = NULL, *other = NULL;
    pl_status st = PL_OK;
    PL_TRY(read_text(root, "keep", &keep, err));
    if (keep == NULL || !makes_session(job)) return PL_OK;
    PL_TRY(read_text(root, "reference", &reference, err));
    PL_TRY(read_text(root, "reference-model", &other, err));
    char *map = pl_notes_file(job->server, "map.json");
    char *baseline = pl_notes_file(job->server, "baseline.json");
    const bool mapped = command_bit(job) == OF_COMPARE || other != NULL || is_file(reference);
    if (map != NULL && mapped) st = add_option(job, "map", map, err);
    if (st == PL_OK && baseline != NULL) st = add_option(job, "baseline", baseline, err);
    pl_free(map);
    pl_free(baseline);
    job->notes = pl_notes_file(job->server, "notes.json");
    return st;
}

/* plumb-out/NAME-view-TIME, with the name of A's file. */
static pl_status name_output(pl_server_job *job, const char *path, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    struct timespec now;
    const char *base = pl_path_basename(path);
    const char *dot = strrchr(base, '.');
    const size_t n = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    clock_gettime(CLOCK_REALTIME, &now);
    pl_buf_puts(&text, PL_SESSIONS_DIR "/");
    pl_buf_append(&text, base, n < 80 ? n : 80);
    pl_buf_printf(&text, "-%s-%lld-%03ld", makes_session(job) ? "view" : "repro",
                  (long long)now.tv_sec, now.tv_nsec / 1000000);
    job->output = pl_buf_take(&text);
    pl_buf_release(&text);
    return job->output == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status read_request(pl_server_job *job, const pl_json_value *root, pl_err *err) {
    const pl_server *s = job->server;
    const char *path = NULL, *other = NULL;
    job->recordings = false;
    PL_TRY(read_text(root, "model", &path, err));
    if (path == NULL) path = s->model;
    if (path == NULL && s->viewed != NULL) path = pl_viewed_session(s->viewed)->model_path;
    PL_TRY(add_arg(job, s->program, err));
    PL_TRY(add_arg(job, job->command, err));
    PL_TRY(add_path(job, path, "model or recording", err));
    if (command_bit(job) == OF_COMPARE) {
        PL_TRY(read_text(root, "reference", &other, err));
        PL_TRY(add_path(job, other, "recording as the reference", err));
        job->recordings = !pl_compare_is_model(path) && !pl_compare_is_model(other);
    }
    PL_TRY(name_output(job, path, err));
    PL_TRY(add_options(job, root, err));
    PL_TRY(add_lists(job, root, err));
    PL_TRY(add_notes(job, root, err));
    if (makes_session(job)) PL_TRY(add_option(job, "limit", "1", err));
    return add_option(job, "output", job->output, err);
}

/* ---- the process ---- */

static pl_status spawn(pl_server_job *job, int *read_end, pl_err *err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pl_fail_errno(err, errno, "create a pipe for", "analyze");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none); /* ours may be blocked: sigwait in src/cli */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    size_t n_env = 0;
    while (environ[n_env] != NULL)
        n_env++;
    char **env = pl_calloc(n_env + 2, sizeof *env);
    char progress[] = "PLUMB_PROGRESS=lines";
    int error = ENOMEM;
    if (env != NULL) {
        memcpy(env, environ, n_env * sizeof *env);
        env[n_env] = progress;
        error = posix_spawn(&job->pid, job->argv[0], &actions, &attr, job->argv, env);
    }
    pl_free(env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return pl_fail_errno(err, error, "start", job->argv[0]);
    }
    *read_end = ends[0];
    return PL_OK;
}

static void take_line(pl_server_job *job, char *line) {
    pthread_mutex_lock(&job->mutex);
    if (line[0] == '\x1e') {
        char *tab = strchr(line, '\t');
        if (tab != NULL) {
            *tab = '\0';
            (void)snprintf(job->phase, sizeof job->phase, "%s", line + 1);
            (void)sscanf(tab + 1, "%" SCNd64 "\t%" SCNd64, &job->done, &job->total);
        }
    } else if (line[0] != '\0') {
        (void)snprintf(job->message, sizeof job->message, "%s", line);
    }
    touch(job);
    pthread_mutex_unlock(&job->mutex);
}

static void follow(pl_server_job *job, int fd) {
    char line[LINE_MAX_BYTES], part[LINE_MAX_BYTES];
    size_t n = 0;
    for (;;) {
        const ssize_t got = read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        for (ssize_t i = 0; i < got; i++) {
            if (part[i] != '\n') {
                if (n + 1 < sizeof line) line[n++] = part[i];
                continue;
            }
            line[n] = '\0';
            n = 0;
            take_line(job, line);
        }
    }
    line[n] = '\0';
    if (n > 0) take_line(job, line);
}

/* Copies the user's notes to the repeated session; if that fails, the session is still shown. */
static void carry_notes(const pl_server_job *job) {
    static const char *const names[] = { "notes.json", "map.json", "baseline.json" };
    pl_dir *from = NULL, *to = NULL;
    char *folder = pl_path_dirname(job->notes);
    if (folder != NULL && pl_dir_open(folder, &from, NULL) == PL_OK &&
        pl_dir_open(job->output, &to, NULL) == PL_OK)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            pl_file_map *map = NULL;
            if (pl_dir_map(from, names[i], &map, NULL) != PL_OK) continue;
            (void)pl_dir_write(to, names[i], map->data, map->n_bytes, NULL);
            pl_file_map_unref(map);
        }
    pl_dir_close(from);
    pl_dir_close(to);
    pl_free(folder);
}

static void finish(pl_server_job *job, int status) {
    pl_err err = PL_ERR_INIT;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    pthread_mutex_lock(&job->mutex);
    const bool cancelled = job->cancelled;
    pthread_mutex_unlock(&job->mutex);
    const bool made = !cancelled && pl_path_is_dir(job->output);
    if (made && job->notes != NULL) carry_notes(job);
    const bool fresh = made && pl_server_show(job->server, job->output, &err) == PL_OK;
    pthread_mutex_lock(&job->mutex);
    job->running = false;
    job->exit_code = code;
    job->fresh = fresh;
    if (cancelled) {
        (void)snprintf(job->message, sizeof job->message, "cancelled");
    } else if (!makes_session(job) && code == 0) {
        (void)snprintf(job->message, sizeof job->message, "the repro is in %.400s", job->output);
    } else if (!fresh && job->message[0] == '\0') {
        (void)snprintf(job->message, sizeof job->message, "%.500s",
                       err.message[0] != '\0' ? err.message : "it exited without a result");
    }
    touch(job);
    pthread_mutex_unlock(&job->mutex);
}

typedef struct runner {
    pl_server_job *job;
    int fd;
} runner;

static void *run(void *ctx) {
    runner r = *(runner *)ctx;
    int status = 0;
    pl_free(ctx);
    follow(r.job, r.fd);
    close(r.fd);
    siginfo_t info;
    while (waitid(P_PID, (id_t)r.job->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&r.job->mutex); /* after it is reaped, the PID may be reused */
    (void)waitpid(r.job->pid, &status, 0);
    r.job->pid = -1;
    pthread_mutex_unlock(&r.job->mutex);
    finish(r.job, status);
    return NULL;
}

/* ---- from the routes ---- */

static pl_status launch(pl_server_job *job, pl_err *err) {
    runner *r = pl_calloc(1, sizeof *r);
    if (r == NULL) return pl_fail_memory(err, sizeof *r);
    const pl_status st = spawn(job, &r->fd, err);
    if (st != PL_OK) {
        pl_free(r);
        return st;
    }
    r->job = job;
    job->running = job->started = true;
    job->version = 1;
    const int error = pthread_create(&job->thread, NULL, run, r);
    if (error == 0) return PL_OK;
    kill(-job->pid, SIGKILL);
    (void)waitpid(job->pid, NULL, 0);
    close(r->fd);
    pl_free(r);
    job->started = false;
    return pl_fail_errno(err, error, "start a thread for", "analyze");
}

bool pl_job_is_running(const pl_server *s) {
    pl_server_job *job = s->job;
    if (job == NULL) return false;
    pthread_mutex_lock(&job->mutex);
    const bool running = job->running;
    pthread_mutex_unlock(&job->mutex);
    return running;
}

static pl_status job_new(pl_server *s, const char *command, const char *text, size_t n,
                         pl_server_job **out, pl_err *err) {
    pl_arena *arena = pl_arena_new();
    pl_server_job *job = pl_calloc(1, sizeof *job);
    const pl_json_value *root = NULL;
    pl_status st = PL_OK;
    if (arena == NULL || job == NULL) {
        pl_free(job);
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof *job);
    }
    job->server = s;
    job->command = command;
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->changed, NULL);
    st = pl_json_read(text, n, arena, &root, err);
    if (st == PL_OK) st = read_request(job, root, err);
    if (st == PL_OK) st = launch(job, err);
    pl_arena_free(arena);
    if (st != PL_OK) {
        job_free(job);
        return st;
    }
    *out = job;
    return PL_OK;
}

pl_status pl_job_start(pl_server *s, const char *command, const char *text, size_t n, pl_err *err) {
    pl_server_job *fresh = NULL, *old = NULL;
    pl_status st = PL_OK;
    if (s->program == NULL)
        return pl_fail(err, PL_E_UNSUPPORTED, "this server cannot start comparisons");
    pthread_mutex_lock(&s->mutex);
    if (s->closing || pl_job_is_running(s)) {
        st = pl_fail(err, PL_E_EXISTS, "a comparison is already running; cancel it first");
    } else {
        st = job_new(s, command, text, n, &fresh, err);
    }
    if (st == PL_OK) {
        old = s->job;
        s->job = fresh;
    }
    pthread_mutex_unlock(&s->mutex);
    if (old != NULL) {
        if (old->started) pthread_join(old->thread, NULL);
        job_free(old);
    }
    return st;
}

void pl_job_cancel(pl_server *s) {
    pthread_mutex_lock(&s->mutex);
    pl_server_job *job = s->job;
    if (job != NULL) {
        pthread_mutex_lock(&job->mutex);
        if (job->running && job->pid > 0) {
            job->cancelled = true;
            kill(-job->pid, SIGKILL);
        }
        pthread_mutex_unlock(&job->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
}

void pl_job_end(pl_server *s) {
    pl_server_job *job = s->job;
    if (job == NULL) return;
    pl_job_cancel(s);
    if (job->started) pthread_join(job->thread, NULL);
    job_free(job);
    s->job = NULL;
}

static void put_event(const pl_server_job *job, pl_buf *out) {
    pl_json j;
    pl_buf_puts(out, "data: ");
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    pl_json_put_bool(&j, "running", job->running);
    pl_json_put_string(&j, "phase", job->phase);
    pl_json_put_int(&j, "done", job->done);
    pl_json_put_int(&j, "total", job->total);
    pl_json_put_string(&j, "message", job->message);
    pl_json_put_bool(&j, "cancelled", job->cancelled);
    pl_json_put_bool(&j, "fresh", job->fresh);
    pl_json_put_int(&j, "exit_code", job->exit_code);
    pl_json_put_string(&j, "session", job->output);
    pl_json_object_end(&j);
    pl_buf_puts(out, "\n\n");
}

/* Polls ten times a second: a job may be replaced while a client waits for it. */
bool pl_job_event(pl_server *s, uint64_t *seen, pl_buf *out) {
    const struct timespec pause = { 0, 100000000 };
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&s->mutex);
        const bool closing = s->closing;
        pl_server_job *job = s->job;
        if (!closing && job != NULL) {
            pthread_mutex_lock(&job->mutex);
            if (job->version != *seen) {
                *seen = job->version;
                put_event(job, out);
            }
            pthread_mutex_unlock(&job->mutex);
        }
        pthread_mutex_unlock(&s->mutex);
        if (closing) return false;
        if (out->n_bytes > 0) return true;
        nanosleep(&pause, NULL);
    }
    pl_buf_puts(out, ": waiting\n\n");
    return true;
}

#include "flows/corpus/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ranks/spawner.h"

/* ---- requests ---- */

static void begin(pl_json *j, const char *what, const pl_worker_limits *limits) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "what", what);
    pl_json_put_double(j, "timeout", limits->timeout);
    pl_json_put_int(j, "memory", (int64_t)limits->memory);
    pl_json_put_int(j, "max_queries", (int64_t)limits->max_queries);
    pl_json_put_bool(j, "no_minify", limits->no_minify);
    pl_json_put_int(j, "sandbox", limits->sandbox);
    pl_json_put_string(j, "reference", limits->reference == NULL ? "" : limits->reference);
}

void pl_worker_put_item(const pl_corpus_item *item, const char *folder,
                        const pl_worker_limits *limits, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, false);
    begin(&j, "item", limits);
    pl_json_put_string(&j, "key", item->key);
    pl_json_put_string(&j, "path", item->path);
    pl_json_put_string(&j, "backend", item->backend);
    pl_json_put_string(&j, "data", item->data_path);
    pl_json_put_int(&j, "seed", (int64_t)item->seed);
    pl_json_key(&j, "settings");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < item->n_settings; i++)
        pl_json_string(&j, item->settings[i]);
    pl_json_array_end(&j);
    pl_json_put_string(&j, "folder", folder);
    pl_json_object_end(&j);
}

void pl_worker_put_probe(const char *repro, const char *backend, const pl_worker_limits *limits,
                         pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, false);
    begin(&j, "probe", limits);
    pl_json_put_string(&j, "repro", repro);
    pl_json_put_string(&j, "backend", backend);
    pl_json_object_end(&j);
}

void pl_worker_put_version(const char *backend, const pl_worker_limits *limits, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, false);
    begin(&j, "version", limits);
    pl_json_put_string(&j, "backend", backend);
    pl_json_object_end(&j);
}

/* ---- answering ---- */

const char *pl_work_text(const pl_work *work, const char *key) {
    const pl_json_value *v = pl_json_find(work->request, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

static int64_t integer(const pl_work *work, const char *key) {
    const pl_json_value *v = pl_json_find(work->request, key);
    return v != NULL && v->is_integer ? v->integer : 0;
}

/* Ends with the parent process, and stays within the memory limit. */
static pl_status settle_in(pl_work *work, pl_err *err) {
    const pl_json_value *skip = pl_json_find(work->request, "no_minify");
    const int64_t parent = integer(work, "parent");
    const char *reference = pl_work_text(work, "reference");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent > 0 && getppid() != (pid_t)parent)
        return pl_fail(err, PL_E_CANCELLED, "the process that asked has ended");
    (void)pl_json_number(pl_json_find(work->request, "timeout"), &work->limits.timeout);
    work->limits.memory = (uint64_t)integer(work, "memory");
    work->limits.max_queries = (size_t)integer(work, "max_queries");
    work->limits.sandbox = (int)integer(work, "sandbox");
    work->limits.no_minify = skip != NULL && skip->boolean;
    work->limits.reference = reference[0] == '\0' ? NULL : reference;
    if (work->limits.memory > 0) {
        const struct rlimit limit = { work->limits.memory, work->limits.memory };
        if (setrlimit(RLIMIT_DATA, &limit) != 0)
            return pl_fail(err, PL_E_IO, "cannot limit the memory: %s", strerror(errno));
    }
    return PL_OK;
}

pl_status pl_worker_run(const char *request, pl_buf *answer, pl_err *err) {
    pl_work work = { .arena = pl_arena_new() };
    pl_status st = PL_OK;
    if (work.arena == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, pl_json_read(request, strlen(request), work.arena, &work.request, err));
    const char *what = pl_work_text(&work, "what");
    if (strcmp(what, "spawner") == 0) { /* its socket is standard input */
        st = pl_spawner_serve(STDIN_FILENO, err);
        goto done;
    }
    PL_TRY_GOTO(done, st, settle_in(&work, err));
    if (strcmp(what, "item") == 0) {
        st = pl_worker_item(&work, answer, err);
    } else if (strcmp(what, "probe") == 0) {
        st = pl_worker_probe(&work, answer, err);
    } else if (strcmp(what, "version") == 0) {
        st = pl_worker_version(&work, answer, err);
    } else {
        st = pl_fail(err, PL_E_USAGE, "unknown request '%.40s'", what);
    }
done:
    pl_arena_free(work.arena);
    return st;
}

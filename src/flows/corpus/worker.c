#include "flows/corpus/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ranks/spawner.h"
#include "flows/corpus/journal.h"

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

/* Is it a journal of this rank? Those of rank 0 have no number. */
static bool is_part_of(const char *name, int64_t rank) {
    char end[40];
    (void)snprintf(end, sizeof end, "-rank%" PRId64 ".jsonl", rank);
    if (rank > 0) return pl_path_has_suffix(name, end);
    return pl_path_has_suffix(name, ".jsonl") && strstr(name, "-rank") == NULL;
}

/* Fails always, with what a rank was working on when it died: its journal knows. */
static pl_status tell_lost(const pl_work *work, pl_err *err) {
    const char *folder = pl_work_text(work, "folder");
    const int64_t rank = integer(work, "rank");
    pl_dir_list names = { 0 };
    pl_dir *dir = NULL;
    pl_buf lost = PL_BUF_INIT;
    if (folder[0] != '\0' && pl_dir_open(folder, &dir, NULL) == PL_OK)
        (void)pl_dir_names(dir, "parts", &names, NULL);
    for (size_t i = 0; i < names.n_names; i++) {
        char part[300];
        if (!is_part_of(names.names[i], rank)) continue;
        (void)snprintf(part, sizeof part, "parts/%s", names.names[i]);
        pl_journal_put_unfinished(dir, part, &lost);
    }
    const pl_status st = pl_fail(err, PL_E_IO,
                                 "rank %" PRId64 " died by signal %" PRId64 "%s%.400s; option "
                                 "'resume' does the rest",
                                 rank, integer(work, "signal"),
                                 lost.n_bytes > 0 ? " while it worked on " : "", pl_buf_str(&lost));
    pl_dir_list_free(&names);
    pl_dir_close(dir);
    pl_buf_release(&lost);
    return st;
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
    if (strcmp(what, "lost") == 0) {
        st = tell_lost(&work, err);
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

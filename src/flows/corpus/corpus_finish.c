/* Groups the failures and writes the result. Queries about repros run in separate processes and are
 * journalled, like items. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/spec.h"
#include "base/alloc.h"
#include "base/array.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/corpus_run.h"
#include "flows/corpus/crew.h"

enum { ROUNDS_MAX = 8 };

typedef struct question {
    const char *key;     /* in the journal */
    const char *repro;   /* folder; NULL = which version is it? */
    const char *backend; /* spec */
} question;

typedef struct asking {
    const pl_corpus_job *job;
    const pl_dir *dir;
    pl_corpus *corpus;
    pl_arena *arena;
    pl_journal_read read;
    question *todo;
    size_t n_todo, capacity;
    pl_strmap seen; /* keys of `todo` */
    pl_err err;     /* out of memory */
} asking;

static const char *probe_key(asking *a, const char *key, size_t backend) {
    return pl_arena_printf(a->arena, "probe %s %s", key, a->corpus->backends[backend]);
}

static void note(asking *a, const char *name, const char *repro, const char *backend) {
    if (name != NULL && pl_strmap_has(&a->seen, name)) return;
    if (name == NULL || !PL_ARRAY_ROOM(a->todo, a->n_todo, &a->capacity) ||
        pl_strmap_put(&a->seen, name, a) != 0) {
        (void)pl_fail_memory(&a->err, 1);
        return;
    }
    a->todo[a->n_todo++] = (question){ name, repro, backend };
}

/* The known answer; else adds a query. */
static const char *probe(void *ctx, const char *key, size_t backend) {
    asking *a = ctx;
    const char *name = probe_key(a, key, backend);
    const pl_journal_entry *e = name == NULL ? NULL : pl_strmap_get(&a->read.entries, name);
    if (e != NULL && e->result != NULL) {
        const char *word = pl_member_text(e->result, "status");
        const bool known = strcmp(word, "fails") == 0 || strcmp(word, "passes") == 0 ||
                           strcmp(word, "other") == 0 || strcmp(word, "differs") == 0;
        return known ? word : "error";
    }
    const char *repro = pl_arena_printf(a->arena, "%s/items/%s/repro", pl_dir_path(a->dir), key);
    if (repro == NULL) {
        (void)pl_fail_memory(&a->err, 1);
    } else {
        note(a, name, repro, a->corpus->backends[backend]);
    }
    return NULL;
}

/* Versions are needed to find the first bad and last good one; not asked without failures. */
static void find_versions(asking *a) {
    pl_corpus *c = a->corpus;
    for (size_t i = 0; c->n_groups > 0 && i < c->n_backends; i++) {
        const char *name = pl_arena_printf(a->arena, "version %s", c->backends[i]);
        const pl_journal_entry *e = name == NULL ? NULL : pl_strmap_get(&a->read.entries, name);
        if (e != NULL && e->result != NULL) {
            c->versions[i] = pl_member_text(e->result, "version");
        } else {
            note(a, name, NULL, c->backends[i]);
        }
    }
}

static const char *question_key(void *ctx, size_t i) {
    return ((asking *)ctx)->todo[i].key;
}

static void question_request(void *ctx, size_t i, pl_buf *out) {
    const asking *a = ctx;
    const question *q = &a->todo[i];
    if (q->repro == NULL) {
        pl_worker_put_version(q->backend, &a->job->limits, out);
    } else {
        pl_worker_put_probe(q->repro, q->backend, &a->job->limits, out);
    }
}

/* A shard may come from a stranger: a backend that starts a program or loads a library is opened
 * only if the user named it. */
static pl_status check_trust(const asking *a, pl_err *err) {
    const pl_corpus_source *own = &a->job->source;
    for (size_t i = 0; i < a->n_todo; i++) {
        const char *spec = a->todo[i].backend;
        bool named = !pl_spec_needs_trust(spec);
        for (size_t k = 0; !named && k < own->n_backends; k++)
            named = strcmp(own->backends[k], spec) == 0;
        if (named) continue;
        return pl_fail(err, PL_E_USAGE,
                       "%s names the backend '%.200s', which runs a program, loads a library or "
                       "writes files; check it, then allow it with option 'backend'",
                       pl_dir_path(a->dir), spec);
    }
    return PL_OK;
}

static pl_status ask(asking *a, pl_journal *journal, pl_err *err) {
    char program[4096];
    PL_TRY(check_trust(a, err));
    PL_TRY(pl_crew_program(a->job->program, program, sizeof program, err));
    pl_crew crew = { .program = program,
                     .jobs = a->job->jobs,
                     .timeout = a->job->limits.timeout,
                     .journal = journal,
                     .phase = "confirming groups",
                     .progress = a->job->progress,
                     .key = question_key,
                     .request = question_request,
                     .ctx = a,
                     .n_tasks = a->n_todo,
                     .spawners = a->job->spawners,
                     .foreman = a->job->foreman };
    return pl_crew_run(&crew, err);
}

/* Groups until no query is left. */
static pl_status group(asking *a, pl_journal *journal, pl_err *err) {
    for (int round = 0; round < ROUNDS_MAX; round++) {
        a->n_todo = 0;
        pl_strmap_release(&a->seen);
        a->seen = (pl_strmap)PL_STRMAP_INIT;
        pl_journal_read_release(&a->read);
        a->read = (pl_journal_read){ 0 };
        PL_TRY(pl_journal_read_all(a->dir, a->arena, &a->read, err));
        PL_TRY(pl_corpus_group_cases(a->corpus, probe, a, err));
        find_versions(a);
        if (a->err.status != PL_OK) return pl_fail_memory(err, 1);
        if (a->n_todo == 0) return PL_OK;
        PL_TRY(ask(a, journal, err));
    }
    return PL_OK;
}

static pl_status write_result(const pl_dir *dir, const pl_corpus *c, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_corpus_put_json(c, &text);
    const pl_status st = pl_buf_ok(&text)
                             ? pl_dir_write(dir, PL_CORPUS_RESULT, text.data, text.n_bytes, err)
                             : pl_fail_memory(err, text.n_bytes);
    pl_buf_release(&text);
    return st;
}

static void free_arena(void *arena) {
    pl_arena_free(arena);
}

pl_status pl_corpus_finish(const pl_dir *dir, const pl_corpus_job *job, pl_corpus **out,
                           pl_err *err) {
    asking a = { .job = job, .dir = dir, .arena = pl_arena_new() };
    pl_journal journal = { .fd = -1 };
    pl_status st = PL_OK;
    *out = NULL;
    if (a.arena == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, pl_corpus_gather(dir, &a.corpus, err));
    PL_TRY_GOTO(done, st, pl_journal_open(dir, "parts/groups.jsonl", true, &journal, err));
    PL_TRY_GOTO(done, st, group(&a, &journal, err));
    if (job->baseline != NULL)
        PL_TRY_GOTO(done, st, pl_corpus_apply_baseline(a.corpus, job->baseline, err));
    st = write_result(dir, a.corpus, err);
done:
    pl_journal_close(&journal);
    pl_free(a.todo);
    pl_strmap_release(&a.seen);
    pl_journal_read_release(&a.read);
    /* Strings of answers are in this arena, so the corpus keeps it. */
    if (st == PL_OK && pl_arena_defer(a.corpus->arena, free_arena, a.arena) == 0) {
        *out = a.corpus;
        return PL_OK;
    }
    if (st == PL_OK) st = pl_fail_memory(err, 1);
    pl_corpus_free(a.corpus);
    pl_arena_free(a.arena);
    return st;
}

/* Runs the items of one shard. */
#include "flows/corpus/corpus_run.h"

#include <stdio.h>
#include <string.h>

#include "backends/spec.h"
#include "base/alloc.h"
#include "base/count.h"
#include "base/threads.h"
#include "flows/corpus/crew.h"
#include "flows/corpus/task.h"

typedef struct run {
    const pl_corpus_job *job;
    pl_corpus_list list;
    pl_dir *dir;
    pl_arena *arena;
    pl_journal journal;
    pl_journal_read read;
    char part[80];            /* of the journal */
    size_t *chosen, n_chosen; /* of this shard, longest first */
    size_t *todo, n_todo;
    size_t *family; /* by item: the first one of its model */
} run;

/* ---- the folder ---- */

/* OUT/items.json: the first shard writes it, the others must have the same. */
static pl_status settle_items(run *r, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_file_map *map = NULL;
    pl_status st = PL_OK;
    pl_corpus_list_put(&r->list, &text);
    if (!pl_buf_ok(&text)) {
        st = pl_fail_memory(err, text.n_bytes);
    } else if (pl_dir_look(r->dir, PL_CORPUS_ITEMS, NULL) == PL_KIND_NONE) {
        st = pl_dir_write(r->dir, PL_CORPUS_ITEMS, text.data, text.n_bytes, err);
    } else {
        st = pl_dir_map(r->dir, PL_CORPUS_ITEMS, &map, err);
        if (st == PL_OK &&
            (map->n_bytes != text.n_bytes || memcmp(map->data, text.data, text.n_bytes) != 0)) {
            st = pl_fail(
                err, PL_E_EXISTS,
                "'%s' was begun with other models, backends or seeds; choose another output",
                r->job->output);
        }
        pl_file_map_unref(map);
    }
    pl_buf_release(&text);
    return st;
}

static pl_status open_folder(run *r, pl_err *err) {
    const pl_corpus_job *job = r->job;
    PL_TRY(pl_path_make_dirs(job->output, err));
    PL_TRY(pl_dir_open(job->output, &r->dir, err));
    if (pl_dir_look(r->dir, PL_CORPUS_ITEMS, NULL) == PL_KIND_NONE) {
        pl_dir_list names = { 0 };
        PL_TRY(pl_dir_names(r->dir, ".", &names, err));
        size_t n = 0; /* a process killed at the start leaves only unfinished files */
        for (size_t i = 0; i < names.n_names; i++)
            n += names.names[i][0] != '.';
        pl_dir_list_free(&names);
        if (n > 0)
            return pl_fail(err, PL_E_EXISTS, "'%s' already exists and is not a corpus",
                           job->output);
    }
    PL_TRY(settle_items(r, err));
    PL_TRY(pl_dir_make(r->dir, "parts", err));
    PL_TRY(pl_dir_make(r->dir, "items", err));
    (void)snprintf(r->part, sizeof r->part, "parts/%zu-of-%zu.jsonl", job->shard, job->n_shards);
    return pl_journal_open(r->dir, r->part, job->resume, &r->journal, err);
}

/* ---- what is left ---- */

static pl_status note_died(run *r, const char *key, size_t n_deaths, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    char reason[100];
    (void)snprintf(reason, sizeof reason, "in flight when plumb died, %zu times; skipped",
                   n_deaths);
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", "done");
    pl_json_put_string(&j, "key", key);
    pl_json_put_double(&j, "seconds", 0);
    pl_json_key(&j, "result");
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", pl_item_status_name(PL_ITEM_DIED));
    pl_json_put_string(&j, "reason", reason);
    pl_json_object_end(&j);
    pl_json_object_end(&j);
    const pl_status st = pl_journal_append(&r->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

static pl_status choose(run *r, pl_err *err) {
    r->todo = pl_calloc(r->n_chosen + 1, sizeof *r->todo);
    r->family = pl_calloc(r->list.n_items + 1, sizeof *r->family);
    if (r->todo == NULL || r->family == NULL) return pl_fail_memory(err, r->n_chosen);
    for (size_t i = 0; i < r->list.n_items; i++) /* sorted by model */
        r->family[i] = i > 0 && strcmp(r->list.items[i].path, r->list.items[i - 1].path) == 0
                           ? r->family[i - 1]
                           : i;
    for (size_t i = 0; i < r->n_chosen; i++) {
        const pl_corpus_item *x = &r->list.items[r->chosen[i]];
        const pl_journal_entry *e = pl_strmap_get(&r->read.entries, x->key);
        if (e != NULL && e->result != NULL) continue;
        if (e != NULL && r->job->max_deaths > 0 && e->n_deaths >= r->job->max_deaths) {
            PL_TRY(note_died(r, x->key, e->n_deaths, err));
        } else {
            r->todo[r->n_todo++] = r->chosen[i];
        }
    }
    return PL_OK;
}

/* ---- running ---- */

static const char *item_key(void *ctx, size_t i) {
    const run *r = ctx;
    return r->list.items[r->todo[i]].key;
}

static void item_request(void *ctx, size_t i, pl_buf *out) {
    const run *r = ctx;
    const pl_corpus_item *x = &r->list.items[r->todo[i]];
    pl_buf folder = PL_BUF_INIT;
    pl_buf_printf(&folder, "%s/items/%s", pl_dir_path(r->dir), x->key);
    if (!pl_buf_ok(&folder)) out->failed = true;
    pl_worker_put_item(x, pl_buf_str(&folder), &r->job->limits, out);
    pl_buf_release(&folder);
}

static uint64_t item_cost(void *ctx, size_t i) {
    const run *r = ctx;
    return r->list.items[r->todo[i]].cost;
}

static bool item_is_known(void *ctx, size_t i) {
    const run *r = ctx;
    return r->list.items[r->todo[i]].cost_is_known;
}

static size_t item_family(void *ctx, size_t i) {
    const run *r = ctx;
    return r->family[r->todo[i]];
}

static bool item_so_far(void *ctx, size_t i, pl_task_state *out) {
    const run *r = ctx;
    const pl_journal_entry *e = pl_strmap_get(&r->read.entries, item_key(ctx, i));
    if (e == NULL || e->so_far == NULL) return true;
    out->text = pl_strdup(e->so_far);
    out->n_steps = e->n_steps;
    out->seconds = e->seconds / e->n_steps;
    return out->text != NULL;
}

static pl_status run_items(run *r, pl_err *err) {
    char program[4096];
    PL_TRY(pl_crew_program(r->job->program, program, sizeof program, err));
    pl_crew crew = { .program = program,
                     .jobs = r->job->jobs,
                     .timeout = r->job->limits.timeout,
                     .journal = &r->journal,
                     .phase = "items",
                     .progress = r->job->progress,
                     .key = item_key,
                     .request = item_request,
                     .cost = item_cost,
                     .is_known = item_is_known,
                     .family = item_family,
                     .so_far = item_so_far,
                     .ctx = r,
                     .n_tasks = r->n_todo,
                     .spawners = r->job->spawners,
                     .foreman = r->job->foreman };
    return pl_crew_run(&crew, err);
}

static void release(run *r) {
    pl_journal_close(&r->journal);
    pl_journal_read_release(&r->read);
    pl_corpus_list_release(&r->list);
    pl_dir_close(r->dir);
    pl_arena_free(r->arena);
    pl_free(r->chosen);
    pl_free(r->todo);
    pl_free(r->family);
}

static pl_status read_list(run *r, pl_err *err) {
    r->arena = pl_arena_new();
    if (r->arena == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_corpus_list_read(&r->job->source, &r->list, err));
    PL_TRY(pl_corpus_estimate(&r->list, r->job->progress, err));
    if (r->job->baseline != NULL && pl_path_is_dir(r->job->baseline))
        PL_TRY(pl_corpus_recall(&r->list, r->job->baseline, err));
    return pl_corpus_shard(&r->list, r->job->shard, r->job->n_shards, &r->chosen, &r->n_chosen,
                           err);
}

/* Reports a typo once instead of for every item. */
static pl_status check_backends(const pl_corpus_job *job, pl_err *err) {
    for (size_t i = 0; i < job->source.n_backends; i++)
        PL_TRY(pl_spec_check_backend(job->source.backends[i], err));
    return PL_OK;
}

pl_status pl_corpus_run(const pl_corpus_job *given, pl_corpus **out, pl_err *err) {
    pl_launcher launcher;
    bool whole = true;
    if (given->mpi && pl_launcher_find(&launcher))
        return pl_corpus_run_ranks(given, &launcher, out, err);
    return pl_corpus_run_here(given, out, &whole, err);
}

pl_status pl_corpus_run_here(const pl_corpus_job *given, pl_corpus **out, bool *whole,
                             pl_err *err) {
    pl_corpus_job job = *given;
    run r = { .job = &job, .journal = { .fd = -1 } };
    pl_status st = PL_OK;
    *out = NULL;
    if (job.jobs <= 0) job.jobs = pl_pool_cpus();
    PL_TRY_GOTO(done, st, check_backends(&job, err));
    PL_TRY_GOTO(done, st, read_list(&r, err));
    PL_TRY_GOTO(done, st, open_folder(&r, err));
    PL_TRY_GOTO(done, st, pl_journal_read_all(r.dir, r.arena, &r.read, err));
    PL_TRY_GOTO(done, st, pl_task_note_open(&r.journal, err));
    PL_TRY_GOTO(done, st, choose(&r, err));
    if (job.ranks != NULL)
        PL_TRY_GOTO(
            done, st,
            pl_foreman_new(job.ranks, r.dir, r.part, job.resume, job.progress, &job.foreman, err));
    PL_TRY_GOTO(done, st, run_items(&r, err));
    st = job.n_shards == 1 ? pl_corpus_finish(r.dir, &job, out, err)
                           : pl_corpus_gather(r.dir, out, err);
    if (st == PL_OK) (*out)->is_part = job.n_shards > 1;
done:
    *whole = st != PL_E_CANCELLED && (job.foreman == NULL || pl_foreman_is_whole(job.foreman));
    if (job.ranks != NULL && job.foreman == NULL) pl_foreman_dismiss(job.ranks);
    pl_foreman_free(job.foreman);
    release(&r);
    return st;
}

/* ---- before it starts ---- */

static void put_duration(pl_buf *out, double seconds) {
    if (seconds < 120) {
        pl_buf_printf(out, "%.0f s", seconds < 1 ? 1 : seconds);
    } else if (seconds < 7200) {
        pl_buf_printf(out, "%.0f min", seconds / 60);
    } else {
        pl_buf_printf(out, "%.1f h", seconds / 3600);
    }
}

static void put_plan_json(const run *r, double cpu, double wall, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "models", (int64_t)r->list.n_models);
    pl_json_put_int(&j, "items", (int64_t)r->list.n_items);
    pl_json_put_int(&j, "shard", (int64_t)r->job->shard);
    pl_json_put_int(&j, "shards", (int64_t)r->job->n_shards);
    pl_json_put_int(&j, "shard_items", (int64_t)r->n_chosen);
    pl_json_put_double(&j, "estimated_cpu_seconds", cpu);
    pl_json_put_double(&j, "estimated_seconds", wall);
    pl_json_key(&j, "plan"); /* longest first, as they start */
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_chosen; i++) {
        const pl_corpus_item *x = &r->list.items[r->chosen[i]];
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "key", x->key);
        pl_json_put_string(&j, "model", x->model);
        pl_json_put_string(&j, "backend", x->backend);
        pl_json_put_double(&j, "estimated_seconds", (double)x->cost / 1e6);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_plan_text(const run *r, double cpu, double wall, pl_buf *out) {
    pl_buf_put_count(out, r->list.n_models, "model");
    pl_buf_puts(out, ", ");
    pl_buf_put_count(out, r->job->source.n_backends, "backend");
    pl_buf_puts(out, ": ");
    pl_buf_put_count(out, r->list.n_items, "item");
    if (r->job->n_shards > 1)
        pl_buf_printf(out, "; shard %zu of %zu: %zu", r->job->shard, r->job->n_shards, r->n_chosen);
    pl_buf_puts(out, "\nestimate, if all agree: ");
    put_duration(out, cpu);
    pl_buf_puts(out, " of CPU, ");
    put_duration(out, wall);
    pl_buf_printf(out, " with %d job%s; an item that does not agree takes longer\n", r->job->jobs,
                  pl_plural((uint64_t)r->job->jobs));
    for (size_t i = 0; i < r->n_chosen && i < 5; i++) {
        const pl_corpus_item *x = &r->list.items[r->chosen[i]];
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "  %6.1f s  %s on %s", (double)x->cost / 1e6, x->model, x->backend);
        pl_buf_clean_from(out, at);
        pl_buf_putc(out, '\n');
    }
}

pl_status pl_corpus_plan(const pl_corpus_job *given, bool json, pl_buf *out, pl_err *err) {
    pl_corpus_job job = *given;
    run r = { .job = &job, .journal = { .fd = -1 } };
    if (job.jobs <= 0) job.jobs = pl_pool_cpus();
    const pl_status st = read_list(&r, err);
    double cpu = 0;
    for (size_t i = 0; st == PL_OK && i < r.n_chosen; i++)
        cpu += (double)r.list.items[r.chosen[i]].cost / 1e6;
    const double longest =
        st == PL_OK && r.n_chosen > 0 ? (double)r.list.items[r.chosen[0]].cost / 1e6 : 0;
    const double wall = cpu / job.jobs > longest ? cpu / job.jobs : longest;
    if (st == PL_OK) (json ? put_plan_json : put_plan_text)(&r, cpu, wall, out);
    release(&r);
    return st;
}

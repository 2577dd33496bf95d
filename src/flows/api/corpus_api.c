/* plumb_corpus: many models on many backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/api/options.h"
#include "flows/corpus/corpus_print.h"
#include "flows/corpus/corpus_run.h"

struct plumb_corpus {
    pl_corpus *c;
};

/* "2/4", from 1. */
static pl_status read_shard(const char *text, size_t *i, size_t *n, pl_err *err) {
    char *end = NULL;
    *i = *n = 1;
    if (text == NULL) return PL_OK;
    const unsigned long long a = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    const bool slash = end != NULL && *end == '/' && end[1] >= '0' && end[1] <= '9';
    const unsigned long long b = slash ? strtoull(end + 1, &end, 10) : 0;
    if (!slash || *end != '\0' || a < 1 || a > b || b > 1000000)
        return pl_fail(err, PL_E_USAGE, "shard '%.40s': expected I/N with I from 1 to N", text);
    *i = (size_t)a;
    *n = (size_t)b;
    return PL_OK;
}

static pl_status read_job(const char *list, const plumb_corpus_options *o, pl_corpus_job *job,
                          pl_err *err) {
    PL_TRY(pl_list_check("plumb_corpus_options.backends", o->backends, o->n_backends, err));
    if (o->n_seeds > 0 && o->seeds == NULL)
        return pl_fail(err, PL_E_USAGE, "plumb_corpus_options.seeds is NULL");
    *job = (pl_corpus_job){ .source = { list, o->backends, o->n_backends, o->seeds, o->n_seeds },
                            .output = o->output,
                            .jobs = o->jobs,
                            .max_deaths = o->max_deaths > 0 ? (size_t)o->max_deaths : 0,
                            .resume = o->resume != 0,
                            .program = o->program,
                            .baseline = o->baseline,
                            .progress = o->progress,
                            .mpi = o->mpi != 0,
                            .limits = { .timeout = o->timeout,
                                        .memory = o->memory_limit,
                                        .max_queries = o->max_queries,
                                        .sandbox = o->sandbox,
                                        .reference = o->reference } };
    if (!(o->timeout >= 0) || o->timeout > 1e9)
        return pl_fail(err, PL_E_USAGE, "plumb_corpus_options.timeout is %g", o->timeout);
    return read_shard(o->shard, &job->shard, &job->n_shards, err);
}

static pl_status handle_take(pl_corpus *c, plumb_corpus **out, pl_err *err) {
    plumb_corpus *h = pl_calloc(1, sizeof *h);
    if (h == NULL) {
        pl_corpus_free(c);
        return pl_fail_memory(err, sizeof *h);
    }
    h->c = c;
    *out = h;
    return PL_OK;
}

static pl_status write_baseline(const pl_corpus *c, const char *path, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    if (path == NULL) return PL_OK;
    pl_corpus_put_baseline(c, &text);
    const pl_status st = pl_buf_ok(&text) ? pl_file_write(path, text.data, text.n_bytes, err)
                                          : pl_fail_memory(err, text.n_bytes);
    pl_buf_release(&text);
    return st;
}

plumb_status plumb_corpus_run(const char *list, const plumb_corpus_options *options,
                              plumb_corpus **out, plumb_error *err) {
    plumb_corpus_options o;
    pl_corpus_job job;
    pl_watch watch;
    pl_corpus *c = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(list);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CORPUS, options, &o, err));
    o.progress = pl_watch_init(&watch, o.progress);
    PL_TRY(read_job(list, &o, &job, err));
    if (o.output == NULL) return pl_fail(err, PL_E_USAGE, "plumb_corpus_options.output is NULL");
    if (o.n_backends == 0)
        return pl_fail(err, PL_E_USAGE, "no backend to test; option 'backend' is required");
    pl_status st = pl_corpus_run(&job, &c, err);
    if (st == PL_OK && c == NULL) return PL_OK; /* a rank of MPI other than 0 */
    if (st == PL_OK) st = write_baseline(c, o.write_baseline, err);
    if (st == PL_OK) return handle_take(c, out, err);
    pl_corpus_free(c);
    return st;
}

plumb_status plumb_corpus_plan(const char *list, const plumb_corpus_options *options,
                               plumb_format format, char **text, plumb_error *err) {
    plumb_corpus_options o;
    pl_corpus_job job;
    pl_watch watch;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(list);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CORPUS, options, &o, err));
    o.progress = pl_watch_init(&watch, o.progress);
    PL_TRY(read_job(list, &o, &job, err));
    if (o.n_backends == 0)
        return pl_fail(err, PL_E_USAGE, "no backend to test; option 'backend' is required");
    const pl_status st = pl_corpus_plan(&job, format == PLUMB_JSON, &out, err);
    if (st == PL_OK) return pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

plumb_status plumb_corpus_merge(const char *const *folders, size_t n_folders,
                                const plumb_corpus_options *options, plumb_corpus **out,
                                plumb_error *err) {
    plumb_corpus_options o;
    pl_corpus_job job;
    pl_watch watch;
    pl_corpus *c = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(folders);
    PL_TRY(pl_list_check("folders", folders, n_folders, err));
    if (n_folders == 0) return pl_fail(err, PL_E_USAGE, "nothing to merge");
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CORPUS, options, &o, err));
    o.progress = pl_watch_init(&watch, o.progress);
    o.shard = NULL;
    PL_TRY(read_job("", &o, &job, err));
    pl_status st = pl_corpus_merge(folders, n_folders, &job, &c, err);
    if (st == PL_OK) st = write_baseline(c, o.write_baseline, err);
    if (st == PL_OK) return handle_take(c, out, err);
    pl_corpus_free(c);
    return st;
}

plumb_status plumb_corpus_open(const char *folder, plumb_corpus **out, plumb_error *err) {
    pl_corpus *c = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(folder);
    PL_TRY(pl_corpus_open(folder, &c, err));
    return handle_take(c, out, err);
}

plumb_status plumb_corpus_diff(const plumb_corpus *before, const plumb_corpus *now,
                               plumb_format format, int *worse, char **text, plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    bool is_worse = false;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(before);
    PL_REQUIRE(now);
    const pl_status st =
        pl_corpus_diff(before->c, now->c, format == PLUMB_JSON, &out, &is_worse, err);
    if (worse != NULL) *worse = is_worse;
    if (st == PL_OK) return pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

plumb_status plumb_corpus_worker(const char *request, char **text, plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(request);
    pl_status st = pl_worker_run(request, &out, err);
    pl_buf_putc(&out, '\n');
    if (st == PL_OK) return pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

void plumb_corpus_free(plumb_corpus *corpus) {
    if (corpus == NULL) return;
    pl_corpus_free(corpus->c);
    pl_free(corpus);
}

int plumb_corpus_get(const plumb_corpus *corpus, plumb_corpus_summary *out) {
    if (corpus == NULL) return pl_struct_fill(out, NULL, 0);
    const pl_corpus *c = corpus->c;
    const plumb_corpus_summary x = { .folder = c->folder,
                                     .exit_code = pl_corpus_exit_code(c),
                                     .finished = !c->is_part,
                                     .n_models = c->n_models,
                                     .n_backends = c->n_backends,
                                     .n_cases = c->n_cases,
                                     .n_groups = c->n_groups,
                                     .n_agree = c->n_of[PL_ITEM_AGREE],
                                     .n_diverged = c->n_of[PL_ITEM_DIVERGED],
                                     .n_nondeterministic = c->n_of[PL_ITEM_NONDETERMINISTIC],
                                     .n_failed = c->n_of[PL_ITEM_FAILED],
                                     .n_timeout = c->n_of[PL_ITEM_TIMEOUT],
                                     .n_skipped = c->n_of[PL_ITEM_SKIPPED],
                                     .n_trouble = c->n_of[PL_ITEM_TROUBLE],
                                     .n_died = c->n_of[PL_ITEM_DIED],
                                     .n_missing = c->n_of[PL_ITEM_MISSING] };
    return pl_struct_fill(out, &x, sizeof x);
}

int plumb_corpus_get_case(const plumb_corpus *corpus, size_t i, plumb_corpus_case *out) {
    if (corpus == NULL || i >= corpus->c->n_cases) return pl_struct_fill(out, NULL, 0);
    const pl_corpus_case *x = &corpus->c->cases[i];
    const plumb_corpus_case y = { .key = x->key,
                                  .model = x->model,
                                  .backend = x->backend,
                                  .data = x->data,
                                  .seed = x->seed,
                                  .status = pl_item_status_name(x->status),
                                  .reason = x->reason,
                                  .group = x->group > 0 ? corpus->c->groups[x->group - 1].id : "",
                                  .has_session = x->has_session,
                                  .has_repro = x->has_repro };
    return pl_struct_fill(out, &y, sizeof y);
}

int plumb_corpus_get_group(const plumb_corpus *corpus, size_t i, plumb_corpus_group *out) {
    if (corpus == NULL || i >= corpus->c->n_groups) return pl_struct_fill(out, NULL, 0);
    const pl_corpus_group *g = &corpus->c->groups[i];
    const plumb_corpus_group y = { .id = g->id,
                                   .name = g->name,
                                   .state = g->state,
                                   .n_cases = g->n_cases,
                                   .n_models = g->n_models,
                                   .n_confirmed = g->n_confirmed,
                                   .smallest = g->smallest,
                                   .repro_nodes = g->repro_nodes,
                                   .first_bad = g->first_bad,
                                   .last_good = g->last_good };
    return pl_struct_fill(out, &y, sizeof y);
}

plumb_status plumb_corpus_write(const plumb_corpus *corpus, const plumb_write_options *options,
                                char **text, plumb_error *err) {
    plumb_write_options o;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(corpus);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_WRITE, options, &o, err));
    const pl_status st = pl_corpus_print(corpus->c, o.format, &out, err);
    if (st == PL_OK) return pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

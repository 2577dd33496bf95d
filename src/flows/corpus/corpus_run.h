/* A corpus from its list to OUT/corpus.json. */
#ifndef PL_CORPUS_RUN_H
#define PL_CORPUS_RUN_H

#include "flows/corpus/corpus_result.h"

typedef struct pl_corpus_job {
    pl_corpus_source source;
    const char *output;
    size_t shard, n_shards; /* from 1 */
    int jobs;
    size_t max_deaths; /* an item that was running in this many crashes is skipped; 0 = never */
    bool resume;
    pl_worker_limits limits;
    const char *program;
    const char *baseline; /* file; NULL = none */
    const pl_progress *progress;
} pl_corpus_job;

/* Runs items that are not done yet. For one of several shards *out has no groups and is_part is
 * set. */
pl_status pl_corpus_run(const pl_corpus_job *given, pl_corpus **out, pl_err *err);
/* What would be done, and how long it would take. */
pl_status pl_corpus_plan(const pl_corpus_job *given, bool json, pl_buf *out, pl_err *err);

/* corpus_finish.c: groups, with the queries that they need, and OUT/corpus.json. */
pl_status pl_corpus_finish(const pl_dir *dir, const pl_corpus_job *job, pl_corpus **out,
                           pl_err *err);
/* corpus_merge.c: merges the outputs of shards into given->output, then finishes. */
pl_status pl_corpus_merge(const char *const *folders, size_t n_folders, const pl_corpus_job *given,
                          pl_corpus **out, pl_err *err);

#endif

/* A corpus from its list to OUT/corpus.json. */
#ifndef PL_CORPUS_RUN_H
#define PL_CORPUS_RUN_H

#include "flows/corpus/corpus_result.h"
#include "flows/corpus/crew.h"

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
    bool mpi; /* share the items with the other ranks, if an MPI launcher started this process */
    /* Set by corpus_ranks.c and corpus_run.c; NULL without MPI. */
    pl_ranks *ranks;
    pl_spawner *const *spawners;
    pl_foreman *foreman;
} pl_corpus_job;

/* Runs items that are not done yet. For one of several shards *out has no groups and is_part is
 * set. On ranks of MPI other than 0 *out is NULL. */
pl_status pl_corpus_run(const pl_corpus_job *given, pl_corpus **out, pl_err *err);
/* corpus_ranks.c: starts the processes that start programs, then MPI. Rank 0 calls
 * pl_corpus_run_here, the others work for it. */
pl_status pl_corpus_run_ranks(const pl_corpus_job *given, const pl_launcher *launcher,
                              pl_corpus **out, pl_err *err);
/* *whole is false when ranks have died. */
pl_status pl_corpus_run_here(const pl_corpus_job *given, pl_corpus **out, bool *whole, pl_err *err);
/* What would be done, and how long it would take. */
pl_status pl_corpus_plan(const pl_corpus_job *given, bool json, pl_buf *out, pl_err *err);

/* corpus_finish.c: groups, with the queries that they need, and OUT/corpus.json. */
pl_status pl_corpus_finish(const pl_dir *dir, const pl_corpus_job *job, pl_corpus **out,
                           pl_err *err);
/* corpus_merge.c: merges the outputs of shards into given->output, then finishes. */
pl_status pl_corpus_merge(const char *const *folders, size_t n_folders, const pl_corpus_job *given,
                          pl_corpus **out, pl_err *err);

#endif

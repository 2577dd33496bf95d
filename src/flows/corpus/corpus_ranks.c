/* A corpus on the ranks of an MPI job. Programs are started by processes that were there before
 * MPI, because Open MPI does not support fork afterwards. */
#include "base/alloc.h"
#include "flows/corpus/corpus_run.h"
#include "flows/corpus/hand.h"

typedef struct team {
    pl_spawner **spawners; /* one for each job */
    size_t n_spawners;
    char program[4096];
} team;

static pl_status start_spawners(team *t, int jobs, pl_err *err) {
    const char *const argv[] = { t->program, "corpus", "--worker", "{\"what\":\"spawner\"}", NULL };
    t->spawners = pl_calloc((size_t)jobs, sizeof *t->spawners);
    if (t->spawners == NULL) return pl_fail_memory(err, (size_t)jobs);
    for (int i = 0; i < jobs; i++, t->n_spawners++)
        PL_TRY(pl_spawner_start(argv, &t->spawners[i], err));
    return PL_OK;
}

static void stop_spawners(team *t) {
    for (size_t i = 0; i < t->n_spawners; i++)
        pl_spawner_stop(t->spawners[i]);
    pl_free(t->spawners);
}

pl_status pl_corpus_run_ranks(const pl_corpus_job *given, const pl_launcher *launcher,
                              pl_corpus **out, pl_err *err) {
    pl_corpus_job job = *given;
    team t = { .n_spawners = 0 };
    bool alone = false, whole = true;
    pl_status st = PL_OK;
    *out = NULL;
    if (job.jobs <= 0) job.jobs = 1; /* the launcher decides how many ranks a machine gets */
    PL_TRY_GOTO(done, st, pl_crew_program(job.program, t.program, sizeof t.program, err));
    PL_TRY_GOTO(done, st, start_spawners(&t, job.jobs, err));
    PL_TRY_GOTO(done, st, pl_ranks_join(launcher, &job.ranks, err));
    job.spawners = t.spawners;
    if (pl_ranks_rank(job.ranks) == 0) {
        st = pl_corpus_run_here(&job, out, &whole, err);
    } else {
        const pl_hand_job hand = { t.program, job.limits.timeout, t.spawners, t.n_spawners,
                                   job.progress };
        st = pl_hand_work(job.ranks, &hand, &alone, err);
        if (!alone) st = PL_OK; /* rank 0 knows, and reports it */
    }
done:
    stop_spawners(&t);
    pl_ranks_leave(job.ranks, whole && !alone);
    return st;
}

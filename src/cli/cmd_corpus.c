/* plumb corpus LIST: many models on many backends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_corpus;

/* ---- shards ---- */

/* Schedulers that set a process's index and count in the environment. */
typedef struct scheduler {
    const char *index, *count, *first, *step; /* variables; count, first, step may be NULL */
    long long base;                           /* of the index when `first` is not set */
} scheduler;
static const scheduler schedulers[] = {
    { "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
      "SLURM_ARRAY_TASK_STEP", 0 },
    { "JOB_COMPLETION_INDEX", NULL, NULL, NULL, 0 },            /* Kubernetes Indexed Job */
    { "TEST_SHARD_INDEX", "TEST_TOTAL_SHARDS", NULL, NULL, 0 }, /* Bazel */
    { "CI_NODE_INDEX", "CI_NODE_TOTAL", NULL, NULL, 1 },        /* GitLab */
};

static bool number(const char *text, long long *out) {
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9') return false;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && *out <= 1000000000;
}

static bool variable(const char *name, long long *out) {
    return name != NULL && number(getenv(name), out);
}

/* "I/N" as given; else from the scheduler, where "/N" gives the number of shards, which Kubernetes
 * does not. */
static bool find_shard(const pl_args *args, char *out, size_t n_out, const char **shard,
                       plumb_error *err) {
    const char *given = pl_args_value(args, "shard");
    long long total = 0;
    *shard = given;
    if (given != NULL && given[0] != '/') return true;
    if (given != NULL && !number(given + 1, &total))
        return pl_args_fail(err, PLUMB_E_USAGE, "--shard '%.40s': expected I/N or /N", given);
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++) {
        const scheduler *s = &schedulers[i];
        long long index = 0, n = total, first = s->base, step = 1;
        if (!variable(s->index, &index)) continue;
        (void)variable(s->first, &first);
        if (!variable(s->step, &step) || step < 1) step = 1;
        if (n == 0 && !variable(s->count, &n))
            return pl_args_fail(err, PLUMB_E_USAGE,
                                "%s is set, but not the number of shards; add --shard /N, or "
                                "--shard 1/1 for all items",
                                s->index);
        const long long at = (index - first) / step + 1;
        if (n < 1 || at < 1 || at > n || (index - first) % step != 0)
            return pl_args_fail(err, PLUMB_E_USAGE,
                                "%s is %lld, which is no shard: expected %lld to %lld%s; give "
                                "--shard I/N",
                                s->index, index, first, first + (n - 1) * step,
                                step > 1 ? " in steps" : "");
        (void)snprintf(out, n_out, "%lld/%lld", at, n);
        *shard = out;
        fprintf(stderr, "plumb corpus: shard %s, from %s\n", out, s->index);
        return true;
    }
    if (given == NULL) return true;
    return pl_args_fail(err, PLUMB_E_USAGE, "--shard %s: no scheduler tells which shard this is",
                        given);
}

/* ---- ending on purpose ---- */

static volatile sig_atomic_t asked_to_end;

static void note_end(int number) {
    asked_to_end = number;
}

typedef struct watching {
    plumb_progress inner;
} watching;

/* A signal cancels: running items are noted, so that --resume does not count them as crashed. */
static int watch(void *ctx, const char *phase, int64_t done, int64_t total) {
    const watching *w = ctx;
    if (asked_to_end) return 1;
    return w->inner.update == NULL ? 0 : w->inner.update(w->inner.ctx, phase, done, total);
}

static void end_on_purpose(void) {
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        const struct sigaction cancel = { .sa_handler = note_end };
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &cancel, NULL);
    }
}

/* ---- options ---- */

typedef struct lists {
    const char **backends;
    uint64_t *seeds;
    char shard[64], output[512];
} lists;

static bool read_seeds(const pl_args *args, lists *l, plumb_corpus_options *o, plumb_error *err) {
    size_t n = 0;
    while (pl_args_nth(args, "seed", n) != NULL)
        n++;
    l->seeds = calloc(n + 1, sizeof *l->seeds);
    if (l->seeds == NULL) return pl_args_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *text = pl_args_nth(args, "seed", i);
        char *end = NULL;
        l->seeds[i] = strtoull(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0')
            return pl_args_fail(err, PLUMB_E_USAGE, "--seed '%.40s': expected a whole number",
                                text);
    }
    o->seeds = l->seeds;
    o->n_seeds = n;
    return true;
}

static bool read_options(const pl_args *args, lists *l, plumb_corpus_options *o, plumb_error *err) {
    long long jobs = 0, queries = 0, deaths = 0;
    double timeout = 0;
    plumb_corpus_options_init(o);
    if (!pl_cli_limits(args, &timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_args_int(args, "jobs", 0, 0, 4096, &jobs, err) ||
        !pl_args_int(args, "max-queries", 200, 0, 1000000, &queries, err) ||
        !pl_args_int(args, "deaths", 2, 0, 1000000, &deaths, err) || !read_seeds(args, l, o, err) ||
        (!pl_args_flag(args, "merge") &&
         !find_shard(args, l->shard, sizeof l->shard, &o->shard, err))) {
        return false;
    }
    if (pl_args_value(args, "timeout") != NULL) o->timeout = timeout;
    o->jobs = (int)jobs;
    o->max_queries = (size_t)queries;
    o->max_deaths = (int)deaths;
    o->backends = l->backends = pl_args_all(args, "backend", &o->n_backends);
    if (l->backends == NULL && o->n_backends > 0) return pl_args_no_memory(err);
    o->reference = pl_args_value(args, "reference");
    o->output = pl_args_value(args, "output");
    o->resume = pl_args_flag(args, "resume");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    /* Two ways to divide the items; the one that was asked for counts. */
    o->mpi = pl_args_value(args, "shard") == NULL;
    return !o->mpi || pl_cli_check_tasks(err);
}

/* ---- modes ---- */

static int work(const pl_args *args, const char *request) {
    plumb_error err = { 0 };
    char *text = NULL;
    if (plumb_corpus_worker(request, &text, &err) != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, 0);
}

static int diff(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_corpus *before = NULL, *now = NULL;
    char *text = NULL;
    int worse = 0;
    plumb_status st = PLUMB_E_USAGE;
    if (args->n_positional != 2) {
        (void)pl_args_fail(&err, PLUMB_E_USAGE, "--diff requires two outputs: BEFORE NOW");
    } else {
        st = plumb_corpus_open(args->positional[0], &before, &err);
        if (st == PLUMB_OK) st = plumb_corpus_open(args->positional[1], &now, &err);
        if (st == PLUMB_OK)
            st = plumb_corpus_diff(before, now, pl_args_format(args), &worse, &text, &err);
    }
    plumb_corpus_free(before);
    plumb_corpus_free(now);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, worse ? 1 : 0);
}

static plumb_status start(const pl_args *args, plumb_corpus_options *o, lists *l,
                          plumb_corpus **corpus, char **text, plumb_error *err) {
    if (pl_args_flag(args, "merge"))
        return plumb_corpus_merge(args->positional, args->n_positional, o, corpus, err);
    if (args->n_positional != 1) {
        (void)pl_args_fail(err, PLUMB_E_USAGE, "expected one list, folder or model");
        return PLUMB_E_USAGE;
    }
    if (pl_args_flag(args, "dry-run"))
        return plumb_corpus_plan(args->positional[0], o, pl_args_format(args), text, err);
    if (o->output == NULL) {
        pl_cli_default_output(args->positional[0], "", l->output, sizeof l->output);
        o->output = l->output;
    }
    return plumb_corpus_run(args->positional[0], o, corpus, err);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_corpus_options o;
    plumb_write_options write;
    plumb_progress progress, outer;
    plumb_corpus *corpus = NULL;
    plumb_corpus_summary summary = { .size = sizeof summary };
    lists l = { 0 };
    char *text = NULL;
    plumb_status st = PLUMB_E_USAGE;
    const char *request = pl_args_value(args, "worker");
    if (request != NULL) return work(args, request);
    if (pl_args_flag(args, "diff")) return diff(args);
    plumb_write_options_init(&write);
    if (!read_options(args, &l, &o, &err) || !pl_args_format_name(args, &write.format, &err))
        goto done;
    if (o.mpi && !pl_args_flag(args, "dry-run") && !pl_args_flag(args, "merge")) {
        const int code = pl_cli_watch_rank(args, o.output);
        if (code >= 0) {
            free(l.seeds);
            free((void *)(uintptr_t)l.backends);
            return code;
        }
    }
    end_on_purpose();
    pl_cli_bar *bar = pl_cli_bar_of(args, &progress);
    watching w = { progress };
    outer = (plumb_progress){ watch, &w };
    o.progress = &outer;
    st = start(args, &o, &l, &corpus, &text, &err);
    pl_cli_bar_free(bar);
    if (st == PLUMB_OK && corpus != NULL) st = plumb_corpus_write(corpus, &write, &text, &err);
    (void)plumb_corpus_get(corpus, &summary);
done:
    if (st == PLUMB_OK && corpus != NULL && l.output[0] != '\0')
        fprintf(stderr, "output: %s\n", summary.folder);
    const int code = summary.exit_code;
    plumb_corpus_free(corpus);
    free(l.seeds);
    free((void *)(uintptr_t)l.backends);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    if (text == NULL) return 0; /* a rank of MPI other than 0 */
    return pl_command_print_take(args, text, code);
}

static const pl_option options[] = {
    { 'b', "backend", "SPEC",
      "backend to test; repeat it for several. With --merge: may be opened, whatever it starts" },
    { 0, "reference", "SPEC", "the reference (default eager)" },
    { 'o', "output", "DIR", "output directory (default plumb-out/NAME-TIME)" },
    { 'j', "jobs", "N", "items at a time (default 0: one for each CPU)" },
    { 0, "dry-run", NULL, "show what would be run, with an estimate of the time" },
    { 0, "resume", NULL, "go on with an output that is not finished" },
    { 0, "shard", "I/N", "only part I of N (default from Slurm, Kubernetes, Bazel, GitLab)" },
    { 0, "merge", NULL, "join the outputs of shards: --merge OUT… -o NEW" },
    { 0, "diff", NULL, "what changed: --diff BEFORE NOW" },
    { 0, "baseline", "FILE", "known groups: an earlier output, or a file of --write-baseline" },
    { 0, "write-baseline", "FILE", "write the groups of this run to FILE" },
    { 0, "seed", "N", "seed of generated inputs; repeat it for several (default 0)" },
    { 0, "max-queries", "N", "questions of minify for one item (default 200, 0 = no minify)" },
    { 0, "deaths", "N",
      "skip an item that was in flight when plumb died N times (default 2, 0 = never)" },
    { 0, "timeout", "SECONDS", "limit for one step of an item (default 600, 0 = none)" },
    { 0, "memory-limit", "MB", "limit for one step of an item (default none)" },
    { 0, "sandbox", "MODE", "confine what runs behind the guard: on (default), off or require" },
    { 0, "worker", "JSON", "internal: do what one request says" },
    { 0, "format", "NAME", "json, junit, sarif, html" },
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_corpus = {
    .name = "corpus",
    .usage = "LIST|DIR --backend SPEC… -o OUT [options]",
    .summary = "run many models on many backends and group what fails",
    .details = "Every model x backend x data set or seed is an item. An item whose outputs agree\n"
               "is done; any other is analysed, bisected and minified. Failures with the same\n"
               "cause are one group. LIST has one model per line, with optional fields after\n"
               "tabs: inputs=DIR, seed=N, dim=NAME=N, range=NAME=LO:HI, fill=WHAT.\n"
               "Exit code: 0 nothing new is wrong, 1 something is, 2 bad usage or nothing could\n"
               "be judged, 4 plumb's own trouble, or items are missing. A shard exits 0 when its\n"
               "items are done; the verdict comes with --merge.\n"
               "Under mpirun or srun --mpi the ranks share the items, unless --shard is given.",
    .examples = "  plumb corpus models --backend ort -o out\n"
                "  plumb corpus models --backend ort --shard 2/4 -o shard2\n"
                "  plumb corpus --merge shard1 shard2 shard3 shard4 -o out\n",
    .options = options,
    .min_args = 0,
    .max_args = SIZE_MAX,
    .run = run,
};

/* The result of a corpus: one case for each item, and groups of cases with the same cause.
 *
 * Made from the journals (corpus_finish.h), written to OUT/corpus.json, and read from there for
 * every format. Strings are in the arena; never NULL. */
#ifndef PL_CORPUS_RESULT_H
#define PL_CORPUS_RESULT_H

#include "base/door.h"
#include "base/strmap.h"
#include "flows/corpus/corpus.h"
#include "flows/corpus/journal.h"
#include "flows/corpus/worker.h"

#define PL_CORPUS_RESULT "corpus.json"
#define PL_CORPUS_ITEMS "items.json"

typedef struct pl_corpus_case {
    const char *key, *model, *backend, *data;
    uint64_t seed;
    pl_item_status status;
    const char *step, *reason, *blamed, *version;
    pl_bug bug;
    bool has_session, has_repro, verified;
    size_t n_nodes, repro_nodes;
    size_t group; /* index + 1; 0 = none */
} pl_corpus_case;

typedef struct pl_corpus_group {
    const char *id; /* from its signature: stable between runs */
    const char *
        *also; /* ids of signatures that were joined to it: another run may have one as id */
    size_t n_also;
    const char *name;  /* "divergence of Cast (float>int8)" */
    const char *state; /* "new", "known"; "" = no baseline */
    pl_bug bug;
    const char *smallest; /* key of the case with the smallest repro; "" = none has one */
    size_t repro_nodes;
    size_t n_cases, n_models;
    size_t n_before;    /* cases in the baseline; 0 = not known */
    size_t n_confirmed; /* cases on whose backend the smallest repro fails, too */
    const char **on;    /* by backend: "fails", "passes", "other", "error"; "" = not asked */
    const char *first_bad, *last_good; /* versions; "" = not known */
    size_t joined_to;                  /* while grouping: index + 1; 0 = it stands for itself */
} pl_corpus_group;

typedef struct pl_corpus_gone { /* a group of the baseline that this run does not have */
    const char *id, *name;
    bool fixed; /* its models were judged, and none fails that way */
    size_t n_before;
} pl_corpus_gone;

typedef struct pl_corpus {
    pl_arena *arena;
    const char *folder; /* "" = none */
    const char *links;  /* where the page finds the folder: "" = it lies in it, "out/" */
    pl_corpus_case *cases;
    size_t n_cases;
    const char **backends; /* sorted by name */
    size_t n_backends;
    const char **versions;   /* of each; "" = not known */
    pl_corpus_group *groups; /* by count, the largest first */
    size_t n_groups;
    pl_corpus_gone *gone;
    size_t n_gone;
    bool has_baseline;
    bool is_part; /* result of one shard: other items are missing */
    size_t n_of[PL_ITEM_STATUS_COUNT];
    size_t n_models;
    size_t n_repeated; /* results of items that already had one */
    double seconds;    /* of all items, from the journals; not in corpus.json */
} pl_corpus;

/* Cases from items.json and the journals, without groups. */
pl_status pl_corpus_gather(const pl_dir *dir, pl_corpus **out, pl_err *err);
/* Reads OUT/corpus.json. PL_E_NOT_FOUND when the folder is not a corpus or not finished. */
pl_status pl_corpus_open(const char *folder, pl_corpus **out, pl_err *err);
void pl_corpus_free(pl_corpus *corpus); /* NULL is fine */
bool pl_corpus_is(const char *folder);  /* has a corpus.json */
int pl_corpus_exit_code(const pl_corpus *corpus);
/* Groups by their signatures: which group of another run has one in common with `g`? */
pl_status pl_corpus_index_groups(const pl_corpus_group *groups, size_t n, pl_strmap *out,
                                 pl_err *err);
size_t pl_corpus_find_group(const pl_strmap *index, const pl_corpus_group *g); /* or SIZE_MAX */
size_t pl_corpus_backend(const pl_corpus *corpus, const char *spec); /* position; SIZE_MAX */
/* corpus.json */
void pl_corpus_put_json(const pl_corpus *corpus, pl_buf *out);

/* corpus_group.c: groups the cases by what is known about repros on other backends ("fails",
 * "passes", "other", "error"; NULL = not asked yet). */
typedef const char *(*pl_probe_fn)(void *ctx, const char *key, size_t backend);
pl_status pl_corpus_group_cases(pl_corpus *corpus, pl_probe_fn probe, void *ctx, pl_err *err);
/* corpus_baseline.c */
pl_status pl_corpus_apply_baseline(pl_corpus *corpus, const char *path, pl_err *err);
void pl_corpus_put_baseline(const pl_corpus *corpus, pl_buf *out);

#endif

/* Many models on many backends: items and results.
 *
 * An item is one model on one backend with one set of inputs. Items are independent; each runs in a
 * process of its own and is journalled when it is done (journal.h). The result is made from the
 * journals alone, sorted, without times: the same bytes for any number of jobs and shards. */
#ifndef PL_CORPUS_H
#define PL_CORPUS_H

#include "base/arena.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/progress.h"

/* X(NAME, "name", is it wrong?): how an item ended. */
#define PL_ITEM_STATUS_MAP(X)                                                                      \
    X(AGREE, "agree", 0)                                                                           \
    X(DIVERGED, "diverged", 1)                                                                     \
    X(NONDETERMINISTIC, "nondeterministic", 1)                                                     \
    X(FAILED, "failed", 1)   /* the backend: compile error, run-time error, crash, time-out */     \
    X(TIMEOUT, "timeout", 1) /* the item took longer than its limit */                             \
    X(SKIPPED, "skipped", 0) /* cannot be judged: bad input, or no reference for it */             \
    X(TROUBLE, "trouble", 1) /* a problem of plumb: crash, memory, disk */                         \
    X(DIED, "died", 1)       /* running when plumb died, more often than allowed */                \
    X(MISSING, "missing", 1) /* in no journal: the run is not finished */
typedef enum pl_item_status {
#define X(NAME, text, wrong) PL_ITEM_##NAME,
    PL_ITEM_STATUS_MAP(X)
#undef X
        PL_ITEM_STATUS_COUNT
} pl_item_status;
const char *pl_item_status_name(pl_item_status status);
pl_item_status pl_item_status_of(const char *name); /* MISSING for an unknown name */
bool pl_item_status_is_wrong(pl_item_status status);

typedef struct pl_corpus_item { /* strings are in the list's arena; never NULL */
    const char *key;            /* "resnet-0123456789abcdef": unique, the name of its folder */
    const char *model;          /* name in the result, relative to the list */
    const char *path;           /* to open it */
    const char *backend;        /* spec */
    const char *data;           /* data set, named as the model; "" = generated inputs */
    const char *data_path;
    const char *const *settings; /* "dim=N=3", "range=x=0:1", "fill=ones" */
    size_t n_settings;
    uint64_t seed;
    uint64_t cost;      /* estimate: microseconds on one core */
    bool cost_is_known; /* from an earlier run */
} pl_corpus_item;

typedef struct pl_corpus_list {
    pl_arena *arena;
    pl_corpus_item *items; /* sorted by model, data, seed, backend */
    size_t n_items, capacity;
    size_t n_models;
} pl_corpus_list;

/* corpus_list.c: LIST is a file with one model per line, a folder, or a model. */
typedef struct pl_corpus_source {
    const char *path;
    const char *const *backends;
    size_t n_backends;
    const uint64_t *seeds; /* none = 0 */
    size_t n_seeds;
} pl_corpus_source;
pl_status pl_corpus_list_read(const pl_corpus_source *source, pl_corpus_list *out, pl_err *err);
void pl_corpus_list_release(pl_corpus_list *list);
/* The items as OUT/items.json: equal for every shard of one corpus. */
void pl_corpus_list_put(const pl_corpus_list *list, pl_buf *out);
pl_status pl_corpus_list_parse(const char *text, size_t n, pl_corpus_list *out, pl_err *err);

/* May it be the name of a folder? No separators or dots that lead elsewhere. */
bool pl_corpus_is_key(const char *key);

/* corpus_cost.c */
pl_status pl_corpus_estimate(pl_corpus_list *list, const pl_progress *progress, pl_err *err);
/* Takes the time of an item from an earlier output of this list, where it has one: better than an
 * estimate, which cannot foresee that an item fails. Others keep their estimate. */
pl_status pl_corpus_recall(pl_corpus_list *list, const char *folder, pl_err *err);
/* Positions of the items of shard i (from 1) of n, longest first; the caller frees *out. */
pl_status pl_corpus_shard(const pl_corpus_list *list, size_t i, size_t n, size_t **out,
                          size_t *n_out, pl_err *err);

#endif

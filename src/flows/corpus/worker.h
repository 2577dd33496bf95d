/* The work of one process: a step of an item, or one query about a repro.
 *
 * A request is JSON with "what": "item", "probe" or "version"; the answer is one line of JSON with
 * "status". When that is "unfinished", the item has another step: the same request with this line
 * as its "so_far" (text). Nothing in an answer depends on time or on the number of jobs. */
#ifndef PL_WORKER_H
#define PL_WORKER_H

#include "base/buf.h"
#include "base/json_read.h"
#include "flows/corpus/corpus.h"

#define PL_WORK_UNFINISHED "unfinished"

typedef struct pl_worker_limits { /* of one item */
    double timeout;               /* seconds; 0 = none */
    uint64_t memory;              /* bytes; 0 = none */
    size_t max_queries;           /* of minify */
    bool no_minify;
    int sandbox;
    const char *reference; /* spec; NULL = eager */
} pl_worker_limits;

/* `folder` is where the item's session and repro go. */
void pl_worker_put_item(const pl_corpus_item *item, const char *folder,
                        const pl_worker_limits *limits, pl_buf *out);
/* Which version of the runtime is it? */
void pl_worker_put_version(const char *backend, const pl_worker_limits *limits, pl_buf *out);
/* Does the repro fail on this backend as on its own? */
void pl_worker_put_probe(const char *repro, const char *backend, const pl_worker_limits *limits,
                         pl_buf *out);

pl_status pl_worker_run(const char *request, pl_buf *answer, pl_err *err);

/* worker_item.c, worker_probe.c */
typedef struct pl_work {
    const pl_json_value *request;
    pl_arena *arena;
    pl_worker_limits limits;
} pl_work;
pl_status pl_worker_item(const pl_work *work, pl_buf *answer, pl_err *err);
pl_status pl_worker_probe(const pl_work *work, pl_buf *answer, pl_err *err);
pl_status pl_worker_version(const pl_work *work, pl_buf *answer, pl_err *err);
const char *pl_work_text(const pl_work *work, const char *key); /* "" when absent */

/* worker_signature.c: distinguishes bugs. No string is NULL. */
typedef struct pl_bug {
    const char *kind;    /* "divergence", "compile error", … */
    const char *op;      /* blamed operator type; "" = not known */
    const char *attrs;   /* attributes that a repro still needs, "mode=linear pads" */
    const char *dtypes;  /* types of its inputs and outputs, "float,int64>float" */
    const char *pass;    /* of the backend; "" = not known */
    const char *message; /* without names and numbers; "" */
    const char *ops;     /* operator types of the repro, sorted, "Add Conv"; "" = no repro */
    const char *edges;   /* which feeds which there, sorted, "Conv>Add" */
} pl_bug;
/* Names and numbers become '_' and '#'. NULL when out of memory. */
const char *pl_message_shape(pl_arena *arena, const char *message);
/* Sets attrs and dtypes from a node of a model file: the one that computes `value`, else the first
 * of type `op`; for a repro also ops. They stay "" if the model cannot be read. */
pl_status pl_bug_look(pl_bug *bug, const char *model_path, const char *value, bool is_repro,
                      pl_arena *arena, pl_err *err);

#endif

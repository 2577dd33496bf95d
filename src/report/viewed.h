/* A session opened for viewing: the results, the model, and its tensors.
 *
 * The page shows it, from the server or inlined into a report; both take the same JSON and the same
 * slices from here (docs/view-server.md). Nothing is written. Tensors come from the session's
 * store, or from the recordings that the session names, if their bytes are unchanged. Not
 * thread-safe: the server holds a lock. */
#ifndef PL_VIEWED_H
#define PL_VIEWED_H

#include "base/door.h"
#include "graph/graph.h"
#include "session/session.h"

typedef struct pl_viewed pl_viewed;

/* A session folder, or a session.json alone (then without tensors and graph). */
pl_status pl_viewed_open(const char *path, pl_viewed **out, pl_err *err);
void pl_viewed_close(pl_viewed *v); /* NULL is fine */
const pl_session *pl_viewed_session(const pl_viewed *v);
const pl_model *pl_viewed_model(const pl_viewed *v);     /* NULL = the session has none */
const pl_model *pl_viewed_reference(const pl_viewed *v); /* of B; NULL = the same, or unknown */
const pl_dir *pl_viewed_dir(const pl_viewed *viewed);    /* NULL: the session is one file */
const char *pl_viewed_path(const pl_viewed *v);

/* What the replay of an operation allows for. */
typedef struct pl_view_replay {
    bool shown;         /* b is the replay of the operation on A's own inputs */
    double least, most; /* of the bounds that its elements have */
    int64_t n_beyond;   /* elements further off than a culprit may be */
    int64_t worst;      /* flat index of the one furthest off; -1 = none */
} pl_view_replay;

/* The tensors of a sync point; one or both may be NULL. `joint`: both exist, are numeric and have
 * one shape (a layout that the session names has been applied), so that a difference exists. */
typedef struct pl_view_pair {
    pl_tensor *a, *b;
    bool joint;
    bool unreadable; /* a tensor that was kept cannot be read */
    bool gold;       /* b is the fp64 value, because B has no counterpart */
    pl_view_replay replay;
    char why[256]; /* why a side is missing, or why there is no difference; "" */
} pl_view_pair;
pl_status pl_viewed_pair(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err);
/* The same for the page: if B has no counterpart, the fp64 value is shown. */
pl_status pl_viewed_shown(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err);
void pl_view_pair_release(pl_view_pair *pair);
/* viewed_replay.c: A against the replay of its operation; PL_E_NOT_FOUND when it was not kept. */
pl_status pl_viewed_replayed(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err);
/* A alone, in the model's shape. */
pl_status pl_viewed_a(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err);
/* What analyze kept of a culprit, for its sample: "gold" (of the fp64 run), "replay", "bound".
 * PL_E_NOT_FOUND when it was not kept. */
pl_status pl_viewed_kept(pl_viewed *v, const pl_sync_point *p, const char *what, pl_tensor **out,
                         pl_err *err);
/* Flat index of the largest error; NaN or Inf on one side comes first; -1 = not known. */
int64_t pl_view_worst(const pl_sync_point *p);
bool pl_view_is_numeric(const pl_tensor *t); /* has a picture; NULL has none */

/* ---- as JSON: viewed_json.c, viewed_graph.c ---- */
void pl_viewed_put_session(const pl_viewed *v, pl_buf *out);
/* NULL: null. */
pl_status pl_viewed_put_graph(const pl_model *model, pl_buf *out, pl_err *err);
/* The lines around `line` of a source file. Only files inside `folder` are read, whatever the model
 * says; PL_E_NOT_FOUND for all others. */
pl_status pl_viewed_put_source(const char *folder, const char *file, long line, pl_buf *out,
                               pl_err *err);

#endif

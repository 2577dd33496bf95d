/* Sync points rolled up by module, operator type or dtype. */
#ifndef PL_ROLLUP_H
#define PL_ROLLUP_H

#include "session/session.h"

typedef enum pl_rollup_key { PL_ROLLUP_MODULE, PL_ROLLUP_OP, PL_ROLLUP_DTYPE } pl_rollup_key;
const char *pl_rollup_key_name(pl_rollup_key key); /* "module", "op", "dtype" */

typedef struct pl_rollup_row {
    const char *name; /* "" = the values without one */
    size_t n_values, n_culprit, n_inherited, n_unverified;
    size_t n_red, n_yellow;
    const pl_sync_point *worst; /* by q, then by the session's metric; NULL = none measured */
} pl_rollup_row;

typedef struct pl_rollup {
    pl_rollup_row *rows; /* culprits first, then inherited, then by red ones, then by name */
    size_t n_rows;
    pl_arena *arena;
} pl_rollup;

pl_status pl_rollup_make(const pl_session *session, pl_rollup_key key, pl_rollup *out, pl_err *err);
void pl_rollup_release(pl_rollup *rollup);
/* A table; `limit` rows, 0 = all. */
pl_status pl_rollup_print(const pl_session *session, pl_rollup_key key, size_t limit, pl_buf *out,
                          pl_err *err);

#endif

/* Several backends on one model: their sessions together. */
#ifndef PL_MANY_H
#define PL_MANY_H

#include "flows/api/session_api.h"

typedef struct pl_many_value { /* one row: a value of the model that some backend showed */
    const char *value, *op;
    bool is_output;
    size_t *point; /* per session: index of its sync point, or PLUMB_NONE */
} pl_many_value;

/* Backends whose values are ten times closer to each other than to the reference. */
typedef struct pl_many_group {
    const char *value, *op;
    bool *in; /* per session */
    size_t n_in;
} pl_many_group;

typedef struct pl_many { /* in the arena; borrows the sessions */
    const plumb_session *const *sessions;
    size_t n;
    pl_arena *arena;
    pl_many_value *values; /* in the order of the model */
    size_t n_values;
    pl_many_group group; /* at the first value where there is one; n_in 0 = none */
} pl_many;

pl_status pl_many_init(pl_many *many, const plumb_session *const *sessions, size_t n, pl_err *err);
void pl_many_release(pl_many *many);
bool pl_many_is_bad(const char *verdict); /* of a sync point: off by more than rounding */

/* many_print.c */
void pl_many_put_text(const pl_many *many, const char *metric, size_t limit, pl_buf *out);
void pl_many_put_md(const pl_many *many, const char *metric, size_t limit, pl_buf *out);
void pl_many_put_json(const pl_many *many, const char *metric, pl_buf *out);

#endif

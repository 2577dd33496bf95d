/* A session in the formats of formats.def. */
#ifndef PL_SESSION_PRINT_H
#define PL_SESSION_PRINT_H

#include "session/session.h"

typedef enum pl_session_sort {
    PL_SORT_WORST, /* most divergent first */
    PL_SORT_ORDER  /* as the model computes them */
} pl_session_sort;
/* "worst", "order"; false when it is neither. */
bool pl_session_sort_parse(const char *text, pl_session_sort *out);

typedef struct pl_session_print_options { /* all zero: the table, every row */
    const char *format; /* "text", "json", "csv", "md", "junit", "github", "sarif",
                           "model-explorer"; NULL = text */
    const char *metric; /* shown and sorted by; NULL = the session's */
    pl_session_sort sort;
    size_t limit;      /* rows of the table (text, md); 0 = all */
    plumb_style style; /* text only */
} pl_session_print_options;

/* PL_E_USAGE for an unknown format or metric; the message lists the available ones. */
pl_status pl_session_print(const pl_session *session, const pl_session_print_options *options,
                           pl_buf *out, pl_err *err);
/* The same checks without printing, for the start of a long command. */
pl_status pl_session_print_check(const pl_session_print_options *options, pl_err *err);

/* order[k] = index of the point that comes k-th; n_points of them. */
pl_status pl_session_order(const pl_session *session, const char *metric, pl_session_sort sort,
                           size_t *order, pl_err *err);

#endif

/* Minifies one model, from options to a repro on disk. */
#ifndef PL_MINIFY_JOB_H
#define PL_MINIFY_JOB_H

#include "flows/api.h"
#include "flows/minify/oracle/signature.h"

typedef struct pl_met { /* another failure found on the way */
    pl_signature signature;
    size_t n_seen;
} pl_met;

typedef struct pl_minified { /* strings and lists are in the arena */
    pl_arena *arena;
    bool is_query; /* only one query, nothing was minified */
    bool fails, has_signature;
    pl_signature signature;
    const char *folder; /* NULL = not written */
    bool verified, one_minimal;
    size_t n_queries, n_runs, n_sent, n_used; /* speculative queries: started, and used */
    double seconds, oracle_seconds, overhead_seconds;
    size_t nodes_before, nodes_after, inputs_after;
    int64_t elements_after;
    pl_met *others;
    size_t n_others;
    /* Level and pass of the backend that cause it, and the reason; NULL = not requested. */
    const char *bisect_level, *bisect_pass, *bisect_reason;
    const char *remains; /* what of the weights is left; NULL = not asked for */
    const char *notes;   /* lines */
} pl_minified;

pl_status pl_minify(const plumb_model *model, const plumb_minify_options *options,
                    pl_minified **out, pl_err *err);
pl_status pl_minify_query(const plumb_model *model, const plumb_minify_options *options,
                          pl_minified **out, pl_err *err);
void pl_minified_free(pl_minified *result); /* NULL is fine */

/* minify_print.c */
void pl_minified_put_json(const pl_minified *result, pl_buf *out);
void pl_minified_put_text(const pl_minified *result, pl_buf *out);

#endif

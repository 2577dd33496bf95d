/* "did you mean": the known name closest to an unknown one. */
#ifndef PL_NEAREST_H
#define PL_NEAREST_H

#include "base/buf.h"

/* Returns names one by one, for lists that are not arrays; NULL ends the list. */
typedef const char *(*pl_name_at)(const void *ctx, size_t i);

/* By edit distance (a swap of neighbours is one edit), ignoring case; NULL if more than a third of
 * the letters differ. */
const char *pl_nearest(const char *word, size_t n_word, pl_name_at at, const void *ctx);
/* "; did you mean 'x'? available: a, b, c". A list of more than 12 names or 200 letters is only
 * counted: "; did you mean 'x'? (one of 40)". Without a near name: "; available: a, b, c", at most
 * 12 of them, then how many more. */
void pl_nearest_put(pl_buf *out, const char *word, size_t n_word, pl_name_at at, const void *ctx);

/* For arrays of texts: ctx of pl_name_at_list. */
typedef struct pl_name_list {
    const char *const *names;
    size_t n;
} pl_name_list;
const char *pl_name_at_list(const void *ctx, size_t i);

#endif

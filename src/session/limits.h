/* The user's colour limits: rows of a file, the first match wins (docs/formats/limits.md). */
#ifndef PL_LIMITS_H
#define PL_LIMITS_H

#include "metric/metrics.h"

typedef struct pl_limits pl_limits;

pl_status pl_limits_open(const char *path, pl_limits **out, pl_err *err);
/* `name` is used in messages and in pl_limits_match.from. */
pl_status pl_limits_read(const char *text, size_t n, const char *name, pl_limits **out,
                         pl_err *err);
void pl_limits_free(pl_limits *limits); /* NULL is fine */

typedef struct pl_limits_match {
    pl_metric_limits limits;
    const char *from; /* "limits.json row 2" */
} pl_limits_match;
/* False when no row matches. Thread-safe. */
bool pl_limits_find(const pl_limits *limits, const char *metric, const char *value, const char *op,
                    pl_dtype dtype, pl_precision precision, pl_limits_match *out);

#endif

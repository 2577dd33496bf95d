/* Accepted divergences: a list of values that may differ, and by how much
 * (docs/formats/baseline.md).
 *
 * A bad sync point is accepted if the baseline lists its value, its class is not worse than listed,
 * and its PSNR is at most PL_BASELINE_SLACK_DB lower: only new or clearly worse divergences
 * fail. */
#ifndef PL_BASELINE_H
#define PL_BASELINE_H

#include "session/session.h"

#define PL_BASELINE_SLACK_DB 6.0

typedef struct pl_baseline pl_baseline;

pl_status pl_baseline_open(const char *path, pl_baseline **out, pl_err *err);
/* `name` is used in messages. */
pl_status pl_baseline_read(const char *text, size_t n, const char *name, pl_baseline **out,
                           pl_err *err);
void pl_baseline_free(pl_baseline *baseline); /* NULL is fine */

/* Marks accepted points. *n_unused: rows whose value agrees or no longer exists. */
pl_status pl_baseline_apply(const pl_baseline *baseline, pl_session *session, size_t *n_unused,
                            pl_err *err);
/* Everything that diverges in this session, accepted or not. */
void pl_baseline_put(const pl_session *session, pl_buf *out);
/* Only these values, if the session has them. */
void pl_baseline_put_values(const pl_session *session, const char *const *values, size_t n,
                            pl_buf *out);

#endif

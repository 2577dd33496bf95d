/* Accepted divergences: a list of values that may differ, and by how much
 * (docs/formats/baseline.md).
 *
 * A bad sync point is accepted when the baseline names its value, its class is not worse than noted
 * and its PSNR at most PL_BASELINE_SLACK_DB lower: only what is new, or clearly worse, fails. */
#ifndef PL_BASELINE_H
#define PL_BASELINE_H

#include "session/session.h"

#define PL_BASELINE_SLACK_DB 6.0

typedef struct pl_baseline pl_baseline;

pl_status pl_baseline_open(const char *path, pl_baseline **out, pl_err *err);
/* `name` stands for it in messages. */
pl_status pl_baseline_read(const char *text, size_t n, const char *name, pl_baseline **out,
                           pl_err *err);
void pl_baseline_free(pl_baseline *baseline); /* NULL is fine */

/* Marks what is accepted. *n_unused: rows whose value agrees or is not there any more. */
pl_status pl_baseline_apply(const pl_baseline *baseline, pl_session *session, size_t *n_unused,
                            pl_err *err);
/* All that diverges in this session, accepted before or not. */
void pl_baseline_put(const pl_session *session, pl_buf *out);
/* Only these values, as far as the session has them. */
void pl_baseline_put_values(const pl_session *session, const char *const *values, size_t n,
                            pl_buf *out);

#endif

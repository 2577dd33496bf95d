/* Findings of a session: each blamed group, then the bad values that no group explains, then the
 * verdict itself. */
#ifndef PL_FINDINGS_H
#define PL_FINDINGS_H

#include "report/format.h"

typedef struct pl_finding {
    const char *rule;                  /* a verdict of a value or of the session */
    const char *value, *node, *source; /* "" unknown */
    bool is_error;
    pl_buf message;
} pl_finding;

typedef void (*pl_put_finding)(void *ctx, const pl_finding *finding);
void pl_findings_each(const pl_session_view *view, pl_put_finding put, void *ctx);

#endif

#include "base/progress.h"

void pl_progress_update(const pl_progress *p, const char *phase, int64_t done, int64_t total) {
    if (p == NULL || p->update == NULL) return;
    (void)p->update(p->ctx, phase == NULL ? "" : phase, done, total);
}

pl_status pl_progress_step(const pl_progress *p, const char *phase, int64_t done, int64_t total,
                           pl_err *err) {
    if (p == NULL || p->update == NULL) return PL_OK;
    if (p->update(p->ctx, phase, done, total) == 0) return PL_OK;
    return pl_fail(err, PL_E_CANCELLED, "cancelled");
}

pl_status pl_progress_poll(const pl_progress *p, pl_err *err) {
    return pl_progress_step(p, NULL, 0, 0, err);
}

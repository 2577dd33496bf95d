/* The temporary folder of a run: everything its queries write is inside. It is locked while in use,
 * so that the next run can remove what a killed one left (base/unfinished.c). */
#include "flows/minify/search/mini_work.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"

pl_status pl_mini_work_open(pl_mini *m, pl_err *err) {
    return pl_dir_temporary(&m->work, err);
}

void pl_mini_work_close(pl_mini *m) {
    if (m->work == NULL) return;
    pl_dir_remove(m->work, NULL);
    pl_free(m->work);
    m->work = NULL;
}

double pl_mini_seconds_left(const pl_mini *m) {
    if (m->options->max_time <= 0) return 1e9;
    return fmax(1e-3, m->started + m->options->max_time - pl_api_seconds());
}

int64_t pl_mini_deadline(const pl_mini *m, double seconds) {
    return pl_clock_ns() + (int64_t)(1e9 * fmin(seconds, pl_mini_seconds_left(m)));
}

/* The analyze flow: which operation is to blame. */
#ifndef PL_ANALYZE_H
#define PL_ANALYZE_H

#include "flows/api.h"
#include "session/session.h"

/* Everything of one call; the session folder is written when options->output says so. A backend
 * that fails is a result. */
pl_status pl_analyze(plumb_model *m, const plumb_analyze_options *options, pl_session **out,
                     pl_err *err);

#endif

/* The compare flow: two recordings, a model and a recording, or two models. */
#ifndef PL_COMPARE_H
#define PL_COMPARE_H

#include "flows/api.h"
#include "session/session.h"

/* The session folder is written when options->output says so. Nothing paired is PL_E_INVALID. */
pl_status pl_compare(const char *a, const char *b, const plumb_compare_options *options,
                     pl_session **out, pl_err *err);

#endif

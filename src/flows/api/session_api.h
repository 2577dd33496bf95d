/* plumb_session: a finished session and where its tensors are. */
#ifndef PL_SESSION_API_H
#define PL_SESSION_API_H

#include "flows/api/options.h"
#include "report/session_print.h"
#include "session/session.h"

/* Takes `s`; `folder` (may be NULL) is where it was written to. */
pl_status pl_session_handle_take(pl_session *s, const char *folder, plumb_session **out,
                                 pl_err *err);
/* Converts plumb_write_options to the types of report/. */
pl_status pl_write_read(const plumb_write_options *given, plumb_write_options *own,
                        pl_session_print_options *out, pl_err *err);
/* Accepts NULL, "text" and "json": for results with only these formats. */
pl_status pl_write_is_json(const plumb_write_options *given, bool *json, plumb_write_options *own,
                           pl_err *err);

#endif

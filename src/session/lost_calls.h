/* Calls of the source framework that its exporter dropped, froze into a constant or changed. The
 * recording lists them (`plumb.export`, docs/formats/recording.md), and the verdict names them. */
#ifndef PL_LOST_CALLS_H
#define PL_LOST_CALLS_H

#include "base/json.h"
#include "base/json_read.h"
#include "session/session.h"

/* Reads the text of `plumb.export`; NULL = none. Calls without effect are left out. Malformed
 * entries are skipped: the verdict does not depend on them. */
pl_status pl_lost_calls_read(pl_session *s, const char *text, pl_err *err);
/* Reads them from session.json. */
pl_status pl_lost_calls_take(pl_session *s, const pl_json_value *list, pl_err *err);
void pl_lost_calls_put_json(const pl_session *s, pl_json *j);
/* The call that explains best why `value` is wrong; NULL when none was lost. */
const pl_lost_call *pl_lost_calls_for(const pl_session *s, const char *value);
/* "clamp_ was dropped by the exporter, net.py:7: y.view(-1).clamp_(0, 1)" */
const char *pl_lost_call_describe(const pl_session *s, const pl_lost_call *c);

#endif

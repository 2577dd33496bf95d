/* A session as one HTML file that opens without plumb, or in any other format. */
#ifndef PL_HTML_H
#define PL_HTML_H

#include <plumb.h>

#include "base/buf.h"
#include "base/status.h"

/* Writes the report to `path`; without a path the text goes to `out`. `out` then says what was
 * written. `options` may be NULL. */
pl_status pl_report_make(const char *session, const char *path, const plumb_report_options *options,
                         pl_buf *out, pl_err *err);

#endif

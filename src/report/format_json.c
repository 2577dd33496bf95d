/* JSON: session.json itself (docs/formats/session.md). */
#include "report/format.h"

void pl_format_json(const pl_session_view *view, pl_buf *out) {
    pl_session_put_json(view->session, out);
}

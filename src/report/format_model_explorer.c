/* Node data of Model Explorer. */
#include <math.h>

#include "base/json.h"
#include "base/strmap.h"
#include "report/format.h"

/* Node data, keyed by the name of an output tensor. Names may occur twice in a session (bodies,
 * calls), keys may not: the worst one is used. */
void pl_format_model_explorer(const pl_session_view *v, pl_buf *out) {
    static const char *const colours[] = { "#81c784", "#ffd54f", "#e57373", "#e0e0e0" };
    const pl_session *s = v->session;
    pl_strmap seen = PL_STRMAP_INIT;
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_buf name = PL_BUF_INIT;
    pl_buf_printf(&name, "plumb %s", v->metric);
    if (!pl_buf_ok(&name)) out->failed = true;
    pl_json_put_string(&j, "name", pl_buf_str(&name));
    pl_buf_release(&name);
    pl_json_key(&j, "results");
    pl_json_object_begin(&j);
    for (size_t k = 0; k < s->n_points; k++) {
        const pl_sync_point *p = &s->points[v->order[k]];
        const double x = pl_sync_point_metric(s, p, v->metric);
        if (pl_strmap_has(&seen, p->value)) continue;
        if (pl_strmap_put(&seen, p->value, out) != 0) {
            out->failed = true;
            break;
        }
        pl_json_key(&j, p->value);
        pl_json_object_begin(&j);
        pl_json_key(&j, "value");
        if (isnan(x)) {
            pl_json_string(&j, pl_verdict_name(p->verdict));
        } else {
            pl_json_double(&j, x);
        }
        pl_json_put_string(&j, "bgColor", colours[p->colour]);
        pl_json_object_end(&j);
    }
    pl_json_object_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
    pl_strmap_release(&seen);
}

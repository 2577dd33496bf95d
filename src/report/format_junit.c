/* JUnit: a test case for each sync point, and one for the verdict. */
#include <math.h>

#include "base/escape.h"
#include "report/format.h"

static void put_xml(pl_buf *out, const char *s) {
    pl_escape_put(out, PL_ESCAPE_XML, s);
}

static void put_case(const pl_session_view *v, const pl_sync_point *p, pl_buf *out) {
    const double x = pl_sync_point_metric(v->session, p, v->metric);
    pl_buf_puts(out, "    <testcase classname=\"");
    put_xml(out, p->op[0] != '\0' ? p->op : p->is_input ? "input" : "value");
    pl_buf_puts(out, "\" name=\"");
    put_xml(out, p->value);
    pl_buf_puts(out, "\"");
    if (!pl_sync_point_is_bad(p) && !pl_sync_point_is_skipped(p)) {
        pl_buf_puts(out, "/>\n");
        return;
    }
    pl_buf_puts(out, ">\n");
    pl_buf_puts(out, pl_sync_point_is_skipped(p) ? "      <skipped message=\""
                                                 : "      <failure type=\"");
    if (!pl_sync_point_is_skipped(p)) {
        pl_buf_puts(out, pl_verdict_name(p->verdict));
        pl_buf_puts(out, "\" message=\"");
    }
    put_xml(out, pl_sync_point_reason_or_verdict(p));
    if (!isnan(x)) pl_buf_printf(out, "; %s %.6g", v->metric, x);
    pl_buf_puts(out, "\"/>\n    </testcase>\n");
}

void pl_format_junit(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    size_t n_bad = 0, n_skipped = 0;
    /* A failed run, or differing outputs without a bad value, must not look like a pass. */
    for (size_t i = 0; i < s->n_points; i++) {
        n_bad += pl_sync_point_is_bad(&s->points[i]);
        n_skipped += pl_sync_point_is_skipped(&s->points[i]);
    }
    const bool whole = s->outcome != PL_OUTCOME_AGREE;
    pl_buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    pl_buf_puts(out, "  <testsuite name=\"plumb ");
    put_xml(out, s->model_path[0] != '\0' ? s->model_path : s->a.path);
    pl_buf_printf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                  s->n_points + 1, n_bad + whole, n_skipped);
    pl_buf_puts(out, "    <properties>\n      <property name=\"coverage\" value=\"");
    pl_session_put_coverage_text(s, out);
    pl_buf_printf(out, "\"/>\n      <property name=\"at_fault\" value=\"%s\"/>\n", s->at_fault);
    pl_buf_puts(out, "    </properties>\n");
    pl_buf_puts(out, "    <testcase classname=\"session\" name=\"verdict\"");
    if (whole) {
        pl_buf headline = PL_BUF_INIT;
        pl_session_put_headline(s, &headline);
        pl_buf_printf(out, ">\n      <failure type=\"%s\" message=\"", pl_outcome_name(s->outcome));
        if (!pl_buf_ok(&headline)) out->failed = true;
        put_xml(out, pl_buf_str(&headline));
        pl_buf_puts(out, "\"/>\n    </testcase>\n");
        pl_buf_release(&headline);
    } else {
        pl_buf_puts(out, "/>\n");
    }
    for (size_t k = 0; k < s->n_points; k++)
        put_case(v, &s->points[v->order[k]], out);
    pl_buf_puts(out, "  </testsuite>\n</testsuites>\n");
}

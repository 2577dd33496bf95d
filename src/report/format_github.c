/* GitHub: workflow commands that annotate lines of the source. */
#include "base/escape.h"
#include "report/findings.h"

static void put_escaped(pl_buf *out, const char *s, bool property) {
    pl_escape_put(out, property ? PL_ESCAPE_GITHUB_KEY : PL_ESCAPE_GITHUB, s);
}

static void put_annotation(void *ctx, const pl_finding *f) {
    pl_buf *out = ctx;
    size_t n_file;
    long line;
    pl_buf_printf(out, "::%s ", f->is_error ? "error" : "warning");
    if (pl_session_split_source(f->source, &n_file, &line)) {
        pl_buf file = PL_BUF_INIT;
        pl_buf_append(&file, f->source, n_file);
        if (!pl_buf_ok(&file)) out->failed = true;
        pl_buf_puts(out, "file=");
        put_escaped(out, pl_buf_str(&file), true);
        pl_buf_printf(out, ",line=%ld,", line);
        pl_buf_release(&file);
    }
    pl_buf_puts(out, "title=plumb ");
    put_escaped(out, f->rule, true);
    pl_buf_puts(out, "::");
    if (!pl_buf_ok(&f->message)) out->failed = true;
    put_escaped(out, pl_buf_str(&f->message), false);
    pl_buf_putc(out, '\n');
}

void pl_format_github(const pl_session_view *v, pl_buf *out) {
    pl_findings_each(v, put_annotation, out);
    pl_buf_printf(out, "::notice title=plumb %s::", pl_outcome_name(v->session->outcome));
    pl_session_put_coverage_text(v->session, out);
    pl_buf_putc(out, '\n');
}

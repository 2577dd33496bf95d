/* Markdown: tables for a pull request. */
#include "base/escape.h"
#include "report/format.h"
#include "session/quant.h"

static void put_cell(pl_buf *out, const char *s) {
    pl_escape_put(out, PL_ESCAPE_MARKDOWN, s);
}

static void put_md_blame(const pl_session *s, pl_buf *out) {
    if (s->n_blame == 0) return;
    pl_buf_puts(out, "\n| blame | op | value | kind | q | effect | reason | source |\n"
                     "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < s->n_blame; i++) {
        const pl_blame_entry *b = &s->blame[i];
        char q[40], effect[40];
        pl_metric_text(b->q, q, sizeof q);
        pl_metric_text(b->effect, effect, sizeof effect);
        const char *const cells[] = { b->node, b->op,  b->value,  b->kind,
                                      q,       effect, b->reason, b->source };
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
            pl_buf_puts(out, "| ");
            put_cell(out, cells[k]);
            pl_buf_putc(out, ' ');
        }
        pl_buf_puts(out, "|\n");
    }
}

void pl_format_md(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    pl_buf headline = PL_BUF_INIT;
    pl_session_put_headline(s, &headline);
    if (!pl_buf_ok(&headline)) out->failed = true;
    pl_buf_puts(out, "**");
    put_cell(out, pl_buf_str(&headline));
    pl_buf_puts(out, "**\n\n");
    pl_buf_release(&headline);
    pl_buf_puts(out, "Coverage: ");
    pl_session_put_coverage_text(s, out);
    pl_buf_puts(out, "\n\n");
    pl_session_put_counts(s, out);
    if (s->quant != NULL) {
        pl_buf_putc(out, '\n');
        pl_quant_put_md(s->quant, v->n_rows < s->n_points ? v->n_rows : 0, out);
    }
    put_md_blame(s, out);
    pl_buf_printf(out, "\n| | %s%s%s | verdict | op | value | counterpart | reason |\n", v->metric,
                  v->unit[0] != '\0' ? " " : "", v->unit);
    pl_buf_puts(out, "|---|---|---|---|---|---|---|\n");
    for (size_t k = 0; k < v->n_rows; k++) {
        const pl_sync_point *p = &s->points[v->order[k]];
        char number[40];
        pl_metric_text(pl_sync_point_metric(s, p, v->metric), number, sizeof number);
        const char *const cells[] = { pl_colour_letter(p->colour),
                                      number,
                                      pl_verdict_name(p->verdict),
                                      p->op,
                                      p->value,
                                      p->counterpart,
                                      pl_sync_point_reason(p) };
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
            pl_buf_puts(out, "| ");
            put_cell(out, cells[i]);
            pl_buf_putc(out, ' ');
        }
        pl_buf_puts(out, "|\n");
    }
    if (v->n_rows < s->n_points) pl_buf_printf(out, "\nand %zu more\n", s->n_points - v->n_rows);
}

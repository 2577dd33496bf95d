/* The table of layers, as text, Markdown and JSON. */
#include "session/quant.h"

#include <math.h>
#include <stdio.h>

#include "base/count.h"
#include "base/escape.h"

typedef struct cells {
    char share[24], cumulative[24], gain[40];
} cells;

static void put_share(double x, char *out, size_t n) {
    if (isnan(x)) {
        snprintf(out, n, "-");
    } else {
        snprintf(out, n, "%.1f %%", 100 * x);
    }
}

/* The same figures in all formats. */
static cells cells_of(const pl_quantisation *q, const pl_quant_row *r) {
    cells c;
    put_share(r->share, c.share, sizeof(c.share));
    put_share(r->cumulative, c.cumulative, sizeof(c.cumulative));
    char metric[24] = "-", top1[24] = "";
    if (!isnan(r->gain))
        snprintf(metric, sizeof(metric), *q->unit != '\0' ? "%+.2f %.8s" : "%+.3g%.8s", r->gain,
                 q->unit);
    if (!isnan(r->top1_gain)) snprintf(top1, sizeof(top1), ", %+.1f %%", 100 * r->top1_gain);
    snprintf(c.gain, sizeof(c.gain), "%.20s%.18s", metric, top1);
    return c;
}

static void put_summary(const pl_quantisation *q, pl_buf *out) {
    pl_buf_puts(out, "quantisation: ");
    if (q->n_rows == 0) {
        pl_buf_put_clean(out, q->note);
        return;
    }
    pl_buf_put_count(out, q->n_rows, "layer");
    pl_buf_printf(out, " %s the outputs off by %.3g of their size (limit %.3g); %s %.4g%s%s",
                  q->n_rows == 1 ? "puts" : "put", q->error, q->limit, q->metric, q->value,
                  *q->unit != '\0' ? " " : "", q->unit);
    if (!isnan(q->top1)) pl_buf_printf(out, "; top-1 agreement %.1f %%", 100 * q->top1);
    if (!q->float_weights)
        pl_buf_puts(out,
                    "; weight rounding is not included (give the float model as the reference)");
}

static void put_name(const pl_quant_row *r, pl_buf *out) {
    pl_buf_put_clean(out, r->op);
    pl_buf_puts(out, "  ");
    pl_buf_put_clean(out, r->value);
    if (*r->node != '\0') {
        pl_buf_puts(out, " (");
        pl_buf_put_clean(out, r->node);
        pl_buf_putc(out, ')');
    }
    if (*r->kind == '\0') return;
    pl_buf_puts(out, "  ");
    pl_buf_put_clean(out, r->kind);
    pl_buf_puts(out, ": ");
    pl_buf_put_clean(out, r->evidence);
}

static bool is_shown(const pl_quant_row *r, size_t i, size_t limit) {
    return limit == 0 || i < limit || r->keep || *r->kind != '\0';
}

void pl_quant_put_text(const pl_quantisation *q, size_t limit, const char *more, pl_buf *out) {
    size_t n = 0;
    put_summary(q, out);
    pl_buf_putc(out, '\n');
    if (q->n_rows == 0) return;
    pl_buf_printf(out, "    %8s %10s  %18s  %s\n", "share", "cumulative", "gain in float", "layer");
    for (size_t i = 0; i < q->n_rows; i++) {
        const pl_quant_row *r = &q->rows[i];
        const cells c = cells_of(q, r);
        if (!is_shown(r, i, limit)) continue;
        pl_buf_printf(out, "  %c %8s %10s  %18s  ", r->keep ? '*' : ' ', c.share, c.cumulative,
                      c.gain);
        put_name(r, out);
        pl_buf_putc(out, '\n');
        n++;
    }
    if (n < q->n_rows) {
        pl_buf_printf(out, "  and %zu more", q->n_rows - n);
        if (more != NULL) pl_buf_printf(out, " (%s)", more);
        pl_buf_putc(out, '\n');
    }
    pl_buf_printf(out,
                  "  share: of the outputs' error, each layer quantised alone; gain: in %s%s, "
                  "this layer alone kept in float\n",
                  q->metric, isnan(q->top1) ? "" : " and top-1 agreement");
}

void pl_quant_put_md(const pl_quantisation *q, size_t limit, pl_buf *out) {
    pl_buf summary = PL_BUF_INIT;
    put_summary(q, &summary);
    if (!pl_buf_ok(&summary)) out->failed = true;
    pl_escape_put(out, PL_ESCAPE_MARKDOWN, pl_buf_str(&summary));
    pl_buf_release(&summary);
    pl_buf_puts(out, "\n\n");
    if (q->n_rows == 0) return;
    pl_buf_puts(out, "| layer | op | share of the error | cumulative | gain in float | mistake |\n"
                     "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < q->n_rows; i++) {
        const pl_quant_row *r = &q->rows[i];
        const cells c = cells_of(q, r);
        if (!is_shown(r, i, limit)) continue;
        const char *const columns[] = { r->value, r->op, c.share, c.cumulative, c.gain, r->kind };
        for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++) {
            pl_buf_puts(out, "| ");
            pl_escape_put(out, PL_ESCAPE_MARKDOWN, columns[k]);
            pl_buf_putc(out, ' ');
        }
        pl_buf_puts(out, "|\n");
    }
    pl_buf_putc(out, '\n');
}

void pl_quant_put_json(const pl_quantisation *q, pl_json *j) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "metric", q->metric);
    pl_json_put_string(j, "unit", q->unit);
    pl_json_put_known(j, "error", q->error);
    pl_json_put_known(j, "limit", q->limit);
    pl_json_put_known(j, "value", q->value);
    pl_json_put_known(j, "top1", q->top1);
    pl_json_put_bool(j, "float_weights", q->float_weights);
    pl_json_put_string(j, "note", q->note);
    pl_json_key(j, "layers");
    pl_json_array_begin(j);
    for (size_t i = 0; i < q->n_rows; i++) {
        const pl_quant_row *r = &q->rows[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "node", r->node);
        pl_json_put_string(j, "op", r->op);
        pl_json_put_string(j, "value", r->value);
        pl_json_put_string(j, "module", r->module);
        pl_json_put_known(j, "share", r->share);
        pl_json_put_known(j, "cumulative", r->cumulative);
        pl_json_put_known(j, "gain", r->gain);
        pl_json_put_known(j, "top1_gain", r->top1_gain);
        pl_json_put_known(j, "error_alone", r->alone);
        pl_json_put_known(j, "error_kept", r->kept);
        pl_json_put_string(j, "kind", r->kind);
        pl_json_put_string(j, "evidence", r->evidence);
        pl_json_put_bool(j, "keep", r->keep);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

/* The table for the terminal. Colours always come with a letter. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "session/advice.h"
#include "session/detail.h"
#include "session/lost_calls.h"
#include "session/quant.h"
#include "session/routing.h"

enum { LIMIT_ROWS = 16, LIST_MAX = 16 };

static void put_code(const char *code, pl_buf *out) {
    if (code != NULL) pl_buf_puts(out, code);
}

static void put_mark(const pl_session_view *v, pl_colour c, pl_buf *out) {
    const char *const codes[] = { v->style->green, v->style->yellow, v->style->red };
    if (c < PL_NO_COLOUR) put_code(codes[c], out);
    pl_buf_puts(out, pl_colour_letter(c));
    if (c < PL_NO_COLOUR) put_code(v->style->reset, out);
}

static void put_more(const pl_session_view *v, size_t n, pl_buf *out) {
    pl_buf_printf(out, "  and %zu more", n);
    if (v->style->more != NULL) pl_buf_printf(out, " (%s)", v->style->more);
    pl_buf_putc(out, '\n');
}

/* What the headline is based on, and where the difference starts if that is another value. */
static void put_coverage(const pl_session *s, pl_buf *out) {
    if (s->outcome == PL_OUTCOME_FAILED) return;
    pl_buf_puts(out, "  coverage: ");
    pl_session_put_coverage_text(s, out);
    pl_buf_putc(out, '\n');
    if (strcmp(s->at_fault, "model") == 0 || strcmp(s->at_fault, "both") == 0)
        pl_buf_printf(out, "  at fault: %s\n",
                      *s->at_fault == 'm' ? "the model, not the runtime"
                                          : "both the model and the runtime");
    for (size_t i = 0; i < s->n_lost && i < 8 && *s->at_fault != 'n' && *s->at_fault != 'r'; i++) {
        const char *call = pl_lost_call_describe(s, &s->lost[i]);
        pl_buf_puts(out, "  exporter: ");
        pl_buf_put_clean(out, call == NULL ? "" : call);
        pl_buf_putc(out, '\n');
    }
    pl_routing_put_text(s->routing, out);
    if (s->n_blame == 0 || s->first_divergence == NULL ||
        strcmp(s->first_divergence, s->blame[0].value) == 0)
        return;
    pl_buf_puts(out, "  first divergence: ");
    pl_buf_put_clean(out, s->first_divergence);
    pl_buf_putc(out, '\n');
}

static void put_side(const char *name, const pl_side_info *i, pl_buf *out) {
    const char *parts[] = { i->spec[0] != '\0' ? i->spec : i->backend, i->version, i->path };
    bool any = false;
    for (size_t k = 0; k < 3; k++)
        any = any || parts[k][0] != '\0';
    if (!any) return;
    pl_buf_printf(out, "  %s ", name);
    for (size_t k = 0; k < 3; k++) {
        if (parts[k][0] == '\0') continue;
        pl_buf_putc(out, ' ');
        pl_buf_put_clean(out, parts[k]);
    }
    if (i->failure[0] != '\0') {
        pl_buf_puts(out, ": ");
        pl_buf_put_clean(out, i->failure);
    }
    pl_buf_putc(out, '\n');
    if (i->device[0] != '\0') {
        pl_buf_puts(out, "     device: ");
        pl_buf_put_clean(out, i->device);
        pl_buf_putc(out, '\n');
    }
    if (i->precision_profile[0] != '\0' && strcmp(i->precision_profile, "ieee") != 0) {
        pl_buf_puts(out, "     precision profile: ");
        pl_buf_put_clean(out, i->precision_profile);
        pl_buf_putc(out, '\n');
    }
    if (i->placement.n_places > 0) {
        pl_buf_puts(out, "     nodes: ");
        pl_placement_put_text(&i->placement, out);
        pl_buf_putc(out, '\n');
    }
}

static void put_numbers(const int64_t *numbers, size_t n, pl_buf *out) {
    for (size_t i = 0; i < n && i < LIST_MAX; i++)
        pl_buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)numbers[i]);
    if (n > LIST_MAX) pl_buf_printf(out, " and %zu more", n - LIST_MAX);
}

/* "3 of 8 samples fail: 1, 2, 5; 2 alone shows every culprit" */
static void put_samples(const pl_session *s, pl_buf *out) {
    if (s->n_samples < 2) return;
    pl_buf_printf(out, "  %zu of %zu samples fail", s->n_failing_samples, s->n_samples);
    if (s->n_failing_samples > 0) {
        pl_buf_puts(out, ": ");
        put_numbers(s->failing_samples, s->n_failing_samples, out);
    }
    if (s->n_cover > 0) {
        pl_buf_puts(out, s->n_cover == 1 ? "; sample " : "; samples ");
        put_numbers(s->cover, s->n_cover, out);
        pl_buf_puts(out, s->n_blame == 0   ? " is the worst"
                         : s->n_cover == 1 ? " alone shows every culprit"
                                           : " together show every culprit");
    }
    pl_buf_putc(out, '\n');
}

static void put_blame(const pl_session *s, pl_buf *out) {
    if (s->n_blame > 0) pl_buf_puts(out, "\nblame\n");
    for (size_t i = 0; i < s->n_blame; i++) {
        const pl_blame_entry *b = &s->blame[i];
        pl_buf_printf(out, "  %zu. ", i + 1);
        pl_buf_put_clean(out, b->op);
        pl_buf_puts(out, " '");
        pl_buf_put_clean(out, b->node[0] != '\0' ? b->node : b->value);
        pl_buf_puts(out, "' -> ");
        pl_buf_put_clean(out, b->value);
        if (b->kind[0] != '\0') {
            pl_buf_puts(out, ": ");
            pl_buf_put_clean(out, b->kind);
        }
        if (b->where[0] != '\0') {
            pl_buf_puts(out, ", ");
            pl_buf_put_clean(out, b->where);
        }
        if (!isnan(b->q)) pl_buf_printf(out, "; q %.4g", b->q);
        if (!isnan(b->effect)) pl_buf_printf(out, "; effect %.4g", b->effect);
        if (b->n_samples > 0) {
            pl_buf_puts(out, b->n_samples > 1 ? "; samples " : "; sample ");
            put_numbers(b->samples, b->n_samples, out);
        }
        pl_buf_putc(out, '\n');
        const char *const more[] = { b->reason, b->module, b->source };
        for (size_t k = 0; k < 3; k++) {
            if (more[k][0] == '\0') continue;
            pl_buf_puts(out, k == 1 ? "     module " : "     "); /* a module may be just "0" */
            pl_buf_put_clean(out, more[k]);
            pl_buf_putc(out, '\n');
        }
        if (b->n_members > 1) pl_buf_puts(out, "     one of");
        for (size_t k = 0; b->n_members > 1 && k < b->n_members; k++) {
            pl_buf_putc(out, ' ');
            pl_buf_put_clean(out, b->members[k]);
        }
        if (b->n_members > 1) pl_buf_putc(out, '\n');
    }
}

typedef struct widths {
    int metric, op;
} widths;

static void put_nonfinite(const pl_accumulators *acc, pl_buf *out) {
    if (acc->n_both_nan > 0)
        pl_buf_printf(out, "  NaN on both sides at %lld of %lld elements",
                      (long long)acc->n_both_nan, (long long)acc->n);
    if (acc->n_both_inf > 0)
        pl_buf_printf(out, "  Inf on both sides at %lld of %lld elements",
                      (long long)acc->n_both_inf, (long long)acc->n);
}

static void put_row(const pl_session_view *v, const pl_sync_point *p, widths w, pl_buf *out) {
    char number[40];
    pl_metric_text(pl_sync_point_metric(v->session, p, v->metric), number, sizeof number);
    pl_buf_puts(out, "  ");
    put_mark(v, p->colour, out);
    pl_buf_printf(out, " %*s  %-10s", w.metric - 2, number, pl_verdict_name(p->verdict));
    char op[64];
    snprintf(op, sizeof op, "%.60s", p->op[0] != '\0' ? p->op : p->is_input ? "(input)" : "-");
    pl_buf_putc(out, ' ');
    pl_buf_put_clean(out, op);
    for (int k = (int)strlen(op); k < w.op; k++)
        pl_buf_putc(out, ' ');
    pl_buf_puts(out, "  ");
    pl_buf_put_clean(out, p->value);
    if (p->counterpart[0] != '\0' && strcmp(p->counterpart, p->value) != 0) {
        pl_buf_puts(out, " = ");
        pl_buf_put_clean(out, p->counterpart);
        pl_buf_printf(out, " (%s %.2f)", p->paired_by, p->confidence);
    }
    if (p->layout[0] != '\0') {
        pl_buf_puts(out, " [");
        pl_buf_put_clean(out, p->layout);
        pl_buf_putc(out, ']');
    }
    if (p->accepted) pl_buf_puts(out, " (accepted)");
    if (v->session->n_samples > 1) pl_buf_printf(out, " [sample %lld]", (long long)p->sample);
    if (pl_sync_point_reason(p)[0] != '\0') {
        pl_buf_puts(out, "  ");
        pl_buf_put_clean(out, pl_sync_point_reason(p));
    }
    if (p->measured) put_nonfinite(&p->acc, out);
    pl_buf_putc(out, '\n');
}

/* Which limits gave the colours, each metric and origin once. */
static void put_limits(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    const pl_sync_point *seen[LIMIT_ROWS];
    bool varies[LIMIT_ROWS] = { false };
    size_t n = 0;
    const char *last = "";
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        size_t k = 0;
        if (!p->limits.known || p->limits_from[0] == '\0') continue;
        while (k < n &&
               (strcmp(seen[k]->limits_from, p->limits_from) != 0 ||
                strcmp(pl_sync_point_limits_of(s, seen[k]), pl_sync_point_limits_of(s, p)) != 0))
            k++;
        if (k == LIMIT_ROWS) continue;
        if (k == n) seen[n++] = p;
        varies[k] = varies[k] || seen[k]->limits.green != p->limits.green ||
                    seen[k]->limits.yellow != p->limits.yellow;
    }
    for (size_t k = 0; k < n; k++) {
        const char *of = pl_sync_point_limits_of(s, seen[k]);
        const pl_metric *m = pl_metric_find(of);
        const char *sign = m != NULL && m->direction == PL_LOWER_IS_BETTER ? "<=" : ">=";
        pl_buf_puts(out, k == 0 ? "limits" : ";");
        if (strcmp(of, last) != 0) pl_buf_printf(out, " of %s", of);
        if (strcmp(of, last) != 0 && strcmp(of, s->metric) != 0) pl_buf_puts(out, ", where r is 0");
        pl_buf_puts(out, strcmp(of, last) != 0 ? ": " : " ");
        last = of;
        pl_buf_put_clean(out, seen[k]->limits_from);
        if (varies[k]) {
            pl_buf_puts(out, " scaled by max|r|");
        } else {
            char green[40], yellow[40];
            pl_buf_printf(out, " G %s %s, Y %s %s", sign,
                          pl_digits_text(seen[k]->limits.green, 4, green, sizeof green), sign,
                          pl_digits_text(seen[k]->limits.yellow, 4, yellow, sizeof yellow));
        }
    }
    if (n > 0) pl_buf_putc(out, '\n');
}

static int widest_op(const pl_session_view *v) {
    size_t width = 4;
    for (size_t k = 0; k < v->n_rows; k++) {
        const pl_sync_point *p = &v->session->points[v->order[k]];
        const size_t n = strlen(p->op[0] == '\0' && p->is_input ? "(input)" : p->op);
        if (n > width) width = n;
    }
    return width > 30 ? 30 : (int)width;
}

void pl_format_text(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    char head[64];
    put_code(s->outcome == PL_OUTCOME_AGREE ? v->style->agree : v->style->diverged, out);
    pl_session_put_headline(s, out);
    put_code(v->style->reset, out);
    pl_buf_putc(out, '\n');
    put_side("A", &s->a, out);
    put_side("B", &s->b, out);
    if (s->bisect_level != NULL) {
        pl_buf_puts(out, "  bisect: ");
        if (*s->bisect_level != '\0') pl_buf_printf(out, "level %s, ", s->bisect_level);
        if (*s->bisect_pass != '\0') pl_buf_printf(out, "pass %s: ", s->bisect_pass);
        pl_buf_put_clean(out, s->bisect_reason);
        pl_buf_putc(out, '\n');
    }
    if (s->observer_effect) {
        pl_buf_puts(out, "  observer effect: ");
        pl_buf_put_clean(out, s->observer_note);
        pl_buf_putc(out, '\n');
    }
    put_samples(s, out);
    put_coverage(s, out);
    pl_session_put_counts(s, out);
    if (s->quant != NULL) {
        pl_buf_putc(out, '\n');
        pl_quant_put_text(s->quant, v->n_rows < s->n_points ? v->n_rows : 0, v->style->more, out);
    }
    put_blame(s, out);
    snprintf(head, sizeof head, "%s%s%s", v->metric, v->unit[0] != '\0' ? " " : "", v->unit);
    const widths w = { strlen(head) > 12 ? (int)strlen(head) : 12, widest_op(v) };
    if (v->n_rows > 0)
        pl_buf_printf(out, "\n  %*s  %-10s %-*s  %s\n", w.metric, head, "verdict", w.op, "op",
                      "value");
    for (size_t k = 0; k < v->n_rows; k++)
        put_row(v, &s->points[v->order[k]], w, out);
    if (v->n_rows < s->n_points) put_more(v, s->n_points - v->n_rows, out);
    put_limits(v, out);
    if (s->advice != NULL) {
        const size_t n_left =
            pl_advice_put_text(s->advice, v->n_rows < s->n_points ? v->n_rows : 0, out);
        if (n_left > 0) put_more(v, n_left, out);
        pl_advice_put_model(s->advice, out);
    }
    for (size_t i = 0; i < s->n_points; i++) {
        if (s->points[i].detail == NULL) continue;
        pl_buf_puts(out, "\ndetail of ");
        pl_buf_put_clean(out, s->points[i].value);
        pl_buf_putc(out, '\n');
        pl_detail_put_text(out, s->points[i].detail);
    }
    for (size_t i = 0; i < s->n_notes; i++) {
        pl_buf_puts(out, "note: ");
        pl_buf_put_clean(out, s->notes[i]);
        pl_buf_putc(out, '\n');
    }
}

/* Findings of a session, for GitHub and SARIF. */
#include "report/findings.h"

/* The k-th blamed group or, after those, bad value. False after the last. */
static bool find_blamed(const pl_session *s, size_t k, pl_finding *f) {
    if (k >= s->n_blame) return false;
    const pl_blame_entry *b = &s->blame[k];
    *f = (pl_finding){ "culprit", b->value, b->node, b->source, true, PL_BUF_INIT };
    pl_buf_printf(&f->message, "%s '%s' computes '%s' wrongly", b->op, b->node, b->value);
    if (b->kind[0] != '\0') pl_buf_printf(&f->message, ": %s", b->kind);
    if (b->reason[0] != '\0') pl_buf_printf(&f->message, " (%s)", b->reason);
    return true;
}

static bool find_bad(const pl_session *s, const pl_sync_point *p, pl_finding *f) {
    if (!pl_sync_point_is_bad(p)) return false;
    if (p->verdict == PL_VERDICT_CULPRIT && s->n_blame > 0) return false; /* already reported */
    *f = (pl_finding){ pl_verdict_name(p->verdict),
                       p->value,
                       p->node,
                       p->source,
                       p->verdict != PL_VERDICT_INHERITED && p->verdict != PL_VERDICT_AMPLIFIED,
                       PL_BUF_INIT };
    pl_buf_printf(&f->message, "'%s' (%s): %s", p->value, p->op[0] != '\0' ? p->op : "value",
                  pl_sync_point_reason_or_verdict(p));
    return true;
}

void pl_findings_each(const pl_session_view *v, pl_put_finding put, void *ctx) {
    const pl_session *s = v->session;
    pl_finding f;
    for (size_t k = 0; find_blamed(s, k, &f); k++) {
        put(ctx, &f);
        pl_buf_release(&f.message);
    }
    for (size_t k = 0; k < s->n_points; k++) {
        if (!find_bad(s, &s->points[v->order[k]], &f)) continue;
        put(ctx, &f);
        pl_buf_release(&f.message);
    }
    if (s->outcome == PL_OUTCOME_AGREE) return;
    f = (pl_finding){ pl_outcome_name(s->outcome), "", "", "", true, PL_BUF_INIT };
    pl_session_put_headline(s, &f.message);
    put(ctx, &f);
    pl_buf_release(&f.message);
}

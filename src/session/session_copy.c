/* Makes a session self-contained: during a flow it shares strings with models, blame and
 * recordings, a finished session must not. Every string and list of the structs in session.h and
 * advice.h is copied here; a new pointer there needs a line here, or a row in columns.def. */
#include <string.h>

#include "session/advice.h"
#include "session/columns.h"
#include "session/detail.h"
#include "session/quant.h"
#include "session/routing.h"
#include "session/session.h"

typedef struct copier {
    pl_arena *arena;
    bool failed;
} copier;

static void text(copier *c, const char **s) {
    if (*s == NULL) return;
    const char *copy = **s == '\0' ? "" : pl_arena_strdup(c->arena, *s);
    c->failed = c->failed || copy == NULL;
    *s = copy == NULL ? "" : copy;
}

static void texts(copier *c, const char **const *fields, size_t n) {
    for (size_t i = 0; i < n; i++)
        text(c, fields[i]);
}

/* A copy of an array; NULL stays NULL. */
static void *list(copier *c, const void *from, size_t n, size_t size) {
    if (from == NULL) return NULL;
    void *copy = pl_arena_array(c->arena, n, size);
    if (copy == NULL) {
        c->failed = true;
        return NULL;
    }
    if (n > 0) memcpy(copy, from, n * size);
    return copy;
}

static void text_list(copier *c, const char *const **strings, size_t n) {
    const char **copy = list(c, *strings, n, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++)
        text(c, &copy[i]);
    *strings = copy;
}

static void copy_point(copier *c, const pl_session *s, pl_sync_point *p) {
    const char **const fields[] = { &p->a.blob, &p->a.key, &p->b.blob, &p->b.key };
    for (size_t i = 0; i < PL_N_COLUMNS; i++)
        if (pl_columns[i].kind == PL_COLUMN_TEXT) text(c, pl_column_field(&pl_columns[i], p));
    texts(c, fields, sizeof(fields) / sizeof(fields[0]));
    p->user_metrics = list(c, p->user_metrics, s->n_user_metrics, sizeof(double));
    p->detail = list(c, p->detail, 1, sizeof(*p->detail));
    p->replayed = NULL;
}

static void copy_entry(copier *c, pl_blame_entry *e) {
    const char **const fields[] = { &e->node,  &e->op,     &e->value,  &e->kind,
                                    &e->where, &e->reason, &e->module, &e->source };
    texts(c, fields, sizeof(fields) / sizeof(fields[0]));
    text_list(c, &e->members, e->n_members);
    e->samples = list(c, e->samples, e->n_samples, sizeof(*e->samples));
}

static void copy_side(copier *c, pl_side_info *i) {
    const char **const fields[] = {
        &i->backend, &i->spec, &i->version, &i->path,   &i->hash,
        &i->failure, &i->cpu,  &i->sandbox, &i->device, &i->precision_profile
    };
    texts(c, fields, sizeof(fields) / sizeof(fields[0]));
    if (pl_placement_copy(&i->placement, c->arena, &i->placement) != PL_OK) c->failed = true;
}

static void copy_advice(copier *c, pl_session *s) {
    pl_advice *a = list(c, s->advice, 1, sizeof(*a));
    s->advice = a;
    if (a == NULL) return;
    const char **const fields[] = { &a->precision, &a->limit, &a->reason, &a->model, &a->by };
    texts(c, fields, sizeof(fields) / sizeof(fields[0]));
    a->rows = list(c, a->rows, a->n_rows, sizeof(*a->rows));
    for (size_t i = 0; a->rows != NULL && i < a->n_rows; i++) {
        pl_advice_row *r = &a->rows[i];
        const char **const names[] = { &r->node, &r->op, &r->value, &r->module };
        texts(c, names, sizeof(names) / sizeof(names[0]));
    }
}

static void copy_quant(copier *c, pl_session *s) {
    pl_quantisation *q = list(c, s->quant, 1, sizeof(*q));
    s->quant = q;
    if (q == NULL) return;
    const char **const fields[] = { &q->metric, &q->unit, &q->note };
    texts(c, fields, sizeof(fields) / sizeof(fields[0]));
    q->rows = list(c, q->rows, q->n_rows, sizeof(*q->rows));
    for (size_t i = 0; q->rows != NULL && i < q->n_rows; i++) {
        pl_quant_row *r = &q->rows[i];
        const char **const names[] = { &r->node,   &r->op,   &r->value,
                                       &r->module, &r->kind, &r->evidence };
        texts(c, names, sizeof(names) / sizeof(names[0]));
    }
}

static void copy_routing(copier *c, pl_session *s) {
    pl_routing *r = list(c, s->routing, 1, sizeof(*r));
    s->routing = r;
    if (r == NULL) return;
    text(c, &r->output);
    r->of = list(c, r->of, r->n, sizeof(*r->of));
    for (size_t i = 0; r->of != NULL && i < r->n; i++) {
        text(c, &r->of[i].node);
        text(c, &r->of[i].op);
        text(c, &r->of[i].value);
    }
}

static void copy_lists(copier *c, pl_session *s) {
    s->failing_samples =
        list(c, s->failing_samples, s->n_failing_samples, sizeof(*s->failing_samples));
    s->cover = list(c, s->cover, s->n_cover, sizeof(*s->cover));
    pl_user_metric *metrics = list(c, s->user_metrics, s->n_user_metrics, sizeof(*metrics));
    for (size_t i = 0; metrics != NULL && i < s->n_user_metrics; i++) {
        text(c, &metrics[i].name);
        text(c, &metrics[i].unit);
    }
    s->user_metrics = metrics;
    s->points = list(c, s->points, s->n_points, sizeof(*s->points));
    for (size_t i = 0; s->points != NULL && i < s->n_points; i++)
        copy_point(c, s, &s->points[i]);
    s->left_b = list(c, s->left_b, s->n_left_b, sizeof(*s->left_b));
    for (size_t i = 0; s->left_b != NULL && i < s->n_left_b; i++) {
        text(c, &s->left_b[i].value);
        text(c, &s->left_b[i].op);
        text(c, &s->left_b[i].reason);
    }
    s->blame = list(c, s->blame, s->n_blame, sizeof(*s->blame));
    for (size_t i = 0; s->blame != NULL && i < s->n_blame; i++)
        copy_entry(c, &s->blame[i]);
    copy_routing(c, s);
    s->lost = list(c, s->lost, s->n_lost, sizeof(*s->lost));
    for (size_t i = 0; s->lost != NULL && i < s->n_lost; i++) {
        pl_lost_call *l = &s->lost[i];
        text(c, &l->status);
        text(c, &l->op);
        text(c, &l->module);
        text(c, &l->file);
        text(c, &l->source);
        text_list(c, &l->affects, l->n_affects);
    }
    text_list(c, &s->notes, s->n_notes);
    s->timing = list(c, s->timing, s->n_timing, sizeof(*s->timing));
    for (size_t i = 0; s->timing != NULL && i < s->n_timing; i++)
        text(c, &s->timing[i].phase);
}

pl_status pl_session_copy(const pl_session *from, pl_session **out, pl_err *err) {
    pl_session *s = NULL;
    PL_TRY(pl_session_new(&s, err));
    copier c = { .arena = s->arena };
    *s = *from;
    s->arena = c.arena;
    const char **const fields[] = { &s->reason,           &s->at_fault,     &s->created,
                                    &s->metric,           &s->profile,      &s->model_path,
                                    &s->model_hash,       &s->bisect_level, &s->bisect_pass,
                                    &s->bisect_reason,    &s->lines,        &s->observer_note,
                                    &s->first_divergence, &s->inputs_hash };
    texts(&c, fields, sizeof(fields) / sizeof(fields[0]));
    copy_side(&c, &s->a);
    copy_side(&c, &s->b);
    copy_advice(&c, s);
    copy_quant(&c, s);
    copy_lists(&c, s);
    if (c.failed) {
        pl_session_free(s);
        return pl_fail_memory(err, 1);
    }
    *out = s;
    return PL_OK;
}

pl_status pl_session_copy_quant(const pl_session *from, pl_session *to, pl_err *err) {
    copier c = { .arena = to->arena };
    to->quant = from->quant;
    copy_quant(&c, to);
    return c.failed ? pl_fail_memory(err, 1) : PL_OK;
}

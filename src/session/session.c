/* Sessions: creation, names and order. */
#include "session/session.h"

#include <math.h>
#include <string.h>

#include "session/columns.h"

const char *pl_verdict_name(pl_verdict v) {
    static const char *const names[] = {
#define X(NAME, text, letter) text,
        PL_VERDICT_MAP(X)
#undef X
    };
    return v < PL_VERDICT_COUNT ? names[v] : "?";
}

char pl_verdict_letter(pl_verdict v) {
    static const char letters[] = {
#define X(NAME, text, letter) letter,
        PL_VERDICT_MAP(X)
#undef X
    };
    return v < PL_VERDICT_COUNT ? letters[v] : '?';
}

const char *pl_outcome_name(pl_outcome o) {
    static const char *const names[] = { "agree", "diverged", "nondeterministic", "failed",
                                         "inconclusive" };
    return o < PL_OUTCOME_COUNT ? names[o] : "?";
}

int pl_outcome_exit_code(pl_outcome o) {
    switch (o) {
    case PL_OUTCOME_AGREE: return 0;
    case PL_OUTCOME_FAILED: return 3;
    case PL_OUTCOME_INCONCLUSIVE: return 2;
    case PL_OUTCOME_DIVERGED:
    case PL_OUTCOME_NONDETERMINISTIC:
    case PL_OUTCOME_COUNT: break;
    }
    return 1;
}

void pl_side_describe(pl_side *side, const pl_datum *d) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return;
    const pl_tensor *t = d->tensor;
    side->present = true;
    side->dtype = t->dtype;
    side->rank = t->rank;
    memcpy(side->dims, t->dims, sizeof(side->dims));
    memcpy(side->strides, t->strides, sizeof(side->strides));
}

static const pl_side_info no_side = { .backend = "",
                                      .spec = "",
                                      .version = "",
                                      .path = "",
                                      .hash = "",
                                      .failure = "",
                                      .sandbox = "",
                                      .cpu = "",
                                      .device = "",
                                      .precision_profile = "" };

pl_status pl_session_new(pl_session **out, pl_err *err) {
    pl_arena *arena = pl_arena_new();
    pl_session *s = arena == NULL ? NULL : pl_arena_alloc(arena, sizeof *s);
    if (s == NULL) {
        pl_arena_free(arena);
        return pl_fail_memory(err, sizeof *s);
    }
    *s = (pl_session){ .arena = arena,
                       .reason = "",
                       .at_fault = "none",
                       .created = "",
                       .metric = "psnr",
                       .profile = "plumb",
                       .tol = (double)NAN,
                       .quant_limit = (double)NAN,
                       .model_path = "",
                       .model_hash = "",
                       .inputs_hash = "",
                       .a = no_side,
                       .b = no_side,
                       .observer_note = "",
                       .single_node_share = (double)NAN,
                       .lines = "" };
    *out = s;
    return PL_OK;
}

void pl_session_free(pl_session *s) {
    if (s != NULL) pl_arena_free(s->arena);
}

void pl_sync_point_init(pl_sync_point *p) {
    *p = (pl_sync_point){ .precision = PL_PRECISION_F32,
                          .colour = PL_NO_COLOUR,
                          .verdict = PL_VERDICT_UNVERIFIED };
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        const pl_column *c = &pl_columns[i];
        if (c->kind == PL_COLUMN_TEXT) *(const char **)pl_column_field(c, p) = "";
        if (c->kind == PL_COLUMN_NUMBER) *(double *)pl_column_field(c, p) = (double)NAN;
    }
    p->confidence = 0;
    pl_accumulators_init(&p->acc);
}

bool pl_sync_point_has_class(const pl_sync_point *p) {
    return p->measured || p->pair_class == PL_PAIR_STRUCTURAL ||
           p->pair_class == PL_PAIR_NONFINITE || p->verdict == PL_VERDICT_SAME;
}

bool pl_sync_point_is_bad(const pl_sync_point *p) {
    switch (p->verdict) {
    case PL_VERDICT_CULPRIT:
    case PL_VERDICT_INHERITED:
    case PL_VERDICT_AMPLIFIED:
    case PL_VERDICT_NONDETERMINISTIC:
    case PL_VERDICT_MISMATCH: return !p->accepted;
    case PL_VERDICT_SAME:
    case PL_VERDICT_WITHIN:
    case PL_VERDICT_UNPAIRED:
    case PL_VERDICT_UNVERIFIED:
    case PL_VERDICT_COUNT: break;
    }
    return false;
}

const char *pl_sync_point_limits_of(const pl_session *session, const pl_sync_point *p) {
    const pl_metric *m = pl_metric_find(session->metric);
    const bool built_in = strcmp(p->limits_from, pl_precision_name(p->precision)) == 0;
    if (m == NULL || !p->measured || !built_in) return session->metric;
    return pl_metric_judged_by(m, &p->acc, p->precision)->name;
}

int pl_sync_point_rank(const pl_sync_point *p) {
    if (!pl_sync_point_has_class(p)) return 1;
    switch (p->pair_class) {
    case PL_PAIR_STRUCTURAL: return 4;
    case PL_PAIR_NONFINITE: return 3;
    case PL_PAIR_FINITE: return 2;
    case PL_PAIR_EXACT:
    case PL_PAIR_CLASS_COUNT: break;
    }
    return 0;
}

double pl_sync_point_metric(const pl_session *s, const pl_sync_point *p, const char *name) {
    const pl_metric *m = pl_metric_find(name);
    if (m != NULL) return p->measured ? m->value(&p->acc) : (double)NAN;
    for (size_t i = 0; p->user_metrics != NULL && i < s->n_user_metrics; i++)
        if (strcmp(s->user_metrics[i].name, name) == 0) return p->user_metrics[i];
    return (double)NAN;
}

/* Shared by several formats. */
#include "report/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/count.h"
#include "base/utf8.h"

const char *pl_colour_letter(pl_colour c) {
    static const char *const letters[] = { "G", "Y", "R", "-" };
    return letters[c <= PL_NO_COLOUR ? c : PL_NO_COLOUR];
}

/* For a cosine, the digits of its distance from 1. */
const char *pl_digits_text(double x, int n_digits, char *out, size_t n_out) {
    const bool is_near_1 = x < 1 && x > 1 - 1e-4;
    snprintf(out, n_out, is_near_1 ? "1-%.*g" : "%.*g", is_near_1 ? 2 : n_digits,
             is_near_1 ? 1 - x : x);
    return out;
}
void pl_metric_text(double x, char *out, size_t n_out) {
    if (isnan(x))
        snprintf(out, n_out, "-");
    else
        pl_digits_text(x, 5, out, n_out);
}

const char *pl_sync_point_reason(const pl_sync_point *p) {
    if (p->reason[0] != '\0') return p->reason;
    return p->metadata_reason;
}

const char *pl_sync_point_reason_or_verdict(const pl_sync_point *p) {
    const char *reason = pl_sync_point_reason(p);
    return reason[0] != '\0' ? reason : pl_verdict_name(p->verdict);
}

bool pl_sync_point_is_skipped(const pl_sync_point *p) {
    return p->verdict == PL_VERDICT_UNPAIRED || p->verdict == PL_VERDICT_UNVERIFIED;
}

void pl_session_put_counts(const pl_session *s, pl_buf *out) {
    size_t n[PL_VERDICT_COUNT] = { 0 }, n_accepted = 0, n_worry = 0;
    for (size_t i = 0; i < s->n_points; i++) {
        n[s->points[i].verdict]++;
        n_accepted += s->points[i].accepted;
    }
    pl_buf_put_count(out, s->n_points, "value");
    for (int v = 0, k = 0; v < PL_VERDICT_COUNT; v++)
        if (n[v] > 0)
            pl_buf_printf(out, "%s%zu %s", k++ == 0 ? ": " : ", ", n[v],
                          pl_verdict_name((pl_verdict)v));
    if (n_accepted > 0) pl_buf_printf(out, "; %zu accepted by the baseline", n_accepted);
    for (size_t i = 0; i < s->n_left_b; i++)
        n_worry += !s->left_b[i].expected;
    if (s->n_left_b > 0)
        pl_buf_printf(out, "; %zu value%s of B unpaired, %zu unexplained", s->n_left_b,
                      pl_plural(s->n_left_b), n_worry);
    pl_buf_putc(out, '\n');
}

/* PyTorch's analyze prints these words, and tools search for them. */
void pl_session_put_headline(const pl_session *s, pl_buf *out) {
    static const char *const words[] = { "AGREE", "DIVERGED", "NONDETERMINISTIC", "FAILED",
                                         "INCONCLUSIVE" };
    const char *word = words[s->outcome];
    if (strncmp(s->reason, word, strlen(word)) != 0) {
        pl_buf_puts(out, word);
        const char *at = s->outcome == PL_OUTCOME_DIVERGED && s->n_blame > 0
                             ? s->blame[0].value /* the value that the reason is about */
                             : s->first_divergence;
        if ((s->outcome == PL_OUTCOME_DIVERGED || s->outcome == PL_OUTCOME_NONDETERMINISTIC) &&
            at != NULL) {
            pl_buf_puts(out, " at ");
            pl_buf_put_clean(out, at);
        }
        pl_buf_puts(out, ": ");
    }
    pl_buf_put_clean(out, s->reason);
}

void pl_session_put_coverage_text(const pl_session *s, pl_buf *out) {
    const pl_coverage *c = &s->coverage;
    if (c->n_outputs > 0)
        pl_buf_printf(out, "outputs compared %zu of %zu; ", c->n_outputs_compared, c->n_outputs);
    pl_buf_printf(out, "values verified %zu, unverified %zu, unpaired %zu", c->n_verified,
                  c->n_unverified, c->n_unpaired);
    if (c->n_inputs > 0) pl_buf_printf(out, "; inputs compared %zu", c->n_inputs);
}

bool pl_session_split_source(const char *source, size_t *n_file, long *line) {
    const char *colon = strrchr(source, ':');
    char *end = NULL;
    if (colon == NULL || colon == source || colon[1] < '0' || colon[1] > '9') return false;
    *line = strtol(colon + 1, &end, 10);
    *n_file = (size_t)(colon - source);
    return *end == '\0' && *line > 0;
}

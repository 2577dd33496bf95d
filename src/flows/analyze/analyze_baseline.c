/* The baseline of an analysis: drops accepted blame; the rest decides. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/analyze/analyze_int.h"
#include "session/baseline.h"

static bool is_accepted(const pl_session *s, const char *value) {
    for (size_t i = 0; i < s->n_points; i++)
        if (s->points[i].accepted && strcmp(s->points[i].value, value) == 0) return true;
    return false;
}

static size_t drop_blame(pl_session *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_blame; i++)
        if (!is_accepted(s, s->blame[i].value)) s->blame[n++] = s->blame[i];
    const size_t n_dropped = s->n_blame - n;
    s->n_blame = n;
    return n_dropped;
}

/* "DIVERGED at VALUE: …" of what is accepted. */
static void drop_lines(const pl_session *s, pl_buf *lines) {
    static const char head[] = "DIVERGED at ";
    pl_buf kept = PL_BUF_INIT;
    for (const char *at = pl_buf_str(lines); *at != '\0';) {
        const size_t n = strcspn(at, "\n") + 1;
        bool accepted = false;
        for (size_t i = 0; i < s->n_points && !accepted; i++) {
            const size_t length = strlen(s->points[i].value);
            accepted = s->points[i].accepted && strncmp(at, head, sizeof(head) - 1) == 0 &&
                       strncmp(at + sizeof(head) - 1, s->points[i].value, length) == 0 &&
                       at[sizeof(head) - 1 + length] == ':';
        }
        if (!accepted) pl_buf_append(&kept, at, n);
        at += n;
    }
    pl_buf_release(lines);
    *lines = kept;
}

/* Consequences of an accepted culprit are accepted, too; an output that fails without a culprit
 * must be accepted itself. */
static pl_status conclude(pl_session *s, size_t n_dropped, bool truth, pl_err *err) {
    bool left = s->n_blame > 0;
    for (size_t i = 0; i < s->n_points && !left; i++)
        left = s->points[i].verdict == PL_VERDICT_CULPRIT && !s->points[i].accepted;
    for (size_t i = 0; n_dropped > 0 && !left && i < s->n_points; i++)
        if (s->points[i].verdict == PL_VERDICT_INHERITED ||
            s->points[i].verdict == PL_VERDICT_AMPLIFIED)
            s->points[i].fails = false;
    return s->outcome == PL_OUTCOME_DIVERGED ? pl_analysis_conclude(s, truth, err) : PL_OK;
}

static pl_status write_baseline(pl_session *s, const char *path, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_baseline_put(s, &text);
    const pl_status st = pl_buf_ok(&text) ? pl_file_write(path, text.data, text.n_bytes, err)
                                          : pl_fail_memory(err, text.n_bytes);
    pl_buf_release(&text);
    for (size_t i = 0; i < s->n_points; i++)
        if (pl_sync_point_is_bad(&s->points[i])) s->points[i].accepted = true;
    return st;
}

/* Reads the baseline before the long work, so errors show at once. */
pl_status pl_analysis_check_baseline(const plumb_analyze_options *o, pl_err *err) {
    pl_baseline *baseline = NULL;
    if (o->baseline == NULL) return PL_OK;
    PL_TRY(pl_baseline_open(o->baseline, &baseline, err));
    pl_baseline_free(baseline);
    return PL_OK;
}

pl_status pl_analysis_accept(pl_session *s, const plumb_analyze_options *o, bool truth,
                             pl_buf *lines, pl_err *err) {
    pl_baseline *baseline = NULL;
    size_t n_unused = 0;
    if (o->baseline == NULL && o->write_baseline == NULL) return PL_OK;
    if (o->baseline != NULL) {
        PL_TRY(pl_baseline_open(o->baseline, &baseline, err));
        const pl_status st = pl_baseline_apply(baseline, s, &n_unused, err);
        pl_baseline_free(baseline);
        PL_TRY(st);
    }
    if (o->write_baseline != NULL) PL_TRY(write_baseline(s, o->write_baseline, err));
    const size_t n_dropped = drop_blame(s);
    drop_lines(s, lines);
    return conclude(s, n_dropped, truth, err);
}

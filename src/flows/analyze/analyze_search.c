/* Searches: the node where a failure starts, and the pass that causes it. */
#include <math.h>
#include <string.h>

#include "flows/analyze/analyze_int.h"
#include "flows/analyze/bisect.h"
#include "flows/analyze/parts.h"
#include "session/verdict.h"

/* For a failure without values to replay: the node where it starts. */
pl_status pl_analysis_blame_failure(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_side_options options = pl_analysis_side(x, x->a.options.spec, "A");
    pl_failing_node found;
    pl_origin origin;
    PL_TRY(pl_bisect_failure(x->model, x->in, &options, &found, err));
    PL_TRY(pl_analysis_timed(x, "searching for the failing node", err));
    if (found.node == NULL) return PL_OK;
    const pl_failure *failure = pl_backend_failure(x->a.backend);
    const bool crashed = failure != NULL && failure->happened;
    PL_TRY(pl_node_origin(found.node, x->arena, &origin, err));
    s->blame = pl_arena_array(x->arena, 1, sizeof(pl_blame_entry));
    const char **members = pl_arena_array(x->arena, 1, sizeof(char *));
    if (s->blame == NULL || members == NULL) return pl_fail_memory(err, 1);
    const char *value = found.node->name;
    for (uint32_t i = found.node->n_out; i-- > 0;)
        if (found.node->out[i] != NULL) value = found.node->out[i]->name;
    members[0] = pl_analysis_keep(x, value);
    s->n_blame = 1;
    s->blame[0] = (pl_blame_entry){
        .node = pl_analysis_keep(x, found.node->name),
        .op = pl_analysis_keep(x, found.node->op),
        .value = members[0],
        .members = members,
        .n_members = 1,
        .kind = !crashed                 ? "error"
                : failure->timed_out     ? "time-out"
                : failure->out_of_memory ? "out of memory"
                                         : "crash",
        .where = "the shortest prefix of the model that fails ends here",
        .q = (double)NAN,
        .effect = (double)NAN,
        .reason = pl_analysis_keep(x, found.why),
        .module = origin.module,
        .source = origin.file,
    };
    s->first_divergence = members[0];
    return PL_OK;
}

/* ---- parts ---- */

/* A black box: its values are unknown or incomplete, so blame covers everything between two known
 * ones. */
static bool is_black_box(const pl_analysis *x) {
    if (x->a.backend == NULL || x->replayed != x->model) return false;
    return (x->a.marked && x->a.info.n_disturbed > 0) || x->a.info.differs ||
           *x->a.record_trouble != '\0';
}

static const char *first_value(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) return node->out[i]->name;
    return node->name;
}

static pl_status entry_of(pl_analysis *x, const pl_guilty_part *part, pl_blame_entry *e,
                          pl_err *err) {
    const pl_node *last = part->nodes[part->n_nodes - 1];
    const char **members = pl_arena_array(x->arena, part->n_nodes, sizeof(char *));
    pl_origin origin;
    if (members == NULL) return pl_fail_memory(err, part->n_nodes);
    for (size_t i = 0; i < part->n_nodes; i++)
        members[i] = first_value(part->nodes[i]);
    PL_TRY(pl_node_origin(last, x->arena, &origin, err));
    *e = (pl_blame_entry){ .node = last->name,
                           .op = last->op,
                           .value = first_value(last),
                           .members = members,
                           .n_members = part->n_nodes,
                           .kind = part->kind,
                           .where = part->where,
                           .q = part->q,
                           .effect = (double)NAN,
                           .reason = part->reason,
                           .module = origin.module,
                           .source = origin.file };
    return PL_OK;
}

static bool is_guilty(const pl_parts_found *found, const pl_sync_point *p) {
    for (size_t i = 0; i < found->n_parts; i++)
        for (size_t k = 0; k < found->parts[i].n_nodes; k++)
            if (found->parts[i].nodes[k] == p->replayed->producer) return true;
    return false;
}

/* Other entries blamed for the segment with the guilty part only inherited its error. */
static pl_status clear_others(pl_analysis *x, const pl_parts_found *found, pl_err *err) {
    for (size_t i = 0; i < x->session->n_points; i++) {
        pl_sync_point *p = &x->session->points[i];
        if (p->verdict != PL_VERDICT_CULPRIT || is_guilty(found, p)) continue;
        p->facts.cleared = true;
        pl_verdict_decide(p);
        p->reason = pl_arena_printf(x->arena, "inherited from '%s'", x->session->blame[0].value);
        if (p->reason == NULL) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

pl_status pl_analysis_search_parts(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    pl_parts_found found;
    if (x->options->skip_search || !is_black_box(x) || s->n_blame == 0) return PL_OK;
    if (s->n_blame == 1 && s->blame[0].n_members == 1) return PL_OK; /* already a single node */
    const pl_parts_options options = { .side = pl_analysis_side(x, x->a.options.spec, "A"),
                                       .backend = x->a.backend,
                                       .pool = x->pool,
                                       .arena = x->arena };
    PL_TRY(pl_parts_search(x->model, x->in, &options, &found, err));
    PL_TRY(pl_analysis_timed(x, "parts of the model", err));
    if (found.n_parts == 0) {
        return pl_analysis_note(
            x, err, "%zu parts of the model were run on %s, but %s: only the whole model fails",
            found.n_queries, pl_backend_name(x->a.backend),
            found.whole ? "none fails every time" : "none fails");
    }
    pl_blame_entry *entries = pl_arena_array(x->arena, found.n_parts, sizeof(*entries));
    if (entries == NULL) return pl_fail_memory(err, found.n_parts);
    for (size_t i = 0; i < found.n_parts; i++)
        PL_TRY(entry_of(x, &found.parts[i], &entries[i], err));
    if (found.n_parts == 1) entries[0].effect = s->blame[0].effect; /* the whole effect */
    for (size_t i = 0; i < found.n_parts; i++)
        entries[i].score = isnan(entries[i].effect) ? 0 : entries[i].effect;
    s->blame = entries;
    s->n_blame = found.n_parts;
    PL_TRY(clear_others(x, &found, err));
    PL_TRY(pl_analysis_conclude(s, x->recording != NULL, err));
    s->first_divergence = entries[0].value;
    return pl_analysis_note(
        x, err,
        "found by running parts of the model on %s and the rest on eager: %zu runs, %zu rejected",
        pl_backend_name(x->a.backend), found.n_queries, found.n_refused);
}

/* ---- passes ---- */

/* Is the run with this spec wrong, or does it fail? */
static pl_status is_bad(void *ctx, const char *spec, bool *bad, pl_err *err) {
    pl_analysis *x = ctx;
    const pl_side_options options = pl_analysis_side(x, spec, "bisect");
    pl_side_run run = { .model = NULL };
    pl_blame found = { .arena = NULL };
    pl_err trouble = PL_ERR_INIT;
    *bad = false;
    pl_status st = pl_side_run_init(&run, x->model, &options, &trouble);
    if (st == PL_OK) st = pl_side_run_plain(&run, x->in, &trouble);
    if (st == PL_OK) st = pl_side_run_record(&run, x->in, &trouble);
    if (st == PL_E_BACKEND || st == PL_E_TIMEOUT) {
        *bad = true;
        st = PL_OK;
    } else if (st != PL_OK) {
        *err = trouble;
    } else {
        const pl_run_data a = pl_analysis_run_data(x, &run);
        const pl_blame_options blame_options = { .pool = x->pool,
                                                 .seed = x->inputs->seed,
                                                 .skip_gold = true };
        st = pl_blame_run(x->replayed, x->replayed_in, &a, NULL, &blame_options, &found, err);
        *bad = st == PL_OK && found.n_groups > 0;
    }
    pl_blame_release(&found);
    pl_side_run_release(&run);
    return st;
}

pl_status pl_analysis_bisect(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    if (x->pairs.a == NULL) PL_TRY(pl_analysis_pair(x, err)); /* A failed before pairing */
    if (!x->options->bisect || x->a.backend == NULL ||
        (s->outcome == PL_OUTCOME_AGREE || s->outcome == PL_OUTCOME_INCONCLUSIVE))
        return PL_OK;
    if (s->n_blame == 0 && s->outcome != PL_OUTCOME_FAILED) { /* every trial would look right */
        s->bisect_level = s->bisect_pass = "";
        s->bisect_reason =
            "no operation can be blamed: there is no rule that tells a failing run from a good one";
        return PL_OK;
    }
    pl_guilty_pass found;
    PL_TRY(pl_bisect_passes(x->a.options.spec, pl_backend_levels(x->a.backend),
                            pl_backend_passes(x->a.backend), is_bad, x, x->arena, &found, err));
    s->bisect_level = found.level;
    s->bisect_pass = found.pass;
    s->bisect_reason = found.reason;
    return pl_analysis_timed(x, "bisect", err);
}

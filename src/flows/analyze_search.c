/* What did it: the node with which a failure begins, the pass that makes the run wrong. */
#include <math.h>
#include <string.h>

#include "flows/analyze_int.h"
#include "flows/bisect.h"

/* A failure that has no values to replay: the node with which it begins. */
pl_status pl_analysis_blame_failure(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_side_options options = pl_analysis_side(x, x->a.options.spec, "A");
    pl_failing_node found;
    pl_origin origin;
    PL_TRY(pl_bisect_failure(x->model, x->in, &options, &found, err));
    PL_TRY(pl_analysis_timed(x, "search for the node", err));
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
        .where = "the shortest beginning of the model that fails ends here",
        .q = (double)NAN,
        .effect = (double)NAN,
        .reason = pl_analysis_keep(x, found.why),
        .module = origin.module,
        .source = origin.file,
    };
    s->first_divergence = members[0];
    return PL_OK;
}

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
    if (x->pairs.a == NULL) PL_TRY(pl_analysis_pair(x, err)); /* A failed before it came to that */
    if (!x->options->bisect || x->a.backend == NULL || s->outcome == PL_OUTCOME_AGREE) return PL_OK;
    pl_guilty_pass found;
    PL_TRY(pl_bisect_passes(x->a.options.spec, pl_backend_levels(x->a.backend),
                            pl_backend_passes(x->a.backend), is_bad, x, x->arena, &found, err));
    s->bisect_level = found.level;
    s->bisect_pass = found.pass;
    s->bisect_reason = found.reason;
    return pl_analysis_timed(x, "bisect", err);
}

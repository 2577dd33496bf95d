/* Finds which level or pass of the backend makes the smallest model fail. Done after the search,
 * because the smallest model runs fastest. */
#include "base/alloc.h"
#include "flows/analyze/bisect.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"

/* Whether the smallest model fails with this spec; uses a separate oracle. */
static pl_status is_bad(void *ctx, const char *spec, bool *bad, pl_err *err) {
    const pl_mini *m = ctx;
    plumb_minify_options options = *m->options;
    pl_mini asking = *m;
    pl_mini_state *state = NULL;
    pl_answer answer = PL_ANSWER_PASSES;
    options.backend = spec;
    options.keep_other = 0;
    asking.options = &options;
    asking.oracle = NULL;
    asking.ahead = NULL;
    pl_status st = pl_oracle_backend_new(&asking, &asking.oracle, err);
    if (st == PL_OK) st = pl_mini_state_copy(m->best, &state, err);
    if (st == PL_OK) {
        asking.oracle->target = m->oracle->target;
        st = pl_oracle_ask_again(asking.oracle, state, &answer, err);
    }
    *bad = answer == PL_ANSWER_FAILS || answer == PL_ANSWER_OTHER;
    pl_mini_state_free(state);
    pl_oracle_free(asking.oracle);
    return st;
}

static bool is_out_of_time(const pl_mini *m) {
    return m->options->max_time > 0 && pl_api_seconds() > m->started + m->options->max_time;
}

pl_status pl_mini_bisect(pl_mini *m, pl_err *err) {
    pl_buf spec = PL_BUF_INIT;
    pl_guilty_pass found;
    if (!m->options->bisect) return PL_OK;
    const pl_backend *backend = pl_oracle_backend(m->oracle);
    if (is_out_of_time(m) || backend == NULL) {
        m->pass =
            (pl_mini_pass){ "", "", "the time limit was reached before the passes were tried" };
        return PL_OK;
    }
    pl_mini_log(m, "Bisecting the backend's levels and passes");
    pl_status st = pl_oracle_spec(m->oracle, m->best, &spec, err);
    if (st == PL_OK)
        st = pl_bisect_passes(pl_buf_str(&spec), pl_backend_levels(backend),
                              pl_backend_passes(backend), is_bad, m, m->arena, &found, err);
    pl_buf_release(&spec);
    if (st == PL_E_LIMIT) {
        m->pass =
            (pl_mini_pass){ "", "", "the time limit was reached while the passes were tried" };
        return PL_OK;
    }
    PL_TRY(st);
    if (found.reason[0] == '\0') found.reason = "the backend has no levels or passes to leave out";
    m->pass = (pl_mini_pass){ found.level, found.pass, found.reason };
    pl_mini_log(m, "Bisect: %s%s%s%s", found.level[0] == '\0' ? "" : "level ", found.level,
                found.level[0] == '\0' ? "" : ": ", found.reason);
    return PL_OK;
}

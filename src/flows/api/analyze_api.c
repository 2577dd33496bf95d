/* plumb_analyze: the flow behind plumb.h. */
#include "flows/analyze/analyze.h"
#include "flows/api/session_api.h"

plumb_status plumb_analyze(plumb_model *model, const plumb_analyze_options *options,
                           plumb_session **out, plumb_error *err) {
    plumb_analyze_options o;
    plumb_inputs inputs;
    pl_watch watch;
    pl_session *s = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_ANALYZE, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    o.progress = pl_watch_init(&watch, o.progress);
    const pl_status st = pl_api_settle(pl_analyze(model, &o, &s, err), err);
    if (st != PL_OK) {
        pl_session_free(s);
        return st;
    }
    return pl_session_handle_take(s, o.output, out, err);
}

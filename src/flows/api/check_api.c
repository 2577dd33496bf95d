/* plumb_check: the checked run and its result. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/api/session_api.h"
#include "flows/check/check_run.h"

struct plumb_check_result {
    pl_check_run r; /* finished: model and options are no longer needed */
};

plumb_status plumb_check(plumb_model *model, const plumb_check_options *options,
                         plumb_check_result **out, plumb_error *err) {
    plumb_check_options o;
    plumb_run_options run;
    plumb_inputs inputs;
    plumb_context context;
    pl_watch watch;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CHECK, options, &o, err));
    PL_TRY(pl_options_read(PLUMB_OPTIONS_RUN, o.run, &run, err));
    PL_TRY(pl_inputs_read(&run.inputs, &inputs, err));
    PL_TRY(pl_context_read(&o.context, &context, err));
    run.progress = pl_watch_init(&watch, run.progress);
    o.run = &run;
    plumb_check_result *result = pl_calloc(1, sizeof(*result));
    if (result == NULL) return pl_fail_memory(err, sizeof(*result));
    result->r.m = model;
    result->r.options = &o;
    const pl_status st = pl_api_settle(pl_check_run_all(&result->r, err), err);
    if (st != PL_OK) {
        plumb_check_result_free(result);
        return st;
    }
    pl_check_run_finish(&result->r);
    *out = result;
    return PL_OK;
}

void plumb_check_result_free(plumb_check_result *result) {
    if (result == NULL) return;
    pl_check_run_release(&result->r);
    pl_free(result);
}

int plumb_check_result_exit_code(const plumb_check_result *result) {
    return result == NULL ? 0 : result->r.exit_code;
}

const char *plumb_check_result_status(const plumb_check_result *result) {
    return result == NULL ? "" : result->r.status;
}

const char *plumb_check_result_error(const plumb_check_result *result) {
    return result == NULL ? "" : result->r.error;
}

size_t plumb_check_result_outputs(const plumb_check_result *result) {
    return result == NULL ? 0 : result->r.n_out;
}

int plumb_check_result_output(const plumb_check_result *result, size_t i, plumb_check_output *out) {
    if (i >= plumb_check_result_outputs(result)) return pl_struct_fill(out, NULL, 0);
    const pl_check_run *r = &result->r;
    const bool judged = i < r->session->n_points;
    const pl_accuracy_check *c = &r->checks[i];
    const pl_datum *d = r->out[i];
    const plumb_check_output x = {
        .name = r->candidate.model->graph->outputs[i]->name,
        .kind = pl_output_kind_name(r->candidate.kinds[i]),
        .same = judged && c->same,
        .ignored = judged && c->ignored,
        .accepted = judged && r->session->points[i].accepted,
        .rule = judged && c->rule != NULL ? c->rule : "",
        .reason = judged ? c->why : "",
        .error = judged ? c->res_error : (double)NAN,
        .reference_error = judged ? c->ref_error : (double)NAN,
        .allowed = judged ? c->allowed : (double)NAN,
        .tensor = d == NULL || d->kind != PL_TYPE_TENSOR ? NULL : (const plumb_tensor *)d->tensor,
    };
    return pl_struct_fill(out, &x, sizeof(x));
}

plumb_status plumb_check_result_write(const plumb_check_result *result,
                                      const plumb_write_options *options, char **text,
                                      plumb_error *err) {
    plumb_write_options own;
    pl_session_print_options print;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(result);
    PL_TRY(pl_write_read(options, &own, &print, err));
    pl_status st = pl_check_print(&result->r, own.format, &out, err);
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

/* plumb_run and its result. */
#include <string.h>

#include "flows/api/session_api.h"
#include "flows/run.h"

struct plumb_run_result {
    pl_run_result r;
};

static const pl_run_result *of(const plumb_run_result *result) {
    return (const pl_run_result *)result;
}

plumb_status plumb_run(plumb_model *model, const plumb_run_options *options, plumb_run_result **out,
                       plumb_error *err) {
    plumb_run_options o;
    plumb_inputs inputs;
    pl_watch watch;
    pl_run_result *result = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_RUN, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    o.progress = pl_watch_init(&watch, o.progress);
    const pl_status st = pl_api_settle(pl_run(model, &o, &result, err), err);
    if (st != PL_OK) {
        pl_run_result_free(result);
        return st;
    }
    *out = (plumb_run_result *)result;
    return PL_OK;
}

void plumb_run_result_free(plumb_run_result *result) {
    pl_run_result_free((pl_run_result *)result);
}

size_t plumb_run_result_outputs(const plumb_run_result *result) {
    return result == NULL ? 0 : of(result)->n_out;
}

const char *plumb_run_result_name(const plumb_run_result *result, size_t i) {
    return i < plumb_run_result_outputs(result) ? of(result)->names[i] : "";
}

const plumb_tensor *plumb_run_result_tensor(const plumb_run_result *result, size_t i) {
    if (i >= plumb_run_result_outputs(result)) return NULL;
    const pl_datum *d = of(result)->out[i];
    return d == NULL || d->kind != PL_TYPE_TENSOR ? NULL : (const plumb_tensor *)d->tensor;
}

const plumb_tensor *plumb_run_result_find(const plumb_run_result *result, const char *name) {
    for (size_t i = 0; name != NULL && i < plumb_run_result_outputs(result); i++)
        if (strcmp(of(result)->names[i], name) == 0) return plumb_run_result_tensor(result, i);
    return NULL;
}

const char *plumb_run_result_file(const plumb_run_result *result, size_t i) {
    if (i >= plumb_run_result_outputs(result)) return "";
    return of(result)->files[i] == NULL ? "" : of(result)->files[i];
}

int plumb_run_result_times(const plumb_run_result *result, plumb_run_times *out) {
    if (result == NULL) return pl_struct_fill(out, NULL, 0);
    const pl_run_result *r = of(result);
    const plumb_run_times x = { .load = r->load,
                                .first = r->first,
                                .best = r->best,
                                .median = r->median,
                                .n_runs = r->n_runs };
    return pl_struct_fill(out, &x, sizeof(x));
}

size_t plumb_run_result_nodes(const plumb_run_result *result) {
    return result == NULL ? 0 : of(result)->n_nodes;
}

int plumb_run_result_node(const plumb_run_result *result, size_t i, plumb_node_time *out) {
    if (i >= plumb_run_result_nodes(result)) return pl_struct_fill(out, NULL, 0);
    const pl_run_node *n = &of(result)->nodes[i];
    const plumb_node_time x = { .value = n->value == NULL ? "" : n->value,
                                .op = n->op,
                                .seconds = n->seconds };
    return pl_struct_fill(out, &x, sizeof(x));
}

plumb_status plumb_run_result_write(const plumb_run_result *result,
                                    const plumb_write_options *options, char **text,
                                    plumb_error *err) {
    plumb_write_options own;
    pl_buf out = PL_BUF_INIT;
    bool json = false;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(result);
    PL_TRY(pl_write_is_json(options, &json, &own, err));
    if (json) {
        pl_run_put_json(of(result), &out);
    } else {
        pl_run_put_text(of(result), &out);
    }
    return pl_api_text_take(&out, text, err);
}

/* Between .onnx and .onnxtxt, and transformed graphs. */
#include "flows/convert.h"

#include <string.h>

#include "base/file.h"
#include "flows/api/options.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "graph/text/text.h"
#include "onnx/onnx.h"
#include "passes/passes.h"

/* *ctx becomes true when an initializer is no input: passes make such ones. */
static pl_status find_hidden(void *ctx, pl_graph *graph, pl_err *err) {
    bool *found = ctx;
    for (size_t i = 0; i < graph->n_values; i++)
        *found = *found || (graph->values[i]->init != NULL && !graph->values[i]->is_input);
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], find_hidden, ctx, err));
    return PL_OK;
}

static pl_status write_as(pl_model *model, const char *path, const plumb_convert_options *options,
                          pl_err *err) {
    bool hidden = false;
    if (pl_path_exists(path)) {
        return pl_fail(err, PL_E_EXISTS, "%s already exists", path);
    }
    PL_TRY(find_hidden(&hidden, model->graph, err));
    if (hidden) pl_model_raise_ir(model); /* onnx.checker refuses them before IR version 4 */
    if (pl_path_has_suffix(path, ".onnxtxt")) {
        pl_buf text = PL_BUF_INIT;
        pl_status st = pl_model_print(model, options->max_elements, &text, err);
        if (st == PL_OK) st = pl_file_write(path, pl_buf_str(&text), text.n_bytes, err);
        pl_buf_release(&text);
        return st;
    }
    if (!pl_path_has_suffix(path, ".onnx")) {
        return pl_fail(err, PL_E_USAGE, "%s: expected a name that ends in .onnx or .onnxtxt", path);
    }
    return pl_model_write(model, path, options->external != 0, err);
}

static pl_status transformed(pl_model *model, const char *path,
                             const plumb_convert_options *options, pl_err *err) {
    pl_dim_map dims = { 0 };
    const pl_infer_options infer = { .dims = &dims.map };
    pl_pass_job job = { .model = model, .value = options->backward, .infer = &infer };
    pl_status st = pl_dim_map_init(&dims, options->dims, options->n_dims, err);
    if (st == PL_OK) st = pl_pass_run("backward", &job, err);
    pl_dim_map_release(&dims);
    if (st == PL_OK) st = write_as(job.made, path, options, err);
    pl_model_free(job.made);
    return st;
}

pl_status pl_convert(pl_model *model, const char *path, const plumb_convert_options *options,
                     pl_err *err) {
    return options->backward == NULL ? write_as(model, path, options, err)
                                     : transformed(model, path, options, err);
}

plumb_status plumb_convert(plumb_model *model, const char *out_path,
                           const plumb_convert_options *options, plumb_error *err) {
    plumb_convert_options o;
    PL_REQUIRE(model);
    PL_REQUIRE(out_path);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CONVERT, options, &o, err));
    PL_TRY(pl_list_check("dims", o.dims, o.n_dims, err));
    return pl_api_settle(pl_convert(model->model, out_path, &o, err), err);
}

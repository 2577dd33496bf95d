/* Between .onnx and .onnxtxt, and transformed graphs. */
#include <string.h>

#include "base/file.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "graph/text.h"
#include "onnx/onnx.h"
#include "passes/backward.h"

/* *ctx becomes true when an initializer is no input: passes make such ones. */
static pl_status find_hidden(void *ctx, pl_graph *graph, pl_err *err) {
    bool *found = ctx;
    for (size_t i = 0; i < graph->n_values; i++)
        *found = *found || (graph->values[i]->init != NULL && !graph->values[i]->is_input);
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], find_hidden, ctx, err));
    return PL_OK;
}

static pl_status convert(pl_model *model, const char *path, const plumb_convert_options *options,
                         pl_err *err) {
    bool hidden = false;
    if (pl_path_exists(path)) {
        return pl_fail(err, PL_E_EXISTS, "%s exists already; it is not overwritten", path);
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
    static const char *const parts[] = { "joint", "forward", "backward" };
    for (int i = 0; i < 3; i++) {
        pl_model *other = NULL;
        if (strcmp(options->backward, parts[i]) != 0) continue;
        pl_dim_map dims = { 0 };
        pl_status st = pl_dim_map_init(&dims, options->dims, options->n_dims, err);
        const pl_infer_options infer = { .dims = &dims.map };
        if (st == PL_OK) st = pl_model_backward(model, (pl_backward_part)i, &infer, &other, err);
        pl_dim_map_release(&dims);
        PL_TRY(st);
        st = convert(other, path, options, err);
        pl_model_free(other);
        return st;
    }
    return pl_fail(err, PL_E_USAGE, "backward: '%s' is none of joint, forward, backward",
                   options->backward);
}

plumb_status plumb_convert(plumb_model *m, const char *out_path,
                           const plumb_convert_options *options, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    const pl_status st = options->backward == NULL ? convert(m->model, out_path, options, &err)
                                                   : transformed(m->model, out_path, options, &err);
    return pl_api_return(st, &err, error);
}

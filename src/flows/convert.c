/* Between .onnx and .onnxtxt, and transformed graphs. */
#include "flows/convert.h"

#include <string.h>

#include "base/count.h"
#include "base/file.h"
#include "flows/api/options.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "graph/text/text.h"
#include "onnx/onnx.h"
#include "passes/passes.h"

/* *ctx becomes true when an initializer is not an input: passes create such ones. */
static pl_status find_hidden(void *ctx, pl_graph *graph, pl_err *err) {
    bool *found = ctx;
    for (size_t i = 0; i < graph->n_values; i++)
        *found = *found || (graph->values[i]->init != NULL && !graph->values[i]->is_input);
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], find_hidden, ctx, err));
    return PL_OK;
}

typedef struct losses { /* what the text format cannot hold */
    size_t n_docs, n_denotations, n_kept;
} losses;

static pl_status count_losses(void *ctx, pl_graph *graph, pl_err *err) {
    losses *l = ctx;
    l->n_docs += graph->doc[0] != '\0';
    l->n_kept += graph->kept.n_bytes;
    for (size_t i = 0; i < graph->n_values; i++) {
        l->n_docs += graph->values[i]->doc[0] != '\0';
        l->n_denotations += graph->values[i]->spelt.n_bytes > 0;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        l->n_docs += graph->nodes[i]->doc[0] != '\0';
        PL_TRY(pl_node_each_body(graph->nodes[i], count_losses, ctx, err));
    }
    return PL_OK;
}

/* A comment in the text, so that nothing is lost silently. */
static void put_losses(const pl_model *model, pl_buf *text) {
    losses l = { .n_kept = model->kept.n_bytes };
    (void)count_losses(&l, model->graph, NULL);
    if (l.n_docs + l.n_denotations + l.n_kept == 0) return;
    pl_buf_puts(text, "# not in the text form:");
    if (l.n_docs > 0) pl_buf_printf(text, " %zu doc string%s;", l.n_docs, pl_plural(l.n_docs));
    if (l.n_denotations > 0)
        pl_buf_printf(text, " denotations of %zu value%s;", l.n_denotations,
                      pl_plural(l.n_denotations));
    if (l.n_kept > 0)
        pl_buf_printf(text,
                      " quantization_annotation, training_info or unused value_info (%zu bytes);",
                      l.n_kept);
    pl_buf_putc(text, '\n');
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
        if (st == PL_OK) put_losses(model, &text);
        if (st == PL_OK && !pl_buf_ok(&text)) st = pl_fail_memory(err, text.n_bytes);
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
    if (st == PL_OK) st = pl_inputs_check_dims(model->graph, options->dims, options->n_dims, err);
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

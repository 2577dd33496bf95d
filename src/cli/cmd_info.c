/* plumb info MODEL: what is in it. */
#include <stdlib.h>

#include "cli/args.h"

extern const pl_command pl_command_info;

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_model *model = NULL;
    char *text = NULL;
    size_t n_dims = 0;
    if (pl_args_open_model(args, args->positional[0], &model, &err) != PLUMB_OK) {
        return pl_command_fail(args, &err);
    }
    const char **dims = pl_args_all(args, "dim", &n_dims);
    plumb_info_options options;
    plumb_info_options_init(&options);
    options.format = pl_args_format(args);
    options.dims = dims;
    options.n_dims = n_dims;
    options.nodes = pl_args_flag(args, "nodes");
    plumb_status st = PLUMB_E_MEMORY;
    if (dims != NULL || pl_args_no_memory(&err)) st = plumb_info(model, &options, &text, &err);
    free(dims);
    plumb_model_close(model);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    { 0, "nodes", NULL, "list every node with its shapes, module and source line" },
    PL_OPTION_DIM,
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_info = {
    .name = "info",
    .usage = "MODEL [options]",
    .summary = "show inputs, outputs, ops, shapes, parameters and opsets of a model",
    .examples = "  plumb info model.onnx\n"
                "  plumb info model.onnx --nodes\n"
                "  plumb info model.onnx --json\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};

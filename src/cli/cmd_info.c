/* plumb info MODEL: its contents; also files of tensors without a graph. */
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_info;

static bool is_tensor_file(const char *path) {
    static const char *const suffixes[] = { ".gguf", ".safetensors", ".npz" };
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const size_t m = strlen(suffixes[i]);
        if (n > m && strcmp(path + n - m, suffixes[i]) == 0) return true;
    }
    return false;
}

static int run_tensors(const pl_args *args) {
    static const char *const of_models[] = { "nodes", "dim", "function", "from", "to" };
    plumb_error err = { 0 };
    char *text = NULL;
    for (size_t i = 0; i < sizeof(of_models) / sizeof(of_models[0]); i++) {
        if (!pl_args_flag(args, of_models[i])) continue;
        pl_args_fail(&err, PLUMB_E_USAGE, "--%s requires a model; %.400s has tensors and no graph",
                     of_models[i], args->positional[0]);
        return pl_command_fail(args, &err);
    }
    if (plumb_info_tensors(args->positional[0], pl_args_format(args), &text, &err) != PLUMB_OK)
        return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, 0);
}

static int run(const pl_args *args) {
    if (is_tensor_file(args->positional[0])) return run_tensors(args);
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
                "  plumb info weights.gguf\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};

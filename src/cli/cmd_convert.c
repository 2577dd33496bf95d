/* plumb convert IN OUT: between .onnx and .onnxtxt; graphs with gradients. */
#include <stdlib.h>

#include "cli/args.h"

extern const pl_command pl_command_convert;

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_model *model = NULL;
    long long max_elements = 0;
    if (!pl_args_int(args, "max-elements", 0, 0, INT64_MAX, &max_elements, &err)) {
        return pl_command_fail(args, &err);
    }
    if (pl_args_open_model(args, args->positional[0], &model, &err) != PLUMB_OK) {
        return pl_command_fail(args, &err);
    }
    plumb_convert_options options = { .external = pl_args_flag(args, "external"),
                                      .max_elements = max_elements,
                                      .backward = pl_args_value(args, "backward") };
    const char **dims = pl_args_all(args, "dim", &options.n_dims);
    options.dims = dims;
    const plumb_status st = plumb_convert(model, args->positional[1], &options, &err);
    plumb_model_close(model);
    free(dims);
    return st == PLUMB_OK ? 0 : pl_command_fail(args, &err);
}

static const pl_option options[] = {
    { 0, "external", NULL, "weights go to OUT.data beside the model" },
    { 0, "max-elements", "N", "text form: refuse tensors with more elements (default: no limit)" },
    { 0, "backward", "PART",
      "write the graph with gradients: joint, or its forward or backward part" },
    { 0, "dim", "NAME=N", "backward: size of a symbolic dim (repeatable)" },
    PL_OPTIONS_PART,
    PL_OPTIONS_END,
};

const pl_command pl_command_convert = {
    .name = "convert",
    .usage = "IN OUT [options]",
    .summary = "convert between .onnx and .onnxtxt, whole or in part",
    .details =
        "Functions are inlined. An existing file is never overwritten.\n"
        "--backward=joint: inputs are those of the model, then d_NAME for each float output,\n"
        "then the parameters; outputs are those of the model, then the gradient d_NAME of each\n"
        "float input and parameter. forward and backward: the same in two graphs.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};

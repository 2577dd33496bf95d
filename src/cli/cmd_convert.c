/* plumb convert IN OUT: between .onnx and .onnxtxt; eval mode, mixed precision, gradients. */
#include <stdlib.h>

#include "cli/args.h"

extern const pl_command pl_command_convert;

/* Applies --eval, --amp and --fp64. *list is the JSON of the changes, also if there are none. */
static plumb_status transform(const pl_args *args, plumb_model *model, char **list,
                              plumb_error *err) {
    plumb_transform_options options;
    plumb_transform_options_init(&options);
    options.eval = pl_args_flag(args, "eval");
    options.amp = pl_args_value(args, "amp");
    options.fp64 = pl_args_flag(args, "fp64");
    options.format = pl_args_format(args);
    *list = NULL;
    const bool none = !options.eval && options.amp == NULL && !options.fp64;
    if (none && options.format != PLUMB_JSON) return PLUMB_OK;
    return plumb_model_transform(model, &options, list, err);
}

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
    plumb_convert_options options;
    plumb_convert_options_init(&options);
    options.external = pl_args_flag(args, "external");
    options.max_elements = max_elements;
    options.backward = pl_args_value(args, "backward");
    const char **dims = pl_args_all(args, "dim", &options.n_dims);
    options.dims = dims;
    char *list = NULL;
    plumb_status st = PLUMB_E_MEMORY;
    if (dims != NULL || pl_args_no_memory(&err)) st = transform(args, model, &list, &err);
    if (st == PLUMB_OK) st = plumb_convert(model, args->positional[1], &options, &err);
    plumb_model_close(model);
    free(dims);
    if (st == PLUMB_OK) return list == NULL ? 0 : pl_command_print_take(args, list, 0);
    plumb_free(list);
    return pl_command_fail(args, &err);
}

static const pl_option options[] = {
    { 0, "external", NULL, "write weights to OUT.data beside the model" },
    { 0, "max-elements", "N", "text form: reject tensors with more elements (default: no limit)" },
    { 0, "eval", NULL, "switch off training behaviour and list the changes" },
    { 0, "amp", "TYPE", "mixed precision, fp16 or bf16: insert casts and list them" },
    { 0, "fp64", NULL, "convert every float to double" },
    { 0, "backward", "PART",
      "write the graph with gradients: joint, or its forward or backward part" },
    { 0, "dim", "NAME=N", "backward: size of a symbolic dim (repeatable)" },
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_convert = {
    .name = "convert",
    .usage = "IN OUT [options]",
    .summary = "convert between .onnx and .onnxtxt, cut or transform a model",
    .details = "Functions are inlined. An existing file is never overwritten.\n"
               "--eval, --amp and --fp64 transform the graph in this order, before --backward.\n"
               "--backward=joint: inputs are those of the model, then d_NAME for each float\n"
               "output, then the parameters; outputs are those of the model, then the gradient\n"
               "d_NAME of each float input and parameter. forward and backward: the same in two\n"
               "graphs.",
    .examples = "  plumb convert model.onnx model.onnxtxt\n"
                "  plumb convert model.onnx half.onnx --amp fp16\n"
                "  plumb convert model.onnx joint.onnx --backward=joint\n",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};

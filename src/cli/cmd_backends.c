/* plumb backends: what can run a model here. */
#include "cli/args.h"

extern const pl_command pl_command_backends;

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    char *text = NULL;
    if (plumb_backends(pl_args_format(args), &text, &err) != PLUMB_OK) {
        return pl_command_fail(args, &err);
    }
    return pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_backends = {
    .name = "backends",
    .usage = "[options]",
    .summary = "list the available backends, their options, and why others are missing",
    .examples = "  plumb backends\n"
                "  plumb backends --json\n"
                "  PLUMB_ORT_LIB=libonnxruntime.so.1.20 plumb backends\n",
    .options = options,
    .max_args = 0,
    .run = run,
};

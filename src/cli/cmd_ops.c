/* plumb ops: the operator table. */
#include "cli/args.h"

extern const pl_command pl_command_ops;

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    char *text = NULL;
    const char *filter = args->n_positional > 0 ? args->positional[0] : NULL;
    if (plumb_ops(pl_args_format(args), filter, &text, &err) != PLUMB_OK) {
        return pl_command_fail(args, &err);
    }
    return pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_ops = {
    .name = "ops",
    .usage = "[NAME] [options]",
    .summary = "list the supported operators and versions",
    .examples = "  plumb ops\n"
                "  plumb ops Conv\n"
                "  plumb ops --json\n",
    .options = options,
    .max_args = 1,
    .run = run,
};

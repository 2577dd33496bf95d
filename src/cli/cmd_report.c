/* plumb report SESSION: the debugger as one offline file, or the session in another format. */
#include "cli/args.h"

extern const pl_command pl_command_report;

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    char *text = NULL;
    long long limit = 0, size = 0;
    if (!pl_args_int(args, "limit", 0, 0, 1000000000, &limit, &err) ||
        !pl_args_int(args, "max-size", 16, 1, 100000, &size, &err))
        return pl_command_fail(args, &err);
    const plumb_report_options options = { .format = pl_args_value(args, "format"),
                                           .metric = pl_args_value(args, "metric"),
                                           .limit = (size_t)limit,
                                           .max_size = (uint64_t)size << 20 };
    if (plumb_report(args->positional[0], pl_args_value(args, "output"), &options, &text, &err) !=
        PLUMB_OK)
        return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    { 'o', "output", "FILE", "where it goes; formats other than html print without it" },
    { 0, "format", "NAME",
      "html (default), text, json, csv, md, junit, github, sarif, model-explorer" },
    { 0, "max-size", "MB", "html: at most so large; tensors are left out (default 16)" },
    { 0, "metric", "NAME", "that sorts (default: the session's)" },
    { 0, "limit", "N", "rows of tables (default 0 = all)" },
    PL_OPTIONS_END,
};

const pl_command pl_command_report = {
    .name = "report",
    .usage = "SESSION -o FILE.html [options]",
    .summary = "a session as one offline HTML file, or in another format",
    .details = "The HTML file is the debugger of 'plumb view' with the data inlined: all sync "
               "points and\n"
               "the graph, and the tensors of the blamed, the outputs and the worst, as far as "
               "they fit.\n"
               "It opens from disk and needs no network. An existing file is not overwritten.",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};

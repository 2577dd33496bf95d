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
    plumb_report_options options;
    plumb_report_options_init(&options);
    options.format = pl_args_value(args, "format");
    options.metric = pl_args_value(args, "metric");
    options.limit = (size_t)limit;
    options.max_size = (uint64_t)size << 20;
    if (plumb_report(args->positional[0], pl_args_value(args, "output"), &options, &text, &err) !=
        PLUMB_OK)
        return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    { 'o', "output", "FILE", "output file (required for html)" },
    { 0, "format", "NAME",
      "html (default), text, json, csv, md, junit, github, sarif, model-explorer" },
    { 0, "max-size", "MB", "html: maximum size; tensors are left out to fit (default 16)" },
    { 0, "metric", "NAME", "metric used for sorting (default: the session's)" },
    { 0, "limit", "N", "rows of tables (default 0 = all)" },
    PL_OPTIONS_END,
};

const pl_command pl_command_report = {
    .name = "report",
    .usage = "SESSION -o FILE.html [options]",
    .summary = "write a session as one offline HTML file, or in another format",
    .details = "The HTML file is the debugger of 'plumb view' with the data inlined: all sync\n"
               "points and the graph, and the tensors of blamed values, outputs and the worst\n"
               "values, as far as they fit. It opens from disk and needs no network. An\n"
               "existing file is not overwritten.",
    .examples = "  plumb report session -o report.html\n"
                "  plumb report session --format md\n"
                "  plumb report session --format junit -o plumb.xml\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};

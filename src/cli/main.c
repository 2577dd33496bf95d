/* plumb COMMAND …: finds the command's row and runs it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"

/* One line per command. */
/* clang-format off */
#define COMMANDS(X)                                                                                \
    X(info)                                                                                        \
    X(run)                                                                                         \
    X(compare)                                                                                     \
    X(analyze)                                                                                     \
    X(minify)                                                                                      \
    X(view)                                                                                        \
    X(report)                                                                                      \
    X(record)                                                                                      \
    X(test)                                                                                        \
    X(convert)                                                                                     \
    X(store)                                                                                       \
    X(ops)                                                                                         \
    X(backends)
/* clang-format on */

#define X(name) extern const pl_command pl_command_##name;
COMMANDS(X)
#undef X

static const pl_command *const commands[] = {
#define X(name) &pl_command_##name,
    COMMANDS(X)
#undef X
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *to) {
    fprintf(to,
            "plumb %s: find the operation where a model goes wrong\n\n"
            "usage: plumb COMMAND [arguments] [options]\n\nCommands:\n",
            plumb_version());
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(to, "\n'plumb COMMAND --help' tells more.\n");
}

static const pl_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with a message */
    signal(SIGXFSZ, SIG_IGN); /* and so is the largest file that is allowed */
    pl_alloc_keep_freed();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("plumb %s\n", plumb_version());
        return 0;
    }
    const pl_command *command = find_command(argv[1]);
    if (command == NULL) {
        fprintf(stderr, "plumb: unknown command '%s'; see plumb --help\n", argv[1]);
        return 2;
    }
    pl_args args;
    plumb_error err = { 0 };
    bool help = false;
    int code = 0;
    if (!pl_args_parse(command, argc - 1, argv + 1, &args, &help, &err)) {
        code = pl_command_fail(&args, &err);
    } else if (help) {
        pl_args_help(command);
    } else {
        code = command->run(&args);
    }
    pl_args_release(&args);
    return code;
}

/* plumb COMMAND …: finds the command's row and runs it. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli/args.h"

#define PL_COMMAND(name) extern const pl_command pl_command_##name;
#include "cli/commands.def"
#undef PL_COMMAND

static const pl_command *const commands[] = {
#define PL_COMMAND(name) &pl_command_##name,
#include "cli/commands.def"
#undef PL_COMMAND
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
    fprintf(to, "\nSee 'plumb COMMAND --help' for options and examples.\n");
}

static const pl_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

static const char *nearest_command(const char *word) {
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    return plumb_nearest(word, names, N_COMMANDS);
}

/* A run allocates and frees the same sizes repeatedly: returning memory to the system each time
 * costs page faults. */
static void keep_freed(void) {
#ifdef M_MMAP_THRESHOLD                  /* glibc */
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the maximum of glibc */
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
#endif
}

enum { STACK_MIN = 512 << 10, FILES_MIN = 32 };

/* With lower limits, a crash or failure caused by the limit would be blamed on the backend. */
static bool limits_suffice(void) {
    struct rlimit stack, files;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < STACK_MIN) {
        fprintf(stderr,
                "plumb: the stack is limited to %llu kB, at least %d kB are required; see "
                "ulimit -s\n",
                (unsigned long long)stack.rlim_cur >> 10, STACK_MIN >> 10);
        return false;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return true;
    const rlim_t given = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (given < FILES_MIN &&
        (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < FILES_MIN)) {
        fprintf(stderr,
                "plumb: at most %llu files may be open, at least %d are required; see "
                "ulimit -n\n",
                (unsigned long long)given, FILES_MIN);
        return false;
    }
    return true;
}

/* Removes unfinished files, then ends by the signal, as without a handler. */
static void end_by(int number) {
    plumb_abandon(); /* made for handlers. NOLINT(bugprone-signal-handler) */
    signal(number, SIG_DFL);
    raise(number);
}

/* Signals that are ignored stay ignored: nohup, background jobs. */
static void clean_up_on(int number) {
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL) signal(number, end_by);
}

static bool asks_json(int argc, char **argv) {
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const bool format = strcmp(argv[i], "--format") == 0 && i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--format=json") == 0 ||
            (format && strcmp(argv[i + 1], "json") == 0))
            return true;
    }
    return false;
}

int main(int argc, char **argv) {
    if (argc > 0 && strcmp(argv[0], "plumb-guard") == 0) return plumb_guard_main(argc, argv);
    clean_up_on(SIGINT);
    clean_up_on(SIGQUIT);
    clean_up_on(SIGTERM);
    clean_up_on(SIGHUP);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with a message */
    signal(SIGXFSZ, SIG_IGN); /* and so is the largest file that is allowed */
    keep_freed();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("plumb %s\n", plumb_version());
        return 0;
    }
    if (!limits_suffice()) return 4;
    const pl_command *command = find_command(argv[1]);
    if (command == NULL) {
        const char *near = nearest_command(argv[1]);
        if (near != NULL)
            fprintf(stderr,
                    "plumb: unknown command '%s'; did you mean '%s'? plumb --help lists them\n",
                    argv[1], near);
        else
            fprintf(stderr, "plumb: unknown command '%s'; see plumb --help\n", argv[1]);
        if (asks_json(argc, argv)) pl_cli_fail_json(argv[1], PLUMB_E_USAGE, "unknown command");
        return 2;
    }
    pl_args args;
    bool printed = false;
    plumb_error err = { 0 };
    bool help = false;
    int code = 0;
    const bool wants_json = asks_json(argc, argv); /* before getopt reorders them */
    bool parsed = pl_args_parse(command, argc - 1, argv + 1, &args, &help, &err);
    args.wants_json = wants_json;
    args.printed = &printed;
    if (parsed && !help) parsed = pl_args_check_needs(&args, &err);
    if (!parsed) {
        code = pl_command_fail(&args, &err);
    } else if (help) {
        pl_args_help(command);
    } else {
        struct timespec begin, end;
        timespec_get(&begin, TIME_UTC);
        code = command->run(&args);
        timespec_get(&end, TIME_UTC);
        if (pl_args_verbose(&args))
            fprintf(stderr, "plumb %s: %.2f s in total, exit code %d\n", command->name,
                    (double)(end.tv_sec - begin.tv_sec) +
                        (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
                    code);
    }
    pl_args_release(&args);
    return code;
}

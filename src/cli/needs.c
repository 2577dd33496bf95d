/* Rejects options that would silently have no effect without another one. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

typedef struct need {
    const char *command, *option;
    const char *needs; /* one of these is required, "a|b" */
} need;

static const need needs[] = {
    { "run", "reference", "accuracy|strict-accuracy" },
    { "run", "reference-model", "accuracy|strict-accuracy" },
    { "run", "reference-amp", "amp" },
    { "run", "profile", "accuracy|strict-accuracy" },
    { "run", "tol", "accuracy|strict-accuracy" },
    { "run", "baseline", "accuracy|strict-accuracy" },
    { "run", "write-baseline", "accuracy|strict-accuracy" },
    { "run", "no-eval", "accuracy|strict-accuracy" },
    { "minify", "fail-code", "check|signature" },
    { "minify", "fail-regex", "check|signature" },
    { "convert", "dim", "backward" },
    { "view", "insecure-host", "host" },
};

typedef struct clash {
    const char *command, *option, *with;
} clash;

/* `with` makes the command ignore `option`. */
static const clash clashes[] = {
    { "minify", "output", "query" },        { "minify", "zip", "query" },
    { "minify", "good", "query" },          { "minify", "checkpoints", "query" },
    { "minify", "max-queries", "query" },   { "minify", "bisect", "query" },
    { "minify", "strip-weights", "query" }, { "minify", "stable-output", "query" },
    { "minify", "keep-other", "query" },    { "corpus", "reference", "merge" },
    { "corpus", "seed", "merge" },          { "corpus", "shard", "merge" },
    { "corpus", "resume", "merge" },        { "corpus", "dry-run", "merge" },
    { "corpus", "backend", "diff" },        { "corpus", "reference", "diff" },
    { "corpus", "seed", "diff" },           { "corpus", "shard", "diff" },
    { "corpus", "resume", "diff" },         { "corpus", "output", "diff" },
    { "corpus", "merge", "diff" },          { "corpus", "dry-run", "diff" },
    { "corpus", "baseline", "diff" },
};

static bool has_one(const pl_args *args, const char *names) {
    for (const char *at = names; *at != '\0';) {
        char name[64];
        const size_t n = strcspn(at, "|");
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, at);
        if (pl_args_flag(args, name)) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

static bool is_eager(const char *spec) {
    return spec == NULL || strcmp(spec, "eager") == 0 || strncmp(spec, "eager:", 6) == 0;
}

/* eager does not run behind the guard, so the guard's limits would have no effect. */
static bool check_limits(const pl_args *args, plumb_error *err) {
    static const char *const limits[] = { "timeout", "memory-limit" };
    static const char *const commands[] = { "run", "record", "test", "compare" };
    const char *name = args->command->name;
    bool mine = false;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        mine = mine || strcmp(name, commands[i]) == 0;
    const bool jit = pl_args_flag(args, "inject") || pl_args_flag(args, "explain") ||
                     pl_args_flag(args, "fresh-cache") || pl_args_flag(args, "debug-dir");
    if (!mine || jit || !is_eager(pl_args_value(args, "backend")) ||
        !is_eager(pl_args_value(args, "reference")))
        return true;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (pl_args_flag(args, limits[i]))
            return pl_args_fail(err, PLUMB_E_USAGE, "--%s requires a --backend other than eager",
                                limits[i]);
    return true;
}

static bool ends_with(const char *text, const char *suffix) {
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

/* Options that apply to one kind of file or action only. */
static bool check_kinds(const pl_args *args, plumb_error *err) {
    const char *name = args->command->name;
    const bool text = args->n_positional > 1 && ends_with(args->positional[1], ".onnxtxt");
    if (strcmp(name, "convert") == 0 && text && pl_args_flag(args, "external"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--external requires OUT to be .onnx");
    if (strcmp(name, "convert") == 0 && !text && pl_args_flag(args, "max-elements"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--max-elements requires OUT to be .onnxtxt");
    if (strcmp(name, "store") == 0 && pl_args_flag(args, "dry-run") &&
        strcmp(args->positional[0], "gc") != 0)
        return pl_args_fail(err, PLUMB_E_USAGE, "--dry-run requires the action gc");
    const char *format = pl_args_value(args, "format");
    const bool html = format == NULL || strcmp(format, "html") == 0;
    if (strcmp(name, "report") == 0 && !html && pl_args_flag(args, "max-size"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--max-size requires --format html");
    if (strcmp(name, "report") == 0 && html && pl_args_flag(args, "limit"))
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--limit requires a --format with a table, such as text, csv or md");
    const char *level = pl_args_value(args, "repro-level");
    if (strcmp(name, "record") == 0 && level != NULL && strcmp(level, "4") == 0)
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--repro-level 4 requires a check of the outputs: use run --accuracy "
                            "or analyze");
    const char *save = pl_args_value(args, "save");
    const bool outputs = strcmp(name, "run") == 0;
    if (outputs && save != NULL && strcmp(save, "none") == 0 && pl_args_flag(args, "output"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--save none and --output cannot be combined");
    return true;
}

static bool check_save_as(const pl_args *args, plumb_error *err) {
    static const char *const files[] = { ".npy", ".npz", ".pb", ".safetensors" };
    const char *output = pl_args_value(args, "output");
    if (strcmp(args->command->name, "run") != 0 || !pl_args_flag(args, "save-as")) return true;
    bool is_file = false;
    for (size_t i = 0; output != NULL && i < sizeof(files) / sizeof(files[0]); i++)
        is_file = is_file || ends_with(output, files[i]);
    if (is_file)
        return pl_args_fail(err, PLUMB_E_USAGE, "--save-as requires --output to be a directory");
    const bool accuracy = pl_args_flag(args, "accuracy") || pl_args_flag(args, "strict-accuracy");
    const char *save = pl_args_value(args, "save");
    if ((accuracy && output == NULL) || (save != NULL && strcmp(save, "none") == 0))
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--save-as requires outputs to be written: --output");
    return true;
}

static bool fail_need(const need *n, plumb_error *err) {
    char words[200] = "";
    for (const char *at = n->needs; *at != '\0';) {
        const size_t length = strcspn(at, "|"), used = strlen(words);
        (void)snprintf(words + used, sizeof(words) - used, "%s--%.*s", used == 0 ? "" : " or ",
                       (int)length, at);
        at += length + (at[length] == '|');
    }
    return pl_args_fail(err, PLUMB_E_USAGE, "--%s requires %s", n->option, words);
}

bool pl_args_check_needs(const pl_args *args, plumb_error *err) {
    const char *command = args->command->name;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        const need *n = &needs[i];
        if (strcmp(n->command, command) != 0 || !pl_args_flag(args, n->option)) continue;
        if (!has_one(args, n->needs)) return fail_need(n, err);
    }
    for (size_t i = 0; i < sizeof(clashes) / sizeof(clashes[0]); i++) {
        const clash *c = &clashes[i];
        if (strcmp(c->command, command) != 0) continue;
        if (pl_args_flag(args, c->option) && pl_args_flag(args, c->with))
            return pl_args_fail(err, PLUMB_E_USAGE, "--%s and --%s cannot be combined", c->option,
                                c->with);
    }
    return check_limits(args, err) && check_kinds(args, err) && check_save_as(args, err);
}

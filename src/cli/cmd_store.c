/* plumb store ls|verify|gc DIR: the content store. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_store;

static int run(const pl_args *args) {
    const char *verb = args->positional[0], *path = args->positional[1];
    const plumb_format format = pl_args_format(args);
    plumb_error err = { 0 };
    char *text = NULL;
    size_t n_bad = 0;
    plumb_status st;
    if (strcmp(verb, "ls") == 0) {
        st = plumb_store_ls(path, format, &text, &err);
    } else if (strcmp(verb, "verify") == 0) {
        st = plumb_store_verify(path, format, &n_bad, &text, &err);
    } else if (strcmp(verb, "gc") == 0) {
        st = plumb_store_gc(path, pl_args_flag(args, "dry-run"), format, &text, &err);
    } else {
        st = err.status = PLUMB_E_USAGE;
        snprintf(err.message, sizeof(err.message), "unknown action '%s'; available: ls, verify, gc",
                 verb);
    }
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, n_bad > 0 ? 1 : 0);
}

static const pl_option options[] = {
    { 0, "dry-run", NULL, "gc: only print what would be removed" },
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_store = {
    .name = "store",
    .usage = "ls|verify|gc DIR [options]",
    .summary = "list, verify or clean a content store",
    .details = "DIR is a store or a session.\n"
               "verify reads every blob and compares its hash with its name; it takes a\n"
               "recording too.\n"
               "gc removes blobs that no index refers to and leftovers of killed writers; "
               "it\nrefuses to run while a writer is active.\n"
               "Exit code: 0 fine, 1 something is damaged, 2 bad usage or not a store, 4 disk\n"
               "or memory.",
    .examples = "  plumb store ls session\n"
                "  plumb store verify run.safetensors\n"
                "  plumb store gc store --dry-run\n",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};

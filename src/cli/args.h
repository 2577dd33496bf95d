/* Inside src/cli only: parsing and help. */
#ifndef PL_ARGS_H
#define PL_ARGS_H

#include "cli/command.h"

/* argv[0] is the command's name. Strings are borrowed from argv. */
pl_status pl_args_parse(const pl_command *command, int argc, char **argv, pl_args *out, bool *help,
                        pl_err *err);
void pl_args_release(pl_args *args);
void pl_args_help(const pl_command *command);

#endif

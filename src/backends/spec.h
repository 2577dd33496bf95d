/* Specs: "name[:item,item…]" where an item is key=value or a flag. The one place that parses them.
 *
 * A backend's table of options says what is allowed; anything else is PL_E_USAGE, and the message
 * lists the valid names. A backend that takes a program or file (key "" in its table) reads the
 * first item whole as that. "\," is a comma inside an item. */
#ifndef PL_SPEC_H
#define PL_SPEC_H

#include <plumb.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct pl_spec {
    plumb_option *options;
    size_t n_options;
    char *text; /* storage of the options */
} pl_spec;

/* The name in front of the colon; *n its length. */
const char *pl_spec_name(const char *text, size_t *n);
/* Parses and checks the options of `text` for the backend `name`. A table with the key "*" takes
 * any. Release either way. */
pl_status pl_spec_parse(const char *text, const char *name, const plumb_option_def *defs,
                        size_t n_defs, pl_spec *out, pl_err *err);
/* Checks options that were parsed with "*" against another table. */
pl_status pl_spec_check(const plumb_option *options, size_t n_options, const char *name,
                        const plumb_option_def *defs, size_t n_defs, pl_err *err);
void pl_spec_release(pl_spec *spec);
/* The last value of a key; NULL if not given. */
const char *pl_option_value(const plumb_option *options, size_t n_options, const char *key);
/* A checked whole number. */
long pl_option_int(const plumb_option *options, size_t n_options, const char *key, long otherwise);

/* An error when no backend has that name (backend.c). */
pl_status pl_spec_check_backend(const char *spec, pl_err *err);

#endif

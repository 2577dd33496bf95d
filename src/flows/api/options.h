/* Options, sized structs and progress of plumb.h, as the functions of src/flows/api read them. */
#ifndef PL_OPTIONS_H
#define PL_OPTIONS_H

#include <sys/types.h>

#include "base/utf8.h"
#include "flows/api.h"

/* Reads the caller's options over the defaults. A smaller size is an older header, whose missing
 * fields get their defaults; a larger one may only have zeros beyond the known fields. `to` has the
 * size of this version; `from` may be NULL. */
pl_status pl_options_read(plumb_options_kind kind, const void *from, void *to, pl_err *err);
/* The same for a member that points to other options: *given becomes `own`. */
pl_status pl_inputs_read(const plumb_inputs **given, plumb_inputs *own, pl_err *err);
pl_status pl_context_read(const plumb_context **given, plumb_context *own, pl_err *err);

/* No text of a list may be NULL. */
pl_status pl_list_check(const char *name, const char *const *list, size_t n, pl_err *err);

/* Fills a result struct: copies everything but `size`, at most as much as the caller's size. from
 * == NULL: zeros. Returns 1 if something was filled in. */
int pl_struct_fill(void *to, const void *from, size_t n_bytes);

/* The user's callback with state: a cancel request persists, phase names are sanitised, and phase
 * NULL repeats the last report. */
typedef struct pl_watch {
    plumb_progress user, progress;
    char phase[160];
    int64_t done, total;
    int cancelled;
    pid_t pid; /* process that the callback belongs to */
} pl_watch;
/* What flows get; NULL without a callback. Valid as long as *w. */
const plumb_progress *pl_watch_init(pl_watch *w, const plumb_progress *user);

/* A missing argument ends the function with an error that names it. */
#define PL_REQUIRE(argument)                                                                       \
    if ((argument) == NULL) return pl_fail(err, PL_E_USAGE, "%s is NULL: " #argument, __func__)

#endif

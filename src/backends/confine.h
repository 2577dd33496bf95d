/* Which files a guarded backend may access, from its row, its spec and the model's path. */
#ifndef PL_CONFINE_H
#define PL_CONFINE_H

#include "backends/backend.h"

/* Sandbox arguments for plumb-guard; none = no sandbox. */
typedef struct pl_confinement {
    char **args;
    size_t n_args, capacity;
    bool required; /* refuse to open without a sandbox */
} pl_confinement;

/* `row` and `options` are those of the spec. With PLUMB_SANDBOX_REQUIRE a kernel without support is
 * an error; otherwise the backend then runs without a sandbox. */
pl_status pl_confine(const plumb_backend *row, const plumb_option *spec, size_t n_spec,
                     const pl_backend_options *options, pl_confinement *out, pl_err *err);
pl_status pl_confinement_add(pl_confinement *c, const char *flag, const char *path, pl_err *err);
void pl_confinement_release(pl_confinement *c);
/* "on", or why not; a static string. */
const char *pl_confine_state(const plumb_backend *row, int mode);

#endif

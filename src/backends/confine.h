/* What a guarded backend may reach, from its row, its spec and the model's place. */
#ifndef PL_CONFINE_H
#define PL_CONFINE_H

#include "backends/backend.h"

/* The arguments of plumb-guard that tell it; none = no sandbox. */
typedef struct pl_confinement {
    char **args;
    size_t n_args, capacity;
    bool required; /* nothing is opened without it */
} pl_confinement;

/* `row` and `options` are those of the spec. With PLUMB_SANDBOX_REQUIRE a kernel that cannot is an
 * error; otherwise the backend then runs without. */
pl_status pl_confine(const plumb_backend *row, const plumb_option *spec, size_t n_spec,
                     const pl_backend_options *options, pl_confinement *out, pl_err *err);
pl_status pl_confinement_add(pl_confinement *c, const char *flag, const char *path, pl_err *err);
void pl_confinement_release(pl_confinement *c);
/* "on", or why not; static. */
const char *pl_confine_state(const plumb_backend *row, int mode);

#endif

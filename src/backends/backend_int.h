/* Inside src/backends: shared by backend.c and both ends of the guard. */
#ifndef PL_BACKEND_INT_H
#define PL_BACKEND_INT_H

#include "backends/backend.h"
#include "base/door.h"

/* The backends' rows, defined in their files. */
#define PL_BACKEND(x) extern const plumb_backend pl_backend_##x;
#include "backends/backends.def"
#undef PL_BACKEND

/* Finds the row of a spec; PL_E_USAGE names those that exist. */
pl_status pl_backend_row(const char *spec, const plumb_backend **out, pl_err *err);

/* Compiles in this process. The source is borrowed until the program is freed. */
pl_status pl_program_of_source(pl_backend *backend, const plumb_source *source, pl_program **out,
                               pl_err *err);
/* Runs in this process or in the guard's child; outputs are not checked against a model. */
pl_status pl_program_run_args(pl_program *program, const plumb_run_args *args, pl_err *err);

/* Opens a backend in the guard itself, so that children inherit it. Only ONNX Runtime, which takes
 * 20 ms to start; NULL for others. Also NULL on failure: the children will report the error. */
pl_backend *pl_backend_preload(const char *spec);

/* The model of a source: its graph if it has one, else read from its bytes; then *owned is set and
 * the caller frees it. */
pl_status pl_source_model(const plumb_source *source, pl_model **out, bool *owned, pl_err *err);

/* Its guarded process compiles program after program. */
bool pl_backend_stays_open(const pl_backend *backend);

/* The result of open() of an unguarded backend. */
void *pl_backend_self(const pl_backend *backend);

/* The cache folder of emitted code; created if missing. */
pl_status pl_jit_cache_open(pl_dir **out, pl_err *err);

/* Checks a plugin's vtable. */
pl_status pl_backend_check_vtable(const plumb_backend *vtable, pl_err *err);

#endif

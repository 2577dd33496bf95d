/* Inside src/backends: what backend.c shares with the guard's two ends. */
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
 * 20 ms to start; NULL for others, and on failure: children will tell. */
pl_backend *pl_backend_preload(const char *spec);

/* The model of a source: the graph that it lends, or one read from its bytes, which is the caller's
 * to free (*owned). */
pl_status pl_source_model(const plumb_source *source, pl_model **out, bool *owned, pl_err *err);

/* What open() of an unguarded backend gave. */
void *pl_backend_self(const pl_backend *backend);

/* The folder that emitted code is kept in; it is made when it is not there. */
pl_status pl_jit_cache_open(pl_dir **out, pl_err *err);

/* What a plugin's vtable must have. */
pl_status pl_backend_check_vtable(const plumb_backend *vtable, pl_err *err);

#endif

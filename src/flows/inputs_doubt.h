/* Is a failed run the fault of the backend or of the generated inputs? */
#ifndef PL_INPUTS_DOUBT_H
#define PL_INPUTS_DOUBT_H

#include "backends/backend.h"
#include "base/threads.h"

enum { PL_DOUBT_SECONDS = 60 };
/* After a backend has failed to run `model` on in[]. PL_E_INVALID, with what to do, when the inputs
 * were generated and eager cannot run on them either; PL_OK when the backend is at fault: given
 * inputs, a crash, a time-out, an operator that eager does not know, or eager is not done at
 * deadline_ns (pl_clock_ns). backend may be NULL. */
pl_status pl_inputs_doubt(const pl_model *model, const plumb_inputs *source, pl_datum *const *in,
                          pl_backend *backend, pl_pool *pool, int64_t deadline_ns, pl_err *err);
/* The result of the run: `st` and *err unchanged, or an error about the inputs. If eager itself
 * failed (backend NULL), the message says that the inputs were generated. */
pl_status pl_inputs_doubted(pl_status st, const pl_model *model, const plumb_inputs *source,
                            pl_datum *const *in, pl_backend *backend, pl_pool *pool, pl_err *err);

#endif

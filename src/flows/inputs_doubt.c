/* Runs the reference once on the inputs that a backend failed on. */
#include "flows/inputs_doubt.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "graph/edit.h"
#include "interp/interp.h"

pl_status pl_inputs_doubt(const pl_model *model, const plumb_inputs *source, pl_datum *const *in,
                          pl_backend *backend, pl_pool *pool, int64_t deadline_ns, pl_err *err) {
    const pl_failure *failure = backend == NULL ? NULL : pl_backend_failure(backend);
    const pl_interp_options options = {
        .pool = pool, .any_shape = true, .seed = source->seed, .deadline_ns = deadline_ns
    };
    const size_t n_out = model->graph->n_outputs;
    pl_err trouble = PL_ERR_INIT;
    pl_interp *interp = NULL;
    pl_model *copy = NULL;
    if (source->n_files > 0 || source->n_sets > 0) return PL_OK;
    if (failure != NULL && failure->happened && (failure->signal != 0 || failure->timed_out))
        return PL_OK;
    pl_datum **out = pl_calloc(n_out + 1, sizeof(pl_datum *));
    if (out == NULL) return pl_fail_memory(err, n_out);
    pl_status st = pl_model_copy(model, &copy, err);
    if (st != PL_OK) goto done;
    /* A missing operator says nothing about the inputs. */
    if (pl_interp_new(copy, &options, &interp, &trouble) != PL_OK) goto done;
    st = pl_interp_run(interp, in, out, &trouble);
    if (st == PL_E_TIMEOUT) {
        st = PL_OK; /* a time-out says nothing about the inputs */
    } else if (st != PL_OK && st != PL_E_MEMORY) {
        st = pl_fail(err, PL_E_INVALID,
                     "the generated inputs do not suit the model: eager cannot run it either "
                     "(%s); set dimensions with option 'dim' NAME=N and values with option "
                     "'range' NAME=LO:HI or option 'input' NAME=FILE",
                     trouble.message);
    }
done:
    for (size_t i = 0; i < n_out; i++)
        pl_datum_unref(out[i]);
    pl_free(out);
    pl_interp_free(interp);
    pl_model_free(copy);
    return st;
}

/* eager itself failed on the inputs. */
static pl_status suspect(const plumb_inputs *source, pl_err *err) {
    const bool given = source->n_files > 0 || source->n_sets > 0 || source->n_samples > 0;
    char cause[PL_ERR_MESSAGE_MAX];
    if (err == NULL || given) return PL_E_INVALID;
    snprintf(cause, sizeof(cause), "%s", err->message);
    return pl_fail(err, PL_E_INVALID,
                   "%.700s; the inputs were generated: set dimensions with option 'dim' NAME=N and "
                   "values with option 'range' NAME=LO:HI or option 'input' NAME=FILE",
                   cause);
}

pl_status pl_inputs_doubted(pl_status st, const pl_model *model, const plumb_inputs *source,
                            pl_datum *const *in, pl_backend *backend, pl_pool *pool, pl_err *err) {
    pl_err doubt = PL_ERR_INIT;
    if (st == PL_E_INVALID && backend == NULL) return suspect(source, err);
    if (st != PL_E_BACKEND) return st;
    const int64_t deadline = pl_clock_ns() + PL_DOUBT_SECONDS * INT64_C(1000000000);
    if (pl_inputs_doubt(model, source, in, backend, pool, deadline, &doubt) != PL_E_INVALID)
        return st;
    if (err != NULL) *err = doubt;
    return PL_E_INVALID;
}

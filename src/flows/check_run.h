/* Inside the checked run (DESIGN 3, run --accuracy): what its parts share.
 *
 * check_run.c runs, check_print.c describes. The words of `status` are those of PyTorch's
 * benchmark harness (pytorch-repro.md 3.2), whatever the reference is. */
#ifndef PL_CHECK_RUN_H
#define PL_CHECK_RUN_H

#include "backends/backend.h"
#include "compare/session.h"
#include "flows/accuracy.h"
#include "flows/api.h"
#include "flows/prepare.h"
#include "store/recording.h"

enum { PL_CHECK_MAX_PHASES = 16 };

typedef struct pl_check_run {
    plumb_model *m;
    const plumb_check_options *options;
    plumb_check_result *result;
    pl_pool *pool;
    pl_datum **in;                /* of the model as given */
    plumb_model *reference_model; /* owned; NULL = the same */
    pl_recording *recording;      /* the reference, when it is one */
    const char *spec, *reference_spec;
    pl_prepared candidate, other; /* `other` is empty when the reference is the candidate's model */
    const pl_prepared *reference;
    size_t *of; /* by output of the candidate: output of the reference + 1 */
    pl_accuracy accuracy;
    pl_datum **ref, **gold;  /* by output of the reference; NULL entries = not known */
    pl_accuracy_moves moves; /* the second look at what failed */
    pl_datum **out;          /* by output of the candidate, of its last run */
    pl_accuracy_check *checks;
    size_t n_ref, n_out;
    size_t n_runs, n_passed;
    double first_ms, best_ms, median_ms;
    char **files;
    char note[300];
    pl_session *session;
    double started;
    pl_timing_entry phases[PL_CHECK_MAX_PHASES];
    size_t n_phases;
} pl_check_run;

/* check_print.c */
pl_status pl_check_fill_session(pl_check_run *r, pl_err *err);
/* The AccuracyError, after the session was filled. */
void pl_check_put_error(const pl_check_run *r, char *out, size_t n_out);
/* What to type next: "plumb analyze …". */
void pl_check_put_next(const pl_check_run *r, const char *command, pl_buf *out);
pl_status pl_check_print(pl_check_run *r, pl_buf *out, pl_err *err);

#endif

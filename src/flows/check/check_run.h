/* Private to the checked run: shared by its parts.
 *
 * check_run.c runs, check_print.c describes. The words of `status` are those of PyTorch's benchmark
 * harness, whatever the reference is. */
#ifndef PL_CHECK_RUN_H
#define PL_CHECK_RUN_H

#include "backends/backend.h"
#include "flows/api.h"
#include "flows/check/accuracy.h"
#include "flows/prepare.h"
#include "interp/dont_care.h"
#include "session/session.h"
#include "store/recording.h"

enum { PL_CHECK_MAX_PHASES = 16 };

typedef struct pl_check_run {
    plumb_model *m;
    const plumb_check_options *options;
    int exit_code;    /* 0 agrees, 1 does not, 3 a backend failed */
    char status[32];  /* the word */
    char error[1024]; /* the AccuracyError, or what failed, with the next command; "" */
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
    pl_accuracy_moves moves; /* the second check at what failed */
    pl_dont_care dont_care;  /* of the candidate's model */
    bool on_cpu;             /* the candidate has no device of its own */
    pl_datum **out;          /* by output of the candidate, of its last run */
    pl_accuracy_check *checks;
    size_t n_in, n_ref, n_out;
    size_t n_runs, n_passed;
    double first_ms, best_ms, median_ms;
    char **files;
    char note[300];
    plumb_check_mode mode;
    const char *reference_name; /* in the session's arena: a spec, or the recording's path */
    bool backward;
    double load_seconds;
    pl_session *session;
    double started;
    pl_timing_entry phases[PL_CHECK_MAX_PHASES];
    size_t n_phases;
} pl_check_run;

/* check_run.c. The caller sets m and options; everything else is zero at first. */
pl_status pl_check_run_all(pl_check_run *r, pl_err *err);
/* Keeps what pl_check_print needs; model and options may be freed afterwards. */
void pl_check_run_finish(pl_check_run *r);
void pl_check_run_release(pl_check_run *r);

/* check_print.c */
pl_status pl_check_fill_session(pl_check_run *r, pl_err *err);
/* The outcome of the session and the status by it; after the session was filled, and again after a
 * baseline. */
pl_status pl_check_conclude(pl_check_run *r, pl_err *err);
/* The AccuracyError, after the session was filled. */
void pl_check_put_error(const pl_check_run *r, char *out, size_t n_out);
/* What to type next: "plumb analyze …". */
void pl_check_put_next(const pl_check_run *r, const char *command, pl_buf *out);
pl_status pl_check_print(const pl_check_run *r, const char *format, pl_buf *out, pl_err *err);

#endif

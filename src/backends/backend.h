/* Backends as the rest of plumb uses them: open a spec, compile a model, run it, record it.
 *
 * The vtable (plumb_backend) is in plumb.h; this is the glue around it. With `guarded` set all of
 * the backend's work happens in a child of plumb-guard, and a crash, a hang or too much memory is
 * a status with a pl_failure. What comes back is checked: number, type and shape of the outputs,
 * and that neither the inputs nor the model were written to. */
#ifndef PL_BACKEND_H
#define PL_BACKEND_H

#include <plumb.h>

#include "backends/spec.h"
#include "base/buf.h"
#include "base/progress.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_backend pl_backend;
typedef struct pl_program pl_program;

typedef struct pl_backend_options {
    bool guarded;
    double timeout_seconds; /* per compile and per run; 0 = none. Only when guarded */
    uint64_t memory_limit;  /* memory of the child, in bytes; 0 = none. Only when guarded */
    const char *tmp_dir;    /* for the guard; NULL = $TMPDIR. Used only while opening */
    int sandbox;            /* PLUMB_SANDBOX_*. Only when guarded */
    /* Folders that the sandbox may read, or files whose folders it may read. NULL entries are
     * skipped. Used only while opening. */
    const char *const *readable;
    size_t n_readable;
    /* Polled while waiting for a guarded child; cancelling ends the child. NULL, or valid as long
     * as the backend. */
    const pl_progress *progress;
} pl_backend_options;

/* How a guarded child ended when it did not answer. */
typedef struct pl_failure {
    bool happened;
    bool timed_out, out_of_memory;
    int signal, exit_code;
    char stderr_tail[512]; /* last lines that the child wrote */
} pl_failure;

/* One row per backend; ends with NULL. */
extern const plumb_backend *const pl_backend_rows[];

/* The one place that decides which backends run behind the guard: all whose row does not say
 * PLUMB_IN_PROCESS, whatever the options. An unknown name counts as guarded. */
bool pl_backend_is_guarded(const char *spec);
/* Whether it runs a program, loads a library or writes files. Such a spec is refused if it came
 * with data (a session, a repro, a request) and not from the user. */
bool pl_spec_is_foreign(const char *text);
/* Also if it starts the user's browser, which the user may ask for in the page. */
bool pl_spec_needs_trust(const char *text);
/* The spec, or the default "eager" for NULL. */
const char *pl_backend_spec_or_default(const char *spec);
/* NULL, or "eager" without options: flows may then drive the interpreter themselves. */
bool pl_backend_is_interpreter(const char *spec);
bool pl_backend_is_program(const char *spec); /* cmd: called in the same way to record */
bool pl_backend_is_own(const char *spec);     /* runs only operators of src/ops; also for NULL */
/* Options with `guarded` set by pl_backend_is_guarded. */
pl_backend_options pl_backend_options_for(const char *spec, double timeout_seconds,
                                          uint64_t memory_limit);

pl_status pl_backend_open(const char *spec, const pl_backend_options *options, pl_backend **out,
                          pl_err *err);
/* Applies to every later compile and run. */
void pl_backend_set_timeout(pl_backend *backend, double seconds);
void pl_backend_close(pl_backend *backend); /* NULL is fine; free its programs first */
/* In a fork: the backend belongs to the parent process and is dropped here. */
void pl_backend_abandon(pl_backend *backend);
const char *pl_backend_name(const pl_backend *backend);
const char *pl_backend_spec(const pl_backend *backend);
const char *pl_backend_version(const pl_backend *backend); /* "" if unknown */
const char *pl_backend_sandbox(const pl_backend *backend); /* "on", "on, with cgroup", or why not */
const char *pl_backend_device(const pl_backend *backend);  /* "" = the CPU, or unknown */
/* CPU features of its process (kernels/cpu.h); they differ from ours under an emulator. */
uint64_t pl_backend_cpu(const pl_backend *backend);
/* 1, 0, or -1 if only compiling can tell. A guarded backend is asked in its child. */
int pl_backend_supports(pl_backend *backend, const char *domain, const char *op, int opset);
/* NULL-terminated; empty if it cannot record. */
const char *const *pl_backend_record_modes(const pl_backend *backend);
/* Values of the options "disable" and "opt", NULL-terminated; NULL if it has none. */
const char *const *pl_backend_passes(const pl_backend *backend);
const char *const *pl_backend_levels(const pl_backend *backend);

typedef struct pl_compile_options {
    const char *file; /* the file that the model was read from, unchanged since; NULL = none */
    uint64_t seed;
    int threads;
    bool any_shape;
    bool record; /* recordings will follow */
} pl_compile_options;

/* The model is borrowed and must outlive the program. */
pl_status pl_program_new(pl_backend *backend, pl_model *model, const pl_compile_options *options,
                         pl_program **out, pl_err *err);
void pl_program_free(pl_program *program);          /* NULL is fine */
size_t pl_program_hooks(const pl_program *program); /* number of recordable values; 0 = unknown */

/* A plain run, synchronised. in[i] is input i (NULL = default); out[] must be all NULL and holds
 * references afterwards, also on failure. */
pl_status pl_program_run(pl_program *program, pl_datum *const *in, pl_datum **out, pl_err *err);

/* How long the last run took to hand its work to the device, and to wait for the device and copy
 * the outputs. Both 0 for a backend whose run() waits itself. */
typedef struct pl_run_times {
    uint64_t submit_ns, wait_ns;
} pl_run_times;
pl_run_times pl_program_times(const pl_program *program);

typedef struct pl_record_args {
    size_t mode;            /* index into record_modes */
    const plumb_hook *hook; /* required */
    pl_datum *const *plain; /* outputs of a plain run; NULL = do not compare */
    uint64_t memory_limit;  /* for values held at once; 0 = none */
} pl_record_args;
/* For the next recordings of a guarded program: values that have the bits of the recording that was
 * told to remember them come with datum NULL, since sending them costs more than hashing. */
void pl_program_remember(pl_program *p);
void pl_program_compare(pl_program *p);
/* One recording in one mode. */
pl_status pl_program_record(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                            pl_datum **out, plumb_record_info *info, pl_err *err);
/* Tries the modes in order until one does not change the outputs; *mode is its index. If all do,
 * info->differs is set and no value was shown. */
pl_status pl_program_record_gently(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                                   pl_datum **out, size_t *mode, plumb_record_info *info,
                                   pl_err *err);
/* The graph that the backend executes; the model's own bytes if it does not report one. */
pl_status pl_program_executed(pl_program *program, pl_bytes *onnx, pl_err *err);
/* Lines "PLACE\tOP\tNODE\n" (read by placement.h); "" if there is only one place or it is unknown.
 * Valid as long as the program. */
pl_status pl_program_placement(pl_program *program, const char **text, pl_err *err);
/* How the child ended, if the last call on this backend or one of its programs failed. */
const pl_failure *pl_backend_failure(const pl_backend *backend);

/* Bit-identical, including nested data. */
bool pl_datum_identical(const pl_datum *a, const pl_datum *b);
/* Are these outputs of a recorded run those of the plain run, where there is one to compare with?
 */
bool pl_is_plain(const plumb_run_args *args, pl_datum *const *out);

/* ---- for backends ---- */
static inline const pl_datum *pl_datum_of(const plumb_datum *d) {
    return (const pl_datum *)d;
}
/* The public type of a datum; the reference moves to the caller. */
static inline plumb_datum *pl_datum_public(pl_datum *d) {
    return (plumb_datum *)d;
}
bool pl_hook_wants(const plumb_hook *hook, const char *name);

#endif

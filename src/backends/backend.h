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
    double timeout_seconds; /* of each compile and each run; 0 = none. Only when guarded */
    uint64_t memory_limit;  /* bytes of the child, measured; 0 = none. Only when guarded */
    const char *tmp_dir;    /* of the guard; NULL = $TMPDIR. Used while opening only */
    int sandbox;            /* PLUMB_SANDBOX_*. Only when guarded */
    /* Files, whose folders the sandbox lets it read, and folders. NULL entries are skipped. Used
     * while opening only. */
    const char *const *readable;
    size_t n_readable;
    /* Asked while a guarded child is waited for; cancelling ends the child. May be NULL, else it
     * lives as long as the backend. */
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

/* The one place that decides who runs behind the guard: every backend whose row does not say
 * PLUMB_IN_PROCESS, whatever options its spec has. An unknown name counts as guarded. */
bool pl_backend_is_guarded(const char *spec);
/* The spec itself; the default, "eager", for NULL. */
const char *pl_backend_spec_or_default(const char *spec);
/* NULL, or "eager" without options: flows may then drive the interpreter themselves. */
bool pl_backend_is_interpreter(const char *spec);
bool pl_backend_is_own(
    const char *spec); /* runs the operators of src/ops and no others; NULL too */
/* Options by that rule. */
pl_backend_options pl_backend_options_for(const char *spec, double timeout_seconds,
                                          uint64_t memory_limit);

pl_status pl_backend_open(const char *spec, const pl_backend_options *options, pl_backend **out,
                          pl_err *err);
/* Of every compile and run from now on. */
void pl_backend_set_timeout(pl_backend *backend, double seconds);
void pl_backend_close(pl_backend *backend); /* NULL is fine; its programs must be gone */
/* In a fork: the backend is the other process's, and is forgotten here. */
void pl_backend_abandon(pl_backend *backend);
const char *pl_backend_name(const pl_backend *backend);
const char *pl_backend_spec(const pl_backend *backend);
const char *pl_backend_version(const pl_backend *backend); /* "" when it has none */
const char *pl_backend_sandbox(const pl_backend *backend); /* "on", or why not */
const char *pl_backend_device(const pl_backend *backend);  /* "" = the CPU, or it does not tell */
/* What the CPU of its process has (kernels/cpu.h); an emulator shows another one than ours. */
uint64_t pl_backend_cpu(const pl_backend *backend);
/* 1, 0, or -1 when only compiling tells. A guarded backend is asked in its child. */
int pl_backend_supports(pl_backend *backend, const char *domain, const char *op, int opset);
/* Ended by NULL; empty when it cannot record. */
const char *const *pl_backend_record_modes(const pl_backend *backend);
/* What the options "disable" and "opt" take, ended by NULL; NULL when it has none. */
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
size_t pl_program_hooks(const pl_program *program); /* values that a recording shows; 0 = unknown */

/* A plain run, synchronised. in[i] belongs to input i (NULL = default); out[] is all NULL at first
 * and holds references afterwards, also on failure. */
pl_status pl_program_run(pl_program *program, pl_datum *const *in, pl_datum **out, pl_err *err);

typedef struct pl_record_args {
    size_t mode;            /* index into record_modes */
    const plumb_hook *hook; /* required */
    pl_datum *const *plain; /* outputs of a plain run; NULL = identity is not checked */
    uint64_t memory_limit;  /* of values held at once; 0 = none */
} pl_record_args;
/* One recording in one mode. */
pl_status pl_program_record(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                            pl_datum **out, plumb_record_info *info, pl_err *err);
/* Goes down the modes until one leaves the outputs as they are; *mode is its index. When none does,
 * info->differs is set and nothing was shown. */
pl_status pl_program_record_gently(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                                   pl_datum **out, size_t *mode, plumb_record_info *info,
                                   pl_err *err);
/* The graph that the backend executes; the model's own bytes when it does not tell. */
pl_status pl_program_executed(pl_program *program, pl_bytes *onnx, pl_err *err);
/* Lines "PLACE\tOP\tNODE\n" (placement.h reads them), "" when it is one place or not known; lives
 * with the program. */
pl_status pl_program_placement(pl_program *program, const char **text, pl_err *err);
/* How the child ended when the last call on this backend or one of its programs failed. */
const pl_failure *pl_backend_failure(const pl_backend *backend);

/* Same tensors, bit for bit, all the way down. */
bool pl_datum_identical(const pl_datum *a, const pl_datum *b);

/* ---- for backends ---- */
static inline const pl_datum *pl_datum_of(const plumb_datum *d) {
    return (const pl_datum *)d;
}
/* Takes the reference of a datum out to the caller. */
static inline plumb_datum *pl_datum_public(pl_datum *d) {
    return (plumb_datum *)d;
}
bool pl_hook_wants(const plumb_hook *hook, const char *name);

#endif

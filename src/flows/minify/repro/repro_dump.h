/* Checkpoints of a model by repro level. */
#ifndef PL_REPRO_DUMP_H
#define PL_REPRO_DUMP_H

#include "flows/minify/repro/repro.h"

typedef struct pl_dump {
    int level;
    const char *run_dir; /* pl_dump_run_dir */
    const char *name;    /* "forward", "backward": a folder of its own; NULL = none */
    const char *backend; /* spec */
    bool no_data;
    uint64_t seed;
    double timeout;
    int threads;
    plumb_context context; /* what was done to the model */
    pl_accuracy_options rule;
} pl_dump;

/* DEBUG_DIR/run_TIME-PID; debug_dir NULL = plumb-debug. */
void pl_dump_run_dir(const char *debug_dir, char *out, size_t n_out);
/* Writes the checkpoint and ./repro; reports it in *log. */
pl_status pl_dump_write(const pl_dump *d, pl_model *model, pl_datum *const *in,
                        const pl_signature *signature, char *path, size_t n_path, pl_buf *log,
                        pl_err *err);
/* Copies the repro to ./repro, or under another name if that is not plumb's own copy; *name
 * tells. */
pl_status pl_repro_copy(const pl_repro *r, char *name, size_t n_name, pl_err *err);

#endif

/* Checkpoints. */
#include "flows/minify/repro.h"

pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err) {
    (void)m;
    (void)err;
    return PL_OK;
}

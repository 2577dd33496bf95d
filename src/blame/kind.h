/* What kind of error a culprit shows: hypotheses fitted to the recorded value, its replay and its
 * bound. One row per kind in kind.c, tried in order; the first that explains the data wins. */
#ifndef PL_KIND_H
#define PL_KIND_H

#include "base/arena.h"
#include "tensor/tensor.h"

typedef struct pl_kind_fit {
    const char *kind;  /* "offset", "scale", … "other"; static */
    const char *where; /* "all", "index 3 of axis 1", "tail of axis 3 from 60", …; in the arena */
    const char *text;  /* one line with the numbers: "scale 1.02"; in the arena */
    const char *remedy; /* remedy, for arithmetic that depends on the CPU; NULL = none known */
} pl_kind_fit;

/* a as recorded, d the replay (f64), bound (f64, NULL = exact), native the type in the model. */
pl_status pl_kind_of(const pl_tensor *a, const pl_tensor *d, const pl_tensor *bound,
                     pl_dtype native, pl_arena *arena, pl_kind_fit *out, pl_err *err);

#endif

/* Passes of the compiler that can be disabled by name (jit:disable=NAME+NAME), so that a search can
 * find which one makes a run wrong. */
#ifndef PL_JIT_PASSES_H
#define PL_JIT_PASSES_H

#include <stddef.h>

#include "base/status.h"

/* X(NAME, "name"). A search bisects this list from the front: a pass that builds on another comes
 * before it, so that it is the one named. */
#define JIT_PASS_MAP(X)                                                                            \
    X(FOLD, "fold")         /* computes constant expressions once */                               \
    X(WINOGRAD, "winograd") /* 3x3 convolutions by Winograd's algorithm */                         \
    X(FACTOR, "factor")     /* multiplies factors per channel inside the following convolution */  \
    X(ALGEBRA, "algebra")   /* merges several operations of a vectorised loop into one */          \
    X(OVERWRITE, "overwrite") /* the epilogue of a kernel overwrites its result */                 \
    X(REUSE, "reuse")         /* buffers with disjoint lifetimes share memory */                   \
    X(INLINE, "inline")       /* what one reader sees through a view is computed there */          \
    X(EPILOGUE, "epilogue")   /* epilogues: loops run on the parts of a kernel's result */         \
    X(FUSE, "fuse")           /* several nodes in one loop */                                      \
    X(LOWER, "lower")         /* nodes become C and calls; otherwise each runs on eager's kernel */
typedef enum jit_pass {
#define X(NAME, text) JIT_PASS_##NAME,
    JIT_PASS_MAP(X)
#undef X
        JIT_PASS_COUNT
} jit_pass;

extern const char *const jit_pass_names[]; /* ended by NULL */
/* -1 if not found. */
int jit_pass_find(const char *name, size_t n);
/* Converts "NAME+NAME" to bits; NULL is none. An unknown name is PL_E_USAGE and lists the available
 * ones. */
pl_status jit_passes_parse(const char *text, unsigned *off, pl_err *err);

#endif

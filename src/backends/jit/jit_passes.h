/* The passes of the compiler that can be left out by name (jit:disable=NAME+NAME), so that a search
 * can tell which one makes a run wrong. */
#ifndef PL_JIT_PASSES_H
#define PL_JIT_PASSES_H

#include <stddef.h>

#include "base/status.h"

/* X(NAME, "name"). A search halves this list from the front: what builds on another pass stands
 * before it, and so is named rather than the other. */
#define JIT_PASS_MAP(X)                                                                            \
    X(FOLD, "fold")           /* what depends on constants only is computed once */                \
    X(WINOGRAD, "winograd")   /* 3x3 convolutions by Winograd's algorithm */                       \
    X(FACTOR, "factor")       /* factors of channels are multiplied in the convolution behind */   \
    X(ALGEBRA, "algebra")     /* several operations of a loop on vectors as one */                 \
    X(OVERWRITE, "overwrite") /* the loop after a kernel writes over its result */                 \
    X(REUSE, "reuse")         /* buffers with disjoint lifetimes share memory */                   \
    X(INLINE, "inline")       /* what one reader sees through a view is computed there */          \
    X(EPILOGUE, "epilogue")   /* loops run on the parts of a kernel's result */                    \
    X(FUSE, "fuse")           /* several nodes in one loop */                                      \
    X(LOWER, "lower")         /* nodes become C and calls; else each runs on eager's kernel */
typedef enum jit_pass {
#define X(NAME, text) JIT_PASS_##NAME,
    JIT_PASS_MAP(X)
#undef X
        JIT_PASS_COUNT
} jit_pass;

extern const char *const jit_pass_names[]; /* ended by NULL */
/* -1 when there is none of this name. */
int jit_pass_find(const char *name, size_t n);
/* "NAME+NAME" to bits; NULL is none. An unknown name is PL_E_USAGE with those that exist. */
pl_status jit_passes_parse(const char *text, unsigned *off, pl_err *err);

#endif

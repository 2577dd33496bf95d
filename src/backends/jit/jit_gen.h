/* Private to jit: a loop as instructions, before it is printed. */
#ifndef PL_JIT_GEN_H
#define PL_JIT_GEN_H

#include "backends/jit/jit_int.h"

typedef struct gen_access { /* an element of a buffer, by the indices of the loop */
    int prim;
    int64_t c[JIT_RANK], k;
} gen_access;

typedef enum gen_kind {
    GEN_LOAD,
    GEN_NUMBER,
    GEN_EXPR,
    GEN_PICK, /* args[0]: the position, relative to access */
    GEN_STASH,
    GEN_SCALAR
} gen_kind;

typedef struct gen_instr {
    gen_kind kind;
    int prim;
    int access;       /* LOAD, PICK */
    const char *expr; /* EXPR: of its primitive, or from jit_algebra */
    int args[PL_EMIT_ARGS_MAX], n_args;
    int stage;   /* stage that computes it */
    bool varies; /* varies along the inner dims */
    bool gone;   /* merged into another by jit_algebra */
    pl_emit_index place;
} gen_instr;

typedef enum gen_act_kind { GEN_STORE, GEN_KEEP, GEN_FOLD } gen_act_kind;
typedef struct gen_act { /* an action on a value */
    gen_act_kind kind;
    int instr, prim, access, stage;
    bool row; /* once for each row, at its end */
} gen_act;

typedef struct gen {
    const jit_plan *plan;
    const jit_loop *loop;
    int step;
    int64_t dims[JIT_RANK]; /* of this piece */
    int64_t low;            /* start on the axis that is split */
    int n_stages;
    gen_instr *instrs;
    size_t n_instrs, instrs_capacity;
    gen_access *accesses;
    size_t n_accesses, accesses_capacity;
    gen_act *acts;
    size_t n_acts, acts_capacity;
    bool *stashed; /* by primitive */
    int *section;  /* by instruction; NULL until jit_pipeline cuts a stage */
    bool failed;
    /* dims after merging: outer ones, then inner ones */
    int n_outer, n_inner;
    int64_t outer[JIT_RANK], inner[JIT_RANK];
    int64_t (*outer_c)[JIT_RANK], (*inner_c)[JIT_RANK]; /* by access */
} gen;

/* Fills everything; call gen_release even on failure. */
pl_status jit_gen(gen *g, const jit_plan *plan, int step, int64_t low, int64_t high, pl_err *err);
void jit_gen_release(gen *g);
/* Borders of the pieces of a loop along the axis that Concat splits; at least one piece. */
size_t jit_gen_pieces(const jit_plan *plan, const jit_loop *loop, int64_t *borders, size_t max);
/* Sets the stages of the loop's primitives; returns the number of loops per row. */
int jit_gen_stages(jit_plan *plan, int step);

#endif

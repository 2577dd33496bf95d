/* Inside src/backends/jit: the compiler's data, from the graph to the steps that run.
 *
 * lower    nodes become primitives: maps (one C expression), reductions, calls of kernels; what has
 *          no rule is a break. Views (transpose, slice, reshape …) are no primitives: they are
 *          maps of indices inside a reference to one.
 * fuse     primitives become steps: loops, calls with what follows them, breaks
 * schedule which primitives lie in memory, and where
 * emit     steps become C text; build compiles it, or finds it in the cache, and loads it
 * run      steps in order, with hooks
 *
 * A plan is made for one set of input shapes: when they are known, at compile, else at the first
 * run that brings them. */
#ifndef PL_JIT_INT_H
#define PL_JIT_INT_H

#include "backends/backend.h"
#include "backends/jit/jit_fault.h"
#include "backends/jit/jit_passes.h"
#include "base/buf.h"
#include "base/threads.h"
#include "interp/interp.h"
#include "ops/emit.h"

enum { JIT_FAULTS_MAX = 8, JIT_PHASES_MAX = 8, JIT_RANK = PL_EMIT_RANK_MAX };

typedef struct jit_options {
    int threads; /* -1: as the model's source wishes */
    bool fuse, symbolic, fresh_cache, winograd;
    const struct pl_provider *kernels; /* who computes products and convolutions */
    char version[64];                  /* of plumb, and of kernels that are not its own */
    unsigned off;                      /* passes that are left out: 1 << jit_pass */
    char *debug_dir, *explain;         /* NULL = none */
    pl_jit_fault faults[JIT_FAULTS_MAX];
    size_t n_faults;
} jit_options;

/* ---- primitives ---- */

/* A tensor-valued expression: a primitive seen through an affine map of indices. Flat: the map
 * gives the offset in the primitive's memory, which it then must have. */
typedef struct jit_ref {
    int prim;
    bool flat;
    int rank;
    int64_t dims[JIT_RANK];
    pl_emit_index at;
} jit_ref;

typedef enum jit_kind {
    JIT_INPUT,  /* of the model */
    JIT_CONST,  /* a weight, or folded */
    JIT_EXTERN, /* made by a break */
    JIT_BREAK,  /* a node on eager's kernel; args: what it reads */
    JIT_IOTA,   /* the numbers 0, 1, …: has no memory */
    JIT_MAP,    /* expr of args, element by element */
    JIT_LOAD,   /* elements of args[0] at the flat positions args[1] */
    JIT_REDUCE, /* fold of args[0] over axes */
    JIT_CONCAT, /* args one after the other along axis */
    JIT_CALL    /* a kernel: `call`, with what follows it, or `kernel` */
} jit_kind;

typedef struct jit_break { /* a node that runs on eager's kernel */
    const pl_node *node;
    const char *reason;
    const pl_jit_fault *fault; /* NULL = none */
    void *state;               /* what the kernel keeps */
    void (*state_free)(void *);
    pl_model *part;    /* a node with bodies: itself as a model, */
    pl_interp *interp; /* and what runs it */
} jit_break;

typedef struct jit_call jit_call;

typedef struct jit_prim {
    jit_kind kind;
    pl_dtype dtype;
    int rank;
    int64_t dims[JIT_RANK];
    int64_t n; /* elements */
    const pl_node *node;
    const pl_value *value;   /* INPUT, EXTERN: whose data it is */
    const pl_tensor *tensor; /* CONST */
    const char *expr;
    int n_args;
    jit_ref *args;
    pl_fold fold;
    unsigned axes; /* REDUCE */
    int axis;      /* CONCAT */
    jit_break *brk;
    jit_call *call;
    const pl_emit_kernel *kernel;
    /* fuse */
    bool live, forced, heap, leaves, folded_in; /* leaves: an output of the model; folded_in:
                                                   computed where it is used, never by itself */
    int uses, depth;                            /* depth: of folding, so that recursion ends */
    int step;                                   /* -1: there before the first */
    pl_emit_index place;                        /* its index in terms of its loop's */
    bool row;                                   /* one for each row of its loop */
    int stage;
    /* schedule */
    int place_of; /* a call whose result is overwritten in place by this primitive; -1 = none */
    bool in_memory, overwritten;
    int slot; /* in the table of buffers; -1 = none */
    int last_use;
    size_t n_bytes, offset;
} jit_prim;

/* ---- steps ---- */

typedef void (*jit_kernel)(void *const *b, const int64_t *p, int64_t begin, int64_t end);

/* The same after a kernel: rows and columns of what it has just made. */
typedef void (*jit_after)(void *const *b, const int64_t *p, int64_t begin, int64_t end,
                          int64_t col0, int64_t col1);

typedef struct jit_part { /* one emitted function; a loop around Concat has one for each piece */
    jit_kernel fn;
    jit_after after; /* of a loop that follows a kernel */
    int64_t n, grain;
} jit_part;

typedef struct jit_loop {
    int rank;
    int64_t dims[JIT_RANK];
    unsigned inner; /* dims that are reduced; 0 = none */
    int concat;     /* axis that is cut into pieces; -1 = none */
    bool follows;   /* a kernel: runs on the parts of its result; inner are the columns' dims */
    int *prims;
    size_t n_prims;
    jit_part *parts;
    size_t n_parts;
} jit_loop;

typedef enum jit_step_kind { JIT_STEP_BREAK, JIT_STEP_LOOP, JIT_STEP_CALL } jit_step_kind;

/* Something in memory that is whole, and the values of the model that it is. */
typedef struct jit_shown {
    const pl_value *value; /* the first of them */
    const char **names;
    size_t n_names;
    int prim; /* -1: a constant */
} jit_shown;

typedef struct jit_step {
    jit_step_kind kind;
    int prim;              /* of a break or call */
    jit_loop *loop;        /* of a call: what follows it */
    const pl_value **dead; /* data of breaks that nothing needs afterwards */
    size_t n_dead;
    jit_shown *shown; /* values that are complete after this step */
    size_t n_shown;
    double ms; /* when timed */
} jit_step;

typedef struct jit_phase {
    const char *name;
    double ms;
} jit_phase;

typedef struct jit_plan {
    pl_arena *arena;
    pl_model *model; /* its own copy: types are those of this plan */
    const pl_type **in_types;
    jit_prim *prims;
    size_t n_prims, prims_capacity;
    jit_ref *refs; /* what emission rules hold */
    size_t n_refs, refs_capacity;
    int *value_ref; /* by value id; -1 = known to breaks only */
    bool no_memory; /* an emission rule failed for want of it: that is no break */
    jit_step *steps;
    size_t n_steps, steps_capacity;
    pl_datum **constants; /* by value id: folded or initializer */
    pl_datum **slots;     /* by value id, while it runs */
    /* memory */
    int *slot_prim; /* by slot */
    size_t n_slots;
    void **buffers;  /* by slot: where it lies in this run */
    pl_datum **heap; /* by slot: tensors of their own, while it runs */
    char *memory;    /* the rest, one block */
    size_t n_memory, n_memory_naive;
    char *weights;       /* small packed weights and constants, side by side in large pages */
    int64_t failed_prim; /* an emitted loop met an index out of range: 1 + its primitive */
    int64_t *params;     /* numbers of the emitted code when shapes are symbolic */
    size_t n_params, params_capacity;
    jit_shown *first_shown; /* values that are there before the first step */
    size_t n_first_shown;
    pl_buf text; /* the C */
    void *library;
    char hash[40];
    bool from_cache;
    char *log; /* the compiler's; NULL = none */
    jit_phase phases[JIT_PHASES_MAX];
    size_t n_phases;
    struct jit_plan *next;
} jit_plan;

typedef struct jit_program {
    const jit_options *options;
    pl_model *model; /* as it came; plans copy it */
    bool owns_model;
    pl_pool *pool;
    pl_arena *scratch;
    uint64_t seed;
    bool any_shape;
    jit_plan *plans; /* newest first */
    size_t n_plans;
    size_t n_values, n_hidden;
    const plumb_run_args *args; /* while it runs */
    pl_status explain_status;   /* of the first debug output that could not be written */
    pl_err explain_err;
} jit_program;

static inline bool jit_pass_on(const jit_program *p, jit_pass pass) {
    return (p->options->off >> pass & 1) == 0;
}

double jit_now_ms(void);
void jit_phase_note(jit_plan *plan, const char *name, double since);

/* jit_plan.c: a plan for inputs of these types (NULL = as declared). */
pl_status jit_plan_new(jit_program *p, pl_datum *const *in, jit_plan **out, pl_err *err);
void jit_plan_free(jit_plan *plan);
bool jit_plan_fits(const jit_plan *plan, pl_datum *const *in);
const pl_jit_fault *jit_fault_of(const jit_program *p, const pl_node *node);
bool jit_fold(jit_program *p, jit_plan *plan, const pl_node *node);
pl_status jit_break_new(jit_program *p, jit_plan *plan, const pl_node *node, const char *reason,
                        jit_break **out, pl_err *err);

/* jit_index.c: maps of indices */
pl_emit_index jit_index_identity(int rank);
/* a after b: rows of a, columns of b. */
pl_emit_index jit_index_compose(const pl_emit_index *a, const pl_emit_index *b);
/* The same function on indices below dims (columns of size one do not matter). */
bool jit_index_equal(const pl_emit_index *a, const pl_emit_index *b, const int64_t *dims);
void jit_strides(int rank, const int64_t *dims, int64_t *out);
/* Offset of an element of the reference in its primitive's memory: c[] and *k. */
void jit_ref_flat(const jit_plan *plan, const jit_ref *ref, int64_t *c, int64_t *k);
/* All of the primitive, in its order. */
bool jit_ref_is_whole(const jit_plan *plan, const jit_ref *ref);
/* Another shape of strided elements; false when they would have to be copied. */
bool jit_reshape_strides(int rank, const int64_t *dims, const int64_t *strides, int to_rank,
                         const int64_t *to, int64_t *out);

/* jit_lower.c: nodes to primitives */
pl_status jit_lower(jit_program *p, jit_plan *plan, pl_err *err);
/* The value whole and in order in memory: the reference to a primitive that has it so. */
int jit_whole(jit_plan *plan, int ref);

/* jit_fuse.c: primitives to steps */
pl_status jit_fuse(jit_program *p, jit_plan *plan, pl_err *err);
/* Calls fn for each primitive that is read where `prim` is computed, through folded-in ones. */
typedef void (*jit_read_fn)(void *ctx, int prim);
void jit_each_read(const jit_plan *plan, const jit_prim *prim, jit_read_fn fn, void *ctx);

/* jit_schedule.c: memory layout; when values die and are recorded */
pl_status jit_schedule(jit_program *p, jit_plan *plan, pl_err *err);

/* jit_emit.c: loops to C */
pl_status jit_emit(jit_program *p, jit_plan *plan, pl_err *err);
extern const char *const jit_prelude[];

/* jit_build.c: C to functions */
pl_status jit_compiler_check(pl_err *err); /* is there one? */
pl_status jit_build(jit_program *p, jit_plan *plan, pl_err *err);
pl_status jit_build_fails(const jit_program *p, const pl_node *node, pl_err *err);

/* jit_weights.c: weights packed ahead */
pl_status jit_weights(jit_program *p, jit_plan *plan, pl_err *err);

/* jit_call.c: kernels */
/* Packs a constant operand; *n_bytes of it may be moved (0 = none). */
pl_status jit_call_prepare(jit_program *p, jit_plan *plan, jit_prim *prim, size_t *n_bytes,
                           pl_err *err);
void jit_call_move(jit_call *call, void *to);
pl_status jit_call_run(jit_program *p, jit_plan *plan, jit_prim *prim, pl_err *err);
void jit_call_free(jit_call *call);

/* jit_run.c */
pl_status jit_check_inputs(const jit_program *p, pl_datum *const *in, pl_err *err);
pl_status jit_plan_run(jit_program *p, jit_plan *plan, const plumb_run_args *args, pl_err *err);

/* jit_explain.c: breaks, times, and what debug-dir asks for */
pl_status jit_explain(const jit_program *p, const jit_plan *plan, pl_err *err);

#endif

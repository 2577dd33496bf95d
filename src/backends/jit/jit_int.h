/* Private to src/backends/jit: the compiler's data, from the graph to the steps that run.
 *
 * lower    nodes become primitives: maps (one C expression), reductions, calls of kernels; nodes
 *          without a rule are breaks. Views (transpose, slice, reshape …) are not primitives: they
 *          are maps of indices inside a reference to one.
 * fuse     primitives become steps: loops, calls with their epilogues, breaks
 * schedule which primitives are stored in memory, and where
 * emit     steps become C text; build compiles it, or finds it in the cache, and loads it
 * run      steps in order, with hooks
 *
 * A plan is made for one set of input shapes: at compile time if they are known, else at the first
 * run with them. */
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
    int threads; /* -1: from the source of the model */
    bool fuse, symbolic, fresh_cache, winograd;
    const struct pl_provider *kernels; /* provider of products and convolutions */
    char version[64];                  /* of plumb, and of kernels that are not our own */
    unsigned off;                      /* disabled passes: 1 << jit_pass */
    char *debug_dir, *explain;         /* NULL = none */
    pl_jit_fault faults[JIT_FAULTS_MAX];
    size_t n_faults;
} jit_options;

/* ---- primitives ---- */

/* A tensor-valued expression: a primitive seen through an affine map of indices. Flat: the map
 * gives the offset in the primitive's memory, so it must have memory. */
typedef struct jit_ref {
    int prim;
    bool flat;
    int rank;
    int64_t dims[JIT_RANK];
    pl_emit_index at;
} jit_ref;

typedef enum jit_kind {
    JIT_INPUT,  /* input of the model */
    JIT_CONST,  /* a weight, or folded */
    JIT_EXTERN, /* output of a break */
    JIT_BREAK,  /* a node that runs on eager's kernel; args: its inputs */
    JIT_IOTA,   /* the numbers 0, 1, …; not stored */
    JIT_MAP,    /* expr of args, element by element */
    JIT_LOAD,   /* elements of args[0] at flat positions args[1] */
    JIT_REDUCE, /* fold of args[0] over axes */
    JIT_CONCAT, /* args concatenated along axis */
    JIT_CALL    /* a kernel: `call` with its epilogue, or `kernel` */
} jit_kind;

typedef struct jit_break { /* a node that runs on eager's kernel */
    const pl_node *node;
    const char *reason;
    const pl_jit_fault *fault; /* NULL = none */
    void *state;               /* state of the kernel */
    void (*state_free)(void *);
    pl_model *part;    /* a node with bodies as a model, */
    pl_interp *interp; /* and its interpreter */
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
    bool live, forced, heap, leaves, folded_in; /* leaves: output of the model; folded_in:
                                                   computed by its reader only */
    int uses, depth;                            /* depth: of folding, limits recursion */
    int step;                                   /* -1: available before the first step */
    pl_emit_index place;                        /* its index in terms of the indices of its loop */
    bool row;                                   /* computed once per row of its loop */
    int stage;
    /* schedule */
    int place_of; /* a call whose result this primitive overwrites in place; -1 = none */
    bool in_memory, overwritten;
    int slot; /* index in the table of buffers; -1 = none */
    int last_use;
    size_t n_bytes, offset;
} jit_prim;

/* ---- steps ---- */

typedef void (*jit_kernel)(void *const *b, const int64_t *p, int64_t begin, int64_t end);

/* The same as an epilogue: rows and columns of the result just computed. */
typedef void (*jit_after)(void *const *b, const int64_t *p, int64_t begin, int64_t end,
                          int64_t col0, int64_t col1);

typedef struct jit_part { /* one emitted function; a loop around Concat has one for each piece */
    jit_kernel fn;
    jit_after after; /* of an epilogue */
    int64_t n, grain;
} jit_part;

typedef struct jit_loop {
    int rank;
    int64_t dims[JIT_RANK];
    unsigned inner; /* reduced dims; 0 = none */
    int concat;     /* axis that is split into pieces; -1 = none */
    bool follows;   /* an epilogue: runs on the parts of a kernel's result */
    int *prims;
    size_t n_prims;
    jit_part *parts;
    size_t n_parts;
} jit_loop;

typedef enum jit_step_kind { JIT_STEP_BREAK, JIT_STEP_LOOP, JIT_STEP_CALL } jit_step_kind;

/* A tensor in memory that is complete, and the values of the model that it holds. */
typedef struct jit_shown {
    const pl_value *value; /* the first of them */
    const char **names;
    size_t n_names;
    int prim; /* -1: a constant */
} jit_shown;

typedef struct jit_step {
    jit_step_kind kind;
    int prim;              /* of a break or call */
    jit_loop *loop;        /* of a call: its epilogue */
    const pl_value **dead; /* outputs of breaks that are not needed after this step */
    size_t n_dead;
    jit_shown *shown; /* values that are complete after this step */
    size_t n_shown;
    double ms; /* if timed */
} jit_step;

typedef struct jit_phase {
    const char *name;
    double ms;
} jit_phase;

typedef struct jit_plan {
    pl_arena *arena;
    pl_model *model; /* a copy with the types of this plan */
    const pl_type **in_types;
    jit_prim *prims;
    size_t n_prims, prims_capacity;
    jit_ref *refs; /* references used by emission rules */
    size_t n_refs, refs_capacity;
    int *value_ref; /* by value id; -1 = only breaks have it */
    bool no_memory; /* an emission rule ran out of memory: not a break */
    jit_step *steps;
    size_t n_steps, steps_capacity;
    pl_datum **constants; /* by value id: folded or initializer */
    pl_datum **slots;     /* by value id, during a run */
    /* memory */
    int *slot_prim; /* by slot */
    size_t n_slots;
    void **buffers;  /* by slot: address in this run */
    pl_datum **heap; /* by slot: separate tensors, during a run */
    char *memory;    /* the others, in one block */
    size_t n_memory, n_memory_naive;
    char *weights;       /* small packed weights and constants, together in large pages */
    int64_t failed_prim; /* 1 + primitive of an emitted loop that met an index out of range */
    int64_t *params;     /* sizes for the emitted code when shapes are symbolic */
    size_t n_params, params_capacity;
    jit_shown *first_shown; /* values available before the first step */
    size_t n_first_shown;
    pl_buf text; /* C code */
    void *library;
    char hash[40];
    bool from_cache;
    char *log; /* compiler output; NULL = none */
    jit_phase phases[JIT_PHASES_MAX];
    size_t n_phases;
    struct jit_plan *next;
} jit_plan;

typedef struct jit_program {
    const jit_options *options;
    pl_model *model; /* the original; plans copy it */
    bool owns_model;
    pl_pool *pool;
    pl_arena *scratch;
    uint64_t seed;
    bool any_shape;
    jit_plan *plans; /* newest first */
    size_t n_plans;
    size_t n_values, n_hidden;
    const plumb_run_args *args; /* during a run */
    pl_status explain_status;   /* of the first debug output that failed */
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
/* Composition, a after b: rows of a, columns of b. */
pl_emit_index jit_index_compose(const pl_emit_index *a, const pl_emit_index *b);
/* Same function on indices below dims (columns of size one do not matter)? */
bool jit_index_equal(const pl_emit_index *a, const pl_emit_index *b, const int64_t *dims);
void jit_strides(int rank, const int64_t *dims, int64_t *out);
/* Offset of an element of the reference in the memory of its primitive: c[] and *k. */
void jit_ref_flat(const jit_plan *plan, const jit_ref *ref, int64_t *c, int64_t *k);
/* Is it the whole primitive, in order? */
bool jit_ref_is_whole(const jit_plan *plan, const jit_ref *ref);
/* Reshapes strided elements; false when that needs a copy. */
bool jit_reshape_strides(int rank, const int64_t *dims, const int64_t *strides, int to_rank,
                         const int64_t *to, int64_t *out);

/* jit_lower.c: nodes to primitives */
pl_status jit_lower(jit_program *p, jit_plan *plan, pl_err *err);
/* A reference to a primitive that holds the value complete and in order in memory. */
int jit_whole(jit_plan *plan, int ref);

/* jit_fuse.c: primitives to steps */
pl_status jit_fuse(jit_program *p, jit_plan *plan, pl_err *err);
/* Calls fn for each primitive that is read when `prim` is computed, through folded-in ones. */
typedef void (*jit_read_fn)(void *ctx, int prim);
void jit_each_read(const jit_plan *plan, const jit_prim *prim, jit_read_fn fn, void *ctx);

/* jit_schedule.c: memory layout; when values are freed and recorded */
pl_status jit_schedule(jit_program *p, jit_plan *plan, pl_err *err);

/* jit_emit.c: loops to C */
pl_status jit_emit(jit_program *p, jit_plan *plan, pl_err *err);
extern const char *const jit_prelude[];

/* jit_build.c: C to functions */
pl_status jit_compiler_check(pl_err *err); /* fails if there is no C compiler */
pl_status jit_build(jit_program *p, jit_plan *plan, pl_err *err);
pl_status jit_build_fails(const jit_program *p, const pl_node *node, pl_err *err);

/* jit_weights.c: weights packed in advance */
pl_status jit_weights(jit_program *p, jit_plan *plan, pl_err *err);

/* jit_call.c: kernels */
/* Packs a constant operand; *n_bytes of it can be moved (0 = none). A product's packed form is
 * taken from *room; without room it packs pieces in each run. */
pl_status jit_call_prepare(jit_program *p, jit_plan *plan, jit_prim *prim, size_t *room,
                           size_t *n_bytes, pl_err *err);
void jit_call_move(jit_call *call, void *to);
pl_status jit_call_run(jit_program *p, jit_plan *plan, jit_prim *prim, pl_err *err);
void jit_call_free(jit_call *call);

/* jit_run.c */
pl_status jit_check_inputs(const jit_program *p, pl_datum *const *in, pl_err *err);
pl_status jit_plan_run(jit_program *p, jit_plan *plan, const plumb_run_args *args, pl_err *err);

/* jit_explain.c: breaks, times, and output for debug-dir */
pl_status jit_explain(const jit_program *p, const jit_plan *plan, pl_err *err);

#endif

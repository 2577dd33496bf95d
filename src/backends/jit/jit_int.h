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
#include "base/buf.h"
#include "base/pool.h"
#include "interp/interp.h"
#include "ops/op.h"

enum { JIT_FAULTS_MAX = 8, JIT_PHASES_MAX = 8 };

typedef struct jit_options {
    int threads; /* -1: as the model's source wishes */
    bool fuse, symbolic, fresh_cache;
    char *debug_dir, *explain; /* NULL = none */
    pl_jit_fault faults[JIT_FAULTS_MAX];
    size_t n_faults;
} jit_options;

/* A node that runs on eager's kernel. */
typedef struct jit_break {
    const pl_node *node;
    const char *reason;
    const pl_jit_fault *fault; /* NULL = none */
    void *state;               /* what the kernel keeps */
    void (*state_free)(void *);
    pl_model *part;    /* a node with bodies: itself as a model, */
    pl_interp *interp; /* and what runs it */
} jit_break;

typedef struct jit_step {
    jit_break *brk;
    const pl_value **dead; /* values that nothing needs afterwards */
    size_t n_dead;
} jit_step;

typedef struct jit_phase {
    const char *name;
    double ms;
} jit_phase;

typedef struct jit_plan {
    pl_arena *arena;
    pl_model *model; /* its own copy: types are those of this plan */
    const pl_type **in_types;
    jit_step *steps;
    size_t n_steps;
    pl_datum **constants; /* by value id: folded or initializer */
    pl_datum **slots;     /* by value id, while it runs */
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
} jit_program;

double jit_now_ms(void);
void jit_phase_note(jit_plan *plan, const char *name, double since);

/* lower.c: a plan for inputs of these types (NULL = as declared). */
pl_status jit_plan_new(jit_program *p, pl_datum *const *in, jit_plan **out, pl_err *err);
void jit_plan_free(jit_plan *plan);
bool jit_plan_fits(const jit_plan *plan, pl_datum *const *in);

/* run.c */
pl_status jit_check_inputs(const jit_program *p, pl_datum *const *in, pl_err *err);
pl_status jit_plan_run(jit_program *p, jit_plan *plan, const plumb_run_args *args, pl_err *err);

/* explain.c: breaks and times; to the files that the options name. */
pl_status jit_explain(const jit_program *p, const jit_plan *plan, pl_err *err);

/* build.c */
pl_status jit_build_fails(const jit_program *p, const pl_node *node, pl_err *err);

#endif

/* Private to jit: shared by the two writers of loops, jit_emit.c and jit_lanes.c. */
#ifndef PL_JIT_PRINT_H
#define PL_JIT_PRINT_H

#include "backends/jit/jit_gen.h"

typedef struct printer {
    jit_plan *plan;
    bool symbolic;
    int lanes; /* floats per vector, 16, 8 or 4; 0: the compiler vectorises */
    bool algebra;
    pl_buf *out;
    const gen *g;
    bool chunked; /* one long row: the range counts its elements */
    bool follows; /* an epilogue: the range of columns is an argument */
    bool failed;
} printer;

void jit_put_number(printer *p, int64_t value);
/* Arguments as floats, as vectors, or as element u of arrays of vectors. */
typedef enum jit_kind_of_value { JIT_ONE, JIT_LANES, JIT_LANES_EACH } jit_kind_of_value;
void jit_put_expr(printer *p, const gen_instr *in, jit_kind_of_value kind);
void jit_put_inner_index(printer *p, int access);
void jit_put_position(printer *p);
bool jit_watches_nan(const jit_prim *p);
int jit_host_of(const gen *g, int prim); /* access whose memory holds a kept value, or -1 */

/* jit_lanes.c: a stage of a row on vectors of floats */
bool jit_lanes_serve(const printer *p, int stage);
void jit_put_lanes(printer *p, int stage);
/* How a body is written: `copies` vectors per round, or one with mask k for `some` lanes. */
typedef struct jit_body {
    int stage, copies;
    bool some;
} jit_body;
void jit_put_lanes_instr(printer *p, const jit_body *b, int at);
void jit_put_lanes_ahead(printer *p, const jit_body *b);
void jit_put_lanes_acts(printer *p, const jit_body *b);

/* jit_pipeline.c: a stage without sums in sections, where its chain is long. After jit_algebra. */
pl_status jit_pipeline(const printer *p, gen *g, int stage, pl_err *err);
int jit_pipeline_copies(const printer *p, int stage); /* vectors per round; 0: a plain loop */
void jit_put_pipeline(printer *p, int stage);         /* from q on, `rounds` rounds */

/* jit_algebra.c: merges operations of a vectorised stage */
pl_status jit_algebra(gen *g, int stage, pl_err *err);

/* jit_maths.c */
void jit_put_maths(pl_buf *out, int lanes);     /* 1: scalar */
bool jit_maths_has(const char *name, size_t n); /* for lanes: "px_exp_" */

/* jit_maths_avx2.c, jit_maths_neon.c: lines, NULL-terminated */
extern const char *const jit_lanes_avx2[], *const jit_exp_avx2[], *const jit_lanes_neon[];

#endif

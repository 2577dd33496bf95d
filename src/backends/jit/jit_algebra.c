/* Peephole rules for vectorised stages: two or three operations become a cheaper one.
 *
 * One row per rule. A rule only absorbs values without other readers. Results are within an ulp or
 * two of the exact one, like two rounded operations. Zeros, infinities and NaN stay the same,
 * except for the sign of a sum of zeros (ramp; o * (x + 1) as o * x + o), and where a product by a
 * power of two overflows or is subnormal but the sum is not (fma does not round the product). */
#include <math.h>
#include <string.h>

#include "backends/jit/jit_print.h"
#include "base/alloc.h"

typedef enum need { ANY, ONE, INNER_ONE, POWER } need; /* other argument: 1; of inner: 1, +-2^n */

typedef struct rule {
    const char *outer, *inner;
    unsigned sides; /* which arguments of outer may be inner: 1, 2, or 3 for both */
    need need;
    const char *expr;
    const char *args; /* arguments of expr: o = outer's other one, x and y = inner's */
} rule;

/* clang-format off */
static const rule rules[] = {
    { "$0 / $1", "px_sqrt_$S($0)",  2, ANY, "px_over_root_$S($0, $1)", "ox" },
    { "$0 + $1", "px_exp_$S($0)",   3, ONE, "px_one_exp_$S($0)", "x" },
    { "px_one_exp_$S($0)", "-$0",   1, ANY, "px_one_exp_less_$S($0)", "x" },
    { "$0 + $1", "$0 * $1",         3, POWER, "px_fma_$S($0, $1, $2)", "xyo" },
    { "$0 - $1", "$0 * $1",         1, POWER, "px_fma_$S($0, $1, -$2)", "xyo" },
    { "$0 + $1", "px_relu_$S($0)",  3, ANY, "px_ramp_$S($0) + $1", "xo" },
    { "$0 * $1", "$0 + $1",         3, INNER_ONE, "px_fma_$S($0, $1, $0)", "ox" },
};
/* clang-format on */

/* By instruction: number of readers of its value. */
static void count_uses(const gen *g, int *uses) {
    for (size_t i = 0; i < g->n_instrs; i++)
        for (int k = 0; !g->instrs[i].gone && k < g->instrs[i].n_args; k++)
            uses[g->instrs[i].args[k]]++;
    for (size_t i = 0; i < g->n_instrs; i++)
        if (g->instrs[i].kind == GEN_PICK) uses[g->instrs[i].args[0]]++;
    for (size_t i = 0; i < g->n_acts; i++)
        uses[g->acts[i].instr]++;
}

/* The value of a constant; 0 when it is not one. */
static double number_of(const gen *g, int at) {
    const gen_instr *in = &g->instrs[at];
    if (in->kind != GEN_NUMBER) return 0;
    const double value = pl_tensor_get_f64(g->plan->prims[in->prim].tensor, 0);
    return isfinite(value) ? value : 0;
}

static bool fits(need kind, double value) {
    int exponent;
    return kind == POWER ? fabs(frexp(value, &exponent)) == 0.5 : value == 1;
}

static bool apply(gen *g, const int *uses, gen_instr *in, const rule *r, int side) {
    gen_instr *inner = &g->instrs[in->args[side]];
    const int other = in->n_args == 2 ? in->args[1 - side] : 0;
    if (inner->kind != GEN_EXPR || !inner->varies || inner->stage != in->stage) return false;
    if (g->plan->prims[inner->prim].dtype != PL_F32) return false; /* it is rounded in between */
    if (strcmp(inner->expr, r->inner) != 0 || uses[in->args[side]] != 1) return false;
    if (r->need == ONE && number_of(g, other) != 1) return false;
    int x = inner->args[0], y = inner->args[1];
    if (r->need >= INNER_ONE && !fits(r->need, number_of(g, y))) {
        if (!fits(r->need, number_of(g, x))) return false;
        x = y;
        y = inner->args[0];
    }
    inner->gone = true;
    in->expr = r->expr;
    in->n_args = (int)strlen(r->args);
    for (int k = 0; k < in->n_args; k++)
        in->args[k] = r->args[k] == 'o' ? other : r->args[k] == 'x' ? x : y;
    return true;
}

pl_status jit_algebra(gen *g, int stage, pl_err *err) {
    int *uses = pl_calloc(g->n_instrs + 1, sizeof(*uses));
    if (uses == NULL) return pl_fail_memory(err, g->n_instrs * sizeof(*uses));
    count_uses(g, uses);
    for (size_t i = 0; i < g->n_instrs; i++) {
        gen_instr *in = &g->instrs[i];
        if (in->kind != GEN_EXPR || !in->varies || in->stage != stage) continue;
        for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
            if (strcmp(in->expr, rules[k].outer) != 0) continue;
            for (int side = 0; side < 2; side++)
                if ((rules[k].sides >> side & 1) != 0 && apply(g, uses, in, &rules[k], side)) break;
        }
    }
    pl_free(uses);
    return PL_OK;
}

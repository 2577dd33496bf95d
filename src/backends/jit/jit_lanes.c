/* A stage of a row on vectors of 16 floats (AVX-512), 8 (AVX2) or 4 (NEON), written out.
 *
 * gcc's vectoriser needs two instructions for a clamp and does not use vscalefps: softmax and silu
 * take a quarter longer. Stages that are not all f32 (on x86-64: or f16) with unit stride are left
 * to it (jit_emit.c). Sums use four vectors in a fixed order; the end of a row is masked, so that
 * the bits of an element do not depend on its position. */
#include <ctype.h>
#include <string.h>

#include "backends/jit/jit_print.h"

enum { SUMS = 4, MIN_ROW = 8 };

/* ---- what can be vectorised ---- */

/* x86-64 converts vectors of halves. */
static bool dtype_serves(const printer *p, pl_dtype dtype) {
    return dtype == PL_F32 || (dtype == PL_F16 && p->lanes >= 8);
}

/* True for numbers, arguments, + - * / and functions that jit_maths.c has for vectors. */
static bool expr_serves(const printer *p, const gen_instr *in) {
    const gen *g = p->g;
    const jit_prim *prim = &g->plan->prims[in->prim];
    bool moves = false;
    for (const char *at = prim->expr; *at != '\0';) {
        size_t n = 1;
        if (isdigit((unsigned char)*at)) { /* 0x1.8p-3 */
            while (isalnum((unsigned char)at[n]) || at[n] == '.' ||
                   ((at[n] == '-' || at[n] == '+') && (at[n - 1] == 'p' || at[n - 1] == 'e')))
                n++;
        } else if (isalpha((unsigned char)*at) || *at == '_') {
            while (isalnum((unsigned char)at[n]) || at[n] == '_')
                n++;
            if (!jit_maths_has(at, n) || strncmp(at + n, "$S(", 3) != 0) return false;
            n += 2;
        } else if (*at == '$') {
            const char what = at[1];
            n = 2;
            if (what != 'T' && (what < '0' || what >= '0' + prim->n_args)) return false;
            if (what == 'T' && strncmp(at + n, ")$", 2) == 0)
                return false; /* a vector is not a float */
            moves = moves || (what != 'T' && g->instrs[in->args[what - '0']].varies);
        } else if (strchr("+-*/(), ", *at) == NULL) {
            return false;
        }
        at += n;
    }
    for (int k = 0; k < prim->n_args; k++)
        if (!dtype_serves(p, g->plan->prims[g->instrs[in->args[k]].prim].dtype)) return false;
    return moves;
}

static bool instr_serves(const printer *p, const gen_instr *in) {
    const gen *g = p->g;
    const jit_prim *prim = &g->plan->prims[in->prim];
    if (!dtype_serves(p, prim->dtype)) return false;
    switch (in->kind) {
    case GEN_LOAD: {
        const int64_t step = g->inner_c[in->access][g->n_inner - 1];
        return prim->kind != JIT_IOTA && (step == 0 || step == 1);
    }
    case GEN_EXPR: return expr_serves(p, in);
    case GEN_STASH: return true;
    default: return false;
    }
}

static bool act_serves(const printer *p, const gen_act *act) {
    const gen *g = p->g;
    const pl_dtype dtype = g->plan->prims[act->prim].dtype;
    if (!g->instrs[act->instr].varies) return false;
    if (act->kind == GEN_FOLD ? dtype != PL_F32 : !dtype_serves(p, dtype)) return false;
    if (!dtype_serves(p, g->plan->prims[g->instrs[act->instr].prim].dtype)) return false;
    return act->kind != GEN_STORE || g->inner_c[act->access][g->n_inner - 1] == 1;
}

bool jit_lanes_serve(const printer *p, int stage) {
    const gen *g = p->g;
    if (!p->lanes || g->n_inner == 0) return false;
    if (!p->symbolic && g->inner[g->n_inner - 1] < MIN_ROW) return false;
    for (size_t i = 0; i < g->n_instrs; i++)
        if (g->instrs[i].varies && g->instrs[i].stage == stage && !instr_serves(p, &g->instrs[i]))
            return false;
    for (size_t i = 0; i < g->n_acts; i++)
        if (!g->acts[i].row && g->acts[i].stage == stage && !act_serves(p, &g->acts[i]))
            return false;
    return true;
}

/* ---- a few vectors side by side ---- */

typedef struct lane_fold {
    const char *start, *join; /* join: pv_NAME(element, sum) */
} lane_fold;
static const lane_fold folds[] = {
    [PL_FOLD_SUM] = { "0", "add" },           [PL_FOLD_PROD] = { "1", "mul" },
    [PL_FOLD_MAX] = { "px_low_f32", "max" },  [PL_FOLD_MIN] = { "px_high_f32", "min" },
    [PL_FOLD_PEAK] = { "px_low_f32", "max" },
};

static void put_place(printer *p, const jit_body *b, const char *name, int number, int access) {
    pl_buf_printf(p->out, "&%s%d", name, number);
    if (access >= 0) {
        jit_put_inner_index(p, access);
    } else {
        pl_buf_putc(p->out, '[');
        jit_put_position(p);
        pl_buf_putc(p->out, ']');
    }
    if (b->copies > 1) pl_buf_printf(p->out, " + %d * u", p->lanes);
}

static void put_each(printer *p, const jit_body *b) {
    pl_buf_puts(p->out, "            ");
    if (b->copies > 1) pl_buf_printf(p->out, "PV_EACH(%d) ", b->copies);
}

static bool is_half(const printer *p, int prim) {
    return p->plan->prims[prim].dtype == PL_F16;
}

void jit_put_lanes_instr(printer *p, const jit_body *b, int at) {
    const gen_instr *in = &p->g->instrs[at];
    const bool stash = in->kind == GEN_STASH;
    if (b->copies > 1) pl_buf_printf(p->out, "            pv v%d[%d];\n", at, b->copies);
    put_each(p, b);
    pl_buf_printf(p->out, b->copies > 1 ? "v%d[u] = " : "const pv v%d = ", at);
    if (in->kind == GEN_EXPR) {
        jit_put_expr(p, in, b->copies > 1 ? JIT_LANES_EACH : JIT_LANES);
    } else if (stash || p->g->inner_c[in->access][p->g->n_inner - 1] != 0) {
        const bool half = !stash && is_half(p, in->prim);
        pl_buf_printf(p->out, "pv_load%s%s(", half ? "_f16" : "", b->some ? "_some" : "");
        put_place(p, b, stash ? "t" : "a", stash ? in->prim : in->access, stash ? -1 : in->access);
        pl_buf_puts(p->out, !b->some ? ")" : half ? ", left)" : ", k)");
    } else {
        const bool half = is_half(p, in->prim);
        pl_buf_printf(p->out, half ? "PV(px_of_f16(a%d" : "PV(a%d", in->access);
        jit_put_inner_index(p, in->access);
        pl_buf_puts(p->out, half ? "))" : ")");
    }
    pl_buf_puts(p->out, ";\n");
}

static void put_store(printer *p, const jit_body *b, const gen_act *act) {
    const bool keeps = act->kind == GEN_KEEP;
    put_each(p, b);
    const bool half = !keeps && is_half(p, act->prim);
    pl_buf_printf(p->out, "pv_store%s%s(", half ? "_f16" : "", b->some ? "_some" : "");
    put_place(p, b, keeps ? "t" : "a", keeps ? act->prim : act->access, keeps ? -1 : act->access);
    pl_buf_printf(p->out, "%s, v%d%s);\n",
                  !b->some ? ""
                  : half   ? ", left"
                           : ", k, left",
                  act->instr, b->copies > 1 ? "[u]" : "");
}

static void put_fold(printer *p, const jit_body *b, const gen_act *act) {
    const jit_prim *prim = &p->plan->prims[act->prim];
    const int s = act->prim, v = act->instr;
    const char *sum = b->copies > 1 ? "[u]" : "[0]", *of = b->copies > 1 ? "[u]" : "";
    put_each(p, b);
    pl_buf_printf(p->out, "w%d%s = %spv_%s(v%d%s, w%d%s)", s, sum, b->some ? "pv_pick(k, " : "",
                  folds[prim->fold].join, v, of, s, sum);
    if (b->some) pl_buf_printf(p->out, ", w%d%s)", s, sum);
    pl_buf_puts(p->out, ";\n");
    if (!jit_watches_nan(prim)) return;
    put_each(p, b);
    pl_buf_printf(p->out, "n%d |= pv_nan(v%d%s)%s;\n", s, v, of, b->some ? " & k" : "");
}

void jit_put_lanes_acts(printer *p, const jit_body *b) {
    const gen *g = p->g;
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        if (act->row || act->stage != b->stage) continue;
        if (act->kind == GEN_FOLD) {
            put_fold(p, b, act);
        } else {
            put_store(p, b, act);
        }
    }
}

/* Fetches rows to come while a sum over this one is made from the cache: softmax on 16 MB takes 3.0
 * ms without it, 2.3 with it (Zen 3), .77 and .68 on AVX-512 (Zen 5). Where this row is written,
 * the next one is fetched to be written, too, and reads are two rows ahead: 1.05 and .95 ms (AVX2,
 * Zen 5). */
static void put_fetch(printer *p, int access, int64_t rows, bool write) {
    pl_buf_printf(p->out, "            PV_EACH(%d) %s(&a%d", p->lanes / 4,
                  write ? "pv_ahead_to_write" : "pv_ahead", access);
    jit_put_inner_index(p, access);
    pl_buf_puts(p->out, " + 16 * u, ");
    jit_put_number(p, rows * p->g->inner[0]);
    pl_buf_puts(p->out, ");\n");
}

void jit_put_lanes_ahead(printer *p, const jit_body *b) {
    const gen *g = p->g;
    int64_t rows = 1;
    if (p->lanes < 8 || b->stage == 0 || b->copies != SUMS || p->symbolic || p->chunked ||
        p->follows || g->n_inner != 1) {
        return;
    }
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        const int to = act->kind == GEN_KEEP    ? jit_host_of(g, act->prim)
                       : act->kind == GEN_STORE ? act->access
                                                : -1;
        if (act->row || act->stage != b->stage || to < 0 || g->inner_c[to][0] != 1 ||
            is_half(p, act->prim)) {
            continue;
        }
        put_fetch(p, to, 1, true);
        rows = 2;
    }
    for (size_t i = 0; i < g->n_instrs; i++) {
        const gen_instr *in = &g->instrs[i];
        if (in->kind == GEN_LOAD && in->varies && in->stage == b->stage && !in->gone &&
            g->inner_c[in->access][0] == 1 && !is_half(p, in->prim)) {
            put_fetch(p, in->access, rows, false);
        }
    }
}

static void put_body(printer *p, const jit_body *b) {
    const gen *g = p->g;
    pl_buf_printf(p->out, "            const int64_t j%d = q;\n", g->n_inner - 1);
    jit_put_lanes_ahead(p, b);
    for (size_t i = 0; i < g->n_instrs; i++)
        if (g->instrs[i].varies && g->instrs[i].stage == b->stage && !g->instrs[i].gone)
            jit_put_lanes_instr(p, b, (int)i);
    jit_put_lanes_acts(p, b);
}

/* ---- a row ---- */

/* Vectors per round. A long chain of operations mostly waits for its own results; the processor
 * looks only two or three vectors ahead, so eight give it enough to overlap. Sums need four. */
static int copies_of(const printer *p, int stage) {
    const gen *g = p->g;
    int dear = 0;
    for (size_t i = 0; i < g->n_acts; i++)
        if (g->acts[i].kind == GEN_FOLD && g->acts[i].stage == stage) return SUMS;
    for (size_t i = 0; i < g->n_instrs; i++) {
        const gen_instr *in = &g->instrs[i];
        if (in->kind != GEN_EXPR || !in->varies || in->stage != stage || in->gone) continue;
        dear += strstr(in->expr, "px_") != NULL || strchr(in->expr, '/') != NULL;
    }
    if (p->follows) return p->lanes == 16 && dear > 0 ? 2 : 1; /* few columns */
    if (p->lanes < 16) return dear >= 2 ? 8 : 1;
    return dear >= 4 ? 8 : dear >= 2 ? 4 : 1;
}

static void put_fold_starts(printer *p, int stage) {
    const gen *g = p->g;
    for (size_t i = 0; i < g->n_acts; i++) {
        if (g->acts[i].kind != GEN_FOLD || g->acts[i].stage != stage) continue;
        const int s = g->acts[i].prim;
        const jit_prim *prim = &p->plan->prims[s];
        const char *start = folds[prim->fold].start;
        pl_buf_printf(p->out, "        pv w%d[4] = { PV(%s), PV(%s), PV(%s), PV(%s) };\n", s, start,
                      start, start, start);
        if (jit_watches_nan(prim)) pl_buf_printf(p->out, "        pm n%d = { 0 };\n", s);
    }
}

static void put_fold_ends(printer *p, int stage) {
    const gen *g = p->g;
    for (size_t i = 0; i < g->n_acts; i++) {
        if (g->acts[i].kind != GEN_FOLD || g->acts[i].stage != stage) continue;
        const int s = g->acts[i].prim;
        const jit_prim *prim = &p->plan->prims[s];
        pl_buf_printf(p->out, "        float s%d = pv_%s_four(w%d);\n", s, folds[prim->fold].join,
                      s);
        if (jit_watches_nan(prim)) {
            pl_buf_printf(p->out, "        if (pm_any(n%d)) s%d = __builtin_nanf(\"\");\n", s, s);
        }
    }
}

static void put_limit(printer *p) {
    if (p->chunked || p->follows) {
        pl_buf_puts(p->out, p->chunked ? "end" : "col1");
    } else {
        jit_put_number(p, p->g->inner[p->g->n_inner - 1]);
    }
}

static void put_loop(printer *p, const jit_body *b) {
    pl_buf_printf(p->out, "        for (; q + %d <= ", p->lanes * b->copies);
    put_limit(p);
    pl_buf_printf(p->out, "; q += %d) {\n", p->lanes * b->copies);
    put_body(p, b);
    pl_buf_puts(p->out, "        }\n");
}

/* Several vectors per round, then one, then the rest: only the forms that can occur. Ranges are
 * split at multiples of all (GRAIN_ELEMENTS). */
static void put_innermost(printer *p, int stage) {
    const int64_t n = p->symbolic || p->follows ? -1 : p->g->inner[p->g->n_inner - 1];
    const int pipeline = jit_pipeline_copies(p, stage);
    const jit_body several = { stage, pipeline > 0 ? pipeline : copies_of(p, stage), false },
                   one = { stage, 1, false }, rest = { stage, 1, true };
    const int64_t round = (int64_t)p->lanes * several.copies;
    pl_buf_printf(p->out, "        int64_t q = %s;\n",
                  p->chunked   ? "begin"
                  : p->follows ? "col0"
                               : "0");
    if (pipeline > 0) {
        pl_buf_puts(p->out, "        const int64_t rounds = (");
        put_limit(p);
        pl_buf_printf(p->out, " - q) / %lld;\n", (long long)round);
        jit_put_pipeline(p, stage);
        pl_buf_printf(p->out, "        q += rounds * %lld;\n", (long long)round);
    } else if (n < 0 || n >= round) {
        put_loop(p, &several);
    }
    if (several.copies > 1 && (n < 0 || n % round >= p->lanes)) put_loop(p, &one);
    if (n >= 0 && n % p->lanes == 0) return;
    pl_buf_puts(p->out, "        if (q < ");
    put_limit(p);
    pl_buf_puts(p->out, ") {\n            const int64_t left = ");
    put_limit(p);
    pl_buf_puts(p->out, " - q;\n            const pm k = pv_rest(left);\n");
    put_body(p, &rest);
    pl_buf_puts(p->out, "        }\n");
}

void jit_put_lanes(printer *p, int stage) {
    const gen *g = p->g;
    put_fold_starts(p, stage);
    for (int d = 0; d + 1 < g->n_inner; d++) {
        pl_buf_printf(p->out, "        for (int64_t j%d = 0; j%d < ", d, d);
        jit_put_number(p, g->inner[d]);
        pl_buf_printf(p->out, "; j%d++) {\n", d);
    }
    pl_buf_puts(p->out, "        {\n");
    put_innermost(p, stage);
    for (int d = 0; d < g->n_inner; d++)
        pl_buf_puts(p->out, "        }\n");
    put_fold_ends(p, stage);
}

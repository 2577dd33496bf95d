/* Writes loops as readable C: one function for each loop or piece, with the nodes it came from.
 *
 * Untrusted names appear in comments only, with everything but plain characters replaced. With
 * symbolic shapes the sizes and strides are read from a table, so that the text, and so the cache
 * key, is the same for all shapes that give the same loops. */
#include <string.h>

#include "backends/jit/jit_call.h"
#include "backends/jit/jit_print.h"
#include "base/alloc.h"
#include "base/array.h"
#include "kernels/cpu.h"

enum { PIECES_MAX = 64, GRAIN_ELEMENTS = 16384, NAME_MAX_SHOWN = 60 };

/* ---- types ---- */

typedef struct c_type {
    pl_dtype dtype;
    const char *value, *element, *suffix;
} c_type;
/* clang-format off */
static const c_type c_types[] = {
    { PL_F32,  "float",    "pf32", "f32" }, { PL_F16,  "float",    "pu16", "f32" },
    { PL_BF16, "float",    "pu16", "f32" }, { PL_F64,  "double",   "pf64", "f64" },
    { PL_BOOL, "int",      "pu8",  "b" },   { PL_I8,   "int8_t",   "pi8",  "i8" },
    { PL_I16,  "int16_t",  "pi16", "i16" }, { PL_I32,  "int32_t",  "pi32", "i32" },
    { PL_I64,  "int64_t",  "pi64", "i64" }, { PL_U8,   "uint8_t",  "pu8",  "u8" },
    { PL_U16,  "uint16_t", "pu16", "u16" }, { PL_U32,  "uint32_t", "pu32", "u32" },
    { PL_U64,  "uint64_t", "pu64", "u64" },
};
/* clang-format on */

static const c_type *type_of(pl_dtype dtype) {
    for (size_t i = 0; i < sizeof(c_types) / sizeof(c_types[0]); i++)
        if (c_types[i].dtype == dtype) return &c_types[i];
    return &c_types[0];
}

/* ---- names, numbers ---- */

static void put_name(pl_buf *out, const char *name) {
    size_t n = 0;
    pl_buf_putc(out, '\'');
    for (; name[n] != '\0' && n < NAME_MAX_SHOWN; n++) {
        const char ch = name[n];
        const bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                           (ch >= '0' && ch <= '9') || ch == '_' || ch == '.' || ch == ':' ||
                           ch == '-';
        pl_buf_putc(out, plain ? ch : '_');
    }
    pl_buf_puts(out, name[n] == '\0' ? "'" : "...'");
}

void jit_put_number(printer *p, int64_t value) {
    jit_plan *plan = p->plan;
    if (!p->symbolic || value == 0 || value == 1) {
        pl_buf_printf(p->out, "%lld", (long long)value);
        return;
    }
    if (!PL_ARRAY_ROOM(plan->params, plan->n_params, &plan->params_capacity)) {
        p->failed = true;
        return;
    }
    pl_buf_printf(p->out, "p[%zu]", plan->n_params);
    plan->params[plan->n_params++] = value;
}

static void put_constant(printer *p, const jit_prim *prim) {
    const pl_tensor *t = prim->tensor;
    char text[64];
    if (pl_dtype_is_float(t->dtype)) {
        const double value = pl_tensor_get_f64(t, 0);
        pl_emit_number(value, text);
        pl_buf_printf(p->out, "%s", strncmp(text, "($T)", 4) == 0 ? text + 4 : text);
        if (t->dtype != PL_F64 && strchr(text, 'x') != NULL) pl_buf_putc(p->out, 'f');
    } else if (t->dtype == PL_U64) {
        pl_buf_printf(p->out, "%lluu", (unsigned long long)pl_tensor_get_i64(t, 0));
    } else {
        /* INT64_MIN has no literal. */
        const int64_t value = pl_tensor_get_i64(t, 0);
        pl_buf_printf(p->out, "(int64_t)0x%llxu", (unsigned long long)value);
    }
}

/* ---- expressions ---- */

void jit_put_expr(printer *p, const gen_instr *in, jit_kind_of_value kind) {
    const jit_prim *prim = &p->plan->prims[in->prim];
    const c_type *type = type_of(prim->dtype);
    const bool copies =
        strcmp(in->expr, "$0") == 0 && p->plan->prims[prim->args[0].prim].dtype == prim->dtype;
    const bool rounds = !copies && (prim->dtype == PL_F16 || prim->dtype == PL_BF16);
    const char *suffix = kind == JIT_ONE ? "" : "_v";
    if (rounds)
        pl_buf_printf(p->out, "px_round_%s%s(", prim->dtype == PL_F16 ? "f16" : "bf16", suffix);
    if (!rounds && kind == JIT_ONE) pl_buf_printf(p->out, "(%s)", type->value);
    if (!rounds) pl_buf_putc(p->out, '(');
    for (const char *at = in->expr; *at != '\0'; at++) {
        if (*at != '$') {
            pl_buf_putc(p->out, *at);
            continue;
        }
        at++;
        if (*at == 'T') {
            pl_buf_puts(p->out, type->value);
        } else if (*at == 'S') {
            pl_buf_puts(p->out, kind == JIT_ONE ? type->suffix : "v");
        } else if (*at == 'F') {
            pl_buf_printf(p->out, "b[%zu], %d", p->plan->n_slots, in->prim + 1);
        } else if (*at >= '0' && *at <= '7') {
            const int arg = in->args[*at - '0'];
            const bool each = kind == JIT_LANES_EACH && p->g->instrs[arg].varies;
            pl_buf_printf(p->out, each ? "v%d[u]" : "v%d", arg);
        }
    }
    pl_buf_putc(p->out, ')');
}

void jit_put_inner_index(printer *p, int access) {
    bool any = false;
    pl_buf_putc(p->out, '[');
    for (int d = 0; d < p->g->n_inner; d++) {
        const int64_t c = p->g->inner_c[access][d];
        if (c == 0) continue;
        pl_buf_printf(p->out, "%sj%d", any ? " + " : "", d);
        if (c != 1) {
            pl_buf_puts(p->out, " * ");
            jit_put_number(p, c);
        }
        any = true;
    }
    pl_buf_puts(p->out, any ? "]" : "0]");
}

void jit_put_position(printer *p) { /* index of the element in a row */
    for (int d = 0; d < p->g->n_inner; d++) {
        pl_buf_printf(p->out, "%sj%d", d > 0 ? " + " : "", d);
        for (int e = d + 1; e < p->g->n_inner; e++) {
            pl_buf_puts(p->out, " * ");
            jit_put_number(p, p->g->inner[e]);
        }
    }
    if (p->g->n_inner == 0) pl_buf_putc(p->out, '0');
}

/* An iota has no memory: its value is what would be the offset. */
static void put_iota(printer *p, int access) {
    pl_buf_printf(p->out, "a%d", access);
    for (int d = 0; d < p->g->n_inner; d++) {
        if (p->g->inner_c[access][d] == 0) continue;
        pl_buf_printf(p->out, " + j%d * ", d);
        jit_put_number(p, p->g->inner_c[access][d]);
    }
}

static void put_instr(printer *p, int at, const char *indent) {
    const gen_instr *in = &p->g->instrs[at];
    const jit_prim *prim = &p->plan->prims[in->prim];
    pl_buf_printf(p->out, "%sconst %s v%d = ", indent, type_of(prim->dtype)->value, at);
    switch (in->kind) {
    case GEN_PICK:
    case GEN_LOAD: {
        if (prim->kind == JIT_IOTA) {
            put_iota(p, in->access);
            break;
        }
        const bool half = prim->dtype == PL_F16 || prim->dtype == PL_BF16;
        if (half) pl_buf_puts(p->out, prim->dtype == PL_F16 ? "px_of_f16(" : "px_of_bf16(");
        pl_buf_printf(p->out, "a%d", in->access);
        if (in->kind == GEN_PICK) {
            pl_buf_printf(p->out, "[v%d]", in->args[0]);
        } else {
            jit_put_inner_index(p, in->access);
        }
        if (half) pl_buf_putc(p->out, ')');
        break;
    }
    case GEN_NUMBER: put_constant(p, prim); break;
    case GEN_EXPR: jit_put_expr(p, in, JIT_ONE); break;
    case GEN_STASH:
        pl_buf_printf(p->out, "t%d[", in->prim);
        jit_put_position(p);
        pl_buf_putc(p->out, ']');
        break;
    case GEN_SCALAR: pl_buf_printf(p->out, "s%d", in->prim); break;
    }
    pl_buf_puts(p->out, ";\n");
}

static void put_store(printer *p, const gen_act *act, const char *indent) {
    const jit_prim *prim = &p->plan->prims[act->prim];
    pl_buf_printf(p->out, "%sa%d", indent, act->access);
    jit_put_inner_index(p, act->access);
    const char *before = prim->dtype == PL_F16    ? "px_f16_of("
                         : prim->dtype == PL_BF16 ? "px_bf16_of("
                         : prim->dtype == PL_BOOL ? "(uint8_t)(0 != "
                                                  : "(";
    pl_buf_printf(p->out, " = %sv%d);\n", before, act->instr);
}

/* ---- reductions ---- */

bool jit_watches_nan(const jit_prim *p) {
    return (p->fold == PL_FOLD_MAX || p->fold == PL_FOLD_MIN) && pl_dtype_is_float(p->dtype);
}

static void put_fold_start(printer *p, int at) {
    const jit_prim *prim = &p->plan->prims[at];
    const c_type *type = type_of(prim->dtype);
    static const char *const starts[] = { "0", "1", "px_low_", "px_high_", "px_low_" };
    pl_buf_printf(p->out, "        %s s%d = %s%s;\n", type->value, at, starts[prim->fold],
                  prim->fold >= PL_FOLD_MAX ? type->suffix : "");
    if (jit_watches_nan(prim)) pl_buf_printf(p->out, "        int n%d = 0;\n", at);
}

static void put_fold(printer *p, const gen_act *act, const char *indent) {
    const jit_prim *prim = &p->plan->prims[act->prim];
    const int s = act->prim, v = act->instr;
    switch (prim->fold) {
    case PL_FOLD_SUM: pl_buf_printf(p->out, "%ss%d += v%d;\n", indent, s, v); break;
    case PL_FOLD_PROD: pl_buf_printf(p->out, "%ss%d *= v%d;\n", indent, s, v); break;
    case PL_FOLD_MAX:
    case PL_FOLD_PEAK:
        pl_buf_printf(p->out, "%ss%d = v%d > s%d ? v%d : s%d;\n", indent, s, v, s, v, s);
        break;
    case PL_FOLD_MIN:
        pl_buf_printf(p->out, "%ss%d = v%d < s%d ? v%d : s%d;\n", indent, s, v, s, v, s);
        break;
    }
    if (jit_watches_nan(prim)) pl_buf_printf(p->out, "%sn%d |= v%d != v%d;\n", indent, s, v, v);
}

/* The only permission to reorder: for each sum by name. */
static void put_pragma(printer *p, int stage) {
    static const char *const signs[] = { "+", "*", "max", "min", "max" };
    pl_buf_puts(p->out, "#pragma omp simd");
    for (size_t i = 0; i < p->g->n_acts; i++) {
        const gen_act *act = &p->g->acts[i];
        if (act->kind != GEN_FOLD || act->stage != stage) continue;
        const jit_prim *prim = &p->plan->prims[act->prim];
        pl_buf_printf(p->out, " reduction(%s : s%d)", signs[prim->fold], act->prim);
        if (jit_watches_nan(prim)) pl_buf_printf(p->out, " reduction(| : n%d)", act->prim);
    }
    pl_buf_putc(p->out, '\n');
}

/* ---- a row ---- */

static void put_stage(printer *p, int stage) {
    const gen *g = p->g;
    const char *indent = "            ";
    if (jit_lanes_serve(p, stage)) {
        for (size_t i = 0; i < g->n_instrs; i++)
            if (!g->instrs[i].varies && g->instrs[i].stage == stage)
                put_instr(p, (int)i, "        ");
        jit_put_lanes(p, stage);
        return;
    }
    for (size_t i = 0; i < g->n_acts; i++)
        if (g->acts[i].kind == GEN_FOLD && g->acts[i].stage == stage)
            put_fold_start(p, g->acts[i].prim);
    for (size_t i = 0; i < g->n_instrs; i++)
        if (!g->instrs[i].varies && g->instrs[i].stage == stage) put_instr(p, (int)i, "        ");
    for (int d = 0; d < g->n_inner; d++) {
        if (d + 1 == g->n_inner) put_pragma(p, stage);
        pl_buf_printf(p->out, "        for (int64_t j%d = %s; j%d < ", d,
                      p->chunked   ? "begin"
                      : p->follows ? "col0"
                                   : "0",
                      d);
        if (p->chunked || p->follows) {
            pl_buf_puts(p->out, p->chunked ? "end" : "col1");
        } else {
            jit_put_number(p, g->inner[d]);
        }
        pl_buf_printf(p->out, "; j%d++) {\n", d);
    }
    if (g->n_inner == 0) pl_buf_puts(p->out, "        {\n");
    for (size_t i = 0; i < g->n_instrs; i++)
        if (g->instrs[i].varies && g->instrs[i].stage == stage) put_instr(p, (int)i, indent);
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        if (act->row || act->stage != stage) continue;
        if (act->kind == GEN_STORE) put_store(p, act, indent);
        if (act->kind == GEN_FOLD) put_fold(p, act, indent);
        if (act->kind == GEN_KEEP) {
            pl_buf_printf(p->out, "%st%d[", indent, act->prim);
            jit_put_position(p);
            pl_buf_printf(p->out, "] = v%d;\n", act->instr);
        }
    }
    for (int d = 0; d < (g->n_inner == 0 ? 1 : g->n_inner); d++)
        pl_buf_puts(p->out, "        }\n");
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        if (act->kind != GEN_FOLD || act->stage != stage) continue;
        const jit_prim *prim = &p->plan->prims[act->prim];
        if (!jit_watches_nan(prim)) continue;
        pl_buf_printf(p->out, "        if (n%d) s%d = (%s)__builtin_nan(\"\");\n", act->prim,
                      act->prim, type_of(prim->dtype)->value);
    }
}

static void put_row_end(printer *p) {
    const gen *g = p->g;
    for (size_t i = 0; i < g->n_instrs; i++)
        if (!g->instrs[i].varies && g->instrs[i].stage == g->n_stages) {
            put_instr(p, (int)i, "        ");
        }
    for (size_t i = 0; i < g->n_acts; i++)
        if (g->acts[i].kind == GEN_STORE && g->acts[i].row) put_store(p, &g->acts[i], "        ");
}

/* A buffer that is both read and written (after a call) must have one name. */
static bool is_stored(const gen *g, int slot) {
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        if (act->kind == GEN_STORE && g->plan->prims[act->prim].slot == slot) return true;
    }
    return false;
}

/* Are all elements of a row contiguous and in order at this access? */
static bool is_dense(const gen *g, int access) {
    int64_t step = 1;
    for (int d = g->n_inner - 1; d >= 0; d--) {
        if (g->inner_c[access][d] != step) return false;
        step *= g->inner[d];
    }
    return true;
}

/* The output whose memory holds a kept value until the stage that writes the output. The memory is
 * then in the cache already, fetched while there was much to compute. -1 = none. */
int jit_host_of(const gen *g, int prim) {
    int kept = -1;
    for (size_t i = 0; i < g->n_acts && kept < 0; i++)
        if (g->acts[i].kind == GEN_KEEP && g->plan->prims[g->acts[i].prim].dtype == PL_F32)
            kept = g->acts[i].prim;
    if (kept != prim) return -1; /* only the first kept value can use it */
    for (size_t i = 0; i < g->n_acts; i++) {
        const gen_act *act = &g->acts[i];
        const jit_prim *out = &g->plan->prims[act->prim];
        bool free = act->kind == GEN_STORE && !act->row && out->dtype == PL_F32 &&
                    act->stage > g->plan->prims[prim].stage && is_dense(g, act->access);
        for (size_t k = 0; free && k < g->n_instrs; k++) {
            const gen_instr *in = &g->instrs[k];
            if (in->kind == GEN_STASH && in->prim == prim) free = in->stage <= act->stage;
            if (in->kind == GEN_LOAD || in->kind == GEN_PICK)
                free = g->plan->prims[g->accesses[in->access].prim].slot != out->slot;
        }
        if (free) return act->access;
    }
    return -1;
}

/* Declares the addresses of a row's elements. */
static void put_addresses(printer *p) {
    const gen *g = p->g;
    for (size_t i = 0; i < g->n_accesses; i++) {
        const gen_access *a = &g->accesses[i];
        const jit_prim *prim = &p->plan->prims[a->prim];
        if (prim->kind == JIT_IOTA) {
            pl_buf_printf(p->out, "        const int64_t a%zu = 0", i);
        } else {
            pl_buf_printf(p->out, "        %s%s *const a%zu = m%d",
                          is_stored(g, prim->slot) ? "" : "const ", type_of(prim->dtype)->element,
                          i, prim->slot);
        }
        if (a->k != 0) {
            pl_buf_puts(p->out, " + ");
            jit_put_number(p, a->k);
        }
        for (int d = 0; d < g->n_outer; d++) {
            if (g->outer_c[i][d] == 0) continue;
            pl_buf_printf(p->out, " + i%d * ", d);
            jit_put_number(p, g->outer_c[i][d]);
        }
        pl_buf_puts(p->out, ";\n");
    }
    for (size_t i = 0; i < g->n_acts; i++) {
        const int prim = g->acts[i].prim;
        if (g->acts[i].kind != GEN_KEEP || jit_host_of(g, prim) < 0) continue;
        pl_buf_printf(p->out, "        pf32 *const t%d = a%d;\n", prim, jit_host_of(g, prim));
    }
}

static int slot_at(const gen *g, size_t access) {
    return g->plan->prims[g->accesses[access].prim].slot;
}

/* Did an earlier access of the pieces declare the same buffer? */
static bool is_named(const gen *list, size_t piece, size_t access, int slot) {
    for (size_t i = 0; i <= piece; i++)
        for (size_t k = 0; k < (i == piece ? access : list[i].n_accesses); k++)
            if (slot_at(&list[i], k) == slot) return true;
    return false;
}

static void put_buffers(printer *p, const gen *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < list[i].n_accesses; k++) {
            const int slot = slot_at(&list[i], k);
            bool stored = false;
            if (slot < 0 || is_named(list, i, k, slot)) continue;
            for (size_t q = 0; q < n; q++)
                stored = stored || is_stored(&list[q], slot);
            const jit_prim *prim = &p->plan->prims[list[i].accesses[k].prim];
            pl_buf_printf(p->out, "    %s%s *restrict const m%d = b[%d];\n", stored ? "" : "const ",
                          type_of(prim->dtype)->element, slot, slot);
        }
    const gen *g = &list[0]; /* rows with kept values have one piece */
    for (size_t i = 0; i < g->n_acts; i++) {
        const int prim = g->acts[i].prim;
        if (g->acts[i].kind != GEN_KEEP || jit_host_of(g, prim) >= 0) continue;
        pl_buf_printf(p->out, "    %s t%d[", type_of(p->plan->prims[prim].dtype)->value, prim);
        for (int d = 0; d < g->n_inner; d++)
            pl_buf_printf(p->out, "%s%lld", d > 0 ? " * " : "", (long long)g->inner[d]);
        pl_buf_puts(p->out, g->n_inner == 0 ? "1];\n" : "];\n");
    }
}

/* Position of the first row, and the step to the next. */
static void put_odometer_start(printer *p) {
    const gen *g = p->g;
    for (int d = 0; d < g->n_outer; d++) {
        pl_buf_printf(p->out, "    int64_t i%d = begin", d);
        for (int e = d + 1; e < g->n_outer; e++) {
            pl_buf_puts(p->out, " / ");
            jit_put_number(p, g->outer[e]);
        }
        if (d > 0) {
            pl_buf_puts(p->out, " % ");
            jit_put_number(p, g->outer[d]);
        }
        pl_buf_puts(p->out, ";\n");
    }
}

static void put_odometer_step(printer *p) {
    const gen *g = p->g;
    pl_buf_puts(p->out, "        ");
    for (int d = g->n_outer - 1; d > 0; d--) {
        pl_buf_printf(p->out, "if (++i%d == ", d);
        jit_put_number(p, g->outer[d]);
        pl_buf_printf(p->out, ") { i%d = 0; ", d);
    }
    pl_buf_puts(p->out, g->n_outer > 0 ? "i0++;" : "");
    for (int d = g->n_outer - 1; d > 0; d--)
        pl_buf_puts(p->out, " }");
    pl_buf_putc(p->out, '\n');
}

/* ---- functions ---- */

static void put_comment(printer *p, int step) {
    const jit_loop *loop = p->plan->steps[step].loop;
    const pl_node *last = NULL;
    pl_buf_printf(p->out, "\n/* step %d:", step);
    for (size_t i = 0; i < loop->n_prims; i++) {
        const pl_node *node = p->plan->prims[loop->prims[i]].node;
        if (node == NULL || node == last) continue;
        last = node;
        pl_buf_puts(p->out, "\n *   ");
        put_name(p->out, node->op);
        if (node->n_out > 0 && node->out[0] != NULL) {
            pl_buf_puts(p->out, " -> ");
            put_name(p->out, node->out[0]->name);
        }
    }
    pl_buf_puts(p->out, " */\n");
}

static int64_t product(int n, const int64_t *dims) {
    int64_t r = 1;
    for (int d = 0; d < n; d++)
        r *= dims[d];
    return r;
}

/* One piece of a row, or of the range if there is only one long row. */
static void put_piece(printer *p, const gen *g) {
    p->g = g;
    pl_buf_puts(p->out, "        {\n");
    put_addresses(p);
    for (int stage = 0; stage < g->n_stages; stage++)
        put_stage(p, stage);
    put_row_end(p);
    pl_buf_puts(p->out, "        }\n");
}

/* A function over n pieces that share their rows. */
static void put_function(printer *p, int step, size_t index, const gen *list, size_t n,
                         jit_part *part) {
    const gen *g = p->g = &list[0];
    const int64_t rows = product(g->n_outer, g->outer), inner = product(g->n_inner, g->inner);
    p->chunked = g->loop->inner == 0 && g->n_outer == 0 && g->n_inner == 1;
    p->follows = g->loop->follows;
    part->n = p->chunked ? inner : rows;
    part->grain = p->chunked ? GRAIN_ELEMENTS : GRAIN_ELEMENTS / (inner * (int64_t)n);
    if (part->grain < 1) part->grain = 1;
    pl_buf_printf(
        p->out, "void k%d_%zu(void *const *b, const int64_t *p, int64_t begin, int64_t end%s) {\n",
        step, index, p->follows ? ", int64_t col0, int64_t col1" : "");
    put_buffers(p, list, n);
    pl_buf_puts(p->out, "    (void)p;\n");
    if (!p->chunked) {
        put_odometer_start(p);
        pl_buf_puts(p->out, "    for (int64_t r = begin; r < end; r++) {\n");
    }
    for (size_t i = 0; i < n; i++)
        put_piece(p, &list[i]);
    p->g = g;
    if (!p->chunked) {
        put_odometer_step(p);
        pl_buf_puts(p->out, "    }\n");
    }
    pl_buf_puts(p->out, "}\n");
}

static bool share_rows(const gen *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (list[i].n_outer != list[0].n_outer || list[i].n_outer == 0) return false;
        if (memcmp(list[i].outer, list[0].outer, sizeof(list[0].outer)) != 0) return false;
    }
    return true;
}

static pl_status emit_pieces(printer *p, int step, gen *list, size_t n, pl_err *err) {
    jit_loop *loop = p->plan->steps[step].loop;
    const bool shared = share_rows(list, n);
    loop->n_parts = shared ? 1 : n;
    loop->parts = pl_arena_array(p->plan->arena, loop->n_parts, sizeof(jit_part));
    if (loop->parts == NULL) return pl_fail_memory(err, n);
    if (shared) {
        put_function(p, step, 0, list, n, &loop->parts[0]);
        return PL_OK;
    }
    for (size_t i = 0; i < n; i++)
        put_function(p, step, i, &list[i], 1, &loop->parts[i]);
    return PL_OK;
}

static pl_status emit_loop(printer *p, int step, pl_err *err) {
    jit_plan *plan = p->plan;
    const jit_loop *loop = plan->steps[step].loop;
    int64_t borders[PIECES_MAX + 2];
    const size_t n = jit_gen_pieces(plan, loop, borders, PIECES_MAX);
    if (n == 0) return pl_fail(err, PL_E_UNSUPPORTED, "a loop has too many pieces");
    const int n_stages = jit_gen_stages(plan, step);
    pl_status st = PL_OK;
    gen *list = pl_calloc(n, sizeof(*list));
    if (list == NULL) return pl_fail_memory(err, n);
    put_comment(p, step);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        list[i].n_stages = n_stages;
        st = jit_gen(&list[i], plan, step, borders[i], borders[i + 1], err);
        p->g = &list[i];
        for (int s = 0; st == PL_OK && s < n_stages; s++) {
            if (!jit_lanes_serve(p, s)) continue;
            if (p->algebra) st = jit_algebra(&list[i], s, err);
            if (st == PL_OK) st = jit_pipeline(p, &list[i], s, err);
        }
    }
    if (st == PL_OK) st = emit_pieces(p, step, list, n, err);
    p->g = NULL;
    for (size_t i = 0; i < n; i++)
        jit_gen_release(&list[i]);
    pl_free(list);
    return st;
}

pl_status jit_emit(jit_program *program, jit_plan *plan, pl_err *err) {
    printer p = { .plan = plan,
                  .symbolic = program->options->symbolic,
                  .lanes = pl_cpu_isa() == PL_ISA_AVX512 ? 16
                           : pl_cpu_isa() == PL_ISA_AVX2 ? 8
                           : pl_cpu_isa() == PL_ISA_NEON ? 4
                                                         : 0,
                  .algebra = jit_pass_on(program, JIT_PASS_ALGEBRA),
                  .out = &plan->text };
    for (size_t i = 0; jit_prelude[i] != NULL; i++)
        pl_buf_puts(p.out, jit_prelude[i]);
    jit_put_maths(p.out, 1);
    if (p.lanes > 1) jit_put_maths(p.out, p.lanes);
    for (size_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].loop != NULL) PL_TRY(emit_loop(&p, (int)s, err));
        if (plan->steps[s].kind == JIT_STEP_LOOP) continue;
        const jit_prim *prim = &plan->prims[plan->steps[s].prim];
        pl_buf_printf(p.out, "\n/* step %zu: ", s);
        put_name(p.out, prim->node->op);
        if (prim->kernel != NULL) {
            pl_buf_printf(p.out, ", a call: %s", prim->kernel->what);
        } else if (prim->call != NULL) {
            pl_buf_puts(p.out, ", a call: ");
            jit_call_describe(prim->call, p.out);
        } else {
            pl_buf_puts(p.out, ", a graph break");
        }
        pl_buf_puts(p.out, " */\n");
    }
    return p.failed || !pl_buf_ok(p.out) ? pl_fail_memory(err, p.out->n_bytes) : PL_OK;
}

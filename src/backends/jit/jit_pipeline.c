/* A long chain of operations on vectors as a software pipeline.
 *
 * A vector of a chain with two exp and three quotients takes some 200 cycles from load to store,
 * and a processor looks two or three such vectors ahead, so its units wait. Here the operations of
 * a row are cut into sections of some 40 cycles; in one round every section works on another place
 * of the row, so a round is a set of short chains that do not depend on each other. What a later
 * section needs waits in a small array on the stack. Operations and their order for an element are
 * those of the plain loop, so the bits are the same. 27 cycles for eight elements of chain in
 * bench/jit became 19 on AVX2 (Zen 5). */
#include <stdlib.h>
#include <string.h>

#include "backends/jit/jit_print.h"
#include "base/alloc.h"

enum {
    SECTIONS_MIN = 3, /* fewer: the processor overlaps them itself */
    SECTIONS_MAX = 16,
    PARTS_MAX = 5, /* of a function */
    KEPT_BYTES_MAX = 16 << 10,
    ROW_ROUNDS = 4 /* a row has that many times the rounds that filling takes */
};

/* Best of 25 to 55 cycles, 1, 2 and 4 vectors, 1 to 4 rounds. */
typedef struct shape {
    int copies; /* vectors of a section in a round */
    int apart;  /* rounds from one section to the next */
    int cycles; /* of the longest chain in a section */
} shape;
static const shape of_eight = { 2, 2, 40 }, of_sixteen = { 4, 1, 50 };
static const shape of_sums = { 4, 1, 30 }; /* jit_lanes.c makes sums of four vectors */

static bool has_sums(const gen *g, int stage) {
    for (size_t i = 0; i < g->n_acts; i++)
        if (g->acts[i].kind == GEN_FOLD && g->acts[i].stage == stage) return true;
    return false;
}

static shape shape_of(const printer *p, const gen *g, int stage) {
    return has_sums(g, stage) ? of_sums : p->lanes == 16 ? of_sixteen : of_eight;
}

/* ---- functions in parts ---- */

typedef struct part {
    const char *expr, *args; /* x, y: of the function; 0 to 9: an earlier part */
} part;

/* The bodies of jit_maths.c and jit_maths_avx2.c, so that a section can end within them. */
typedef struct split {
    const char *expr;
    part parts[PARTS_MAX];
} split;
/* clang-format off */
static const split splits[] = {
    { "px_sigmoid_$S($0)",
      { { "px_most_$S(40.0f, px_least_$S(-105.0f, $0))", "x" }, { "pv_far_power($0)", "0" }, { "pv_far_rest($0, $1)", "01" },
        { "pv_far_end($0, $1) + 0x1p-64f", "21" }, { "0x1p-64f / $0", "3" } } },
    { "px_one_exp_less_$S($0)",
      { { "px_most_$S(40.0f, px_least_$S(-100.0f, $0))", "x" }, { "pv_far_power($0)", "0" }, { "pv_far_rest($0, $1)", "01" },
        { "px_fma_$S(pv_far_end($0, $1), 0x1p64f, 1.0f)", "21" } } },
    { "px_over_root_$S($0, $1)", { { "pv_root($0)", "y" }, { "pv_by_root($0, $1)", "x0" } } },
    { "px_exp_share_$S($0)",
      { { "px_least_$S(-104.0f, $0)", "x" }, { "pv_share_power($0)", "0" }, { "pv_share_rest($0, $1)", "01" },
        { "pv_exp_end($0, $1)", "21" } } },
    { "px_tanh_$S($0)",
      { { "px_tanh_power_$S($0)", "x" }, { "px_tanh_rest_$S($0, $1)", "x0" }, { "px_tanh_end_$S($0, $1)", "10" },
        { "px_signed_$S($0 / ($0 + 2.0f), $1)", "2x" } } },
};
/* clang-format on */

/* The length of px_exp_$S( when all of the expression is that function of something, else 0. */
static size_t function_of(const char *expr, const char *pattern) {
    const size_t n = strcspn(pattern, "(") + 1;
    int depth = 0;
    if (strncmp(expr, pattern, n) != 0 || strcmp(pattern + n, "$0)") != 0) return 0;
    for (const char *at = expr + n - 1; *at != '\0'; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0) return at[1] == '\0' ? n : 0;
    }
    return 0;
}

static const split *split_of(const gen *g, const gen_instr *in) {
    bool all_vary = true;
    if (in->kind != GEN_EXPR || !in->varies || in->gone) return NULL;
    if (g->plan->prims[in->prim].dtype != PL_F32) return NULL; /* rounded once, at the end */
    for (int k = 0; k < in->n_args; k++)
        all_vary = all_vary && g->instrs[in->args[k]].varies;
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++)
        if (function_of(in->expr, splits[i].expr) > 0 ||
            (all_vary && strcmp(in->expr, splits[i].expr) == 0))
            return &splits[i];
    return NULL;
}

/* Writes *in as parts behind n instructions; returns how many, 0: no memory. */
static size_t put_parts(pl_arena *arena, gen_instr *out, size_t n, const gen_instr *in,
                        const split *s) {
    const size_t name = function_of(in->expr, s->expr);
    size_t begin = n;
    int x = in->args[0];
    if (name > 0 && strcmp(in->expr, s->expr) != 0) { /* exp of a difference: that first */
        const char *inner = pl_arena_strndup(arena, in->expr + name, strlen(in->expr) - name - 1);
        if (inner == NULL) return 0;
        out[begin] = *in;
        out[begin].expr = inner;
        x = (int)begin++;
    }
    size_t k = 0;
    for (; k < PARTS_MAX && s->parts[k].expr != NULL; k++) {
        const part *from = &s->parts[k];
        gen_instr *to = &out[begin + k];
        *to = *in;
        to->expr = from->expr;
        to->n_args = (int)strlen(from->args);
        for (int a = 0; a < to->n_args; a++) {
            const char what = from->args[a];
            to->args[a] = what == 'x' ? x : what == 'y' ? in->args[1] : (int)begin + what - '0';
        }
        for (int a = to->n_args; a < PL_EMIT_ARGS_MAX; a++)
            to->args[a] = to->args[0];
    }
    return begin - n + k;
}

/* ---- sections ---- */

/* Cycles from argument to result, about; any other function of a vector 20. */
static const struct latency {
    const char *name;
    int cycles;
} latencies[] = {
    { "px_abs", 1 },         { "px_max", 6 },         { "px_min", 6 },
    { "px_most", 1 },        { "px_least", 1 },       { "px_ramp", 1 },
    { "px_relu", 4 },        { "px_fma", 4 },         { "px_signed", 1 },
    { "px_unit", 2 },        { "px_round_f16", 10 },  { "px_sqrt", 15 },
    { "pv_root", 15 },       { "pv_by_root", 11 },    { "px_over_root", 26 },
    { "pv_far_power", 4 },   { "pv_far_rest", 11 },   { "pv_far_end", 24 },
    { "px_exp", 50 },        { "px_exp_down", 45 },   { "pv_share_power", 4 },
    { "pv_share_rest", 12 }, { "pv_exp_end", 24 },    { "px_exp_share", 45 },
    { "px_one_exp", 50 },    { "px_sigmoid", 65 },    { "px_log", 60 },
    { "px_tanh", 75 },       { "px_tanh_power", 9 },  { "px_tanh_end", 32 },
    { "px_erf", 90 },        { "px_softplus", 110 },  { "px_silu", 120 },
    { "px_gelu", 150 },      { "px_gelu_tanh", 150 }, { "px_elu", 60 },
    { "px_mish", 90 },
};

static int cycles_of(const char *expr) {
    int cycles = 0;
    for (const char *at = expr; *at != '\0';) {
        size_t n = 1;
        if (strncmp(at, "px_", 3) == 0 || strncmp(at, "pv_", 3) == 0) {
            n = strcspn(at, "$(");
            const size_t length = at[n] == '$' ? n - 1 : n; /* px_exp_$S( */
            int of_this = 20;
            for (size_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++)
                if (strlen(latencies[i].name) == length &&
                    strncmp(at, latencies[i].name, length) == 0)
                    of_this = latencies[i].cycles;
            cycles += of_this;
        } else if (*at >= '0' && *at <= '9') {
            n = strspn(at, "0123456789abcdefpx.");
            if (at[n - 1] == 'p') n += strspn(at + n, "-0123456789f");
        } else if (strchr("+-*/", *at) != NULL) {
            cycles += *at == '/' ? 11 : 4;
        }
        at += n;
    }
    return cycles;
}

typedef struct moment {
    int start, end, instr;
} moment;

static int earlier(const void *a, const void *b) {
    const moment *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : x->instr - y->instr;
}

static bool computes(const gen_instr *in, int stage) {
    return in->kind == GEN_EXPR && in->varies && in->stage == stage && !in->gone;
}

/* Cuts where a chain would become longer than `cycles`. Arguments come before their users. */
static int cut(int cycles, const gen_instr *instrs, size_t n, int stage, moment *moments,
               int *section) {
    size_t n_moments = 0;
    int n_sections = 0, begin = 0;
    for (size_t i = 0; i < n; i++) {
        const gen_instr *in = &instrs[i];
        moment *m = &moments[i];
        *m = (moment){ .instr = (int)i };
        if (!computes(in, stage)) continue;
        for (int k = 0; k < in->n_args; k++)
            if (moments[in->args[k]].end > m->start) m->start = moments[in->args[k]].end;
        m->end = m->start + cycles_of(in->expr);
    }
    for (size_t i = 0; i < n; i++)
        if (computes(&instrs[i], stage)) moments[n_moments++] = moments[i];
    qsort(moments, n_moments, sizeof(*moments), earlier);
    for (size_t i = 0; i < n_moments; i++) {
        if (n_sections == 0 || moments[i].end - begin > cycles) {
            begin = moments[i].start;
            n_sections++;
        }
        section[moments[i].instr] = n_sections - 1;
    }
    return n_sections;
}

static int sections_of(const gen *g, int stage) {
    int n = 0;
    for (size_t i = 0; g->section != NULL && i < g->n_instrs; i++)
        if (computes(&g->instrs[i], stage) && g->section[i] >= n) n = g->section[i] + 1;
    return n;
}

/* Stores and sums are in the last section: an output may be in the memory of an input. */
static bool needs(const gen *g, int stage, int section, bool last, int instr) {
    for (size_t i = 0; i < g->n_instrs; i++) {
        const gen_instr *in = &g->instrs[i];
        if (!computes(in, stage) || g->section[i] != section) continue;
        for (int k = 0; k < in->n_args; k++)
            if (in->args[k] == instr) return true;
    }
    for (size_t i = 0; last && i < g->n_acts; i++)
        if (!g->acts[i].row && g->acts[i].stage == stage && g->acts[i].instr == instr) return true;
    return false;
}

/* Places in the array of a value that waits, a power of two; 0: nobody waits for it. */
static int places_of(const printer *p, const gen *g, int stage, int n_sections, int instr) {
    int last = g->section[instr], places = 1;
    for (int s = last + 1; s < n_sections; s++)
        if (needs(g, stage, s, s + 1 == n_sections, instr)) last = s;
    if (last == g->section[instr]) return 0;
    while (places < shape_of(p, g, stage).apart * (last - g->section[instr]) + 1)
        places *= 2;
    return places;
}

/* ---- the decision ---- */

static bool is_worth_it(const printer *p, const gen *g, int stage, int n_sections) {
    size_t bytes = 0;
    if (n_sections < (has_sums(g, stage) ? 2 : SECTIONS_MIN) || n_sections > SECTIONS_MAX)
        return false;
    for (size_t i = 0; i < g->n_instrs; i++)
        if (computes(&g->instrs[i], stage))
            bytes += (size_t)places_of(p, g, stage, n_sections, (int)i) *
                     (size_t)(shape_of(p, g, stage).copies * p->lanes) * sizeof(float);
    const int64_t filling = (int64_t)(n_sections - 1) * shape_of(p, g, stage).apart *
                            shape_of(p, g, stage).copies * p->lanes;
    return bytes <= KEPT_BYTES_MAX &&
           (p->symbolic || g->inner[g->n_inner - 1] >= ROW_ROUNDS * filling);
}

/* An epilogue works on a few columns. Sums on AVX-512 and NEON were not measured. */
static bool can_serve(const printer *p, const gen *g, int stage) {
    const bool chunked = g->loop->inner == 0 && g->n_outer == 0 && g->n_inner == 1;
    if (p->lanes < 8 || g->loop->follows || (p->symbolic && !chunked)) return false;
    return p->lanes == 8 || !has_sums(g, stage);
}

/* The instructions with functions in parts, into *to. False: no memory. */
static bool expand(pl_arena *arena, const gen *from, int stage, gen *to, int *renamed) {
    to->n_instrs = 0;
    for (size_t i = 0; i < from->n_instrs; i++) {
        gen_instr in = from->instrs[i];
        const split *s = in.stage == stage ? split_of(from, &in) : NULL;
        for (int k = 0; k < in.n_args; k++)
            in.args[k] = renamed[in.args[k]];
        if (in.kind == GEN_PICK) in.args[0] = renamed[in.args[0]];
        const size_t n = to->n_instrs;
        to->instrs[n] = in;
        to->section[n] = from->section == NULL ? -1 : from->section[i];
        to->n_instrs += s == NULL ? 1 : put_parts(arena, to->instrs, n, &in, s);
        if (to->n_instrs == n) return false;
        renamed[i] = (int)to->n_instrs - 1;
    }
    for (size_t i = 0; i < from->n_acts; i++) {
        to->acts[i] = from->acts[i];
        to->acts[i].instr = renamed[to->acts[i].instr];
    }
    return true;
}

pl_status jit_pipeline(const printer *p, gen *g, int stage, pl_err *err) {
    if (!can_serve(p, g, stage)) return PL_OK;
    gen to = *g;
    to.instrs_capacity = g->n_instrs * (PARTS_MAX + 1) + 1;
    to.acts_capacity = g->n_acts + 1;
    to.instrs = pl_calloc(to.instrs_capacity, sizeof(*to.instrs));
    to.section = pl_calloc(to.instrs_capacity, sizeof(*to.section));
    to.acts = pl_calloc(to.acts_capacity, sizeof(*to.acts));
    moment *moments = pl_calloc(to.instrs_capacity, sizeof(*moments));
    int *renamed = pl_calloc(g->n_instrs + 1, sizeof(*renamed));
    const bool room = to.instrs != NULL && to.section != NULL && to.acts != NULL &&
                      moments != NULL && renamed != NULL &&
                      expand(p->plan->arena, g, stage, &to, renamed);
    bool serves = false;
    if (room) {
        const int cycles = shape_of(p, g, stage).cycles;
        const int n = cut(cycles, to.instrs, to.n_instrs, stage, moments, to.section);
        serves = is_worth_it(p, &to, stage, n);
    }
    gen *loser = serves ? g : &to;
    pl_free(loser->instrs);
    pl_free(loser->section);
    pl_free(loser->acts);
    pl_free(moments);
    pl_free(renamed);
    if (serves) *g = to;
    return room ? PL_OK : pl_fail_memory(err, to.instrs_capacity);
}

/* ---- text ---- */

int jit_pipeline_copies(const printer *p, int stage) {
    return sections_of(p->g, stage) > 0 ? shape_of(p, p->g, stage).copies : 0;
}

static void put_section(printer *p, int stage, int s, int n_sections) {
    const gen *g = p->g;
    const int copies = shape_of(p, g, stage).copies, late = s * shape_of(p, g, stage).apart;
    const jit_body b = { stage, copies, false };
    const bool last = s + 1 == n_sections;
    pl_buf_printf(p->out, "        if ((uint64_t)(i - %d) < (uint64_t)rounds) {\n", late);
    pl_buf_printf(p->out, "            const int64_t j%d = q + (i - %d) * %d;\n", g->n_inner - 1,
                  late, copies * p->lanes);
    if (s == 0) jit_put_lanes_ahead(p, &b);
    for (int i = 0; i < (int)g->n_instrs; i++) {
        const gen_instr *in = &g->instrs[i];
        const bool own = computes(in, stage) && g->section[i] == s;
        if (!in->varies || in->stage != stage || in->gone) continue;
        if (!own && !needs(g, stage, s, last, i)) continue;
        if (own || in->kind != GEN_EXPR) {
            jit_put_lanes_instr(p, &b, i);
        } else {
            const int places = places_of(p, g, stage, n_sections, i);
            pl_buf_printf(p->out,
                          "            pv v%d[%d];\n            PV_EACH(%d) v%d[u] = "
                          "c%d[(i - %d) & %d][u];\n",
                          i, copies, copies, i, i, late, places - 1);
        }
        const int places = own ? places_of(p, g, stage, n_sections, i) : 0;
        if (places == 0) continue;
        pl_buf_printf(p->out, "            PV_EACH(%d) c%d[(i - %d) & %d][u] = v%d[u];\n", copies,
                      i, late, places - 1, i);
    }
    if (last) jit_put_lanes_acts(p, &b);
    pl_buf_puts(p->out, "        }\n");
}

void jit_put_pipeline(printer *p, int stage) {
    const gen *g = p->g;
    const int n = sections_of(g, stage);
    for (int i = 0; i < (int)g->n_instrs; i++) {
        const int places = computes(&g->instrs[i], stage) ? places_of(p, g, stage, n, i) : 0;
        if (places > 0)
            pl_buf_printf(p->out, "        pv c%d[%d][%d];\n", i, places,
                          shape_of(p, g, stage).copies);
    }
    pl_buf_printf(p->out, "        for (int64_t i = 0; i < rounds + %d; i++) {\n",
                  (n - 1) * shape_of(p, g, stage).apart);
    for (int s = 0; s < n; s++)
        put_section(p, stage, s, n);
    pl_buf_puts(p->out, "        }\n");
}
